//! Replaces what differs from run to run: commits, hashes, times, the temporary directory.

use std::path::Path;

use regex::Regex;

const MASKS: &[(&str, &str)] = &[
    (
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?",
        "DATE",
    ),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    // A short commit has ten digits, a policy's name twelve; either may be without a letter.
    (r"\b(?:[0-9a-f]{10}|[0-9a-f]{12})\b", "SHORT"),
    (r"\breview-[0-9a-f]{8}\b", "review-ID"),
    (r"\b\d+ ms\b", "N ms"),
    (r"\bin \d+(?:\.\d+)? s\b", "in N s"),
];

pub fn mask(text: &str, root: &Path) -> String {
    let path = super::told("PATH").unwrap_or_default();
    let mut text = text
        .replace(root.to_str().unwrap(), "ROOT")
        .replace(path.to_str().unwrap(), "PATH");
    for (pattern, name) in MASKS {
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, *name)
            .into_owned();
    }
    // Help has lines of blanks, which an editor would take away.
    let lines = text.lines().map(str::trim_end);
    lines.fold(String::new(), |text, line| text + line + "\n")
}
