//! Dependencies: all must be met, and one that cannot be met blocks its dependents and theirs.

use std::collections::BTreeSet;

use flow::job::DependencyUpdate;
use flow::ticket::{BlockedReason, Reason, Spec};
use flow::{Effect, EventKind, Policy, Refused, Stage, Task};

use crate::story::{Story, created, house, human, id, ids};

fn waiting(on: &[&str]) -> Story {
    Story::created(Policy::default(), created(on)).unwrap()
}

fn met(name: &str) -> EventKind {
    EventKind::DependencyMet { ticket: id(name) }
}

fn failed(name: &str) -> EventKind {
    EventKind::DependencyFailed {
        ticket: id(name),
        why: "its tests never passed".to_owned(),
    }
}

fn repaired(name: &str) -> EventKind {
    EventKind::DependencyRepaired { ticket: id(name) }
}

fn set(on: &[&str], met: &[&str], failed: &[&str]) -> EventKind {
    EventKind::DependenciesSet {
        depends_on: ids(on),
        met: ids(met),
        failed: failed
            .iter()
            .map(|name| (id(name), "gone".to_owned()))
            .collect(),
        why: "the plan has changed".to_owned(),
    }
}

/// Returns the updates that the last event sends to dependent tickets.
fn news(story: &Story) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    for effect in &story.effects {
        if let Effect::Enqueue(job) = effect
            && let Task::Tell { update } = &job.task
        {
            kinds.push(match update {
                DependencyUpdate::Met => "met",
                DependencyUpdate::Failed { .. } => "failed",
                DependencyUpdate::Repaired => "repaired",
            });
        }
    }
    kinds
}

#[test]
fn a_ticket_is_queued_when_all_it_depends_on_is_met() {
    let mut story = waiting(&["a", "b"]);
    assert_eq!(story.stage(), Stage::Pending);
    story.tell(&house(), met("a"));
    assert_eq!(story.stage(), Stage::Pending);
    story.tell(&house(), met("b"));
    assert_eq!(story.stage(), Stage::Queued);
}

#[test]
fn news_that_comes_twice_is_refused() {
    let mut story = waiting(&["a", "b"]);
    story.tell(&house(), met("a"));
    assert!(matches!(
        story.refused(&house(), met("a")),
        Refused::NotADependency { .. }
    ));
    assert!(matches!(
        story.refused(&house(), failed("x")),
        Refused::NotADependency { .. }
    ));
}

#[test]
fn a_failed_dependency_blocks_and_the_news_goes_on() {
    let mut story = waiting(&["a", "b"]);
    story.tell(&house(), failed("a"));
    assert_eq!(story.stage(), Stage::Blocked);
    assert_eq!(story.ticket.blocked, Some(BlockedReason::ByDependency));
    assert_eq!(news(&story), ["failed"]);
    story.tell(&house(), met("b"));
    assert_eq!(story.stage(), Stage::Blocked, "a is still broken");
    assert!(news(&story).is_empty());
}

#[test]
fn a_repaired_dependency_unblocks_and_the_news_goes_on() {
    let mut story = waiting(&["a"]);
    story
        .tell(&house(), failed("a"))
        .tell(&house(), repaired("a"));
    assert_eq!(story.stage(), Stage::Pending);
    assert_eq!(news(&story), ["repaired"]);
    story.tell(&house(), met("a"));
    assert_eq!(story.stage(), Stage::Queued);
}

#[test]
fn a_broken_dependency_that_is_met_after_all_unblocks_and_the_news_goes_on() {
    let mut story = waiting(&["a"]);
    story.tell(&house(), failed("a")).tell(&house(), met("a"));
    assert_eq!(story.stage(), Stage::Queued);
    assert_eq!(news(&story), ["repaired"]);
}

#[test]
fn a_dependency_that_is_met_and_then_fails_must_be_met_again() {
    let mut story = waiting(&["a", "b"]);
    story.tell(&house(), met("a")).tell(&house(), failed("a"));
    assert_eq!(story.stage(), Stage::Blocked);
    story.tell(&house(), met("b"));
    story.tell(&house(), repaired("a"));
    assert_eq!(story.stage(), Stage::Pending);
    story.tell(&house(), met("a"));
    assert_eq!(story.stage(), Stage::Queued);
}

#[test]
fn a_person_can_point_a_ticket_at_other_dependencies() {
    let mut story = waiting(&["a"]);
    story.tell(&house(), failed("a"));
    story.tell(&human(), set(&["b"], &["b"], &[]));
    assert_eq!(story.stage(), Stage::Queued);
    assert_eq!(news(&story), ["repaired"]);
}

#[test]
fn pointing_at_a_broken_dependency_blocks_and_the_news_goes_on() {
    let mut story = waiting(&["a"]);
    story.tell(&human(), set(&["b"], &[], &["b"]));
    assert_eq!(story.stage(), Stage::Blocked);
    assert_eq!(news(&story), ["failed"]);
}

#[test]
fn no_ticket_depends_on_itself() {
    let refused = Story::created(Policy::default(), created(&["t"])).unwrap_err();
    assert_eq!(refused, Refused::DependsOnItself);
    let story = waiting(&["a"]);
    let refused = story.refused(&human(), set(&["t"], &[], &[]));
    assert_eq!(refused, Refused::DependsOnItself);
}

#[test]
fn a_ticket_needs_a_title_and_has_a_default_priority_of_50() {
    let mut what = created(&[]);
    if let EventKind::Created { spec, .. } = &mut what {
        spec.title = " ".to_owned();
    }
    let refused = Story::created(Policy::default(), what).unwrap_err();
    assert_eq!(refused, Refused::NoTitle);
    assert_eq!(Spec::default().priority, 50);
    let read: Spec = serde_json::from_str(r#"{"title": "Greet"}"#).unwrap();
    assert_eq!(read.priority, 50);
}

#[test]
fn a_ticket_whose_dependency_had_failed_before_it_begins_blocked() {
    let mut what = created(&["a"]);
    if let EventKind::Created { failed, .. } = &mut what {
        failed.push((id("a"), "gone".to_owned()));
    }
    let story = Story::created(Policy::default(), what).unwrap();
    assert_eq!(story.stage(), Stage::Blocked);
}

#[test]
fn a_ticket_whose_dependencies_are_met_already_begins_queued() {
    let mut what = created(&["a"]);
    if let EventKind::Created { met, .. } = &mut what {
        *met = BTreeSet::from([id("a")]);
    }
    let story = Story::created(Policy::default(), what).unwrap();
    assert_eq!(story.stage(), Stage::Queued);
}

#[test]
fn a_dependency_that_fails_under_running_work_is_for_a_person() {
    let mut story = waiting(&["a"]);
    story.tell(&house(), met("a")).tell(&house(), failed("a"));
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    let ticket = id("a");
    assert_eq!(reason, &Reason::DependencyFailed { ticket });
}

#[test]
fn a_ticket_that_a_person_has_taken_over_hears_no_good_news() {
    let mut story = waiting(&["a"]);
    story.tell(&house(), met("a")).tell(&house(), failed("a"));
    let choice = flow::event::Choice::TakeOver;
    story.tell(&human(), crate::story::settled(choice));
    story.refused(&house(), repaired("a"));
    let blocked = story.ticket.blocked.clone();
    assert!(matches!(blocked, Some(BlockedReason::TakenOver { .. })));
}

#[test]
fn a_ticket_that_ends_badly_tells_those_behind_it() {
    let mut story = Story::begin();
    let why = "not wanted any more".to_owned();
    story.tell(&human(), EventKind::Cancelled { why });
    assert_eq!(news(&story), ["failed"]);
}
