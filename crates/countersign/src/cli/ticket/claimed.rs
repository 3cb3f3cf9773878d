//! Jobs of a ticket that agents have claimed and not started yet.

use app::operations::questions::work::ListJobs;
use flow::Ticket;

use crate::cli::Context;

/// Names the holders of jobs that are claimed and not started yet; the ticket knows only started
/// ones. A token that may not list jobs sees none.
pub(super) async fn claimed_jobs(id: &str, ticket: &Ticket, context: &Context) -> Vec<String> {
    let leased = ListJobs {
        state: Some("leased".to_owned()),
        ticket: Some(id.to_owned()),
        ..ListJobs::default()
    };
    let Ok(leased) = context.ask(leased).await else {
        return Vec::new();
    };
    let is_started = |serial: Option<u32>| {
        let mut jobs = ticket.jobs.iter();
        jobs.any(|job| Some(job.serial) == serial && job.holder.is_some())
    };
    let claimed = leased
        .items
        .into_iter()
        .filter(|job| !is_started(job.serial));
    let lines = claimed.map(|job| {
        let holder = job.holder.unwrap_or_default();
        let holder = holder.strip_prefix("session:").unwrap_or(&holder);
        let until = job
            .lease_until
            .map(|until| format!(" until {}", until.to_iso()));
        let until = until.unwrap_or_default();
        format!(
            "  {} claimed by {holder}{until}, not started yet",
            job.queue
        )
    });
    lines.collect()
}
