//! Measures how long the landing queue takes, compared to landing one by one.
//!
//! ```text
//! cargo run --release -p countersign-engine --example landing -- [TICKETS] [CHECK SECONDS]
//! ```
//!
//! All tickets are approved on the same first commit. One in ten conflicts with the one before it;
//! one in twenty is green alone and red together with the one before it. Tickets that come back are
//! reworked and approved again. Everything but the agents is real: git, the store, the checks.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops at the first error"
)]

mod fixture;

use std::time::Duration;

use fixture::{GitFixture, Kind};
use flow::Stage;

const ROUNDS_MAX: usize = 5;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let tickets = args.first().and_then(|arg| arg.parse().ok()).unwrap_or(50);
    let seconds = args.get(1).cloned().unwrap_or_else(|| "0.5".to_owned());
    println!("{tickets} tickets, a check of {seconds} s\n");
    println!(
        "| | landed | sent back | combinations checked | branch green | seconds |\n|---|---|---|---|---|---|"
    );
    let mut times = Vec::new();
    for (name, batch_max) in [("one by one", 1), ("queue, batches of 8", 8)] {
        times.push(Box::pin(measure(name, tickets, batch_max, &seconds)).await);
    }
    if let [one, queue] = times.as_slice() {
        println!(
            "\nthe queue takes {:.2} of the time",
            queue.as_secs_f64() / one.as_secs_f64()
        );
    }
}

async fn measure(name: &str, tickets: usize, batch_max: u32, seconds: &str) -> Duration {
    let runs_file = std::env::temp_dir().join(format!(
        "countersign-landing-{}-{batch_max}",
        std::process::id()
    ));
    let check = format!("echo >> {}; sleep {seconds}", runs_file.display());
    let ground = GitFixture::new(batch_max, &check).await;
    let kinds: Vec<Kind> = (0..tickets).map(kind).collect();
    let ids = ground.approve(&kinds).await;
    let began = tokio::time::Instant::now();
    let mut sent_back = 0;
    for _ in 0..ROUNDS_MAX {
        ground.land(&ids).await;
        sent_back += ground.rework(&ids).await;
    }
    let took = began.elapsed();
    let mut landed = 0;
    for id in &ids {
        landed += usize::from(ground.ticket(id).await.stage == Stage::Done);
    }
    let runs = std::fs::read(&runs_file).map_or(0, |text| text.len());
    let _ = std::fs::remove_file(&runs_file);
    assert_eq!(ground.merges(), landed, "each landed once");
    println!(
        "| {name} | {landed} | {sent_back} | {runs} | {} | {:.1} |",
        ground.is_green(),
        took.as_secs_f64()
    );
    took
}

/// Returns the kind of a ticket: one in ten conflicts, one in twenty is red together with another.
fn kind(n: usize) -> Kind {
    match n % 20 {
        5 | 15 => Kind::Conflicts,
        10 => Kind::RedTogether,
        _ => Kind::Plain,
    }
}
