//! Measures the speed of the queue against the raw database in the same run.
//!
//! ```text
//! cargo run --release -p countersign-store --example queue_bench
//! scripts/postgres run sh -c 'cargo run --release -p countersign-store --example queue_bench -- "$COUNTERSIGN_TEST_POSTGRES"'
//! ```
//!
//! The first command measures `SQLite` in the current directory, the second `PostgreSQL`. Name
//! parts to measure less: `throughput`, `latency`, `claim`, `provider`. Every job is enqueued,
//! claimed and completed, each step with its event row, every commit synced. Figures are medians of
//! three; only the ratios mean anything on another machine.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and ends where it cannot go on"
)]

mod latency;
mod ours;
mod raw_group;
mod raw_postgres;
mod raw_sqlite;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use store::{Settings, Store};
use tempfile::TempDir;

#[tokio::main]
async fn main() {
    let (servers, parts): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("postgres"));
    let is_selected = |part: &str| parts.is_empty() || parts.iter().any(|name| name == part);
    match servers.first() {
        Some(url) => postgres(url, is_selected).await,
        None => sqlite(is_selected).await,
    }
}

async fn sqlite(is_selected: impl Fn(&str) -> bool) {
    println!(
        "{}\n",
        SqliteFile::fresh()
            .await
            .store
            .database()
            .await
            .unwrap()
            .description
    );
    if is_selected("throughput") {
        sqlite_throughput().await;
    }
    if is_selected("latency") {
        let file = SqliteFile::fresh().await;
        latency::from_enqueue_to_start("one handle", &file.store, &file.store).await;
        let file = SqliteFile::fresh().await;
        let consumer = open(&file.place).await;
        latency::from_enqueue_to_start("two handles on one file", &file.store, &consumer).await;
        latency::of_a_state_change(&SqliteFile::fresh().await.store).await;
    }
    if is_selected("claim") {
        latency::of_a_claim(&SqliteFile::fresh().await.store).await;
    }
    if is_selected("provider") {
        latency::of_a_providers_claim(&SqliteFile::fresh().await.store).await;
    }
}

async fn sqlite_throughput() {
    println!("| jobs/s, enqueued, claimed and completed | raw | ours | of raw |");
    println!("|---|---:|---:|---:|");
    for (workers, jobs) in [(1, 2_000), (10, 20_000), (64, 40_000)] {
        let ours = || async {
            let file = SqliteFile::fresh().await;
            ours::jobs_per_second(&file.store, jobs, workers, 1).await
        };
        // First a raw thread that never waits, then the same steps for workers that wait.
        let operations = if workers == 1 { 1 } else { 64 };
        let raw = || async { raw_sqlite::jobs_per_second(jobs, operations) };
        let what = format!("{workers} workers; raw: one thread, {operations} operations a commit");
        compare(&what, raw, ours).await;
        let raw = || raw_group::jobs_per_second(jobs, workers);
        let what = format!("{workers} workers; raw: {workers} workers, group commit");
        compare(&what, raw, ours).await;
    }
}

async fn postgres(url: &str, is_selected: impl Fn(&str) -> bool) {
    let schemas = Schemas::new(url);
    println!(
        "{}\n",
        schemas.fresh().await.database().await.unwrap().description
    );
    if is_selected("throughput") {
        postgres_throughput(url, &schemas).await;
    }
    if is_selected("latency") {
        raw_postgres::from_enqueue_to_start(url).await;
        let producer = schemas.fresh().await;
        let consumer = open(&schemas.newest()).await;
        latency::from_enqueue_to_start("two handles", &producer, &consumer).await;
        latency::of_a_state_change(&schemas.fresh().await).await;
    }
    if is_selected("claim") {
        latency::of_a_claim(&schemas.fresh().await).await;
    }
    if is_selected("provider") {
        latency::of_a_providers_claim(&schemas.fresh().await).await;
    }
    schemas.remove().await;
}

async fn postgres_throughput(url: &str, schemas: &Schemas) {
    println!("| jobs/s | raw SKIP LOCKED | ours | of raw |");
    println!("|---|---:|---:|---:|");
    for workers in [1, 10] {
        for (batch, jobs) in [(1, 3_000), (10, 20_000), (100, 60_000)] {
            let raw = || raw_postgres::jobs_per_second(url, jobs, workers, batch);
            let ours = || async {
                let store = schemas.fresh().await;
                ours::jobs_per_second(&store, jobs, workers, batch).await
            };
            compare(&format!("{workers} workers, batches of {batch}"), raw, ours).await;
        }
    }
}

async fn open(place: &str) -> Arc<dyn Store> {
    let settings = Settings {
        connections_max: 16,
        ..Settings::default()
    };
    store::open_with(place, settings).await.unwrap()
}

struct SqliteFile {
    store: Arc<dyn Store>,
    place: String,
    _directory: TempDir,
}

impl SqliteFile {
    /// Opens a new store in the current directory: a temporary one may be in memory, and the
    /// benchmark measures the disk.
    async fn fresh() -> Self {
        let directory = tempfile::tempdir_in(".").unwrap();
        let place = directory.path().join("bench.db").display().to_string();
        Self {
            store: open(&place).await,
            place,
            _directory: directory,
        }
    }
}

/// Creates a schema for each measurement.
struct Schemas {
    url: String,
    made: AtomicU32,
}

impl Schemas {
    fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            made: AtomicU32::new(0),
        }
    }

    async fn fresh(&self) -> Arc<dyn Store> {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let schema = format!("countersign_bench_{number}");
        let sql = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
        raw_postgres::execute(&self.url, &sql).await;
        open(&self.newest()).await
    }

    /// Returns the URL of the newest schema.
    fn newest(&self) -> String {
        let number = self.made.load(Ordering::Relaxed);
        let separator = if self.url.contains('?') { '&' } else { '?' };
        let url = &self.url;
        format!("{url}{separator}options=-csearch_path%3Dcountersign_bench_{number}")
    }

    async fn remove(&self) {
        for number in 1..=self.made.load(Ordering::Relaxed) {
            let sql = format!("DROP SCHEMA countersign_bench_{number} CASCADE");
            raw_postgres::execute(&self.url, &sql).await;
        }
    }
}

/// Measures both three times in alternation, so that other load on the machine affects both; prints
/// the medians of both and of the ratio.
async fn compare<R: Future<Output = f64>, O: Future<Output = f64>>(
    what: &str,
    raw: impl Fn() -> R,
    ours: impl Fn() -> O,
) {
    let (mut raws, mut all_ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let (raw, ours) = (raw().await, ours().await);
        raws.push(raw);
        all_ours.push(ours);
        ratios.push(ours / raw);
    }
    let (raw, ours, ratio) = (median(raws), median(all_ours), median(ratios));
    println!("| {what} | {raw:.0} | {ours:.0} | {ratio:.2} |");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
