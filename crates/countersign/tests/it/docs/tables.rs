//! Tables and examples of the documents that list what the code knows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use app::failure::ExitKind;
use expect_test::expect_file;
use flow::Policy;
use serde_json::Value;

use super::root;

/// Compares the text between the markers of a table with the generated one.
fn assert_table(page: &str, name: &str, table: &str) {
    let page = root().join(page);
    let text = fs::read_to_string(&page).unwrap();
    let begin = format!("<!-- {name}:begin -->\n");
    let end = format!("<!-- {name}:end -->");
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    expect_file![page].assert_eq(&format!("{before}{begin}{table}{end}{after}"));
}

#[test]
fn the_exit_codes_are_those_of_the_program() {
    let mut table = "| exit code | meaning |\n|---|---|\n".to_owned();
    for kind in ExitKind::ALL {
        writeln!(table, "| {} | {} |", kind.code(), kind.meaning()).unwrap();
    }
    assert_table("docs/json.md", "exit-codes", &table);
}

/// Sections of the page on compatibility, each with the number of points in its system's document.
const SYSTEMS: [(&str, u32); 5] = [
    ("Assignments over MCP", 38),
    ("Pull queue of task files", 78),
    ("Epic with a review gate", 74),
    ("Review loop by messages", 39),
    ("Review-fix loop with findings documents", 43),
];

#[test]
fn the_page_on_compatibility_counts_its_rows() {
    let page = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let mut table =
        "| system | points in its document | listed below | met | on purpose | missing |\n\
        |---|---|---|---|---|---|\n"
            .to_owned();
    let mut sums = [0; 5];
    for (system, points) in SYSTEMS {
        let (_, rest) = page.split_once(&format!("## {system}\n")).unwrap();
        let section = rest.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| "));
        let states: Vec<&str> = rows
            .filter_map(|row| row.trim_end_matches(" |").rsplit("| ").next())
            .filter(|state| *state != "state")
            .collect();
        let count = |wanted: &str| {
            states
                .iter()
                .filter(|state| state.starts_with(wanted))
                .count()
        };
        let (listed, met, on_purpose) = (states.len(), count("met"), count("on purpose"));
        let missing = listed - met - on_purpose;
        writeln!(
            table,
            "| {system} | {points} | {listed} | {met} | {on_purpose} | {missing} |"
        )
        .unwrap();
        let counts = [points as usize, listed, met, on_purpose, missing];
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }
    let [points, listed, met, on_purpose, missing] = sums;
    writeln!(
        table,
        "| **all** | {points} | {listed} | {met} | {on_purpose} | {missing} |"
    )
    .unwrap();
    assert_table("docs/compatibility.md", "compatibility-counts", &table);
    assert_eq!(missing, 0);
}

/// Keys with simple values, by their path: `limits.lease_secs`.
fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    let Value::Object(fields) = value else {
        out.insert(prefix.to_owned(), value.clone());
        return;
    };
    for (key, value) in fields {
        let path = match prefix {
            "" => key.clone(),
            _ => format!("{prefix}.{key}"),
        };
        flatten(&path, value, out);
    }
}

/// Tables whose entries a project chooses, or that have no values by default.
const FREE_TABLES: [&str; 4] = ["reviewers", "dimensions", "fallback", "budget"];

fn is_free(path: &str) -> bool {
    FREE_TABLES.iter().any(|table| path.starts_with(table))
}

#[test]
fn the_policy_page_has_every_key_with_its_default() {
    let page = fs::read_to_string(root().join("docs/policy.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let written: toml::Table = toml::from_str(example).unwrap();
    let written = serde_json::to_value(&written["policy"]).unwrap();
    let (mut shown, mut known) = (BTreeMap::new(), BTreeMap::new());
    flatten("", &written, &mut shown);
    flatten(
        "",
        &serde_json::to_value(Policy::default()).unwrap(),
        &mut known,
    );
    // A key without a default cannot stand in a TOML example.
    let has_default = |path: &str, value: &Value| !is_free(path) && !value.is_null();
    for (path, value) in known
        .iter()
        .filter(|(path, value)| has_default(path, value))
    {
        assert_eq!(shown.get(path), Some(value), "docs/policy.md: {path}");
    }
    // A key whose default is left out of what is stored is still read.
    let is_read = |path: &str| {
        let mut whole = serde_json::to_value(Policy::default()).unwrap();
        whole[path] = shown[path].clone();
        serde_json::from_value::<Policy>(whole).is_ok_and(|read| read == Policy::default())
    };
    for path in shown.keys().filter(|path| !is_free(path)) {
        assert!(
            known.contains_key(path) || is_read(path),
            "docs/policy.md: {path} is no key"
        );
    }
}
