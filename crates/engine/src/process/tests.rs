//! Tests with real processes that misbehave: each is ended and recorded.

use std::time::Duration;

use tempfile::TempDir;

use super::tree::{ProcessIdentity, new_mark};
use super::*;

fn limits() -> ProcessLimits {
    ProcessLimits {
        wall: Duration::from_secs(20),
        idle: Duration::from_secs(20),
        term_grace: Duration::from_millis(100),
        drain_grace: Duration::from_millis(200),
        ..ProcessLimits::default()
    }
}

/// Counts the processes with a mark of this run and this process.
fn left_of(id: &str) -> usize {
    let mark = format!("{RUN_MARK}={id}@{}.", std::process::id());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments
        .filter(|environ| String::from_utf8_lossy(environ).contains(&mark))
        .count()
}

struct Ran {
    ended: ProcessEnd,
    lines: Vec<OutputLine>,
    transcript: Vec<u8>,
}

impl Ran {
    fn text(&self) -> String {
        self.lines
            .iter()
            .map(|line| line.text.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

struct Bench {
    dir: TempDir,
    host: ProcessHost,
}

impl Bench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let host = ProcessHost {
            data_dir: dir.path().join("data"),
            launcher: None,
            adopts_orphans: false,
        };
        Self { dir, host }
    }

    fn spec(&self, id: &str, script: &str, limits: ProcessLimits) -> ProcessSpec {
        ProcessSpec {
            run_id: RunId::new(id).unwrap(),
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: self.dir.path().to_owned(),
            stdin: Vec::new(),
            keeps_stdin_open: false,
            transcript: self.dir.path().join("transcript"),
            limits,
            disk_quota: None,
            sandbox: None,
        }
    }

    async fn run(&self, id: &str, script: &str, limits: ProcessLimits) -> Ran {
        self.watch(id, script, limits, |_| {}, StopSignal::never())
            .await
    }

    /// Runs until the first line arrives, then requests a stop.
    async fn run_and_stop(&self, id: &str, script: &str, limits: ProcessLimits) -> Ran {
        let (stopper, stop) = StopSignal::pair();
        self.watch(id, script, limits, move |_| stopper.stop(), stop)
            .await
    }

    async fn watch(
        &self,
        id: &str,
        script: &str,
        limits: ProcessLimits,
        seen: impl Fn(&OutputLine) + Send + Sync,
        stop: StopSignal,
    ) -> Ran {
        let spec = self.spec(id, script, limits);
        let mut lines = Vec::new();
        let on_line = |line| {
            seen(&line);
            lines.push(line);
        };
        let ended = self.host.run(spec, on_line, stop).await.unwrap();
        let transcript = std::fs::read(self.dir.path().join("transcript")).unwrap();
        assert_eq!(ended.survivors, 0);
        assert_eq!(left_of(id), 0, "{id} left somebody behind");
        assert!(!self.host.data_dir.join(format!("runs/{id}.json")).exists());
        Ran {
            ended,
            lines,
            transcript,
        }
    }
}

#[tokio::test]
async fn a_run_hands_on_its_lines_and_keeps_the_transcript() {
    let ran = Bench::new()
        .run("plain", "echo one; echo two >&2; exit 7", limits())
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::Code(7));
    assert_eq!((ran.ended.stdout_bytes, ran.ended.stderr_bytes), (4, 4));
    assert!(ran.lines.contains(&OutputLine {
        stream: OutputStream::Err,
        text: "two".into(),
        whole: true
    }));
    assert_eq!(ran.transcript.len(), 8);
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_the_mark() {
    let ran = Bench::new().run("env", "env", limits()).await;
    let mut names: Vec<&str> = ran
        .lines
        .iter()
        .filter_map(|line| Some(line.text.split_once('=')?.0))
        .collect();
    names.sort_unstable();
    // The shell itself adds PWD, SHLVL and _.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    assert_eq!(names, ["COUNTERSIGN_RUN", "PATH"]);
}

#[tokio::test]
async fn a_child_that_reads_nothing_does_not_block_us() {
    let bench = Bench::new();
    let mut spec = bench.spec("deaf", "exit 0", limits());
    spec.stdin = vec![b'x'; 4 << 20];
    let ended = bench
        .host
        .run(spec, drop, StopSignal::never())
        .await
        .unwrap();
    assert_eq!(ended.exit, ProcessExit::Code(0));
}

#[tokio::test]
async fn stdin_arrives_whole_and_ends() {
    let bench = Bench::new();
    let mut spec = bench.spec("cat", "wc -c", limits());
    spec.stdin = vec![b'x'; 1 << 20];
    let mut seen = String::new();
    bench
        .host
        .run(spec, |line| seen += line.text.trim(), StopSignal::never())
        .await
        .unwrap();
    assert_eq!(seen, "1048576");
}

#[tokio::test]
async fn the_wall_limit_ends_a_run_that_talks_for_ever() {
    let limits = ProcessLimits {
        wall: Duration::from_millis(200),
        ..limits()
    };
    let ran = Bench::new()
        .run("wall", "while :; do echo still here; done", limits)
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::WallLimit);
}

#[tokio::test]
async fn the_idle_limit_ends_a_silent_run() {
    let limits = ProcessLimits {
        idle: Duration::from_millis(150),
        ..limits()
    };
    let ran = Bench::new().run("idle", "sleep 600", limits).await;
    assert_eq!(ran.ended.exit, ProcessExit::IdleLimit);
}

#[tokio::test]
async fn a_stop_ends_the_run_as_cancelled() {
    let ran = Bench::new()
        .run_and_stop("cancel", "echo ready; sleep 600", limits())
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::Cancelled);
}

#[tokio::test]
async fn a_line_that_may_be_wrapped_does_not_wait_for_the_next_one() {
    // Every token of ours begins with a `c`, so this line could be the beginning of one.
    let ran = Bench::new()
        .run_and_stop("held", "echo public; sleep 600", limits())
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::Cancelled);
}

#[tokio::test]
async fn a_run_that_ignores_sigterm_is_killed() {
    let script = "trap '' TERM; echo deaf; while :; do sleep 600; done";
    let ran = Bench::new()
        .run_and_stop("deaf-to-term", script, limits())
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::Cancelled);
    assert!(ran.ended.swept >= 1);
}

#[tokio::test]
async fn sigterm_leaves_time_to_say_goodbye() {
    let limits = ProcessLimits {
        term_grace: Duration::from_secs(10),
        ..limits()
    };
    let script = "trap 'echo goodbye; exit 0' TERM; echo hello; sleep 600 & while :; do wait; done";
    let ran = Bench::new().run_and_stop("goodbye", script, limits).await;
    assert_eq!(ran.text(), "hello\ngoodbye");
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hold_us() {
    let ran = Bench::new()
        .run("pipe", "sleep 600 & echo done", limits())
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::Code(0));
    assert_eq!(ran.text(), "done");
    assert_eq!(ran.ended.swept, 1);
}

// If it were waited for, the wall limit would end it.
#[tokio::test]
async fn a_grandchild_that_floods_the_pipe_does_not_hold_us() {
    let bench = Bench::new();
    let spec = bench.spec("flooding-child", "yes & exit 0", limits());
    let ended = bench
        .host
        .run(spec, drop, StopSignal::never())
        .await
        .unwrap();
    assert_eq!(ended.exit, ProcessExit::Code(0));
    assert_eq!(ended.survivors, 0);
}

#[tokio::test]
async fn a_double_fork_with_a_session_of_its_own_is_found_and_ended() {
    let script = "(setsid sh -c 'trap \"\" TERM; while :; do sleep 600; done' >/dev/null 2>&1 </dev/null &) ; echo gone";
    let ran = Bench::new().run("daemon", script, limits()).await;
    assert_eq!(ran.ended.exit, ProcessExit::Code(0));
    assert!(ran.ended.swept >= 1);
}

// In the middle of an exec, a process has no readable environment.
#[tokio::test]
async fn a_process_that_execs_without_end_is_found_and_ended() {
    let bench = Bench::new();
    let script = bench.dir.path().join("again");
    std::fs::write(&script, "exec sh \"$0\"\n").unwrap();
    let start = format!(
        "(setsid sh {} >/dev/null 2>&1 </dev/null &)",
        script.display()
    );
    for turn in 0..20 {
        let ran = bench.run(&format!("exec-{turn}"), &start, limits()).await;
        assert!(ran.ended.swept >= 1, "turn {turn}");
    }
}

#[tokio::test]
async fn a_leader_killed_from_outside_is_recorded_as_such() {
    let ran = Bench::new()
        .run("shot", "sleep 600 >/dev/null 2>&1 & kill -9 $$", limits())
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::Signal(9));
    assert_eq!(ran.ended.swept, 1);
}

#[tokio::test]
async fn an_endless_line_comes_in_pieces() {
    let limits = ProcessLimits {
        line_bytes: 1 << 16,
        ..limits()
    };
    let ran = Bench::new()
        .run("endless", "head -c 1000000 /dev/zero | tr '\\0' x", limits)
        .await;
    assert_eq!(ran.lines.len(), 16);
    assert!(
        ran.lines[..15]
            .iter()
            // The end of a piece is kept for the next one, because a token may start there.
            .all(|line| !line.whole && (65_000..=1 << 16).contains(&line.text.len()))
    );
    assert_eq!(ran.transcript.len(), 1_000_000);
}

#[tokio::test]
async fn broken_utf_8_and_nuls_are_readable_text_and_raw_in_the_transcript() {
    let ran = Bench::new()
        .run("broken", "printf 'a\\377b\\0c\\n'", limits())
        .await;
    assert_eq!(ran.text(), "a\u{FFFD}b\u{FFFD}c");
    assert_eq!(ran.transcript, b"a\xFFb\0c\n");
}

#[tokio::test]
async fn a_flood_past_the_cap_is_drained_and_the_transcript_stays_small() {
    let limits = ProcessLimits {
        output_bytes: 1000,
        ..limits()
    };
    let script = "head -c 20000000 /dev/zero; echo; echo the end";
    let ran = Bench::new().run("flood", script, limits).await;
    assert_eq!(ran.ended.exit, ProcessExit::Code(0));
    assert_eq!(ran.transcript.len(), 1000);
    assert!(ran.ended.cut);
    assert_eq!(ran.lines.last().unwrap().text, "the end");
}

#[tokio::test]
async fn stdout_closed_early_is_not_the_end() {
    let ran = Bench::new()
        .run("closed", "exec >&-; echo on stderr >&2; exit 3", limits())
        .await;
    assert_eq!(ran.ended.exit, ProcessExit::Code(3));
    assert_eq!(ran.text(), "on stderr");
}

#[tokio::test]
async fn a_dropped_run_leaves_nothing() {
    let bench = Bench::new();
    let spec = bench.spec("dropped", "setsid sleep 600 & echo up; sleep 600", limits());
    let (up, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let run = bench
        .host
        .run(spec, move |line| drop(up.send(line)), StopSignal::never());
    tokio::select! {
        _ = run => panic!("it should not have ended"),
        _ = seen.recv() => {}
    }
    assert_eq!(left_of("dropped"), 0);
    assert!(!bench.host.data_dir.join("runs/dropped.json").exists());
}

#[tokio::test]
async fn a_missing_program_and_a_missing_directory_are_told_apart() {
    let bench = Bench::new();
    let mut spec = bench.spec("missing", "", limits());
    spec.program = "no-such-agent".into();
    let error = bench
        .host
        .run(spec.clone(), drop, StopSignal::never())
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::NotInstalled { program, .. } if program == "no-such-agent"));
    spec.cwd = bench.dir.path().join("nowhere");
    let error = bench
        .host
        .run(spec, drop, StopSignal::never())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoDirectory { .. }));
}

#[test]
fn a_run_id_is_a_file_name_and_nothing_more() {
    assert!(RunId::new("t-1.r2_build").is_ok());
    for bad in ["", "../up", ".hidden", "a b", "a/b", &"x".repeat(200)] {
        assert!(RunId::new(bad).is_err(), "{bad}");
    }
}

fn record(
    bench: &Bench,
    run: &str,
    mark: &str,
    owner: ProcessIdentity,
    leader: Option<ProcessIdentity>,
    place: &str,
) {
    let runs = bench.host.data_dir.join("runs");
    std::fs::create_dir_all(&runs).unwrap();
    let entry = serde_json::json!({
        "run": run, "place": place, "owner": owner, "mark": mark, "leader": leader
    });
    std::fs::write(runs.join(format!("{run}.json")), entry.to_string()).unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process that no run of ours knows"
)]
fn stray(mark: &str) -> tokio::process::Child {
    let mut command = tokio::process::Command::new("sleep");
    command.arg("600").env(RUN_MARK, mark).kill_on_drop(true);
    command.spawn().unwrap()
}

#[tokio::test]
async fn a_sweep_ends_what_a_dead_owner_left_and_spares_a_live_one() {
    let bench = Bench::new();
    let us = ProcessIdentity::ourselves().unwrap();
    let dead = ProcessIdentity {
        pid: us.pid,
        start: us.start - 1,
    };
    let (left, kept) = (new_mark("sweep-orphan", dead), new_mark("sweep-spared", us));
    let (mut orphan, mut spared) = (stray(&left), stray(&kept));
    record(
        &bench,
        "sweep-orphan",
        &left,
        dead,
        None,
        &boot_and_pid_namespace(),
    );
    record(
        &bench,
        "sweep-spared",
        &kept,
        us,
        None,
        &boot_and_pid_namespace(),
    );
    let swept = end_orphaned_runs(&bench.host.data_dir).await.unwrap();
    assert_eq!(
        swept,
        [SweptRun {
            run: "sweep-orphan".into(),
            ended: 1,
            left: 0
        }]
    );
    assert!(!orphan.wait().await.unwrap().success());
    assert!(spared.try_wait().unwrap().is_none());
    assert!(bench.host.data_dir.join("runs/sweep-spared.json").exists());
    assert!(!bench.host.data_dir.join("runs/sweep-orphan.json").exists());
}

#[tokio::test]
async fn a_sweep_does_not_take_a_reused_pid_for_the_leader() {
    let bench = Bench::new();
    let mut innocent = stray("somebody-else");
    let pid = i32::try_from(innocent.id().unwrap()).unwrap();
    let was = ProcessIdentity {
        pid,
        start: ProcessIdentity::of(pid).unwrap().start + 1000,
    };
    let us = ProcessIdentity::ourselves().unwrap();
    let dead = ProcessIdentity {
        pid: us.pid,
        start: us.start - 1,
    };
    record(
        &bench,
        "sweep-reused",
        "reused",
        dead,
        Some(was),
        &boot_and_pid_namespace(),
    );
    let swept = end_orphaned_runs(&bench.host.data_dir).await.unwrap();
    assert_eq!(swept[0].ended, 0);
    assert!(innocent.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn a_record_of_another_boot_is_dropped_and_one_of_another_namespace_kept() {
    let bench = Bench::new();
    let dead = ProcessIdentity {
        pid: 1,
        start: u64::MAX,
    };
    let here = boot_and_pid_namespace();
    let boot = here.split_once(' ').unwrap().0;
    record(
        &bench,
        "sweep-boot",
        "boot",
        dead,
        None,
        "another-boot pid:[1]",
    );
    record(
        &bench,
        "sweep-space",
        "space",
        dead,
        None,
        &format!("{boot} pid:[1]"),
    );
    assert_eq!(end_orphaned_runs(&bench.host.data_dir).await.unwrap(), []);
    assert!(!bench.host.data_dir.join("runs/sweep-boot.json").exists());
    assert!(bench.host.data_dir.join("runs/sweep-space.json").exists());
}
