//! The event log: every event with its sentence, and its data as JSON.

use axum::extract::Query;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{PageFrame, page, topic};
use super::parts::{empty, mood, query_text, time};
use super::ticket::without_label;
use super::{PageContext, PageResult, Viewer, html as respond};
use app::failure::Failure;
use app::operations::Cursor;
use app::operations::history::LogLine;
use app::operations::questions::work::ReadLog;
use app::operations::questions::{Question, format_cursor};

/// Lines on a page.
const LINES_MAX: u32 = 200;
/// Lines that a filter by words looks at.
const SEARCHED_MAX: u32 = 2_000;
/// Characters of an author; workers have long names.
const BY_CHARS_MAX: usize = 30;
/// Characters of a sentence; a reason may be a long text.
const TEXT_CHARS_MAX: usize = 2_000;
/// Characters of an event's data.
const JSON_CHARS_MAX: usize = 20_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    ticket: String,
    /// Words that all occur in the sentence, the name of the event or the author.
    q: String,
    after: String,
}

pub async fn show(context: Viewer, Query(query): Query<LogQuery>) -> PageResult {
    // Only the newest part of the whole log grows by itself.
    let is_newest = [&query.ticket, &query.q, &query.after]
        .iter()
        .all(|text| text.trim().is_empty());
    let live = topic(&context, if is_newest { "log" } else { "reload" }).await?;
    let given = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let words: Vec<String> = query.q.split_whitespace().map(str::to_lowercase).collect();
    let question = ReadLog {
        ticket: given(&query.ticket),
        after: given(&query.after),
        limit: Some(if words.is_empty() {
            LINES_MAX
        } else {
            SEARCHED_MAX
        }),
        ..ReadLog::default()
    };
    let mut lines = question.answer(&context.app).await?;
    lines.items.retain(|line| {
        let text = format!("{} {} {}", line.text, line.event, line.by).to_lowercase();
        words.iter().all(|word| text.contains(word))
    });
    let surplus = lines.items.len().saturating_sub(LINES_MAX as usize);
    lines.items.drain(..surplus);
    let end = format_cursor(lines.end);
    let address = |after: &str| {
        let pairs = [
            ("ticket", query.ticket.as_str()),
            ("q", &query.q),
            ("after", after),
        ];
        let query = query_text(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
        format!("/log{query}")
    };
    let body = html! {
        h1 { "Log" }
        form.filter method="get" role="search" {
            label.hidden for="q" { "Words" }
            input #q type="search" name="q" value=(query.q) placeholder="words, an event such as waived, or a person";
            label { "Ticket " input name="ticket" value=(query.ticket) size="14"; }
            button type="submit" { "Filter" }
        }
        @if lines.items.is_empty() {
            (empty("log", "No event matches.", &html! { p { a href="/log" { "Drop the filter" } } }))
        }
        ol #lines.story data-lines-max=(LINES_MAX) { @for line in lines.items.iter().rev() { (event(&context, line)) } }
        nav.pager aria-label="Pages" {
            a href=(address("0.0")) { "From the beginning" }
            @if !query.after.is_empty() { a rel="next" href=(address(&end)) { "Later" } a href=(address("")) { "Newest" } }
        }
    };
    let frame = PageFrame {
        title: "Log",
        section: "/log",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the lines after a position, the newest first.
pub async fn lines_after(context: &PageContext, after: Cursor) -> Result<Markup, Failure> {
    let question = ReadLog {
        after: Some(format_cursor(after)),
        ..ReadLog::default()
    };
    let lines = question.answer(&context.app).await?;
    Ok(html! { @for line in lines.items.iter().rev() { (event(context, line)) } })
}

fn event(context: &PageContext, line: &LogLine) -> Markup {
    let json = serde_json::to_string_pretty(line).unwrap_or_default();
    html! {
        li.(mood(line.mood)) data-row {
            span.text {
                @if let Some(ticket) = &line.ticket { a.title href=(format!("/tickets/{ticket}")) { (ticket) } " " }
                (findings::shorten(without_label(&line.text), TEXT_CHARS_MAX))
            }
            details.event {
                summary.meta { (findings::shorten(&line.by, BY_CHARS_MAX)) " · " code { (line.event) } " · " (time(line.at, context.now())) }
                pre tabindex="0" { (findings::shorten(&json, JSON_CHARS_MAX)) }
            }
        }
    }
}
