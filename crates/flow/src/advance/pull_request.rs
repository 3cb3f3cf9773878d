//! Transitions of a ticket that lands as a pull request. A worker looks at the forge and reports
//! what it sees; here that becomes a landing, a rework or an escalation. Nothing here waits for the
//! forge: the verdict is made as for every other ticket.
//!
//! A push by somebody else takes the approval back. If it only adds commits, the worker reports
//! `went_stale` and the new commit is checked and reviewed. If it replaces ours, a person decides.

use std::collections::BTreeSet;

use super::Refused;
use super::transition::Transition;
use crate::job::Task;
use crate::policy::Land;
use crate::pull_request::minds_red_checks;
use crate::ticket::{
    COMMENTS_MAX, ChangeConflict, ChangeObservation, ChangePhase, Checks, LandedCommit, Reason,
    ReworkReason, Stage, Ticket, TicketChange,
};

impl Transition<'_> {
    /// Orders a look at the pull request, on behalf of a webhook, a poller or a person.
    pub(super) fn on_report_requested(&mut self) -> Result<(), Refused> {
        if self.policy.land != Land::Pr || self.ticket.submission.is_none() {
            return Err(Refused::NoPullRequest);
        }
        self.order_report();
        Ok(())
    }

    /// Orders a report to the forge if this event changed anything that the pull request shows.
    pub fn order_report_if_visible(&mut self, before: &Ticket) {
        let is_ordered = |effect: &crate::job::Effect| matches!(effect, crate::job::Effect::Enqueue(job) if job.task == Task::Report);
        let lands_there = self.policy.land == Land::Pr && self.ticket.submission.is_some();
        if lands_there
            && is_visibly_different(before, &self.ticket)
            && !self.effects.iter().any(is_ordered)
        {
            self.order_report();
        }
    }

    pub(super) fn on_change_observed(&mut self, seen: &ChangeObservation) -> Result<(), Refused> {
        if self.policy.land != Land::Pr || self.ticket.submission.is_none() {
            return Err(Refused::NoPullRequest);
        }
        self.record_change(seen);
        let approved = self.ticket.approval.as_ref().map(|one| one.commit.clone());
        let is_approved =
            self.ticket.stage == Stage::Approved && approved.as_ref() == Some(&seen.head);
        match seen.phase {
            ChangePhase::Merged if is_approved => {
                self.drop_jobs("the pull request is merged");
                let branch = self.ticket.spec.context.base_branch.clone();
                self.finish_ticket(LandedCommit {
                    commit: seen.head.clone(),
                    branch: branch.unwrap_or_default(),
                    tip: seen.base_tip.clone(),
                });
            }
            ChangePhase::Merged if self.ticket.stage.is_active() => {
                let commit = seen.head.clone();
                let evidence = format!(
                    "pull request {} was merged at {}, which is not an approved commit",
                    seen.number,
                    crate::narrate::short_commit(&commit)
                );
                self.escalate_change(Reason::MergedUnapproved { commit }, &evidence);
            }
            ChangePhase::Closed if self.ticket.stage.is_active() => {
                let evidence = format!("pull request {} was closed without a merge", seen.number);
                let number = seen.number;
                // The approval stays: a person who continues lets the same commit be opened again.
                let from = self.idle_stage();
                self.escalate(Reason::ChangeClosed { number }, from, &evidence);
            }
            ChangePhase::Open => self.on_open_change(seen, is_approved),
            ChangePhase::Merged | ChangePhase::Closed => {}
        }
        Ok(())
    }

    /// Decides on an open pull request. Red checks and conflicts count for the approved head only:
    /// before the verdict our own checks and reviews go first.
    fn on_open_change(&mut self, seen: &ChangeObservation, is_approved: bool) {
        if let Some(head) = &seen.foreign_head {
            if self.ticket.stage.is_active() {
                let short = crate::narrate::short_commit(head);
                let evidence = format!(
                    "somebody pushed {short} to pull request {}, and the ticket does not build on it; nothing was overwritten",
                    seen.number
                );
                let head = head.clone();
                self.escalate_change(Reason::BranchReplaced { head }, &evidence);
            }
            return;
        }
        if !is_approved {
            return;
        }
        if let Some(conflict) = &seen.conflict {
            self.rework_conflict(conflict);
        } else if !seen.red.is_empty() && minds_red_checks(&self.ticket) {
            self.void_approval();
            // With these results an unchanged commit is recognised as known to be red, and a person
            // sees them before accepting it.
            let commit = seen.head.clone();
            let known = self.ticket.checks.get_or_insert_with(|| Checks {
                commit,
                results: Vec::new(),
            });
            known.results.extend(seen.red.iter().cloned());
            self.rework_red_checks(seen.red.clone());
            // The next round begins with this count, so that the same commit, submitted again, is
            // not approved again without a review and sent back for ever.
            self.ticket.counts.red_checks = self.ticket.counts.red_checks.max(1);
        }
    }

    fn rework_conflict(&mut self, conflict: &ChangeConflict) {
        let rework_reason = ReworkReason::Conflict {
            files: conflict.files.clone(),
            evidence: conflict.evidence.clone(),
        };
        self.rework_conflicting_change(rework_reason, &conflict.evidence);
    }

    /// Stops the ticket for a person and takes its approval back.
    fn escalate_change(&mut self, reason: Reason, evidence: &str) {
        let from = match self.idle_stage() {
            Stage::Approved => Stage::Checking,
            other => other,
        };
        self.void_approval();
        self.escalate(reason, from, evidence);
    }

    fn record_change(&mut self, seen: &ChangeObservation) {
        let comments = self.ticket.change.take().map(|known| known.comments);
        self.ticket.change = Some(Box::new(TicketChange {
            number: seen.number,
            url: seen.url.clone(),
            phase: seen.phase,
            head: seen.head.clone(),
            draft: seen.draft,
            waits_for: seen.waits_for.clone(),
            comments: comments.unwrap_or_default(),
        }));
    }

    /// Refuses findings whose comments are known: two workers may read the same comment.
    pub(super) fn ensure_new_comments(&self, ids: &[String]) -> Result<(), Refused> {
        if ids.is_empty() {
            return Ok(());
        }
        let Some(change) = &self.ticket.change else {
            return Err(Refused::NoPullRequest);
        };
        let is_known = ids.iter().any(|id| change.comments.contains_key(id));
        if is_known || change.comments.len() + ids.len() > COMMENTS_MAX {
            return Err(Refused::CommentsKnown);
        }
        Ok(())
    }

    /// Remembers the comments that these entries of the ledger come from.
    pub(super) fn remember_comments(&mut self, ids: &[String], added: &BTreeSet<String>) {
        if let Some(change) = &mut self.ticket.change {
            let known = ids.iter().map(|id| (id.clone(), added.clone()));
            change.comments.extend(known);
        }
    }
}

/// Whether anything changed that the pull request shows: the commit, results, findings, the
/// approval, or that the ticket waits or has ended.
fn is_visibly_different(before: &Ticket, after: &Ticket) -> bool {
    let commit = |ticket: &Ticket| ticket.submission.as_ref().map(|one| one.commit.clone());
    let approved = |ticket: &Ticket| ticket.approval.as_ref().map(|one| one.commit.clone());
    commit(before) != commit(after)
        || approved(before) != approved(after)
        || before.checks != after.checks
        || before.rounds.len() != after.rounds.len()
        || before.ledger != after.ledger
        || before.escalation != after.escalation
        || before.blocked != after.blocked
        || before.stage.is_terminal() != after.stage.is_terminal()
}
