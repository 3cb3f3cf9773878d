//! Insights and costs over all tickets.

use flow::insight::{
    Costs, DayFigures, FindingOutcomes, Insights, collect_insights, figures_by_day,
    outcomes_by_severity,
};
use flow::{Ticket, Time, Usage};
use store::{Page, TicketQuery};

use super::App;
use super::questions::work::DayCost;
use crate::failure::Failure;

/// Maximum number of tickets that are read, newest first.
const TICKETS_MAX: usize = 10_000;
const PAGE: u32 = 500;
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
}

/// Loads the insights and the figures of the last `days` days. The tickets are read once.
pub async fn load_plots(app: &App, days: u32) -> Result<InsightPlots, Failure> {
    let query = TicketQuery::default();
    let (tickets, is_all) = load_newest(app, &query, TICKETS_MAX).await?;
    let mut insights = collect_insights(&tickets);
    insights.costs.newest_only = (!is_all).then_some(TICKETS_MAX as u64);
    let mut figures = figures_by_day(&tickets, app.now(), days);
    // The log has also the cost of rounds without a verdict and of tasks.
    for (figure, cost) in figures.iter_mut().zip(daily_costs(app, days).await?) {
        figure.usd_micros = cost.spent.usd_micros;
        figure.tokens = cost.spent.tokens;
    }
    Ok(InsightPlots {
        insights,
        days: figures,
        severities: outcomes_by_severity(&tickets),
    })
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
    let today = (app.coordinator.clock)().start_of_day();
    let (mut costs, mut since) = (Vec::new(), Usage::default());
    for ago in 0..days {
        let day = Time(today.0 - i64::from(ago) * DAY_MS);
        let all = app.coordinator.store.spent_since(day).await?;
        costs.push(DayCost {
            day: day.to_iso().chars().take("2026-02-03".len()).collect(),
            // The sum since this day has the later days in it.
            spent: Usage {
                usd_micros: all.usd_micros.saturating_sub(since.usd_micros),
                tokens: all.tokens.saturating_sub(since.tokens),
                wall_ms: all.wall_ms.saturating_sub(since.wall_ms),
                ..Usage::default()
            },
        });
        since = all;
    }
    costs.reverse();
    Ok(costs)
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
