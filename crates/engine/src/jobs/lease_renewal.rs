//! Keeps the lease of a job while it is performed.

use std::time::Duration;

use store::Leased;

use crate::process::{StopSignal, Stopper};
use crate::project::Project;

/// Interval of the check that the job is still ours.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Prolongs the lease during the work. A lost lease, a cancelled ticket or task, or a stop signal
/// ends the run; its report is then refused, or the job is given back.
pub async fn keep_alive(project: &Project, job: &Leased, stopper: &Stopper, mut stop: StopSignal) {
    let lease = Duration::from_secs(project.config.policy.limits.lease_secs);
    let mut renew = tokio::time::interval(lease / 3);
    let mut check = tokio::time::interval(LEASE_CHECK_INTERVAL);
    renew.tick().await;
    // If the store was unreachable when renewal was due, try again at each check.
    let mut due = false;
    loop {
        let lost = tokio::select! {
            _ = renew.tick() => renew_lease(project, job, lease, &mut due).await,
            _ = check.tick() => {
                if due {
                    renew_lease(project, job, lease, &mut due).await
                } else {
                    is_job_unwanted(project, job).await
                }
            }
            () = stop.requested() => true,
        };
        if lost {
            stopper.stop();
            std::future::pending::<()>().await;
        }
    }
}

/// Prolongs the lease. Returns true if it is lost.
async fn renew_lease(project: &Project, job: &Leased, lease: Duration, due: &mut bool) -> bool {
    let coordinator = &project.coordinator;
    let renewed = coordinator.renew(job.id, job.fence, Some(lease)).await;
    // Renewal is retried every second: one log line per outage is enough.
    if let (Err(error), false) = (&renewed, *due) {
        tracing::warn!(%error, "could not renew the lease");
    }
    *due = renewed.is_err();
    renewed.is_err_and(|error| error.is_stale())
}

/// Returns whether the lease is gone. An unreachable store does not count.
async fn is_job_unwanted(project: &Project, job: &Leased) -> bool {
    let renewed = project.coordinator.renew(job.id, job.fence, None).await;
    renewed.is_err_and(|error| error.is_stale())
}
