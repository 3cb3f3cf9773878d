//! Tests what only `SQLite` has: a file that several processes share, and a disk under it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "processes that share a file, and are killed, are what is tested: a child learns from its environment what it is, and says what it did"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use store::{Error, JobQuery, Page, Settings, Store};

use crate::skip;
use crate::support::{
    LONG, TestStore, ask, blank, claim_one, creation, free, id, number, open, step, waived,
};

/// Variable with the role of a child process and its file.
const CHILD: &str = "COUNTERSIGN_TEST_CHILD";

fn child(role: &str, place: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::a_child_process", "--nocapture"])
        .env(CHILD, format!("{role} {place}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Not a test of its own: the body of the processes that the other tests start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_process() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let (role, place) = told.split_once(' ').unwrap();
    if role == "fill" {
        return fill_the_disk(place).await;
    }
    let store = open(place).await;
    match role {
        "give" => {
            number(&*store, "work", 1).await;
        }
        "write" => write_for_ever(&*store).await,
        "work" => work_off(&*store).await,
        other => panic!("what is {other}?"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_another_process_wakes_who_waits() {
    let house = TestStore::sqlite().await;
    let mut giver = child("give", &house.place);
    while house.store.claim(&ask("work")).await.unwrap().is_empty() {
        let asked = ask("work");
        let wait = house.store.wait(&asked, LONG);
        let waited = tokio::time::timeout(Duration::from_secs(60), wait);
        waited.await.unwrap();
    }
    assert!(giver.wait().unwrap().success());
}

/// Writes tickets and steps without end and says of each when it has been acknowledged.
async fn write_for_ever(store: &dyn Store) {
    for n in 1_u64.. {
        let name = format!("P{}-{n}", std::process::id());
        let ticket = blank(&name);
        store.commit(creation(ticket.clone())).await.unwrap();
        let change = step(&ticket, waived());
        store.commit(change).await.unwrap();
        println!("written {name}");
    }
}

/// Two processes write to one file; each is killed in the midst of it and another starts. What
/// was acknowledged is there, whole, and the file is sound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_writer_loses_nothing_that_was_acknowledged() {
    const KILLS: u64 = 20;
    let house = TestStore::sqlite().await;
    let mut acknowledged = BTreeSet::new();
    let mut bystander = child("write", &house.place);
    for kill in 0..KILLS {
        let mut writer = child("write", &house.place);
        let mut said = BufReader::new(writer.stdout.take().unwrap()).lines();
        // After a few answers, at whatever instant that is for the next write.
        let heard = said
            .by_ref()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("written ").map(str::to_owned))
            .take(usize::try_from(3 + kill % 7).unwrap());
        acknowledged.extend(heard);
        writer.kill().unwrap();
        writer.wait().unwrap();
        acknowledged.extend(rest(said));
    }
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    let said = BufReader::new(bystander.stdout.take().unwrap()).lines();
    acknowledged.extend(rest(said));
    assert!(acknowledged.len() as u64 > 3 * KILLS);

    let reopened = open(&house.place).await;
    for name in &acknowledged {
        let stored = reopened.ticket(&id(name)).await.unwrap().unwrap();
        assert_eq!(stored.ticket.version, 2, "{name}");
    }
    is_sound(&house.place);
}

fn rest(said: std::io::Lines<impl BufRead>) -> Vec<String> {
    let lines = said.map_while(Result::ok);
    lines
        .filter_map(|line| line.strip_prefix("written ").map(str::to_owned))
        .collect()
}

/// Every event has its ticket at that version or later, and `SQLite` finds no fault.
fn is_sound(place: &str) {
    let db = rusqlite::Connection::open(place).unwrap();
    let check: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    let broken: i64 = db
        .query_row(
            "SELECT count(*) FROM tickets WHERE version !=
                (SELECT count(*) FROM events WHERE events.ticket = tickets.id)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(broken, 0);
}

async fn work_off(store: &dyn Store) {
    loop {
        let claimed = store.claim(&ask("work")).await.unwrap();
        let Some(job) = claimed.first() else { return };
        let ended = store::FinishedTask {
            job: job.id,
            fence: job.fence,
            outcome: store::TaskOutcome::Done { result: json!(1) },
        };
        store.finish(vec![ended], None).await.unwrap();
        println!("finished {}", job.id.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_processes_on_one_file_run_each_job_once() {
    const JOBS: usize = 300;
    let house = TestStore::sqlite().await;
    let jobs = (0..JOBS).map(|n| free("work", json!(n))).collect();
    house.store.enqueue(jobs).await.unwrap();
    let workers: Vec<Child> = (0..10).map(|_| child("work", &house.place)).collect();
    let mut finished = Vec::new();
    for mut worker in workers {
        let mut said = String::new();
        worker
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(worker.wait().unwrap().success());
        let ids = said
            .lines()
            .filter_map(|line| line.strip_prefix("finished "));
        finished.extend(ids.map(str::to_owned));
    }
    assert_eq!(finished.len(), JOBS);
    let unique: BTreeSet<String> = finished.into_iter().collect();
    assert_eq!(unique.len(), JOBS);
    is_sound(&house.place);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_together_on_a_new_file_is_safe() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("new/store.db").display().to_string();
        let mut openers = tokio::task::JoinSet::new();
        for n in 0..8 {
            let place = place.clone();
            openers.spawn(async move {
                let store = open(&place).await;
                store
                    .commit(creation(blank(&format!("T-{n}"))))
                    .await
                    .unwrap();
            });
        }
        openers.join_all().await;
    }
}

async fn refusal(place: &Path) -> Error {
    store::open(&place.display().to_string()).await.unwrap_err()
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let house = TestStore::sqlite().await;
    drop(house.store);
    let db = rusqlite::Connection::open(&house.place).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let refused = refusal(Path::new(&house.place)).await;
    assert!(
        matches!(refused, Error::NewerSchema { found: 99, .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn what_is_no_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, "dear diary, ".repeat(100)).unwrap();
    let refused = refusal(&path).await.to_string();
    assert!(refused.contains("not a Countersign database"), "{refused}");

    let path = directory.path().join("other.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let refused = refusal(&path).await.to_string();
    assert!(refused.contains("another program"), "{refused}");
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused}");
}

#[tokio::test]
async fn somebody_elses_lock_is_named_as_such() {
    let house = TestStore::sqlite().await;
    let db = rusqlite::Connection::open(&house.place).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let hasty = Settings {
        busy_timeout: Duration::from_millis(50),
        ..Settings::default()
    };
    let refused = store::open_with(&house.place, hasty.clone())
        .await
        .unwrap_err();
    assert!(
        matches!(refused, Error::Locked(_)) && refused.is_transient(),
        "{refused}"
    );
    db.execute_batch("ROLLBACK").unwrap();
    let store = store::open_with(&house.place, hasty).await.unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.commit(creation(blank("T-1"))).await.unwrap_err();
    assert!(matches!(refused, Error::Locked(_)), "{refused}");
    db.execute_batch("ROLLBACK").unwrap();
    store.commit(creation(blank("T-1"))).await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_refused() {
    // No user can create a file there.
    let refused = refusal(Path::new("/proc/store.db")).await;
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused}");

    let house = TestStore::sqlite().await;
    drop(house.store);
    let file = Path::new(&house.place);
    let mut mode = std::fs::metadata(file).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(file, mode).unwrap();
    if std::fs::OpenOptions::new().write(true).open(file).is_ok() {
        skip::is_for_another_user("nothing is read-only to this user");
        return;
    }
    let refused = refusal(file).await;
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_work_is_begun_when_little_room_is_left() {
    let house = TestStore::sqlite().await;
    number(&*house.store, "work", 1).await;
    let greedy = Settings {
        free_space_min_bytes: u64::MAX,
        ..Settings::default()
    };
    let store = store::open_with(&house.place, greedy).await.unwrap();
    let refused = store.claim(&ask("work")).await.unwrap_err();
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    // Decisions are still recorded.
    store.commit(creation(blank("T-1"))).await.unwrap();
    assert!(Path::new(&format!("{}-ballast", house.place)).exists());
    claim_one(&*house.store, &ask("work")).await;
}

/// Writes until the disk is full, and then what happened: the ballast makes room for that.
async fn fill_the_disk(place: &str) {
    let settings = Settings {
        free_space_min_bytes: 0,
        ..Settings::default()
    };
    let store = store::open_with(place, settings).await.unwrap();
    let ballast = format!("{place}-ballast");
    assert!(Path::new(&ballast).exists());
    let mut last = 0;
    let error = loop {
        let mut ticket = blank(&format!("T-{}", last + 1));
        ticket.spec.description = "much ".repeat(4000);
        match store.commit(creation(ticket)).await {
            Ok(_) => last += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull(_)), "{error}");
    assert!(!Path::new(&ballast).exists());
    let noted = store::Noted {
        at: flow::Time(1),
        ticket: None,
        name: "disk_full".to_owned(),
        by: "store".to_owned(),
        body: json!({ "error": error.to_string() }),
    };
    store.note(noted).await.unwrap();
    // Acknowledged changes are there, and refused ones are not.
    assert!(
        store
            .ticket(&id(&format!("T-{last}")))
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        store
            .ticket(&id(&format!("T-{}", last + 1)))
            .await
            .unwrap()
            .is_none()
    );
    drop(store);
    is_sound(place);
    println!("recorded");
}

#[test]
fn a_full_disk_is_named_and_can_still_be_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=4m tmpfs \"$1\" && echo mounted && exec \"$2\" \
        --exact sqlite::a_child_process --nocapture";
    let place = directory.path().join("store.db");
    let run = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, format!("fill {}", place.display()))
        .output();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = run.map_or_else(
        |_| (String::new(), String::new()),
        |output| (text(&output.stdout), text(&output.stderr)),
    );
    if !said.contains("mounted") {
        skip::has_no("no small disk can be mounted here");
        return;
    }
    assert!(said.contains("recorded"), "{said}{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_in_a_group_spoils_nobody_else() {
    let house = TestStore::sqlite().await;
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..64 {
        let store = house.store.clone();
        // Every other one takes a name that is taken already, or soon.
        let name = format!("T-{}", n / 2);
        writers.spawn(async move { store.commit(creation(blank(&name))).await.is_ok() });
    }
    let written = writers.join_all().await;
    assert_eq!(written.iter().filter(|done| **done).count(), 32);
    let page = Page {
        after: None,
        most: 100,
    };
    let all = store::TicketQuery::default();
    let tickets = house.store.tickets(&all, &page).await.unwrap();
    assert_eq!(tickets.items.len(), 32);
    let jobs = house.store.jobs(&JobQuery::default(), &page).await.unwrap();
    assert!(jobs.items.is_empty());
}
