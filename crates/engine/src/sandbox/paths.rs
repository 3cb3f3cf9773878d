//! Canonical paths for a specification: absolute, without `.` and `..`, and without any symbolic
//! link. A mount point that is created at any other path could turn out to be one of the person's
//! files.
//!
//! `fs::canonicalize` gives the final path only. The links on the way are needed too, because they
//! are made again inside the sandbox.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Maximum number of links on the way to one path; the kernel has the same limit.
const LINKS_MAX: usize = 40;

/// A symbolic link that exists at the same path inside the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Symlink {
    pub at: PathBuf,
    /// Target as stored in the link: absolute or relative.
    pub to: PathBuf,
}

/// A path with all symbolic links resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    pub real: PathBuf,
    /// The links that were followed, each at its own canonical path.
    pub links: Vec<Symlink>,
}

/// Follows every link on the way to `path`, which must be absolute and exist.
pub fn resolve(path: &Path) -> io::Result<ResolvedPath> {
    if !path.is_absolute() {
        return Err(path_refused(path, "it is not absolute"));
    }
    let mut real = PathBuf::from("/");
    let mut links = Vec::new();
    let mut rest: Vec<OsString> = reversed_components(path);
    while let Some(name) = rest.pop() {
        if name == ".." {
            // At this point all links before it are resolved, so the parent is the real one.
            real.pop();
            continue;
        }
        let at = real.join(&name);
        let meta = fs::symlink_metadata(&at)?;
        if !meta.is_symlink() {
            // As in the kernel, `file/..` and `file/x` are errors.
            if !rest.is_empty() && !meta.is_dir() {
                return Err(io::Error::from(io::ErrorKind::NotADirectory));
            }
            real = at;
            continue;
        }
        // A loop of links ends here as well.
        if links.len() == LINKS_MAX {
            return Err(path_refused(path, "it has too many symbolic links"));
        }
        let to = fs::read_link(&at)?;
        // An absolute target starts over at the root; a relative one continues in the link's
        // directory.
        if to.is_absolute() {
            real = PathBuf::from("/");
        }
        rest.extend(reversed_components(&to));
        links.push(Symlink { at, to });
    }
    Ok(ResolvedPath { real, links })
}

/// Returns the components of a path in reverse order, without `.`.
fn reversed_components(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<OsString> = names.collect();
    parts.reverse();
    parts
}

/// Returns the canonical form of an existing path.
pub fn real_path(path: &Path) -> Option<PathBuf> {
    resolve(path).ok().map(|resolved| resolved.real)
}

/// Refuses a path that is not written canonically. It cannot check for symbolic links; the kernel
/// refuses those when the path is opened.
pub fn ensure_canonical(path: &Path) -> io::Result<()> {
    if !path.is_absolute() {
        return Err(path_refused(path, "it is not absolute"));
    }
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    // `components` drops `.` and repeated or trailing slashes, so compare the bytes.
    let again: PathBuf = path.components().collect();
    let as_written = again.as_os_str().as_bytes() == path.as_os_str().as_bytes();
    if !path.components().all(plain) || !as_written {
        return Err(path_refused(path, "it is not canonical"));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(path_refused(path, "it has a NUL"));
    }
    Ok(())
}

fn path_refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("the path {} is refused: {why}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_canonical_paths_are_admitted() {
        for good in ["/", "/a", "/a b/c\nd/é", "/a/...", "/a/..b"] {
            assert!(ensure_canonical(Path::new(good)).is_ok(), "{good:?}");
        }
        for bad in [
            "", "a", "./a", "/a/../b", "/a/..", "/a/./b", "/a/", "//a", "/a//b", "/.", "/..",
        ] {
            assert!(ensure_canonical(Path::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_not_there_or_goes_round_in_circles_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("round", at("round")).unwrap();
        symlink("missing", at("dangling")).unwrap();
        fs::write(at("file"), "").unwrap();
        for name in ["round", "dangling", "absent", "file/x", "file/../file"] {
            assert!(resolve(&at(name)).is_err(), "{name}");
        }
        assert!(resolve(Path::new("relative")).is_err());
    }

    /// Generates a step of a path: a name, `..`, `.`, or a link.
    fn step() -> impl Strategy<Value = u8> {
        0_u8..5
    }

    proptest! {
        #[test]
        fn a_resolved_path_is_the_kernels_and_its_links_lead_there(
            steps in proptest::collection::vec(step(), 1..12),
            name in "[a-z \\n\u{e9}]{1,6}",
        ) {
            let dir = tempfile::tempdir().unwrap();
            let top = fs::canonicalize(dir.path()).unwrap();
            let mut given = top.clone();
            let mut depth = 0;
            for (number, step) in steps.iter().enumerate() {
                match step {
                    0 | 1 => {
                        given.push(format!("{name}{number}"));
                        fs::create_dir_all(&given).unwrap();
                        depth += 1;
                    }
                    2 if depth > 0 => {
                        given.push("..");
                        depth -= 1;
                    }
                    3 => {
                        let real = given.join(format!("real{number}"));
                        fs::create_dir_all(&real).unwrap();
                        symlink(format!("real{number}"), given.join(format!("l{number}"))).unwrap();
                        given.push(format!("l{number}"));
                        depth += 1;
                    }
                    4 => {
                        fs::create_dir_all(top.join(format!("abs{number}"))).unwrap();
                        symlink(top.join(format!("abs{number}")), given.join(format!("l{number}"))).unwrap();
                        given.push(format!("l{number}"));
                        depth = 1;
                    }
                    _ => given.push("."),
                }
            }
            let resolved = resolve(&given).unwrap();
            prop_assert_eq!(&resolved.real, &fs::canonicalize(&given).unwrap());
            prop_assert!(ensure_canonical(&resolved.real).is_ok());
            for link in &resolved.links {
                prop_assert!(ensure_canonical(&link.at).is_ok());
                prop_assert_eq!(&fs::read_link(&link.at).unwrap(), &link.to);
                let parent = link.at.parent().unwrap();
                prop_assert_eq!(fs::canonicalize(parent).unwrap(), parent);
            }
        }
    }
}
