//! Verification: somebody who reported nothing and built nothing looks at single findings.

use super::Refused;
use super::draft::Transition;
use crate::event::{AnswerOutcome, Lease, VerifierAnswer};
use crate::job::Task;
use crate::ledger::{FindingStatus, LedgerEntry};
use crate::policy::VerifyNewFindings;
use crate::ticket::Stage;

impl Transition<'_> {
    /// All that is open from earlier rounds is put to one verifier, beside the reviewers.
    pub(super) fn order_disposition(&mut self, commit: String) {
        let open = self.ticket.ledger.open_must_fix(self.policy);
        let findings: Vec<String> = open.iter().map(|entry| entry.id.clone()).collect();
        if !findings.is_empty() {
            let round = self.ticket.round;
            let task = Task::Verify {
                commit,
                round,
                findings,
            };
            self.order(task, None);
        }
    }

    pub(super) fn verified(
        &mut self,
        lease: Lease,
        commit: &str,
        answers: &[VerifierAnswer],
    ) -> Result<(), Refused> {
        self.must_be_current(commit)?;
        self.must_not_judge_own_work()?;
        let asked = self.asked_in(lease.serial);
        self.finish(lease.serial);
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        let mut unsettled = Vec::new();
        for id in &asked {
            let answer = self.word_on(id, answers);
            let second = self.policy.second_opinion;
            if !self
                .ticket
                .ledger
                .hear_verifier(round, &by, &answer, second)
            {
                unsettled.push(id.clone());
            }
        }
        if !unsettled.is_empty() && !self.order_verification_of(unsettled) {
            return Ok(());
        }
        self.decide_when_complete();
        Ok(())
    }

    /// The verifier's word on one finding. Silence and contradiction are uncertain, and what a
    /// reviewer reports on this very commit can be refuted, but it cannot be fixed.
    fn word_on(&self, id: &str, answers: &[VerifierAnswer]) -> VerifierAnswer {
        let uncertain = |evidence: &str| VerifierAnswer {
            finding: id.to_owned(),
            outcome: AnswerOutcome::Uncertain,
            evidence: evidence.to_owned(),
        };
        let mut given = answers.iter().filter(|answer| answer.finding == id);
        let Some(first) = given.next() else {
            return uncertain("the verifier did not answer");
        };
        if given.any(|other| other.outcome != first.outcome) {
            return uncertain("the verifier contradicts itself");
        }
        // Reviews that were taken over from the round before are of this very tree too.
        let mut reviews = self.ticket.seats.iter().filter_map(|s| s.answer.as_ref());
        if first.outcome == AnswerOutcome::Fixed && reviews.any(|r| r.reported.contains(id)) {
            return uncertain("called fixed, but a reviewer reports it on this commit");
        }
        first.clone()
    }

    fn asked_in(&self, serial: u32) -> Vec<String> {
        let job = self.ticket.jobs.iter().find(|job| job.serial == serial);
        match job.map(|job| &job.task) {
            Some(Task::Verify { findings, .. }) => findings.clone(),
            Some(
                Task::Build { .. }
                | Task::Check { .. }
                | Task::Review { .. }
                | Task::Merge { .. }
                | Task::Tell { .. },
            )
            | None => Vec::new(),
        }
    }

    /// With the last answer in, new must-fix findings may be put to a verifier; then it is decided.
    pub(super) fn decide_when_complete(&mut self) {
        if !self.ticket.jobs.is_empty() || self.ticket.stage != Stage::Reviewing {
            return;
        }
        if self.ticket.seats.is_empty() {
            return self.after_disposition();
        }
        if !self.ticket.verified_new {
            self.ticket.verified_new = true;
            let new = self.to_be_verified();
            if !new.is_empty() {
                self.order_verification_of(new);
                return;
            }
        }
        if !self.ask_again_where_nothing_is_said() {
            self.decide();
        }
    }

    /// New must-fix findings, where the policy has them verified before rework is paid for; and
    /// always what was refuted on an earlier commit and is reported again on this one.
    fn to_be_verified(&self) -> Vec<String> {
        let (round, verify) = (self.ticket.round, self.policy.verify);
        let is_new = |entry: &LedgerEntry| {
            entry.first_round == round || entry.status == FindingStatus::Reopened
        };
        let open = self.ticket.ledger.open_must_fix(self.policy);
        let asked = open.into_iter().filter(|entry| {
            (verify == VerifyNewFindings::MustFix && is_new(entry))
                || entry.was_refuted_before(round)
        });
        asked.map(|entry| entry.id.clone()).collect()
    }

    /// One verifier for each, with nothing but the finding and the code. False where there is no
    /// money for it, and a person was asked.
    fn order_verification_of(&mut self, findings: Vec<String>) -> bool {
        let Some(commit) = self.commit() else {
            return false;
        };
        if !self.affords(Stage::Reviewing) {
            return false;
        }
        let round = self.ticket.round;
        for id in findings {
            let task = Task::Verify {
                commit: commit.clone(),
                round,
                findings: vec![id],
            };
            self.order(task, None);
        }
        true
    }
}
