//! Parts of sentences: a person's findings, the names on commits, the cost so far.

use std::fmt::Write as _;

use findings::Finding;

use super::{Mood, Sentence, short_commit};
use crate::advance::known_red_checks;
use crate::event::{Event, EventKind};
use crate::forecast::{describe_remaining, mean_of_rounds, remaining_caps};
use crate::policy::Policy;
use crate::ticket::{ChangeObservation, ChangePhase, Stage, Submission, Ticket};
use crate::usage::Usage;

/// Names a person's findings: the first with its place, and the number of the rest.
pub(super) fn describe_added(findings: &[Finding], must_fix: bool) -> String {
    let Some(first) = findings.first() else {
        return "nothing".to_owned();
    };
    let place = match (&first.file, first.line) {
        (Some(file), Some(line)) => format!(", {file}:{line}"),
        (Some(file), None) => format!(", {file}"),
        (None, _) => String::new(),
    };
    let weight = if must_fix { "must-fix " } else { "" };
    let (noun, more) = match findings.len() - 1 {
        0 => (format!("a {weight}finding"), String::new()),
        more => (
            format!("{} {weight}findings", more + 1),
            format!(" and {more} more"),
        ),
    };
    format!("{noun}: {}{place}{more}", findings::one_line(&first.title))
}

/// Lists author names on commits other than the builder's. Anybody can write such a name, so they
/// are shown apart.
pub(super) fn describe_signers(submission: &Submission) -> String {
    match submission.signed_as.as_slice() {
        [] => String::new(),
        names => format!(", with commits signed as {}", names.join(", ")),
    }
}

/// Names the mean cost of the rounds so far and the rest of the budget, before the next build.
pub(super) fn describe_cost_so_far(ticket: &Ticket, policy: &Policy) -> String {
    let Some(mean) = mean_of_rounds(&ticket.rounds) else {
        return String::new();
    };
    // The ticket does not know the day's sum over all tickets.
    let mut left = remaining_caps(ticket, policy, Usage::default());
    left.retain(|one| one.scope != "day");
    let (cost, left) = (mean.describe_mean(), describe_remaining(&left));
    format!(" ({cost} a round so far; {left})")
}

/// Describes the start of a job. The first build waits until the base is proven, so it does not say
/// that the builder runs.
pub(super) fn describe_start(
    event: &Event,
    (round, task): (u32, &str),
    after: &Ticket,
    policy: &Policy,
) -> String {
    let who = &event.by.agent;
    let is_first = after.stage == Stage::Building && after.submission.is_none();
    if !is_first || !policy.needs_green_base() {
        return format!("round {round}: {task} started by {who}");
    }
    // An agent that connects by itself gets the build when the base is known to be green.
    if event.by.written.is_some() {
        format!(
            "round {round}: build given to {who}, which starts once the base is known to be green"
        )
    } else {
        format!("round {round}: build given to {who}")
    }
}

/// Describes a submission of the commit whose checks are known to be red.
pub(super) fn describe_unchanged(
    before: &Ticket,
    event: &Event,
    after: &Ticket,
) -> Option<Sentence> {
    let EventKind::Submitted { submission, .. } = &event.what else {
        return None;
    };
    known_red_checks(before, submission)?;
    let (round, who) = (before.round, &event.by.agent);
    let commit = short_commit(&submission.commit);
    let next = if after.stage == Stage::Escalated {
        "a person decides"
    } else {
        "it goes back to the builder"
    };
    let text = format!(
        "round {round}: {who} changed nothing, {commit} still has the red checks; they were not run again, {next}"
    );
    Some(Sentence {
        activity: "submitted",
        mood: Mood::Bad,
        text,
    })
}

/// Describes the pull request as a look at the forge showed it.
pub fn describe_change(seen: &ChangeObservation) -> String {
    let mut text = format!("pull request {} is {}", seen.number, seen.phase.as_str());
    if seen.draft && seen.phase == ChangePhase::Open {
        text.push_str(" as a draft");
    }
    let head = short_commit(&seen.head);
    match (&seen.foreign_head, &seen.conflict) {
        (Some(foreign), _) => {
            let _ = write!(text, "; somebody pushed {} to it", short_commit(foreign));
        }
        (None, Some(conflict)) => {
            let _ = write!(
                text,
                "; {head} conflicts with the base: {}",
                conflict.files.join(", ")
            );
        }
        (None, None) => {
            let _ = write!(text, " at {head}");
        }
    }
    if !seen.red.is_empty() {
        let names: Vec<&str> = seen.red.iter().map(|check| check.name.as_str()).collect();
        let _ = write!(text, "; red there: {}", names.join(", "));
    }
    if !seen.waits_for.is_empty() {
        let _ = write!(text, "; it waits for {}", seen.waits_for);
    }
    let url = findings::one_line(&seen.url);
    if url.is_empty() {
        text
    } else {
        format!("{text} ({url})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_findings_are_a_sentence() {
        let finding = |title: &str| {
            let text = format!("## Findings\n### [HIGH] {title}\n**File:** a.rs:3\n");
            findings::read(&text).findings.remove(0)
        };
        let one = [finding("Quote it")];
        assert_eq!(
            describe_added(&one, true),
            "a must-fix finding: Quote it, a.rs:3"
        );
        let two = [finding("Quote it"), finding("Again")];
        assert_eq!(
            describe_added(&two, false),
            "2 findings: Quote it, a.rs:3 and 1 more"
        );
    }
}
