//! `minor_only = "ask"`: a refusal over minor findings is put to the same reviewer once.

use findings::{Review, ReviewClaim, Severity};
use flow::event::{AnswerOutcome, Choice, Failure};
use flow::narrate::describe_approval;
use flow::policy::{Fallback, MinorOnly, ReviewerConfig, VerifyNewFindings, Votes};
use flow::ticket::ApprovedBy;
use flow::{Actor, EventKind, Policy, Refused, Role, Stage, Usage};

use crate::story::{Story, approves, builder, finding, human, review, reviewer, settled};

fn minor() -> Review {
    let low = finding("A comment is missing", Severity::Low);
    review(ReviewClaim::ChangesRequested, &[low])
}

fn reviewing(policy: Policy) -> Story {
    let mut story = Story::under(policy);
    story.built("c1").green();
    story
}

/// A reviewer has refused over a low finding, and is asked.
fn asked() -> Story {
    let mut story = reviewing(Policy::default());
    story.reviewed(minor());
    assert_eq!(story.stage(), Stage::Reviewing);
    assert!(story.ticket.panel[0].is_asked_to_countersign());
    assert_eq!(story.job("review").agent.as_deref(), Some("rita"));
    assert_eq!(story.jobs("review"), 1);
    story
}

fn by(story: &Story) -> &ApprovedBy {
    &story.ticket.approval.as_ref().unwrap().by
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[test]
fn a_yes_countersigns_and_the_first_answer_stays_on_record() {
    let mut story = asked();
    story.reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(
        *by(&story),
        ApprovedBy::Reviewers {
            names: names(&["rita"]),
            refused: Vec::new()
        }
    );
    let reviewer = &story.ticket.rounds[0].panel[0];
    let answer = reviewer.answer.as_ref().unwrap();
    assert_eq!(answer.claim, ReviewClaim::Approved);
    assert_eq!(answer.first_claim, Some(ReviewClaim::ChangesRequested));
    assert_eq!(story.ticket.rounds[0].verdict.follow_ups, ["F1"]);
    assert_eq!(
        describe_approval(&story.ticket).unwrap(),
        "countersigned by rita"
    );
}

#[test]
fn anything_but_a_yes_is_rework_and_is_not_asked_twice() {
    let grave = finding("Names are not escaped", Severity::High);
    let answers = [
        minor(),
        review(ReviewClaim::Unknown, &[]),
        review(ReviewClaim::ChangesRequested, std::slice::from_ref(&grave)),
        review(ReviewClaim::Approved, &[grave]),
    ];
    for answer in answers {
        let mut story = asked();
        story.reviewed(answer.clone());
        assert_eq!(story.stage(), Stage::Rework, "{answer:?}");
        assert_eq!(story.ticket.rounds.len(), 1);
        assert!(!story.ticket.rounds[0].verdict.approved);
    }
    let mut story = asked();
    let lease = story.start("review", &reviewer());
    let why = "it is not in form".to_owned();
    let usage = Usage::default();
    story.tell(&reviewer(), EventKind::ReviewUnusable { lease, why, usage });
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.counts.unusable_reviews, 0);
}

#[test]
fn nobody_answers_for_the_reviewer() {
    let mut story = asked();
    let job = story.job("review");
    let lease = flow::event::Lease {
        serial: job.serial,
        fence: job.fence + 1,
    };
    let other = Actor::new("rolf", Role::Reviewer);
    let refused = story.refused(&other, EventKind::Started { lease });
    assert!(
        matches!(refused, Refused::NotTheReviewer { .. }),
        "{refused}"
    );
    assert!(refused.is_reviewer_ineligible());
    // Its fallback agent cannot answer either.
    story.policy.fallback = Fallback {
        review: Some("rolf".to_owned()),
        ..Fallback::default()
    };
    assert_eq!(
        flow::fallback_agent(&story.ticket, &story.policy, job.serial),
        None
    );
    let lease = story.start("review", &reviewer());
    let failed = EventKind::JobFailed {
        lease,
        failure: Failure::Permanent,
        message: "not logged in".to_owned(),
        usage: Usage::default(),
    };
    story.tell(&reviewer(), failed);
    assert_eq!(story.stage(), Stage::Escalated);
}

#[test]
fn nobody_is_asked_where_a_yes_would_not_help() {
    let policy = Policy {
        reviewers: ["one", "two"].map(reviewer_config).to_vec(),
        ..Policy::default()
    };
    let mut story = reviewing(policy);
    let grave = finding("Names are not escaped", Severity::High);
    story.reviewed_by(&Actor::new("rolf", Role::Reviewer), minor());
    story.reviewed(review(ReviewClaim::ChangesRequested, &[grave]));
    assert_eq!(story.stage(), Stage::Rework);
}

fn reviewer_config(name: &str) -> ReviewerConfig {
    ReviewerConfig {
        name: name.to_owned(),
        ..ReviewerConfig::default()
    }
}

#[test]
fn of_a_panel_each_that_refused_is_asked_and_only_who_approved_is_named() {
    let policy = Policy {
        reviewers: ["one", "two", "three"].map(reviewer_config).to_vec(),
        votes: Votes::Majority,
        ..Policy::default()
    };
    let [ann, ben] = ["ann", "ben"].map(|name| Actor::new(name, Role::Reviewer));
    let mut story = reviewing(policy.clone());
    story.reviewed_by(&ann, approves());
    story.reviewed_by(&ben, approves());
    story.reviewed(minor());
    assert_eq!(story.stage(), Stage::Approved, "outvoted");
    let (two, one) = (names(&["ann", "ben"]), names(&["rita"]));
    let expected = ApprovedBy::Reviewers {
        names: two,
        refused: one,
    };
    assert_eq!(*by(&story), expected);
    assert_eq!(
        describe_approval(&story.ticket).unwrap(),
        "countersigned by ann, ben; approved by policy, reviewer refused: rita"
    );

    let mut story = reviewing(policy);
    story.reviewed_by(&ann, approves());
    story.reviewed_by(&ben, minor());
    story.reviewed(minor());
    assert_eq!(story.jobs("review"), 2, "both are asked");
    story.reviewed_by(&ben, approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    story.reviewed(minor());
    assert_eq!(story.stage(), Stage::Approved);
    assert!(
        describe_approval(&story.ticket)
            .unwrap()
            .starts_with("countersigned by ann, ben;")
    );
}

/// A reviewer that refused is not named if the policy overrules it, nor if a verifier refuted all
/// its findings.
#[test]
fn an_approval_over_a_refusal_says_so() {
    let policy = Policy {
        minor_only: MinorOnly::Approve,
        ..Policy::default()
    };
    let mut story = reviewing(policy);
    story.reviewed(minor());
    assert_eq!(story.stage(), Stage::Approved);
    let said = "approved by policy, reviewer refused: rita";
    assert_eq!(describe_approval(&story.ticket).unwrap(), said);

    let policy = Policy {
        verify: VerifyNewFindings::MustFix,
        ..Policy::default()
    };
    let mut story = reviewing(policy);
    let grave = finding("Names are not escaped", Severity::High);
    story.reviewed(review(ReviewClaim::ChangesRequested, &[grave]));
    story.verified(AnswerOutcome::Refuted);
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(describe_approval(&story.ticket).unwrap(), said);
    let report = flow::export::round_report(&story.ticket, None).unwrap();
    assert_eq!(report["reviewer"], "policy, reviewer refused: rita");
}

/// An interrupted review withdrew the approval; the same tree does not get it from the record.
#[test]
fn a_reviewer_that_took_its_yes_back_is_not_named_by_an_earlier_round() {
    let policy = Policy {
        reviewers: ["one", "two"].map(reviewer_config).to_vec(),
        ..Policy::default()
    };
    let (rolf, human) = (Actor::new("rolf", Role::Reviewer), human());
    let refuses = |title: &str| {
        let grave = finding(title, Severity::High);
        review(ReviewClaim::ChangesRequested, &[grave])
    };
    let help = || EventKind::HelpRequested {
        lease: None,
        why: "stuck".to_owned(),
    };
    let waived = |id: &str| EventKind::Waived {
        finding: id.to_owned(),
        why: "not so bad".to_owned(),
    };
    let mut story = reviewing(policy);
    story.reviewed_by(&rolf, approves());
    story.reviewed(refuses("Names are not escaped"));
    story.start("build", &builder());
    story.tell(&builder(), help()).tell(&human, waived("F1"));
    let reviewer_again = settled(Choice::Reassign {
        builder: None,
        reviewer: Some("rolf".to_owned()),
    });
    story.tell(&human, reviewer_again);
    story.reviewed_by(&rolf, refuses("The end is cut"));
    story.start("review", &reviewer());
    story.tell(&reviewer(), help()).tell(&human, waived("F2"));
    story.tell(&human, settled(Choice::TakeOver));
    let submission = Box::new(story.ticket.submission.clone().unwrap());
    story
        .tell(&human, EventKind::Resubmitted { submission })
        .green();
    assert_eq!(
        story.stage(),
        Stage::Reviewing,
        "{:?}",
        story.ticket.approval
    );
    assert_eq!(story.jobs("review"), 2);
}

/// Approvals of earlier versions named every reviewer of the round.
#[test]
fn an_old_record_names_nobody_who_refused() {
    let policy = Policy {
        minor_only: MinorOnly::Approve,
        ..Policy::default()
    };
    let mut story = reviewing(policy);
    story.reviewed(minor());
    let replayed = story.ticket.clone();
    let mut old = story.ticket.clone();
    old.approval.as_mut().unwrap().by = ApprovedBy::Reviewers {
        names: names(&["rita"]),
        refused: Vec::new(),
    };
    let said = describe_approval(&old).unwrap();
    assert_eq!(said, "approved by policy, reviewer refused: rita");
    assert_eq!(old.without_refusing_approvers(), replayed);
}

/// A policy stored before the key had this default keeps its behaviour and its id.
#[test]
fn a_stored_policy_keeps_its_value() {
    let policy = Policy {
        minor_only: MinorOnly::Approve,
        ..Policy::default()
    };
    let text = serde_json::to_string(&policy).unwrap();
    assert!(text.contains(r#""minor_only":"approve""#));
    let read: Policy = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (read.id(), read.minor_only),
        (policy.id(), MinorOnly::Approve)
    );
    let without: Policy = serde_json::from_str("{}").unwrap();
    assert_eq!(without.minor_only, MinorOnly::Ask);
}
