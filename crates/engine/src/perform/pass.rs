//! A pass: the token of one run of an agent that we start, so that it can call the server about its
//! job. It is for the run's own lease, ends with the run, and is in the run's environment alone, and on
//! the stdin of an agent that speaks ACP: not in arguments, transcripts or records. Where no server of
//! ours runs, or the policy keeps the agent off the network, there is none.

use std::ffi::OsString;

use flow::policy::Network;
use store::Token;

use super::{JobContext, JobError, millis, room};
use crate::agent::{AgentAssignment, AgentEvent, AgentReport, AgentRole, McpEndpoint, tools};
use crate::coordinator::{RunToken, noted_of_token};
use crate::log::LogErr;
use crate::secret::{self, NewSecret};
use crate::workshop::{AgentConfig, AgentServer};

/// How long it outlives the run's own limit, for the ending of it.
const GRACE_MS: u64 = 60_000;
/// How much is recorded of why an agent went without our tools.
const WHY_CHARS_MAX: usize = 300;

/// A token that is good, and how the agent is told of it.
pub struct RunTokenGuard {
    token: Token,
    secret: String,
    url: String,
}

impl RunTokenGuard {
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
    pub fn tools(&self) -> McpEndpoint {
        McpEndpoint::of(&self.url)
    }
}

/// A new one, where the agent has somebody to call.
pub async fn issue(
    held: &JobContext<'_>,
    member: &AgentConfig,
    assignment: &AgentAssignment,
) -> Result<Option<RunTokenGuard>, JobError> {
    let Some(server) = server(held, assignment.role) else {
        return Ok(None);
    };
    let NewSecret { secret, hash, id } = secret::fresh()?;
    let actor = member.actor(role(assignment.role));
    let now = (held.shop.clock)();
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
    let issue = RunToken::Issue {
        token: Box::new(token.clone()),
        server: server.token_hash,
    };
    let issued = held.shop.coordinator.run_token(issue).await;
    let is_known = issued.map_err(JobError::transient)?;
    let url = server.url;
    Ok(is_known.then_some(RunTokenGuard { token, secret, url }))
}

/// A run whose CLI said that it could not connect went without our tools; that is on record once.
pub async fn tell_if_unconnected(
    held: &JobContext<'_>,
    pass: &RunTokenGuard,
    report: &AgentReport,
) {
    let mut events = report.events.iter();
    let Some(AgentEvent::Unconnected { why }) =
        events.find(|event| matches!(event, AgentEvent::Unconnected { .. }))
    else {
        return;
    };
    let now = (held.shop.clock)();
    let mut noted = noted_of_token("tools_unconnected", &pass.token, now);
    noted.body["why"] = findings::shorten(&findings::one_line(why), WHY_CHARS_MAX).into();
    held.note(noted).await;
}

/// The run is over. What cannot be written now is over all the same: by its lease, and by its time.
pub async fn withdraw(held: &JobContext<'_>, pass: Option<RunTokenGuard>) {
    let Some(RunTokenGuard { token, .. }) = pass else {
        return;
    };
    let token = Box::new(token);
    let revoked = held.shop.coordinator.run_token(RunToken::Revoke { token });
    revoked.await.log_err("revoke a run token");
}

/// The server that the agent may call about a job of a ticket that it knows.
fn server(held: &JobContext<'_>, role: AgentRole) -> Option<AgentServer> {
    let shop = held.shop;
    if held.job.is_none() || *room::wanted_network(shop, role) == Network::Off {
        return None;
    }
    shop.server.find(&shop.host.data_dir)
}

fn role(role: AgentRole) -> flow::Role {
    match role {
        AgentRole::Build => flow::Role::Builder,
        AgentRole::Review => flow::Role::Reviewer,
        AgentRole::Verify => flow::Role::Verifier,
    }
}
