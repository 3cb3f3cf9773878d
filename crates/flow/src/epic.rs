//! Epics: the state of a group of tickets, and its final report.
//!
//! The state is derived from the tickets every time and stored nowhere, so it cannot disagree with
//! them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::ledger::FindingStatus;
use crate::narrate::count_noun;
use crate::ticket::{Stage, Ticket, TicketId};
use crate::usage::{Usage, format_dollars};

/// Whether a person has to sign the epic off, and whether one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpicSignoff {
    /// No sign-off is required.
    None,
    Waiting,
    Signed,
}

/// State of an epic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "standing")]
pub enum EpicStatus {
    /// Lists the tickets that can be worked on now, the most urgent first.
    Goes { ready: Vec<TicketId> },
    /// A critical ticket has failed, so nothing more is started.
    Stopped { by: TicketId, why: String },
    /// Nothing happens until a person decides on these tickets.
    Waits { tickets: Vec<TicketId> },
    /// All tickets have landed, and a person has to sign the epic off.
    AtTheGate,
    /// All tickets have landed.
    Complete,
    /// All tickets have ended, and some have not landed.
    Incomplete { failed: Vec<TicketId> },
}

/// Derives the state of an epic from its tickets.
pub fn epic_status(tickets: &[Ticket], gate: EpicSignoff) -> EpicStatus {
    let ids = |matches: &dyn Fn(&Ticket) -> bool| {
        let mut matching: Vec<&Ticket> = tickets.iter().filter(|ticket| matches(ticket)).collect();
        matching.sort_by_key(|ticket| -i64::from(ticket.spec.priority));
        matching
            .into_iter()
            .map(|ticket| ticket.id.clone())
            .collect::<Vec<_>>()
    };
    // A critical ticket stops the epic before anything else is looked at: work that is ready must
    // not be started on top of it.
    let stops_epic = |ticket: &&Ticket| ticket.spec.critical && has_failed(ticket);
    if let Some(ticket) = tickets.iter().find(stops_epic) {
        let (by, why) = (ticket.id.clone(), ticket.ended.clone().unwrap_or_default());
        return EpicStatus::Stopped { by, why };
    }
    // Work goes on while anything can go on, even if other tickets wait for a person.
    let ready = ids(&|ticket| !ticket.rests());
    if !ready.is_empty() {
        return EpicStatus::Goes { ready };
    }
    // Nothing runs, and these are not at an end: only a person can move them.
    let waiting = ids(&|ticket| !ticket.stage.is_terminal());
    if !waiting.is_empty() {
        return EpicStatus::Waits { tickets: waiting };
    }
    let failed = ids(&has_failed);
    match (failed.is_empty(), gate) {
        (false, _) => EpicStatus::Incomplete { failed },
        (true, EpicSignoff::Waiting) => EpicStatus::AtTheGate,
        (true, EpicSignoff::None | EpicSignoff::Signed) => EpicStatus::Complete,
    }
}

fn has_failed(ticket: &Ticket) -> bool {
    matches!(ticket.stage, Stage::Failed | Stage::Cancelled)
}

/// Final report of an epic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EpicSummary {
    pub tickets: usize,
    pub landed: usize,
    pub rounds: usize,
    /// Number of findings by outcome.
    pub findings: BTreeMap<String, usize>,
    pub spent: Usage,
    /// Time from the first ticket's creation to the last event.
    pub took_ms: u64,
    pub lines: Vec<EpicTicketSummary>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EpicTicketSummary {
    pub id: TicketId,
    pub title: String,
    pub stage: Stage,
    pub rounds: usize,
    pub findings: usize,
    pub usd_micros: u64,
    pub took_ms: u64,
}

pub fn summarize(tickets: &[Ticket]) -> EpicSummary {
    let mut sum = EpicSummary {
        tickets: tickets.len(),
        ..EpicSummary::default()
    };
    for ticket in tickets {
        sum.landed += usize::from(ticket.stage == Stage::Done);
        sum.rounds += ticket.rounds.len();
        sum.spent = sum.spent.plus(ticket.spent.ticket);
        for entry in &ticket.ledger.entries {
            *sum.findings
                .entry(finding_outcome(entry.status).to_owned())
                .or_default() += 1;
        }
        sum.lines.push(summarize_ticket(ticket));
    }
    let began = tickets.iter().map(|ticket| ticket.created_at.0).min();
    let ended = tickets.iter().map(|ticket| ticket.updated_at.0).max();
    // Clocks of several machines may disagree by a little; a negative time counts as none.
    let took = ended.zip(began).map_or(0, |(ended, began)| ended - began);
    sum.took_ms = u64::try_from(took).unwrap_or_default();
    sum
}

fn summarize_ticket(ticket: &Ticket) -> EpicTicketSummary {
    let took = ticket.updated_at.0 - ticket.created_at.0;
    EpicTicketSummary {
        id: ticket.id.clone(),
        title: ticket.spec.title.clone(),
        stage: ticket.stage,
        rounds: ticket.rounds.len(),
        findings: ticket.ledger.entries.len(),
        usd_micros: ticket.spent.ticket.usd_micros,
        took_ms: u64::try_from(took).unwrap_or_default(),
    }
}

fn finding_outcome(status: FindingStatus) -> &'static str {
    if status.is_open() {
        "open"
    } else {
        status.as_str()
    }
}

/// Formats the report as Markdown.
pub fn render_markdown(id: &str, title: &str, sum: &EpicSummary) -> String {
    let mut out = String::new();
    let title = findings::one_line(title);
    let _ = writeln!(out, "# Epic {id}: {title}\n");
    let tickets = count_noun(sum.tickets, "ticket");
    let _ = writeln!(out, "- {} of {tickets} landed", sum.landed);
    let rounds = count_noun(sum.rounds, "round");
    let _ = writeln!(out, "- {rounds} of review");
    let outcomes: Vec<String> = sum
        .findings
        .iter()
        .map(|(outcome, n)| format!("{n} {outcome}"))
        .collect();
    let outcomes = if outcomes.is_empty() {
        "none".to_owned()
    } else {
        outcomes.join(", ")
    };
    let _ = writeln!(out, "- findings: {outcomes}");
    let spent = sum.spent;
    let _ = writeln!(
        out,
        "- {} and {} tokens, {} a landed ticket; {} s from start to end\n",
        spent.describe_cost([]),
        spent.tokens,
        format_dollars(spent.usd_micros / (sum.landed.max(1) as u64)),
        sum.took_ms / 1000,
    );
    out.push_str(
        "| ticket | | rounds | findings | cost | seconds | |\n|---|---|---|---|---|---|---|\n",
    );
    for line in &sum.lines {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            line.id,
            line.stage,
            line.rounds,
            line.findings,
            format_dollars(line.usd_micros),
            line.took_ms / 1000,
            // A bar would end the cell of the table.
            findings::one_line(&line.title).replace('|', "/"),
        );
    }
    out
}

/// Returns the lines of a dry run: one for each agent that would be started. Several reviewers are
/// named.
pub fn dry_run_plan(id: &TicketId, max_rounds: u32, reviewers: &[String]) -> Vec<String> {
    let would = |role: &str, round: u32| {
        // Tests and documents pin this wording.
        format!("[DRY-RUN] Would spawn epic-{role} for Story {id} round {round}")
    };
    let mut lines = vec![format!("[DRY-RUN] Would spawn epic-builder for Story {id}")];
    for round in 1..=max_rounds {
        for reviewer in reviewers {
            let several = if reviewers.len() > 1 {
                format!(" ({})", findings::one_line(reviewer))
            } else {
                String::new()
            };
            lines.push(would("reviewer", round) + &several);
        }
        if round < max_rounds {
            lines.push(would("fixer", round));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
