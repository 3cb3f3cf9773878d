//! Transitions from the approval to the base branch, or back to the builder.

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
            checks: self
                .ticket
                .checks
                .as_ref()
                .map(|checks| checks.results.clone())
                .unwrap_or_default(),
        });
        self.ticket.escalation = None;
        self.ticket.setback = None;
        self.ticket.stage = Stage::Approved;
        self.notify_dependents_met_at(StartDependents::Approved);
        match self.policy.land {
            Land::Branch => {
                let (commit, branch) = (submission.commit, submission.branch);
                self.finish_ticket(LandedCommit {
                    commit,
                    branch,
                    tip: None,
                });
            }
            Land::Merge | Land::Queue => self.order_merge(),
        }
    }

    pub(super) fn order_merge(&mut self) {
        let Some(approval) = &self.ticket.approval else {
            return self.order_check();
        };
        let commit = approval.commit.clone();
        self.ticket.stage = Stage::Approved;
        self.order_job(Task::Merge { commit }, None);
    }

    fn finish_ticket(&mut self, landed: LandedCommit) {
        self.ticket.landed = Some(landed);
        self.ticket.stage = Stage::Done;
        self.notify_dependents_met_at(StartDependents::Done);
    }

    /// Accepts only the approved commit, or one with an identical diff, as landed.
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
        let same_diff = !diff_id.is_empty() && diff_id == approval.diff_id;
        let same_change = landed == approval.commit || same_diff;
        if commit != approval.commit || !same_change {
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
        let setback = ReworkReason::Conflict {
            files: files.to_vec(),
            evidence: evidence.to_owned(),
        };
        self.rework_after_merge(lease, setback, evidence);
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
    fn rework_after_merge(&mut self, lease: Lease, setback: ReworkReason, evidence: &str) {
        self.finish_job(lease.serial);
        self.void_approval();
        self.ticket.counts.conflicts += 1;
        let times = self.ticket.counts.conflicts;
        if times > self.policy.limits.conflicts_max {
            self.ticket.setback = Some(setback);
            self.escalate(Reason::Conflicts { times }, Stage::Rework, evidence);
            return;
        }
        self.start_rework(setback);
    }

    /// Voids the approval of another commit or of another base, and checks the new submission.
    pub(super) fn on_went_stale(&mut self, submission: &Submission) -> Result<(), Refused> {
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
