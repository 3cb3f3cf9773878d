//! Removes secrets from a run's output and leftover files before anything is stored: the run
//! token, and the values of the agent's credential variables. It finds a secret in plain form, in
//! JSON, percent, hexadecimal and base64 encoding, in other case, and with anything in between that
//! nobody sees: colour codes, invisible characters, line breaks. It does not find a secret that an
//! agent reverses, encrypts, mixes with other text, or prints in parts with pauses in between; a run
//! token is worthless after its run.

mod visible;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use findings::{TOKEN_DIGITS, TOKEN_PREFIX};
use regex::bytes::{Regex, RegexBuilder};

use crate::agent::mcp::TOKEN;
use crate::hash::hex;

const MASK: &[u8] = b"[redacted]";
/// Shortest value that counts as a secret; a shorter one may be a common word.
const SECRET_BYTES_MIN: usize = 8;
/// Number of bytes that are searched of one value; the beginning is enough to find a longer one.
const SECRET_BYTES_MAX: usize = 4096;
const SECRETS_MAX: usize = 64;
/// Number of bytes that are read as a person sees them at once, and the number that two windows
/// share: a secret with more in between is not found at the border.
const WINDOW: usize = 1 << 20;
const OVERLAP: usize = 64 << 10;
/// Words in the name of a variable that holds a secret.
const SECRET_WORDS: [&str; 8] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
];
/// Words in the name of a variable whose value may be a path.
const PATH_WORDS: [&str; 5] = ["CREDENTIALS", "DIR", "FILE", "PATH", "SOCK"];
/// Bearer tokens of any issuer, and the user and password of an address.
const LOG_PATTERNS: [&str; 2] = [
    r"(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}",
    r"://[^/\s:@]*:[^/\s@]+@",
];
/// Limits on the leftover files that are searched.
const FILES_MAX: usize = 20_000;
const FILE_BYTES_MAX: u64 = 32 << 20;
const BYTES_MAX: u64 = 256 << 20;

/// Finds secrets in bytes, as they are and as a person would read them. The default value finds
/// nothing.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    forms: Option<Arc<SecretForms>>,
}

/// Forms of the secrets, ready to be searched for.
#[derive(Debug)]
struct SecretForms {
    /// Every form in lower case.
    literals: Vec<Vec<u8>>,
    values: AhoCorasick,
    /// Tokens of ours.
    token: Regex,
    /// Shapes of other secrets. They are searched for in the bytes as they are.
    shapes: Option<Regex>,
}

impl Redactor {
    /// Returns a redactor for the output of a run with this environment: it finds its token, any
    /// token of ours, and the values of variables with names of secrets.
    pub fn for_environment(env: &[(OsString, OsString)]) -> Self {
        Self::for_values(secret_values(env))
    }

    /// Returns a redactor for the leftover files of a run: it finds only the run token, because
    /// the agent may keep its other credentials.
    pub fn for_token(env: &[(OsString, OsString)]) -> Option<Self> {
        let (_, token) = env.iter().find(|(name, _)| name == TOKEN)?;
        Some(Self::for_values([token.as_bytes()].into_iter()))
    }

    /// Returns a redactor for the log of a process with this environment: it finds the same as for
    /// a run, plus anything that looks like a bearer token or an address with a password.
    pub fn of_log(env: &[(OsString, OsString)]) -> Self {
        Self::with(secret_values(env), &LOG_PATTERNS)
    }

    fn for_values<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::with(values, &[])
    }

    fn with<'a>(values: impl Iterator<Item = &'a [u8]>, shapes: &[&str]) -> Self {
        // A multi-line value is printed line by line.
        let lines = values.flat_map(|value| value.split(|byte| *byte == b'\n'));
        let secrets: BTreeSet<&[u8]> = lines
            .map(|line| line.get(..SECRET_BYTES_MAX).unwrap_or(line).trim_ascii())
            .filter(|line| line.len() >= SECRET_BYTES_MIN)
            .take(SECRETS_MAX)
            .collect();
        let mut literals: Vec<Vec<u8>> = secrets
            .iter()
            .flat_map(|secret| encoded_forms(secret))
            .map(|form| form.to_ascii_lowercase())
            .collect();
        // A view has no separators, so it shows a secret that contains some without them.
        let separates = |byte: &u8| byte.is_ascii() && visible::separates(char::from(*byte));
        let squeezed: Vec<Vec<u8>> = literals
            .iter()
            .filter(|form| form.iter().any(separates))
            .map(|form| {
                form.iter()
                    .copied()
                    .filter(|byte| !separates(byte))
                    .collect()
            })
            .filter(|form: &Vec<u8>| form.len() >= SECRET_BYTES_MIN)
            .collect();
        literals.extend(squeezed);
        literals.sort();
        literals.dedup();
        let regex = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
        let token = regex(&format!("(?i){TOKEN_PREFIX}[0-9a-f]{{{TOKEN_DIGITS}}}"));
        let values = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(&literals);
        // Limits on the number and the length of the values keep both from failing.
        let forms = values
            .ok()
            .zip(token.ok())
            .map(|(values, token)| SecretForms {
                literals,
                values,
                token,
                shapes: regex(&shapes.join("|")).ok().filter(|_| !shapes.is_empty()),
            });
        Self {
            forms: forms.map(Arc::new),
        }
    }

    /// Returns the length up to which a secret is found that is wrapped or cut.
    pub fn wrapped_max(&self) -> usize {
        self.forms.as_ref().map_or(0, |forms| {
            let longest = forms.literals.iter().map(Vec::len).max().unwrap_or(0);
            longest.max(TOKEN_DIGITS + TOKEN_PREFIX.len()) * 4 + 1024
        })
    }

    /// Returns where a secret may begin whose end is not in the bytes yet.
    pub fn unfinished_secret(&self, bytes: &[u8]) -> Option<usize> {
        let forms = self.forms.as_ref()?;
        let from = bytes.len().saturating_sub(self.wrapped_max());
        let tail = bytes.get(from..)?;
        let starts = visible::views(tail).into_iter().filter_map(|view| {
            let length = forms.unfinished(&view.bytes)?;
            let part = view.bytes.len() - length..view.bytes.len();
            Some(from + view.original(&part)?.start)
        });
        starts.min()
    }

    /// Replaces every secret in the bytes with a mark.
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let places = self.places(bytes);
        if places.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        for place in places {
            out.extend_from_slice(bytes.get(at..place.start).unwrap_or_default());
            out.extend_from_slice(MASK);
            at = place.end;
        }
        out.extend_from_slice(bytes.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Returns the positions of secrets in the bytes.
    pub fn find(&self, bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
        self.places(bytes).into_iter()
    }

    /// Returns the positions of secrets in order. They do not overlap.
    fn places(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let Some(forms) = &self.forms else {
            return Vec::new();
        };
        let mut places = forms.in_bytes(bytes);
        if let Some(shapes) = &forms.shapes {
            places.extend(shapes.find_iter(bytes).map(|found| found.range()));
        }
        // A view takes many times the memory of its bytes, so a long text is read in windows that
        // overlap.
        let mut from = 0;
        while let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) {
            let window = rest.get(..WINDOW).unwrap_or(rest);
            for view in visible::views(window) {
                let parts = forms.in_bytes(&view.bytes).into_iter();
                let shown = parts.filter_map(|part| view.original(&part));
                places.extend(shown.map(|part| from + part.start..from + part.end));
            }
            if window.len() == rest.len() {
                break;
            }
            from += WINDOW - OVERLAP;
        }
        merge(places)
    }

    pub fn redact_text(&self, text: String) -> String {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => text,
            Cow::Owned(masked) => String::from_utf8_lossy(&masked).into_owned(),
        }
    }

    /// Overwrites secrets in the files below the directories, byte for byte, so that a file of any
    /// format keeps its layout. It follows no link, and leaves a file with another hard link
    /// alone.
    pub fn scrub_dirs(&self, dirs: &[PathBuf]) {
        let (mut files, mut bytes) = (0, 0);
        let mut pending: Vec<PathBuf> = dirs.to_vec();
        while let Some(path) = pending.pop() {
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            if meta.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                pending.extend(entries.take(FILES_MAX).map(|entry| entry.path()));
                continue;
            }
            files += 1;
            if files > FILES_MAX || pending.len() > FILES_MAX * 2 || bytes > BYTES_MAX {
                return;
            }
            if meta.is_file() && meta.nlink() == 1 && meta.len() <= FILE_BYTES_MAX {
                bytes += meta.len();
                // A file that we cannot read or write is skipped.
                if let Err(error) = self.scrub_file(&path) {
                    tracing::debug!(%error, path = %path.display(), "could not search for secrets");
                }
            }
        }
    }

    fn scrub_file(&self, path: &Path) -> io::Result<()> {
        let mut text = Vec::new();
        open_regular_file(path, false)?
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut text)?;
        let places = self.places(&text);
        if places.is_empty() {
            return Ok(());
        }
        let mut file = open_regular_file(path, true)?;
        for place in places {
            file.seek(SeekFrom::Start(place.start as u64))?;
            file.write_all(&vec![b'*'; place.len()])?;
        }
        file.sync_all()
    }
}

/// Returns the values of variables with names of secrets.
fn secret_values(env: &[(OsString, OsString)]) -> impl Iterator<Item = &[u8]> {
    let secret = env.iter().filter(|(name, value)| {
        let name = name.to_string_lossy().to_ascii_uppercase();
        // A variable may hold the path of a secret's file, but a secret may also start with a
        // slash.
        let names_file = PATH_WORDS.iter().any(|word| name.contains(word));
        let is_path = names_file && value.as_bytes().starts_with(b"/");
        !is_path && SECRET_WORDS.iter().any(|word| name.contains(word))
    });
    secret.map(|(_, value)| value.as_bytes())
}

/// Opens a file. It refuses links, and does not block on a FIFO.
fn open_regular_file(path: &Path, write: bool) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new()
        .read(!write)
        .write(write)
        .custom_flags(flags)
        .open(path)
}

impl SecretForms {
    fn in_bytes(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let tokens = self.token.find_iter(bytes).map(|found| found.range());
        let values = self.values.find_iter(bytes).map(|found| found.range());
        tokens.chain(values).collect()
    }

    /// Returns the length of the longest end of the bytes that begins a secret.
    fn unfinished(&self, bytes: &[u8]) -> Option<usize> {
        let begins = |form: &[u8], end: &[u8]| {
            form.get(..end.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(end))
        };
        let last = bytes.last()?.to_ascii_lowercase();
        let of_value = self.literals.iter().filter_map(|form| {
            let longest = form.len().saturating_sub(1).min(bytes.len());
            (1..=longest)
                .rev()
                .filter(|length| form.get(length - 1) == Some(&last))
                .find(|length| begins(form, &bytes[bytes.len() - length..]))
        });
        of_value.chain(unfinished_token(bytes)).max()
    }
}

/// Returns the length of the beginning of a token of ours at the end of the bytes.
fn unfinished_token(bytes: &[u8]) -> Option<usize> {
    let prefix = TOKEN_PREFIX.as_bytes();
    let digits = bytes
        .iter()
        .rev()
        .take(TOKEN_DIGITS)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    // A `c` at the end is a digit and may begin a prefix too; more digits end no prefix.
    let lengths = (0..=digits.min(TOKEN_DIGITS - 1)).rev();
    let whole = lengths.filter_map(|digits| {
        let head = bytes.get(..bytes.len() - digits)?;
        let ends = head.len() >= prefix.len()
            && head[head.len() - prefix.len()..].eq_ignore_ascii_case(prefix);
        ends.then_some(digits + prefix.len())
    });
    let part = (1..prefix.len()).rev().find(|length| {
        bytes.len() >= *length
            && bytes[bytes.len() - length..].eq_ignore_ascii_case(&prefix[..*length])
    });
    whole.max().or(part)
}

/// Sorts the positions and joins those that overlap.
fn merge(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_by_key(|place| (place.start, place.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for place in places {
        match merged.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => merged.push(place),
        }
    }
    merged
}

/// Returns the encodings of a secret that programs use.
fn encoded_forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![secret.to_vec()];
    if let Ok(text) = std::str::from_utf8(secret) {
        let quoted = serde_json::Value::from(text).to_string();
        let quoted = quoted.trim_matches('"').to_owned();
        all.push(quoted.replace('/', "\\/").into_bytes());
        all.push(quoted.into_bytes());
    }
    for upper in [true, false] {
        all.push(percent_encode(secret, upper, |byte| {
            byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
        }));
        all.push(percent_encode(secret, upper, |_| false));
        let digits = hex(secret);
        all.push(
            if upper {
                digits.to_ascii_uppercase()
            } else {
                digits
            }
            .into_bytes(),
        );
    }
    // Preceding bytes shift base64 by zero, one or two bytes. Characters at both ends that also
    // encode neighbouring bytes are left out.
    for shift in 0..3 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(secret);
        let whole = shifted.len() / 3 * 4;
        let skip = [0, 2, 3][shift];
        for text in [
            STANDARD_NO_PAD.encode(&shifted),
            URL_SAFE_NO_PAD.encode(&shifted),
        ] {
            let form = text.as_bytes().get(skip..whole).unwrap_or_default();
            if form.len() >= SECRET_BYTES_MIN {
                all.push(form.to_vec());
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

fn percent_encode(secret: &[u8], upper: bool, plain: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in secret {
        if plain(*byte) {
            out.push(*byte);
        } else if upper {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.extend_from_slice(format!("%{byte:02x}").as_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests;
