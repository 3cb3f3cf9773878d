//! Jira Cloud and Data Center: issues, comments and transitions, once each.

use std::sync::{Arc, Mutex};

use forge::*;
use serde_json::{Value, json};

use crate::conformance::JumpingClock;
use crate::fakes::{Fake, Served, TOKEN, Totals, number, reply, split};

const ME: &str = "me@example.org";

/// A Jira that remembers. Cloud takes documents, and Data Center takes text.
#[derive(Debug, Default)]
struct FakeJira {
    is_cloud: bool,
    status: usize,
    comments: Vec<Value>,
    labels: Vec<String>,
    links: Vec<Value>,
    transitions: usize,
    queries: Vec<String>,
    writes: usize,
}

const STATUSES: [(&str, &str); 4] = [
    ("To Do", "new"),
    ("Code Review", "indeterminate"),
    ("Approved", "indeterminate"),
    ("Done", "done"),
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
}

impl Fake for FakeJira {
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
                let next = if is_second { Value::Null } else { json!("2") };
                (
                    200,
                    json!({"issues": issues, "nextPageToken": next, "total": 1}),
                )
            }
            ("GET", "/issue/PROJ-7") => (200, self.issue()),
            ("GET", "/issue/PROJ-7/comment") => {
                let start = number(&query, "startAt", 0);
                let some: Vec<&Value> = self.comments.iter().skip(start).take(100).collect();
                (200, json!({"comments": some, "total": self.comments.len()}))
            }
            ("POST", "/issue/PROJ-7/comment") => {
                let is_document = body["body"]["type"] == "doc";
                assert_eq!(is_document, self.is_cloud, "{body}");
                let comment = json!({"id": "1", "author": {"accountId": "bot", "name": "bot"}, "body": body["body"],
                    "created": "2026-01-01T00:00:00.000+0000", "updated": "2026-01-01T00:00:00.000+0000"});
                self.comments.push(comment.clone());
                (201, comment)
            }
            ("PUT", "/issue/PROJ-7/comment/1") => {
                self.comments[0]["body"] = body["body"].clone();
                (200, self.comments[0].clone())
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

fn connect(is_cloud: bool) -> (Jira, Arc<Served<FakeJira>>) {
    let fake = FakeJira {
        is_cloud,
        ..FakeJira::default()
    };
    let fake = Arc::new(Served(Mutex::new(fake)));
    let token = ForgeToken::new(TOKEN).unwrap();
    let (version, token) = if is_cloud {
        let login = ME.to_owned();
        (3, ForgeCredential::Account { login, token })
    } else {
        (2, token.into())
    };
    let connection = ForgeConnection {
        transport: Arc::clone(&fake) as _,
        clock: Arc::new(JumpingClock::default()),
        api: format!("https://jira.example/sub/rest/api/{version}"),
        token,
    };
    (Jira::new(connection, "PROJ").unwrap(), fake)
}

async fn tell(jira: &Jira) {
    let comment = |body: &str| CommentDraft {
        on: "PROJ-7".to_owned(),
        topic: CommentTopic("summary".to_owned()),
        body: body.to_owned(),
    };
    jira.ensure_comment(&comment("one\n\n```\ncode\n```"))
        .await
        .unwrap();
    jira.ensure_comment(&comment("two [~ada]")).await.unwrap();
    let link = IssueLink {
        id: "pr-1".to_owned(),
        url: "https://github.com/o/r/pull/1".to_owned(),
        title: "o/r#1".to_owned(),
    };
    let labels = LabelEdit {
        add: vec!["in review".to_owned()],
        remove: Vec::new(),
    };
    for goal in [
        IssueGoal::Linked(link),
        IssueGoal::Labels(labels),
        IssueGoal::Status("code review".to_owned()),
        IssueGoal::Status("Approved".to_owned()),
    ] {
        jira.ensure_issue_state("PROJ-7", &goal).await.unwrap();
    }
}

#[tokio::test]
async fn an_issue_is_told_everything_once_in_both_jiras() {
    for is_cloud in [true, false] {
        let (jira, fake) = connect(is_cloud);
        tell(&jira).await;
        let before = fake.0.lock().unwrap().transitions;
        assert_eq!(before, 2);
        let approved = IssueGoal::Status("Approved".to_owned());
        jira.ensure_issue_state("PROJ-7", &approved).await.unwrap();
        {
            let state = fake.0.lock().unwrap();
            assert_eq!((state.transitions, state.comments.len()), (2, 1));
            assert_eq!(
                (state.links.len(), state.labels.clone()),
                (1, vec!["in-review".to_owned()])
            );
            let body = state.comments[0]["body"].to_string();
            assert!(body.contains("countersign:v1 topic=summary;"), "{body}");
            assert!(is_cloud || body.contains("\\\\[~ada\\\\]"), "{body}");
        }
        jira.ensure_issue_state("PROJ-7", &IssueGoal::Done)
            .await
            .unwrap();
        assert_eq!(fake.0.lock().unwrap().status, 3);
        let missing = IssueGoal::Status("Shipped".to_owned());
        let error = jira
            .ensure_issue_state("PROJ-7", &missing)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("Code Review"), "{error}");
    }
}

#[tokio::test]
async fn issues_are_found_by_query_and_read_with_their_links() {
    for is_cloud in [true, false] {
        let (jira, fake) = connect(is_cloud);
        let filter = IssueFilter {
            query: Some("labels = ai OR x = \"y\" ORDER BY created".to_owned()),
            ..IssueFilter::default()
        };
        let page = jira
            .issues_since(&filter, &ForgeCursor::default())
            .await
            .unwrap();
        assert_eq!(page.issues.len(), 1);
        let again = jira.issues_since(&filter, &page.cursor).await.unwrap();
        assert_eq!(again.issues.len(), 1, "the same second counts again");
        let queries = fake.0.lock().unwrap().queries.clone();
        assert!(
            queries[0].contains("(labels = ai OR x = \"y\") ORDER BY updated ASC"),
            "{queries:?}"
        );
        assert!(
            queries.last().unwrap().contains("updated >= \"-"),
            "{queries:?}"
        );
        let issue = jira.issue("PROJ-7").await.unwrap().unwrap();
        assert_eq!(
            (issue.body.as_str(), issue.status.as_str()),
            ("please\n\nfix it", "To Do")
        );
        assert_eq!(
            (issue.blocked_by, issue.links),
            (vec!["PROJ-3".to_owned()], vec!["PROJ-4".to_owned()])
        );
        assert_eq!(issue.url, "https://jira.example/sub/browse/PROJ-7");
        for wrong in ["OTHER-7", "PROJ-7/comment", "PROJ-", "7"] {
            assert_eq!(jira.issue(wrong).await.unwrap(), None, "{wrong}");
        }
        assert_eq!(
            jira.whoami().await.unwrap().permission,
            ForgePermission::Write
        );
        assert_eq!(
            jira.permission_of("ada").await.unwrap(),
            ForgePermission::Write
        );
        assert_eq!(
            jira.permission_of("eve").await.unwrap(),
            ForgePermission::None
        );
    }
}

#[tokio::test]
async fn a_tracker_has_no_pull_requests_and_says_so_first() {
    let (jira, fake) = connect(true);
    assert!(!jira.capabilities().has_changes);
    let forge = TrackerOnly(jira);
    let error = forge.find_change(&ChangeKey::Number(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "Jira has no pull requests");
    assert_eq!(fake.0.lock().unwrap().writes, 0);
}
