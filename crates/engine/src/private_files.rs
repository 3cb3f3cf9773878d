//! Creates our own files and directories below the data directory, readable only by their owner,
//! whatever the umask. Files in the person's work tree follow the person's umask and are not
//! created here.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

pub const DIRECTORY_MODE: u32 = 0o700;
pub const FILE_MODE: u32 = 0o600;
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// Creates the directory and its missing parents.
pub fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
}

/// Creates an empty file for writing, or truncates an existing one. A symbolic link in its place is
/// refused: what it points to is not ours.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .custom_flags(NO_FOLLOW)
        .open(path)
}

pub fn write(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(text.as_ref())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nobody_else_sees_what_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        make_dir(&deep).unwrap();
        write(&deep.join("x"), "text").unwrap();
        write(&deep.join("x"), "shorter").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir.path().join("a")), DIRECTORY_MODE);
        assert_eq!(
            (mode(&deep), mode(&deep.join("x"))),
            (DIRECTORY_MODE, FILE_MODE)
        );
        assert_eq!(std::fs::read_to_string(deep.join("x")).unwrap(), "shorter");
        std::os::unix::fs::symlink(deep.join("x"), deep.join("link")).unwrap();
        assert!(write(&deep.join("link"), "through").is_err());
        assert_eq!(std::fs::read_to_string(deep.join("x")).unwrap(), "shorter");
    }
}
