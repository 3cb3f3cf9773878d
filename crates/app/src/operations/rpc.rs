//! The server's side of the worker protocol over HTTP. The server decides, not the worker: a report
//! is an event, and `flow` decides on it under the ticket's recorded policy. A lease is bound to
//! the token that claimed it. Calls that are not a worker's business are refused and noted in the
//! log.
//!
//! A worker on another machine may be stolen or changed. It can spoil the jobs that it holds; it
//! cannot write tickets, take leases of others, choose a policy or upload a base branch. The checks
//! are here and not in the worker, whose code is out of our hands.

mod bundles;
mod files;
mod leases;
mod reports;
mod tokens;

use std::time::Duration;

use engine::coordinator::wire::{Call, CallError, RunNote, WAIT_MAX, WORDS_MAX};
use engine::coordinator::{self, Coordinator, JobRequest, Offer};
use engine::log::LogErr;
use flow::access::Access;
use flow::{Refused, Role, TicketId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use store::{Agent, Noted, Pause, PauseScope};

use super::App;
use super::identity::Identity;
use crate::failure::{ExitKind, Failure};

/// Maximum length, in characters, of a worker's text in the store.
const TEXT_MAX: usize = 2000;
/// Maximum length of a name or key, in bytes.
/// Keys of bundles contain paths of repositories, so names may be long.
const NAME_BYTES_MAX: usize = 5000;
/// Maximum time for which a worker can pause a provider.
/// Longer than the longest wait for a quota, which is a week.
const PROVIDER_PAUSE_MS_MAX: u64 = 8 * 24 * 3_600_000;
/// Maximum size of a heartbeat or note of a worker.
const HEARTBEAT_BYTES_MAX: usize = 16 * 1024;
/// Maximum numbers of workers and pauses in the store.
/// A worker with a new name per call would otherwise fill the tables.
const WORKERS_MAX: usize = 10_000;
const PAUSES_MAX: usize = 1000;
/// The notes that a worker may leave about a run that it holds.
/// Any other name could imitate an event of the coordinator in the log.
const NOTES: [&str; 2] = ["network_refused", "tools_unconnected"];

/// Remote worker that makes the call.
struct Caller<'a> {
    app: &'a App,
    identity: &'a Identity,
    may_note: Admits<'a>,
}

/// Tells whether one more refusal is noted; a rate limiter drops a flood of them.
pub type Admits<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// Reason why a call is not answered.
#[derive(Debug)]
enum CallRefusal {
    /// The worker may not make this call.
    NotPermitted(String),
    /// The call is about a lease that this worker does not hold.
    NotHeld(store::Error),
    /// The coordinator failed or refused. It notes its refusals itself.
    Coordinator(coordinator::Error),
}

impl From<store::Error> for CallRefusal {
    fn from(error: store::Error) -> Self {
        Self::Coordinator(error.into())
    }
}

impl From<coordinator::Error> for CallRefusal {
    fn from(error: coordinator::Error) -> Self {
        Self::Coordinator(error)
    }
}

impl CallRefusal {
    fn barred(why: impl ToString) -> Self {
        Self::NotPermitted(why.to_string())
    }
}

/// Negative answer to a call.
#[derive(Debug)]
pub struct Declined {
    /// The worker may not make this call.
    pub barred: bool,
    pub failure: Failure,
    /// Error for the worker's program, which acts on it.
    pub error: Value,
}

impl Declined {
    // Structured for the worker's program, and a sentence for the person who reads its log.
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
        let answer = match &error {
            coordinator::Error::Store(error) => CallError::Store(error.clone()),
            coordinator::Error::Refused(Refused::StaleFence {
                serial,
                given,
                current,
            }) => stale(*serial, *given, *current),
            // All three mean that the lease is gone. The worker then drops its work instead of
            // trying again.
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
            error: json!(answer),
        }
    }

    // Both ends are the same program, so this is most often another version.
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

/// Checks that the caller may be a worker at all, before anything of the call is read.
pub fn may_work(identity: &Identity) -> Result<(), String> {
    let role = identity.actor.role;
    // An agent's token must not claim jobs of all kinds.
    if !matches!(role, Role::Service | Role::Admin) {
        let word = role.as_str();
        return Err(format!(
            "the role {word} cannot be a worker; use a token with the role service"
        ));
    }
    // The token of a run ends with the run, and the one of a ticket may see only that ticket.
    if identity.ticket.is_some() || identity.access != Access::SelfRegistered {
        return Err(
            "a worker needs a token for all tickets; this one is for a single ticket or run"
                .to_owned(),
        );
    }
    Ok(())
}

/// Answers one call.
pub async fn answer(
    app: &App,
    (identity, admits): (&Identity, Admits<'_>),
    body: &[u8],
) -> Result<Value, Declined> {
    let caller = Caller {
        app,
        identity,
        may_note: admits,
    };
    let call: Call =
        serde_json::from_slice(body).map_err(|error| Declined::not_understood(&error))?;
    let (name, ticket) = (call.name(), call.ticket().cloned());
    // Only bundles and files may be large. The limit of the endpoint is the larger one, so the
    // small one is checked here.
    if body.len() > WORDS_MAX && !call.is_heavy() {
        let why = format!("the call {name} is larger than {} MiB", WORDS_MAX >> 20);
        caller.note_refused_call(name, ticket, &why).await;
        return Err(Declined::barred(&why));
    }
    // Boxed: the future of this match is large, and it is compiled once.
    let answered = Box::pin(caller.answer(call)).await;
    app.calls.count_rpc(name, answered.is_ok());
    match answered {
        Ok(value) => Ok(value),
        Err(CallRefusal::Coordinator(error)) => Err(Declined::of(error)),
        Err(CallRefusal::NotHeld(error)) => {
            caller
                .note_refused_call(name, ticket, &error.to_string())
                .await;
            Err(Declined::of(error.into()))
        }
        Err(CallRefusal::NotPermitted(why)) => {
            caller.note_refused_call(name, ticket, &why).await;
            Err(Declined::barred(&why))
        }
    }
}

fn value(answer: impl Serialize) -> Result<Value, CallRefusal> {
    let broken = |error: serde_json::Error| store::Error::Other(error.to_string());
    Ok(serde_json::to_value(answer).map_err(broken)?)
}

impl Caller<'_> {
    async fn answer(&self, call: Call) -> Result<Value, CallRefusal> {
        let coordinator = &self.app.coordinator;
        match call {
            // The worker asks for the server's time, because its own clock may be wrong.
            Call::Now {} => value(coordinator.now().await?),
            Call::Wait { request, most } => value(self.wait(request, most).await?),
            Call::Claim { request } => value(self.claim(request).await?),
            Call::Renew { job, fence, extend } => value(self.renew(job, fence, extend).await?),
            Call::Report(report) => value(self.report(*report).await?),
            Call::Finish(report) => value(self.finish(*report).await?),
            Call::Ticket { id } => value(Coordinator::ticket(coordinator, &id).await?),
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

    async fn wait(&self, request: JobRequest, most: Duration) -> Result<Vec<Offer>, CallRefusal> {
        let request = self.validate_request(request)?;
        // A longer wait would outlive the timeouts of proxies and clients.
        let wait = self.app.coordinator.wait(&request, most.min(WAIT_MAX));
        // A stopping server has no offers; the worker asks the next one.
        let offers = self.app.unless_stopped(wait).await.transpose()?;
        Ok(offers.unwrap_or_default())
    }

    /// Notes an incident of a run under a lease of this worker.
    async fn note_run(&self, note: RunNote) -> Result<(), CallRefusal> {
        if !NOTES.contains(&note.name.as_str()) {
            let why = format!("{:?} is not a note about a run", short(&note.name));
            return Err(CallRefusal::barred(why));
        }
        if note.body.to_string().len() > HEARTBEAT_BYTES_MAX {
            return Err(CallRefusal::barred("the note is too large"));
        }
        // The note is about a run, so the lease has to be the caller's.
        self.held_job(&note.ticket, note.lease).await?;
        let noted = Noted {
            at: (self.app.coordinator.clock)(),
            ticket: Some(note.ticket),
            name: note.name,
            by: self.identity.actor.agent.clone(),
            body: clean_texts(note.body)?,
        };
        Ok(self.app.coordinator.store.note(noted).await?)
    }

    /// Pauses a provider for all workers, because an exhausted quota concerns all of them. Other
    /// pauses are reserved to people.
    async fn pause_provider(&self, pause: Pause) -> Result<(), CallRefusal> {
        let (PauseScope::Provider(name), Some(until)) = (&pause.scope, pause.until) else {
            return Err(CallRefusal::barred(
                "a worker can pause only a provider, and only until a given time",
            ));
        };
        if !is_plain(name) {
            return Err(CallRefusal::barred("the name of the provider is not valid"));
        }
        // Read before the write, to keep a pause of a person.
        let pauses = self.app.coordinator.store.pauses().await?;
        let same = pauses.iter().find(|other| other.scope == pause.scope);
        // A pause without an end (a person's) or a longer one stays.
        if same.is_some_and(|other| other.until.is_none_or(|end| end >= until)) {
            return Ok(());
        }
        if same.is_none() && pauses.len() >= PAUSES_MAX {
            return Err(CallRefusal::barred("there are too many pauses"));
        }
        // The time comes from an agent's words, by way of the worker.
        let most = (self.app.coordinator.clock)().plus_ms(PROVIDER_PAUSE_MS_MAX);
        let pause = Pause {
            until: Some(until.min(most)),
            why: short(&pause.why),
            by: self.identity.actor.agent.clone(),
            ..pause
        };
        Ok(self.app.coordinator.store.pause(pause).await?)
    }

    /// Records a heartbeat with the server's time. The name of an agent that is no worker is
    /// refused.
    async fn heartbeat(&self, agent: Agent) -> Result<(), CallRefusal> {
        let store = &self.app.coordinator.store;
        let agents = store.agents().await?;
        let same = agents.iter().find(|other| other.name == agent.name);
        // An agent and a worker of one name would overwrite each other's sign of life.
        if !is_plain(&agent.name) || same.is_some_and(|other| other.role != "worker") {
            let why = format!("{:?} cannot be the name of a worker", short(&agent.name));
            return Err(CallRefusal::barred(why));
        }
        if same.is_none() && agents.len() >= WORKERS_MAX {
            return Err(CallRefusal::barred("there are too many workers"));
        }
        if agent.body.to_string().len() > HEARTBEAT_BYTES_MAX {
            return Err(CallRefusal::barred("the heartbeat is too large"));
        }
        let agent = Agent {
            role: "worker".to_owned(),
            // The worker's clock may be wrong, and silence is measured with it.
            seen_at: (self.app.coordinator.clock)(),
            ..clean_texts(agent)?
        };
        Ok(store.beat(agent).await?)
    }

    /// Notes a refused call with its caller in the log.
    async fn note_refused_call(&self, call: &str, ticket: Option<TicketId>, why: &str) {
        self.note(ticket, json!({"call": call, "why": why})).await;
    }

    /// Writes a refusal to the log. The ticket is left out if it does not exist.
    async fn note(&self, ticket: Option<TicketId>, body: Value) {
        let coordinator = &self.app.coordinator;
        if !(self.may_note)() {
            return;
        }
        let exists = match &ticket {
            Some(id) => matches!(coordinator.store.ticket(id).await, Ok(Some(_))),
            None => false,
        };
        let noted = Noted {
            at: (coordinator.clock)(),
            ticket: ticket.filter(|_| exists),
            name: "refused".to_owned(),
            by: self.identity.actor.agent.clone(),
            body,
        };
        // The refusal holds even if the note cannot be written.
        let noted = coordinator.store.note(noted).await;
        noted.log_err("record a refused call of a worker");
    }
}

/// Cuts a text to one line of bounded length.
fn short(text: &str) -> String {
    findings::one_line(text).chars().take(TEXT_MAX).collect()
}

/// Tells whether a text can be a name or a key: short, one line, no invisible characters.
fn is_plain(text: &str) -> bool {
    let is_one_line = !text.contains(['\n', '\t']);
    text.len() <= NAME_BYTES_MAX && is_one_line && findings::clean(text) == text
}

/// Cleans all texts of a call. Our workers clean theirs; another program may not.
/// Texts of a worker are shown to people like those of its agents.
fn clean_texts<T: Serialize + DeserializeOwned>(input: T) -> Result<T, CallRefusal> {
    let unreadable =
        |error: serde_json::Error| CallRefusal::barred(format!("the call cannot be read: {error}"));
    let mut value = serde_json::to_value(input).map_err(unreadable)?;
    clean_all(&mut value);
    serde_json::from_value(value).map_err(unreadable)
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
        let heard = clean_texts(said("\u{1b}[31mred\u{1b}[0m \u{202e}text")).ok();
        assert_eq!(heard, Some(said("red text")));
        let plain = said("a b\n\tc – ü");
        assert_eq!(clean_texts(plain.clone()).ok(), Some(plain));
    }
}
