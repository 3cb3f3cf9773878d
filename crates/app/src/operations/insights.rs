//! What all tickets together teach.

use flow::Ticket;
use flow::insight::{Costs, Insights, insights};
use store::{Page, TicketQuery};

use super::App;
use crate::failure::Failure;

/// How many tickets are looked at, the newest first.
const TICKETS_MAX: usize = 10_000;
const PAGE: u32 = 500;
/// For a glance, as `status` is.
const GLANCE_MAX: usize = 200;

pub async fn gather(office: &App) -> Result<Insights, Failure> {
    Ok(insights(&of_newest(office, TICKETS_MAX).await?))
}

/// The newest tickets, for a glance.
pub async fn newest(office: &App) -> Result<Vec<Ticket>, Failure> {
    of_newest(office, GLANCE_MAX).await
}

/// What the newest tickets have cost.
pub async fn costs(office: &App) -> Result<Costs, Failure> {
    Ok(Costs::of(&newest(office).await?))
}

async fn of_newest(office: &App, tickets_max: usize) -> Result<Vec<Ticket>, Failure> {
    let (mut tickets, mut after) = (Vec::new(), None);
    while tickets.len() < tickets_max {
        let left = u32::try_from(tickets_max - tickets.len()).unwrap_or(PAGE);
        let most = left.min(PAGE);
        let page = Page { after, most };
        let rows = office
            .desk
            .store
            .tickets(&TicketQuery::default(), &page)
            .await?;
        for row in &rows.items {
            tickets.push(office.desk.ticket(&row.id).await?.ticket);
        }
        after = rows.next;
        if after.is_none() {
            break;
        }
    }
    Ok(tickets)
}
