//! How the databases' words and numbers are read back, and what goes into them.

use flow::event::Lease;
use flow::{Stage, TicketId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::job::{Ask, JobState, Work};
use crate::record::{EventBody, Scope};

/// What the log says of a job.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct JobStory<'a> {
    pub(crate) job: i64,
    pub(crate) queue: &'a str,
    pub(crate) kind: &'a str,
    /// Of one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
    /// Of one that is no longer wanted.
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
    /// Those in which somebody may still care for it.
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
        let known = Self::ALL.into_iter().find(|state| state.word() == word);
        known.ok_or_else(|| unreadable(&format!("job state {word:?}")))
    }
}

impl Work {
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

impl Scope {
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

impl Ask {
    /// Whether a job that is meant for this agent (or for anybody) is for who asks.
    pub(crate) fn may_have(&self, agent: &str) -> bool {
        agent == self.agent || (agent.is_empty() && !self.own_only)
    }

    /// The queues that a claim may look into, given what is paused: none where the agent itself
    /// or its provider is.
    pub(crate) fn open_queues(&self, paused: &[(String, String)]) -> Vec<&str> {
        let is_paused =
            |scope: &str, name: &str| paused.iter().any(|(s, n)| s == scope && n == name);
        let provider = self.provider.as_deref();
        if is_paused("agent", &self.agent) || provider.is_some_and(|p| is_paused("provider", p)) {
            return Vec::new();
        }
        let mut queues: Vec<&str> = self.queues.iter().map(String::as_str).collect();
        queues.sort_unstable();
        queues.dedup();
        queues.retain(|queue| !is_paused("queue", queue));
        queues
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
    Error::Other(format!("the database holds something unreadable: {what}"))
}

pub(super) fn word_of<T: Serialize>(value: &T) -> Result<String, Error> {
    let word = serde_json::to_value(value)?;
    let word = word.as_str().map(str::to_owned);
    word.ok_or_else(|| Error::Other("a word was expected".to_owned()))
}

/// `PostgreSQL`'s text cannot hold NUL; so that both databases answer alike, neither gets one.
pub(crate) fn clean(text: &str) -> String {
    text.replace('\0', "")
}

/// Saturates: databases count with a sign.
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
