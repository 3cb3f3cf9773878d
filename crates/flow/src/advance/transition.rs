//! A decision in progress: the new ticket and its effects so far.
//!
//! A transition changes its own copy. Effects are collected as data and written by the store in the
//! transaction that writes the ticket, so that no job exists without its ticket's state and none is
//! lost.

use std::collections::{BTreeMap, BTreeSet};

use super::Step;
use crate::event::Event;
use crate::job::{DependencyUpdate, Effect, KeptFor, NewJob, OpenJob, Task};
use crate::ledger::Ledger;
use crate::policy::{Policy, StartDependents};
use crate::ticket::{
    Assignees, Counts, Escalation, Reason, ReworkReason, Spec, Stage, Ticket, TicketId,
    TicketUsage, Time,
};
use crate::usage::{Caps, Usage};

/// Most agents that are named as without a price.
/// The list informs a person who sees a cost of zero. It is stored with the ticket, so it is
/// bounded.
const UNPRICED_MAX: usize = 20;
/// Time for which a rework is kept for its builder. Agents of other systems look for work every 30
/// seconds.
const REWORK_KEPT_MS: u64 = 40_000;

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
        // The first round is 1 before anything is submitted: people count rounds from 1.
        round: 1,
        counts: Counts::default(),
        submission: None,
        checks: None,
        panel: Vec::new(),
        review_started_at: at,
        verified_new: false,
        ledger: Ledger::default(),
        rework_reason: None,
        rounds: Vec::new(),
        approval: None,
        approvals_voided: Vec::new(),
        authors: BTreeSet::new(),
        families: BTreeSet::new(),
        builders: BTreeSet::new(),
        spent: TicketUsage::default(),
        unpriced: BTreeSet::new(),
        budget: None,
        assigned: Assignees::default(),
        escalation: None,
        blocked: None,
        landed: None,
        change: None,
        ended: None,
    }
}

// The number of the last verdict is compared and not the stage: a ticket in rework is between two
// rounds.
fn round_is_over(ticket: &Ticket) -> bool {
    ticket
        .rounds
        .last()
        .is_some_and(|last| last.number >= ticket.round)
}

/// Usage of the current round, or zero once the round is over.
/// A finished round's money must not stop the next one, which has a budget of its own.
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

/// Returns the day's limit, by this ticket's budget, that all tickets together have reached. The
/// sum of all tickets comes from the caller: this ticket cannot know the others.
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
        // Every event raises the version by one. The store compares it in its write, so that of two
        // workers that decide at once one has to decide again.
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
        if usage.unpriced_runs > 0 && self.ticket.unpriced.len() < UNPRICED_MAX {
            let by = &self.event.by;
            // The configured name is what a person finds in the settings.
            let agent = by.written.as_ref().unwrap_or(&by.agent);
            self.ticket.unpriced.insert(agent.clone());
        }
    }

    /// Returns whether paid work may go on. If not, it escalates the ticket.
    pub fn check_budget(&mut self, from: Stage) -> bool {
        let Some(limit) = exceeded_budget(&self.ticket, self.policy) else {
            return true;
        };
        // The caller names the stage to return to, because the ticket may be in the middle of a
        // change.
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
            // `check_budget` drops the jobs with the escalation.
            self.check_budget(self.idle_stage());
        }
    }

    pub fn order_job(&mut self, task: Task, agent: Option<String>) {
        self.ticket.jobs_ordered += 1;
        // Serials are never used again, so that a late report of an old job cannot meet a new one.
        let serial = self.ticket.jobs_ordered;
        self.ticket.jobs.push(OpenJob {
            serial,
            task: task.clone(),
            attempts: 0,
            fence: 0,
            holder: None,
            agent: agent.clone(),
            fallback: false,
            kept_for: None,
            quota_waits: 0,
        });
        self.enqueue(serial, task, agent);
    }

    /// Orders a job that notifies dependent tickets. The ticket does not wait for its end.
    pub fn notify_dependents(&mut self, update: DependencyUpdate) {
        self.ticket.jobs_ordered += 1;
        // Not among the ticket's open jobs: those hold up its verdict, and the ticket may have
        // ended when this one runs.
        self.enqueue(self.ticket.jobs_ordered, Task::Tell { update }, None);
    }

    /// Orders a look at the pull request. The ticket does not wait for its end.
    pub fn order_report(&mut self) {
        self.ticket.jobs_ordered += 1;
        self.enqueue(self.ticket.jobs_ordered, Task::Report, None);
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

    /// Stops all work on the ticket. Agents that still run lose their jobs, so their reports are
    /// refused.
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
        // An ended ticket has neither, so that lists of waiting tickets need only one condition.
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
    /// Rework for red checks and conflicts stays in the same round: only a verdict ends one.
    pub fn enter_round(&mut self) {
        if round_is_over(&self.ticket) {
            self.ticket.round += 1;
            self.ticket.spent.round = Usage::default();
            // These three are limits per round. Conflicts and stale approvals are counted over the
            // whole ticket.
            self.ticket.counts.red_checks = 0;
            self.ticket.counts.unusable_reviews = 0;
            self.ticket.counts.unfixed = 0;
        }
    }

    /// Stage in which the ticket waits for its builder.
    pub fn build_stage(&self) -> Stage {
        if self.ticket.rework_reason.is_some() {
            Stage::Rework
        } else {
            Stage::Queued
        }
    }

    /// Sends the ticket back to its builder, unless the rounds or the budget are used up.
    pub fn start_rework(&mut self, rework_reason: ReworkReason) {
        // Kept before the limit is read, so that a person who continues can still send it to the
        // builder.
        self.ticket.rework_reason = Some(rework_reason);
        if self.rounds_used_up() {
            return self.on_rounds_exhausted();
        }
        self.order_build();
    }

    /// Orders a build. This voids an approval.
    pub fn order_build(&mut self) {
        let stage = self.build_stage();
        // A build makes a new commit, and no approval may outlive the commit it names.
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
        self.keep_rework_for_its_builder();
    }
    /// Keeps a rework for the builder of the current submission for a while: it knows the change. A
    /// builder that a person chose is the only one anyway.
    fn keep_rework_for_its_builder(&mut self) {
        let ticket = &mut self.ticket;
        let is_free = ticket.rework_reason.is_some() && ticket.assigned.builder.is_none();
        let Some(agent) = ticket.assigned.built_by.clone().filter(|_| is_free) else {
            return;
        };
        let until = self.event.at.plus_ms(REWORK_KEPT_MS);
        if let Some(job) = ticket.jobs.last_mut() {
            job.kept_for = Some(KeptFor { agent, until });
        }
    }
}
