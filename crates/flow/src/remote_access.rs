//! Limits the events that a remote worker may report, and the names it may use. It is trusted only
//! with the jobs that it holds: the coordinator checks the lease that a report names, and
//! [`crate::advance()`] decides as for any other report. It may not report decisions of people,
//! dependency updates, lost leases or budgets.
//!
//! The server decides on every report of such a worker. A stolen token can spoil the jobs that it
//! holds, and nothing else.

use crate::event::{Actor, EventKind, Lease, Role};
use crate::usage::{Caps, Usage};

/// Longest name of an agent.
const NAME_MAX: usize = 200;

/// Highest plausible usage of one run: a million dollars, a billion tokens, thirty days.
/// The numbers only catch nonsense: a sum near the limit of the type would use up the budget of the
/// day for all tickets.
const RUN_MAX: Caps = Caps {
    usd_micros: Some(1_000_000_000_000),
    tokens: Some(1_000_000_000),
    wall_secs: Some(30 * 24 * 3600),
};

/// Reason why a report of a remote worker is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportDenied {
    #[error("a remote worker reports only on jobs that it holds; it may not report {event}")]
    NotAWorkers { event: &'static str },
    #[error("{event} names no lease, so it cannot be matched with a claim")]
    NamesNoLease { event: &'static str },
    #[error("a remote worker reports for its agents and checks, not in the role {}", role.as_str())]
    WrongRole { role: Role },
    #[error("{name:?} is not a valid name for an agent of a worker")]
    BadName { name: String },
    #[error(
        "an agent of a worker is its own principal, but {agent} names the principal {principal}"
    )]
    OtherPrincipal { agent: String, principal: String },
    #[error("the reported usage of one run is not plausible: {limit}")]
    ImplausibleUsage { limit: String },
}

/// Checks that the reported usage of a run is plausible.
pub fn check_usage(usage: Usage) -> Result<(), ReportDenied> {
    match RUN_MAX.reached_by(usage) {
        None => Ok(()),
        Some(limit) => Err(ReportDenied::ImplausibleUsage { limit }),
    }
}

/// Returns the lease that a report names. The reporter must hold it.
/// The match has no wildcard arm, so a new event is closed to workers until somebody opens it.
pub fn lease_of(what: &EventKind) -> Result<Lease, ReportDenied> {
    match what {
        EventKind::Started { lease }
        | EventKind::BaseRed { lease, .. }
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
        // Only Countersign itself reports it without a lease. A worker always has one.
        EventKind::WentStale { lease: None, .. } => {
            Err(ReportDenied::NamesNoLease { event: what.name() })
        }
        // The coordinator detects the first three itself when a worker claims.
        // If a worker could report them, it could take jobs from other workers.
        EventKind::LeaseLost { .. }
        | EventKind::BudgetReached { .. }
        | EventKind::AgentOut { .. }
        | EventKind::Created { .. }
        | EventKind::DependencyMet { .. }
        | EventKind::DependencyFailed { .. }
        | EventKind::DependencyRepaired { .. }
        | EventKind::DependenciesSet { .. }
        // Agents ask for help over MCP with a token of their own, so the worker has no need for it.
        | EventKind::HelpRequested { .. }
        | EventKind::BudgetRaised { .. }
        | EventKind::Waived { .. }
        | EventKind::FindingsAdded { .. }
        | EventKind::ChangeObserved { .. }
        | EventKind::ReportRequested { .. }
        | EventKind::Settled { .. }
        | EventKind::Resubmitted { .. }
        | EventKind::Cancelled { .. } => Err(ReportDenied::NotAWorkers { event: what.name() }),
    }
}

/// Returns the actor to record: an agent that the worker started, or Countersign itself.
pub fn recorded_actor(by: &Actor) -> Result<Actor, ReportDenied> {
    match by.role {
        // A decision of a person must not come from a machine.
        Role::Human | Role::Admin | Role::Viewer => Err(ReportDenied::WrongRole { role: by.role }),
        // The name that the worker sends is dropped: it would be shown as Countersign's own.
        Role::Service => Ok(Actor::system()),
        Role::Builder | Role::Reviewer | Role::Verifier => of_agent(by),
    }
}

/// Checks the names of an agent that the worker started. It must be its own principal.
fn of_agent(by: &Actor) -> Result<Actor, ReportDenied> {
    let more = by.family.iter().chain(&by.written).chain(&by.model);
    for name in std::iter::once(&by.agent).chain(more) {
        // Cleaning must change nothing. A name with hidden characters could look like the name of
        // another agent.
        let is_plain = !name.is_empty() && findings::one_line(name) == *name;
        // Only Countersign may sign as itself.
        if !is_plain || name.len() > NAME_MAX || *name == Actor::system().agent {
            let name = name.chars().take(NAME_MAX).collect();
            return Err(ReportDenied::BadName { name });
        }
    }
    // Independence is compared by principal. A worker that could choose one could have the builder
    // review itself.
    if by.principal != by.agent {
        let principal = by.principal.chars().take(NAME_MAX).collect();
        let agent = by.agent.clone();
        return Err(ReportDenied::OtherPrincipal { agent, principal });
    }
    Ok(by.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_speaks_for_its_agents_and_for_the_house_and_for_nobody_else() {
        for role in Role::ALL {
            let actor = recorded_actor(&Actor::new("bea", role));
            match role {
                Role::Human | Role::Admin | Role::Viewer => assert!(actor.is_err()),
                Role::Service => assert_eq!(actor, Ok(Actor::system())),
                Role::Builder | Role::Reviewer | Role::Verifier => {
                    assert_eq!(actor, Ok(Actor::new("bea", role)));
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
        assert_eq!(check_usage(Usage::default()), Ok(()));
        assert_eq!(check_usage(dear(999_000_000)), Ok(()));
        assert!(check_usage(dear(u64::MAX)).is_err());
    }

    #[test]
    fn an_agent_of_a_worker_borrows_no_name() {
        let other = Actor {
            principal: "rita".to_owned(),
            ..Actor::new("bea", Role::Reviewer)
        };
        assert!(matches!(
            recorded_actor(&other),
            Err(ReportDenied::OtherPrincipal { .. })
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
            let actor = recorded_actor(&Actor::new(name, Role::Builder));
            assert!(
                matches!(actor, Err(ReportDenied::BadName { .. })),
                "{name:?}"
            );
        }
    }
}
