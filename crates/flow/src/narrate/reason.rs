//! Sentences about the reasons for which a ticket waits for a person.

use super::short_commit;
use crate::ticket::Reason;

/// Describes the reason of an escalation.
pub fn describe_reason(reason: &Reason) -> String {
    match reason {
        Reason::RoundsUsedUp { rounds } => {
            let plural = if *rounds == 1 { "" } else { "s" };
            format!("after {rounds} round{plural}, the change is not approved")
        }
        Reason::NoProgress { open } => {
            let counts: Vec<String> = open.iter().map(ToString::to_string).collect();
            format!("no progress: open must-fix findings {}", counts.join(" → "))
        }
        Reason::FindingCameBack { findings } => {
            format!("fixed before and back again: {}", findings.join(", "))
        }
        Reason::Budget { limit } => format!("the budget is used up ({limit})"),
        Reason::NoUsableReview { attempts } => format!("no usable review in {attempts} attempts"),
        Reason::NobodyToJudge { why } => {
            format!(
                "no agent may review or verify it: {}",
                findings::one_line(why)
            )
        }
        Reason::RefusedOverNotes { findings } => {
            let ids = findings.join(", ");
            format!("a reviewer refuses, and is not sure of any of its findings ({ids})")
        }
        Reason::RedChecks { times } => format!("checks red {times} times in one round"),
        Reason::ForbiddenPaths { paths } => {
            format!("twice {}", crate::advance::describe_forbidden_paths(paths))
        }
        Reason::RedOnBase { checks } => format!("red on the base as well: {}", checks.join(", ")),
        Reason::BaseRed { checks } => format!(
            "the base is red, so no agent was started: {}",
            checks.join(", ")
        ),
        Reason::Conflicts { times } => format!("could not be merged {times} times"),
        Reason::StaleTooOften { times } => format!("overtaken {times} times after approval"),
        Reason::RetriesExhausted { task, error } => {
            format!("{task} failed for good: {}", findings::one_line(error))
        }
        Reason::DependencyFailed { ticket } => format!("{ticket}, which it builds on, failed"),
        Reason::HelpRequested { by } => format!("{by} asks for help"),
        Reason::ChangeClosed { number } => {
            format!("pull request {number} was closed without a merge")
        }
        Reason::BranchReplaced { head } => format!(
            "somebody pushed {} to the pull request, and the ticket does not build on it",
            short_commit(head)
        ),
        Reason::MergedUnapproved { commit } => format!(
            "the pull request was merged at {}, which is not approved",
            short_commit(commit)
        ),
    }
}
