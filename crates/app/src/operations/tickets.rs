//! Adding, listing, showing and cancelling tickets.

use std::collections::{BTreeMap, BTreeSet};

use flow::usage::Caps;
use flow::{EventKind, Policy, Stage, Ticket, TicketId};
use serde::{Deserialize, Serialize};
use store::{Page, Paged, Pause, TicketQuery, TicketRow};

use super::App;
use crate::failure::Failure;
use crate::settings::ticket_file::{TicketRequest, id_for};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddedTicket {
    pub id: TicketId,
    pub stage: Stage,
    pub title: String,
}

/// Adds several tickets at once; they may depend on each other, but not in a ring.
pub async fn add(
    office: &App,
    wanted: Vec<TicketRequest>,
    policy: &Policy,
) -> Result<Vec<AddedTicket>, Failure> {
    let mut by_id: BTreeMap<TicketId, TicketRequest> = BTreeMap::new();
    for one in wanted {
        let id = one.id.clone().unwrap_or_else(|| id_for(&one.spec.title));
        if by_id.insert(id.clone(), one).is_some() {
            return Err(Failure::usage(format!(
                "two of these tickets are called {id}; give each its own id"
            )));
        }
    }
    let graph: BTreeMap<TicketId, BTreeSet<TicketId>> = by_id
        .iter()
        .map(|(id, one)| (id.clone(), one.spec.depends_on.clone()))
        .collect();
    let order = flow::graph::order(&graph).map_err(Failure::usage)?;
    refuse_known_or_missing(office, &graph).await?;
    let mut added = Vec::with_capacity(order.len());
    for id in order {
        let Some(one) = by_id.remove(&id) else {
            continue;
        };
        let ticket = office
            .desk
            .open(
                &id,
                one.spec,
                policy,
                (office.person(), office.call.once.clone()),
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

/// Looked at before the first is written, so that a bad list leaves nothing half done.
async fn refuse_known_or_missing(
    office: &App,
    graph: &BTreeMap<TicketId, BTreeSet<TicketId>>,
) -> Result<(), Failure> {
    for (id, needs) in graph {
        if office.desk.store.ticket(id).await?.is_some() {
            return Err(store::Error::Exists(id.clone()).into());
        }
        for need in needs.iter().filter(|need| !graph.contains_key(need)) {
            if office.desk.store.ticket(need).await?.is_none() {
                let (ticket, dependency) = (id.clone(), need.clone());
                return Err(
                    engine::coordinator::Error::NoSuchDependency { ticket, dependency }.into(),
                );
            }
        }
    }
    Ok(())
}

pub async fn list(
    office: &App,
    stages: Vec<Stage>,
    page: &Page,
) -> Result<Paged<TicketRow>, Failure> {
    let query = TicketQuery {
        stages,
        ..TicketQuery::default()
    };
    Ok(office.desk.store.tickets(&query, page).await?)
}

pub async fn cancel(office: &App, id: &str, why: &str) -> Result<Ticket, Failure> {
    let stored = office.ticket(id).await?;
    let policy = office.desk.policy_of(&stored).await?;
    let what = EventKind::Cancelled {
        why: why.to_owned(),
    };
    let report = office.report(what);
    let ticket = office
        .desk
        .decide(&stored.ticket.id, &policy, report)
        .await?;
    office.bring_news().await?;
    Ok(ticket)
}

/// Lets one finding stand, in the person's name and for their reason.
pub async fn waive(office: &App, id: &str, finding: &str, why: &str) -> Result<Ticket, Failure> {
    let stored = office.ticket(id).await?;
    let policy = office.desk.policy_of(&stored).await?;
    let report = office.report(EventKind::Waived {
        finding: finding.to_owned(),
        why: why.to_owned(),
    });
    Ok(office
        .desk
        .decide(&stored.ticket.id, &policy, report)
        .await?)
}

/// Agents, queues and providers that have nothing given to them for now.
pub async fn pauses(office: &App) -> Result<Vec<Pause>, Failure> {
    Ok(office.desk.store.pauses().await?)
}

/// How many tickets stand where.
pub async fn tally(office: &App) -> Result<Vec<(Stage, u64)>, Failure> {
    Ok(office.desk.store.count_tickets().await?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    Round,
    Ticket,
    Day,
}

/// Raises one scope's limits for a ticket, in the person's name; what is not named is not limited.
pub async fn raise(
    office: &App,
    id: &str,
    scope: BudgetScope,
    caps: Caps,
    why: &str,
) -> Result<Ticket, Failure> {
    let stored = office.ticket(id).await?;
    let policy = office.desk.policy_of(&stored).await?;
    let mut budget = stored.ticket.budget.unwrap_or(policy.budget);
    match scope {
        BudgetScope::Round => budget.round = caps,
        BudgetScope::Ticket => budget.ticket = caps,
        BudgetScope::Day => budget.day = caps,
    }
    let what = EventKind::BudgetRaised {
        budget,
        why: why.to_owned(),
    };
    let report = office.report(what);
    Ok(office
        .desk
        .decide(&stored.ticket.id, &policy, report)
        .await?)
}
