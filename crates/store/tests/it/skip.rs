//! Tests that cannot run on this machine. The harness knows only passed and failed, so a test that
//! returned early would count as passed: each says so here, `./check` counts them, and under
//! `CI=true` a missing tool is a failure. Test suites of other crates include this file.

use std::io::Write;

/// The file that `./check` counts.
const TALLY: &str = "COUNTERSIGN_SKIPPED_TALLY";

/// Reports that the test cannot run because the machine lacks this. Return right after it.
///
/// # Panics
/// Panics under `CI=true`: CI must have everything.
pub fn lacks(what: &str) {
    assert!(
        variable("CI").as_deref() != Some("true"),
        "this test cannot run: {what}. Under CI=true that is a failure"
    );
    report(what);
}

/// Reports that the test needs a device or an optional program that a machine may be without, also in
/// CI: loop devices, bubblewrap. It is counted, and is no failure.
pub fn has_no(what: &str) {
    report(what);
}

/// Reports that the test means nothing for the user who runs it: root may write everything, and
/// only root may become somebody else. A CI job is one user, so it is no failure there.
pub fn is_for_another_user(why: &str) {
    report(why);
}

/// Writes past the harness, which would keep the words to itself.
fn report(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("skipped: {test}: {why}\n");
    // A stream or a file that is closed says nothing about the test.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = variable(TALLY) {
        let mut open = std::fs::OpenOptions::new();
        if let Ok(mut file) = open.create(true).append(true).open(path) {
            let _ = file.write_all(format!("{why}\n").as_bytes());
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the tests' own switches; nothing of the program reads them"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
