//! From the approval to the branch: only the approved change lands.

use flow::event::AnswerOutcome;
use flow::job::DependencyUpdate;
use flow::policy::{Land, ProtectedChange, ReviewMode, StartDependents};
use flow::ticket::{ApprovedBy, CheckOutcome, EDITION, Reason, ReworkReason, Submission};
use flow::{Effect, EventKind, Policy, Refused, Stage, Task, Usage};

use crate::story::{Story, approves, builder, check, held, house, rejects, submission, submitted};

fn stale(submission: Submission) -> EventKind {
    EventKind::WentStale {
        submission: Box::new(submission),
        why: "somebody pushed".to_owned(),
        lease: None,
    }
}

fn conflicted(story: &Story) -> EventKind {
    EventKind::Conflicted {
        lease: held(story, "merge"),
        files: vec!["src/greet.rs".to_owned()],
        evidence: "both changed line 3".to_owned(),
        usage: Usage::default(),
    }
}

fn told(story: &Story) -> Vec<&DependencyUpdate> {
    let told = story.effects.iter().filter_map(|effect| match effect {
        Effect::Enqueue(job) => Some(&job.task),
        Effect::Retry { .. }
        | Effect::Finish { .. }
        | Effect::Drop { .. }
        | Effect::Bury { .. } => None,
    });
    told.filter_map(|task| match task {
        Task::Tell { update } => Some(update),
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Review { .. }
        | Task::Verify { .. }
        | Task::Merge { .. }
        | Task::Report => None,
    })
    .collect()
}

#[test]
fn the_approved_commit_lands_and_the_ticket_is_done() {
    let mut story = Story::at(Stage::Merging, &Policy::default());
    let lease = held(&story, "merge");
    story.tell(&house(), story.landing(lease, "c1", "diff of c1"));
    assert_eq!(story.stage(), Stage::Done);
    assert_eq!(told(&story), [&DependencyUpdate::Met]);
    assert!(story.ticket.jobs.is_empty());
}

#[test]
fn another_commit_lands_only_with_the_identical_diff() {
    let story = Story::at(Stage::Merging, &Policy::default());
    let lease = held(&story, "merge");
    let refused = story.refused(&house(), story.landing(lease, "c9", "diff of c9"));
    assert!(matches!(refused, Refused::OtherCommit { .. }));
    let mut rebased = story;
    rebased.tell(&house(), rebased.landing(lease, "c9", "diff of c1"));
    assert_eq!(rebased.ticket.landed.unwrap().commit, "c9");
}

#[test]
fn two_unknown_diffs_are_not_the_same_diff() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    let nameless = Submission {
        diff_id: String::new(),
        ..submission("c1")
    };
    let what = EventKind::Submitted {
        lease,
        submission: Box::new(nameless),
        reports: Vec::new(),
        session: None,
        usage: Usage::default(),
    };
    story.tell(&builder(), what).green().reviewed(approves());
    let lease = story.merge_started();
    let refused = story.refused(&house(), story.landing(lease, "c9", ""));
    assert!(matches!(refused, Refused::OtherCommit { .. }));
}

#[test]
fn a_submission_that_does_not_name_its_tree_is_refused() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    for (broken, expected) in [
        (
            Submission {
                tree: String::new(),
                ..submission("c1")
            },
            Refused::NotExact,
        ),
        (
            Submission {
                files: Vec::new(),
                ..submission("c1")
            },
            Refused::EmptyChange,
        ),
        (Submission::default(), Refused::EmptyChange),
    ] {
        let mut what = submitted(lease, "c1");
        if let EventKind::Submitted { submission, .. } = &mut what {
            **submission = broken;
        }
        assert_eq!(story.refused(&builder(), what), expected);
    }
}

#[test]
fn a_new_commit_voids_the_approval_and_is_checked() {
    for stage in [Stage::Approved, Stage::Merging] {
        let mut story = Story::at(stage, &Policy::default());
        story.tell(&house(), stale(submission("c2")));
        assert_eq!(story.stage(), Stage::Checking);
        assert_eq!(story.ticket.approval, None);
        assert_eq!(story.ticket.approvals_voided.len(), 1);
        story.green();
        assert_eq!(story.stage(), Stage::Reviewing);
    }
}

#[test]
fn the_house_does_not_become_an_author_by_noticing_a_commit() {
    let mut story = Story::at(Stage::Approved, &Policy::default());
    story.tell(&house(), stale(submission("c2")));
    assert!(!story.ticket.authors.contains("house"));
}

#[test]
fn an_approval_that_goes_stale_too_often_is_for_a_person() {
    let mut story = Story::at(Stage::Approved, &Policy::default());
    story.policy.review = ReviewMode::None;
    for n in 1..=story.policy.limits.stale_max {
        story.tell(&house(), stale(submission(&format!("s{n}"))));
        story.green();
        assert_eq!(story.stage(), Stage::Approved);
    }
    story.tell(&house(), stale(submission("last")));
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert_eq!(reason, &Reason::StaleTooOften { times: 6 });
}

#[test]
fn an_identical_tree_uses_its_approval_again() {
    let mut story = Story::at(Stage::Approved, &Policy::default());
    let same_tree = Submission {
        commit: "c2".to_owned(),
        ..submission("c1")
    };
    story.tell(&house(), stale(same_tree)).green();
    assert_eq!(story.stage(), Stage::Approved);
    let approval = story.ticket.approval.unwrap();
    assert_eq!(approval.commit, "c2");
    assert_eq!(approval.by, ApprovedBy::Earlier { round: 1 });
}

#[test]
fn an_identical_tree_on_another_base_or_under_another_policy_is_reviewed() {
    let moved = Submission {
        commit: "c2".to_owned(),
        base_tree: "another".to_owned(),
        ..submission("c1")
    };
    let same = Submission {
        commit: "c2".to_owned(),
        ..submission("c1")
    };
    let stricter = Policy {
        overall_minimum: 80,
        ..Policy::default()
    };
    for (put, policy) in [(moved, Policy::default()), (same, stricter)] {
        let mut story = Story::at(Stage::Approved, &Policy::default());
        story.policy = policy;
        story.tell(&house(), stale(put)).green();
        assert_eq!(story.stage(), Stage::Reviewing);
    }
}

/// The same lines at another place, or a conflict that a builder resolved, are not what was read.
#[test]
fn the_same_diff_of_another_tree_is_reviewed_however_it_lands() {
    let lands = [Land::Merge, Land::Squash, Land::Rebase, Land::Queue];
    for land in lands {
        let policy = Policy {
            land,
            ..Policy::default()
        };
        let mut story = Story::at(Stage::Merging, &policy);
        let lines = story.ticket.approval.as_ref().unwrap().diff_id.clone();
        story.tell(&house(), conflicted(&story));
        assert_eq!(story.stage(), Stage::Rework);
        let lease = story.start("build", &builder());
        let mut what = submitted(lease, "c2");
        if let EventKind::Submitted { submission, .. } = &mut what {
            submission.diff_id = lines;
        }
        story.tell(&builder(), what).green();
        assert_eq!(story.stage(), Stage::Reviewing, "{land:?}");
    }
}

#[test]
fn an_old_approval_does_not_cover_findings_that_came_since() {
    let mut story = Story::at(Stage::Approved, &Policy::default());
    story.tell(&house(), stale(submission("c2")));
    story.green().reviewed(rejects(&["Names are not escaped"]));
    assert_eq!(story.stage(), Stage::Rework);
    story.built("c1").green();
    assert_eq!(story.stage(), Stage::Reviewing, "F1 may be in c1 as well");
}

#[test]
fn an_old_approval_does_not_outweigh_a_later_no_to_the_same_tree() {
    let mut story = Story::at(Stage::Merging, &Policy::default());
    let limit = "the day's money".to_owned();
    story.tell(&house(), EventKind::BudgetReached { limit });
    let reviewer = Some("ruth".to_owned());
    let choice = flow::event::Choice::Reassign {
        builder: None,
        reviewer,
    };
    story.tell(&crate::story::human(), crate::story::settled(choice));
    story.reviewed(crate::story::scores(&[("code_quality", 10)]));
    assert_eq!(story.stage(), Stage::Rework);
    story.built("c1").green();
    assert_eq!(story.jobs("review"), 0, "the tree has been looked at");
    assert_eq!(story.stage(), Stage::Escalated, "and was turned down");
}

#[test]
fn a_conflict_goes_back_to_the_builder_and_is_bounded() {
    let mut story = Story::begin();
    story.policy.review = ReviewMode::None;
    for n in 1..=4 {
        story.built(&format!("c{n}")).green();
        story.merge_started();
        let what = conflicted(&story);
        story.tell(&house(), what);
        assert_eq!(story.ticket.approval, None);
    }
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert_eq!(reason, &Reason::Conflicts { times: 4 });
}

#[test]
fn a_combination_that_is_red_goes_back_to_the_builder() {
    let mut story = Story::at(Stage::Merging, &Policy::default());
    let what = EventKind::CombinationRed {
        lease: held(&story, "merge"),
        results: vec![check(CheckOutcome::Failed)],
        usage: Usage::default(),
    };
    story.tell(&house(), what);
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.round, 2);
}

#[test]
fn a_branch_that_stays_where_it_is_makes_an_approved_ticket_done() {
    let policy = Policy {
        land: Land::Branch,
        ..Policy::default()
    };
    let mut story = Story::under(policy);
    story.built("c1").green().reviewed(approves());
    assert_eq!(story.stage(), Stage::Done);
    let landed = story.ticket.landed.unwrap();
    assert_eq!(landed.commit, "c1");
    assert_eq!(landed.branch, "countersign/t");
}

#[test]
fn no_review_is_said_in_the_approval() {
    let policy = Policy {
        review: ReviewMode::None,
        ..Policy::default()
    };
    let mut story = Story::under(policy);
    story.built("c1").green();
    let by = story.ticket.approval.unwrap().by;
    assert_eq!(by, ApprovedBy::NobodyAsPolicySays);
}

#[test]
fn dependants_hear_at_the_approval_where_the_policy_says_so() {
    let policy = Policy {
        start_dependents: StartDependents::Approved,
        ..Policy::default()
    };
    let mut story = Story::at(Stage::Approved, &policy);
    assert_eq!(told(&story), [&DependencyUpdate::Met]);
    let lease = story.merge_started();
    story.tell(&house(), story.landing(lease, "c1", "diff of c1"));
    assert!(told(&story).is_empty(), "once is enough");
}

#[test]
fn a_forbidden_path_is_refused_by_whatever_way_it_comes() {
    let policy = Policy {
        protected_change: ProtectedChange::Forbid,
        ..Policy::default()
    };
    let touching = |commit: &str| Submission {
        protected: vec![".github/workflows/ci.yml".to_owned()],
        ..submission(commit)
    };

    let mut built = Story::under(policy.clone());
    let lease = built.start("build", &builder());
    let mut what = submitted(lease, "c1");
    if let EventKind::Submitted { submission, .. } = &mut what {
        **submission = touching("c1");
    }
    built.tell(&builder(), what);
    assert_eq!(built.stage(), Stage::Rework);

    let mut pushed = Story::at(Stage::Approved, &policy);
    pushed.tell(&house(), stale(touching("c2")));
    assert_eq!(pushed.stage(), Stage::Rework);

    let mut by_hand = Story::at(Stage::Blocked, &policy);
    let what = EventKind::Resubmitted {
        submission: Box::new(touching("c2")),
    };
    by_hand.tell(&crate::story::human(), what);
    assert_eq!(by_hand.stage(), Stage::Rework);
}

fn forbids() -> Policy {
    Policy {
        protected_change: ProtectedChange::Forbid,
        ..Policy::default()
    }
}

fn submits_forbidden(story: &mut Story, commit: &str, edition: u32) {
    let lease = story.start("build", &builder());
    let mut what = submitted(lease, commit);
    if let EventKind::Submitted { submission, .. } = &mut what {
        submission.protected = vec!["tests/x.py".to_owned(), "ci.yml".to_owned()];
        submission.edition = edition;
    }
    story.tell(&builder(), what);
}

#[test]
fn a_forbidden_path_is_named_costs_one_rework_and_then_a_person_decides() {
    let mut story = Story::under(forbids());
    submits_forbidden(&mut story, "c1", EDITION);
    assert_eq!(story.stage(), Stage::Rework);
    let paths = vec!["ci.yml".to_owned(), "tests/x.py".to_owned()];
    assert_eq!(
        story.ticket.rework_reason,
        Some(ReworkReason::ForbiddenPaths {
            paths: paths.clone(),
            base: "base".to_owned()
        })
    );
    assert_eq!(
        (
            story.ticket.counts.forbidden,
            story.ticket.counts.red_checks
        ),
        (1, 0)
    );
    let brief = flow::brief::for_builder(
        &story.ticket,
        &forbids(),
        &flow::brief::ProjectRules::default(),
        flow::brief::Recipient::Spawned,
    );
    assert!(
        brief.contains("git checkout base -- 'tests/x.py'"),
        "{brief}"
    );
    assert!(!brief.contains("checks are red"), "{brief}");

    submits_forbidden(&mut story, "c2", EDITION);
    assert_eq!(story.stage(), Stage::Escalated);
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert_eq!(reason, &Reason::ForbiddenPaths { paths });
    assert!(flow::narrate::describe_reason(reason).contains("tests/x.py"));
}

#[test]
fn a_forbidden_path_that_was_restored_goes_on_to_the_checks() {
    let mut story = Story::under(forbids());
    submits_forbidden(&mut story, "c1", EDITION);
    story.built("c2").green();
    assert_eq!(story.stage(), Stage::Reviewing);
}

#[test]
fn submissions_of_the_first_edition_replay_as_they_were_decided() {
    let mut story = Story::under(forbids());
    for (n, stage) in [
        Stage::Rework,
        Stage::Rework,
        Stage::Rework,
        Stage::Escalated,
    ]
    .into_iter()
    .enumerate()
    {
        submits_forbidden(&mut story, &format!("c{n}"), 0);
        assert_eq!(story.stage(), stage);
        assert!(matches!(
            story.ticket.rework_reason,
            Some(ReworkReason::RedChecks { .. })
        ));
    }
    let text = serde_json::to_string(&story.ticket).unwrap();
    assert!(
        !text.contains("edition") && !text.contains("forbidden"),
        "{text}"
    );
    assert_eq!(
        serde_json::from_str::<flow::Ticket>(&text).unwrap(),
        story.ticket
    );
}

#[test]
fn a_reverted_fix_is_verified_before_it_is_approved() {
    let mut story = Story::begin();
    story.rejected_round("c1", &["Names are not escaped"]);
    story.built("c2").green().reviewed(approves());
    story.verified(AnswerOutcome::Fixed);
    assert_eq!(story.stage(), Stage::Approved);
    story.tell(&house(), stale(submission("c1"))).green();
    assert_eq!(story.stage(), Stage::Reviewing, "c1 was never approved");
}
