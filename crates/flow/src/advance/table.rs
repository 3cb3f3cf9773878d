//! In which stages an event is possible, and who may report it. The table in ARCHITECTURE.md is
//! generated from here.

use crate::event::{Role, What};
use crate::job::Task;
use crate::ticket::Stage::{
    self, Approved, Blocked, Building, Checking, Escalated, Merging, Pending, Queued, Reviewing,
    Rework,
};

/// Stages in which something goes on, or could at once.
const ACTIVE: &[Stage] = &[
    Queued, Building, Checking, Reviewing, Rework, Approved, Merging,
];
/// All but the terminal ones.
const ALIVE: &[Stage] = &[
    Pending, Queued, Building, Checking, Reviewing, Rework, Approved, Merging, Escalated, Blocked,
];
const BEFORE_WORK: &[Stage] = &[Pending, Blocked];

pub fn stages(what: &What) -> &'static [Stage] {
    match what {
        What::Created { .. } => &[],
        What::DependencyMet { .. } | What::DependenciesSet { .. } => BEFORE_WORK,
        What::DependencyRepaired { .. } | What::Resubmitted { .. } => &[Blocked],
        What::DependencyFailed { .. } | What::BudgetRaised { .. } | What::Cancelled { .. } => ALIVE,
        What::Waived { .. } => &[
            Queued, Building, Checking, Reviewing, Rework, Approved, Merging, Escalated, Blocked,
        ],
        What::Started { .. } => &[Queued, Rework, Checking, Reviewing, Approved],
        What::Submitted { .. } => &[Building],
        What::Checked { .. } => &[Checking],
        What::Reviewed { .. } | What::ReviewUnusable { .. } | What::Verified { .. } => &[Reviewing],
        What::Landed { .. } | What::Conflicted { .. } | What::CombinationRed { .. } => &[Merging],
        What::WentStale { .. } => &[Approved, Merging],
        What::JobFailed { .. } | What::LeaseLost { .. } => &[
            Queued, Rework, Building, Checking, Reviewing, Approved, Merging,
        ],
        What::AgentOut { .. } => &[Queued, Rework, Reviewing],
        What::HelpRequested { .. } => &[Building, Reviewing],
        What::BudgetReached { .. } => ACTIVE,
        What::Settled { .. } => &[Escalated],
    }
}

const PERSON: &[Role] = &[Role::Human, Role::Admin];
const HOUSE: &[Role] = &[Role::Service, Role::Admin];
const ANYBODY: &[Role] = &Role::ALL;

/// Who may report it; for a job's report that hangs on the job.
pub fn roles(what: &What, task: Option<&Task>) -> &'static [Role] {
    match what {
        What::Created { .. } => ANYBODY,
        What::Started { .. }
        | What::Submitted { .. }
        | What::Checked { .. }
        | What::Reviewed { .. }
        | What::Verified { .. }
        | What::Landed { .. }
        | What::Conflicted { .. }
        | What::CombinationRed { .. } => task.map_or(HOUSE, worker),
        What::ReviewUnusable { .. } => &[Role::Reviewer, Role::Service],
        What::JobFailed { .. } => task.map_or(HOUSE, worker_or_house),
        What::HelpRequested { .. } => &[Role::Builder, Role::Reviewer, Role::Verifier],
        What::DependencyMet { .. }
        | What::DependencyFailed { .. }
        | What::DependencyRepaired { .. }
        | What::LeaseLost { .. }
        | What::AgentOut { .. }
        | What::WentStale { .. }
        | What::BudgetReached { .. } => HOUSE,
        What::DependenciesSet { .. }
        | What::BudgetRaised { .. }
        | What::Waived { .. }
        | What::Settled { .. }
        | What::Resubmitted { .. } => PERSON,
        What::Cancelled { .. } => &[Role::Human, Role::Admin, Role::Service],
    }
}

fn worker_or_house(task: &Task) -> &'static [Role] {
    match task {
        Task::Build { .. } => &[Role::Builder, Role::Service],
        Task::Review { .. } => &[Role::Reviewer, Role::Service],
        Task::Verify { .. } => &[Role::Verifier, Role::Service],
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } => &[Role::Service],
    }
}

fn worker(task: &Task) -> &'static [Role] {
    match task {
        Task::Build { .. } => &[Role::Builder],
        Task::Review { .. } => &[Role::Reviewer],
        Task::Verify { .. } => &[Role::Verifier],
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } => &[Role::Service],
    }
}
