//! The process table: agents that cling to life, flood their pipes or never end, through the real
//! binary. Each run has a recorded outcome, no process survives, and Countersign stays small.
//!
//! The ordinary tests take a sample. `COUNTERSIGN_PROCESS_TABLE=1` runs all of it, with the sandbox
//! and without, at full size, and prints the table that docs/sandbox.md has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use crate::support::crew::smooth;
use crate::support::processes::{marked, signal};
use crate::support::{DEADLINE, Running, SETTINGS, TICKET, World, reached, say, told, until};

/// Largest memory of Countersign while an agent floods it with output.
const PEAK_KIB_MAX: u64 = 200 << 10;

struct Case {
    name: &'static str,
    /// Script of the agent; `TOKEN` stands for a number that no other process sleeps for.
    script: &'static str,
    settings: &'static str,
    /// Part of the outcome on record.
    outcome: &'static str,
    /// Small enough for every day, and telling.
    in_sample: bool,
    /// Whether Countersign is killed in the middle and started again.
    killed: bool,
}

const PLAIN: Case = Case {
    name: "",
    script: "",
    settings: "",
    outcome: "exit code 0",
    in_sample: false,
    killed: false,
};

/// Three seconds of silence end a run that would go on for ever.
const SOON: &str = "idle_secs = 3\nretries_max = 0\n";

const CASES: [Case; 15] = [
    Case {
        name: "double fork",
        script: "( ( sleep TOKEN & ) & ) >/dev/null 2>&1; ( ( env -i sleep TOKEN & ) & ) >/dev/null 2>&1",
        in_sample: true,
        ..PLAIN
    },
    Case {
        name: "setsid, without its environment",
        script: "setsid env -i sleep TOKEN >/dev/null 2>&1 </dev/null &",
        ..PLAIN
    },
    Case {
        name: "SIGTERM ignored",
        script: "trap '' TERM INT HUP; sleep TOKEN; sleep TOKEN; sleep TOKEN",
        settings: SOON,
        outcome: "silent for too long",
        ..PLAIN
    },
    Case {
        name: "pipe held",
        script: "sleep TOKEN & sleep TOKEN &",
        ..PLAIN
    },
    Case {
        name: "ptrace games",
        script: "python3 -I -c '
import ctypes, os, signal
trace = ctypes.CDLL(None).ptrace
for _ in range(3):
    if os.fork() == 0:
        trace(0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execvp(\"sleep\", [\"sleep\", \"TOKEN\"])
if os.fork() == 0:
    trace(16, os.getppid(), 0, 0)
    os.execvp(\"sleep\", [\"sleep\", \"TOKEN\"])
' || true",
        settings: SOON,
        // If it may trace, it stops its own parent, and neither continues.
        outcome: "",
        ..PLAIN
    },
    Case {
        name: "fork bomb (400 who fork on and on)",
        script: "python3 -I -c '
import os, time
for _ in range(400):
    if os.fork() == 0:
        os.setsid()
        for _ in range(50):
            if os.fork() == 0:
                time.sleep(0.01)
                os._exit(0)
            time.sleep(0.02)
        os.execvp(\"sleep\", [\"sleep\", \"TOKEN\"])
' 2>/dev/null || true",
        ..PLAIN
    },
    Case {
        name: "FLOOD of output",
        script: "yes 'one line of a log that says nothing at all' | head -c BYTES",
        in_sample: true,
        ..PLAIN
    },
    Case {
        name: "one line of PART",
        script: "head -c PART /dev/zero | tr '\\0' x",
        ..PLAIN
    },
    Case {
        name: "PART of NULs",
        script: "head -c PART /dev/zero",
        ..PLAIN
    },
    Case {
        name: "PART of broken UTF-8",
        script: "yes \"$(printf '\\303\\050\\377\\376')\" | head -c PART",
        ..PLAIN
    },
    Case {
        name: "stdout closed early",
        script: "exec >&- 2>&-; sleep 0.5",
        ..PLAIN
    },
    Case {
        name: "idle clock",
        script: "sleep TOKEN",
        settings: SOON,
        outcome: "silent for too long",
        in_sample: true,
        ..PLAIN
    },
    Case {
        name: "wall clock",
        script: "while :; do echo busy; sleep 0.2; done",
        settings: "build_secs = 3\nretries_max = 0\n",
        outcome: "stopped at its time limit",
        ..PLAIN
    },
    Case {
        name: "budget clock",
        script: "echo '{\"event\":\"usage\",\"usd\":9}'; sleep TOKEN",
        settings: "\n[policy.budget.round]\nusd = 1.0\n",
        outcome: "cancelled",
        ..PLAIN
    },
    Case {
        name: "kill -9 of Countersign, and the next start",
        script: "(setsid env -i sleep TOKEN >/dev/null 2>&1 &); sleep TOKEN",
        in_sample: true,
        killed: true,
        ..PLAIN
    },
];

/// Builds what the ticket wants.
const BUILD: &str = "#!/bin/sh
cat > /dev/null
printf '[ -n \"$1\" ] || exit 2\\nprintf \"Hello, %%s\\\\n\" \"$1\"\\n' > greet.sh
";

struct Row {
    name: String,
    outcome: String,
    stage: String,
    survivors: usize,
    peak_kib: u64,
    bytes_kept: u64,
}

/// How much flows in the cases that flood.
struct Size {
    bytes: u64,
    all: &'static str,
    part: &'static str,
}

/// Divisor of the size of a flood that is expensive to read.
const PARTS: u64 = 8;

impl Case {
    fn play(&self, isolation: &str, size: &Size) -> Row {
        let token = unique();
        let world = World::with_settings(&format!(
            "{}\n",
            SETTINGS.replace(
                "[policy.limits]",
                &format!("[policy]\nsandbox = \"{isolation}\"\n\n[policy.limits]")
            ) + self.settings
        ));
        let script = self.script.replace("TOKEN", &token);
        let script = script.replace("BYTES", &size.bytes.to_string());
        let script = script.replace("PART", &(size.bytes / PARTS).to_string());
        let agent = builder(&world, &format!("{BUILD}{script}\n"));
        let mut running = run(&world, &agent);
        let mut peak_kib = 0;
        if self.killed {
            until("the agent sleeps", || asleep(&token) == 2);
            // A second later those who hide are on record, where no namespace holds them.
            let records = world.data.join("runs");
            until("they are on record", || {
                isolation == "enforced" || is_in_a_file(&records, "\"strays\":[{")
            });
            peak_kib = peak(&running);
            signal(running.pid(), Signal::KILL);
            until("it is dead", || running.has_ended());
            builder(&world, BUILD);
            running = run(&world, &agent);
        }
        let in_time = reached(DEADLINE * 5, || {
            peak_kib = peak_kib.max(peak(&running));
            running.has_ended()
        });
        assert!(in_time, "{} never ended", self.name);
        let told = world.json(&["log", "--transcript", "greet", "--role", "build"]);
        let built = told["transcripts"].as_array().unwrap().last().unwrap();
        let kept = fs::metadata(built["path"].as_str().unwrap());
        Row {
            name: self
                .name
                .replace("FLOOD", size.all)
                .replace("PART", size.part),
            outcome: built["ended"]["how"].as_str().unwrap_or("none").to_owned(),
            stage: world.stage("greet"),
            survivors: asleep(&token) + marked(&world.data).len(),
            peak_kib,
            bytes_kept: kept.map(|file| file.len()).unwrap_or_default(),
        }
    }
}

fn builder(world: &World, text: &str) -> String {
    let path = world.put("builder", text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("command:{path}")
}

fn run(world: &World, agent: &str) -> Running {
    let reviewer = world.crew(&smooth());
    let ticket = world.put("greet.md", TICKET);
    world.start(&["run", &ticket, "--builder", agent, "--reviewer", &reviewer])
}

fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    (u64::from(std::process::id()) * 1000 + 86_400 + u64::from(count)).to_string()
}

fn is_in_a_file(dir: &Path, words: &str) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.any(|text| text.contains(words))
}

/// How many sleep for just that long, whatever became of their environment.
fn asleep(token: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{token}\0");
    lines.filter(|line| *line == wanted.as_bytes()).count()
}

/// The most memory that it has held at once, in KiB.
fn peak(running: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|text| text.trim().strip_suffix(" kB"));
    kib.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn nothing_survives_blocks_or_swells() {
    let all = told("COUNTERSIGN_PROCESS_TABLE").is_some();
    let (isolations, size): (&[&str], _) = if all {
        let (all, part) = ("2 GiB", "256 MiB");
        let size = Size {
            bytes: 2 << 30,
            all,
            part,
        };
        (&["enforced", "off"], size)
    } else {
        let (all, part) = ("16 MiB", "2 MiB");
        let size = Size {
            bytes: 16 << 20,
            all,
            part,
        };
        (&["off"], size)
    };
    for isolation in isolations {
        say(&format!(
            "| agents with `sandbox = \"{isolation}\"` | outcome on record | ticket | survivors | peak of Countersign | bytes kept |\n|---|---|---|---|---|---|"
        ));
        for case in CASES.iter().filter(|case| all || case.in_sample) {
            let row = case.play(isolation, &size);
            say(&format!(
                "| {} | {} | {} | {} | {} MiB | {} |",
                row.name,
                row.outcome,
                row.stage,
                row.survivors,
                row.peak_kib >> 10,
                row.bytes_kept
            ));
            assert_eq!(row.survivors, 0, "{}", row.name);
            assert!(
                row.outcome.contains(case.outcome),
                "{}: {}",
                row.name,
                row.outcome
            );
            assert!(
                row.peak_kib < PEAK_KIB_MAX,
                "{}: {}",
                row.name,
                row.peak_kib
            );
        }
    }
}
