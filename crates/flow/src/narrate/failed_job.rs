//! Sentences about jobs that failed: which one, whose, why, and what happens next.

use super::{Mood, Sentence};
use crate::advance::retry_wait_ms;
use crate::event::{Event, EventKind, Failure, Role};
use crate::policy::Policy;
use crate::ticket::{Stage, Ticket};

/// Describes a failed try of a job. `None` if the message says everything: an agent that is out of
/// quota and a landing that waits for another one are no failures of the job.
pub(super) fn describe_failed_job(
    before: &Ticket,
    event: &Event,
    after: &Ticket,
    policy: &Policy,
) -> Option<Sentence> {
    let EventKind::JobFailed {
        lease,
        failure,
        message,
        ..
    } = &event.what
    else {
        return None;
    };
    let job = before.jobs.iter().find(|job| job.serial == lease.serial)?;
    let task = job.task.word();
    let whose = match event.by.role {
        Role::Service | Role::Admin => String::new(),
        Role::Builder | Role::Reviewer | Role::Verifier | Role::Human | Role::Viewer => {
            format!(" by {}", event.by.agent)
        }
    };
    let round = before.round;
    let message = findings::one_line(message);
    let text = match failure {
        Failure::Quota { .. } | Failure::Deferred { .. } => return None,
        Failure::Interrupted => format!(
            "round {round}: {task}{whose} was stopped before it was done; `countersign run {}` or a worker continues it",
            before.id
        ),
        Failure::Transient | Failure::Permanent | Failure::NoJudge | Failure::Budget => {
            let next = describe_next_try(after, lease.serial, policy);
            format!("round {round}: {task}{whose} failed: {message}{next}")
        }
    };
    Some(Sentence {
        activity: "job_failed",
        mood: Mood::Bad,
        text,
    })
}

/// Says when the job is tried again; empty if it is not, because then another sentence says what
/// happens.
fn describe_next_try(after: &Ticket, serial: u32, policy: &Policy) -> String {
    let retried = after
        .jobs
        .iter()
        .find(|job| job.serial == serial && job.attempts > 0);
    match retried {
        Some(job) if after.stage != Stage::Escalated => {
            let wait = retry_wait_ms(policy, &after.id, serial, job.attempts);
            let (next, all) = (job.attempts + 1, policy.limits.retries_max + 1);
            format!("; try {next} of {all} in {} s", wait.div_ceil(1000))
        }
        _ => String::new(),
    }
}
