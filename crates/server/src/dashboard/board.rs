//! Board: all tickets by stage, a bounded number of cards in each column.

use axum::extract::Query;
use flow::Stage;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{PageFrame, icon, page, topic};
use super::parts::{empty, query_text, repository_name, ticket_card};
use super::{PageContext, PageResult, Viewer, html as respond};
use app::failure::Failure;
use app::operations::ticket_search::{self, TicketFilter};
use app::operations::tickets;

/// Cards in a column: this is what bounds the memory of a tab.
const CARDS_MAX: u32 = 50;

const ENDED: &str = "ended";

/// Columns: element id, heading and stages.
const COLUMNS: [(&str, &str, &[Stage]); 8] = [
    ("escalated", "Needs you", &[Stage::Escalated]),
    (
        "queued",
        "Queued",
        &[Stage::Pending, Stage::Queued, Stage::Blocked],
    ),
    ("building", "Building", &[Stage::Building]),
    ("checking", "Checking", &[Stage::Checking]),
    ("reviewing", "Reviewing", &[Stage::Reviewing]),
    ("rework", "Rework", &[Stage::Rework]),
    ("merging", "Merging", &[Stage::Approved, Stage::Merging]),
    (
        ENDED,
        "Ended",
        &[Stage::Done, Stage::Failed, Stage::Cancelled],
    ),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BoardQuery {
    /// Only tickets of this repository: its path.
    repo: String,
}

pub async fn show(context: Viewer, Query(query): Query<BoardQuery>) -> PageResult {
    let only = Some(query.repo.as_str()).filter(|path| !path.is_empty());
    let name = only.map_or("board".to_owned(), |path| format!("board:{path}"));
    let live = topic(&context, &name).await?;
    let columns = columns(&context, only).await?;
    let total = tickets::tally(&context.app).await?;
    let repositories = tickets::recent_repositories(&context.app).await?;
    let body = html! {
        div.heading {
            h1 { "Board" }
            @if context.may_change() { div.actions { a.button.primary href="/new" { (icon("new")) "New ticket" } } }
        }
        @if total.iter().all(|(_, count)| *count == 0) {
            (empty("board", "No tickets yet.", &html! {
                p { "Add one and run it, in its repository:" }
                pre { "countersign run \"Greet by name\"" }
            }))
        }
        @if repositories.len() > 1 || only.is_some() {
            nav.quick aria-label="Repositories" {
                a.chip href="/board" aria-current=[only.is_none().then_some("true")] { "All repositories" }
                @for path in &repositories {
                    a.chip href=(format!("/board{}", query_text([("repo", path.as_str())]))) title=(path)
                        aria-current=[(only == Some(path.as_str())).then_some("true")] { (repository_name(path)) }
                }
            }
        }
        div.board { @for column in &columns { (column) } }
    };
    let frame = PageFrame {
        title: "Board",
        section: "/board",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the columns. Each has an id of its own and is replaced as a whole when a ticket moves.
pub async fn columns(context: &PageContext, only: Option<&str>) -> Result<Vec<Markup>, Failure> {
    let tally = match only {
        None => tickets::tally(&context.app).await?,
        Some(repository) => tickets::tally_of(&context.app, repository).await?,
    };
    let mut columns = Vec::with_capacity(COLUMNS.len());
    for (id, heading, stages) in COLUMNS {
        let counts = tally.iter().filter(|(stage, _)| stages.contains(stage));
        let count: u64 = counts.map(|(_, count)| count).sum();
        let words: Vec<&str> = stages.iter().map(|stage| stage.as_str()).collect();
        let mut query = format!("stage:{}", words.join(","));
        // A fixed order: a card does not move while its ticket stays in the column. What has ended
        // is read from the end.
        let sort = if id == ENDED { "-updated" } else { "urgency" };
        let mut filter = TicketFilter::parse(&query);
        filter.exact_repository = only.map(str::to_owned);
        // A term has no blanks, so a list of such a repository is not narrowed.
        let term = only
            .map(repository_name)
            .filter(|name| !name.contains(char::is_whitespace));
        if let Some(name) = term {
            query.push_str(" repo:");
            query.push_str(name);
        }
        let rows =
            ticket_search::search(&context.app, &filter, (Some(sort), None), CARDS_MAX).await?;
        let all = format!(
            "/tickets{}",
            query_text([("q", query.as_str()), ("sort", sort)])
        );
        columns.push(html! {
            section.column id=(column_id(id)) aria-label=(heading) {
                h2 { a href=(all) { (heading) } " " span.count { (count) } }
                ul { @for row in &rows.items { (ticket_card(context, row)) } }
                @if rows.items.is_empty() { p.none { "none" } }
                @if rows.next.is_some() { p.more { a href=(all) { "All " (count) } } }
            }
        });
    }
    Ok(columns)
}

/// Returns the element id of every column.
pub fn column_ids() -> impl Iterator<Item = String> {
    COLUMNS.iter().map(|(id, _, _)| column_id(id))
}

fn column_id(id: &str) -> String {
    format!("column-{id}")
}
