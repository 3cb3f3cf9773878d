//! Journal of a landing, on disk before it begins: after a kill or a power cut, the next landing
//! finishes or undoes it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::stale_locks::remove_file;
use super::super::{Error, Oid, Repository, WorkTreeDirs};
use super::files::FileStep;
use super::{STAGE, WorkTreePlan};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LandingJournal {
    pub branch: String,
    pub old: Oid,
    pub new: Oid,
    places: Vec<JournalWorkTree>,
}

#[derive(Debug, Serialize, Deserialize)]
struct JournalWorkTree {
    #[serde(with = "path_text")]
    git_dir: PathBuf,
    #[serde(with = "path_text")]
    path: PathBuf,
    #[serde(with = "path_text")]
    stage: PathBuf,
    steps: Vec<FileStep>,
}

impl LandingJournal {
    pub fn new(branch: &str, old: &Oid, new: &Oid, plans: &[WorkTreePlan]) -> Self {
        let place = |plan: &WorkTreePlan| JournalWorkTree {
            git_dir: plan.place.git_dir.clone(),
            path: plan.place.path.clone(),
            stage: plan.stage.clone(),
            steps: plan.steps.clone(),
        };
        Self {
            branch: branch.to_owned(),
            old: old.clone(),
            new: new.clone(),
            places: plans.iter().map(place).collect(),
        }
    }

    pub fn into_plans(self) -> Vec<WorkTreePlan> {
        let plan = |place: JournalWorkTree| WorkTreePlan {
            place: WorkTreeDirs {
                git_dir: place.git_dir,
                path: place.path,
            },
            stage: place.stage,
            steps: place.steps,
            outside: Vec::new(),
            submodules: Vec::new(),
        };
        self.places.into_iter().map(plan).collect()
    }
}

impl Repository {
    fn journal_file(&self) -> PathBuf {
        self.common.join(STAGE).join("journal.json")
    }

    /// Returns whether a landing is under way, or was killed.
    pub(super) fn has_journal(&self) -> bool {
        self.journal_file().exists()
    }

    /// Writes the journal atomically; it is on disk when this returns.
    pub(super) fn write_journal(&self, journal: &LandingJournal) -> Result<(), Error> {
        let file = self.journal_file();
        let text = serde_json::to_vec(journal).map_err(|error| Error::file(&file)(error.into()))?;
        write_durably(&file, &text)
    }

    /// Reads the journal. Returns `None` if there is none, or if it is unreadable: it is written
    /// atomically, so nothing was begun under it.
    pub(super) fn read_journal(&self) -> Option<LandingJournal> {
        serde_json::from_slice(&fs::read(self.journal_file()).ok()?).ok()
    }

    pub(super) fn remove_journal(&self) -> Result<(), Error> {
        remove_file(&self.journal_file())
    }
}

/// Replaces a file in one step. The file and its name are on disk when this returns.
pub(in super::super) fn write_durably(file: &Path, text: &[u8]) -> Result<(), Error> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).map_err(Error::file(dir))?;
    let part = file.with_extension("part");
    // Nobody else needs to read it, neither in our data directory nor in a git directory.
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let result = options.open(&part).and_then(|mut open| {
        open.write_all(text)?;
        open.sync_all()
    });
    result.map_err(Error::file(&part))?;
    fs::rename(&part, file).map_err(Error::file(file))?;
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(Error::file(dir))
}

/// Encodes a path as text without losing any byte.
pub(super) mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&encode(path))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        decode(&text).ok_or_else(|| serde::de::Error::custom("not an encoded path"))
    }

    pub fn encode(path: &Path) -> String {
        let bytes = path.as_os_str().as_bytes().iter();
        let encoded = bytes.map(|&byte| match byte {
            b'%' | 0..=0x1f | 0x7f..=0xff => format!("%{byte:02x}"),
            _ => char::from(byte).to_string(),
        });
        encoded.collect()
    }

    pub fn decode(text: &str) -> Option<PathBuf> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        }
        Some(PathBuf::from(OsString::from_vec(bytes)))
    }
}
