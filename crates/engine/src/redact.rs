//! Removes secrets from a run's output and leftover files before anything is stored: the run
//! token, and the values of the agent's credential variables. It finds a secret in plain form and
//! in JSON, percent, hexadecimal and base64 encoding. It does not find a secret that an agent
//! splits, wraps or encrypts; a run token is worthless after its run.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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

/// Finds secrets in bytes. The default value finds nothing.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    forms: Option<Regex>,
    longest: usize,
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

    fn with<'a>(values: impl Iterator<Item = &'a [u8]>, more: &[&str]) -> Self {
        // A multi-line value is printed line by line.
        let lines = values.flat_map(|value| value.split(|byte| *byte == b'\n'));
        let secrets: BTreeSet<&[u8]> = lines
            .map(|line| line.get(..SECRET_BYTES_MAX).unwrap_or(line).trim_ascii())
            .filter(|line| line.len() >= SECRET_BYTES_MIN)
            .take(SECRETS_MAX)
            .collect();
        let mut forms: Vec<Vec<u8>> = secrets
            .iter()
            .flat_map(|secret| encoded_forms(secret))
            .collect();
        // A regular expression takes the first alternative that matches, so the longest comes
        // first.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        let token = TOKEN_PREFIX.len() + TOKEN_DIGITS;
        let longest = forms.first().map_or(0, Vec::len).max(token);
        let mut patterns: Vec<String> = forms.iter().map(|form| literal_pattern(form)).collect();
        patterns.push(format!("{TOKEN_PREFIX}[0-9a-fA-F]{{{TOKEN_DIGITS}}}"));
        patterns.extend(more.iter().map(|pattern| (*pattern).to_owned()));
        let built = RegexBuilder::new(&patterns.join("|"))
            .unicode(false)
            .size_limit(64 << 20)
            .build();
        Self {
            forms: built.ok(),
            longest,
        }
    }

    /// Returns the number of bytes at the end of a piece that may be the beginning of a secret.
    pub fn longest_secret(&self) -> usize {
        if self.forms.is_some() {
            self.longest
        } else {
            0
        }
    }

    /// Replaces every secret in the bytes with a mark.
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.forms {
            Some(forms) => forms.replace_all(bytes, MASK),
            None => Cow::Borrowed(bytes),
        }
    }

    /// Returns the positions of secrets in the bytes.
    pub fn find<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        let forms = self.forms.iter();
        forms.flat_map(move |forms| forms.find_iter(bytes).map(|found| found.range()))
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
        let Some(forms) = &self.forms else {
            return Ok(());
        };
        let mut text = Vec::new();
        open_regular_file(path, false)?
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut text)?;
        let places: Vec<_> = forms.find_iter(&text).map(|found| found.range()).collect();
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

/// Returns a pattern that matches exactly these bytes.
fn literal_pattern(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |out, byte| {
        if byte.is_ascii_alphanumeric() {
            return format!("{out}{}", char::from(*byte));
        }
        format!("{out}\\x{byte:02x}")
    })
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
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let pair = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
        pairs.iter().map(pair).collect()
    }

    fn token() -> String {
        format!("{TOKEN_PREFIX}{}", "7f".repeat(TOKEN_DIGITS / 2))
    }

    #[test]
    fn secrets_are_found_by_the_names_of_their_variables() {
        let redactor = Redactor::for_environment(&env(&[
            ("ANTHROPIC_API_KEY", "sk-ant/abc+def=="),
            ("PATH", "/usr/bin:/bin"),
            ("OPENAI_BASE_URL", "https://example.test"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
            ("SHORT_KEY", "abc"),
        ]));
        let masked = redactor.redact_text(format!(
            "sk-ant/abc+def== /usr/bin:/bin https://example.test /home/me/key.json abc {}",
            token()
        ));
        assert_eq!(
            masked,
            "[redacted] /usr/bin:/bin https://example.test /home/me/key.json abc [redacted]"
        );
    }

    #[test]
    fn files_are_scrubbed_in_place_and_links_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("home/deep")).unwrap();
        let text = format!("a {} b", token());
        for name in ["home/deep/x", "elsewhere", "home/first"] {
            fs::write(at(name), &text).unwrap();
        }
        std::os::unix::fs::symlink(at("elsewhere"), at("home/link")).unwrap();
        fs::hard_link(at("home/first"), at("second")).unwrap();
        let redactor = Redactor::for_token(&env(&[(TOKEN, &token())])).unwrap();
        redactor.scrub_dirs(&[at("home")]);
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        assert_eq!(
            read("home/deep/x"),
            format!("a {} b", "*".repeat(token().len()))
        );
        assert_eq!((read("elsewhere"), read("second")), (text.clone(), text));
        assert!(Redactor::for_token(&env(&[])).is_none());
    }

    proptest! {
        #[test]
        fn no_form_of_a_secret_is_left(
            secret in "[!-~]{12,80}", before in "[a-z]{0,7}", after in "[a-z ]{0,7}"
        ) {
            let redactor = Redactor::for_environment(&env(&[("MY_TOKEN", &secret)]));
            let whole = format!("{before}{secret}{after}");
            let standard = STANDARD.encode(&whole);
            let written = [
                whole.clone(),
                standard.clone(),
                URL_SAFE.encode(&whole),
                hex(whole.as_bytes()),
                serde_json::Value::from(whole.as_str()).to_string(),
                String::from_utf8(percent_encode(whole.as_bytes(), true, |_| false)).unwrap(),
            ];
            for text in written {
                let masked = redactor.redact_text(text.clone());
                prop_assert!(masked.contains("[redacted]"), "{}", text);
                prop_assert!(!masked.contains(&secret));
            }
            // The rest of the base64 does not reveal the secret.
            let rest = redactor.redact_text(standard).replace("[redacted]", "");
            prop_assert!(rest.len() < before.len() + after.len() + 24);
        }
    }
}
