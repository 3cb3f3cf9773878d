//! Reports of workers elsewhere: what happened comes from them, what follows from it does not. The
//! lease that a report rests on is looked at here, in the store itself; then the ticket, its recorded
//! policy and `flow` decide, as for anybody.

use engine::coordinator::wire::EventReport;
use engine::coordinator::{Coordinator, Report};
use engine::perform::write_round_document;
use engine::workshop::TicketFiles;
use flow::remote_access::{lease_of, price, voice};
use flow::{EventKind, Policy, Ticket, TicketId};
use store::Stored;

use super::{Caller, No, cleaned, files};

impl Caller<'_> {
    pub async fn stored(&self, id: &TicketId) -> Result<Stored, No> {
        let found = self.office.desk.store.ticket(id).await?;
        found.ok_or_else(|| No::barred(format!("there is no ticket {id}")))
    }

    pub async fn policy_of(&self, stored: &Stored) -> Result<Policy, No> {
        Ok(self.office.desk.policy_of(stored).await?)
    }

    /// Decides on a report under a lease of this worker's; answers the ticket as it is now.
    pub async fn report(&self, report: EventReport) -> Result<Ticket, No> {
        let EventReport {
            ticket: id,
            by,
            what,
            artefacts,
        } = report;
        let by = voice(&by).map_err(No::barred)?;
        let what = cleaned(what)?;
        price(what.usage()).map_err(No::barred)?;
        let stored = self.stored(&id).await?;
        let policy = self.policy_of(&stored).await?;
        let lease = lease_of(&what).map_err(No::barred)?;
        let held = self.held(&id, lease).await;
        let is_end = !matches!(what, EventKind::Started { .. });
        let report = Report::new(by, weighed(what, &policy));
        if let Err(not_held) = held {
            // The answer to the report that ended the lease may have been lost.
            let taken = if is_end {
                self.office.desk.ticket_if_taken(&id, report).await?
            } else {
                None
            };
            return taken.ok_or(not_held);
        }
        let artefacts = files::sound(&id, Some(lease), artefacts)?;
        let report = Report {
            artefacts,
            ..report
        };
        let ticket = self.office.desk.report(&id, &policy, report).await?;
        write_round_document(
            &TicketFiles::of(&self.office.surroundings.data_dir, &id),
            &ticket,
        );
        Ok(ticket)
    }
}

/// A worker's approval that names what must be fixed is none, whatever its own version made of it.
fn weighed(what: EventKind, policy: &Policy) -> EventKind {
    match what {
        EventKind::Reviewed {
            lease,
            commit,
            review,
            isolation,
            usage,
        } => EventKind::Reviewed {
            review: Box::new(flow::answer::weighed(*review, policy)),
            lease,
            commit,
            isolation,
            usage,
        },
        other => other,
    }
}
