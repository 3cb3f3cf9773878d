//! Tells the tickets that depend on another how that one stands now. Anybody may bring whatever
//! news lies there: the process whose decision it was may have died before it could.

use flow::job::DependencyUpdate;
use flow::{Actor, EventKind, Queue, Refused, Task, TicketId};
use store::{FinishedTask, JobQuery, JobState, JobWork, Leased, TaskOutcome};

use super::claim::page;
use super::{Error, LocalCoordinator, Report};
use crate::worker::name::is_dead;

/// News makes news where a dependent has dependents; they are fewer than this deep.
const PASSES_MAX: u32 = 1000;
const LEASES_MAX: u32 = 32;

impl LocalCoordinator {
    /// Brings all news that nobody has brought yet, of whichever ticket. True where another process
    /// is about to bring some.
    pub async fn notify_dependents(&self) -> Result<bool, Error> {
        let elsewhere = self.is_brought_elsewhere().await?;
        for _ in 0..PASSES_MAX {
            let jobs = self.claim_news().await?;
            if jobs.is_empty() {
                break;
            }
            for job in jobs {
                self.deliver(job).await?;
            }
        }
        Ok(elsewhere)
    }

    /// Leases of dead processes end here.
    async fn is_brought_elsewhere(&self) -> Result<bool, Error> {
        let query = JobQuery {
            state: Some(JobState::Leased),
            queue: Some(Queue::Tell),
            ..JobQuery::default()
        };
        let mut alive = false;
        for job in self.store.jobs(&query, &page(LEASES_MAX)).await?.items {
            if job.holder.as_deref().is_some_and(is_dead) {
                self.end_lease(&job).await?;
            } else {
                alive = true;
            }
        }
        Ok(alive)
    }

    async fn deliver(&self, job: Leased) -> Result<(), Error> {
        if let (Some(id), JobWork::Task(Task::Tell { news })) = (&job.ticket, &job.work) {
            self.tell_dependents(id, news).await?;
        }
        let ended = FinishedTask {
            job: job.id,
            fence: job.fence,
            outcome: TaskOutcome::Done {
                result: serde_json::Value::Null,
            },
        };
        match self.store.finish(vec![ended], None).await {
            // Somebody else has brought it meanwhile; a dependent hears it once.
            Ok(_) | Err(store::Error::StaleFence { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says how the ticket stands now, because news may have overtaken news. A dependent that has
    /// heard it, or no longer waits, refuses; that is noted and no trouble here.
    async fn tell_dependents(&self, id: &TicketId, news: &DependencyUpdate) -> Result<(), Error> {
        let source = self.ticket(id).await?;
        let outcome = source.ticket.as_dependency(&self.policy_of(&source).await?);
        for dependent in self.store.dependents(id).await? {
            let ticket = id.clone();
            let what = match (&outcome, news) {
                (Some(Ok(())), _) => EventKind::DependencyMet { ticket },
                (Some(Err(why)), _) => EventKind::DependencyFailed {
                    ticket,
                    why: why.clone(),
                },
                (None, DependencyUpdate::Repaired) => EventKind::DependencyRepaired { ticket },
                // It was so and is no longer; what comes of it will be told in its time.
                (None, DependencyUpdate::Met | DependencyUpdate::Failed { .. }) => continue,
            };
            let stored = self.ticket(&dependent).await?;
            let policy = self.policy_of(&stored).await?;
            let report = Report::new(Actor::house(), what);
            match self.decide(&dependent, &policy, report).await {
                Ok(_)
                | Err(Error::Refused(Refused::NotNow { .. } | Refused::NotADependency { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
