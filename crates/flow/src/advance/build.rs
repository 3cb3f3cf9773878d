//! Transitions from the builder's submission to the results of its checks.
//!
//! A submission is an exact commit with its tree. Forbidden paths are judged here, before any check
//! runs: a commit that touches them costs neither a check nor a review.

use std::collections::BTreeSet;

use super::Refused;
use super::panel::ReviewReuse;
use super::transition::Transition;
use crate::event::{FindingReport, Lease};
use crate::job::Task;
use crate::policy::{ProtectedChange, RedOnBase};
use crate::ticket::{
    CheckOutcome, CheckResult, Checks, Reason, ReworkReason, Stage, Submission, Ticket,
};

/// Reworks for forbidden paths before a person is asked.
/// One chance is enough: the brief of that rework names the paths and the base to restore them
/// from. A builder that touches them again needs a person's decision, not another paid run.
const FORBIDDEN_REWORKS_MAX: u32 = 1;
/// Most paths named in one sentence.
/// The evidence goes into a sentence and a commit may touch thousands of protected files.
const FORBIDDEN_SHOWN_MAX: usize = 5;

impl Transition<'_> {
    /// Stops a ticket whose base is red before its builder has cost anything. A person mends the
    /// base or the setup, and continues: the build is ordered again, and the base is proven again.
    pub(super) fn on_base_red(
        &mut self,
        lease: Lease,
        base: &str,
        results: &[CheckResult],
        hint: &str,
    ) -> Result<(), Refused> {
        let is_red = |result: &&CheckResult| !result.outcome.is_green();
        let red: Vec<&CheckResult> = results.iter().filter(is_red).collect();
        // A report without a red result, or under a policy that tolerates one, must not stop
        // anything.
        if red.is_empty() || !self.policy.needs_green_base() {
            return Err(Refused::BaseAccepted);
        }
        self.finish_job(lease.serial);
        let checks = red.iter().map(|result| result.name.clone()).collect();
        let evidence = describe_base_red(base, &red, hint);
        // `continue` orders the build again, so the ticket returns to the stage before it.
        let from = self.build_stage();
        self.escalate(Reason::BaseRed { checks }, from, &evidence);
        Ok(())
    }

    pub(super) fn on_submitted(
        &mut self,
        lease: Lease,
        submission: &Submission,
        reports: &[FindingReport],
        session: Option<&str>,
    ) -> Result<(), Refused> {
        // The lease's job is read here, so this comes before the job is closed.
        self.record_fallback_author(lease);
        self.finish_job(lease.serial);
        // The session lets the next round continue the same conversation. A builder that reports
        // none must not inherit the session of an earlier builder.
        self.ticket.assigned.session = session.map(str::to_owned);
        // Read before the submission replaces the results of the commit before.
        let known_red = known_red_checks(&self.ticket, submission);
        self.set_submission(submission)?;
        // Recorded after the submission is accepted, so that a refused one makes nobody an author.
        self.record_author();
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        // Reports are applied to the ledger after `set_submission` has moved its lines to the new
        // commit.
        for report in reports {
            self.ticket.ledger.apply_builder_report(round, &by, report);
        }
        match known_red {
            Some(checks) => self.rework_unchanged(checks),
            None => self.order_check(),
        }
        Ok(())
    }

    /// Sends an unchanged commit back with the results that it already has. It counts as red checks
    /// once more, so a builder that never changes anything reaches a person.
    fn rework_unchanged(&mut self, checks: Checks) {
        let red = filter_by_outcome(
            &checks.results,
            &[CheckOutcome::Failed, CheckOutcome::TimedOut],
        );
        self.ticket.checks = Some(checks);
        self.rework_red_checks(red);
    }

    /// Replaces the current submission. This voids an approval.
    pub(super) fn set_submission(&mut self, submission: &Submission) -> Result<(), Refused> {
        // An approval of an empty change would close the ticket without any work.
        if submission.commit.is_empty() || submission.files.is_empty() {
            return Err(Refused::EmptyChange);
        }
        // Approvals are compared by tree. An empty tree would be equal to another empty tree, and
        // an approval of one commit would count for another.
        if submission.tree.is_empty() {
            return Err(Refused::NotExact);
        }
        self.void_approval();
        // Findings keep their line over rounds; the map of moved lines belongs to exactly this step
        // from the last submission to this one, so it is applied once and here.
        self.ticket.ledger.move_lines(&submission.moved);
        self.ticket
            // Authors in the commits count as well as the submitter: else an agent could have
            // another one submit its work and then review it.
            .authors
            .extend(submission.authors.iter().cloned());
        self.ticket.submission = Some(submission.clone());
        // Results and reviews belong to the commit before. Kept, they would count for a commit that
        // nobody checked or read.
        self.ticket.checks = None;
        self.ticket.panel = Vec::new();
        Ok(())
    }

    /// Records the submitter as an author, whatever name the commit has.
    /// The name in a commit is text that the builder writes. The caller's principal is what the
    /// server authenticated.
    pub(super) fn record_author(&mut self) {
        self.ticket.authors.insert(self.event.by.principal.clone());
        self.ticket.assigned.built_by = Some(self.event.by.agent.clone());
        let family = self.event.by.family.clone();
        self.ticket.families.extend(family);
        self.ticket.builders.extend(self.event.by.written.clone());
    }

    /// Records a fallback builder as an author by its configured name, so that it judges nothing
    /// here in any role.
    fn record_fallback_author(&mut self, lease: Lease) {
        let is_fallback = self.job_mut(lease.serial).is_some_and(|job| job.fallback);
        let name = self.event.by.written.clone().filter(|_| is_fallback);
        self.ticket.authors.extend(name);
    }

    /// Withdraws the current approval, but keeps it in the history: a later submission with the
    /// same tree on the same base may reuse it without paying for another review.
    pub(super) fn void_approval(&mut self) {
        // `take` leaves nothing behind, so that no later step can land on a withdrawn approval.
        if let Some(approval) = self.ticket.approval.take() {
            self.ticket.approvals_voided.push(approval);
        }
    }

    pub(super) fn order_check(&mut self) {
        // Without a submission there is nothing to check. Building is the only step that can
        // produce one.
        let Some(submission) = &self.ticket.submission else {
            return self.order_build();
        };
        let (commit, protected) = (submission.commit.clone(), &submission.protected);
        if self.policy.protected_change == ProtectedChange::Forbid && !protected.is_empty() {
            // Submissions of edition 0 come from logs of earlier versions, which sent forbidden
            // paths back as a red check. Replay has to reach the same ticket.
            if submission.edition == 0 {
                let results = vec![forbidden_paths_as_check(protected)];
                return self.rework_red_checks(results);
            }
            // The submission may name a path once per commit. A set keeps the sentence and the
            // counter of shown paths honest.
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
        // The lease proves which job reports. It does not prove which commit the job looked at.
        self.ensure_current_commit(commit)?;
        self.finish_job(lease.serial);
        self.ticket.checks = Some(Checks {
            commit: commit.to_owned(),
            results: results.to_vec(),
        });
        // The results are recorded in any case. With the gate off they inform people and do not
        // decide.
        if !self.policy.gates.checks_green {
            self.go_to_review(ReviewReuse::Allowed);
            return Ok(());
        }
        let red = filter_by_outcome(results, &[CheckOutcome::Failed, CheckOutcome::TimedOut]);
        let red_on_base = filter_by_outcome(results, &[CheckOutcome::RedOnBase]);
        // A failure of the change goes before one of the base: the builder can fix the first, only
        // a person can decide on the second.
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
        let rework_reason = ReworkReason::ForbiddenPaths {
            paths: paths.clone(),
            base,
        };
        if again {
            let evidence = describe_forbidden_paths(&paths);
            // The reason is kept with the escalation, so that `continue` sends the builder back
            // with the paths it has to restore.
            self.ticket.rework_reason = Some(rework_reason);
            self.escalate(Reason::ForbiddenPaths { paths }, Stage::Rework, &evidence);
            return;
        }
        self.start_rework(rework_reason);
    }

    /// Sends red checks back to the builder. They cost no round, but have a limit of their own.
    pub(super) fn rework_red_checks(&mut self, results: Vec<CheckResult>) {
        self.ticket.counts.red_checks += 1;
        let times = self.ticket.counts.red_checks;
        if times > self.policy.limits.red_checks_max {
            let evidence = results
                .iter()
                .map(|r| format!("{}:\n{}", r.name, r.tail))
                .collect::<Vec<_>>();
            // Kept for the same purpose: a person who continues gives the builder this output
            // again.
            self.ticket.rework_reason = Some(ReworkReason::RedChecks { results });
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

/// Returns the red results of the commit that a builder submits again without a change. After a
/// person decided, the counter is at zero and the commit is checked: they may have mended the cause
/// outside of it.
pub fn known_red_checks(ticket: &Ticket, submission: &Submission) -> Option<Checks> {
    let is_rework = matches!(ticket.rework_reason, Some(ReworkReason::RedChecks { .. }));
    // Logs of earlier editions replay as they were decided.
    if submission.edition < 2 || !is_rework || ticket.counts.red_checks == 0 {
        return None;
    }
    let before = ticket.submission.as_ref()?;
    let is_same = before.commit == submission.commit && before.base == submission.base;
    let checks = ticket.checks.as_ref()?;
    let is_red = |result: &CheckResult| {
        matches!(
            result.outcome,
            CheckOutcome::Failed | CheckOutcome::TimedOut
        )
    };
    let is_known = checks.commit == submission.commit && checks.results.iter().any(is_red);
    (is_same && is_known).then(|| checks.clone())
}

/// Shows the end of each red check's output, and the likely fix.
fn describe_base_red(base: &str, red: &[&CheckResult], hint: &str) -> String {
    let commit = crate::narrate::short_commit(base);
    let mut parts = vec![format!(
        "The base commit {commit} is red, so no agent was started and nothing was spent."
    )];
    parts.extend(red.iter().map(|result| result.describe_end()));
    if !hint.is_empty() {
        parts.push(format!("Likely fix: {hint}"));
    }
    parts.join("\n\n")
}

/// Names the forbidden paths of a change, the first few of them.
pub fn describe_forbidden_paths(paths: &[String]) -> String {
    let shown: Vec<String> = paths
        .iter()
        .take(FORBIDDEN_SHOWN_MAX)
        // Paths come from the builder's commit. A path with a line break could forge a second line
        // of the message.
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
