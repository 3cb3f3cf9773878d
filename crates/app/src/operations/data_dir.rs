//! The data directory: the person's own, and closed to everybody else on the machine.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use engine::private;

use crate::failure::{ExitKind, Failure};

/// What others may do with a file.
const OTHERS: u32 = 0o077;
/// How deep our own files lie: `tickets/ID/jobs/N/run-F/head/sandbox-1/proof.json`, and some more.
const DEPTH_MAX: usize = 9;
const ENTRIES_MAX: usize = 200_000;
/// Directories that are closed as a whole: what is in them is the agents' or git's, with the modes
/// that those need.
const WHOLE: [&str; 15] = [
    "aside",
    "base",
    "change",
    "checkout",
    "copy",
    "git",
    "home",
    "homes",
    "mirrors",
    "repositories",
    "repository",
    "scratch",
    "supplies",
    "tmp",
    "worktree",
];

/// Makes the directory where there is none, and closes one that others can look into. Answers what
/// the person should know.
pub fn prepare(data: &Path) -> Result<Option<String>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::error(format!(
            "the data directory {} cannot be made: {error}",
            data.display()
        ))
        .hint("say where data may go with --data-dir DIR")
    };
    private::make_dir(data).map_err(failed)?;
    let found = fs::metadata(data).map_err(failed)?;
    must_be_ours(data, &found)?;
    let mut open: Vec<PathBuf> = entries(data).filter(|path| is_open(path)).collect();
    if found.mode() & OTHERS == 0 && open.is_empty() {
        return Ok(None);
    }
    if found.mode() & OTHERS != 0 {
        close(data, &found);
    }
    // Whatever else is open lies below one that is.
    open.extend(entries(data));
    open.sort();
    open.dedup();
    let closed = open
        .into_iter()
        .fold(0, |closed, path| closed + close_below(&path));
    let (was, data) = (found.mode() & 0o777, data.display());
    Ok(Some(format!(
        "{data} could be read by other users of this machine (mode {was:04o}); it is now closed to \
         them, with {closed} file(s) and directories in it"
    )))
}

fn must_be_ours(data: &Path, found: &Metadata) -> Result<(), Failure> {
    let us = rustix::process::geteuid().as_raw();
    if found.uid() == us {
        return Ok(());
    }
    Err(Failure::new(
        ExitKind::Usage,
        format!(
            "the data directory {} belongs to another user (uid {}; you are uid {us})",
            data.display(),
            found.uid()
        ),
    )
    .hint("name one of your own with --data-dir DIR, or run countersign as its owner"))
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let found = fs::read_dir(dir).into_iter().flatten().flatten();
    found.map(|entry| entry.path())
}

/// Links are what they lead to, which is not ours.
fn is_open(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink() && found.mode() & OTHERS != 0)
}

/// One that cannot be closed lies in a directory that is.
fn close(path: &Path, found: &Metadata) -> bool {
    let mode = found.mode() & 0o7777 & !OTHERS;
    fs::set_permissions(path, Permissions::from_mode(mode)).is_ok()
}

/// How many were open, from here down.
fn close_below(top: &Path) -> usize {
    let (mut closed, mut seen) = (0, 0);
    let mut waiting = vec![(top.to_owned(), 0)];
    while let Some((path, depth)) = waiting.pop() {
        seen += 1;
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        let plain = found.is_dir() || found.is_file();
        // A file with a second name elsewhere may be the person's.
        let ours = plain && (found.is_dir() || found.nlink() == 1);
        if ours && found.mode() & OTHERS != 0 {
            closed += usize::from(close(&path, &found));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let whole = WHOLE.contains(&name.as_ref());
        if found.is_dir() && !whole && depth < DEPTH_MAX && seen < ENTRIES_MAX {
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
