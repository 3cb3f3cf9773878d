//! The verdict: computed from findings, scores, votes and checks, whatever a reviewer claims.

use findings::{BlockingIssue, Review, ReviewClaim, Severity};
use flow::event::{AnswerOutcome, Choice, Lease};
use flow::ledger::FindingStatus;
use flow::policy::{
    Gates, MinorOnly, RedOnBase, ReviewerConfig, VerifyNewFindings, Votes, Weights,
};
use flow::ticket::{CheckOutcome, CheckResult};
use flow::verdict::{Verdict, compute_verdict};
use flow::{Actor, EventKind, Policy, Refused, Role, Stage, Usage};

use crate::story::{
    Story, approves, builder, check, finding, held, human, rejects, review, reviewer, scores,
    settled,
};

fn reviewing(policy: &Policy) -> Story {
    Story::at(Stage::Reviewing, policy)
}

fn decided(policy: &Policy, review: Review) -> Story {
    let mut story = reviewing(policy);
    story.reviewed(review);
    story
}

fn last(story: &Story) -> &Verdict {
    &story.ticket.rounds.last().expect("a verdict").verdict
}

fn failed_gates(story: &Story) -> Vec<&str> {
    let gates = last(story).gates.iter();
    gates
        .filter(|gate| !gate.passed)
        .map(|gate| gate.name.as_str())
        .collect()
}

fn blocking(message: &str) -> BlockingIssue {
    BlockingIssue {
        dimension: None,
        message: message.to_owned(),
        required_action: None,
    }
}

#[test]
fn json_approve_with_a_critical_finding_is_no_approval() {
    let critical = finding("The password is logged", Severity::Critical);
    let story = decided(
        &Policy::default(),
        review(ReviewClaim::Approved, &[critical]),
    );
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(failed_gates(&story), ["no open must-fix"]);
    let shown = last(&story).disagreement.as_deref().unwrap();
    assert!(
        shown.starts_with("rita approved, but the must-fix finding F1 is open"),
        "{shown}"
    );
}

#[test]
fn each_gate_alone_holds_a_ticket_up() {
    let high = finding("Names are not escaped", Severity::High);
    let rows = [
        ("no open must-fix", review(ReviewClaim::Approved, &[high])),
        (
            "dimension minimums",
            scores(&[("requirement_adherence", 89), ("code_quality", 100)]),
        ),
        (
            "overall score",
            Review {
                overall_score: Some(74),
                ..approves()
            },
        ),
    ];
    for (gate, given) in rows {
        let story = decided(&Policy::default(), given);
        assert_eq!(story.stage(), Stage::Rework, "{gate}");
        assert_eq!(failed_gates(&story), [gate]);
    }
}

#[test]
fn a_gate_that_is_off_holds_nothing_up() {
    let off = |change: fn(&mut Gates)| {
        let mut policy = Policy::default();
        change(&mut policy.gates);
        policy
    };
    let high = finding("Names are not escaped", Severity::High);
    let rows = [
        (
            off(|gates| gates.no_open_must_fix = false),
            review(ReviewClaim::Approved, &[high]),
        ),
        (
            off(|gates| gates.dimension_minimums = false),
            scores(&[("requirement_adherence", 80)]),
        ),
        (
            off(|gates| gates.overall_score = false),
            Review {
                overall_score: Some(10),
                ..approves()
            },
        ),
    ];
    for (policy, given) in rows {
        assert_eq!(decided(&policy, given).stage(), Stage::Approved);
    }
}

#[test]
fn a_critical_finding_blocks_even_with_the_must_fix_gate_off() {
    let mut policy = Policy::default();
    policy.gates.no_open_must_fix = false;
    let critical = finding("The password is logged", Severity::Critical);
    let story = decided(&policy, review(ReviewClaim::Approved, &[critical]));
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn a_blocking_issue_holds_an_approval_up() {
    let given = Review {
        blocking_issues: vec![blocking("Breaks the other ticket's interface")],
        ..approves()
    };
    let story = decided(&Policy::default(), given);
    assert_eq!(story.stage(), Stage::Rework);
    assert!(failed_gates(&story).contains(&"no blocking issue"));
    assert_eq!(last(&story).open_must_fix, 1);
}

#[test]
fn a_blocking_issue_that_is_refuted_holds_nothing_up() {
    let policy = Policy {
        verify: VerifyNewFindings::MustFix,
        ..Policy::default()
    };
    let mut story = reviewing(&policy);
    story.reviewed(Review {
        blocking_issues: vec![blocking("Breaks the other ticket's interface")],
        ..rejects(&[])
    });
    story.verified(AnswerOutcome::Refuted);
    assert_eq!(story.stage(), Stage::Approved);
    assert!(last(&story).disagreement.is_some());
}

#[test]
fn minimums_are_90_for_critical_70_for_important_and_none_for_moderate() {
    let rows = [
        ("requirement_adherence", 90, Stage::Approved),
        ("requirement_adherence", 89, Stage::Rework),
        ("coordination_compliance", 89, Stage::Rework),
        ("code_quality", 75, Stage::Approved),
        ("code_quality", 69, Stage::Rework),
        ("test_quality", 69, Stage::Rework),
        ("pattern_consistency", 69, Stage::Rework),
        ("security_performance", 75, Stage::Approved),
    ];
    for (dimension, score, stage) in rows {
        let story = decided(&Policy::default(), scores(&[(dimension, score)]));
        assert_eq!(story.stage(), stage, "{dimension} {score}");
    }
}

#[test]
fn the_overall_score_weighs_critical_3_important_2_moderate_1() {
    // (3 × 90 + 2 × 70 + 1 × 40) / 6 = 75; one point less is 74 and a bit.
    let rows = [(40, Stage::Approved, 75), (39, Stage::Rework, 74)];
    for (moderate, stage, overall) in rows {
        let given = scores(&[
            ("requirement_adherence", 90),
            ("code_quality", 70),
            ("security_performance", moderate),
        ]);
        let story = decided(&Policy::default(), given);
        assert_eq!(last(&story).overall_score, Some(overall));
        assert_eq!(story.stage(), stage);
    }
}

#[test]
fn a_reviewers_own_overall_number_does_not_outweigh_its_dimensions() {
    let given = Review {
        overall_score: Some(100),
        ..scores(&[("security_performance", 30)])
    };
    let story = decided(&Policy::default(), given);
    assert_eq!(last(&story).overall_score, Some(30));
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn a_reviewer_cannot_lower_the_weight_of_a_known_dimension() {
    let mut given = scores(&[("requirement_adherence", 80)]);
    for score in given.scores.values_mut() {
        score.weight = Some(findings::Weight::Moderate);
    }
    assert_eq!(decided(&Policy::default(), given).stage(), Stage::Rework);
}

#[test]
fn enormous_weights_neither_panic_nor_pass() {
    let policy = Policy {
        weights: Weights {
            critical: u32::MAX,
            important: u32::MAX,
            moderate: u32::MAX,
        },
        ..Policy::default()
    };
    assert!(!policy.problems().is_empty());
    let given = scores(&[("security_performance", 74), ("code_quality", 75)]);
    let story = decided(&policy, given);
    assert_eq!(last(&story).overall_score, Some(74));
    assert_eq!(story.stage(), Stage::Rework);
}

fn panel(votes: Votes, reviewers: &[&str]) -> Policy {
    let reviewer = |name: &&str| ReviewerConfig {
        name: (*name).to_owned(),
        ..ReviewerConfig::default()
    };
    Policy {
        votes,
        reviewers: reviewers.iter().map(reviewer).collect(),
        minor_only: MinorOnly::Rework,
        ..Policy::default()
    }
}

#[test]
fn votes_are_counted_by_all_majority_or_quorum() {
    let rows = [
        (Votes::All, 3, Stage::Approved),
        (Votes::All, 2, Stage::Rework),
        (Votes::Majority, 2, Stage::Approved),
        (Votes::Majority, 1, Stage::Rework),
        (Votes::Quorum(1), 1, Stage::Approved),
        (Votes::Quorum(1), 0, Stage::Rework),
        (Votes::Quorum(3), 2, Stage::Rework),
    ];
    let low = finding("A comment is missing", Severity::Low);
    for (votes, yes, stage) in rows {
        let mut story = reviewing(&panel(votes, &["one", "two", "three"]));
        for reviewer in 0..3 {
            let by = Actor::new(&format!("reviewer-{reviewer}"), Role::Reviewer);
            let given = if reviewer < yes {
                approves()
            } else {
                review(ReviewClaim::ChangesRequested, std::slice::from_ref(&low))
            };
            story.reviewed_by(&by, given);
        }
        assert_eq!(story.stage(), stage, "{votes:?} with {yes} of 3");
    }
}

#[test]
fn nothing_is_decided_before_every_reviewer_has_answered() {
    let mut story = reviewing(&panel(Votes::Quorum(1), &["one", "two"]));
    story.reviewed(approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    assert!(story.ticket.rounds.is_empty());
}

#[test]
fn a_single_critical_blocks_a_majority() {
    let mut story = reviewing(&panel(Votes::Majority, &["one", "two", "three"]));
    for reviewer in ["one", "two"] {
        story.reviewed_by(&Actor::new(reviewer, Role::Reviewer), approves());
    }
    let critical = finding("The password is logged", Severity::Critical);
    story.reviewed(review(ReviewClaim::ChangesRequested, &[critical]));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(failed_gates(&story), ["no open must-fix"]);
}

#[test]
fn one_reviewer_in_two_reviewers_cannot_hide_its_no_behind_its_yes() {
    let policy = Policy {
        minor_only: MinorOnly::Approve,
        ..panel(Votes::Quorum(1), &["one", "two"])
    };
    let low = finding("A comment is missing", Severity::Low);
    let mut story = reviewing(&policy);
    story.reviewed(review(ReviewClaim::ChangesRequested, &[low]));
    story.reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
    assert!(last(&story).disagreement.is_some(), "the no must be shown");
}

#[test]
fn only_minor_findings_are_approved_by_policy_where_it_says_so() {
    let low = finding("A comment is missing", Severity::Low);
    let policy = Policy {
        minor_only: MinorOnly::Approve,
        ..Policy::default()
    };
    let story = decided(&policy, review(ReviewClaim::ChangesRequested, &[low]));
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(last(&story).follow_ups, ["F1"]);
    let shown = last(&story).disagreement.as_deref().unwrap();
    assert!(shown.contains("asked for changes"), "{shown}");
}

#[test]
fn only_minor_findings_are_rework_where_the_policy_says_so() {
    let low = finding("A comment is missing", Severity::Low);
    let policy = Policy {
        minor_only: MinorOnly::Rework,
        ..Policy::default()
    };
    let story = decided(&policy, review(ReviewClaim::ChangesRequested, &[low]));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(last(&story).disagreement, None);
}

#[test]
fn minor_findings_on_lines_the_change_left_alone_never_cost_a_round() {
    for minor_only in [MinorOnly::Approve, MinorOnly::Rework] {
        for severity in [Severity::Low, Severity::Suggestion] {
            let mut policy = Policy {
                minor_only,
                ..Policy::default()
            };
            policy.must_fix = Severity::ALL.to_vec();
            let low = finding("A comment is missing", severity);
            let mut story = decided(
                &policy,
                review(ReviewClaim::ChangesRequested, std::slice::from_ref(&low)),
            );
            assert_eq!(story.stage(), Stage::Rework, "on touched lines it counts");
            story.ticket.ledger.entries[0].untouched = true;
            assert!(compute_verdict(&story.ticket, &policy).approved);
            story.ticket.ledger.entries[0].finding.rating.severity = Severity::Medium;
            assert!(!compute_verdict(&story.ticket, &policy).approved);
        }
    }
}

#[test]
fn a_rejection_without_findings_becomes_one_must_fix_made_of_its_text() {
    let given = Review {
        notes: Some("\nThe greeting is wrong.\nTry again.".to_owned()),
        ..rejects(&[])
    };
    let story = decided(&Policy::default(), given);
    assert_eq!(story.stage(), Stage::Rework);
    let [entry] = story.ticket.ledger.entries.as_slice() else {
        panic!("one finding, not {:?}", story.ticket.ledger.entries)
    };
    assert_eq!(entry.finding.title, "The greeting is wrong.");
    assert!(entry.is_must_fix(&story.policy));
}

#[test]
fn a_rejection_that_only_praises_still_sends_the_ticket_back() {
    let mut praise = finding("Well structured", Severity::Suggestion);
    praise.actionable = false;
    let story = decided(
        &Policy::default(),
        review(ReviewClaim::ChangesRequested, &[praise]),
    );
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(last(&story).open_must_fix, 1);
}

#[test]
fn a_review_without_a_verdict_that_names_a_must_fix_is_a_rejection() {
    let high = finding("Names are not escaped", Severity::High);
    let story = decided(&Policy::default(), review(ReviewClaim::Unknown, &[high]));
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn a_review_without_a_verdict_and_a_must_fix_is_asked_again() {
    let low = finding("A comment is missing", Severity::Low);
    let story = decided(&Policy::default(), review(ReviewClaim::Unknown, &[low]));
    assert_eq!(story.stage(), Stage::Reviewing);
    assert_eq!(story.jobs("review"), 1);
    assert!(story.ticket.rounds.is_empty(), "it costs no round");
    assert!(story.ticket.ledger.entries.is_empty());
}

#[test]
fn no_flood_of_small_findings_washes_a_critical_one_away() {
    let mut policy = Policy::default();
    policy.limits.findings_max = 3;
    let mut many: Vec<_> = (0..9)
        .map(|n| finding(&format!("Nit {n}"), Severity::Suggestion))
        .collect();
    many.push(finding("The password is logged", Severity::Critical));
    let story = decided(&policy, review(ReviewClaim::Approved, &many));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.ledger.entries.len(), 3);
}

#[test]
fn what_was_praise_before_and_is_a_defect_now_counts() {
    let mut praise = finding("Input handling", Severity::Suggestion);
    praise.actionable = false;
    let mut story = reviewing(&panel(Votes::All, &["one", "two"]));
    story.reviewed(review(ReviewClaim::Approved, &[praise]));
    let critical = finding("Input handling", Severity::Critical);
    let by = Actor::new("ruth", Role::Reviewer);
    story.reviewed_by(&by, review(ReviewClaim::Approved, &[critical]));
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn a_milder_word_in_a_later_round_does_not_take_a_must_fix_away() {
    let mut story = Story::begin();
    story.rejected_round("c1", &["Names are not escaped"]);
    story.built("c2").green();
    let mild = finding("Names are not escaped", Severity::Low);
    story
        .verified(AnswerOutcome::Uncertain)
        .reviewed(review(ReviewClaim::Approved, &[mild]));
    assert_eq!(story.stage(), Stage::Rework);
}

#[test]
fn silence_closes_nothing() {
    let mut story = Story::begin();
    story.rejected_round("c1", &["Names are not escaped"]);
    story.built("c2").green().reviewed(approves());
    let lease = story.start("verify", &crate::story::verifier());
    let what = EventKind::Verified {
        lease,
        commit: "c2".to_owned(),
        answers: Vec::new(),
        usage: Usage::default(),
    };
    story.tell(&crate::story::verifier(), what);
    assert_eq!(story.stage(), Stage::Rework);
    assert!(story.ticket.ledger.entries[0].status.is_open());
}

#[test]
fn a_verifier_that_contradicts_itself_is_uncertain() {
    let mut story = Story::begin();
    story.rejected_round("c1", &["Names are not escaped"]);
    story.built("c2").green().reviewed(approves());
    let lease = story.start("verify", &crate::story::verifier());
    let answers = [AnswerOutcome::Fixed, AnswerOutcome::Confirmed]
        .map(|outcome| crate::story::answer("F1", outcome))
        .to_vec();
    let what = EventKind::Verified {
        lease,
        commit: "c2".to_owned(),
        answers,
        usage: Usage::default(),
    };
    story.tell(&crate::story::verifier(), what);
    assert!(story.ticket.ledger.entries[0].status.is_open());
}

#[test]
fn reported_and_called_fixed_in_one_round_is_open_whoever_speaks_first() {
    for verifier_first in [true, false] {
        let mut story = Story::begin();
        story.rejected_round("c1", &["Names are not escaped"]);
        story.built("c2").green();
        if verifier_first {
            story.verified(AnswerOutcome::Fixed);
            story.reviewed(rejects(&["Names are not escaped"]));
        } else {
            story.reviewed(rejects(&["Names are not escaped"]));
            story.verified(AnswerOutcome::Fixed);
        }
        assert_eq!(
            story.stage(),
            Stage::Rework,
            "verifier first: {verifier_first}"
        );
        assert_eq!(story.ticket.ledger.entries[0].status, FindingStatus::Open);
    }
}

#[test]
fn approval_needs_green_checks_on_this_very_commit() {
    let story = decided(&Policy::default(), approves());
    let mut ticket = story.ticket;
    let policy = Policy::default();
    assert!(compute_verdict(&ticket, &policy).approved);
    ticket.checks.as_mut().unwrap().commit = "another".to_owned();
    assert!(!compute_verdict(&ticket, &policy).approved);
    ticket.checks = None;
    assert!(!compute_verdict(&ticket, &policy).approved);
}

#[test]
fn what_is_red_on_the_base_is_for_a_person_unless_it_is_tolerated() {
    let mut story = Story::at(Stage::Checking, &Policy::default());
    story.checked(CheckOutcome::RedOnBase);
    assert_eq!(story.stage(), Stage::Escalated);

    let tolerant = Policy {
        red_on_base: RedOnBase::Tolerate,
        ..Policy::default()
    };
    let mut story = Story::at(Stage::Checking, &tolerant);
    story.checked(CheckOutcome::RedOnBase).reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
}

fn base_red(lease: Lease, outcome: CheckOutcome) -> EventKind {
    EventKind::BaseRed {
        lease,
        base: "b1".to_owned(),
        results: vec![CheckResult {
            tail: "sh: 1: xo: not found".to_owned(),
            ..check(outcome)
        }],
        hint: "add a [setup] section".to_owned(),
        usage: Usage::default(),
    }
}

#[test]
fn a_red_base_asks_a_person_before_the_builder_is_paid() {
    let mut story = Story::at(Stage::Building, &Policy::default());
    let lease = held(&story, "build");
    let report = base_red(lease, CheckOutcome::Failed);
    // Only Countersign itself may say so, and only of a base that is red.
    assert!(story.attempt(&builder(), report.clone()).is_err());
    let green = base_red(lease, CheckOutcome::Passed);
    assert_eq!(
        story.attempt(&Actor::system(), green),
        Err(Refused::BaseAccepted)
    );
    story.tell(&Actor::system(), report);
    assert_eq!(story.stage(), Stage::Escalated);
    let ticket = &story.ticket;
    assert!(ticket.jobs.is_empty() && ticket.spent.ticket.usd_micros == 0);
    let evidence = flow::narrate::describe_evidence(ticket);
    for part in ["xo: not found", "Likely fix: add a [setup] section"] {
        assert!(evidence.contains(part), "{evidence}");
    }
    // A person who mended the base continues: the builder gets its job, and no round is used.
    story.tell(&human(), settled(Choice::Continue));
    assert_eq!(story.stage(), Stage::Queued);
    assert_eq!(story.ticket.round, 1);
}

#[test]
fn a_red_base_stops_nothing_where_the_policy_accepts_it() {
    let tolerant = Policy {
        red_on_base: RedOnBase::Tolerate,
        ..Policy::default()
    };
    let unproven = Policy {
        prove_base: false,
        ..Policy::default()
    };
    for policy in [tolerant, unproven] {
        let mut story = Story::at(Stage::Building, &policy);
        let report = base_red(held(&story, "build"), CheckOutcome::Failed);
        assert_eq!(
            story.attempt(&Actor::system(), report),
            Err(Refused::BaseAccepted)
        );
    }
}

#[test]
fn an_approval_names_commit_tree_policy_checks_and_reviewers() {
    let story = decided(&Policy::default(), approves());
    let approval = story.ticket.approval.expect("an approval");
    assert_eq!(approval.commit, "c1");
    assert_eq!(approval.tree, "tree of c1");
    assert_eq!(approval.policy, Policy::default().id());
    assert_eq!(approval.checks.len(), 1);
    let names = vec![reviewer().agent];
    let refused = Vec::new();
    assert_eq!(
        approval.by,
        flow::ticket::ApprovedBy::Reviewers { names, refused }
    );
}

#[test]
fn new_must_fix_findings_are_verified_before_rework_where_the_policy_says_so() {
    let policy = Policy {
        verify: VerifyNewFindings::MustFix,
        ..Policy::default()
    };
    let mut story = reviewing(&policy);
    story.reviewed(rejects(&["Names are not escaped", "The end is cut"]));
    assert_eq!(story.stage(), Stage::Reviewing);
    assert_eq!(story.jobs("verify"), 2, "one verifier for each");
    story.verified(AnswerOutcome::Refuted);
    story.verified(AnswerOutcome::Uncertain);
    assert_eq!(story.stage(), Stage::Rework);
    let statuses: Vec<FindingStatus> = story
        .ticket
        .ledger
        .entries
        .iter()
        .map(|entry| entry.status)
        .collect();
    assert_eq!(statuses, [FindingStatus::Refuted, FindingStatus::Open]);
}
