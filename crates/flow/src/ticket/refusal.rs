//! Refusals of reviewers: which reviewer to ask again, and correct names of countersigners. A
//! reviewer that refused is never named as one.

use serde::{Deserialize, Serialize};

use crate::job::Task;

use super::{Approval, ApprovedBy, PanelReviewer, Ticket};

impl PanelReviewer {
    /// Whether the reviewer is asked to countersign with its findings as follow-ups.
    pub fn is_asked_to_countersign(&self) -> bool {
        self.answer.is_some() && self.refusal.as_ref().is_some_and(|refusal| refusal.asked)
    }
}

/// Source of a refusal, so that the same reviewer can be asked about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Refusal {
    /// Serial of the review job that reported it.
    pub job: u32,
    /// Agent, as jobs name it.
    pub agent: String,
    /// The reviewer was asked whether it countersigns. That happens once.
    #[serde(default)]
    pub asked: bool,
}

impl Ticket {
    /// Whether the task asks a reviewer that refused to countersign after all.
    pub fn asks_to_countersign(&self, task: &Task) -> bool {
        let Task::Review { reviewer, .. } = task else {
            return false;
        };
        let mut reviewers = self.panel.iter();
        reviewers.any(|one| one.name == *reviewer && one.is_asked_to_countersign())
    }

    /// Returns who gave an approval. Records of earlier versions name every reviewer of the round,
    /// so reviewers that refused are removed according to the round's verdict.
    pub fn approver(&self, approval: &Approval) -> ApprovedBy {
        let mut rounds = self.rounds.iter();
        match (
            &approval.by,
            rounds.find(|round| round.number == approval.round),
        ) {
            (ApprovedBy::Reviewers { .. }, Some(round)) => round.verdict.approved_by(),
            (by, _) => by.clone(),
        }
    }

    /// Returns the ticket with its approvals as this version records them.
    #[must_use]
    pub fn without_refusing_approvers(mut self) -> Self {
        let current = self.approval.as_ref().map(|one| self.approver(one));
        let voided: Vec<ApprovedBy> = self
            .approvals_voided
            .iter()
            .map(|one| self.approver(one))
            .collect();
        if let (Some(approval), Some(by)) = (&mut self.approval, current) {
            approval.by = by;
        }
        for (approval, by) in self.approvals_voided.iter_mut().zip(voided) {
            approval.by = by;
        }
        self
    }
}
