//! Findings of a ticket: each one with its way through the rounds, and all of them as a table.

use findings::Severity;
use flow::Ticket;
use flow::ledger::{FindingStatus, LedgerEntry};
use maud::{Markup, html};

use super::super::PageContext;
use super::super::layout::{form_token, icon};
use super::super::markdown::markdown;
use super::super::parts::severity;
use super::version_field;

/// Open findings that are all shown with their text.
const UNFOLDED_MAX: usize = 8;
/// Rounds in the table; earlier ones are in the findings themselves.
const ROUNDS_MAX: usize = 10;

/// Renders a finding with its way through the rounds.
pub fn finding(context: &PageContext, ticket: &Ticket, entry: &LedgerEntry) -> Markup {
    let one = &entry.finding;
    let sections = [
        ("Problem", &one.problem),
        ("Impact", &one.impact),
        ("Fix", &one.fix),
    ];
    html! {
        details.finding id=(entry.id) open[is_unfolded(ticket, entry)] data-finding {
            summary {
                (severity(entry.severity())) " " strong { (entry.id) } " " (one.title) " " (status(entry.status))
            }
            p.meta {
                @if let Some(path) = &one.file {
                    a href=(format!("/tickets/{}/diff#{}", ticket.id, entry.id)) { code { (entry.location()) } }
                    @if path.is_empty() { "no file" }
                } @else { "no file" }
                " · by "
                @for (index, name) in entry.reported_by.iter().enumerate() {
                    @if index > 0 { ", " } (name)
                }
                " · "
                @for (index, change) in entry.history.iter().enumerate() {
                    @if index > 0 { " → " } "round " (change.round) ": " (change.status.as_str())
                }
                @if entry.history.is_empty() { "round " (entry.first_round) }
                @if entry.untouched { " · on lines that the change did not touch" }
                @if entry.low_confidence { " · a note, which costs no round" }
            }
            @for (heading, text) in sections {
                @if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
                    div.part { strong { (heading) } (markdown(text)) }
                }
            }
            @if let Some(note) = &entry.note { div.part { strong { (note.by) } (markdown(&note.text)) } }
            @if context.may_change() && entry.status.is_open() && !ticket.stage.is_terminal() {
                (waive_form(context, ticket, entry))
            }
        }
    }
}

/// Returns whether a finding is shown with its text. Of many, only the severe ones are.
fn is_unfolded(ticket: &Ticket, entry: &LedgerEntry) -> bool {
    let open = ticket.ledger.entries.iter();
    let open = open.filter(|one| one.status.is_open()).count();
    let is_severe = matches!(entry.severity(), Severity::Critical | Severity::High);
    entry.status.is_open() && (open <= UNFOLDED_MAX || is_severe)
}

/// Renders the state of a finding by a mark and a word.
fn status(status: FindingStatus) -> Markup {
    let (tone, mark) = match status {
        FindingStatus::Open | FindingStatus::NotRepeated | FindingStatus::Reopened => {
            ("bad", "failed")
        }
        FindingStatus::Disputed => ("warn", "alert"),
        FindingStatus::Fixed => ("good", "passed"),
        FindingStatus::Refuted | FindingStatus::Waived | FindingStatus::Duplicate => {
            ("quiet", "passed")
        }
    };
    html! { span.tag.(tone) { (icon(mark)) (status.as_str()) } }
}

fn waive_form(context: &PageContext, ticket: &Ticket, entry: &LedgerEntry) -> Markup {
    let action = format!("/tickets/{}/findings/{}/waive", ticket.id, entry.id);
    let field = format!("waive-{}", entry.id);
    html! {
        details.inline {
            summary { "Waive" }
            form method="post" action=(action) {
                (form_token(context)) (version_field(ticket.version))
                label for=(field) { "Reason, recorded with your name" }
                textarea id=(field) name="why" required rows="2" {}
                button type="submit" { "Waive " (entry.id) }
            }
        }
    }
}

/// Renders what became of each finding, round by round.
pub fn findings_by_round(ticket: &Ticket) -> Markup {
    let skipped = ticket.rounds.len().saturating_sub(ROUNDS_MAX);
    let rounds: Vec<u32> = ticket
        .rounds
        .iter()
        .skip(skipped)
        .map(|round| round.number)
        .collect();
    if rounds.len() < 2 || ticket.ledger.entries.is_empty() {
        return html! {};
    }
    html! {
        div.wide { table.rows.evolution {
            thead { tr {
                th { "Finding" }
                @for round in &rounds { th { "Round " (round) } }
                th { "Now" }
            } }
            tbody { @for entry in &ticket.ledger.entries {
                tr {
                    td.grow { a href=(format!("#{}", entry.id)) { (entry.id) } " " (findings::shorten(&entry.finding.title, 80)) }
                    @for round in &rounds { td { (cell(entry, *round)) } }
                    td { (status(entry.status)) }
                }
            } }
        } }
    }
}

/// Renders the state of a finding after a round: a word if it changed there, a dash if it went on.
fn cell(entry: &LedgerEntry, round: u32) -> Markup {
    let changed = entry
        .history
        .iter()
        .rev()
        .find(|change| change.round == round);
    let before = entry.first_round < round;
    html! {
        @if let Some(change) = changed { (status(change.status)) }
        @else if entry.first_round == round { span.tag.bad { (icon("alert")) "new" } }
        @else if before && entry.last_round >= round { span.quiet { "still open" } }
        @else if before { span.quiet { "–" } }
    }
}
