//! Keeps a run from what is not its business: a reviewer from writing, a builder from everything
//! but its worktree, both from the person's secrets.
//!
//! A [`Confinement`] says what one run may see and touch. Whatever it does not name is not there.
//! It is enforced on one of three rungs, by our own binary between the fork and the program
//! ([`confine`]): the child locks itself in, proves it by trying what must fail, and only then
//! becomes the program. What it refuses: to run anything that it does not understand or could not
//! prove. There is no rung that means "not at all"; a run without a confinement never comes here.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

mod bubblewrap;
mod confine;
mod handover;
pub mod hosts;
mod landlock;
mod loopback;
mod native;
mod probe;
mod proof;
pub mod proxy;
mod root;
mod seccomp;
mod shed;
mod ward;

pub use confine::{confine, confined};
pub use hosts::Destination;
pub use probe::{Probed, probe};
pub use proof::Proof;
pub use proxy::{Proxied, Proxy, RefusedHost, Serving};
pub use ward::{Room, Toolchain, Ward};

/// What the child exits with if it could not confine itself; nothing was started then.
pub const NOT_CONFINED: u8 = 125;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the run was not confined, so nothing was started: {why}; `countersign doctor` shows what this machine can do, and `isolation = \"manifest\"` in the policy goes without"
    )]
    NotConfined { why: String },
    /// Somebody ended it before it could confine itself, or prove that it had.
    #[error("the run was killed before it had begun: {exit}")]
    Killed { exit: String },
    #[error("{}: {source}; see that the data directory is writable", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// How a run is confined, from the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Namespaces of our own making, a root made of read-only mounts, Landlock, seccomp.
    Native,
    /// The namespaces are bubblewrap's; Landlock and seccomp are ours.
    Bubblewrap,
    /// No namespaces: Landlock and seccomp alone.
    Landlock,
}

impl Rung {
    pub const ALL: [Self; 3] = [Self::Native, Self::Bubblewrap, Self::Landlock];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    On,
    /// Loopback at most.
    Off,
    /// A proxy of ours on loopback, which connects to named hosts.
    Proxy(Proxied),
}

impl Network {
    /// Whether the run has nothing but loopback, where there are namespaces.
    pub fn is_apart(&self) -> bool {
        match self {
            Self::On => false,
            Self::Off | Self::Proxy(_) => true,
        }
    }

    /// One more host that may be reached, where there is a list.
    pub fn admit(&mut self, host: Destination) {
        if let Self::Proxy(proxied) = self {
            proxied.admit(host);
        }
    }

    /// For the record of a review.
    pub fn describe(&self) -> String {
        match self {
            Self::On => "network on".to_owned(),
            Self::Off => "network off".to_owned(),
            Self::Proxy(proxied) => format!("network: provider ({})", proxied.describe()),
        }
    }
}

/// Everything that one run may see and touch. Read strictly: an unknown key or word confines
/// nothing and starts nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    pub rung: Rung,
    /// Seen, never written.
    pub read: Vec<PathBuf>,
    /// The run's own.
    pub write: Vec<PathBuf>,
    /// Inside of `write`, and read-only all the same.
    pub shut: Vec<PathBuf>,
    /// Inside of `read`, and hidden all the same.
    pub masked: Vec<PathBuf>,
    /// Files that appear elsewhere than where they are: an agent's own credentials.
    pub lent: Vec<Lent>,
    /// Directories whose changes go into a layer of the run's own.
    pub layered: Vec<Layered>,
    /// Where a write must fail, as part of the proof.
    pub refused: Vec<PathBuf>,
    /// What must not be readable, as part of the proof.
    pub hidden: Vec<PathBuf>,
    pub network: Network,
    /// Whether modes, owners, times and attributes may be changed where a rung cannot tell whose
    /// they are.
    pub metadata: bool,
    pub bounds: Bounds,
    /// Where the proof is written; outside of everything the run may touch.
    pub proof: PathBuf,
}

/// A file of the person's, read-only at a place of the run's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lent {
    pub from: PathBuf,
    pub to: PathBuf,
}

/// A directory that looks writable, while the changes are kept apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layered {
    pub dir: PathBuf,
    pub changes: PathBuf,
    pub work: PathBuf,
}

/// How much a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    pub processes: u64,
    pub open_files: u64,
    /// Of one file.
    pub file_bytes: u64,
    /// Of each of the temporary file systems in memory.
    pub tmp_bytes: u64,
    /// Of all its processes together.
    pub memory_bytes: u64,
    /// Free space on the run's own disk below which it is ended.
    pub disk_floor_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            processes: 4096,
            open_files: 65_536,
            file_bytes: 8 << 30,
            tmp_bytes: 512 << 20,
            memory_bytes: most_memory(),
            disk_floor_bytes: 512 << 20,
        }
    }
}

/// Three quarters of the machine's: enough for any one run, and the machine goes on.
fn most_memory() -> u64 {
    let known = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = known
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| (kib << 10) / 4 * 3)
}

/// A specification longer than this is not one of ours.
const SPECIFICATION_MAX: u64 = 1 << 20;

impl Confinement {
    /// Writes it down for [`confine`], beside where the proof will be, and says where that is. A
    /// proof of an earlier run is removed.
    pub fn write(&self) -> Result<PathBuf, Error> {
        let file = self.proof.with_file_name("confinement.json");
        let failed = |source| Error::File {
            path: file.clone(),
            source,
        };
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
        match fs::remove_file(&self.proof) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::write(&file, text).map_err(failed)?;
        Ok(file)
    }

    fn read(file: &Path) -> io::Result<Self> {
        if fs::metadata(file)?.len() > SPECIFICATION_MAX {
            return Err(io::Error::other("the specification is too long"));
        }
        Ok(serde_json::from_slice(&fs::read(file)?)?)
    }

    /// Whether what it starts can leave it behind.
    pub fn is_without_namespaces(&self) -> bool {
        self.rung == Rung::Landlock
    }

    /// Whether nothing of it is left once our own process outside has ended with a code: it has
    /// taken the end of the namespace's first process, whom nobody in there outlives.
    pub fn ends_as_a_whole(&self) -> bool {
        self.rung == Rung::Native
    }

    /// What the child proved before it became the program.
    pub fn proven(&self) -> Result<Proof, Error> {
        let proof = proof::read(&self.proof).map_err(|why| Error::NotConfined { why })?;
        if proof.rung == self.rung {
            Ok(proof)
        } else {
            Err(Error::NotConfined {
                why: format!("{} was wanted, {} was proven", self.rung, proof.rung),
            })
        }
    }
}

#[cfg(test)]
mod tests;
