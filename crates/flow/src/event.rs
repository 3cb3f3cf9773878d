//! What happens to a ticket: reported by workers, agents, persons, or the house itself.

use std::collections::BTreeSet;

use findings::Review;
use serde::{Deserialize, Serialize};

use crate::ticket::{CheckResult, Spec, Submission, TicketId, Time};
use crate::usage::{Budget, Usage};

/// Who may do what. Identity comes from a token, never from an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Builder,
    Reviewer,
    Verifier,
    Human,
    /// The house itself: checks, merges, watches leases.
    Service,
    Admin,
}

impl Role {
    pub const ALL: [Self; 6] = [
        Self::Builder,
        Self::Reviewer,
        Self::Verifier,
        Self::Human,
        Self::Service,
        Self::Admin,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Builder => "builder",
            Self::Reviewer => "reviewer",
            Self::Verifier => "verifier",
            Self::Human => "human",
            Self::Service => "service",
            Self::Admin => "admin",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Actor {
    /// The name that people read.
    pub agent: String,
    /// Whom it stands for: two agents of one principal cannot judge each other.
    pub principal: String,
    pub role: Role,
    /// The family of the model behind it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// As the person wrote it who named it for the job; one program has one such name in all roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

impl Actor {
    /// Countersign itself.
    pub fn house() -> Self {
        Self::new("countersign", Role::Service)
    }

    /// An actor that stands for itself.
    pub fn new(name: &str, role: Role) -> Self {
        Self {
            agent: name.to_owned(),
            principal: name.to_owned(),
            role,
            family: None,
            written: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at: Time,
    pub by: Actor,
    /// The version that the caller had seen, where it asks for no lost update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<u64>,
    pub what: EventKind,
}

/// A job and the fencing token of the lease it is reported under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    pub serial: u32,
    pub fence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EventKind {
    /// The first event of every ticket.
    Created {
        spec: Box<Spec>,
        /// Those of its dependencies that are met already, and those that have failed.
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
    /// A person points the ticket at other dependencies.
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
        isolation: String,
        usage: Usage,
    },
    /// The reviewer ended, and what it left cannot be a verdict.
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
        /// What stands on the branch now: the same commit, or one with the same diff.
        landed: String,
        diff_id: String,
        branch: String,
        tip: Option<String>,
        usage: Usage,
    },
    Conflicted {
        lease: Lease,
        files: Vec<String>,
        evidence: String,
        usage: Usage,
    },
    CombinationRed {
        lease: Lease,
        results: Vec<CheckResult>,
        usage: Usage,
    },
    /// The branch has another commit now, or the base moved under the approval.
    WentStale {
        submission: Box<Submission>,
        why: String,
        /// The lease of the merge that noticed it, where a worker did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Lease>,
    },
    JobFailed {
        lease: Lease,
        failure: Failure,
        message: String,
        usage: Usage,
    },
    LeaseLost {
        lease: Lease,
    },
    /// Whoever should take a job cannot for now (its provider is paused); the policy names another.
    AgentOut {
        serial: u32,
        why: String,
    },
    HelpRequested {
        why: String,
        /// The claim that cannot go on; events of older versions do not name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Lease>,
    },
    /// The day's budget, or one that only the house can see, is used up.
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
    Settled {
        choice: Choice,
        why: String,
    },
    /// The person who took over puts a commit forward.
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
            Self::Settled { .. } => "settled",
            Self::Resubmitted { .. } => "resubmitted",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// The lease that the event is reported under, if it is a job's report.
    pub fn lease(&self) -> Option<Lease> {
        match self {
            Self::Started { lease }
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
            | Self::Settled { .. }
            | Self::Resubmitted { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    /// What the reported run used up.
    pub fn usage(&self) -> Usage {
        match self {
            Self::Submitted { usage, .. }
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
            | Self::Settled { .. }
            | Self::Resubmitted { .. }
            | Self::Cancelled { .. } => Usage::default(),
        }
    }
}

/// The builder's word on a finding (004's fixer report).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingReport {
    pub finding: String,
    pub outcome: ReportedOutcome,
    #[serde(default)]
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedOutcome {
    Fixed,
    CouldNotFix,
    Disputed,
}

/// The verifier's word on a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifierAnswer {
    pub finding: String,
    pub outcome: AnswerOutcome,
    #[serde(default)]
    pub evidence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    Fixed,
    Confirmed,
    Refuted,
    /// Counts as confirmed.
    Uncertain,
}

/// Why a job did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "failure")]
pub enum Failure {
    /// Worth another try after a pause.
    Transient,
    /// No try will help: authentication, a missing program, a refused submission.
    Permanent,
    /// The provider is out of quota until then; no try is counted.
    Quota { until: Time },
    /// Something else comes first, such as the landing of what the ticket is stacked on; the job is
    /// tried again then, and no try is counted.
    Deferred { until: Time },
    /// The run's own budget ended it.
    Budget,
    /// Nobody here may judge it: who could has built part of it, or is too close to who did.
    NoJudge,
    /// The worker was told to stop; somebody may go on at once, and no try is counted.
    Interrupted,
}

/// A person's answer to an escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "choice")]
pub enum Choice {
    /// Done despite what is open.
    Accept {
        #[serde(default)]
        over_red_checks: bool,
    },
    /// One more round, or the interrupted step again.
    Continue,
    /// The person fixes by hand and resubmits.
    TakeOver,
    /// The count starts again.
    Reset,
    Reassign {
        #[serde(default)]
        builder: Option<String>,
        #[serde(default)]
        reviewer: Option<String>,
    },
    Reject,
}

/// What a person may say beside the word of a choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceOptions {
    pub over_red_checks: bool,
    pub builder: Option<String>,
    pub reviewer: Option<String>,
}

impl Choice {
    /// Every word that a choice has.
    pub const WORDS: [&'static str; 6] = [
        "accept",
        "continue",
        "take-over",
        "reset",
        "reassign",
        "reject",
    ];

    /// The choice that a word means; nothing where it is no such word.
    pub fn of(word: &str, besides: ChoiceOptions) -> Option<Self> {
        let ChoiceOptions {
            over_red_checks,
            builder,
            reviewer,
        } = besides;
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

    pub fn word(&self) -> &'static str {
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
            let choice = Choice::of(word, ChoiceOptions::default());
            assert_eq!(choice.map(|choice| choice.word()), Some(word));
        }
        assert_eq!(Choice::of("ignore", ChoiceOptions::default()), None);
    }
}
