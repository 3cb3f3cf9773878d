//! The stages in which each event is possible, and the roles that may report it. The table in
//! ARCHITECTURE.md is generated from here.

use crate::event::{EventKind, Role};
use crate::job::Task;
use crate::ticket::Stage::{
    self, Approved, Blocked, Building, Checking, Escalated, Merging, Pending, Queued, Reviewing,
    Rework,
};

/// Stages with a job that runs or waits for a worker.
const ACTIVE: &[Stage] = &[
    Queued, Building, Checking, Reviewing, Rework, Approved, Merging,
];
/// All stages except the terminal ones.
const ALIVE: &[Stage] = &[
    Pending, Queued, Building, Checking, Reviewing, Rework, Approved, Merging, Escalated, Blocked,
];
const BEFORE_WORK: &[Stage] = &[Pending, Blocked];

/// Stages in which the event is possible.
pub fn allowed_stages(what: &EventKind) -> &'static [Stage] {
    match what {
        EventKind::Created { .. } => &[],
        EventKind::DependencyMet { .. } | EventKind::DependenciesSet { .. } => BEFORE_WORK,
        EventKind::DependencyRepaired { .. } | EventKind::Resubmitted { .. } => &[Blocked],
        EventKind::DependencyFailed { .. }
        | EventKind::BudgetRaised { .. }
        | EventKind::Cancelled { .. }
        | EventKind::ChangeObserved { .. }
        | EventKind::ReportRequested { .. } => ALIVE,
        EventKind::Waived { .. } => &[
            Queued, Building, Checking, Reviewing, Rework, Approved, Merging, Escalated, Blocked,
        ],
        // While it lands, the branch may already have moved: the person opens a new ticket then.
        EventKind::FindingsAdded { .. } => &[
            Queued, Building, Checking, Reviewing, Rework, Approved, Escalated, Blocked,
        ],
        EventKind::Started { .. } => &[Queued, Rework, Checking, Reviewing, Approved],
        EventKind::BaseRed { .. } | EventKind::Submitted { .. } => &[Building],
        EventKind::Checked { .. } => &[Checking],
        EventKind::Reviewed { .. }
        | EventKind::ReviewUnusable { .. }
        | EventKind::Verified { .. } => &[Reviewing],
        EventKind::Landed { .. }
        | EventKind::Conflicted { .. }
        | EventKind::CombinationRed { .. } => &[Merging],
        EventKind::WentStale { .. } => &[Approved, Merging],
        EventKind::JobFailed { .. } | EventKind::LeaseLost { .. } => &[
            Queued, Rework, Building, Checking, Reviewing, Approved, Merging,
        ],
        EventKind::AgentOut { .. } => &[Queued, Rework, Reviewing],
        EventKind::HelpRequested { .. } => &[Building, Reviewing],
        EventKind::BudgetReached { .. } => ACTIVE,
        EventKind::Settled { .. } => &[Escalated],
    }
}

const PERSON: &[Role] = &[Role::Human, Role::Admin];
const SYSTEM: &[Role] = &[Role::Service, Role::Admin];
/// Everybody but viewers, who change nothing.
const ANYBODY: &[Role] = &[
    Role::Builder,
    Role::Reviewer,
    Role::Verifier,
    Role::Human,
    Role::Service,
    Role::Admin,
];

/// Roles that may report the event. For a job's report they depend on its task.
pub fn allowed_roles(what: &EventKind, task: Option<&Task>) -> &'static [Role] {
    match what {
        EventKind::Created { .. } => ANYBODY,
        EventKind::Started { .. }
        | EventKind::Submitted { .. }
        | EventKind::Checked { .. }
        | EventKind::Reviewed { .. }
        | EventKind::Verified { .. }
        | EventKind::Landed { .. }
        | EventKind::Conflicted { .. }
        | EventKind::CombinationRed { .. } => task.map_or(SYSTEM, worker_roles),
        EventKind::ReviewUnusable { .. } => &[Role::Reviewer, Role::Service],
        // The worker proves the base itself. An agent could stop any ticket with it.
        EventKind::BaseRed { .. } => &[Role::Service],
        EventKind::JobFailed { .. } => task.map_or(SYSTEM, worker_or_system_roles),
        EventKind::HelpRequested { .. } => &[Role::Builder, Role::Reviewer, Role::Verifier],
        EventKind::DependencyMet { .. }
        | EventKind::DependencyFailed { .. }
        | EventKind::DependencyRepaired { .. }
        | EventKind::LeaseLost { .. }
        | EventKind::AgentOut { .. }
        | EventKind::WentStale { .. }
        | EventKind::ChangeObserved { .. }
        | EventKind::BudgetReached { .. } => SYSTEM,
        EventKind::DependenciesSet { .. }
        | EventKind::BudgetRaised { .. }
        | EventKind::Waived { .. }
        | EventKind::FindingsAdded { .. }
        | EventKind::Settled { .. }
        | EventKind::Resubmitted { .. } => PERSON,
        EventKind::Cancelled { .. } | EventKind::ReportRequested { .. } => {
            &[Role::Human, Role::Admin, Role::Service]
        }
    }
}

fn worker_or_system_roles(task: &Task) -> &'static [Role] {
    match task {
        Task::Build { .. } => &[Role::Builder, Role::Service],
        Task::Review { .. } => &[Role::Reviewer, Role::Service],
        Task::Verify { .. } => &[Role::Verifier, Role::Service],
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } | Task::Report => {
            &[Role::Service]
        }
    }
}

fn worker_roles(task: &Task) -> &'static [Role] {
    match task {
        Task::Build { .. } => &[Role::Builder],
        Task::Review { .. } => &[Role::Reviewer],
        Task::Verify { .. } => &[Role::Verifier],
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } | Task::Report => {
            &[Role::Service]
        }
    }
}
