//! Pull requests of tickets: orders a look at one, and brings it to the state of its ticket.
//!
//! A report job is an effect of every event that the pull request shows. It reads the change on the
//! forge, reports what it sees to the ticket, and then writes what is missing there. Everything can
//! be repeated; the verdict of a ticket never waits for a forge.

use flow::{EventKind, Queue, Ticket};
use store::{JobQuery, Page};

use super::App;
use crate::failure::Failure;

/// Orders a look at the pull request of a ticket. A look that is ordered already is enough: it reads
/// the state of the forge when it runs.
pub async fn queue_report(app: &App, ticket: &str, why: &str) -> Result<Ticket, Failure> {
    let stored = app.ticket(ticket).await?;
    let query = JobQuery {
        queue: Some(Queue::Report),
        ticket: Some(stored.ticket.id.clone()),
        claimable: true,
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: 1,
    };
    let ready = app.coordinator.store.jobs(&query, &page).await?;
    if !ready.items.is_empty() {
        return Ok(stored.ticket);
    }
    let policy = app.coordinator.policy_of(&stored).await?;
    let why = findings::shorten(&findings::one_line(why), 200);
    let report = app.report(EventKind::ReportRequested { why });
    let id = &stored.ticket.id;
    Ok(app.coordinator.decide(id, &policy, report).await?)
}
