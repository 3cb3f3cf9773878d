//! Keeps objects that an agent made, or that we make from its files, out of the repository until
//! git's own strict check accepts them. Until then they are in a separate directory, where nothing
//! refers to them.
//!
//! Git does not check objects strictly that were written locally, and a crafted one could harm any
//! later clone of the repository.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use regex::Regex;

use super::command::GitCommand;
use super::nested::plain;
use super::remove::remove_tree;
use super::state::sync_file;
use super::{Error, Oid, Repository, WorkTreeDirs};

/// Directory of ours in a worktree's git directory.
const APART: &str = "countersign-apart";
/// Maximum number of problems that a message lists.
const PROBLEMS_MAX: usize = 10;
const TOLD_CHARS_MAX: usize = 300;

/// Matches `error: object 1234…: gitmodulesUrl: disallowed submodule url: …`. The texts are git's
/// own; `LC_ALL` in our environment keeps them in English.
static COMPLAINT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)object ([0-9a-f]{40,64}): (.*)$").ok());

impl Repository {
    /// Returns the same repository with a separate directory for new objects, and that directory.
    pub(super) fn apart(&self, place: &WorkTreeDirs) -> Result<(Self, PathBuf), Error> {
        let dir = place.git_dir.join(APART);
        remove_tree(&dir).map_err(Error::file(&dir))?;
        let objects = dir.join("objects");
        let info = objects.join("info");
        fs::create_dir_all(&info).map_err(Error::file(&info))?;
        // Without the alternates git would not find the objects that the new ones refer to.
        let alternates = info.join("alternates");
        let line = [self.common.join("objects").as_os_str().as_bytes(), b"\n"].concat();
        fs::write(&alternates, line).map_err(Error::file(&alternates))?;
        let mut apart = self.clone();
        apart.quarantine_objects = Some(objects);
        Ok((apart, dir))
    }

    /// Copies the objects that `new` needs beyond `old` from another object store, if git's strict
    /// check accepts them.
    pub(super) async fn take_objects(
        &self,
        new: &Oid,
        old: &Oid,
        from: &Path,
    ) -> Result<(), Error> {
        // Use a new name: a run that was killed may have copied the same commits, and overwriting
        // their pack would remove objects that a ref already points to.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let run = format!("{} {} {count}", from.display(), std::process::id());
        let name = crate::hash::short_sha256(run.as_bytes());
        // The name has forty digits, as libraries that read git's files themselves expect.
        let name = format!("objects/pack/pack-{}{name}.pack", &new.as_str()[..24]);
        let pack = self.common.join(name);
        // The name is new by construction, so an existing file is a mistake and must not be
        // overwritten.
        if pack.exists() {
            return Err(Error::file(&pack)(io::ErrorKind::AlreadyExists.into()));
        }
        let git = || {
            self.git().env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                quoted(&from.join("objects")),
            )
        };
        let range = format!("{new}\n^{old}\n");
        let result = self.pack_soundly(git, &range, &pack).await;
        if result.is_ok() {
            // The pack's name must be on disk before a ref that needs it.
            return sync_file(&self.common.join("objects/pack"));
        }
        // Nothing refers to the pack; without its index git does not even see it.
        drop(fs::remove_file(&pack));
        result
    }

    /// Refuses commits whose objects fail git's strict check, wherever they came from. `scratch` is
    /// a directory that may be written to.
    pub async fn must_be_sound(&self, old: &Oid, new: &Oid, scratch: &Path) -> Result<(), Error> {
        let dir = scratch.join(APART);
        remove_tree(&dir).map_err(Error::file(&dir))?;
        crate::private_files::make_dir(&dir).map_err(Error::file(&dir))?;
        let range = format!("{new}\n^{old}\n");
        let pack = dir.join("objects.pack");
        let result = self.pack_soundly(|| self.git(), &range, &pack).await;
        remove_tree(&dir).map_err(Error::file(&dir))?;
        result
    }

    /// Packs a range and runs the strict check of `git index-pack` on it. Only a pack is checked as
    /// a whole: `git fsck` would read the whole repository instead.
    async fn pack_soundly<'a>(
        &self,
        git: impl Fn() -> GitCommand<'a>,
        range: &str,
        pack: &Path,
    ) -> Result<(), Error> {
        let args = [
            "pack-objects",
            "--revs",
            "--stdout",
            "--delta-base-offset",
            "-q",
        ];
        let packed = git().args(args).stdin(range).stdout_to(pack);
        packed.run().await?;
        // Git syncs the index that it writes, but not an existing pack.
        sync_file(pack)?;
        let index = self.git().args(["index-pack", "--strict"]).args([pack]);
        match index.run().await {
            Err(Error::Failed { detail, .. }) if detail.contains("fsck error") => {
                Err(unsound(git(), range, &detail).await)
            }
            other => other,
        }
    }
}

/// Converts git's complaints to an error, with the paths of the objects in the commits.
async fn unsound(git: GitCommand<'_>, range: &str, detail: &str) -> Error {
    let listed = git.args(["rev-list", "--objects", "--stdin"]).stdin(range);
    let listed = listed
        .output()
        .await
        .map(|output| output.out)
        // Without names the error is less helpful, but still an error.
        .unwrap_or_default();
    let name_of = |oid: &str| {
        let mut lines = listed.split(|byte| *byte == b'\n');
        let name = lines.find_map(|line| line.strip_prefix(oid.as_bytes())?.strip_prefix(b" "))?;
        (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
    };
    let (mut what, mut paths) = (Vec::new(), Vec::new());
    for captures in COMPLAINT
        .iter()
        .flat_map(|shape| shape.captures_iter(detail))
    {
        let name = name_of(&captures[1]);
        let line = match &name {
            Some(name) => format!("{}: {}", name.display(), &captures[2]),
            None => format!("a directory or commit ({})", &captures[2]),
        };
        // An agent can make thousands of bad files; the list is for a person.
        if what.len() < PROBLEMS_MAX {
            what.push(plain(&line, TOLD_CHARS_MAX));
        }
        paths.extend(name);
    }
    if what.is_empty() {
        what.push(plain(detail, TOLD_CHARS_MAX));
    }
    paths.sort();
    paths.dedup();
    Error::Unsound { what, paths }
}

/// Quotes a path for a list separated by colons, as git reads it.
fn quoted(path: &Path) -> OsString {
    let mut out = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0x20..=0x7e => out.push(byte),
            _ => out.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    out.push(b'"');
    OsString::from_vec(out)
}
