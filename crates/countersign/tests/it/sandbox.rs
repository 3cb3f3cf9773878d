//! The attack suite: well over a hundred ways out of a reviewer's sandbox, tried through the real
//! binary on every level that this machine has, as root and as an ordinary user. None succeeds, and
//! honest work does.
#![expect(
    clippy::disallowed_methods,
    reason = "a test stops where its ground is missing, and says what it skips"
)]

mod attack_setup;
mod home_view;
mod homes;
mod network;
mod reach;
mod setup_is_harmless;

use std::fmt::Write;

use crate::support::skip;
use attack_setup::{AttackSetup, Who, bubblewrap_is_here, people};
use engine::process::ProcessExit;
use engine::sandbox::{SandboxLevel, SandboxNetwork};

/// The fewest attempts that a run of the suite may consist of.
const ATTEMPTS_MIN: usize = 100;

/// Every combination that this machine can try, and what it cannot, said aloud.
fn combinations() -> Vec<(SandboxLevel, Who, SandboxNetwork)> {
    let mut all = Vec::new();
    for who in people() {
        all.push((SandboxLevel::Native, who, SandboxNetwork::On));
        all.push((SandboxLevel::Native, who, SandboxNetwork::Off));
        if bubblewrap_is_here() {
            all.push((SandboxLevel::Bubblewrap, who, SandboxNetwork::On));
        } else {
            skip::has_no("bubblewrap is not installed");
        }
        all.push((SandboxLevel::Landlock, who, SandboxNetwork::On));
    }
    all
}

fn name(level: SandboxLevel, who: Who, network: &SandboxNetwork) -> String {
    let network = match network {
        SandboxNetwork::On => "",
        SandboxNetwork::Off => ", network off",
        SandboxNetwork::Proxy(_) => ", network held to hosts",
    };
    format!("{level} as {who}{network}")
}

#[test]
fn no_attack_succeeds_on_any_rung() {
    let mut table: Vec<(String, usize, usize)> = Vec::new();
    let mut columns = Vec::new();
    let mut broken = Vec::new();
    for (level, who, network) in combinations() {
        let column = name(level, who, &network);
        let ground = AttackSetup::new(level, who, &network);
        let attacks = ground.attack();
        assert!(
            attacks.tried.len() >= ATTEMPTS_MIN,
            "{column}: only {} attempts\n{}",
            attacks.tried.len(),
            attacks.said
        );
        for tried in &attacks.tried {
            if tried.succeeded {
                broken.push(format!("{column}: {}: {}", tried.attempt, tried.detail));
            }
            let known = table.iter().position(|row| row.0 == tried.attempt);
            let at = known.unwrap_or_else(|| {
                table.push((tried.attempt.clone(), 0, 0));
                table.len() - 1
            });
            table[at].1 += usize::from(tried.succeeded);
            table[at].2 += 1;
        }
        broken.extend(
            attacks
                .damage
                .into_iter()
                .map(|what| format!("{column}: {what}")),
        );
        columns.push(format!("{column}: {} attempts", attacks.tried.len()));
    }
    let mut shown = format!("{}\n", columns.join("\n"));
    for (attempt, succeeded, times) in &table {
        let _ = writeln!(shown, "{succeeded} of {times}  {attempt}");
    }
    println!("{shown}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A suite that cannot succeed anywhere proves nothing.
#[test]
fn unconfined_the_attacks_do_succeed() {
    if !people().contains(&Who::Nobody) {
        skip::is_for_another_user("only root can run it as somebody without rights");
        return;
    }
    let ground = AttackSetup::new(SandboxLevel::Native, Who::Nobody, &SandboxNetwork::On);
    let tried = ground.attack_unconfined();
    assert!(!ground.damage().is_empty());
    let succeeded = tried.iter().filter(|tried| tried.succeeded);
    let names: Vec<&str> = succeeded.map(|tried| tried.attempt.as_str()).collect();
    println!(
        "unconfined, {} of {} succeed:\n{}",
        names.len(),
        tried.len(),
        names.join("\n")
    );
    let broken = ["TypeError", "NameError", "AttributeError", "error:"];
    let mistakes: Vec<_> = tried
        .iter()
        .filter(|tried| broken.iter().any(|word| tried.detail.starts_with(word)))
        .collect();
    assert!(mistakes.is_empty(), "{mistakes:?}");
    assert!(names.len() >= 60, "{names:?}");
}

#[test]
fn honest_work_succeeds_on_every_rung() {
    for (level, who, network) in combinations() {
        let ground = AttackSetup::new(level, who, &network);
        let (code, said) = ground.honest_work();
        assert_eq!(code, Some(0), "{}\n{said}", name(level, who, &network));
        assert_eq!(ground.damage(), Vec::<String>::new());
    }
}

#[test]
fn a_run_that_fills_the_disk_is_ended_before_it_is_full() {
    for (level, who, network) in combinations() {
        let ground = AttackSetup::with_little_disk(level, who, &network);
        let (code, said) = ground.fill_the_disk();
        assert_eq!(code, Some(125), "{}\n{said}", name(level, who, &network));
        assert!(said.contains("left on the disk"), "{said}");
    }
}

#[test]
fn a_run_that_takes_too_much_memory_is_ended() {
    for (level, who, network) in combinations() {
        let mut ground = AttackSetup::new(level, who, &network);
        let (code, said) = ground.take_all_memory();
        let column = name(level, who, &network);
        assert_eq!(code, Some(125), "{column}\n{said}");
        assert!(said.contains("MiB of memory"), "{column}\n{said}");
        assert_eq!(ground.left_running(), 0, "{column}");
    }
}

#[test]
fn a_run_that_forks_without_end_is_bounded() {
    for (level, who, network) in combinations() {
        let ground = AttackSetup::new(level, who, &network);
        let (most, said) = ground.fork_without_end();
        let column = name(level, who, &network);
        assert!(most <= ground.processes * 2, "{column}: {most}\n{said}");
        assert_eq!(ground.left_running(), 0, "{column}");
    }
}

/// The one outside shares the mounts that the one inside is still putting together.
#[test]
fn a_root_that_takes_long_to_build_is_waited_for() {
    let mut ground = AttackSetup::new(SandboxLevel::Native, Who::Ourselves, &SandboxNetwork::On);
    let (code, said) = ground.say_in_a_large_root();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("it began"), "{said}");
}

/// Starts processes that leave group, session and environment, ignore signals or hold the pipe.
const CLINGERS: &str = "trap '' TERM INT HUP
(setsid env -i sleep 613 >/dev/null 2>&1 </dev/null &)
(trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 613; sleep 613' &)
nohup sleep 613 &
(sleep 613 & sleep 613 &) &
echo up; sleep 613";

#[tokio::test]
async fn nothing_survives_a_stop_on_any_rung() {
    for (level, who, network) in combinations() {
        if who == Who::Nobody {
            // The host that ends what is left runs as ourselves.
            continue;
        }
        let ground = AttackSetup::new(level, who, &network);
        let ended = ground.stopped(CLINGERS).await;
        let column = name(level, who, &network);
        assert_eq!(ended.exit, ProcessExit::Cancelled, "{column}");
        assert_eq!((ended.survivors, ground.left_running()), (0, 0), "{column}");
        assert_eq!(
            ended.proof.map(|proof| proof.level),
            Some(level),
            "{column}"
        );
    }
}

#[test]
fn an_unknown_rung_starts_nothing() {
    let ground = AttackSetup::new(SandboxLevel::Native, Who::Ourselves, &SandboxNetwork::On);
    for (known, unknown) in [
        ("\"native\"", "\"none\""),
        ("\"on\"", "\"open\""),
        ("\"read\"", "\"see\""),
    ] {
        let (code, said) = ground.with_specification(|text| text.replacen(known, unknown, 1));
        assert_eq!(code, Some(125), "{said}");
        assert!(!said.contains("started"), "{said}");
    }
}
