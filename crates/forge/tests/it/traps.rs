//! Facts about the forges on which other programs stumbled, each as a test. Those about lines are in
//! `lines`, those about lost answers in `conformance` and `others`, those about addresses in `wire`.

use std::sync::{Arc, Mutex};

use forge::anchors::CommentableLines;
use forge::*;
use serde_json::{Value, json};

use crate::conformance::{HEAD, JumpingClock, connect, fake, finding, review};
use crate::contract::{Contract, GITHUB};
use crate::fake_forgejo::FakeForgejo;
use crate::fake_gitlab::FakeGitlab;
use crate::fakes::{Fake, Served, TOKEN, Totals, reply, split};

type Answer = (u16, Value);

/// A GitHub that answers as a test wants, and keeps what was written.
#[derive(Debug)]
struct ScriptedGithub {
    script: fn(&Self, &str, &str) -> Answer,
    written: Vec<(String, Value)>,
    /// True for an answer that GitHub gives and its specification leaves out.
    beyond_specification: bool,
}

impl Fake for ScriptedGithub {
    fn contracts(&self) -> (&'static str, Vec<&'static Contract>) {
        let is_checked = !self.beyond_specification;
        (
            "/api/v3",
            is_checked.then_some(&*GITHUB).into_iter().collect(),
        )
    }

    fn answer(&mut self, request: &WireRequest) -> WireResponse {
        let (path, _, body) = split(request, "/api/v3");
        let (status, value) = match path.strip_prefix("/repos/o/r") {
            None => (200, json!({"login": "countersign-bot"})),
            Some(rest) => (self.script)(self, request.method, rest),
        };
        if request.method != "GET" {
            self.written.push((path, body));
        }
        reply(status, &value)
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}

type Script = fn(&ScriptedGithub, &str, &str) -> Answer;

fn github(script: Script) -> (Github, Arc<Served<ScriptedGithub>>, Arc<JumpingClock>) {
    let fake = Arc::new(Served(Mutex::new(ScriptedGithub {
        script,
        written: Vec::new(),
        beyond_specification: false,
    })));
    let clock = Arc::new(JumpingClock::default());
    let api = "https://ghes.example/api/v3";
    let token = ForgeToken::new(TOKEN).unwrap();
    let connection = ForgeConnection {
        transport: Arc::clone(&fake) as _,
        clock: Arc::clone(&clock) as _,
        api: api.to_owned(),
        token: token.into(),
    };
    (Github::new(connection, "o/r").unwrap(), fake, clock)
}

fn pull(changes: &Value) -> Value {
    let repo = json!({"full_name": "o/r"});
    let mut pull = json!({"number": 1, "title": "t", "body": "b", "state": "open", "draft": false, "merged": false,
        "merged_at": null, "user": {"login": "ada"}, "labels": [],
        "head": {"ref": "b", "sha": HEAD, "repo": repo}, "base": {"ref": "main", "repo": repo}});
    for (key, value) in changes.as_object().unwrap() {
        pull[key] = value.clone();
    }
    pull
}

#[tokio::test]
async fn a_change_that_is_computed_has_no_conflict_yet_and_a_blocked_one_has_none() {
    fn read(fields: &Value, path: &str) -> Answer {
        match path {
            "/pulls/1" => (200, pull(fields)),
            path if path.ends_with("/check-runs") => {
                (200, json!({"total_count": 0, "check_runs": []}))
            }
            _ => (200, json!([])),
        }
    }
    let cases: [(Script, Option<bool>); 4] = [
        (
            |_, _, path| {
                read(
                    &json!({"mergeable": null, "mergeable_state": "unknown"}),
                    path,
                )
            },
            None,
        ),
        (
            |_, _, path| {
                read(
                    &json!({"mergeable": true, "mergeable_state": "blocked"}),
                    path,
                )
            },
            Some(false),
        ),
        (
            |_, _, path| {
                read(
                    &json!({"mergeable": true, "mergeable_state": "behind"}),
                    path,
                )
            },
            Some(false),
        ),
        (
            |_, _, path| {
                read(
                    &json!({"mergeable": false, "mergeable_state": "dirty"}),
                    path,
                )
            },
            Some(true),
        ),
    ];
    for (script, wanted) in cases {
        let (forge, _, _) = github(script);
        let feedback = forge.change_feedback(1).await.unwrap();
        assert_eq!(feedback.conflict, wanted);
        assert!(feedback.checks.is_empty(), "no check is red");
    }
}

#[tokio::test]
async fn a_stale_approval_of_ours_is_dismissed_once_and_no_other() {
    let (forge, fake, _) = github(|fake, method, path| {
        let by = |id: u64, login: &str, state: &str| json!({"id": id, "user": {"login": login}, "state": state, "body": ""});
        let is_dismissed = fake
            .written
            .iter()
            .any(|(path, _)| path.ends_with("/dismissals"));
        let own = if is_dismissed {
            "DISMISSED"
        } else {
            "APPROVED"
        };
        match (method, path) {
            ("GET", "/pulls/1/reviews") => (
                200,
                json!([
                    by(1, "ada", "APPROVED"),
                    by(2, "countersign-bot", "COMMENTED"),
                    by(3, "Countersign-Bot", own)
                ]),
            ),
            ("PUT", "/pulls/1/reviews/3/dismissals") => {
                (200, by(3, "countersign-bot", "DISMISSED"))
            }
            _ => (404, json!({})),
        }
    });
    let withdrawal = ReviewDraft {
        event: ReviewEvent::Withdraw,
        body: "A new commit was pushed.".to_owned(),
        ..review(1, Vec::new())
    };
    for existed in [false, true] {
        let receipt = forge.ensure_review(&withdrawal).await.unwrap();
        assert_eq!(receipt.existed, existed);
    }
    let written = fake.0.lock().unwrap().written.clone();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].1["message"], "A new commit was pushed.");
}

#[tokio::test]
async fn the_head_of_a_fork_that_is_gone_is_still_a_fork_s() {
    let (forge, fake, _) = github(|_, _, _| {
        let head = json!({"ref": "b", "sha": HEAD, "repo": null});
        (200, pull(&json!({"head": head})))
    });
    fake.0.lock().unwrap().beyond_specification = true;
    let found = forge.find_change(&ChangeKey::Number(1)).await.unwrap();
    assert!(found.unwrap().from_fork);
}

#[tokio::test]
async fn a_refused_token_and_an_archived_repository_are_told_apart_from_a_limit() {
    let cases: [(Script, &str); 2] = [
        (
            |_, _, _| {
                (
                    403,
                    json!({"message": "Resource not accessible by integration"}),
                )
            },
            "Resource not accessible",
        ),
        (
            |_, _, _| {
                (
                    403,
                    json!({"message": "Repository was archived so is read-only."}),
                )
            },
            "archived",
        ),
    ];
    for (script, words) in cases {
        let (forge, fake, clock) = github(script);
        let goal = IssueGoal::Done;
        let error = forge.ensure_issue_state("7", &goal).await.unwrap_err();
        assert!(matches!(&error, ForgeError::Forbidden { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(fake.0.lock().unwrap().written.len(), 0);
        assert_eq!(clock.now_ms(), 0, "nobody waits for a permission");
    }
}

#[tokio::test]
async fn a_title_of_a_megabyte_and_a_hostile_body_are_what_the_forge_takes() {
    let fake = fake();
    let clock = Arc::new(JumpingClock::default());
    let forge = connect(fake.clone(), clock, "https://ghes.example/api/v3");
    let draft = ChangeDraft {
        head_branch: "b".to_owned(),
        base_branch: "main".to_owned(),
        title: "\u{e9}\n<b>@team".repeat(100_000),
        body: format!("```\n{}", "\u{1f980} closes #1\n\n".repeat(100_000)),
        draft: false,
    };
    for _ in 0..2 {
        forge.ensure_change(&draft).await.unwrap();
    }
    let thread = ThreadDraft {
        change: 1,
        commit: HEAD.to_owned(),
        finding: InlineFinding {
            body: "\u{1f980}".repeat(70_000),
            ..finding("F1", "a.rs", 2)
        },
        lines: CommentableLines::default(),
    };
    forge.ensure_thread(&thread).await.unwrap();
    let state = fake.0.lock().unwrap();
    let title = state.pulls[0]["title"].as_str().unwrap();
    assert!(
        title.chars().count() <= 256 && !title.contains('\n'),
        "{title}"
    );
    let body = state.pulls[0]["body"].as_str().unwrap();
    assert_eq!(body.matches("```").count() % 2, 0, "the fence is closed");
    assert!(state.refused.is_empty(), "{:?}", state.refused);
    // The second call finds it as it is.
    assert_eq!((state.pulls.len(), state.writes), (1, 2));
}

#[tokio::test]
async fn the_comments_of_an_issue_on_forgejo_have_no_pages_and_are_read_once() {
    let fake = Arc::new(Served(Mutex::new(FakeForgejo::new(HEAD))));
    {
        let mut state = fake.0.lock().unwrap();
        state.comments.extend((0..120).map(|id| {
            json!({"id": id, "body": "hello", "user": {"login": "ada"},
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"})
        }));
    }
    let connection = ForgeConnection {
        transport: Arc::clone(&fake) as _,
        clock: Arc::new(JumpingClock::default()),
        api: "https://h.example/sub/api/v1".to_owned(),
        token: ForgeToken::new(TOKEN).unwrap().into(),
    };
    let forge = Forgejo::new(connection, "o/r").unwrap();
    let query = CommentQuery {
        on: Some("7".to_owned()),
        ..CommentQuery::default()
    };
    let page = forge.comments_since(&query).await.unwrap();
    assert_eq!(page.comments.len(), 120);
}

#[tokio::test]
async fn gitlab_s_refusal_of_a_state_that_is_there_already_is_a_success() {
    let fake = Arc::new(Served(Mutex::new(FakeGitlab::new(HEAD))));
    let connection = ForgeConnection {
        transport: Arc::clone(&fake) as _,
        clock: Arc::new(JumpingClock::default()),
        api: "https://h.example/gitlab/api/v4".to_owned(),
        token: ForgeToken::new(TOKEN).unwrap().into(),
    };
    let forge = Gitlab::new(connection, "g/r").unwrap();
    // Another description makes it another request for the same state.
    for description in ["one", "two"] {
        let gate = ForgeGate {
            commit: HEAD.to_owned(),
            name: "countersign".to_owned(),
            state: GateState::Pending,
            description: description.to_owned(),
            url: None,
        };
        forge.ensure_gate(&gate).await.unwrap();
    }
    let refused = fake.0.lock().unwrap().totals().refused;
    assert!(refused[0].contains("Cannot transition"), "{refused:?}");
    let draft = ChangeDraft {
        head_branch: "b".to_owned(),
        base_branch: "main".to_owned(),
        title: "t".to_owned(),
        body: String::new(),
        draft: false,
    };
    forge.ensure_change(&draft).await.unwrap();
    let order = MergeOrder {
        change: 1,
        commit: "2".repeat(40),
        method: MergeMethod::Merge,
    };
    assert_eq!(forge.merge(&order).await, Ok(MergeReport::HeadMoved));
}
