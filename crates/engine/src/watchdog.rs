//! The watchdog: leases that ran out become events, whoever held them. Any number of nodes may run
//! it; the store lets one of them win.

use flow::event::Lease;
use flow::{Actor, Policy, Role, TicketId, What};
use store::{Leased, Work};

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

/// Jobs that no ticket decides about go back by themselves when somebody claims.
async fn lost(desk: &Desk, job: &Leased) -> Result<bool, Error> {
    let (Some(id), Some(serial), Work::Task(task)) = (&job.ticket, job.serial, &job.work) else {
        return Ok(false);
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

/// The ticket hears that a lease on one of its jobs is lost; false where that was not so any more.
pub async fn report_lost(
    desk: &Desk,
    id: &TicketId,
    policy: &Policy,
    lease: Lease,
) -> Result<bool, Error> {
    let house = Actor::new("countersign", Role::Service);
    let report = Report::new(house, What::LeaseLost { lease });
    match desk.decide(id, policy, report).await {
        Ok(_) => Ok(true),
        // Another node was faster, or the lease was prolonged in this instant.
        Err(Error::Refused(_) | Error::Store(store::Error::Conflict { .. })) => Ok(false),
        Err(error) if error.is_stale() => Ok(false),
        Err(error) => Err(error),
    }
}
