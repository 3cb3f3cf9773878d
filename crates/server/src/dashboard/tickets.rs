//! List of tickets with filters, orders, pages, and one action on several tickets.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use flow::Stage;
use maud::{Markup, html};
use serde::Deserialize;

use super::forms::SubmittedForm;
use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{empty, outcome, query_text, ticket_row};
use super::{PageContext, PageError, PageResult, Viewer, html as respond};
use app::operations::overview::TicketGroup;
use app::operations::ticket_search::{self, SEARCH_TERMS, TicketFilter};
use app::operations::tickets;

/// Rows on a page: this is what bounds the memory of a tab.
const PAGE_ROWS: u32 = 100;
/// Tickets of one action.
/// As many as a page has rows, so that more cannot have been seen when they were chosen.
const ACTION_MAX: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListQuery {
    q: String,
    sort: String,
    after: String,
}

/// Returns the address of a list. Empty values are left out.
fn address(q: &str, sort: &str, after: &str) -> String {
    let pairs = [("q", q), ("sort", sort), ("after", after)];
    let query = query_text(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
    format!("/tickets{query}")
}

pub async fn show(context: Viewer, Query(query): Query<ListQuery>) -> PageResult {
    let is_plain = [&query.q, &query.sort, &query.after]
        .iter()
        .all(|text| text.is_empty());
    let name = if is_plain {
        "tickets"
    } else {
        "sorted-tickets"
    };
    let live = topic(&context, name).await?;
    let filter = TicketFilter::parse(&query.q);
    // A browser sends empty fields as well.
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (sort, after) = (given(&query.sort), given(&query.after));
    let place = (sort.as_deref(), after.as_deref());
    let found = ticket_search::search(&context.app, &filter, place, PAGE_ROWS).await?;
    let tally = tickets::tally(&context.app).await?;
    let next = found.next.as_deref();
    let body = html! {
        div.heading {
            h1 { "Tickets" }
            @if context.may_change() {
                div.actions { a.button.primary href="/new" { (icon("new")) "New ticket" } }
            }
        }
        form.filter action="/tickets" method="get" role="search" {
            label.hidden for="q" { "Filter" }
            input #q type="search" name="q" value=(query.q) autocomplete="off" spellcheck="false"
                placeholder="stage:reviewing  agent:claude  cost>1  age>1h  words";
            @if !query.sort.is_empty() { input type="hidden" name="sort" value=(query.sort); }
            button type="submit" { "Filter" }
            (help())
        }
        (quick_filters(&query, &tally))
        @for problem in &filter.problems { p.notice.bad role="alert" { (icon("alert")) (problem) } }
        @if found.items.is_empty() { (nothing(&context, &query, &filter)) }
        @else {
            form method="post" action="/tickets" #selection {
                (form_token(&context))
                // After the action the person comes back to the same page of the same list.
                input type="hidden" name="next" value=(address(&query.q, &query.sort, &query.after));
                div.wide { table.rows.tickets {
                    thead { tr {
                        th { "Stage" } th { (sorted(&query, "created", "Ticket")) }
                        th.num { (sorted(&query, "round", "Round")) }
                        th.num { (sorted(&query, "must_fix", "Open")) }
                        th.num { (sorted(&query, "priority", "Priority")) }
                        th.num { (sorted(&query, "cost", "Cost")) }
                        th.num { (sorted(&query, "updated", "Changed")) }
                    } }
                    tbody { @for row in &found.items { (ticket_row(&context, row)) } }
                } }
                @if context.may_change() { (actions()) }
            }
        }
        nav.pager aria-label="Pages" {
            @if !query.after.is_empty() { a href=(address(&query.q, &query.sort, "")) { "First page" } }
            @if let Some(next) = next { a rel="next" href=(address(&query.q, &query.sort, next)) { "Next page" } }
        }
    };
    let frame = PageFrame {
        title: "Tickets",
        section: "/tickets",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

fn help() -> Markup {
    html! {
        details.help {
            summary { "Terms" }
            dl.facts { @for (term, meaning) in SEARCH_TERMS { dt { code { (term) } } dd { (meaning) } } }
            p.quiet { "All terms must match. Other words are searched in id, title and epic." }
        }
    }
}

/// Renders the heading of a column that sorts the list by it: first the highest, then the lowest.
fn sorted(query: &ListQuery, word: &str, label: &str) -> Markup {
    let falling = format!("-{word}");
    // The list is sorted without a word too, and its column shows it.
    let is_default = word == "created" && query.sort.is_empty();
    let (next, mark, state) = if query.sort == falling || is_default {
        (word.to_owned(), " ↓", Some("descending"))
    } else if query.sort == word {
        (falling, " ↑", Some("ascending"))
    } else {
        (falling, "", None)
    };
    html! {
        a.sort href=(address(&query.q, &next, "")) title="Sort" { (label) (mark) }
        @if let Some(state) = state { span.hidden { ", " (state) } }
    }
}

/// Renders the bar that acts on the chosen rows.
fn actions() -> Markup {
    html! {
        details.panel.bulk {
            summary { "Act on the chosen tickets" span.meta { " (" kbd { "x" } " chooses the row)" } }
            label for="bulk-why" { "Reason, recorded with your name" }
            textarea #bulk-why name="why" rows="2" {}
            // The only action for many: other decisions need a look at each ticket.
            div.choices { button.danger type="submit" name="action" value="cancel" { "Cancel them for good" } }
        }
    }
}

/// Renders the empty list: each term can be dropped by itself.
fn nothing(context: &PageContext, query: &ListQuery, filter: &TicketFilter) -> Markup {
    empty(
        "list",
        "No ticket matches.",
        &html! {
            @if query.q.is_empty() {
                p { "Add one: " code { "countersign ticket add \"Greet by name\"" } }
                @if context.may_change() { p { a.button.primary href="/new" { "New ticket" } } }
            } @else {
                p { "Drop a term:" }
                p.quick { @for (index, term) in filter.terms.iter().enumerate() {
                    // By position and not by text, because a term may be given twice.
                    @let rest = filter.terms.iter().enumerate().filter(|(at, _)| *at != index);
                    @let rest: Vec<&str> = rest.map(|(_, term)| term.as_str()).collect();
                    a.chip href=(address(&rest.join(" "), &query.sort, "")) { (term) " ×" }
                } }
                p { a href="/tickets" { "Drop the filter" } }
            }
        },
    )
}

fn quick_filters(query: &ListQuery, tally: &[(Stage, u64)]) -> Markup {
    let groups = TicketGroup::ALL.into_iter().map(|group| {
        let stages = group.stages();
        let counted = tally
            .iter()
            // The group without stages is that of all tickets.
            .filter(|(stage, _)| stages.is_empty() || stages.contains(stage));
        let count: u64 = counted.map(|(_, count)| count).sum();
        let words: Vec<&str> = stages.iter().map(|stage| stage.as_str()).collect();
        let q = if words.is_empty() {
            String::new()
        } else {
            format!("stage:{}", words.join(","))
        };
        (group.word(), q, count)
    });
    html! {
        p.quick {
            @for (word, q, count) in groups {
                a.chip href=(address(&q, &query.sort, "")) aria-current=[(q == query.q).then_some("true")] {
                    (word) " " span.count { (count) }
                }
            }
        }
    }
}

/// Cancels the chosen tickets one by one, and says what became of each.
pub async fn act(context: Viewer, body: Bytes) -> Result<Response, PageError> {
    let form = SubmittedForm::parse(&body)?;
    let app = form.acting(&context)?;
    let bad = |why: &str| PageError::new(StatusCode::UNPROCESSABLE_ENTITY, why).back_to("/tickets");
    let why = form.get("why").map(str::trim).unwrap_or_default();
    if form.get("action") != Some("cancel") {
        return Err(bad("No action was chosen; nothing was changed."));
    }
    let ids: Vec<&str> = form.all("ticket").take(ACTION_MAX).collect();
    if ids.is_empty() {
        return Err(bad("No ticket was chosen; nothing was changed."));
    }
    if why.is_empty() {
        return Err(bad("A reason is missing; nothing was changed."));
    }
    // One that cannot be cancelled does not keep the others. The page says what became of each.
    let mut results: BTreeMap<&str, Result<(), String>> = BTreeMap::new();
    for id in ids {
        let cancelled = tickets::cancel(&app, id, why).await;
        results.insert(id, cancelled.map(|_| ()).map_err(|failure| failure.message));
    }
    let page: Html<String> = result_page(&context, &results).await?;
    Ok(page.into_response())
}

async fn result_page(
    context: &PageContext,
    results: &BTreeMap<&str, Result<(), String>>,
) -> PageResult {
    let done = results.values().filter(|result| result.is_ok()).count();
    let body = html! {
        h1 { (done) " of " (results.len()) " tickets cancelled" }
        ul.plain { @for (id, result) in results {
            li {
                (outcome(result.is_ok())) " " a href=(format!("/tickets/{id}")) { (id) }
                @if let Err(why) = result { span.meta { " " (why) } }
            }
        } }
        p { a.button href="/tickets" { "Back to the list" } }
    };
    let frame = PageFrame {
        title: "Tickets",
        section: "/tickets",
        topic: None,
    };
    Ok(respond(page(context, frame, &body).await?))
}
