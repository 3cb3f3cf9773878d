//! Exports tickets to formats of other systems: task file, epic state, review report and findings
//! document.
//!
//! The names and the values of the fields belong to those systems. A change here breaks their
//! readers.

mod epic_state;
mod feedback;
mod revision;
mod task;

pub use epic_state::{ExportedEpic, epic_state_json};
pub use feedback::{RoundFeedback, feedback_by_round, feedback_text};
pub use revision::revision_context;
pub use task::task_json;

use std::collections::BTreeSet;

use findings::write::{
    DocumentHeader, FindingEntry, ReviewReport, review_report, write_findings_document,
};
use findings::{BlockingIssue, DimensionScore, Finding};
use serde_json::{Map, Value};

use crate::policy::Policy;
use crate::ticket::{
    ApprovedBy, ImportedEntry, ImportedFormat, Round, RoundFinding, Stage, Ticket, TicketId, Time,
};

/// Error of an export of a round that does not exist, or has nothing to export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchRound {
    #[error("{0} has had no verdict yet, so there is nothing to export")]
    NoRound(TicketId),
    #[error("round {round} of {ticket} approved the change, so there is nothing to revise")]
    Approved { ticket: TicketId, round: u32 },
    #[error("{ticket} has no round {round}; it has had {rounds}")]
    OtherRound {
        ticket: TicketId,
        round: u32,
        rounds: usize,
    },
}

fn format_minutes(time: Time) -> String {
    time.to_iso()
        .chars()
        .take(16)
        .collect::<String>()
        .replace('T', " ")
}

fn select_round(ticket: &Ticket, number: Option<u32>) -> Result<&Round, NoSuchRound> {
    let round = match number {
        None => ticket.rounds.last(),
        Some(number) => ticket.rounds.iter().find(|round| round.number == number),
    };
    round.ok_or_else(|| match number {
        None => NoSuchRound::NoRound(ticket.id.clone()),
        Some(round) => NoSuchRound::OtherRound {
            ticket: ticket.id.clone(),
            round,
            rounds: ticket.rounds.len(),
        },
    })
}

/// Returns the findings of a round in its own words, worst first.
fn reported_in(ticket: &Ticket, round: &Round) -> Vec<RoundFinding> {
    let mut findings = round.findings.clone();
    if findings.is_empty() {
        // A round of an older version: the ledger's words are the nearest.
        let answers = round.panel.iter().filter_map(|it| it.answer.as_ref());
        let reported: BTreeSet<&String> = answers.flat_map(|answer| &answer.reported).collect();
        let entries = ticket.ledger.entries.iter();
        let entries = entries.filter(|entry| reported.contains(&entry.id));
        findings = entries
            .map(|entry| RoundFinding {
                id: entry.id.clone(),
                finding: entry.finding.clone(),
                blocking: entry.blocking,
            })
            .collect();
    }
    findings.sort_by_key(|one| one.finding.rating.severity);
    findings
}

/// Returns the reviewers' notes of a rejected round. Notes of an approved one ask for nothing.
fn notes(round: &Round) -> Option<String> {
    let notes: Vec<&str> = round.notes().map(|(_, notes)| notes).collect();
    (!round.verdict.approved && !notes.is_empty()).then(|| notes.join("\n\n"))
}

/// Returns the entry that the ticket was imported from, if the file had this format.
fn imported(ticket: &Ticket, format: ImportedFormat) -> Option<&ImportedEntry> {
    let entry = ticket.spec.context.imported.as_ref();
    entry.filter(|entry| entry.format == format)
}

/// Whether work on the ticket has begun here. Until then the other system's status is still true.
fn has_begun(ticket: &Ticket) -> bool {
    !matches!(ticket.stage, Stage::Pending | Stage::Queued)
        || ticket.submission.is_some()
        || !ticket.rounds.is_empty()
}

/// Sets a field. An imported value is replaced only by news.
fn put(fields: &mut Map<String, Value>, name: &str, value: Value, is_news: bool) {
    if is_news || !fields.contains_key(name) {
        fields.insert(name.to_owned(), value);
    }
}

/// Sets the dependencies. The imported list stays as it was written while it means the same.
fn put_dependencies(
    fields: &mut Map<String, Value>,
    ticket: &Ticket,
    entry: Option<&ImportedEntry>,
) {
    let none = BTreeSet::new();
    let completed = entry.map_or(&none, |entry| &entry.completed_dependencies);
    let live = ticket.spec.depends_on.iter().map(TicketId::to_string);
    let all: BTreeSet<String> = live.chain(completed.iter().cloned()).collect();
    let written = entry.and_then(|entry| entry.field(&["depends_on", "dependencies"]));
    let written: BTreeSet<String> = match written {
        Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_str).map(trimmed).collect(),
        Some(Value::String(id)) => BTreeSet::from([trimmed(id)]),
        Some(_) | None => BTreeSet::new(),
    };
    if written != all || entry.is_none() {
        fields.insert("depends_on".to_owned(), all.into_iter().collect());
    }
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

/// Returns the findings document of one round, by default the last.
pub fn findings_document(ticket: &Ticket, round: Option<u32>) -> Result<String, NoSuchRound> {
    let round = select_round(ticket, round)?;
    let entries = reported_in(ticket, round);
    let reviewers = reviewers(round);
    let recommendation = if round.verdict.approved {
        "Review clean: proceed.".to_owned()
    } else {
        match round.verdict.open_must_fix {
            1 => "Fix the 1 must-fix finding.".to_owned(),
            count => format!("Fix the {count} must-fix findings."),
        }
    };
    let head = DocumentHeader {
        story: ticket.id.as_str(),
        round: round.number,
        reviewer: &reviewers,
        date: &format_minutes(round.decided_at),
        branch: ticket
            .submission
            .as_ref()
            .map_or("", |submission| submission.branch.as_str()),
        recommendation: &recommendation,
    };
    let exported: Vec<FindingEntry<'_>> = entries
        .iter()
        .map(|entry| FindingEntry {
            id: Some(&entry.id),
            finding: &entry.finding,
        })
        .collect();
    let mut text = write_findings_document(&head, &exported);
    if !ticket.ledger.entries.is_empty() {
        let lines = ticket.ledger.findings_by_round(round.number);
        text.push_str("\n## Findings by round\n\n");
        text.push_str(&crate::ledger::findings_by_round_table(&lines));
    }
    Ok(text)
}

/// Names the reviewers of a round's verdict. A reviewer that refused is never named for an
/// approval.
fn reviewers(round: &Round) -> String {
    let all = || round.verdict.claims.keys().cloned().collect::<Vec<_>>();
    if !round.verdict.approved {
        return all().join(", ");
    }
    match round.verdict.approved_by() {
        ApprovedBy::Reviewers { names, .. } if !names.is_empty() => names.join(", "),
        ApprovedBy::Reviewers { .. }
        | ApprovedBy::Person { .. }
        | ApprovedBy::Earlier { .. }
        | ApprovedBy::NobodyAsPolicySays => {
            format!("policy, reviewer refused: {}", all().join(", "))
        }
    }
}

/// Counts the revisions that a ticket of an epic state had before it came here.
pub fn earlier_revisions(ticket: &Ticket) -> u64 {
    imported(ticket, ImportedFormat::EpicState).map_or(0, |entry| entry.count("revision_count"))
}

/// Returns the review report of one round, by default the last.
pub fn round_report(ticket: &Ticket, round: Option<u32>) -> Result<Value, NoSuchRound> {
    let round = select_round(ticket, round)?;
    let entries = reported_in(ticket, round);
    let findings: Vec<&Finding> = entries
        .iter()
        // A blocking issue has a list of its own in the report. In both lists it would be counted
        // twice.
        .filter(|entry| !entry.blocking)
        .map(|entry| &entry.finding)
        .collect();
    let blocking_issues = blocking_issues(&entries);
    let scores = weighted_scores(round);
    let mut gates = round.verdict.gates.iter();
    let reviewers = reviewers(round);
    Ok(review_report(&ReviewReport {
        ticket_id: ticket.id.as_str(),
        reviewed_at: &round.decided_at.to_iso(),
        reviewer: &reviewers,
        approved: round.verdict.approved,
        overall_score: round.verdict.overall_score,
        revision_count: u32::try_from(earlier_revisions(ticket))
            .unwrap_or(u32::MAX)
            .saturating_add(round.number - 1),
        scores: &scores,
        findings: &findings,
        blocking_issues: &blocking_issues,
        revision_notes: notes(round).as_deref(),
        all_critical_dimensions_pass: round.critical_dimensions_pass(),
        // Without a score, or with the gate off, nothing was compared.
        overall_score_above_threshold: gates
            .find(|gate| gate.name == "overall score")
            .map(|gate| gate.passed),
    }))
}

/// Returns the scores with their weights. Reviewers need not repeat the policy's.
fn weighted_scores(round: &Round) -> Vec<(String, DimensionScore)> {
    if !round.scores.is_empty() {
        let scored = round.scores.iter().filter_map(|(name, one)| {
            let (score, weight) = (one.score?, Some(one.weight));
            Some((name.clone(), DimensionScore { score, weight }))
        });
        return scored.collect();
    }
    let policy = Policy::default();
    let answers = round.panel.iter().filter_map(|it| it.answer.as_ref());
    let scores = answers.flat_map(|answer| answer.scores.clone());
    scores
        .map(|(name, score)| {
            let known = policy.dimensions.get(&name).map(|known| known.weight);
            let weight = score.weight.or(known);
            (name, DimensionScore { weight, ..score })
        })
        .collect()
}

fn blocking_issues(reported: &[RoundFinding]) -> Vec<BlockingIssue> {
    let blocking = reported.iter().filter(|one| one.blocking);
    let issues = blocking.map(|one| BlockingIssue {
        dimension: one.finding.dimension.clone(),
        message: (one.finding.problem.clone()).unwrap_or_else(|| one.finding.title.clone()),
        required_action: one.finding.fix.clone(),
    });
    issues.collect()
}
