//! Insights and costs over all tickets.

use flow::Ticket;
use flow::insight::{Costs, Insights, collect_insights};
use store::{Page, TicketQuery};

use super::App;
use crate::failure::Failure;

/// Maximum number of tickets that are read, newest first.
const TICKETS_MAX: usize = 10_000;
const PAGE: u32 = 500;
/// Maximum number of tickets for a quick summary such as `status`.
const GLANCE_MAX: usize = 200;

pub async fn load_insights(app: &App) -> Result<Insights, Failure> {
    Ok(collect_insights(&load_newest(app, TICKETS_MAX).await?))
}

/// Loads the newest tickets, for a quick summary.
pub async fn newest(app: &App) -> Result<Vec<Ticket>, Failure> {
    load_newest(app, GLANCE_MAX).await
}

/// Sums the costs of the newest tickets.
pub async fn costs(app: &App) -> Result<Costs, Failure> {
    Ok(Costs::from_tickets(&newest(app).await?))
}

async fn load_newest(app: &App, tickets_max: usize) -> Result<Vec<Ticket>, Failure> {
    let (mut tickets, mut after) = (Vec::new(), None);
    while tickets.len() < tickets_max {
        let left = u32::try_from(tickets_max - tickets.len()).unwrap_or(PAGE);
        let most = left.min(PAGE);
        let page = Page { after, most };
        let rows = app
            .coordinator
            .store
            .tickets(&TicketQuery::default(), &page)
            .await?;
        for row in &rows.items {
            tickets.push(app.coordinator.ticket(&row.id).await?.ticket);
        }
        after = rows.next;
        if after.is_none() {
            break;
        }
    }
    Ok(tickets)
}
