//! Counts that may only go down: type names that are defined more than once, and doc comments that
//! begin with a pronoun. Each list is what is left; a count above it is a breach, and so is one below
//! it, because a list that is not kept up would let the count rise again.
//! `UPDATE_EXPECT=1` rewrites the lists; a count only goes down.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use regex::Regex;

use super::tree::{Layer, Tree};

/// Every verb of the command line has its `Args`, every module its `Error`.
const CONVENTIONAL: [&str; 4] = ["Args", "Error", "Result", "Verb"];

type Counts = BTreeMap<String, usize>;

/// Names of types that production code defines more than once, with how often.
fn shared_type_names(tree: &Tree) -> Counts {
    let definition =
        Regex::new(r"(?m)^(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait|union|type)\s+(\w+)")
            .expect("a fixed pattern");
    let mut counts = Counts::new();
    for source in tree.sources() {
        let code = source.layer(Layer::Code);
        if !source.path.contains("/src/") {
            continue;
        }
        for found in definition.captures_iter(code) {
            let line = super::tree::line_of(code, found.get_match().start());
            let name = &found[1];
            if !source.in_test[line - 1] && !CONVENTIONAL.contains(&name) {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    counts.retain(|_, count| *count > 1);
    counts
}

/// Doc comments by crate that begin with a word that hides their subject.
fn pronoun_openings(tree: &Tree) -> Counts {
    let opening = Regex::new(r"^\s*//[/!]\s*(?:What|Who|Whom|Whose|Whoever|Where|Of|None)\b")
        .expect("a fixed pattern");
    let mut counts = Counts::new();
    for source in tree.sources() {
        let mut parts = source.path.split('/');
        let (Some("crates"), Some(krate), Some("src")) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let mut in_comment = false;
        for line in source.layer(Layer::Comments).lines() {
            let text = line.trim_start();
            let is_doc = text.starts_with("///") || text.starts_with("//!");
            if is_doc && !in_comment && opening.is_match(line) {
                *counts.entry(krate.to_owned()).or_default() += 1;
            }
            in_comment = is_doc;
        }
    }
    counts
}

fn list(name: &str) -> PathBuf {
    super::root().join("crates/tidy/tests/tidy").join(name)
}

fn parse(text: &str) -> Counts {
    let lines = text.lines().filter(|line| !line.is_empty());
    let pair = |line: &str| {
        let (name, count) = line.rsplit_once(' ').expect("a name and a count");
        (name.to_owned(), count.parse().expect("a count"))
    };
    lines.map(pair).collect()
}

fn written(counts: &Counts) -> String {
    let lines = counts
        .iter()
        .map(|(name, count)| format!("{name} {count}\n"));
    lines.collect()
}

/// The entries that rose, and those that fell.
fn compared(known: &Counts, now: &Counts) -> (Vec<String>, Vec<String>) {
    let (mut rose, mut fell) = (Vec::new(), Vec::new());
    let names = known.keys().chain(now.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    for name in names {
        let count = |counts: &Counts| counts.get(name).copied().unwrap_or_default();
        let (was, is) = (count(known), count(now));
        let line = format!("{name}: {is}, listed as {was}");
        match is.cmp(&was) {
            std::cmp::Ordering::Greater => rose.push(line),
            std::cmp::Ordering::Less => fell.push(line),
            std::cmp::Ordering::Equal => {}
        }
    }
    (rose, fell)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where these tests read their environment"
)]
fn is_update() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some_and(|value| !value.is_empty())
}

#[track_caller]
fn must_not_rise(file: &str, now: &Counts, instead: &str) {
    let known = parse(&fs::read_to_string(list(file)).expect("the list can be read"));
    let (rose, fell) = compared(&known, now);
    assert!(rose.is_empty(), "{}\n  instead: {instead}", rose.join("\n"));
    if fell.is_empty() {
        return;
    }
    if is_update() {
        fs::write(list(file), written(now)).expect("the list can be written");
        return;
    }
    let command = "UPDATE_EXPECT=1 cargo test -p countersign-tidy";
    panic!(
        "fewer than {file} says, which is good; write it down with `{command}`:\n{}",
        fell.join("\n")
    );
}

#[test]
fn a_type_name_is_defined_once_in_the_workspace() {
    let now = shared_type_names(&Tree::read(super::root()));
    let instead = "give the new type a name that no other type in the workspace has";
    must_not_rise("shared_type_names.txt", &now, instead);
}

#[test]
fn doc_comments_begin_with_their_subject() {
    let now = pronoun_openings(&Tree::read(super::root()));
    let instead = "write a sentence with a subject and a verb, not `What …` or `Who …`";
    must_not_rise("pronoun_openings.txt", &now, instead);
}

#[test]
fn planted_names_and_openings_are_counted() {
    let tree = Tree::read(super::root());
    let names = shared_type_names(&tree);
    let planted = "pub struct Ticket;\npub struct Planted1;\nimpl X { type Output = u8; }\n";
    let more = shared_type_names(&tree.with("crates/store/src/planted.rs", planted));
    assert_eq!(compared(&names, &more).0, ["Ticket: 2, listed as 0"]);
    let openings = pronoun_openings(&tree);
    let planted = "/// What it is.\n/// Who has it.\nfn f() {}\n/// Of one.\nfn g() {}\n// Who\n/// A test.\nfn h() {}\n";
    let more = pronoun_openings(&tree.with("crates/store/src/planted.rs", planted));
    let in_store = |counts: &BTreeMap<String, usize>| counts.get("store").copied().unwrap_or(0);
    assert_eq!(in_store(&more), in_store(&openings) + 2);
    // The list may not rise, and may not be stale.
    let (rose, fell) = compared(&parse("A 2\nB 3\n"), &parse("A 3\nB 2\n"));
    assert_eq!((rose.len(), fell.len()), (1, 1));
}
