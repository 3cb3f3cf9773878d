//! The story itself: two rounds over several files, two checks, a verification, a merge. Its end
//! is known, and so is how often each thing may have been done.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::PATIENCE;
use crate::support::crew::{crew, rounds, writes};
use crate::support::processes::marked;
use crate::support::{Ran, Running, World};

const SETTINGS: &str = "\
rules = [\"POSIX sh only.\"]

[checks]
syntax = \"for f in *.sh lib/*.sh; do sh -n $f || exit 1; done\"
test = \"sh test.sh\"

[policy.limits]
lease_secs = 2
backoff_secs = 0
";

const TEST: &str = "\
if [ -e greet.sh ]; then
  [ \"$(sh greet.sh Ada)\" = 'Hello, Ada' ] || exit 1
  [ \"$(sh lib/count.sh a b)\" = 2 ] || exit 1
fi
";

pub struct Play {
    pub world: World,
    ticket: String,
}

impl Play {
    pub fn new(database: Option<&String>, seed: u64) -> Self {
        let mut world = World::without_commits();
        world.database = database.cloned();
        Self::set_up(world, seed)
    }

    /// With everything of it in this directory.
    pub fn within(dir: &Path, seed: u64) -> Self {
        Self::set_up(World::without_commits_in(dir), seed)
    }

    fn set_up(world: World, seed: u64) -> Self {
        for (name, text) in [
            ("README.md", "# greetings\n"),
            ("test.sh", TEST),
            ("lib/count.sh", "echo $#\n"),
            ("countersign.toml", SETTINGS),
        ] {
            world.write(name, text);
        }
        world.commit("A small shell project");
        world.put(
            "ticket.md",
            format!("---\nid: play-{seed:x}\n---\n# Greet by name\nAnd count.\n"),
        );
        world.crew(&script());
        Self {
            world,
            ticket: format!("play-{seed:x}"),
        }
    }

    pub fn start(&self) -> Running {
        let at = |name: &str| self.world.root().join(name).display().to_string();
        let agent = format!("scripted:{}", at("crew.json"));
        let words = [
            "run",
            &at("ticket.md"),
            "--builder",
            &agent,
            "--reviewer",
            &agent,
        ];
        self.world.start(&words)
    }

    pub fn run_to_the_end(&self) -> Ran {
        self.start().wait(PATIENCE)
    }

    pub fn count(&self, event: &str) -> usize {
        self.world.count(&self.ticket, event)
    }

    /// Jobs whose agent's end is on record: nobody may be paid for them again.
    pub fn recorded(&self) -> BTreeSet<String> {
        let ended = self.runs_with("ended.json").into_keys();
        ended.collect()
    }

    /// How often an agent began, for each job: every try has a transcript of its own.
    pub fn begun(&self) -> BTreeMap<String, usize> {
        self.runs_with("transcript.log")
    }

    /// How many tries of each job have such a file.
    fn runs_with(&self, file: &str) -> BTreeMap<String, usize> {
        let of_ticket = self.world.data.join("tickets").join(&self.ticket);
        let mut found = BTreeMap::new();
        for job in entries(&of_ticket.join("jobs")) {
            let tries = entries(&job);
            let count = tries.iter().filter(|run| run.join(file).exists()).count();
            if count > 0 {
                let serial = job.file_name().unwrap().to_str().unwrap().to_owned();
                found.insert(serial, count);
            }
        }
        found
    }

    /// Every agent is paid once; one that was killed after it had told its price is paid besides.
    fn spent(&self, ticket: &Value) -> bool {
        const ALL: u64 = 330_000;
        let spent = ticket["spent"]["ticket"]["usd_micros"].as_u64().unwrap();
        spent == ALL || (spent > ALL && self.count("job_failed") > 0)
    }

    /// The end is the same whatever happened on the way.
    #[track_caller]
    pub fn must_have_ended_well(&self) {
        let world = &self.world;
        let story = || world.call(&["log", &self.ticket]).out;
        let ticket = world.ticket(&self.ticket);
        let found = json!({
            "stage": ticket["stage"],
            "jobs": ticket["jobs"],
            "rounds": ticket["rounds"].as_array().unwrap().len(),
            "findings": ticket["ledger"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect::<Vec<_>>(),
            "spent rightly": self.spent(&ticket),
            "tree": world.git(&["ls-tree", "-r", "--name-only", "main"]),
            "greet.sh": world.git(&["show", "main:greet.sh"]),
            "merges": world.git(&["rev-list", "--merges", "--count", "main"]),
            "commits": world.git(&["rev-list", "--count", "main"]),
            "dirt": world.git(&["status", "--porcelain"]),
            "submitted": self.count("submitted"),
            "checked": self.count("checked"),
            "reviewed": self.count("reviewed"),
            "verified": self.count("verified"),
            "landed": self.count("landed"),
            "orphans": marked(&world.root()),
            "records": entries(&world.data.join("runs")),
        });
        let wanted = json!({
            "stage": "done",
            "jobs": [],
            "rounds": 2,
            "findings": ["fixed", "fixed", "open"],
            "spent rightly": true,
            "tree": "README.md\ncountersign.toml\ngreet.sh\nlib/count.sh\nlib/name.sh\ntest.sh",
            "greet.sh": GREET.trim_end(),
            "merges": "1",
            "commits": "4",
            "dirt": "",
            "submitted": 2,
            "checked": 2,
            "reviewed": 2,
            "verified": 1,
            "landed": 1,
            "orphans": [],
            "records": [],
        });
        assert_eq!(found, wanted, "{}", story());
        world.must_be_sound();
    }
}

/// Returns the entries of a directory; none if it does not exist.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).into_iter().flatten();
    found.map(|entry| entry.unwrap().path()).collect()
}

/// How long the story takes when nobody disturbs it.
#[expect(
    clippy::disallowed_methods,
    reason = "the time that another process really takes"
)]
pub fn duration(database: Option<&String>) -> Duration {
    let play = Play::new(database, super::Instants::seed() ^ u64::MAX);
    let began = Instant::now();
    play.run_to_the_end().ends_with(0);
    let took = began.elapsed();
    play.must_have_ended_well();
    took
}

const HASTY: &str = "#!/bin/sh\n. ./lib/name.sh\necho \"Hello, $(name \"$@\")\"\n";
const GREET: &str =
    "#!/bin/sh\n[ -n \"$1\" ] || exit 2\n. ./lib/name.sh\necho \"Hello, $(name \"$1\")\"\n";
const NAME: &str = "name() { printf '%s' \"$1\"; }\n";

fn script() -> Value {
    let costs = |usd: f64| json!({"usage": {"usd": usd, "tokens_in": 1000, "tokens_out": 100}});
    let waits = || json!({"wait_ms": 40});
    let finding = |severity: &str, line: u32, title: &str| {
        json!({"severity": severity, "file": "greet.sh", "line": line, "title": title,
            "problem": "See the line.", "fix": "Mend it."})
    };
    let minor = || finding("low", 3, "The word Hello is fixed");
    let build = rounds([
        vec![
            writes("lib/name.sh", NAME),
            waits(),
            writes("greet.sh", HASTY),
            costs(0.10),
            json!({"result": {"summary": "Greets."}}),
        ],
        vec![
            writes("greet.sh", GREET),
            waits(),
            json!({"commit": {"message": "Refuse an empty name"}}),
            costs(0.10),
            json!({"result": {"summary": "Mended.", "findings": [
                {"id": "F1", "outcome": "fixed", "note": "exit 2"},
                {"id": "F2", "outcome": "fixed", "note": "one name"}]}}),
        ],
    ]);
    let says = |verdict: &str, findings: Vec<Value>| {
        vec![
            waits(),
            costs(0.05),
            json!({"result": {"verdict": verdict, "commit": "$COMMIT", "complete": true,
                "findings": findings}}),
        ]
    };
    let review = rounds([
        says(
            "request_changes",
            vec![
                finding("high", 1, "An empty name is accepted"),
                finding("critical", 2, "All words are taken for the name"),
                minor(),
            ],
        ),
        says("approve", vec![minor()]),
    ]);
    let verify = json!({"always": [waits(), costs(0.03), {"result": {"answers": [
        {"finding": "F1", "outcome": "fixed", "evidence": "greet.sh:2"},
        {"finding": "F2", "outcome": "fixed", "evidence": "greet.sh:4"}]}}]});
    crew(&build, &review, &verify)
}
