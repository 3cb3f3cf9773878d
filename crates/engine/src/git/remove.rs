//! Removes directory trees that an agent created: of any depth, and with directories that deny
//! access.
//!
//! It keeps no directory open and does not recurse: a tree of 30,000 levels has paths that are
//! longer than the kernel accepts, and would exhaust both open files and the stack.
//!
//! Links are removed and never followed: one of them may point to the person's home.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Path length, relative to the top, above which a directory is first moved to the top. The kernel
/// accepts 4,096 bytes, and a name has at most 255.
const PATH_BYTES_MAX: usize = 256;

enum RemoveStep {
    Empty(PathBuf),
    Remove(PathBuf),
}

/// Removes whatever is there, including directories that deny access. A missing path is fine.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    // The link itself is looked at, so a link to a directory is removed as a file.
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => remove_dir(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn remove_dir(top: &Path) -> io::Result<()> {
    let mut moved = 0_u64;
    let path_max = top.as_os_str().len() + PATH_BYTES_MAX;
    let mut steps = vec![RemoveStep::Empty(top.to_owned())];
    while let Some(step) = steps.pop() {
        let dir = match step {
            // A directory is removed after its content, which was pushed above it.
            RemoveStep::Remove(dir) => {
                fs::remove_dir(dir)?;
                continue;
            }
            RemoveStep::Empty(dir) => dir,
        };
        steps.push(RemoveStep::Remove(dir.clone()));
        // Collecting entries one by one keeps memory bounded in a directory with millions of files.
        for entry in open_dir(&dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                with_dir_access(&dir, || fs::remove_file(entry.path()))?;
            } else if entry.path().as_os_str().len() < path_max {
                steps.push(RemoveStep::Empty(entry.path()));
            } else {
                // A short path at the top is always accepted by the kernel.
                let short = unused_name(top, &mut moved);
                // Moving a directory changes its `..` entry, so it must be writable too.
                make_accessible(&entry.path())?;
                with_dir_access(&dir, || fs::rename(entry.path(), &short))?;
                steps.push(RemoveStep::Empty(short));
            }
        }
    }
    Ok(())
}

fn open_dir(dir: &Path) -> io::Result<fs::ReadDir> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The sandbox's user is ours, so we own the directory and may change its mode.
            make_accessible(dir)?;
            fs::read_dir(dir)
        }
        other => other,
    }
}

/// Runs an operation in a directory, and changes its permissions if they deny that.
fn with_dir_access(dir: &Path, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match act() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_accessible(dir)?;
            act()
        }
        other => other,
    }
}

fn make_accessible(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

/// Returns an unused name at the top; the agent may have used any name.
fn unused_name(top: &Path, moved: &mut u64) -> PathBuf {
    loop {
        *moved += 1;
        let name = top.join(format!(".removing-{moved}"));
        if name.symlink_metadata().is_err() {
            return name;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates nested directories from inside, because no path can be that long.
    fn deep(top: &Path, name: &str, levels: usize) {
        use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        let mut dir = open(top, flags, Mode::empty()).unwrap();
        for _ in 0..levels {
            mkdirat(&dir, name, Mode::RWXU).unwrap();
            dir = openat(&dir, name, flags, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_tree_of_any_depth_goes() {
        let long = "n".repeat(255);
        for (name, levels) in [("d", 1), ("d", 600), ("d", 6_000), (&long, 3), (&long, 100)] {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().join("top");
            fs::create_dir_all(top.join(".removing-1")).unwrap();
            deep(&top, name, levels);
            remove_tree(&top).unwrap();
            assert!(top.symlink_metadata().is_err(), "{levels}");
        }
    }

    #[test]
    fn what_denies_it_goes_and_what_a_link_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(top.join("a/b/c/file"), "x").unwrap();
        symlink(&kept, top.join("a/link")).unwrap();
        symlink(&kept, top.join("a/b/link")).unwrap();
        for (path, mode) in [("a/b/c", 0o000), ("a/b", 0o500), ("a", 0o100)] {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(top.symlink_metadata().is_err());
        assert!(kept.join("file").exists());
        remove_tree(&top).unwrap();
    }
}
