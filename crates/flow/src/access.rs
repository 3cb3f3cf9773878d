//! Permissions of an agent session. An agent that connected by itself claims work and reports it.
//! An agent that we spawned has one job, and the worker that spawned it reports. This module knows
//! no tokens and no tools.
//!
//! A spawned agent has untrusted text in front of it: the change, findings, files of the
//! repository. Its token can therefore do nothing that a worker does for it, even if the text
//! persuades the agent to try.

use crate::event::Lease;
use crate::ticket::Ticket;

/// Access of an agent session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The agent connected by itself.
    #[default]
    SelfRegistered,
    /// The agent was spawned for the job under this lease.
    Spawned(Lease),
}

/// Kind of action that an agent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Claims work.
    Claim,
    /// Reports the result of its work.
    Report,
    /// Orders work from other agents.
    CreateWork,
    /// Communicates about its own work: heartbeats, questions, messages, lookups.
    Communicate,
}

/// Reason why a spawned agent may not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("you were started for one job and have it: your brief says what it is")]
    AlreadyHasJob,
    #[error(
        "you were started for this job, and your result is taken when you end: leave it where your brief says"
    )]
    SpawnerReports,
    #[error("an agent that was started for one job gives no work to others")]
    MayNotCreateWork,
}

impl Access {
    pub fn check(self, action: Action) -> Result<(), Denied> {
        match (self, action) {
            // Signs of life, questions, messages and a request for help are about its own job only.
            (Self::SelfRegistered, _) | (Self::Spawned(_), Action::Communicate) => Ok(()),
            (Self::Spawned(_), Action::Claim) => Err(Denied::AlreadyHasJob),
            // The worker reads the result from the file that the brief names, and checks the
            // checkout after it. A report over MCP would skip that.
            (Self::Spawned(_), Action::Report) => Err(Denied::SpawnerReports),
            (Self::Spawned(_), Action::CreateWork) => Err(Denied::MayNotCreateWork),
        }
    }

    /// Whether the access is still valid. That of a spawned agent ends with its lease.
    pub fn is_live(self, ticket: &Ticket) -> bool {
        let Self::Spawned(lease) = self else {
            return true;
        };
        // Looked up in the ticket itself and not in a clock: a lost lease ends the access at once.
        let mut jobs = ticket.jobs.iter();
        jobs.any(|job| {
            // All three are needed. The fence alone is equal after the job was given back, when no
            // one holds it.
            job.serial == lease.serial && job.fence == lease.fence && job.holder.is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::advance::open_ticket;
    use crate::event::{Actor, Event, EventKind, Role};
    use crate::policy::Policy;
    use crate::ticket::{Spec, TicketId, Time};

    const LEASE: Lease = Lease {
        serial: 1,
        fence: 1,
    };

    #[test]
    fn who_was_started_for_a_job_speaks_and_does_nothing_else() {
        let spawned = Access::Spawned(LEASE);
        for action in [
            Action::Claim,
            Action::Report,
            Action::CreateWork,
            Action::Communicate,
        ] {
            assert!(Access::SelfRegistered.check(action).is_ok());
            assert_eq!(spawned.check(action).is_ok(), action == Action::Communicate);
        }
    }

    fn event(by: &Actor, what: EventKind) -> Event {
        Event {
            at: Time(1),
            by: by.clone(),
            expects: None,
            what,
        }
    }

    fn told(ticket: &Ticket, by: &Actor, what: EventKind) -> Ticket {
        let step = crate::advance(ticket, &event(by, what), &Policy::default());
        step.unwrap().ticket
    }

    #[test]
    fn it_is_heard_from_the_start_to_the_end_of_its_own_lease() {
        let (builder, house) = (
            Actor::new("bea", Role::Builder),
            Actor::new("countersign", Role::Service),
        );
        let spec = Spec {
            title: "Greet by name".to_owned(),
            ..Spec::default()
        };
        let created = EventKind::Created {
            spec: Box::new(spec),
            met: BTreeSet::new(),
            failed: Vec::new(),
        };
        let id = TicketId::new("T-1").unwrap();
        let fresh = open_ticket(&id, &event(&house, created), &Policy::default());
        let fresh = fresh.unwrap().ticket;
        let lease = Lease {
            serial: fresh.jobs[0].serial,
            fence: 1,
        };
        let hired = Access::Spawned(lease);
        assert!(!hired.is_live(&fresh) && Access::SelfRegistered.is_live(&fresh));
        let started = told(&fresh, &builder, EventKind::Started { lease });
        assert!(hired.is_live(&started));
        let lost = told(&started, &house, EventKind::LeaseLost { lease });
        assert!(!hired.is_live(&lost));
        let again = Lease { fence: 2, ..lease };
        let taken = told(&lost, &builder, EventKind::Started { lease: again });
        assert!(!hired.is_live(&taken) && Access::Spawned(again).is_live(&taken));
    }
}
