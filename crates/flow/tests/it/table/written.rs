//! The table of ARCHITECTURE.md, generated from the code and compared with the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect_file;
use flow::{Role, Stage};

use super::scene::{EVENTS, reporters};
use super::{for_all, tried};

const BEGIN: &str = "<!-- table:begin -->";
const END: &str = "<!-- table:end -->";
const HEAD: &str = "\
# Every stage and every event

Made from the code by the tests of `flow`; `UPDATE_EXPECT=1 cargo test -p countersign-flow table` writes it
again. A cell says where the event may lead; `=` is the same stage, `–` is a refusal.
";

/// Returns the stages to which each event may lead from each stage.
fn outcomes() -> BTreeMap<(&'static str, Stage), BTreeSet<Stage>> {
    let mut found: BTreeMap<_, BTreeSet<Stage>> = BTreeMap::new();
    for_all(|story, by, what| {
        let key = (what.name(), story.stage());
        if let Ok(step) = tried(story, &story.event(&by, what)) {
            found.entry(key).or_default().insert(step.ticket.stage);
        }
    });
    found
}

fn table() -> String {
    let outcomes = outcomes();
    let alive: Vec<Stage> = Stage::ALL
        .into_iter()
        .filter(|stage| !stage.is_terminal())
        .collect();
    let mut out = String::from("| event | by |");
    for stage in &alive {
        write!(out, " {stage} |").unwrap();
    }
    out.push_str(" done, failed, cancelled |\n|---|---|");
    out.push_str(&"---|".repeat(alive.len() + 1));
    out.push('\n');
    for event in EVENTS {
        let by: Vec<&str> = reporters(event).into_iter().map(Role::as_str).collect();
        let by = if by.len() == Role::ALL.len() {
            "anybody".to_owned()
        } else {
            by.join(", ")
        };
        write!(out, "| `{event}` | {by} |").unwrap();
        for stage in &alive {
            let cell = outcomes.get(&(event, *stage));
            write!(out, " {} |", words(*stage, cell)).unwrap();
        }
        out.push_str(" – |\n");
    }
    out
}

fn words(from: Stage, to: Option<&BTreeSet<Stage>>) -> String {
    let Some(to) = to else {
        return "–".to_owned();
    };
    let words = to
        .iter()
        .map(|stage| if *stage == from { "=" } else { stage.as_str() });
    words.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_written_table_is_what_the_code_does() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let architecture = crate_root.join("../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(&architecture).unwrap_or_default();
    let block = format!("{BEGIN}\n{}{END}", table());
    let inside = text
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    match inside {
        Some((before, after)) => {
            expect_file![architecture].assert_eq(&format!("{before}{block}{after}"));
        }
        None => expect_file![crate_root.join("TABLE.md")].assert_eq(&format!("{HEAD}\n{block}\n")),
    }
}
