//! Sentences about a rejected round: the reviewers that asked for changes, the findings, and the gates
//! that no finding explains.
//!
//! A person and a builder read these sentences first, so they name findings with their place and
//! not gates. A gate is named only where no finding explains it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use findings::ReviewClaim;

use crate::event::{Event, EventKind};
use crate::ledger::LedgerEntry;
use crate::ticket::{CheckResult, ReworkReason, Round, Ticket};

/// Most findings named in one list; the rest is counted.
pub const FINDINGS_SHOWN_MAX: usize = 5;
/// Most characters of a finding's title in a sentence.
const TITLE_CHARS_MAX: usize = 160;
/// Name of the gate of the votes, in [`crate::verdict`].
pub(crate) const VOTES_GATE: &str = "reviewer approves";

/// Describes one finding in a line: `F1 (high) An empty name is greeted, greet.py:12`.
pub fn describe_finding(entry: &LedgerEntry) -> String {
    let title = findings::one_line(&entry.finding.title);
    let title = findings::shorten(&title, TITLE_CHARS_MAX);
    let severity = entry.severity().word();
    let place = findings::one_line(&entry.location());
    if place.is_empty() {
        format!("{} ({severity}) {title}", entry.id)
    } else {
        format!("{} ({severity}) {title}, {place}", entry.id)
    }
}

/// Describes why a round was not approved.
pub fn describe_rejection(ticket: &Ticket, round: &Round) -> String {
    // A finding that two reviewers report, or that a reviewer and a gate name, is told once.
    let mut named: BTreeSet<&str> = BTreeSet::new();
    let mut parts = Vec::new();
    for answer in round
        .panel
        .iter()
        .filter_map(|reviewer| reviewer.answer.as_ref())
    {
        if answer.claim != ReviewClaim::ChangesRequested {
            continue;
        }
        let ids = answer.reported.iter().map(String::as_str);
        let list = list_findings((ticket, round), ids, &mut named);
        // Names of reviewers can come from tokens and configuration. One line keeps a name from
        // forging another.
        let reviewer = findings::one_line(&answer.reviewer);
        parts.push(match list {
            Some(list) => format!("{reviewer} asked for changes: {list}"),
            None => format!("{reviewer} asked for changes"),
        });
    }
    let is_refused = !parts.is_empty();
    let voters = round.panel.iter().filter(|reviewer| !reviewer.linter);
    let has_one_voter = voters.count() == 1;
    for gate in round.verdict.failed_gates() {
        // The refusals above are the reason of this gate.
        // With several voters the count says something that the refusals do not: how many were
        // needed.
        if gate.name == VOTES_GATE && is_refused && has_one_voter {
            continue;
        }
        if gate.findings.is_empty() {
            parts.push(gate.why.clone());
            continue;
        }
        let ids = gate.findings.iter().map(String::as_str);
        let list = list_findings((ticket, round), ids, &mut named);
        parts.extend(list.map(|list| format!("open: {list}")));
    }
    if parts.is_empty() {
        return "no reviewer gave a usable answer".to_owned();
    }
    parts.join("; ")
}

/// Describes why a ticket went back to its builder.
pub fn describe_rework_reason(ticket: &Ticket, reason: &ReworkReason) -> String {
    let red = |results: &[CheckResult]| {
        let red = results.iter().filter(|result| !result.outcome.is_green());
        let names: Vec<String> = red.map(|result| format!("`{}`", result.name)).collect();
        names.join(", ")
    };
    match reason {
        ReworkReason::Findings => match ticket.rounds.last() {
            Some(round) if !round.verdict.approved => describe_rejection(ticket, round),
            Some(_) | None => "findings are open".to_owned(),
        },
        ReworkReason::RedChecks { results } => format!("red checks: {}", red(results)),
        ReworkReason::RedCombination { results } => {
            format!("red together with the base branch: {}", red(results))
        }
        // A rewritten base has no files in conflict; the commits below the change are gone.
        ReworkReason::Conflict { files, .. } if files.is_empty() => {
            "the base branch no longer has the commits it is based on".to_owned()
        }
        ReworkReason::Conflict { files, .. } => {
            format!("conflicts with the base branch: {}", files.join(", "))
        }
        ReworkReason::ForbiddenPaths { paths, .. } => {
            crate::advance::describe_forbidden_paths(paths)
        }
    }
}

/// Lists the findings of a review that has just arrived, a line for each.
pub(crate) fn list_reported(event: &Event, after: &Ticket) -> Vec<String> {
    let EventKind::Reviewed { .. } = &event.what else {
        return Vec::new();
    };
    // The last review of a round decides it, and its answers move to the round's record.
    // The panel of the ticket is still there as well, so the first match is enough.
    let decided = after.rounds.last().map(|round| round.panel.as_slice());
    let panel = after.panel.iter().chain(decided.unwrap_or_default());
    let mut answers = panel.filter_map(|reviewer| reviewer.answer.as_ref());
    let Some(answer) = answers.find(|answer| answer.reviewer == event.by.agent) else {
        return Vec::new();
    };
    let entries = actionable(after, answer.reported.iter().map(String::as_str));
    let mut lines: Vec<String> = entries
        .iter()
        .take(FINDINGS_SHOWN_MAX)
        .map(|entry| describe_finding(entry))
        .collect();
    let more = entries.len() - lines.len();
    if more > 0 {
        let noun = if more == 1 { "finding" } else { "findings" };
        lines.push(format!("and {more} more {noun}"));
    }
    lines
}

/// Returns the findings that cost a round, the most severe first.
fn actionable<'a>(ticket: &'a Ticket, ids: impl Iterator<Item = &'a str>) -> Vec<&'a LedgerEntry> {
    let mut entries: Vec<&LedgerEntry> = ids
        .filter_map(|id| ticket.ledger.get(id))
        .filter(|entry| entry.finding.actionable && !entry.low_confidence)
        .collect();
    // The worst severity sorts first.
    entries.sort_by_key(|entry| entry.severity());
    entries
}

/// Lists findings that no earlier part of the sentence named, the most severe first.
fn list_findings<'a>(
    (ticket, round): (&'a Ticket, &Round),
    ids: impl Iterator<Item = &'a str>,
    named: &mut BTreeSet<&'a str>,
) -> Option<String> {
    let entries = actionable(ticket, ids.filter(|id| named.insert(id)));
    let more = entries.len().saturating_sub(FINDINGS_SHOWN_MAX);
    let shown = entries.iter().take(FINDINGS_SHOWN_MAX);
    let list: Vec<String> = shown
        .map(|entry| describe_finding(&in_words_of(ticket, round, entry)))
        .collect();
    match more {
        _ if list.is_empty() => None,
        0 => Some(list.join("; ")),
        more => Some(format!("{} and {more} more", list.join("; "))),
    }
}

/// Returns a finding in the words of a round: later rounds may have reported it in other words, at
/// another line.
fn in_words_of<'a>(ticket: &Ticket, round: &Round, entry: &'a LedgerEntry) -> Cow<'a, LedgerEntry> {
    // The ledger has the words of the newest report, which may belong to a round that is still open,
    // and the lines of the newest submission.
    let newest = ticket.rounds.last();
    let is_newest = newest.is_none_or(|newest| newest.number <= round.number);
    if is_newest && entry.last_round <= round.number {
        return Cow::Borrowed(entry);
    }
    let until_then = ticket.rounds.iter().rev();
    let mut until_then = until_then.filter(|one| one.number <= round.number);
    let said = until_then.find_map(|one| one.findings.iter().find(|said| said.id == entry.id));
    match said {
        Some(said) => Cow::Owned(LedgerEntry {
            finding: said.finding.clone(),
            ..entry.clone()
        }),
        None => Cow::Borrowed(entry),
    }
}
