//! Log lines of jobs. The target is `job`, so that a filter can name it independently of module
//! names.

use flow::TicketId;
use flow::event::{Failure, Lease};
use tracing::{Span, error_span, field};

const MESSAGE_CHARS_MAX: usize = 2000;

/// Returns the span of one claimed job. It has the level `error`, so that its fields appear on
/// every line inside it, even if only errors are logged.
pub fn span(ticket: &TicketId, kind: &str, lease: Lease, worker: &str) -> Span {
    error_span!(
        target: "job",
        "job",
        %ticket,
        round = field::Empty,
        job = lease.serial,
        kind,
        fence = lease.fence,
        worker,
    )
}

/// Logs that the job started in this round of its ticket.
pub fn started(round: u32) {
    Span::current().record("round", round);
    tracing::info!(target: "job", "job started");
}

/// Logs that the result was accepted.
pub fn finished(result: &str) {
    tracing::info!(target: "job", result, "job finished");
}

/// Logs that the job failed. A provider without quota and a spent budget are expected in normal
/// operation; a stopped worker is no failure at all.
pub fn failed(failure: Failure, message: &str) {
    // The message may quote the output of an agent.
    let error = findings::shorten(&findings::one_line(message), MESSAGE_CHARS_MAX);
    match failure {
        Failure::Interrupted => tracing::info!(target: "job", error, "job given back"),
        Failure::Deferred { .. } => tracing::info!(target: "job", error, "job waits for another"),
        Failure::Quota { .. } => {
            tracing::warn!(target: "job", error, "job delayed: out of quota");
        }
        Failure::Budget => tracing::warn!(target: "job", error, "job stopped by its budget"),
        Failure::Transient => {
            tracing::error!(target: "job", error, failure = "transient", "job failed");
        }
        Failure::Permanent => {
            tracing::error!(target: "job", error, failure = "permanent", "job failed");
        }
        Failure::NoJudge => {
            tracing::error!(target: "job", error, failure = "no_judge", "job failed");
        }
    }
}
