//! From the builder's submission to the checks' word on it.

use std::collections::BTreeSet;

use super::Refused;
use super::draft::Transition;
use super::panel::ReviewReuse;
use crate::event::{FindingReport, Lease};
use crate::job::Task;
use crate::policy::{ProtectedChange, RedOnBase};
use crate::ticket::{CheckOutcome, CheckResult, Checks, Reason, ReworkReason, Stage, Submission};

/// How often a builder is told of a forbidden path before a person is asked.
const FORBIDDEN_REWORKS_MAX: u32 = 1;
/// Paths named in one sentence.
const FORBIDDEN_SHOWN_MAX: usize = 5;

impl Transition<'_> {
    pub(super) fn submitted(
        &mut self,
        lease: Lease,
        submission: &Submission,
        reports: &[FindingReport],
        session: Option<&str>,
    ) -> Result<(), Refused> {
        self.sign_as_stand_in(lease);
        self.finish(lease.serial);
        self.ticket.assigned.session = session.map(str::to_owned);
        self.put_forward(submission)?;
        self.sign_as_author();
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        for report in reports {
            self.ticket.ledger.hear_builder(round, &by, report);
        }
        self.order_check();
        Ok(())
    }

    /// A commit takes the place of the one before; whatever was approved no longer is.
    pub(super) fn put_forward(&mut self, submission: &Submission) -> Result<(), Refused> {
        if submission.commit.is_empty() || submission.files.is_empty() {
            return Err(Refused::EmptyChange);
        }
        if submission.tree.is_empty() {
            return Err(Refused::NotExact);
        }
        self.void_approval();
        self.ticket.ledger.follow(&submission.moved);
        self.ticket
            .authors
            .extend(submission.authors.iter().cloned());
        self.ticket.submission = Some(submission.clone());
        self.ticket.checks = None;
        self.ticket.seats = Vec::new();
        Ok(())
    }

    /// Whoever puts a commit forward answers for it, whatever name the commit bears.
    pub(super) fn sign_as_author(&mut self) {
        self.ticket.authors.insert(self.event.by.principal.clone());
        let family = self.event.by.family.clone();
        self.ticket.families.extend(family);
        self.ticket.builders.extend(self.event.by.written.clone());
    }

    /// Who builds in another's place is nobody's judge here, in whichever role it is named.
    fn sign_as_stand_in(&mut self, lease: Lease) {
        let stands_in = self.job_mut(lease.serial).is_some_and(|job| job.stand_in);
        let name = self.event.by.written.clone().filter(|_| stands_in);
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
                let results = vec![forbidden(protected)];
                return self.send_back_red(results);
            }
            let paths: BTreeSet<String> = protected.iter().cloned().collect();
            let (paths, base) = (paths.into_iter().collect(), submission.base.clone());
            return self.send_back_forbidden(paths, base);
        }
        self.ticket.stage = Stage::Checking;
        self.order(Task::Check { commit }, None);
    }

    /// The commit that stands at present.
    pub(super) fn commit(&self) -> Option<String> {
        self.ticket
            .submission
            .as_ref()
            .map(|submission| submission.commit.clone())
    }

    pub(super) fn must_be_current(&self, given: &str) -> Result<(), Refused> {
        let current = self.commit().unwrap_or_default();
        if given == current {
            return Ok(());
        }
        Err(Refused::OtherCommit {
            given: given.to_owned(),
            current,
        })
    }

    pub(super) fn checked(
        &mut self,
        lease: Lease,
        commit: &str,
        results: &[CheckResult],
    ) -> Result<(), Refused> {
        self.must_be_current(commit)?;
        self.finish(lease.serial);
        self.ticket.checks = Some(Checks {
            commit: commit.to_owned(),
            results: results.to_vec(),
        });
        if !self.policy.gates.checks_green {
            self.go_to_review(ReviewReuse::Same);
            return Ok(());
        }
        let red = with_outcome(results, &[CheckOutcome::Failed, CheckOutcome::TimedOut]);
        let red_on_base = with_outcome(results, &[CheckOutcome::RedOnBase]);
        if !red.is_empty() {
            self.send_back_red(red);
        } else if !red_on_base.is_empty() && self.policy.red_on_base == RedOnBase::Escalate {
            let checks: Vec<String> = red_on_base.into_iter().map(|result| result.name).collect();
            let evidence = format!("red before the change as well: {}", checks.join(", "));
            self.escalate(Reason::RedOnBase { checks }, Stage::Checking, &evidence);
        } else {
            self.go_to_review(ReviewReuse::Same);
        }
        Ok(())
    }

    /// A forbidden path is named to the builder once; the second time a person decides. No check and
    /// no reviewer is paid for such a commit.
    fn send_back_forbidden(&mut self, paths: Vec<String>, base: String) {
        self.ticket.counts.forbidden += 1;
        let again = self.ticket.counts.forbidden > FORBIDDEN_REWORKS_MAX;
        let setback = ReworkReason::ForbiddenPaths {
            paths: paths.clone(),
            base,
        };
        if again {
            let evidence = forbidden_sentence(&paths);
            self.ticket.setback = Some(setback);
            self.escalate(Reason::ForbiddenPaths { paths }, Stage::Rework, &evidence);
            return;
        }
        self.rework(setback);
    }

    /// Red checks cost no round, but they have a bound of their own.
    fn send_back_red(&mut self, results: Vec<CheckResult>) {
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
        self.rework(ReworkReason::RedChecks { results });
    }
}

/// `It changes ci.yml and 2 more paths, which are forbidden to change.`
pub fn forbidden_sentence(paths: &[String]) -> String {
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

fn with_outcome(results: &[CheckResult], outcomes: &[CheckOutcome]) -> Vec<CheckResult> {
    results
        .iter()
        .filter(|result| outcomes.contains(&result.outcome))
        .cloned()
        .collect()
}

/// Submissions of the first edition told a forbidden path as a red check.
fn forbidden(paths: &[String]) -> CheckResult {
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
