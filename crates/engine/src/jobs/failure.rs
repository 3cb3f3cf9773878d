//! Decides what the end of a run means for its job: whether and when it may be tried again, and
//! what a person can do about it.
//!
//! Exit codes of agents mean little, so the events that the agent itself reported come first. A
//! permanent failure stops the ticket for a person; a transient one costs an attempt.

use flow::event::{Failure, Lease};
use flow::{Actor, EventKind, Time};

use super::{JobContext, JobError};
use crate::agent::quota::QuotaReset;
use crate::agent::{self, AgentEvent, AgentReport};
use crate::coordinator::Report;
use crate::process::{self, ProcessExit};
use crate::project::AgentConfig;
use crate::sandbox;

/// Maximum length of the agent's error output in a message.
const COMPLAINT_CHARS_MAX: usize = 400;
/// Pause of a provider that does not say when it has quota again.
const QUOTA_RETRY_MS: u64 = 15 * 60 * 1000;

impl JobError {
    /// Builds the report of the failure. `by` is the agent that ran, because what the run cost
    /// counts as the agent's, or Countersign if none did.
    pub(super) fn into_report(self, by: Actor, lease: Lease) -> Report {
        let what = EventKind::JobFailed {
            lease,
            failure: self.failure,
            message: self.message,
            usage: self.usage,
        };
        Report::new(by, what)
    }
}

/// Returns whether the agent ended before it did or said anything, and not for lack of a login or
/// quota. A session that cannot be resumed fails at once. The caller then starts a new one instead
/// of spending an attempt.
pub fn could_not_resume(report: &AgentReport) -> bool {
    let began = report.events.iter().any(|event| {
        matches!(
            event,
            AgentEvent::ToolUsed { .. } | AgentEvent::SaidPart { .. } | AgentEvent::Answered { .. }
        )
    });
    let has_other_cause = matches!(
        report.trouble,
        Some(
            AgentEvent::ActionRequired { .. }
                | AgentEvent::OutOfQuota { .. }
                | AgentEvent::OverBudget { .. }
        )
    );
    matches!(report.exit, ProcessExit::Code(code) if code != 0) && !began && !has_other_cause
}

/// Returns the error of a run without a result, whatever its exit code.
pub fn error_of_run(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    report: &AgentReport,
) -> Option<JobError> {
    let name = &agent.name;
    let short = |text: &str| findings::shorten(&findings::clean(text), COMPLAINT_CHARS_MAX);
    match &report.trouble {
        // A budget is the person's own limit, so trying again would only exceed it again.
        Some(AgentEvent::OverBudget { message }) => Some(JobError {
            failure: Failure::Budget,
            ..JobError::permanent(format!("{name}: {}", short(message)))
        }),
        // An interrupted run is no failure of the agent, even if the agent complained while it was
        // ended.
        _ if report.exit == ProcessExit::Cancelled => Some(super::interrupted()),
        // The same brief would fill the disk again.
        _ if matches!(report.exit, ProcessExit::DiskLimit { .. }) => {
            Some(JobError::permanent(format!(
                "{name}: {}; its files were removed; say in the ticket what it should not create, or raise disk_bytes_max or disk_files_max in [policy.limits]",
                report.exit
            )))
        }
        Some(AgentEvent::OutOfQuota { until }) => {
            let until = quota_end(context, *until);
            Some(JobError {
                failure: Failure::Quota { until },
                ..JobError::transient(format!("{name} is out of quota until {}", until.to_iso()))
            })
        }
        // Only a person can log in or pay, so the message says how.
        Some(AgentEvent::ActionRequired { message }) => {
            let remedy = agent.adapter.login_hint();
            let what_to_do = if remedy.is_empty() {
                remedy
            } else {
                format!("; {remedy}")
            };
            Some(JobError::permanent(format!(
                "{name} may not work: {}{what_to_do}",
                short(message)
            )))
        }
        Some(AgentEvent::Failed { message }) => {
            Some(failed_run(report, &format!("{name}: {}", short(message))))
        }
        _ if report.exit.success() => None,
        _ => {
            let complaint = short(&report.complaint);
            let hint = hint(context, report.exit);
            Some(failed_run(
                report,
                &format!("{name}: {}{hint}\n{complaint}", report.exit),
            ))
        }
    }
}

/// Returns when a run may start again whose agent is out of quota. The agent's own words count only
/// within the limits of the policy.
fn quota_end(context: &JobContext<'_>, named: Option<QuotaReset>) -> Time {
    let now = (context.project.clock)();
    let named = named.and_then(|reset| reset.to_time(now));
    // An agent that names no time gets a fixed pause.
    let wish = named.unwrap_or(now.plus_ms(QUOTA_RETRY_MS));
    let serial = context.lease.serial;
    let job = context.ticket.jobs.iter().find(|job| job.serial == serial);
    // The number of claims stands in for the number of waits.
    // A task has no job in a ticket; its lease number tells how often it was claimed.
    let claims = u32::try_from(context.lease.fence.saturating_sub(1)).unwrap_or(u32::MAX);
    let waits = job.map_or(claims, |job| job.quota_waits);
    let name = format!("{}/{serial}", context.ticket.id);
    let limits = &context.project.config.policy.limits;
    limits.quota_wait(&name, waits, wish, now)
}

/// Returns advice for an end that the agent does not explain.
fn hint(context: &JobContext<'_>, exit: ProcessExit) -> String {
    let limits = &context.project.config.policy.limits;
    match exit {
        ProcessExit::IdleLimit => format!(
            " ({} s): see that it can reach its provider over the network (`[policy.network]`, a proxy), or raise idle_secs in [policy.limits]",
            limits.idle_secs
        ),
        ProcessExit::WallLimit => {
            ": give the ticket less to do, or raise the limit of its kind of work in [policy.limits]".to_owned()
        }
        ProcessExit::Code(_)
        | ProcessExit::Signal(_)
        | ProcessExit::DiskLimit { .. }
        | ProcessExit::Cancelled
        | ProcessExit::Dismissed => String::new(),
    }
}

fn failed_run(report: &AgentReport, what: &str) -> JobError {
    let transcript = report.transcript.display();
    let what = what.trim_end();
    // Words of an agent keep their lines; a short cause and the path are one sentence.
    let separator = if what.contains('\n') { "\n" } else { "; " };
    JobError::transient(format!("{what}{separator}transcript: {transcript}"))
}

pub fn to_job_error(error: agent::Error) -> JobError {
    match error {
        agent::Error::NotInstalled { .. }
        // Neither a missing program nor a missing sandbox is cured by time.
        | agent::Error::Process(process::Error::Sandbox(sandbox::Error::NotConfined { .. })) => {
            JobError::permanent(error)
        }
        agent::Error::File { .. } | agent::Error::Process(_) => JobError::transient(error),
    }
}
