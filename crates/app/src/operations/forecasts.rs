//! Forecasts the cost of the next round from the costs of earlier rounds in the repository.

use std::path::Path;

use engine::project::Project;
use flow::event::EventKind;
use flow::forecast::{CostHistory, Forecast, RemainingCap, forecast_round, remaining_caps};
use flow::ticket::Spec;
use flow::{Event, Policy, Role, Ticket, TicketId, Usage};
use store::{EventBody, EventQuery, Page, Stored, TicketQuery};

use super::App;
use super::overview::TicketGroup;
use super::plans::{self, RunPlan};
use super::project::{self, ProjectOptions};
use super::ticket_search::{self, TicketFilter};
use crate::failure::Failure;
use crate::settings::ticket_file::id_for;

/// Maximum numbers of tickets of the repository, and of events of each, that are read.
const TICKETS_MAX: u32 = 30;
const EVENTS_MAX: u32 = 300;

type RoleAgents = Vec<(Role, String)>;

/// Forecasts a run before it starts, with the agents that are configured for it.
pub async fn forecast_run(
    app: &App,
    project: &Project,
    id: &TicketId,
) -> Result<Forecast, Failure> {
    let ticket = app.coordinator.ticket(id).await?.ticket;
    let policy = &project.config.policy;
    let reviewers = policy.reviewers.iter();
    let reviewers = reviewers.filter(|reviewer| {
        !reviewer.is_linter()
            && !reviewer.second_reviewer
            && reviewer.applies_to(&ticket, ticket.round)
    });
    let judges = reviewers.filter_map(|reviewer| {
        project
            .agents
            .agent_for(Role::Reviewer, reviewer.agent.as_deref())
    });
    let judges = judges.map(|agent| (Role::Reviewer, agent.name.clone()));
    let builder = (Role::Builder, project.builder_name().to_owned());
    let agents: RoleAgents = std::iter::once(builder).chain(judges).collect();
    let (history, _) = collect_history(app, &ticket).await?;
    build_forecast(app, &ticket, policy, &agents, &history).await
}

/// Forecasts a ticket whose next agents are not known yet; assumes those of the newest ticket.
pub async fn forecast_ticket(app: &App, stored: &Stored) -> Result<Forecast, Failure> {
    let policy = app.coordinator.policy_of(stored).await?;
    let (history, last) = collect_history(app, &stored.ticket).await?;
    build_forecast(app, &stored.ticket, &policy, &last, &history).await
}

/// Plan and forecast of a ticket that does not exist yet.
#[derive(Clone, Debug)]
pub struct TicketPreview {
    pub plan: RunPlan,
    pub forecast: Forecast,
}

/// Forecasts a ticket in a repository before it is added. Nothing is written.
pub async fn preview_ticket(
    app: &App,
    repository: &str,
    mut spec: Spec,
) -> Result<TicketPreview, Failure> {
    let policy = project::assign_repository(app, repository, &mut spec).await?;
    let options = ProjectOptions {
        base: spec.context.base_branch.clone(),
        ..ProjectOptions::default()
    };
    let plan = plans::plan_run(&app.environment, Path::new(repository), &options).await?;
    let builder = plan.builder.clone().map(|name| (Role::Builder, name));
    let reviewers = plan.reviewers.iter().filter_map(|one| one.by.clone());
    let reviewers = reviewers.map(|name| (Role::Reviewer, name));
    let agents: RoleAgents = builder.into_iter().chain(reviewers).collect();
    let id = id_for(&spec.title);
    let event = Event {
        at: app.now(),
        by: app.person(),
        expects: None,
        what: EventKind::Created {
            spec: Box::new(spec.cleaned()),
            // Whether its dependencies are met changes nothing about its cost.
            met: std::collections::BTreeSet::new(),
            failed: Vec::new(),
        },
    };
    let ticket = flow::open_ticket(&id, &event, &policy)
        .map_err(Failure::usage)?
        .ticket;
    let (history, _) = collect_history(app, &ticket).await?;
    let forecast = build_forecast(app, &ticket, &policy, &agents, &history).await?;
    Ok(TicketPreview { plan, forecast })
}

/// Lists tickets at work whose own budget is nearly used, with the cap that ends first. At most
/// `most` tickets are read, those that cost the most.
pub async fn list_nearly_used(
    app: &App,
    most: u32,
) -> Result<Vec<(Ticket, RemainingCap)>, Failure> {
    let mut filter = TicketFilter::default();
    filter.stages = TicketGroup::AtWork.stages();
    let rows = ticket_search::search(app, &filter, (Some("-cost"), None), most).await?;
    let mut found = Vec::new();
    for row in &rows.items {
        let stored = app.coordinator.ticket(&row.id).await?;
        let policy = app.coordinator.policy_of(&stored).await?;
        let caps = remaining_caps(&stored.ticket, &policy, Usage::default());
        let nearly = caps
            .into_iter()
            .filter(|cap| cap.scope == "ticket" && cap.is_nearly_used());
        let worst = nearly.min_by_key(|cap| cap.left.saturating_mul(1000) / cap.of.max(1));
        found.extend(worst.map(|cap| (stored.ticket, cap)));
    }
    Ok(found)
}

async fn build_forecast(
    app: &App,
    ticket: &Ticket,
    policy: &Policy,
    agents: &RoleAgents,
    history: &CostHistory,
) -> Result<Forecast, Failure> {
    let today = (app.coordinator.clock)().start_of_day();
    let spent = app.coordinator.store.spent_since(today).await?;
    Ok(forecast_round(ticket, policy, agents, history, spent))
}

/// Collects the costs of runs in the ticket's repository, and the agents of the newest ticket
/// there.
async fn collect_history(app: &App, ticket: &Ticket) -> Result<(CostHistory, RoleAgents), Failure> {
    let (mut history, mut newest) = (CostHistory::default(), RoleAgents::new());
    if !ticket.rounds.is_empty() {
        // The ticket's own rounds are a better basis.
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
    for row in app.coordinator.store.tickets(&query, &page).await?.items {
        let events = events(app, &row.id).await?;
        for event in &events {
            history.record(event);
        }
        if newest.is_empty() {
            newest = agents_of(&events);
        }
    }
    Ok((history, newest))
}

async fn events(app: &App, id: &TicketId) -> Result<Vec<Event>, Failure> {
    let query = EventQuery {
        ticket: Some(id.clone()),
        most: EVENTS_MAX,
        ..EventQuery::default()
    };
    let stored = app.coordinator.store.events(&query).await?.into_iter();
    Ok(stored
        .filter_map(|event| match event.body {
            EventBody::Decided(event) => Some(*event),
            EventBody::Noted(_) => None,
        })
        .collect())
}

fn agents_of(events: &[Event]) -> RoleAgents {
    let took_part = events.iter().filter(|event| {
        matches!(
            event.what,
            EventKind::Submitted { .. } | EventKind::Reviewed { .. }
        )
    });
    let mut agents: RoleAgents = took_part
        .map(|event| (event.by.role, event.by.agent.clone()))
        .collect();
    agents.sort();
    agents.dedup();
    agents
}
