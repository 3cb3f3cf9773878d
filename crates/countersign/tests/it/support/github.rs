//! A GitHub with one repository, `o/r`: it remembers, it looks into a bare repository for its commits,
//! and it refuses what GitHub refuses. People and their CI write into it by methods.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio_rustls::rustls::{ServerConnection, StreamOwned};

use super::World;
use super::forge::{field, read};
use crate::server::tls::Certificate;

const TOKEN: &str = "ghp_of_the_story";
pub const BOT: &str = "countersign-bot";

/// Everything that was written on it.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fault that a test switches on by itself"
)]
pub struct GithubState {
    pub pulls: Vec<Value>,
    pub reviews: Vec<Value>,
    pub threads: Vec<Value>,
    pub comments: Vec<Value>,
    pub statuses: Vec<(String, Value)>,
    pub labels: Vec<String>,
    /// Requests that were refused with 422, by their message.
    pub refused: Vec<String>,
    pub conflict: bool,
    /// Requests after a push for which the old head is still shown.
    pub lag: usize,
    /// Commit that the merge queue tests.
    pub queued: Option<String>,
    /// True if somebody replaces the branch as soon as it has a pull request.
    pub is_replaced: bool,
    /// True for a private repository without a paid plan.
    pub no_drafts: bool,
    pub requests: usize,
    /// Number of a request that is never answered, and whether it is carried out before.
    pub stop_at: Option<(usize, bool)>,
    /// True after that request.
    pub stopped: bool,
    next_id: u64,
    bare: PathBuf,
}

pub struct Github {
    pub state: Arc<Mutex<GithubState>>,
    pub bare: PathBuf,
    _place: tempfile::TempDir,
}

type Answer = (u16, Value);

fn refusal(message: &str) -> Answer {
    (422, json!({"message": message}))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the forge is another's program, on the other side of the network"
)]
pub fn git(bare: &Path, words: &[&str]) -> String {
    let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@localhost"];
    let output = Command::new("git")
        .arg("-C")
        .arg(bare)
        .args(identity)
        .args(words)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Github {
    /// Starts it, and makes it the remote and the forge of a world. `landing` goes into `[landing]`.
    pub fn of(world: &World, landing: &str) -> Self {
        // Outside of the world, in which a run changes nothing but its own.
        let place = tempfile::tempdir().unwrap();
        let bare = std::fs::canonicalize(place.path()).unwrap().join("r.git");
        let settings = format!("{}\n[landing]\n{landing}\n", super::SETTINGS);
        world.write("countersign.toml", &settings);
        world.commit("Land as pull requests");
        let (from, to) = (world.repository.to_str().unwrap(), bare.to_str().unwrap());
        world.git(&["clone", "--quiet", "--bare", from, to]);
        world.git(&["remote", "add", "origin", to]);
        let certificate = Certificate::new(world);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let token = world.put("token", TOKEN);
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let authorities = certificate.file.to_str().unwrap();
        world.put_home(
            ".config/countersign/config.toml",
            &format!(
                "[forge]\nkind = \"github\"\nurl = \"https://{address}\"\nrepository = \"o/r\"\ntoken_file = {token:?}\nca_file = {authorities:?}\n"
            ),
        );
        let state = Arc::new(Mutex::new(GithubState {
            bare: bare.clone(),
            ..GithubState::default()
        }));
        let (shared, tls) = (Arc::clone(&state), certificate.server());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (shared, tls) = (Arc::clone(&shared), Arc::clone(&tls));
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(tls).unwrap();
                    let mut stream = StreamOwned::new(connection, stream);
                    // A client that is killed goes away in the middle.
                    while let Ok((head, body)) = read(&mut stream) {
                        let answer = shared.lock().unwrap().answer_or_stop(&head, &body);
                        let Some((status, value)) = answer else {
                            // The client is killed while it waits.
                            loop {
                                std::thread::park();
                            }
                        };
                        let text = value.to_string();
                        let reply = format!(
                            "HTTP/1.1 {status} .\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
                            text.len()
                        );
                        let sent = stream.write_all(reply.as_bytes());
                        if sent.and_then(|()| stream.flush()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            state,
            bare,
            _place: place,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, GithubState> {
        self.state.lock().unwrap()
    }

    /// Commit of a branch, as it was pushed.
    pub fn branch(&self, name: &str) -> String {
        git(&self.bare, &["rev-parse", "--verify", "--quiet", name])
    }

    /// Says what exists, in a form that two ways to the same end have in common.
    pub fn summary(&self) -> String {
        let state = self.lock();
        let mut text = String::new();
        for pull in &state.pulls {
            let _ = writeln!(text, "pull {} merged {}", pull["state"], pull["merged"]);
        }
        let own = |entry: &&Value| entry["user"]["login"] == BOT;
        let _ = writeln!(
            text,
            "summaries {}",
            state.comments.iter().filter(own).count()
        );
        let mut threads: BTreeMap<String, (usize, bool)> = BTreeMap::new();
        for thread in state.threads.iter().filter(own) {
            let body = thread["body"].as_str().unwrap_or_default();
            let key = body.lines().next().unwrap_or_default().to_owned();
            let entry = threads.entry(key).or_default();
            entry.0 += 1;
            entry.1 |= thread["resolved"] == true;
        }
        for (key, (count, resolved)) in threads {
            let _ = writeln!(text, "{key} {count} resolved {resolved}");
        }
        text
    }

    /// A person's review with one comment on a line.
    pub fn review(&self, login: &str, state: &str, (path, line, body): (&str, u64, &str)) {
        let mut github = self.lock();
        let id = github.id();
        github
            .reviews
            .push(json!({"id": id, "user": {"login": login}, "state": state,
            "body": "", "submitted_at": "2026-01-02T00:00:00Z"}));
        let id = github.id();
        github.threads.push(
            json!({"id": id, "user": {"login": login}, "body": body, "path": path,
            "line": line, "side": "RIGHT", "subject_type": "line", "resolved": false,
            "created_at": "2026-01-02T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z"}),
        );
    }

    /// A result of somebody's CI on a commit.
    pub fn ci(&self, commit: &str, state: &str) {
        let status = json!({"context": "ci/build", "state": state, "description": "3 tests failed",
            "creator": {"login": "ci"}});
        self.lock().statuses.push((commit.to_owned(), status));
    }

    /// Merges, as a person does with the button.
    pub fn merge(&self) {
        self.lock().merge();
    }

    /// Adds a commit to a branch, as a person does who pushes.
    pub fn push(&self, branch: &str, parent: &str) -> String {
        push(&self.bare, branch, parent)
    }
}

fn push(bare: &Path, branch: &str, parent: &str) -> String {
    let tree = git(bare, &["rev-parse", &format!("{branch}^{{tree}}")]);
    let words = ["commit-tree", &tree, "-p", parent, "-m", "A push"];
    let commit = git(bare, &words);
    let name = format!("refs/heads/{branch}");
    git(bare, &["update-ref", &name, &commit]);
    commit
}

impl GithubState {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn merge(&mut self) {
        let pull = self.pulls.last_mut().unwrap();
        pull["merged"] = json!(true);
        pull["merged_at"] = json!("2026-01-03T00:00:00Z");
        pull["state"] = json!("closed");
        let head = pull["head"]["sha"].as_str().unwrap().to_owned();
        git(&self.bare, &["update-ref", "refs/heads/main", &head]);
    }

    /// Heads follow the branches until a pull request ends.
    fn look_at_branches(&mut self) {
        for pull in self.pulls.iter_mut().filter(|pull| pull["state"] == "open") {
            let branch = pull["head"]["ref"].as_str().unwrap().to_owned();
            let head = json!(git(&self.bare, &["rev-parse", &branch]));
            if pull["head"]["sha"] != head && self.lag > 0 {
                self.lag -= 1;
                continue;
            }
            pull["head"]["sha"] = head;
        }
    }

    fn anchor_fault(&self, comment: &Value) -> Option<&'static str> {
        let path = comment["path"].as_str().unwrap_or_default();
        let head = self.pulls.last().unwrap()["head"]["sha"].as_str().unwrap();
        let range = format!("main...{head}");
        let diff = git(&self.bare, &["diff", "--unified=3", &range, "--", path]);
        if diff.is_empty() {
            return Some("path is not part of the diff");
        }
        if comment["subject_type"] == "file" {
            return None;
        }
        let line = comment["line"].as_u64().unwrap_or(0);
        let mut at = 0;
        let mut known = Vec::new();
        for text in diff.lines() {
            if let Some(rest) = text.strip_prefix("@@ -") {
                let new = rest.split_once('+').unwrap().1;
                let new = new.split([',', ' ']).next().unwrap();
                at = new.parse().unwrap();
            } else if at > 0 && !text.starts_with(['-', '\\']) {
                known.push(at);
                at += 1;
            }
        }
        (!known.contains(&line)).then_some("line must be part of the diff")
    }

    fn add_thread(&mut self, comment: &Value) -> Value {
        let id = self.id();
        let thread = json!({"id": id, "body": comment["body"], "path": comment["path"],
            "line": comment["line"], "side": "RIGHT", "user": {"login": BOT}, "resolved": false,
            "subject_type": comment["subject_type"].as_str().unwrap_or("line")});
        self.threads.push(thread.clone());
        thread
    }

    fn answer_or_stop(&mut self, head: &str, body: &[u8]) -> Option<Answer> {
        self.requests += 1;
        match self.stop_at {
            Some((at, is_carried_out)) if self.requests == at => {
                if is_carried_out {
                    self.answer(head, body);
                }
                self.stopped = true;
                None
            }
            _ => Some(self.answer(head, body)),
        }
    }

    fn answer(&mut self, head: &str, body: &[u8]) -> Answer {
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        if field(head, "authorization") != format!("Bearer {TOKEN}") {
            return (401, json!({"message": "Bad credentials"}));
        }
        let path = target.split('?').next().unwrap();
        let query = target.split_once('?').map_or("", |(_, query)| query);
        // One page holds everything here.
        if query.contains("page=") && !query.contains("page=1") && !query.ends_with("per_page=100")
        {
            return (200, json!([]));
        }
        self.look_at_branches();
        let answer = match path.strip_prefix("/api/v3/repos/o/r") {
            _ if path.ends_with("/user") => (200, json!({"login": BOT})),
            _ if path.ends_with("/graphql") => self.graphql(&body),
            Some("") => (200, json!({"permissions": {"push": true, "pull": true}})),
            Some(path) => {
                let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
                match method {
                    "GET" => self.get(&parts),
                    method => self.write(method, &parts, &body),
                }
            }
            None => (404, json!({"message": "Not Found"})),
        };
        if answer.0 == 422 {
            self.refused
                .push(answer.1["message"].as_str().unwrap_or_default().to_owned());
        }
        answer
    }

    fn get(&self, parts: &[&str]) -> Answer {
        let value = match parts {
            ["pulls"] => {
                let open = self.pulls.iter().filter(|pull| pull["state"] == "open");
                json!(open.collect::<Vec<_>>())
            }
            ["pulls", number] => {
                let Some(pull) = self.pulls.get(number.parse::<usize>().unwrap() - 1) else {
                    return (404, json!({}));
                };
                let mut pull = pull.clone();
                pull["mergeable"] = json!(!self.conflict);
                pull["mergeable_state"] = json!(if self.conflict { "dirty" } else { "clean" });
                pull
            }
            ["pulls", _, "reviews"] => json!(self.reviews),
            ["pulls", _, "comments"] => json!(self.threads),
            ["issues", _, "comments"] => json!(self.comments),
            ["issues", _, "labels"] => {
                let labels = self.labels.iter().map(|name| json!({"name": name}));
                json!(labels.collect::<Vec<_>>())
            }
            ["commits", _, "check-runs"] => json!({"check_runs": []}),
            ["commits", commit, "statuses"] => {
                let of = self.statuses.iter().rev().filter(|(of, _)| of == commit);
                json!(of.map(|(_, status)| status).collect::<Vec<_>>())
            }
            ["commits", commit, "status"] => {
                let mut latest: BTreeMap<String, &Value> = BTreeMap::new();
                for (_, status) in self.statuses.iter().filter(|(of, _)| of == commit) {
                    latest.insert(status["context"].as_str().unwrap().to_owned(), status);
                }
                json!({"statuses": latest.values().collect::<Vec<_>>()})
            }
            ["collaborators", "eve", "permission"] => json!({"permission": "read"}),
            ["collaborators", _, "permission"] => json!({"permission": "write"}),
            _ => return (404, json!({"message": "Not Found"})),
        };
        (200, value)
    }

    #[expect(clippy::too_many_lines, reason = "a table of routes")]
    fn write(&mut self, method: &str, parts: &[&str], body: &Value) -> Answer {
        match (method, parts) {
            ("POST", ["pulls"]) if self.no_drafts && body["draft"] == true => {
                refusal("Draft pull requests are not supported in this repository.")
            }
            ("POST", ["pulls"]) => {
                let is_open =
                    |pull: &Value| pull["state"] == "open" && pull["head"]["ref"] == body["head"];
                if self.pulls.iter().any(is_open) {
                    return refusal("A pull request already exists");
                }
                let branch = body["head"].as_str().unwrap();
                let head = git(&self.bare, &["rev-parse", "--verify", "--quiet", branch]);
                if head.is_empty() {
                    return refusal("head is invalid");
                }
                let (number, repo) = (self.pulls.len() + 1, json!({"full_name": "o/r"}));
                let pull = json!({"number": number, "title": body["title"], "body": body["body"],
                    "draft": body["draft"], "state": "open", "merged": false, "merged_at": null,
                    "user": {"login": BOT}, "labels": [], "updated_at": "2026-01-01T00:00:00Z",
                    "head": {"ref": branch, "sha": head, "repo": repo},
                    "base": {"ref": body["base"], "repo": repo},
                    "html_url": format!("https://forge.example/o/r/pull/{number}")});
                self.pulls.push(pull.clone());
                if self.is_replaced {
                    push(&self.bare, branch, "main");
                }
                (201, pull)
            }
            ("PATCH", ["pulls", number]) => {
                let pull = &mut self.pulls[number.parse::<usize>().unwrap() - 1];
                for name in ["title", "body"] {
                    pull[name] = body[name].clone();
                }
                (200, pull.clone())
            }
            ("POST", ["pulls", _, "reviews"]) => {
                if body["event"] != "COMMENT" {
                    return refusal("Can not approve your own pull request");
                }
                if body["commit_id"] != self.pulls.last().unwrap()["head"]["sha"] {
                    return refusal("commit_id is not part of the pull request");
                }
                let comments = body["comments"].as_array().cloned().unwrap_or_default();
                if let Some(fault) = comments.iter().find_map(|one| self.anchor_fault(one)) {
                    return refusal(fault);
                }
                for comment in &comments {
                    self.add_thread(comment);
                }
                let id = self.id();
                self.reviews.push(
                    json!({"id": id, "body": body["body"], "user": {"login": BOT},
                    "state": "COMMENTED", "submitted_at": "2026-01-01T00:00:00Z"}),
                );
                (200, json!({"id": id}))
            }
            ("POST", ["pulls", _, "comments"]) => match self.anchor_fault(body) {
                Some(fault) => refusal(fault),
                None => (201, self.add_thread(body)),
            },
            ("POST", ["pulls", _, "comments", first, "replies"]) => {
                let id = self.id();
                let reply = json!({"id": id, "body": body["body"], "user": {"login": BOT},
                    "in_reply_to_id": first.parse::<u64>().unwrap()});
                self.threads.push(reply.clone());
                (201, reply)
            }
            ("PUT", ["pulls", number, "merge"]) => {
                let pull = &self.pulls[number.parse::<usize>().unwrap() - 1];
                let head = pull["head"]["sha"].as_str().unwrap();
                let gates = self.statuses.iter().rev().filter(|(of, _)| of == head);
                let mut gates = gates.filter(|(_, status)| status["context"] == "countersign");
                let is_green = gates
                    .next()
                    .is_some_and(|(_, one)| one["state"] == "success");
                if pull["draft"] == true || !is_green {
                    return (
                        405,
                        json!({"message": "Required status check is expected."}),
                    );
                }
                if body["sha"] != head {
                    return (409, json!({"message": "Head branch was modified."}));
                }
                self.merge();
                (200, json!({"merged": true}))
            }
            ("POST", ["issues", _, "comments"]) => {
                let id = self.id();
                let comment = json!({"id": id, "body": body["body"], "user": {"login": BOT}});
                self.comments.push(comment.clone());
                (201, comment)
            }
            ("PATCH", ["issues", "comments", id]) => {
                let id: u64 = id.parse().unwrap();
                let mut comments = self.comments.iter_mut();
                let comment = comments.find(|comment| comment["id"] == id).unwrap();
                comment["body"] = body["body"].clone();
                (200, comment.clone())
            }
            ("POST", ["issues", _, "labels"]) => {
                let names = body["labels"].as_array().unwrap().iter();
                let names = names.map(|name| name.as_str().unwrap().to_owned());
                self.labels.extend(names);
                (200, json!([]))
            }
            ("POST", ["statuses", commit]) => {
                let mut status = body.clone();
                status["creator"] = json!({"login": BOT});
                self.statuses.push(((*commit).to_owned(), status));
                (201, body.clone())
            }
            _ => (404, json!({"message": "Not Found"})),
        }
    }

    fn graphql(&mut self, body: &Value) -> Answer {
        let query = body["query"].as_str().unwrap();
        if query.contains("mergeQueueEntry") {
            let commit = self.queued.as_ref();
            let entry = commit.map(|commit| json!({"headCommit": {"oid": commit}}));
            let pull = json!({"mergeQueueEntry": entry});
            return (200, json!({"data": {"repository": {"pullRequest": pull}}}));
        }
        let target = body["variables"]["id"].as_str().unwrap_or_default();
        if query.starts_with("mutation") {
            if query.contains("ReviewThread") {
                let mut threads = self.threads.iter_mut();
                let thread = threads.find(|thread| format!("T{}", thread["id"]) == target);
                thread.unwrap()["resolved"] = json!(!query.contains("unresolve"));
            } else if self.no_drafts {
                return (200, json!({"errors": [{"message": "not supported"}]}));
            } else {
                let pull = self.pulls.last_mut().unwrap();
                pull["draft"] = json!(query.contains("convertPullRequestToDraft"));
            }
            return (200, json!({"data": {"ok": {}}}));
        }
        let firsts = self.threads.iter();
        let firsts = firsts.filter(|thread| thread["in_reply_to_id"].is_null());
        let nodes: Vec<Value> = firsts
            .map(|thread| {
                json!({"id": format!("T{}", thread["id"]), "isResolved": thread["resolved"],
                    "comments": {"nodes": [{"databaseId": thread["id"]}]}})
            })
            .collect();
        let threads = json!({"pageInfo": {"hasNextPage": false}, "nodes": nodes});
        let draft = self
            .pulls
            .last()
            .map_or(Value::Null, |pull| pull["draft"].clone());
        (
            200,
            json!({"data": {"repository": {"pullRequest": {"id": "P1", "isDraft": draft, "reviewThreads": threads}}}}),
        )
    }
}
