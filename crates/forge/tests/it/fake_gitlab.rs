//! A GitLab that remembers, and that refuses what GitLab refuses.

use std::collections::{BTreeMap, HashSet};

use forge::{WireRequest, WireResponse};
use serde_json::{Value, json};

use crate::fakes::{Fake, FakeRepository, Totals, page, reply, split};

pub const BOT: &str = "countersign-bot";

#[derive(Debug, Default)]
pub struct FakeGitlab {
    pub changes: Vec<Value>,
    pub discussions: Vec<Value>,
    pub drafts: Vec<Value>,
    pub notes: Vec<Value>,
    pub awards: Vec<Value>,
    pub statuses: Vec<Value>,
    pub issue_closed: bool,
    pub approved: bool,
    pub head: String,
    /// Reads of the change for which the diff is not computed yet.
    pub computing: usize,
    /// The only file of the diff.
    pub path: String,
    /// `(new_line, old_line)` of that file; an unchanged line has both.
    pub lines: HashSet<(Option<u64>, Option<u64>)>,
    pub refused: BTreeMap<String, usize>,
    pub writes: usize,
    pub repository: Option<Box<dyn FakeRepository>>,
    /// The only commit whose job is red. Without it the job of every commit is.
    pub red: Option<String>,
    /// Reviewers with their states.
    pub reviewers: Vec<Value>,
    next: u64,
}

type Answer = (u16, Value);

impl FakeGitlab {
    pub fn new(head: &str) -> Self {
        let lines = [(Some(1), Some(1)), (Some(2), None), (Some(3), Some(2))];
        Self {
            head: head.to_owned(),
            path: "a.rs".to_owned(),
            lines: lines.into_iter().collect(),
            computing: 1,
            ..Self::default()
        }
    }

    /// Heads follow the branches of a real repository until a change ends.
    fn look_at_branches(&mut self) {
        let Some(repository) = &self.repository else {
            return;
        };
        for change in self
            .changes
            .iter_mut()
            .filter(|one| one["state"] == "opened")
        {
            let branch = change["source_branch"].as_str().unwrap();
            self.head = repository.head(branch);
            change["sha"] = json!(self.head);
            let lines = 1..=repository.lines(&self.head);
            self.lines = lines.map(|line| (Some(line), None)).collect();
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

    /// A position needs both paths and the head, and an unchanged line needs both numbers.
    fn position_fault(&self, position: &Value) -> Option<&'static str> {
        if position.is_null() {
            return None;
        }
        if position["head_sha"] != self.head.as_str() || !position["base_sha"].is_string() {
            return Some("position is not of this diff");
        }
        if !position["old_path"].is_string() || position["new_path"] != self.path.as_str() {
            return Some("position has no path of the diff");
        }
        let line = (position["new_line"].as_u64(), position["old_line"].as_u64());
        let known = position["position_type"] == "file" || self.lines.contains(&line);
        (!known).then_some("line_code can't be blank")
    }

    fn note(&mut self, body: &Value, position: &Value) -> Value {
        let id = self.id();
        json!({"id": id, "body": body, "position": position, "system": false, "resolved": false,
            "author": {"username": BOT}, "created_at": "2026-01-01T00:00:01Z", "updated_at": "2026-01-01T00:00:01Z"})
    }

    fn discuss(&mut self, body: &Value, position: &Value) -> Value {
        let note = self.note(body, position);
        let discussion = json!({"id": format!("d{}", note["id"]), "notes": [note]});
        self.discussions.push(discussion.clone());
        discussion
    }

    #[expect(clippy::too_many_lines, reason = "a table of routes")]
    fn write(&mut self, method: &str, parts: &[&str], body: &Value) -> Answer {
        match (method, parts) {
            ("POST", ["merge_requests"]) => {
                if self.changes.iter().any(|one| one["state"] == "opened") {
                    return self.refuse(409, "Another open merge request already exists");
                }
                if let Some(repository) = &self.repository {
                    self.head = repository.head(body["source_branch"].as_str().unwrap());
                }
                let change = json!({"iid": 1, "title": body["title"], "description": body["description"],
                    "source_branch": body["source_branch"], "target_branch": body["target_branch"], "state": "opened",
                    "sha": self.head, "source_project_id": 5, "target_project_id": 5, "labels": ["ready"],
                    "author": {"username": BOT}, "detailed_merge_status": "mergeable", "has_conflicts": false,
                    "web_url": "https://gitlab.example/g/r/-/merge_requests/1", "updated_at": "2026-01-01T00:00:01Z"});
                self.changes.push(change.clone());
                (201, change)
            }
            ("PUT", ["merge_requests", "1"]) => {
                let change = &mut self.changes[0];
                for field in ["title", "description", "target_branch"] {
                    if !body[field].is_null() {
                        change[field] = body[field].clone();
                    }
                }
                let words = |field: &str| -> Vec<String> {
                    let text = body[field].as_str().unwrap_or_default();
                    text.split(',')
                        .filter(|word| !word.is_empty())
                        .map(str::to_owned)
                        .collect()
                };
                let labels = change["labels"].as_array().cloned().unwrap_or_default();
                let removed = words("remove_labels");
                let kept = labels
                    .into_iter()
                    .filter(|label| !removed.iter().any(|one| label == one.as_str()));
                change["labels"] = kept
                    .chain(words("add_labels").into_iter().map(Value::from))
                    .collect();
                (200, change.clone())
            }
            ("PUT", ["merge_requests", "1", "merge"]) => {
                let is_draft = self.changes[0]["title"]
                    .as_str()
                    .unwrap()
                    .starts_with("Draft:");
                if is_draft {
                    return self.refuse(405, "405 Method Not Allowed");
                }
                if body["sha"] != self.head.as_str() {
                    return (
                        409,
                        json!({"message": "SHA does not match HEAD of source branch"}),
                    );
                }
                self.changes[0]["state"] = json!("merged");
                if let Some(repository) = &self.repository {
                    repository.merge(&self.head);
                }
                (200, self.changes[0].clone())
            }
            ("POST", ["merge_requests", "1", "draft_notes"]) => {
                if let Some(fault) = self.position_fault(&body["position"]) {
                    return self.refuse(400, fault);
                }
                let id = self.id();
                let draft = json!({"id": id, "note": body["note"], "position": body["position"]});
                self.drafts.push(draft.clone());
                (201, draft)
            }
            ("POST", ["merge_requests", "1", "draft_notes", "bulk_publish"]) => {
                for draft in std::mem::take(&mut self.drafts) {
                    if draft["position"].is_null() {
                        let note = self.note(&draft["note"], &Value::Null);
                        self.notes.push(note);
                    } else {
                        self.discuss(&draft["note"], &draft["position"]);
                    }
                }
                (204, Value::Null)
            }
            ("POST", ["merge_requests", "1", "discussions"]) => {
                if let Some(fault) = self.position_fault(&body["position"]) {
                    return self.refuse(400, fault);
                }
                (201, self.discuss(&body["body"], &body["position"]))
            }
            ("POST", ["merge_requests", "1", "discussions", id, "notes"]) => {
                let note = self.note(&body["body"], &Value::Null);
                let found = self
                    .discussions
                    .iter_mut()
                    .find(|one| one["id"] == **id)
                    .unwrap();
                found["notes"].as_array_mut().unwrap().push(note.clone());
                (201, note)
            }
            ("PUT", ["merge_requests", "1", "discussions", id]) => {
                let found = self
                    .discussions
                    .iter_mut()
                    .find(|one| one["id"] == **id)
                    .unwrap();
                found["notes"][0]["resolved"] = body["resolved"].clone();
                (200, found.clone())
            }
            ("POST", ["merge_requests", "1", "notes"] | ["issues", "7", "notes"]) => {
                let note = self.note(&body["body"], &Value::Null);
                self.notes.push(note.clone());
                (201, note)
            }
            ("PUT", ["merge_requests", "1", "notes", id] | ["issues", "7", "notes", id]) => {
                let id: u64 = id.parse().unwrap();
                let note = self.notes.iter_mut().find(|note| note["id"] == id).unwrap();
                note["body"] = body["body"].clone();
                (200, note.clone())
            }
            ("POST", ["merge_requests", "1", "notes", _, "award_emoji"]) => {
                if self.awards.iter().any(|one| one["name"] == body["name"]) {
                    return self.refuse(404, "Award Emoji Name has already been taken");
                }
                self.awards
                    .push(json!({"name": body["name"], "user": {"username": BOT}}));
                (201, json!({}))
            }
            ("POST", ["merge_requests", "1", verb @ ("approve" | "unapprove")]) => {
                self.approved = *verb == "approve";
                (201, json!({}))
            }
            ("POST", ["statuses", commit]) => {
                let mut of_commit = self.statuses.iter().rev();
                let last = of_commit.find(|status| status["sha"] == **commit);
                if last.is_some_and(|last| last["status"] == body["state"]) {
                    return self.refuse(400, "Cannot transition status via :enqueue from :pending");
                }
                assert!(body["description"].as_str().unwrap().chars().count() <= 255);
                let id = self.id();
                let status = json!({"id": id, "sha": commit, "name": body["name"], "status": body["state"],
                    "description": body["description"], "target_url": body["target_url"], "author": {"username": BOT}});
                self.statuses.push(status.clone());
                (201, status)
            }
            ("PUT", ["issues", "7"]) => {
                self.issue_closed = body["state_event"] == "close";
                (200, json!({}))
            }
            _ => (404, json!({"message": "404 Not Found"})),
        }
    }

    fn read(&mut self, parts: &[&str], query: &str) -> Answer {
        match parts {
            [] => (
                200,
                json!({"permissions": {"project_access": {"access_level": 30}, "group_access": null}}),
            ),
            ["merge_requests"] => {
                let open: Vec<Value> = self
                    .changes
                    .iter()
                    .filter(|one| one["state"] == "opened")
                    .cloned()
                    .collect();
                page(&open, query)
            }
            ["merge_requests", "1"] if !self.changes.is_empty() => {
                let mut change = self.changes[0].clone();
                change["diff_refs"] =
                    json!({"base_sha": "b", "start_sha": "b", "head_sha": self.head});
                if self.computing > 0 {
                    self.computing -= 1;
                    change["diff_refs"] = Value::Null;
                }
                (200, change)
            }
            ["merge_requests", "1", "discussions"] => {
                // Notes on the change are discussions too.
                let notes = self
                    .notes
                    .iter()
                    .map(|note| json!({"id": format!("n{}", note["id"]), "notes": [note]}));
                let all: Vec<Value> = self.discussions.iter().cloned().chain(notes).collect();
                page(&all, query)
            }
            ["merge_requests", "1", "reviewers"] => page(&self.reviewers, query),
            ["merge_requests", "1", "draft_notes"] => page(&self.drafts, query),
            ["issues", "7", "notes"] => page(&self.notes, query),
            ["merge_requests", "1", "notes"] => {
                let threads = self
                    .discussions
                    .iter()
                    .flat_map(|one| one["notes"].as_array().unwrap().clone());
                let all: Vec<Value> = threads.chain(self.notes.iter().cloned()).collect();
                page(&all, query)
            }
            ["merge_requests", "1", "notes", _, "award_emoji"] => page(&self.awards, query),
            ["merge_requests", "1", "approvals"] => {
                let mut by = vec![json!({"user": {"username": "ada"}})];
                if self.approved {
                    by.push(json!({"user": {"username": BOT}}));
                }
                (200, json!({"approved_by": by}))
            }
            ["repository", "commits", commit, "statuses"] => {
                let is_red = self.red.as_deref().is_none_or(|red| red == *commit);
                let state = if is_red { "failed" } else { "success" };
                let job = json!({"id": 0, "name": "build", "status": state, "target_url": "https://x/-/jobs/9", "author": {"username": BOT}});
                let of = self.statuses.iter().filter(|one| one["sha"] == **commit);
                let all: Vec<Value> = of.cloned().chain([job]).collect();
                page(&all, query)
            }
            ["jobs", "0", "trace"] => (200, json!("the end of the log")),
            ["issues"] | ["issues", "7"] => {
                let issue = json!({"iid": 7, "title": "t", "description": "b", "author": {"username": "ada"},
                    "state": if self.issue_closed { "closed" } else { "opened" }, "labels": ["bug"], "updated_at": "2026-01-01T00:00:02Z"});
                (
                    200,
                    if parts.len() == 1 {
                        json!([issue])
                    } else {
                        issue
                    },
                )
            }
            ["issues", "7", "links"] => (
                200,
                json!([{"iid": 3, "link_type": "is_blocked_by"}, {"iid": 4, "link_type": "relates_to"}]),
            ),
            ["members", "all", "11"] => (200, json!({"access_level": 30})),
            ["members", "all", "12"] => (200, json!({"access_level": 20})),
            _ => (404, json!({"message": "404 Not Found"})),
        }
    }
}

impl Fake for FakeGitlab {
    fn answer(&mut self, request: &WireRequest) -> WireResponse {
        self.look_at_branches();
        let (path, query, body) = split(request, "/api/v4");
        let header = |name: &str| {
            request
                .headers
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.as_str())
        };
        let (status, value) = if header("private-token") != Some(crate::fakes::TOKEN)
            || header("authorization").is_some()
        {
            (401, json!({"message": "401 Unauthorized"}))
        } else if path == "/user" {
            (200, json!({"username": BOT}))
        } else if path == "/users" {
            let users = [("ada", 11), ("eve", 12), ("x", 13)];
            let found = users
                .iter()
                .filter(|(name, _)| query == format!("username={name}"));
            (
                200,
                found
                    .map(|(name, id)| json!({"username": name, "id": id}))
                    .collect(),
            )
        } else if let Some(rest) = path.strip_prefix("/projects/g%2Fr") {
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
        let notes = |one: &Value| one["notes"].as_array().unwrap().len();
        let change = self.changes.first().cloned().unwrap_or_default();
        let is_review = |note: &&Value| note["body"].as_str().unwrap().contains(" review=");
        Totals {
            changes: self.changes.len(),
            merged: change["state"] == "merged",
            reviews: self.notes.iter().filter(is_review).count(),
            threads: self.discussions.len(),
            replies: self.discussions.iter().map(|one| notes(one) - 1).sum(),
            resolved: Some(
                self.discussions
                    .iter()
                    .filter(|one| one["notes"][0]["resolved"] == true)
                    .count(),
            ),
            comments: self
                .notes
                .iter()
                .filter(|note| !is_review(note))
                .map(|note| note["body"].as_str().unwrap().to_owned())
                .collect(),
            labels: serde_json::from_value(change["labels"].clone()).unwrap_or_default(),
            issue_closed: self.issue_closed,
            gate: self
                .statuses
                .last()
                .map(|status| status["status"].as_str().unwrap().to_owned()),
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
