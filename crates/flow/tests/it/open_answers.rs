//! Reviewers that know no other answer than their verdict: it also answers the open findings of
//! earlier rounds.

use findings::{Review, ReviewClaim, Severity};
use flow::event::{AnswerOutcome, FindingReport, ReportedOutcome};
use flow::ledger::FindingStatus;
use flow::narrate::narrate;
use flow::policy::{ReviewerConfig, VerifyNewFindings, VerifyOpenFindings, Votes};
use flow::{Actor, EventKind, Policy, Role, Stage};

use crate::story::{
    Story, approves, builder, finding, house, rejects, review, reviewer, submitted, verifier,
};

fn plain(story: &mut Story, by: &Actor, review: Review) {
    let lease = story.start("review", by);
    let mut what = story.review_report(lease, review);
    if let EventKind::Reviewed { answers_open, .. } = &mut what {
        *answers_open = true;
    }
    story.tell(by, what);
}

/// One round is rejected and the builder has submitted again.
fn reworked(policy: Policy) -> Story {
    let mut story = Story::under(policy);
    story.built("c1").green();
    plain(&mut story, &reviewer(), rejects(&["The end is cut"]));
    assert_eq!(story.stage(), Stage::Rework);
    story.built("c2").green();
    assert_eq!((story.jobs("review"), story.jobs("verify")), (1, 1));
    story
}

fn status(story: &Story, id: &str) -> FindingStatus {
    story.ticket.ledger.get(id).unwrap().status
}

#[test]
fn a_reviewer_alone_takes_a_ticket_through_rework_to_its_approval() {
    for preset in [
        "standard",
        "strict-three",
        "fail-after-three",
        "four-rounds",
    ] {
        let mut story = reworked(Policy::preset(preset).unwrap());
        let before = story.ticket.clone();
        plain(&mut story, &reviewer(), approves());
        assert_eq!(story.stage(), Stage::Approved, "{preset}");
        assert_eq!(status(&story, "F1"), FindingStatus::Fixed);
        let note = story.ticket.ledger.get("F1").unwrap().note.clone().unwrap();
        assert_eq!(note.by, "rita");
        assert!(note.text.contains("no verifier looked"), "{}", note.text);
        let last = story.log.last().unwrap();
        let told = narrate(Some(&before), last, &story.ticket, &story.policy);
        let said = told
            .iter()
            .find(|it| it.activity == "stated_fixed")
            .unwrap();
        let expected = "rita's approval is taken as: finding F1 fixed; no verifier looked";
        assert_eq!(said.text, expected);
    }
}

#[test]
fn a_refusal_leaves_open_findings_open() {
    let mut story = reworked(Policy::default());
    plain(&mut story, &reviewer(), rejects(&["Names are not escaped"]));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(status(&story, "F1"), FindingStatus::NotRepeated);
    assert_eq!(story.ticket.ledger.open_must_fix(&story.policy).len(), 2);
    story.built("c3").green();
    plain(&mut story, &reviewer(), approves());
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(status(&story, "F2"), FindingStatus::Fixed);
}

#[test]
fn what_the_policy_wants_verified_waits_for_a_verifier() {
    for (verify, second_opinion) in [
        (VerifyNewFindings::MustFix, false),
        (VerifyNewFindings::Disputed, true),
    ] {
        let mut story = Story::under(Policy {
            verify: VerifyNewFindings::Never,
            ..Policy::default()
        });
        story.built("c1").green();
        plain(&mut story, &reviewer(), rejects(&["The end is cut"]));
        story.policy.verify = verify;
        story.policy.second_opinion = second_opinion;
        story.built("c2").green();
        plain(&mut story, &reviewer(), approves());
        assert_eq!(story.stage(), Stage::Reviewing);
        assert_eq!(flow::advance::waiting_for_verifier(&story.ticket), ["F1"]);
        story.verified(AnswerOutcome::Fixed);
        assert_eq!(story.stage(), Stage::Approved);
    }
}

#[test]
fn a_disputed_finding_goes_to_a_verifier_and_the_rest_does_not() {
    let mut story = Story::begin();
    story.built("c1").green();
    let found = rejects(&["The end is cut", "Names are not escaped"]);
    plain(&mut story, &reviewer(), found);
    let lease = story.start("build", &builder());
    let mut what = submitted(lease, "c2");
    if let EventKind::Submitted { reports, .. } = &mut what {
        reports.push(FindingReport {
            finding: "F1".to_owned(),
            outcome: ReportedOutcome::Disputed,
            note: "it is not cut".to_owned(),
        });
    }
    story.tell(&builder(), what).green();
    plain(&mut story, &reviewer(), approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    assert_eq!(status(&story, "F2"), FindingStatus::Fixed);
    assert_eq!(flow::advance::waiting_for_verifier(&story.ticket), ["F1"]);
    story.verified(AnswerOutcome::Refuted);
    assert_eq!(story.stage(), Stage::Approved);
}

#[test]
fn a_verifier_at_work_is_waited_for_until_it_falls_silent() {
    let mut story = reworked(Policy::default());
    let lease = story.start("verify", &verifier());
    plain(&mut story, &reviewer(), approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    story.tell(&house(), EventKind::LeaseLost { lease });
    assert_eq!(story.stage(), Stage::Approved);
}

#[test]
fn one_refusal_in_the_panel_closes_nothing() {
    let names = ["one", "two"].map(|name| ReviewerConfig {
        name: name.to_owned(),
        ..ReviewerConfig::default()
    });
    let mut story = Story::under(Policy {
        reviewers: names.to_vec(),
        votes: Votes::Quorum(1),
        ..Policy::default()
    });
    let ruth = Actor::new("ruth", Role::Reviewer);
    story.built("c1").green();
    plain(&mut story, &reviewer(), rejects(&["The end is cut"]));
    plain(&mut story, &ruth, approves());
    assert_eq!(story.stage(), Stage::Rework);
    story.built("c2").green();
    plain(&mut story, &reviewer(), approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    plain(&mut story, &ruth, rejects(&["Names are not escaped"]));
    assert_eq!(story.stage(), Stage::Rework);
    assert!(status(&story, "F1").is_open());
}

#[test]
fn a_finding_that_is_reported_again_is_not_called_fixed() {
    let mut story = reworked(Policy::default());
    let again = finding("The end is cut", Severity::Low);
    plain(
        &mut story,
        &reviewer(),
        review(ReviewClaim::Approved, &[again]),
    );
    assert!(status(&story, "F1").is_open());
    assert_ne!(story.stage(), Stage::Approved);
}

/// A yes to the question about follow-ups is an approval, so it speaks for the open findings too.
#[test]
fn a_refusal_over_minor_findings_is_asked_about_before_it_leaves_findings_open() {
    let mut story = reworked(Policy::default());
    let low = finding("A comment is missing", Severity::Low);
    let minor = review(ReviewClaim::ChangesRequested, &[low]);
    plain(&mut story, &reviewer(), minor);
    assert_eq!(story.stage(), Stage::Reviewing);
    assert!(status(&story, "F1").is_open());
    plain(&mut story, &reviewer(), approves());
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(status(&story, "F1"), FindingStatus::Fixed);
}

#[test]
fn reviews_of_spawned_agents_never_speak_for_open_findings() {
    let mut story = reworked(Policy::default());
    story.reviewed(approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    story.verified(AnswerOutcome::Confirmed);
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn a_verification_before_the_review_is_a_verifiers() {
    let mut story = Story::under(Policy {
        verify_open: VerifyOpenFindings::BeforeReview,
        ..Policy::default()
    });
    story.built("c1").green();
    plain(&mut story, &reviewer(), rejects(&["The end is cut"]));
    story.built("c2").green();
    assert_eq!((story.jobs("review"), story.jobs("verify")), (0, 1));
    story.verified(AnswerOutcome::Fixed);
    plain(&mut story, &reviewer(), approves());
    assert_eq!(story.stage(), Stage::Approved);
}
