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

#[tokio::test]
async fn a_repository_without_drafts_gets_a_change_that_is_none() {
    let fake = fake();
    fake.0.lock().unwrap().no_drafts = true;
    let clock = Arc::new(JumpingClock::default());
    let forge = connect(fake.clone(), clock, "https://ghes.example/api/v3");
    let mut draft = ChangeDraft {
        head_branch: "b".to_owned(),
        base_branch: "main".to_owned(),
        title: "t".to_owned(),
        body: "b".to_owned(),
        draft: true,
    };
    for is_draft in [true, true, false] {
        draft.draft = is_draft;
        let change = forge.ensure_change(&draft).await.unwrap();
        assert_eq!((change.number, change.draft), (1, false));
    }
    assert_eq!(fake.0.lock().unwrap().pulls.len(), 1);
}

#[tokio::test]
async fn a_title_that_says_draft_makes_no_draft_of_a_ready_change() {
    let gitlab = Arc::new(Served(Mutex::new(FakeGitlab::new(HEAD))));
    let forgejo = Arc::new(Served(Mutex::new(FakeForgejo::new(HEAD))));
    let connection = |transport: Arc<dyn ForgeTransport>, api: &str| ForgeConnection {
        transport,
        clock: Arc::new(JumpingClock::default()),
        api: api.to_owned(),
        token: ForgeToken::new(TOKEN).unwrap().into(),
    };
    let api = "https://h.example/api/v4";
    let on_gitlab = Gitlab::new(connection(gitlab.clone(), api), "g/r").unwrap();
    let api = "https://h.example/api/v1";
    let on_forgejo = Forgejo::new(connection(forgejo.clone(), api), "o/r").unwrap();
    let forges: [(&dyn Forge, &str); 2] = [
        (&on_gitlab, "[draft] Draft: Greet"),
        (&on_forgejo, "WIP: Greet"),
    ];
    for (forge, title) in forges {
        for is_draft in [true, false, false] {
            let draft = ChangeDraft {
                head_branch: "b".to_owned(),
                base_branch: "main".to_owned(),
                title: title.to_owned(),
                body: "b".to_owned(),
                draft: is_draft,
            };
            let change = forge.ensure_change(&draft).await.unwrap();
            assert_eq!((change.draft, change.title.as_str()), (is_draft, "Greet"));
        }
    }
    // It is made and made ready; the third call finds it as it is.
    assert_eq!(gitlab.0.lock().unwrap().writes, 2);
    assert_eq!(forgejo.0.lock().unwrap().writes, 2);
}

#[tokio::test]
async fn comments_and_changes_beyond_the_first_page_are_read() {
    let fake = fake();
    {
        let mut state = fake.0.lock().unwrap();
        let at = |minute: usize| format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
        let comment = |number: usize, updated: usize| {
            json!({"id": number, "user": {"login": "ada"}, "body": format!("comment {number}"),
                "created_at": at(number), "updated_at": at(updated),
                "issue_url": "https://api.github.com/repos/o/r/issues/1"})
        };
        // The first one, like a summary that is edited in place, is the newest by its update.
        state.comments.push(comment(0, 900));
        state
            .comments
            .extend((1..150).map(|number| comment(number, number)));
        let repo = json!({"full_name": "o/r"});
        state.pulls = (1..=250)
            .map(|number| {
                json!({"number": number, "title": "t", "state": "open", "user": {"login": "ada"},
                    "head": {"ref": format!("b-{number}"), "sha": HEAD, "repo": repo},
                    "base": {"ref": "main", "repo": repo}, "updated_at": at(1000 - number)})
            })
            .collect();
    }
    let clock = Arc::new(JumpingClock::default());
    let forge = connect(fake, clock, "https://ghes.example/api/v3");
    let query = CommentQuery {
        on: Some("1".to_owned()),
        ..CommentQuery::default()
    };
    let page = forge.comments_since(&query).await.unwrap();
    assert_eq!(page.comments.len(), 150);
    assert!(page.cursor.updated_at.starts_with("2026-01-01T15:00"));
    let page = forge.changes_since(&ForgeCursor::default()).await.unwrap();
    assert_eq!(page.changes.len(), 250);
    // Since the newest one, there is one page and one change.
    let cursor = ForgeCursor {
        etag: None,
        ..page.cursor
    };
    let page = forge.changes_since(&cursor).await.unwrap();
    assert_eq!(page.changes.len(), 1);
}

#[tokio::test]
async fn the_commit_of_a_merge_queue_is_known() {
    let fake = fake();
    let clock = Arc::new(JumpingClock::default());
    let forge = connect(fake.clone(), clock, "https://ghes.example/api/v3");
    assert_eq!(forge.queued_commit(1).await.unwrap(), None);
    fake.0.lock().unwrap().queued = Some(HEAD.to_owned());
    let queued = forge.queued_commit(1).await.unwrap();
    assert_eq!(queued.as_deref(), Some(HEAD));
}

#[tokio::test]
async fn a_request_for_changes_on_gitlab_has_the_words_of_the_last_comment() {
    let fake = Arc::new(Served(Mutex::new(FakeGitlab::new(HEAD))));
    let connection = ForgeConnection {
        transport: fake.clone(),
        clock: Arc::new(JumpingClock::default()),
        api: "https://h.example/api/v4".to_owned(),
        token: ForgeToken::new(TOKEN).unwrap().into(),
    };
    let forge = Gitlab::new(connection, "g/r").unwrap();
    let note = |id: u64, author: &str, body: &str| {
        json!({"id": id, "body": body, "system": false, "author": {"username": author},
            "created_at": "2026-01-01T00:00:01Z", "updated_at": "2026-01-01T00:00:01Z"})
    };
    {
        let mut state = fake.0.lock().unwrap();
        state.changes.push(
            json!({"iid": 1, "state": "opened", "sha": HEAD, "title": "t",
            "source_branch": "b", "target_branch": "main", "author": {"username": "ada"}}),
        );
        state.notes = vec![note(1, "bob", "Too long."), note(2, "eve", "Fine.")];
        state.reviewers = vec![
            json!({"user": {"username": "bob"}, "state": "requested_changes", "created_at": "2026-01-01T00:00:00Z"}),
            json!({"user": {"username": "eve"}, "state": "reviewed", "created_at": "2026-01-01T00:00:00Z"}),
        ];
    }
    let feedback = forge.change_feedback(1).await.unwrap();
    let wanting = feedback.reviews.iter();
    let wanting: Vec<_> = wanting
        .filter(|one| one.verdict == ReviewVerdict::ChangesRequested)
        .map(|one| (one.author.as_str(), one.body.as_str(), one.id.as_str()))
        .collect();
    assert_eq!(wanting, [("bob", "Too long.", "changes-bob-1")]);
}
