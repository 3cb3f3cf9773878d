//! What the end of a run means for its job: whether it may be tried again, when, and what a person
//! can do about it.

use flow::event::Failure;

use super::{JobContext, JobError};
use crate::agent::{self, AgentEvent, AgentReport};
use crate::process::{self, ProcessExit};
use crate::sandbox;
use crate::workshop::AgentConfig;

/// How much of its complaint goes into a message.
const COMPLAINT_CHARS_MAX: usize = 400;
/// Where a provider does not say when it has quota again.
const LOOK_AGAIN_MS: u64 = 15 * 60 * 1000;

/// It ended before it did or said anything, and not for want of a login or of quota.
pub fn could_not_go_on(report: &AgentReport) -> bool {
    let began = report.events.iter().any(|event| {
        matches!(
            event,
            AgentEvent::Used { .. } | AgentEvent::Wrote { .. } | AgentEvent::Answered { .. }
        )
    });
    let elsewhere = matches!(
        report.trouble,
        Some(
            AgentEvent::Barred { .. }
                | AgentEvent::OutOfQuota { .. }
                | AgentEvent::OverBudget { .. }
        )
    );
    matches!(report.exit, ProcessExit::Code(code) if code != 0) && !began && !elsewhere
}

/// Why a run is no result, whatever its exit code says.
pub fn trouble_of(
    held: &JobContext<'_>,
    member: &AgentConfig,
    report: &AgentReport,
) -> Option<JobError> {
    let name = &member.name;
    let short = |text: &str| findings::shorten(&findings::clean(text), COMPLAINT_CHARS_MAX);
    match &report.trouble {
        Some(AgentEvent::OverBudget { message }) => Some(JobError {
            failure: Failure::Budget,
            ..JobError::permanent(format!("{name}: {}", short(message)))
        }),
        _ if report.exit == ProcessExit::Cancelled => Some(super::interrupted()),
        _ if matches!(report.exit, ProcessExit::DiskLimit { .. }) => {
            Some(JobError::permanent(format!(
                "{name}: {}; what it left was thrown away; say in the ticket what it should not make, or raise disk_bytes_max or disk_files_max in [policy.limits]",
                report.exit
            )))
        }
        Some(AgentEvent::OutOfQuota { until }) => {
            let now = (held.shop.clock)();
            let until = until.map_or(now.plus_ms(LOOK_AGAIN_MS), |until| until.from_now(now));
            Some(JobError {
                failure: Failure::Quota { until },
                ..JobError::transient(format!("{name} is out of quota until {}", until.iso()))
            })
        }
        Some(AgentEvent::Barred { message }) => {
            let cure = member.adapter.cure();
            let what_to_do = if cure.is_empty() {
                cure
            } else {
                format!("; {cure}")
            };
            Some(JobError::permanent(format!(
                "{name} may not work: {}{what_to_do}",
                short(message)
            )))
        }
        Some(AgentEvent::Failed { message }) => {
            Some(failed(report, &format!("{name}: {}", short(message))))
        }
        _ if report.exit.success() => None,
        _ => {
            let complaint = short(&report.complaint);
            let hint = hint(held, report.exit);
            Some(failed(
                report,
                &format!("{name}: {}{hint}\n{complaint}", report.exit),
            ))
        }
    }
}

/// What a person can do about an end that the agent does not explain.
fn hint(held: &JobContext<'_>, exit: ProcessExit) -> String {
    let limits = &held.shop.project.policy.limits;
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

fn failed(report: &AgentReport, what: &str) -> JobError {
    let transcript = report.transcript.display();
    JobError::transient(format!("{}\ntranscript: {transcript}", what.trim_end()))
}

pub fn trouble(error: agent::Error) -> JobError {
    match error {
        agent::Error::NotInstalled { .. }
        | agent::Error::Process(process::Error::Sandbox(sandbox::Error::NotConfined { .. })) => {
            JobError::permanent(error)
        }
        agent::Error::File { .. } | agent::Error::Process(_) => JobError::transient(error),
    }
}
