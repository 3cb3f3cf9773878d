//! A pass: the token of one run of an agent that we start, so that it can call the server about its
//! job. It is for the run's own lease, ends with the run, and is in the run's environment alone, and on
//! the stdin of an agent that speaks ACP: not in arguments, transcripts or records. Where no server of
//! ours runs, or the policy keeps the agent off the network, there is none.

use std::ffi::OsString;

use flow::Time;
use flow::policy::Network;
use serde_json::json;
use store::{Noted, Token};

use super::{Held, Trouble, millis, room};
use crate::agent::{AgentEvent, Assignment, Report, Role, Tools, tools};
use crate::log::LogErr;
use crate::secret::{self, Fresh};
use crate::workshop::{Member, Server};

/// How long it outlives the run's own limit, for the ending of it.
const GRACE_MS: u64 = 60_000;
/// How much is recorded of why an agent went without our tools.
const WHY_CHARS_MAX: usize = 300;

/// A token that is good, and how the agent is told of it.
pub struct Pass {
    token: Token,
    secret: String,
    url: String,
}

impl Pass {
    /// Names it in records.
    pub fn id(&self) -> &str {
        &self.token.id
    }

    pub fn environment(&self) -> [(OsString, OsString); 2] {
        [
            ("COUNTERSIGN_SERVER".into(), self.url.clone().into()),
            (tools::TOKEN.into(), self.secret.clone().into()),
        ]
    }

    /// What the agent's CLI connects to.
    pub fn tools(&self) -> Tools {
        Tools::of(&self.url)
    }
}

/// A new one, where the agent has somebody to call.
pub async fn issue(
    held: &Held<'_>,
    member: &Member,
    assignment: &Assignment,
) -> Result<Option<Pass>, Trouble> {
    let Some(server) = server(held, assignment.role).await? else {
        return Ok(None);
    };
    let Fresh { secret, hash, id } = secret::fresh()?;
    let actor = member.actor(role(assignment.role));
    let now = (held.shop.desk.clock)();
    let lasts = millis(assignment.limits.wall).saturating_add(GRACE_MS);
    let token = Token {
        id,
        hash,
        agent: actor.agent,
        principal: actor.principal,
        role: actor.role.word().to_owned(),
        family: actor.family,
        ticket: Some(held.ticket.id.clone()),
        lease: Some(held.lease),
        created_by: held.shop.house().agent,
        created_at: now,
        expires_at: Some(now.plus_ms(lasts)),
        revoked_at: None,
    };
    let store = &held.shop.desk.store;
    let put = store.put_token(token.clone()).await;
    put.map_err(Trouble::transient)?;
    note(held, "token_created", &token).await;
    let url = server.url;
    Ok(Some(Pass { token, secret, url }))
}

/// A run whose CLI said that it could not connect went without our tools; that is on record once.
pub async fn tell_if_unconnected(held: &Held<'_>, pass: &Pass, report: &Report) {
    let mut events = report.events.iter();
    let Some(AgentEvent::Unconnected { why }) =
        events.find(|event| matches!(event, AgentEvent::Unconnected { .. }))
    else {
        return;
    };
    let desk = &held.shop.desk;
    let mut noted = noted_of_token("tools_unconnected", &pass.token, (desk.clock)());
    noted.body["why"] = findings::shorten(&findings::one_line(why), WHY_CHARS_MAX).into();
    // It is a note; the transcript has it too.
    let noted = desk.store.note(noted).await;
    noted.log_err("record that an agent went without its tools");
}

/// The run is over. What cannot be written now is over all the same: by its lease, and by its time.
pub async fn withdraw(held: &Held<'_>, pass: Option<Pass>) {
    let Some(Pass { token, .. }) = pass else {
        return;
    };
    let desk = &held.shop.desk;
    let revoked = desk.store.revoke(&token.id, (desk.clock)()).await;
    if let Some(true) = revoked.log_err("revoke a run token") {
        note(held, "token_revoked", &token).await;
    }
}

/// The server that the agent may call about a job of a ticket that it knows.
async fn server(held: &Held<'_>, role: Role) -> Result<Option<Server>, Trouble> {
    let shop = held.shop;
    if held.job.is_none() || *room::wanted_network(shop, role) == Network::Off {
        return Ok(None);
    }
    let Some(server) = shop.server.find(&shop.host.data_dir) else {
        return Ok(None);
    };
    // Of a task, which is a ticket that nobody keeps, there is nothing to say to it.
    let ticket = shop.desk.store.ticket(&held.ticket.id).await;
    if ticket.map_err(Trouble::transient)?.is_none() {
        return Ok(None);
    }
    let known = shop.desk.store.token(&server.token_hash).await;
    let known = known.map_err(Trouble::transient)?;
    Ok(known
        .is_some_and(|token| token.revoked_at.is_none())
        .then_some(server))
}

fn role(role: Role) -> flow::Role {
    match role {
        Role::Build => flow::Role::Builder,
        Role::Review => flow::Role::Reviewer,
        Role::Verify => flow::Role::Verifier,
    }
}

/// The log says who was let speak, and until when it was.
pub fn noted_of_token(name: &str, token: &Token, at: Time) -> Noted {
    let (job, fence) = token.lease.map(|lease| (lease.serial, lease.fence)).unzip();
    Noted {
        at,
        ticket: token.ticket.clone(),
        name: name.to_owned(),
        by: token.created_by.clone(),
        body: json!({"token": token.id, "agent": token.agent, "role": token.role,
            "job": job, "try": fence}),
    }
}

async fn note(held: &Held<'_>, name: &str, token: &Token) {
    let desk = &held.shop.desk;
    // It is a note; what it tells of is in the store.
    let noted = noted_of_token(name, token, (desk.clock)());
    let noted = desk.store.note(noted).await;
    noted.log_err("record the use of a run token");
}
