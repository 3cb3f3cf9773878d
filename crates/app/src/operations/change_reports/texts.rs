//! The texts of a ticket's pull request. Everything that an agent, a ticket or a stranger wrote goes
//! through `neutralise`, so it mentions nobody, closes nothing and gives no command.

use std::fmt::Write as _;

use findings::write::location;
use flow::ledger::LedgerEntry;
use flow::narrate::{describe_approval, describe_reason};
use flow::pull_request::{ChangePlan, PlannedGate};
use flow::ticket::CheckOutcome;
use flow::{Policy, Ticket};
use forge::neutral::{neutralise, neutralise_line_of};

use crate::operations::finding_threads::thread_text;

/// Longest description of a ticket in a pull request.
const DESCRIPTION_CHARS_MAX: usize = 8_000;
/// Longest end of a red check's output.
const TAIL_CHARS_MAX: usize = 2_000;

/// Writes the body of the pull request: the wanted change, and what was proven once it is approved.
pub fn change_body(ticket: &Ticket, policy: &Policy) -> String {
    let spec = &ticket.spec;
    let mut text = String::new();
    let description = findings::shorten(spec.description.trim(), DESCRIPTION_CHARS_MAX);
    if description != spec.title.trim() && !description.is_empty() {
        let _ = write!(text, "{}\n\n", neutralise(&description));
    }
    if !spec.acceptance.is_empty() {
        text.push_str("### Acceptance criteria\n\n");
        for criterion in &spec.acceptance {
            let _ = writeln!(text, "- {}", neutralise_line_of(criterion));
        }
        text.push('\n');
    }
    if ticket.approval.is_some() {
        proof(&mut text, ticket, policy);
    }
    let _ = write!(
        text,
        "_Ticket `{}`. Countersign pushes this branch and keeps this text up to date._",
        ticket.id
    );
    text
}

/// Writes what was proven of the approved commit: who approved, the checks, the findings.
fn proof(text: &mut String, ticket: &Ticket, policy: &Policy) {
    let Some(approval) = &ticket.approval else {
        return;
    };
    let how = describe_approval(ticket).unwrap_or_default();
    let _ = write!(
        text,
        "### What was proven\n\nCommit `{}`: {}. Policy `{}`.\n\n",
        approval.commit,
        neutralise_line_of(&how),
        approval.policy
    );
    let signers = flow::landing::countersigners(ticket);
    for signer in signers {
        let model = signer.model.map(|model| format!(" ({model})"));
        let line = format!("{}{}", signer.name, model.unwrap_or_default());
        let _ = writeln!(text, "- Countersigned by {}", neutralise_line_of(&line));
    }
    for check in &approval.checks {
        let _ = writeln!(
            text,
            "- Check {}: {}",
            neutralise_line_of(&check.name),
            outcome_word(check.outcome)
        );
    }
    if approval.checks.is_empty() {
        text.push_str("- No checks are configured.\n");
    }
    text.push('\n');
    findings_table(text, ticket, policy);
}

fn outcome_word(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Passed => "passed",
        CheckOutcome::Flaky => "passed at the second try",
        CheckOutcome::Failed => "failed",
        CheckOutcome::TimedOut => "timed out",
        CheckOutcome::RedOnBase => "red on the base as well",
    }
}

/// Writes all findings with their fate.
fn findings_table(text: &mut String, ticket: &Ticket, policy: &Policy) {
    let entries: Vec<&LedgerEntry> = ticket
        .ledger
        .entries
        .iter()
        .filter(|entry| entry.finding.actionable)
        .collect();
    if entries.is_empty() {
        return;
    }
    text.push_str("| finding | severity | place | what became of it |\n|---|---|---|---|\n");
    for entry in entries {
        let place = location(&entry.finding).unwrap_or_else(|| "the whole change".to_owned());
        let note = entry.note.as_ref().filter(|_| !entry.status.is_open());
        let note = note.map(|note| format!(", {}: {}", note.by, note.text));
        let fate = format!("{}{}", entry.status_text(), note.unwrap_or_default());
        let _ = writeln!(
            text,
            "| {}: {} | {} | {} | {} |",
            entry.id,
            cell(&entry.finding.title),
            severity(entry, policy),
            cell(&place),
            cell(&fate)
        );
    }
    text.push('\n');
}

fn severity(entry: &LedgerEntry, policy: &Policy) -> String {
    let word = entry.severity().word();
    match () {
        () if entry.low_confidence => format!("{word}, a note"),
        () if entry.is_must_fix(policy) => format!("{word}, must be fixed"),
        () => word.to_owned(),
    }
}

/// Writes the summary, which is edited in place: where the ticket is, and every finding.
pub fn summary(ticket: &Ticket, policy: &Policy, plan: &ChangePlan) -> String {
    let (sign, sentence) = match &plan.gate {
        PlannedGate::Pending(text) => ("In progress", text),
        PlannedGate::Success(text) => ("Approved", text),
        PlannedGate::Failure(text) => ("Not approved", text),
    };
    let mut text = format!("### {sign}: {}\n\n", neutralise_line_of(sentence));
    let commit = ticket.submission.as_ref().map(|one| one.commit.as_str());
    let _ = write!(
        text,
        "Ticket `{}`, round {}, commit `{}`.",
        ticket.id,
        ticket.round,
        commit.unwrap_or_default()
    );
    if let Some(change) = ticket
        .change
        .as_ref()
        .filter(|one| !one.waits_for.is_empty())
    {
        let _ = write!(
            text,
            " It waits for {}.",
            neutralise_line_of(&change.waits_for)
        );
    }
    text.push_str("\n\n");
    if let Some(escalation) = &ticket.escalation {
        let _ = write!(
            text,
            "**A person has to decide:** {}\n\n`countersign escalation show {}` has the evidence and the choices.\n\n",
            neutralise_line_of(&describe_reason(&escalation.reason)),
            ticket.id
        );
    }
    let checks = ticket.checks.iter().flat_map(|checks| &checks.results);
    for check in checks.filter(|check| !check.outcome.is_green()) {
        // Neutral in spite of the block: a forge may read blocks in another way than we write them.
        let tail = findings::shorten(&neutralise(&check.tail), TAIL_CHARS_MAX);
        let _ = write!(
            text,
            "Check {} {}:\n\n{}\n\n",
            neutralise_line_of(&check.name),
            outcome_word(check.outcome),
            fenced(&tail)
        );
    }
    findings_table(&mut text, ticket, policy);
    text
}

/// Puts text into a block that its own fences cannot end.
fn fenced(text: &str) -> String {
    let indented: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    indented.join("\n")
}

/// Writes the body of the review of a round.
pub fn review_body(ticket: &Ticket, gate: &PlannedGate, round: u32) -> String {
    let (PlannedGate::Pending(text) | PlannedGate::Success(text) | PlannedGate::Failure(text)) =
        gate;
    format!(
        "Countersign, round {round} of ticket `{}`: {}",
        ticket.id,
        neutralise_line_of(text)
    )
}

/// Writes a finding for its thread.
pub fn finding_text(entry: &LedgerEntry, policy: &Policy) -> String {
    let heading = format!("{} {}", entry.id, severity(entry, policy));
    thread_text(&heading, entry)
}

/// Makes a text fit a cell of a table.
fn cell(text: &str) -> String {
    neutralise_line_of(&findings::shorten(text, 200)).replace('|', "\\|")
}
