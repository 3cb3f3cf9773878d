//! Secrets in the lines that a change adds, by their well-known shapes.
//!
//! A pure function over a diff. It looks for what is certain by its form; it does
//! not measure randomness, so it neither finds everything nor cries wolf.

use std::sync::LazyLock;

use regex::Regex;

/// Where a secret seems to be. The secret itself is not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    pub path: String,
    pub line: u32,
    pub kind: &'static str,
}

const SHAPES: &[(&str, &str)] = &[
    (
        "private key",
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    ),
    ("AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    (
        "GitHub token",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})\b",
    ),
    ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{20,}"),
    ("Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    ("OpenAI key", r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{40,}"),
    ("Stripe key", r"\b[rs]k_live_[A-Za-z0-9]{20,}"),
    ("Google key", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-AgEI[A-Za-z0-9_-]{50,}"),
    (
        "SendGrid key",
        r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b",
    ),
    (
        "password in a URL",
        r"\b[a-z][a-z0-9+]*://[^\s:/@'\x22<>{}$]+:[^\s:/@'\x22<>{}$]{6,}@[\w.-]+",
    ),
];

static PATTERNS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let compiled = SHAPES
        .iter()
        .map(|(kind, shape)| Some((*kind, Regex::new(shape).ok()?)));
    compiled.flatten().collect()
});

/// Looks through the added lines of a unified diff.
pub fn scan_added_lines(diff: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    let mut path = String::new();
    let mut hunk = Hunk::default();
    for line in diff.lines() {
        if hunk.is_over() {
            if let Some(name) = line.strip_prefix("+++ ") {
                path = file_name(name);
            } else if let Some(next) = Hunk::parse(line) {
                hunk = next;
            }
            continue;
        }
        if let (Some(added), Some(number)) = (line.strip_prefix('+'), hunk.step(line)) {
            let kinds = PATTERNS
                .iter()
                .filter(|(_, pattern)| pattern.is_match(added));
            found.extend(kinds.map(|(kind, _)| Secret {
                path: path.clone(),
                line: number,
                kind,
            }));
        }
    }
    found
}

/// What is still to come of a hunk. Counting is what tells an added line that
/// begins with `++` from a file's header.
#[derive(Default)]
struct Hunk {
    old_left: u32,
    new_left: u32,
    line: u32,
}

impl Hunk {
    /// `@@ -1,2 +3,4 @@`
    fn parse(line: &str) -> Option<Self> {
        let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let (_, old_left) = start_and_count(old)?;
        let (line, new_left) = start_and_count(new)?;
        Some(Self {
            old_left,
            new_left,
            line,
        })
    }

    fn is_over(&self) -> bool {
        self.old_left == 0 && self.new_left == 0
    }

    /// Takes a line in; its number in the new file, if it is there.
    fn step(&mut self, line: &str) -> Option<u32> {
        let here = self.line;
        match line.as_bytes().first() {
            Some(b'+') => self.new_left = self.new_left.saturating_sub(1),
            Some(b'-') => {
                self.old_left = self.old_left.saturating_sub(1);
                return None;
            }
            Some(b'\\') => return None,
            _ => {
                self.old_left = self.old_left.saturating_sub(1);
                self.new_left = self.new_left.saturating_sub(1);
            }
        }
        self.line += 1;
        Some(here)
    }
}

fn start_and_count(range: &str) -> Option<(u32, u32)> {
    match range.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((range.parse().ok()?, 1)),
    }
}

fn file_name(name: &str) -> String {
    let name = name.trim_end_matches('\t').trim_matches('"');
    name.strip_prefix("b/").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Put together here, so that no scanner takes this file for a leak.
    fn token() -> String {
        format!("ghp_{}", "a1B2".repeat(9))
    }

    fn diff(body: &str) -> String {
        let count = body.lines().filter(|line| !line.starts_with('-')).count();
        format!("--- a/src/x.rs\n+++ b/src/x.rs\n@@ -10,0 +11,{count} @@\n{body}\n")
    }

    #[test]
    fn a_token_is_found_with_its_place_and_not_repeated() {
        let found = scan_added_lines(&diff(&format!("+let a = 1;\n+let t = \"{}\";", token())));
        let wanted = Secret {
            path: "src/x.rs".into(),
            line: 12,
            kind: "GitHub token",
        };
        assert_eq!(found, [wanted]);
    }

    #[test]
    fn every_shape_is_a_pattern() {
        assert_eq!(PATTERNS.len(), SHAPES.len());
    }

    #[test]
    fn keys_and_passwords_in_urls_are_found() {
        let key = format!("+-----BEGIN {} KEY-----", "RSA PRIVATE");
        let url = format!("+postgres://app:{}@db.internal/x", "hunter2hunter2");
        let kinds: Vec<_> = scan_added_lines(&diff(&format!("{key}\n{url}")))
            .into_iter()
            .map(|secret| secret.kind)
            .collect();
        assert_eq!(kinds, ["private key", "password in a URL"]);
    }

    #[test]
    fn placeholders_and_removed_lines_pass() {
        let body = format!(
            "-{}\n+postgres://user:${{PASSWORD}}@host/db\n+sk-short",
            token()
        );
        let diff = format!("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n{body}\n");
        assert_eq!(scan_added_lines(&diff), []);
    }

    #[test]
    fn an_added_line_that_looks_like_a_header_is_a_line() {
        let body = format!("+++ b/fake\n+{}", token());
        let found = scan_added_lines(&diff(&body));
        assert_eq!((found[0].path.as_str(), found[0].line), ("src/x.rs", 12));
    }
}
