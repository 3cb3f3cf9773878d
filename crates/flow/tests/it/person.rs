//! Decisions of people: the six ways to settle an escalation, waivers, and taking over.

use findings::Severity;
use flow::event::{AnswerOutcome, Choice};
use flow::ledger::FindingStatus;
use flow::policy::{Land, ROUNDS_HARD_CAP, ReviewMode};
use flow::ticket::{ApprovedBy, CheckOutcome, Reason};
use flow::{Actor, EventKind, Policy, Refused, Role, Stage, available_choices};

use crate::story::{
    Story, accept, alias, approves, builder, finding, human, rejects, reviewer, settled,
    submission, verifier,
};

const OVER_RED: Choice = Choice::Accept {
    over_red_checks: true,
};

/// Returns a ticket escalated after three rounds, with one must-fix finding open.
fn exhausted() -> Story {
    let mut story = Story::begin();
    story
        .rejected_round("c1", &["Alpha", "Beta", "Gamma"])
        .built("c2")
        .green()
        .reviewed(rejects(&["Alpha", "Beta"]));
    verify(&mut story, &["F1", "F2"]);
    story.built("c3").green().reviewed(rejects(&["Alpha"]));
    verify(&mut story, &["F1"]);
    assert_eq!(story.stage(), Stage::Escalated);
    story
}

/// Confirms these findings and calls the others fixed.
fn verify(story: &mut Story, confirmed: &[&str]) {
    let by = verifier();
    let lease = story.start("verify", &by);
    let answers = story
        .ticket
        .ledger
        .entries
        .iter()
        .map(|entry| {
            let outcome = if confirmed.contains(&entry.id.as_str()) {
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
        usage: flow::Usage::default(),
    };
    story.tell(&by, what);
}

fn red() -> Story {
    let mut story = Story::begin();
    for n in 0..=story.policy.limits.red_checks_max {
        story.built(&format!("c{n}")).checked(CheckOutcome::Failed);
    }
    assert_eq!(story.stage(), Stage::Escalated);
    story
}

fn reassign(builder: Option<&str>, reviewer: Option<&str>) -> EventKind {
    settled(Choice::Reassign {
        builder: builder.map(str::to_owned),
        reviewer: reviewer.map(str::to_owned),
    })
}

#[test]
fn accept_waives_what_is_open_in_the_persons_name_and_approves() {
    let mut story = exhausted();
    story.tell(&human(), accept());
    assert_eq!(story.stage(), Stage::Approved);
    let entry = &story.ticket.ledger.entries[0];
    assert_eq!(entry.status, FindingStatus::Waived);
    assert_eq!(entry.note.as_ref().unwrap().by, "hugo");
    let by = story.ticket.approval.unwrap().by;
    let ApprovedBy::Person {
        name,
        over_red_checks,
        ..
    } = by
    else {
        panic!("approved by {by:?}")
    };
    assert_eq!((name.as_str(), over_red_checks), ("hugo", false));
}

#[test]
fn accept_over_red_checks_takes_a_second_explicit_word() {
    let mut story = red();
    assert_eq!(story.refused(&human(), accept()), Refused::RedChecks);
    story.tell(&human(), settled(OVER_RED));
    let by = story.ticket.approval.unwrap().by;
    assert!(matches!(
        by,
        ApprovedBy::Person {
            over_red_checks: true,
            ..
        }
    ));
}

#[test]
fn accept_before_the_checks_have_run_takes_the_second_word_too() {
    let mut story = Story::at(Stage::Checking, &Policy::default());
    let limit = "the day's money".to_owned();
    story.tell(&crate::story::house(), EventKind::BudgetReached { limit });
    assert_eq!(story.refused(&human(), accept()), Refused::RedChecks);
}

#[test]
fn accept_needs_a_reason_and_a_commit() {
    let silent = |choice| EventKind::Settled {
        choice,
        why: "  ".to_owned(),
    };
    let story = exhausted();
    assert_eq!(story.refused(&human(), silent(OVER_RED)), Refused::NoReason);
    assert_eq!(
        story.refused(&human(), silent(Choice::Reject)),
        Refused::NoReason
    );

    let mut early = Story::begin();
    let limit = "the day's money".to_owned();
    early.tell(&crate::story::house(), EventKind::BudgetReached { limit });
    assert_eq!(early.refused(&human(), accept()), Refused::NothingToAccept);
}

#[test]
fn nobody_accepts_or_waives_their_own_work() {
    let story = exhausted();
    let own = Refused::OwnWork {
        principal: "bob".to_owned(),
    };
    let waiver = EventKind::Waived {
        finding: "F1".to_owned(),
        why: "I know better".to_owned(),
    };
    for role in [Role::Human, Role::Admin] {
        assert_eq!(story.refused(&alias(role), accept()), own);
        assert_eq!(story.refused(&alias(role), waiver.clone()), own);
    }
}

#[test]
fn a_waiver_closes_one_finding_with_name_and_reason() {
    let mut story = exhausted();
    let waiver = |finding: &str, why: &str| EventKind::Waived {
        finding: finding.to_owned(),
        why: why.to_owned(),
    };
    assert_eq!(story.refused(&human(), waiver("F1", "")), Refused::NoReason);
    assert!(matches!(
        story.refused(&human(), waiver("F9", "why not")),
        Refused::NoSuchFinding { .. }
    ));
    story.tell(&human(), waiver("F1", "internal names only"));
    assert_eq!(story.ticket.ledger.entries[0].status, FindingStatus::Waived);
    assert!(matches!(
        story.refused(&human(), waiver("F1", "again")),
        Refused::NoSuchFinding { .. }
    ));
}

#[test]
fn continue_grants_one_more_round_and_no_two() {
    let mut story = exhausted();
    story.tell(&human(), settled(Choice::Continue));
    assert_eq!(story.stage(), Stage::Rework);
    story.rejected_round("c4", &["Alpha"]);
    assert_eq!(story.stage(), Stage::Escalated);
    assert_eq!(story.ticket.counts.verdicts, 4);
}

#[test]
fn continue_is_gone_at_the_hard_cap() {
    let mut story = exhausted();
    story.tell(&human(), settled(Choice::Continue));
    story.rejected_round("c4", &["Alpha"]);
    story.tell(&human(), settled(Choice::Continue));
    story.rejected_round("c5", &["Alpha"]);
    let verdicts = ROUNDS_HARD_CAP;
    let refused = story.refused(&human(), settled(Choice::Continue));
    assert_eq!(refused, Refused::HardCap { verdicts });
    assert_eq!(
        story.refused(&human(), reassign(Some("betty"), None)),
        Refused::HardCap { verdicts }
    );
    let offered: Vec<&str> = available_choices(&story.ticket, &story.policy)
        .iter()
        .map(Choice::as_str)
        .collect();
    assert_eq!(offered, ["accept", "take-over", "reset", "reject"]);
    let text = refused.to_string();
    for word in ["accept", "take over", "reset", "reject"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("reassign"), "it is not possible: {text}");
}

#[test]
fn reset_starts_the_count_again_but_not_the_numbers_of_rounds_nor_the_money() {
    let mut story = exhausted();
    let spent = story.ticket.spent.ticket;
    story.tell(&human(), settled(Choice::Reset));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.counts.verdicts, 0);
    assert_eq!(story.ticket.round, 4);
    assert_eq!(story.ticket.spent.ticket, spent);
    story.rejected_round("c4", &["Alpha"]);
    assert_eq!(story.stage(), Stage::Rework, "two more rounds are left");
}

#[test]
fn take_over_blocks_until_the_person_resubmits() {
    let mut story = exhausted();
    story.tell(&human(), settled(Choice::TakeOver));
    assert_eq!(story.stage(), Stage::Blocked);
    let what = EventKind::Resubmitted {
        submission: Box::new(submission("by-hand")),
    };
    story.tell(&human(), what);
    assert_eq!(story.stage(), Stage::Checking);
    assert!(story.ticket.authors.contains("hugo"));
    story.green();
    assert_eq!(story.stage(), Stage::Reviewing, "it has earned a review");
    story.reviewed(approves()).verified(AnswerOutcome::Fixed);
    assert_eq!(story.stage(), Stage::Approved);
}

#[test]
fn the_person_who_took_over_cannot_accept_what_they_wrote() {
    let mut story = exhausted();
    story.tell(&human(), settled(Choice::TakeOver));
    let what = EventKind::Resubmitted {
        submission: Box::new(submission("by-hand")),
    };
    story.tell(&human(), what).green();
    let lease = story.start("review", &reviewer());
    let report = story.review_report(lease, rejects(&["Alpha"]));
    story.tell(&reviewer(), report);
    story.verified(AnswerOutcome::Confirmed);
    assert_eq!(story.stage(), Stage::Escalated);
    assert!(matches!(
        story.refused(&human(), accept()),
        Refused::OwnWork { .. }
    ));
    let other = Actor::new("helga", Role::Human);
    story.tell(&other, accept());
}

#[test]
fn resubmitting_at_the_hard_cap_runs_the_checks_and_asks_again() {
    let mut story = exhausted();
    story.tell(&human(), settled(Choice::Continue));
    story.rejected_round("c4", &["Alpha"]);
    story.tell(&human(), settled(Choice::Continue));
    story.rejected_round("c5", &["Alpha"]);
    story.policy.on_exhausted = flow::policy::OnExhausted::Fail;
    story.tell(&human(), settled(Choice::TakeOver));
    let what = EventKind::Resubmitted {
        submission: Box::new(submission("by-hand")),
    };
    story.tell(&human(), what).green();
    assert_eq!(story.stage(), Stage::Escalated, "somebody decides again");
    assert_eq!(story.ticket.counts.verdicts, ROUNDS_HARD_CAP);
}

#[test]
fn reassigning_the_builder_gives_another_round_to_that_builder() {
    let mut story = exhausted();
    story.tell(&human(), reassign(Some("betty"), None));
    assert_eq!(story.stage(), Stage::Rework);
    let [flow::Effect::Enqueue(job)] = story.effects.as_slice() else {
        panic!("one job, not {:?}", story.effects)
    };
    assert_eq!(job.agent.as_deref(), Some("betty"));
}

#[test]
fn another_builder_gets_as_many_red_checks_as_the_first() {
    let mut story = red();
    story.tell(&human(), reassign(Some("betty"), None));
    story.built("d1").checked(CheckOutcome::Failed);
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn reassigning_the_reviewer_puts_the_same_commit_before_another() {
    let mut story = exhausted();
    story.tell(&human(), reassign(None, Some("ruth")));
    assert_eq!(story.stage(), Stage::Reviewing);
    assert_eq!(story.commit(), "c3");
    assert_eq!(story.jobs("review"), 1);
}

#[test]
fn reassigning_needs_a_name_and_not_an_authors() {
    let story = exhausted();
    assert_eq!(
        story.refused(&human(), reassign(None, None)),
        Refused::NobodyNamed
    );
    assert!(matches!(
        story.refused(&human(), reassign(None, Some(&builder().agent))),
        Refused::OwnWork { .. }
    ));
}

#[test]
fn reassigning_the_reviewer_does_not_lead_past_red_checks() {
    let unreviewed = Policy {
        review: ReviewMode::None,
        land: Land::Branch,
        ..Policy::default()
    };
    for policy in [Policy::default(), unreviewed] {
        let mut story = Story::under(policy);
        for n in 0..=story.policy.limits.red_checks_max {
            story.built(&format!("c{n}")).checked(CheckOutcome::Failed);
        }
        story.tell(&human(), reassign(None, Some("ruth")));
        assert_eq!(story.stage(), Stage::Rework);
        assert_eq!(story.ticket.approval, None);
    }
}

#[test]
fn an_approval_does_not_outlive_a_new_review_of_its_commit() {
    let mut story = Story::at(Stage::Merging, &Policy::default());
    let limit = "the day's money".to_owned();
    story.tell(&crate::story::house(), EventKind::BudgetReached { limit });
    story.tell(&human(), reassign(None, Some("ruth")));
    assert_eq!(story.stage(), Stage::Reviewing);
    assert_eq!(story.ticket.approval, None);
}

#[test]
fn reject_fails_the_ticket_with_the_persons_reason() {
    let mut story = exhausted();
    story.tell(&human(), settled(Choice::Reject));
    assert_eq!(story.stage(), Stage::Failed);
    let ended = story.ticket.ended.as_deref();
    assert_eq!(ended, Some("I have looked at it"));
}

#[test]
fn what_is_offered_is_accepted_and_what_is_not_is_refused() {
    let all = [
        settled(OVER_RED),
        settled(Choice::Continue),
        settled(Choice::TakeOver),
        settled(Choice::Reset),
        reassign(Some("betty"), None),
        settled(Choice::Reject),
    ];
    let mut broke = Story::at(Stage::Rework, &Policy::default());
    broke.policy.budget.ticket.usd_micros = Some(0);
    let limit = "the ticket's money".to_owned();
    broke.tell(&crate::story::house(), EventKind::BudgetReached { limit });
    for story in [exhausted(), red(), broke] {
        let offered: Vec<&str> = available_choices(&story.ticket, &story.policy)
            .iter()
            .map(Choice::as_str)
            .collect();
        for what in &all {
            let EventKind::Settled { choice, .. } = what else {
                unreachable!()
            };
            let taken = story.clone().attempt(&human(), what.clone());
            let is_offered = offered.contains(&choice.as_str());
            assert_eq!(taken.is_ok(), is_offered, "{}: {taken:?}", choice.as_str());
        }
    }
}

#[test]
fn help_is_for_a_person_and_asked_by_who_is_at_work() {
    let mut story = Story::at(Stage::Building, &Policy::default());
    let help = EventKind::HelpRequested {
        why: "which greeting?".to_owned(),
        lease: None,
    };
    let stranger = Actor::new("betty", Role::Builder);
    story.refused(&stranger, help.clone());
    story.tell(&builder(), help);
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    let by = "bob".to_owned();
    assert_eq!(reason, &Reason::HelpRequested { by });
    assert!(story.ticket.jobs.is_empty());
    story.tell(&human(), settled(Choice::Continue));
    assert_eq!(story.stage(), Stage::Queued);
}

#[test]
fn whoever_is_not_a_person_settles_nothing() {
    let story = exhausted();
    for role in [Role::Builder, Role::Reviewer, Role::Verifier, Role::Service] {
        let refused = story.refused(&Actor::new("x", role), accept());
        assert!(matches!(refused, Refused::WrongRole { .. }));
    }
}

fn commented(commit: &str, title: &str, must_fix: bool) -> EventKind {
    EventKind::FindingsAdded {
        commit: commit.to_owned(),
        findings: vec![finding(title, Severity::Low)],
        must_fix,
        comments: Vec::new(),
    }
}

#[test]
fn a_persons_must_fix_finding_takes_an_approval_back() {
    let mut story = Story::begin();
    story.built("c1").green().reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
    story.tell(&human(), commented("c1", "The key is in the log", true));
    assert_eq!(story.stage(), Stage::Rework);
    assert!(story.ticket.approval.is_none());
    assert_eq!(story.ticket.approvals_voided.len(), 1);
    assert_eq!(story.jobs("merge"), 0);
    // The next commit needs a verifier's proof, whatever the reviewers say.
    story.built("c2").green().reviewed(approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    story.verified(AnswerOutcome::Fixed);
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(story.ticket.ledger.entries[0].status, FindingStatus::Fixed);
}

#[test]
fn a_persons_minor_finding_is_kept_and_stops_nothing() {
    let mut story = Story::begin();
    story.built("c1").green().reviewed(approves());
    story.tell(&human(), commented("c1", "A shorter name", false));
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(story.ticket.ledger.entries.len(), 1);
}

#[test]
fn a_persons_finding_during_the_review_costs_the_round() {
    let mut story = Story::begin();
    story.built("c1").green();
    story.tell(&human(), commented("c1", "The key is in the log", true));
    assert_eq!(story.stage(), Stage::Reviewing);
    story.reviewed(approves());
    assert_ne!(story.stage(), Stage::Approved);
}

#[test]
fn a_comment_needs_a_finding_and_the_current_commit() {
    let mut story = Story::begin();
    assert_eq!(
        story.refused(&human(), commented("c1", "Too early", true)),
        Refused::NothingToComment
    );
    story.built("c1").green();
    assert!(matches!(
        story.refused(&human(), commented("c0", "Another commit", true)),
        Refused::OtherCommit { .. }
    ));
    let empty = EventKind::FindingsAdded {
        commit: "c1".to_owned(),
        findings: Vec::new(),
        must_fix: true,
        comments: Vec::new(),
    };
    assert_eq!(story.refused(&human(), empty), Refused::NoFindings);
    for by in [builder(), reviewer(), verifier()] {
        assert!(matches!(
            story.refused(&by, commented("c1", "An agent's", true)),
            Refused::WrongRole { .. }
        ));
    }
}

#[test]
fn a_person_takes_a_waiver_back_by_reporting_again() {
    let mut story = exhausted();
    let title = story.ticket.ledger.entries[0].finding.title.clone();
    let waiver = EventKind::Waived {
        finding: "F1".to_owned(),
        why: "internal names only".to_owned(),
    };
    story.tell(&human(), waiver);
    let commit = story
        .ticket
        .submission
        .as_ref()
        .map(|put| put.commit.clone());
    story.tell(
        &human(),
        commented(&commit.unwrap_or_default(), &title, true),
    );
    assert!(story.ticket.ledger.entries[0].status.is_open());
}
