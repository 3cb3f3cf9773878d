//! Insights and costs over all tickets.

use std::collections::BTreeMap;

use flow::insight::{
    Costs, DayFigures, FindingOutcomes, Insights, collect_insights, figures_by_day,
    outcomes_by_severity,
};
use flow::{Ticket, TicketId, Time, Usage};
use store::{Page, Spending, TicketQuery};

use super::App;
use super::questions::work::DayCost;
use crate::failure::Failure;

/// Maximum number of tickets that are read, newest first.
const TICKETS_MAX: usize = 10_000;
const PAGE: u32 = 500;
/// Tickets in the list of the most expensive ones.
const EXPENSIVE_MAX: usize = 8;
/// Maximum number of tickets for a quick summary.
const GLANCE_MAX: usize = 200;
const DAY_MS: i64 = 86_400_000;

pub async fn load_insights(app: &App) -> Result<Insights, Failure> {
    let query = TicketQuery::default();
    let (tickets, _) = load_newest(app, &query, TICKETS_MAX).await?;
    Ok(collect_insights(&tickets))
}

/// Insights with the figures of the last days, for plots.
#[derive(Clone, Debug)]
pub struct InsightPlots {
    pub insights: Insights,
    pub days: Vec<DayFigures>,
    /// Findings by severity, the most severe first.
    pub severities: Vec<(String, FindingOutcomes)>,
    /// Usage by agent and by model in these days, the most expensive first.
    pub agents: Vec<(String, Usage)>,
    pub models: Vec<(String, Usage)>,
    /// The most expensive of all tickets.
    pub tickets: Vec<TicketCost>,
}

/// A ticket with what it cost.
#[derive(Clone, Debug)]
pub struct TicketCost {
    pub id: TicketId,
    pub title: String,
    pub usage: Usage,
}

/// Loads the insights and the figures of the last `days` days. The tickets are read once.
pub async fn load_plots(app: &App, days: u32) -> Result<InsightPlots, Failure> {
    let query = TicketQuery::default();
    let (tickets, is_all) = load_newest(app, &query, TICKETS_MAX).await?;
    let mut insights = collect_insights(&tickets);
    insights.costs.newest_only = (!is_all).then_some(TICKETS_MAX as u64);
    let mut figures = figures_by_day(&tickets, app.now(), days);
    // The log has also the cost of rounds without a verdict and of tasks.
    let spending = app.coordinator.store.spending(first_day(app, days)).await?;
    for figure in &mut figures {
        let of_day = spending.iter().filter(|one| one.day == figure.day);
        let spent = of_day.fold(Usage::default(), |sum, one| sum.plus(one.usage));
        figure.usd_micros = spent.usd_micros;
        figure.tokens = spent.tokens;
    }
    Ok(InsightPlots {
        insights,
        days: figures,
        severities: outcomes_by_severity(&tickets),
        agents: usage_by(&spending, |one| Some(&one.by)),
        models: usage_by(&spending, |one| one.model.as_ref()),
        tickets: most_expensive(&tickets),
    })
}

/// Adds up usage by a name, the most expensive first. Usage without the name is left out.
fn usage_by(
    spending: &[Spending],
    name: impl Fn(&Spending) -> Option<&String>,
) -> Vec<(String, Usage)> {
    let mut sums: BTreeMap<&String, Usage> = BTreeMap::new();
    for one in spending {
        if let Some(name) = name(one) {
            let sum = sums.entry(name).or_default();
            *sum = sum.plus(one.usage);
        }
    }
    let mut all: Vec<(String, Usage)> = sums
        .into_iter()
        .map(|(name, usage)| (name.clone(), usage))
        .collect();
    all.sort_by_key(|(_, usage)| cost_order(*usage));
    all
}

fn most_expensive(tickets: &[Ticket]) -> Vec<TicketCost> {
    let paid = tickets
        .iter()
        .filter(|ticket| ticket.spent.ticket != Usage::default());
    let mut all: Vec<&Ticket> = paid.collect();
    all.sort_by_key(|ticket| cost_order(ticket.spent.ticket));
    let all = all.into_iter().take(EXPENSIVE_MAX);
    all.map(|ticket| TicketCost {
        id: ticket.id.clone(),
        title: ticket.spec.title.clone(),
        usage: ticket.spent.ticket,
    })
    .collect()
}

/// Orders by money, then by tokens: many agents name no price.
fn cost_order(usage: Usage) -> std::cmp::Reverse<(u64, u64)> {
    std::cmp::Reverse((usage.usd_micros, usage.tokens))
}

/// Returns the start of the first of these days, up to today.
fn first_day(app: &App, days: u32) -> Time {
    let today = (app.coordinator.clock)().start_of_day();
    Time(today.0 - i64::from(days.saturating_sub(1)) * DAY_MS)
}

/// Loads the newest tickets, for a quick summary.
pub async fn newest(app: &App) -> Result<Vec<Ticket>, Failure> {
    let query = TicketQuery::default();
    Ok(load_newest(app, &query, GLANCE_MAX).await?.0)
}

/// Sums the costs of all tickets, or of one repository's. A sum that leaves tickets out says so.
pub async fn costs(app: &App, repository: Option<String>) -> Result<Costs, Failure> {
    let query = TicketQuery {
        repository,
        ..TicketQuery::default()
    };
    let (tickets, is_all) = load_newest(app, &query, TICKETS_MAX).await?;
    let mut costs = Costs::from_tickets(&tickets);
    costs.newest_only = (!is_all).then_some(TICKETS_MAX as u64);
    Ok(costs)
}

/// Sums the usage of each day up to today, oldest first.
pub async fn daily_costs(app: &App, days: u32) -> Result<Vec<DayCost>, Failure> {
    let first = first_day(app, days);
    let spending = app.coordinator.store.spending(first).await?;
    let day_cost = |index: u32| {
        let day = Time(first.0 + i64::from(index) * DAY_MS);
        let of_day = spending.iter().filter(|one| one.day == day);
        DayCost {
            day: day.to_iso().chars().take("2026-02-03".len()).collect(),
            spent: of_day.fold(Usage::default(), |sum, one| sum.plus(one.usage)),
        }
    };
    Ok((0..days).map(day_cost).collect())
}

/// Loads the newest tickets. Returns whether these are all.
async fn load_newest(
    app: &App,
    query: &TicketQuery,
    tickets_max: usize,
) -> Result<(Vec<Ticket>, bool), Failure> {
    let (mut tickets, mut after) = (Vec::new(), None);
    while tickets.len() < tickets_max {
        let left = u32::try_from(tickets_max - tickets.len()).unwrap_or(PAGE);
        let most = left.min(PAGE);
        let page = Page { after, most };
        let rows = app.coordinator.store.tickets(query, &page).await?;
        for row in &rows.items {
            tickets.push(app.coordinator.ticket(&row.id).await?.ticket);
        }
        after = rows.next;
        if after.is_none() {
            break;
        }
    }
    Ok((tickets, after.is_none()))
}
