//! The worker protocol over HTTP, on the server's side: the coordinator for workers elsewhere. The
//! server decides, and not the worker: a report is an event, which `flow` decides on under the
//! ticket's recorded policy; a lease is bound to the token that it was claimed with; what a worker
//! has no business with is refused, and the log says so.

mod bundles;
mod files;
mod leases;
mod reports;
mod tokens;

use std::time::Duration;

use engine::coordinator::wire::{Call, CallError, RunNote, WAIT_MAX, WORDS_MAX};
use engine::coordinator::{self, Coordinator, JobRequest, Offer};
use engine::log::LogErr;
use flow::standing::Access;
use flow::{Refused, Role, TicketId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use store::{Agent, Noted, Pause, PauseScope};

use super::App;
use super::identity::Identity;
use crate::failure::{ExitKind, Failure};

/// A worker's text that is kept is cut there.
const TEXT_MAX: usize = 2000;
/// No name or key is longer.
const PLAIN_MAX: usize = 5000;
/// A provider does not rest longer than this by a worker's word.
const REST_MS_MAX: u64 = 8 * 24 * 3_600_000;
/// The longest status or note of a worker.
const SIGN_BYTES_MAX: usize = 16 * 1024;
/// More workers, or more pauses, are not kept.
const WORKERS_MAX: usize = 10_000;
const PAUSES_MAX: usize = 1000;
/// The notes that a worker may leave about a run that it holds.
const NOTES: [&str; 2] = ["network_refused", "tools_unconnected"];

/// A worker elsewhere that calls.
struct Caller<'a> {
    office: &'a App,
    speaker: &'a Identity,
    admits: Admits<'a>,
}

/// Whether one more refusal is written down: each is, and a flood of them is not.
pub type Admits<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// Why a call is not answered.
#[derive(Debug)]
enum No {
    /// It is not this worker's to call for.
    Barred(String),
    /// It is about a lease that is not this worker's.
    NotHeld(store::Error),
    /// The coordinator did not; where it refused, it has noted that.
    Coordinator(coordinator::Error),
}

impl From<store::Error> for No {
    fn from(error: store::Error) -> Self {
        Self::Coordinator(error.into())
    }
}

impl From<coordinator::Error> for No {
    fn from(error: coordinator::Error) -> Self {
        Self::Coordinator(error)
    }
}

impl No {
    fn barred(why: impl ToString) -> Self {
        Self::Barred(why.to_string())
    }
}

/// The same as it is answered.
#[derive(Debug)]
pub struct Declined {
    /// It is not this worker's to call for.
    pub barred: bool,
    pub failure: Failure,
    /// For the worker's program, which acts on it.
    pub error: Value,
}

impl Declined {
    fn barred(why: &str) -> Self {
        let no_judge = false;
        let error = CallError::Denied {
            why: why.to_owned(),
            no_judge,
        };
        Self {
            barred: true,
            failure: Failure::new(ExitKind::Refused, why),
            error: json!(error),
        }
    }

    fn of(error: coordinator::Error) -> Self {
        let told = match &error {
            coordinator::Error::Store(error) => CallError::Store(error.clone()),
            coordinator::Error::Refused(Refused::StaleFence {
                serial,
                given,
                current,
            }) => stale(*serial, *given, *current),
            coordinator::Error::Refused(
                Refused::NoSuchJob { serial } | Refused::NotHolder { serial, .. },
            ) => stale(*serial, 0, 0),
            other => CallError::Denied {
                why: other.to_string(),
                no_judge: other.is_about_the_judge(),
            },
        };
        Self {
            barred: false,
            failure: error.into(),
            error: json!(told),
        }
    }

    fn not_understood(error: &serde_json::Error) -> Self {
        let failure = Failure::usage(format!("the call: {error}")).hint(
            "the worker may be another version: compare `countersign --version` there and here",
        );
        let error = CallError::Store(store::Error::Other(failure.message.clone()));
        Self {
            barred: false,
            error: json!(error),
            failure,
        }
    }
}

fn stale(serial: u32, given: u64, current: u64) -> CallError {
    CallError::Store(store::Error::StaleFence {
        job: serial.to_string(),
        given,
        current,
    })
}

/// Whether this speaker may be a worker at all; asked before anything of the call is read.
pub fn may_work(speaker: &Identity) -> Result<(), String> {
    let role = speaker.actor.role;
    if !matches!(role, Role::Service | Role::Admin) {
        let word = role.word();
        return Err(format!("the role {word} is no worker; it takes service"));
    }
    if speaker.ticket.is_some() || speaker.standing != Access::Guest {
        return Err("a worker's token is for all tickets, and this one is for one".to_owned());
    }
    Ok(())
}

/// Answers one call.
pub async fn answer(
    office: &App,
    (speaker, admits): (&Identity, Admits<'_>),
    body: &[u8],
) -> Result<Value, Declined> {
    let caller = Caller {
        office,
        speaker,
        admits,
    };
    let call: Call =
        serde_json::from_slice(body).map_err(|error| Declined::not_understood(&error))?;
    let (name, ticket) = (call.name(), call.ticket().cloned());
    if body.len() > WORDS_MAX && !call.is_heavy() {
        let why = format!("a {name} of more than {} MiB", WORDS_MAX >> 20);
        caller.refused(name, ticket, &why).await;
        return Err(Declined::barred(&why));
    }
    match Box::pin(caller.answer(call)).await {
        Ok(value) => Ok(value),
        Err(No::Coordinator(error)) => Err(Declined::of(error)),
        Err(No::NotHeld(error)) => {
            caller.refused(name, ticket, &error.to_string()).await;
            Err(Declined::of(error.into()))
        }
        Err(No::Barred(why)) => {
            caller.refused(name, ticket, &why).await;
            Err(Declined::barred(&why))
        }
    }
}

fn value(answer: impl Serialize) -> Result<Value, No> {
    let broken = |error: serde_json::Error| store::Error::Other(error.to_string());
    Ok(serde_json::to_value(answer).map_err(broken)?)
}

impl Caller<'_> {
    async fn answer(&self, call: Call) -> Result<Value, No> {
        let desk = &self.office.desk;
        match call {
            Call::Now {} => value(desk.now().await?),
            Call::Wait { request, most } => value(self.wait(request, most).await?),
            Call::Claim { request } => value(self.claim(request).await?),
            Call::Renew { job, fence, extend } => value(self.renew(job, fence, extend).await?),
            Call::Report(report) => value(self.report(*report).await?),
            Call::Finish(report) => value(self.finish(*report).await?),
            Call::Ticket { id } => value(Coordinator::ticket(desk, &id).await?),
            Call::Attach(attachment) => value(self.attach(attachment).await?),
            Call::Note(note) => value(self.note_run(note).await?),
            Call::Upload(bundle) => value(self.upload(bundle.into()).await?),
            Call::Download { key } => value(self.download(&key).await?),
            Call::IssueToken(request) => value(self.issue_token(*request).await?),
            Call::RevokeToken { token } => value(self.revoke_token(&token).await?),
            Call::PauseProvider { pause } => value(self.pause_provider(pause).await?),
            Call::Heartbeat { agent } => value(self.heartbeat(agent).await?),
        }
    }

    async fn wait(&self, request: JobRequest, most: Duration) -> Result<Vec<Offer>, No> {
        let request = self.sound(request)?;
        Ok(self.office.desk.wait(&request, most.min(WAIT_MAX)).await?)
    }

    /// Notes something about a run under a lease of this worker's, in few words.
    async fn note_run(&self, note: RunNote) -> Result<(), No> {
        if !NOTES.contains(&note.name.as_str()) {
            let why = format!("{:?} is no note of a run", short(&note.name));
            return Err(No::barred(why));
        }
        if note.body.to_string().len() > SIGN_BYTES_MAX {
            return Err(No::barred("that is too much for a note"));
        }
        self.held(&note.ticket, note.lease).await?;
        let noted = Noted {
            at: (self.office.desk.clock)(),
            ticket: Some(note.ticket),
            name: note.name,
            by: self.speaker.actor.agent.clone(),
            body: cleaned(note.body)?,
        };
        Ok(self.office.desk.store.note(noted).await?)
    }

    /// Out of quota is so for everybody who uses a provider; other pauses are a person's.
    async fn pause_provider(&self, pause: Pause) -> Result<(), No> {
        let (PauseScope::Provider(name), Some(until)) = (&pause.scope, pause.until) else {
            return Err(No::barred("a worker pauses providers, for a time"));
        };
        if !is_plain(name) {
            return Err(No::barred("that is no provider's name"));
        }
        let known = self.office.desk.store.pauses().await?;
        let same = known.iter().find(|known| known.scope == pause.scope);
        // A person's pause, or a longer one, stands.
        if same.is_some_and(|known| known.until.is_none_or(|end| end >= until)) {
            return Ok(());
        }
        if same.is_none() && known.len() >= PAUSES_MAX {
            return Err(No::barred("there are too many pauses"));
        }
        let most = (self.office.desk.clock)().plus_ms(REST_MS_MAX);
        let pause = Pause {
            until: Some(until.min(most)),
            why: short(&pause.why),
            by: self.speaker.actor.agent.clone(),
            ..pause
        };
        Ok(self.office.desk.store.pause(pause).await?)
    }

    /// A sign of life, by our clock. An agent that is no worker gives its own.
    async fn heartbeat(&self, agent: Agent) -> Result<(), No> {
        let store = &self.office.desk.store;
        let known = store.agents().await?;
        let same = known.iter().find(|known| known.name == agent.name);
        if !is_plain(&agent.name) || same.is_some_and(|known| known.role != "worker") {
            let why = format!("{:?} is no worker's name", short(&agent.name));
            return Err(No::barred(why));
        }
        if same.is_none() && known.len() >= WORKERS_MAX {
            return Err(No::barred("there are too many workers"));
        }
        if agent.body.to_string().len() > SIGN_BYTES_MAX {
            return Err(No::barred("that is too much for a sign of life"));
        }
        let agent = Agent {
            role: "worker".to_owned(),
            seen_at: (self.office.desk.clock)(),
            ..cleaned(agent)?
        };
        Ok(store.beat(agent).await?)
    }

    /// Nothing is refused silently: the log says who tried what.
    async fn refused(&self, call: &str, ticket: Option<TicketId>, why: &str) {
        self.note(ticket, json!({"call": call, "why": why})).await;
    }

    /// A note about a ticket that is not there would be nobody's.
    async fn note(&self, ticket: Option<TicketId>, body: Value) {
        let desk = &self.office.desk;
        if !(self.admits)() {
            return;
        }
        let known = match &ticket {
            Some(id) => matches!(desk.store.ticket(id).await, Ok(Some(_))),
            None => false,
        };
        let noted = Noted {
            at: (desk.clock)(),
            ticket: ticket.filter(|_| known),
            name: "refused".to_owned(),
            by: self.speaker.actor.agent.clone(),
            body,
        };
        // The refusal stands, whether or not it could be written down.
        let noted = desk.store.note(noted).await;
        noted.log_err("record a refused call of a worker");
    }
}

/// In one line, and not longer than it need be.
fn short(text: &str) -> String {
    findings::one_line(text).chars().take(TEXT_MAX).collect()
}

/// A name or a key as they are given: one line, without anything that nobody sees.
fn is_plain(text: &str) -> bool {
    let is_one_line = !text.contains(['\n', '\t']);
    text.len() <= PLAIN_MAX && is_one_line && findings::clean(text) == text
}

/// Cleans all texts of a call. Our own workers have cleaned theirs; another program may not.
fn cleaned<T: Serialize + DeserializeOwned>(said: T) -> Result<T, No> {
    let broken = |error: serde_json::Error| No::barred(format!("that cannot be read: {error}"));
    let mut value = serde_json::to_value(said).map_err(broken)?;
    clean_all(&mut value);
    serde_json::from_value(value).map_err(broken)
}

fn clean_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = findings::clean(text),
        Value::Array(items) => items.iter_mut().for_each(clean_all),
        Value::Object(fields) => fields.values_mut().for_each(clean_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use flow::EventKind;

    use super::*;

    #[test]
    fn what_a_report_says_is_cleaned_and_otherwise_as_it_was() {
        let said = |why: &str| EventKind::HelpRequested {
            why: why.to_owned(),
            lease: None,
        };
        let heard = cleaned(said("\u{1b}[31mred\u{1b}[0m \u{202e}text")).ok();
        assert_eq!(heard, Some(said("red text")));
        let plain = said("a b\n\tc – ü");
        assert_eq!(cleaned(plain.clone()).ok(), Some(plain));
    }
}
