//! The watchdog: leases that ran out become events, whoever held them. Any number of nodes may run
//! it; the store lets one of them win.

use std::time::Duration;

use flow::event::Lease;
use flow::{Actor, Policy, TicketId, What};
use store::{Ask, Leased, Work};

use crate::desk::{Desk, Error, Report};

/// How many are taken back at a time.
const AT_ONCE: u32 = 100;

/// Takes back what has lapsed; says how much it was.
pub async fn take_back(desk: &Desk) -> Result<usize, Error> {
    let mut taken = 0;
    for job in desk.store.lapsed(AT_ONCE).await? {
        if lost(desk, &job).await? {
            taken += 1;
        }
    }
    Ok(taken)
}

/// News go back by themselves when somebody claims.
async fn lost(desk: &Desk, job: &Leased) -> Result<bool, Error> {
    let (Some(id), Some(serial), Work::Task(task)) = (&job.ticket, job.serial, &job.work) else {
        return give_back(desk, job).await;
    };
    if task.queue() == "tell" {
        return Ok(false);
    }
    let stored = desk.ticket(id).await?;
    let policy = desk.policy_of(&stored).await?;
    let lease = Lease {
        serial,
        fence: job.fence,
    };
    report_lost(desk, id, &policy, lease).await
}

/// What no ticket decides about goes back by the store's own rule, and into the log. That is part of
/// every claim, so this is one that takes nothing.
async fn give_back(desk: &Desk, job: &Leased) -> Result<bool, Error> {
    let ask = Ask {
        queues: vec![job.queue.clone()],
        agent: String::new(),
        holder: "countersign".to_owned(),
        provider: None,
        ticket: None,
        lease: Duration::ZERO,
        own_only: false,
        alone_in: Vec::new(),
        job: None,
        most: 0,
    };
    desk.store.claim(&ask).await?;
    Ok(true)
}

/// The ticket hears that a lease on one of its jobs is lost; false where that was not so any more.
pub async fn report_lost(
    desk: &Desk,
    id: &TicketId,
    policy: &Policy,
    lease: Lease,
) -> Result<bool, Error> {
    let report = Report::new(Actor::house(), What::LeaseLost { lease });
    match desk.decide(id, policy, report).await {
        Ok(_) => Ok(true),
        // Another node was faster, or the lease was prolonged in this instant.
        Err(Error::Store(store::Error::Conflict { .. })) => Ok(false),
        Err(error) if error.is_stale() || error.refusal().is_some() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::{FreeJob, JobQuery, JobState, Page};

    use super::*;

    #[tokio::test]
    async fn a_task_whose_agent_fell_silent_goes_back_and_the_log_says_whose_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.db");
        let desk = Desk {
            store: store::open(path.to_str().unwrap()).await.unwrap(),
            clock: crate::clock::now,
            witness: None,
            refusals: std::sync::Arc::default(),
        };
        let task = FreeJob {
            queue: "qa".to_owned(),
            kind: "review".to_owned(),
            body: json!({"id": "t-1"}),
            priority: 50,
            not_before: None,
            agent: None,
            key: None,
            queue_max: None,
        };
        desk.store.enqueue(vec![task]).await.unwrap();
        let ask = Ask {
            queues: vec!["qa".to_owned()],
            agent: "qa-1".to_owned(),
            holder: "guest:qa-1".to_owned(),
            provider: None,
            ticket: None,
            lease: Duration::ZERO,
            own_only: false,
            alone_in: Vec::new(),
            job: None,
            most: 1,
        };
        assert_eq!(desk.store.claim(&ask).await.unwrap().len(), 1);
        assert_eq!(take_back(&desk).await.unwrap(), 1);
        assert_eq!(take_back(&desk).await.unwrap(), 0);
        let ready = JobQuery {
            state: Some(JobState::Ready),
            ..JobQuery::default()
        };
        let jobs = desk.store.jobs(&ready, &Page::default()).await.unwrap();
        assert_eq!(jobs.items.len(), 1);
        let events = desk.store.latest(None, 10).await.unwrap();
        let lost = events.iter().find(|event| event.name == "job_lease_lost");
        assert_eq!(lost.unwrap().by, "guest:qa-1");
    }
}
