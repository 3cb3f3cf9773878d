//! Who takes a job when the one whose it is cannot: out of quota, not installed, not logged in, not
//! allowed to judge. One stand-in a job, and none that would judge what it built.

use super::Refused;
use super::draft::Transition;
use crate::job::Task;
use crate::policy::Policy;
use crate::ticket::Ticket;

/// The agent that would take over this job, as the policy writes it, if one may.
pub fn stand_in(ticket: &Ticket, policy: &Policy, serial: u32) -> Option<String> {
    let job = ticket.jobs.iter().find(|job| job.serial == serial)?;
    // Nobody else can say whether this reviewer countersigns.
    if super::follow_ups::reviewer_of(ticket, &job.task).is_some() {
        return None;
    }
    other_than(ticket, policy, &job.task, job.agent.as_deref()).filter(|_| !job.stand_in)
}

/// Who does the task where this agent cannot.
fn other_than(
    ticket: &Ticket,
    policy: &Policy,
    task: &Task,
    agent: Option<&str>,
) -> Option<String> {
    let name = policy.fallback_for(task)?;
    let may = agent != Some(name) && !would_judge_its_own(ticket, task, name);
    may.then(|| name.to_owned())
}

fn would_judge_its_own(ticket: &Ticket, task: &Task, name: &str) -> bool {
    match task {
        Task::Review { .. } | Task::Verify { .. } => {
            ticket.authors.contains(name) || built_by(ticket, name)
        }
        Task::Build { .. } | Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } => false,
    }
}

/// Another model of the same program is the same builder.
pub(super) fn built_by(ticket: &Ticket, name: &str) -> bool {
    let mut builders = ticket.builders.iter();
    builders.any(|builder| program(builder) == program(name))
}

fn program(name: &str) -> &str {
    match name.rsplit_once('@') {
        // A command line may hold any character; only a plain name has a model behind it.
        Some((program, _)) if !name.contains(':') => program,
        Some(_) | None => name,
    }
}

impl Transition<'_> {
    pub(super) fn agent_out(&mut self, serial: u32, why: &str) -> Result<(), Refused> {
        let job = self.job_mut(serial).ok_or(Refused::NoSuchJob { serial })?;
        if let Some(holder) = job.holder.clone() {
            let given = self.event.by.principal.clone();
            return Err(Refused::NotHolder {
                serial,
                holder,
                given,
            });
        }
        if self.hand_over(serial, why) {
            Ok(())
        } else {
            Err(Refused::NoStandIn { serial })
        }
    }

    /// The job ends as it is, and is ordered anew for the stand-in. False where nobody may.
    pub(super) fn hand_over(&mut self, serial: u32, why: &str) -> bool {
        let Some(agent) = stand_in(&self.ticket, self.policy, serial) else {
            return false;
        };
        let Some(task) = self.job_mut(serial).map(|job| job.task.clone()) else {
            return false;
        };
        self.bury(serial, why);
        let from = self.resting_stage();
        if self.affords(from) {
            self.ticket.stage = from;
            self.order_of_stand_in(task, agent);
        }
        true
    }

    /// The task is not for this agent: it is ordered of who stands in. False where nobody may.
    pub(super) fn order_instead(&mut self, task: Task, agent: &str) -> bool {
        let Some(other) = other_than(&self.ticket, self.policy, &task, Some(agent)) else {
            return false;
        };
        self.order_of_stand_in(task, other);
        true
    }

    fn order_of_stand_in(&mut self, task: Task, agent: String) {
        self.order(task, Some(agent));
        if let Some(job) = self.ticket.jobs.last_mut() {
            job.stand_in = true;
        }
    }
}
