//! What persons decide: waivers, budgets, and the six ways to settle an escalation.

use super::Refused;
use super::draft::Draft;
use crate::event::Choice;
use crate::policy::{Policy, ROUNDS_HARD_CAP};
use crate::ticket::{ApprovedBy, Blocked, Counts, Reason, Setback, Stage, Submission, Ticket};
use crate::usage::Budget;

/// The choices that an escalated ticket really has, in the order they are offered.
pub fn choices(ticket: &Ticket, policy: &Policy) -> Vec<Choice> {
    if ticket.stage != Stage::Escalated {
        return Vec::new();
    }
    let another_round = asks_for_rounds(ticket) && ticket.counts.verdicts >= ROUNDS_HARD_CAP;
    let budget = ticket.budget.unwrap_or(policy.budget);
    let broke = budget.round.reached_by(ticket.spent.round).is_some()
        || budget.ticket.reached_by(ticket.spent.ticket).is_some();
    let all = [
        (
            ticket.submission.is_some(),
            Choice::Accept {
                over_red_checks: false,
            },
        ),
        (!another_round && !broke, Choice::Continue),
        (true, Choice::TakeOver),
        (!broke, Choice::Reset),
        (
            !another_round && !broke,
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

/// Whether going on means one more round, rather than the interrupted step again.
fn asks_for_rounds(ticket: &Ticket) -> bool {
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

impl Draft<'_> {
    pub(super) fn settled(&mut self, choice: &Choice, why: &str) -> Result<(), Refused> {
        match choice {
            Choice::Accept { over_red_checks } => self.accept(*over_red_checks, why),
            Choice::Continue => self.go_on(),
            Choice::TakeOver => {
                self.ticket.escalation = None;
                self.ticket.stage = Stage::Blocked;
                self.ticket.blocked = Some(Blocked::TakenOver {
                    by: self.event.by.agent.clone(),
                });
                Ok(())
            }
            Choice::Reset => {
                self.must_afford()?;
                self.ticket.counts = Counts::default();
                self.start_over()
            }
            Choice::Reassign { builder, reviewer } => {
                self.reassign(builder.as_deref(), reviewer.as_deref())
            }
            Choice::Reject => {
                must_say_why(why)?;
                self.fail(why);
                Ok(())
            }
        }
    }

    /// A waiver in the person's name on everything open, then the approval.
    fn accept(&mut self, over_red_checks: bool, why: &str) -> Result<(), Refused> {
        must_say_why(why)?;
        let Some(submission) = &self.ticket.submission else {
            return Err(Refused::NothingToAccept);
        };
        self.must_not_judge_own_work()?;
        let green = self.ticket.checks.as_ref().is_some_and(|checks| {
            checks.commit == submission.commit
                && checks.results.iter().all(|r| r.outcome.is_green())
        });
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
        for id in open {
            self.ticket.ledger.waive(round, &name, &id, why);
        }
        self.approve(ApprovedBy::Person {
            name,
            why: why.to_owned(),
            over_red_checks: !green,
        });
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Refused> {
        self.must_afford()?;
        if asks_for_rounds(&self.ticket) {
            self.grant_round()?;
            self.ticket.escalation = None;
            let setback = self.ticket.setback.take().unwrap_or(Setback::Findings);
            self.rework(setback);
            return Ok(());
        }
        self.resume();
        Ok(())
    }

    fn must_afford(&self) -> Result<(), Refused> {
        self.over_budget()
            .map_or(Ok(()), |limit| Err(Refused::BudgetUsedUp { limit }))
    }

    /// One more verdict than there have been, never past the hard cap.
    fn grant_round(&mut self) -> Result<(), Refused> {
        let verdicts = self.ticket.counts.verdicts;
        if verdicts >= ROUNDS_HARD_CAP {
            return Err(Refused::HardCap { verdicts });
        }
        let missing = (verdicts + 1).saturating_sub(self.policy.max_rounds);
        self.ticket.counts.granted = self.ticket.counts.granted.max(missing);
        Ok(())
    }

    /// The interrupted step once more; the counters that stopped it start again.
    fn resume(&mut self) {
        let from = self
            .ticket
            .escalation
            .take()
            .map_or(Stage::Queued, |escalation| escalation.from);
        let Counts {
            verdicts, granted, ..
        } = self.ticket.counts;
        self.ticket.counts = Counts {
            verdicts,
            granted,
            ..Counts::default()
        };
        match from {
            Stage::Checking => self.order_check(),
            Stage::Reviewing => self.to_review(),
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

    fn start_over(&mut self) -> Result<(), Refused> {
        self.ticket.escalation = None;
        self.order_build();
        Ok(())
    }

    fn reassign(&mut self, builder: Option<&str>, reviewer: Option<&str>) -> Result<(), Refused> {
        if builder.is_none() && reviewer.is_none() {
            return Err(Refused::NobodyNamed);
        }
        self.must_afford()?;
        if asks_for_rounds(&self.ticket) {
            self.grant_round()?;
        }
        if let Some(name) = reviewer {
            self.ticket.assigned.reviewer = Some(name.to_owned());
        }
        let Some(name) = builder else {
            return self.review_anew();
        };
        self.ticket.assigned.builder = Some(name.to_owned());
        self.ticket.assigned.session = None;
        self.start_over()
    }

    /// The same commit before another reviewer.
    fn review_anew(&mut self) -> Result<(), Refused> {
        if self.ticket.checks.is_none() {
            self.resume();
            return Ok(());
        }
        self.ticket.escalation = None;
        self.to_review();
        Ok(())
    }

    pub(super) fn resubmitted(&mut self, submission: &Submission) -> Result<(), Refused> {
        let Some(Blocked::TakenOver { .. }) = self.ticket.blocked else {
            return Err(Refused::NotNow {
                event: self.event.what.name(),
                stage: self.ticket.stage,
                stages: &[],
            });
        };
        if submission.commit.is_empty() || submission.files.is_empty() {
            return Err(Refused::EmptyChange);
        }
        self.ticket.blocked = None;
        // The person's own work deserves a review, so they grant the round; at the hard cap the
        // checks still run, and then somebody decides again.
        if self.rounds_used_up() && self.ticket.counts.verdicts < ROUNDS_HARD_CAP {
            self.grant_round()?;
        }
        self.put_forward(submission);
        self.order_check();
        Ok(())
    }

    pub(super) fn waived(&mut self, finding: &str, why: &str) -> Result<(), Refused> {
        must_say_why(why)?;
        self.must_not_judge_own_work()?;
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        if self.ticket.ledger.waive(round, &by, finding, why) {
            return Ok(());
        }
        Err(Refused::NoSuchFinding {
            id: finding.to_owned(),
        })
    }

    pub(super) fn budget_raised(&mut self, budget: Budget, why: &str) -> Result<(), Refused> {
        must_say_why(why)?;
        self.ticket.budget = Some(budget);
        Ok(())
    }

    pub(super) fn budget_reached(&mut self, limit: &str) -> Result<(), Refused> {
        let from = self.ticket.stage;
        self.escalate(
            Reason::Budget {
                limit: limit.to_owned(),
            },
            from,
            limit,
        );
        Ok(())
    }

    pub(super) fn help_requested(&mut self, why: &str) -> Result<(), Refused> {
        let (from, by) = (self.ticket.stage, self.event.by.agent.clone());
        self.escalate(Reason::HelpRequested { by }, from, why);
        Ok(())
    }
}

fn must_say_why(why: &str) -> Result<(), Refused> {
    if why.trim().is_empty() {
        Err(Refused::NoReason)
    } else {
        Ok(())
    }
}
