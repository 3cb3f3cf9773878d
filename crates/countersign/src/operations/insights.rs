//! What all tickets together teach.

use flow::insight::{Insights, insights};
use store::{Page, TicketQuery};

use super::Office;
use crate::failure::Failure;

/// How many tickets are looked at, the newest first.
const TICKETS_MAX: usize = 10_000;
const PAGE: u32 = 500;

pub async fn gather(office: &Office) -> Result<Insights, Failure> {
    let (mut tickets, mut after) = (Vec::new(), None);
    while tickets.len() < TICKETS_MAX {
        let page = Page { after, most: PAGE };
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
    Ok(insights(&tickets))
}
