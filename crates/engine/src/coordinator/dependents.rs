//! Notifies dependent tickets of the state of a ticket. Any process may deliver any pending update,
//! because the process that decided may have died before it could.
//!
//! An update is a job, so it survives a crash. It is delivered at least once, and a dependent
//! accepts it once.

use flow::job::DependencyUpdate;
use flow::{Actor, EventKind, Queue, Refused, Task, TicketId};
use store::{FinishedTask, JobQuery, JobState, JobWork, Leased, TaskOutcome};

use super::claim::page;
use super::{Error, LocalCoordinator, Report};
use crate::worker::name::is_dead;

/// Maximum number of passes. Notifying a dependent can queue an update for its own dependents; no
/// chain is this deep.
const PASSES_MAX: u32 = 1000;
// One living holder is enough to answer, so a short page will do.
const LEASES_MAX: u32 = 32;

impl LocalCoordinator {
    /// Delivers all pending dependency updates, of any ticket. Returns true if another process is
    /// about to deliver some.
    pub async fn notify_dependents(&self) -> Result<bool, Error> {
        // Asked before our own claims, which would otherwise count as well.
        let elsewhere = self.is_delivered_elsewhere().await?;
        for _ in 0..PASSES_MAX {
            let jobs = self.claim_news().await?;
            if jobs.is_empty() {
                break;
            }
            // One by one, because delivering may change tickets that later updates read.
            for job in jobs {
                self.deliver(job).await?;
            }
        }
        Ok(elsewhere)
    }

    /// Returns whether a living process holds an update. Ends the leases of dead processes.
    async fn is_delivered_elsewhere(&self) -> Result<bool, Error> {
        let query = JobQuery {
            state: Some(JobState::Leased),
            queue: Some(Queue::Tell),
            ..JobQuery::default()
        };
        let mut delivered_elsewhere = false;
        for job in self.store.jobs(&query, &page(LEASES_MAX)).await?.items {
            // Waiting for the lease to run out would keep dependents of a crashed process waiting.
            if job.holder.as_deref().is_some_and(is_dead) {
                self.end_lease(&job).await?;
            } else {
                delivered_elsewhere = true;
            }
        }
        Ok(delivered_elsewhere)
    }

    async fn deliver(&self, job: Leased) -> Result<(), Error> {
        if let (Some(id), JobWork::Task(Task::Tell { update })) = (&job.ticket, &job.work) {
            self.tell_dependents(id, update).await?;
        }
        // Finished after the delivery: a crash in between delivers again, which is refused
        // harmlessly.
        let ended = FinishedTask {
            job: job.id,
            fence: job.fence,
            outcome: TaskOutcome::Done {
                result: serde_json::Value::Null,
            },
        };
        match self.store.finish(vec![ended], None).await {
            // Another process has delivered it meanwhile. A dependent accepts it only once.
            Ok(_) | Err(store::Error::StaleFence { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports the current state of the ticket, because a newer update may have overtaken this one.
    /// A dependent that already knows it, or no longer waits, refuses. The refusal is logged and is
    /// no error here.
    async fn tell_dependents(&self, id: &TicketId, update: &DependencyUpdate) -> Result<(), Error> {
        // The state is read now, since the update may have waited for long.
        let source = self.ticket(id).await?;
        let outcome = source.ticket.as_dependency(&self.policy_of(&source).await?);
        for dependent in self.store.dependents(id).await? {
            let ticket = id.clone();
            let what = match (&outcome, update) {
                (Some(Ok(())), _) => EventKind::DependencyMet { ticket },
                (Some(Err(why)), _) => EventKind::DependencyFailed {
                    ticket,
                    why: why.clone(),
                },
                (None, DependencyUpdate::Repaired) => EventKind::DependencyRepaired { ticket },
                // This state is outdated; the next outcome has its own update.
                (None, DependencyUpdate::Met | DependencyUpdate::Failed { .. }) => continue,
            };
            // The policy of the dependent counts, as it may differ from the source's.
            let stored = self.ticket(&dependent).await?;
            let policy = self.policy_of(&stored).await?;
            let report = Report::new(Actor::system(), what);
            match self.decide(&dependent, &policy, report).await {
                Ok(_)
                | Err(Error::Refused(Refused::NotNow { .. } | Refused::NotADependency { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
