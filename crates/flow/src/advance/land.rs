//! Transitions from the approval to the base branch, or back to the builder.
//!
//! An approval names one commit, its tree and its base. Only that commit, or one with an identical
//! diff, may land. A conflict or a red combination withdraws the approval, because the text that
//! lands would not be the text that was approved.

use super::Refused;
use super::transition::Transition;
use crate::event::Lease;
use crate::job::Task;
use crate::policy::{Land, StartDependents};
use crate::ticket::{
    Approval, ApprovedBy, CheckResult, LandedCommit, Reason, ReworkReason, Stage, Submission,
};

impl Transition<'_> {
    pub(super) fn approve(&mut self, by: ApprovedBy) {
        let submission = self.ticket.submission.clone().unwrap_or_default();
        self.ticket.approval = Some(Approval {
            commit: submission.commit.clone(),
            tree: submission.tree,
            base_tree: submission.base_tree,
            diff_id: submission.diff_id,
            policy: self.policy.id(),
            round: self.ticket.round,
            at: self.event.at,
            by,
            // The results are copied into the approval. The ticket's own results are cleared by the
            // next submission, but the approval stays in the history.
            checks: self
                .ticket
                .checks
                .as_ref()
                .map(|checks| checks.results.clone())
                .unwrap_or_default(),
        });
        // An approval settles an escalation. A leftover would offer a person choices that no longer
        // exist.
        self.ticket.escalation = None;
        self.ticket.rework_reason = None;
        self.ticket.stage = Stage::Approved;
        // Before landing: with `start_dependents = "approved"` stacked tickets start from this
        // commit.
        self.notify_dependents_met_at(StartDependents::Approved);
        match self.policy.land {
            // With `land = "branch"` the branch is the result. No job runs, so this step ends the
            // ticket.
            Land::Branch => {
                let (commit, branch) = (submission.commit, submission.branch);
                self.finish_ticket(LandedCommit {
                    commit,
                    branch,
                    tip: None,
                });
            }
            // The report that follows from the approval hands the commit to the forge.
            Land::Pr => {}
            Land::Merge | Land::Squash | Land::Rebase | Land::Queue => self.order_merge(),
        }
    }

    pub(super) fn order_merge(&mut self) {
        // The approval can be gone, if a person resumes a ticket after it was withdrawn. Then the
        // commit is checked and reviewed again instead of landing unapproved.
        let Some(approval) = &self.ticket.approval else {
            return self.order_check();
        };
        let commit = approval.commit.clone();
        self.ticket.stage = Stage::Approved;
        if self.policy.land == Land::Pr {
            return;
        }
        self.order_job(Task::Merge { commit }, None);
    }

    pub(super) fn finish_ticket(&mut self, landed: LandedCommit) {
        self.ticket.landed = Some(landed);
        self.ticket.stage = Stage::Done;
        self.notify_dependents_met_at(StartDependents::Done);
    }

    /// Accepts only the approved commit, or one with an identical diff, as landed.
    /// A rebase and a squash land another commit id than the approved one. The diff id is the proof
    /// that the content is the same.
    pub(super) fn on_landed(
        &mut self,
        lease: Lease,
        commit: &str,
        (landed, diff_id): (&str, &str),
        branch: &str,
        tip: Option<&str>,
    ) -> Result<(), Refused> {
        let Some(approval) = &self.ticket.approval else {
            return Err(Refused::OtherCommit {
                given: commit.to_owned(),
                current: String::new(),
            });
        };
        // Two unknown diff ids are equal as texts, so an empty one never proves anything.
        let same_diff = !diff_id.is_empty() && diff_id == approval.diff_id;
        let same_change = landed == approval.commit || same_diff;
        if commit != approval.commit || !same_change {
            // The error names the side that differs: the commit that the job was about, or the one
            // it made.
            let given = if commit == approval.commit {
                landed
            } else {
                commit
            };
            return Err(Refused::OtherCommit {
                given: given.to_owned(),
                current: approval.commit.clone(),
            });
        }
        self.finish_job(lease.serial);
        self.finish_ticket(LandedCommit {
            commit: landed.to_owned(),
            branch: branch.to_owned(),
            tip: tip.map(str::to_owned),
        });
        Ok(())
    }

    pub(super) fn on_conflicted(&mut self, lease: Lease, files: &[String], evidence: &str) {
        let rework_reason = ReworkReason::Conflict {
            files: files.to_vec(),
            evidence: evidence.to_owned(),
        };
        self.rework_after_merge(lease, rework_reason, evidence);
    }

    pub(super) fn on_combination_red(&mut self, lease: Lease, results: &[CheckResult]) {
        let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
        let evidence = format!("red together with the newest base: {}", names.join(", "));
        self.rework_after_merge(
            lease,
            ReworkReason::RedCombination {
                results: results.to_vec(),
            },
            &evidence,
        );
    }

    /// Sends a change that did not merge back to its builder, or escalates it after too many times.
    fn rework_after_merge(&mut self, lease: Lease, rework_reason: ReworkReason, evidence: &str) {
        self.finish_job(lease.serial);
        self.rework_conflicting_change(rework_reason, evidence);
    }

    /// Takes the approval back and counts a conflict.
    pub(super) fn rework_conflicting_change(
        &mut self,
        rework_reason: ReworkReason,
        evidence: &str,
    ) {
        self.void_approval();
        // Conflicts have a counter of their own. They are no verdict of a reviewer, and a busy base
        // branch would otherwise use up the rounds of a good change.
        self.ticket.counts.conflicts += 1;
        let times = self.ticket.counts.conflicts;
        if times > self.policy.limits.conflicts_max {
            self.ticket.rework_reason = Some(rework_reason);
            self.escalate(Reason::Conflicts { times }, Stage::Rework, evidence);
            return;
        }
        self.start_rework(rework_reason);
    }

    /// Voids the approval of another commit or of another base, and checks the new submission.
    pub(super) fn on_went_stale(&mut self, submission: &Submission) -> Result<(), Refused> {
        // The merge job of the old approval may still wait in the queue. It would land the old
        // commit.
        self.drop_jobs("the approval went stale");
        self.set_submission(submission)?;
        self.ticket.counts.stale += 1;
        let times = self.ticket.counts.stale;
        if times > self.policy.limits.stale_max {
            let evidence = format!("the approved commit was overtaken {times} times");
            self.escalate(Reason::StaleTooOften { times }, Stage::Checking, &evidence);
        } else {
            self.order_check();
        }
        Ok(())
    }
}
