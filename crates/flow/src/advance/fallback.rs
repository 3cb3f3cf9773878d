//! Fallback agents: one takes a job whose agent is out of quota, not installed, not logged in or
//! not allowed to judge. Each job has at most one fallback, and no fallback judges its own work.
//!
//! One fallback per job bounds the number of agents that a failing job can go through.

use super::Refused;
use super::transition::Transition;
use crate::job::Task;
use crate::policy::Policy;
use crate::ticket::Ticket;

/// Returns the fallback agent for this job, as the policy writes it, if one may take it.
pub fn fallback_agent(ticket: &Ticket, policy: &Policy, serial: u32) -> Option<String> {
    let job = ticket.jobs.iter().find(|job| job.serial == serial)?;
    // No other agent can answer whether this reviewer countersigns.
    if super::follow_ups::reviewer_asked_to_countersign(ticket, &job.task).is_some() {
        return None;
    }
    // The filter stops a second fallback of the same job.
    fallback_other_than(ticket, policy, &job.task, job.agent.as_deref()).filter(|_| !job.fallback)
}

/// Returns the fallback for the task if it is another agent and may do it.
fn fallback_other_than(
    ticket: &Ticket,
    policy: &Policy,
    task: &Task,
    agent: Option<&str>,
) -> Option<String> {
    let name = policy.fallback_for(task)?;
    // A fallback with the same name would fail for the same reason as the agent it replaces.
    let may = agent != Some(name) && !would_judge_own_work(ticket, task, name);
    may.then(|| name.to_owned())
}

fn would_judge_own_work(ticket: &Ticket, task: &Task, name: &str) -> bool {
    match task {
        Task::Review { .. } | Task::Verify { .. } => {
            ticket.authors.contains(name) || built_by(ticket, name)
        }
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Merge { .. }
        | Task::Tell { .. }
        | Task::Report => false,
    }
}

/// Whether a program of this name built the change. Another model of the same program counts too.
pub(super) fn built_by(ticket: &Ticket, name: &str) -> bool {
    let mut builders = ticket.builders.iter();
    builders.any(|builder| program_of(builder) == program_of(name))
}

fn program_of(name: &str) -> &str {
    match name.rsplit_once('@') {
        // A command line may contain any character; only a plain name has a model after the `@`.
        Some((program, _)) if !name.contains(':') => program,
        Some(_) | None => name,
    }
}

impl Transition<'_> {
    pub(super) fn on_agent_out(&mut self, serial: u32, why: &str) -> Result<(), Refused> {
        let job = self.job_mut(serial).ok_or(Refused::NoSuchJob { serial })?;
        // The agent is reported out before it starts. If a worker holds the job, its own report
        // decides, and this one would take the job from a running agent.
        if let Some(holder) = job.holder.clone() {
            let given = self.event.by.principal.clone();
            return Err(Refused::NotHolder {
                serial,
                holder,
                given,
            });
        }
        if self.reassign_to_fallback(serial, why) {
            Ok(())
        } else {
            Err(Refused::NoFallback { serial })
        }
    }

    /// Ends the job and orders it again for its fallback. Returns false if there is none.
    pub(super) fn reassign_to_fallback(&mut self, serial: u32, why: &str) -> bool {
        let Some(agent) = fallback_agent(&self.ticket, self.policy, serial) else {
            return false;
        };
        let Some(task) = self.job_mut(serial).map(|job| job.task.clone()) else {
            return false;
        };
        // The old job is buried rather than requeued, so that its history keeps the agent and the
        // error.
        self.bury_job(serial, why);
        let from = self.idle_stage();
        // The budget can be used up by the failed run. Then the ticket waits for a person and the
        // fallback costs nothing.
        if self.check_budget(from) {
            self.ticket.stage = from;
            self.order_fallback_job(task, agent);
        }
        true
    }

    /// Orders the task from the fallback of this agent. Returns false if there is none.
    pub(super) fn order_from_fallback(&mut self, task: Task, agent: &str) -> bool {
        let Some(other) = fallback_other_than(&self.ticket, self.policy, &task, Some(agent)) else {
            return false;
        };
        self.order_fallback_job(task, other);
        true
    }

    /// Marks the new job as a fallback, which gives it stricter rules: its agent may share no
    /// program with the builder.
    fn order_fallback_job(&mut self, task: Task, agent: String) {
        self.order_job(task, Some(agent));
        if let Some(job) = self.ticket.jobs.last_mut() {
            job.fallback = true;
        }
    }
}
