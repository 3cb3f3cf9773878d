//! Jobs and leases: a job's report counts only under the newest fencing token and from its holder.
//! Failed jobs are retried, handed to a fallback agent or given up.

use super::Refused;
use super::fallback::built_by;
use super::transition::Transition;
use crate::event::{Event, EventKind, Failure, Lease, Role};
use crate::job::{Effect, OpenJob, Task};
use crate::policy::{OnExhausted, Policy};
use crate::ticket::{Reason, Stage, Ticket, Time};

/// Returns the task that an event reports on.
pub fn reported_task<'a>(ticket: &'a Ticket, what: &EventKind) -> Option<&'a Task> {
    let lease = what.lease()?;
    ticket
        .jobs
        .iter()
        .find(|job| job.serial == lease.serial)
        .map(|job| &job.task)
}

/// Checks that the report's lease is the live one, and that its job fits the event and the caller.
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
        return ensure_may_claim(ticket, job, event, policy);
    }
    let live = match job.holder {
        Some(_) => lease.fence == job.fence,
        // A lease can be lost or given back before its start was reported: its token is newer
        // then. A lease with an equal token was already given back.
        None => ends_attempt(&event.what) && lease.fence > job.fence,
    };
    if !live {
        return Err(stale);
    }
    if !event_fits_task(&event.what, &job.task) {
        let (task, event) = (job.task.word(), event.what.name());
        return Err(Refused::WrongJob {
            serial,
            task,
            event,
        });
    }
    ensure_commit_of_job(&event.what, &job.task)?;
    ensure_holder(job, event)
}

/// Checks that a review or a verification is about the commit of its job.
fn ensure_commit_of_job(what: &EventKind, task: &Task) -> Result<(), Refused> {
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

fn ends_attempt(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::LeaseLost { .. } | EventKind::JobFailed { .. }
    )
}

/// Checks that the caller may start the job: it has no holder, and the caller may judge the change.
fn ensure_may_claim(
    ticket: &Ticket,
    job: &OpenJob,
    event: &Event,
    policy: &Policy,
) -> Result<(), Refused> {
    if let Some(holder) = &job.holder {
        return Err(not_holder(job, holder, event));
    }
    let judges = matches!(job.task, Task::Review { .. } | Task::Verify { .. });
    if judges && (ticket.authors.contains(&event.by.principal) || has_built(ticket, job, event)) {
        return Err(Refused::OwnWork {
            principal: event.by.principal.clone(),
        });
    }
    if let Some(reviewer) = super::follow_ups::reviewer_asked_to_countersign(ticket, &job.task)
        && event.by.agent != reviewer
    {
        return Err(Refused::NotTheReviewer {
            reviewer: reviewer.to_owned(),
            given: event.by.agent.clone(),
        });
    }
    if judges && policy.other_family && !is_linter(&job.task, policy) {
        return ensure_other_family(ticket, event);
    }
    Ok(())
}

/// Whether the caller's program built the change. A person may configure one program in two roles;
/// a fallback must never cause that.
fn has_built(ticket: &Ticket, job: &OpenJob, event: &Event) -> bool {
    let configured = event.by.written.as_ref();
    configured.is_some_and(|name| {
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

fn ensure_other_family(ticket: &Ticket, event: &Event) -> Result<(), Refused> {
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

fn ensure_holder(job: &OpenJob, event: &Event) -> Result<(), Refused> {
    // Countersign may report that another holder's run failed or ended without an answer.
    let is_by_system = matches!(event.by.role, Role::Service | Role::Admin)
        && (ends_attempt(&event.what) || matches!(event.what, EventKind::ReviewUnusable { .. }));
    match &job.holder {
        Some(holder) if *holder != event.by.principal && !is_by_system => {
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

/// Whether a job of this task can report the event.
fn event_fits_task(what: &EventKind, task: &Task) -> bool {
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
    pub(super) fn on_started(&mut self, lease: Lease) -> Result<(), Refused> {
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

    pub(super) fn on_lease_lost(&mut self, lease: Lease) -> Result<(), Refused> {
        self.retry_job(lease, "the worker's lease ran out")
    }

    pub(super) fn on_job_failed(
        &mut self,
        lease: Lease,
        failure: Failure,
        message: &str,
    ) -> Result<(), Refused> {
        let fallback_helps = matches!(
            failure,
            Failure::Quota { .. } | Failure::Permanent | Failure::NoJudge
        );
        if fallback_helps && self.reassign_to_fallback(lease.serial, message) {
            return Ok(());
        }
        match failure {
            Failure::Transient => self.retry_job(lease, message),
            Failure::Quota { until } | Failure::Deferred { until } => {
                let until = until.max(self.event.at);
                self.requeue_job(lease, until);
                Ok(())
            }
            Failure::Interrupted => {
                self.requeue_job(lease, self.event.at);
                Ok(())
            }
            Failure::Permanent => {
                self.give_up_job(lease.serial, message);
                Ok(())
            }
            Failure::NoJudge => {
                self.bury_job(lease.serial, message);
                self.escalate_no_eligible_reviewer(message);
                Ok(())
            }
            Failure::Budget => {
                self.bury_job(lease.serial, message);
                let from = self.idle_stage();
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

    /// Retries the job after a backoff, or gives it up after too many attempts.
    fn retry_job(&mut self, lease: Lease, why: &str) -> Result<(), Refused> {
        let Some(job) = self.job_mut(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        job.attempts += 1;
        let attempts = job.attempts;
        if attempts > self.policy.limits.retries_max {
            self.give_up_job(lease.serial, why);
            return Ok(());
        }
        let not_before = self
            .event
            .at
            .plus_ms(self.backoff_ms(lease.serial, attempts));
        self.requeue_job(lease, not_before);
        Ok(())
    }

    /// Puts the job back into its queue, unless it is paid and the budget is used up.
    fn requeue_job(&mut self, lease: Lease, not_before: Time) {
        let from = self.idle_stage();
        let mut paid = false;
        if let Some(job) = self.job_mut(lease.serial) {
            job.holder = None;
            job.fence = job.fence.max(lease.fence);
            paid = job.task.is_paid();
        }
        if paid && !self.check_budget(from) {
            return;
        }
        self.ticket.stage = from;
        self.effects.push(Effect::Retry {
            serial: lease.serial,
            not_before,
        });
    }

    /// Ends a job that failed for good, and escalates or fails the ticket.
    fn give_up_job(&mut self, serial: u32, why: &str) {
        let task = self
            .job_mut(serial)
            .map(|job| job.task.word())
            .unwrap_or_default();
        self.bury_job(serial, why);
        let from = self.idle_stage();
        match self.policy.on_exhausted {
            OnExhausted::Fail => self.fail_ticket(&format!("{task} failed for good: {why}")),
            OnExhausted::Escalate => {
                let reason = Reason::RetriesExhausted {
                    task: task.to_owned(),
                    error: why.to_owned(),
                };
                self.escalate(reason, from, why);
            }
        }
    }

    /// Ends the job as failed for good. It is kept with its history.
    pub(super) fn bury_job(&mut self, serial: u32, why: &str) {
        self.ticket.jobs.retain(|job| job.serial != serial);
        self.effects.push(Effect::Bury {
            serial,
            why: why.to_owned(),
        });
    }

    /// Stage in which the ticket waits while no worker holds its job.
    pub(super) fn idle_stage(&self) -> Stage {
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
