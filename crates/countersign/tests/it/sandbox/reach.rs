//! A process of the person's outside, and every call by which it could be reached from inside.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Stdio};

use super::attack_setup::{AttackSetup, Tried};
use super::{combinations, name};

const NEIGHBOUR: &str = include_str!("neighbour.py");
const REACH: &str = include_str!("reach.py");
/// The fewest attempts that a run may consist of.
const ATTEMPTS_MIN: usize = 100;

/// Returns the results of the attempts, and the changes of the neighbour process.
fn reach(ground: &AttackSetup, level: &str) -> (Vec<Tried>, String, String) {
    let mut command = ground.outside(&["/usr/bin/python3", "-I", "-c", NEIGHBOUR]);
    command.args([
        ground.at("person/.cargo/bin/shown.sock"),
        ground.at("person/.ssh/hidden.sock"),
    ]);
    let mut neighbour = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said: BufReader<ChildStdout> = BufReader::new(neighbour.stdout.take().unwrap());
    let mut facts = String::new();
    said.read_line(&mut facts).unwrap();
    let (code, told) = ground.run(&["/usr/bin/python3", "-I", "-c", REACH, facts.trim(), level]);
    assert_eq!(code, Some(0), "{told}");
    drop(neighbour.stdin.take());
    let mut changed = String::new();
    said.read_to_string(&mut changed).unwrap();
    neighbour.wait().unwrap();
    (
        super::attack_setup::read(&told),
        told,
        changed.trim().to_owned(),
    )
}

#[test]
fn no_process_outside_is_reached_on_any_level() {
    let mut broken = Vec::new();
    for (level, who, network) in combinations() {
        let column = name(level, who, &network);
        let ground = AttackSetup::new(level, who, &network);
        let (tried, told, changed) = reach(&ground, level.as_str());
        assert!(tried.len() >= ATTEMPTS_MIN, "{column}\n{told}");
        let succeeded = tried.iter().filter(|tried| tried.succeeded);
        broken.extend(
            succeeded.map(|tried| format!("{column}: {}: {}", tried.attempt, tried.detail)),
        );
        if changed != "{}" {
            broken.push(format!(
                "{column}: the neighbour is not as it was: {changed}"
            ));
        }
        println!(
            "{column}: {} attempts to reach a process outside",
            tried.len()
        );
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Memory that no process maps, and memory that several share.
const HOLDERS: [(&str, &str); 5] = [
    (
        "an unmapped memfd",
        "fds=[]\nwhile True:\n fd=os.memfd_create('x'); fds.append(fd)\n for _ in range(20): os.write(fd, bytes(1<<20))\n time.sleep(0.01)",
    ),
    (
        "a mapped memfd that was closed",
        "import mmap\nheld=[]\nwhile True:\n fd=os.memfd_create('x'); os.ftruncate(fd,20<<20); m=mmap.mmap(fd,20<<20); os.close(fd); m.write(b'x'*(20<<20)); held.append(m)\n time.sleep(0.01)",
    ),
    (
        "shared anonymous memory",
        "import mmap\nheld=[]\nwhile True:\n m=mmap.mmap(-1,20<<20); m.write(b'x'*(20<<20)); held.append(m)\n time.sleep(0.01)",
    ),
    (
        "socket buffers",
        "import socket\nheld=[]\nwhile True:\n a,b=socket.socketpair(); a.setblocking(False); held.append((a,b))\n try:\n  while True: a.send(bytes(1<<16))\n except BlockingIOError: pass\n time.sleep(0.001)",
    ),
    (
        "a memfd in a child",
        "while True:\n if os.fork()==0:\n  fd=os.memfd_create('x'); os.write(fd, bytes(20<<20)); signal.alarm(60); signal.pause()\n time.sleep(0.02)",
    ),
];

#[test]
fn memory_is_bounded_whatever_holds_it() {
    // Every way on every level; the users take turns.
    let mut turns = HOLDERS.iter().cycle();
    for (level, who, network) in combinations() {
        let column = name(level, who, &network);
        for (what, script) in turns.by_ref().take(3) {
            let mut ground = AttackSetup::new(level, who, &network);
            ground.bound_memory(192 << 20);
            // The limit on one file holds for memory too; what is tried here is many of them.
            let script = format!("import os,signal,time\nsignal.alarm(60)\n{script}\n");
            let (code, said) = ground.run(&["/usr/bin/python3", "-I", "-c", &script]);
            assert_eq!(code, Some(125), "{column}, {what}\n{said}");
            assert!(said.contains("MiB of memory"), "{column}, {what}\n{said}");
            assert_eq!(ground.left_running(), 0, "{column}, {what}");
        }
    }
}

/// Four file systems in memory, each within its own size.
#[test]
fn files_in_memory_count_together() {
    for (level, who, network) in combinations() {
        if level == engine::sandbox::SandboxLevel::Landlock {
            // It has none of its own.
            continue;
        }
        let column = name(level, who, &network);
        let mut ground = AttackSetup::new(level, who, &network);
        ground.bound_memory(64 << 20);
        ground.temporary_bytes(24 << 20);
        let script = "for dir in /tmp /run /var/tmp /dev/shm; do for n in 1 2; do head -c 11000000 /dev/zero > $dir/$n; done; done; exec sleep 60";
        let (code, said) = ground.run(&["/bin/sh", "-c", script]);
        assert_eq!(code, Some(125), "{column}\n{said}");
        assert!(said.contains("MiB of memory"), "{column}\n{said}");
    }
}

fn is_ignored_here(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask & (1 << (signal - 1)) != 0
}

/// The supervisor leaves such requests to the program, so the program must not inherit that.
#[test]
fn a_program_inside_hears_requests_to_end() {
    for (level, who, network) in combinations() {
        let ground = AttackSetup::new(level, who, &network);
        for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
            // `nohup`, and a shell's `&`, ignore a signal for everything that they start.
            if is_ignored_here(number) {
                continue;
            }
            let script = format!("kill -{signal} $$; echo it went on");
            let (_, said) = ground.run(&["/bin/sh", "-c", &script]);
            let column = name(level, who, &network);
            assert!(!said.contains("it went on"), "{column}, {signal}\n{said}");
        }
    }
}
