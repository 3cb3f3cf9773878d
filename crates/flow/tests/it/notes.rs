//! Notes, which are findings under the policy's threshold of confidence: they are kept and shown,
//! block nothing and cost no round, and a refusal over notes alone does not become an approval.

use findings::{Finding, Review, ReviewClaim, Severity};
use flow::event::AnswerOutcome;
use flow::ledger::FindingStatus;
use flow::narrate::describe_approval;
use flow::policy::{Confidence, MinorOnly, VerifyNewFindings};
use flow::ticket::Reason;
use flow::{Policy, Stage, replay};
use proptest::prelude::*;

use crate::story::{Story, approves, finding, id, rejects, review};

const TITLES: [&str; 4] = [
    "Names are not escaped",
    "The end is cut",
    "A lock is held too long",
    "The port is ignored",
];
const MINOR: [MinorOnly; 3] = [MinorOnly::Ask, MinorOnly::Approve, MinorOnly::Rework];

fn sure_of(title: &str, severity: Severity, percent: u8) -> Finding {
    Finding {
        confidence: Some(percent),
        ..finding(title, severity)
    }
}

fn doubtful(severity: Severity) -> Finding {
    sure_of("The cache may grow without bound", severity, 30)
}

fn refuses(findings: &[Finding]) -> Review {
    review(ReviewClaim::ChangesRequested, findings)
}

fn under(minor_only: MinorOnly) -> Policy {
    Policy {
        minor_only,
        ..Policy::default()
    }
}

/// Returns the ticket after one review of its first commit.
fn after(policy: &Policy, given: Review) -> Story {
    let mut story = Story::under(policy.clone());
    story.built("c1").green().reviewed(given);
    story
}

fn is_asked(story: &Story) -> bool {
    story.stage() == Stage::Reviewing && story.ticket.panel[0].is_asked_to_countersign()
}

#[test]
fn a_sure_finding_costs_a_round_and_a_doubtful_one_is_a_note() {
    let sure = sure_of("Names are not escaped", Severity::High, 90);
    let story = after(
        &Policy::default(),
        refuses(&[sure, doubtful(Severity::High)]),
    );
    assert_eq!(story.stage(), Stage::Rework);
    let verdict = &story.ticket.rounds[0].verdict;
    assert_eq!(verdict.open_must_fix, 1);
    assert_eq!(verdict.notes, ["F2"]);
    assert!(verdict.follow_ups.is_empty());
    let feedback = flow::brief::feedback(&story.ticket, &story.policy).unwrap();
    let (must, notes) = feedback.split_once("## Notes of low confidence").unwrap();
    assert!(
        must.contains("**F1**") && !must.contains("F2"),
        "{feedback}"
    );
    assert!(notes.contains("- F2 "), "{feedback}");
}

#[test]
fn a_finding_without_a_confidence_counts() {
    let story = after(&Policy::default(), rejects(&["Names are not escaped"]));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.rounds[0].verdict.open_must_fix, 1);
}

#[test]
fn an_approval_with_a_note_is_an_approval() {
    let given = review(ReviewClaim::Approved, &[doubtful(Severity::Critical)]);
    let weighed =
        flow::review_validity::downgrade_contradicted_approval(given.clone(), &Policy::default());
    assert_eq!(weighed.claim, ReviewClaim::Approved);
    let story = after(&Policy::default(), weighed);
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(story.ticket.rounds[0].verdict.notes, ["F1"]);
    let off = Policy {
        min_confidence: Confidence::NONE,
        ..Policy::default()
    };
    assert_eq!(
        flow::review_validity::downgrade_contradicted_approval(given, &off).claim,
        ReviewClaim::ChangesRequested
    );
}

#[test]
fn a_refusal_over_notes_alone_is_asked_once_and_then_put_to_a_person() {
    for minor_only in MINOR {
        let policy = under(minor_only);
        let refusal = refuses(&[doubtful(Severity::High)]);
        let mut story = after(&policy, refusal.clone());
        assert!(is_asked(&story), "{minor_only:?}: {}", story.stage());
        story.reviewed(approves());
        assert_eq!(story.stage(), Stage::Approved);
        assert_eq!(
            describe_approval(&story.ticket).unwrap(),
            "countersigned by rita"
        );

        let mut story = after(&policy, refusal.clone());
        story.reviewed(refusal);
        assert_eq!(story.stage(), Stage::Escalated, "{minor_only:?}");
        let reason = &story.ticket.escalation.as_ref().unwrap().reason;
        let findings = vec!["F1".to_owned()];
        assert_eq!(*reason, Reason::RefusedOverNotes { findings });
        assert!(story.ticket.approval.is_none());
    }
}

#[test]
fn beside_a_minor_finding_the_rule_for_minor_findings_holds() {
    let both = || {
        let low = sure_of("A comment is missing", Severity::Low, 90);
        refuses(&[low, doubtful(Severity::High)])
    };
    assert!(is_asked(&after(&under(MinorOnly::Ask), both())));
    // The policy would approve despite the minor finding; because of the note it asks first.
    assert!(is_asked(&after(&under(MinorOnly::Approve), both())));
    let story = after(&under(MinorOnly::Rework), both());
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn what_is_left_of_a_refusal_after_a_verifier_is_not_overruled() {
    let policy = Policy {
        verify: VerifyNewFindings::MustFix,
        ..Policy::default()
    };
    let sure = sure_of("Names are not escaped", Severity::High, 90);
    let mut story = after(&policy, refuses(&[sure, doubtful(Severity::High)]));
    story.verified(AnswerOutcome::Refuted);
    assert!(is_asked(&story));
}

#[test]
fn a_note_becomes_a_finding_when_somebody_is_sure_and_never_the_other_way() {
    let title = "Names are not escaped";
    let mut story = after(&Policy::default(), {
        let other = sure_of("The end is cut", Severity::High, 90);
        refuses(&[other, sure_of(title, Severity::High, 30)])
    });
    story.built("c2").green();
    story.verified(AnswerOutcome::Fixed);
    story.reviewed(refuses(&[sure_of(title, Severity::High, 80)]));
    let entries = &story.ticket.ledger.entries;
    assert_eq!(entries[1].status, FindingStatus::Duplicate);
    assert!(!entries[2].low_confidence);
    assert_eq!(story.ticket.rounds[1].verdict.open_must_fix, 1);
    assert!(story.ticket.rounds[1].verdict.notes.is_empty());

    // A report of low confidence in the next round neither closes nor softens it.
    story.built("c3").green();
    story.verified(AnswerOutcome::Confirmed);
    story.reviewed(refuses(&[sure_of(title, Severity::Low, 10)]));
    let entry = &story.ticket.ledger.entries[2];
    assert!(entry.status.is_open() && entry.is_must_fix(&story.policy));
    assert_eq!(entry.severity(), Severity::High);
}

#[test]
fn a_doubtful_report_does_not_reopen_what_was_fixed() {
    let mut story = after(&Policy::default(), rejects(&["Names are not escaped"]));
    story.built("c2").green();
    story.verified(AnswerOutcome::Fixed);
    let again = sure_of("Names are not escaped", Severity::High, 20);
    story.reviewed(review(ReviewClaim::Approved, &[again]));
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(story.ticket.ledger.entries[0].status, FindingStatus::Fixed);
    assert_eq!(story.ticket.rounds[1].verdict.notes, ["F2"]);
}

/// Policies and tickets from before the threshold existed still load.
#[test]
fn an_old_policy_has_no_threshold_and_keeps_its_identity() {
    let mut old = serde_json::to_value(Policy::default()).unwrap();
    old.as_object_mut()
        .unwrap()
        .remove("min_confidence")
        .unwrap();
    let read: Policy = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(read.min_confidence, Confidence::NONE);
    assert_eq!(serde_json::to_value(&read).unwrap(), old);
    let story = after(&read, refuses(&[doubtful(Severity::High)]));
    assert_eq!(story.stage(), Stage::Rework);
    let text = serde_json::to_string(&story.ticket).unwrap();
    assert!(
        !text.contains("low_confidence") && !text.contains("\"notes\":["),
        "{text}"
    );
    let log = story.log.iter().map(|event| (event, &read));
    assert_eq!(replay(&id("t"), log).unwrap().as_ref(), Some(&story.ticket));
}

fn some_finding() -> impl Strategy<Value = Finding> {
    let confidence = prop_oneof![1 => Just(None), 3 => (0..=100_u8).prop_map(Some)];
    (
        proptest::sample::select(&TITLES[..]),
        proptest::sample::select(&Severity::ALL[..]),
        confidence,
    )
        .prop_map(|(title, severity, confidence)| Finding {
            confidence,
            ..finding(title, severity)
        })
}

/// Findings with different titles, so that no two are linked.
fn some_findings() -> impl Strategy<Value = Vec<Finding>> {
    proptest::collection::vec(some_finding(), 0..5).prop_map(|mut all| {
        all.sort_by(|a, b| a.title.cmp(&b.title));
        all.dedup_by(|a, b| a.title == b.title);
        all
    })
}

fn some_policy() -> impl Strategy<Value = Policy> {
    (proptest::sample::select(&MINOR[..]), 0..=100_u8).prop_map(|(minor_only, least)| Policy {
        min_confidence: Confidence::of_percent(least),
        ..under(minor_only)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A stated confidence never turns a refusal into an approval: only its reviewer's yes does, or
    /// a policy that approves despite minor findings of high confidence.
    #[test]
    fn a_refusal_with_a_note_is_never_approved_by_itself(
        policy in some_policy(),
        found in some_findings(),
    ) {
        let notes = found.iter().filter(|one| policy.is_note(one)).count();
        let must = found.iter().any(|one| {
            !policy.is_note(one) && policy.must_fix.contains(&one.rating.severity)
        });
        let story = after(&policy, refuses(&found));
        if notes > 0 {
            prop_assert_ne!(story.stage(), Stage::Approved);
        }
        // Without a must-fix finding no builder works because of notes alone.
        if notes == found.len() && notes > 0 {
            prop_assert!(is_asked(&story), "{}", story.stage());
            let mut refused = after(&policy, refuses(&found));
            refused.reviewed(refuses(&found));
            prop_assert_eq!(refused.stage(), Stage::Escalated);
        }
        if must {
            prop_assert_eq!(story.stage(), Stage::Rework);
        }
    }

    /// Notes change neither an approval nor the must-fix findings.
    #[test]
    fn a_verdict_is_the_same_without_its_notes(
        policy in some_policy(),
        found in some_findings(),
    ) {
        let sure: Vec<Finding> = found.iter().filter(|one| !policy.is_note(one)).cloned().collect();
        let with = after(&policy, flow::review_validity::downgrade_contradicted_approval(review(ReviewClaim::Approved, &found), &policy));
        let without = after(&policy, flow::review_validity::downgrade_contradicted_approval(review(ReviewClaim::Approved, &sure), &policy));
        prop_assert_eq!(with.stage(), without.stage());
        let last = |story: &Story| story.ticket.rounds.last().map(|round| {
            (round.verdict.approved, round.verdict.open_must_fix, round.verdict.follow_ups.len())
        });
        prop_assert_eq!(last(&with), last(&without));
        let notes = with.ticket.ledger.notes().len();
        prop_assert_eq!(notes, found.len() - sure.len());
    }

    /// Without a threshold a confidence decides nothing.
    #[test]
    fn without_a_threshold_confidence_is_only_shown(
        minor_only in proptest::sample::select(&MINOR[..]),
        found in some_findings(),
        approves in any::<bool>(),
    ) {
        let policy = Policy { min_confidence: Confidence::NONE, ..under(minor_only) };
        let claim = if approves { ReviewClaim::Approved } else { ReviewClaim::ChangesRequested };
        let bare: Vec<Finding> = found.iter().cloned().map(|one| Finding { confidence: None, ..one }).collect();
        let (with, without) = (after(&policy, review(claim, &found)), after(&policy, review(claim, &bare)));
        prop_assert_eq!(with.stage(), without.stage());
        prop_assert!(with.ticket.ledger.notes().is_empty());
    }
}
