//! Board: all tickets by stage, a bounded number of cards in each column.

use flow::Stage;
use maud::{Markup, html};

use super::layout::{PageFrame, page, topic};
use super::parts::{empty, ticket_card};
use super::{PageContext, PageResult, Viewer, html as respond};
use app::failure::Failure;
use app::operations::{Page, tickets};

/// Cards in a column: this is what bounds the memory of a tab.
const CARDS_MAX: u32 = 50;

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
        "ended",
        "Ended",
        &[Stage::Done, Stage::Failed, Stage::Cancelled],
    ),
];

pub async fn show(context: Viewer) -> PageResult {
    let live = topic(&context, "board").await?;
    let columns = columns(&context).await?;
    let total = tickets::tally(&context.app).await?;
    let body = html! {
        h1 { "Board" }
        @if total.iter().all(|(_, count)| *count == 0) {
            (empty("No tickets yet.", &html! {
                p { "Add one and run it:" }
                pre { "countersign ticket add \"Greet by name\"\ncountersign run" }
            }))
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
pub async fn columns(context: &PageContext) -> Result<Vec<Markup>, Failure> {
    let tally = tickets::tally(&context.app).await?;
    let mut columns = Vec::with_capacity(COLUMNS.len());
    for (id, heading, stages) in COLUMNS {
        let counts = tally.iter().filter(|(stage, _)| stages.contains(stage));
        let count: u64 = counts.map(|(_, count)| count).sum();
        let page = Page {
            after: None,
            most: CARDS_MAX,
        };
        let mut rows = tickets::list(&context.app, stages.to_vec(), None, &page).await?;
        // A fixed order: a card does not move while its ticket stays in the column.
        rows.items.sort_by_key(|row| {
            (
                std::cmp::Reverse(row.priority),
                std::cmp::Reverse(row.number),
            )
        });
        let words: Vec<&str> = stages.iter().map(|stage| stage.as_str()).collect();
        let all = format!("/tickets?q=stage:{}", words.join(","));
        columns.push(html! {
            section.column id=(column_id(id)) aria-label=(heading) {
                h2 { a href=(all) { (heading) } " " span.count { (count) } }
                ul { @for row in &rows.items { (ticket_card(context, row)) } }
                @if rows.next.is_some() { p { a href=(all) { "More" } } }
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
