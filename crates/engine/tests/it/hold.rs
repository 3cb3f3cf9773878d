//! Life tied to ours, and nobody left behind.
#![expect(
    clippy::disallowed_methods,
    reason = "Countersign itself is started and killed here"
)]

use std::process::Stdio;

use engine::process::sweep;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::support::{alive, launcher, until};

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

#[tokio::test]
async fn the_program_dies_with_countersign_and_the_rest_at_the_next_start() {
    let data = TempDir::new().unwrap();
    let (child, leader) = (nap(72), nap(73));
    let script = format!("setsid {child} >/dev/null 2>&1 </dev/null & exec {leader}");
    let mut countersign = host(&data, &script);
    until("the run is up", || {
        alive(&leader) == 1 && alive(&child) == 1
    })
    .await;
    countersign.kill().await.unwrap();
    until("the leader is gone", || alive(&leader) == 0).await;

    let swept = sweep(data.path()).await.unwrap();
    assert_eq!((swept.len(), swept[0].ended, swept[0].left), (1, 1, 0));
    assert_eq!(alive(&child), 0);
    assert!(!data.path().join("runs/hosted.json").exists());
}
