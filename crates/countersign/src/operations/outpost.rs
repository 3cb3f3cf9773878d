//! Workers that are elsewhere and reach the store through a server. The server decides, and not the
//! worker: a report is an event, which `flow` decides on again under the ticket's own policy; a lease
//! is bound to the token that it was claimed with; what a worker has no business with is refused,
//! and the log says so.

pub mod call;
mod files;
mod leases;
mod parcels;
mod passes;
mod reports;

use std::time::Duration;

use flow::event::Lease;
use flow::standing::Standing;
use flow::{Role, TicketId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use store::{Agent, Noted, Pause, Scope};

use super::Office;
use super::identity::Speaker;
use crate::failure::Failure;
use call::{Call, Refusal, WORDS_MAX};

/// A text of a worker's that is kept is cut there.
const TEXT_MAX: usize = 2000;
/// No name or key is longer.
const PLAIN_MAX: usize = 5000;
/// A provider does not rest longer than this by a worker's word.
const REST_MS_MAX: u64 = 8 * 24 * 3_600_000;
/// What a worker may tell of itself.
const SIGN_BYTES_MAX: usize = 16 * 1024;
/// More workers, or more pauses, are not kept.
const WORKERS_MAX: usize = 10_000;
const PAUSES_MAX: usize = 1000;
/// More messages are not read at once.
const MESSAGES_MAX: u32 = 1000;

/// A worker elsewhere that calls.
struct Caller<'a> {
    office: &'a Office,
    speaker: &'a Speaker,
    admits: Admits<'a>,
}

/// Whether one more refusal is written down: each is, and a flood of them is not.
pub type Admits<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// Why a call comes to nothing.
#[derive(Debug)]
enum No {
    /// It is not this worker's to call for.
    Barred(String),
    /// It is about a lease that is not this worker's.
    NotHeld(store::Error),
    Store(store::Error),
}

impl From<store::Error> for No {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
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
    fn new(barred: bool, error: store::Error) -> Self {
        Self {
            barred,
            error: json!(error),
            failure: error.into(),
        }
    }

    fn not_understood(error: &serde_json::Error) -> Self {
        let failure = Failure::usage(format!("the call: {error}")).hint(
            "the worker may be another version: compare `countersign --version` there and here",
        );
        Self {
            barred: false,
            error: json!(store::Error::Other(failure.message.clone())),
            failure,
        }
    }
}

/// Whether this speaker may be a worker at all; asked before anything of the call is read.
pub fn may_work(speaker: &Speaker) -> Result<(), String> {
    let role = speaker.actor.role;
    if !matches!(role, Role::Service | Role::Admin) {
        let word = role.word();
        return Err(format!("the role {word} is no worker; it takes service"));
    }
    if speaker.ticket.is_some() || speaker.standing != Standing::Guest {
        return Err("a worker's token is for all tickets, and this one is for one".to_owned());
    }
    Ok(())
}

/// Answers one call.
pub async fn answer(
    office: &Office,
    (speaker, admits): (&Speaker, Admits<'_>),
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
        return Err(Declined::new(true, store::Error::Overruled(why)));
    }
    match Box::pin(caller.answer(call)).await {
        Ok(value) => Ok(value),
        Err(No::Store(error)) => Err(Declined::new(false, error)),
        Err(No::NotHeld(error)) => {
            caller.refused(name, ticket, &error.to_string()).await;
            Err(Declined::new(false, error))
        }
        Err(No::Barred(why)) => {
            caller.refused(name, ticket, &why).await;
            Err(Declined::new(true, store::Error::Overruled(why)))
        }
    }
}

fn value(answer: impl Serialize) -> Result<Value, No> {
    serde_json::to_value(answer).map_err(|error| No::Store(store::Error::Other(error.to_string())))
}

impl Caller<'_> {
    async fn answer(&self, call: Call) -> Result<Value, No> {
        let store = &self.office.desk.store;
        match call {
            Call::Now {} => value(store.now().await?),
            Call::Ticket { id } => value(store.ticket(&id).await?),
            Call::Tickets { query, page } => value(store.tickets(&query, &page).await?),
            Call::Jobs { query, page } => value(self.jobs(&query, &page).await?),
            Call::Job { id } => value(self.job(id).await?),
            Call::JobByKey { key } => value(self.job_by_key(&key).await?),
            Call::HasOpen { queues } => value(self.has_open(queues.as_deref()).await?),
            Call::Claim { request } => value(self.claim(request).await?),
            Call::Finish { ended } => value(self.finish(ended).await?),
            Call::Renew { job, fence, lease } => value(self.renew(job, fence, lease).await?),
            Call::Wait { request, most } => value(self.wait(request, most).await?),
            Call::Commit(decided) => value(self.decide(*decided).await?),
            Call::Keep(kept) => value(self.keep(kept).await?),
            Call::Refuse(refusal) => {
                self.told_of(refusal).await;
                Ok(Value::Null)
            }
            Call::Recall { key } => value(self.recall(&key).await?),
            Call::Spend(spent) => value(self.spend(spent).await?),
            Call::SpentSince { time } => value(store.spent_since(time).await?),
            Call::Pause { pause } => value(self.pause(pause).await?),
            Call::Pauses {} => value(store.pauses().await?),
            Call::Statements {
                ticket,
                lease,
                most,
            } => value(self.statements((&ticket, lease), most).await?),
            Call::Rules { repository, most } => value(self.rules(&repository, most).await?),
            Call::Beat { agent } => value(self.beat(agent).await?),
            Call::Issue(pass) => value(self.issue(*pass).await?),
            Call::Me { hash } => value(self.me(&hash).await?),
            Call::Withdraw { token } => value(self.withdraw(&token).await?),
            Call::PutParcel(packed) => value(self.put_parcel(packed.into()).await?),
            Call::Parcel { key } => value(self.parcel(&key).await?),
            Call::WantParcel { key } => value(self.want_parcel(&key).await?),
        }
    }

    async fn wait(&self, request: store::ClaimRequest, most: Duration) -> Result<(), No> {
        let request = self.sound(request)?;
        let most = most.min(call::WAIT_MAX);
        self.office.desk.store.wait(&request, most).await;
        Ok(())
    }

    /// Out of quota is so for everybody who uses a provider; other pauses are a person's.
    async fn pause(&self, pause: Pause) -> Result<(), No> {
        let (Scope::Provider(name), Some(until)) = (&pause.scope, pause.until) else {
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

    /// What an agent of this worker's has said under a claim.
    async fn statements(
        &self,
        (ticket, lease): (&TicketId, Lease),
        most: u32,
    ) -> Result<Vec<store::ClaimStatement>, No> {
        self.held(ticket, lease).await?;
        let most = most.min(MESSAGES_MAX);
        Ok(self
            .office
            .desk
            .store
            .statements(ticket, lease, most)
            .await?)
    }

    async fn rules(&self, repository: &str, most: u32) -> Result<Vec<store::ProjectRule>, No> {
        if !is_plain(repository) {
            return Err(No::barred("that is no repository's name"));
        }
        let most = most.min(MESSAGES_MAX);
        Ok(self.office.desk.store.rules(repository, most).await?)
    }

    /// A sign of life, by our clock. An agent that is no worker gives its own.
    async fn beat(&self, agent: Agent) -> Result<(), No> {
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

    /// What the worker refused at its own desk is on record here.
    async fn told_of(&self, refusal: Refusal) {
        let body = json!({"event": short(&refusal.event), "why": short(&refusal.why)});
        self.note(refusal.ticket, body).await;
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
        let _ = desk.store.note(noted).await;
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

/// What our own performers have cleaned is as it was; what another program sends is cleaned here.
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
    use flow::What;

    use super::*;

    #[test]
    fn what_a_report_says_is_cleaned_and_otherwise_as_it_was() {
        let said = |why: &str| What::HelpRequested {
            why: why.to_owned(),
            lease: None,
        };
        let heard = cleaned(said("\u{1b}[31mred\u{1b}[0m \u{202e}text")).ok();
        assert_eq!(heard, Some(said("red text")));
        let plain = said("a b\n\tc – ü");
        assert_eq!(cleaned(plain.clone()).ok(), Some(plain));
    }
}
