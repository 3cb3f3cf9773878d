//! Tickets that belong together: how the whole stands, and what came of it in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::ledger::FindingStatus;
use crate::ticket::{Stage, Ticket, TicketId};
use crate::usage::{Usage, dollars};

/// Whether a person signs the whole, and whether one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpicSignoff {
    /// Nobody is asked.
    None,
    Waits,
    Signed,
}

/// How an epic stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "standing")]
pub enum EpicStatus {
    /// These can be worked on now, the more urgent first.
    Goes { ready: Vec<TicketId> },
    /// A critical ticket has failed: nothing more is started.
    Stopped { by: TicketId, why: String },
    /// Nothing goes on until a person has decided on these.
    Waits { tickets: Vec<TicketId> },
    /// All tickets have ended, and a person signs.
    AtTheGate,
    /// All have landed.
    Complete,
    /// All have ended, and some have not landed.
    Incomplete { failed: Vec<TicketId> },
}

/// How the whole stands, by how each stands.
pub fn standing(tickets: &[Ticket], gate: EpicSignoff) -> EpicStatus {
    let ids = |wanted: &dyn Fn(&Ticket) -> bool| {
        let mut found: Vec<&Ticket> = tickets.iter().filter(|ticket| wanted(ticket)).collect();
        found.sort_by_key(|ticket| -i64::from(ticket.spec.priority));
        found
            .into_iter()
            .map(|ticket| ticket.id.clone())
            .collect::<Vec<_>>()
    };
    let broke = |ticket: &&Ticket| ticket.spec.critical && has_failed(ticket);
    if let Some(ticket) = tickets.iter().find(broke) {
        let (by, why) = (ticket.id.clone(), ticket.ended.clone().unwrap_or_default());
        return EpicStatus::Stopped { by, why };
    }
    let ready = ids(&|ticket| ticket.stage.is_at_work());
    if !ready.is_empty() {
        return EpicStatus::Goes { ready };
    }
    let waiting = ids(&|ticket| !ticket.stage.is_terminal());
    if !waiting.is_empty() {
        return EpicStatus::Waits { tickets: waiting };
    }
    let failed = ids(&has_failed);
    match (failed.is_empty(), gate) {
        (false, _) => EpicStatus::Incomplete { failed },
        (true, EpicSignoff::Waits) => EpicStatus::AtTheGate,
        (true, EpicSignoff::None | EpicSignoff::Signed) => EpicStatus::Complete,
    }
}

fn has_failed(ticket: &Ticket) -> bool {
    matches!(ticket.stage, Stage::Failed | Stage::Cancelled)
}

/// What came of an epic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpicSummary {
    pub tickets: usize,
    pub landed: usize,
    pub rounds: usize,
    /// Findings by what became of them.
    pub findings: BTreeMap<String, usize>,
    pub spent: Usage,
    /// From the first ticket's beginning to the last event of any.
    pub took_ms: u64,
    pub lines: Vec<EpicTicketSummary>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpicTicketSummary {
    pub id: TicketId,
    pub title: String,
    pub stage: Stage,
    pub rounds: usize,
    pub findings: usize,
    pub usd_micros: u64,
    pub took_ms: u64,
}

pub fn completion(tickets: &[Ticket]) -> EpicSummary {
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
                .entry(fate(entry.status).to_owned())
                .or_default() += 1;
        }
        sum.lines.push(line(ticket));
    }
    let began = tickets.iter().map(|ticket| ticket.created_at.0).min();
    let ended = tickets.iter().map(|ticket| ticket.updated_at.0).max();
    let took = ended.zip(began).map_or(0, |(ended, began)| ended - began);
    sum.took_ms = u64::try_from(took).unwrap_or_default();
    sum
}

fn line(ticket: &Ticket) -> EpicTicketSummary {
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

fn fate(status: FindingStatus) -> &'static str {
    if status.is_open() {
        "open"
    } else {
        status.word()
    }
}

/// The report for people, as Markdown.
pub fn written(id: &str, title: &str, sum: &EpicSummary) -> String {
    let mut out = String::new();
    let title = findings::one_line(title);
    let _ = writeln!(out, "# Epic {id}: {title}\n");
    let _ = writeln!(out, "- {} of {} tickets landed", sum.landed, sum.tickets);
    let _ = writeln!(out, "- {} rounds of review", sum.rounds);
    let fates: Vec<String> = sum
        .findings
        .iter()
        .map(|(fate, n)| format!("{n} {fate}"))
        .collect();
    let fates = if fates.is_empty() {
        "none".to_owned()
    } else {
        fates.join(", ")
    };
    let _ = writeln!(out, "- findings: {fates}");
    let spent = sum.spent;
    let _ = writeln!(
        out,
        "- {} and {} tokens, {} a landed ticket; {} s from begin to end\n",
        dollars(spent.usd_micros),
        spent.tokens,
        dollars(spent.usd_micros / (sum.landed.max(1) as u64)),
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
            dollars(line.usd_micros),
            line.took_ms / 1000,
            findings::one_line(&line.title).replace('|', "/"),
        );
    }
    out
}

/// What would be done, in 004's form: one line for each agent that would be started. Reviewers
/// are told apart where there are several.
pub fn rehearsal(id: &TicketId, max_rounds: u32, seats: &[String]) -> Vec<String> {
    let would = |who: &str, round: u32| {
        format!("[DRY-RUN] Would spawn epic-{who} for Story {id} round {round}")
    };
    let mut lines = vec![format!("[DRY-RUN] Would spawn epic-builder for Story {id}")];
    for round in 1..=max_rounds {
        for seat in seats {
            let several = if seats.len() > 1 {
                format!(" ({})", findings::one_line(seat))
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
