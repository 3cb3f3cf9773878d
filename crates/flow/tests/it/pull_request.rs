//! Tickets that land as pull requests: looks at the forge decide, and never a forge over a verdict.

use flow::event::Choice;
use flow::landing::{LandingConfig, PullRequestMerge};
use flow::policy::Land;
use flow::pull_request::{PlannedGate, plan_change, wants_pull_request};
use flow::ticket::{
    ChangeConflict, ChangeObservation, ChangePhase, CheckOutcome, Reason, ReworkReason,
};
use flow::{Effect, EventKind, Policy, Refused, Stage, Task};

use crate::story::{Story, accept, approves, check, finding, house, human, rejects, settled};
use crate::table::seen;

fn policy() -> Policy {
    Policy {
        land: Land::Pr,
        ..Policy::default()
    }
}

fn approved() -> Story {
    let mut story = Story::under(policy());
    story.built("c1").green().reviewed(approves());
    assert_eq!(story.stage(), Stage::Approved);
    story
}

fn look(seen: ChangeObservation) -> EventKind {
    EventKind::ChangeObserved {
        seen: Box::new(seen),
    }
}

fn open() -> ChangeObservation {
    seen("c1", ChangePhase::Open)
}

fn reason(story: &Story) -> &Reason {
    &story
        .ticket
        .escalation
        .as_ref()
        .expect("an escalation")
        .reason
}

/// Reports that the last event ordered.
fn reports(story: &Story) -> usize {
    let effects = story.effects.iter();
    let is_report =
        |effect: &&Effect| matches!(effect, Effect::Enqueue(job) if job.task == Task::Report);
    effects.filter(is_report).count()
}

#[test]
fn every_visible_step_orders_one_report_and_nothing_waits_for_it() {
    let mut story = Story::under(policy());
    story.built("c1");
    assert_eq!(reports(&story), 1, "submitted");
    story.green();
    assert_eq!(reports(&story), 1, "checked");
    story.reviewed(approves());
    assert_eq!(reports(&story), 1, "approved");
    assert!(story.ticket.jobs.is_empty() && story.ticket.rests());
    let mut other = Story::under(Policy::default());
    other.built("c1").green();
    assert_eq!(reports(&other), 0);
}

#[test]
fn a_request_orders_a_look_where_there_is_something_to_look_at() {
    let ask = || EventKind::ReportRequested {
        why: "a webhook".to_owned(),
    };
    let mut story = approved();
    story.tell(&house(), ask());
    assert_eq!(reports(&story), 1);
    let other = Story::at(Stage::Approved, &Policy::default());
    assert_eq!(other.refused(&house(), ask()), Refused::NoPullRequest);
}

#[test]
fn the_approved_commit_is_done_when_it_is_merged_and_another_one_asks_a_person() {
    let mut story = approved();
    story.tell(&house(), look(seen("c1", ChangePhase::Merged)));
    assert_eq!(story.stage(), Stage::Done);
    assert_eq!(story.ticket.landed.as_ref().expect("landed").commit, "c1");
    let mut story = approved();
    story.tell(&house(), look(seen("c9", ChangePhase::Merged)));
    let commit = "c9".to_owned();
    assert_eq!(reason(&story), &Reason::MergedUnapproved { commit });
    assert_eq!(story.ticket.approval, None);
    let mut early = Story::under(policy());
    early.built("c1").green();
    early.tell(&house(), look(seen("c1", ChangePhase::Merged)));
    assert_eq!(early.stage(), Stage::Escalated, "it was never approved");
}

#[test]
fn a_close_asks_a_person_and_to_continue_keeps_the_approval() {
    let mut story = approved();
    story.tell(&house(), look(seen("c1", ChangePhase::Closed)));
    assert_eq!(reason(&story), &Reason::ChangeClosed { number: 7 });
    story.tell(&human(), settled(Choice::Continue));
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(reports(&story), 1);
    assert!(story.ticket.approval.is_some());
}

#[test]
fn commits_of_somebody_else_void_the_approval() {
    let mut story = approved();
    let foreign_head = Some("c9".to_owned());
    story.tell(
        &house(),
        look(ChangeObservation {
            foreign_head,
            ..open()
        }),
    );
    assert_eq!(story.ticket.approval, None);
    let head = "c9".to_owned();
    assert_eq!(reason(&story), &Reason::BranchReplaced { head });
}

#[test]
fn red_checks_of_others_go_back_unless_a_person_accepted_them() {
    let red = || ChangeObservation {
        red: vec![check(CheckOutcome::Failed)],
        ..open()
    };
    let mut story = approved();
    story.tell(&house(), look(red()));
    assert_eq!(story.stage(), Stage::Rework);
    assert!(matches!(
        story.ticket.rework_reason,
        Some(ReworkReason::RedChecks { .. })
    ));
    assert_eq!(
        (story.ticket.counts.red_checks, story.ticket.counts.verdicts),
        (1, 1)
    );
    let mut story = approved();
    story.policy.limits.red_checks_max = 0;
    story.tell(&house(), look(red()));
    assert_eq!(reason(&story), &Reason::RedChecks { times: 1 });
    let choice = Choice::Accept {
        over_red_checks: false,
    };
    assert_eq!(
        story.refused(&human(), settled_with(choice)),
        Refused::RedChecks
    );
    story.tell(
        &human(),
        settled_with(Choice::Accept {
            over_red_checks: true,
        }),
    );
    story.tell(&house(), look(red()));
    assert_eq!(story.stage(), Stage::Approved);
}

fn settled_with(choice: Choice) -> EventKind {
    let EventKind::Settled { why, .. } = accept() else {
        unreachable!("it settles");
    };
    EventKind::Settled { choice, why }
}

#[test]
fn a_conflict_counts_as_in_every_landing() {
    let mut story = approved();
    let conflict = Some(ChangeConflict {
        files: vec!["src/greet.rs".to_owned()],
        evidence: "both changed it".to_owned(),
    });
    story.tell(&house(), look(ChangeObservation { conflict, ..open() }));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(story.ticket.counts.conflicts, 1);
    assert_eq!(story.ticket.approval, None);
}

#[test]
fn what_is_red_before_the_verdict_changes_nothing() {
    let mut story = Story::under(policy());
    story.built("c1").green();
    story.tell(
        &house(),
        look(ChangeObservation {
            red: vec![check(CheckOutcome::Failed)],
            ..open()
        }),
    );
    assert_eq!(story.stage(), Stage::Reviewing);
}

fn comment(id: &str, must_fix: bool) -> EventKind {
    EventKind::FindingsAdded {
        commit: "c1".to_owned(),
        findings: vec![finding("Say that it is quoted", findings::Severity::Medium)],
        must_fix,
        comments: vec![id.to_owned()],
    }
}

#[test]
fn a_comment_counts_once_and_gets_no_thread_of_ours() {
    let mut story = approved();
    assert_eq!(
        story.refused(&human(), comment("7", true)),
        Refused::NoPullRequest
    );
    story.tell(&house(), look(open()));
    story.tell(&human(), comment("7", true));
    assert_eq!(story.stage(), Stage::Rework);
    assert_eq!(
        story.refused(&human(), comment("7", true)),
        Refused::CommentsKnown
    );
    assert!(story.ticket.has_comment("7") && !story.ticket.has_comment("8"));
    let plan = plan_change(&story.ticket, &policy(), &LandingConfig::default());
    assert_eq!(plan.threads, []);
}

#[test]
fn the_plan_follows_the_ticket() {
    let config = LandingConfig {
        pr_merge: PullRequestMerge::Countersign,
        ..LandingConfig::default()
    };
    let mut story = Story::under(policy());
    story.built("c1").green();
    let plan = plan_change(&story.ticket, &policy(), &config);
    assert!(plan.draft && plan.merge.is_none());
    assert!(matches!(plan.gate, PlannedGate::Pending(_)));
    story.reviewed(rejects(&["Names are not escaped"]));
    let plan = plan_change(&story.ticket, &policy(), &config);
    assert!(plan.draft && plan.threads[0].is_open);
    assert!(matches!(&plan.gate, PlannedGate::Failure(why) if why.contains("1 finding")));
    story.tell(
        &human(),
        EventKind::Waived {
            finding: "F1".to_owned(),
            why: "legacy callers".to_owned(),
        },
    );
    assert_eq!(reports(&story), 1);
    let plan = plan_change(&story.ticket, &policy(), &config);
    let thread = &plan.threads[0];
    assert!(!thread.is_open);
    assert!(
        thread
            .reply
            .as_ref()
            .expect("a reply")
            .1
            .contains("legacy callers")
    );
    story.built("c2").green().reviewed(approves());
    let plan = plan_change(&story.ticket, &policy(), &config);
    assert!(!plan.draft);
    assert_eq!(plan.merge.as_deref(), Some("c2"));
    assert!(matches!(plan.gate, PlannedGate::Success(_)));
    let person = plan_change(&story.ticket, &policy(), &LandingConfig::default());
    assert_eq!(person.merge, None);
}

#[test]
fn without_a_draft_the_pull_request_is_opened_with_the_approval() {
    let config = LandingConfig {
        pr_draft: false,
        ..LandingConfig::default()
    };
    let mut story = Story::under(policy());
    story.built("c1").green();
    assert!(!wants_pull_request(&story.ticket, &config));
    assert!(wants_pull_request(&story.ticket, &LandingConfig::default()));
    story.reviewed(approves());
    assert!(wants_pull_request(&story.ticket, &config));
    assert!(!plan_change(&story.ticket, &policy(), &config).draft);
}
