//! Budgets are hard: at the limit work stops and a person is asked.

use flow::event::{Choice, Failure, Lease};
use flow::policy::ReviewerConfig;
use flow::ticket::Reason;
use flow::usage::{Budget, Caps};
use flow::{Actor, Effect, EventKind, Policy, Refused, Role, Stage, Usage};

use crate::story::{
    Story, approves, builder, dollars, held, house, human, rejects, reviewer, settled, submitted,
};

fn caps(usd: u64) -> Caps {
    Caps {
        usd_micros: Some(usd * 1_000_000),
        ..Caps::default()
    }
}

fn capped(round: Option<u64>, ticket: Option<u64>) -> Policy {
    Policy {
        budget: Budget {
            round: round.map(caps).unwrap_or_default(),
            ticket: ticket.map(caps).unwrap_or_default(),
            day: Caps::default(),
        },
        ..Policy::default()
    }
}

fn spending(mut what: EventKind, spent: Usage) -> EventKind {
    match &mut what {
        EventKind::Submitted { usage, .. }
        | EventKind::Reviewed { usage, .. }
        | EventKind::JobFailed { usage, .. } => *usage = spent,
        _ => unreachable!("not a paid report"),
    }
    what
}

fn failed(lease: Lease, failure: Failure) -> EventKind {
    EventKind::JobFailed {
        lease,
        failure,
        message: "the connection broke".to_owned(),
        usage: Usage::default(),
    }
}

#[track_caller]
fn assert_broke(story: &Story) {
    let escalation = story.ticket.escalation.as_ref().expect("an escalation");
    assert!(
        matches!(escalation.reason, Reason::Budget { .. }),
        "{escalation:?}"
    );
    assert!(story.ticket.jobs.is_empty());
}

#[test]
fn no_reviewer_is_paid_when_the_builder_has_used_it_all() {
    let mut story = Story::under(capped(None, Some(3)));
    let lease = story.start("build", &builder());
    story.tell(&builder(), spending(submitted(lease, "c1"), dollars(3)));
    assert_eq!(story.stage(), Stage::Checking, "checks cost nothing");
    story.green();
    assert_broke(&story);
}

#[test]
fn no_rework_is_paid_when_the_ticket_has_used_it_all() {
    let mut story = Story::at(Stage::Reviewing, &capped(None, Some(3)));
    let lease = story.start("review", &reviewer());
    let report = story.review_report(lease, rejects(&["Names are not escaped"]));
    story.tell(&reviewer(), spending(report, dollars(4)));
    assert_broke(&story);
}

#[test]
fn an_approval_that_used_it_all_is_an_approval() {
    let mut story = Story::at(Stage::Reviewing, &capped(None, Some(3)));
    let lease = story.start("review", &reviewer());
    let report = story.review_report(lease, approves());
    story.tell(&reviewer(), spending(report, dollars(4)));
    assert_eq!(story.stage(), Stage::Approved);
}

#[test]
fn a_failed_run_that_used_it_all_is_not_tried_again() {
    for failure in [
        Failure::Transient,
        Failure::Quota {
            until: flow::Time(9),
        },
    ] {
        let mut story = Story::at(Stage::Building, &capped(None, Some(3)));
        let lease = held(&story, "build");
        story.tell(&builder(), spending(failed(lease, failure), dollars(3)));
        assert_broke(&story);
        let retried = |effect: &Effect| matches!(effect, Effect::Retry { .. });
        assert!(!story.effects.iter().any(retried));
    }
}

#[test]
fn the_second_reviewer_is_stopped_when_the_first_has_used_it_all() {
    let reviewer_config = |name: &str| ReviewerConfig {
        name: name.to_owned(),
        ..ReviewerConfig::default()
    };
    let policy = Policy {
        reviewers: vec![reviewer_config("one"), reviewer_config("two")],
        ..capped(None, Some(3))
    };
    let mut story = Story::at(Stage::Reviewing, &policy);
    let lease = story.start("review", &reviewer());
    let other = Actor::new("ruth", Role::Reviewer);
    story.start("review", &other);
    let report = story.review_report(lease, approves());
    story.tell(&reviewer(), spending(report, dollars(3)));
    assert_broke(&story);
}

#[test]
fn a_run_that_ends_on_its_own_budget_asks_a_person() {
    let mut story = Story::at(Stage::Building, &Policy::default());
    let lease = held(&story, "build");
    story.tell(&builder(), failed(lease, Failure::Budget));
    assert_broke(&story);
    story.tell(&human(), settled(Choice::Continue));
    assert_eq!(story.stage(), Stage::Queued);
}

#[test]
fn going_on_takes_a_raised_budget() {
    let mut story = Story::at(Stage::Building, &capped(None, Some(3)));
    let lease = held(&story, "build");
    story.tell(&builder(), spending(submitted(lease, "c1"), dollars(3)));
    story.green();
    for choice in [Choice::Continue, Choice::Reset] {
        assert!(matches!(
            story.refused(&human(), settled(choice)),
            Refused::BudgetUsedUp { .. }
        ));
    }
    let raised = EventKind::BudgetRaised {
        budget: capped(None, Some(9)).budget,
        why: "it is worth it".to_owned(),
    };
    story.tell(&human(), raised);
    story.tell(&human(), settled(Choice::Continue));
    assert_eq!(story.stage(), Stage::Reviewing);
}

#[test]
fn a_round_has_a_budget_of_its_own_and_the_next_begins_with_a_full_one() {
    let mut story = Story::at(Stage::Reviewing, &capped(Some(3), None));
    let lease = story.start("review", &reviewer());
    let report = story.review_report(lease, rejects(&["Names are not escaped"]));
    story.tell(&reviewer(), spending(report, dollars(3)));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.spent.round, Usage::default());
    let lease = story.start("build", &builder());
    story.tell(&builder(), spending(submitted(lease, "c2"), dollars(3)));
    story.green();
    assert_broke(&story);
}

#[test]
fn one_more_round_is_not_refused_for_what_the_last_one_used() {
    let policy = Policy {
        max_rounds: 1,
        ..capped(Some(3), None)
    };
    let mut story = Story::at(Stage::Reviewing, &policy);
    let lease = story.start("review", &reviewer());
    let report = story.review_report(lease, rejects(&["Names are not escaped"]));
    story.tell(&reviewer(), spending(report, dollars(3)));
    assert_eq!(story.stage(), Stage::Escalated);
    let offered = flow::available_choices(&story.ticket, &story.policy);
    assert!(offered.contains(&Choice::Continue));
    story.tell(&human(), settled(Choice::Continue));
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn the_days_budget_stops_work_in_any_active_stage() {
    for stage in [
        Stage::Queued,
        Stage::Building,
        Stage::Checking,
        Stage::Reviewing,
        Stage::Rework,
        Stage::Approved,
        Stage::Merging,
    ] {
        let mut story = Story::at(stage, &Policy::default());
        let limit = "$20.00 of $20.00 spent today".to_owned();
        story.tell(&house(), EventKind::BudgetReached { limit });
        assert_broke(&story);
    }
}

#[test]
fn sums_do_not_overflow() {
    let mut story = Story::at(Stage::Building, &Policy::default());
    let most = Usage {
        usd_micros: u64::MAX,
        tokens: u64::MAX,
        wall_ms: u64::MAX,
        estimated_micros: u64::MAX,
        unpriced_runs: u64::MAX,
    };
    for _ in 0..2 {
        let lease = held(&story, "build");
        let what = failed(lease, Failure::Transient);
        story.tell(&builder(), spending(what, most));
        story.start("build", &builder());
    }
    assert_eq!(story.ticket.spent.ticket, most);
}

/// Each kind of cap, with a usage that just reaches it.
fn each_cap() -> [(Caps, Usage); 3] {
    let none = (Caps::default(), Usage::default());
    let mut all = [none; 3];
    (all[0].0.usd_micros, all[0].1.usd_micros) = (Some(3_000_000), 3_000_000);
    (all[1].0.tokens, all[1].1.tokens) = (Some(500), 500);
    (all[2].0.wall_secs, all[2].1.wall_ms) = (Some(60), 60_000);
    all
}

#[test]
fn every_kind_of_cap_stops_the_round_the_ticket_and_the_day() {
    for (cap, used) in each_cap() {
        let none = Budget::default();
        let of_day = Budget { day: cap, ..none };
        for budget in [
            Budget { round: cap, ..none },
            Budget {
                ticket: cap,
                ..none
            },
        ] {
            let policy = Policy {
                budget,
                ..Policy::default()
            };
            let mut story = Story::under(policy);
            let lease = story.start("build", &builder());
            story.tell(&builder(), spending(submitted(lease, "c1"), used));
            story.green();
            assert_broke(&story);
        }
        let policy = Policy {
            budget: of_day,
            ..Policy::default()
        };
        let story = Story::under(policy);
        assert!(flow::exceeded_daily_budget(&story.ticket, &story.policy, used).is_some());
        let less = Usage::default();
        assert!(flow::exceeded_daily_budget(&story.ticket, &story.policy, less).is_none());
    }
}

#[test]
fn a_request_names_its_dollars_once() {
    let read = |usd, micros| Caps::of_request(usd, micros, Some(7), None);
    let caps = Caps {
        usd_micros: Some(2_500_000),
        tokens: Some(7),
        wall_secs: None,
    };
    assert_eq!(read(Some(2.5), None), Ok(caps));
    // The name of the first versions.
    assert_eq!(read(None, Some(2_500_000)), Ok(caps));
    assert!(read(Some(2.5), Some(1)).unwrap_err().contains("keep usd"));
    assert!(read(Some(-1.0), None).is_err());
    assert!(read(Some(f64::NAN), None).is_err());
}

#[test]
fn an_amount_without_all_prices_says_that_it_is_the_least() {
    let known = dollars(1);
    assert_eq!(known.describe_amount(), "$1.00");
    assert_eq!(known.describe_mean(), "about $1.00");
    let partial = known.plus(Usage {
        unpriced_runs: 1,
        ..Usage::default()
    });
    assert_eq!(partial.describe_amount(), "≥ $1.00");
    assert_eq!(partial.describe_mean(), "at least $1.00");
}
