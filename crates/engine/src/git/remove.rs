//! Removing trees that an agent made: of any depth, with directories that deny it.
//!
//! It holds no directory open and calls itself nowhere: a tree of 30,000 levels has paths that are
//! longer than the kernel takes, and would use up both open files and stack.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory with a path that is longer than the top's by this is first moved to the top. The
/// kernel takes 4,096 bytes, and a name has 255 at most.
const PATH_BYTES_MAX: usize = 256;

enum RemoveStep {
    Empty(PathBuf),
    Remove(PathBuf),
}

/// Removes whatever is there, directories that deny it included; nothing is fine.
pub fn remove_tree(path: &Path) -> io::Result<()> {
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
            RemoveStep::Remove(dir) => {
                fs::remove_dir(dir)?;
                continue;
            }
            RemoveStep::Empty(dir) => dir,
        };
        steps.push(RemoveStep::Remove(dir.clone()));
        for entry in opened(&dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                in_dir(&dir, || fs::remove_file(entry.path()))?;
            } else if entry.path().as_os_str().len() < path_max {
                steps.push(RemoveStep::Empty(entry.path()));
            } else {
                let short = free_name(top, &mut moved);
                // Moving a directory changes its entry for its parent, so it must be writable too.
                open_up(&entry.path())?;
                in_dir(&dir, || fs::rename(entry.path(), &short))?;
                steps.push(RemoveStep::Empty(short));
            }
        }
    }
    Ok(())
}

fn opened(dir: &Path) -> io::Result<fs::ReadDir> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir)?;
            fs::read_dir(dir)
        }
        other => other,
    }
}

/// Does something in a directory, with more rights to it if it denies that.
fn in_dir(dir: &Path, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match act() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir)?;
            act()
        }
        other => other,
    }
}

fn open_up(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

/// A name at the top that nothing has; what the agent made may have any.
fn free_name(top: &Path, moved: &mut u64) -> PathBuf {
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

    /// Directories in each other, made from inside: no path is that long.
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
