//! Comparing a ticket that its log replays to with the stored one, which an earlier version may have
//! written: it kept less, worded verdicts differently, and may have given a policy another name.

use std::collections::BTreeMap;

use super::Ticket;

impl Ticket {
    /// Removes the sentences of the verdicts and keeps the decisions, to compare a replayed ticket
    /// with one that an earlier version stored.
    #[must_use]
    pub fn without_wording(mut self) -> Self {
        for round in &mut self.rounds {
            round.verdict = round.verdict.clone().without_wording();
            // Earlier versions did not keep them.
            round.findings.clear();
            round.scores.clear();
        }
        self
    }

    /// Leaves out of a replayed ticket what the version that stored it did not keep. Only what the
    /// stored ticket has nothing for is left out: a wrong builder is still a difference.
    #[must_use]
    pub fn as_kept_in(mut self, stored: &Self) -> Self {
        for (round, kept) in self.rounds.iter_mut().zip(&stored.rounds) {
            if kept.builder.is_none() {
                round.builder = None;
            }
        }
        if stored.assigned.built_by.is_none() {
            self.assigned.built_by = None;
        }
        self
    }

    /// Gives policies their names of today, by the names under which they were stored.
    #[must_use]
    pub fn with_policies_named(mut self, names: &BTreeMap<String, String>) -> Self {
        let rounds = self.rounds.iter_mut().map(|round| &mut round.policy);
        let approvals = self.approval.iter_mut().chain(&mut self.approvals_voided);
        for policy in rounds.chain(approvals.map(|approval| &mut approval.policy)) {
            if let Some(name) = names.get(policy.as_str()) {
                policy.clone_from(name);
            }
        }
        self
    }
}
