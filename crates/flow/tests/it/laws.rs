//! Invariants over random event sequences, legal, repeated, stale or hostile.

mod life;
mod watch;

use flow::policy::{
    Confidence, Fallback, Land, MinorOnly, OnExhausted, ProtectedChange, RedOnBase, ReviewMode,
    ReviewerConfig, StartDependents, VerifyNewFindings, Votes,
};
use flow::usage::{Budget, Caps};
use flow::{Event, Policy, Ticket, replay};
use proptest::prelude::*;

use crate::story::{Story, created, id};
use life::{Dice, Life};
use watch::Watch;

/// Least number of events for each ticket.
const EVENTS_MIN: usize = 60;
const EVENTS_MAX: usize = 110;

fn reviewers(count: usize) -> Vec<ReviewerConfig> {
    let names = ["one", "two", "three"];
    names
        .iter()
        .take(count)
        .map(|name| ReviewerConfig {
            name: (*name).to_owned(),
            ..ReviewerConfig::default()
        })
        .collect()
}

fn caps() -> impl Strategy<Value = Caps> {
    let money = prop_oneof![3 => Just(None), 1 => (1_u64..40).prop_map(Some)];
    money.prop_map(|dollars| Caps {
        usd_micros: dollars.map(|dollars| dollars * 1_000_000),
        ..Caps::default()
    })
}

fn preset() -> impl Strategy<Value = Policy> {
    proptest::sample::select(&Policy::PRESETS[..])
        .prop_map(|name| Policy::preset(name).expect("a preset"))
}

fn panel() -> impl Strategy<Value = (Vec<ReviewerConfig>, Votes)> {
    (1..=3_usize).prop_flat_map(|count| {
        let most = u32::try_from(count).expect("small");
        let votes = prop_oneof![
            Just(Votes::All),
            Just(Votes::Majority),
            (1..=most).prop_map(Votes::Quorum),
        ];
        (Just(reviewers(count)), votes)
    })
}

prop_compose! {
    fn mixed()(
        base in preset(),
        max_rounds in 1..=7_u32,
        (reviewers, votes) in panel(),
        fails in any::<bool>(),
        minor_only in proptest::sample::select(&[MinorOnly::Ask, MinorOnly::Approve, MinorOnly::Rework][..]),
        min_confidence in proptest::sample::select(&[0, 60, 100][..]),
        verify in proptest::sample::select(&[VerifyNewFindings::MustFix, VerifyNewFindings::Disputed, VerifyNewFindings::Never][..]),
        land in proptest::sample::select(&[Land::Branch, Land::Merge, Land::Squash, Land::Rebase, Land::Queue, Land::Pr][..]),
        unreviewed in prop::bool::weighted(0.1),
        forbids in prop::bool::weighted(0.3),
        tolerates in any::<bool>(),
        early in any::<bool>(),
        retries_max in 0..4_u32,
        (round, ticket) in (caps(), caps()),
        stands_in in any::<bool>(),
    ) -> Policy {
        let mut policy = Policy {
            max_rounds,
            reviewers,
            votes,
            verify,
            min_confidence: Confidence::of_percent(min_confidence),
            land,
            on_exhausted: if fails { OnExhausted::Fail } else { OnExhausted::Escalate },
            minor_only,
            review: if unreviewed { ReviewMode::None } else { ReviewMode::Agents },
            protected_change: if forbids { ProtectedChange::Forbid } else { ProtectedChange::Show },
            red_on_base: if tolerates { RedOnBase::Tolerate } else { RedOnBase::Escalate },
            start_dependents: if early { StartDependents::Approved } else { StartDependents::Done },
            budget: Budget { round, ticket, day: Caps::default() },
            ..base
        };
        policy.limits.retries_max = retries_max;
        if stands_in {
            let [build, review, verify] = ["betty", "bob", "ruth"].map(|name| Some(name.to_owned()));
            policy.fallback = Fallback { build, review, verify };
        }
        policy
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![1 => preset(), 3 => mixed()]
}

fn throws() -> impl Strategy<Value = Vec<Dice>> {
    let dice = any::<[u16; 6]>().prop_map(Dice::new);
    proptest::collection::vec(dice, EVENTS_MIN..=EVENTS_MAX)
}

/// Applies random events to a ticket, and checks every step.
fn live(policy: Policy, depends: bool, throws: Vec<Dice>) -> (Life, Watch) {
    let first = if depends {
        &["first", "second"][..]
    } else {
        &[]
    };
    let story = Story::created(policy, created(first)).expect("a ticket begins");
    let mut watch = Watch::begin(&story);
    let mut life = Life::new(story);
    for dice in throws {
        let event = life.next(dice);
        let before = life.story.ticket.clone();
        match life.story.take(event.clone()) {
            Ok(()) => watch.after(&before, &event, &life.story),
            Err(_) => assert_eq!(before, life.story.ticket, "a refusal changes nothing"),
        }
    }
    (life, watch)
}

fn assert_survives_writing(ticket: &Ticket, log: &[Event]) {
    let text = serde_json::to_string(ticket).expect("a ticket can be written");
    let read: Ticket = serde_json::from_str(&text).expect("and read");
    assert_eq!(&read, ticket);
    for event in log {
        let text = serde_json::to_string(event).expect("an event can be written");
        let read: Event = serde_json::from_str(&text).expect("and read");
        assert_eq!(&read, event);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_law_holds_in_every_step_of_a_random_life(
        policy in policy(),
        depends in prop::bool::weighted(0.3),
        throws in throws(),
    ) {
        live(policy, depends, throws);
    }

    #[test]
    fn replaying_the_log_gives_the_ticket(
        policy in policy(),
        depends in prop::bool::weighted(0.3),
        throws in throws(),
    ) {
        let (life, _) = live(policy, depends, throws);
        let story = life.story;
        let log = story.log.iter().map(|event| (event, &story.policy));
        let again = replay(&id("t"), log).expect("what was accepted is accepted again");
        prop_assert_eq!(again.as_ref(), Some(&story.ticket));
        assert_survives_writing(&story.ticket, &story.log);
    }
}

/// The generator is useful only if many of its events are accepted.
#[test]
fn random_lives_reach_every_stage_and_accept_every_event() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut stages = std::collections::BTreeSet::new();
    let mut events = std::collections::BTreeSet::new();
    let (mut accepted, mut thrown) = (0, 0);
    for _ in 0..600 {
        let policy = policy().new_tree(&mut runner).expect("a policy").current();
        let dice = throws().new_tree(&mut runner).expect("throws").current();
        thrown += dice.len();
        let (life, watch) = live(policy, thrown % 3 == 0, dice);
        accepted += life.story.log.len();
        stages.extend(watch.stages);
        events.extend(life.story.log.iter().map(|event| event.what.name()));
    }
    println!("{accepted} of {thrown} random events were accepted");
    assert_eq!(stages.len(), flow::Stage::ALL.len(), "{stages:?}");
    assert_eq!(events.len(), crate::table::EVENTS.len(), "{events:?}");
}
