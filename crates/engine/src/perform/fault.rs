//! What the end of a run means for its job: whether it may be tried again, when, and what a person
//! can do about it.

use flow::event::Failure;

use super::{Held, Trouble};
use crate::agent::{self, AgentEvent, Report};
use crate::process::{self, Exit};
use crate::sandbox;
use crate::workshop::Member;

/// How much of its complaint goes into a message.
const COMPLAINT_CHARS_MAX: usize = 400;
/// Where a provider does not say when it has quota again.
const LOOK_AGAIN_MS: u64 = 15 * 60 * 1000;

/// It ended before it did or said anything, and not for want of a login or of quota.
pub fn could_not_go_on(report: &Report) -> bool {
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
    matches!(report.exit, Exit::Code(code) if code != 0) && !began && !elsewhere
}

/// Why a run is no result, whatever its exit code says.
pub fn trouble_of(held: &Held<'_>, member: &Member, report: &Report) -> Option<Trouble> {
    let name = &member.name;
    let short = |text: &str| findings::shorten(&findings::clean(text), COMPLAINT_CHARS_MAX);
    match &report.trouble {
        Some(AgentEvent::OverBudget { message }) => Some(Trouble {
            failure: Failure::Budget,
            ..Trouble::permanent(format!("{name}: {}", short(message)))
        }),
        _ if report.exit == Exit::Cancelled => Some(super::interrupted()),
        _ if matches!(report.exit, Exit::DiskLimit { .. }) => Some(Trouble::permanent(format!(
            "{name}: {}; what it left was thrown away; say in the ticket what it should not make, or raise disk_bytes_max or disk_files_max in [policy.limits]",
            report.exit
        ))),
        Some(AgentEvent::OutOfQuota { until }) => {
            let now = (held.shop.clock)();
            let until = until.map_or(now.plus_ms(LOOK_AGAIN_MS), |until| until.from_now(now));
            Some(Trouble {
                failure: Failure::Quota { until },
                ..Trouble::transient(format!("{name} is out of quota until {}", until.iso()))
            })
        }
        Some(AgentEvent::Barred { message }) => {
            let cure = member.adapter.cure();
            let what_to_do = if cure.is_empty() {
                cure
            } else {
                format!("; {cure}")
            };
            Some(Trouble::permanent(format!(
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
fn hint(held: &Held<'_>, exit: Exit) -> String {
    let limits = &held.shop.project.policy.limits;
    match exit {
        Exit::IdleLimit => format!(
            " ({} s): see that it can reach its provider over the network (`[policy.network]`, a proxy), or raise idle_secs in [policy.limits]",
            limits.idle_secs
        ),
        Exit::WallLimit => {
            ": give the ticket less to do, or raise the limit of its kind of work in [policy.limits]".to_owned()
        }
        Exit::Code(_)
        | Exit::Signal(_)
        | Exit::DiskLimit { .. }
        | Exit::Cancelled
        | Exit::Dismissed => String::new(),
    }
}

fn failed(report: &Report, what: &str) -> Trouble {
    let transcript = report.transcript.display();
    Trouble::transient(format!("{}\ntranscript: {transcript}", what.trim_end()))
}

pub fn trouble(error: agent::Error) -> Trouble {
    match error {
        agent::Error::NotInstalled { .. }
        | agent::Error::Process(process::Error::Sandbox(sandbox::Error::NotConfined { .. })) => {
            Trouble::permanent(error)
        }
        agent::Error::File { .. } | agent::Error::Process(_) => Trouble::transient(error),
    }
}
