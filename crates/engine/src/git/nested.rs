//! Repositories inside a worktree, saved as the plain files that they are.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Error, Place, Repository};

struct Plain {
    path: PathBuf,
    mode: &'static str,
    content: Vec<u8>,
}

impl Repository {
    /// Takes the files of nested repositories into an index. Git would take only
    /// the name of their commit, which nobody else has.
    pub(super) async fn add_nested(
        &self,
        place: &Place,
        index: &Path,
        nested: &[String],
    ) -> Result<(), Error> {
        let mut lines = Vec::new();
        for dir in nested {
            for file in plain_files(&place.path, Path::new(dir))? {
                let run = self
                    .git()
                    .args(["hash-object", "-w", "--stdin"])
                    .stdin(file.content);
                let oid = run.oid().await?;
                lines.extend_from_slice(format!("{} {oid}\t", file.mode).as_bytes());
                lines.extend_from_slice(file.path.as_os_str().as_bytes());
                lines.push(0);
            }
        }
        let run = self.git_at(place).index(index);
        run.args(["update-index", "-z", "--replace", "--index-info"])
            .stdin(lines)
            .done()
            .await
    }
}

/// Every file and link below, git's own aside.
fn plain_files(root: &Path, below: &Path) -> Result<Vec<Plain>, Error> {
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
                dirs.push(path);
            } else if meta.is_symlink() {
                let target = fs::read_link(&full).map_err(Error::file(&full))?;
                files.push(Plain {
                    path,
                    mode: "120000",
                    content: target.into_os_string().into_vec(),
                });
            } else if meta.is_file() {
                let mode = if meta.permissions().mode() & 0o100 == 0 {
                    "100644"
                } else {
                    "100755"
                };
                let content = fs::read(&full).map_err(Error::file(&full))?;
                files.push(Plain {
                    path,
                    mode,
                    content,
                });
            }
        }
    }
    Ok(files)
}
