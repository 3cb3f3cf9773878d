//! The ticket: a wanted change and everything decided about it so far.

mod assignees;
mod check_output;
mod counts;
mod id;
mod imported;
mod issue_origin;
mod pull_request;
mod reason;
mod refusal;
mod replayed;
mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use findings::ReviewClaim;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::OpenJob;
pub use crate::label::{InvalidLabel, parse_label};
use crate::ledger::Ledger;
use crate::policy::{Policy, StartDependents};
pub use crate::time::Time;
use crate::usage::{Budget, Usage};
pub use assignees::Assignees;
pub use counts::Counts;
pub use id::{InvalidTicketId, TicketId};
pub use imported::{ImportedEntry, ImportedFormat};
pub use issue_origin::IssueOrigin;
pub use pull_request::{
    COMMENTS_MAX, ChangeConflict, ChangeObservation, ChangePhase, TicketChange,
};
pub use reason::Reason;
pub use refusal::Refusal;
pub use round::{Round, RoundFinding, RoundScore};

/// Stage of a ticket.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Waits for tickets that it depends on.
    Pending,
    /// Waits for a builder, first round.
    Queued,
    Building,
    Checking,
    /// Waits for reviewers and verifiers.
    Reviewing,
    /// Waits for a builder to answer findings, red checks or a conflict.
    Rework,
    Approved,
    Merging,
    /// Waits for a person's decision.
    Escalated,
    /// Waits for a repaired dependency, or for the person who took over.
    Blocked,
    Done,
    Failed,
    Cancelled,
}

impl Stage {
    pub const ALL: [Self; 13] = [
        Self::Pending,
        Self::Queued,
        Self::Building,
        Self::Checking,
        Self::Reviewing,
        Self::Rework,
        Self::Approved,
        Self::Merging,
        Self::Escalated,
        Self::Blocked,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// Whether a job waits for a worker or is running.
    pub fn is_active(self) -> bool {
        !self.is_terminal() && !matches!(self, Self::Pending | Self::Escalated | Self::Blocked)
    }

    /// Whether a person has to decide before anything happens.
    pub fn waits_for_decision(self) -> bool {
        self == Self::Escalated
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Building => "building",
            Self::Checking => "checking",
            Self::Reviewing => "reviewing",
            Self::Rework => "rework",
            Self::Approved => "approved",
            Self::Merging => "merging",
            Self::Escalated => "escalated",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The request, written by a person or a program. No agent changes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Spec {
    pub title: String,
    pub description: String,
    pub acceptance: Vec<String>,
    /// Higher goes first.
    pub priority: i32,
    pub depends_on: BTreeSet<TicketId>,
    /// Free-form type of the task file: implementation, review, fix, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The epic stops if this ticket fails.
    pub critical: bool,
    /// Paths of tests that the change must leave alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    pub context: TicketContext,
}

pub const PRIORITY_DEFAULT: i32 = 50;

impl Default for Spec {
    fn default() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            acceptance: Vec::new(),
            priority: PRIORITY_DEFAULT,
            depends_on: BTreeSet::new(),
            kind: None,
            critical: false,
            protected: Vec::new(),
            context: TicketContext::default(),
        }
    }
}

/// Origin of a ticket: its epic, repository, branches and links to other systems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct TicketContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epic: Option<String>,
    /// The repository's common git directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jira_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_repo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr_number: Option<u64>,
    /// Demands of the epic on every ticket, shown to builder and reviewer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coordination: Vec<String>,
    /// Labels (`gpu=yes`) that a worker must have to claim a job of this ticket.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub needs: BTreeSet<String>,
    /// Git remote from which workers on other machines fetch, and to which they push.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The issue that the ticket was made of. Its state goes back there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue: Option<IssueOrigin>,
    /// The entry of another system's file that the ticket was imported from, for exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedEntry>,
    /// Unknown fields of an imported file. They are kept and written back.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

impl TicketContext {
    /// Whether a worker with these labels may claim a job of this ticket.
    pub fn matches_labels(&self, labels: &BTreeSet<String>) -> bool {
        self.needs.is_subset(labels)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ticket {
    pub id: TicketId,
    /// Number of events applied so far.
    pub version: u64,
    pub stage: Stage,
    pub spec: Spec,
    pub created_at: Time,
    pub updated_at: Time,
    /// Dependencies that are not met yet.
    pub waits_for: BTreeSet<TicketId>,
    /// Dependencies that cannot be met, and why.
    pub broken: BTreeMap<TicketId, String>,
    /// Jobs that were ordered and have not ended.
    pub jobs: Vec<OpenJob>,
    pub jobs_ordered: u32,
    /// Current round, counted from 1. It never decreases.
    pub round: u32,
    pub counts: Counts,
    pub submission: Option<Submission>,
    pub checks: Option<Checks>,
    #[serde(alias = "seats")]
    pub panel: Vec<PanelReviewer>,
    pub review_started_at: Time,
    /// The round's new must-fix findings were already sent to a verifier.
    pub verified_new: bool,
    pub ledger: Ledger,
    /// Reason for the current rework, which the builder has to resolve.
    #[serde(alias = "setback")]
    pub rework_reason: Option<ReworkReason>,
    pub rounds: Vec<Round>,
    pub approval: Option<Approval>,
    /// Approvals that a new commit voided. An identical tree can reuse one.
    pub approvals_voided: Vec<Approval>,
    /// Principals that built or committed any part of the range.
    pub authors: BTreeSet<String>,
    /// Known model families of the builders.
    #[serde(default)]
    pub families: BTreeSet<String>,
    /// Builders, as the policy or the command line writes them.
    #[serde(default)]
    pub builders: BTreeSet<String>,
    pub spent: TicketUsage,
    /// Agents that worked and whose price is unknown. `spent` is then a lower bound.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unpriced: BTreeSet<String>,
    /// Budget set by a person for this ticket. It replaces the policy's.
    pub budget: Option<Budget>,
    pub assigned: Assignees,
    pub escalation: Option<Escalation>,
    pub blocked: Option<BlockedReason>,
    pub landed: Option<LandedCommit>,
    /// Pull request, if the ticket lands as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Box<TicketChange>>,
    /// Reason for the failure or the cancellation.
    pub ended: Option<String>,
}

impl Ticket {
    /// State of this ticket as a dependency: met, failed (with the reason), or not decided yet.
    pub fn as_dependency(&self, policy: &Policy) -> Option<Result<(), String>> {
        let early = policy.start_dependents == StartDependents::Approved;
        match self.stage {
            Stage::Done => Some(Ok(())),
            Stage::Approved | Stage::Merging if early => Some(Ok(())),
            Stage::Failed | Stage::Cancelled => {
                let why = self.ended.clone().unwrap_or_default();
                Some(Err(format!("{} {}: {why}", self.id, self.stage)))
            }
            Stage::Blocked if self.blocked == Some(BlockedReason::ByDependency) => {
                let why = self.broken.values().next().cloned().unwrap_or_default();
                Some(Err(format!("{} is blocked: {why}", self.id)))
            }
            Stage::Pending
            | Stage::Queued
            | Stage::Building
            | Stage::Checking
            | Stage::Reviewing
            | Stage::Rework
            | Stage::Approved
            | Stage::Merging
            | Stage::Escalated
            | Stage::Blocked => None,
        }
    }

    /// Returns why the builder has to work again, until it has submitted.
    pub fn open_rework(&self) -> Option<&ReworkReason> {
        let is_open = self.stage == Stage::Rework;
        self.rework_reason.as_ref().filter(|_| is_open)
    }

    /// Describes what the ticket waits for, to follow the word "waits".
    pub fn describe_wait(&self) -> String {
        match self.stage {
            Stage::Pending => {
                let names: Vec<&str> = self.waits_for.iter().map(TicketId::as_str).collect();
                format!("for {}", names.join(", "))
            }
            Stage::Escalated => "for a person's decision".to_owned(),
            Stage::Blocked => match &self.blocked {
                Some(BlockedReason::TakenOver { by }) => format!("for {by}, who took over"),
                Some(BlockedReason::ByDependency) | None => {
                    format!(
                        "for a repaired dependency ({})",
                        self.broken.values().cloned().collect::<Vec<_>>().join("; ")
                    )
                }
            },
            Stage::Done | Stage::Failed | Stage::Cancelled => String::new(),
            Stage::Approved if self.waits_for_forge() => self.describe_forge_wait(),
            Stage::Queued
            | Stage::Building
            | Stage::Checking
            | Stage::Reviewing
            | Stage::Rework
            | Stage::Approved
            | Stage::Merging => {
                let jobs = self.jobs.iter().map(|job| match &job.holder {
                    Some(holder) => format!("{} by {holder}", job.task.word()),
                    None => format!("{} (not started)", job.task.word()),
                });
                format!("for {}", jobs.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Current edition of the rules that describe and judge a submission.
pub const EDITION: u32 = 2;

/// An exact commit, submitted by a builder or a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Submission {
    pub commit: String,
    pub tree: String,
    pub branch: String,
    /// The merge base with the base branch, and its tree.
    pub base: String,
    pub base_tree: String,
    /// Hash of the range's diff. The same change on another base has the same hash.
    pub diff_id: String,
    /// Principals and committers of the range.
    pub authors: BTreeSet<String>,
    /// Names on commits of the range other than the builder's. They are not proven.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signed_as: Vec<String>,
    pub files: Vec<String>,
    /// Sum of added and removed lines.
    pub lines_changed: u32,
    /// Protected paths and agent configuration that the change touches.
    pub protected: Vec<String>,
    /// Lines that the change wrote, relative to the merge base.
    pub touched: findings::LineMap,
    /// New positions of the last submission's lines. It is empty in the first round.
    pub moved: findings::LineMap,
    /// The builder's claim on each acceptance criterion.
    pub claims: Vec<findings::CriterionAnswer>,
    pub summary: String,
    /// Rules to judge it by, so that stored tickets replay as they were decided. In edition 0 a
    /// forbidden path counted as a red check, and reviewers' `paths` were not read like git's. Up to
    /// edition 1 an unchanged commit was checked again after red checks.
    #[serde(skip_serializing_if = "counts::is_zero")]
    pub edition: u32,
}

/// Results of the checks on one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Checks {
    pub commit: String,
    pub results: Vec<CheckResult>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CheckResult {
    pub name: String,
    pub outcome: CheckOutcome,
    /// The end of its output.
    #[serde(default)]
    pub tail: String,
    #[serde(default)]
    pub wall_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    Passed,
    /// The check passed at the second try on the same commit.
    Flaky,
    Failed,
    TimedOut,
    /// The check fails on the base as well, so the change did not cause it.
    RedOnBase,
}

impl CheckOutcome {
    pub fn is_green(self) -> bool {
        matches!(self, Self::Passed | Self::Flaky)
    }
}

/// One reviewer of the panel, for one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PanelReviewer {
    pub name: String,
    pub attempts: u32,
    /// A linter has no vote, but its findings count.
    #[serde(default)]
    pub linter: bool,
    pub answer: Option<ReviewerAnswer>,
    /// Refusal about which its reviewer can be asked once more (`minor_only = "ask"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// A usable review without its findings, which are in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReviewerAnswer {
    pub reviewer: String,
    /// Model of the reviewer, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reviewer's last claim.
    pub claim: ReviewClaim,
    /// The reviewer's first claim, if it countersigned only when it was asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_claim: Option<ReviewClaim>,
    /// Ledger ids of the findings it reported.
    pub reported: BTreeSet<String>,
    pub scores: BTreeMap<String, findings::DimensionScore>,
    pub overall_score: Option<u8>,
    pub blocking_issues: u32,
    pub criteria: Vec<findings::CriterionAnswer>,
    pub notes: Option<String>,
    /// Sandbox level of the review.
    #[serde(alias = "isolation")]
    pub sandbox: String,
    /// Its verdict also answers the open findings of earlier rounds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers_open: bool,
    pub remarks: Vec<String>,
}

/// Reason why a ticket goes back to its builder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ReworkReason {
    Findings,
    RedChecks {
        results: Vec<CheckResult>,
    },
    Conflict {
        files: Vec<String>,
        evidence: String,
    },
    RedCombination {
        results: Vec<CheckResult>,
    },
    /// The change touches paths that the project or the ticket forbids to change.
    ForbiddenPaths {
        paths: Vec<String>,
        /// The commit to restore them from.
        base: String,
    },
}

/// The countersignature. It names the exact commit, tree and base, the policy and the checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Approval {
    pub commit: String,
    pub tree: String,
    pub base_tree: String,
    pub diff_id: String,
    pub policy: String,
    pub round: u32,
    pub at: Time,
    pub by: ApprovedBy,
    pub checks: Vec<CheckResult>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ApprovedBy {
    Reviewers {
        /// Reviewers that approved, and no others.
        names: Vec<String>,
        /// Reviewers whose refusal the policy overruled.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
    },
    Person {
        name: String,
        why: String,
        over_red_checks: bool,
    },
    /// The same tree on the same base was approved under the same policy before.
    Earlier { round: u32 },
    /// The policy requires no review.
    NobodyAsPolicySays,
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct TicketUsage {
    pub round: Usage,
    pub ticket: Usage,
}

/// A ticket that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Escalation {
    pub reason: Reason,
    /// Stage in which it was interrupted.
    pub from: Stage,
    pub at: Time,
    pub evidence: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum BlockedReason {
    ByDependency,
    TakenOver { by: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LandedCommit {
    /// The approved commit, or one with the identical diff.
    pub commit: String,
    /// Branch that has the commit.
    pub branch: String,
    /// Tip of the branch after the merge, if there was one.
    pub tip: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_fit_for_refs() {
        for good in ["T-1", "a", "PROJ-123.fix_2"] {
            assert!(TicketId::new(good).is_ok(), "{good}");
        }
        for bad in [
            "", "-a", ".a", "a..b", "a.lock", "a.LOCK", "a b", "a/b", "a~1", "é", "a.",
        ] {
            assert!(TicketId::new(bad).is_err(), "{bad}");
        }
    }
}
