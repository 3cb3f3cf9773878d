//! Saves repositories inside a worktree as plain files.
//!
//! Saving is limited: git reads each file from its path, so that nothing is held in memory here.
//! Files that are too large, too many or too deep are left out and listed.

use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Error, Repository, WorkTreeDirs};

/// Limits for saving leftovers. Sizes are apparent sizes: a sparse file of 8 GiB has no blocks, but
/// git would read and compress all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SaveLimits {
    pub file_bytes: u64,
    pub total_bytes: u64,
    pub files: usize,
    pub depth: usize,
}

impl Default for SaveLimits {
    fn default() -> Self {
        Self {
            file_bytes: 256 << 20,
            total_bytes: 1 << 30,
            files: 100_000,
            depth: 64,
        }
    }
}

/// Counts saved files, and remembers those that were left out.
#[derive(Debug)]
pub(super) struct SaveBudget {
    limits: SaveLimits,
    bytes: u64,
    files: usize,
    left_out: Vec<String>,
    left_out_count: usize,
}

/// Maximum number of names in a commit message; the rest is a number.
const NAMES_SHOWN: usize = 20;
const NAME_CHARS_MAX: usize = 200;

impl SaveBudget {
    pub fn new(limits: SaveLimits) -> Self {
        Self {
            limits,
            bytes: 0,
            files: 0,
            left_out: Vec::new(),
            left_out_count: 0,
        }
    }

    /// Returns whether a file of this size is still within the limits, and counts it if so.
    pub fn try_admit(&mut self, path: &Path, bytes: u64) -> bool {
        let limits = self.limits;
        let fits = bytes <= limits.file_bytes
            && self.bytes.saturating_add(bytes) <= limits.total_bytes
            && self.files < limits.files;
        if fits {
            self.bytes += bytes;
            self.files += 1;
        } else {
            self.leave_out(path, &format!("{} MiB", bytes >> 20));
        }
        fits
    }

    pub fn leave_out(&mut self, path: &Path, why: &str) {
        self.left_out_count += 1;
        if self.left_out.len() < NAMES_SHOWN {
            let name = plain(&path.to_string_lossy(), NAME_CHARS_MAX);
            self.left_out.push(format!("- {name} ({why})"));
        }
    }

    /// Returns the part of the commit message about files that were left out.
    pub fn describe_left_out(&self) -> String {
        if self.left_out_count == 0 {
            return String::new();
        }
        let more = self.left_out_count - self.left_out.len();
        let mut note = format!("\n\nNot saved:\n{}", self.left_out.join("\n"));
        if more > 0 {
            let _ = write!(note, "\n- and {more} more");
        }
        note
    }
}

/// Returns a name or an error text on one line, for a message.
pub(super) fn plain(text: &str, chars_max: usize) -> String {
    let plain = text.chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(chars_max).collect()
}

struct NestedFile {
    path: PathBuf,
    mode: &'static str,
    content: NestedContent,
}

enum NestedContent {
    /// Read by git, from its path.
    File,
    LinkTo(Vec<u8>),
}

impl Repository {
    /// Adds the files of nested repositories to an index. Git would add only the name of their
    /// commit, which nobody else has.
    pub(super) async fn add_nested(
        &self,
        place: &WorkTreeDirs,
        index: &Path,
        nested: &[String],
        budget: &mut SaveBudget,
    ) -> Result<(), Error> {
        let mut lines = Vec::new();
        for dir in nested {
            for file in plain_files(&place.path, Path::new(dir), budget)? {
                let run = self.git().args(["hash-object", "-w"]);
                let run = match file.content {
                    NestedContent::LinkTo(target) => run.args(["--stdin"]).stdin(target),
                    NestedContent::File => run
                        .args(["--no-filters", "--"])
                        .args([place.path.join(&file.path)]),
                };
                let oid = run.oid().await?;
                lines.extend_from_slice(format!("{} {oid}\t", file.mode).as_bytes());
                lines.extend_from_slice(file.path.as_os_str().as_bytes());
                lines.push(0);
            }
        }
        let run = self.git_at(place).index(index);
        run.args(["update-index", "-z", "--replace", "--index-info"])
            .stdin(lines)
            .run()
            .await
    }
}

/// Returns every file and link below that fits the budget, except for git's own.
fn plain_files(
    root: &Path,
    below: &Path,
    budget: &mut SaveBudget,
) -> Result<Vec<NestedFile>, Error> {
    let mut files = Vec::new();
    let mut dirs = vec![below.to_owned()];
    while let Some(dir) = dirs.pop() {
        let here = root.join(&dir);
        for entry in fs::read_dir(&here).map_err(Error::file(&here))? {
            let entry = entry.map_err(Error::file(&here))?;
            if entry.file_name() == ".git" {
                continue;
            }
            let (path, full) = (dir.join(entry.file_name()), entry.path());
            let meta = fs::symlink_metadata(&full).map_err(Error::file(&full))?;
            if meta.is_dir() {
                if path.components().count() > budget.limits.depth {
                    budget.leave_out(&path, "too deep");
                } else {
                    dirs.push(path);
                }
            } else if meta.is_symlink() {
                let target = fs::read_link(&full).map_err(Error::file(&full))?;
                let target = target.into_os_string().into_vec();
                if budget.try_admit(&path, target.len() as u64) {
                    files.push(NestedFile {
                        path,
                        mode: "120000",
                        content: NestedContent::LinkTo(target),
                    });
                }
            } else if meta.is_file() && budget.try_admit(&path, meta.len()) {
                let mode = if meta.permissions().mode() & 0o100 == 0 {
                    "100644"
                } else {
                    "100755"
                };
                files.push(NestedFile {
                    path,
                    mode,
                    content: NestedContent::File,
                });
            }
        }
    }
    Ok(files)
}
