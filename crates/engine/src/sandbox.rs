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
mod new_root;
mod paths;
mod probe;
pub mod program;
mod proof;
pub mod proxy;
mod root;
mod seccomp;
mod shed;
mod sources;
mod tools;
mod ward;

pub use confine::{confine, confined};
pub use hosts::Destination;
pub use paths::{Symlink, resolve};
pub use probe::{LevelProbe, ProgramTrial, probe, try_program};
pub use proof::Proof;
pub use proxy::{Proxy, ProxyRules, RefusedHost, RunningProxy};
pub use tools::Toolchain;
pub use ward::{RunMounts, SandboxProfile};

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
pub enum SandboxLevel {
    /// Namespaces of our own making, a root made of read-only mounts, Landlock, seccomp.
    Native,
    /// The namespaces are bubblewrap's; Landlock and seccomp are ours.
    Bubblewrap,
    /// No namespaces: Landlock and seccomp alone.
    Landlock,
}

impl SandboxLevel {
    pub const ALL: [Self; 3] = [Self::Native, Self::Bubblewrap, Self::Landlock];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
        }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    On,
    /// Loopback at most.
    Off,
    /// A proxy of ours on loopback, which connects to named hosts.
    Proxy(ProxyRules),
}

impl SandboxNetwork {
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
pub struct SandboxSpec {
    pub rung: SandboxLevel,
    /// Seen, never written.
    pub read: Vec<PathBuf>,
    /// The run's own.
    pub write: Vec<PathBuf>,
    /// Inside of `write`, and read-only all the same.
    pub shut: Vec<PathBuf>,
    /// Inside of `read`, and hidden all the same.
    pub masked: Vec<PathBuf>,
    /// Files that appear elsewhere than where they are: an agent's own credentials.
    pub lent: Vec<CredentialMount>,
    /// Directories whose changes go into a layer of the run's own.
    pub layered: Vec<OverlayDir>,
    /// Symbolic links on the way to what is shown.
    pub links: Vec<Symlink>,
    /// Where a write must fail, as part of the proof.
    pub refused: Vec<PathBuf>,
    /// What must not be readable, as part of the proof.
    pub hidden: Vec<PathBuf>,
    pub network: SandboxNetwork,
    /// Whether UNIX sockets may be made: only where none of anybody else has a name inside.
    pub unix_sockets: bool,
    /// Whether modes, owners, times and attributes may be changed where a rung cannot tell whose
    /// they are.
    pub metadata: bool,
    pub bounds: SandboxLimits,
    /// Where the proof is written; outside of everything the run may touch.
    pub proof: PathBuf,
}

/// A file of the person's, read-only at a place of the run's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialMount {
    pub from: PathBuf,
    pub to: PathBuf,
}

/// A directory that looks writable, while the changes are kept apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverlayDir {
    pub dir: PathBuf,
    pub changes: PathBuf,
    pub work: PathBuf,
}

/// How much a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxLimits {
    pub processes: u64,
    pub open_files: u64,
    /// Of one file.
    pub file_bytes: u64,
    /// Of the temporary file systems in memory, each.
    pub tmp_bytes: u64,
    /// Of all that it holds together: processes, shared memory, files in memory, socket buffers.
    pub memory_bytes: u64,
    /// Free memory of the machine below which the run is ended.
    pub memory_floor_bytes: u64,
    /// Free space on the run's own disk below which it is ended.
    pub disk_floor_bytes: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            processes: 4096,
            open_files: 65_536,
            file_bytes: 8 << 30,
            tmp_bytes: 512 << 20,
            memory_bytes: total_memory() / 4 * 3,
            memory_floor_bytes: memory_floor(total_memory()),
            disk_floor_bytes: 512 << 20,
        }
    }
}

/// The machine's memory. A run may have three quarters of it: enough for any one, and the machine
/// goes on. Where it is not known there is no bound, and no floor that could end an innocent run.
fn total_memory() -> u64 {
    let known = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = known
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

/// A sixteenth of the machine's memory, at most 512 MiB.
fn memory_floor(total: u64) -> u64 {
    match total {
        u64::MAX => 0,
        known => (known / 16).min(512 << 20),
    }
}

/// A specification longer than this is not one of ours.
const SPECIFICATION_MAX: u64 = 4 << 20;

impl SandboxSpec {
    /// Writes it down for [`confine`], beside where the proof will be, and says where that is. A
    /// proof of an earlier run is removed.
    pub fn write(&self) -> Result<PathBuf, Error> {
        let file = self.proof.with_file_name("confinement.json");
        let failed = |source| Error::File {
            path: file.clone(),
            source,
        };
        crate::private::make_dir(file.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
        let canonical = self.canonical().map_err(|why| Error::NotConfined { why })?;
        let text = serde_json::to_vec_pretty(&canonical).map_err(|error| failed(error.into()))?;
        match fs::remove_file(&self.proof) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        crate::private::write(&file, text).map_err(failed)?;
        Ok(file)
    }

    /// The same with every path in its canonical form, and the links that lead there. What is only
    /// to be read or hidden and is not there is left out; what is to be written must be there.
    fn canonical(&self) -> Result<Self, String> {
        let mut links = Vec::new();
        let mut seen = |list: &[PathBuf]| -> Vec<PathBuf> {
            let found = list.iter().filter_map(|path| resolve(path).ok());
            let mut real: Vec<PathBuf> = found
                .map(|found| {
                    links.extend(found.links);
                    found.real
                })
                .collect();
            real.sort();
            real.dedup();
            real
        };
        let (read, shut) = (seen(&self.read), seen(&self.shut));
        let refused = seen(&self.refused);
        let there =
            |path: &Path| resolve(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut write = Vec::new();
        for path in &self.write {
            let found = there(path)?;
            links.extend(found.links);
            write.push(found.real);
        }
        let mut lent = Vec::new();
        for file in &self.lent {
            let Ok(from) = resolve(&file.from) else {
                continue;
            };
            let to = there(&file.to)?;
            links.extend(to.links);
            lent.push(CredentialMount {
                from: from.real,
                to: to.real,
            });
        }
        let mut layered = Vec::new();
        for layer in &self.layered {
            let dir = there(&layer.dir)?;
            links.extend(dir.links);
            layered.push(OverlayDir {
                dir: dir.real,
                changes: there(&layer.changes)?.real,
                work: there(&layer.work)?.real,
            });
        }
        links.extend_from_slice(&self.links);
        links.sort();
        links.dedup();
        let hidden = |list: &[PathBuf]| -> Vec<PathBuf> {
            list.iter().filter_map(|path| paths::real(path)).collect()
        };
        let notes = there(self.proof.parent().unwrap_or(Path::new("/")))?;
        let name = self.proof.file_name().ok_or("the proof has no name")?;
        Ok(Self {
            read,
            write,
            shut,
            masked: hidden(&self.masked),
            lent,
            layered,
            links,
            refused,
            hidden: hidden(&self.hidden),
            proof: notes.real.join(name),
            ..self.clone()
        })
    }

    /// Reads it strictly: an unknown word, or a path that is not canonical, starts nothing.
    fn read(file: &Path) -> io::Result<Self> {
        if fs::metadata(file)?.len() > SPECIFICATION_MAX {
            return Err(io::Error::other("the specification is too long"));
        }
        let read: Self = serde_json::from_slice(&fs::read(file)?)?;
        read.paths().try_for_each(paths::must_be_canonical)?;
        Ok(read)
    }

    /// Every path in it but what links lead to.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let lists = [
            &self.read,
            &self.write,
            &self.shut,
            &self.masked,
            &self.refused,
            &self.hidden,
        ];
        let lent = self.lent.iter().flat_map(|lent| [&lent.from, &lent.to]);
        let layered = self.layered.iter();
        let layered = layered.flat_map(|layer| [&layer.dir, &layer.changes, &layer.work]);
        let links = self.links.iter().map(|link| &link.at);
        let all = lists.into_iter().flatten().chain(lent).chain(layered);
        all.chain(links).chain([&self.proof]).map(PathBuf::as_path)
    }

    /// Whether what it starts can leave it behind.
    pub fn is_without_namespaces(&self) -> bool {
        self.rung == SandboxLevel::Landlock
    }

    /// Whether nothing of it is left once our own process outside has ended with a code: it has
    /// taken the end of the namespace's first process, whom nobody in there outlives.
    pub fn ends_as_a_whole(&self) -> bool {
        self.rung == SandboxLevel::Native
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
