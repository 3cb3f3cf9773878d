//! Scans every commit that would land, not only the final state: a token that a later commit
//! removes is still in the history, and so is one in a message, a name or a binary file.
//!
//! Input over the limits is not searched, and the result says so: it never counts as clean.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::nested::plain;
use super::secrets::{LeakedSecret, Match, find};
use super::{Error, Oid, Repository};
use crate::log::removed;
use crate::redact::Redactor;

const COMMITS_MAX: usize = 5_000;
const OBJECTS_MAX: usize = 200_000;
const OBJECT_BYTES_MAX: u64 = 128 << 20;
const BYTES_MAX: u64 = 512 << 20;
/// Time limit for reading the objects of a scan.
const TIME_MAX: Duration = Duration::from_secs(120);
/// Maximum number of reported findings.
const FOUND_MAX: usize = 100;
const NAME_CHARS_MAX: usize = 200;

/// Secrets to look for besides the well-known formats.
#[derive(Clone, Debug)]
pub struct Search {
    /// Credentials that agents were given.
    pub credentials: Redactor,
    /// Characters that no text of a commit should have.
    pub is_hidden: fn(char) -> bool,
}

/// Result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    pub secrets: Vec<LeakedSecret>,
    /// Commits whose message or names have characters that are invisible or reverse the text.
    pub hidden: Vec<String>,
    /// Reason why the scan is incomplete, if it is.
    pub unread: Option<String>,
}

/// Commits of a range and their changes.
#[derive(Debug, Default)]
struct CommitRange {
    commits: Vec<Oid>,
    /// Objects that the range adds.
    new: HashSet<Oid>,
    /// New content with its path, newest commit first.
    blobs: Vec<(Oid, PathBuf)>,
    /// Newest content of each path.
    last: HashMap<PathBuf, Oid>,
    /// Commit that added each content.
    by: HashMap<Oid, Oid>,
    /// Content that existed before and was changed or removed.
    before: HashSet<Oid>,
    names: HashSet<PathBuf>,
}

impl Repository {
    /// Scans the commits from `base` to `head`: messages, people, file names and new content, for
    /// secrets and for characters that hide something. `scratch` is a directory to write to.
    pub async fn scan(
        &self,
        (base, head): (&Oid, &Oid),
        search: &Search,
        scratch: &Path,
    ) -> Result<Scanned, Error> {
        let range = match self.range(base, head).await? {
            Ok(range) => range,
            Err(why) => return Ok(unread(why)),
        };
        let contents: Vec<Oid> = range.by.keys().cloned().collect();
        let objects: Vec<Oid> = range.commits.iter().chain(&contents).cloned().collect();
        let scanned = match self.find_secrets_in(&objects, search, scratch).await? {
            Ok(scanned) => scanned,
            Err((oid, why)) => return Ok(unread(range.describe(&oid, &why))),
        };
        let found_any = contents.iter().any(|oid| scanned.secrets.contains_key(oid));
        let secrets_before = if found_any {
            let before: Vec<Oid> = range.before.iter().cloned().collect();
            // Content that cannot be scanned does not count as existing before.
            match self.find_secrets_in(&before, search, scratch).await? {
                Ok(scanned) => scanned.secrets.into_values().flatten().collect(),
                Err(_) => Vec::new(),
            }
        } else {
            Vec::new()
        };
        Ok(range.report(&scanned, &secrets_before, &search.credentials))
    }

    /// Reads the commits of a range and their changes; the inner error says why there are too many.
    async fn range(&self, base: &Oid, head: &Oid) -> Result<Result<CommitRange, String>, Error> {
        let revisions = format!("{head}\n^{base}\n");
        let list = ["rev-list", "--topo-order", "--stdin"];
        let listed = self
            .git()
            .args(list)
            .stdin(revisions.clone())
            .output()
            .await?;
        let commits: Vec<Oid> = listed.text().lines().filter_map(Oid::parse).collect();
        if commits.len() > COMMITS_MAX || listed.cut {
            let reason = format!("it has more than {COMMITS_MAX} commits; squash them");
            return Ok(Err(reason));
        }
        let list = ["rev-list", "--objects", "--no-object-names", "--stdin"];
        let objects = self.git().args(list).stdin(revisions).output().await?;
        let new: HashSet<Oid> = objects.text().lines().filter_map(Oid::parse).collect();
        let names: String = commits
            .iter()
            .flat_map(|oid| [oid.as_str(), "\n"])
            .collect();
        let args = [
            "diff-tree",
            "--stdin",
            "--root",
            "-m",
            "-r",
            "-z",
            "--raw",
            "--no-abbrev",
            "--no-renames",
        ];
        let changes = self.git().args(args).stdin(names).output().await?;
        let mut range = CommitRange {
            commits,
            new,
            ..CommitRange::default()
        };
        range.read(&changes.out);
        if objects.cut || changes.cut || range.by.len() > OBJECTS_MAX {
            let reason =
                format!("it has more than {OBJECTS_MAX} new files; make the change smaller");
            return Ok(Err(reason));
        }
        Ok(Ok(range))
    }

    /// Returns the secrets in objects; the inner error names one that is too large.
    async fn find_secrets_in(
        &self,
        oids: &[Oid],
        search: &Search,
        scratch: &Path,
    ) -> Result<Result<ScannedObjects, (Oid, String)>, Error> {
        let names: String = oids.iter().flat_map(|oid| [oid.as_str(), "\n"]).collect();
        let check = ["cat-file", "--batch-check=%(objectname) %(objectsize)"];
        let sizes = self.git().args(check).stdin(names.clone()).text().await?;
        let mut all = 0_u64;
        for line in sizes.lines() {
            let Some((name, bytes)) = line.split_once(' ') else {
                continue;
            };
            let (Some(oid), Ok(bytes)) = (Oid::parse(name), bytes.parse::<u64>()) else {
                continue;
            };
            all = all.saturating_add(bytes);
            if bytes > OBJECT_BYTES_MAX {
                let (mib, max) = (bytes >> 20, OBJECT_BYTES_MAX >> 20);
                return Ok(Err((
                    oid,
                    format!("has {mib} MiB, more than the limit of {max} MiB"),
                )));
            }
            if all > BYTES_MAX {
                let max = BYTES_MAX >> 20;
                return Ok(Err((
                    oid,
                    format!("is beyond {max} MiB of new content in all"),
                )));
            }
        }
        crate::private_files::make_dir(scratch).map_err(Error::file(scratch))?;
        let file = scratch.join("scanned-objects");
        let run = self.git().args(["cat-file", "--batch", "--buffer"]);
        let run = run.stdin(names).stdout_to(&file);
        let result = run.run().await;
        let (from, search) = (file.clone(), search.clone());
        let read = tokio::task::spawn_blocking(move || {
            let read = look_through(&from, &search);
            removed(&from, fs::remove_file(&from));
            read
        });
        let read = read
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        result?;
        let scanned = read.map_err(Error::file(&file))?;
        if let Some(oid) = scanned.late {
            let max = TIME_MAX.as_secs();
            return Ok(Err((oid, format!("was not reached within {max} seconds"))));
        }
        if scanned.count != oids.len() {
            let first = oids.first().cloned();
            let why = "cannot be read completely".to_owned();
            return Ok(first.map_or(Ok(scanned), |oid| Err((oid, why))));
        }
        Ok(Ok(scanned))
    }
}

fn unread(why: String) -> Scanned {
    Scanned {
        unread: Some(why),
        ..Scanned::default()
    }
}

/// Secrets by object.
#[derive(Debug, Default)]
struct ScannedObjects {
    secrets: HashMap<Oid, Vec<Match>>,
    /// Commits with invisible characters.
    hidden: HashSet<Oid>,
    count: usize,
    /// Object at which the time limit was reached.
    late: Option<Oid>,
}

/// Reads the output of `git cat-file --batch`.
fn look_through(file: &Path, search: &Search) -> io::Result<ScannedObjects> {
    let mut from = BufReader::new(File::open(file)?);
    let (mut scanned, began) = (ScannedObjects::default(), Instant::now());
    let mut header = Vec::new();
    loop {
        header.clear();
        from.by_ref().take(200).read_until(b'\n', &mut header)?;
        if header.is_empty() {
            return Ok(scanned);
        }
        let text = String::from_utf8_lossy(&header);
        let words: Vec<&str> = text.split_whitespace().collect();
        let [name, kind, size] = words[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let (Some(oid), Ok(size)) = (Oid::parse(name), size.parse::<u64>()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if began.elapsed() > TIME_MAX {
            scanned.late = Some(oid);
            return Ok(scanned);
        }
        let mut bytes = Vec::new();
        from.by_ref().take(size + 1).read_to_end(&mut bytes)?;
        if bytes.pop() != Some(b'\n') || bytes.len() as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        scanned.count += 1;
        if kind == "commit" && String::from_utf8_lossy(&bytes).contains(search.is_hidden) {
            scanned.hidden.insert(oid.clone());
        }
        let secrets = find(&bytes, &search.credentials);
        if !secrets.is_empty() {
            scanned.secrets.insert(oid, secrets);
        }
    }
}

impl CommitRange {
    /// Parses `commit, :modes and oids, path, :…, path, commit, …`.
    fn read(&mut self, changes: &[u8]) {
        let mut fields = changes.split(|&byte| byte == 0);
        let mut commit = None;
        while let Some(field) = fields.next() {
            let Some(raw) = field.strip_prefix(b":") else {
                commit = std::str::from_utf8(field).ok().and_then(Oid::parse);
                continue;
            };
            let path = fields
                .next()
                .map(|path| PathBuf::from(OsStr::from_bytes(path)));
            let raw = String::from_utf8_lossy(raw);
            let words: Vec<&str> = raw.split(' ').collect();
            if let (Some(commit), Some(path), [old, new, was, is, ..]) = (&commit, path, &words[..])
            {
                self.add(commit, path, ([*old, *new], [*was, *is]));
            }
        }
    }

    fn add(&mut self, commit: &Oid, path: PathBuf, (modes, oids): ([&str; 2], [&str; 2])) {
        let is_content = |mode: &str| mode != "000000" && mode != "160000";
        let [Some(was), Some(is)] = oids.map(Oid::parse) else {
            return;
        };
        if is_content(modes[0]) && !self.new.contains(&was) {
            self.before.insert(was);
        }
        self.last.entry(path.clone()).or_insert_with(|| is.clone());
        if modes[0] == "000000" {
            self.names.insert(path.clone());
        }
        if is_content(modes[1]) && self.new.contains(&is) {
            self.by.entry(is.clone()).or_insert_with(|| commit.clone());
            self.blobs.push((is, path));
        }
    }

    fn describe(&self, oid: &Oid, why: &str) -> String {
        let path = self.blobs.iter().find(|(blob, _)| blob == oid);
        match path {
            Some((_, path)) => format!("{} {why}", redacted_path(path, &Redactor::default())),
            None => format!("{} {why}", oid.short()),
        }
    }

    fn report(&self, objects: &ScannedObjects, known: &[Match], credentials: &Redactor) -> Scanned {
        let mut scanned = Scanned::default();
        let known_texts: HashSet<&[u8]> = known.iter().map(|secret| &secret.text[..]).collect();
        let mut reported = HashSet::new();
        for (blob, path) in &self.blobs {
            for secret in objects.secrets.get(blob).into_iter().flatten() {
                if known_texts.contains(&secret.text[..])
                    || !reported.insert((path, secret.kind, &secret.text))
                {
                    continue;
                }
                let name = redacted_path(path, credentials);
                let earlier = self.last.get(path) != Some(blob);
                let commit = self.by.get(blob).filter(|_| earlier);
                let of =
                    commit.map_or_else(String::new, |oid| format!(" in commit {}", oid.short()));
                scanned.secrets.push(LeakedSecret {
                    place: format!("{name}:{}{of}", secret.line),
                    path: Some(name),
                    line: secret.line,
                    kind: secret.kind,
                });
            }
        }
        for path in &self.names {
            for secret in find(path.as_os_str().as_bytes(), credentials) {
                let place = format!("the name of the file {}", redacted_path(path, credentials));
                scanned
                    .secrets
                    .push(LeakedSecret::outside(secret.kind, place));
            }
        }
        for commit in &self.commits {
            let place = format!("commit {}: its message, or a name in it", commit.short());
            for secret in objects.secrets.get(commit).into_iter().flatten() {
                scanned
                    .secrets
                    .push(LeakedSecret::outside(secret.kind, place.clone()));
            }
            if objects.hidden.contains(commit) {
                scanned.hidden.push(commit.short().to_owned());
            }
        }
        scanned.secrets.truncate(FOUND_MAX);
        scanned.hidden.truncate(FOUND_MAX);
        scanned
    }
}

impl LeakedSecret {
    fn outside(kind: &'static str, place: String) -> Self {
        Self {
            path: None,
            line: 0,
            kind,
            place,
        }
    }
}

/// Returns a path for people, with secrets redacted.
fn redacted_path(path: &Path, credentials: &Redactor) -> String {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    for secret in find(&bytes.clone(), credentials) {
        let at = bytes
            .windows(secret.text.len())
            .position(|part| part == secret.text);
        if let Some(at) = at {
            bytes.splice(at..at + secret.text.len(), *b"[redacted]");
        }
    }
    plain(&String::from_utf8_lossy(&bytes), NAME_CHARS_MAX)
}
