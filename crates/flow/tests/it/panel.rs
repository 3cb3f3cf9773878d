//! The panel: which reviewers are asked, which may not judge, and how two verifiers agree.

use findings::{CriterionAnswer, ReviewClaim, Severity};
use flow::event::{AnswerOutcome, Choice, Failure};
use flow::ledger::FindingStatus;
use flow::policy::{ReviewScope, ReviewerConfig, VerifyNewFindings, VerifyOpenFindings};
use flow::ticket::{Reason, Submission};
use flow::{Actor, EventKind, Policy, Refused, Role, Stage, Usage};

use crate::story::{
    Story, approves, builder, finding, house, human, rejects, review, reviewer, settled,
    submission, verifier,
};

fn reviewer_config(name: &str) -> ReviewerConfig {
    ReviewerConfig {
        name: name.to_owned(),
        ..ReviewerConfig::default()
    }
}

fn with(reviewers: &[ReviewerConfig]) -> Policy {
    Policy {
        reviewers: reviewers.to_vec(),
        ..Policy::default()
    }
}

/// Returns a ticket in review, with a change of these files and this size.
fn reviewing(policy: &Policy, files: &[&str], lines_changed: u32) -> Story {
    let mut story = Story::under(policy.clone());
    let lease = story.start("build", &builder());
    let put = Submission {
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        lines_changed,
        ..submission("c1")
    };
    let what = EventKind::Submitted {
        lease,
        submission: Box::new(put),
        reports: Vec::new(),
        session: None,
        usage: Usage::default(),
    };
    story.tell(&builder(), what).green();
    story
}

fn panel_names(story: &Story) -> Vec<&str> {
    let reviewers = story.ticket.panel.iter();
    reviewers.map(|reviewer| reviewer.name.as_str()).collect()
}

#[test]
fn reviewers_are_chosen_by_path_kind_size_and_round() {
    let by_path = ReviewerConfig {
        paths: vec!["**/auth/**".to_owned()],
        ..reviewer_config("auth")
    };
    let by_kind = ReviewerConfig {
        kinds: vec!["fix".to_owned()],
        ..reviewer_config("fixes")
    };
    let by_size = ReviewerConfig {
        lines_min: 200,
        ..reviewer_config("deep")
    };
    let late = ReviewerConfig {
        from_round: 2,
        ..reviewer_config("late")
    };
    let policy = with(&[reviewer_config("always"), by_path, by_kind, by_size, late]);
    assert_eq!(policy.problems(), Vec::<String>::new());
    let rows: [(&[&str], u32, &[&str]); 3] = [
        (&["src/a.rs"], 10, &["always"]),
        (&["src/auth/a.rs"], 10, &["always", "auth"]),
        (
            &["src/a.rs", "src/auth/a.rs"],
            200,
            &["always", "auth", "deep"],
        ),
    ];
    for (files, lines, names) in rows {
        assert_eq!(panel_names(&reviewing(&policy, files, lines)), names);
    }
    let mut story = reviewing(&policy, &["src/a.rs"], 1);
    story
        .reviewed(rejects(&["It is wrong"]))
        .built("c2")
        .green();
    assert_eq!(panel_names(&story), ["always", "late"]);
}

#[test]
fn a_table_that_may_stay_empty_is_refused() {
    let rows = [
        ReviewerConfig {
            paths: vec!["src/**".to_owned()],
            ..reviewer_config("a")
        },
        ReviewerConfig {
            scope: ReviewScope::Delta,
            ..reviewer_config("a")
        },
        ReviewerConfig {
            command: Some("lint".to_owned()),
            ..reviewer_config("a")
        },
        ReviewerConfig {
            until_round: Some(2),
            ..reviewer_config("a")
        },
    ];
    for row in rows {
        assert_eq!(
            with(std::slice::from_ref(&row)).problems().len(),
            1,
            "{row:?}"
        );
    }
    let first = ReviewerConfig {
        until_round: Some(2),
        ..reviewer_config("a")
    };
    let then = ReviewerConfig {
        from_round: 3,
        ..reviewer_config("b")
    };
    assert_eq!(with(&[first, then]).problems(), Vec::<String>::new());
}

#[test]
fn a_person_gives_the_first_reviewer_to_somebody_and_leaves_the_others() {
    let named = ReviewerConfig {
        agent: Some("sam".to_owned()),
        ..reviewer_config("security")
    };
    let mut story = reviewing(&with(&[reviewer_config("one"), named]), &["a"], 1);
    let what = EventKind::HelpRequested {
        why: "stuck".to_owned(),
        lease: None,
    };
    story.start("review", &reviewer());
    story.tell(&reviewer(), what);
    let choice = Choice::Reassign {
        builder: None,
        reviewer: Some("ruth".to_owned()),
    };
    story.tell(&human(), settled(choice));
    let agents: Vec<Option<&str>> = story
        .ticket
        .jobs
        .iter()
        .map(|job| job.agent.as_deref())
        .collect();
    assert_eq!(agents, [Some("ruth"), Some("sam")]);
}

#[test]
fn a_named_reviewer_who_has_built_part_of_it_leaves_nobody_to_judge() {
    let named = ReviewerConfig {
        agent: Some("bob".to_owned()),
        ..reviewer_config("one")
    };
    let story = reviewing(&with(&[named]), &["a"], 1);
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert!(
        matches!(reason, Reason::NobodyToJudge { why } if why.contains("bob")),
        "{reason:?}"
    );
}

#[test]
fn a_house_without_a_judge_asks_a_person_and_says_so() {
    let mut story = reviewing(&Policy::default(), &["a"], 1);
    let job = story.job("review");
    let lease = flow::event::Lease {
        serial: job.serial,
        fence: job.fence + 1,
    };
    let by = crate::story::alias(Role::Reviewer);
    let refused = story.refused(&by, EventKind::Started { lease });
    assert!(refused.is_reviewer_ineligible(), "{refused}");
    let what = EventKind::JobFailed {
        lease,
        failure: Failure::NoJudge,
        message: refused.to_string(),
        usage: Usage::default(),
    };
    story.tell(&house(), what);
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert!(matches!(reason, Reason::NobodyToJudge { .. }), "{reason:?}");
}

#[test]
fn another_model_family_is_enforced_where_it_is_asked_for() {
    let of = |name: &str, role: Role, family: Option<&str>| Actor {
        family: family.map(str::to_owned),
        ..Actor::new(name, role)
    };
    let policy = Policy {
        other_family: true,
        ..Policy::default()
    };
    let mut story = Story::under(policy);
    let builder = of("bob", Role::Builder, Some("oak"));
    let lease = story.start("build", &builder);
    story
        .tell(&builder, crate::story::submitted(lease, "c1"))
        .green();
    let job = story.job("review");
    let lease = flow::event::Lease {
        serial: job.serial,
        fence: 1,
    };
    let started = EventKind::Started { lease };
    let same = story.refused(&of("rita", Role::Reviewer, Some("oak")), started.clone());
    assert!(matches!(same, Refused::SameFamily { .. }), "{same}");
    let unknown = story.refused(&of("rita", Role::Reviewer, None), started.clone());
    assert!(
        matches!(unknown, Refused::UnknownFamily { .. }),
        "{unknown}"
    );
    story.tell(&of("rita", Role::Reviewer, Some("elm")), started);
}

#[test]
fn a_linter_reports_and_has_no_vote() {
    let linter = ReviewerConfig {
        command: Some("lint".to_owned()),
        ..reviewer_config("lint")
    };
    let policy = with(&[reviewer_config("one"), linter]);
    let silent = review(ReviewClaim::Unknown, &[]);
    let mut story = reviewing(&policy, &["a"], 1);
    story.reviewed(approves()).reviewed(silent.clone());
    assert_eq!(
        story.stage(),
        Stage::Approved,
        "nothing found is a clean run"
    );
    let mut story = reviewing(&policy, &["a"], 1);
    let found = review(ReviewClaim::Unknown, &[finding("unused", Severity::High)]);
    story.reviewed(approves()).reviewed(found);
    assert_eq!(story.stage(), Stage::Rework, "what it finds holds");
    let mut story = reviewing(&policy, &["a"], 1);
    story.reviewed(rejects(&["wrong"])).reviewed(silent);
    assert_eq!(story.stage(), Stage::Rework);
    let gates = &story.ticket.rounds[0].verdict.gates;
    assert_eq!(gates[0].why, "the reviewer did not approve");
}

fn must_fix_verified(second_opinion: bool) -> Policy {
    Policy {
        verify: VerifyNewFindings::MustFix,
        second_opinion,
        ..Policy::default()
    }
}

#[test]
fn two_verifiers_agree_or_the_finding_stands() {
    use AnswerOutcome::{Confirmed, Refuted, Uncertain};
    let rows: [(&[AnswerOutcome], FindingStatus); 7] = [
        (&[Refuted, Refuted], FindingStatus::Refuted),
        (&[Refuted, Uncertain], FindingStatus::Refuted),
        (&[Refuted, Confirmed], FindingStatus::Open),
        (&[Uncertain, Refuted], FindingStatus::Refuted),
        (&[Uncertain, Uncertain], FindingStatus::Open),
        (&[Uncertain, Confirmed], FindingStatus::Open),
        (&[Confirmed], FindingStatus::Open),
    ];
    for (said, status) in rows {
        let mut story = reviewing(&must_fix_verified(true), &["a"], 1);
        story.reviewed(rejects(&["wrong"]));
        for outcome in said {
            assert_eq!(story.stage(), Stage::Reviewing, "{said:?}");
            story.verified(*outcome);
        }
        assert_eq!(story.ticket.ledger.entries[0].status, status, "{said:?}");
        assert_eq!(story.jobs("verify"), 0, "{said:?}");
    }
}

#[test]
fn what_was_refuted_is_looked_at_again_when_it_is_reported_on_another_commit() {
    for (outcome, stage) in [
        (AnswerOutcome::Refuted, Stage::Approved),
        (AnswerOutcome::Confirmed, Stage::Rework),
    ] {
        let mut story = reviewing(&must_fix_verified(false), &["a"], 1);
        story.reviewed(rejects(&["Names are not escaped", "The end is cut"]));
        story
            .verified(AnswerOutcome::Refuted)
            .verified(AnswerOutcome::Confirmed);
        // From here on the policy verifies no new findings; known ones are still verified.
        story.policy.verify = VerifyNewFindings::Never;
        story.built("c2").green().verified(AnswerOutcome::Fixed);
        story.reviewed(rejects(&["Names are not escaped"]));
        assert_eq!(
            story.stage(),
            Stage::Reviewing,
            "no round is paid for it yet"
        );
        story.verified(outcome);
        assert_eq!(story.stage(), stage);
        assert_eq!(story.ticket.ledger.entries.len(), 2);
    }
}

#[test]
fn a_review_without_a_verdict_whose_findings_fall_is_none() {
    let mut story = reviewing(&must_fix_verified(false), &["a"], 1);
    story.reviewed(review(
        ReviewClaim::Unknown,
        &[finding("wrong", Severity::High)],
    ));
    story.verified(AnswerOutcome::Refuted);
    assert_eq!(story.stage(), Stage::Reviewing);
    assert_eq!(story.jobs("review"), 1, "somebody else is asked");
    assert!(story.ticket.rounds.is_empty(), "and no round is paid for");
    story.reviewed_by(&Actor::new("ruth", Role::Reviewer), approves());
    assert_eq!(story.stage(), Stage::Approved);
}

#[test]
fn what_was_not_fixed_goes_back_before_reviewers_are_paid() {
    let policy = Policy {
        verify_open: VerifyOpenFindings::BeforeReview,
        ..Policy::default()
    };
    let mut story = reviewing(&policy, &["a"], 1);
    story.reviewed(rejects(&["wrong"]));
    for n in 2..=3 {
        story.built(&format!("c{n}")).green();
        assert_eq!(story.jobs("review"), 0);
        story.verified(AnswerOutcome::Confirmed);
        assert_eq!(story.stage(), Stage::Rework, "submission {n}");
        assert_eq!(story.ticket.counts.verdicts, 1);
    }
    story.built("c4").green().verified(AnswerOutcome::Confirmed);
    assert_eq!(story.jobs("review"), 1, "not without end");
    let mut story = reviewing(&policy, &["a"], 1);
    story.reviewed(rejects(&["wrong"])).built("c2").green();
    story.verified(AnswerOutcome::Fixed);
    assert_eq!(story.jobs("review"), 1);
    story.reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
}

#[test]
fn a_tree_that_was_turned_down_is_not_read_twice_and_a_dispute_is_still_heard() {
    let mut story = reviewing(&Policy::default(), &["a"], 1);
    story.reviewed(rejects(&["wrong"]));
    let lease = story.start("build", &builder());
    let put = Submission {
        commit: "c2".to_owned(),
        ..story.ticket.submission.clone().unwrap()
    };
    let what = EventKind::Submitted {
        lease,
        submission: Box::new(put),
        reports: vec![flow::event::FindingReport {
            finding: "F1".to_owned(),
            outcome: flow::event::ReportedOutcome::Disputed,
            note: "it is meant so".to_owned(),
        }],
        session: None,
        usage: Usage::default(),
    };
    story.tell(&builder(), what).green();
    assert_eq!(story.jobs("review"), 0);
    story.verified(AnswerOutcome::Refuted);
    assert_eq!(story.stage(), Stage::Approved);
}

/// Criterion, whether it is met, evidence.
type Said = &'static [(&'static str, bool, &'static str)];

fn answering(criteria: &[(&str, bool, &str)]) -> findings::Review {
    let criteria = criteria
        .iter()
        .map(|(criterion, met, evidence)| CriterionAnswer {
            criterion: (*criterion).to_owned(),
            met: *met,
            evidence: Some((*evidence).to_owned()).filter(|text| !text.is_empty()),
        });
    findings::Review {
        criteria: criteria.collect(),
        ..approves()
    }
}

fn with_criteria(policy: &Policy) -> Story {
    let mut story = reviewing(policy, &["a"], 1);
    story.ticket.spec.acceptance = vec!["It greets by name".to_owned()];
    story.ticket.spec.context.coordination = vec!["`greet` keeps its two arguments".to_owned()];
    story
}

#[test]
fn a_criterion_that_the_reviewer_calls_unmet_must_be_fixed_whatever_it_claims() {
    let mut story = with_criteria(&Policy::default());
    story.reviewed(answering(&[(
        "1. It greets by name",
        false,
        "it says hello world",
    )]));
    assert_eq!(story.stage(), Stage::Rework);
    assert!(
        story.ticket.ledger.entries[0]
            .finding
            .title
            .contains("greets by name")
    );
}

#[test]
fn criteria_and_demands_of_the_epic_are_answered_with_evidence_where_the_policy_says_so() {
    let policy = Policy {
        criteria_required: true,
        ..Policy::default()
    };
    let rows: [(Said, Stage); 4] = [
        (&[], Stage::Reviewing),
        (
            &[("It greets by name", true, "test greets")],
            Stage::Reviewing,
        ),
        (
            &[("1", true, "test greets"), ("2", true, "")],
            Stage::Reviewing,
        ),
        (
            &[
                ("It greets by name", true, "test greets"),
                ("criterion 2", true, "src/a.rs:3"),
            ],
            Stage::Approved,
        ),
    ];
    for (said, stage) in rows {
        let mut story = with_criteria(&policy);
        story.reviewed(answering(said));
        assert_eq!(story.stage(), stage, "{said:?}");
    }
}

#[test]
fn the_table_by_round_counts_every_finding_once_a_round() {
    let mut story = reviewing(&Policy::default(), &["a"], 1);
    story.reviewed(rejects(&["Names are not escaped", "The end is cut"]));
    story
        .built("c2")
        .green()
        .verified_each(&[AnswerOutcome::Fixed, AnswerOutcome::Confirmed]);
    story.reviewed(rejects(&["The log is lost"]));
    let lines = story.ticket.ledger.findings_by_round(2);
    let rows: Vec<[u32; 9]> = lines
        .iter()
        .map(flow::ledger::RoundFindings::cells)
        .collect();
    assert_eq!(
        rows,
        [[1, 2, 0, 0, 0, 0, 0, 0, 0], [2, 1, 1, 1, 0, 0, 0, 0, 0]]
    );
    let learned = flow::insight::collect_insights(&[story.ticket]);
    assert_eq!(learned.categories["other"].found, 3);
    assert_eq!(learned.reviewers["rita"].precision(), Some(33));
}

#[test]
fn a_verifier_of_the_builders_principal_is_refused() {
    let mut story = reviewing(&must_fix_verified(false), &["a"], 1);
    story.reviewed(rejects(&["wrong"]));
    let job = story.job("verify");
    let lease = flow::event::Lease {
        serial: job.serial,
        fence: 1,
    };
    let by = crate::story::alias(Role::Verifier);
    assert!(
        story
            .refused(&by, EventKind::Started { lease })
            .is_reviewer_ineligible()
    );
    story.tell(&verifier(), EventKind::Started { lease });
}

/// One reviewer, and a second one for changes of ten lines, once the first would approve.
fn confirmed() -> Policy {
    let last = ReviewerConfig {
        second_reviewer: true,
        lines_min: 10,
        ..reviewer_config("last")
    };
    with(&[reviewer_config("one"), last])
}

#[test]
fn who_confirms_is_asked_only_when_the_others_would_let_it_through() {
    let mut story = reviewing(&confirmed(), &["a"], 50);
    assert_eq!(story.jobs("review"), 1);
    story.reviewed(rejects(&["wrong"]));
    assert_eq!(story.stage(), Stage::Rework, "nobody is paid to agree");
    let mut story = reviewing(&confirmed(), &["a"], 50);
    story.reviewed(approves());
    assert_eq!(story.stage(), Stage::Reviewing);
    assert_eq!(story.ticket.rounds.len(), 0, "no verdict yet");
    story.reviewed_by(&Actor::new("ruth", Role::Reviewer), approves());
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(story.ticket.rounds.len(), 1, "one round for both");
}

#[test]
fn what_the_last_look_finds_costs_the_round_and_is_verified_where_the_policy_says() {
    let mut story = reviewing(&confirmed(), &["a"], 50);
    story.reviewed(approves());
    let ruth = Actor::new("ruth", Role::Reviewer);
    story.reviewed_by(&ruth, rejects(&["Names are not escaped"]));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.counts.verdicts, 1);
    let policy = Policy {
        verify: VerifyNewFindings::MustFix,
        ..confirmed()
    };
    let mut story = reviewing(&policy, &["a"], 50);
    story.reviewed(approves());
    story.reviewed_by(&ruth, rejects(&["Names are not escaped"]));
    assert_eq!(story.jobs("verify"), 1, "before rework is paid for");
}

#[test]
fn a_small_change_needs_no_last_look_and_a_last_look_alone_is_no_panel() {
    let mut story = reviewing(&confirmed(), &["a"], 3);
    story.reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
    let alone = with(&[ReviewerConfig {
        second_reviewer: true,
        ..reviewer_config("last")
    }]);
    assert!(!alone.problems().is_empty());
}
