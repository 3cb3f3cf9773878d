//! Estimates the cost of a round before it begins, and the rest of every cap. The estimate comes
//! from the ticket's own rounds, else from earlier runs of its agents in this project; else there
//! is none.
//!
//! No estimate is better than an invented one. If one agent has no history, the whole round has no
//! estimate, because a sum without its most expensive part would mislead.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::advance::spent_in_round;
use crate::event::{Event, EventKind, Role};
use crate::narrate::count_noun;
use crate::policy::Policy;
use crate::ticket::{Round, Ticket};
use crate::usage::{Caps, Usage, format_dollars};

/// Estimated cost of a round, and the rest of every cap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Forecast {
    pub round: u32,
    /// Estimate, or `None` without a basis.
    pub usage: Option<Usage>,
    pub basis: ForecastBasis,
    pub left: Vec<RemainingCap>,
}

/// Basis of an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ForecastBasis {
    OwnRounds {
        rounds: u32,
    },
    /// Runs of the same agents in the same roles, on other tickets.
    History {
        runs: u32,
    },
    /// Names the agents without earlier runs here.
    Unknown {
        agents: Vec<String>,
    },
}

/// A cap is nearly used when a fifth of it is left.
const NEARLY_USED: u64 = 5;

/// Rest of one cap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RemainingCap {
    /// `round`, `ticket` or `day`.
    pub scope: Cow<'static, str>,
    pub what: CapUnit,
    pub left: u64,
    pub of: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapUnit {
    Rounds,
    UsdMicros,
    Tokens,
    Seconds,
}

/// Costs of each agent's runs, by role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostHistory {
    runs: BTreeMap<(Role, String), (u32, Usage)>,
}

impl CostHistory {
    /// Counts the event if it reports a finished, paid run.
    pub fn record(&mut self, event: &Event) {
        // A failed run may have ended at once, so its cost says nothing about a whole one.
        let paid = matches!(
            event.what,
            EventKind::Submitted { .. }
                | EventKind::Reviewed { .. }
                | EventKind::ReviewUnusable { .. }
                | EventKind::Verified { .. }
        );
        if paid {
            // By role as well: the same agent costs more as a builder than as a reviewer.
            let entry = self.runs.entry((event.by.role, event.by.agent.clone()));
            let (runs, sum) = entry.or_default();
            *runs += 1;
            *sum = sum.plus(event.what.usage());
        }
    }

    /// Returns the number of runs and their mean usage.
    fn mean_cost(&self, role: Role, agent: &str) -> Option<(u32, Usage)> {
        let (runs, sum) = self.runs.get(&(role, agent.to_owned()))?;
        Some((*runs, divide_usage(*sum, u64::from(*runs))))
    }
}

/// Estimates the current round, or the next one. `agents` are the builder and the reviewers by
/// name.
pub fn forecast_round(
    ticket: &Ticket,
    policy: &Policy,
    agents: &[(Role, String)],
    history: &CostHistory,
    spent_today: Usage,
) -> Forecast {
    let (usage, basis) =
        // A ticket's own rounds know its size, so they go before the history of its agents.
        by_own_rounds(&ticket.rounds).unwrap_or_else(|| by_agent_history(agents, history));
    Forecast {
        round: ticket.round,
        usage,
        basis,
        left: remaining_caps(ticket, policy, spent_today),
    }
}

fn by_own_rounds(rounds: &[Round]) -> Option<(Option<Usage>, ForecastBasis)> {
    let mean = mean_of_rounds(rounds)?;
    let rounds = u32::try_from(rounds.len()).ok()?;
    Some((Some(mean), ForecastBasis::OwnRounds { rounds }))
}

/// Returns the mean usage of the rounds; `None` if there are none.
pub fn mean_of_rounds(rounds: &[Round]) -> Option<Usage> {
    let add = |sum: Usage, round: &Round| sum.plus(round.usage);
    let sum = rounds.iter().fold(Usage::default(), add);
    (!rounds.is_empty()).then(|| divide_usage(sum, rounds.len() as u64))
}

fn by_agent_history(
    agents: &[(Role, String)],
    history: &CostHistory,
) -> (Option<Usage>, ForecastBasis) {
    let (mut runs, mut sum) = (0_u32, Usage::default());
    let mut unknown = Vec::new();
    for (role, agent) in agents {
        match history.mean_cost(*role, agent) {
            Some((count, mean)) => {
                runs = runs.saturating_add(count);
                sum = sum.plus(mean);
            }
            None => unknown.push(findings::one_line(agent)),
        }
    }
    if unknown.is_empty() && runs > 0 {
        (Some(sum), ForecastBasis::History { runs })
    } else {
        (None, ForecastBasis::Unknown { agents: unknown })
    }
}

fn divide_usage(sum: Usage, n: u64) -> Usage {
    let n = n.max(1);
    Usage {
        usd_micros: sum.usd_micros / n,
        tokens: sum.tokens / n,
        wall_ms: sum.wall_ms / n,
        estimated_micros: sum.estimated_micros / n,
        // A count of runs and no amount. Divided, it would become 0 and claim that every price is
        // known.
        unpriced_runs: sum.unpriced_runs,
    }
}

/// Returns the rest of the rounds and of every cap that is set.
pub fn remaining_caps(ticket: &Ticket, policy: &Policy, spent_today: Usage) -> Vec<RemainingCap> {
    let allowed = policy.rounds_allowed(ticket.counts.granted);
    let rounds = allowed.saturating_sub(ticket.counts.verdicts);
    // Rounds always have a limit, so they are always shown; a cap only if it is set.
    let mut all = vec![RemainingCap {
        scope: "ticket".into(),
        what: CapUnit::Rounds,
        left: rounds.into(),
        of: allowed.into(),
    }];
    let budget = ticket.budget.unwrap_or(policy.budget);
    all.extend(remaining_of("round", budget.round, spent_in_round(ticket)));
    all.extend(remaining_of("ticket", budget.ticket, ticket.spent.ticket));
    all.extend(remaining_of("day", budget.day, spent_today));
    all
}

fn remaining_of(
    scope: &'static str,
    caps: Caps,
    used: Usage,
) -> impl Iterator<Item = RemainingCap> {
    let all = [
        (CapUnit::UsdMicros, caps.usd_micros, used.usd_micros),
        (CapUnit::Tokens, caps.tokens, used.tokens),
        (CapUnit::Seconds, caps.wall_secs, used.wall_ms / 1000),
    ];
    all.into_iter().filter_map(move |(what, cap, used)| {
        cap.map(|of| RemainingCap {
            scope: scope.into(),
            what,
            left: of.saturating_sub(used),
            of,
        })
    })
}

impl RemainingCap {
    /// True if so little is left that a person may want to raise the budget before a run stops.
    pub fn is_nearly_used(&self) -> bool {
        self.what != CapUnit::Rounds && self.left.saturating_mul(NEARLY_USED) <= self.of
    }

    /// Formats the rest: `$4.90 of $5.00 this ticket`.
    pub fn describe(&self) -> String {
        let (left, of) = (self.left, self.of);
        match self.what {
            CapUnit::Rounds => format!("{left} of {of} rounds"),
            CapUnit::UsdMicros => {
                format!(
                    "{} of {} this {}",
                    format_dollars(left),
                    format_dollars(of),
                    self.scope
                )
            }
            CapUnit::Tokens => format!("{left} of {of} tokens this {}", self.scope),
            CapUnit::Seconds => format!("{left} of {of} s this {}", self.scope),
        }
    }
}

/// Formats the rest: `left: 2 of 3 rounds, $4.90 of $5.00 this ticket`.
pub fn describe_remaining(left: &[RemainingCap]) -> String {
    let words: Vec<String> = left.iter().map(RemainingCap::describe).collect();
    format!("left: {}", words.join(", "))
}

impl Forecast {
    pub fn describe(&self) -> String {
        let about = self.usage.map(|usage| {
            let (cost, secs) = (usage.describe_mean(), usage.wall_ms / 1000);
            format!("{cost}, {} tokens, {secs} s", usage.tokens)
        });
        let about = about.unwrap_or_else(|| "unknown".to_owned());
        let why = match &self.basis {
            ForecastBasis::OwnRounds { rounds } => {
                let rounds = usize::try_from(*rounds).unwrap_or(usize::MAX);
                format!("from its own {} so far", count_noun(rounds, "round"))
            }
            ForecastBasis::History { runs } => {
                let runs = usize::try_from(*runs).unwrap_or(usize::MAX);
                format!("from {} of these agents", count_noun(runs, "earlier run"))
            }
            ForecastBasis::Unknown { agents } if agents.is_empty() => {
                "nothing is on record".to_owned()
            }
            ForecastBasis::Unknown { agents } => {
                format!("{} never worked here", agents.join(" and "))
            }
        };
        let (round, left) = (self.round, describe_remaining(&self.left));
        format!("estimate: round {round} {about} ({why}); {left}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Actor, Lease};
    use crate::ticket::Time;

    fn reviewed(agent: &str, micros: u64) -> Event {
        let usage = Usage {
            usd_micros: micros,
            tokens: 10,
            wall_ms: 2_000,
            ..Usage::default()
        };
        Event {
            at: Time(0),
            by: Actor::new(agent, Role::Reviewer),
            expects: None,
            what: EventKind::ReviewUnusable {
                lease: Lease {
                    serial: 1,
                    fence: 1,
                },
                why: String::new(),
                usage,
            },
        }
    }

    #[test]
    fn a_crew_costs_what_its_members_cost_on_average() {
        let mut history = CostHistory::default();
        for (agent, micros) in [("oak", 100), ("oak", 300), ("elm", 50)] {
            history.record(&reviewed(agent, micros));
        }
        let agents = ["oak", "elm"].map(|name| (Role::Reviewer, name.to_owned()));
        let (usage, basis) = by_agent_history(&agents, &history);
        assert_eq!(usage.unwrap().usd_micros, 250);
        assert_eq!(basis, ForecastBasis::History { runs: 3 });
    }

    #[test]
    fn a_cap_is_nearly_used_when_a_fifth_is_left() {
        let cap = |what, left| RemainingCap {
            scope: "ticket".into(),
            what,
            left,
            of: 100,
        };
        assert!(cap(CapUnit::UsdMicros, 20).is_nearly_used());
        assert!(!cap(CapUnit::UsdMicros, 21).is_nearly_used());
        // The last round is no reason to look: a person is asked after it.
        assert!(!cap(CapUnit::Rounds, 0).is_nearly_used());
    }

    #[test]
    fn a_stranger_makes_it_unknown_and_is_named() {
        let mut history = CostHistory::default();
        history.record(&reviewed("oak", 100));
        // The same name in another role does other work, so its cost does not count.
        let agents = [(Role::Reviewer, "oak"), (Role::Builder, "oak")];
        let agents = agents.map(|(role, name)| (role, name.to_owned()));
        let (usage, basis) = by_agent_history(&agents, &history);
        assert_eq!(usage, None);
        let agents = vec!["oak".to_owned()];
        assert_eq!(basis, ForecastBasis::Unknown { agents });
    }
}
