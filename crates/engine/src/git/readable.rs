//! Makes the files of an agent readable. An agent may leave files that their owner cannot read and
//! directories that it cannot enter. We have to commit and remove them, so the owner gets those
//! permissions first.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum number of entries, more than anyone leaves in good faith; the rest stays as it is.
const ENTRIES_MAX: usize = 1_000_000;

/// Gives the owner read permission on every file below, and all permissions on every directory.
/// Links are not followed, and files of other users are left alone.
pub fn make_readable(top: &Path) {
    let mut dirs: Vec<PathBuf> = vec![top.to_owned()];
    let mut left = ENTRIES_MAX;
    while let Some(dir) = dirs.pop() {
        match fs::symlink_metadata(&dir) {
            Ok(meta) if meta.is_dir() => allow(&dir, meta.permissions(), 0o700),
            Ok(_) | Err(_) => continue,
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if left == 0 {
                return;
            }
            left -= 1;
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                dirs.push(entry.path());
            } else if meta.is_file() {
                allow(&entry.path(), meta.permissions(), 0o400);
            }
        }
    }
}

fn allow(path: &Path, mut permissions: fs::Permissions, needed: u32) {
    let mode = permissions.mode();
    if mode & needed != needed {
        permissions.set_mode(mode | needed);
        // If the file belongs to another user, the next reader reports that.
        let _ = fs::set_permissions(path, permissions);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_owner_may_read_all_of_it_and_nothing_behind_a_link_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(&outside, "x").unwrap();
        fs::write(top.join("a/b/file"), "x").unwrap();
        fs::write(top.join("run"), "x").unwrap();
        symlink(&outside, top.join("link")).unwrap();
        symlink(dir.path(), top.join("dirlink")).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&outside, 0o000);
        set(&top.join("run"), 0o111);
        set(&top.join("a/b/file"), 0o000);
        set(&top.join("a/b"), 0o000);
        set(&top.join("a"), 0o100);
        make_readable(&top);
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&top.join("a")), 0o700);
        assert_eq!(mode(&top.join("a/b")), 0o700);
        assert_eq!(mode(&top.join("a/b/file")), 0o400);
        assert_eq!(mode(&top.join("run")), 0o511);
        assert_eq!(mode(&outside), 0o000);
    }
}
