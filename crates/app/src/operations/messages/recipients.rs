//! Recipients of messages, and the inbox of people. Every message reaches somebody, or its sender is
//! told that there is nobody of that name.

use std::collections::BTreeSet;

use flow::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::Message;

use super::super::identity::{self, Identity};
use super::{App, INBOX_MAX};
use crate::failure::{ExitKind, Failure};

/// Name of the inbox that all people share.
const SUPERVISOR: &str = "supervisor";
/// Names of roles, which every agent of the role reads.
const ROLE_NAMES: [&str; 2] = ["developer", "reviewer"];
/// Most names that a refusal lists.
const NAMES_SHOWN_MAX: usize = 20;

/// The inboxes that a message goes to.
#[derive(Debug)]
pub(super) struct Recipients {
    pub names: Vec<String>,
    /// Whether a person is among them, who is notified.
    pub has_person: bool,
}

/// Finds the inboxes of a recipient: an agent, a person, `developer`, `reviewer`, `supervisor` (all
/// people), or `all` (every agent and all people).
pub(super) async fn resolve(
    app: &App,
    identity: &Identity,
    to: &str,
) -> Result<Recipients, Failure> {
    let to = findings::one_line(to);
    let one = |has_person| Recipients {
        names: vec![to.clone()],
        has_person,
    };
    if to == SUPERVISOR {
        return Ok(one(true));
    }
    if ROLE_NAMES.contains(&to.as_str()) {
        return Ok(one(false));
    }
    let (agents, people) = known_names(app).await?;
    if to == "all" {
        let others = agents
            .into_iter()
            .filter(|name| *name != identity.actor.agent);
        return Ok(Recipients {
            names: others.chain([SUPERVISOR.to_owned()]).collect(),
            has_person: true,
        });
    }
    if people.contains(&to) {
        return Ok(one(true));
    }
    if agents.contains(&to) {
        return Ok(one(false));
    }
    let general = [ROLE_NAMES[0], ROLE_NAMES[1], SUPERVISOR, "all"];
    let known = agents.iter().chain(&people).map(String::as_str);
    // An agent may have the name of a role.
    let known = known.filter(|name| !general.contains(name));
    let shown: Vec<&str> = known.take(NAMES_SHOWN_MAX).chain(general).collect();
    Err(Failure::new(
        ExitKind::Refused,
        format!("no agent or person is called {to:?}; the message was not sent"),
    )
    .hint(format!("send it to one of: {}", shown.join(", "))))
}

/// Returns the names of agents and of people that can read messages.
async fn known_names(app: &App) -> Result<(BTreeSet<String>, BTreeSet<String>), Failure> {
    let now = (app.coordinator.clock)();
    let (mut agents, mut people) = (BTreeSet::new(), BTreeSet::new());
    for token in identity::list(app).await? {
        let ended = token.revoked_at.is_some() || token.expires_at.is_some_and(|end| end <= now);
        if !ended {
            let names = if is_person(&token.role) {
                &mut people
            } else {
                &mut agents
            };
            names.insert(token.agent);
        }
    }
    for agent in app.coordinator.store.agents().await? {
        if is_person(&agent.role) {
            people.insert(agent.name);
        } else {
            agents.insert(agent.name);
        }
    }
    Ok((agents, people))
}

fn is_person(role: &str) -> bool {
    role == Role::Human.as_str() || role == Role::Admin.as_str()
}

/// A message to a person.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PersonMessage {
    pub id: i64,
    pub from: String,
    /// Your name, or `supervisor` for a message to all people.
    pub to: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
    pub at: String,
    pub ticket: Option<String>,
}

/// Returns the unread messages to the person who asks, and to all people, oldest first.
pub async fn person_inbox(app: &App) -> Result<Vec<PersonMessage>, Failure> {
    let mut found = Vec::new();
    for name in [app.person().agent.as_str(), SUPERVISOR] {
        found.extend(app.coordinator.store.messages(name, INBOX_MAX).await?);
    }
    found.sort_by_key(|message| message.id);
    Ok(found.into_iter().map(person_message).collect())
}

fn person_message(Message { id, message, .. }: Message) -> PersonMessage {
    PersonMessage {
        id,
        from: message.from,
        to: message.to,
        kind: message.kind,
        content: message.content,
        at: message.at.to_iso(),
        ticket: message.ticket.map(|ticket| ticket.to_string()),
    }
}

/// Marks a message of the person's inbox as read.
pub async fn mark_read(app: &App, id: i64) -> Result<PersonMessage, Failure> {
    let mut inbox = person_inbox(app).await?.into_iter();
    let Some(message) = inbox.find(|message| message.id == id) else {
        return Err(
            Failure::not_found(format!("you have no unread message {id}"))
                .hint("`countersign inbox` lists them"),
        );
    };
    let now = (app.coordinator.clock)();
    app.coordinator.store.mark_processed(id, now).await?;
    Ok(message)
}
