//! Proves the sandbox: tries operations that must fail, from inside, before the program starts.
//!
//! Each layer can fail silently: a kernel may ignore a flag, a mount may stay writable. The proof
//! does not ask whether the steps succeeded, but whether the forbidden operation fails now. It
//! refuses the whole run for a single gap.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{SandboxLevel, SandboxNetwork, SandboxSpec};
use crate::process::ProgramExit;

/// Result of the child's checks of its own sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    // Proofs of earlier versions, which are kept with reviews, have the old name.
    #[serde(alias = "rung")]
    pub level: SandboxLevel,
    pub landlock_abi: u32,
    pub seccomp_filters: u32,
    pub network: SandboxNetwork,
    /// Number of directories in which a write was tried and refused.
    pub writes_refused: usize,
    /// Number of paths whose reading was tried and refused.
    pub reads_refused: usize,
}

/// One line of the proof file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProofNote {
    Confined(Proof),
    Failed(String),
    Ended(ProgramExit),
}

/// Reads the notes up to the first line that cannot be parsed: a killed process may leave half a
/// line at the end.
fn read_notes(file: &Path) -> Vec<ProofNote> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let read = text.lines().map(serde_json::from_str);
    read.map_while(Result::ok).collect()
}

/// Reads the proof, or the reason why there is none.
pub fn read_proof(file: &Path) -> Result<Proof, String> {
    let mut why = "it wrote no proof".to_owned();
    // A failure may come from the outer process after the inner one has already proven itself, so
    // the first proof decides.
    for note in read_notes(file) {
        match note {
            ProofNote::Confined(proof) => return Ok(proof),
            ProofNote::Failed(error) => why = error,
            ProofNote::Ended(_) => {}
        }
    }
    Err(why)
}

/// Returns the program's exit as the inner process saw it.
pub fn read_program_exit(file: &Path) -> Option<ProgramExit> {
    read_notes(file).into_iter().find_map(|note| match note {
        ProofNote::Ended(ending) => Some(ending),
        ProofNote::Confined(_) | ProofNote::Failed(_) => None,
    })
}

impl Proof {
    /// Returns a description for the record of a review.
    pub fn describe(&self) -> String {
        let what = match self.level {
            SandboxLevel::Native => {
                "user, PID, mount and IPC namespaces, a read-only root, Landlock, seccomp"
            }
            SandboxLevel::Bubblewrap => {
                "bubblewrap's namespaces and read-only root, Landlock, seccomp"
            }
            SandboxLevel::Landlock => "Landlock and seccomp, no namespaces",
        };
        let mut network = self.network.describe();
        if self.level == SandboxLevel::Landlock && matches!(self.network, SandboxNetwork::Proxy(_))
        {
            network.push_str(", enforced by port");
        }
        format!(
            "{} sandbox ({what}; {network}), proven before the start",
            self.level
        )
    }
}

/// The proof file, opened before the process restricts itself; the program does not inherit it.
#[derive(Debug)]
pub struct ProofLog(File);

impl ProofLog {
    /// Opens the proof next to the specification, at whatever path that has here.
    pub fn open(confinement: &SandboxSpec, specification: &Path) -> io::Result<Self> {
        let name = confinement.proof.file_name();
        let name = name.ok_or_else(|| io::Error::other("the proof has no name"))?;
        let mut options = OpenOptions::new();
        // Both processes append to the same file, so neither may truncate it. The mode keeps other
        // users of the machine out.
        options.create(true).append(true).mode(0o600);
        Ok(Self(options.open(specification.with_file_name(name))?))
    }

    pub fn log_proof(&mut self, proof: Proof) -> io::Result<()> {
        self.write_note(&ProofNote::Confined(proof))
    }

    pub fn log_failure(&mut self, error: &io::Error) -> io::Result<()> {
        self.write_note(&ProofNote::Failed(error.to_string()))
    }

    pub fn log_exit(&mut self, ending: ProgramExit) -> io::Result<()> {
        self.write_note(&ProofNote::Ended(ending))
    }

    fn write_note(&mut self, note: &ProofNote) -> io::Result<()> {
        let mut text = serde_json::to_string(note)?;
        text.push('\n');
        // One `write` call per line: with `O_APPEND` lines of two processes do not mix.
        self.0.write_all(text.as_bytes())
    }
}

/// Tries operations that must fail, and returns an error for the first one that succeeds.
pub fn prove(confinement: &SandboxSpec, landlock_abi: u32) -> io::Result<Proof> {
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let expect = |name: &str, value: &str| {
        if field(name) == value {
            Ok(())
        } else {
            Err(unproven_error(format!("{name} {}", field(name))))
        }
    };
    // The kernel's own account comes first: it is cheap and names the step that went wrong.
    expect("NoNewPrivs:", "1")?;
    expect("Seccomp:", "2")?;
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        expect(set, "0000000000000000")?;
    }
    for dir in &confinement.refused {
        prove_write_fails(dir)?;
    }
    for path in &confinement.hidden {
        prove_read_fails(path)?;
    }
    prove_network_isolated(confinement)?;
    Ok(Proof {
        level: confinement.level,
        landlock_abi,
        // The field exists only since Linux 5.9; the count is information for the record, not a
        // check.
        seccomp_filters: field("Seccomp_filters:").parse().unwrap_or_default(),
        network: confinement.network.clone(),
        writes_refused: confinement.refused.len(),
        reads_refused: confinement.hidden.len(),
    })
}

fn unproven_error(what: impl ToString) -> io::Error {
    io::Error::other(format!("the sandbox has a gap: {}", what.to_string()))
}

/// Checks that the network is closed. A network namespace has no route out; without one, the
/// kernel must refuse every connection except to the proxy. No connection is tried in a namespace:
/// it would depend on whether a peer answers, while the routing table does not.
fn prove_network_isolated(confinement: &SandboxSpec) -> io::Result<()> {
    if !confinement.network.is_isolated() {
        return Ok(());
    }
    if confinement.level == SandboxLevel::Landlock {
        return prove_sockets_fail(&confinement.network);
    }
    // The first line is a heading.
    let routes = fs::read_to_string("/proc/self/net/route")?;
    if routes.lines().count() > 1 {
        return Err(unproven_error(
            "there is a route out of the network namespace",
        ));
    }
    // The file is absent if IPv6 is switched off.
    let routes = fs::read_to_string("/proc/self/net/ipv6_route").unwrap_or_default();
    let out = |line: &str| !line.ends_with(" lo");
    match routes.lines().map(str::trim_end).find(|line| out(line)) {
        Some(_) => Err(unproven_error(
            "there is a route out of the network namespace",
        )),
        None => Ok(()),
    }
}

fn prove_sockets_fail(network: &SandboxNetwork) -> io::Result<()> {
    let refused = |result: io::Result<()>, what: &str| match result {
        // Only EACCES and EPERM are a refusal. "Connection refused" means that the attempt went
        // out.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(unproven_error(what)),
    };
    // Port 9 (discard) is never the port of our proxy.
    let tcp = TcpStream::connect(("127.0.0.1", 9)).map(drop);
    refused(tcp, "a port that is not the proxy's can be connected to")?;
    if matches!(network, SandboxNetwork::Proxy(_)) {
        let udp = UdpSocket::bind(("127.0.0.1", 0)).map(drop);
        refused(udp, "UDP sockets can be created")?;
    }
    Ok(())
}

fn prove_write_fails(dir: &Path) -> io::Result<()> {
    // A clear name, in case a gap leaves the file behind and the next line cannot remove it.
    let file = dir.join(".countersign-must-not-be-writable");
    if File::create(&file).is_err() {
        return Ok(());
    }
    drop(fs::remove_file(&file));
    Err(unproven_error(format!("{} can be written", dir.display())))
}

fn prove_read_fails(path: &Path) -> io::Result<()> {
    let readable = match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            // A masked directory is an empty tmpfs, which can be listed.
            fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
        }
        Ok(_) => {
            // A masked file is `/dev/null`, which can be opened; only a regular file is a gap.
            File::open(path).is_ok_and(|file| file.metadata().is_ok_and(|meta| meta.is_file()))
        }
        Err(_) => false,
    };
    if readable {
        Err(unproven_error(format!("{} can be read", path.display())))
    } else {
        Ok(())
    }
}
