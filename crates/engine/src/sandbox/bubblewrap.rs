//! The second rung: the same root, put together by bubblewrap, for machines on which only it may
//! make namespaces. Landlock and seccomp are ours all the same.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::SandboxSpec;
use super::root::{self, RootPartKind};

const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Where bubblewrap is, if it is.
pub fn find() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Where the specification and the proof are inside: below nothing that a run may write.
const NOTES: &str = "/.countersign";

/// The specification's name inside.
pub fn seen_inside(file: &OsStr) -> io::Result<OsString> {
    let name = Path::new(file).file_name();
    let name = name.ok_or_else(|| io::Error::other("the specification has no name"))?;
    Ok(Path::new(NOTES).join(name).into())
}

/// What to start, so that `inner`, words for our own program, runs inside.
pub fn command(
    confinement: &SandboxSpec,
    inner: Vec<OsString>,
) -> io::Result<(PathBuf, Vec<OsString>)> {
    let bwrap = find().ok_or_else(|| io::Error::other("bubblewrap is not installed"))?;
    let mut words = BwrapArgs(Vec::new());
    for flag in FLAGS {
        words.0.push(flag.into());
    }
    if confinement.network.is_apart() {
        words.0.push("--unshare-net".into());
    }
    words.put("--proc", &["/proc".as_ref()]);
    words.put("--dev", &["/dev".as_ref()]);
    let mut closed = Vec::new();
    for part in root::parts(confinement)? {
        let at = part.at.as_os_str();
        match &part.what {
            // Read-only is the least that a layer may be; the caller commits what is left.
            RootPartKind::Seen { from }
            | RootPartKind::SeenFile { from }
            | RootPartKind::Layered { from, .. } => {
                words.put("--ro-bind", &[from.as_os_str(), at]);
            }
            RootPartKind::Own { from } => words.put("--bind", &[from.as_os_str(), at]),
            RootPartKind::Memory { bytes } => {
                words.put("--size", &[bytes.to_string().as_ref()]);
                words.put("--tmpfs", &[at]);
            }
            RootPartKind::MaskedDir => {
                words.put("--tmpfs", &[at]);
                closed.push(part.at.clone());
            }
            RootPartKind::MaskedFile => words.put("--ro-bind", &["/dev/null".as_ref(), at]),
            RootPartKind::Link { to } => words.put("--symlink", &[to.as_os_str(), at]),
        }
    }
    for name in SHUT_IN_PROC.iter().map(Path::new).filter(|at| at.exists()) {
        words.put("--ro-bind", &[name.as_os_str(), name.as_os_str()]);
    }
    // The proof is written by our second half, which opens it before it locks itself in; after
    // that Landlock keeps everybody from writing there. The specification is beside it.
    let notes = confinement.proof.parent().unwrap_or(Path::new("/"));
    words.put("--bind", &[notes.as_os_str(), NOTES.as_ref()]);
    closed.push("/".into());
    for at in &closed {
        words.put("--remount-ro", &[at.as_os_str()]);
    }
    let exe = std::env::current_exe()?;
    words.put("--chdir", &[std::env::current_dir()?.as_os_str()]);
    words.0.extend(["--".into(), exe.into()]);
    words.0.extend(inner);
    Ok((bwrap, words.0))
}

const FLAGS: &[&str] = &[
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
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
    fn put(&mut self, flag: &str, values: &[&OsStr]) {
        self.0.push(flag.into());
        self.0
            .extend(values.iter().map(|value| (*value).to_owned()));
    }
}
