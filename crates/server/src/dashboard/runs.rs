//! Runs of a ticket: the transcript of each agent and the output of each check, a bounded part of
//! it at a time.

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{PageFrame, page};
use super::parts::{duration, empty, time};
use super::{PageContext, PageError, PageResult, Viewer, html as respond};
use app::operations::transcripts::{
    Transcript, TranscriptLine, TranscriptLineKind, TranscriptQuery, load_transcripts,
};

/// Turns on a page; older ones are on the page before.
const TURNS_MAX: usize = 500;
/// Characters of one turn; the whole text is in the transcript's file.
const TURN_CHARS_MAX: usize = 20_000;
/// Lines after which a tool's output is folded.
const FOLD_CHARS: usize = 600;

async fn load(context: &PageContext, id: &str) -> Result<Vec<Transcript>, PageError> {
    let ticket = context.app.ticket(id).await?.ticket.id;
    let query = TranscriptQuery::default();
    Ok(load_transcripts(&context.app, Some(&ticket), &query).await?)
}

pub async fn list(context: Viewer, Path(id): Path<String>) -> PageResult {
    let runs = load(&context, &id).await?;
    let body = html! {
        p.meta { a href=(format!("/tickets/{id}")) { "← " (id) } }
        h1 { "Runs of " (id) }
        @if runs.is_empty() {
            (empty("No agent has run on this machine.", &html! {
                p.quiet { "Transcripts stay on the machine of the worker." }
            }))
        }
        table.rows { tbody {
            @for (index, run) in runs.iter().enumerate() {
                tr data-row {
                    td { "round " (run.round) }
                    td.grow {
                        a.title href=(format!("/tickets/{id}/runs/{}", index + 1)) { (run.role) " by " (run.agent) }
                        span.meta { (ending(run)) }
                    }
                    td.num { (run.lines.len()) " lines" }
                    td.num { @if let Some(at) = run.started { (time(at, context.now())) } }
                }
            }
        } }
    };
    let frame = PageFrame {
        title: &format!("Runs of {id}"),
        section: "/tickets",
        topic: None,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

fn ending(run: &Transcript) -> String {
    match &run.ended {
        Some(end) => format!("{}, {}", end.how, duration(end.wall_ms)),
        None => "no end recorded".to_owned(),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunQuery {
    /// Number of the first turn that is shown; without it, the end.
    from: Option<usize>,
}

pub async fn show(
    context: Viewer,
    Path((id, number)): Path<(String, usize)>,
    Query(query): Query<RunQuery>,
) -> PageResult {
    let mut runs = load(&context, &id).await?;
    if number == 0 || number > runs.len() {
        let why = format!("{id} has no run {number}");
        return Err(
            PageError::new(StatusCode::NOT_FOUND, why).back_to(format!("/tickets/{id}/runs"))
        );
    }
    let run = runs.swap_remove(number - 1);
    let last_start = run.lines.len().saturating_sub(TURNS_MAX);
    let from = query.from.unwrap_or(last_start).min(run.lines.len());
    let shown = run.lines.iter().enumerate().skip(from).take(TURNS_MAX);
    let path = format!("/tickets/{id}/runs/{number}");
    let body = html! {
        p.meta { a href=(format!("/tickets/{id}/runs")) { "← Runs of " (id) } }
        h1 { (run.role) " by " (run.agent) ", round " (run.round) }
        p.meta {
            (ending(&run))
            @if let Some(end) = &run.ended {
                @if let Some(model) = &end.model { " · " (model) }
                @if end.denials > 0 { " · " (end.denials) " refused tool calls" }
            }
            @if run.cut { " · the transcript is longer than the part that is read" }
        }
        @if run.lines.is_empty() { p.notice { "No output yet." } }
        nav.pager {
            @if from > 0 { a href=(format!("{path}?from={}", from.saturating_sub(TURNS_MAX))) { "Earlier" } }
            @if from + TURNS_MAX < run.lines.len() { a href=(format!("{path}?from={}", from + TURNS_MAX)) { "Later" } }
        }
        ol.transcript start=(from + 1) {
            @for (index, line) in shown { (turn(index + 1, line)) }
        }
    };
    let frame = PageFrame {
        title: &format!("Run {number} of {id}"),
        section: "/tickets",
        topic: None,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

fn turn(number: usize, line: &TranscriptLine) -> Markup {
    let (class, label) = match line.kind {
        TranscriptLineKind::Said => ("said", "says"),
        TranscriptLineKind::Tool => ("tool", "tool"),
        TranscriptLineKind::Output => ("output", "output"),
        TranscriptLineKind::Denied => ("denied", "refused"),
        TranscriptLineKind::Error => ("error", "error"),
        TranscriptLineKind::Other => ("other", "other"),
    };
    let text = findings::shorten(&line.text, TURN_CHARS_MAX);
    let folded = class == "output" && text.len() > FOLD_CHARS;
    html! {
        li.(class) id=(format!("turn-{number}")) {
            a.label href=(format!("#turn-{number}")) { (label) }
            @if folded {
                details { summary { "Output, " (text.lines().count()) " lines" } pre { (text) } }
            } @else {
                pre { (text) }
            }
        }
    }
}
