//! Figures for plots: cost and landed changes by day, and findings by severity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{FindingOutcomes, actionable_entries};
use crate::ticket::{Stage, Ticket};
use crate::time::Time;

/// Figures of one day (UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DayFigures {
    /// Start of the day.
    pub day: Time,
    /// Cost of the rounds that were decided on this day.
    pub usd_micros: u64,
    pub tokens: u64,
    pub rounds: u32,
    /// Tickets that landed on this day.
    pub landed: u32,
}

impl DayFigures {
    /// Returns the cost divided by the landed changes; `None` without one.
    pub fn usd_micros_per_landed(&self) -> Option<u64> {
        self.usd_micros.checked_div(u64::from(self.landed))
    }
}

/// Returns the figures of the `most` days up to `now`, the oldest first. Days without work are
/// among them, so that a plot has no gaps.
pub fn figures_by_day(tickets: &[Ticket], now: Time, most: u32) -> Vec<DayFigures> {
    const DAY_MS: i64 = 86_400_000;
    let today = now.start_of_day().0;
    let first = today - i64::from(most.saturating_sub(1)) * DAY_MS;
    let mut days: BTreeMap<i64, DayFigures> = BTreeMap::new();
    for ticket in tickets {
        for round in &ticket.rounds {
            let day = days.entry(round.decided_at.start_of_day().0).or_default();
            day.usd_micros = day.usd_micros.saturating_add(round.usage.usd_micros);
            day.tokens = day.tokens.saturating_add(round.usage.tokens);
            day.rounds += 1;
        }
        if ticket.stage == Stage::Done {
            let day = days.entry(ticket.updated_at.start_of_day().0).or_default();
            day.landed += 1;
        }
    }
    let all = (0..i64::from(most)).map(|index| first + index * DAY_MS);
    all.map(|start| DayFigures {
        day: Time(start),
        ..days.remove(&start).unwrap_or_default()
    })
    .collect()
}

/// Counts the findings of each severity by what became of them, the most severe first.
pub fn outcomes_by_severity(tickets: &[Ticket]) -> Vec<(String, FindingOutcomes)> {
    let mut severities = BTreeMap::new();
    for entry in tickets.iter().flat_map(actionable_entries) {
        let outcomes: &mut FindingOutcomes = severities.entry(entry.severity()).or_default();
        outcomes.count(entry.status);
    }
    let words = severities.into_iter();
    words
        .map(|(severity, outcomes)| (severity.word().to_owned(), outcomes))
        .collect()
}
