//! A GitHub on loopback that remembers: issues, comments, reactions, pull requests, and everything
//! that was written.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub const TOKEN: &str = "ghp_of_the_server_only";
pub const BOT: &str = "counter-bot";

#[derive(Debug, Default)]
pub struct GithubState {
    pub issues: Vec<Value>,
    pub blocked_by: Vec<(u64, u64)>,
    pub pulls: Vec<Value>,
    pub comments: Vec<Value>,
    pub reactions: Vec<(u64, String)>,
    pub reviews: Vec<Value>,
    pub statuses: Vec<Value>,
    /// Requests that write, as `METHOD path`.
    pub writes: Vec<String>,
    pub calls: usize,
    clock: u64,
}

pub struct FakeGithub {
    pub url: String,
    pub state: Arc<Mutex<GithubState>>,
}

impl FakeGithub {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<Mutex<GithubState>>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                // A client that goes away in the middle is no concern of the test.
                std::thread::spawn(move || drop(serve(&shared, stream)));
            }
        });
        Self { url, state }
    }

    pub fn add_issue(&self, number: u64, labels: &[&str]) {
        let mut state = self.state.lock().unwrap();
        let now = state.now();
        let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
        state.issues.push(json!({"number": number, "title": format!("Issue {number}"), "body": "It prints a greeting.",
            "user": {"login": "ada", "type": "User"}, "state": "open", "labels": labels, "assignees": [],
            "html_url": format!("https://github.com/o/r/issues/{number}"), "created_at": now, "updated_at": now}));
    }

    pub fn add_pull(&self, number: u64, labels: &[&str], head: &str) {
        let mut state = self.state.lock().unwrap();
        let now = state.now();
        let repo = json!({"full_name": "o/r"});
        let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
        state.pulls.push(json!({"number": number, "title": "Greet by name", "body": "Please.", "draft": false, "state": "open",
            "merged": false, "merged_at": null, "user": {"login": "ada", "type": "User"}, "labels": labels, "assignees": [],
            "requested_reviewers": [], "head": {"ref": "topic", "sha": head, "repo": repo}, "base": {"ref": "main", "repo": repo},
            "html_url": format!("https://github.com/o/r/pull/{number}"), "updated_at": now}));
    }

    /// A comment of somebody; its id. `edited` gives it a later time of change.
    pub fn comment(&self, on: u64, author: &str, body: &str, edited: bool) -> u64 {
        let mut state = self.state.lock().unwrap();
        let (created, later) = (state.now(), state.now());
        let id = 1000 + state.comments.len() as u64;
        let kind = if author.ends_with("[bot]") {
            "Bot"
        } else {
            "User"
        };
        let updated = if edited { later } else { created.clone() };
        let comment = json!({"id": id, "body": body, "user": {"login": author, "type": kind}, "created_at": created, "updated_at": updated,
            "issue_url": format!("https://api.github.com/repos/o/r/issues/{on}"), "html_url": format!("https://github.com/o/r/issues/{on}#c{id}")});
        state.comments.push(comment);
        id
    }

    pub fn reactions_to(&self, comment: u64) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let of = state.reactions.iter().filter(|(id, _)| *id == comment);
        of.map(|(_, content)| content.clone()).collect()
    }

    /// Bodies of our own comments on a place.
    pub fn own_comments(&self, on: u64) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let end = format!("/issues/{on}");
        let own = state.comments.iter().filter(|one| {
            one["user"]["login"] == BOT && one["issue_url"].as_str().unwrap().ends_with(&end)
        });
        own.map(|one| one["body"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn labels_of(&self, number: u64) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let issue = state
            .issues
            .iter()
            .find(|issue| issue["number"] == number)
            .unwrap();
        let labels = issue["labels"].as_array().unwrap().iter();
        labels
            .map(|label| label["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl GithubState {
    /// A time in the far future that only grows, so that it is after the start of the server.
    fn now(&mut self) -> String {
        self.clock += 1;
        format!(
            "2099-01-01T{:02}:{:02}:{:02}Z",
            self.clock / 3600,
            self.clock / 60 % 60,
            self.clock % 60
        )
    }

    fn labels(&mut self, number: u64) -> &mut Vec<Value> {
        let of = |one: &&mut Value| one["number"] == number;
        let mut all = self.issues.iter_mut().chain(&mut self.pulls);
        all.find(of).unwrap()["labels"].as_array_mut().unwrap()
    }

    #[expect(clippy::too_many_lines, reason = "a table of routes")]
    #[expect(clippy::match_same_arms, reason = "a row for each route")]
    fn answer(&mut self, method: &str, path: &str, query: &str, body: &Value) -> (u16, Value) {
        self.calls += 1;
        if path == "/user" {
            return (200, json!({"login": BOT}));
        }
        let Some(path) = path.strip_prefix("/repos/o/r") else {
            return (404, json!({"message": "Not Found"}));
        };
        if method != "GET" {
            self.writes.push(format!("{method} {path}"));
        }
        let missing = || (404, json!({"message": "Not Found"}));
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        match (method, parts.as_slice()) {
            ("GET", [""]) => (
                200,
                json!({"permissions": {"admin": false, "push": true, "pull": true}}),
            ),
            ("GET", ["pulls"]) => (200, json!(self.pulls)),
            ("POST", ["pulls"]) => {
                let (now, number) = (self.now(), 100 + self.pulls.len());
                let repo = json!({"full_name": "o/r"});
                let pull = json!({"number": number, "title": body["title"], "body": body["body"], "draft": body["draft"],
                    "state": "open", "merged": false, "merged_at": null, "user": {"login": BOT, "type": "User"}, "labels": [],
                    "assignees": [], "requested_reviewers": [], "updated_at": now,
                    "head": {"ref": body["head"], "sha": "1".repeat(40), "repo": repo}, "base": {"ref": body["base"], "repo": repo},
                    "html_url": format!("https://github.com/o/r/pull/{number}")});
                self.pulls.push(pull.clone());
                (201, pull)
            }
            ("GET", ["pulls", n]) => self
                .pulls
                .iter()
                .find(|pull| pull["number"] == number(n))
                .map_or_else(missing, |pull| (200, pull.clone())),
            ("GET", ["pulls", _, "reviews"]) => (200, json!(self.reviews)),
            ("GET", ["pulls", _, "comments"]) => (200, json!([])),
            ("POST", ["pulls", _, "reviews"]) => {
                let review = json!({"id": 1, "body": body["body"], "user": {"login": BOT}, "state": "COMMENTED"});
                self.reviews.push(review.clone());
                (200, review)
            }
            ("POST", ["pulls", _, "comments"]) => (
                201,
                json!({"id": 2, "body": body["body"], "user": {"login": BOT}}),
            ),
            ("GET", ["issues"]) => {
                let wanted = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("labels="));
                let assignee = query.contains("assignee=");
                let has = |issue: &&Value| {
                    issue["state"] == "open"
                        && !assignee
                        && wanted.is_none_or(|wanted| {
                            issue["labels"]
                                .as_array()
                                .unwrap()
                                .iter()
                                .any(|label| label["name"] == wanted)
                        })
                };
                (
                    200,
                    json!(self.issues.iter().filter(has).collect::<Vec<_>>()),
                )
            }
            ("GET", ["issues", "comments"]) => (200, json!(self.comments)),
            ("GET", ["issues", n]) => self
                .issues
                .iter()
                .find(|issue| issue["number"] == number(n))
                .map_or_else(missing, |issue| (200, issue.clone())),
            ("PATCH", ["issues", "comments", id]) => {
                let found = self
                    .comments
                    .iter_mut()
                    .find(|one| one["id"] == number(id))
                    .unwrap();
                found["body"] = body["body"].clone();
                (200, found.clone())
            }
            ("PATCH", ["issues", n]) => {
                let found = self
                    .issues
                    .iter_mut()
                    .find(|issue| issue["number"] == number(n))
                    .unwrap();
                found["state"] = body["state"].clone();
                (200, found.clone())
            }
            ("GET", ["issues", n, "comments"]) => {
                let end = format!("/issues/{n}");
                let of = |one: &&Value| one["issue_url"].as_str().unwrap().ends_with(&end);
                (
                    200,
                    json!(self.comments.iter().filter(of).collect::<Vec<_>>()),
                )
            }
            ("POST", ["issues", n, "comments"]) => {
                let now = self.now();
                let comment = json!({"id": 1000 + self.comments.len(), "body": body["body"], "user": {"login": BOT, "type": "User"},
                    "created_at": now, "updated_at": now, "issue_url": format!("https://api.github.com/repos/o/r/issues/{n}"), "html_url": ""});
                self.comments.push(comment.clone());
                (201, comment)
            }
            ("POST", ["issues", "comments", id, "reactions"]) => {
                let content = body["content"].as_str().unwrap().to_owned();
                self.reactions.push((number(id), content));
                (201, json!({"id": 1}))
            }
            ("GET", ["issues", n, "labels"]) => {
                let labels = self.labels(number(n)).clone();
                (200, json!(labels))
            }
            ("POST", ["issues", n, "labels"]) => {
                let names: Vec<Value> = body["labels"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|name| json!({"name": name}))
                    .collect();
                self.labels(number(n)).extend(names);
                (200, json!([]))
            }
            ("DELETE", ["issues", n, "labels", name]) => {
                let name = name.replace("%20", " ").replace("%3A", ":");
                self.labels(number(n))
                    .retain(|label| label["name"] != name.as_str());
                (200, json!([]))
            }
            ("GET", ["issues", n, "dependencies", "blocked_by"]) => {
                let of = self.blocked_by.iter().filter(|(one, _)| *one == number(n));
                (
                    200,
                    json!(of.map(|(_, by)| json!({"number": by})).collect::<Vec<_>>()),
                )
            }
            ("GET", ["issues", _, "sub_issues"]) => (200, json!([])),
            ("GET", ["collaborators", login, "permission"]) => match *login {
                "ada" => (200, json!({"permission": "write"})),
                "eve" => (200, json!({"permission": "read"})),
                _ => missing(),
            },
            ("GET", ["commits", _, "status"]) => (200, json!({"statuses": []})),
            ("POST", ["statuses", _]) => {
                self.statuses.push(body.clone());
                (201, body.clone())
            }
            _ => missing(),
        }
    }
}

fn serve(state: &Mutex<GithubState>, stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut length, mut is_known, mut is_tagged) = (0, false, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let lower = line.trim().to_ascii_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        is_known |= lower == format!("authorization: bearer {TOKEN}");
        is_tagged |= lower.starts_with("if-none-match:");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let mut words = first.split_whitespace();
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (status, answer) = match path.strip_prefix("/api/v3") {
        Some(path) if is_known => {
            // Pages after the first are empty: nothing here has a hundred entries.
            let is_later = query
                .split('&')
                .any(|pair| pair.starts_with("page=") && pair != "page=1");
            match state.lock().unwrap().answer(method, path, query, &body) {
                (200, Value::Array(_)) if is_later => (200, json!([])),
                other => other,
            }
        }
        Some(_) => (401, json!({"message": "Bad credentials"})),
        None => (404, json!({})),
    };
    let _ = is_tagged;
    let text = answer.to_string();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nX-RateLimit-Limit: 5000\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}
