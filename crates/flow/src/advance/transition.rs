//! A decision in progress: the new ticket and its effects so far.

use std::collections::{BTreeMap, BTreeSet};

use super::Step;
use crate::event::Event;
use crate::job::{DependencyUpdate, Effect, NewJob, OpenJob, Task};
use crate::ledger::Ledger;
use crate::policy::{Policy, StartDependents};
use crate::ticket::{
    Assignees, Counts, Escalation, Reason, ReworkReason, Spec, Stage, Ticket, TicketId,
    TicketUsage, Time,
};
use crate::usage::{Caps, Usage};

/// The ticket and its effects while one event is applied.
#[derive(Debug)]
pub struct Transition<'a> {
    pub ticket: Ticket,
    pub effects: Vec<Effect>,
    pub event: &'a Event,
    pub policy: &'a Policy,
}

/// Returns a ticket before its first event.
pub fn new_ticket(id: &TicketId, spec: &Spec, at: Time) -> Ticket {
    Ticket {
        id: id.clone(),
        version: 0,
        stage: Stage::Pending,
        spec: spec.clone(),
        created_at: at,
        updated_at: at,
        waits_for: BTreeSet::new(),
        broken: BTreeMap::new(),
        jobs: Vec::new(),
        jobs_ordered: 0,
        round: 1,
        counts: Counts::default(),
        submission: None,
        checks: None,
        seats: Vec::new(),
        review_started_at: at,
        verified_new: false,
        ledger: Ledger::default(),
        setback: None,
        rounds: Vec::new(),
        approval: None,
        approvals_voided: Vec::new(),
        authors: BTreeSet::new(),
        families: BTreeSet::new(),
        builders: BTreeSet::new(),
        spent: TicketUsage::default(),
        budget: None,
        assigned: Assignees::default(),
        escalation: None,
        blocked: None,
        landed: None,
        ended: None,
    }
}

fn round_is_over(ticket: &Ticket) -> bool {
    ticket
        .rounds
        .last()
        .is_some_and(|last| last.number >= ticket.round)
}

/// Usage of the current round, or zero once the round is over.
pub fn spent_in_round(ticket: &Ticket) -> Usage {
    if round_is_over(ticket) {
        Usage::default()
    } else {
        ticket.spent.round
    }
}

/// Limits of one run: the rest of the round's and of the ticket's budget.
pub fn remaining_budget(ticket: &Ticket, policy: &Policy) -> Caps {
    let budget = ticket.budget.unwrap_or(policy.budget);
    let round = budget.round.remaining_after(spent_in_round(ticket));
    round.tighter_of(budget.ticket.remaining_after(ticket.spent.ticket))
}

/// Returns the budget limit that is reached, if any. A finished round's usage counts only for the
/// ticket.
pub fn exceeded_budget(ticket: &Ticket, policy: &Policy) -> Option<String> {
    let budget = ticket.budget.unwrap_or(policy.budget);
    let round = budget.round.reached_by(spent_in_round(ticket));
    round.map(|text| format!("this round: {text}")).or_else(|| {
        let whole = budget.ticket.reached_by(ticket.spent.ticket);
        whole.map(|text| format!("this ticket: {text}"))
    })
}

/// Returns the day's limit, by this ticket's budget, that all tickets together have reached.
pub fn exceeded_daily_budget(
    ticket: &Ticket,
    policy: &Policy,
    spent_today: Usage,
) -> Option<String> {
    let caps = ticket.budget.unwrap_or(policy.budget).day;
    let reached = caps.reached_by(spent_today)?;
    Some(format!("this day, over all tickets: {reached}"))
}

impl<'a> Transition<'a> {
    pub fn new(ticket: &Ticket, event: &'a Event, policy: &'a Policy) -> Self {
        let mut ticket = ticket.clone();
        ticket.version += 1;
        ticket.updated_at = event.at;
        Self {
            ticket,
            effects: Vec::new(),
            event,
            policy,
        }
    }

    pub fn into_step(self) -> Step {
        Step {
            ticket: self.ticket,
            effects: self.effects,
        }
    }

    pub fn add_usage(&mut self, usage: Usage) {
        self.ticket.spent.round = self.ticket.spent.round.plus(usage);
        self.ticket.spent.ticket = self.ticket.spent.ticket.plus(usage);
    }

    /// Returns whether paid work may go on. If not, it escalates the ticket.
    pub fn check_budget(&mut self, from: Stage) -> bool {
        let Some(limit) = exceeded_budget(&self.ticket, self.policy) else {
            return true;
        };
        self.escalate(
            Reason::Budget {
                limit: limit.clone(),
            },
            from,
            &limit,
        );
        false
    }

    /// Stops paid jobs that still run if this report used up their shared budget.
    pub fn stop_paid_jobs_over_budget(&mut self) {
        if self.ticket.jobs.iter().any(|job| job.task.is_paid()) {
            self.check_budget(self.idle_stage());
        }
    }

    pub fn order_job(&mut self, task: Task, agent: Option<String>) {
        self.ticket.jobs_ordered += 1;
        let serial = self.ticket.jobs_ordered;
        self.ticket.jobs.push(OpenJob {
            serial,
            task: task.clone(),
            attempts: 0,
            fence: 0,
            holder: None,
            agent: agent.clone(),
            stand_in: false,
        });
        self.enqueue(serial, task, agent);
    }

    /// Orders a job that notifies dependent tickets. The ticket does not wait for its end.
    pub fn notify_dependents(&mut self, news: DependencyUpdate) {
        self.ticket.jobs_ordered += 1;
        self.enqueue(self.ticket.jobs_ordered, Task::Tell { news }, None);
    }

    fn enqueue(&mut self, serial: u32, task: Task, agent: Option<String>) {
        let (priority, not_before) = (self.ticket.spec.priority, self.event.at);
        self.effects.push(Effect::Enqueue(NewJob {
            serial,
            task,
            priority,
            not_before,
            agent,
        }));
    }

    pub fn job_mut(&mut self, serial: u32) -> Option<&mut OpenJob> {
        self.ticket.jobs.iter_mut().find(|job| job.serial == serial)
    }

    /// Closes the reported job as done.
    pub fn finish_job(&mut self, serial: u32) {
        self.ticket.jobs.retain(|job| job.serial != serial);
        self.effects.push(Effect::Finish { serial });
    }

    /// Drops all open jobs.
    pub fn drop_jobs(&mut self, why: &str) {
        for job in std::mem::take(&mut self.ticket.jobs) {
            self.effects.push(Effect::Drop {
                serial: job.serial,
                why: why.to_owned(),
            });
        }
    }

    pub fn escalate(&mut self, reason: Reason, from: Stage, evidence: &str) {
        self.drop_jobs("the ticket waits for a person");
        self.ticket.stage = Stage::Escalated;
        let (at, evidence) = (self.event.at, evidence.to_owned());
        self.ticket.escalation = Some(Escalation {
            reason,
            from,
            at,
            evidence,
        });
    }

    pub fn fail_ticket(&mut self, why: &str) {
        self.end_ticket(Stage::Failed, why);
        self.notify_dependents(DependencyUpdate::Failed {
            why: format!("{} failed: {why}", self.ticket.id),
        });
    }

    pub fn on_cancelled(&mut self, why: &str) {
        self.end_ticket(Stage::Cancelled, why);
        self.notify_dependents(DependencyUpdate::Failed {
            why: format!("{} was cancelled: {why}", self.ticket.id),
        });
    }

    fn end_ticket(&mut self, stage: Stage, why: &str) {
        self.drop_jobs(why);
        self.ticket.stage = stage;
        self.ticket.escalation = None;
        self.ticket.blocked = None;
        self.ticket.ended = Some(why.to_owned());
    }

    /// Lets dependent tickets start, if the policy starts them at this moment.
    pub fn notify_dependents_met_at(&mut self, moment: StartDependents) {
        if self.policy.start_dependents == moment {
            self.notify_dependents(DependencyUpdate::Met);
        }
    }

    /// Begins the next round if the current one has its verdict.
    pub fn enter_round(&mut self) {
        if round_is_over(&self.ticket) {
            self.ticket.round += 1;
            self.ticket.spent.round = Usage::default();
            self.ticket.counts.red_checks = 0;
            self.ticket.counts.unusable_reviews = 0;
            self.ticket.counts.unfixed = 0;
        }
    }

    /// Stage in which the ticket waits for its builder.
    pub fn build_stage(&self) -> Stage {
        if self.ticket.setback.is_some() {
            Stage::Rework
        } else {
            Stage::Queued
        }
    }

    /// Sends the ticket back to its builder, unless the rounds or the budget are used up.
    pub fn start_rework(&mut self, setback: ReworkReason) {
        self.ticket.setback = Some(setback);
        if self.rounds_used_up() {
            return self.on_rounds_exhausted();
        }
        self.order_build();
    }

    /// Orders a build. This voids an approval.
    pub fn order_build(&mut self) {
        let stage = self.build_stage();
        self.void_approval();
        self.enter_round();
        if !self.check_budget(stage) {
            return;
        }
        self.ticket.stage = stage;
        let task = Task::Build {
            round: self.ticket.round,
        };
        self.order_job(task, self.ticket.assigned.builder.clone());
    }
}
