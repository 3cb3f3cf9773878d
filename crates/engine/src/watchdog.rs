//! The watchdog: leases that ran out become events, whoever held them. Any number of nodes may run
//! it; the store lets one of them win.

use flow::event::Lease;
use flow::{Actor, Policy, TicketId, What};
use store::Leased;

use crate::desk::{Desk, Error, Report};

/// How many are taken back at a time.
const AT_ONCE: u32 = 100;

/// Takes back what has lapsed; says how much it was. Jobs that no ticket decides about go back by
/// the store's own rule.
pub async fn take_back(desk: &Desk) -> Result<usize, Error> {
    let expired = desk.store.expire(AT_ONCE).await?;
    let mut taken = usize::try_from(expired.requeued).unwrap_or(usize::MAX);
    for job in expired.of_tickets {
        if lost(desk, &job).await? {
            taken += 1;
        }
    }
    Ok(taken)
}

async fn lost(desk: &Desk, job: &Leased) -> Result<bool, Error> {
    let (Some(id), Some(serial)) = (&job.ticket, job.serial) else {
        return Ok(false);
    };
    let stored = desk.ticket(id).await?;
    let policy = desk.policy_of(&stored).await?;
    let lease = Lease {
        serial,
        fence: job.fence,
    };
    report_lost(desk, id, &policy, lease).await
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
    use store::{ClaimRequest, FreeJob, JobQuery, JobState, Page};

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
            queue: "qa".into(),
            kind: "review".to_owned(),
            body: json!({"id": "t-1"}),
            priority: 50,
            not_before: None,
            agent: None,
            key: None,
            queue_max: None,
            needs: std::collections::BTreeSet::new(),
            depends_on: Vec::new(),
        };
        desk.store.enqueue(vec![task]).await.unwrap();
        let request = ClaimRequest::new("guest:qa-1", "qa-1", ["qa"], std::time::Duration::ZERO);
        assert_eq!(desk.store.claim(&request).await.unwrap().len(), 1);
        assert_eq!(take_back(&desk).await.unwrap(), 1);
        assert_eq!(take_back(&desk).await.unwrap(), 0);
        let ready = JobQuery {
            state: Some(JobState::Ready),
            ..JobQuery::default()
        };
        let jobs = desk.store.jobs(&ready, &Page::default()).await.unwrap();
        assert_eq!(jobs.items.len(), 1);
        let events = desk.store.newest_events(None, 10).await.unwrap();
        let lost = events.iter().find(|event| event.name == "job_lease_lost");
        assert_eq!(lost.unwrap().by, "guest:qa-1");
    }
}
