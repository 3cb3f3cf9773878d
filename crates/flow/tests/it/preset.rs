//! The numbers of the policy presets.

use findings::{ReviewClaim, Severity};
use flow::policy::{Land, Minimums, MinorOnly, OnExhausted, ROUNDS_HARD_CAP, Weights};
use flow::{Policy, Stage};

use crate::story::{Story, finding, review};

fn preset(name: &str) -> Policy {
    Policy::preset(name).expect(name)
}

/// Counts the verdicts of a ticket until the loop ends, if reviewers never approve.
fn verdicts_until_the_end(policy: Policy) -> (u32, Stage) {
    const TITLES: [&str; 6] = ["Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta"];
    let mut story = Story::under(policy);
    for round in 0..9 {
        if matches!(story.stage(), Stage::Escalated | Stage::Failed) {
            break;
        }
        story.built(&format!("c{round}")).green();
        if story.jobs("verify") > 0 {
            story.verified(flow::event::AnswerOutcome::Fixed);
        }
        let left = TITLES.len() - round;
        let fresh: Vec<_> = TITLES[..left]
            .iter()
            .map(|title| finding(&format!("{title} {round}"), Severity::High))
            .collect();
        story.reviewed(review(ReviewClaim::ChangesRequested, &fresh));
    }
    (story.ticket.counts.verdicts, story.stage())
}

#[test]
fn every_preset_is_possible() {
    for name in Policy::PRESETS {
        assert_eq!(preset(name).problems(), Vec::<String>::new(), "{name}");
    }
    assert_eq!(Policy::preset("nothing of the kind"), None);
}

#[test]
fn the_seeds_end_after_three_verdicts_and_003_after_four() {
    let rows = [
        ("standard", 3, Stage::Escalated),
        ("sergeant", 3, Stage::Escalated),
        ("queue", 3, Stage::Escalated),
        ("scored", 3, Stage::Failed),
        ("supervisor", 4, Stage::Escalated),
        ("story", 3, Stage::Escalated),
    ];
    for (name, verdicts, stage) in rows {
        let end = verdicts_until_the_end(preset(name));
        assert_eq!(end, (verdicts, stage), "{name}");
    }
}

#[test]
fn sergeant_sends_back_for_minor_findings() {
    assert_eq!(preset("sergeant").minor_only, MinorOnly::Rework);
    assert_eq!(preset("standard").minor_only, MinorOnly::Ask);
}

#[test]
fn queue_has_the_defaults_of_001() {
    let limits = preset("queue").limits;
    assert_eq!(limits.retries_max, 5);
    assert_eq!(limits.build_secs, 1_800);
    assert_eq!(limits.heartbeat_secs, 600);
}

#[test]
fn scored_has_the_numbers_of_002() {
    let policy = preset("scored");
    assert_eq!(policy.max_rounds, 3);
    assert_eq!(policy.on_exhausted, OnExhausted::Fail);
    assert_eq!(policy.overall_minimum, 75);
    assert_eq!(
        policy.minimums,
        Minimums {
            critical: Some(90),
            important: Some(70),
            moderate: None
        }
    );
    assert_eq!(
        policy.weights,
        Weights {
            critical: 3,
            important: 2,
            moderate: 1
        }
    );
    assert_eq!(policy.limits.review_secs, 120);
    assert_eq!(policy.dimensions.len(), 6);
}

#[test]
fn story_leaves_the_branch_where_it_is() {
    assert_eq!(preset("story").land, Land::Branch);
}

#[test]
fn the_hard_cap_is_five() {
    assert_eq!(ROUNDS_HARD_CAP, 5);
}

#[test]
fn impossible_policies_are_named_with_what_to_write_instead() {
    type Spoil = fn(&mut Policy);
    let broken: [(&str, Spoil); 9] = [
        ("max_rounds", |p| p.max_rounds = 0),
        ("max_rounds", |p| p.max_rounds = 6),
        ("reviewers", |p| p.reviewers.clear()),
        ("must_fix", |p| p.must_fix.clear()),
        ("overall_minimum", |p| p.overall_minimum = 101),
        ("quorum", |p| p.votes = flow::policy::Votes::Quorum(2)),
        ("weights", |p| p.weights.critical = u32::MAX),
        ("findings_max", |p| p.limits.findings_max = 0),
        ("lease_secs", |p| p.limits.lease_secs = 0),
    ];
    for (word, spoil) in broken {
        let mut policy = Policy::default();
        spoil(&mut policy);
        let problems = policy.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(word), "{problems:?}");
    }
}

#[test]
fn equal_policies_have_the_same_name_and_others_another() {
    assert_eq!(preset("standard").id(), Policy::default().id());
    assert_ne!(preset("scored").id(), Policy::default().id());
}
