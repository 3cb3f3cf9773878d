//! Finds secrets in bytes by their well-known formats.
//!
//! It looks only for certain formats and does not measure randomness, so it neither finds
//! everything nor raises false alarms.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use crate::redact::Redactor;

/// Location of a suspected secret. The secret itself is not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakedSecret {
    /// File that contains it, if it is in one.
    pub path: Option<String>,
    /// Line in that file, from 1; 0 if it is in no file.
    pub line: u32,
    pub kind: &'static str,
    /// Description for people: a file and its line, a commit, or a file name.
    pub place: String,
}

/// Kind of a value that Countersign itself gave to an agent.
const LENT: &str = "key or token that an agent was lent";

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
    let compiled = SHAPES.iter().map(|(kind, shape)| {
        let built = RegexBuilder::new(shape).unicode(false).build();
        Some((*kind, built.ok()?))
    });
    compiled.flatten().collect()
});

/// A secret in some bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Match {
    pub kind: &'static str,
    pub text: Vec<u8>,
    /// Line, from 1.
    pub line: u32,
}

/// Maximum number of matches per object.
const MATCHES_MAX: usize = 100;

/// Returns every secret in the bytes. Bytes with NULs are searched again without them, to find text
/// in UTF-16 or UTF-32.
pub(super) fn find(bytes: &[u8], credentials: &Redactor) -> Vec<Match> {
    let mut matches = find_plain(bytes, credentials);
    if bytes.contains(&0) {
        let squeezed: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
        for secret in find_plain(&squeezed, credentials) {
            if !matches.iter().any(|other| other.text == secret.text) {
                matches.push(secret);
            }
        }
    }
    matches
}

fn find_plain(bytes: &[u8], credentials: &Redactor) -> Vec<Match> {
    let shaped = PATTERNS.iter().flat_map(|(kind, pattern)| {
        let places = pattern.find_iter(bytes).take(MATCHES_MAX);
        places.map(|hit| (*kind, hit.range()))
    });
    let given = credentials
        .find(bytes)
        .take(MATCHES_MAX)
        .map(|range| (LENT, range));
    shaped
        .chain(given)
        .map(|(kind, range)| Match {
            kind,
            line: line_of(bytes, range.start),
            text: bytes[range].to_vec(),
        })
        .collect()
}

fn line_of(bytes: &[u8], at: usize) -> u32 {
    let lines = bytes[..at].split(|byte| *byte == b'\n').count();
    u32::try_from(lines).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the token here, so that no scanner reports this file as a leak.
    fn token() -> String {
        format!("ghp_{}", "a1B2".repeat(9))
    }

    fn kinds(bytes: &[u8]) -> Vec<(&'static str, u32)> {
        let found = find(bytes, &Redactor::default());
        found.iter().map(|found| (found.kind, found.line)).collect()
    }

    #[test]
    fn a_token_is_found_with_its_line_in_text_in_binaries_and_in_wide_characters() {
        let text = format!("let a = 1;\nlet t = \"{}\";\n", token());
        assert_eq!(kinds(text.as_bytes()), [("GitHub token", 2)]);
        let binary = [b"\x7fELF\0\xff\xfe\n", text.as_bytes(), b"\0\xc3\x28"].concat();
        assert_eq!(kinds(&binary), [("GitHub token", 3)]);
        let wide = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect();
        let (little, big): (Vec<u8>, Vec<u8>) = (wide(u16::to_le_bytes), wide(u16::to_be_bytes));
        assert_eq!(kinds(&little), [("GitHub token", 2)]);
        assert_eq!(kinds(&big), [("GitHub token", 2)]);
        let wider: Vec<u8> = text
            .chars()
            .flat_map(|c| (c as u32).to_le_bytes())
            .collect();
        assert_eq!(kinds(&wider), [("GitHub token", 2)]);
    }

    #[test]
    fn every_shape_is_a_pattern() {
        assert_eq!(PATTERNS.len(), SHAPES.len());
    }

    #[test]
    fn keys_and_passwords_in_urls_are_found() {
        let key = format!("-----BEGIN {} KEY-----", "RSA PRIVATE");
        let url = format!("postgres://app:{}@db.internal/x", "hunter2hunter2");
        let found = kinds(format!("{key}\n{url}").as_bytes());
        assert_eq!(found, [("private key", 1), ("password in a URL", 2)]);
    }

    #[test]
    fn placeholders_pass() {
        let text = "postgres://user:${PASSWORD}@host/db\nsk-short";
        assert_eq!(kinds(text.as_bytes()), []);
    }
}
