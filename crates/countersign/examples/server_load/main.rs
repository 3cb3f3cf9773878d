//! What the server costs, against the official SDK's bare echo and against the disk, in one run.
//!
//! ```text
//! cargo build --release -p countersign --bin countersign --example server_load
//! target/release/examples/server_load target/release/countersign
//! scripts/postgres run target/release/examples/server_load target/release/countersign
//! ```
//!
//! The second form measures `PostgreSQL` as well. Callers and servers share the machine's cores, so
//! compare within one run: ours and the echo are called in turns, by the same callers.
#![expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement starts programs, reads the clock and prints what it found"
)]

mod client;
mod echo;
#[path = "../support/fill.rs"]
mod filling;
mod load_server;

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;

use client::{Caller, Piped};
use load_server::LoadServer;

const AGENTS: usize = 200;
/// Agent that gets the messages of the writing calls.
const RECEIVER: &str = "listener";
/// Below what one agent may ask for at once.
const CALLS_ALONE: usize = 500;
const CALLS_EACH: usize = 20;
const TURNS: usize = 5;
const WAKES: usize = 200;
const TICKETS: usize = 10_000;
/// What its threads do within so short a time is one wake-up.
const GLANCE: Duration = Duration::from_millis(10);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["echo"] => runtime.block_on(echo::over_http()),
        ["echo-stdio"] => runtime.block_on(echo::over_stdio()),
        [program] => runtime.block_on(measure(Path::new(program))),
        _ => println!("usage: server_load PROGRAM"),
    }
}

async fn measure(program: &Path) {
    // The tests' own way to name a server.
    let postgres = std::env::var("COUNTERSIGN_TEST_POSTGRES").ok();
    let databases = [
        Some(("SQLite", None)),
        postgres.map(|url| ("PostgreSQL", Some(url))),
    ];
    for (name, database) in databases.into_iter().flatten() {
        println!("\n## {name}\n");
        let house = LoadServer::open(program, database).await;
        println!("start to first answer: {:.1} ms", house.started_ms);
        idle(&house).await;
        calls(&house).await;
        wake_ups(&house).await;
        many_tickets(&house).await;
    }
}

/// While somebody else is at work, or nobody is.
async fn rest(time: Duration) {
    let nothing = std::future::pending::<()>();
    drop(tokio::time::timeout(time, nothing).await);
}

/// Sorted milliseconds.
struct Times(Vec<f64>);

impl Times {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all.iter().map(|time| time.as_secs_f64() * 1000.0).collect())
    }

    fn at(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index"
        )]
        let place = ((self.0.len() - 1) as f64 * share).round() as usize;
        self.0[place]
    }

    fn row(&self, name: &str, beside: &Self) {
        println!(
            "| {name} | {:.2} | {:.2} | {:.1} | {:.1} |",
            self.at(0.5),
            self.at(0.99),
            self.at(0.5) / beside.at(0.5),
            self.at(0.99) / beside.at(0.99)
        );
    }
}

async fn idle(house: &LoadServer) {
    let seconds = 60;
    rest(Duration::from_secs(2)).await;
    let (mut known, mut woken) = (house.switches(), 0_u32);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        rest(GLANCE).await;
        let now = house.switches();
        woken += u32::from(now != known);
        known = now;
    }
    let woken = f64::from(woken) / seconds as f64;
    println!(
        "idle: {:.1} MB resident, {woken:.2} wake-ups a second",
        house.resident_mb()
    );
}

async fn calls(house: &LoadServer) {
    let echo = load_server::start_echo();
    let disk = fsyncs(house.data());
    println!(
        "one fsync: {:.2} ms, 99th of a hundred {:.2} ms\n",
        disk.at(0.5),
        disk.at(0.99)
    );
    println!("| call | p50 ms | p99 ms | × echo p50 | × echo p99 |\n|---|---:|---:|---:|---:|");
    let reads = ("get_my_assignment", json!({}));
    let writes = (
        "send_message",
        json!({"to": RECEIVER, "type": "info", "content": "hello"}),
    );
    for (agents, each) in [(1, CALLS_ALONE), (AGENTS, CALLS_EACH)] {
        let (mut bare, mut read, mut written) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let said = json!({"text": "hello"});
            bare.extend(
                load(
                    &echo.address,
                    |_| String::new(),
                    agents,
                    each / TURNS,
                    ("echo", &said),
                )
                .await,
            );
            let token = |at: usize| house.tokens[at].clone();
            read.extend(
                load(
                    &house.address,
                    token,
                    agents,
                    each / TURNS,
                    (reads.0, &reads.1),
                )
                .await,
            );
            written.extend(
                load(
                    &house.address,
                    token,
                    agents,
                    each / TURNS,
                    (writes.0, &writes.1),
                )
                .await,
            );
        }
        let bare = Times::of(bare);
        bare.row(&format!("HTTP, {agents}: echo"), &bare);
        Times::of(read).row(&format!("HTTP, {agents}: read"), &bare);
        Times::of(written).row(&format!("HTTP, {agents}: write"), &bare);
    }
    piped(house, &reads, &writes).await;
}

/// All agents at once, each with one question after another.
async fn load(
    address: &str,
    token: impl Fn(usize) -> String,
    agents: usize,
    each: usize,
    (tool, arguments): (&str, &Value),
) -> Vec<Duration> {
    let mut callers = JoinSet::new();
    let gate = std::sync::Arc::new(tokio::sync::Barrier::new(agents));
    for at in 0..agents {
        let mut caller = Caller::new(address, &token(at)).await;
        let (tool, arguments, gate) = (tool.to_owned(), arguments.clone(), gate.clone());
        callers.spawn(async move {
            gate.wait().await;
            let mut times = Vec::with_capacity(each);
            for _ in 0..each {
                let began = Instant::now();
                caller.tool(&tool, &arguments).await;
                times.push(began.elapsed());
            }
            times
        });
    }
    callers.join_all().await.concat()
}

async fn piped(house: &LoadServer, reads: &(&str, Value), writes: &(&str, Value)) {
    let ourselves = std::env::current_exe().unwrap();
    let mut bare = Command::new(ourselves);
    bare.arg("echo-stdio");
    let mut bare = Piped::start(bare).await;
    let mut ours = Piped::start(house.bridge()).await;
    let said = json!({"text": "hello"});
    let (mut echoes, mut read, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CALLS_ALONE {
        echoes.push(timed(&mut bare, "echo", &said).await);
        read.push(timed(&mut ours, reads.0, &reads.1).await);
        written.push(timed(&mut ours, writes.0, &writes.1).await);
    }
    let echoes = Times::of(echoes);
    echoes.row("stdio: echo", &echoes);
    Times::of(read).row("stdio: read", &echoes);
    Times::of(written).row("stdio: write", &echoes);
}

async fn timed(piped: &mut Piped, tool: &str, arguments: &Value) -> Duration {
    let began = Instant::now();
    piped.tool(tool, arguments).await;
    began.elapsed()
}

/// What the disk can do: the least that a durable write costs, into blocks that are there, as a
/// write-ahead log has them.
fn fsyncs(dir: &Path) -> Times {
    const BLOCK: [u8; 4096] = [7; 4096];
    let file = std::fs::File::create(dir.join("fsyncs")).unwrap();
    let at = |number: u64| number * BLOCK.len() as u64;
    for number in 0..200 {
        file.write_all_at(&BLOCK, at(number)).unwrap();
    }
    file.sync_all().unwrap();
    let one = |number| {
        let began = Instant::now();
        file.write_all_at(&BLOCK, at(number)).unwrap();
        file.sync_data().unwrap();
        began.elapsed()
    };
    Times::of((0..200).map(one).collect())
}

/// Time from the request for a task until the waiting agent has it.
async fn wake_ups(house: &LoadServer) {
    let mut times = Vec::new();
    let mut waiter = Caller::new(&house.address, &house.tokens[0]).await;
    let mut asker = Caller::new(&house.address, &house.admin).await;
    for number in 0..WAKES {
        let waiting = tokio::spawn(async move {
            let found = waiter
                .tool("wait_for_work", &json!({"timeout_secs": 20}))
                .await;
            assert!(
                !found["result"]["structuredContent"]["task"].is_null(),
                "{found}"
            );
            (Instant::now(), waiter)
        });
        // It has to be waiting by now; a task that is already there would be found, not woken for.
        rest(Duration::from_millis(20)).await;
        let task = json!({"agent_id": load_server::agent(0), "pr": number}).to_string();
        asker.send("POST", "/queue", &task).await;
        let queued = Instant::now();
        let (found, again) = waiting.await.unwrap();
        times.push(found.saturating_duration_since(queued));
        waiter = again;
        waiter.tool("complete", &json!({"summary": "done"})).await;
    }
    let times = Times::of(times);
    println!(
        "\nwake-up, from enqueue to delivery: p50 {:.2} ms, p99 {:.2} ms",
        times.at(0.5),
        times.at(0.99)
    );
}

async fn many_tickets(house: &LoadServer) {
    house.fill(TICKETS).await;
    let mut caller = Caller::new(&house.address, &house.admin).await;
    for (name, path) in [
        ("a page of tickets", "/api/v1/tickets?limit=50"),
        (
            "a page from the middle",
            "/api/v1/tickets?limit=50&after=5000",
        ),
        ("status", "/api/v1/status"),
    ] {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..100 {
            let began = Instant::now();
            let answer = caller.send("GET", path, "").await;
            times.push(began.elapsed());
            bytes = answer.to_string().len();
        }
        let times = Times::of(times);
        println!(
            "{TICKETS} tickets, {name}: p50 {:.2} ms, p99 {:.2} ms, {:.1} kB",
            times.at(0.5),
            times.at(0.99),
            bytes as f64 / 1000.0
        );
    }
}
