//! Runs of a ticket: the transcript of each agent and the output of each check, a bounded part of
//! it at a time.

mod record;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use flow::Time;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{PageFrame, icon, page, topic};
use super::markdown::markdown;
use super::parts::{duration, empty, time};
use super::{PageContext, PageError, PageResult, Viewer, html as respond};
use app::operations::run_files;
use app::operations::transcripts::{
    Transcript, TranscriptLine, TranscriptLineKind, TranscriptQuery, TranscriptWindow,
    load_transcripts, load_window,
};

/// Turns on a page; older ones are on the page before.
const TURNS_MAX: usize = 500;
/// Characters of one turn; the whole text is in the transcript's file.
const TURN_CHARS_MAX: usize = 20_000;
/// Characters of a folded call or output that are shown.
const FIRST_LINE_CHARS: usize = 160;

/// Only the headers: a ticket may have many transcripts of many megabytes.
const HEADERS: TranscriptQuery = TranscriptQuery {
    round: None,
    role: None,
    raw: false,
    headers_only: true,
};

pub async fn list(context: Viewer, Path(id): Path<String>) -> PageResult {
    // The id as stored: the address may have a short form of it.
    let id = context.app.ticket(&id).await?.ticket.id;
    let live = topic(&context, &format!("stale:{id}")).await?;
    let runs = load_transcripts(&context.app, Some(&id), &HEADERS).await?;
    let body = html! {
        p.crumbs { a href=(format!("/tickets/{id}")) data-up { (id) } " / Runs" }
        h1 { "Runs of " (id) }
        @if runs.is_empty() {
            (empty("log", "No agent has run on this machine.", &html! {
                p.quiet { "Transcripts stay on the machine of the worker." }
            }))
        }
        table.rows { tbody {
            @for (index, run) in runs.iter().enumerate() {
                tr data-row {
                    td.state { "round " (run.round) }
                    td.grow {
                        a.title href=(format!("/tickets/{id}/runs/{}", address_of(run, index))) { (heading(run)) }
                        span.meta { (ending(run)) }
                    }
                    td.num { (size(run.bytes)) }
                    td.num { @if let Some(at) = run.started { (time(at, context.now())) } }
                }
            }
        } }
    };
    let frame = PageFrame {
        title: &format!("Runs of {id}"),
        section: "/tickets",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Returns the last part of a run's address: its id, because its number changes when another run
/// of the same round comes before it. The output of a check has only a number.
fn address_of(run: &Transcript, index: usize) -> String {
    let number = || (index + 1).to_string();
    run.run.clone().unwrap_or_else(number)
}

fn heading(run: &Transcript) -> String {
    match run.role.as_str() {
        "check" => format!("check: {}", run.agent),
        role => format!("{role} by {}", run.agent),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0 => "empty".to_owned(),
        1..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

fn ending(run: &Transcript) -> String {
    match &run.ended {
        Some(end) => format!("{}, {}", end.how, duration(end.wall_ms)),
        // The output of a check is written when it has ended.
        None if run.role == "check" => String::new(),
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
    Path((id, number)): Path<(String, String)>,
    Query(query): Query<RunQuery>,
) -> PageResult {
    let with_policy = context.app.ticket(&id).await?;
    let stored = &with_policy.ticket;
    let (ticket, id) = (stored.id.clone(), &stored.id);
    let mut runs = load_transcripts(&context.app, Some(&ticket), &HEADERS).await?;
    let by_id = runs
        .iter()
        .position(|run| run.run.as_ref() == Some(&number));
    let by_number = || number.parse::<usize>().ok()?.checked_sub(1);
    let place = by_id.or_else(by_number);
    let Some(place) = place.filter(|place| *place < runs.len()) else {
        let why = format!("there is no run {} of {id}", findings::shorten(&number, 20));
        return Err(
            PageError::new(StatusCode::NOT_FOUND, why).back_to(format!("/tickets/{id}/runs"))
        );
    };
    let run = runs.swap_remove(place);
    let window = match &run.run {
        // Reads the part that is shown, from its place in the file.
        Some(run) => load_window(&context.app, &ticket, run, query.from, TURNS_MAX).await?,
        None => None,
    };
    let window = match window {
        Some(window) => window,
        None => check_window(&context, &ticket, run, query.from).await?,
    };
    let (from, total) = (window.first, window.total);
    // Only the last page grows; the others are as they are.
    let has_end = from + window.transcript.lines.len() >= total;
    let run = window.transcript;
    // The newest turns follow the run while it goes on.
    let live = run.run.as_ref().filter(|_| has_end && run.ended.is_none());
    let live = live.map(|run| super::live::run_topic(&ticket, run, (window.end, total)));
    let idle_ms = run_files::idle_limit_ms(&context.app, &with_policy).await?;
    let shown = run.lines.iter().enumerate();
    let path = format!("/tickets/{id}/runs/{number}");
    let body = html! {
        p.crumbs { a href=(format!("/tickets/{id}")) { (id) } " / " a href=(format!("/tickets/{id}/runs")) data-up { "Runs" } }
        h1 { (heading(&run)) ", round " (run.round) }
        (record::run_record(&context, &stored.id, &run))
        @if run.role == "review" { (record::sandbox_of_round(stored, run.round)) }
        @if run.cut { p.notice { "The transcript is longer than the part that is read; the file has all of it." } }
        @if run.lines.is_empty() {
            // A check is shown when it has ended.
            p.notice { (icon("wait")) @if run.role == "check" { "This check printed nothing." } @else { "No output yet." } }
        }
        nav.pager {
            @if from > 0 { a href=(format!("{path}?from={}", from.saturating_sub(TURNS_MAX))) { "Earlier" } }
            @if !has_end { a href=(format!("{path}?from={}", from + TURNS_MAX)) { "Later" } }
        }
        ol #turns.transcript start=(from + 1) data-turns-max=(TURNS_MAX) {
            @for (index, line) in shown { (turn(from + index + 1, line)) }
        }
        p #run-end.notice hidden {}
        @if live.is_some() {
            @let at = run.written_at.or(run.started).unwrap_or_else(|| context.now());
            p.meta { "Last output " (last_output(at, context.now())) ". A run that is silent for " (duration(idle_ms)) " is ended." }
        }
    };
    let frame = PageFrame {
        title: &format!("Run {number} of {id}"),
        section: "/tickets",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Loads the output of a check, which has no record of a run.
async fn check_window(
    context: &PageContext,
    ticket: &flow::TicketId,
    check: Transcript,
    from: Option<usize>,
) -> Result<TranscriptWindow, PageError> {
    let query = TranscriptQuery {
        round: Some(check.round),
        role: Some(check.role.clone()),
        ..TranscriptQuery::default()
    };
    let mut all = load_transcripts(&context.app, Some(ticket), &query).await?;
    all.retain(|one| one.agent == check.agent);
    let mut transcript = all.pop().unwrap_or(check);
    let total = transcript.lines.len();
    // Without a wish the end is shown: that is where a failed check says why.
    let last_start = total.saturating_sub(TURNS_MAX);
    let first = from.unwrap_or(last_start).min(total);
    transcript.lines = transcript
        .lines
        .into_iter()
        .skip(first)
        .take(TURNS_MAX)
        .collect();
    Ok(TranscriptWindow {
        transcript,
        first,
        total,
        end: 0,
    })
}

/// Renders when a run printed something; the live stream renews it.
pub fn last_output(at: Time, now: Time) -> Markup {
    html! { span #last-output { (time(at, now)) } }
}

/// Renders one turn; the live stream adds them to the list.
pub fn turn(number: usize, line: &TranscriptLine) -> Markup {
    let (class, label, mark) = match line.kind {
        TranscriptLineKind::Said => ("said", "says", "person"),
        TranscriptLineKind::Tool => ("tool", "tool", "run"),
        TranscriptLineKind::Output => ("output", "output", "log"),
        TranscriptLineKind::Denied => ("denied", "refused", "failed"),
        TranscriptLineKind::Error => ("error", "error", "alert"),
        TranscriptLineKind::Other => ("other", "other", "log"),
    };
    // A tool may print a whole file. The page has to stay usable on a phone.
    let text = findings::shorten(&line.text, TURN_CHARS_MAX);
    let first = findings::shorten(text.lines().next().unwrap_or_default(), FIRST_LINE_CHARS);
    // The first line is usually the command; the rest opens on a click.
    let rest = text.lines().count().saturating_sub(1);
    let is_call = matches!(
        line.kind,
        TranscriptLineKind::Tool | TranscriptLineKind::Output
    );
    html! {
        li.(class) id=(format!("turn-{number}")) data-row {
            a.label href=(format!("#turn-{number}")) title=(format!("Link to turn {number}")) { (number) span.hidden { " " (label) } }
            @if line.kind == TranscriptLineKind::Said { (markdown(&text)) }
            @else if is_call && (rest > 0 || text.len() > FIRST_LINE_CHARS) {
                details {
                    summary { (icon(mark)) code { (first) } @if rest > 0 { span.meta { " +" (rest) " lines" } } }
                    pre tabindex="0" { (text) }
                }
            } @else if is_call { p.call { (icon(mark)) code { (text) } } }
            @else { pre { (icon(mark)) (text) } }
        }
    }
}
