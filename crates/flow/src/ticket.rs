//! The ticket: a wanted change and all that has been decided about it so far.

mod counts;
mod reason;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use findings::ReviewClaim;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::OpenJob;
pub use crate::label::{InvalidLabel, label};
use crate::ledger::Ledger;
use crate::policy::{Policy, StartDependents};
pub use crate::time::Time;
use crate::usage::{Budget, Usage};
use crate::verdict::Verdict;
pub use counts::Counts;
pub use reason::Reason;
pub use refusal::Refusal;

/// A ticket's name: the user's own where given, always fit to be part of a git ref.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TicketId(String);

impl TicketId {
    pub const LENGTH_MAX: usize = 64;

    pub fn new(text: &str) -> Result<Self, InvalidTicketId> {
        let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = !text.is_empty()
            && text.len() <= Self::LENGTH_MAX
            && text.chars().all(sound)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !text.ends_with('.')
            && !text.contains("..")
            && !text.to_ascii_lowercase().ends_with(".lock");
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidTicketId(text.to_owned()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for TicketId {
    type Error = InvalidTicketId;

    fn try_from(text: String) -> Result<Self, InvalidTicketId> {
        Self::new(&text)
    }
}

impl From<TicketId> for String {
    fn from(id: TicketId) -> Self {
        id.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot name a ticket: use up to 64 letters, digits, '-', '_' and '.', starting with a letter or digit"
)]
pub struct InvalidTicketId(pub String);

/// Where a ticket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

    /// A job of it waits for a worker, or is in one's hands.
    pub fn is_at_work(self) -> bool {
        !self.is_terminal() && !matches!(self, Self::Pending | Self::Escalated | Self::Blocked)
    }

    pub fn word(self) -> &'static str {
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
        out.write_str(self.word())
    }
}

/// What is wanted. Written by a person or a program, never changed by an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    pub title: String,
    pub description: String,
    pub acceptance: Vec<String>,
    /// Higher goes first.
    pub priority: i32,
    pub depends_on: BTreeSet<TicketId>,
    /// 001's free type: implementation, review, fix, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The epic's failure hangs on this one.
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

/// Where a ticket comes from and belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What the epic demands of every ticket; shown to builder and reviewer alike.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coordination: Vec<String>,
    /// Labels (`gpu=yes`) that a worker must have to take up anything of it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub needs: BTreeSet<String>,
    /// Where other machines get the repository from, and put what they made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Fields of somebody's format that we do not know: kept, and written back.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

impl TicketContext {
    /// Whether a worker with these labels may take it up.
    pub fn suits(&self, labels: &BTreeSet<String>) -> bool {
        self.needs.is_subset(labels)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub id: TicketId,
    /// How many events made it what it is.
    pub version: u64,
    pub stage: Stage,
    pub spec: Spec,
    pub created_at: Time,
    pub updated_at: Time,
    /// Dependencies that are not met yet.
    pub waits_for: BTreeSet<TicketId>,
    /// Dependencies that cannot be met, and why.
    pub broken: BTreeMap<TicketId, String>,
    /// Jobs that have been ordered and have not ended.
    pub jobs: Vec<OpenJob>,
    pub jobs_ordered: u32,
    /// The round at work, from 1; it only grows.
    pub round: u32,
    pub counts: Counts,
    pub submission: Option<Submission>,
    pub checks: Option<Checks>,
    pub seats: Vec<Seat>,
    pub review_started_at: Time,
    /// The round's new must-fix findings have been put to the verifier.
    pub verified_new: bool,
    pub ledger: Ledger,
    /// What the last round came to, in the builder's eyes: what it has to answer now.
    pub setback: Option<ReworkReason>,
    pub rounds: Vec<Round>,
    pub approval: Option<Approval>,
    /// Approvals that a new commit voided; an identical tree may use one again.
    pub approvals_voided: Vec<Approval>,
    /// Principals that built or committed any part of the range.
    pub authors: BTreeSet<String>,
    /// The model families of those who built, as far as they are known.
    #[serde(default)]
    pub families: BTreeSet<String>,
    /// Those who built, as they are written in the policy or on the command line.
    #[serde(default)]
    pub builders: BTreeSet<String>,
    pub spent: TicketUsage,
    /// Raised by a person for this ticket; takes the policy's place.
    pub budget: Option<Budget>,
    pub assigned: Assignees,
    pub escalation: Option<Escalation>,
    pub blocked: Option<BlockedReason>,
    pub landed: Option<LandedCommit>,
    /// Why it failed or was cancelled.
    pub ended: Option<String>,
}

impl Ticket {
    /// What this ticket is to those that depend on it: met, impossible (and why), or not yet.
    pub fn as_dependency(&self, policy: &Policy) -> Option<Result<(), String>> {
        let early = policy.dependants_start == StartDependents::Approved;
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

    /// Whom or what it waits for, in words.
    pub fn waits(&self) -> String {
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
            Stage::Queued
            | Stage::Building
            | Stage::Checking
            | Stage::Reviewing
            | Stage::Rework
            | Stage::Approved
            | Stage::Merging => {
                let jobs = self.jobs.iter().map(|job| match &job.holder {
                    Some(holder) => format!("{} by {holder}", job.task.word()),
                    None => format!("{} (nobody has it)", job.task.word()),
                });
                format!("for {}", jobs.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Nothing goes on until a person does something.
    pub fn needs_person(&self) -> bool {
        matches!(self.stage, Stage::Escalated) || self.blocked.is_some()
    }
}

/// The edition of the rules by which a submission is described and judged today.
pub const EDITION: u32 = 1;

/// An exact commit, put forward by a builder or a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
    pub commit: String,
    pub tree: String,
    pub branch: String,
    /// The merge base with the base branch, and its tree.
    pub base: String,
    pub base_tree: String,
    /// A hash of the range's diff: the same change on another base has the same one.
    pub diff_id: String,
    /// Principals and committers of the range.
    pub authors: BTreeSet<String>,
    /// Names on commits of the range that are not those of whoever was at work; nobody proved them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signed_as: Vec<String>,
    pub files: Vec<String>,
    /// Added and removed together.
    pub lines_changed: u32,
    /// Protected paths and agent configuration that the change touches.
    pub protected: Vec<String>,
    /// Where the change put lines, seen from the merge base.
    pub touched: findings::LineMap,
    /// Where the lines of the last submission went; empty in the first round.
    pub moved: findings::LineMap,
    /// The builder's word on each acceptance criterion.
    pub claims: Vec<findings::CriterionAnswer>,
    pub summary: String,
    /// Which rules it is judged by, so that stored tickets replay as they were decided. 0: a
    /// forbidden path counted as a red check, and reviewers' `paths` were not read as git does.
    #[serde(skip_serializing_if = "counts::is_zero")]
    pub edition: u32,
}

/// The checks' results on one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    pub commit: String,
    pub results: Vec<CheckResult>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    pub outcome: CheckOutcome,
    /// The end of its output.
    #[serde(default)]
    pub tail: String,
    #[serde(default)]
    pub wall_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    Passed,
    /// Passed at the second try on the same commit.
    Flaky,
    Failed,
    TimedOut,
    /// Fails on the base as well: not of this change's making.
    RedOnBase,
}

impl CheckOutcome {
    pub fn is_green(self) -> bool {
        matches!(self, Self::Passed | Self::Flaky)
    }
}

/// A reviewer's place at the table, for one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    pub name: String,
    pub attempts: u32,
    /// What it names counts; it has no vote.
    #[serde(default)]
    pub linter: bool,
    pub answer: Option<SeatAnswer>,
    /// A refusal that can be put to its reviewer once more (`minor_only = "ask"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// A usable review, without its findings: those are in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatAnswer {
    pub reviewer: String,
    /// What it claimed last.
    pub claim: ReviewClaim,
    /// What it claimed first, where it countersigned when it was asked once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_claim: Option<ReviewClaim>,
    /// Ledger ids of what it reported.
    pub reported: BTreeSet<String>,
    pub scores: BTreeMap<String, findings::DimensionScore>,
    pub overall_score: Option<u8>,
    pub blocking_issues: u32,
    pub criteria: Vec<findings::CriterionAnswer>,
    pub notes: Option<String>,
    /// How the reviewer was kept from writing.
    pub isolation: String,
    pub remarks: Vec<String>,
}

/// What sends a ticket back to its builder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A round that has had its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub number: u32,
    /// How many rounds there could have been when it was decided (000's `max_cycles`).
    pub allowed: u32,
    pub commit: String,
    pub tree: String,
    #[serde(default)]
    pub base_tree: String,
    /// What it was decided under.
    #[serde(default)]
    pub policy: String,
    pub review_started_at: Time,
    pub decided_at: Time,
    pub verdict: Verdict,
    pub seats: Vec<Seat>,
    pub checks: Vec<CheckResult>,
    pub usage: Usage,
}

/// The countersignature: it names the exact commit and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ApprovedBy {
    Reviewers {
        /// Those who approved, and nobody else.
        names: Vec<String>,
        /// Those whose refusal the policy overruled.
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
    /// The policy asks for no review.
    NobodyAsPolicySays,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TicketUsage {
    pub round: Usage,
    pub ticket: Usage,
}

/// Who shall do it, where a person has said so, and the session to go on in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignees {
    pub builder: Option<String>,
    pub reviewer: Option<String>,
    pub session: Option<String>,
}

/// A ticket that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    pub reason: Reason,
    /// Where it was interrupted.
    pub from: Stage,
    pub at: Time,
    pub evidence: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum BlockedReason {
    ByDependency,
    TakenOver { by: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandedCommit {
    /// The approved commit, or one with the identical diff.
    pub commit: String,
    /// The branch it is on.
    pub branch: String,
    /// The branch's tip afterwards, where it was merged.
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
