//! The proof: what must fail is tried, from inside, before the program begins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{SandboxLevel, SandboxNetwork, SandboxSpec};
use crate::process::ProgramExit;

/// What the child found out about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    pub rung: SandboxLevel,
    pub landlock_abi: u32,
    pub seccomp_filters: u32,
    pub network: SandboxNetwork,
    /// Places where a write was tried and refused.
    pub writes_refused: usize,
    /// Files that were looked for and not readable.
    pub reads_refused: usize,
}

/// One line of the notes that are taken while a run is confined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProofNote {
    Confined(Proof),
    Failed(String),
    Ended(ProgramExit),
}

fn notes(file: &Path) -> Vec<ProofNote> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let read = text.lines().map(serde_json::from_str);
    read.map_while(Result::ok).collect()
}

/// The proof, or why there is none.
pub fn read(file: &Path) -> Result<Proof, String> {
    let mut why = "it left no proof".to_owned();
    for note in notes(file) {
        match note {
            ProofNote::Confined(proof) => return Ok(proof),
            ProofNote::Failed(said) => why = said,
            ProofNote::Ended(_) => {}
        }
    }
    Err(why)
}

/// How the program ended, as the one inside saw it.
pub fn ending(file: &Path) -> Option<ProgramExit> {
    notes(file).into_iter().find_map(|note| match note {
        ProofNote::Ended(ending) => Some(ending),
        ProofNote::Confined(_) | ProofNote::Failed(_) => None,
    })
}

impl Proof {
    /// For the record of a review.
    pub fn describe(&self) -> String {
        let what = match self.rung {
            SandboxLevel::Native => {
                "user, PID, mount and IPC namespaces, a read-only root, Landlock, seccomp"
            }
            SandboxLevel::Bubblewrap => {
                "bubblewrap's namespaces and read-only root, Landlock, seccomp"
            }
            SandboxLevel::Landlock => "Landlock and seccomp, no namespaces",
        };
        let mut network = self.network.describe();
        if self.rung == SandboxLevel::Landlock && matches!(self.network, SandboxNetwork::Proxy(_)) {
            network.push_str(", held by port");
        }
        format!(
            "{} sandbox ({what}; {network}), proven before the start",
            self.rung
        )
    }
}

/// The file for the proof, opened while that is still possible; the program does not inherit it.
#[derive(Debug)]
pub struct ProofLog(File);

impl ProofLog {
    /// Beside the specification, wherever that is seen from here.
    pub fn open(confinement: &SandboxSpec, specification: &Path) -> io::Result<Self> {
        let name = confinement.proof.file_name();
        let name = name.ok_or_else(|| io::Error::other("the proof has no name"))?;
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        Ok(Self(options.open(specification.with_file_name(name))?))
    }

    pub fn proven(&mut self, proof: Proof) -> io::Result<()> {
        self.note(&ProofNote::Confined(proof))
    }

    pub fn failed(&mut self, error: &io::Error) -> io::Result<()> {
        self.note(&ProofNote::Failed(error.to_string()))
    }

    pub fn ended(&mut self, ending: ProgramExit) -> io::Result<()> {
        self.note(&ProofNote::Ended(ending))
    }

    fn note(&mut self, note: &ProofNote) -> io::Result<()> {
        let mut text = serde_json::to_string(note)?;
        text.push('\n');
        self.0.write_all(text.as_bytes())
    }
}

/// Tries what must fail. The first thing that does not is the error.
pub fn prove(confinement: &SandboxSpec, landlock_abi: u32) -> io::Result<Proof> {
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let wanted = |name: &str, value: &str| {
        if field(name) == value {
            Ok(())
        } else {
            Err(unproven(format!("{name} {}", field(name))))
        }
    };
    wanted("NoNewPrivs:", "1")?;
    wanted("Seccomp:", "2")?;
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        wanted(set, "0000000000000000")?;
    }
    for dir in &confinement.refused {
        write_must_fail(dir)?;
    }
    for path in &confinement.hidden {
        read_must_fail(path)?;
    }
    network_must_be_apart(confinement)?;
    Ok(Proof {
        rung: confinement.rung,
        landlock_abi,
        seccomp_filters: field("Seccomp_filters:").parse().unwrap_or_default(),
        network: confinement.network.clone(),
        writes_refused: confinement.refused.len(),
        reads_refused: confinement.hidden.len(),
    })
}

fn unproven(what: impl ToString) -> io::Error {
    io::Error::other(format!("not confined: {}", what.to_string()))
}

/// Where a namespace keeps the run apart there is no route; where there is none, the kernel refuses
/// what does not go to the proxy.
fn network_must_be_apart(confinement: &SandboxSpec) -> io::Result<()> {
    if !confinement.network.is_apart() {
        return Ok(());
    }
    if confinement.rung == SandboxLevel::Landlock {
        return sockets_must_fail(&confinement.network);
    }
    // The first line is a heading.
    let routes = fs::read_to_string("/proc/self/net/route")?;
    if routes.lines().count() > 1 {
        return Err(unproven("there is a route out of the network namespace"));
    }
    let routes = fs::read_to_string("/proc/self/net/ipv6_route").unwrap_or_default();
    let out = |line: &str| !line.ends_with(" lo");
    match routes.lines().map(str::trim_end).find(|line| out(line)) {
        Some(_) => Err(unproven("there is a route out of the network namespace")),
        None => Ok(()),
    }
}

fn sockets_must_fail(network: &SandboxNetwork) -> io::Result<()> {
    let refused = |tried: io::Result<()>, what: &str| match tried {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(unproven(what)),
    };
    // The discard port, which no proxy of ours has.
    let tcp = TcpStream::connect(("127.0.0.1", 9)).map(drop);
    refused(tcp, "a port that is not the proxy's can be connected to")?;
    if matches!(network, SandboxNetwork::Proxy(_)) {
        let udp = UdpSocket::bind(("127.0.0.1", 0)).map(drop);
        refused(udp, "datagrams can be sent")?;
    }
    Ok(())
}

fn write_must_fail(dir: &Path) -> io::Result<()> {
    let tried = dir.join(".countersign-must-not-be-writable");
    if File::create(&tried).is_err() {
        return Ok(());
    }
    drop(fs::remove_file(&tried));
    Err(unproven(format!("{} can be written", dir.display())))
}

fn read_must_fail(path: &Path) -> io::Result<()> {
    let readable = match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
        }
        Ok(_) => {
            File::open(path).is_ok_and(|file| file.metadata().is_ok_and(|meta| meta.is_file()))
        }
        Err(_) => false,
    };
    if readable {
        Err(unproven(format!("{} can be read", path.display())))
    } else {
        Ok(())
    }
}
