//! One story for every adapter: open a change, three rounds with findings, land. It ends alike
//! however often it is interrupted.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use forge::anchors::{CommentableLines, DiffLimits, DiffSide, LineAnchor};
use forge::*;

use crate::fake_github::{FakeGithub, TOKEN};

pub const DIFF: &str =
    "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1,2 +1,3 @@\n one\n+two\n three\n";
pub const HEAD: &str = "1111111111111111111111111111111111111111";

/// A clock that jumps instead of waiting, and counts.
#[derive(Debug, Default)]
pub struct JumpingClock(AtomicI64);

#[async_trait]
impl ForgeClock for JumpingClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    async fn wait(&self, time: Duration) {
        self.0
            .fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

/// Fault of the transport.
#[derive(Debug)]
pub enum Fault {
    None,
    /// The process dies at this exchange, before it is sent or before its answer.
    Dies {
        at: usize,
        sent: bool,
    },
    /// Three of ten answers are lost, refused for a limit, or broken by a gateway.
    Lossy(AtomicU64),
}

#[derive(Debug)]
pub struct FaultyTransport {
    fake: Arc<dyn ForgeTransport>,
    clock: Arc<JumpingClock>,
    count: AtomicUsize,
    fault: Fault,
    write_times: Mutex<Vec<i64>>,
}

impl FaultyTransport {
    pub fn new(fake: Arc<dyn ForgeTransport>, clock: Arc<JumpingClock>, fault: Fault) -> Self {
        Self {
            fake,
            clock,
            count: AtomicUsize::new(0),
            fault,
            write_times: Mutex::default(),
        }
    }

    pub fn exchanges(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub fn writes_are_slow(&self) -> bool {
        let times = self.write_times.lock().unwrap();
        let mut minutes = times.windows(81);
        minutes.all(|window| window[80] - window[0] >= 60_000)
    }
}

fn reply(status: u16, header: &str, value: &str) -> WireResponse {
    WireResponse {
        status,
        headers: vec![(header.to_owned(), value.to_owned())],
        body: b"{}".to_vec(),
    }
}

#[async_trait]
impl ForgeTransport for FaultyTransport {
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure> {
        let lost = |why: &str| {
            Err(WireFailure {
                why: why.to_owned(),
                unsent: false,
            })
        };
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        if request.method != "GET" {
            self.write_times.lock().unwrap().push(self.clock.now_ms());
        }
        match &self.fault {
            Fault::None => {}
            Fault::Dies { at, .. } if number > *at => return lost("dead"),
            Fault::Dies { at, sent: false } if number == *at => return lost("dead"),
            Fault::Dies { at, .. } => {
                let answer = self.fake.exchange(request).await;
                return if number == *at { lost("dead") } else { answer };
            }
            Fault::Lossy(seed) => {
                let next = seed
                    .load(Ordering::SeqCst)
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                seed.store(next, Ordering::SeqCst);
                match (next >> 33) % 100 {
                    0..=5 => return lost("reset before"),
                    6..=17 => return self.fake.exchange(request).await.and(lost("reset after")),
                    18..=21 => {
                        return self
                            .fake
                            .exchange(request)
                            .await
                            .map(|_| reply(502, "x", "y"));
                    }
                    22..=25 => return Ok(reply(403, "retry-after", "2")),
                    26..=29 => return Ok(reply(429, "x-none", "")),
                    _ => {}
                }
            }
        }
        self.fake.exchange(request).await
    }
}

pub fn fake() -> Arc<FakeGithub> {
    let fake = FakeGithub::default();
    {
        let mut state = fake.0.lock().unwrap();
        HEAD.clone_into(&mut state.head);
        "open".clone_into(&mut state.issue);
        state.files.insert("a.rs".to_owned());
        for (side, line) in [
            ("RIGHT", 1),
            ("RIGHT", 2),
            ("RIGHT", 3),
            ("LEFT", 1),
            ("LEFT", 2),
        ] {
            state
                .lines
                .insert(("a.rs".to_owned(), side.to_owned(), line));
        }
    }
    Arc::new(fake)
}

pub fn connect(transport: Arc<dyn ForgeTransport>, clock: Arc<JumpingClock>, api: &str) -> Github {
    let token = ForgeToken::new(TOKEN).unwrap();
    Github::new(
        ForgeConnection {
            transport,
            clock,
            api: api.to_owned(),
            token: token.into(),
        },
        "o/r",
    )
    .unwrap()
}

fn adapter(fake: &Arc<FakeGithub>, fault: Fault) -> (Github, Arc<FaultyTransport>) {
    let clock = Arc::new(JumpingClock::default());
    let transport = FaultyTransport::new(Arc::clone(fake) as _, Arc::clone(&clock), fault);
    let transport = Arc::new(transport);
    (
        connect(
            Arc::clone(&transport) as _,
            clock,
            "https://ghes.example/api/v3",
        ),
        transport,
    )
}

pub fn finding(key: &str, path: &str, line: u32) -> InlineFinding {
    let anchor = LineAnchor {
        path: path.to_owned(),
        side: DiffSide::Right,
        start_line: None,
        line,
    };
    InlineFinding {
        key: key.to_owned(),
        anchor: Some(anchor),
        body: format!("**{key}** is wrong"),
    }
}

pub fn review(round: u32, findings: Vec<InlineFinding>) -> ReviewDraft {
    ReviewDraft {
        key: format!("round-{round}"),
        change: 1,
        commit: HEAD.to_owned(),
        event: ReviewEvent::RequestChanges,
        body: format!("Round {round}"),
        findings,
        lines: CommentableLines::parse(DIFF, DiffLimits::GITHUB),
    }
}

fn gate(state: GateState) -> ForgeGate {
    ForgeGate {
        commit: HEAD.to_owned(),
        name: "countersign".to_owned(),
        state,
        description: "x".repeat(300),
        url: None,
    }
}

async fn open(forge: &dyn Forge, draft: bool) -> Result<ForgeChange, ForgeError> {
    let draft = ChangeDraft {
        head_branch: "countersign/t-1".to_owned(),
        base_branch: "main".to_owned(),
        title: "Add two".to_owned(),
        body: "x".repeat(70_000),
        draft,
    };
    forge.ensure_change(&draft).await
}

async fn summarise(forge: &dyn Forge, body: &str) -> Result<ForgeComment, ForgeError> {
    let topic = CommentTopic("summary".to_owned());
    forge
        .ensure_comment(&CommentDraft {
            on: "1".to_owned(),
            topic,
            body: body.to_owned(),
        })
        .await
}

async fn settle(forge: &dyn Forge, state: ThreadState, reply: &str) -> Result<(), ForgeError> {
    let reply = Some((reply.to_owned(), format!("it is {reply}")));
    forge
        .settle_thread(&ThreadAnswer {
            change: 1,
            finding: "F1".to_owned(),
            state,
            reply,
        })
        .await
}

pub async fn story(forge: &dyn Forge, issue: &str) -> Result<(), ForgeError> {
    open(forge, true).await?;
    forge.ensure_gate(&gate(GateState::Pending)).await?;
    let first = vec![
        finding("F1", "a.rs", 2),
        finding("F2", "a.rs", 3),
        finding("F3", "other.rs", 9),
    ];
    forge.ensure_review(&review(1, first)).await?;
    summarise(forge, "one").await?;
    settle(forge, ThreadState::Resolved, "fixed").await?;
    forge
        .ensure_review(&review(
            2,
            vec![finding("F2", "a.rs", 3), finding("F4", "a.rs", 1)],
        ))
        .await?;
    summarise(forge, "two").await?;
    settle(forge, ThreadState::Open, "back").await?;
    settle(forge, ThreadState::Resolved, "fixed again").await?;
    let edit = LabelEdit {
        add: vec!["approved".to_owned()],
        remove: vec!["ready".to_owned()],
    };
    forge.labels(1, &edit).await?;
    open(forge, false).await?;
    forge.ensure_gate(&gate(GateState::Success)).await?;
    summarise(forge, "three").await?;
    forge.ensure_issue_state(issue, &IssueGoal::Done).await?;
    let order = MergeOrder {
        change: 1,
        commit: HEAD.to_owned(),
        method: MergeMethod::Squash,
    };
    assert_eq!(forge.merge(&order).await?, MergeReport::Merged);
    Ok(())
}

/// One of everything, whatever happened on the way.
fn assert_end(fake: &FakeGithub, story: &str) {
    let state = fake.0.lock().unwrap();
    let firsts: Vec<_> = state
        .threads
        .iter()
        .filter(|thread| thread["in_reply_to_id"].is_null())
        .collect();
    assert_eq!(state.pulls.len(), 1, "{story}");
    assert_eq!(state.pulls[0]["merged"], true, "{story}");
    assert_eq!(state.reviews.len(), 2, "{story}");
    assert_eq!(firsts.len(), 3, "{story}: {firsts:?}");
    assert_eq!(
        firsts
            .iter()
            .filter(|thread| thread["resolved"] == true)
            .count(),
        1,
        "{story}"
    );
    assert_eq!(state.threads.len() - firsts.len(), 3, "{story}: replies");
    assert_eq!(state.comments.len(), 1, "{story}");
    assert!(
        state.comments[0]["body"]
            .as_str()
            .unwrap()
            .ends_with("three"),
        "{story}"
    );
    assert_eq!(state.labels, ["approved"], "{story}");
    assert_eq!(state.issue, "closed", "{story}");
    assert_eq!(
        state.statuses.last().unwrap().1["state"],
        "success",
        "{story}"
    );
    let is_wrong = |message: &&String| !message.starts_with("A pull request already exists");
    assert_eq!(state.refused.keys().find(is_wrong), None, "{story}");
}

#[tokio::test]
async fn the_story_told_twice_changes_nothing_more() {
    let fake = fake();
    let (forge, _) = adapter(&fake, Fault::None);
    story(&forge, "7").await.unwrap();
    assert_end(&fake, "once");
    let before = fake.0.lock().unwrap().writes;
    forge.ensure_gate(&gate(GateState::Success)).await.unwrap();
    summarise(&forge, "three").await.unwrap();
    settle(&forge, ThreadState::Resolved, "fixed")
        .await
        .unwrap();
    let again = forge
        .ensure_review(&review(2, vec![finding("F4", "a.rs", 1)]))
        .await
        .unwrap();
    assert!(again.existed);
    assert_eq!(fake.0.lock().unwrap().writes, before);
}

#[tokio::test]
async fn a_process_that_dies_at_any_point_leaves_no_duplicate() {
    let (reference, transport) = adapter(&fake(), Fault::None);
    story(&reference, "7").await.unwrap();
    let points = transport.count.load(Ordering::SeqCst);
    for at in 0..points {
        for sent in [false, true] {
            let fake = fake();
            let (dying, _) = adapter(&fake, Fault::Dies { at, sent });
            assert!(story(&dying, "7").await.is_err());
            // A merged change is the end of the story: a new process only looks at it.
            let merged = fake
                .0
                .lock()
                .unwrap()
                .pulls
                .first()
                .is_some_and(|pull| pull["merged"] == true);
            let (next, _) = adapter(&fake, Fault::None);
            if merged {
                let order = MergeOrder {
                    change: 1,
                    commit: HEAD.to_owned(),
                    method: MergeMethod::Squash,
                };
                assert_eq!(next.merge(&order).await, Ok(MergeReport::Merged));
            } else {
                story(&next, "7").await.unwrap();
            }
            assert_end(&fake, &format!("died at {at} of {points}, sent: {sent}"));
        }
    }
    println!("{} deaths, one of everything each time", 2 * points);
}

#[tokio::test]
async fn with_three_of_ten_answers_lost_the_end_is_the_same() {
    for seed in 0..40 {
        let fake = fake();
        let (forge, transport) = adapter(&fake, Fault::Lossy(AtomicU64::new(seed)));
        let mut tries = 0;
        while let Err(error) = story(&forge, "7").await {
            tries += 1;
            assert!(error.is_lost() && tries < 20, "{error}");
        }
        assert_end(&fake, &format!("seed {seed}"));
        assert!(transport.writes_are_slow(), "more than 80 writes a minute");
    }
}

#[tokio::test]
async fn a_line_that_github_does_not_have_costs_no_review() {
    let fake = fake();
    fake.0
        .lock()
        .unwrap()
        .lines
        .remove(&("a.rs".to_owned(), "RIGHT".to_owned(), 2));
    let (forge, _) = adapter(&fake, Fault::None);
    open(&forge, false).await.unwrap();
    let draft = review(1, vec![finding("F1", "a.rs", 2), finding("F2", "a.rs", 3)]);
    forge.ensure_review(&draft).await.unwrap();
    let state = fake.0.lock().unwrap();
    let kinds: Vec<_> = state
        .threads
        .iter()
        .map(|thread| thread["subject_type"].as_str().unwrap())
        .collect();
    assert_eq!((state.reviews.len(), kinds), (1, vec!["file", "line"]));
}

#[tokio::test]
async fn a_force_push_is_an_error_and_not_a_review_of_the_wrong_commit() {
    let fake = fake();
    let (forge, _) = adapter(&fake, Fault::None);
    open(&forge, false).await.unwrap();
    fake.0.lock().unwrap().head = "2".repeat(40);
    let error = forge
        .ensure_review(&review(1, vec![finding("F1", "a.rs", 2)]))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("commit_id"), "{error}");
    let order = MergeOrder {
        change: 1,
        commit: HEAD.to_owned(),
        method: MergeMethod::Merge,
    };
    assert_eq!(forge.merge(&order).await.unwrap(), MergeReport::HeadMoved);
    assert_eq!(fake.0.lock().unwrap().reviews.len(), 0);
}

#[tokio::test]
async fn the_rest_of_the_verbs_read_what_is_there() {
    let fake = fake();
    let (forge, _) = adapter(&fake, Fault::None);
    let me = forge.whoami().await.unwrap();
    assert_eq!(
        (me.login.as_str(), me.permission),
        ("countersign-bot", ForgePermission::Write)
    );
    assert!(me.capabilities.has_changes && !me.capabilities.inline_outside_diff);
    assert_eq!(me.obstacle, None);
    fake.0.lock().unwrap().archived = true;
    let archived = forge.whoami().await.unwrap().obstacle;
    assert_eq!(archived, Some(WriteObstacle::Archived));
    for (login, wanted) in [
        ("ada", ForgePermission::Write),
        ("eve", ForgePermission::Read),
        ("x", ForgePermission::None),
    ] {
        assert_eq!(forge.permission_of(login).await.unwrap(), wanted);
    }
    let issue = forge.issue("7").await.unwrap().unwrap();
    assert_eq!(
        (issue.blocked_by, issue.labels),
        (vec!["3".to_owned()], vec!["bug".to_owned()])
    );
    assert_eq!(forge.issue("1").await.unwrap(), None);
    assert_eq!(
        forge.find_change(&ChangeKey::Number(1)).await.unwrap(),
        None
    );
    open(&forge, false).await.unwrap();
    let page = forge.changes_since(&ForgeCursor::default()).await.unwrap();
    assert_eq!(page.changes.len(), 1);
    assert_eq!(
        forge
            .changes_since(&page.cursor)
            .await
            .unwrap()
            .changes
            .len(),
        0
    );
    let thread = ThreadDraft {
        change: 1,
        commit: HEAD.to_owned(),
        finding: finding("F9", "other.rs", 1),
        lines: CommentableLines::default(),
    };
    let placed = forge.ensure_thread(&thread).await.unwrap();
    assert_eq!(
        (placed.place, forge.ensure_thread(&thread).await.unwrap().id),
        (ThreadPlace::Comment, placed.id)
    );
}
