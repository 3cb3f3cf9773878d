//! A Jira that remembers one issue, and that refuses what Jira refuses.

use forge::{WireRequest, WireResponse};
use serde_json::{Value, json};

use crate::contract::{Contract, JIRA};
use crate::fakes::{Fake, Totals, number, reply, split};

/// A Jira that remembers. Cloud takes documents, and Data Center takes text.
#[derive(Debug, Default)]
pub struct FakeJira {
    pub is_cloud: bool,
    pub status: usize,
    pub comments: Vec<Value>,
    pub labels: Vec<String>,
    pub links: Vec<Value>,
    pub transitions: usize,
    /// Names of the statuses after each transition.
    pub history: Vec<String>,
    pub queries: Vec<String>,
    pub writes: usize,
}

pub const STATUSES: [(&str, &str); 5] = [
    ("To Do", "new"),
    ("Code Review", "indeterminate"),
    ("Approved", "indeterminate"),
    ("Done", "done"),
    ("Changes Requested", "indeterminate"),
];

fn status(at: usize) -> Value {
    json!({"name": STATUSES[at].0, "statusCategory": {"key": STATUSES[at].1}})
}

impl FakeJira {
    fn issue(&self) -> Value {
        let text = "please\n\nfix it";
        let description = if self.is_cloud {
            json!({"type": "doc", "version": 1, "content": [
                {"type": "paragraph", "content": [{"type": "text", "text": "please"}]},
                {"type": "paragraph", "content": [{"type": "text", "text": "fix it"}]}]})
        } else {
            json!(text)
        };
        let blocks = json!({"inward": "is blocked by", "outward": "blocks"});
        json!({"key": "PROJ-7", "fields": {"summary": "t", "description": description, "status": status(self.status),
            "labels": self.labels, "reporter": {"accountId": "ada", "name": "ada"}, "assignee": null,
            "issuelinks": [{"type": blocks, "inwardIssue": {"key": "PROJ-3"}}, {"type": blocks, "outwardIssue": {"key": "PROJ-4"}}],
            "subtasks": [{"key": "PROJ-8"}], "updated": "2026-01-01T00:00:00.000+0100"}})
    }

    fn comment(&mut self, body: &Value) -> Value {
        assert_eq!(body["type"] == "doc", self.is_cloud, "{body}");
        let id = (self.comments.len() + 1).to_string();
        let comment = json!({"id": id, "author": {"accountId": "bot", "name": "bot"}, "body": body,
            "created": "2026-01-01T00:00:00.000+0000", "updated": "2026-01-01T00:00:00.000+0000"});
        self.comments.push(comment.clone());
        comment
    }
}

impl Fake for FakeJira {
    /// Data Center has no specification that is published as a package.
    fn contracts(&self) -> (&'static str, Vec<&'static Contract>) {
        (
            "/sub",
            if self.is_cloud {
                vec![&JIRA]
            } else {
                Vec::new()
            },
        )
    }

    fn answer(&mut self, request: &WireRequest) -> WireResponse {
        let (api, wanted) = if self.is_cloud {
            ("/rest/api/3", "Basic ")
        } else {
            ("/rest/api/2", "Bearer ")
        };
        let (path, query, body) = split(request, api);
        let is_known = request
            .headers
            .iter()
            .any(|(key, value)| *key == "authorization" && value.starts_with(wanted));
        let is_search = path.starts_with("/search");
        if request.method != "GET" && !is_search {
            self.writes += 1;
        }
        let (status, value) = match (request.method, path.as_str()) {
            _ if !is_known => (401, json!({})),
            ("GET", "/myself") => (200, json!({"accountId": "bot", "name": "bot"})),
            ("GET", "/mypermissions") => {
                let has = json!({"havePermission": true});
                (
                    200,
                    json!({"permissions": {"BROWSE_PROJECTS": has, "ADD_COMMENTS": has, "TRANSITION_ISSUES": has}}),
                )
            }
            ("GET", "/user/assignable/search") => (
                200,
                json!([{"accountId": "ada", "name": "ada", "active": true}]),
            ),
            // The old search of Cloud is gone.
            ("POST", "/search") if self.is_cloud => (410, json!({})),
            ("POST", "/search/jql") if !self.is_cloud => (404, json!({})),
            ("POST", _) if is_search => {
                assert!(
                    body["fields"].is_array(),
                    "without fields there are ids only"
                );
                self.queries.push(body["jql"].as_str().unwrap().to_owned());
                let token = &body["nextPageToken"];
                let is_second = token == "2" || body["startAt"] == 1;
                let issues = if is_second {
                    json!([])
                } else {
                    json!([self.issue()])
                };
                let mut found = json!({"issues": issues, "total": 1});
                // The last page names no other.
                if !is_second {
                    found["nextPageToken"] = json!("2");
                }
                (200, found)
            }
            ("GET", "/issue/PROJ-7") => (200, self.issue()),
            ("GET", "/issue/PROJ-7/comment") => {
                let start = number(&query, "startAt", 0);
                let some: Vec<&Value> = self.comments.iter().skip(start).take(100).collect();
                (200, json!({"comments": some, "total": self.comments.len()}))
            }
            ("POST", "/issue/PROJ-7/comment") => (201, self.comment(&body["body"])),
            ("PUT", path) if path.starts_with("/issue/PROJ-7/comment/") => {
                let id = path.rsplit('/').next();
                let mut comments = self.comments.iter_mut();
                let comment = comments.find(|comment| comment["id"].as_str() == id);
                let comment = comment.unwrap();
                comment["body"] = body["body"].clone();
                (200, comment.clone())
            }
            ("GET", "/issue/PROJ-7/transitions") => {
                let all = (0..STATUSES.len()).filter(|at| *at != self.status);
                let all: Vec<Value> = all
                    .map(|at| json!({"id": (at + 31).to_string(), "to": status(at)}))
                    .collect();
                (200, json!({"transitions": all}))
            }
            ("POST", "/issue/PROJ-7/transitions") => {
                let id: usize = body["transition"]["id"].as_str().unwrap().parse().unwrap();
                self.status = id - 31;
                self.transitions += 1;
                self.history.push(STATUSES[self.status].0.to_owned());
                (204, Value::Null)
            }
            ("POST", "/issue/PROJ-7/remotelink") => {
                self.links
                    .retain(|link| link["globalId"] != body["globalId"]);
                self.links.push(body);
                (201, json!({}))
            }
            ("PUT", "/issue/PROJ-7") => {
                for edit in body["update"]["labels"].as_array().unwrap() {
                    match (edit["add"].as_str(), edit["remove"].as_str()) {
                        (Some(name), _) => self.labels.push(name.to_owned()),
                        (_, Some(name)) => self.labels.retain(|label| label != name),
                        _ => {}
                    }
                }
                (204, Value::Null)
            }
            _ => (404, json!({})),
        };
        reply(status, &value)
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}
