//! Life tied to ours, and nobody left behind.
#![expect(
    clippy::disallowed_methods,
    reason = "Countersign itself is started and killed here"
)]

use std::path::PathBuf;
use std::process::Stdio;

use engine::process::end_orphaned_runs;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use super::support::{alive, launcher};

fn host(data: &TempDir, script: &str) -> Child {
    let mut command = Command::new(launcher());
    command
        .arg("host")
        .arg(data.path())
        .arg(script)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command.spawn().unwrap()
}

#[tokio::test]
async fn a_held_run_ends_like_any_other() {
    let data = TempDir::new().unwrap();
    assert!(host(&data, "echo hello").wait().await.unwrap().success());
    assert_eq!(
        std::fs::read(data.path().join("transcript")).unwrap(),
        b"hello\n"
    );
}

/// A command line that nobody else on this machine has.
fn nap(which: u32) -> String {
    format!("sleep {which}{}", std::process::id())
}

/// Left group, session and environment behind: only adoption finds it.
#[tokio::test]
async fn an_orphan_without_its_mark_is_still_ended() {
    let data = TempDir::new().unwrap();
    let nap = nap(71);
    let script = format!("(setsid env -i {nap} >/dev/null 2>&1 </dev/null &); exit 0");
    assert!(host(&data, &script).wait().await.unwrap().success());
    assert_eq!(alive(&nap), 0);
}

/// Hears from the leader: `up` when it says its process id, `gone` when that
/// process is no more. The end of a pipe would not do for the second, because a
/// dying process closes its files while it is still to be seen.
struct Ear {
    up: oneshot::Receiver<()>,
    gone: tokio::task::JoinHandle<()>,
}

impl Ear {
    fn at(fifo: PathBuf) -> Self {
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (heard, up) = oneshot::channel();
        let gone = tokio::task::spawn_blocking(move || {
            let said = std::fs::read_to_string(fifo).unwrap();
            let leader = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
            let leader = pidfd_open(leader, PidfdFlags::empty()).unwrap();
            heard.send(()).unwrap();
            poll(&mut [PollFd::new(&leader, PollFlags::IN)], None).unwrap();
        });
        Self { up, gone }
    }
}

#[tokio::test]
async fn the_program_dies_with_countersign_and_the_rest_at_the_next_start() {
    let data = TempDir::new().unwrap();
    let ear = Ear::at(data.path().join("ear"));
    let nap = nap(72);
    let script = format!("setsid {nap} >/dev/null 2>&1 </dev/null & echo $$ >ear; exec sleep 600");
    let mut countersign = host(&data, &script);
    ear.up.await.unwrap();
    countersign.kill().await.unwrap();
    ear.gone.await.unwrap();

    let swept = end_orphaned_runs(data.path()).await.unwrap();
    assert_eq!((swept.len(), swept[0].ended, swept[0].left), (1, 1, 0));
    assert_eq!(alive(&nap), 0);
    assert!(!data.path().join("runs/hosted.json").exists());
}
