//! A world for one test: a repository, a data directory, an empty home, and the built program run
//! in them as a person would, with nothing of the machine's own environment.

pub mod bare_repository;
pub mod clock;
pub mod crew;
pub mod fake_github;
pub mod fake_server;
pub mod forge;
pub mod github;
pub mod listener;
pub mod mask;
mod mount;
mod outside;
pub mod processes;
mod pty;
pub mod server;
#[path = "../../../store/tests/it/skip.rs"]
pub mod skip;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub use mount::{Disk, Mount};
use outside::Outside;
use serde_json::Value;
use tempfile::TempDir;

/// A run that takes longer hangs.
pub const DEADLINE: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(3);

/// Checks that pass, and no pause before a step is tried again.
pub const SETTINGS: &str = "\
[checks]
test = \"sh test.sh\"

[policy.limits]
backoff_secs = 0
";

const TEST: &str = "#!/bin/sh
for tool in *.sh; do sh -n \"$tool\" || exit 1; done
if [ -e greet.sh ]; then [ \"$(sh greet.sh Ada)\" = 'Hello, Ada' ]; fi
";

pub const TICKET: &str = "---
id: greet
---
# Greet by name

`sh greet.sh NAME` prints `Hello, NAME`.

## Acceptance criteria
- An empty name is an error.
";

pub struct World {
    root: TempDir,
    pub repository: PathBuf,
    pub data: PathBuf,
    /// Instead of the database in the data directory.
    pub database: Option<String>,
    /// In the environment of everything that is started.
    pub variables: Vec<(String, String)>,
}

impl World {
    /// A small shell project with one commit on `main`.
    pub fn new() -> Self {
        Self::with_settings(SETTINGS)
    }

    /// For a crew that leaves signs for the test outside of its own directories, or does on purpose
    /// what the sandbox would not let it do.
    pub fn unconfined() -> Self {
        Self::with_settings(&format!("{SETTINGS}\n[policy]\nsandbox = \"off\"\n"))
    }

    pub fn with_settings(settings: &str) -> Self {
        let world = Self::without_commits();
        world.write("README.md", "# greetings\n");
        world.write("test.sh", TEST);
        world.write("countersign.toml", settings);
        world.commit("A small shell project");
        world
    }

    pub fn without_commits() -> Self {
        Self::empty().with_repository()
    }

    /// The same in a directory of the caller's.
    pub fn without_commits_in(dir: &Path) -> Self {
        Self::empty_in(dir).with_repository()
    }

    fn with_repository(self) -> Self {
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        self
    }

    /// Directories, and no repository in any of them.
    pub fn empty() -> Self {
        Self::empty_in(&std::env::temp_dir())
    }

    fn empty_in(dir: &Path) -> Self {
        let root = tempfile::tempdir_in(dir).unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let (repository, data) = (real.join("repository"), real.join("data"));
        for dir in [&repository, &real.join("home")] {
            fs::create_dir(dir).unwrap();
        }
        Self {
            root,
            repository,
            data,
            database: None,
            variables: Vec::new(),
        }
    }

    pub fn root(&self) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap()
    }

    /// A file in the work tree.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.repository.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A file outside of the repository; its path.
    pub fn put(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.root().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A file in the person's home.
    pub fn put_home(&self, name: &str, text: &str) {
        let path = self.root().join("home").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program that is found before the machine's own.
    pub fn install(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(self.root().join("bin")).unwrap();
        let path = self.put(&format!("bin/{name}"), script);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The program itself, found by its name.
    pub fn install_self(&self) {
        fs::create_dir_all(self.root().join("bin")).unwrap();
        let link = self.root().join("bin/countersign");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_countersign"), link).unwrap();
    }

    /// Runs a line in the work tree, as a person would type it.
    pub fn shell(&self, shell: &str, line: &str) -> Ran {
        self.spawn(shell.as_ref(), ["-c", line]).wait(DEADLINE)
    }

    /// The machine's, and before it what this world has installed.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program from outside, as a person does"
    )]
    fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = self.root().join("bin");
        if !own.is_dir() {
            return path;
        }
        let dirs = std::iter::once(own).chain(std::env::split_paths(&path));
        std::env::join_paths(dirs).unwrap()
    }

    /// A scripted crew, as the command line names it.
    pub fn crew(&self, script: &Value) -> String {
        self.named_crew("crew", script)
    }

    pub fn named_crew(&self, name: &str, script: &Value) -> String {
        let path = self.put(&format!("{name}.json"), script.to_string());
        format!("scripted:{path}")
    }

    /// Runs git in the work tree, as a person with an empty home would.
    pub fn git(&self, words: &[&str]) -> String {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@localhost"];
        let ran = self
            .spawn("git".as_ref(), identity.iter().chain(words))
            .wait(DEADLINE);
        assert_eq!(ran.code, 0, "git {words:?}: {}{}", ran.out, ran.err);
        ran.out.trim_end().to_owned()
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// Runs Countersign in the repository to its end. What a run changes outside fails the story.
    pub fn call(&self, words: &[&str]) -> Ran {
        self.watched(words, || self.start(words).wait(DEADLINE))
    }

    fn watched(&self, words: &[&str], call: impl FnOnce() -> Ran) -> Ran {
        let before = Outside::before(self, words);
        let ran = call();
        if let Some(before) = before {
            before.must_be_as_before(self);
        }
        ran
    }

    /// Whether the policy of this world lets agents do what the person could.
    fn is_unconfined(&self) -> bool {
        let settings = fs::read_to_string(self.repository.join("countersign.toml"));
        settings.is_ok_and(|text| text.contains("sandbox = \"off\""))
    }

    /// The answer in JSON, which has a version whatever it is.
    pub fn json(&self, words: &[&str]) -> Value {
        let ran = self.call(&[words, &["--json"]].concat());
        ran.json()
    }

    /// The same behind another program, which becomes it.
    pub fn call_behind(&self, front: &[&str], words: &[&str]) -> Ran {
        let call = || self.start_behind(front, words).wait(DEADLINE);
        // A shell in front does what it likes before it becomes Countersign.
        if front.contains(&"sh") {
            return call();
        }
        self.watched(words, call)
    }

    pub fn start_behind(&self, front: &[&str], words: &[&str]) -> Running {
        let (program, before) = front.split_first().unwrap();
        let mut all: Vec<String> = before.iter().map(|word| (*word).to_owned()).collect();
        all.push(env!("CARGO_BIN_EXE_countersign").to_owned());
        all.extend(Self::words(words));
        self.spawn(program.as_ref(), all)
    }

    pub fn start(&self, words: &[&str]) -> Running {
        self.spawn(
            env!("CARGO_BIN_EXE_countersign").as_ref(),
            Self::words(words),
        )
    }

    /// The same with no data directory but the one that the words name.
    pub fn start_elsewhere(&self, words: &[&str]) -> Running {
        self.spawn(env!("CARGO_BIN_EXE_countersign").as_ref(), words)
    }

    /// Starts any program in the work tree.
    pub fn start_program(&self, program: &str, words: &[&str]) -> Running {
        self.spawn(program.as_ref(), words)
    }

    /// The data directory and the database are in the environment: suggested commands repeat a flag,
    /// and a password in an argument is remarked on.
    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Runs Countersign with no data directory but the one that the words name.
    pub fn without_data(&self, words: &[&str]) -> Ran {
        self.start_elsewhere(words).wait(DEADLINE)
    }

    /// Starts Countersign with its words going into a pipe.
    pub fn start_into(&self, words: &[&str], pipe: std::io::PipeWriter) -> Running {
        let program = env!("CARGO_BIN_EXE_countersign");
        let ends = (Stdio::null(), Some(pipe.into()));
        self.spawn_between(program.as_ref(), Self::words(words), ends)
    }

    /// Starts Countersign for somebody who speaks with it, with more in its environment.
    pub fn start_between(
        &self,
        variables: &[String],
        words: &[&str],
        (from, to): (std::io::PipeReader, std::io::PipeWriter),
    ) -> Running {
        let mut all = variables.to_vec();
        all.push(env!("CARGO_BIN_EXE_countersign").to_owned());
        all.extend(Self::words(words));
        let ends = (from.into(), Some(to.into()));
        self.spawn_between("env".as_ref(), all, ends)
    }

    fn spawn(
        &self,
        program: &OsStr,
        words: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Running {
        self.spawn_between(program, words, (Stdio::null(), None))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program from outside, as a person does"
    )]
    fn spawn_between(
        &self,
        program: &OsStr,
        words: impl IntoIterator<Item = impl AsRef<OsStr>>,
        (from, to): (Stdio, Option<Stdio>),
    ) -> Running {
        use std::os::unix::process::CommandExt;
        let said = Said::new(&self.root());
        let out = File::create(&said.out).unwrap();
        let child = Command::new(program)
            .args(words)
            .current_dir(&self.repository)
            .env_clear()
            .env("PATH", self.path())
            .env("HOME", self.root().join("home"))
            .env("USER", "ada")
            .env("COUNTERSIGN_DATA_DIR", &self.data)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(
                self.database
                    .iter()
                    .map(|url| ("COUNTERSIGN_DATABASE", url)),
            )
            .envs(self.variables.iter().cloned())
            .process_group(0)
            .stdin(from)
            .stdout(to.unwrap_or_else(|| out.into()))
            .stderr(File::create(&said.err).unwrap())
            .spawn()
            .unwrap();
        Running { child, said }
    }

    /// The ticket as it is stored.
    pub fn ticket(&self, id: &str) -> Value {
        self.json(&["ticket", "show", id])["ticket"].take()
    }

    pub fn stage(&self, id: &str) -> String {
        self.ticket(id)["stage"].as_str().unwrap().to_owned()
    }

    /// The names of everything that was decided or refused, in order. One event may be told in
    /// several sentences.
    pub fn events(&self, id: &str) -> Vec<String> {
        let log = self.json(&["log", id, "--limit", "10000"]);
        // There may be no such ticket yet.
        let mut events = log["events"].as_array().cloned().unwrap_or_default();
        events.dedup_by_key(|event| event["cursor"].clone());
        events
            .iter()
            .map(|event| event["event"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn count(&self, id: &str, event: &str) -> usize {
        let events = self.events(id);
        events.iter().filter(|name| *name == event).count()
    }

    /// Counts how often the log has this event, including events outside tickets.
    pub fn count_of(&self, event: &str) -> usize {
        let log = self.json(&["log", "--limit", "10000"]);
        let events = log["events"].as_array().cloned().unwrap_or_default();
        events.iter().filter(|one| one["event"] == event).count()
    }

    /// Checks invariants that hold after any event: the log replays to the stored state, and git's
    /// objects are whole.
    pub fn must_be_sound(&self) {
        let audit = self.call(&["doctor", "--verify-log"]);
        assert_eq!(audit.code, 0, "{}{}", audit.out, audit.err);
        self.git(&["fsck", "--strict", "--no-dangling"]);
    }

    /// The text with everything replaced that another run would have otherwise.
    pub fn masked(&self, text: &str) -> String {
        mask::mask(text, &self.root())
    }
}

/// Files for the output of a program.
struct Said {
    out: PathBuf,
    err: PathBuf,
}

impl Said {
    fn new(root: &Path) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |stream: &str| root.join(format!("said-{count}.{stream}"));
        Self {
            out: name("out"),
            err: name("err"),
        }
    }
}

/// A program that goes on.
pub struct Running {
    child: Child,
    said: Said,
}

impl Running {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The standard error so far.
    pub fn log(&self) -> String {
        read(&self.said.err)
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn wait(mut self, deadline: Duration) -> Ran {
        let mut ended = None;
        let in_time = reached(deadline, || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        let (out, err) = (read(&self.said.out), read(&self.said.err));
        assert!(in_time, "it never ended\n{out}\n{err}");
        let code = ended.map_or(-1, code_of);
        // Long campaigns call often.
        let _ = fs::remove_file(&self.said.out);
        let _ = fs::remove_file(&self.said.err);
        Ran { code, out, err }
    }
}

/// One that a failed test left behind.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let signal = || 128 + status.signal().unwrap_or_default();
    status.code().unwrap_or_else(signal)
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        let answer: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}:\n{}\n{}", self.out, self.err));
        assert_eq!(answer["version"], 1, "{answer}");
        answer
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let said = format!("{}\n{}", self.out, self.err);
        assert!(said.contains(text), "it should say {text:?}:\n{said}");
        self
    }

    /// The exit code and the complaint, for a snapshot.
    pub fn complaint(&self, world: &World) -> String {
        assert_eq!(self.out, "", "a complaint has nothing on stdout");
        format!("exit {}\n{}", self.code, world.masked(&self.err))
    }
}

/// Looks again and again until it holds; false when the deadline has passed.
#[expect(
    clippy::disallowed_methods,
    reason = "a deadline on another process's real time"
)]
pub fn reached(deadline: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > deadline {
            return false;
        }
        std::thread::park_timeout(TICK);
    }
    true
}

#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(reached(DEADLINE, holds), "it never happened that {what}");
}

/// Reads a variable of the test run. Only long campaigns and databases have any.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the tests read their own environment"
)]
pub fn told(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Prints a line past the test harness, which would capture it.
pub fn say(text: &str) {
    use std::io::Write;
    let line = format!("{text}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
