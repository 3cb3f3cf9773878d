//! A run whose network is held to hosts reaches those, and nobody else, on every level and as root
//! and as an ordinary user.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::process::{
    Launcher, ProcessExit, ProcessHost, ProcessLimits, ProcessSpec, RunId, StopSignal,
};
use engine::sandbox::{ProxyRules, RunMounts, SandboxLevel, SandboxNetwork, SandboxProfile};
use serde::Deserialize;
use tempfile::TempDir;

use super::attack_setup::{Who, bubblewrap_is_here, people};
use crate::support::skip;

const BINARY: &str = env!("CARGO_BIN_EXE_countersign");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/sandbox/network.py");
/// Names the level for the test that is started as another user.
const LEVEL: &str = "COUNTERSIGN_TEST_LEVEL";

/// Destinations that must be reached, by their names in the script; no other may be.
const REACHED: [&str; 4] = [
    "listed, by a tunnel",
    "listed, in plain HTTP",
    "listed, by its own port",
    "the refusal says why",
];

fn levels() -> Vec<SandboxLevel> {
    let mut levels = vec![SandboxLevel::Native, SandboxLevel::Landlock];
    if bubblewrap_is_here() {
        levels.push(SandboxLevel::Bubblewrap);
    } else {
        skip::has_no("bubblewrap is not installed");
    }
    levels
}

#[tokio::test]
async fn only_the_hosts_of_the_list_are_reached() {
    for level in levels() {
        held_to_hosts(level).await;
    }
}

#[test]
fn only_the_hosts_of_the_list_are_reached_by_an_ordinary_user() {
    if !people().contains(&Who::Nobody) {
        skip::is_for_another_user("the other test was an ordinary user's already");
        return;
    }
    let us = std::env::current_exe().unwrap();
    for level in levels() {
        let test = "sandbox::network::as_an_ordinary_user";
        let ran = Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&us)
            .args(["--exact", test, "--nocapture"])
            .current_dir("/")
            .env(LEVEL, level.as_str())
            .output()
            .unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(ran.status.success(), "{level}: {said}");
        assert!(said.contains("1 passed"), "{level}: {said}");
    }
}

#[tokio::test]
async fn as_an_ordinary_user() {
    let Ok(named) = std::env::var(LEVEL) else {
        // The test above starts it, as an ordinary user.
        return;
    };
    let level = SandboxLevel::ALL
        .into_iter()
        .find(|level| level.as_str() == named);
    held_to_hosts(level.unwrap()).await;
}

#[derive(Debug, Deserialize)]
struct Tried {
    #[serde(rename = "try")]
    name: String,
    reached: bool,
    detail: String,
}

async fn held_to_hosts(level: SandboxLevel) {
    let (listed, other) = (Server::start(), Server::start());
    let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    udp.set_nonblocking(true).unwrap();
    let hosts = [
        format!("127.0.0.1:{}", listed.port),
        "named.invalid".to_owned(),
    ];
    let network = SandboxNetwork::Proxy(ProxyRules::for_hosts(
        hosts.iter().map(|host| host.parse().unwrap()),
    ));
    let words = [listed.port, other.port, udp.local_addr().unwrap().port()];
    let ended = run(level, network, &words.map(|port| port.to_string())).await;
    let (ended, said) = ended;
    assert_eq!(ended.exit, ProcessExit::Code(0), "{level}: {said}");
    assert!(said.contains("the end"), "{level}: {said}");
    let tried: Vec<Tried> = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert!(tried.len() >= 16, "{level}: {said}");
    for one in &tried {
        let wanted = REACHED.contains(&one.name.as_str());
        assert_eq!(one.reached, wanted, "{level}: {}: {}", one.name, one.detail);
    }
    assert_eq!(other.visits.load(Ordering::SeqCst), 0, "{level}");
    assert_eq!(listed.visits.load(Ordering::SeqCst), 3, "{level}");
    assert!(udp.recv(&mut [0; 16]).is_err(), "{level}: a datagram came");
    let refused: Vec<String> = ended
        .refused_hosts
        .iter()
        .map(|one| one.host.clone())
        .collect();
    for host in [
        "192.0.2.1:443",
        "other.invalid:443",
        "named.invalid:22",
        "by-variable.invalid:80",
    ] {
        assert!(
            refused.iter().any(|known| known == host),
            "{level}: {refused:?}"
        );
    }
    let proof = ended.proof.unwrap().describe();
    let told = format!(
        "network: provider (127.0.0.1:{}, named.invalid)",
        listed.port
    );
    assert!(proof.contains(&told), "{level}: {proof}");
}

async fn run(
    level: SandboxLevel,
    network: SandboxNetwork,
    words: &[String],
) -> (engine::process::ProcessEnd, String) {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in [
        "data/job/home",
        "data/job/scratch",
        "data/job/work",
        "tools",
    ] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::copy(SCRIPT, at("tools/network.py")).unwrap();
    std::fs::copy(BINARY, at("tools/countersign")).unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin";
    let mut ward = SandboxProfile::new(level, None, &path.into(), &[at("data")], &[]);
    ward.read.push(at("tools"));
    let confinement = ward.sandbox_for(RunMounts {
        read: vec![at("data/job/work")],
        write: vec![at("data/job/home"), at("data/job/scratch")],
        read_only: Vec::new(),
        overlays: Vec::new(),
        credentials: Vec::new(),
        network,
        metadata: false,
        proof: at("data/job/sandbox/proof.json"),
    });
    let host = ProcessHost {
        data_dir: at("host"),
        launcher: Some(Launcher::tied_to_us(&at("tools/countersign"))),
        adopts_orphans: false,
    };
    let script = at("tools/network.py");
    let spec = ProcessSpec {
        run_id: RunId::new("network").unwrap(),
        program: "/usr/bin/python3".into(),
        args: ["-I".into(), script.into()]
            .into_iter()
            .chain(words.iter().map(Into::into))
            .collect(),
        env: vec![
            ("PATH".into(), path.into()),
            ("HOME".into(), at("data/job/home").into()),
        ],
        cwd: at("data/job/work"),
        stdin: Vec::new(),
        keeps_stdin_open: false,
        transcript: at("transcript"),
        limits: ProcessLimits {
            wall: Duration::from_secs(120),
            ..ProcessLimits::default()
        },
        disk_quota: None,
        sandbox: Some(confinement),
    };
    let mut said = String::new();
    let ended = host
        .run(
            spec,
            |line| said.extend([line.text.as_str(), "\n"]),
            StopSignal::never(),
        )
        .await
        .unwrap();
    assert!(!Path::new(&at("data/job/sandbox/proxy.sock")).exists());
    (ended, said)
}

/// Greets whoever comes, and counts them.
struct Server {
    port: u16,
    visits: Arc<AtomicU32>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&visits);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.read(&mut [0; 1024]);
                let text = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello from outside";
                let _ = stream.write_all(text.as_bytes());
            }
        });
        Self { port, visits }
    }
}
