//! A GitHub that remembers, and that refuses what GitHub refuses.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use async_trait::async_trait;
use forge::{ForgeTransport, WireFailure, WireRequest, WireResponse};
use serde_json::{Value, json};

use crate::contract::{GITHUB, check_graphql};
use crate::fakes::checked;

pub const TOKEN: &str = "ghp_never_shown";
pub const BOT: &str = "countersign-bot";

#[derive(Debug, Default)]
pub struct State {
    pub pulls: Vec<Value>,
    pub reviews: Vec<Value>,
    pub threads: Vec<Value>,
    pub comments: Vec<Value>,
    pub statuses: Vec<(String, Value)>,
    pub labels: Vec<String>,
    pub issue: String,
    pub head: String,
    /// `(path, side, line)` of GitHub's own diff.
    pub lines: HashSet<(String, String, u64)>,
    pub files: HashSet<String>,
    pub refused: BTreeMap<String, usize>,
    pub writes: usize,
    pub renamed: bool,
    pub archived: bool,
    /// A private repository without a paid plan.
    pub no_drafts: bool,
    /// Commit that the merge queue tests.
    pub queued: Option<String>,
    pub next_id: u64,
}

#[derive(Debug, Default)]
pub struct FakeGithub(pub Mutex<State>);

type Answer = (u16, Value);

fn refusal(message: &str) -> Answer {
    (422, json!({"message": message}))
}

fn page(entries: &[Value], query: &str) -> Answer {
    let number = |name: &str, default: usize| {
        let found = query
            .split('&')
            .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        found.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (size, page) = (number("per_page", 30), number("page", 1));
    let entries: Vec<&Value> = entries.iter().skip((page - 1) * size).take(size).collect();
    (200, json!(entries))
}

impl State {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn anchor_fault(&self, comment: &Value) -> Option<&'static str> {
        let path = comment["path"].as_str().unwrap_or_default().to_owned();
        if comment["subject_type"] == "file" {
            return (!self.files.contains(&path))
                .then_some("pull_request_review_thread.path is invalid");
        }
        let side = comment["side"].as_str().unwrap_or("RIGHT").to_owned();
        let has = |line: &Value| {
            self.lines
                .contains(&(path.clone(), side.clone(), line.as_u64().unwrap_or(0)))
        };
        if !has(&comment["line"]) {
            return Some("pull_request_review_thread.line must be part of the diff");
        }
        let start = &comment["start_line"];
        if !start.is_null() && (!has(start) || start.as_u64() >= comment["line"].as_u64()) {
            return Some("pull_request_review_thread.start_line must precede the end line.");
        }
        None
    }

    fn add_thread(&mut self, comment: &Value) -> Value {
        let id = self.id();
        let thread = json!({"id": id, "body": comment["body"], "path": comment["path"], "user": {"login": BOT},
            "subject_type": comment["subject_type"].as_str().unwrap_or("line"), "resolved": false});
        self.threads.push(thread.clone());
        thread
    }

    fn write(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let text = body["body"].as_str().unwrap_or_default();
        if text.chars().count() > 65_536 {
            return refusal("body is too long (maximum is 65536 characters)");
        }
        let title = body["title"].as_str().unwrap_or_default();
        if title.chars().count() > 256 {
            return refusal("title is too long (maximum is 256 characters)");
        }
        let parts: Vec<&str> = path.split('/').collect();
        match (method, parts.as_slice()) {
            ("POST", ["pulls"]) if self.no_drafts && body["draft"] == true => {
                refusal("Draft pull requests are not supported in this repository.")
            }
            ("POST", ["pulls"]) => {
                let exists = self
                    .pulls
                    .iter()
                    .any(|pull| pull["head"]["ref"] == body["head"] && pull["state"] == "open");
                if exists {
                    return refusal("A pull request already exists for o:branch.");
                }
                let number = self.pulls.len() + 1;
                let repo = json!({"full_name": "o/r"});
                let pull = json!({"number": number, "title": body["title"], "body": body["body"], "draft": body["draft"],
                    "state": "open", "merged": false, "merged_at": null, "user": {"login": BOT}, "labels": [],
                    "head": {"ref": body["head"], "sha": self.head, "repo": repo}, "base": {"ref": body["base"], "repo": repo},
                    "html_url": "https://github.com/o/r/pull/1", "updated_at": "2026-01-01T00:00:01Z"});
                self.pulls.push(pull.clone());
                (201, pull)
            }
            ("PATCH", ["pulls", number]) => {
                let pull = &mut self.pulls[number.parse::<usize>().unwrap() - 1];
                for field in ["title", "body"] {
                    pull[field] = body[field].clone();
                }
                (200, pull.clone())
            }
            ("POST", ["pulls", number, "reviews"]) => {
                let own = self.pulls[number.parse::<usize>().unwrap() - 1]["user"]["login"] == BOT;
                if own && body["event"] != "COMMENT" {
                    return refusal("Can not approve your own pull request");
                }
                if body["commit_id"] != self.head.as_str() {
                    return refusal("commit_id is not part of the pull request");
                }
                let comments: Vec<Value> = body["comments"].as_array().cloned().unwrap_or_default();
                if let Some(fault) = comments
                    .iter()
                    .find_map(|comment| self.anchor_fault(comment))
                {
                    return refusal(fault);
                }
                for comment in &comments {
                    self.add_thread(comment);
                }
                let review = json!({"id": self.id(), "body": body["body"], "user": {"login": BOT}, "state": body["event"]});
                self.reviews.push(review.clone());
                (200, review)
            }
            ("POST", ["pulls", _, "comments"]) => match self.anchor_fault(body) {
                _ if body["commit_id"] != self.head.as_str() => {
                    refusal("commit_id is not part of the pull request")
                }
                Some(fault) => refusal(fault),
                None => (201, self.add_thread(body)),
            },
            ("POST", ["pulls", _, "comments", first, "replies"]) => {
                let id = self.id();
                let reply = json!({"id": id, "body": body["body"], "in_reply_to_id": first.parse::<u64>().unwrap(), "user": {"login": BOT}});
                self.threads.push(reply.clone());
                (201, reply)
            }
            ("PUT", ["pulls", number, "merge"]) => {
                let head = self.head.clone();
                let pull = &mut self.pulls[number.parse::<usize>().unwrap() - 1];
                match () {
                    () if pull["draft"] == true => {
                        (405, json!({"message": "Pull Request is still a draft"}))
                    }
                    () if body["sha"] != head.as_str() => {
                        (409, json!({"message": "Head branch was modified."}))
                    }
                    () => {
                        pull["merged"] = json!(true);
                        pull["state"] = json!("closed");
                        (200, json!({"merged": true}))
                    }
                }
            }
            _ => self.write_on_issue(method, &parts, body),
        }
    }

    fn write_on_issue(&mut self, method: &str, parts: &[&str], body: &Value) -> Answer {
        match (method, parts) {
            ("POST", ["issues", _, "comments"]) => {
                let comment =
                    json!({"id": self.id(), "body": body["body"], "user": {"login": BOT}});
                self.comments.push(comment.clone());
                (201, comment)
            }
            ("PATCH", ["issues", "comments", id]) => {
                let id: u64 = id.parse().unwrap();
                let comment = self
                    .comments
                    .iter_mut()
                    .find(|comment| comment["id"] == id)
                    .unwrap();
                comment["body"] = body["body"].clone();
                (200, comment.clone())
            }
            ("POST", ["issues", _, "labels"]) => {
                let names = body["labels"].as_array().unwrap().iter();
                self.labels
                    .extend(names.map(|name| name.as_str().unwrap().to_owned()));
                (200, json!([]))
            }
            ("DELETE", ["issues", _, "labels", name]) => {
                let before = self.labels.len();
                self.labels.retain(|label| label != name);
                if self.labels.len() == before {
                    (404, json!({}))
                } else {
                    (200, json!([]))
                }
            }
            ("PATCH", ["issues", _]) => {
                body["state"].as_str().unwrap().clone_into(&mut self.issue);
                (200, json!({}))
            }
            ("POST", ["statuses", commit]) => {
                assert!(body["description"].as_str().unwrap().chars().count() <= 140);
                self.statuses.push(((*commit).to_owned(), body.clone()));
                (201, body.clone())
            }
            _ => (404, json!({"message": "Not Found"})),
        }
    }

    fn read(&self, path: &str, query: &str) -> Answer {
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["pulls"] => {
                let open = self.pulls.iter().filter(|pull| pull["state"] == "open");
                page(&open.cloned().collect::<Vec<_>>(), query)
            }
            ["pulls", number] => match self.pulls.get(number.parse::<usize>().unwrap() - 1) {
                Some(pull) => (200, pull.clone()),
                None => (404, json!({})),
            },
            ["pulls", _, "reviews"] => page(&self.reviews, query),
            ["pulls", _, "comments"] => page(&self.threads, query),
            ["issues", _, "comments"] => page(&self.comments, query),
            ["issues", _, "labels"] => {
                let labels: Vec<Value> = self
                    .labels
                    .iter()
                    .map(|name| json!({"name": name}))
                    .collect();
                page(&labels, query)
            }
            ["issues", "7"] => (
                200,
                json!({"number": 7, "title": "t", "body": "b", "user": {"login": "ada"}, "state": self.issue, "labels": [{"name": "bug"}]}),
            ),
            ["issues", "7", "dependencies", "blocked_by"] => (200, json!([{"number": 3}])),
            ["issues", "1"] => (200, json!({"number": 1, "pull_request": {}})),
            ["commits", commit, "status"] => {
                let mut latest: BTreeMap<String, Value> = BTreeMap::new();
                for (_, status) in self.statuses.iter().filter(|(of, _)| of == commit) {
                    latest.insert(
                        status["context"].as_str().unwrap().to_owned(),
                        status.clone(),
                    );
                }
                (
                    200,
                    json!({"statuses": latest.values().collect::<Vec<_>>()}),
                )
            }
            ["collaborators", login, "permission"] => match *login {
                "ada" => (200, json!({"permission": "write"})),
                "eve" => (200, json!({"permission": "read"})),
                _ => (404, json!({})),
            },
            _ => (404, json!({"message": "Not Found"})),
        }
    }

    fn graphql(&mut self, body: &Value) -> Answer {
        let query = body["query"].as_str().unwrap();
        let target = body["variables"]["id"].as_str().unwrap_or_default();
        if query.contains("mergeQueueEntry") {
            let commit = self.queued.as_ref();
            let entry = commit.map(|commit| json!({"headCommit": {"oid": commit}}));
            let pull = json!({"mergeQueueEntry": entry});
            return (200, json!({"data": {"repository": {"pullRequest": pull}}}));
        }
        if self.no_drafts && query.contains("convertPullRequestToDraft") {
            return (
                200,
                json!({"errors": [{"message": "Draft pull requests are not supported"}]}),
            );
        }
        if query.starts_with("mutation") {
            if query.contains("ReviewThread") {
                let thread = self
                    .threads
                    .iter_mut()
                    .find(|thread| format!("T{}", thread["id"]) == target)
                    .unwrap();
                thread["resolved"] = json!(!query.contains("unresolve"));
            } else {
                self.pulls[0]["draft"] = json!(query.contains("convertPullRequestToDraft"));
            }
            let verb = query.split_once('{').unwrap().1.split('(').next().unwrap();
            let done = if query.contains("ReviewThread") {
                json!({"thread": {"isResolved": !query.contains("unresolve")}})
            } else {
                json!({"pullRequest": {"isDraft": self.pulls[0]["draft"]}})
            };
            return (200, json!({"data": {verb: done}}));
        }
        let firsts = self
            .threads
            .iter()
            .filter(|thread| thread["in_reply_to_id"].is_null());
        let nodes: Vec<Value> = firsts
            .map(|thread| {
                json!({"id": format!("T{}", thread["id"]), "isResolved": thread["resolved"],
            "comments": {"nodes": [{"databaseId": thread["id"]}]}})
            })
            .collect();
        let threads =
            json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "nodes": nodes});
        (
            200,
            json!({"data": {"repository": {"pullRequest": {"id": "P1", "isDraft": self.pulls[0]["draft"], "reviewThreads": threads}}}}),
        )
    }

    pub fn answer(&mut self, request: &WireRequest) -> WireResponse {
        let header = |name: &str| {
            request
                .headers
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.as_str())
        };
        let rest = request
            .url
            .split_once("/api/v3")
            .map_or(request.url.as_str(), |(_, rest)| rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut headers = vec![("etag".to_owned(), "\"1\"".to_owned())];
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let (status, value) = if header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            (
                401,
                json!({"message": format!("Bad credentials {:?}", header("authorization"))}),
            )
        } else if self.renamed && path.starts_with("/repos/o/r") {
            headers.push((
                "location".to_owned(),
                rest.replace("/repos/o/r", "/api/v3/repos/o/new"),
            ));
            (307, json!({}))
        } else if path == "/user" {
            (200, json!({"login": BOT}))
        } else if path.ends_with("/graphql") {
            self.graphql(&body)
        } else if let Some(path) = path
            .strip_prefix("/repos/o/r")
            .or_else(|| path.strip_prefix("/repos/o/new"))
        {
            match (request.method, path.trim_start_matches('/')) {
                ("GET", "") => (
                    200,
                    json!({"full_name": if self.renamed { "o/new" } else { "O/r" }, "archived": self.archived,
                        "permissions": {"admin": false, "push": true, "pull": true}}),
                ),
                ("GET", "pulls") if header("if-none-match") == Some("\"1\"") => (304, Value::Null),
                ("GET", path) => self.read(path, query),
                (method, path) => {
                    self.writes += 1;
                    self.write(method, path, &body)
                }
            }
        } else {
            (404, json!({}))
        };
        if status == 422 {
            *self
                .refused
                .entry(value["message"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
        let response = WireResponse {
            status,
            headers,
            body: value.to_string().into_bytes(),
        };
        if path.ends_with("/graphql") {
            if value["errors"].is_null() {
                let checked = check_graphql(&body, &value);
                checked.unwrap_or_else(|why| panic!("{why}: {value}"));
            }
            return response;
        }
        // Redirects of a renamed repository are in no specification.
        if matches!(response.status, 304 | 307) {
            return response;
        }
        checked(&GITHUB, "/api/v3", request, response)
    }
}

#[async_trait]
impl ForgeTransport for FakeGithub {
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure> {
        Ok(self.0.lock().unwrap().answer(request))
    }
}
