//! What a round may cost, said before it begins, and what is left of every cap. A guess from what
//! was: by the ticket's own rounds, else by what its crew has cost in this project, else none.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::advance::spent_in_round;
use crate::event::{Event, EventKind, Role};
use crate::policy::Policy;
use crate::ticket::{Round, Ticket};
use crate::usage::{Caps, Usage, dollars};

/// A round's cost as it may be, and what there is to spend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    pub round: u32,
    /// None where nobody can know.
    pub usage: Option<Usage>,
    pub basis: ForecastBasis,
    pub left: Vec<RemainingCap>,
}

/// What a guess rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ForecastBasis {
    OwnRounds {
        rounds: u32,
    },
    /// Runs of the same agents in the same roles, on other tickets.
    History {
        runs: u32,
    },
    /// These have not worked here before.
    Unknown {
        agents: Vec<String>,
    },
}

/// What is left of one cap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingCap {
    /// round, ticket or day.
    pub scope: Cow<'static, str>,
    pub what: CapUnit,
    pub left: u64,
    pub of: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapUnit {
    Rounds,
    UsdMicros,
    Tokens,
    Seconds,
}

/// What each agent's runs have cost, by role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostHistory {
    runs: BTreeMap<(Role, String), (u32, Usage)>,
}

impl CostHistory {
    /// Counts the event, if it reports a paid run that came to its end.
    pub fn take(&mut self, event: &Event) {
        let paid = matches!(
            event.what,
            EventKind::Submitted { .. }
                | EventKind::Reviewed { .. }
                | EventKind::ReviewUnusable { .. }
                | EventKind::Verified { .. }
        );
        if paid {
            let of = self.runs.entry((event.by.role, event.by.agent.clone()));
            let (runs, sum) = of.or_default();
            *runs += 1;
            *sum = sum.plus(event.what.usage());
        }
    }

    /// How many runs there were, and what one of them cost on average.
    fn mean(&self, role: Role, agent: &str) -> Option<(u32, Usage)> {
        let (runs, sum) = self.runs.get(&(role, agent.to_owned()))?;
        Some((*runs, divided(*sum, u64::from(*runs))))
    }
}

/// The round at work or the next one. `crew` are those who build and review in it by name.
pub fn forecast(
    ticket: &Ticket,
    policy: &Policy,
    crew: &[(Role, String)],
    history: &CostHistory,
    spent_today: Usage,
) -> Forecast {
    let (usage, basis) = by_own_rounds(&ticket.rounds).unwrap_or_else(|| by_crew(crew, history));
    Forecast {
        round: ticket.round,
        usage,
        basis,
        left: left(ticket, policy, spent_today),
    }
}

fn by_own_rounds(rounds: &[Round]) -> Option<(Option<Usage>, ForecastBasis)> {
    let n = u32::try_from(rounds.len()).ok().filter(|n| *n > 0)?;
    let add = |sum: Usage, round: &Round| sum.plus(round.usage);
    let sum = rounds.iter().fold(Usage::default(), add);
    let mean = divided(sum, u64::from(n));
    Some((Some(mean), ForecastBasis::OwnRounds { rounds: n }))
}

fn by_crew(crew: &[(Role, String)], history: &CostHistory) -> (Option<Usage>, ForecastBasis) {
    let (mut runs, mut sum) = (0_u32, Usage::default());
    let mut strangers = Vec::new();
    for (role, agent) in crew {
        match history.mean(*role, agent) {
            Some((seen, mean)) => {
                runs = runs.saturating_add(seen);
                sum = sum.plus(mean);
            }
            None => strangers.push(findings::one_line(agent)),
        }
    }
    if strangers.is_empty() && runs > 0 {
        (Some(sum), ForecastBasis::History { runs })
    } else {
        (None, ForecastBasis::Unknown { agents: strangers })
    }
}

fn divided(sum: Usage, n: u64) -> Usage {
    let n = n.max(1);
    Usage {
        usd_micros: sum.usd_micros / n,
        tokens: sum.tokens / n,
        wall_ms: sum.wall_ms / n,
    }
}

/// What is left of the rounds and of every cap that is set.
pub fn left(ticket: &Ticket, policy: &Policy, spent_today: Usage) -> Vec<RemainingCap> {
    let allowed = policy.rounds_allowed(ticket.counts.granted);
    let rounds = allowed.saturating_sub(ticket.counts.verdicts);
    let mut all = vec![RemainingCap {
        scope: "ticket".into(),
        what: CapUnit::Rounds,
        left: rounds.into(),
        of: allowed.into(),
    }];
    let budget = ticket.budget.unwrap_or(policy.budget);
    all.extend(of_caps("round", budget.round, spent_in_round(ticket)));
    all.extend(of_caps("ticket", budget.ticket, ticket.spent.ticket));
    all.extend(of_caps("day", budget.day, spent_today));
    all
}

fn of_caps(scope: &'static str, caps: Caps, used: Usage) -> impl Iterator<Item = RemainingCap> {
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
    fn text(&self) -> String {
        let (left, of) = (self.left, self.of);
        match self.what {
            CapUnit::Rounds => format!("{left} of {of} rounds"),
            CapUnit::UsdMicros => {
                format!("{} of {} this {}", dollars(left), dollars(of), self.scope)
            }
            CapUnit::Tokens => format!("{left} of {of} tokens this {}", self.scope),
            CapUnit::Seconds => format!("{left} of {of} s this {}", self.scope),
        }
    }
}

/// `left: 2 of 3 rounds, $4.90 of $5.00 this ticket`.
pub fn left_text(left: &[RemainingCap]) -> String {
    let words: Vec<String> = left.iter().map(RemainingCap::text).collect();
    format!("left: {}", words.join(", "))
}

impl Forecast {
    pub fn text(&self) -> String {
        let about = self.usage.map(|usage| {
            let (cost, secs) = (dollars(usage.usd_micros), usage.wall_ms / 1000);
            format!("about {cost}, {} tokens, {secs} s", usage.tokens)
        });
        let about = about.unwrap_or_else(|| "unknown".to_owned());
        let why = match &self.basis {
            ForecastBasis::OwnRounds { rounds } => format!("by its own {rounds} so far"),
            ForecastBasis::History { runs } => format!("by {runs} earlier runs of this crew"),
            ForecastBasis::Unknown { agents } if agents.is_empty() => {
                "nothing is on record".to_owned()
            }
            ForecastBasis::Unknown { agents } => {
                format!("{} never worked here", agents.join(" and "))
            }
        };
        let (round, left) = (self.round, left_text(&self.left));
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
            history.take(&reviewed(agent, micros));
        }
        let crew = ["oak", "elm"].map(|name| (Role::Reviewer, name.to_owned()));
        let (usage, basis) = by_crew(&crew, &history);
        assert_eq!(usage.unwrap().usd_micros, 250);
        assert_eq!(basis, ForecastBasis::History { runs: 3 });
    }

    #[test]
    fn a_stranger_makes_it_unknown_and_is_named() {
        let mut history = CostHistory::default();
        history.take(&reviewed("oak", 100));
        // The same name in another role has done other work.
        let crew = [(Role::Reviewer, "oak"), (Role::Builder, "oak")];
        let crew = crew.map(|(role, name)| (role, name.to_owned()));
        let (usage, basis) = by_crew(&crew, &history);
        assert_eq!(usage, None);
        let agents = vec!["oak".to_owned()];
        assert_eq!(basis, ForecastBasis::Unknown { agents });
    }
}
