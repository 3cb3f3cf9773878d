//! Prepares the data directory: it must belong to the person and be closed to all other users.
//!
//! The directory has transcripts, briefs and the token of the running server. On a shared machine
//! every other user could read them.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use engine::private_files;

use crate::failure::{ExitKind, Failure};

/// Permission bits of the group and of others.
const OTHERS_MODE: u32 = 0o077;
/// Maximum depth of our own files: `tickets/ID/jobs/N/run-F/head/sandbox-1/proof.json`, and a
/// margin.
const DEPTH_MAX: usize = 9;
// A directory with more is closed at its top, which is enough.
const ENTRIES_MAX: usize = 200_000;
/// Directories that are closed at their top only. Their files belong to agents or git, and keep the
/// modes that those need.
const CLOSED_DIRECTORIES: [&str; 20] = [
    "aside",
    "base",
    "caches",
    "change",
    "changes",
    "checkout",
    "copy",
    "copy-changes",
    "git",
    "home",
    "homes",
    "layers",
    "mirrors",
    "repositories",
    "repository",
    "scratch",
    "supplies",
    "tmp",
    "trees",
    "worktree",
];

/// Creates the directory if it is missing, and closes one that others can read. Returns a note for
/// the person if something changed.
pub fn prepare(data: &Path) -> Result<Option<String>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::error(format!(
            "cannot create the data directory {}: {error}",
            data.display()
        ))
        .hint("choose another with --data-dir DIR")
    };
    private_files::make_dir(data).map_err(failed)?;
    let metadata = fs::metadata(data).map_err(failed)?;
    require_ownership(data, &metadata)?;
    // Checked at every start, so only the top entries are looked at.
    let mut open: Vec<PathBuf> = entries(data).filter(|path| is_open(path)).collect();
    if metadata.mode() & OTHERS_MODE == 0 && open.is_empty() {
        return Ok(None);
    }
    if metadata.mode() & OTHERS_MODE != 0 {
        restrict(data, &metadata);
    }
    // Other open files are below one of these entries.
    open.extend(entries(data));
    open.sort();
    open.dedup();
    let closed = open
        .into_iter()
        .fold(0, |closed, path| closed + restrict_below(&path));
    let (old_mode, data) = (metadata.mode() & 0o777, data.display());
    let inside = match closed {
        1 => "1 file or directory".to_owned(),
        count => format!("{count} files and directories"),
    };
    if old_mode & OTHERS_MODE == 0 {
        return Ok(Some(format!(
            "in {data}, {inside} were open to other users of this machine; it is now closed to them"
        )));
    }
    Ok(Some(format!(
        "{data} could be read by other users of this machine (mode {old_mode:04o}); it is now \
         closed to them, with {inside} in it"
    )))
}

// The owner of the directory could read and change everything in it.
fn require_ownership(data: &Path, metadata: &Metadata) -> Result<(), Failure> {
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() == us {
        return Ok(());
    }
    Err(Failure::new(
        ExitKind::Usage,
        format!(
            "the data directory {} belongs to another user (uid {}; you are uid {us})",
            data.display(),
            metadata.uid()
        ),
    )
    .hint("choose your own with --data-dir DIR, or run countersign as its owner"))
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Tells whether others have access. Links are left out: their target is not ours.
fn is_open(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| !metadata.is_symlink() && metadata.mode() & OTHERS_MODE != 0)
}

/// Removes the access of others. A failure is harmless, because the directory above is closed.
fn restrict(path: &Path, metadata: &Metadata) -> bool {
    // The owner's bits and the special bits stay as they are.
    let mode = metadata.mode() & 0o7777 & !OTHERS_MODE;
    fs::set_permissions(path, Permissions::from_mode(mode)).is_ok()
}

/// Closes everything from here down; returns how many were open.
fn restrict_below(top: &Path) -> usize {
    let (mut closed, mut visited) = (0, 0);
    let mut waiting = vec![(top.to_owned(), 0)];
    // A loop and no recursion, because the depth is not ours to choose.
    while let Some((path, depth)) = waiting.pop() {
        visited += 1;
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        let is_regular = metadata.is_dir() || metadata.is_file();
        // A file with a second hard link may belong to the person.
        let is_ours = is_regular && (metadata.is_dir() || metadata.nlink() == 1);
        if is_ours && metadata.mode() & OTHERS_MODE != 0 {
            closed += usize::from(restrict(&path, &metadata));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_closed_dir = CLOSED_DIRECTORIES.contains(&name.as_ref());
        if metadata.is_dir() && !is_closed_dir && depth < DEPTH_MAX && visited < ENTRIES_MAX {
            waiting.extend(entries(&path).map(|path| (path, depth + 1)));
        }
    }
    closed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_open_is_closed_and_what_agents_work_in_keeps_its_modes() {
        for top in [0o755, 0o775, 0o777, 0o700, 0o711] {
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join("data");
            let run = data.join("tickets/T-1/jobs/1/run-1");
            let worktree = data.join("tickets/T-1/worktree");
            fs::create_dir_all(&run).unwrap();
            fs::create_dir_all(&worktree).unwrap();
            let files = [
                "countersign.db",
                "tickets/T-1/jobs/1/run-1/transcript.log",
                "tickets/T-1/worktree/run.sh",
            ];
            for (file, mode) in files.iter().zip([0o644, 0o664, 0o755]) {
                fs::write(data.join(file), "x").unwrap();
                fs::set_permissions(data.join(file), Permissions::from_mode(mode)).unwrap();
            }
            let outside = dir.path().join("outside");
            fs::write(&outside, "the person's").unwrap();
            fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
            std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
            fs::set_permissions(&data, Permissions::from_mode(top)).unwrap();

            assert!(prepare(&data).unwrap().is_some(), "{top:o}");
            assert_eq!(prepare(&data).unwrap(), None, "told once");
            for (path, wanted) in [
                ("", 0o700),
                ("countersign.db", 0o600),
                ("tickets", 0o700),
                ("tickets/T-1/jobs/1/run-1/transcript.log", 0o600),
                ("tickets/T-1/worktree", 0o700),
                ("tickets/T-1/worktree/run.sh", 0o755),
            ] {
                assert_eq!(mode(&data.join(path)), wanted, "{path} under {top:o}");
            }
            assert_eq!(mode(&outside), 0o644);
        }
    }
}
