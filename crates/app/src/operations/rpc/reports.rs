//! Reports of remote workers: they say what happened, and the server decides what follows. This
//! module checks the lease of a report in the store; then `flow` decides with the ticket and its
//! recorded policy, as for a local worker.
//!
//! The order is from cheap to dear, and nothing is written before all checks have passed.

use engine::coordinator::wire::EventReport;
use engine::coordinator::{Coordinator, Report};
use engine::jobs::write_round_document;
use engine::project::TicketFiles;
use flow::remote_access::{check_usage, lease_of, recorded_actor};
use flow::{EventKind, Policy, Ticket, TicketId};
use store::Stored;

use super::{CallRefusal, Caller, clean_texts, files};

impl Caller<'_> {
    pub async fn load_ticket(&self, id: &TicketId) -> Result<Stored, CallRefusal> {
        let ticket = self.app.coordinator.store.ticket(id).await?;
        ticket.ok_or_else(|| CallRefusal::barred(format!("there is no ticket {id}")))
    }

    pub async fn policy_of(&self, stored: &Stored) -> Result<Policy, CallRefusal> {
        Ok(self.app.coordinator.policy_of(stored).await?)
    }

    /// Decides on a report under a lease of this worker, and returns the ticket after it.
    pub async fn report(&self, report: EventReport) -> Result<Ticket, CallRefusal> {
        let EventReport {
            ticket: id,
            by,
            what,
            artefacts,
        } = report;
        let by = recorded_actor(&by).map_err(CallRefusal::barred)?;
        // Cleaned before it is weighed, so that hidden characters cannot change how a text is read.
        let what = clean_texts(what)?;
        check_usage(what.usage()).map_err(CallRefusal::barred)?;
        let stored = self.load_ticket(&id).await?;
        // The policy that was recorded for the ticket. The worker's copy may be another version.
        let policy = self.policy_of(&stored).await?;
        let lease = lease_of(&what).map_err(CallRefusal::barred)?;
        let held = self.held_job(&id, lease).await;
        let is_end = !matches!(what, EventKind::Started { .. });
        let report = Report::new(by, weigh_review(what, &policy));
        if let Err(refusal) = held {
            // A report is sent again after a lost connection. If the first one counted, its ticket
            // is the answer.
            // The answer to the report that ended the lease may have been lost.
            let earlier = if is_end {
                self.app.coordinator.ticket_if_taken(&id, report).await?
            } else {
                None
            };
            return earlier.ok_or(refusal);
        }
        let artefacts = files::check_artefacts(&id, Some(lease), artefacts)?;
        let report = Report {
            artefacts,
            ..report
        };
        let ticket = self.app.coordinator.report(&id, &policy, report).await?;
        // The document of a round is written where the ticket is, as for a local worker.
        write_round_document(
            &TicketFiles::new(&self.app.environment.data_dir, &id),
            &ticket,
        );
        Ok(ticket)
    }
}

/// Weighs a review again with the server's rules: an approval with must-fix findings does not
/// count, even if the worker's version of Countersign accepted it.
fn weigh_review(kind: EventKind, policy: &Policy) -> EventKind {
    match kind {
        EventKind::Reviewed {
            lease,
            commit,
            review,
            sandbox,
            usage,
            answers_open: _,
        } => EventKind::Reviewed {
            // A worker has verifiers of its own, so its reviewers never answer for them.
            answers_open: false,
            review: Box::new(flow::review_validity::downgrade_contradicted_approval(
                *review, policy,
            )),
            lease,
            commit,
            sandbox,
            usage,
        },
        other => other,
    }
}
