//! Bringing a ticket's news to those that depend on it. Whoever comes by brings whatever lies
//! there: the one whose decision it was may have died before it could.

use std::time::Duration;

use flow::job::News;
use flow::{Actor, Queue, Refused, Task, TicketId, What};
use store::{ClaimRequest, Ended, JobQuery, JobState, Leased, Outcome, Page, Work};

use crate::desk::{Desk, Error, Report};
use crate::post::{let_go, worker_is_dead};

/// Telling takes milliseconds; news in dead hands is free again soon.
const LEASE: Duration = Duration::from_secs(10);
const AT_ONCE: u32 = 32;
/// News makes news where a dependant has dependants; they are fewer than this deep.
const PASSES_MAX: u32 = 1000;

/// Brings all news that nobody has brought yet, of whichever ticket. True if some are still in the
/// hands of another, who brings them or lets go of them soon.
pub async fn bring(desk: &Desk, worker: &str) -> Result<bool, Error> {
    let elsewhere = in_other_hands(desk).await?;
    let request = ClaimRequest {
        limit: AT_ONCE,
        ..ClaimRequest::new(worker, &Actor::house().agent, [Queue::Tell], LEASE)
    };
    for _ in 0..PASSES_MAX {
        let jobs = desk.store.claim(&request).await?;
        if jobs.is_empty() {
            break;
        }
        for job in jobs {
            deliver(desk, job).await?;
        }
    }
    Ok(elsewhere)
}

/// Whether somebody else is about to bring some. Dead hands are opened.
async fn in_other_hands(desk: &Desk) -> Result<bool, Error> {
    let query = JobQuery {
        state: Some(JobState::Leased),
        queue: Some(Queue::Tell),
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: AT_ONCE,
    };
    let mut alive = false;
    for job in desk.store.jobs(&query, &page).await?.items {
        if !job.holder.as_deref().is_some_and(worker_is_dead) {
            alive = true;
            continue;
        }
        let_go(desk, &job).await?;
    }
    Ok(alive)
}

async fn deliver(desk: &Desk, job: Leased) -> Result<(), Error> {
    if let (Some(id), Work::Task(Task::Tell { news })) = (&job.ticket, &job.work) {
        tell(desk, id, news).await?;
    }
    let ended = Ended {
        job: job.id,
        fence: job.fence,
        outcome: Outcome::Done {
            result: serde_json::Value::Null,
        },
    };
    match desk.store.finish(vec![ended], None).await {
        // Somebody else has brought it meanwhile; hearing it twice is hearing it once.
        Ok(_) | Err(store::Error::StaleFence { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Tells every dependant how the ticket stands now: news may have overtaken news. One that has
/// heard it, or no longer waits, refuses; that is noted by the desk and is no trouble here.
async fn tell(desk: &Desk, id: &TicketId, news: &News) -> Result<(), Error> {
    let source = desk.ticket(id).await?;
    let standing = source.ticket.as_dependency(&desk.policy_of(&source).await?);
    for dependant in desk.store.dependents(id).await? {
        let ticket = id.clone();
        let what = match (&standing, news) {
            (Some(Ok(())), _) => What::DependencyMet { ticket },
            (Some(Err(why)), _) => What::DependencyFailed {
                ticket,
                why: why.clone(),
            },
            (None, News::Repaired) => What::DependencyRepaired { ticket },
            // It was so, and is no longer; what it comes to will be told in its time.
            (None, News::Met | News::Failed { .. }) => continue,
        };
        let stored = desk.ticket(&dependant).await?;
        let policy = desk.policy_of(&stored).await?;
        match desk
            .decide(&dependant, &policy, Report::new(Actor::house(), what))
            .await
        {
            Ok(_)
            | Err(Error::Refused(Refused::NotNow { .. } | Refused::NotADependency { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
