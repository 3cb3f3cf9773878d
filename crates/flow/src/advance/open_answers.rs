//! Verdicts that answer the open findings of earlier rounds. An agent that connects by itself may
//! know no other answer than its verdict. Its approval then states that the open findings are
//! fixed, and the ledger says that this is the reviewer's word. Its refusal leaves them open.
//!
//! Whatever the policy wants verified independently stays with the verifiers. A finding that a
//! reviewer reports on this commit is never closed here, and one refusal in the panel is enough to
//! close nothing.

use std::collections::BTreeSet;

use findings::ReviewClaim;

use super::transition::Transition;
use crate::event::{AnswerOutcome, VerifierAnswer};
use crate::job::{Effect, Task};
use crate::ledger::{FindingStatus, LedgerEntry};
use crate::policy::{Policy, VerifyNewFindings};
use crate::ticket::{ReviewerAnswer, Stage, Ticket};

/// Characters of a commit id in the record. More would fill the line without naming it better.
const COMMIT_CHARS: usize = 12;

/// Whether the policy wants an independent answer on this open finding, so that no reviewer's
/// verdict may answer it.
pub fn needs_verifier(entry: &LedgerEntry, policy: &Policy) -> bool {
    let by_policy = match policy.verify {
        VerifyNewFindings::MustFix => true,
        VerifyNewFindings::Disputed => entry.status == FindingStatus::Disputed,
        VerifyNewFindings::Never => false,
    };
    entry.status.is_open() && (by_policy || policy.second_opinion)
}

/// Returns the findings that wait for a verifier alone, if nothing else keeps the round open.
pub fn waiting_for_verifier(ticket: &Ticket) -> Vec<String> {
    let answered = ticket.panel.iter().all(|one| one.answer.is_some());
    if ticket.stage != Stage::Reviewing || !answered {
        return Vec::new();
    }
    let asked = ticket.jobs.iter().flat_map(|job| asked_in(&job.task));
    asked.cloned().collect()
}

impl Transition<'_> {
    /// Lets the panel's verdicts answer the open findings that still wait for a verifier, once
    /// every reviewer has answered, and decides the round if nothing else is open. It runs after
    /// every event: a lost lease, a waiver or a repeated finding may be what the verdicts waited
    /// for.
    pub(super) fn answer_open_findings(&mut self) {
        if self.verdicts_may_answer() && self.close_by_verdicts() {
            self.decide_when_complete();
        }
    }

    /// Returns whether a verification was closed.
    fn close_by_verdicts(&mut self) -> bool {
        let is_refused = self
            .panel_answers()
            .any(|answer| answer.claim != ReviewClaim::Approved);
        if !is_refused {
            self.state_fixed();
        } else if self.ask_before_refusal_counts() {
            return false;
        }
        self.close_answered_verifications()
    }

    /// Whether the panel is complete, a reviewer in it speaks for the open findings, and no
    /// verifier is at work on them.
    fn verdicts_may_answer(&self) -> bool {
        let ticket = &self.ticket;
        // After that flag, verifications are about findings of this round, which verdicts of the
        // same round cannot answer.
        let is_open = ticket.stage == Stage::Reviewing && !ticket.verified_new;
        let mut jobs = ticket.jobs.iter();
        is_open
            && !ticket.jobs.is_empty()
            && jobs.all(|job| !asked_in(&job.task).is_empty() && job.holder.is_none())
            && ticket.panel.iter().all(|one| one.answer.is_some())
            && self.panel_answers().any(|answer| answer.answers_open)
    }

    /// Returns the answers of the panel without linters, which know nothing of earlier rounds.
    fn panel_answers(&self) -> impl Iterator<Item = &ReviewerAnswer> {
        let voters = self.ticket.panel.iter().filter(|one| !one.linter);
        voters.filter_map(|one| one.answer.as_ref())
    }

    /// Records the approvals as the statement that the open findings are fixed.
    fn state_fixed(&mut self) {
        let speakers = self.panel_answers().filter(|answer| answer.answers_open);
        let names: BTreeSet<&str> = speakers.map(|answer| answer.reviewer.as_str()).collect();
        let by = names.into_iter().collect::<Vec<&str>>().join(", ");
        let commit = self.current_commit().unwrap_or_default();
        let commit: String = commit.chars().take(COMMIT_CHARS).collect();
        let evidence =
            format!("{by} approved {commit}, which is taken as: fixed; no verifier looked");
        let round = self.ticket.round;
        for finding in self.findings_to_state() {
            let answer = VerifierAnswer {
                finding,
                outcome: AnswerOutcome::Fixed,
                evidence: evidence.clone(),
            };
            let ledger = &mut self.ticket.ledger;
            ledger.apply_verifier_answer(round, &by, &answer, false);
        }
    }

    /// Returns the findings of the open verifications that verdicts may answer and that no reviewer
    /// reports on this commit.
    fn findings_to_state(&self) -> Vec<String> {
        let asked = self.ticket.jobs.iter().flat_map(|job| asked_in(&job.task));
        let silent = asked.filter(|id| !self.is_reported_now(id) && !self.waits_for_verifier(id));
        silent.cloned().collect()
    }

    fn is_reported_now(&self, id: &str) -> bool {
        let panel = self.ticket.panel.iter();
        let mut answers = panel.filter_map(|one| one.answer.as_ref());
        answers.any(|answer| answer.reported.contains(id))
    }

    fn waits_for_verifier(&self, id: &str) -> bool {
        let entry = self.ticket.ledger.get(id);
        entry.is_some_and(|entry| needs_verifier(entry, self.policy))
    }

    /// Asks reviewers that refused over minor findings alone whether they countersign, before
    /// their refusal leaves findings open that a yes would call fixed.
    fn ask_before_refusal_counts(&mut self) -> bool {
        // The question is worth its run only if a yes would approve, so it is put on a ledger
        // that already has the answers of that yes.
        let ledger = self.ticket.ledger.clone();
        self.state_fixed();
        let asks = self.ask_about_follow_ups();
        self.ticket.ledger = ledger;
        asks
    }

    /// Closes the verifications whose findings are answered; what needs a verifier is ordered
    /// again without the rest.
    fn close_answered_verifications(&mut self) -> bool {
        let mut left = Vec::new();
        let mut closed = false;
        for job in std::mem::take(&mut self.ticket.jobs) {
            let asked = asked_in(&job.task).iter().cloned();
            let (open, answered): (Vec<String>, Vec<String>) =
                asked.partition(|id| self.waits_for_verifier(id));
            if answered.is_empty() {
                self.ticket.jobs.push(job);
                continue;
            }
            closed = true;
            left.extend(open);
            self.effects.push(Effect::Drop {
                serial: job.serial,
                why: "the reviewers' verdicts answer it".to_owned(),
            });
        }
        if let Some(commit) = self.current_commit().filter(|_| !left.is_empty()) {
            let task = Task::Verify {
                commit,
                round: self.ticket.round,
                findings: left,
            };
            self.order_job(task, None);
        }
        closed
    }
}

/// Returns the findings that a verification asks about; other tasks ask about none.
fn asked_in(task: &Task) -> &[String] {
    match task {
        Task::Verify { findings, .. } => findings,
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Review { .. }
        | Task::Merge { .. }
        | Task::Tell { .. }
        | Task::Report => &[],
    }
}
