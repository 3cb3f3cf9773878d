//! What the next round may cost, from what rounds have cost in this repository so far.

use engine::workshop::Project;
use flow::event::EventKind;
use flow::forecast::{CostHistory, Forecast, forecast};
use flow::{Event, Policy, Role, Ticket, TicketId};
use store::{EventBody, EventQuery, Page, Stored, TicketQuery};

use super::App;
use crate::failure::Failure;

/// How far back is looked: tickets of the repository, and events of each.
const TICKETS_MAX: u32 = 30;
const EVENTS_MAX: u32 = 300;

type RoleAgents = Vec<(Role, String)>;

/// Before a ticket is worked on, with the crew that is there for it.
pub async fn before_run(office: &App, shop: &Project, id: &TicketId) -> Result<Forecast, Failure> {
    let ticket = office.desk.ticket(id).await?.ticket;
    let policy = &shop.project.policy;
    let seats = policy.reviewers.iter();
    let seats = seats
        .filter(|seat| !seat.is_linter() && !seat.confirms && seat.fits(&ticket, ticket.round));
    let judges = seats.filter_map(|seat| shop.crew.who(Role::Reviewer, seat.agent.as_deref()));
    let judges = judges.map(|member| (Role::Reviewer, member.name.clone()));
    let builder = (Role::Builder, shop.builder_name().to_owned());
    let crew: RoleAgents = std::iter::once(builder).chain(judges).collect();
    let (history, _) = gather(office, &ticket).await?;
    told(office, &ticket, policy, &crew, &history).await
}

/// For whoever looks at a ticket: nobody knows who will take it up, so the last crew is assumed.
pub async fn of_ticket(office: &App, stored: &Stored) -> Result<Forecast, Failure> {
    let policy = office.desk.policy_of(stored).await?;
    let (history, last) = gather(office, &stored.ticket).await?;
    told(office, &stored.ticket, &policy, &last, &history).await
}

async fn told(
    office: &App,
    ticket: &Ticket,
    policy: &Policy,
    crew: &RoleAgents,
    history: &CostHistory,
) -> Result<Forecast, Failure> {
    let today = (office.desk.clock)().day();
    let spent = office.desk.store.spent_since(today).await?;
    Ok(forecast(ticket, policy, crew, history, spent))
}

/// What runs have cost in the ticket's repository, and who took part in the newest ticket there.
async fn gather(office: &App, ticket: &Ticket) -> Result<(CostHistory, RoleAgents), Failure> {
    let (mut history, mut newest) = (CostHistory::default(), RoleAgents::new());
    if !ticket.rounds.is_empty() {
        // Its own rounds say more.
        return Ok((history, newest));
    }
    let query = TicketQuery {
        repository: ticket.spec.context.repository.clone(),
        ..TicketQuery::default()
    };
    let page = Page {
        after: None,
        most: TICKETS_MAX,
    };
    for row in office.desk.store.tickets(&query, &page).await?.items {
        let events = events(office, &row.id).await?;
        for event in &events {
            history.take(event);
        }
        if newest.is_empty() {
            newest = crew_of(&events);
        }
    }
    Ok((history, newest))
}

async fn events(office: &App, id: &TicketId) -> Result<Vec<Event>, Failure> {
    let query = EventQuery {
        ticket: Some(id.clone()),
        most: EVENTS_MAX,
        ..EventQuery::default()
    };
    let stored = office.desk.store.events(&query).await?.into_iter();
    Ok(stored
        .filter_map(|event| match event.body {
            EventBody::Decided(event) => Some(*event),
            EventBody::Noted(_) => None,
        })
        .collect())
}

fn crew_of(events: &[Event]) -> RoleAgents {
    let took_part = events.iter().filter(|event| {
        matches!(
            event.what,
            EventKind::Submitted { .. } | EventKind::Reviewed { .. }
        )
    });
    let mut crew: RoleAgents = took_part
        .map(|event| (event.by.role, event.by.agent.clone()))
        .collect();
    crew.sort();
    crew.dedup();
    crew
}
