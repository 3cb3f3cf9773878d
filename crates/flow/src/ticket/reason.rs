//! Reasons for an escalation: why a ticket waits for a person.

use serde::{Deserialize, Serialize};

use super::TicketId;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Reason {
    RoundsUsedUp {
        rounds: u32,
    },
    NoProgress {
        open: Vec<u32>,
    },
    FindingCameBack {
        findings: Vec<String>,
    },
    Budget {
        limit: String,
    },
    NoUsableReview {
        attempts: u32,
    },
    NobodyToJudge {
        why: String,
    },
    /// A reviewer refuses, and all its open findings are notes.
    RefusedOverNotes {
        findings: Vec<String>,
    },
    RedChecks {
        times: u32,
    },
    ForbiddenPaths {
        paths: Vec<String>,
    },
    RedOnBase {
        checks: Vec<String>,
    },
    /// The setup or checks were red on the base before anybody was paid.
    BaseRed {
        checks: Vec<String>,
    },
    Conflicts {
        times: u32,
    },
    StaleTooOften {
        times: u32,
    },
    RetriesExhausted {
        task: String,
        error: String,
    },
    DependencyFailed {
        ticket: TicketId,
    },
    HelpRequested {
        by: String,
    },
    /// The pull request was closed without a merge.
    ChangeClosed {
        number: u64,
    },
    /// Somebody replaced our commits on the branch of the pull request.
    BranchReplaced {
        head: String,
    },
    /// The pull request was merged at a commit that is not approved.
    MergedUnapproved {
        commit: String,
    },
}
