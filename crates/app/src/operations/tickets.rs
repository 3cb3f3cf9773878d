//! Operations that add, list, count and cancel tickets, waive findings and raise budgets.

use std::collections::{BTreeMap, BTreeSet};

use flow::usage::Caps;
use flow::{EventKind, Policy, Stage, Ticket, TicketId};
use serde::{Deserialize, Serialize};
use store::{Page, Paged, Pause, TicketQuery, TicketRow};

use super::App;
use crate::failure::Failure;
use crate::settings::ticket_file::{TicketRequest, id_for};

/// Tickets that are looked at for their repositories.
const RECENT_MAX: u32 = 200;

/// A new ticket and its first stage.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AddedTicket {
    pub id: TicketId,
    pub stage: Stage,
    pub title: String,
}

/// Adds several tickets at once; they may depend on each other, but not in a cycle.
pub async fn add(
    app: &App,
    requests: Vec<TicketRequest>,
    policy: &Policy,
) -> Result<Vec<AddedTicket>, Failure> {
    let mut by_id: BTreeMap<TicketId, TicketRequest> = BTreeMap::new();
    for request in requests {
        let id = request
            .id
            .clone()
            .unwrap_or_else(|| id_for(&request.spec.title));
        if by_id.insert(id.clone(), request).is_some() {
            return Err(Failure::usage(format!(
                "two of these tickets are called {id}; give each its own id"
            )));
        }
    }
    let graph: BTreeMap<TicketId, BTreeSet<TicketId>> = by_id
        .iter()
        .map(|(id, request)| (id.clone(), request.spec.depends_on.clone()))
        .collect();
    let order = flow::graph::topological_order(&graph).map_err(Failure::usage)?;
    refuse_known_or_missing(app, &graph).await?;
    let mut added = Vec::with_capacity(order.len());
    for id in order {
        let Some(request) = by_id.remove(&id) else {
            continue;
        };
        let ticket = app
            .coordinator
            .open(
                &id,
                request.spec,
                policy,
                (app.person(), app.call.once.clone()),
            )
            .await?;
        added.push(AddedTicket {
            id,
            stage: ticket.stage,
            title: ticket.spec.title,
        });
    }
    Ok(added)
}

/// Refuses ids that exist and dependencies that do not. Runs before the first ticket is written, so
/// that a bad list adds nothing.
async fn refuse_known_or_missing(
    app: &App,
    graph: &BTreeMap<TicketId, BTreeSet<TicketId>>,
) -> Result<(), Failure> {
    for (id, needs) in graph {
        if app.coordinator.store.ticket(id).await?.is_some() {
            return Err(store::Error::Exists(id.clone()).into());
        }
        for need in needs.iter().filter(|need| !graph.contains_key(need)) {
            if app.coordinator.store.ticket(need).await?.is_none() {
                let (ticket, dependency) = (id.clone(), need.clone());
                return Err(
                    engine::coordinator::Error::NoSuchDependency { ticket, dependency }.into(),
                );
            }
        }
    }
    Ok(())
}

/// Lists tickets in these stages, of one repository or of all.
pub async fn list(
    app: &App,
    stages: Vec<Stage>,
    repository: Option<String>,
    page: &Page,
) -> Result<Paged<TicketRow>, Failure> {
    let query = TicketQuery {
        stages,
        repository,
        ..TicketQuery::default()
    };
    search(app, query, page).await
}

/// Lists the tickets of a query that the caller may see. Some tokens are for one ticket only; the
/// store filters by it, so that pages are full and do not count other tickets.
pub async fn search(
    app: &App,
    query: TicketQuery,
    page: &Page,
) -> Result<Paged<TicketRow>, Failure> {
    let query = visible_to_caller(app, query);
    Ok(app.coordinator.store.tickets(&query, page).await?)
}

fn visible_to_caller(app: &App, query: TicketQuery) -> TicketQuery {
    TicketQuery {
        only: app.call.only_ticket.clone().or(query.only),
        ..query
    }
}

/// Lists at most `most` tickets whose ids begin with the text, of one repository if it is given. A
/// ticket with exactly this id is the only one listed, whatever its repository.
pub async fn with_prefix(
    app: &App,
    text: &str,
    repository: Option<String>,
    most: usize,
) -> Result<Vec<TicketRow>, Failure> {
    let page = Page {
        after: None,
        most: u32::try_from(most).unwrap_or(u32::MAX),
    };
    if let Ok(id) = TicketId::new(text)
        && app.call.only_ticket.as_ref().is_none_or(|only| *only == id)
    {
        let exact = TicketQuery {
            only: Some(id),
            ..TicketQuery::default()
        };
        let rows = search(app, exact, &page).await?;
        if !rows.items.is_empty() {
            return Ok(rows.items);
        }
    }
    let query = TicketQuery {
        id_prefix: Some(text.to_owned()),
        repository,
        ..TicketQuery::default()
    };
    Ok(search(app, query, &page).await?.items)
}

/// Lists the tickets that depend on this one, at most `most`.
pub async fn dependents(app: &App, id: &TicketId, most: u32) -> Result<Vec<TicketRow>, Failure> {
    let query = TicketQuery {
        depends_on: Some(id.clone()),
        ..TicketQuery::default()
    };
    let page = Page { after: None, most };
    Ok(search(app, query, &page).await?.items)
}

/// Lists the repositories of the newest tickets, for a choice in a form.
pub async fn recent_repositories(app: &App) -> Result<BTreeSet<String>, Failure> {
    let page = Page {
        after: None,
        most: RECENT_MAX,
    };
    let rows = list(app, Vec::new(), None, &page).await?.items;
    Ok(rows.into_iter().filter_map(|row| row.repository).collect())
}

/// Cancels a ticket in the person's name.
pub async fn cancel(app: &App, id: &str, why: &str) -> Result<Ticket, Failure> {
    let stored = app.ticket(id).await?;
    let policy = app.coordinator.policy_of(&stored).await?;
    let kind = EventKind::Cancelled {
        why: why.to_owned(),
    };
    let report = app.report(kind);
    let ticket = app
        .coordinator
        .decide(&stored.ticket.id, &policy, report)
        .await?;
    app.notify_dependents().await?;
    Ok(ticket)
}

/// Waives one finding; the person's name and reason are recorded.
pub async fn waive_finding(
    app: &App,
    id: &str,
    finding: &str,
    why: &str,
) -> Result<Ticket, Failure> {
    let stored = app.ticket(id).await?;
    let policy = app.coordinator.policy_of(&stored).await?;
    let report = app.report(EventKind::Waived {
        finding: finding.to_owned(),
        why: why.to_owned(),
    });
    Ok(app
        .coordinator
        .decide(&stored.ticket.id, &policy, report)
        .await?)
}

/// Lists the agents, queues and providers that are paused.
pub async fn pauses(app: &App) -> Result<Vec<Pause>, Failure> {
    Ok(app.coordinator.store.pauses().await?)
}

/// Counts the tickets in each stage.
pub async fn tally(app: &App) -> Result<Vec<(Stage, u64)>, Failure> {
    count(app, TicketQuery::default()).await
}

/// Counts the tickets of one repository in each stage.
pub async fn tally_of(app: &App, repository: &str) -> Result<Vec<(Stage, u64)>, Failure> {
    let query = TicketQuery {
        repository: Some(repository.to_owned()),
        ..TicketQuery::default()
    };
    count(app, query).await
}

/// Counts the tickets of a query that the caller may see, in each stage.
pub async fn count(app: &App, query: TicketQuery) -> Result<Vec<(Stage, u64)>, Failure> {
    let query = visible_to_caller(app, query);
    Ok(app.coordinator.store.count_tickets(&query).await?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    Round,
    Ticket,
    Day,
}

/// Replaces one scope's limits for a ticket in the person's name. A limit that `caps` leaves out is
/// removed.
pub async fn raise_budget(
    app: &App,
    id: &str,
    scope: BudgetScope,
    caps: Caps,
    why: &str,
) -> Result<Ticket, Failure> {
    let stored = app.ticket(id).await?;
    let policy = app.coordinator.policy_of(&stored).await?;
    let mut budget = stored.ticket.budget.unwrap_or(policy.budget);
    match scope {
        BudgetScope::Round => budget.round = caps,
        BudgetScope::Ticket => budget.ticket = caps,
        BudgetScope::Day => budget.day = caps,
    }
    let kind = EventKind::BudgetRaised {
        budget,
        why: why.to_owned(),
    };
    let report = app.report(kind);
    Ok(app
        .coordinator
        .decide(&stored.ticket.id, &policy, report)
        .await?)
}
