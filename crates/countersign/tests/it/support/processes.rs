//! Signals to processes that a test started, and who is left of those they started.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

pub fn signal(pid: i32, signal: Signal) {
    // It may have ended in this instant, which is no matter.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// To the process and to whatever shares its group.
pub fn signal_group(pid: i32, signal: Signal) {
    let _ = kill_process_group(Pid::from_raw(pid).unwrap(), signal);
}

/// Returns the ids of all descendants of this process: git, the supervisors of agents, agents and
/// the processes that they started.
pub fn below(pid: i32) -> Vec<i32> {
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let after_name = &stat[stat.rfind(')')? + 1..];
        after_name
            .split_ascii_whitespace()
            .nth(1)?
            .parse::<i32>()
            .ok()
    };
    let all: Vec<(i32, i32)> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&of) = found.get(at) {
        let children = all.iter().filter(|(_, parent)| *parent == of);
        found.extend(children.map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// Processes that carry a run's mark and belong to this place: the command lines.
pub fn marked(place: &Path) -> Vec<String> {
    let place = place.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<i32>().ok()
    });
    pids.filter_map(|pid| {
        let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let ours = environ.contains("COUNTERSIGN_RUN=") && environ.contains(place);
        ours.then(|| format!("{pid}: {}", command_line(pid)))
    })
    .collect()
}

fn command_line(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}
