//! Record of a run: what it was told, under which limits it ran, and what it used.

use flow::TicketId;
use maud::{Markup, html};

use super::super::PageContext;
use super::super::markdown::markdown;
use super::super::parts::{duration, grouped, time, usd};
use app::operations::run_files;
use app::operations::transcripts::Transcript;

/// Bytes of the brief that are shown.
const BRIEF_BYTES_MAX: u64 = 200_000;

/// Renders the facts of a run and its brief, which is folded.
pub fn run_record(context: &PageContext, ticket: &TicketId, run: &Transcript) -> Markup {
    let brief = run_files::read_brief(&context.app, ticket, &run.path, BRIEF_BYTES_MAX);
    html! {
        section.panel {
            dl.facts {
                @if let Some(at) = run.started { dt { "Started" } dd { (time(at, context.now())) } }
                @if let Some(end) = &run.ended {
                    dt { "Ended" } dd { (end.how) " after " (duration(end.wall_ms)) }
                    @if let Some(model) = &end.model { dt { "Model" } dd { (model) } }
                    @if let Some(turns) = end.turns { dt { "Turns" } dd { (turns) } }
                    @if let Some(cost) = end.usage.usd_micros.and_then(usd) { dt { "Cost" } dd { (cost) } }
                    @if let Some(tokens) = end.usage.tokens_in { dt { "Tokens read" } dd { (grouped(tokens)) @if let Some(cached) = end.usage.tokens_cached { ", " (grouped(cached)) " from a cache" } } }
                    @if let Some(tokens) = end.usage.tokens_out { dt { "Tokens written" } dd { (grouped(tokens)) } }
                    @if end.denials > 0 { dt { "Refused" } dd { (end.denials) " tool calls" } }
                } @else if run.started.is_some() { dt { "State" } dd { "running, or its end was not recorded" } }
                @if let Some(caps) = &run.budget {
                    dt { "Limits" } dd {
                        @if let Some(cap) = caps.usd_micros.and_then(usd) { (cap) " " }
                        @if let Some(tokens) = caps.tokens { (grouped(tokens)) " tokens " }
                        @if let Some(secs) = caps.wall_secs { (duration(secs.saturating_mul(1000))) }
                    }
                }
                dt { "File" } dd { code { (run.path.display()) } }
            }
            @if let Some(brief) = &brief { details.brief { summary { "Brief: what the agent was told" } (markdown(brief)) } }
        }
    }
}

/// Renders the sandbox level of the reviews of a round, as the reviewers' answers recorded it.
pub fn sandbox_of_round(ticket: &flow::Ticket, round: u32) -> Markup {
    let rounds = ticket.rounds.iter().filter(|one| one.number == round);
    let answers = rounds
        .flat_map(|one| &one.panel)
        .filter_map(|one| one.answer.as_ref());
    html! { @for answer in answers { p.meta { "Sandbox of " (answer.reviewer) ": " (answer.sandbox) } } }
}
