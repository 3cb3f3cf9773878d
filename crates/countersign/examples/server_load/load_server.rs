//! The servers that are measured, each in a directory and with a database of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::client::Caller;
use super::filling::fill;
use super::{AGENTS, RECEIVER};

/// `countersign serve`, and those who may speak to it.
pub struct LoadServer {
    server: Child,
    data: TempDir,
    program: PathBuf,
    database: Option<String>,
    pub address: String,
    pub admin: String,
    pub tokens: Vec<String>,
    pub started_ms: f64,
}

pub fn agent(number: usize) -> String {
    format!("load{number}")
}

impl LoadServer {
    pub async fn open(program: &Path, database: Option<String>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let program = program.canonicalize().unwrap();
        // The first start makes the tables; it is the second that is measured, on another port.
        let (first, ..) = start(&program, data.path(), database.as_deref()).await;
        end(first);
        let (server, address, admin, started_ms) =
            start(&program, data.path(), database.as_deref()).await;
        let mut house = Self {
            server,
            data,
            program,
            database,
            address,
            admin,
            tokens: Vec::new(),
            started_ms,
        };
        house.tokens = (0..AGENTS).map(|at| house.token(&agent(at))).collect();
        // A message to a name that nobody has is refused.
        house.token(RECEIVER);
        house
    }

    pub fn data(&self) -> &Path {
        self.data.path()
    }

    fn token(&self, agent: &str) -> String {
        let made = command(&self.program, self.data.path(), self.database.as_deref())
            .args([
                "--json", "token", "create", "--role", "builder", "--agent", agent,
            ])
            .output()
            .unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        made["secret"].as_str().unwrap().to_owned()
    }

    /// An agent that speaks MCP on its standard input and output.
    pub fn bridge(&self) -> tokio::process::Command {
        let mut bridge = command(&self.program, self.data.path(), self.database.as_deref());
        bridge.arg("mcp").env("COUNTERSIGN_TOKEN", &self.tokens[0]);
        bridge.into()
    }

    pub fn resident_mb(&self) -> f64 {
        let pages = self.about("VmRSS:");
        pages as f64 / 1024.0
    }

    /// How often any of its threads went to sleep: each is a wake-up.
    pub fn switches(&self) -> u64 {
        let tasks = format!("/proc/{}/task", self.server.id());
        let threads = std::fs::read_dir(tasks).unwrap().flatten();
        let files = threads.map(|thread| thread.path().join("status"));
        files
            .map(|file| figure(&file, "voluntary_ctxt_switches:"))
            .sum()
    }

    fn about(&self, name: &str) -> u64 {
        figure(
            Path::new(&format!("/proc/{}/status", self.server.id())),
            name,
        )
    }

    pub async fn fill(&self, tickets: usize) {
        let place = match &self.database {
            Some(url) => url.clone(),
            None => self
                .data
                .path()
                .join("countersign.db")
                .display()
                .to_string(),
        };
        fill(&place, tickets).await;
    }
}

impl Drop for LoadServer {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

fn figure(file: &Path, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.map_or(0, |number| number.parse().unwrap())
}

fn command(program: &Path, data: &Path, database: Option<&str>) -> Command {
    let mut command = Command::new(program);
    command.arg("--data-dir").arg(data);
    if let Some(database) = database {
        command.args(["--database", database]);
    }
    command
}

/// The server, its address, its administrator's token, and the milliseconds to its first answer.
async fn start(
    program: &Path,
    data: &Path,
    database: Option<&str>,
) -> (Child, String, String, f64) {
    let began = Instant::now();
    let server = command(program, data, database)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let sign = loop {
        let text = std::fs::read(data.join("server.json")).unwrap_or_default();
        let sign: Value = serde_json::from_slice(&text).unwrap_or_default();
        if sign["pid"] == server.id() {
            break sign;
        }
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it does not start"
        );
        tokio::task::yield_now().await;
    };
    let text = |name: &str| sign[name].as_str().unwrap().to_owned();
    let address = text("url").replace("http://", "");
    Caller::new(&address, "")
        .await
        .send("GET", "/healthz", "")
        .await;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    (server, address, text("token"), took)
}

fn end(mut server: Child) {
    let pid = i32::try_from(server.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::TERM).unwrap();
    server.wait().unwrap();
}

/// The peer, ended with us.
pub struct Echo {
    child: Child,
    pub address: String,
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn start_echo() -> Echo {
    use std::io::BufRead as _;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("echo")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let output = child.stdout.take().unwrap();
    std::io::BufReader::new(output)
        .read_line(&mut address)
        .unwrap();
    let address = address.trim().to_owned();
    Echo { child, address }
}
