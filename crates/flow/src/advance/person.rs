//! Decisions of people: waivers, findings of their own, budgets, and the six ways to settle an escalation.
//!
//! Each decision is recorded with the name and the reason of the person. A person may overrule
//! reviewers and checks, but not judge work of their own, and not go beyond the hard cap of rounds
//! without a reset.

use findings::Finding;

use super::Refused;
use super::panel::ReviewReuse;
use super::transition::{Transition, exceeded_budget};
use crate::event::{Choice, Role};
use crate::ledger::IncomingFinding;
use crate::policy::{Policy, ROUNDS_HARD_CAP};
use crate::ticket::{
    ApprovedBy, BlockedReason, Counts, Reason, ReworkReason, Stage, Submission, Ticket,
};
use crate::usage::Budget;
use crate::verdict::checks_gate;

/// Returns the choices that an escalated ticket has now, in the order in which they are offered.
/// The list and the transitions below have to agree: an offered choice must not be refused when it
/// is chosen.
pub fn available_choices(ticket: &Ticket, policy: &Policy) -> Vec<Choice> {
    if ticket.stage != Stage::Escalated {
        return Vec::new();
    }
    // The cap limits further rounds only. A ticket that stopped for another reason resumes its
    // step.
    let at_hard_cap = needs_more_rounds(ticket) && ticket.counts.verdicts >= ROUNDS_HARD_CAP;
    let is_over_budget = exceeded_budget(ticket, policy).is_some();
    let all = [
        (
            ticket.submission.is_some(),
            // Without the flag it would be refused, so red checks are named in the offer.
            Choice::Accept {
                over_red_checks: !checks_gate(ticket, policy).passed,
            },
        ),
        (!at_hard_cap && !is_over_budget, Choice::Continue),
        (true, Choice::TakeOver),
        // A reset is offered at the hard cap too: it is the way to say that the count may begin
        // again.
        (!is_over_budget, Choice::Reset),
        (
            !at_hard_cap && !is_over_budget,
            Choice::Reassign {
                builder: None,
                reviewer: None,
            },
        ),
        (true, Choice::Reject),
    ];
    all.into_iter()
        .filter(|(possible, _)| *possible)
        .map(|(_, choice)| choice)
        .collect()
}

/// Returns the role that a reassignment most likely helps: the one whose work stopped the ticket.
pub fn role_to_reassign(ticket: &Ticket) -> Role {
    let reason = ticket
        .escalation
        .as_ref()
        .map(|escalation| &escalation.reason);
    let is_builders = match reason {
        Some(
            Reason::RedChecks { .. }
            | Reason::ForbiddenPaths { .. }
            | Reason::Conflicts { .. }
            | Reason::RedOnBase { .. }
            | Reason::BaseRed { .. },
        ) => true,
        Some(Reason::RetriesExhausted { .. } | Reason::HelpRequested { .. }) => {
            let from = ticket.escalation.as_ref().map(|escalation| escalation.from);
            from != Some(Stage::Reviewing)
        }
        _ => false,
    };
    // Without a commit there is nothing that another reviewer could read.
    if is_builders || ticket.submission.is_none() {
        Role::Builder
    } else {
        Role::Reviewer
    }
}

/// Whether to continue means one more round, rather than the interrupted step again.
fn needs_more_rounds(ticket: &Ticket) -> bool {
    matches!(
        ticket
            .escalation
            .as_ref()
            .map(|escalation| &escalation.reason),
        Some(
            Reason::RoundsUsedUp { .. }
                | Reason::NoProgress { .. }
                | Reason::FindingCameBack { .. }
        )
    )
}

impl Transition<'_> {
    pub(super) fn on_settled(&mut self, choice: &Choice, why: &str) -> Result<(), Refused> {
        match choice {
            Choice::Accept { over_red_checks } => self.accept(*over_red_checks, why),
            Choice::Continue => self.continue_ticket(),
            Choice::TakeOver => {
                self.ticket.escalation = None;
                self.ticket.stage = Stage::Blocked;
                self.ticket.blocked = Some(BlockedReason::TakenOver {
                    by: self.event.by.agent.clone(),
                });
                Ok(())
            }
            Choice::Reset => {
                // Refused while the budget is used up, because the first build would escalate the
                // ticket again at once.
                self.ensure_budget_left()?;
                // All counters begin again, also those of rounds. The ledger and the history stay.
                self.ticket.counts = Counts::default();
                self.start_over();
                Ok(())
            }
            Choice::Reassign { builder, reviewer } => {
                self.reassign(builder.as_deref(), reviewer.as_deref())
            }
            Choice::Reject => {
                // A rejected ticket fails the tickets that depend on it, so the reason is needed
                // there too.
                ensure_reason_given(why)?;
                self.fail_ticket(why);
                Ok(())
            }
        }
    }

    /// Waives all open must-fix findings in the person's name, then approves.
    fn accept(&mut self, over_red_checks: bool, why: &str) -> Result<(), Refused> {
        ensure_reason_given(why)?;
        if self.ticket.submission.is_none() {
            return Err(Refused::NothingToAccept);
        }
        // A person who built part of the change cannot accept it, as no reviewer may judge its own
        // work.
        self.ensure_not_own_work()?;
        let green = checks_gate(&self.ticket, self.policy).passed;
        // The flag has to be set by hand: a person who sees only the findings must not land red
        // checks by accident.
        if !green && !over_red_checks {
            return Err(Refused::RedChecks);
        }
        let (round, name) = (self.ticket.round, self.event.by.agent.clone());
        let open: Vec<String> = self
            .ticket
            .ledger
            .open_must_fix(self.policy)
            .iter()
            .map(|entry| entry.id.clone())
            .collect();
        // Waived one by one and in the person's name, so that each finding shows who let it pass.
        for id in open {
            self.ticket.ledger.waive(round, &name, &id, why);
        }
        self.approve(ApprovedBy::Person {
            name,
            why: why.to_owned(),
            // Recorded as it was, not as it was asked for: with green checks the flag has no
            // effect.
            over_red_checks: !green,
        });
        Ok(())
    }

    fn continue_ticket(&mut self) -> Result<(), Refused> {
        self.ensure_budget_left()?;
        if needs_more_rounds(&self.ticket) {
            self.grant_round()?;
            self.ticket.escalation = None;
            // The reason may be missing, if the rounds ran out before another review.
            let rework_reason = self
                .ticket
                .rework_reason
                .take()
                .unwrap_or(ReworkReason::Findings);
            self.start_rework(rework_reason);
            return Ok(());
        }
        self.resume();
        Ok(())
    }

    fn ensure_budget_left(&self) -> Result<(), Refused> {
        exceeded_budget(&self.ticket, self.policy)
            .map_or(Ok(()), |limit| Err(Refused::BudgetUsedUp { limit }))
    }

    /// Allows one more verdict than there were, but never more than the hard cap.
    fn grant_round(&mut self) -> Result<(), Refused> {
        let verdicts = self.ticket.counts.verdicts;
        if verdicts >= ROUNDS_HARD_CAP {
            return Err(Refused::HardCap { verdicts });
        }
        // Granted rounds are counted above the policy's. A later, higher `max_rounds` is not added
        // to them.
        let missing = (verdicts + 1).saturating_sub(self.policy.max_rounds);
        self.ticket.counts.granted = self.ticket.counts.granted.max(missing);
        Ok(())
    }

    /// Resets all counters except those of rounds.
    /// A person who continues has seen the counters and accepts them. Those of rounds have a cap
    /// instead.
    fn reset_counters(&mut self) {
        let Counts {
            verdicts, granted, ..
        } = self.ticket.counts;
        self.ticket.counts = Counts {
            verdicts,
            granted,
            ..Counts::default()
        };
    }

    /// Runs the interrupted step again, with the counters that stopped it reset.
    fn resume(&mut self) {
        self.reset_counters();
        let from = self
            .ticket
            .escalation
            .take()
            .map_or(Stage::Queued, |escalation| escalation.from);
        match from {
            Stage::Checking => self.order_check(),
            // The same reviews would give the same result, so they are made again.
            Stage::Reviewing => self.go_to_review(ReviewReuse::Forbidden),
            Stage::Approved | Stage::Merging => self.order_merge(),
            Stage::Pending
            | Stage::Queued
            | Stage::Building
            | Stage::Rework
            | Stage::Escalated
            | Stage::Blocked
            | Stage::Done
            | Stage::Failed
            | Stage::Cancelled => self.order_build(),
        }
    }

    fn start_over(&mut self) {
        self.ticket.escalation = None;
        self.order_build();
    }

    /// Gives the ticket to another builder, or its commit to another reviewer.
    fn reassign(&mut self, builder: Option<&str>, reviewer: Option<&str>) -> Result<(), Refused> {
        if builder.is_none() && reviewer.is_none() {
            return Err(Refused::NobodyNamed);
        }
        self.ensure_budget_left()?;
        if needs_more_rounds(&self.ticket) {
            self.grant_round()?;
        }
        self.reset_counters();
        if let Some(name) = reviewer {
            // Checked now and not at the claim, so that the person learns it at once.
            self.ensure_not_author(name)?;
            self.ticket.assigned.reviewer = Some(name.to_owned());
        }
        if let Some(name) = builder {
            self.ticket.assigned.builder = Some(name.to_owned());
            // The session belongs to the other builder's program.
            self.ticket.assigned.session = None;
            self.start_over();
        } else {
            self.review_again();
        }
        Ok(())
    }

    /// Has the same commit reviewed again, or resumes the interrupted step if its checks are red.
    /// Red checks would send the change to rework without a review, so it is not brought to one.
    fn review_again(&mut self) {
        let gate_is_on = self.policy.gates.checks_green;
        if gate_is_on && !checks_gate(&self.ticket, self.policy).passed {
            return self.resume();
        }
        self.ticket.escalation = None;
        self.go_to_review(ReviewReuse::Forbidden);
    }

    pub(super) fn on_resubmitted(&mut self, submission: &Submission) -> Result<(), Refused> {
        // A ticket that waits for a dependency is blocked too, and accepts no submission.
        let Some(BlockedReason::TakenOver { .. }) = self.ticket.blocked else {
            return Err(Refused::NotNow {
                event: self.event.what.name(),
                stage: self.ticket.stage,
                stages: &[],
            });
        };
        self.ticket.blocked = None;
        // The person's own work needs a review too, so this grants a round. At the hard cap the
        // checks still run, and then a person decides again.
        if self.rounds_used_up() && self.ticket.counts.verdicts < ROUNDS_HARD_CAP {
            self.grant_round()?;
        }
        // A refused submission has to leave the ticket taken over; the draft is dropped with the
        // error.
        self.set_submission(submission)?;
        self.record_author();
        self.order_check();
        Ok(())
    }

    pub(super) fn on_waived(&mut self, finding: &str, why: &str) -> Result<(), Refused> {
        ensure_reason_given(why)?;
        // A builder could otherwise waive the finding that stops its own change.
        self.ensure_not_own_work()?;
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        if self.ticket.ledger.waive(round, &by, finding, why) {
            return Ok(());
        }
        Err(Refused::NoSuchFinding {
            id: finding.to_owned(),
        })
    }

    /// Records a person's findings on the current commit. They are reworked and verified like any
    /// other. A must-fix finding takes an approval back that has not landed yet.
    pub(super) fn on_findings_added(
        &mut self,
        commit: &str,
        (findings, must_fix): (&[Finding], bool),
        comments: &[String],
    ) -> Result<(), Refused> {
        self.ensure_new_comments(comments)?;
        // The same limit as for a reviewer: the ledger is one document, and a tool can add findings
        // too.
        let most = self.policy.limits.findings_max as usize;
        if findings.is_empty() {
            return Err(Refused::NoFindings);
        }
        if findings.len() > most {
            let given = findings.len();
            return Err(Refused::TooManyFindings { given, most });
        }
        if self.ticket.submission.is_none() {
            return Err(Refused::NothingToComment);
        }
        // The person read this commit. If the builder submitted since, the lines mean something
        // else.
        self.ensure_current_commit(commit)?;
        let incoming: Vec<IncomingFinding<'_>> = findings
            .iter()
            .map(|finding| IncomingFinding {
                finding,
                blocking: must_fix,
                // A person is sure of what they report, whatever number a tool wrote next to it.
                low_confidence: false,
            })
            .collect();
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        let touched = self.touched_lines();
        let ledger = &mut self.ticket.ledger;
        let added = ledger.record_review(round, &by, &incoming, &touched);
        // Tracking may link the report to a closed entry. A person's report opens it again.
        ledger.reopen(round, &added);
        self.remember_comments(comments, &added);
        let open = self.ticket.ledger.open_must_fix(self.policy);
        let blocks = open.iter().any(|entry| added.contains(&entry.id));
        // The merge job waits in the queue then. It is dropped first, so that it cannot land the
        // commit.
        if blocks && self.ticket.stage == Stage::Approved {
            self.drop_jobs("a person reported a must-fix finding");
            self.void_approval();
            self.start_rework(ReworkReason::Findings);
        }
        Ok(())
    }

    pub(super) fn on_budget_raised(&mut self, budget: Budget, why: &str) -> Result<(), Refused> {
        // A raised budget replaces the policy's for this ticket. It does not resume the ticket: the
        // person chooses how.
        ensure_reason_given(why)?;
        self.ticket.budget = Some(budget);
        Ok(())
    }

    pub(super) fn on_budget_reached(&mut self, limit: &str) {
        let from = self.ticket.stage;
        self.escalate(
            Reason::Budget {
                limit: limit.to_owned(),
            },
            from,
            limit,
        );
    }

    pub(super) fn on_help_requested(&mut self, why: &str) -> Result<(), Refused> {
        let principal = &self.event.by.principal;
        let mut jobs = self.ticket.jobs.iter();
        // Else any agent with a token could stop any ticket.
        if !jobs.any(|job| job.holder.as_ref() == Some(principal)) {
            return Err(Refused::NotAtWork {
                principal: principal.clone(),
            });
        }
        let (from, by) = (self.ticket.stage, self.event.by.agent.clone());
        self.escalate(Reason::HelpRequested { by }, from, why);
        Ok(())
    }
}

fn ensure_reason_given(why: &str) -> Result<(), Refused> {
    if why.trim().is_empty() {
        Err(Refused::NoReason)
    } else {
        Ok(())
    }
}
