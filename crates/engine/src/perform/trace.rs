//! The log of jobs. The target is `job`, so that a filter can name it whatever the modules are
//! called.

use flow::TicketId;
use flow::event::{Failure, Lease};
use tracing::{Span, error_span, field};

const KEPT_CHARS_MAX: usize = 2000;

/// The span of one claimed job. It has the level `error` so that its fields stand on every line that
/// is logged inside it, also where only errors are.
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

/// The job was taken up in this round of its ticket.
pub fn started(round: u32) {
    Span::current().record("round", round);
    tracing::info!(target: "job", "job started");
}

/// The result was accepted.
pub fn finished(result: &str) {
    tracing::info!(target: "job", result, "job finished");
}

/// The job came to nothing. A provider that is out of quota and a budget that is spent are expected
/// in normal operation; a worker that is told to stop is no failure at all.
pub fn failed(failure: Failure, message: &str) {
    // It may quote what an agent printed.
    let error = findings::shorten(&findings::one_line(message), KEPT_CHARS_MAX);
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
