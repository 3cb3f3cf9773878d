//! Reads and writes files for the person below a directory that the person named, without following
//! a symbolic link on the way: a repository may contain links that lead anywhere in the person's
//! home. A file is replaced as a whole or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Maximum size of a file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// A file by its directory, which the person named, and its path below it.
#[derive(Clone, Copy, Debug)]
pub struct LinklessPath<'a> {
    pub root: &'a Path,
    pub below: &'a Path,
}

impl LinklessPath<'_> {
    pub fn path(&self) -> PathBuf {
        self.root.join(self.below)
    }

    /// Returns the text of the file, or `None` if there is none.
    pub fn read(&self) -> io::Result<Option<String>> {
        let Some((dir, name)) = self.open_parent(false)? else {
            return Ok(None);
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&dir, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(link_error(&self.path())),
            Err(error) => return Err(error.into()),
        };
        self.require_file(fs::fstat(&file)?.st_mode)?;
        let mut text = String::new();
        File::from(file).take(BYTES_MAX).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// Writes the file, or replaces it. Missing directories are created.
    pub fn write(&self, text: &str, mode: u32) -> io::Result<()> {
        let Some((dir, name)) = self.open_parent(true)? else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        match fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(existing) => self.require_file(existing.st_mode)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // The old file stays until the new one is complete, also for its other hard links.
        let part = format!(".countersign-{}.part", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = fs::openat(&dir, &part, flags | OFlags::CLOEXEC, Mode::from(mode))?;
        let written =
            write_synced(file, text).and_then(|()| Ok(fs::renameat(&dir, &part, &dir, name)?));
        if written.is_err() {
            // The first error is the one to report.
            let _removed = fs::unlinkat(&dir, &part, AtFlags::empty());
        }
        written
    }

    /// Removes the file.
    pub fn remove(&self) -> io::Result<()> {
        match self.open_parent(false)? {
            Some((dir, name)) => Ok(fs::unlinkat(&dir, name, AtFlags::empty())?),
            None => Ok(()),
        }
    }

    /// Removes the file, and the directories below the named one that this leaves empty.
    pub fn remove_with_empty_parents(&self) -> io::Result<()> {
        self.remove()?;
        let mut parent = self.below.parent();
        while let Some(below) = parent.filter(|below| !below.as_os_str().is_empty()) {
            let place = LinklessPath {
                root: self.root,
                below,
            };
            let Some((dir, name)) = place.open_parent(false)? else {
                return Ok(());
            };
            match fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
                Ok(()) => parent = below.parent(),
                // Something else is in it.
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn require_file(&self, mode: fs::RawMode) -> io::Result<()> {
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Ok(()),
            FileType::Symlink => Err(link_error(&self.path())),
            _ => Err(io::Error::other("it is not a regular file")),
        }
    }

    /// Opens the directory of the file step by step. Returns `None` if it does not exist.
    fn open_parent(&self, create: bool) -> io::Result<Option<(OwnedFd, &OsStr)>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = self.root.to_owned();
        let mut dir = fs::open(self.root, flags, Mode::empty())?;
        let mut parts = Vec::new();
        for part in self.below.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                _ => return Err(io::Error::other("it leaves the named directory")),
            }
        }
        let Some((name, parents)) = parts.split_last() else {
            return Err(io::Error::other("it has no name"));
        };
        for parent in parents {
            at.push(parent);
            if create {
                match fs::mkdirat(&dir, *parent, Mode::from(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            dir = match fs::openat(&dir, *parent, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(dir) => dir,
                Err(Errno::NOENT) => return Ok(None),
                // A link with `O_DIRECTORY | O_NOFOLLOW` is "not a directory" for the kernel.
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(link_error(&at)),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Some((dir, name)))
    }
}

fn link_error(path: &Path) -> io::Error {
    let target = std::fs::read_link(path);
    io::Error::other(match target {
        Ok(target) => format!(
            "{} is a symbolic link to {}, and Countersign writes through no link",
            path.display(),
            target.display()
        ),
        Err(_) => format!("{} is not a directory", path.display()),
    })
}

fn write_synced(file: OwnedFd, text: &str) -> io::Result<()> {
    let mut file = File::from(file);
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Everything below a directory: names, kinds and contents.
    fn snapshot(dir: &Path) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let text = fs::read_to_string(&path).unwrap_or_default();
            all.push(format!("{} {:?} {text}", path.display(), meta.file_type()));
            if meta.is_dir() {
                all.extend(snapshot(&path));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn a_link_at_any_place_of_the_path_is_refused_and_nothing_changes() {
        for depth in 0..4 {
            for target in ["dir", "file", "missing", "../outside/dir", "/", "loop"] {
                let base = tempfile::tempdir().unwrap();
                let (root, outside) = (base.path().join("root"), base.path().join("outside"));
                fs::create_dir_all(outside.join("dir/b/c")).unwrap();
                fs::write(outside.join("file"), "the person's").unwrap();
                let parts = ["a", "b", "c", "name"];
                let parent: PathBuf = parts[..depth].iter().collect();
                fs::create_dir_all(root.join(&parent)).unwrap();
                let link = root.join(&parent).join(parts[depth]);
                match target {
                    "loop" => symlink(&link, &link).unwrap(),
                    "/" => symlink("/", &link).unwrap(),
                    other => symlink(outside.join(other), &link).unwrap(),
                }
                let before = snapshot(base.path());
                let below: PathBuf = parts.iter().collect();
                let file = LinklessPath {
                    root: &root,
                    below: &below,
                };
                let written = file.write("ours", 0o644).unwrap_err().to_string();
                assert!(written.contains("symbolic link"), "{target}: {written}");
                assert!(file.read().is_err(), "{depth} {target}");
                assert_eq!(snapshot(base.path()), before, "{depth} {target}");
            }
        }
    }

    #[test]
    fn a_file_is_written_replaced_and_removed() {
        let base = tempfile::tempdir().unwrap();
        let file = LinklessPath {
            root: base.path(),
            below: Path::new("a/b/name"),
        };
        assert_eq!(file.read().unwrap(), None);
        file.write("one", 0o755).unwrap();
        fs::hard_link(file.path(), base.path().join("other")).unwrap();
        file.write("two", 0o644).unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some("two"));
        let other = fs::read_to_string(base.path().join("other")).unwrap();
        assert_eq!(other, "one", "another name of the file is not ours");
        let mode = fs::metadata(base.path().join("other"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o111, 0o111);
        assert_eq!(fs::read_dir(base.path().join("a/b")).unwrap().count(), 1);
        file.remove().unwrap();
        assert_eq!(file.read().unwrap(), None);
        fs::write(base.path().join("a/kept"), "").unwrap();
        file.write("three", 0o644).unwrap();
        file.remove_with_empty_parents().unwrap();
        assert!(!base.path().join("a/b").exists());
        assert!(base.path().join("a/kept").exists());
        for bad in ["../x", "/etc/x", "a/../../x", ""] {
            let below = Path::new(bad);
            let file = LinklessPath {
                root: base.path(),
                below,
            };
            assert!(file.write("no", 0o644).is_err(), "{bad}");
        }
    }
}
