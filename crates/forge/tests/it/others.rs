//! The same story for GitLab and Forgejo: one of everything, whatever happened on the way.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use forge::*;

use crate::conformance::{Fault, FaultyTransport, HEAD, JumpingClock, finding, review, story};
use crate::fake_forgejo::FakeForgejo;
use crate::fake_gitlab::FakeGitlab;
use crate::fakes::{Fake, Served, TOKEN, Totals};

/// A forge with its fake.
trait World {
    type Fake: Fake + 'static;
    fn fake() -> Self::Fake;
    fn connect(connection: ForgeConnection) -> Box<dyn Forge>;
    const API: &'static str;
    const ISSUE: &'static str;
    const RESOLVED: Option<usize>;
    const HEAD_REF: &'static str;
}

#[derive(Debug)]
struct OnGitlab;
#[derive(Debug)]
struct OnForgejo;

impl World for OnGitlab {
    type Fake = FakeGitlab;
    const API: &'static str = "https://h.example/gitlab/api/v4";
    const ISSUE: &'static str = "#7";
    const RESOLVED: Option<usize> = Some(1);
    const HEAD_REF: &'static str = "refs/merge-requests/7/head";

    fn fake() -> FakeGitlab {
        FakeGitlab::new(HEAD)
    }

    fn connect(connection: ForgeConnection) -> Box<dyn Forge> {
        Box::new(Gitlab::new(connection, "g/r").unwrap())
    }
}

impl World for OnForgejo {
    type Fake = FakeForgejo;
    const API: &'static str = "https://h.example/sub/api/v1";
    const ISSUE: &'static str = "7";
    const RESOLVED: Option<usize> = None;
    const HEAD_REF: &'static str = "refs/pull/7/head";

    fn fake() -> FakeForgejo {
        FakeForgejo::new(HEAD)
    }

    fn connect(connection: ForgeConnection) -> Box<dyn Forge> {
        Box::new(Forgejo::new(connection, "o/r").unwrap())
    }
}

type Fakes<W> = Arc<Served<<W as World>::Fake>>;

fn fake<W: World>() -> Fakes<W> {
    Arc::new(Served(Mutex::new(W::fake())))
}

fn connect<W: World>(fake: &Fakes<W>, fault: Fault) -> (Box<dyn Forge>, Arc<FaultyTransport>) {
    let clock = Arc::new(JumpingClock::default());
    let transport = FaultyTransport::new(Arc::clone(fake) as _, Arc::clone(&clock), fault);
    let transport = Arc::new(transport);
    let connection = ForgeConnection {
        transport: Arc::clone(&transport) as _,
        clock,
        api: W::API.to_owned(),
        token: ForgeToken::new(TOKEN).unwrap().into(),
    };
    (W::connect(connection), transport)
}

fn assert_end<W: World>(totals: &Totals, story: &str) {
    assert_eq!((totals.changes, totals.merged), (1, true), "{story}");
    assert_eq!(
        (totals.reviews, totals.threads, totals.replies),
        (2, 3, 3),
        "{story}: {totals:?}"
    );
    assert_eq!(totals.resolved, W::RESOLVED, "{story}");
    assert_eq!(totals.comments.len(), 1, "{story}: {totals:?}");
    assert!(totals.comments[0].ends_with("three"), "{story}");
    assert_eq!(totals.labels, ["approved"], "{story}");
    assert!(totals.issue_closed, "{story}");
    assert_eq!(totals.gate.as_deref(), Some("success"), "{story}");
    assert_eq!(totals.refused, [""; 0], "{story}");
}

async fn twice<W: World>() {
    let fake = fake::<W>();
    let (forge, _) = connect::<W>(&fake, Fault::None);
    story(&*forge, W::ISSUE).await.unwrap();
    let before = fake.0.lock().unwrap().totals();
    assert_end::<W>(&before, "once");
    let again = review(2, vec![finding("F4", "a.rs", 1)]);
    assert!(forge.ensure_review(&again).await.unwrap().existed);
    assert_eq!(fake.0.lock().unwrap().totals(), before);
}

async fn deaths<W: World>() -> usize {
    let (reference, transport) = connect::<W>(&fake::<W>(), Fault::None);
    story(&*reference, W::ISSUE).await.unwrap();
    let points = transport.exchanges();
    for at in 0..points {
        for sent in [false, true] {
            let fake = fake::<W>();
            let (dying, _) = connect::<W>(&fake, Fault::Dies { at, sent });
            assert!(story(&*dying, W::ISSUE).await.is_err());
            let (next, _) = connect::<W>(&fake, Fault::None);
            if !fake.0.lock().unwrap().totals().merged {
                story(&*next, W::ISSUE).await.unwrap();
            }
            let totals = fake.0.lock().unwrap().totals();
            assert_end::<W>(&totals, &format!("died at {at} of {points}, sent: {sent}"));
        }
    }
    2 * points
}

async fn losses<W: World>() {
    for seed in 0..20 {
        let fake = fake::<W>();
        let (forge, transport) = connect::<W>(&fake, Fault::Lossy(AtomicU64::new(seed)));
        let mut tries = 0;
        while let Err(error) = story(&*forge, W::ISSUE).await {
            tries += 1;
            assert!(error.is_lost() && tries < 20, "{error}");
        }
        let totals = fake.0.lock().unwrap().totals();
        assert_end::<W>(&totals, &format!("seed {seed}"));
        assert!(transport.writes_are_slow(), "more than 80 writes a minute");
    }
}

async fn reads<W: World>() {
    let fake = fake::<W>();
    let (forge, _) = connect::<W>(&fake, Fault::None);
    let me = forge.whoami().await.unwrap();
    assert_eq!(
        (me.login.as_str(), me.permission),
        ("countersign-bot", ForgePermission::Write)
    );
    assert_eq!(me.capabilities.head_ref(7), W::HEAD_REF);
    for (login, wanted) in [
        ("ada", ForgePermission::Write),
        ("eve", ForgePermission::Read),
        ("x", ForgePermission::None),
    ] {
        assert_eq!(forge.permission_of(login).await.unwrap(), wanted, "{login}");
    }
    let issue = forge.issue(W::ISSUE).await.unwrap().unwrap();
    assert_eq!(issue.blocked_by.len(), 1);
    assert_eq!(issue.labels, ["bug"]);
    assert_eq!(
        forge.find_change(&ChangeKey::Number(1)).await.unwrap(),
        None
    );
    story(&*forge, W::ISSUE).await.unwrap();
    let feedback = forge.change_feedback(1).await.unwrap();
    let red = feedback
        .checks
        .iter()
        .filter(|one| one.state == OtherCheckState::Failed);
    assert_eq!(
        red.map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["build"]
    );
    assert_eq!(feedback.conflict, Some(false));
    let of_f1 = feedback
        .comments
        .iter()
        .filter(|one| one.finding.as_deref() == Some("F1"));
    assert!(of_f1.count() >= 1);
    assert!(
        feedback
            .comments
            .iter()
            .all(|one| one.is_own && !one.edited)
    );
    let comment = feedback.comments[0].comment.clone();
    forge.react(&comment, Reaction::Seen).await.unwrap();
    forge.react(&comment, Reaction::Seen).await.unwrap();
}

#[tokio::test]
async fn gitlab_told_twice_changes_nothing_more() {
    twice::<OnGitlab>().await;
}

#[tokio::test]
async fn forgejo_told_twice_changes_nothing_more() {
    twice::<OnForgejo>().await;
}

#[tokio::test]
async fn gitlab_after_a_death_at_any_point_has_no_duplicate() {
    let deaths = deaths::<OnGitlab>().await;
    println!("{deaths} deaths, one of everything each time");
}

#[tokio::test]
async fn forgejo_after_a_death_at_any_point_has_no_duplicate() {
    let deaths = deaths::<OnForgejo>().await;
    println!("{deaths} deaths, one of everything each time");
}

#[tokio::test]
async fn gitlab_with_three_of_ten_answers_lost_ends_the_same() {
    losses::<OnGitlab>().await;
}

#[tokio::test]
async fn forgejo_with_three_of_ten_answers_lost_ends_the_same() {
    losses::<OnForgejo>().await;
}

#[tokio::test]
async fn gitlab_is_read_as_it_is() {
    reads::<OnGitlab>().await;
}

#[tokio::test]
async fn forgejo_is_read_as_it_is() {
    reads::<OnForgejo>().await;
}
