//! Leases: a job's report counts only under the newest fencing token, from the one who holds it.

use super::Refused;
use super::draft::Transition;
use super::stand_in::built_by;
use crate::event::{Event, EventKind, Failure, Lease, Role};
use crate::job::{Effect, OpenJob, Task};
use crate::policy::{OnExhausted, Policy};
use crate::ticket::{Reason, Stage, Ticket, Time};

/// The task that an event reports on.
pub fn task<'a>(ticket: &'a Ticket, what: &EventKind) -> Option<&'a Task> {
    let lease = what.lease()?;
    ticket
        .jobs
        .iter()
        .find(|job| job.serial == lease.serial)
        .map(|job| &job.task)
}

/// Asks whether the report's lease is the live one and fits the event.
pub fn admit(ticket: &Ticket, event: &Event, policy: &Policy) -> Result<(), Refused> {
    let Some(lease) = event.what.lease() else {
        return Ok(());
    };
    let serial = lease.serial;
    let job = ticket
        .jobs
        .iter()
        .find(|job| job.serial == serial)
        .ok_or(Refused::NoSuchJob { serial })?;
    let stale = Refused::StaleFence {
        serial,
        given: lease.fence,
        current: job.fence,
    };
    if matches!(event.what, EventKind::Started { .. }) {
        if lease.fence <= job.fence {
            return Err(stale);
        }
        return may_take(ticket, job, event, policy);
    }
    let live = match job.holder {
        Some(_) => lease.fence == job.fence,
        // A lease can be lost, or given back, before its start was reported: the token is newer
        // then. An equal one has been given back already.
        None => ends_a_try(&event.what) && lease.fence > job.fence,
    };
    if !live {
        return Err(stale);
    }
    if !fits(&event.what, &job.task) {
        let (task, event) = (job.task.word(), event.what.name());
        return Err(Refused::WrongJob {
            serial,
            task,
            event,
        });
    }
    must_be_its_commit(&event.what, &job.task)?;
    held_by(job, event)
}

/// A judgement is about the commit that its job was made for.
fn must_be_its_commit(what: &EventKind, task: &Task) -> Result<(), Refused> {
    let (EventKind::Reviewed { commit: given, .. } | EventKind::Verified { commit: given, .. }) =
        what
    else {
        return Ok(());
    };
    let (Task::Review { commit, .. } | Task::Verify { commit, .. }) = task else {
        return Ok(());
    };
    if commit == given {
        return Ok(());
    }
    Err(Refused::OtherCommit {
        given: given.clone(),
        current: commit.clone(),
    })
}

fn ends_a_try(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::LeaseLost { .. } | EventKind::JobFailed { .. }
    )
}

/// Nobody takes a job from its holder, nor one that judges their own work.
fn may_take(ticket: &Ticket, job: &OpenJob, event: &Event, policy: &Policy) -> Result<(), Refused> {
    if let Some(holder) = &job.holder {
        return Err(not_holder(job, holder, event));
    }
    let judges = matches!(job.task, Task::Review { .. } | Task::Verify { .. });
    if judges && (ticket.authors.contains(&event.by.principal) || has_built(ticket, job, event)) {
        return Err(Refused::OwnWork {
            principal: event.by.principal.clone(),
        });
    }
    if let Some(reviewer) = super::follow_ups::reviewer_of(ticket, &job.task)
        && event.by.agent != reviewer
    {
        return Err(Refused::NotTheReviewer {
            reviewer: reviewer.to_owned(),
            given: event.by.agent.clone(),
        });
    }
    if judges && policy.other_family && !is_linter(&job.task, policy) {
        return must_be_of_another_family(ticket, event);
    }
    Ok(())
}

/// One program in two roles is a person's choice; it is never what a stand-in makes of it.
fn has_built(ticket: &Ticket, job: &OpenJob, event: &Event) -> bool {
    let written = event.by.written.as_ref();
    written.is_some_and(|name| {
        ticket.authors.contains(name) || (job.stand_in && built_by(ticket, name))
    })
}

fn is_linter(task: &Task, policy: &Policy) -> bool {
    let Task::Review { seat, .. } = task else {
        return false;
    };
    let mut seats = policy.reviewers.iter();
    seats.any(|spec| spec.name == *seat && spec.is_linter())
}

fn must_be_of_another_family(ticket: &Ticket, event: &Event) -> Result<(), Refused> {
    let agent = event.by.agent.clone();
    match &event.by.family {
        None => Err(Refused::UnknownFamily { agent }),
        Some(family) if ticket.families.contains(family) => Err(Refused::SameFamily {
            agent,
            family: family.clone(),
        }),
        Some(_) => Ok(()),
    }
}

fn held_by(job: &OpenJob, event: &Event) -> Result<(), Refused> {
    // The house may say that somebody else's run failed or ended without an answer.
    let house_says = matches!(event.by.role, Role::Service | Role::Admin)
        && (ends_a_try(&event.what) || matches!(event.what, EventKind::ReviewUnusable { .. }));
    match &job.holder {
        Some(holder) if *holder != event.by.principal && !house_says => {
            Err(not_holder(job, holder, event))
        }
        Some(_) | None => Ok(()),
    }
}

fn not_holder(job: &OpenJob, holder: &str, event: &Event) -> Refused {
    Refused::NotHolder {
        serial: job.serial,
        holder: holder.to_owned(),
        given: event.by.principal.clone(),
    }
}

fn fits(what: &EventKind, task: &Task) -> bool {
    match what {
        EventKind::Submitted { .. } => matches!(task, Task::Build { .. }),
        EventKind::Checked { .. } => matches!(task, Task::Check { .. }),
        EventKind::Reviewed { .. } | EventKind::ReviewUnusable { .. } => {
            matches!(task, Task::Review { .. })
        }
        EventKind::Verified { .. } => matches!(task, Task::Verify { .. }),
        EventKind::Landed { .. }
        | EventKind::Conflicted { .. }
        | EventKind::CombinationRed { .. }
        | EventKind::WentStale { .. } => matches!(task, Task::Merge { .. }),
        EventKind::HelpRequested { .. } => task.is_paid(),
        EventKind::Started { .. }
        | EventKind::JobFailed { .. }
        | EventKind::LeaseLost { .. }
        | EventKind::Created { .. }
        | EventKind::DependencyMet { .. }
        | EventKind::DependencyFailed { .. }
        | EventKind::DependencyRepaired { .. }
        | EventKind::DependenciesSet { .. }
        | EventKind::AgentOut { .. }
        | EventKind::BudgetReached { .. }
        | EventKind::BudgetRaised { .. }
        | EventKind::Waived { .. }
        | EventKind::Settled { .. }
        | EventKind::Resubmitted { .. }
        | EventKind::Cancelled { .. } => true,
    }
}

impl Transition<'_> {
    pub(super) fn started(&mut self, lease: Lease) -> Result<(), Refused> {
        let principal = self.event.by.principal.clone();
        let Some(job) = self.job_mut(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        job.fence = lease.fence;
        job.holder = Some(principal);
        match job.task {
            Task::Build { .. } => self.ticket.stage = Stage::Building,
            Task::Merge { .. } => self.ticket.stage = Stage::Merging,
            Task::Check { .. } | Task::Review { .. } | Task::Verify { .. } | Task::Tell { .. } => {}
        }
        Ok(())
    }

    pub(super) fn lease_lost(&mut self, lease: Lease) -> Result<(), Refused> {
        self.try_again(lease, "the worker's lease ran out")
    }

    pub(super) fn job_failed(
        &mut self,
        lease: Lease,
        failure: Failure,
        message: &str,
    ) -> Result<(), Refused> {
        let is_out = matches!(
            failure,
            Failure::Quota { .. } | Failure::Permanent | Failure::NoJudge
        );
        if is_out && self.hand_over(lease.serial, message) {
            return Ok(());
        }
        match failure {
            Failure::Transient => self.try_again(lease, message),
            Failure::Quota { until } | Failure::Deferred { until } => {
                let until = until.max(self.event.at);
                self.give_back(lease, until);
                Ok(())
            }
            Failure::Interrupted => {
                self.give_back(lease, self.event.at);
                Ok(())
            }
            Failure::Permanent => {
                self.give_up(lease.serial, message);
                Ok(())
            }
            Failure::NoJudge => {
                self.bury(lease.serial, message);
                self.nobody_to_judge(message);
                Ok(())
            }
            Failure::Budget => {
                self.bury(lease.serial, message);
                let from = self.resting_stage();
                self.escalate(
                    Reason::Budget {
                        limit: message.to_owned(),
                    },
                    from,
                    message,
                );
                Ok(())
            }
        }
    }

    fn try_again(&mut self, lease: Lease, why: &str) -> Result<(), Refused> {
        let Some(job) = self.job_mut(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        job.attempts += 1;
        let attempts = job.attempts;
        if attempts > self.policy.limits.retries_max {
            self.give_up(lease.serial, why);
            return Ok(());
        }
        let not_before = self
            .event
            .at
            .plus_ms(self.backoff_ms(lease.serial, attempts));
        self.give_back(lease, not_before);
        Ok(())
    }

    fn give_back(&mut self, lease: Lease, not_before: Time) {
        let from = self.resting_stage();
        let mut paid = false;
        if let Some(job) = self.job_mut(lease.serial) {
            job.holder = None;
            job.fence = job.fence.max(lease.fence);
            paid = job.task.is_paid();
        }
        if paid && !self.affords(from) {
            return;
        }
        self.ticket.stage = from;
        self.effects.push(Effect::Retry {
            serial: lease.serial,
            not_before,
        });
    }

    fn give_up(&mut self, serial: u32, why: &str) {
        let task = self
            .job_mut(serial)
            .map(|job| job.task.word())
            .unwrap_or_default();
        self.bury(serial, why);
        let from = self.resting_stage();
        match self.policy.on_exhausted {
            OnExhausted::Fail => self.fail(&format!("{task} failed for good: {why}")),
            OnExhausted::Escalate => {
                let reason = Reason::RetriesExhausted {
                    task: task.to_owned(),
                    error: why.to_owned(),
                };
                self.escalate(reason, from, why);
            }
        }
    }

    pub(super) fn bury(&mut self, serial: u32, why: &str) {
        self.ticket.jobs.retain(|job| job.serial != serial);
        self.effects.push(Effect::Bury {
            serial,
            why: why.to_owned(),
        });
    }

    /// Where the ticket waits when its job has nobody at work on it.
    pub(super) fn resting_stage(&self) -> Stage {
        match self.ticket.stage {
            Stage::Building => self.build_stage(),
            Stage::Merging => Stage::Approved,
            other => other,
        }
    }

    fn backoff_ms(&self, serial: u32, attempts: u32) -> u64 {
        let job = format!("{}/{serial}", self.ticket.id);
        self.policy.limits.backoff_ms(&job, attempts)
    }
}
