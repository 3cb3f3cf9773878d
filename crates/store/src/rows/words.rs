//! Converts words and numbers between our types and the databases.

use std::collections::BTreeSet;

use flow::event::Lease;
use flow::{Stage, TicketId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::job::{ClaimRequest, JobState, JobWork};
use crate::record::{EventBody, PauseScope, StatementKind};

/// Body of a log entry about a job.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct JobStory<'a> {
    pub(crate) job: i64,
    pub(crate) queue: &'a str,
    pub(crate) kind: &'a str,
    /// Attempts of a failed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
    /// Reason why a job was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<&'a str>,
}

impl<'a> JobStory<'a> {
    pub(crate) fn new(job: i64, queue: &'a str, kind: &'a str) -> Self {
        Self {
            job,
            queue,
            kind,
            attempts: None,
            error: None,
            why: None,
        }
    }

    pub(crate) fn dropped(self, why: &'a str) -> Self {
        Self {
            why: Some(why),
            ..self
        }
    }

    pub(crate) fn failed(self, attempts: i64, error: &'a str) -> Self {
        Self {
            attempts: Some(attempts),
            error: Some(error),
            ..self
        }
    }
}

impl JobState {
    /// States that statistics count: all but done and dropped.
    pub(crate) const COUNTED: [Self; 4] = [Self::Waiting, Self::Ready, Self::Leased, Self::Dead];

    pub(crate) const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Ready,
        Self::Leased,
        Self::Done,
        Self::Dropped,
        Self::Dead,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Dropped => "dropped",
            Self::Dead => "dead",
        }
    }

    pub(crate) fn read(word: &str) -> Result<Self, Error> {
        let state = Self::ALL.into_iter().find(|state| state.word() == word);
        state.ok_or_else(|| unreadable(&format!("job state {word:?}")))
    }
}

impl JobWork {
    pub(crate) fn read(of_ticket: bool, kind: String, body: &str) -> Result<Self, Error> {
        if of_ticket {
            return Ok(Self::Task(decode(body)?));
        }
        Ok(Self::Free {
            kind,
            body: decode(body)?,
        })
    }
}

impl StatementKind {
    pub(crate) fn parts(&self) -> (&'static str, Option<String>) {
        match self {
            Self::Dispute { finding } => ("dispute", Some(clean(finding))),
            Self::Approved => ("approved", None),
            Self::ChangesRequested => ("changes_requested", None),
        }
    }

    pub(crate) fn read(kind: &str, finding: Option<String>) -> Result<Self, Error> {
        match (kind, finding) {
            ("dispute", Some(finding)) => Ok(Self::Dispute { finding }),
            ("approved", _) => Ok(Self::Approved),
            ("changes_requested", _) => Ok(Self::ChangesRequested),
            (other, _) => Err(unreadable(&format!("statement {other:?}"))),
        }
    }
}

impl PauseScope {
    pub(crate) fn parts(&self) -> (&'static str, String) {
        match self {
            Self::Agent(name) => ("agent", clean(name)),
            Self::Queue(name) => ("queue", clean(name)),
            Self::Provider(name) => ("provider", clean(name)),
        }
    }

    pub(crate) fn read(scope: &str, name: String) -> Result<Self, Error> {
        match scope {
            "agent" => Ok(Self::Agent(name)),
            "queue" => Ok(Self::Queue(name)),
            "provider" => Ok(Self::Provider(name)),
            other => Err(unreadable(&format!("pause of a {other:?}"))),
        }
    }
}

/// One index walk of a claim: the jobs of one queue for one agent, or the unassigned ones.
#[derive(Clone, Debug)]
pub(crate) struct ClaimLine {
    pub(crate) queue: String,
    /// Agent that the jobs are assigned to; empty for unassigned jobs.
    pub(crate) assigned_to: String,
    /// The agent that would do the job.
    pub(crate) agent: String,
    pub(crate) provider: Option<String>,
}

impl ClaimRequest {
    /// Returns every walk of this claim once; of two that differ only by provider, the first one.
    pub(crate) fn lines(&self) -> Vec<ClaimLine> {
        let mut lines: Vec<ClaimLine> = Vec::new();
        for served in &self.queues {
            let (queue, agent) = (clean(served.queue.name()), clean(&served.agent));
            let unassigned = (!served.assigned_only).then(String::new);
            let own = Some(agent.clone()).filter(|agent| !agent.is_empty());
            for assigned_to in [unassigned, own].into_iter().flatten() {
                let is_same =
                    |line: &ClaimLine| line.queue == queue && line.assigned_to == assigned_to;
                if !lines.iter().any(is_same) {
                    lines.push(ClaimLine {
                        queue: queue.clone(),
                        assigned_to,
                        agent: agent.clone(),
                        provider: served.provider.as_deref().map(clean),
                    });
                }
            }
        }
        lines
    }

    /// Returns the walks that no pause excludes.
    pub(crate) fn open_lines(&self, paused: &[(String, String)]) -> Vec<ClaimLine> {
        let is_paused =
            |scope: &str, name: &str| paused.iter().any(|(s, n)| s == scope && n == name);
        if self.paused_as.iter().any(|name| is_paused("agent", name)) {
            return Vec::new();
        }
        let mut lines = self.lines();
        lines.retain(|line| {
            let provider = line.provider.as_deref();
            !is_paused("queue", &line.queue)
                && !is_paused("agent", &line.agent)
                && !provider.is_some_and(|name| is_paused("provider", name))
        });
        lines
    }

    /// Returns the providers of the claim, sorted and without duplicates.
    pub(crate) fn providers(&self) -> Vec<String> {
        let providers = self.queues.iter().filter_map(|one| one.provider.as_deref());
        let names: BTreeSet<String> = providers.map(clean).collect();
        names.into_iter().collect()
    }
}

pub(crate) fn stage(word: &str) -> Result<Stage, Error> {
    Stage::parse(word).ok_or_else(|| unreadable(&format!("stage {word:?}")))
}

pub(crate) fn ticket_id(text: String) -> Result<TicketId, Error> {
    TicketId::try_from(text).map_err(|error| unreadable(&error.to_string()))
}

pub(crate) fn event_body(decided: bool, text: &str) -> Result<EventBody, Error> {
    if decided {
        return Ok(EventBody::Decided(decode(text)?));
    }
    Ok(EventBody::Noted(decode(text)?))
}

pub(crate) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))
}

pub(crate) fn unreadable(what: &str) -> Error {
    Error::Other(format!("the database holds an unreadable value: {what}"))
}

pub(super) fn word_of<T: Serialize>(value: &T) -> Result<String, Error> {
    let word = serde_json::to_value(value)?;
    let word = word.as_str().map(str::to_owned);
    word.ok_or_else(|| Error::Other("expected a JSON string".to_owned()))
}

/// Removes NUL characters. `PostgreSQL` cannot store them, and both databases must behave alike.
pub(crate) fn clean(text: &str) -> String {
    text.replace('\0', "")
}

/// Converts to the databases' signed integers; saturates.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn nat(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn nat32(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn lease(serial: Option<i64>, fence: Option<i64>) -> Option<Lease> {
    Some(Lease {
        serial: nat32(serial?),
        fence: nat(fence?),
    })
}

pub(crate) fn time(ms: i64) -> Time {
    Time(ms)
}
