//! Reports silent agents: agents with a valid token that never call, or have stopped calling,
//! although work waits for them. The report ends when the agent calls again. Taking back their jobs
//! is the coordinator's work.

use flow::{Queue, Role, Time};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Agent, Job, JobQuery, JobState, Noted, Page, Token};

use super::App;
use super::identity;
use super::presence::NOTE_INTERVAL;
use crate::failure::Failure;

/// Maximum number of waiting jobs that are listed per queue.
const JOBS_MAX: u32 = 1000;
/// Number of oldest jobs whose tickets are read for their limits.
const TICKETS_MAX: usize = 20;

/// An agent that makes no calls although work waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilentAgent {
    pub agent: String,
    pub role: String,
    /// Time of its last call, or of its token's creation.
    pub since: Time,
    pub why: String,
}

/// Lists the agents that are recorded as silent.
pub async fn list_silent(app: &App) -> Result<Vec<SilentAgent>, Failure> {
    let all = app.coordinator.store.agents().await?;
    Ok(all.iter().filter_map(recorded_silence).collect())
}

fn recorded_silence(agent: &Agent) -> Option<SilentAgent> {
    let why = agent.body.get("silent")?.as_str()?;
    Some(SilentAgent {
        agent: agent.name.clone(),
        role: agent.role.clone(),
        since: agent.seen_at,
        why: why.to_owned(),
    })
}

/// Records agents that have become silent, in the list of agents and in the log.
pub async fn record_silent(app: &App) -> Result<(), Failure> {
    let now = (app.coordinator.clock)();
    let mut tokens = identity::list(app).await?;
    tokens.retain(|token| is_agent_token(token, now));
    if tokens.is_empty() {
        return Ok(());
    }
    let agents = app.coordinator.store.agents().await?;
    let waiting = overdue_jobs(app, now).await?;
    let slack = u64::try_from(NOTE_INTERVAL.as_millis()).unwrap_or_default();
    let mut reported: Vec<String> = Vec::new();
    for token in tokens {
        let known_agent = agents.iter().find(|agent| agent.name == token.agent);
        let since = known_agent.map_or(token.created_at, |agent| agent.seen_at);
        // Calls are recorded only once per interval, so the agent may have called since.
        let last_call = known_agent.map_or(since, |agent| agent.seen_at.plus_ms(slack));
        let is_recorded = known_agent.is_some_and(|agent| recorded_silence(agent).is_some());
        if is_recorded || reported.contains(&token.agent) {
            continue;
        }
        if let Some(job) = waiting
            .iter()
            .find(|overdue| overdue.is_for(&token, last_call, now))
        {
            reported.push(token.agent.clone());
            record_one(app, &token, since, &job.why(&token, known_agent.is_some())).await?;
        }
    }
    Ok(())
}

/// Tells whether this is the valid token of an agent that connects by itself.
fn is_agent_token(token: &Token, now: Time) -> bool {
    let role = identity::parse_role(&token.role).ok();
    let is_agent = role.is_some_and(|role| !queues(role).is_empty());
    let ended = token.expires_at.is_some_and(|end| end <= now);
    is_agent && !ended && token.revoked_at.is_none() && token.lease.is_none()
}

fn queues(role: Role) -> &'static [Queue] {
    engine::session::queues_of(role)
}

/// A job that has waited longer than an agent may be silent.
struct OverdueJob {
    job: Job,
    /// Agent that the ticket requires for the job.
    agent: Option<String>,
    patience_ms: i64,
}

impl OverdueJob {
    fn is_for(&self, token: &Token, since: Time, now: Time) -> bool {
        let role = identity::parse_role(&token.role).ok();
        let serves_queue = role.is_some_and(|role| queues(role).contains(&self.job.queue));
        let may_see = token.ticket.is_none() || token.ticket == self.job.ticket;
        let is_required = self.agent.as_ref().is_none_or(|name| *name == token.agent);
        serves_queue && may_see && is_required && now.0 - since.0 > self.patience_ms
    }

    fn why(&self, token: &Token, was_seen: bool) -> String {
        let ticket = self.job.ticket.as_ref().map(ToString::to_string);
        format!(
            "{} {}, and a {} of {} waits",
            token.agent,
            if was_seen {
                "has stopped calling"
            } else {
                "has never called"
            },
            self.job.queue,
            ticket.unwrap_or_default()
        )
    }
}

/// Returns those of the oldest jobs for agents that have waited too long.
async fn overdue_jobs(app: &App, now: Time) -> Result<Vec<OverdueJob>, Failure> {
    let mut jobs = Vec::new();
    for queue in [Queue::Build, Queue::Review, Queue::Verify] {
        let query = JobQuery {
            queue: Some(queue),
            state: Some(JobState::Ready),
            urgent_first: true,
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: JOBS_MAX,
        };
        jobs.extend(app.coordinator.store.jobs(&query, &page).await?.items);
    }
    jobs.sort_by_key(|job| job.not_before.max(job.created_at));
    let mut overdue = Vec::new();
    for job in jobs.into_iter().take(TICKETS_MAX) {
        let Some(id) = &job.ticket else { continue };
        let stored = app.coordinator.ticket(id).await?;
        let policy = app.coordinator.policy_of(&stored).await?;
        let patience = policy.limits.heartbeat_secs.saturating_mul(1000);
        let patience_ms = i64::try_from(patience).unwrap_or(i64::MAX);
        let waits_since = job.not_before.max(job.created_at);
        if now.0 - waits_since.0 > patience_ms {
            let mut ticket_jobs = stored.ticket.jobs.into_iter();
            let ticket_job = ticket_jobs.find(|entry| Some(entry.serial) == job.serial);
            overdue.push(OverdueJob {
                agent: ticket_job.and_then(|entry| entry.agent),
                job,
                patience_ms,
            });
        }
    }
    Ok(overdue)
}

async fn record_one(app: &App, token: &Token, since: Time, why: &str) -> Result<(), Failure> {
    let store = &app.coordinator.store;
    let agent = Agent {
        name: token.agent.clone(),
        role: token.role.clone(),
        seen_at: since,
        body: json!({"silent": why}),
    };
    store.beat(agent).await?;
    let noted = Noted {
        at: (app.coordinator.clock)(),
        ticket: token.ticket.clone(),
        name: "agent_silent".to_owned(),
        by: "countersign".to_owned(),
        body: json!({"agent": token.agent, "role": token.role, "why": why}),
    };
    Ok(store.note(noted).await?)
}
