//! The demo's content: a small shell project, a ticket, a builder that makes a mistake, and a
//! reviewer that finds it.

use serde_json::{Value, json};

/// Files of the demo repository.
pub const PROJECT: &[(&str, &str)] = &[
    ("README.md", "# words\n\nSmall tools for words.\n"),
    (
        "upper.sh",
        "#!/bin/sh\n# upper TEXT: prints the text in capitals.\nprintf '%s\\n' \"$1\" | tr 'a-z' 'A-Z'\n",
    ),
    ("test.sh", TEST),
    (
        "countersign.toml",
        "# Read from the base branch, never from the branch under review.\nrules = [\"POSIX sh only; every tool has a test in test.sh.\"]\n\n[checks]\ntest = \"sh test.sh\"\n",
    ),
];

const TEST: &str = "#!/bin/sh
# Every tool, one line each; the first difference ends it.
is() { [ \"$1\" = \"$2\" ] || { echo \"expected '$2', got '$1'\"; exit 1; }; }
is \"$(sh upper.sh hello)\" HELLO
";

/// Ticket file of the demo.
pub const TICKET: &str = "---
id: slug
---
# Add `slug`: turn a title into a file name

`sh slug.sh TITLE` prints the title in small letters, with a dash for every blank.

## Acceptance criteria
- `sh slug.sh 'Hello World'` prints `hello-world`.
- Whatever the title holds is text and nothing else.
- An empty title is an error.
";

const FIRST_TRY: &str = "#!/bin/sh
# slug TITLE: prints a file name made of the title.
title=$1
eval \"echo $title\" | tr 'A-Z ' 'a-z-'
";

const SECOND_TRY: &str = "#!/bin/sh
# slug TITLE: prints a file name made of the title.
[ -n \"$1\" ] || { echo 'slug: the title is empty' >&2; exit 2; }
printf '%s\\n' \"$1\" | tr 'A-Z ' 'a-z-'
";

const HALF_FIX: &str = "#!/bin/sh
# slug TITLE: prints a file name made of the title.
title=${1:-untitled}
eval \"echo $title\" | tr 'A-Z ' 'a-z-'
";

const TESTED: &str = "is \"$(sh slug.sh 'Hello World')\" hello-world\n";
const TESTED_MORE: &str = "is \"$(sh slug.sh '$(id) *')\" '$(id)-*'\nif sh slug.sh '' 2>/dev/null; then echo 'an empty title must fail'; exit 1; fi\n";

/// Builds the script of the agents. With `escalate` the builder never fixes the finding.
pub fn agents_script(escalate: bool) -> String {
    let (build, review, verify) = if escalate {
        (
            builder_that_does_not_listen(),
            reviewer_of_the_same_fault(),
            verifier_who_sees_it_still(),
        )
    } else {
        (
            builder_that_learns(),
            reviewer_who_is_satisfied(),
            verifier_who_sees_it_fixed(),
        )
    };
    let script = json!({
        "version": 1,
        "build": {"rounds": build},
        "review": {"rounds": review},
        "verify": {"rounds": verify},
    });
    format!("{script:#}\n")
}

/// Builds a round that writes the two files and gives an answer.
fn writes(slug: &str, test: &str, says: &str, result: &Value, usd: f64) -> Value {
    json!([
        {"write": {"path": "slug.sh", "text": slug}},
        {"write": {"path": "test.sh", "text": test}},
        {"say": says},
        {"usage": usage(usd)},
        {"result": result},
    ])
}

/// Builds a round that only gives an answer.
fn answers(says: &str, result: &Value, usd: f64) -> Value {
    json!([{"say": says}, {"usage": usage(usd)}, {"result": result}])
}

fn usage(usd: f64) -> Value {
    json!({"usd": usd, "tokens_in": 5200, "tokens_out": 900})
}

fn builder_that_learns() -> Value {
    let first = json!({"summary": "Added slug.sh with a test.", "claims": [
        {"criterion": "`sh slug.sh 'Hello World'` prints `hello-world`.", "met": true, "evidence": "test.sh"},
    ]});
    let second = json!({"summary": "The title is data now; an empty one is an error.", "findings": [
        {"id": "F1", "outcome": "fixed", "note": "printf instead of eval"},
        {"id": "F2", "outcome": "fixed", "note": "refused with exit 2"},
    ]});
    let (some, more) = (
        format!("{TEST}{TESTED}"),
        format!("{TEST}{TESTED}{TESTED_MORE}"),
    );
    json!([
        writes(
            FIRST_TRY,
            &some,
            "slug.sh is there, and tested",
            &first,
            0.11
        ),
        writes(
            SECOND_TRY,
            &more,
            "no eval any more; an empty title is refused; both are tested",
            &second,
            0.07
        ),
    ])
}

fn builder_that_does_not_listen() -> Value {
    let test = format!("{TEST}{TESTED}");
    let first = json!({"summary": "Added slug.sh with a test."});
    let claimed = json!({"summary": "Handled.", "findings": [
        {"id": "F1", "outcome": "fixed", "note": "should be fine now"},
    ]});
    let rework = |comment: &str| {
        writes(
            &format!("{HALF_FIX}# {comment}\n"),
            &test,
            "should be fine now",
            &claimed,
            0.07,
        )
    };
    json!([
        writes(
            FIRST_TRY,
            &test,
            "slug.sh is there, and tested",
            &first,
            0.11
        ),
        rework("hardened"),
        rework("hardened again"),
    ])
}

fn eval_finding() -> Value {
    json!({"severity": "critical", "category": "security", "file": "slug.sh", "line": 4,
        "title": "eval runs whatever the title holds",
        "problem": "The title is pasted into a command line: `sh slug.sh '$(rm -rf .)'` runs rm.",
        "impact": "Anybody who names a file runs commands as the user.",
        "fix": "Treat the title as data: printf '%s\\n' \"$1\" | tr …"})
}

fn locale_finding() -> Value {
    json!({"severity": "low", "category": "readability", "file": "slug.sh", "line": 4,
        "title": "tr with A-Z depends on the locale",
        "problem": "Letters beyond ASCII stay as they are.",
        "fix": "Say so in the comment, or use [:upper:]."})
}

fn reviewer_who_is_satisfied() -> Value {
    let first = json!({"verdict": "request_changes", "commit": "$COMMIT", "complete": true, "findings": [
        eval_finding(),
        {"severity": "high", "category": "correctness", "file": "slug.sh", "line": 3,
         "title": "An empty title is accepted",
         "problem": "The ticket asks for an error; this prints an empty line.",
         "fix": "Refuse it with a message on stderr and a non-zero exit."},
        locale_finding(),
    ], "criteria": [{"criterion": "An empty title is an error.", "met": false, "evidence": "slug.sh:3"}]});
    let second = json!({"verdict": "approve", "commit": "$COMMIT", "complete": true, "findings": [locale_finding()],
        "criteria": [{"criterion": "An empty title is an error.", "met": true, "evidence": "slug.sh:3, test.sh"}]});
    json!([
        answers("reading slug.sh", &first, 0.05),
        answers("reading slug.sh", &second, 0.04)
    ])
}

fn reviewer_of_the_same_fault() -> Value {
    let result = json!({"verdict": "request_changes", "commit": "$COMMIT", "complete": true, "findings": [eval_finding()]});
    json!([answers("reading slug.sh", &result, 0.05)])
}

fn verifier_who_sees_it_fixed() -> Value {
    let result = json!({"answers": [
        {"finding": "F1", "outcome": "fixed", "evidence": "slug.sh:4 prints \"$1\" as data; no eval is left"},
        {"finding": "F2", "outcome": "fixed", "evidence": "slug.sh:3 refuses an empty title; test.sh proves it"},
    ]});
    json!([answers("looking at F1 and F2", &result, 0.02)])
}

fn verifier_who_sees_it_still() -> Value {
    let result = json!({"answers": [
        {"finding": "F1", "outcome": "confirmed", "evidence": "slug.sh:4 still has the eval"},
    ]});
    json!([answers("looking at F1", &result, 0.02)])
}
