//! Jobs and leases: a job's report counts only under the newest fencing token and from its holder.
//! Failed jobs are retried, handed to a fallback agent or given up.
//!
//! The fence is the guard against a worker that was stopped (SIGSTOP, a suspended laptop, a long
//! pause) and wakes up after its lease: another worker has the job then, under a higher fence, and
//! the late report must not count. The store checks the fence again in the write itself.

use super::Refused;
use super::fallback::built_by;
use super::transition::Transition;
use crate::event::{Event, EventKind, Failure, Lease, Role};
use crate::job::{Effect, OpenJob, Task};
use crate::policy::{OnExhausted, Policy, QUOTA_WAITS_MAX};
use crate::ticket::{Reason, Stage, Ticket, TicketId, Time};

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
        // Fences only grow: an equal one was reported as started before.
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
    // After the fence: a stale caller gets told that its lease has ended, which is the true cause.
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
/// The ticket's current commit is checked by the transition. This one stops a report that names the
/// right ticket and job but judges another commit.
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
    // The store grants one lease at a time. A holder here means that its end was not reported yet.
    if let Some(holder) = &job.holder {
        return Err(not_holder(job, holder, event));
    }
    // Only judging is restricted. An author may build again, and checks and merges follow rules of
    // their own.
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
    // A linter is a program without a model, so it has no family.
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
        ticket.authors.contains(name) || (job.fallback && built_by(ticket, name))
    })
}

fn is_linter(task: &Task, policy: &Policy) -> bool {
    let Task::Review { reviewer, .. } = task else {
        return false;
    };
    let mut reviewers = policy.reviewers.iter();
    reviewers.any(|spec| spec.name == *reviewer && spec.is_linter())
}

/// An unknown family is refused: the policy asks for another one, and nobody can show that this is
/// another.
fn ensure_other_family(ticket: &Ticket, event: &Event) -> Result<(), Refused> {
    let agent = event.by.agent.clone();
    // The family is recorded with the caller when it starts. It is not read from the agent's
    // answer.
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
    // A dead worker cannot report its own end.
    // Countersign may report that another holder's run failed or ended without an answer, or that
    // it was not started because the base is red.
    let is_by_system = matches!(event.by.role, Role::Service | Role::Admin)
        && (ends_attempt(&event.what)
            || matches!(
                event.what,
                EventKind::ReviewUnusable { .. } | EventKind::BaseRed { .. }
            ));
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
/// Without this table a build job could report an approval: the fence and the holder would both be
/// right.
fn event_fits_task(what: &EventKind, task: &Task) -> bool {
    match what {
        EventKind::BaseRed { .. } | EventKind::Submitted { .. } => {
            matches!(task, Task::Build { .. })
        }
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
        | EventKind::FindingsAdded { .. }
        | EventKind::ChangeObserved { .. }
        | EventKind::ReportRequested { .. }
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
        // Recorded before the agent runs. From now on only this lease can report.
        job.fence = lease.fence;
        job.holder = Some(principal);
        // Reviews and verifications run in parallel, so a start says nothing about the stage.
        match job.task {
            Task::Build { .. } => self.ticket.stage = Stage::Building,
            Task::Merge { .. } => self.ticket.stage = Stage::Merging,
            Task::Check { .. }
            | Task::Review { .. }
            | Task::Verify { .. }
            | Task::Tell { .. }
            | Task::Report => {}
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
        // A fallback is for causes that a retry does not cure. A transient failure is retried by
        // the same agent.
        let fallback_helps = matches!(
            failure,
            Failure::Quota { .. } | Failure::Permanent | Failure::NoJudge
        );
        if fallback_helps && self.reassign_to_fallback(lease.serial, message) {
            return Ok(());
        }
        match failure {
            Failure::Transient => self.retry_job(lease, message),
            Failure::Quota { until } => self.wait_for_quota(lease, until, message),
            Failure::Deferred { until } => {
                let until = until.max(self.event.at);
                self.requeue_job(lease, until);
                Ok(())
            }
            // A worker that was told to stop did nothing wrong: no attempt is counted and there is
            // no wait.
            Failure::Interrupted => {
                self.requeue_job(lease, self.event.at);
                Ok(())
            }
            Failure::Permanent => {
                self.give_up_job(lease.serial, message);
                Ok(())
            }
            // The job is buried before the escalation, so that the record shows why, and not only
            // that it was dropped.
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

    /// Puts the job back until its provider has quota again. After too many waits of the same job
    /// each further one counts as a failed attempt, so that the ticket reaches a person in the end.
    fn wait_for_quota(&mut self, lease: Lease, until: Time, why: &str) -> Result<(), Refused> {
        let serial = lease.serial;
        let job = self.job_mut(serial).ok_or(Refused::NoSuchJob { serial })?;
        let waits = job.quota_waits;
        job.quota_waits = waits.saturating_add(1);
        let name = format!("{}/{serial}", self.ticket.id);
        let at = self.event.at;
        // The provider's time is text of an agent and may be wrong by years, in either direction.
        // The policy limits it, and grows it from wait to wait.
        let until = self.policy.limits.quota_wait(&name, waits, until, at);
        if waits < QUOTA_WAITS_MAX {
            self.requeue_job(lease, until);
            return Ok(());
        }
        self.retry_job_after(lease, until, why)
    }

    /// Retries the job after a backoff, or gives it up after too many attempts.
    fn retry_job(&mut self, lease: Lease, why: &str) -> Result<(), Refused> {
        self.retry_job_after(lease, self.event.at, why)
    }

    /// Retries the job after a backoff and not before this time.
    fn retry_job_after(&mut self, lease: Lease, after: Time, why: &str) -> Result<(), Refused> {
        let Some(job) = self.job_mut(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        // Counted before the limit is read: `retries_max = 0` means one attempt.
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
        self.requeue_job(lease, not_before.max(after));
        Ok(())
    }

    /// Puts the job back into its queue, unless it is paid and the budget is used up.
    fn requeue_job(&mut self, lease: Lease, not_before: Time) {
        let from = self.idle_stage();
        let mut paid = false;
        if let Some(job) = self.job_mut(lease.serial) {
            job.holder = None;
            // The report may come from a lease whose start was never seen. Its fence has to be
            // remembered, else that lease could report a second time.
            job.fence = job.fence.max(lease.fence);
            paid = job.task.is_paid();
        }
        // Checks and merges cost nothing and go on with an empty budget.
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
        retry_wait_ms(self.policy, &self.ticket.id, serial, attempts)
    }
}

/// Returns the wait before the next try of a job that failed so many times.
///
/// The name of the job seeds the jitter, so that jobs that failed together do not come back
/// together. It is a hash and no random number, because replay has to give the same time.
pub(crate) fn retry_wait_ms(policy: &Policy, id: &TicketId, serial: u32, attempts: u32) -> u64 {
    policy
        .limits
        .backoff_ms(&format!("{id}/{serial}"), attempts)
}
