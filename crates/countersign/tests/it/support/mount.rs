//! Small disks of their own, where the machine lets us have them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs; gone with the value.
pub struct Mount {
    pub path: PathBuf,
}

impl Mount {
    /// `None`, and said so, where mounting is not allowed.
    pub fn tmpfs(path: &Path, size: &str) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let options = format!("size={size}");
        let path = path.to_owned();
        if mount(&[
            "-t",
            "tmpfs",
            "-o",
            &options,
            "tmpfs",
            path.to_str().unwrap(),
        ]) {
            return Some(Self { path });
        }
        super::say("skipped: a tmpfs cannot be mounted here");
        None
    }

    pub fn make_read_only(&self) {
        assert!(mount(&["-o", "remount,ro", self.path.to_str().unwrap()]));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        call("umount", &["--lazy", self.path.to_str().unwrap()]);
    }
}

fn mount(words: &[&str]) -> bool {
    call("mount", words)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own ground, made by the system's tools"
)]
fn call(program: &str, words: &[&str]) -> bool {
    let ran = Command::new(program).args(words).output();
    ran.is_ok_and(|ran| ran.status.success())
}
