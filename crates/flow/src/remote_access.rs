//! Limits the events that a worker on another machine may report, and under which name. It is trusted
//! with the jobs that it holds and with nothing else: the coordinator checks the lease that a report
//! names, and lets [`crate::advance()`] decide as for anybody. What a person decides, what depends on
//! other tickets, lost leases and budgets are not its to report.

use crate::event::{Actor, EventKind, Lease, Role};
use crate::usage::{Caps, Usage};

/// No name is longer.
const NAME_MAX: usize = 200;

/// No run costs more: a million dollars, a billion tokens, thirty days.
const RUN_MAX: Caps = Caps {
    usd_micros: Some(1_000_000_000_000),
    tokens: Some(1_000_000_000),
    wall_secs: Some(30 * 24 * 3600),
};

/// Why a worker that is elsewhere is not heard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Barred {
    #[error("a worker that is elsewhere reports on the jobs it holds; {event} is not its to say")]
    NotAWorkers { event: &'static str },
    #[error("{event} names no lease, so it cannot be compared with the claim it belongs to")]
    NamesNoLease { event: &'static str },
    #[error("a worker that is elsewhere speaks for its agents and not in the role {}", role.word())]
    WrongVoice { role: Role },
    #[error("the name {name:?} is none that an agent of a worker can have")]
    BadName { name: String },
    #[error(
        "an agent of a worker stands for itself, and {agent} says that it stands for {principal}"
    )]
    StandsForAnother { agent: String, principal: String },
    #[error("no run costs so much: {limit}")]
    TooDear { limit: String },
}

/// What a run is said to have cost can be true.
pub fn price(usage: Usage) -> Result<(), Barred> {
    match RUN_MAX.reached_by(usage) {
        None => Ok(()),
        Some(limit) => Err(Barred::TooDear { limit }),
    }
}

/// The lease that a report rests on; the reporter must hold it.
pub fn lease_of(what: &EventKind) -> Result<Lease, Barred> {
    match what {
        EventKind::Started { lease }
        | EventKind::Submitted { lease, .. }
        | EventKind::Checked { lease, .. }
        | EventKind::Reviewed { lease, .. }
        | EventKind::ReviewUnusable { lease, .. }
        | EventKind::Verified { lease, .. }
        | EventKind::Landed { lease, .. }
        | EventKind::Conflicted { lease, .. }
        | EventKind::CombinationRed { lease, .. }
        | EventKind::JobFailed { lease, .. }
        | EventKind::WentStale {
            lease: Some(lease), ..
        } => Ok(*lease),
        EventKind::WentStale { lease: None, .. } => {
            Err(Barred::NamesNoLease { event: what.name() })
        }
        // Whoever keeps the tickets sees these for itself when a worker claims.
        EventKind::LeaseLost { .. }
        | EventKind::BudgetReached { .. }
        | EventKind::AgentOut { .. }
        | EventKind::Created { .. }
        | EventKind::DependencyMet { .. }
        | EventKind::DependencyFailed { .. }
        | EventKind::DependencyRepaired { .. }
        | EventKind::DependenciesSet { .. }
        | EventKind::HelpRequested { .. }
        | EventKind::BudgetRaised { .. }
        | EventKind::Waived { .. }
        | EventKind::Settled { .. }
        | EventKind::Resubmitted { .. }
        | EventKind::Cancelled { .. } => Err(Barred::NotAWorkers { event: what.name() }),
    }
}

/// In whose name it is recorded: an agent's that the worker has started, or the house's.
pub fn voice(by: &Actor) -> Result<Actor, Barred> {
    match by.role {
        Role::Human | Role::Admin => Err(Barred::WrongVoice { role: by.role }),
        Role::Service => Ok(Actor::house()),
        Role::Builder | Role::Reviewer | Role::Verifier => of_agent(by),
    }
}

/// An agent that the worker has started stands for itself, whatever it is called.
fn of_agent(by: &Actor) -> Result<Actor, Barred> {
    let more = by.family.iter().chain(&by.written);
    for name in std::iter::once(&by.agent).chain(more) {
        let is_plain = !name.is_empty() && findings::one_line(name) == *name;
        if !is_plain || name.len() > NAME_MAX || *name == Actor::house().agent {
            let name = name.chars().take(NAME_MAX).collect();
            return Err(Barred::BadName { name });
        }
    }
    if by.principal != by.agent {
        let principal = by.principal.chars().take(NAME_MAX).collect();
        let agent = by.agent.clone();
        return Err(Barred::StandsForAnother { agent, principal });
    }
    Ok(by.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_speaks_for_its_agents_and_for_the_house_and_for_nobody_else() {
        for role in Role::ALL {
            let heard = voice(&Actor::new("bea", role));
            match role {
                Role::Human | Role::Admin => assert!(heard.is_err()),
                Role::Service => assert_eq!(heard, Ok(Actor::house())),
                Role::Builder | Role::Reviewer | Role::Verifier => {
                    assert_eq!(heard, Ok(Actor::new("bea", role)));
                }
            }
        }
    }

    #[test]
    fn a_price_that_cannot_be_is_not_believed() {
        let dear = |usd_micros| Usage {
            usd_micros,
            ..Usage::default()
        };
        assert_eq!(price(Usage::default()), Ok(()));
        assert_eq!(price(dear(999_000_000)), Ok(()));
        assert!(price(dear(u64::MAX)).is_err());
    }

    #[test]
    fn an_agent_of_a_worker_borrows_no_name() {
        let other = Actor {
            principal: "rita".to_owned(),
            ..Actor::new("bea", Role::Reviewer)
        };
        assert!(matches!(
            voice(&other),
            Err(Barred::StandsForAnother { .. })
        ));
        let long = "x".repeat(NAME_MAX + 1);
        for name in [
            "",
            " ",
            "countersign",
            "two\nlines",
            "\u{1b}[31mred",
            "\u{202e}aeb",
            &long,
        ] {
            let named = voice(&Actor::new(name, Role::Builder));
            assert!(matches!(named, Err(Barred::BadName { .. })), "{name:?}");
        }
    }
}
