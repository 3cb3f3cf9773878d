//! The launcher, and what the tests ask the operating system.

use std::path::PathBuf;

/// The example `launcher`, which cargo builds next to the tests.
pub fn launcher() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let launcher = tests
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/launcher");
    assert!(
        launcher.exists(),
        "{} is missing: cargo build -p countersign-engine --examples",
        launcher.display()
    );
    launcher
}

/// How many processes have this command line.
pub fn alive(wanted: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).replace('\0', " ").trim_end() == wanted)
        .count()
}
