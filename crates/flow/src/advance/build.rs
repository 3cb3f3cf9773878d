//! Transitions from the builder's submission to the results of its checks.

use std::collections::BTreeSet;

use super::Refused;
use super::panel::ReviewReuse;
use super::transition::Transition;
use crate::event::{FindingReport, Lease};
use crate::job::Task;
use crate::policy::{ProtectedChange, RedOnBase};
use crate::ticket::{CheckOutcome, CheckResult, Checks, Reason, ReworkReason, Stage, Submission};

/// Reworks for forbidden paths before a person is asked.
const FORBIDDEN_REWORKS_MAX: u32 = 1;
/// Most paths named in one sentence.
const FORBIDDEN_SHOWN_MAX: usize = 5;

impl Transition<'_> {
    pub(super) fn on_submitted(
        &mut self,
        lease: Lease,
        submission: &Submission,
        reports: &[FindingReport],
        session: Option<&str>,
    ) -> Result<(), Refused> {
        self.record_fallback_author(lease);
        self.finish_job(lease.serial);
        self.ticket.assigned.session = session.map(str::to_owned);
        self.set_submission(submission)?;
        self.record_author();
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        for report in reports {
            self.ticket.ledger.apply_builder_report(round, &by, report);
        }
        self.order_check();
        Ok(())
    }

    /// Replaces the current submission. This voids an approval.
    pub(super) fn set_submission(&mut self, submission: &Submission) -> Result<(), Refused> {
        if submission.commit.is_empty() || submission.files.is_empty() {
            return Err(Refused::EmptyChange);
        }
        if submission.tree.is_empty() {
            return Err(Refused::NotExact);
        }
        self.void_approval();
        self.ticket.ledger.move_lines(&submission.moved);
        self.ticket
            .authors
            .extend(submission.authors.iter().cloned());
        self.ticket.submission = Some(submission.clone());
        self.ticket.checks = None;
        self.ticket.seats = Vec::new();
        Ok(())
    }

    /// Records the submitter as an author, whatever name the commit has.
    pub(super) fn record_author(&mut self) {
        self.ticket.authors.insert(self.event.by.principal.clone());
        let family = self.event.by.family.clone();
        self.ticket.families.extend(family);
        self.ticket.builders.extend(self.event.by.written.clone());
    }

    /// Records a fallback builder as an author by its configured name, so that it judges nothing
    /// here in any role.
    fn record_fallback_author(&mut self, lease: Lease) {
        let is_fallback = self.job_mut(lease.serial).is_some_and(|job| job.stand_in);
        let name = self.event.by.written.clone().filter(|_| is_fallback);
        self.ticket.authors.extend(name);
    }

    pub(super) fn void_approval(&mut self) {
        if let Some(approval) = self.ticket.approval.take() {
            self.ticket.approvals_voided.push(approval);
        }
    }

    pub(super) fn order_check(&mut self) {
        let Some(submission) = &self.ticket.submission else {
            return self.order_build();
        };
        let (commit, protected) = (submission.commit.clone(), &submission.protected);
        if self.policy.protected_change == ProtectedChange::Forbid && !protected.is_empty() {
            if submission.edition == 0 {
                let results = vec![forbidden_paths_as_check(protected)];
                return self.rework_red_checks(results);
            }
            let paths: BTreeSet<String> = protected.iter().cloned().collect();
            let (paths, base) = (paths.into_iter().collect(), submission.base.clone());
            return self.rework_forbidden_paths(paths, base);
        }
        self.ticket.stage = Stage::Checking;
        self.order_job(Task::Check { commit }, None);
    }

    /// Commit of the current submission.
    pub(super) fn current_commit(&self) -> Option<String> {
        self.ticket
            .submission
            .as_ref()
            .map(|submission| submission.commit.clone())
    }

    pub(super) fn ensure_current_commit(&self, given: &str) -> Result<(), Refused> {
        let current = self.current_commit().unwrap_or_default();
        if given == current {
            return Ok(());
        }
        Err(Refused::OtherCommit {
            given: given.to_owned(),
            current,
        })
    }

    pub(super) fn on_checked(
        &mut self,
        lease: Lease,
        commit: &str,
        results: &[CheckResult],
    ) -> Result<(), Refused> {
        self.ensure_current_commit(commit)?;
        self.finish_job(lease.serial);
        self.ticket.checks = Some(Checks {
            commit: commit.to_owned(),
            results: results.to_vec(),
        });
        if !self.policy.gates.checks_green {
            self.go_to_review(ReviewReuse::Allowed);
            return Ok(());
        }
        let red = filter_by_outcome(results, &[CheckOutcome::Failed, CheckOutcome::TimedOut]);
        let red_on_base = filter_by_outcome(results, &[CheckOutcome::RedOnBase]);
        if !red.is_empty() {
            self.rework_red_checks(red);
        } else if !red_on_base.is_empty() && self.policy.red_on_base == RedOnBase::Escalate {
            let checks: Vec<String> = red_on_base.into_iter().map(|result| result.name).collect();
            let evidence = format!("red before the change as well: {}", checks.join(", "));
            self.escalate(Reason::RedOnBase { checks }, Stage::Checking, &evidence);
        } else {
            self.go_to_review(ReviewReuse::Allowed);
        }
        Ok(())
    }

    /// Sends a change of forbidden paths back to the builder once; the second time a person
    /// decides. No check and no review runs on such a commit.
    fn rework_forbidden_paths(&mut self, paths: Vec<String>, base: String) {
        self.ticket.counts.forbidden += 1;
        let again = self.ticket.counts.forbidden > FORBIDDEN_REWORKS_MAX;
        let setback = ReworkReason::ForbiddenPaths {
            paths: paths.clone(),
            base,
        };
        if again {
            let evidence = describe_forbidden_paths(&paths);
            self.ticket.setback = Some(setback);
            self.escalate(Reason::ForbiddenPaths { paths }, Stage::Rework, &evidence);
            return;
        }
        self.start_rework(setback);
    }

    /// Sends red checks back to the builder. They cost no round, but have a limit of their own.
    fn rework_red_checks(&mut self, results: Vec<CheckResult>) {
        self.ticket.counts.red_checks += 1;
        let times = self.ticket.counts.red_checks;
        if times > self.policy.limits.red_checks_max {
            let evidence = results
                .iter()
                .map(|r| format!("{}:\n{}", r.name, r.tail))
                .collect::<Vec<_>>();
            self.ticket.setback = Some(ReworkReason::RedChecks { results });
            self.escalate(
                Reason::RedChecks { times },
                Stage::Rework,
                &evidence.join("\n\n"),
            );
            return;
        }
        self.start_rework(ReworkReason::RedChecks { results });
    }
}

/// Names the forbidden paths of a change, the first few of them.
pub fn describe_forbidden_paths(paths: &[String]) -> String {
    let shown: Vec<String> = paths
        .iter()
        .take(FORBIDDEN_SHOWN_MAX)
        .map(|path| findings::one_line(path))
        .collect();
    let more = paths.len().saturating_sub(shown.len());
    let more = match more {
        0 => String::new(),
        1 => " and 1 more".to_owned(),
        n => format!(" and {n} more"),
    };
    format!(
        "the change touches {}{more}, which this project or ticket forbids to change",
        shown.join(", ")
    )
}

fn filter_by_outcome(results: &[CheckResult], outcomes: &[CheckOutcome]) -> Vec<CheckResult> {
    results
        .iter()
        .filter(|result| outcomes.contains(&result.outcome))
        .cloned()
        .collect()
}

/// Returns a forbidden path as a red check, as submissions of edition 0 are judged.
fn forbidden_paths_as_check(paths: &[String]) -> CheckResult {
    let unique: BTreeSet<&String> = paths.iter().collect();
    let list = unique
        .into_iter()
        .map(|path| format!("- {path}"))
        .collect::<Vec<_>>()
        .join("\n");
    CheckResult {
        name: "protected paths".to_owned(),
        outcome: CheckOutcome::Failed,
        tail: format!("The project forbids changes to these paths; restore them:\n{list}"),
        wall_ms: 0,
    }
}
