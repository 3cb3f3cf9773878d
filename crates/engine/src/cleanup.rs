//! Removes what runs leave: worktrees, checkouts, scratch directories, homes and layers. It does not
//! decide whether a ticket may lose them; `flow::retention` does.
//!
//! Links are never followed: a run may have left one that points to the person's own files.
//! Everything here may be interrupted. What is left is found by the next call, because the paths
//! are computed and not remembered.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flow::Ticket;

use crate::git::{Error, Repository, remove_tree};
use crate::jobs::branch_name;
use crate::project::TicketFiles;
use crate::run_records::numbered_dirs;

/// Maximum number of files whose sizes are added up. A count of more files would take minutes for a
/// number that is only shown.
const COUNTED_MAX: u64 = 5_000_000;

/// Directories of an attempt that are useless once the ticket has ended.
const RUN_DIRS: &[&str] = &["review", "scratch", "home", "git", "tmp", "copy-changes"];
/// Files that stay within these directories: the text that the agent was given.
const KEPT_IN_SCRATCH: &[&str] = &["brief.md"];
/// Directories of a checkout within an attempt: of checks, linters and the setup.
const SITE_DIRS: &[&str] = &["checkout", "home", "tmp", "changes", "set"];
/// Directories and files of a ticket besides its worktree.
const TICKET_FILES: &[&str] = &[
    "homes",
    "caches",
    "trees",
    "set-up",
    "worktree.aside",
    "views",
];

/// Returns the existing files and directories of a ticket that only its runs needed: everything but
/// transcripts, briefs, records, output of checks and findings documents.
pub fn working_files(files: &TicketFiles) -> Vec<PathBuf> {
    let dir = files.dir();
    let mut paths: Vec<PathBuf> = TICKET_FILES.iter().map(|name| dir.join(name)).collect();
    paths.push(files.worktree_dir());
    for (_, job) in numbered_dirs(&files.jobs_dir(), "") {
        for (_, run) in numbered_dirs(&job, "run-") {
            paths.extend(RUN_DIRS.iter().flat_map(|name| removable_in(&run, name)));
            let sites = fs::read_dir(&run).into_iter().flatten().flatten();
            for site in sites.map(|entry| entry.path()).filter(|path| is_dir(path)) {
                // The directories of the run itself are in the list already.
                if !RUN_DIRS.iter().any(|name| site.ends_with(name)) {
                    paths.extend(SITE_DIRS.iter().map(|name| site.join(name)));
                }
            }
        }
    }
    // A broken link still has to go, so the link itself is asked for and not its target.
    paths.retain(|path| path.symlink_metadata().is_ok());
    paths
}

/// Returns a directory of a run, or its entries where one of them stays.
fn removable_in(run: &Path, name: &str) -> Vec<PathBuf> {
    let dir = run.join(name);
    let stays = |path: &Path| KEPT_IN_SCRATCH.iter().any(|kept| path.ends_with(kept));
    // A link in the place of the directory goes as a whole; nothing behind it is listed.
    if name != "scratch" || !is_dir(&dir) {
        return vec![dir];
    }
    let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
    let entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    if !entries.iter().any(|path| stays(path)) {
        return vec![dir];
    }
    entries.into_iter().filter(|path| !stays(path)).collect()
}

fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// Removes the working files of a ticket. The worktree is unregistered first, so that git lets the
/// person delete the branch; uncommitted changes in it are kept under a ref. `git` is the ticket's
/// repository, or `None` if that no longer exists.
pub async fn remove_working_files(
    git: Option<&Repository>,
    files: &TicketFiles,
    ticket: &Ticket,
) -> Result<(), Error> {
    if let Some(git) = git {
        // The ref keeps changes that were never committed: removing files must not lose a builder's
        // work.
        let keep = format!("refs/countersign/{}/leftovers-end", ticket.id);
        // The worktree may be missing if an earlier cleanup was interrupted; the files go all the
        // same.
        let worktree = git.find_worktree(&branch_name(ticket), &files.worktree_dir());
        if let Some(worktree) = worktree {
            git.remove_worktree(&worktree, &keep).await?;
        }
    }
    let paths = working_files(files);
    // Removing a checkout takes seconds, too long for an async thread.
    let removing = tokio::task::spawn_blocking(move || {
        for path in paths {
            remove_tree(&path).map_err(|source| Error::File { path, source })?;
        }
        Ok(())
    });
    // An unfinished removal must not count as done.
    let dir = files.dir();
    removing.await.unwrap_or_else(|failed| {
        let source = io::Error::other(failed);
        Err(Error::File { path: dir, source })
    })
}

/// Removes the transcripts of a ticket, with briefs, records and output of checks. Findings
/// documents stay.
pub fn remove_transcripts(files: &TicketFiles) -> io::Result<()> {
    remove_tree(&files.jobs_dir())
}

/// Returns the allocated bytes at and below a path. It follows no link, and stops counting at a
/// limit. Of a file with several names, each counts for its part: layers share files, and the sum
/// over all of them is then what the disk holds.
pub fn disk_usage(path: &Path) -> u64 {
    let size = |meta: &fs::Metadata| {
        // A directory's links are the directories in it, and no other names.
        let names = if meta.is_dir() {
            1
        } else {
            meta.nlink().max(1)
        };
        meta.blocks() * 512 / names
    };
    let Ok(top) = fs::symlink_metadata(path) else {
        return 0;
    };
    let (mut bytes, mut files) = (size(&top), 0);
    let mut dirs = if top.is_dir() {
        vec![path.to_owned()]
    } else {
        Vec::new()
    };
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            // A run may delete files while they are counted.
            let Ok(meta) = entry.metadata() else { continue };
            bytes += size(&meta);
            files += 1;
            if meta.is_dir() {
                dirs.push(entry.path());
            }
            if files >= COUNTED_MAX {
                return bytes;
            }
        }
    }
    bytes
}

/// Logs what the retention removed.
pub fn log_removed(kind: &str, path: &Path, bytes: u64) {
    tracing::info!(kind, bytes, "removed {}", path.display());
}

/// Warns if the directory is larger than the person wants.
pub fn warn_if_larger(dir: &Path, bytes_max: u64) {
    let bytes = disk_usage(dir);
    if bytes > bytes_max {
        let (dir, size) = (dir.display(), bytes / 1_000_000_000);
        tracing::warn!("{dir} has {size} GB; run `countersign clean` to see what can go");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use flow::TicketId;

    use super::*;

    #[test]
    fn records_stay_and_directories_of_runs_go() {
        let data = tempfile::tempdir().unwrap();
        let files = TicketFiles::new(data.path(), &TicketId::new("T-1").unwrap());
        let run = files.run_dir(3, 7);
        let kept = [
            "run.json",
            "transcript.log",
            "answer/result.json",
            "head/test-1.log",
        ];
        let going = [
            "review/change/file",
            "scratch/copy/checkout/file",
            "home/.cache/x",
            "head/checkout/file",
            "head/changes/0/file",
            "lint/home/x",
        ];
        for name in kept.iter().chain(&going) {
            let path = run.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        // The kernel leaves such a directory in an overlay of a killed run.
        let work = files.caches_dir().join("work-0/work");
        fs::create_dir_all(&work).unwrap();
        fs::set_permissions(&work, fs::Permissions::from_mode(0o000)).unwrap();
        fs::write(files.round_document_path(1), "# Round 1").unwrap();
        for path in working_files(&files) {
            remove_tree(&path).unwrap();
        }
        assert!(kept.iter().all(|name| run.join(name).is_file()));
        assert!(going.iter().all(|name| !run.join(name).exists()));
        assert!(files.round_document_path(1).is_file());
        assert!(!files.caches_dir().exists());
        assert_eq!(working_files(&files), Vec::<PathBuf>::new());
        assert!(disk_usage(data.path()) > 0);
    }
}
