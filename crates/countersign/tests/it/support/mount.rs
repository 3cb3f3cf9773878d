//! Small disks of their own, where the machine lets us have them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::skip;

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
        skip::lacks("a tmpfs cannot be mounted here");
        None
    }

    pub fn make_read_only(&self) {
        assert!(mount(&["-o", "remount,ro", self.path.to_str().unwrap()]));
    }
}

/// A small disk whose power can be cut: what the kernel had not written by then is lost.
pub struct Disk {
    pub path: PathBuf,
    image: PathBuf,
    options: &'static str,
}

impl Disk {
    /// `None`, and said so, where this machine or this user has no loop devices.
    pub fn new(dir: &Path, options: &'static str) -> Option<Self> {
        let (path, image) = (dir.join("disk"), dir.join("image"));
        fs::create_dir(&path).unwrap();
        let file = fs::File::create(&image).unwrap();
        file.set_len(IMAGE_BYTES).unwrap();
        let disk = Self {
            path,
            image,
            options,
        };
        let made = call("mkfs.ext4", &["-q", "-F", "-m", "0", disk.image()]);
        if made && disk.mount() && disk.can_be_cut() {
            return Some(disk);
        }
        skip::has_no("a power cut needs root, loop devices, mkfs.ext4 and python3");
        None
    }

    fn image(&self) -> &str {
        self.image.to_str().unwrap()
    }

    fn mount(&self) -> bool {
        let path = self.path.to_str().unwrap();
        mount(&["-o", self.options, self.image(), path])
    }

    fn can_be_cut(&self) -> bool {
        self.cut();
        let is_off = fs::write(self.path.join("probe"), "x").is_err();
        is_off && super::reached(LET_GO, || self.back_on())
    }

    /// Mounted again, as soon as nobody has files open there.
    #[track_caller]
    pub fn start_again(&self) {
        let started = super::reached(LET_GO, || self.back_on());
        assert!(started, "the disk is still in use");
    }

    /// Writes everything so far to the disk.
    pub fn sync(&self) {
        assert!(call(
            "sync",
            &["--file-system", self.path.to_str().unwrap()]
        ));
    }

    /// Nothing is written from this instant on, neither files nor the file system's own journal.
    pub fn cut(&self) {
        call("python3", &["-c", CUT, self.path.to_str().unwrap()]);
    }

    /// Mounts the disk again, as after a new start. Returns false while a process still uses it: one
    /// that dies in its own mount namespace releases the disk a little later.
    fn back_on(&self) -> bool {
        let path = self.path.to_str().unwrap();
        while call("umount", &[path]) {}
        self.mount() && fs::write(self.path.join("probe"), "x").is_ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        call("umount", &["--lazy", self.path.to_str().unwrap()]);
    }
}

/// Killed processes let go of their files, and the kernel of its loop device.
const LET_GO: Duration = Duration::from_secs(30);
/// Sparse: only what is written takes room. Countersign wants some hundred MiB to be free.
const IMAGE_BYTES: u64 = 1536 << 20;
/// `EXT4_IOC_SHUTDOWN` without flushing the log.
const CUT: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

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
