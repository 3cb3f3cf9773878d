//! List of tickets with filters and pages.

use axum::extract::Query;
use flow::Stage;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{PageFrame, page, topic};
use super::parts::{empty, ticket_row};
use super::{PageResult, Viewer, html as respond};
use app::operations::overview::TicketGroup;
use app::operations::ticket_search::{self, TicketFilter};

/// Rows on a page: this is what bounds the memory of a tab.
const PAGE_ROWS: u32 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListQuery {
    q: String,
    after: Option<i64>,
}

pub async fn show(context: Viewer, Query(query): Query<ListQuery>) -> PageResult {
    let live = topic(&context, "tickets").await?;
    let filter = TicketFilter::parse(&query.q);
    let found = ticket_search::search(&context.app, &filter, query.after, PAGE_ROWS).await?;
    let more = found.next.map(|after| address(&query.q, Some(after)));
    let body = html! {
        h1 { "Tickets" }
        form.filter action="/tickets" method="get" {
            label.hidden for="q" { "Filter" }
            input #q type="search" name="q" value=(query.q) autocomplete="off" spellcheck="false"
                placeholder="stage:reviewing  epic:billing  repo:shop  words";
            button type="submit" { "Filter" }
        }
        (quick_filters(&query.q))
        @for problem in &filter.problems { p.notice.bad role="alert" { (problem) } }
        @if found.items.is_empty() {
            (empty("No ticket matches.", &html! {
                @if query.q.is_empty() {
                    p { "Add one: " code { "countersign ticket add \"Greet by name\"" } }
                } @else {
                    p { a href="/tickets" { "Drop the filter" } }
                }
            }))
        } @else {
            table.rows {
                thead { tr {
                    th { "Stage" } th { "Ticket" } th.num { "Round" } th.num { "Open" }
                    th.num { "Cost" } th.num { "Changed" }
                } }
                tbody { @for row in &found.items { (ticket_row(&context, row)) } }
            }
        }
        nav.pager aria-label="Pages" {
            @if query.after.is_some() { a href=(address(&query.q, None)) { "Newest" } }
            @if let Some(more) = more { a rel="next" href=(more) { "Older" } }
        }
    };
    let frame = PageFrame {
        title: "Tickets",
        section: "/tickets",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

fn address(q: &str, after: Option<i64>) -> String {
    let after = after.map(|after| after.to_string());
    let mut pairs = vec![("q", q)];
    pairs.extend(after.as_deref().map(|after| ("after", after)));
    let query = serde_urlencoded::to_string(pairs).unwrap_or_default();
    format!("/tickets?{query}")
}

fn quick_filters(current: &str) -> Markup {
    let groups = TicketGroup::ALL.into_iter().map(|group| {
        let words: Vec<&str> = group
            .stages()
            .iter()
            .map(|stage: &Stage| stage.as_str())
            .collect();
        let q = if words.is_empty() {
            String::new()
        } else {
            format!("stage:{}", words.join(","))
        };
        (group.word(), q)
    });
    html! {
        p.quick {
            @for (word, q) in groups {
                a.chip href=(address(&q, None)) aria-current=[(q == current).then_some("true")] { (word) }
            }
        }
    }
}
