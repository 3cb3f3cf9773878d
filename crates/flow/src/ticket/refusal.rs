//! Refusals: who can be asked about one again, and that nobody who refused is named as countersigner.

use serde::{Deserialize, Serialize};

use crate::job::Task;

use super::{Approval, ApprovedBy, Seat, Ticket};

impl Seat {
    /// The open question is whether the reviewer countersigns with its findings as follow-ups.
    pub fn is_asked_to_countersign(&self) -> bool {
        self.answer.is_some() && self.refusal.as_ref().is_some_and(|refusal| refusal.asked)
    }
}

/// Where a refusal came from, so that the same reviewer can be asked about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The review job that brought it.
    pub job: u32,
    /// The agent, as jobs name it.
    pub agent: String,
    /// Its findings were put to it as follow-ups; that happens once.
    #[serde(default)]
    pub asked: bool,
}

impl Ticket {
    /// The task asks a reviewer that refused whether it countersigns all the same.
    pub fn asks_to_countersign(&self, task: &Task) -> bool {
        let Task::Review { seat, .. } = task else {
            return false;
        };
        let mut seats = self.seats.iter();
        seats.any(|known| known.name == *seat && known.is_asked_to_countersign())
    }

    /// Who gave an approval. Records of earlier versions name every reviewer of the round; whoever
    /// refused is taken out by what the round says.
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

    /// The same ticket with its approvals as this version records them.
    #[must_use]
    pub fn naming_only_countersigners(mut self) -> Self {
        let now = self.approval.as_ref().map(|one| self.approver(one));
        let voided: Vec<ApprovedBy> = self
            .approvals_voided
            .iter()
            .map(|one| self.approver(one))
            .collect();
        if let (Some(approval), Some(by)) = (&mut self.approval, now) {
            approval.by = by;
        }
        for (approval, by) in self.approvals_voided.iter_mut().zip(voided) {
            approval.by = by;
        }
        self
    }
}
