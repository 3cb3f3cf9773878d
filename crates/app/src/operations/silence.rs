//! Who is silent although work waits for it: an agent with a good token that never calls, or has
//! stopped. What it held is taken back by the watchdog; here it is reported, until it calls again.

use flow::{Queue, Role, Time};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Agent, Job, JobQuery, JobState, Noted, Page, Token};

use super::App;
use super::identity;
use super::presence::EVERY;
use crate::failure::Failure;

/// How many waiting jobs are looked through, and of how many the oldest the ticket is.
const JOBS_MAX: u32 = 1000;
const TICKETS_MAX: usize = 20;

/// An agent that does not call although it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silent {
    pub agent: String,
    pub role: String,
    /// Its last sign of life, or when its token was made.
    pub since: Time,
    pub why: String,
}

/// Those that are on record as silent.
pub async fn silent(office: &App) -> Result<Vec<Silent>, Failure> {
    let all = office.desk.store.agents().await?;
    Ok(all.iter().filter_map(recorded).collect())
}

fn recorded(agent: &Agent) -> Option<Silent> {
    let why = agent.body.get("silent")?.as_str()?;
    Some(Silent {
        agent: agent.name.clone(),
        role: agent.role.clone(),
        since: agent.seen_at,
        why: why.to_owned(),
    })
}

/// Puts those on record, and into the log, that have become silent.
pub async fn watch(office: &App) -> Result<(), Failure> {
    let now = (office.desk.clock)();
    let mut tokens = identity::list(office).await?;
    tokens.retain(|token| works(token, now));
    if tokens.is_empty() {
        return Ok(());
    }
    let known = office.desk.store.agents().await?;
    let waiting = overdue(office, now).await?;
    let slack = u64::try_from(EVERY.as_millis()).unwrap_or_default();
    let mut told: Vec<String> = Vec::new();
    for token in tokens {
        let seen = known.iter().find(|agent| agent.name == token.agent);
        let since = seen.map_or(token.created_at, |agent| agent.seen_at);
        // It may have called since, and that was not written down again.
        let heard = seen.map_or(since, |agent| agent.seen_at.plus_ms(slack));
        let is_known = seen.is_some_and(|agent| recorded(agent).is_some());
        if is_known || told.contains(&token.agent) {
            continue;
        }
        if let Some(job) = waiting.iter().find(|one| one.is_for(&token, heard, now)) {
            told.push(token.agent.clone());
            record(office, &token, since, &job.why(&token, seen.is_some())).await?;
        }
    }
    Ok(())
}

/// The token of an agent that comes by itself, and is good.
fn works(token: &Token, now: Time) -> bool {
    let role = identity::role(&token.role).ok();
    let is_agent = role.is_some_and(|role| !queues(role).is_empty());
    let ended = token.expires_at.is_some_and(|end| end <= now);
    is_agent && !ended && token.revoked_at.is_none() && token.lease.is_none()
}

fn queues(role: Role) -> &'static [Queue] {
    engine::session::queues_of(role)
}

/// A job that has waited for longer than an agent may be silent.
struct OverdueJob {
    job: Job,
    /// Whom the ticket wants for it.
    agent: Option<String>,
    patience_ms: i64,
}

impl OverdueJob {
    fn is_for(&self, token: &Token, since: Time, now: Time) -> bool {
        let role = identity::role(&token.role).ok();
        let theirs = role.is_some_and(|role| queues(role).contains(&self.job.queue));
        let of_ticket = token.ticket.is_none() || token.ticket == self.job.ticket;
        let wanted = self.agent.as_ref().is_none_or(|name| *name == token.agent);
        theirs && of_ticket && wanted && now.0 - since.0 > self.patience_ms
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

/// The oldest jobs that wait for agents, where they wait too long.
async fn overdue(office: &App, now: Time) -> Result<Vec<OverdueJob>, Failure> {
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
        jobs.extend(office.desk.store.jobs(&query, &page).await?.items);
    }
    jobs.sort_by_key(|job| job.not_before.max(job.created_at));
    let mut found = Vec::new();
    for job in jobs.into_iter().take(TICKETS_MAX) {
        let Some(id) = &job.ticket else { continue };
        let stored = office.desk.ticket(id).await?;
        let policy = office.desk.policy_of(&stored).await?;
        let patience = policy.limits.heartbeat_secs.saturating_mul(1000);
        let patience_ms = i64::try_from(patience).unwrap_or(i64::MAX);
        let waits_since = job.not_before.max(job.created_at);
        if now.0 - waits_since.0 > patience_ms {
            let mut of_ticket = stored.ticket.jobs.into_iter();
            let own = of_ticket.find(|one| Some(one.serial) == job.serial);
            found.push(OverdueJob {
                agent: own.and_then(|one| one.agent),
                job,
                patience_ms,
            });
        }
    }
    Ok(found)
}

async fn record(office: &App, token: &Token, since: Time, why: &str) -> Result<(), Failure> {
    let store = &office.desk.store;
    let agent = Agent {
        name: token.agent.clone(),
        role: token.role.clone(),
        seen_at: since,
        body: json!({"silent": why}),
    };
    store.beat(agent).await?;
    let noted = Noted {
        at: (office.desk.clock)(),
        ticket: token.ticket.clone(),
        name: "agent_silent".to_owned(),
        by: "countersign".to_owned(),
        body: json!({"agent": token.agent, "role": token.role, "why": why}),
    };
    Ok(store.note(noted).await?)
}
