//! The spool directory, used as the scripts that were made for such files do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{World, reached, until};

struct Dir {
    root: PathBuf,
}

impl Dir {
    fn new(world: &World) -> Self {
        Self {
            root: world.root().join(".agent-communication"),
        }
    }

    fn serve<'a>(&self, world: &'a World) -> Server<'a> {
        let place = self.root.to_str().unwrap();
        Server::start_with(world, &["--spool", place])
    }

    fn logs(&self) -> PathBuf {
        self.root.with_file_name("logs")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn drop_in(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn json(&self, name: &str) -> Value {
        let text = fs::read(self.at(name)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    #[track_caller]
    fn is_put_aside(&self, name: &str, why: &str) {
        let place = self.at(&format!("rejected/{name}.reason"));
        until(&format!("{name} is put aside"), || place.exists());
        let reason = fs::read_to_string(place).unwrap();
        assert!(reason.contains(why), "{reason}");
        let aside = self.at(&format!("rejected/{name}"));
        assert!(fs::symlink_metadata(aside).is_ok());
        assert!(fs::symlink_metadata(self.at(&format!("queues/{name}"))).is_err());
    }
}

/// The pull queue's own example, with a field that nobody knows.
fn task(id: &str) -> Value {
    json!({
        "id": id, "type": "review", "status": "pending", "priority": 50,
        "created_by": "manual-test", "assigned_to": "qa",
        "created_at": "2026-02-03T10:00:00.000Z",
        "title": "Test Review", "description": "Test task for verification",
        "depends_on": [], "blocks": [], "estimate": {"hours": 1.5},
        "context": {"jira_key": "TEST-123", "github_repo": "owner/repo", "pr_number": 999},
        "retry_count": 0,
    })
}

#[test]
fn a_dropped_task_is_taken_up_shown_and_archived_as_its_scripts_expect() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    let qa = server.token("qa-1", "reviewer", &[]);
    // As a person's shell does it: the directory is there once the agent is known.
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    dir.drop_in(
        "queues/qa/test-task.json",
        task("test-review-task").to_string(),
    );

    let wait = json!({"timeout_secs": 20});
    let work = server.tool(&qa, "wait_for_work", &wait).unwrap();
    assert_eq!(work["task"]["id"], "test-review-task");
    assert_eq!(work["task"]["created_by"], "manual-test");
    assert_eq!(work["task"]["estimate"]["hours"], 1.5);
    let file = "queues/qa/test-task.json";
    until("it is in progress", || {
        dir.json(file)["status"] == "in_progress"
    });
    assert_eq!(dir.json("locks/test-review-task.lock")["agent"], "qa-1");
    assert_eq!(dir.json(file)["started_by"], "qa-1");
    until("the agent has a heartbeat", || {
        dir.json("heartbeats/qa-1.json")["agent_id"] == "qa-1"
    });

    let said = json!({"summary": "it holds"});
    server.tool(&qa, "complete", &said).unwrap();
    let done = "completed/qa/test-task.json";
    until("it is archived", || dir.json(done)["status"] == "completed");
    until("its lock is released", || {
        !dir.at("locks/test-review-task.lock").exists()
    });
    assert!(!dir.at(file).exists());
    let kept = dir.json(done);
    assert_eq!(kept["result"]["summary"], "it holds");
    assert_eq!(kept["completed_by"], "qa-1");
    assert_eq!(kept["estimate"]["hours"], 1.5);
    let log = fs::read_to_string(dir.logs().join("qa.log")).unwrap();
    let lines: Vec<&str> = log.lines().map(|line| &line[9..]).collect();
    assert_eq!(lines[0], "INFO [qa] Polling queue: qa");
    assert_eq!(lines[1], "INFO [qa] Found task: test-review-task");
    assert_eq!(
        lines[2],
        "INFO [qa-1] [TEST-123] Starting review of PR #999"
    );
    assert!(
        lines[3].starts_with("INFO [qa-1] [TEST-123] Review completed ("),
        "{log}"
    );
    assert!(lines[3].ends_with("s)"), "{log}");
}

#[test]
fn a_task_is_taken_at_once_and_once_whatever_happens() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    let qa = server.token("qa", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    for n in 0..20 {
        dir.drop_in(
            &format!("queues/qa/{n:02}.json"),
            task(&format!("t{n}")).to_string(),
        );
    }
    let count = |server: &Server<'_>| {
        let jobs = server.rest("GET", "/api/v1/jobs?queue=qa&limit=1000", &Value::Null);
        jobs.is(200).json()["items"].as_array().unwrap().len()
    };
    // Long before the next look at all files.
    assert!(
        reached(Duration::from_secs(20), || count(&server) == 20),
        "{}",
        count(&server)
    );
    let work = server.tool(&qa, "get_my_assignment", &json!({})).unwrap();
    let id = work["task"]["id"].as_str().unwrap().to_owned();
    until("its lock is there", || {
        dir.at(&format!("locks/{id}.lock")).exists()
    });
    // Killed and started again, on files that it has written to itself.
    drop(server);
    let server = dir.serve(&world);
    dir.drop_in("queues/qa/again.json", task("one-more").to_string());
    until("the new one is taken", || count(&server) == 21);
    server
        .tool(&qa, "complete", &json!({"summary": "done"}))
        .unwrap();
    let name = format!("{:0>2}.json", id.trim_start_matches('t'));
    until("it is archived", || {
        dir.at(&format!("completed/qa/{name}")).exists()
    });
    // The same words again are the same task, and it is done.
    let again = fs::read(dir.at(&format!("completed/qa/{name}"))).unwrap();
    let mut same: Value = serde_json::from_slice(&again).unwrap();
    same["status"] = json!("pending");
    dir.drop_in("queues/qa/same.json", same.to_string());
    until("it is archived again", || {
        dir.at("completed/qa/same.json").exists()
    });
    assert_eq!(count(&server), 21);
}

#[test]
fn what_is_no_task_is_put_aside_with_the_reason() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    server.token("qa", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    let secret = world.put("secret.json", task("stolen").to_string());
    symlink(&secret, dir.at("queues/qa/link.json")).unwrap();
    dir.drop_in("queues/qa/huge.json", vec![b'['; 300 * 1024]);
    dir.drop_in("queues/qa/list.json", "[1, 2]");
    dir.drop_in("queues/qa/path.json", task("../../evil").to_string());
    dir.drop_in("queues/nobody/lost.json", task("lost").to_string());
    dir.drop_in("queues/build/own.json", task("own").to_string());
    fs::create_dir(dir.at("queues/qa/dir.json")).unwrap();
    dir.drop_in("queues/qa/a\nb.json", task("newline").to_string());
    dir.is_put_aside("qa/link.json", "a link");
    dir.is_put_aside("qa/huge.json", "larger than 256 KiB");
    dir.is_put_aside("qa/list.json", "not an object");
    dir.is_put_aside("qa/path.json", "its id");
    dir.is_put_aside("nobody/lost.json", "unknown agent");
    dir.is_put_aside("build/own.json", "unknown agent");
    dir.is_put_aside("qa/dir.json", "only regular files");
    dir.is_put_aside("qa/a_b.json", "its name");
    assert!(Path::new(&secret).exists());
    let mut other = task("twice");
    dir.drop_in("queues/qa/first.json", other.to_string());
    other["title"] = json!("Something else");
    until("the first is taken", || {
        world.count_of("task_taken_up") == 1
    });
    dir.drop_in("queues/qa/second.json", other.to_string());
    dir.is_put_aside("qa/second.json", "another id");
    assert!(world.count_of("task_refused") >= 9);
}

#[test]
fn a_half_written_file_is_waited_for_and_not_for_ever() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    let qa = server.token("qa", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    let text = task("slow").to_string();
    let (first, rest) = text.split_at(text.len() / 2);
    dir.drop_in("queues/qa/broken.json", first);
    dir.drop_in("queues/qa/slow.json", first);
    // Another is taken meanwhile: half a file holds nobody up.
    dir.drop_in("queues/qa/quick.json", task("quick").to_string());
    until("another is taken", || world.count_of("task_taken_up") == 1);
    assert!(dir.at("queues/qa/slow.json").exists());
    let mut whole = fs::OpenOptions::new();
    let mut file = whole
        .append(true)
        .open(dir.at("queues/qa/slow.json"))
        .unwrap();
    std::io::Write::write_all(&mut file, rest.as_bytes()).unwrap();
    drop(file);
    until("the whole one is taken", || {
        world.count_of("task_taken_up") == 2
    });
    dir.is_put_aside("qa/broken.json", "not JSON");
    let work = server.tool(&qa, "get_my_assignment", &json!({})).unwrap();
    assert_eq!(work["task"]["id"], "quick");
}

#[test]
fn a_full_queue_refuses_and_dependencies_are_waited_for() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    let qa = server.token("qa", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    let mut later = task("later");
    later["depends_on"] = json!(["t000"]);
    dir.drop_in("queues/qa/000-later.json", later.to_string());
    for n in 0..101 {
        dir.drop_in(
            &format!("queues/qa/t{n:03}.json"),
            task(&format!("t{n:03}")).to_string(),
        );
    }
    dir.is_put_aside("qa/t100.json", "full");
    assert_eq!(world.count_of("task_taken_up"), 100);
    assert_eq!(dir.json("queues/qa/000-later.json")["status"], "pending");
    let work = server.tool(&qa, "get_my_assignment", &json!({})).unwrap();
    assert_eq!(work["task"]["id"], "t000");
    server
        .tool(&qa, "complete", &json!({"summary": "done"}))
        .unwrap();
    until("what depends on it is taken", || {
        world.count_of("task_taken_up") == 101
    });
}

#[test]
fn a_file_below_pause_pauses_and_its_removal_resumes() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    let qa = server.token("qa-1", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    dir.drop_in("pause/qa", "");
    let pauses = || {
        let status = server.rest("GET", "/api/v1/status", &Value::Null);
        status.is(200).json()["pauses"].as_array().unwrap().clone()
    };
    until("it is paused", || pauses().len() == 2);
    assert!(pauses().iter().all(|pause| pause["by"] == "spool"));
    // A pause by a person stays.
    let own = json!({"scope": "agent", "name": "rex", "why": "mine"});
    server.rest("POST", "/api/v1/pauses", &own);
    dir.drop_in("queues/qa/t.json", task("t").to_string());
    until("it is taken up", || world.count_of("task_taken_up") == 1);
    let work = server.tool(&qa, "get_my_assignment", &json!({})).unwrap();
    assert_eq!(work["task"], Value::Null);
    fs::remove_file(dir.at("pause/qa")).unwrap();
    let wait = json!({"timeout_secs": 20});
    let work = server.tool(&qa, "wait_for_work", &wait).unwrap();
    assert_eq!(work["task"]["id"], "t");
    let log = fs::read_to_string(dir.logs().join("qa.log")).unwrap();
    assert!(log.contains("INFO [qa] Agent qa paused"), "{log}");
    assert!(log.contains("INFO [qa] Agent qa resumed"), "{log}");
}

#[test]
fn what_was_queued_another_way_is_shown_too() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    server.token("qa", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    // As 001's workflow for CI sends it: the number in quotes.
    let queued = server
        .rest("POST", "/queue", &json!({"agent_id": "qa", "pr": "456"}))
        .is(201)
        .json();
    let id = queued["task_id"].as_str().unwrap();
    let file = format!("queues/qa/{id}.json");
    until("its file is there", || {
        dir.json(&file)["status"] == "pending"
    });
    let shown = dir.json(&file);
    assert_eq!(shown["context"]["pr_number"], 456);
    assert_eq!(shown["title"], "Review PR #456");
    let bad = json!({"agent_id": "qa", "pr": "main"});
    server.rest("POST", "/queue", &bad).is(422);
    let place = dir.root.to_str().unwrap();
    let other = World::new();
    let second = other.call(&["serve", "--listen", "127.0.0.1:0", "--spool", place]);
    second.ends_with(2).says("another process uses the spool");
}

/// Tasks may be queued, taken and completed faster than the directory is looked at.
#[test]
fn tasks_that_are_over_before_anybody_looks_are_archived_and_logged_too() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    let sender = server.token("builder-1", "builder", &[]);
    let qa = server.token("qa", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    let ids: Vec<String> = (0..12)
        .map(|number| {
            let task =
                json!({"agent_id": "qa", "task_type": "review", "title": format!("No. {number}")});
            let queued = server.tool(&sender, "queue_task_for_agent", &task).unwrap();
            let wait = json!({"timeout_secs": 20});
            let given = server.tool(&qa, "wait_for_work", &wait).unwrap();
            assert_eq!(given["task"]["id"], queued["task_id"]);
            let done = json!({"attempt": given["task"]["attempt"], "summary": "fine"});
            server.tool(&qa, "complete", &done).unwrap();
            queued["task_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let log = || fs::read_to_string(dir.logs().join("qa.log")).unwrap_or_default();
    for id in &ids {
        until(&format!("{id} is archived, logged and unlocked"), || {
            log().contains(&format!("Found task: {id}"))
                && dir.at(&format!("completed/qa/{id}.json")).is_file()
                && !dir.at(&format!("queues/qa/{id}.json")).exists()
                && !dir.at(&format!("locks/{id}.lock")).exists()
        });
    }
    until("each completion is logged", || {
        log().matches("Review completed").count() == ids.len()
    });
}

#[test]
fn a_task_whose_file_says_so_is_cancelled() {
    let world = World::new();
    let dir = Dir::new(&world);
    let server = dir.serve(&world);
    let qa = server.token("qa", "reviewer", &[]);
    until("qa has a queue", || dir.at("queues/qa").is_dir());
    dir.drop_in("queues/qa/t.json", task("t").to_string());
    let wait = json!({"timeout_secs": 20});
    server.tool(&qa, "wait_for_work", &wait).unwrap();
    until("it is in progress", || {
        dir.json("queues/qa/t.json")["status"] == "in_progress"
    });
    let mut unwanted = dir.json("queues/qa/t.json");
    unwanted["status"] = json!("cancelled");
    dir.drop_in("queues/qa/t.json", unwanted.to_string());
    until("it is cancelled", || world.count_of("job_dropped") == 1);
    let late = server.tool(&qa, "complete", &json!({"summary": "done"}));
    assert!(late.is_err());
    until("its lock is released", || !dir.at("locks/t.lock").exists());
    assert_eq!(dir.json("queues/qa/t.json")["status"], "cancelled");
}
