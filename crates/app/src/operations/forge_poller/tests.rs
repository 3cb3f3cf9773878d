use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use flow::{Queue, Time};
use serde_json::Value;

use super::*;
use crate::operations::connections::load_links;
use crate::operations::forge_work::NEWS_QUEUE;
use crate::settings::server::ServerSettings;
use crate::settings::{Environment, SettingOrigins};

/// Calls that a hundred pull requests may cost in an hour in which nothing happens.
const CALLS_MAX: usize = 240;
/// Time at which the simulated hour begins.
const START: i64 = 1_800_000_000_000;

/// A commit of the empty tree, which git knows by itself, and its id.
const COMMIT: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
    author Ada <ada@example.org> 0 +0000\ncommitter Ada <ada@example.org> 0 +0000\n\nBegin\n";
const COMMIT_ID: &str = "db0d3082af4bfe2384e7c0c29a7b117e4cc93165";

static NOW: AtomicI64 = AtomicI64::new(START);

fn simulated_now() -> Time {
    Time(NOW.load(Ordering::SeqCst))
}

/// A GitHub with many pull requests, which answers questions and tags its lists.
struct QuietGithub {
    url: String,
    pulls: Arc<Mutex<Vec<Value>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

fn pull(number: u64) -> Value {
    let repo = json!({"full_name": "o/r"});
    json!({"number": number, "title": "t", "body": "", "draft": false, "state": "open", "merged_at": null,
        "user": {"login": "ada"}, "labels": [], "assignees": [], "requested_reviewers": [],
        "head": {"ref": format!("topic-{number}"), "sha": format!("{number:040x}"), "repo": repo},
        "base": {"ref": "main", "repo": repo}, "html_url": "", "updated_at": "2027-01-01T00:00:00Z"})
}

impl QuietGithub {
    fn start(count: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let pulls = Arc::new(Mutex::new((1..=count).map(pull).collect::<Vec<_>>()));
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let (served, counted) = (Arc::clone(&pulls), Arc::clone(&calls));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let target = head[0].split(' ').nth(1).unwrap().to_owned();
                let (path, query) = target.split_once('?').unwrap_or((&target, ""));
                let body = if query.split('&').any(|part| part == "page=2") {
                    "[]".to_owned()
                } else {
                    answer(path, &served.lock().unwrap())
                };
                counted.lock().unwrap().push(target.clone());
                let tag = format!("\"{}\"", engine::hash::short_sha256(body.as_bytes()));
                let is_known = head.iter().any(|line| line.ends_with(&tag));
                let (status, body) = if is_known {
                    (304, "")
                } else {
                    (200, body.as_str())
                };
                let length = body.len();
                let reply = format!(
                    "HTTP/1.1 {status} .\r\nETag: {tag}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                // A client that goes away is no concern of the test.
                drop(stream.write_all(reply.as_bytes()));
            }
        });
        Self { url, pulls, calls }
    }

    fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

fn answer(path: &str, pulls: &[Value]) -> String {
    let path = path.strip_prefix("/api/v3").unwrap();
    let value = match path.strip_prefix("/repos/o/r").unwrap_or(path) {
        "/user" => json!({"login": "bot"}),
        "" => json!({"permissions": {"push": true, "pull": true}}),
        "/pulls" => json!(pulls),
        path if path.starts_with("/pulls/") => {
            let number: usize = path.rsplit('/').next().unwrap().parse().unwrap();
            pulls[number - 1].clone()
        }
        _ => json!([]),
    };
    value.to_string()
}

/// Makes a checkout with one empty commit, whose remote is a directory.
fn checkout(place: &Path) -> PathBuf {
    let git = place.join("checkout/.git");
    let (folder, name) = COMMIT_ID.split_at(2);
    let objects = git.join("objects").join(folder);
    for part in [&objects, &git.join("refs/heads")] {
        std::fs::create_dir_all(part).unwrap();
    }
    let object = std::fs::File::create(objects.join(name)).unwrap();
    let mut object = flate2::write::ZlibEncoder::new(object, flate2::Compression::default());
    write!(object, "commit {}\0{COMMIT}", COMMIT.len()).unwrap();
    object.finish().unwrap();
    std::fs::write(git.join("refs/heads/main"), format!("{COMMIT_ID}\n")).unwrap();
    let remote = place.join("remote.git");
    let config =
        format!("[core]\nrepositoryformatversion = 0\n[remote \"origin\"]\nurl = {remote:?}\n");
    std::fs::write(git.join("config"), config).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    place.join("checkout")
}

/// An app with one connection to the forge, and a clock of its own.
async fn app_with(forge: &QuietGithub, place: &Path) -> App {
    let (checkout, token) = (checkout(place), place.join("token"));
    std::fs::write(&token, "ghp_of_the_test").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "[forge]\nkind = \"github\"\nurl = {:?}\nrepository = \"o/r\"\ntoken_file = {token:?}\n\
         [[connection]]\nname = \"app\"\nforge = \"github\"\nrepository = \"o/r\"\ndirectory = {checkout:?}\n",
        forge.url
    );
    let file = place.join("config.toml");
    std::fs::write(&file, config).unwrap();
    let environment = Environment {
        data_dir: place.join("data"),
        home: Some(place.to_owned()),
        user_file: Some(file),
        database: None,
        person: "ada".to_owned(),
        server: ServerSettings::default(),
        path: "/usr/local/bin:/usr/bin:/bin".into(),
        program: "countersign".into(),
        exposes_password: false,
        origins: SettingOrigins {
            data_dir: "default",
            database: "default",
            person: "default",
        },
    };
    let mut app = App::open(environment).await.unwrap();
    app.coordinator.clock = simulated_now;
    app
}

/// Lets the time pass, and polls and works as a server does.
async fn pass(app: &App, inbox: &ForgeInbox, time_ms: i64) {
    let (queue, end) = (Queue::from(NEWS_QUEUE), simulated_now().0 + time_ms);
    while simulated_now().0 < end {
        poll_if_due(app, inbox, "app").await.unwrap();
        let pollers = list_pollers(app).await.unwrap();
        assert_eq!(pollers[0].error, None);
        while inbox.work_once(&queue, 32).await.unwrap() {}
        let tick = i64::try_from(TICK.as_millis()).unwrap();
        NOW.fetch_add(tick, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_hundred_quiet_pull_requests_cost_few_calls_in_an_hour() {
    let forge = QuietGithub::start(100);
    let place = tempfile::tempdir().unwrap();
    let app = app_with(&forge, place.path()).await;
    let links = Arc::new(load_links(&app.environment).unwrap());
    let inbox = ForgeInbox::new(&app, links, StopSignal::never());
    inbox.note_start().await.unwrap();
    pass(&app, &inbox, HOUR_MS).await;
    let first = forge.calls();
    pass(&app, &inbox, HOUR_MS).await;
    let second = forge.calls() - first;
    println!("100 pull requests: {first} calls in the first hour, {second} in the second");
    assert!(
        first <= CALLS_MAX && second <= CALLS_MAX,
        "{first}, {second}"
    );
    assert!(second >= 12, "{second}: nobody asks any more");

    // It is found all the same when somebody wants a review.
    {
        let wanted = &mut forge.pulls.lock().unwrap()[41];
        wanted["labels"] = json!([{"name": "ready-for-review"}]);
        wanted["updated_at"] = json!("2027-01-01T01:00:00Z");
    }
    pass(
        &app,
        &inbox,
        i64::try_from(INTERVAL_MAX_MS).unwrap() + 10_000,
    )
    .await;
    let key = format!("forge/app/review/42/{:040x}", 42);
    let queued = app.coordinator.store.job_by_key(&key).await.unwrap();
    assert!(queued.is_some());
}

#[test]
fn a_quiet_repository_is_asked_less_often_and_news_make_it_frequent_again() {
    let mut poll = PollState::default();
    let mut intervals = Vec::new();
    let mut now = HOUR_MS;
    for _ in 0..6 {
        poll.plan(now, 3, 0);
        intervals.push(poll.interval_ms / 1000);
        now = poll.next_at;
    }
    assert_eq!(intervals, [30, 60, 120, 240, 300, 300]);
    poll.plan(now, 3, 1);
    assert_eq!(poll.next_at - now, 30_000);
}

#[test]
fn an_hour_of_silence_and_an_hour_of_noise_stay_within_the_budget() {
    for (found, most) in [(0, 60), (1, 1000)] {
        let mut poll = PollState::default();
        let (mut now, start, mut calls) = (HOUR_MS, HOUR_MS, 0);
        while now < start + HOUR_MS {
            poll.plan(now, if found > 0 { 40 } else { 3 }, found);
            calls += if found > 0 { 40 } else { 3 };
            now = poll.next_at;
        }
        assert!(calls <= most, "{found}: {calls}");
    }
    // A forge that permits little gets little.
    let mut poll = PollState {
        limit: 100,
        ..PollState::default()
    };
    poll.plan(HOUR_MS, 15, 1);
    assert_eq!(poll.next_at, 2 * HOUR_MS);
}
