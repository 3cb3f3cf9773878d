//! What watching costs: the processor while nothing happens, and how soon a key is answered.
//!
//! ```text
//! cargo build --release -p countersign
//! cargo run -p countersign --example watch_load -- target/release/countersign 1000 20
//! ```
//!
//! The words are the program, how many tickets there shall be, and for how many seconds its idle
//! view is observed. The view runs on a pseudo-terminal of 120 by 40; its processor time is what
//! the kernel counted for the whole process, threads and all.
#![expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement starts programs, reads the clock and prints what it found"
)]

#[path = "support/fill.rs"]
mod filling;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const KEYS: usize = 300;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [program, tickets, seconds] = words.as_slice() else {
        println!("usage: watch_load PROGRAM TICKETS SECONDS");
        return;
    };
    let (tickets, seconds) = (tickets.parse().unwrap(), seconds.parse().unwrap());
    let ground = tempfile::tempdir().unwrap();
    fill(ground.path(), tickets);
    println!("{tickets} tickets");
    let program = Path::new(program);
    for verb in [
        &["--version"][..],
        &["status"],
        &["watch", "--once"],
        &["watch", "--help"],
    ] {
        println!(
            "{:15} {:>7.1} ms",
            verb.join(" "),
            quickest(program, ground.path(), verb)
        );
    }
    watch(program, ground.path(), Duration::from_secs(seconds));
}

fn fill(data: &Path, tickets: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = data.join("countersign.db");
    runtime.block_on(filling::fill(place.to_str().unwrap(), tickets));
}

/// The quickest of twenty calls: what the program needs where nobody else is in its way.
fn quickest(program: &Path, data: &Path, verb: &[&str]) -> f64 {
    let call = |_| {
        let began = Instant::now();
        let ended = Command::new(program)
            .arg("--data-dir")
            .arg(data)
            .args(verb)
            .stdout(Stdio::null())
            .status();
        assert!(ended.unwrap().success());
        began.elapsed().as_secs_f64() * 1000.0
    };
    (0..20).map(call).fold(f64::INFINITY, f64::min)
}

struct Terminal {
    child: Child,
    main: File,
    /// How many bytes have come.
    heard: Arc<AtomicU64>,
}

fn start(program: &Path, data: &Path) -> Terminal {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let size = Winsize {
        ws_col: 120,
        ws_row: 40,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&main, size).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap();
    let path = Path::new(OsStr::from_bytes(name.as_bytes()));
    let own = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let child = Command::new(program)
        .arg("--data-dir")
        .arg(data)
        .arg("watch")
        .env("TERM", "xterm-256color")
        .stdin(own.try_clone().unwrap())
        .stdout(own)
        .spawn()
        .unwrap();
    let main = File::from(main);
    let heard = Arc::<AtomicU64>::default();
    let (mut reading, count) = (main.try_clone().unwrap(), heard.clone());
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length) = reading.read(&mut buffer) {
            count.fetch_add(length as u64, Ordering::Release);
        }
    });
    Terminal { child, main, heard }
}

fn watch(program: &Path, data: &Path, observed: Duration) {
    let mut terminal = start(program, data);
    rest(Duration::from_secs(2));
    let (before, written) = (
        ticks(terminal.child.id()),
        terminal.heard.load(Ordering::Acquire),
    );
    rest(observed);
    let used = ticks(terminal.child.id()) - before;
    let written = terminal.heard.load(Ordering::Acquire) - written;
    let per_second = rustix::param::clock_ticks_per_second();
    let seconds = observed.as_secs_f64();
    println!(
        "idle            {:>7.2} % of a core over {seconds} s, {:.0} bytes a second drawn",
        100.0 * used as f64 / per_second as f64 / seconds,
        written as f64 / seconds
    );
    answers(&mut terminal);
    terminal.main.write_all(b"q").unwrap();
    terminal.child.wait().unwrap();
}

/// Down through the list, page after page: how long until something is drawn for each key.
fn answers(terminal: &mut Terminal) {
    let mut took = Vec::with_capacity(KEYS);
    for _ in 0..KEYS {
        let before = terminal.heard.load(Ordering::Acquire);
        let began = Instant::now();
        terminal.main.write_all(b" ").unwrap();
        while terminal.heard.load(Ordering::Acquire) == before {
            if began.elapsed() > Duration::from_secs(2) {
                break;
            }
            std::thread::park_timeout(Duration::from_micros(50));
        }
        took.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    took.sort_by(f64::total_cmp);
    println!(
        "a key           {:>7.1} ms in the middle, {:.1} ms at the 99th percentile, {KEYS} screens down",
        took[took.len() / 2],
        took[took.len() * 99 / 100]
    );
}

/// User and system time of the whole process, in the kernel's ticks.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn rest(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::thread::park_timeout(until - Instant::now());
    }
}
