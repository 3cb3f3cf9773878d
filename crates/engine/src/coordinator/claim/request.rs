//! A worker's request for jobs, as the store takes it.

use std::collections::BTreeMap;

use flow::{Actor, Policy, Task, TicketId};
use store::{ClaimTarget, Leased, ServedQueue};

use super::super::{AgentClaim, JobRequest, WorkItem};

impl JobRequest {
    pub fn ticket(&self) -> Option<&TicketId> {
        match &self.only {
            Some(WorkItem::Ticket(id)) => Some(id),
            Some(WorkItem::Task(_)) | None => None,
        }
    }

    /// Builds a store request for any job of the worker's queues.
    pub(super) fn any_job(&self) -> store::ClaimRequest {
        let queues = self.queues.iter().chain(&self.tasks);
        store::ClaimRequest {
            worker: self.worker.clone(),
            queues: queues
                .map(|queue| ServedQueue::new(queue, &self.name))
                .collect(),
            labels: self.labels.clone(),
            only: self.ticket().cloned().map(ClaimTarget::Ticket),
            exclusive: self.alone_in.clone(),
            lease: self.lease,
            limit: self.most,
            ..store::ClaimRequest::default()
        }
    }

    /// Returns the queues with the agents that serve them, and the maximum number of jobs per
    /// group.
    pub(super) fn served_queues(&self) -> Vec<(Vec<ServedQueue>, u32)> {
        let system = self.queues.iter().filter(|queue| queue.is_of_system());
        let agent = Actor::system().agent;
        let mut together: Vec<ServedQueue> = system
            .map(|queue| ServedQueue::new(queue, &agent))
            .collect();
        let mut limited: BTreeMap<&Option<String>, (Vec<ServedQueue>, u32)> = BTreeMap::new();
        for agent in &self.agents {
            if !self.queues.contains(&agent.queue) {
                continue;
            }
            let served = agent.names.iter().map(|name| ServedQueue {
                assigned_only: agent.named_only,
                provider: agent.provider.clone(),
                ..ServedQueue::new(&agent.queue, name)
            });
            match agent.most {
                // Agents of one provider share its limit.
                Some(most) => {
                    let group = limited.entry(&agent.provider).or_default();
                    group.0.extend(served);
                    group.1 = most;
                }
                None => together.extend(served),
            }
        }
        let mut groups: Vec<(Vec<ServedQueue>, u32)> = limited.into_values().collect();
        groups.push((together, u32::MAX));
        groups
    }

    /// Returns whether this is the request of an agent that connects by itself and has one claim at
    /// a time.
    pub(super) fn is_session(&self) -> bool {
        !self.alone_in.is_empty()
    }

    /// Returns how many more jobs the worker can take.
    pub(super) fn remaining(&self, jobs: &[Leased]) -> u32 {
        let taken = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        self.most.saturating_sub(taken)
    }

    /// Returns the agent that takes a job meant for this name, or for any agent. A linter's job
    /// has none.
    pub(super) fn agent_for(
        &self,
        task: &Task,
        name: Option<&str>,
        policy: &Policy,
    ) -> Option<&AgentClaim> {
        if let Task::Review { reviewer, .. } = task
            && let Some(spec) = policy.reviewers.iter().find(|spec| spec.name == *reviewer)
            && spec.command.is_some()
        {
            return None;
        }
        let mut agents = self
            .agents
            .iter()
            .filter(|agent| agent.queue == task.queue());
        match name {
            Some(name) => agents.find(|agent| agent.names.iter().any(|alias| alias == name)),
            None => agents.find(|agent| !agent.named_only),
        }
    }
}
