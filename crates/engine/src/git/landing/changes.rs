//! The changes of a landing, path by path, and whether a work tree can take them without losing
//! anything.
//!
//! A path is changed only if its file has exactly the content of the old or the new commit. Times
//! that git remembers are not enough: an edit within the same instant shows only in the content.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::super::{Error, Oid, Repository, WorkTreeDirs};
use super::files::{FileStamp, FileStep};

/// Maximum number of paths passed to git; with more, it lists everything.
const NAMED_PATHS_MAX: usize = 200;
/// Maximum number of entries of a directory that are read; a larger directory counts as in the way.
const ENTRIES_MAX: usize = 10_000;

const GITLINK: u32 = 0o160_000;
const SYMLINK: u32 = 0o120_000;
const EXECUTABLE: u32 = 0o100_755;

/// One side of a changed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub mode: u32,
    pub oid: Oid,
}

/// A path that differs between two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeChange {
    pub path: PathBuf,
    pub old: Option<TreeEntry>,
    pub new: Option<TreeEntry>,
}

impl TreeChange {
    fn old_file(&self) -> Option<&TreeEntry> {
        self.old.as_ref().filter(|entry| entry.mode != GITLINK)
    }

    pub fn new_file(&self) -> Option<&TreeEntry> {
        self.new.as_ref().filter(|entry| entry.mode != GITLINK)
    }

    /// Returns whether this is a submodule; git creates an empty directory for it.
    pub fn is_new_submodule(&self) -> bool {
        self.new.as_ref().is_some_and(|entry| entry.mode == GITLINK)
    }
}

/// Steps for one work tree.
#[derive(Debug, Default)]
pub(super) struct WorkTreeSteps {
    pub steps: Vec<FileStep>,
    /// New paths outside a sparse checkout. They are only in the index.
    pub outside: Vec<PathBuf>,
}

/// Settings of a work tree that control how its files represent those of the repository.
#[derive(Debug)]
struct TreeSettings {
    file_mode: bool,
    symlinks: bool,
}

/// Current state of a path, with its stamp.
enum PathState {
    Nothing,
    File { stamp: FileStamp, executable: bool },
    Link(FileStamp),
    Directory,
    Other,
}

impl Repository {
    /// Returns every path that differs between the two commits.
    pub(super) async fn tree_changes(
        &self,
        old: &Oid,
        new: &Oid,
    ) -> Result<Vec<TreeChange>, Error> {
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
        ];
        let run = self.git().args(args).args([old.as_str(), new.as_str()]);
        let output = run.output().await?;
        if output.cut {
            return Err(Error::TooLarge("diff-tree".to_owned()));
        }
        let mut fields = output.out.split(|&byte| byte == 0);
        let mut changes = Vec::new();
        while let (Some(raw), Some(path)) = (fields.next(), fields.next()) {
            let change = parse_change(raw, path).ok_or_else(|| Error::Failed {
                verb: "diff-tree".to_owned(),
                dir: self.common.clone(),
                detail: format!("cannot use {:?}", String::from_utf8_lossy(path)),
            })?;
            changes.push(change);
        }
        Ok(changes)
    }

    /// Computes the steps that change the files of the work tree from the old to the new commit,
    /// whose index is `next`. The inner error says which change of the user is in the way.
    pub(super) async fn plan_file_steps(
        &self,
        place: &WorkTreeDirs,
        changes: &[TreeChange],
        next: &Path,
    ) -> Result<Result<WorkTreeSteps, String>, Error> {
        let settings = self.tree_settings(place).await?;
        let hidden = self.hidden_paths(place, changes, next).await?;
        let (excluded, visible): (Vec<&TreeChange>, Vec<&TreeChange>) = changes
            .iter()
            .partition(|change| hidden.contains(&change.path));
        let states: Vec<PathState> = visible
            .iter()
            .map(|change| path_state(&place.path, &change.path))
            .collect();
        let contents = self.work_tree_oids(place, &visible, &states).await?;
        let view = WorkTreeView {
            root: &place.path,
            settings: &settings,
            contents: &contents,
            removed: visible
                .iter()
                .filter(|change| change.old.is_some() && change.new_file().is_none())
                .map(|change| change.path.as_path())
                .collect(),
        };
        let mut steps = Vec::new();
        for (change, state) in visible.iter().zip(states) {
            match view.step(change, state) {
                Ok(step) => steps.extend(step),
                Err(why) => return Ok(Err(why)),
            }
        }
        // Remove before adding: a file may become a directory, or the reverse.
        steps.sort_by_key(FileStep::adds_file);
        Ok(Ok(WorkTreeSteps {
            steps,
            outside: excluded
                .into_iter()
                .filter(|change| change.old.is_none())
                .map(|change| change.path.clone())
                .collect(),
        }))
    }

    async fn tree_settings(&self, place: &WorkTreeDirs) -> Result<TreeSettings, Error> {
        let listed = self.git_at(place).args(["config", "--list", "-z"]);
        let fields = listed.fields().await?;
        let is_on = |name: &str, default: bool| {
            let setting = fields.iter().rev().find_map(|field| {
                let (key, value) = field.split_once('\n').unwrap_or((field, "true"));
                (key == name).then_some(value)
            });
            setting.map_or(default, |value| {
                !["false", "no", "off", "0", ""].contains(&value.to_lowercase().as_str())
            })
        };
        Ok(TreeSettings {
            file_mode: is_on("core.filemode", true),
            symlinks: is_on("core.symlinks", true),
        })
    }

    /// Returns the changed paths that the index excludes from the work tree.
    async fn hidden_paths(
        &self,
        place: &WorkTreeDirs,
        changes: &[TreeChange],
        index: &Path,
    ) -> Result<HashSet<PathBuf>, Error> {
        let mut run = self
            .git_at(place)
            .index(index)
            .env("GIT_LITERAL_PATHSPECS", "1")
            .args(["ls-files", "-t", "-z", "--"]);
        if changes.len() <= NAMED_PATHS_MAX {
            run = run.args(changes.iter().map(|change| change.path.as_os_str()));
        }
        let output = run.output().await?;
        if output.cut {
            return Err(Error::TooLarge("ls-files".to_owned()));
        }
        let entries = output.out.split(|&byte| byte == 0);
        Ok(entries
            .filter_map(|entry| entry.strip_prefix(b"S "))
            .map(as_path)
            .collect())
    }

    /// Returns the object names of the files in the work tree, as git would store them.
    async fn work_tree_oids(
        &self,
        place: &WorkTreeDirs,
        changes: &[&TreeChange],
        states: &[PathState],
    ) -> Result<HashMap<PathBuf, Oid>, Error> {
        let mut files = Vec::new();
        let mut oids_by_path = HashMap::new();
        for (change, state) in changes.iter().zip(states) {
            match state {
                PathState::File { .. } => files.push(&change.path),
                PathState::Link(_) => {
                    let full = place.path.join(&change.path);
                    let target = fs::read_link(&full).map_err(Error::file(&full))?;
                    let args = ["hash-object", "--stdin", "--no-filters"];
                    let run = self.git().args(args).stdin(target.as_os_str().as_bytes());
                    oids_by_path.insert(change.path.clone(), run.oid().await?);
                }
                PathState::Nothing | PathState::Directory | PathState::Other => {}
            }
        }
        if files.is_empty() {
            return Ok(oids_by_path);
        }
        let mut names = Vec::new();
        for path in &files {
            names.extend(quote_path(path.as_os_str().as_bytes()));
            names.push(b'\n');
        }
        let run = self
            .git_at(place)
            .args(["hash-object", "--stdin-paths"])
            .stdin(names);
        let text = run.text().await?;
        let oids = text.lines().map(Oid::parse);
        oids_by_path.extend(
            files
                .into_iter()
                .zip(oids)
                .filter_map(|(path, oid)| Some((path.clone(), oid?))),
        );
        Ok(oids_by_path)
    }
}

/// The part of a work tree that a landing needs to know.
struct WorkTreeView<'a> {
    root: &'a Path,
    settings: &'a TreeSettings,
    contents: &'a HashMap<PathBuf, Oid>,
    /// Paths that the landing removes.
    removed: HashSet<&'a Path>,
}

impl WorkTreeView<'_> {
    /// Returns the step for a path, if one is needed.
    fn step(&self, change: &TreeChange, state: PathState) -> Result<Option<FileStep>, String> {
        let path = &change.path;
        let shown = path.display();
        let new = change.new_file();
        if new.is_some() {
            self.ensure_parent_dirs_free(path)?;
        }
        match (change.old_file(), state) {
            (Some(_), PathState::Nothing) | (None, _) if new.is_none() => Ok(None),
            (Some(_), PathState::Nothing) => Err(format!("{shown} was deleted there")),
            (Some(old), state @ (PathState::File { .. } | PathState::Link(_))) => {
                if self.matches_entry(path, &state, old) {
                    return Ok(Some(FileStep::new(path, state.stamp(), new.is_some())));
                }
                match new {
                    Some(new) if self.matches_entry(path, &state, new) => Ok(None),
                    _ => Err(format!("{shown} there has changes that are not committed")),
                }
            }
            (Some(_), PathState::Directory | PathState::Other) => {
                Err(format!("{shown} there is no longer a file"))
            }
            (None, PathState::Nothing) => Ok(Some(FileStep::new(path, None, true))),
            (None, PathState::Directory) if self.is_emptied_by_landing(path) => {
                Ok(Some(FileStep::new(path, None, true)))
            }
            (None, state) => match new {
                Some(new) if self.matches_entry(path, &state, new) => Ok(None),
                _ if self.is_removed_by_another_name(path) => {
                    Ok(Some(FileStep::new(path, None, true)))
                }
                _ => Err(format!(
                    "{shown} exists there, is not in git, and would be overwritten"
                )),
            },
        }
    }

    /// Returns whether a file has the kind, mode and content of a tree entry.
    fn matches_entry(&self, path: &Path, state: &PathState, entry: &TreeEntry) -> bool {
        let same_kind = match state {
            PathState::File { executable, .. } if entry.mode == SYMLINK => {
                !self.settings.symlinks && !executable
            }
            PathState::File { executable, .. } => {
                !self.settings.file_mode || *executable == (entry.mode == EXECUTABLE)
            }
            PathState::Link(_) => entry.mode == SYMLINK,
            PathState::Nothing | PathState::Directory | PathState::Other => false,
        };
        same_kind && self.contents.get(path) == Some(&entry.oid)
    }

    /// Checks that every directory above the path is a real one, or can be created.
    fn ensure_parent_dirs_free(&self, path: &Path) -> Result<(), String> {
        for dir in path.ancestors().skip(1) {
            if dir.as_os_str().is_empty() {
                break;
            }
            let meta = fs::symlink_metadata(self.root.join(dir));
            if meta.is_ok_and(|meta| !meta.is_dir()) && !self.removed.contains(dir) {
                let (dir, path) = (dir.display(), path.display());
                return Err(format!("{dir} there is in the way of {path}"));
            }
        }
        Ok(())
    }

    /// Returns whether the directory is empty after the landing has removed its files.
    fn is_emptied_by_landing(&self, dir: &Path) -> bool {
        let mut pending = vec![dir.to_owned()];
        let mut count = 0;
        while let Some(dir) = pending.pop() {
            let Ok(entries) = fs::read_dir(self.root.join(&dir)) else {
                return false;
            };
            for entry in entries {
                count += 1;
                let Ok(entry) = entry else { return false };
                let path = dir.join(entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && count < ENTRIES_MAX => pending.push(path),
                    Ok(_) if self.removed.contains(path.as_path()) && count < ENTRIES_MAX => {}
                    Ok(_) | Err(_) => return false,
                }
            }
        }
        true
    }

    /// Returns whether the path is a removed one whose name differs only in case, on a file system
    /// that ignores case.
    fn is_removed_by_another_name(&self, path: &Path) -> bool {
        let here = FileStamp::at(&self.root.join(path));
        let folded = path.to_string_lossy().to_lowercase();
        here.is_some()
            && self.removed.iter().any(|other| {
                other.to_string_lossy().to_lowercase() == folded
                    && FileStamp::at(&self.root.join(other)) == here
            })
    }
}

impl PathState {
    fn stamp(&self) -> Option<FileStamp> {
        match self {
            Self::File { stamp, .. } | Self::Link(stamp) => Some(*stamp),
            Self::Nothing | Self::Directory | Self::Other => None,
        }
    }
}

/// Returns the state of a path. A path behind a symbolic link counts as nothing: it is a file
/// outside the work tree.
fn path_state(root: &Path, path: &Path) -> PathState {
    let mut above = path.ancestors().skip(1);
    let through_link = above.any(|dir| !dir.as_os_str().is_empty() && root.join(dir).is_symlink());
    let Ok(meta) = fs::symlink_metadata(root.join(path)) else {
        return PathState::Nothing;
    };
    if through_link {
        return PathState::Nothing;
    }
    let (kind, stamp) = (meta.file_type(), FileStamp::of(&meta));
    if kind.is_file() {
        let executable = meta.permissions().mode() & 0o100 != 0;
        PathState::File { stamp, executable }
    } else if kind.is_symlink() {
        PathState::Link(stamp)
    } else if kind.is_dir() {
        PathState::Directory
    } else {
        PathState::Other
    }
}

fn parse_change(raw: &[u8], path: &[u8]) -> Option<TreeChange> {
    let raw = std::str::from_utf8(raw).ok()?.strip_prefix(':')?;
    let mut words = raw.split(' ');
    let modes = [words.next()?, words.next()?];
    let oids = [words.next()?, words.next()?];
    let side = |at: usize| {
        let mode = u32::from_str_radix(modes[at], 8).ok()?;
        let oid = Oid::parse(oids[at])?;
        Some((mode != 0).then_some(TreeEntry { mode, oid }))
    };
    let path = as_path(path);
    is_plain(&path).then_some(())?;
    Some(TreeChange {
        old: side(0)?,
        new: side(1)?,
        path,
    })
}

/// Returns whether a path is relative, without `..` and without `.git`, because we will write to
/// it.
fn is_plain(path: &Path) -> bool {
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        _ => false,
    };
    path.components().count() > 0 && path.components().all(plain)
}

fn as_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Quotes a path for git: `hash-object` reads one path per line.
fn quote_path(path: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for &byte in path {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0x20..=0x7e => out.push(byte),
            _ => out.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_line_is_read_and_one_that_leads_elsewhere_is_not() {
        let (a, zero) = ("1".repeat(40), "0".repeat(40));
        let raw = format!(":000000 100755 {zero} {a} A");
        let change = parse_change(raw.as_bytes(), b"dir/na\nme").unwrap();
        assert_eq!(change.old, None);
        assert_eq!(change.new.unwrap().mode, EXECUTABLE);
        for path in [
            &b"../x"[..],
            b"/etc/x",
            b"a/../b",
            b".git/config",
            b"a/.GIT/x",
            b"",
        ] {
            assert_eq!(parse_change(raw.as_bytes(), path), None, "{path:?}");
        }
        for raw in ["", ":", ":1 2 3 4", "000000 100644 a b A"] {
            assert_eq!(parse_change(raw.as_bytes(), b"x"), None, "{raw}");
        }
    }

    #[test]
    fn a_path_is_quoted_so_that_it_stays_on_its_line() {
        assert_eq!(quote_path(b"a b"), b"\"a b\"");
        assert_eq!(quote_path(b"a\n\"\\\xff"), b"\"a\\012\\\"\\\\\\377\"");
    }
}
