//! Restricts a run: a reviewer cannot write, a builder can write only its worktree, and neither
//! can read the person's secrets.
//!
//! A [`SandboxSpec`] lists everything that one run may see and touch; anything else is absent. One
//! of three levels enforces it, in our own binary between the fork and the program (`confine`):
//! the child restricts itself, proves it by trying operations that must fail, and only then
//! becomes the program. It refuses to run with a specification that it does not understand, or
//! without a proof. There is no level that means "off"; a run without a sandbox does not use this
//! module.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

mod bubblewrap;
mod confine;
mod handover;
mod home_tools;
mod host_root;
pub mod hosts;
mod landlock;
mod loopback;
mod native;
mod new_root;
mod paths;
mod privileges;
mod probe;
mod profile;
pub mod program;
mod proof;
pub mod proxy;
mod root;
mod seccomp;

pub use confine::{run_confined, run_inside};
pub use home_tools::Toolchain;
pub use hosts::Destination;
pub use paths::{Symlink, resolve};
pub use probe::{LevelProbe, ProgramTrial, probe_level, probe_overlays, try_program};
pub use profile::{RunMounts, SandboxProfile};
pub use proof::Proof;
pub use proxy::{Proxy, ProxyRules, RefusedHost, RunningProxy};

/// Exit code of a child that could not confine itself; it has started nothing. Shells use 126 and
/// 127 for a program that could not start, and 128 and above for signals. The code 125 is what
/// `env` and `timeout` use for their own failure, so a tool rarely returns it.
pub const NOT_CONFINED: u8 = 125;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the sandbox could not be set up, so nothing was started: {why}; run `countersign doctor` to see which sandbox levels work here, or set `sandbox = \"off\"` in [policy] to run without one"
    )]
    NotConfined { why: String },
    /// The child was killed before it could confine itself or prove it.
    #[error("the run was killed before its sandbox was ready: {exit}")]
    Killed { exit: String },
    #[error("{}: {source}; see that the data directory is writable", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// Kinds of sandbox, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Our own namespaces, a root of read-only mounts, Landlock and seccomp.
    Native,
    /// Namespaces by bubblewrap, with our Landlock and seccomp.
    Bubblewrap,
    /// Landlock and seccomp only, without namespaces.
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
    /// At most loopback.
    Off,
    /// Only our proxy on loopback, which connects to listed hosts.
    Proxy(ProxyRules),
}

impl SandboxNetwork {
    /// Returns whether the run has only loopback, on levels with namespaces.
    pub fn is_isolated(&self) -> bool {
        match self {
            Self::On => false,
            Self::Off | Self::Proxy(_) => true,
        }
    }

    /// Adds a host to the list, if the network is limited to one.
    pub fn allow_host(&mut self, host: Destination) {
        if let Self::Proxy(rules) = self {
            rules.allow_host(host);
        }
    }

    /// Returns a description for the record of a review.
    pub fn describe(&self) -> String {
        match self {
            Self::On => "network on".to_owned(),
            Self::Off => "network off".to_owned(),
            Self::Proxy(rules) => format!("network: provider ({})", rules.describe()),
        }
    }
}

/// Everything that one run may see and touch. It is parsed strictly: with an unknown key or value,
/// nothing is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSpec {
    pub level: SandboxLevel,
    /// Read-only paths.
    pub read: Vec<PathBuf>,
    /// Writable paths.
    pub write: Vec<PathBuf>,
    /// Paths inside `write` that are read-only.
    pub shut: Vec<PathBuf>,
    /// Paths inside `read` that are hidden.
    pub masked: Vec<PathBuf>,
    /// Files that are mounted at another path: an agent's own credentials.
    pub credentials: Vec<CredentialMount>,
    /// Directories whose changes go into an overlay of the run.
    pub layered: Vec<OverlayDir>,
    /// Symbolic links on the way to mounted paths.
    pub links: Vec<Symlink>,
    /// Directories in which a write must fail, as part of the proof.
    pub refused: Vec<PathBuf>,
    /// Paths that must not be readable, as part of the proof.
    pub hidden: Vec<PathBuf>,
    pub network: SandboxNetwork,
    /// Whether UNIX sockets may be created: only if no socket of another process has a name in the
    /// sandbox.
    pub unix_sockets: bool,
    /// Whether modes, owners, times and attributes may be changed on a level that cannot restrict
    /// this to the run's own files.
    pub metadata: bool,
    pub bounds: SandboxLimits,
    /// File of the proof, outside of everything that the run may touch.
    pub proof: PathBuf,
}

/// A file of the person's that is mounted read-only at a path of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialMount {
    pub from: PathBuf,
    pub to: PathBuf,
}

/// A directory that looks writable, while its changes are stored separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverlayDir {
    pub dir: PathBuf,
    /// Read-only layers that the directory shows, the upper one first. If it is empty, the
    /// directory itself is the layer, and is mounted read-only if the disk supports no overlay.
    pub lowers: Vec<PathBuf>,
    pub changes: PathBuf,
    /// Directory of the kernel, empty before each run.
    pub work: PathBuf,
}

/// Resource limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxLimits {
    pub processes: u64,
    pub open_files: u64,
    /// Maximum size of one file.
    pub file_bytes: u64,
    /// Maximum size of each tmpfs.
    pub tmp_bytes: u64,
    /// Maximum memory of the whole run: processes, shared memory, files in memory, socket buffers.
    pub memory_bytes: u64,
    /// Free memory of the machine below which the run is ended. The kernel's limits are per process
    /// or per namespace. The floors are watched from outside, because a run can fill the disk or
    /// the memory with files that no limit of a process counts.
    pub memory_floor_bytes: u64,
    /// Free space on the run's own disk below which it is ended.
    pub disk_floor_bytes: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            // Generous limits: a parallel build starts hundreds of processes and opens thousands of
            // files. They exist to stop a fork bomb or a runaway log, not to ration honest work.
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

/// Returns the machine's memory. A run may use three quarters of it, so that the machine keeps
/// working. If it is unknown, there is no bound, and no floor that could end an innocent run.
fn total_memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

/// Returns a sixteenth of the machine's memory, at most 512 MiB.
fn memory_floor(total: u64) -> u64 {
    match total {
        u64::MAX => 0,
        bytes => (bytes / 16).min(512 << 20),
    }
}

/// Maximum size of a specification file; we never write a longer one.
const SPECIFICATION_MAX: u64 = 4 << 20;

impl SandboxSpec {
    /// Writes the specification for `confine` next to the proof, and returns its path. Removes
    /// the proof of an earlier run.
    pub fn write(&self) -> Result<PathBuf, Error> {
        let file = self.proof.with_file_name("confinement.json");
        let failed = |source| Error::File {
            path: file.clone(),
            source,
        };
        crate::private_files::make_dir(file.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
        let canonical = self.canonical().map_err(|why| Error::NotConfined { why })?;
        let text = serde_json::to_vec_pretty(&canonical).map_err(|error| failed(error.into()))?;
        // A proof left by an earlier run at this path would vouch for a sandbox that was never set
        // up. It goes away before the new specification exists, so a crash in between leaves no
        // proof at all.
        match fs::remove_file(&self.proof) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        crate::private_files::write(&file, text).map_err(failed)?;
        Ok(file)
    }

    /// Returns the specification with canonical paths and the symbolic links that lead to them. A
    /// missing path is left out if it is only read or hidden, and is an error if it is written. The
    /// links are part of the result: a program that is configured with `/home/me/tool` must find it
    /// under that name, even though only its canonical path is mounted.
    fn canonical(&self) -> Result<Self, String> {
        let mut links = Vec::new();
        let mut existing = |list: &[PathBuf]| -> Vec<PathBuf> {
            let resolved = list.iter().filter_map(|path| resolve(path).ok());
            let mut real: Vec<PathBuf> = resolved
                .map(|path| {
                    links.extend(path.links);
                    path.real
                })
                .collect();
            real.sort();
            real.dedup();
            real
        };
        let (read, shut) = (existing(&self.read), existing(&self.shut));
        let refused = existing(&self.refused);
        // A writable path must exist. Leaving it out silently would start an agent that cannot
        // work, and its failure would look like the agent's own.
        let required =
            |path: &Path| resolve(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut write = Vec::new();
        for path in &self.write {
            let resolved = required(path)?;
            links.extend(resolved.links);
            write.push(resolved.real);
        }
        let mut credentials = Vec::new();
        for file in &self.credentials {
            // An agent without a credentials file logs in by other means, for example an
            // environment variable, so a missing one is no error.
            let Ok(from) = resolve(&file.from) else {
                continue;
            };
            let to = required(&file.to)?;
            links.extend(to.links);
            credentials.push(CredentialMount {
                from: from.real,
                to: to.real,
            });
        }
        let mut layered = Vec::new();
        for layer in &self.layered {
            let dir = required(&layer.dir)?;
            links.extend(dir.links);
            let lowers: Result<Vec<PathBuf>, String> = layer
                .lowers
                .iter()
                .map(|lower| Ok(required(lower)?.real))
                .collect();
            layered.push(OverlayDir {
                dir: dir.real,
                lowers: lowers?,
                changes: required(&layer.changes)?.real,
                work: required(&layer.work)?.real,
            });
        }
        links.extend_from_slice(&self.links);
        links.sort();
        links.dedup();
        // Masks use the real path without recording links: a link to a hidden path must not appear.
        let hidden = |list: &[PathBuf]| -> Vec<PathBuf> {
            list.iter()
                .filter_map(|path| paths::real_path(path))
                .collect()
        };
        let proof_dir = required(self.proof.parent().unwrap_or(Path::new("/")))?;
        let name = self.proof.file_name().ok_or("the proof has no name")?;
        Ok(Self {
            read,
            write,
            shut,
            masked: hidden(&self.masked),
            credentials,
            layered,
            links,
            refused,
            hidden: hidden(&self.hidden),
            proof: proof_dir.real.join(name),
            ..self.clone()
        })
    }

    /// Parses the file strictly: an unknown word or a path that is not canonical is an error.
    fn read(file: &Path) -> io::Result<Self> {
        // The child reads the file with our rights before it is confined, so it trusts no size
        // either.
        if fs::metadata(file)?.len() > SPECIFICATION_MAX {
            return Err(io::Error::other("the specification is too long"));
        }
        let spec: Self = serde_json::from_slice(&fs::read(file)?)?;
        // `canonical` wrote the file, but a path with `..` or a link would mount something else
        // than what the specification says, so the reader checks again.
        spec.paths().try_for_each(paths::ensure_canonical)?;
        Ok(spec)
    }

    /// Returns all paths of the specification except the targets of links. A link's target is only
    /// text in the new root and may be relative, so it is not checked.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let lists = [
            &self.read,
            &self.write,
            &self.shut,
            &self.masked,
            &self.refused,
            &self.hidden,
        ];
        let credentials = self
            .credentials
            .iter()
            .flat_map(|file| [&file.from, &file.to]);
        let layered = self.layered.iter();
        let layered = layered.flat_map(|layer| {
            let dirs = [&layer.dir, &layer.changes, &layer.work];
            dirs.into_iter().chain(&layer.lowers)
        });
        let links = self.links.iter().map(|link| &link.at);
        let all = lists
            .into_iter()
            .flatten()
            .chain(credentials)
            .chain(layered);
        all.chain(links).chain([&self.proof]).map(PathBuf::as_path)
    }

    /// Returns whether processes of the run can outlive its leader, because no PID namespace holds
    /// them.
    pub fn is_without_namespaces(&self) -> bool {
        self.level == SandboxLevel::Landlock
    }

    /// Returns whether no process is left once our outer process has exited with a code. It then
    /// has reaped the first process of the PID namespace, which no other process in there
    /// outlives.
    pub fn ends_with_its_namespace(&self) -> bool {
        self.level == SandboxLevel::Native
    }

    /// Returns the proof that the child wrote before it became the program.
    pub fn read_proof(&self) -> Result<Proof, Error> {
        let proof = proof::read_proof(&self.proof).map_err(|why| Error::NotConfined { why })?;
        // The two must agree, or the record of the review would claim another sandbox than the run
        // had.
        if proof.level == self.level {
            Ok(proof)
        } else {
            Err(Error::NotConfined {
                why: format!(
                    "the level {} was requested, but {} was proven",
                    self.level, proof.level
                ),
            })
        }
    }
}

#[cfg(test)]
mod tests;
