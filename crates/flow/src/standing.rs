//! What an agent may do when it calls, by how it came to its work. One that came by itself takes
//! work and reports it; one that was started for a single job has that job, and whoever started it
//! reports. Nothing here knows a token or a tool.

use crate::event::Lease;
use crate::ticket::Ticket;

/// How an agent came to its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By itself.
    #[default]
    Guest,
    /// It was started for the job under this lease.
    Hired(Lease),
}

/// What an agent calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To be given work.
    Take,
    /// To say what came of its work.
    Report,
    /// To give work to others.
    Order,
    /// To speak about the work it has: signs of life, questions, messages, looking things up.
    Speak,
}

/// Why an agent that was started for a job may not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("you were started for one job and have it: your brief says what it is")]
    HasItsJob,
    #[error(
        "you were started for this job, and your result is taken when you end: leave it where your brief says"
    )]
    ReportedForIt,
    #[error("an agent that was started for one job gives no work to others")]
    OrdersNothing,
}

impl Access {
    pub fn may(self, deed: Action) -> Result<(), Denied> {
        match (self, deed) {
            (Self::Guest, _) | (Self::Hired(_), Action::Speak) => Ok(()),
            (Self::Hired(_), Action::Take) => Err(Denied::HasItsJob),
            (Self::Hired(_), Action::Report) => Err(Denied::ReportedForIt),
            (Self::Hired(_), Action::Order) => Err(Denied::OrdersNothing),
        }
    }

    /// Whether it still stands: who was started for a job is heard while that very lease is at work.
    pub fn lasts(self, ticket: &Ticket) -> bool {
        let Self::Hired(lease) = self else {
            return true;
        };
        let mut jobs = ticket.jobs.iter();
        jobs.any(|job| {
            job.serial == lease.serial && job.fence == lease.fence && job.holder.is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::advance::open;
    use crate::event::{Actor, Event, EventKind, Role};
    use crate::policy::Policy;
    use crate::ticket::{Spec, TicketId, Time};

    const LEASE: Lease = Lease {
        serial: 1,
        fence: 1,
    };

    #[test]
    fn who_was_started_for_a_job_speaks_and_does_nothing_else() {
        let hired = Access::Hired(LEASE);
        for deed in [Action::Take, Action::Report, Action::Order, Action::Speak] {
            assert!(Access::Guest.may(deed).is_ok());
            assert_eq!(hired.may(deed).is_ok(), deed == Action::Speak);
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
        let fresh = open(&id, &event(&house, created), &Policy::default());
        let fresh = fresh.unwrap().ticket;
        let lease = Lease {
            serial: fresh.jobs[0].serial,
            fence: 1,
        };
        let hired = Access::Hired(lease);
        assert!(!hired.lasts(&fresh) && Access::Guest.lasts(&fresh));
        let started = told(&fresh, &builder, EventKind::Started { lease });
        assert!(hired.lasts(&started));
        let lost = told(&started, &house, EventKind::LeaseLost { lease });
        assert!(!hired.lasts(&lost));
        let again = Lease { fence: 2, ..lease };
        let taken = told(&lost, &builder, EventKind::Started { lease: again });
        assert!(!hired.lasts(&taken) && Access::Hired(again).lasts(&taken));
    }
}
