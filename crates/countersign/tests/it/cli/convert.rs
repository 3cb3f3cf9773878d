//! `findings convert`: a refusal is in every form, an approval only where nothing must be fixed.

use serde_json::{Value, json};

use crate::support::World;

/// Every form that there is.
const FORMS: [&str; 15] = [
    "json",
    "document",
    "checklist",
    "qa",
    "report",
    "rework",
    "sarif",
    "rdjson",
    "rdjsonl",
    "gitlab",
    "checkstyle",
    "junit",
    "github-annotations",
    "github-review",
    "summary",
];

/// Reviews that refuse, each with a word that must be in every form.
fn refusals() -> [(Value, &'static str); 4] {
    [
        (
            json!({"verdict": "request_changes", "findings": [], "blocking_issues": [{"message": "The parser loops for ever"}]}),
            "The parser loops for ever",
        ),
        (
            json!({"approved": false, "feedback": "Rewrite the parser first", "findings": []}),
            "Rewrite the parser first",
        ),
        (
            json!({"approved": true, "findings": [{"title": "A token is logged", "severity": "critical", "file": "a.rs", "line": 3}]}),
            "A token is logged",
        ),
        (
            json!({"approved": true, "findings": [], "blocking_issues": ["The schema is lost"]}),
            "The schema is lost",
        ),
    ]
}

/// Returns the output of the verb, which is JSON in another program's form.
fn converted(world: &World, words: &[&str]) -> Value {
    let ran = world.call(&[&["findings", "convert"], words].concat());
    serde_json::from_str(&ran.ends_with(0).out).unwrap()
}

#[test]
fn a_refusal_is_in_every_form_and_approves_nowhere() {
    let world = World::new();
    for (review, word) in refusals() {
        let file = world.put("review.json", review.to_string());
        for form in FORMS {
            world
                .call(&["findings", "convert", "--to", form, &file])
                .ends_with(0)
                .says(word);
        }
        let github = converted(&world, &["--to", "github-review", &file]);
        assert_eq!(github["event"], "REQUEST_CHANGES", "{review}");
        assert_eq!(github.get("commit_id"), None);
        let report = converted(&world, &["--to", "report", &file]);
        assert_eq!(report["approved"], false, "{review}");
    }
}

#[test]
fn only_an_approval_with_nothing_to_fix_approves_and_names_a_real_commit() {
    let world = World::new();
    let small = json!({"approved": true, "findings": [{"title": "A name is long", "severity": "low", "file": "a.rs", "line": 3}]});
    let file = world.put("review.json", small.to_string());
    let convert = |more: &[&str]| {
        let words = ["--to", "github-review", &file];
        converted(&world, &[&words, more].concat())
    };
    let head = world.git(&["rev-parse", "HEAD"]).trim().to_owned();
    for name in ["HEAD", "main", head.as_str()] {
        let review = convert(&["--commit", name]);
        assert_eq!(review["event"], "APPROVE");
        assert_eq!(review["commit_id"], head.as_str(), "{name}");
    }
    assert_eq!(convert(&[]).get("commit_id"), None);
    let words = ["findings", "convert", "--to", "github-review", &file];
    world
        .call(&[&words[..], &["--commit", "no-such-name"]].concat())
        .ends_with(2);
    let unread = world.put("notes.txt", "Segmentation fault\n");
    world
        .call(&["findings", "convert", "--to", "junit", &unread])
        .ends_with(0)
        .says("failures=\"1\"");
}
