//! Events: everything that can happen to a ticket, reported by workers, agents, people or
//! Countersign itself.

use std::collections::BTreeSet;

use findings::{Finding, Review};
use serde::{Deserialize, Serialize};

use crate::ticket::{ChangeObservation, CheckResult, Spec, Submission, TicketId, Time};
use crate::usage::{Budget, Usage};

/// Role of an actor, which limits the events it may report. It comes from the caller's token, never
/// from an argument.
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
pub enum Role {
    Builder,
    Reviewer,
    Verifier,
    Human,
    /// Countersign itself: it checks, merges and watches leases.
    Service,
    Admin,
    /// Reads everything that a person reads, and changes nothing.
    Viewer,
}

impl Role {
    pub const ALL: [Self; 7] = [
        Self::Builder,
        Self::Reviewer,
        Self::Verifier,
        Self::Human,
        Self::Service,
        Self::Admin,
        Self::Viewer,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builder => "builder",
            Self::Reviewer => "reviewer",
            Self::Verifier => "verifier",
            Self::Human => "human",
            Self::Service => "service",
            Self::Admin => "admin",
            Self::Viewer => "viewer",
        }
    }
}

/// Reporter of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Actor {
    /// Name shown to people.
    pub agent: String,
    /// Person or team behind the agent. Two agents of one principal cannot judge each other.
    pub principal: String,
    pub role: Role,
    /// Family of the model behind the agent, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Name under which a person configured the agent. One program has one such name in all roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Model that did the work, if the configuration or the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Actor {
    /// Countersign itself.
    pub fn system() -> Self {
        Self::new("countersign", Role::Service)
    }

    /// Returns an actor that is its own principal.
    pub fn new(name: &str, role: Role) -> Self {
        Self {
            agent: name.to_owned(),
            principal: name.to_owned(),
            role,
            family: None,
            written: None,
            model: None,
        }
    }
}

/// One entry of a ticket's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Event {
    pub at: Time,
    pub by: Actor,
    /// Ticket version that the caller saw, if it wants optimistic locking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<u64>,
    pub what: EventKind,
}

/// A job's serial, and the fencing token of the lease under which it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lease {
    pub serial: u32,
    pub fence: u64,
}

/// Kind of an event, with its data. Stored logs are replayed, so old events must stay readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EventKind {
    /// The first event of every ticket.
    Created {
        spec: Box<Spec>,
        /// Dependencies that are already met. `failed` has those that have failed.
        met: BTreeSet<TicketId>,
        failed: Vec<(TicketId, String)>,
    },
    DependencyMet {
        ticket: TicketId,
    },
    DependencyFailed {
        ticket: TicketId,
        why: String,
    },
    DependencyRepaired {
        ticket: TicketId,
    },
    /// A person replaces the ticket's dependencies.
    DependenciesSet {
        depends_on: BTreeSet<TicketId>,
        met: BTreeSet<TicketId>,
        failed: Vec<(TicketId, String)>,
        why: String,
    },
    /// A worker has claimed a job.
    Started {
        lease: Lease,
    },
    /// The setup or a check is red on the base, before the builder has started.
    BaseRed {
        lease: Lease,
        /// Commit of the base branch.
        base: String,
        results: Vec<CheckResult>,
        /// Likely fix, for the person. Empty if none is known.
        hint: String,
        usage: Usage,
    },
    Submitted {
        lease: Lease,
        submission: Box<Submission>,
        reports: Vec<FindingReport>,
        session: Option<String>,
        usage: Usage,
    },
    Checked {
        lease: Lease,
        commit: String,
        results: Vec<CheckResult>,
        usage: Usage,
    },
    Reviewed {
        lease: Lease,
        commit: String,
        review: Box<Review>,
        #[serde(alias = "isolation")]
        sandbox: String,
        /// The reviewer connected by itself and may know no other answer than its verdict, so the
        /// verdict also answers the open findings of earlier rounds.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answers_open: bool,
        usage: Usage,
    },
    /// The reviewer ended without a usable review.
    ReviewUnusable {
        lease: Lease,
        why: String,
        usage: Usage,
    },
    Verified {
        lease: Lease,
        commit: String,
        answers: Vec<VerifierAnswer>,
        usage: Usage,
    },
    Landed {
        lease: Lease,
        /// The approved commit.
        commit: String,
        /// Commit on the branch: the approved one, or one with the same diff.
        landed: String,
        diff_id: String,
        branch: String,
        tip: Option<String>,
        usage: Usage,
    },
    /// The approved commit does not merge with the base branch. Without files, the base branch was
    /// rewritten.
    Conflicted {
        lease: Lease,
        files: Vec<String>,
        evidence: String,
        usage: Usage,
    },
    /// The checks are red on the approved commit together with the newest base.
    CombinationRed {
        lease: Lease,
        results: Vec<CheckResult>,
        usage: Usage,
    },
    /// The branch has another commit now, or the base moved after the approval.
    WentStale {
        submission: Box<Submission>,
        why: String,
        /// Lease of the merge job that noticed it, if a worker did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Lease>,
    },
    JobFailed {
        lease: Lease,
        failure: Failure,
        message: String,
        usage: Usage,
    },
    /// The lease expired, or its worker is dead.
    LeaseLost {
        lease: Lease,
    },
    /// The assigned agent cannot take the job for now (its provider is paused), and the policy
    /// names a fallback.
    AgentOut {
        serial: u32,
        why: String,
    },
    HelpRequested {
        why: String,
        /// Claim of the agent that asks. Events of older versions do not name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Lease>,
    },
    /// The day's budget, or another one that only Countersign can see, is used up.
    BudgetReached {
        limit: String,
    },
    BudgetRaised {
        budget: Budget,
        why: String,
    },
    Waived {
        finding: String,
        why: String,
    },
    /// A person reports defects of the current commit: a comment on a line, or the results of a
    /// tool that the person ran.
    FindingsAdded {
        /// Commit that the lines refer to.
        commit: String,
        findings: Vec<Finding>,
        /// Every finding blocks the ticket, whatever its severity.
        must_fix: bool,
        /// Comments on the pull request that the findings come from. Each counts once.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        comments: Vec<String>,
    },
    /// A worker looked at the pull request of the ticket.
    ChangeObserved {
        seen: Box<ChangeObservation>,
    },
    /// A webhook, a poller or a person asks for a look at the pull request.
    ReportRequested {
        why: String,
    },
    Settled {
        choice: Choice,
        why: String,
    },
    /// The person who took over submits a commit.
    Resubmitted {
        submission: Box<Submission>,
    },
    Cancelled {
        why: String,
    },
}

impl EventKind {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::DependencyMet { .. } => "dependency_met",
            Self::DependencyFailed { .. } => "dependency_failed",
            Self::DependencyRepaired { .. } => "dependency_repaired",
            Self::DependenciesSet { .. } => "dependencies_set",
            Self::Started { .. } => "started",
            Self::BaseRed { .. } => "base_red",
            Self::Submitted { .. } => "submitted",
            Self::Checked { .. } => "checked",
            Self::Reviewed { .. } => "reviewed",
            Self::ReviewUnusable { .. } => "review_unusable",
            Self::Verified { .. } => "verified",
            Self::Landed { .. } => "landed",
            Self::Conflicted { .. } => "conflicted",
            Self::CombinationRed { .. } => "combination_red",
            Self::WentStale { .. } => "went_stale",
            Self::JobFailed { .. } => "job_failed",
            Self::LeaseLost { .. } => "lease_lost",
            Self::AgentOut { .. } => "agent_out",
            Self::HelpRequested { .. } => "help_requested",
            Self::BudgetReached { .. } => "budget_reached",
            Self::BudgetRaised { .. } => "budget_raised",
            Self::Waived { .. } => "waived",
            Self::FindingsAdded { .. } => "findings_added",
            Self::ChangeObserved { .. } => "change_observed",
            Self::ReportRequested { .. } => "report_requested",
            Self::Settled { .. } => "settled",
            Self::Resubmitted { .. } => "resubmitted",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Lease under which the event is reported, if it is a job's report.
    pub fn lease(&self) -> Option<Lease> {
        match self {
            Self::Started { lease }
            | Self::BaseRed { lease, .. }
            | Self::Submitted { lease, .. }
            | Self::Checked { lease, .. }
            | Self::Reviewed { lease, .. }
            | Self::ReviewUnusable { lease, .. }
            | Self::Verified { lease, .. }
            | Self::Landed { lease, .. }
            | Self::Conflicted { lease, .. }
            | Self::CombinationRed { lease, .. }
            | Self::JobFailed { lease, .. }
            | Self::LeaseLost { lease } => Some(*lease),
            Self::WentStale { lease, .. } | Self::HelpRequested { lease, .. } => *lease,
            Self::Created { .. }
            | Self::DependencyMet { .. }
            | Self::DependencyFailed { .. }
            | Self::DependencyRepaired { .. }
            | Self::DependenciesSet { .. }
            | Self::AgentOut { .. }
            | Self::BudgetReached { .. }
            | Self::BudgetRaised { .. }
            | Self::Waived { .. }
            | Self::FindingsAdded { .. }
            | Self::ChangeObserved { .. }
            | Self::ReportRequested { .. }
            | Self::Settled { .. }
            | Self::Resubmitted { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    /// Lease of the claim that this report ends in its holder's own words.
    pub fn reported_lease(&self) -> Option<Lease> {
        match self {
            Self::Started { .. } | Self::LeaseLost { .. } | Self::WentStale { .. } => None,
            _ => self.lease(),
        }
    }

    /// Usage of the reported run.
    pub fn usage(&self) -> Usage {
        match self {
            Self::BaseRed { usage, .. }
            | Self::Submitted { usage, .. }
            | Self::Checked { usage, .. }
            | Self::Reviewed { usage, .. }
            | Self::ReviewUnusable { usage, .. }
            | Self::Verified { usage, .. }
            | Self::Landed { usage, .. }
            | Self::Conflicted { usage, .. }
            | Self::CombinationRed { usage, .. }
            | Self::JobFailed { usage, .. } => *usage,
            Self::Created { .. }
            | Self::DependencyMet { .. }
            | Self::DependencyFailed { .. }
            | Self::DependencyRepaired { .. }
            | Self::DependenciesSet { .. }
            | Self::Started { .. }
            | Self::WentStale { .. }
            | Self::LeaseLost { .. }
            | Self::AgentOut { .. }
            | Self::HelpRequested { .. }
            | Self::BudgetReached { .. }
            | Self::BudgetRaised { .. }
            | Self::Waived { .. }
            | Self::FindingsAdded { .. }
            | Self::ChangeObserved { .. }
            | Self::ReportRequested { .. }
            | Self::Settled { .. }
            | Self::Resubmitted { .. }
            | Self::Cancelled { .. } => Usage::default(),
        }
    }
}

/// The builder's report on a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FindingReport {
    pub finding: String,
    pub outcome: ReportedOutcome,
    #[serde(default)]
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedOutcome {
    Fixed,
    CouldNotFix,
    Disputed,
}

/// The verifier's answer on a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VerifierAnswer {
    pub finding: String,
    pub outcome: AnswerOutcome,
    #[serde(default)]
    pub evidence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    Fixed,
    Confirmed,
    Refuted,
    /// The verifier could not tell; counts as confirmed.
    Uncertain,
}

/// Reason why a job did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "failure")]
pub enum Failure {
    /// A retry after a pause may succeed.
    Transient,
    /// No retry will help: authentication, a missing program, a refused submission.
    Permanent,
    /// The provider is out of quota until this time. It does not count as an attempt.
    Quota { until: Time },
    /// Something else has to happen first, such as the landing of the ticket below in a stack. The
    /// job is retried at this time, and it does not count as an attempt.
    Deferred { until: Time },
    /// The budget of the run is used up.
    Budget,
    /// No available agent may judge the change: each built part of it, or shares its principal or
    /// model family with a builder.
    NoJudge,
    /// The worker was told to stop. Another may continue at once, and it does not count as an
    /// attempt.
    Interrupted,
}

/// A person's answer to an escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "choice")]
pub enum Choice {
    /// The change is approved despite open findings.
    Accept {
        #[serde(default)]
        over_red_checks: bool,
    },
    /// The ticket gets one more round, or the interrupted step runs again.
    Continue,
    /// The person fixes the change by hand and resubmits.
    TakeOver,
    /// All counters start again from zero.
    Reset,
    Reassign {
        #[serde(default)]
        builder: Option<String>,
        #[serde(default)]
        reviewer: Option<String>,
    },
    Reject,
}

/// Options that come with the word of a choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceOptions {
    pub over_red_checks: bool,
    pub builder: Option<String>,
    pub reviewer: Option<String>,
}

impl Choice {
    /// Words of all choices.
    pub const WORDS: [&'static str; 6] = [
        "accept",
        "continue",
        "take-over",
        "reset",
        "reassign",
        "reject",
    ];

    /// Returns the choice with this word, or `None` for an unknown word.
    pub fn from_word(word: &str, options: ChoiceOptions) -> Option<Self> {
        let ChoiceOptions {
            over_red_checks,
            builder,
            reviewer,
        } = options;
        Some(match word {
            "accept" => Self::Accept { over_red_checks },
            "continue" => Self::Continue,
            "take-over" => Self::TakeOver,
            "reset" => Self::Reset,
            "reassign" => Self::Reassign { builder, reviewer },
            "reject" => Self::Reject,
            _ => return None,
        })
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Accept { .. } => "accept",
            Self::Continue => "continue",
            Self::TakeOver => "take-over",
            Self::Reset => "reset",
            Self::Reassign { .. } => "reassign",
            Self::Reject => "reject",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_the_choice_that_has_it() {
        for word in Choice::WORDS {
            let choice = Choice::from_word(word, ChoiceOptions::default());
            assert_eq!(choice.map(|choice| choice.as_str()), Some(word));
        }
        assert_eq!(Choice::from_word("ignore", ChoiceOptions::default()), None);
    }
}
