//! Search over tickets by words and terms such as `stage:reviewing` or `cost>1`, for people.

mod terms;

pub use terms::{SEARCH_TERMS, TicketFilter, parse_dollars};

use std::collections::BTreeMap;

use flow::{Stage, Ticket, TicketId};
use store::{Page, TicketOrder, TicketQuery, TicketRow};
use tokio::task::JoinSet;

use super::questions::tickets::{format_position, parse_order, parse_position};
use super::{App, tickets};
use crate::failure::Failure;

/// Tickets that one search looks at, so that a filter without matches ends.
const SEARCHED_MAX: usize = 20_000;
/// Maximum number of tickets that one search reads as a whole, for terms such as `agent:`.
const READ_MAX: usize = 2_000;
const SEARCH_PAGE: u32 = 500;
/// Queued tickets that are looked at for the place of one.
const LINE_MAX: u32 = 500;
/// Tickets that are read at the same time.
const READ_AT_ONCE: usize = 100;

/// Tickets that match a filter.
#[derive(Debug, Default)]
pub struct FoundTickets {
    pub items: Vec<TicketRow>,
    /// The `after` of the next page, also if the search ended at the limit of tickets that one
    /// search looks at.
    pub next: Option<String>,
}

/// Lists matching tickets. `sort` is a word such as `cost`, or `-cost` for the highest first;
/// without it the newest come first.
pub async fn search(
    app: &App,
    filter: &TicketFilter,
    (sort, after): (Option<&str>, Option<&str>),
    most: u32,
) -> Result<FoundTickets, Failure> {
    let order = sort.map_or(Ok(TicketOrder::default()), parse_order)?;
    let mut position = after.map(|text| parse_position(text, order)).transpose()?;
    let only_stage = filter.is_by_stage();
    let page_size = if only_stage { most } else { SEARCH_PAGE };
    let (mut items, mut searched, mut read) = (Vec::new(), 0, 0);
    while searched < SEARCHED_MAX && read < READ_MAX {
        let query = TicketQuery {
            stages: filter.stages.clone(),
            epic: filter.epic.clone(),
            repository: filter.exact_repository.clone(),
            words: filter.words.clone(),
            order,
            after_value: position.and_then(|(value, _)| value),
            ..TicketQuery::default()
        };
        let page = Page {
            after: position.map(|(_, number)| number),
            most: page_size,
        };
        let rows = tickets::search(app, query, &page).await?;
        searched += rows.items.len();
        let has_more = rows.next.is_some();
        let last = rows.items.len();
        for (part, chunk) in rows.items.chunks(READ_AT_ONCE).enumerate() {
            let tickets = read_matching(app, filter, chunk).await?;
            read += tickets.len();
            for (place_in_chunk, row) in chunk.iter().enumerate() {
                let place = format_position(row, order);
                position = Some(parse_position(&place, order)?);
                let is_wanted = filter.matches_row(row, app.now())
                    && (!filter.reads_tickets()
                        || tickets
                            .get(&row.id)
                            .is_some_and(|ticket| filter.matches_ticket(ticket)));
                if !is_wanted {
                    continue;
                }
                items.push(row.clone());
                if items.len() >= most as usize {
                    let index = part * READ_AT_ONCE + place_in_chunk;
                    let next = (has_more || index + 1 < last).then_some(place);
                    return Ok(FoundTickets { items, next });
                }
            }
        }
        if !has_more {
            return Ok(FoundTickets { items, next: None });
        }
    }
    let next = position.map(|(value, number)| match value {
        Some(value) => format!("{value}.{number}"),
        None => number.to_string(),
    });
    Ok(FoundTickets { items, next })
}

/// Reads the tickets whose rows match, if the filter needs more than the rows. They are read at the
/// same time: one after the other, the waits between two reads would take most of the time.
async fn read_matching(
    app: &App,
    filter: &TicketFilter,
    rows: &[TicketRow],
) -> Result<BTreeMap<TicketId, Ticket>, Failure> {
    let mut reads = JoinSet::new();
    for row in rows {
        if filter.reads_tickets() && filter.matches_row(row, app.now()) {
            let (app, id) = (app.clone(), row.id.clone());
            reads.spawn(async move { app.coordinator.ticket(&id).await });
        }
    }
    let mut tickets = BTreeMap::new();
    while let Some(read) = reads.join_next().await {
        let ticket = read.map_err(Failure::error)??.ticket;
        tickets.insert(ticket.id.clone(), ticket);
    }
    Ok(tickets)
}

/// Counts the queued tickets that are built before this one; `None` if it is not queued, or too many
/// are before it.
pub async fn tickets_ahead(app: &App, ticket: &Ticket) -> Result<Option<usize>, Failure> {
    if ticket.stage != Stage::Queued {
        return Ok(None);
    }
    let mut filter = TicketFilter::default();
    filter.stages = vec![Stage::Queued];
    let rows = search(app, &filter, (Some("urgency"), None), LINE_MAX).await?;
    Ok(rows.items.iter().position(|row| row.id == ticket.id))
}

/// Loads the rows of these tickets, as a list would show them.
pub async fn rows(
    app: &App,
    ids: impl IntoIterator<Item = &TicketId>,
) -> Result<Vec<TicketRow>, Failure> {
    let mut rows = Vec::new();
    for id in ids {
        let stored = app.coordinator.ticket(id).await?;
        let policy = app.coordinator.policy_of(&stored).await?;
        let ticket = stored.ticket;
        let open = ticket.ledger.open_must_fix(&policy).len();
        rows.push(TicketRow {
            // A list continues after the number; these rows are in no list.
            number: 0,
            open_must_fix: u32::try_from(open).unwrap_or(u32::MAX),
            waits_for: u32::try_from(ticket.waits_for.len()).unwrap_or(u32::MAX),
            stage: ticket.stage,
            priority: ticket.spec.priority,
            round: ticket.round,
            epic: ticket.spec.context.epic,
            repository: ticket.spec.context.repository,
            version: ticket.version,
            usd_micros: ticket.spent.ticket.usd_micros,
            created_at: ticket.created_at,
            updated_at: ticket.updated_at,
            title: ticket.spec.title,
            id: ticket.id,
        });
    }
    Ok(rows)
}
