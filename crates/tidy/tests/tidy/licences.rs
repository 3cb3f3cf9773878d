//! Holds the licence and source rules of deny.toml where cargo-deny is not installed: every package
//! that is built for this machine can be used under a licence on the list, and comes from crates.io.

use std::process::Command;

use serde_json::Value;

use super::root;

fn allowed(deny: &str) -> Vec<String> {
    let deny: toml::Table = deny.parse().expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"]
        .as_array()
        .expect("deny.toml lists licences");
    list.iter()
        .filter_map(toml::Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Answers a licence expression (`(MIT OR Apache-2.0) AND Unicode-3.0`) from the list.
fn is_usable(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let (answer, rest) = either(&words, allowed);
    answer && rest.is_empty()
}

fn either<'a, 'w>(words: &'a [&'w str], allowed: &[String]) -> (bool, &'a [&'w str]) {
    let (mut answer, mut rest) = both(words, allowed);
    while let ["OR", more @ ..] = rest {
        let (other, after) = both(more, allowed);
        (answer, rest) = (answer || other, after);
    }
    (answer, rest)
}

fn both<'a, 'w>(words: &'a [&'w str], allowed: &[String]) -> (bool, &'a [&'w str]) {
    let (mut answer, mut rest) = one(words, allowed);
    while let ["AND", more @ ..] = rest {
        let (other, after) = one(more, allowed);
        (answer, rest) = (answer && other, after);
    }
    (answer, rest)
}

fn one<'a, 'w>(words: &'a [&'w str], allowed: &[String]) -> (bool, &'a [&'w str]) {
    let on_list = |name: &str| allowed.iter().any(|licence| licence == name);
    match words {
        ["(", inner @ ..] => match either(inner, allowed) {
            (answer, [")", rest @ ..]) => (answer, rest),
            (_, rest) => (false, rest),
        },
        [name, "WITH", exception, rest @ ..] => {
            (on_list(&format!("{name} WITH {exception}")), rest)
        }
        [name, rest @ ..] => (on_list(name), rest),
        [] => (false, words),
    }
}

/// Lists the problems of the packages of `cargo metadata`.
fn objections(metadata: &Value, allowed: &[String]) -> Vec<String> {
    let mut objections = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or("?");
        let licence = package["license"].as_str().unwrap_or("no licence");
        if !is_usable(licence, allowed) {
            objections.push(format!("{name}: {licence} is not on the list of deny.toml"));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|source| !source.ends_with("/crates.io-index")) {
            objections.push(format!("{name}: comes from {}", source.unwrap_or_default()));
        }
    }
    objections
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test asks cargo; there is no run to supervise"
)]
fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(root())
        .output();
    let output = output.expect("the toolchain that built this test is there");
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_package_has_a_licence_on_the_list_and_comes_from_crates_io() {
    let version = output_of("rustc", &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    // Packages for other systems are not here on a fresh machine; cargo would have to fetch them.
    let args = [
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
    ];
    let metadata = output_of(
        env!("CARGO"),
        &[&args[..], &[host.expect("rustc names its host")]].concat(),
    );
    let metadata = serde_json::from_str(&metadata).expect("cargo metadata is JSON");
    let deny = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let objections = objections(&metadata, &allowed(&deny));
    assert!(objections.is_empty(), "\n{}", objections.join("\n"));
}

#[test]
fn a_licence_off_the_list_and_a_package_from_elsewhere_are_found() {
    let allowed = allowed("[licenses]\nallow = ['MIT', 'Unicode-3.0']");
    let metadata = serde_json::json!({ "packages": [
        { "name": "fine", "license": "(MIT OR GPL-3.0) AND Unicode-3.0", "source": "registry+https://example.org/crates.io-index" },
        { "name": "copyleft", "license": "GPL-3.0-only" },
        { "name": "partly", "license": "MIT AND GPL-3.0-only" },
        { "name": "silent", "license": null },
        { "name": "elsewhere", "license": "MIT", "source": "git+https://example.org/elsewhere" },
    ] });
    let found = objections(&metadata, &allowed);
    let names: Vec<_> = found
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(names, ["copyleft", "partly", "silent", "elsewhere"]);
}

#[test]
fn a_licence_expression_is_read_as_written() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    assert!(is_usable("MIT/GPL-2.0", &allowed));
    assert!(is_usable("Apache-2.0 WITH LLVM-exception", &allowed));
    assert!(!is_usable("Apache-2.0", &allowed));
    assert!(!is_usable("(MIT OR GPL-2.0", &allowed));
    assert!(!is_usable("", &allowed));
}
