//! The second sandbox level: bubblewrap builds the same root, for machines on which only
//! bubblewrap may create namespaces. Landlock and seccomp are still ours.
//!
//! It is weaker than the native level: directories are bound directly, without the overlays that
//! keep sockets and locks apart. So it never permits UNIX sockets.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::SandboxSpec;
use super::root::{self, RootPartKind};

// Only well-known paths: a `bwrap` from the person's PATH could be anything.
const BWRAP_PATHS: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Returns the path of bubblewrap, if it is installed.
pub fn find_bwrap() -> Option<PathBuf> {
    BWRAP_PATHS
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
}

/// Directory of the specification and the proof inside the sandbox; the run cannot write there.
const NOTES_DIR: &str = "/.countersign";

/// Returns the path of the specification inside the sandbox.
pub fn path_inside(file: &OsStr) -> io::Result<OsString> {
    let name = Path::new(file).file_name();
    let name = name.ok_or_else(|| io::Error::other("the specification has no name"))?;
    Ok(Path::new(NOTES_DIR).join(name).into())
}

/// Returns the program and arguments that run our own program with the arguments `inner` inside
/// the sandbox.
pub fn bwrap_command(
    confinement: &SandboxSpec,
    inner: Vec<OsString>,
) -> io::Result<(PathBuf, Vec<OsString>)> {
    let bwrap = find_bwrap().ok_or_else(|| io::Error::other("bubblewrap is not installed"))?;
    let mut args = BwrapArgs(Vec::new());
    for flag in FLAGS {
        args.0.push(flag.into());
    }
    if confinement.network.is_isolated() {
        args.0.push("--unshare-net".into());
    }
    // A new `/proc` and `/dev` come before the parts, because parts are mounted below them.
    args.push_flag("--proc", &["/proc".as_ref()]);
    args.push_flag("--dev", &["/dev".as_ref()]);
    let mut read_only = Vec::new();
    for part in root::root_parts(confinement)? {
        let at = part.at.as_os_str();
        match &part.what {
            // Only bubblewrap 0.11 and newer has these options; `probe_overlays` tries them first.
            RootPartKind::Overlay {
                lowers,
                changes,
                work,
                ..
            } if !lowers.is_empty() => {
                // The last source is the upper layer.
                for lower in lowers.iter().rev() {
                    args.push_flag("--overlay-src", &[lower.as_os_str()]);
                }
                args.push_flag("--overlay", &[changes.as_os_str(), work.as_os_str(), at]);
            }
            // Overlays of one directory become read-only here, which only forbids more; the caller
            // commits what is left.
            RootPartKind::ReadOnlyDir { from }
            | RootPartKind::ReadOnlyFile { from }
            | RootPartKind::Overlay { from, .. } => {
                args.push_flag("--ro-bind", &[from.as_os_str(), at]);
            }
            RootPartKind::Writable { from } => args.push_flag("--bind", &[from.as_os_str(), at]),
            RootPartKind::Tmpfs { bytes } => {
                // The size applies to the next tmpfs only.
                args.push_flag("--size", &[bytes.to_string().as_ref()]);
                args.push_flag("--tmpfs", &[at]);
            }
            RootPartKind::MaskedDir => {
                args.push_flag("--tmpfs", &[at]);
                read_only.push(part.at.clone());
            }
            RootPartKind::MaskedFile => args.push_flag("--ro-bind", &["/dev/null".as_ref(), at]),
            RootPartKind::Link { to } => args.push_flag("--symlink", &[to.as_os_str(), at]),
        }
    }
    // Some of these do not exist on every machine, and bubblewrap fails on a missing source.
    for name in SHUT_IN_PROC.iter().map(Path::new).filter(|at| at.exists()) {
        args.push_flag("--ro-bind", &[name.as_os_str(), name.as_os_str()]);
    }
    // Our inner process opens the proof before it restricts itself; after that, Landlock keeps
    // every process from writing there. The specification is in the same directory.
    let notes = confinement.proof.parent().unwrap_or(Path::new("/"));
    args.push_flag("--bind", &[notes.as_os_str(), NOTES_DIR.as_ref()]);
    // The root is closed last, when every mount point exists.
    read_only.push("/".into());
    for at in &read_only {
        args.push_flag("--remount-ro", &[at.as_os_str()]);
    }
    let exe = std::env::current_exe()?;
    args.push_flag("--chdir", &[std::env::current_dir()?.as_os_str()]);
    args.0.extend(["--".into(), exe.into()]);
    args.0.extend(inner);
    Ok((bwrap, args.0))
}

const FLAGS: &[&str] = &[
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    // A new session has no controlling terminal into which input could be faked.
    "--new-session",
    "--cap-drop",
    "ALL",
];
const SHUT_IN_PROC: &[&str] = &[
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
];

struct BwrapArgs(Vec<OsString>);

impl BwrapArgs {
    fn push_flag(&mut self, flag: &str, values: &[&OsStr]) {
        self.0.push(flag.into());
        self.0
            .extend(values.iter().map(|value| (*value).to_owned()));
    }
}
