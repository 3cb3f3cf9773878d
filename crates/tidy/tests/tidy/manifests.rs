//! Rules for the Cargo manifests: the direction of dependencies, each named once.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::rules::Breach;
use super::tree::Tree;

const OURS: [&str; 8] = [
    "findings",
    "forge",
    "flow",
    "store",
    "engine",
    "app",
    "server",
    "countersign",
];

/// Our crates that a crate may stand on.
fn may_stand_on(krate: &str) -> Option<&'static [&'static str]> {
    match krate {
        // `tidy` has tests only, and must build without any of the others.
        "findings" | "tidy" => Some(&[]),
        "flow" | "forge" => Some(&["findings"]),
        "store" => Some(&["findings", "flow"]),
        "engine" => Some(&["findings", "flow", "store"]),
        "app" => Some(&["findings", "flow", "forge", "store", "engine"]),
        "server" => Some(&["findings", "flow", "store", "engine", "app"]),
        "countersign" => Some(&["findings", "flow", "engine", "app", "server"]),
        _ => None,
    }
}

/// The crates that decide or understand and cannot act, so a library of theirs must be unable to
/// act as well: no runtime, no files, no clock, no randomness.
const PURE: [&str; 2] = ["findings", "flow"];
const PURE_LIBRARIES: [&str; 8] = [
    "jiff",
    "regex",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "similar",
    "thiserror",
];

/// Libraries that are pure only without their standard features, with the features they may have.
const PURE_WITHOUT_STD: [(&str, &[&str]); 1] = [("jiff", &["alloc"])];

/// Libraries that belong to one crate.
const OWNED: [(&str, &str); 10] = [
    ("axum", "server"),
    ("clap", "countersign"),
    ("clap_complete", "countersign"),
    ("rmcp", "server"),
    ("ratatui", "countersign"),
    ("toml", "app"),
    ("tower-http", "server"),
    ("deadpool-postgres", "store"),
    ("rusqlite", "store"),
    ("tokio-postgres", "store"),
];

struct Dependency {
    name: String,
    value: Value,
    for_tests: bool,
}

fn table(text: &str) -> Table {
    text.parse().unwrap_or_default()
}

/// The manifests of our crates: path, crate and content.
fn crates(tree: &Tree) -> Vec<(&str, &str, Table)> {
    tree.named("/Cargo.toml")
        .filter_map(|(path, text)| {
            let krate = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            Some((path, krate, table(text)))
        })
        .collect()
}

fn dependencies(manifest: &Table) -> Vec<Dependency> {
    let mut places = vec![manifest];
    let targets = manifest.get("target").and_then(Value::as_table);
    places.extend(
        targets
            .into_iter()
            .flat_map(Table::values)
            .filter_map(Value::as_table),
    );
    let mut found = Vec::new();
    for place in places {
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let entries = place.get(section).and_then(Value::as_table);
            for (name, value) in entries.into_iter().flatten() {
                found.push(Dependency {
                    name: name.clone(),
                    value: value.clone(),
                    for_tests: section == "dev-dependencies",
                });
            }
        }
    }
    found
}

pub fn directions(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, krate, manifest) in crates(tree) {
        let Some(allowed) = may_stand_on(krate) else {
            breaches.push(Breach::new(
                path,
                1,
                "a crate that is not in the list: write down what it may depend on first",
            ));
            continue;
        };
        for dependency in dependencies(&manifest) {
            let name = dependency.name.as_str();
            let is_ours = OURS.contains(&name);
            // The stories run against the fake forge of that crate's own tests, and the benches
            // fill a database.
            let is_for_stories = krate == "countersign"
                && dependency.for_tests
                && ["forge", "store"].contains(&name);
            let wrong_way = is_ours && !allowed.contains(&name) && !is_for_stories;
            let acts = PURE.contains(&krate)
                && !is_ours
                && !dependency.for_tests
                && !PURE_LIBRARIES.contains(&name);
            let anothers = !dependency.for_tests
                && OWNED
                    .iter()
                    .any(|(library, owner)| *library == name && *owner != krate);
            if wrong_way || acts || anothers {
                breaches.push(Breach::new(path, 1, format!("{krate} depends on {name}")));
            }
        }
    }
    breaches
}

/// A calendar with its `std` feature reads the clock and the time zones of the machine.
pub fn pure_features(tree: &Tree) -> Vec<Breach> {
    let root = tree
        .named("Cargo.toml")
        .find(|(path, _)| *path == "Cargo.toml");
    let Some((path, text)) = root else {
        return Vec::new();
    };
    let manifest = table(text);
    let named = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let mut breaches = Vec::new();
    for (library, allowed) in PURE_WITHOUT_STD {
        let Some(entry) = named.and_then(|named| named.get(library)) else {
            continue;
        };
        let bare = entry.get("default-features") == Some(&Value::Boolean(false));
        let features = entry.get("features").and_then(Value::as_array);
        let mut features = features.into_iter().flatten().filter_map(Value::as_str);
        if !bare || features.any(|feature| !allowed.contains(&feature)) {
            let why = format!("{library} has features that can act");
            breaches.push(Breach::new(path, 1, why));
        }
    }
    breaches
}

pub fn named_once(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut used = BTreeSet::new();
    for (path, krate, manifest) in crates(tree) {
        for dependency in dependencies(&manifest) {
            let entry = dependency.value.as_table();
            let inherits = |table: &Table| table.get("workspace") == Some(&Value::Boolean(true));
            // Optional is a crate's own matter; a version or a feature is not.
            let alone = |table: &Table| table.keys().all(|k| k == "workspace" || k == "optional");
            if !entry.is_some_and(|table| inherits(table) && alone(table)) {
                breaches.push(Breach::new(
                    path,
                    1,
                    format!("{} is named here", dependency.name),
                ));
            }
            used.insert(dependency.name);
        }
        let lints = manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"));
        if lints != Some(&Value::Boolean(true)) {
            breaches.push(Breach::new(
                path,
                1,
                format!("{krate} does not take the workspace's lints"),
            ));
        }
    }
    let root = table(tree.text("Cargo.toml").unwrap_or_default());
    let shared = root
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    for (name, _) in shared.and_then(Value::as_table).into_iter().flatten() {
        if !used.contains(name) {
            breaches.push(Breach::new(
                "Cargo.toml",
                1,
                format!("no crate uses {name}"),
            ));
        }
    }
    breaches
}

pub fn replacements(tree: &Tree) -> Vec<Breach> {
    const PATH: &str = "clippy.toml";
    let config = table(tree.text(PATH).unwrap_or_default());
    let lists = config
        .iter()
        .filter(|(key, _)| key.starts_with("disallowed-"));
    let entries = lists.filter_map(|(_, list)| list.as_array()).flatten();
    let is_silent = |entry: &&Value| {
        let reason = entry
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default();
        reason.split_whitespace().count() < 3
    };
    entries
        .filter(is_silent)
        .map(|entry| Breach::new(PATH, 1, entry.to_string()))
        .collect()
}
