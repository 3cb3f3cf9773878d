//! Content of the served demo: a dozen tickets with a script for each, so that a dashboard has
//! something of everything. Each ticket adds one small tool with a test of its own, so they do not
//! meet in one file.

use serde_json::{Value, json};

/// Files of the repository of the served demo.
pub const PROJECT: &[(&str, &str)] = &[
    ("README.md", "# words\n\nSmall tools for words.\n"),
    ("tests/upper.sh", "test \"$(sh upper.sh hello)\" = HELLO\n"),
    (
        "upper.sh",
        "#!/bin/sh\n# upper TEXT: prints the text in capitals.\nprintf '%s\\n' \"$1\" | tr 'a-z' 'A-Z'\n",
    ),
    (
        "test.sh",
        "#!/bin/sh\n# Runs every test; the first failure ends it.\nfor one in tests/*.sh; do sh -e \"$one\" || { echo \"$one failed\"; exit 1; }; done\n",
    ),
    (
        "countersign.toml",
        "rules = [\"POSIX sh only; every tool has a test in tests/.\"]\n\n[checks]\ntest = \"sh test.sh\"\n",
    ),
];

/// Way in which a ticket of the served demo goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoCourse {
    /// Approved in the first round.
    Smooth,
    /// The reviewer finds a defect, the builder fixes it.
    Rework,
    /// The builder never fixes it, so a person decides.
    Escalates,
    /// The test fails first.
    RedFirst,
}

/// A ticket of the served demo.
#[derive(Clone, Copy, Debug)]
pub struct CrowdTicket {
    pub name: &'static str,
    pub title: &'static str,
    pub text: &'static str,
    /// Command of the tool, with its text in `$1`.
    tool: &'static str,
    expected: (&'static str, &'static str),
    pub course: DemoCourse,
}

const fn ticket(
    name: &'static str,
    title: &'static str,
    text: &'static str,
    (tool, expected): (&'static str, (&'static str, &'static str)),
    course: DemoCourse,
) -> CrowdTicket {
    CrowdTicket {
        name,
        title,
        text,
        tool,
        expected,
        course,
    }
}

/// Place of the step in a round that writes the tool.
const WRITE_STEP: usize = 2;

use DemoCourse::{Escalates, RedFirst, Rework, Smooth};

pub const TICKETS: [CrowdTicket; 12] = [
    ticket(
        "lower",
        "Add `lower`: print a text in small letters",
        "It belongs next to `upper`.",
        ("tr 'A-Z' 'a-z'", ("HELLO", "hello")),
        Smooth,
    ),
    ticket(
        "slug",
        "Add `slug`: turn a title into a file name",
        "Small letters, a dash for every blank. Whatever the title holds is text and nothing else.",
        ("tr 'A-Z ' 'a-z-'", ("Hello World", "hello-world")),
        Rework,
    ),
    ticket(
        "words",
        "Count the words of a text",
        "As `wc -w` does, without the blanks around the number.",
        ("wc -w | tr -d ' '", ("one two three", "3")),
        Smooth,
    ),
    ticket(
        "initials",
        "Print the initials of a name",
        "One letter for every word, in capitals.",
        (
            "tr ' ' '\\n' | cut -c1 | tr -d '\\n' | tr 'a-z' 'A-Z'",
            ("ada lovelace", "AL"),
        ),
        Escalates,
    ),
    ticket(
        "trim",
        "Trim the blanks at both ends",
        "Blanks inside stay as they are.",
        ("sed 's/^ *//; s/ *$//'", ("  a b  ", "a b")),
        RedFirst,
    ),
    ticket(
        "squeeze",
        "Squeeze runs of blanks into one",
        "Tabs count as blanks.",
        ("tr -s ' \\t' ' '", ("a   b", "a b")),
        Smooth,
    ),
    ticket(
        "reverse",
        "Reverse the words of a line",
        "The words keep their letters.",
        (
            "tr ' ' '\\n' | sed -n '1!G;h;$p' | tr '\\n' ' ' | sed 's/ $//'",
            ("a b c", "c b a"),
        ),
        Rework,
    ),
    ticket(
        "rot13",
        "Add `rot13` for spoilers",
        "Letters only; everything else stays.",
        ("tr 'A-Za-z' 'N-ZA-Mn-za-m'", ("Hello", "Uryyb")),
        Smooth,
    ),
    ticket(
        "vowels",
        "Count the vowels of a text",
        "Only a, e, i, o and u, of either size.",
        (
            "tr -cd 'aeiouAEIOU' | wc -c | tr -d ' '",
            ("Education", "5"),
        ),
        Rework,
    ),
    ticket(
        "first",
        "Print the first word",
        "An empty text has none, which is an error.",
        ("cut -d' ' -f1", ("one two", "one")),
        Escalates,
    ),
    ticket(
        "shout",
        "Add `shout`: capitals and an exclamation mark",
        "It uses the rules of `upper`.",
        ("tr 'a-z' 'A-Z' | sed 's/$/!/'", ("hello", "HELLO!")),
        Smooth,
    ),
    ticket(
        "count",
        "Count the letters of a text",
        "Blanks do not count.",
        ("tr -d ' \\n' | wc -c | tr -d ' '", ("a b c", "3")),
        RedFirst,
    ),
];

impl CrowdTicket {
    fn file(&self) -> String {
        format!("{}.sh", self.name)
    }

    /// Returns the ticket file.
    pub fn description(&self) -> String {
        let (given, expected) = self.expected;
        format!(
            "---\nid: {0}\n---\n# {1}\n\n{2}\n\n## Acceptance criteria\n- `sh {0}.sh '{given}'` prints `{expected}`.\n- An empty text is an error.\n",
            self.name, self.title, self.text
        )
    }

    /// Returns the script of the agents, with pauses that let a person see each step.
    pub fn script(&self) -> String {
        let checked = "[ -n \"$1\" ] || { echo 'the text is empty' >&2; exit 2; }\n";
        let run = format!("printf '%s\\n' \"$1\" | {}\n", self.tool);
        let open = format!(
            "#!/bin/sh\n# {} TEXT\neval \"echo $1\" | {}\n",
            self.name, self.tool
        );
        let good = format!("#!/bin/sh\n# {} TEXT\n{checked}{run}", self.name);
        let broken = format!("#!/bin/sh\n# {} TEXT\necho nothing yet\n", self.name);
        let rounds = match self.course {
            Smooth | RedFirst => vec![(good.as_str(), true)],
            Rework => vec![(open.as_str(), false), (good.as_str(), true)],
            Escalates => vec![(open.as_str(), false)],
        };
        let build = rounds.iter().enumerate();
        let mut build: Vec<Value> = build
            .map(|(round, (text, _))| self.build_round(round + 1, text))
            .collect();
        if let (RedFirst, Some(first)) = (self.course, build.first_mut()) {
            first[WRITE_STEP] = self.red_first(&broken, &good);
        }
        let review: Vec<Value> = rounds
            .iter()
            .map(|(_, fine)| self.review_round(*fine))
            .collect();
        let outcome = if self.course == Escalates {
            "confirmed"
        } else {
            "fixed"
        };
        let verified = json!({"answers": [
            {"finding": "F1", "outcome": outcome, "evidence": format!("{}:3", self.file())},
        ]});
        let script = json!({
            "version": 1,
            "build": {"rounds": build},
            "review": {"rounds": review},
            "verify": {"always": [{"wait_ms": 900}, {"usage": usage(0.02)}, {"result": verified}]},
        });
        format!("{script:#}\n")
    }

    fn build_round(&self, round: usize, text: &str) -> Value {
        let (given, expected) = self.expected;
        let test = format!("test \"$(sh {} '{given}')\" = '{expected}'\n", self.file());
        // Each round changes something, even if the builder fixes nothing.
        let text = match round {
            1 => text.to_owned(),
            _ => format!("{text}# round {round}\n"),
        };
        let summary = format!("{} with a test, round {round}.", self.file());
        json!([
            {"say": format!("reading the ticket {}", self.name)},
            {"wait_ms": 1800},
            {"write": {"path": self.file(), "text": text}},
            {"say": format!("wrote {}", self.file())},
            {"wait_ms": 1200},
            {"write": {"path": format!("tests/{}.sh", self.name), "text": test}},
            {"usage": usage(0.11)},
            {"result": {"summary": summary, "findings": [
                {"id": "F1", "outcome": "fixed", "note": "the text is data now"},
            ]}},
        ])
    }

    /// Returns the step that writes the tool: broken at first, and mended when the checks are red and
    /// the builder works on the same round again.
    fn red_first(&self, broken: &str, good: &str) -> Value {
        let file = self.file();
        let write = |text: &str| format!("cat > {file} <<'END'\n{text}END\n");
        let (mended, first) = (write(good), write(broken));
        json!({"run": {"command": format!("if [ -e {file} ]; then {mended}else {first}fi")}})
    }

    fn review_round(&self, is_fine: bool) -> Value {
        let findings = if is_fine {
            json!([{"severity": "low", "category": "readability", "file": self.file(), "line": 2,
                "title": "The comment could name the output",
                "problem": "A reader has to run the tool to see what it prints.",
                "fix": "Add one example."}])
        } else {
            json!([{"severity": "critical", "category": "security", "file": self.file(), "line": 3,
                "title": "eval runs whatever the text holds",
                "problem": "The text is pasted into a command line.",
                "impact": "Anybody who names a text runs commands as the user.",
                "fix": "Treat the text as data: printf '%s\\n' \"$1\" | …"}])
        };
        let verdict = if is_fine {
            "approve"
        } else {
            "request_changes"
        };
        json!([
            {"say": format!("reading {}", self.file())},
            {"wait_ms": 1500},
            {"usage": usage(0.05)},
            {"result": {"verdict": verdict, "commit": "$COMMIT", "complete": true, "findings": findings}},
        ])
    }
}

fn usage(usd: f64) -> Value {
    json!({"usd": usd, "tokens_in": 5200, "tokens_out": 900})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ticket_has_its_own_file_and_a_script() {
        let mut names: Vec<&str> = TICKETS.iter().map(|ticket| ticket.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TICKETS.len());
        for ticket in TICKETS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("agents.json");
            std::fs::write(&path, ticket.script()).unwrap();
            engine::agent::scripted::Script::read(&path).unwrap();
        }
    }
}
