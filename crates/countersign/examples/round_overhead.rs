//! What one whole scripted round costs beyond the time inside git, agents and checks.
//!
//! ```text
//! cargo build --release -p countersign
//! cargo run --release -p countersign --example round_overhead -- 20
//! ```
//!
//! Each story is one round: build, check, review, merge, one after the other. Its wall time is
//! taken as it is. The same stories again, with this program in git's place to time every call,
//! give git's share; agents and checks are timed by Countersign itself and are on the ticket.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement starts programs, reads the clock and prints what it found"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const STORIES_DEFAULT: usize = 20;

fn main() -> ExitCode {
    let name = std::env::args_os().next().map(PathBuf::from).unwrap();
    if name.file_name().is_some_and(|name| name == "git") {
        return be_git(name.parent().unwrap());
    }
    let count = std::env::args().nth(1).and_then(|word| word.parse().ok());
    measure(count.unwrap_or(STORIES_DEFAULT));
    ExitCode::SUCCESS
}

/// Runs the real git and notes how long it took.
fn be_git(beside: &Path) -> ExitCode {
    let real = fs::read_to_string(beside.join("real")).unwrap();
    let began = Instant::now();
    let ended = Command::new(real)
        .args(std::env::args_os().skip(1))
        .status();
    let nanos = began.elapsed().as_nanos();
    let mut log = File::options()
        .append(true)
        .create(true)
        .open(beside.join("log"))
        .unwrap();
    log.write_all(format!("{nanos}\n").as_bytes()).unwrap();
    let code = ended.ok().and_then(|status| status.code()).unwrap_or(128);
    ExitCode::from(u8::try_from(code).unwrap_or(128))
}

/// One story's times.
#[derive(Clone, Copy)]
struct Story {
    wall: Duration,
    agents_and_checks: Duration,
}

fn measure(count: usize) {
    let ground = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let timed = ground.path().join("timed");
    fs::create_dir(&timed).unwrap();
    let git = std::env::split_paths(&path)
        .map(|dir| dir.join("git"))
        .find(|git| git.is_file());
    fs::write(timed.join("real"), git.unwrap().to_str().unwrap()).unwrap();
    symlink(std::env::current_exe().unwrap(), timed.join("git")).unwrap();
    let through_us = std::env::join_paths(
        [timed.clone()]
            .into_iter()
            .chain(std::env::split_paths(&path)),
    );

    play(ground.path(), "warm", &path);
    let stories: Vec<Story> = (0..count)
        .map(|n| play(ground.path(), &format!("plain-{n}"), &path))
        .collect();
    let through_us = through_us.unwrap();
    let calls: Vec<(usize, Duration)> = (0..count)
        .map(|n| {
            let _ = fs::remove_file(timed.join("log"));
            play(ground.path(), &format!("timed-{n}"), &through_us);
            let log = fs::read_to_string(timed.join("log")).unwrap();
            let nanos = log.lines().map(|line| line.parse::<u64>().unwrap());
            (log.lines().count(), Duration::from_nanos(nanos.sum()))
        })
        .collect();

    let wall = median(stories.iter().map(|story| story.wall).collect());
    let work = median(
        stories
            .iter()
            .map(|story| story.agents_and_checks)
            .collect(),
    );
    let inside_git = median(calls.iter().map(|(_, time)| *time).collect());
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let overhead = millis(wall) - millis(inside_git) - millis(work);
    println!("one scripted round, median of {count} (ms)");
    println!("  wall              {:8.1}", millis(wall));
    println!(
        "  inside git        {:8.1}   {} calls",
        millis(inside_git),
        calls[0].0
    );
    println!("  agents and checks {:8.1}", millis(work));
    println!("  overhead          {overhead:8.1}   = wall - git - agents and checks");
    println!("  overhead / git    {:8.2}", overhead / millis(inside_git));
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// One ticket through one round in a repository of its own.
fn play(ground: &Path, name: &str, path: &OsString) -> Story {
    let root = ground.join(name);
    let repository = root.join("repository");
    fs::create_dir_all(&repository).unwrap();
    for (file, text) in [
        ("test.sh", "exit 0\n"),
        ("countersign.toml", "[checks]\ntest = \"sh test.sh\"\n"),
    ] {
        fs::write(repository.join(file), text).unwrap();
    }
    for words in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "--all"],
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@localhost",
            "commit",
            "--quiet",
            "-m",
            "First",
        ],
    ] {
        let git = Command::new("git")
            .args(words)
            .current_dir(&repository)
            .status();
        assert!(git.unwrap().success(), "git {words:?}");
    }
    let script = root.join("crew.json");
    fs::write(&script, crew().to_string()).unwrap();
    let agent = format!("scripted:{}", script.display());
    let words = [
        "--json",
        "run",
        "Greet the user by name",
        "--builder",
        &agent,
        "--reviewer",
        &agent,
    ];
    let began = Instant::now();
    let ran = Command::new(countersign())
        .args(words)
        .current_dir(&repository)
        .env_clear()
        .env("PATH", path)
        .env("HOME", &root)
        .output()
        .unwrap();
    let wall = began.elapsed();
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(answer["exit"], 0, "{answer}");
    let spent = answer["ticket"]["spent"]["ticket"]["wall_ms"]
        .as_u64()
        .unwrap();
    Story {
        wall,
        agents_and_checks: Duration::from_millis(spent),
    }
}

/// Returns the program that cargo built next to this one.
fn countersign() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().parent().unwrap().join("countersign");
    assert!(
        program.exists(),
        "{} is missing: build it in the same profile first",
        program.display()
    );
    program
}

fn crew() -> Value {
    json!({
        "version": 1,
        "build": {"always": [
            {"write": {"path": "greet.sh", "text": "echo Hello\n"}},
            {"result": {"summary": "Done."}},
        ]},
        "review": {"always": [{"result": {"verdict": "approve", "commit": "$COMMIT",
            "complete": true, "findings": []}}]},
    })
}
