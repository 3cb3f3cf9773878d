//! Verification: an agent that neither reported nor built anything checks single findings.
//!
//! A verifier's answer can close a must-fix finding, so it is read with suspicion: silence, a
//! contradiction and an unknown id all leave the finding open.

use super::Refused;
use super::transition::Transition;
use crate::event::{AnswerOutcome, Lease, VerifierAnswer};
use crate::job::Task;
use crate::ledger::{FindingStatus, LedgerEntry};
use crate::policy::VerifyNewFindings;
use crate::ticket::Stage;

impl Transition<'_> {
    /// Orders one verification of all open must-fix findings from earlier rounds.
    pub(super) fn order_open_verification(&mut self, commit: String) {
        let open = self.ticket.ledger.open_must_fix(self.policy);
        let findings: Vec<String> = open.iter().map(|entry| entry.id.clone()).collect();
        if !findings.is_empty() {
            let round = self.ticket.round;
            let task = Task::Verify {
                commit,
                round,
                findings,
            };
            self.order_job(task, None);
        }
    }

    pub(super) fn on_verified(
        &mut self,
        lease: Lease,
        commit: &str,
        answers: &[VerifierAnswer],
    ) -> Result<(), Refused> {
        // The commit may have changed while the verifier read. An answer about an older commit
        // could close a finding that the new one brought back.
        self.ensure_current_commit(commit)?;
        self.ensure_not_own_work()?;
        // The ids come from the job and not from the answer: an agent must not close findings that
        // it was not asked about.
        let requested = self.findings_asked_in(lease.serial);
        self.finish_job(lease.serial);
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        let mut unsettled = Vec::new();
        for id in &requested {
            let answer = self.answer_for(id, answers);
            let second = self.policy.second_opinion;
            if !self
                .ticket
                .ledger
                .apply_verifier_answer(round, &by, &answer, second)
            {
                unsettled.push(id.clone());
            }
        }
        // With a second opinion the same finding goes to another verifier. If the budget is used
        // up, the ticket is escalated already and there is nothing left to decide.
        if !unsettled.is_empty() && !self.order_verification(unsettled) {
            return Ok(());
        }
        self.decide_when_complete();
        Ok(())
    }

    /// Returns the verifier's answer on one finding. A missing or contradictory answer counts as
    /// uncertain. A finding that a reviewer reports on this commit can be refuted, but not be
    /// called fixed.
    fn answer_for(&self, id: &str, answers: &[VerifierAnswer]) -> VerifierAnswer {
        let uncertain = |evidence: &str| VerifierAnswer {
            finding: id.to_owned(),
            outcome: AnswerOutcome::Uncertain,
            evidence: evidence.to_owned(),
        };
        let mut answers = answers.iter().filter(|answer| answer.finding == id);
        let Some(first) = answers.next() else {
            return uncertain("the verifier did not answer");
        };
        // An agent that says both `fixed` and `confirmed` has not checked. Taking the first would
        // let it choose by order.
        if answers.any(|other| other.outcome != first.outcome) {
            return uncertain("the verifier contradicts itself");
        }
        // Reviews reused from the round before are of the same tree, so they count here.
        let mut reviews = self.ticket.panel.iter().filter_map(|s| s.answer.as_ref());
        if first.outcome == AnswerOutcome::Fixed && reviews.any(|r| r.reported.contains(id)) {
            return uncertain("called fixed, but a reviewer reports it on this commit");
        }
        first.clone()
    }

    fn findings_asked_in(&self, serial: u32) -> Vec<String> {
        let job = self.ticket.jobs.iter().find(|job| job.serial == serial);
        match job.map(|job| &job.task) {
            Some(Task::Verify { findings, .. }) => findings.clone(),
            Some(
                Task::Build { .. }
                | Task::Check { .. }
                | Task::Review { .. }
                | Task::Merge { .. }
                | Task::Tell { .. }
                | Task::Report,
            )
            | None => Vec::new(),
        }
    }

    /// Goes on once no job is open: has new must-fix findings verified if required, then decides.
    pub(super) fn decide_when_complete(&mut self) {
        // A parallel job may have escalated or ended the ticket before this report arrived.
        if !self.ticket.jobs.is_empty() || self.ticket.stage != Stage::Reviewing {
            return;
        }
        // Without a panel the ticket is in the verification that runs before the review.
        if self.ticket.panel.is_empty() {
            return self.after_open_findings_verified();
        }
        // The flag is set before the jobs are ordered, so that their answers do not order them
        // again without end.
        if !self.ticket.verified_new {
            self.ticket.verified_new = true;
            let new = self.findings_to_verify();
            if !new.is_empty() {
                self.order_verification(new);
                return;
            }
        }
        if !self.retry_empty_review() {
            self.decide();
        }
    }

    /// Returns new must-fix findings if the policy verifies them before rework, and always findings
    /// that were refuted on an earlier commit and are reported again on this one.
    fn findings_to_verify(&self) -> Vec<String> {
        let (round, verify) = (self.ticket.round, self.policy.verify);
        let is_new = |entry: &LedgerEntry| {
            entry.first_round == round || entry.status == FindingStatus::Reopened
        };
        let open = self.ticket.ledger.open_must_fix(self.policy);
        let unverified = open.into_iter().filter(|entry| {
            (verify == VerifyNewFindings::MustFix && is_new(entry))
                || entry.was_refuted_before(round)
        });
        unverified.map(|entry| entry.id.clone()).collect()
    }

    /// Orders one verification per finding, so that the verifier sees only that finding and the
    /// code. Returns false if the budget is used up and the ticket was escalated.
    fn order_verification(&mut self, findings: Vec<String>) -> bool {
        let Some(commit) = self.current_commit() else {
            return false;
        };
        if !self.check_budget(Stage::Reviewing) {
            return false;
        }
        let round = self.ticket.round;
        for id in findings {
            let task = Task::Verify {
                commit: commit.clone(),
                round,
                findings: vec![id],
            };
            self.order_job(task, None);
        }
        true
    }
}
