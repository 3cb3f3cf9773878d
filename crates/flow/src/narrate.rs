//! Sentences about the events of a ticket, for people who watch it or read its log.

mod details;
mod failed_job;
mod reason;
mod red_checks;
mod stated;

use serde::{Deserialize, Serialize};

use crate::event::{AnswerOutcome, Event, EventKind};
use crate::job::Queue;
use crate::ledger::RoundFindings;
use crate::policy::Policy;
use crate::rejection::{describe_rejection, list_reported};
use crate::ticket::{ApprovedBy, CheckOutcome, CheckResult, ReworkReason, Stage, Ticket};
use crate::usage::format_dollars;
use details::{
    describe_added, describe_change, describe_cost_so_far, describe_signers, describe_start,
    describe_unchanged,
};
use failed_job::describe_failed_job;
pub use reason::describe_reason;
use red_checks::describe_red_output;
pub use red_checks::{describe_evidence, red_check_ends};

/// One sentence about a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Word for programs, one of [`ACTIVITIES`].
    pub activity: &'static str,
    pub mood: Mood,
    pub text: String,
}

/// Most notes named in one sentence.
const NOTES_SHOWN_MAX: usize = 5;

/// Words of all sentences.
pub const ACTIVITIES: [&str; 41] = [
    "agent_out",
    "base_red",
    "blocked",
    "budget_raised",
    "budget_reached",
    "cancelled",
    "change_observed",
    "check_output",
    "checked",
    "conflicted",
    "created",
    "dependencies_set",
    "dependency_failed",
    "dependency_met",
    "dependency_repaired",
    "disagreement",
    "done",
    "escalated_for_human_review",
    "failed",
    "finding",
    "findings_added",
    "findings_by_round",
    "forbidden_paths",
    "help_requested",
    "job_failed",
    "landed",
    "lease_lost",
    "notes",
    "report_requested",
    "resubmitted",
    "review_unusable",
    "settled",
    "started",
    "stated_fixed",
    "submitted",
    "submitted_review_result",
    "taken_over",
    "verdict",
    "verified",
    "waived",
    "went_stale",
];

/// Meaning of a sentence for a person who follows the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mood {
    Plain,
    Good,
    Bad,
    /// A person has to act.
    Urgent,
}

/// First digits of a commit, as shown to people.
pub fn short_commit(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// Describes what happened between two versions of a ticket.
pub fn narrate(
    before: Option<&Ticket>,
    event: &Event,
    after: &Ticket,
    policy: &Policy,
) -> Vec<Sentence> {
    // A verdict begins the next round, but its event belongs to the round before.
    let round = before.map_or(after.round, |ticket| ticket.round);
    let special = before.and_then(|before| {
        describe_unchanged(before, event, after)
            .or_else(|| describe_failed_job(before, event, after, policy))
    });
    let mut story = vec![special.unwrap_or_else(|| describe_event(event, round, after, policy))];
    story.extend(describe_red_output(event));
    let reported = list_reported(event, after).into_iter();
    story.extend(reported.map(|line| plain("finding", line)));
    story.extend(stated::describe_stated_fixed(before, event, after));
    let rounds_before = before.map_or(0, |ticket| ticket.rounds.len());
    if after.rounds.len() > rounds_before {
        story.extend(describe_verdict(after));
    }
    story.extend(describe_forbidden(before, after));
    story.extend(describe_takeover(before, after));
    let newly =
        |stage: Stage| after.stage == stage && before.is_none_or(|ticket| ticket.stage != stage);
    if newly(Stage::Escalated) {
        story.extend(describe_escalation(after));
    }
    if newly(Stage::Done) {
        story.push(describe_done(after));
    }
    if newly(Stage::Failed) {
        story.push(bad(
            "failed",
            format!("failed: {}", after.ended.clone().unwrap_or_default()),
        ));
    }
    if newly(Stage::Blocked) {
        story.push(urgent(
            "blocked",
            format!("blocked: waits {}", after.describe_wait()),
        ));
    }
    story
}

/// Tells that the commit goes back before any check, because it changes forbidden paths.
fn describe_forbidden(before: Option<&Ticket>, after: &Ticket) -> Option<Sentence> {
    let earlier = before.map_or(0, |ticket| ticket.counts.forbidden);
    if after.counts.forbidden <= earlier {
        return None;
    }
    let Some(ReworkReason::ForbiddenPaths { paths, .. }) = &after.rework_reason else {
        return None;
    };
    let sentence = crate::advance::describe_forbidden_paths(paths);
    let next = if after.stage == Stage::Escalated {
        "a person decides"
    } else {
        "the builder has to restore them"
    };
    Some(bad("forbidden_paths", format!("{sentence}; {next}")))
}

#[expect(
    clippy::too_many_lines,
    reason = "a table: one sentence for each event"
)]
fn describe_event(event: &Event, round: u32, after: &Ticket, policy: &Policy) -> Sentence {
    let who = &event.by.agent;
    match &event.what {
        EventKind::Created { spec, .. } => {
            plain("created", format!("{}: {}", after.stage, spec.title))
        }
        EventKind::DependencyMet { ticket } => plain(
            "dependency_met",
            format!("{ticket} is done; {}", after.stage),
        ),
        EventKind::DependencyFailed { ticket, why } => {
            bad("dependency_failed", format!("depends on {ticket}: {why}"))
        }
        EventKind::DependencyRepaired { ticket } => plain(
            "dependency_repaired",
            format!("{ticket} is no longer blocked"),
        ),
        EventKind::DependenciesSet { why, .. } => plain(
            "dependencies_set",
            format!("{who} set its dependencies: {why}"),
        ),
        EventKind::Started { lease } => {
            let job = after.jobs.iter().find(|job| job.serial == lease.serial);
            let task = job.map_or("job", |job| job.task.word());
            if job.is_some_and(|job| after.asks_to_countersign(&job.task)) {
                let text = format!(
                    "round {round}: only minor findings, so {who} is asked whether it countersigns"
                );
                return plain("started", text);
            }
            let cost = if job.is_some_and(|job| job.task.queue() == Queue::Build) {
                describe_cost_so_far(after, policy)
            } else {
                String::new()
            };
            let text = describe_start(event, (round, task), after, policy);
            plain("started", format!("{text}{cost}"))
        }
        EventKind::Submitted {
            submission, usage, ..
        } => plain(
            "submitted",
            format!(
                "round {round}: {who} submitted {} ({}{}){}",
                short_commit(&submission.commit),
                count_noun(submission.files.len(), "file"),
                if usage.usd_micros > 0 {
                    format!(", {}", format_dollars(usage.usd_micros))
                } else {
                    String::new()
                },
                describe_signers(submission)
            ),
        ),
        EventKind::BaseRed { base, results, .. } => {
            let text = describe_checks(results).text;
            let commit = short_commit(base);
            bad(
                "base_red",
                format!("base {commit}, before any work: {text}"),
            )
        }
        EventKind::Checked { results, .. } | EventKind::CombinationRed { results, .. } => {
            describe_checks(results)
        }
        EventKind::Reviewed { review, .. } => {
            let actionable = review.findings.iter().filter(|finding| finding.actionable);
            let (notes, others): (Vec<_>, Vec<_>) = actionable.partition(|one| policy.is_note(one));
            let mut count = count_noun(others.len() + review.blocking_issues.len(), "finding");
            if !notes.is_empty() {
                count = format!("{count}, {}", count_noun(notes.len(), "note"));
            }
            let claim = match review.claim {
                findings::ReviewClaim::Approved => "approves",
                findings::ReviewClaim::ChangesRequested => "asks for changes",
                findings::ReviewClaim::Unknown => "states no verdict",
            };
            plain(
                "submitted_review_result",
                format!("round {round}: {who} {claim}, {count}"),
            )
        }
        EventKind::ReviewUnusable { why, .. } => bad(
            "review_unusable",
            format!("{who}'s review is unusable: {why}"),
        ),
        EventKind::Verified { answers, .. } => {
            let outcomes: Vec<String> = answers
                .iter()
                .map(|answer| {
                    format!(
                        "{} {}",
                        findings::one_line(&answer.finding),
                        outcome_word(answer.outcome)
                    )
                })
                .collect();
            plain(
                "verified",
                format!("{who} verified: {}", outcomes.join(", ")),
            )
        }
        EventKind::Landed {
            branch,
            landed,
            commit,
            ..
        } => {
            let landed_as = if landed == commit {
                String::new()
            } else {
                format!(", the same diff as the approved {}", short_commit(commit))
            };
            let text = format!("{} is on {branch}{landed_as}", short_commit(landed));
            good("landed", text)
        }
        EventKind::Conflicted { files, .. } => bad(
            "conflicted",
            match files.as_slice() {
                [] => "the base branch no longer has the commits it is based on".to_owned(),
                files => format!("conflicts with the base: {}", files.join(", ")),
            },
        ),
        EventKind::WentStale {
            why, submission, ..
        } => bad(
            "went_stale",
            format!(
                "the approval is void ({why}); checking {}",
                short_commit(&submission.commit)
            ),
        ),
        EventKind::JobFailed { message, .. } => bad("job_failed", findings::one_line(message)),
        EventKind::LeaseLost { lease } => bad(
            "lease_lost",
            format!("job {} lost its worker and is queued again", lease.serial),
        ),
        EventKind::AgentOut { why, .. } => bad("agent_out", findings::one_line(why)),
        EventKind::HelpRequested { why, .. } => urgent(
            "help_requested",
            format!("{who} asks for help: {}", findings::one_line(why)),
        ),
        EventKind::BudgetReached { limit } => urgent("budget_reached", limit.clone()),
        EventKind::BudgetRaised { why, .. } => {
            plain("budget_raised", format!("{who} raised the budget: {why}"))
        }
        EventKind::Waived { finding, why } => {
            plain("waived", format!("{who} waived {finding}: {why}"))
        }
        EventKind::FindingsAdded {
            findings, must_fix, ..
        } => plain(
            "findings_added",
            format!("{who} reported {}", describe_added(findings, *must_fix)),
        ),
        EventKind::ChangeObserved { seen } => plain("change_observed", describe_change(seen)),
        EventKind::ReportRequested { why } => plain(
            "report_requested",
            format!("{who} asks for a look at the pull request: {why}"),
        ),
        EventKind::Settled { choice, why } => plain(
            "settled",
            match why.trim() {
                "" => format!("{who} decided: {}", choice.as_str()),
                why => format!("{who} decided: {} ({why})", choice.as_str()),
            },
        ),
        EventKind::Resubmitted { submission } => plain(
            "resubmitted",
            format!("{who} resubmitted {}", short_commit(&submission.commit)),
        ),
        EventKind::Cancelled { why } => bad("cancelled", format!("cancelled by {who}: {why}")),
    }
}

/// Tells that a fallback agent has just got a job.
fn describe_takeover(before: Option<&Ticket>, after: &Ticket) -> Option<Sentence> {
    let ordered = before.map_or(0, |ticket| ticket.jobs_ordered);
    let mut jobs = after.jobs.iter();
    let job = jobs.find(|job| job.serial > ordered && job.fallback)?;
    let agent = findings::one_line(job.agent.as_deref().unwrap_or_default());
    let task = job.task.word();
    Some(plain(
        "taken_over",
        format!("{agent} takes over as the fallback: {task}"),
    ))
}

fn describe_checks(results: &[CheckResult]) -> Sentence {
    if results.is_empty() {
        return plain(
            "checked",
            "no checks are configured for this project".to_owned(),
        );
    }
    let outcomes: Vec<String> = results
        .iter()
        .map(|result| {
            let word = match result.outcome {
                CheckOutcome::Passed => "green",
                CheckOutcome::Flaky => "green at the second try",
                CheckOutcome::Failed => "red",
                CheckOutcome::TimedOut => "timed out",
                CheckOutcome::RedOnBase => "red, as on the base",
            };
            format!("{} {word}", result.name)
        })
        .collect();
    let text = format!("checks: {}", outcomes.join(", "));
    if results.iter().all(|result| result.outcome.is_green()) {
        good("checked", text)
    } else {
        bad("checked", text)
    }
}

fn outcome_word(outcome: AnswerOutcome) -> &'static str {
    match outcome {
        AnswerOutcome::Fixed => "is fixed",
        AnswerOutcome::Confirmed => "is confirmed",
        AnswerOutcome::Refuted => "is no defect",
        AnswerOutcome::Uncertain => "is uncertain, so it stays open",
    }
}

fn describe_verdict(after: &Ticket) -> Vec<Sentence> {
    let Some(round) = after.rounds.last() else {
        return Vec::new();
    };
    let attempt = format!("attempt {}/{}", after.counts.verdicts, round.allowed);
    let mut story = vec![if round.verdict.approved {
        good(
            "verdict",
            format!(
                "[REVIEW-APPROVED] {attempt}: {} is {}",
                short_commit(&round.commit),
                match round.verdict.approved_by() {
                    ApprovedBy::Reviewers { names, .. } if !names.is_empty() => "countersigned",
                    ApprovedBy::Reviewers { .. }
                    | ApprovedBy::Person { .. }
                    | ApprovedBy::Earlier { .. }
                    | ApprovedBy::NobodyAsPolicySays => "approved by policy",
                }
            ),
        )
    } else {
        let why = describe_rejection(after, round);
        bad("verdict", format!("[REVIEW-REJECTED] {attempt}: {why}"))
    }];
    story.extend(notes(after, round.number));
    let line = after.ledger.findings_by_round(round.number).pop();
    story.extend(line.and_then(|line| describe_findings(&line)));
    if let Some(text) = &round.verdict.disagreement {
        story.push(plain("disagreement", format!("disagreement: {text}")));
    }
    story
}

/// Names the notes of the round: its findings of low confidence.
fn notes(after: &Ticket, round: u32) -> Option<Sentence> {
    let notes = after.ledger.notes();
    let lines: Vec<String> = notes
        .iter()
        .filter(|entry| entry.last_round == round)
        .map(|entry| format!("{} {}", entry.id, findings::one_line(&entry.finding.title)))
        .collect();
    let shown = lines.iter().take(NOTES_SHOWN_MAX).cloned();
    let mut text = shown.collect::<Vec<_>>().join("; ");
    if lines.len() > NOTES_SHOWN_MAX {
        text = format!("{text} and {} more", lines.len() - NOTES_SHOWN_MAX);
    }
    let text = format!("notes, no fix required (low confidence): {text}");
    (!lines.is_empty()).then(|| plain("notes", text))
}

/// Counts the findings after the round, without counts of zero.
fn describe_findings(line: &RoundFindings) -> Option<Sentence> {
    let counts = RoundFindings::COLUMNS.iter().zip(line.cells()).skip(1);
    let words: Vec<String> = counts
        .filter(|(_, n)| *n > 0)
        .map(|(word, n)| format!("{n} {word}"))
        .collect();
    let text = format!("findings of round {}: {}", line.round, words.join(", "));
    (!words.is_empty()).then(|| plain("findings_by_round", text))
}

fn describe_escalation(after: &Ticket) -> Option<Sentence> {
    let escalation = after.escalation.as_ref()?;
    let text = format!(
        "[REVIEW-ESCALATION] {}: a person decides",
        describe_reason(&escalation.reason)
    );
    Some(urgent("escalated_for_human_review", text))
}

fn describe_done(after: &Ticket) -> Sentence {
    let by = describe_approval(after).unwrap_or_default();
    good(
        "done",
        format!(
            "done: {by}, {}",
            after.spent.ticket.describe_cost(&after.unpriced)
        ),
    )
}

/// Describes who approved the current commit, or returns `None` if it is not approved.
pub fn describe_approval(ticket: &Ticket) -> Option<String> {
    let approval = ticket.approval.as_ref()?;
    Some(match ticket.approver(approval) {
        ApprovedBy::Reviewers { names, refused } => describe_countersigners(&names, &refused),
        ApprovedBy::Person {
            name,
            why,
            over_red_checks,
        } => {
            let over = if over_red_checks {
                ", over red checks"
            } else {
                ""
            };
            format!("accepted by {name}{over} ({why})")
        }
        ApprovedBy::Earlier { round } => describe_earlier_approval(ticket, round),
        ApprovedBy::NobodyAsPolicySays => "without a review, as the policy says".to_owned(),
    })
}

/// Describes the reviewers' approval. A reviewer that refused is never named as countersigner.
fn describe_countersigners(names: &[String], refused: &[String]) -> String {
    let signed = format!("countersigned by {}", names.join(", "));
    let overruled = format!(
        "approved by policy, reviewer refused: {}",
        refused.join(", ")
    );
    match (names.is_empty(), refused.is_empty()) {
        (false, true) => signed,
        (false, false) => format!("{signed}; {overruled}"),
        (true, false) => overruled,
        (true, true) => "approved by policy".to_owned(),
    }
}

fn describe_earlier_approval(ticket: &Ticket, round: u32) -> String {
    let mut voided = ticket.approvals_voided.iter().rev();
    let by = voided.find(|approval| approval.round == round);
    match by.map(|approval| ticket.approver(approval)) {
        Some(ApprovedBy::Reviewers { names, refused }) if names.is_empty() => {
            let how = describe_countersigners(&names, &refused);
            format!("{how}, in round {round}, the same tree")
        }
        Some(
            ApprovedBy::Reviewers { .. }
            | ApprovedBy::Person { .. }
            | ApprovedBy::Earlier { .. }
            | ApprovedBy::NobodyAsPolicySays,
        )
        | None => format!("countersigned in round {round}, the same tree"),
    }
}

/// Returns `1 file` or `2 files`.
pub fn count_noun(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

fn plain(activity: &'static str, text: String) -> Sentence {
    Sentence {
        activity,
        mood: Mood::Plain,
        text,
    }
}

fn good(activity: &'static str, text: String) -> Sentence {
    Sentence {
        activity,
        mood: Mood::Good,
        text,
    }
}

fn bad(activity: &'static str, text: String) -> Sentence {
    Sentence {
        activity,
        mood: Mood::Bad,
        text,
    }
}

fn urgent(activity: &'static str, text: String) -> Sentence {
    Sentence {
        activity,
        mood: Mood::Urgent,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::ACTIVITIES;

    #[test]
    fn every_sentence_has_a_word_of_the_list() {
        let source = include_str!("narrate.rs");
        let (code, _) = source.split_once("mod tests").unwrap();
        for how in ["plain(", "good(", "bad(", "urgent("] {
            for part in code.split(how).skip(1) {
                let Some(rest) = part.trim_start().strip_prefix('"') else {
                    continue;
                };
                let (word, _) = rest.split_once('"').unwrap();
                assert!(ACTIVITIES.contains(&word), "{word}");
            }
        }
    }
}
