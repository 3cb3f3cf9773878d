//! Rounds: what costs one, when they end, and what follows.

use findings::{ReviewClaim, Severity};
use flow::event::{AnswerOutcome, Choice};
use flow::policy::{Limits, OnExhausted, ROUNDS_HARD_CAP};
use flow::ticket::{CheckOutcome, Reason};
use flow::{EventKind, Policy, Stage, Usage};

use crate::story::{Story, approves, finding, house, human, rejects, review, reviewer};

fn reason(story: &Story) -> &Reason {
    &story
        .ticket
        .escalation
        .as_ref()
        .expect("an escalation")
        .reason
}

/// Rejects once for each number, with that many open must-fix findings after the verdict.
fn lived(policy: Policy, open: &[usize]) -> Story {
    const TITLES: [&str; 5] = ["Alpha", "Beta", "Gamma", "Delta", "Epsilon"];
    let mut story = Story::under(policy);
    for (round, count) in open.iter().enumerate() {
        story.built(&format!("c{round}")).green();
        if story.jobs("verify") > 0 {
            verify_down_to(&mut story, *count);
        }
        story.reviewed(rejects(&TITLES[..*count]));
    }
    story
}

/// Calls all but the first `keep` open findings fixed.
fn verify_down_to(story: &mut Story, keep: usize) {
    let entries = story.ticket.ledger.entries.clone();
    let lease = story.start("verify", &crate::story::verifier());
    let answers = entries
        .iter()
        .enumerate()
        .map(|(n, entry)| {
            let outcome = if n < keep {
                AnswerOutcome::Confirmed
            } else {
                AnswerOutcome::Fixed
            };
            crate::story::answer(&entry.id, outcome)
        })
        .collect();
    let what = EventKind::Verified {
        lease,
        commit: story.commit(),
        answers,
        usage: Usage::default(),
    };
    story.tell(&crate::story::verifier(), what);
}

#[test]
fn a_rejection_in_the_last_round_asks_a_person() {
    let story = lived(Policy::default(), &[3, 2, 1]);
    assert_eq!(story.stage(), Stage::Escalated);
    assert_eq!(reason(&story), &Reason::RoundsUsedUp { rounds: 3 });
}

#[test]
fn a_rejection_before_the_last_round_is_rework() {
    let story = lived(Policy::default(), &[3, 2]);
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.round, 3);
}

#[test]
fn must_fix_findings_that_do_not_fall_over_three_verdicts_ask_a_person() {
    let longer = Policy {
        max_rounds: 5,
        ..Policy::default()
    };
    for stuck in [&[1, 1, 1][..], &[1, 2, 3], &[3, 2, 2, 2]] {
        let story = lived(longer.clone(), stuck);
        assert!(
            matches!(reason(&story), Reason::NoProgress { .. }),
            "{stuck:?}"
        );
    }
    for moving in [&[1, 1][..], &[3, 2, 2], &[2, 2, 1]] {
        let story = lived(longer.clone(), moving);
        assert_eq!(story.stage(), Stage::Rework, "{moving:?}");
    }
}

#[test]
fn a_finding_that_was_fixed_and_comes_back_asks_a_person() {
    let longer = Policy {
        max_rounds: 5,
        ..Policy::default()
    };
    let mut story = lived(longer, &[2, 1]);
    story.built("c3").green();
    story.verified(AnswerOutcome::Confirmed);
    story.reviewed(rejects(&["Alpha", "Beta"]));
    let findings = vec!["F2".to_owned()];
    assert_eq!(reason(&story), &Reason::FindingCameBack { findings });
}

#[test]
fn red_checks_cost_no_round_but_are_bounded() {
    let mut story = Story::begin();
    for attempt in 1..=3 {
        story
            .built(&format!("c{attempt}"))
            .checked(CheckOutcome::Failed);
        assert_eq!(story.stage(), Stage::Rework);
        assert_eq!(story.ticket.round, 1);
        assert_eq!(story.ticket.counts.verdicts, 0);
    }
    story.built("c4").checked(CheckOutcome::TimedOut);
    assert_eq!(reason(&story), &Reason::RedChecks { times: 4 });
}

#[test]
fn an_unchanged_commit_after_red_checks_is_not_checked_again() {
    let mut story = Story::begin();
    story.built("c1").checked(CheckOutcome::Failed);
    for times in 2..=3 {
        story.built("c1");
        assert_eq!(story.stage(), Stage::Rework);
        assert_eq!(story.ticket.counts.red_checks, times);
    }
    story.built("c1");
    assert_eq!(reason(&story), &Reason::RedChecks { times: 4 });
    // A person may have mended the cause outside of the commit.
    let what = EventKind::Settled {
        choice: Choice::Continue,
        why: String::new(),
    };
    story.tell(&human(), what);
    story.built("c1");
    assert_eq!(story.stage(), Stage::Checking);
}

#[test]
fn three_unusable_reviews_ask_a_person() {
    let mut story = Story::at(Stage::Reviewing, &Policy::default());
    for attempt in 1..=3 {
        assert_eq!(story.stage(), Stage::Reviewing, "before attempt {attempt}");
        story.reviewed(review(ReviewClaim::Unknown, &[]));
    }
    assert_eq!(reason(&story), &Reason::NoUsableReview { attempts: 3 });
    assert_eq!(story.ticket.counts.verdicts, 0);
}

#[test]
fn a_reviewer_that_ends_without_an_answer_is_replaced_too() {
    let mut story = Story::at(Stage::Reviewing, &Policy::default());
    for _ in 0..3 {
        let lease = story.start("review", &reviewer());
        let why = "it wrote nothing".to_owned();
        let usage = Usage::default();
        story.tell(&house(), EventKind::ReviewUnusable { lease, why, usage });
    }
    assert_eq!(story.stage(), Stage::Escalated);
}

#[test]
fn a_policy_that_fails_says_after_how_many_revisions() {
    let policy = Policy {
        on_exhausted: OnExhausted::Fail,
        ..Policy::default()
    };
    let story = lived(policy, &[3, 2, 1]);
    assert_eq!(story.stage(), Stage::Failed);
    let ended = story.ticket.ended.as_deref();
    assert_eq!(ended, Some("Review failed after 2 revisions"));
}

#[test]
fn a_policy_that_fails_does_not_fail_what_the_last_review_approved() {
    let policy = Policy {
        on_exhausted: OnExhausted::Fail,
        max_rounds: 1,
        ..Policy::default()
    };
    let mut story = Story::at(Stage::Merging, &policy);
    let lease = crate::story::held(&story, "merge");
    let what = EventKind::Conflicted {
        lease,
        files: vec!["src/greet.rs".to_owned()],
        evidence: "both changed line 3".to_owned(),
        usage: Usage::default(),
    };
    story.tell(&house(), what);
    assert_eq!(reason(&story), &Reason::RoundsUsedUp { rounds: 1 });
}

#[test]
fn an_impossible_number_of_rounds_still_stops_at_the_hard_cap() {
    let endless = Policy {
        max_rounds: 1_000,
        limits: Limits::default(),
        ..Policy::default()
    };
    assert!(!endless.problems().is_empty());
    let story = lived(endless, &[5, 4, 3, 2, 1]);
    let rounds = ROUNDS_HARD_CAP;
    assert_eq!(reason(&story), &Reason::RoundsUsedUp { rounds });
}

#[test]
fn a_rework_round_knows_the_findings_and_the_approval_ends_them() {
    let mut story = lived(Policy::default(), &[1]);
    story
        .built("c2")
        .green()
        .verified(AnswerOutcome::Fixed)
        .reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(story.ticket.rounds.len(), 2);
    assert_eq!(story.ticket.rework_reason, None);
}

#[test]
fn a_dispute_keeps_a_finding_open_until_a_verifier_refutes_it() {
    let mut story = lived(Policy::default(), &[1]);
    let lease = story.start("build", &crate::story::builder());
    let mut what = crate::story::submitted(lease, "c2");
    if let EventKind::Submitted { reports, .. } = &mut what {
        reports.push(flow::event::FindingReport {
            finding: "F1".to_owned(),
            outcome: flow::event::ReportedOutcome::Disputed,
            note: "names never come from outside".to_owned(),
        });
    }
    story.tell(&crate::story::builder(), what);
    assert!(story.ticket.ledger.entries[0].status.is_open());
    let low = finding("A comment is missing", Severity::Low);
    story
        .green()
        .reviewed(review(ReviewClaim::Approved, &[low]));
    story.verified(AnswerOutcome::Refuted);
    assert_eq!(story.stage(), Stage::Approved);
}
