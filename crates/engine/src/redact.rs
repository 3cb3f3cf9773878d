//! Takes secrets out of what a run prints and leaves behind, before anything of it is stored: the
//! run's own token, and the values of credential variables that the agent was lent. A secret is found
//! as it is, and as JSON, percent, hexadecimal and base64 write it. One that an agent splits, wraps
//! or encrypts is not found; a run token is worthless once its run is over.

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

use crate::agent::tools::TOKEN;
use crate::hash::hex;

const MASK: &[u8] = b"[redacted]";
/// A shorter value is a word that may stand anywhere.
const SECRET_BYTES_MIN: usize = 8;
/// Of one value; the beginning of a longer one is enough to find it by.
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
/// How much of what a run left behind is looked through.
const FILES_MAX: usize = 20_000;
const FILE_BYTES_MAX: u64 = 32 << 20;
const BYTES_MAX: u64 = 256 << 20;

/// Finds secrets in bytes. The default one finds nothing.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    forms: Option<Regex>,
    longest: usize,
}

impl Redactor {
    /// For a run with this environment: its token, any token of ours, and the values of variables
    /// whose names say that they are secret.
    pub fn of_environment(env: &[(OsString, OsString)]) -> Self {
        Self::of(secret_values(env))
    }

    /// For what a run left behind: its token alone. Its other credentials may be its own to keep.
    pub fn of_token(env: &[(OsString, OsString)]) -> Option<Self> {
        let (_, token) = env.iter().find(|(name, _)| name == TOKEN)?;
        Some(Self::of([token.as_bytes()].into_iter()))
    }

    /// For the log of a process with this environment: as for a run, and whatever has the form of a
    /// bearer token or of an address with a password in it.
    pub fn of_log(env: &[(OsString, OsString)]) -> Self {
        Self::with(secret_values(env), &LOG_PATTERNS)
    }

    fn of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::with(values, &[])
    }

    fn with<'a>(values: impl Iterator<Item = &'a [u8]>, more: &[&str]) -> Self {
        // A value of several lines is printed line by line.
        let lines = values.flat_map(|value| value.split(|byte| *byte == b'\n'));
        let secrets: BTreeSet<&[u8]> = lines
            .map(|line| line.get(..SECRET_BYTES_MAX).unwrap_or(line).trim_ascii())
            .filter(|line| line.len() >= SECRET_BYTES_MIN)
            .take(SECRETS_MAX)
            .collect();
        let mut forms: Vec<Vec<u8>> = secrets.iter().flat_map(|secret| forms(secret)).collect();
        // The first alternative that matches is taken, so the longest comes first.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        let token = TOKEN_PREFIX.len() + TOKEN_DIGITS;
        let longest = forms.first().map_or(0, Vec::len).max(token);
        let mut patterns: Vec<String> = forms.iter().map(|form| literal(form)).collect();
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

    /// How many bytes at the end of a piece may be the beginning of a secret.
    pub fn longest(&self) -> usize {
        if self.forms.is_some() {
            self.longest
        } else {
            0
        }
    }

    /// The bytes with every secret replaced by a mark.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.forms {
            Some(forms) => forms.replace_all(bytes, MASK),
            None => Cow::Borrowed(bytes),
        }
    }

    /// Finds the secrets in the bytes.
    pub fn find<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        let forms = self.forms.iter();
        forms.flat_map(move |forms| forms.find_iter(bytes).map(|found| found.range()))
    }

    pub fn text(&self, text: String) -> String {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => text,
            Cow::Owned(masked) => String::from_utf8_lossy(&masked).into_owned(),
        }
    }

    /// Overwrites secrets in the files below, byte for byte, so that a file of any format keeps its
    /// shape. Links are not followed, and a file that has another name elsewhere is left alone.
    pub fn scrub(&self, dirs: &[PathBuf]) {
        let (mut files, mut bytes) = (0, 0);
        let mut waiting: Vec<PathBuf> = dirs.to_vec();
        while let Some(path) = waiting.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            if found.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                waiting.extend(entries.take(FILES_MAX).map(|entry| entry.path()));
                continue;
            }
            files += 1;
            if files > FILES_MAX || waiting.len() > FILES_MAX * 2 || bytes > BYTES_MAX {
                return;
            }
            if found.is_file() && found.nlink() == 1 && found.len() <= FILE_BYTES_MAX {
                bytes += found.len();
                // What cannot be read or written by us was not written by the run for us.
                if let Err(error) = self.scrub_file(&path) {
                    tracing::debug!(%error, path = %path.display(), "could not look for secrets");
                }
            }
        }
    }

    fn scrub_file(&self, path: &Path) -> io::Result<()> {
        let Some(forms) = &self.forms else {
            return Ok(());
        };
        let mut text = Vec::new();
        open(path, false)?
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut text)?;
        let places: Vec<_> = forms.find_iter(&text).map(|found| found.range()).collect();
        if places.is_empty() {
            return Ok(());
        }
        let mut file = open(path, true)?;
        for place in places {
            file.seek(SeekFrom::Start(place.start as u64))?;
            file.write_all(&vec![b'*'; place.len()])?;
        }
        file.sync_all()
    }
}

/// The values of variables whose names say that they are secret.
fn secret_values(env: &[(OsString, OsString)]) -> impl Iterator<Item = &[u8]> {
    let secret = env.iter().filter(|(name, value)| {
        let name = name.to_string_lossy().to_ascii_uppercase();
        // A variable may name the file that holds the secret; a secret may begin with a slash too.
        let names_file = PATH_WORDS.iter().any(|word| name.contains(word));
        let is_path = names_file && value.as_bytes().starts_with(b"/");
        !is_path && SECRET_WORDS.iter().any(|word| name.contains(word))
    });
    secret.map(|(_, value)| value.as_bytes())
}

/// Links are refused, and a FIFO does not hold us up.
fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new()
        .read(!write)
        .write(write)
        .custom_flags(flags)
        .open(path)
}

/// A pattern that matches exactly these bytes.
fn literal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |out, byte| {
        if byte.is_ascii_alphanumeric() {
            return format!("{out}{}", char::from(*byte));
        }
        format!("{out}\\x{byte:02x}")
    })
}

/// The ways in which programs write the same bytes.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![secret.to_vec()];
    if let Ok(text) = std::str::from_utf8(secret) {
        let quoted = serde_json::Value::from(text).to_string();
        let quoted = quoted.trim_matches('"').to_owned();
        all.push(quoted.replace('/', "\\/").into_bytes());
        all.push(quoted.into_bytes());
    }
    for upper in [true, false] {
        all.push(percent(secret, upper, |byte| {
            byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
        }));
        all.push(percent(secret, upper, |_| false));
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
    // What stands before it shifts base64 by none, one or two bytes; the characters that a
    // neighbour has a share in are left out at both ends.
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

fn percent(secret: &[u8], upper: bool, plain: impl Fn(u8) -> bool) -> Vec<u8> {
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
        let redactor = Redactor::of_environment(&env(&[
            ("ANTHROPIC_API_KEY", "sk-ant/abc+def=="),
            ("PATH", "/usr/bin:/bin"),
            ("OPENAI_BASE_URL", "https://example.test"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
            ("SHORT_KEY", "abc"),
        ]));
        let masked = redactor.text(format!(
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
        let redactor = Redactor::of_token(&env(&[(TOKEN, &token())])).unwrap();
        redactor.scrub(&[at("home")]);
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        assert_eq!(
            read("home/deep/x"),
            format!("a {} b", "*".repeat(token().len()))
        );
        assert_eq!((read("elsewhere"), read("second")), (text.clone(), text));
        assert!(Redactor::of_token(&env(&[])).is_none());
    }

    proptest! {
        #[test]
        fn no_form_of_a_secret_is_left(
            secret in "[!-~]{12,80}", before in "[a-z]{0,7}", after in "[a-z ]{0,7}"
        ) {
            let redactor = Redactor::of_environment(&env(&[("MY_TOKEN", &secret)]));
            let whole = format!("{before}{secret}{after}");
            let standard = STANDARD.encode(&whole);
            let written = [
                whole.clone(),
                standard.clone(),
                URL_SAFE.encode(&whole),
                hex(whole.as_bytes()),
                serde_json::Value::from(whole.as_str()).to_string(),
                String::from_utf8(percent(whole.as_bytes(), true, |_| false)).unwrap(),
            ];
            for text in written {
                let masked = redactor.text(text.clone());
                prop_assert!(masked.contains("[redacted]"), "{}", text);
                prop_assert!(!masked.contains(&secret));
            }
            // What is left of the base64 does not give the secret back.
            let rest = redactor.text(standard).replace("[redacted]", "");
            prop_assert!(rest.len() < before.len() + after.len() + 24);
        }
    }
}
