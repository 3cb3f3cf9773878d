//! A Forgejo that remembers, and that refuses what Forgejo refuses.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use forge::{WireRequest, WireResponse};
use serde_json::{Value, json};

use crate::contract::Contract;
use crate::fakes::{Fake, FakeRepository, TOKEN, Totals, page, reply, split};

pub const BOT: &str = "countersign-bot";

static FORGEJO: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(include_bytes!("../contracts/forgejo.json.gz"), true));
static GITEA: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(include_bytes!("../contracts/gitea.json.gz"), true));

#[derive(Debug, Default)]
pub struct FakeForgejo {
    pub pulls: Vec<Value>,
    pub reviews: Vec<Value>,
    /// `(review, comment)`
    pub inline: Vec<(u64, Value)>,
    pub comments: Vec<Value>,
    pub statuses: Vec<(String, Value)>,
    pub known_labels: Vec<Value>,
    pub labels: Vec<Value>,
    pub issue_closed: bool,
    pub head: String,
    pub refused: BTreeMap<String, usize>,
    pub writes: usize,
    pub repository: Option<Box<dyn FakeRepository>>,
    /// The only commit whose check is red. Without it the check of every commit is.
    pub red: Option<String>,
    next: u64,
}

type Answer = (u16, Value);

impl FakeForgejo {
    pub fn new(head: &str) -> Self {
        let ready = json!({"id": 90, "name": "ready"});
        Self {
            head: head.to_owned(),
            known_labels: vec![ready.clone()],
            labels: vec![ready],
            next: 100,
            ..Self::default()
        }
    }

    /// Heads follow the branches of a real repository until a change ends.
    fn look_at_branches(&mut self) {
        let Some(repository) = &self.repository else {
            return;
        };
        for pull in self.pulls.iter_mut().filter(|one| one["state"] == "open") {
            self.head = repository.head(pull["head"]["ref"].as_str().unwrap());
            pull["head"]["sha"] = json!(self.head);
        }
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn refuse(&mut self, status: u16, message: &str) -> Answer {
        *self.refused.entry(message.to_owned()).or_default() += 1;
        (status, json!({"message": message}))
    }

    #[expect(clippy::too_many_lines, reason = "a table of routes")]
    fn write(&mut self, method: &str, parts: &[&str], body: &Value) -> Answer {
        let times = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z");
        match (method, parts) {
            ("POST", ["pulls"]) => {
                if self.pulls.iter().any(|pull| pull["state"] == "open") {
                    return self.refuse(409, "pull request already exists for these targets");
                }
                if let Some(repository) = &self.repository {
                    self.head = repository.head(body["head"].as_str().unwrap());
                }
                let pull = json!({"number": 1, "title": body["title"], "body": body["body"], "state": "open", "merged": false,
                    "user": {"login": BOT}, "head": {"ref": body["head"], "sha": self.head, "repo_id": 5},
                    "base": {"ref": body["base"], "repo_id": 5}, "mergeable": true, "labels": [],
                    "html_url": "https://codeberg.org/o/r/pulls/1", "updated_at": times.1});
                self.pulls.push(pull.clone());
                (201, pull)
            }
            ("PATCH", ["pulls", "1"]) => {
                for field in ["title", "body"] {
                    self.pulls[0][field] = body[field].clone();
                }
                (201, self.pulls[0].clone())
            }
            ("POST", ["pulls", "1", "reviews"]) => {
                if body["event"] != "COMMENT" {
                    return self.refuse(422, "approve your own pull is not allowed");
                }
                let review = self.id();
                for comment in body["comments"].as_array().into_iter().flatten() {
                    let (new, old) = (
                        comment["new_position"].as_u64().unwrap(),
                        comment["old_position"].as_u64().unwrap(),
                    );
                    assert!(
                        (new == 0) != (old == 0),
                        "a line has one position that counts"
                    );
                    let id = self.id();
                    let comment = json!({"id": id, "body": comment["body"], "path": comment["path"], "position": new,
                        "original_position": old, "user": {"login": BOT}, "created_at": times.0, "updated_at": times.1,
                        "pull_request_url": "https://codeberg.org/o/r/pulls/1"});
                    self.inline.push((review, comment));
                }
                let review = json!({"id": review, "state": body["event"], "body": body["body"].as_str().unwrap_or_default(),
                    "user": {"login": BOT}, "dismissed": false, "comments_count": body["comments"].as_array().map_or(0, Vec::len)});
                self.reviews.push(review.clone());
                (200, review)
            }
            ("POST", ["pulls", "1", "merge"]) => {
                if self.pulls[0]["title"].as_str().unwrap().starts_with("WIP:") {
                    return self.refuse(405, "Work in progress PRs cannot be merged");
                }
                if body["head_commit_id"] != self.head.as_str() {
                    return (409, json!({"message": "head out of date"}));
                }
                self.pulls[0]["merged"] = json!(true);
                self.pulls[0]["state"] = json!("closed");
                if let Some(repository) = &self.repository {
                    repository.merge(&self.head);
                }
                (200, Value::Null)
            }
            ("POST", ["issues", _, "comments"]) => {
                let id = self.id();
                let comment = json!({"id": id, "body": body["body"], "user": {"login": BOT}, "created_at": times.0, "updated_at": times.1});
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
            ("POST", ["issues", "comments", _, "reactions"]) => (200, json!({})),
            ("POST", ["labels"]) => {
                let id = self.id();
                let label = json!({"id": id, "name": body["name"]});
                self.known_labels.push(label.clone());
                (201, label)
            }
            ("POST", ["issues", _, "labels"]) => {
                for id in body["labels"].as_array().unwrap() {
                    let label = self
                        .known_labels
                        .iter()
                        .find(|label| label["id"] == *id)
                        .unwrap();
                    self.labels.push(label.clone());
                }
                (200, json!(self.labels))
            }
            ("DELETE", ["issues", _, "labels", id]) => {
                let id: u64 = id.parse().unwrap();
                self.labels.retain(|label| label["id"] != id);
                (204, Value::Null)
            }
            ("PATCH", ["issues", "7"]) => {
                self.issue_closed = body["state"] == "closed";
                (201, json!({}))
            }
            ("POST", ["statuses", commit]) => {
                let id = self.id();
                let status = json!({"id": id, "context": body["context"], "status": body["state"], "description": body["description"],
                    "target_url": body["target_url"], "creator": {"login": BOT}});
                self.statuses.push(((*commit).to_owned(), status.clone()));
                (201, status)
            }
            _ => (404, json!({"message": "not found"})),
        }
    }

    fn read(&self, parts: &[&str], query: &str) -> Answer {
        match parts {
            [] => (
                200,
                json!({"permissions": {"admin": false, "push": true, "pull": true}}),
            ),
            ["pulls"] => {
                let open: Vec<Value> = self
                    .pulls
                    .iter()
                    .filter(|pull| pull["state"] == "open")
                    .cloned()
                    .collect();
                page(&open, query)
            }
            ["pulls", "1"] if !self.pulls.is_empty() => (200, self.pulls[0].clone()),
            ["pulls", "1", "reviews"] => page(&self.reviews, query),
            ["pulls", "1", "reviews", id, "comments"] => {
                let id: u64 = id.parse().unwrap();
                let of = self.inline.iter().filter(|(review, _)| *review == id);
                (200, of.map(|(_, comment)| comment.clone()).collect())
            }
            ["issues", "comments"] => page(&self.comments, query),
            // All of them, however many there are.
            ["issues", _, "comments"] => (200, json!(self.comments)),
            ["issues", _, "labels"] => (200, json!(self.labels)),
            ["labels"] => page(&self.known_labels, query),
            ["issues"] | ["issues", "7"] => {
                let issue = json!({"number": 7, "title": "t", "body": "b", "user": {"login": "ada"}, "pull_request": null,
                    "state": if self.issue_closed { "closed" } else { "open" }, "labels": [{"name": "bug"}], "updated_at": "2026-01-01T00:00:02Z"});
                if parts.len() == 1 {
                    page(&[issue], query)
                } else {
                    (200, issue)
                }
            }
            ["issues", "7", "dependencies"] => (200, json!([{"number": 3}])),
            ["commits", commit, "statuses"] => {
                let is_red = self.red.as_deref().is_none_or(|red| red == *commit);
                let state = if is_red { "failure" } else { "success" };
                let other = json!({"id": 1, "context": "build", "status": state, "creator": {"login": "forgejo-actions"}});
                let of = self.statuses.iter().filter(|(of, _)| of == commit);
                let all: Vec<Value> = of.map(|(_, one)| one.clone()).chain([other]).collect();
                page(&all, query)
            }
            ["collaborators", "ada", "permission"] => (200, json!({"permission": "write"})),
            ["collaborators", "eve", "permission"] => (200, json!({"permission": "read"})),
            _ => (404, json!({"message": "not found"})),
        }
    }
}

impl Fake for FakeForgejo {
    fn contracts(&self) -> (&'static str, Vec<&'static Contract>) {
        ("/api/v1", vec![&FORGEJO, &GITEA])
    }

    fn answer(&mut self, request: &WireRequest) -> WireResponse {
        self.look_at_branches();
        let (path, query, body) = split(request, "/api/v1");
        let token = format!("token {TOKEN}");
        let is_known = request
            .headers
            .iter()
            .any(|(key, value)| *key == "authorization" && *value == token);
        let (status, value) = if !is_known {
            (401, json!({"message": "token is required"}))
        } else if path == "/user" {
            (200, json!({"login": BOT}))
        } else if let Some(rest) = path.strip_prefix("/repos/o/r") {
            let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
            if request.method == "GET" {
                self.read(&parts, &query)
            } else {
                self.writes += 1;
                self.write(request.method, &parts, &body)
            }
        } else {
            (404, json!({}))
        };
        reply(status, &value)
    }

    fn totals(&self) -> Totals {
        let says =
            |(_, one): &&(u64, Value), word: &str| one["body"].as_str().unwrap().contains(word);
        let change = self.pulls.first().cloned().unwrap_or_default();
        Totals {
            changes: self.pulls.len(),
            merged: change["merged"] == true,
            reviews: self
                .reviews
                .iter()
                .filter(|one| one["body"].as_str().unwrap().contains(" review="))
                .count(),
            threads: self
                .inline
                .iter()
                .filter(|one| says(one, " finding="))
                .count(),
            replies: self
                .inline
                .iter()
                .filter(|one| says(one, " reply="))
                .count(),
            resolved: None,
            comments: self
                .comments
                .iter()
                .map(|one| one["body"].as_str().unwrap().to_owned())
                .collect(),
            labels: self
                .labels
                .iter()
                .map(|label| label["name"].as_str().unwrap().to_owned())
                .collect(),
            issue_closed: self.issue_closed,
            gate: self
                .statuses
                .last()
                .map(|(_, status)| status["status"].as_str().unwrap().to_owned()),
            writes: self.writes,
            refused: self
                .refused
                .keys()
                .filter(|message| !message.contains("already exists"))
                .cloned()
                .collect(),
        }
    }
}
