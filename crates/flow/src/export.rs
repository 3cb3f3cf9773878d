//! Exports tickets to formats of other systems: task file, epic state, review report and findings
//! document.
//!
//! The names and the values of the fields belong to those systems. A change here breaks their
//! readers.

use findings::write::{
    DocumentHeader, FindingEntry, ReviewReport, review_report, write_findings_document,
};
use findings::{BlockingIssue, DimensionScore, Finding};
use serde_json::{Map, Value, json};

use crate::dialect::{Dialect, stage_word};
use crate::ledger::LedgerEntry;
use crate::ticket::{ApprovedBy, Round, Ticket, TicketId, Time};

/// Error of an export of a round that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchRound {
    #[error("{0} has had no verdict yet, so there is nothing to export")]
    NoRound(TicketId),
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

/// Returns the ticket as a task file. Unknown fields of an imported context are written back.
pub fn task_json(ticket: &Ticket) -> Value {
    let spec = &ticket.spec;
    let context = serde_json::to_value(&spec.context).unwrap_or_default();
    json!({
        "id": ticket.id,
        "type": spec.kind.as_deref().unwrap_or("implementation"),
        "status": stage_word(ticket.stage, Dialect::Queue),
        "priority": spec.priority,
        "created_by": "countersign",
        "assigned_to": ticket.assigned.builder.as_deref().unwrap_or("engineer"),
        "created_at": ticket.created_at.to_iso(),
        "title": spec.title,
        "description": spec.description,
        "depends_on": spec.depends_on,
        "blocks": [],
        "acceptance_criteria": spec.acceptance,
        "deliverables": ticket.submission.as_ref().map(|it| it.files.clone()).unwrap_or_default(),
        "notes": [],
        "context": queue_context(ticket, context),
        // Other systems count repetitions, we count rounds: the first round is no retry.
        "retry_count": ticket.rounds.len().saturating_sub(1),
        "plan": null,
    })
}

/// Renames the fields that task files call `branch_name` and `epic_key`.
fn queue_context(ticket: &Ticket, context: Value) -> Value {
    let Value::Object(mut fields) = context else {
        return context;
    };
    let submission = ticket.submission.as_ref();
    let branch = submission.map(|submission| submission.branch.clone());
    for (ours, theirs) in [("branch", "branch_name"), ("epic", "epic_key")] {
        // Our name is removed, so that the other system does not read the same fact under two
        // names.
        if let Some(value) = fields.remove(ours) {
            fields.insert(theirs.to_owned(), value);
        }
    }
    if let Some(branch) = branch {
        // The imported name of the branch wins: it is what the other system asked for.
        fields.entry("branch_name").or_insert(branch.into());
    }
    Value::Object(fields)
}

pub fn epic_state_json(tickets: &[Ticket]) -> Value {
    let entries: Map<String, Value> = tickets
        .iter()
        .map(|ticket| (ticket.id.to_string(), ticket_state(ticket)))
        .collect();
    json!({"tickets": entries})
}

fn ticket_state(ticket: &Ticket) -> Value {
    let history: Vec<Value> = ticket.rounds.iter().map(review_history).collect();
    let last = ticket.rounds.last();
    json!({
        "status": stage_word(ticket.stage, Dialect::Scored),
        "depends_on": ticket.spec.depends_on,
        "revision_count": ticket.rounds.len().saturating_sub(1),
        "review_started_at": last.map(|round| round.review_started_at.to_iso()),
        "review_completed_at": last.map(|round| round.decided_at.to_iso()),
        "review_approved": last.map(|round| round.verdict.approved),
        "review_history": history,
        "current_review_report": round_report(ticket, None).ok(),
        "git_info": ticket.submission.as_ref().map(|it| json!({
            "branch_name": it.branch, "base_commit": it.base, "final_commit": it.commit,
        })),
        "failure_reason": ticket.ended,
    })
}

fn review_history(round: &Round) -> Value {
    json!({
        // Attempts are counted from 0 in that format, rounds from 1 here.
        "attempt": round.number - 1,
        "reviewed_at": round.decided_at.to_iso(),
        "status": if round.verdict.approved { "pass" } else { "fail" },
        "overall_score": round.verdict.overall_score,
        "blocking_issues_count": round.panel.iter().filter_map(|reviewer| reviewer.answer.as_ref()).map(|a| a.blocking_issues).sum::<u32>(),
        "revision_notes": notes(round),
    })
}

fn notes(round: &Round) -> Option<String> {
    let notes: Vec<&str> = round
        .panel
        .iter()
        .filter_map(|reviewer| reviewer.answer.as_ref()?.notes.as_deref())
        .collect();
    // Notes of an approved round are no reason for a revision.
    (!round.verdict.approved && !notes.is_empty()).then(|| notes.join("\n\n"))
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

/// Returns the findings reported in a round, worst first.
fn reported_in<'a>(ticket: &'a Ticket, round: &Round) -> Vec<&'a LedgerEntry> {
    let reported: std::collections::BTreeSet<&String> = round
        .panel
        .iter()
        .filter_map(|reviewer| reviewer.answer.as_ref())
        .flat_map(|answer| &answer.reported)
        .collect();
    let mut entries: Vec<_> = ticket
        .ledger
        .entries
        .iter()
        .filter(|entry| reported.contains(&entry.id))
        .collect();
    entries.sort_by_key(|entry| entry.severity());
    entries
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
    let blocking_issues: Vec<BlockingIssue> = entries
        .iter()
        .filter(|entry| entry.blocking)
        .map(|entry| BlockingIssue {
            dimension: entry.finding.dimension.clone(),
            message: entry
                .finding
                .problem
                .clone()
                .unwrap_or_else(|| entry.finding.title.clone()),
            required_action: entry.finding.fix.clone(),
        })
        .collect();
    let scores: Vec<(String, DimensionScore)> = round
        .panel
        .iter()
        .filter_map(|reviewer| reviewer.answer.as_ref())
        .flat_map(|answer| answer.scores.clone())
        .collect();
    let passed = |name: &str| {
        round
            .verdict
            .gates
            .iter()
            .find(|gate| gate.name == name)
            // A gate that is off did not fail.
            .is_none_or(|gate| gate.passed)
    };
    let reviewers = reviewers(round);
    Ok(review_report(&ReviewReport {
        ticket_id: ticket.id.as_str(),
        reviewed_at: &round.decided_at.to_iso(),
        reviewer: &reviewers,
        approved: round.verdict.approved,
        overall_score: round.verdict.overall_score,
        revision_count: round.number - 1,
        scores: &scores,
        findings: &findings,
        blocking_issues: &blocking_issues,
        revision_notes: notes(round).as_deref(),
        all_critical_dimensions_pass: passed("dimension minimums"),
        overall_score_above_threshold: passed("overall score"),
    }))
}
