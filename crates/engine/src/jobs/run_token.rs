//! The run token of an agent that we spawn, so that it can call the server about its job. It is
//! bound to the lease of the run and ends with the run. It is only in the environment of the run,
//! and on the stdin of an agent that speaks ACP: not in arguments, transcripts or records. If no
//! server of ours runs, or the policy keeps the agent off the network, there is no token.

use std::ffi::OsString;

use flow::policy::Network;
use store::Token;

use super::{JobContext, JobError, millis, run_sandbox};
use crate::agent::{AgentAssignment, AgentEvent, AgentReport, AgentRole, McpEndpoint, mcp};
use crate::coordinator::{RunToken, noted_of_token};
use crate::log::LogErr;
use crate::project::{AgentConfig, AgentServer};
use crate::secret::{self, NewSecret};

/// Time that the token outlives the limit of the run, so that the run can end in order.
const GRACE_MS: u64 = 60_000;
/// Maximum length of the recorded reason why an agent could not connect to our tools.
const WHY_CHARS_MAX: usize = 300;

/// A valid token, with the address for the agent.
pub struct RunTokenGuard {
    token: Token,
    secret: String,
    url: String,
}

impl RunTokenGuard {
    /// Returns the id that records use.
    pub fn id(&self) -> &str {
        &self.token.id
    }

    pub fn environment(&self) -> [(OsString, OsString); 2] {
        [
            ("COUNTERSIGN_SERVER".into(), self.url.clone().into()),
            (mcp::TOKEN.into(), self.secret.clone().into()),
        ]
    }

    /// Returns the endpoint that the agent's CLI connects to.
    pub fn mcp_endpoint(&self) -> McpEndpoint {
        McpEndpoint::for_server(&self.url)
    }
}

/// Issues a token, if there is a server that the agent can call.
pub async fn issue_token(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    assignment: &AgentAssignment,
) -> Result<Option<RunTokenGuard>, JobError> {
    let Some(server) = find_server(context, assignment.role) else {
        return Ok(None);
    };
    let NewSecret { secret, hash, id } = secret::new_secret()?;
    let actor = agent.to_actor(to_flow_role(assignment.role));
    let now = (context.project.clock)();
    let lasts = millis(assignment.limits.wall).saturating_add(GRACE_MS);
    let token = Token {
        id,
        hash,
        agent: actor.agent,
        principal: actor.principal,
        role: actor.role.as_str().to_owned(),
        family: actor.family,
        ticket: Some(context.ticket.id.clone()),
        lease: Some(context.lease),
        created_by: context.project.system_actor().agent,
        created_at: now,
        expires_at: Some(now.plus_ms(lasts)),
        revoked_at: None,
        kind: store::TokenKind::Bearer,
        parent: None,
        uses: 0,
    };
    let issue = RunToken::Issue {
        token: Box::new(token.clone()),
        server: server.token_hash,
    };
    let issued = context.project.coordinator.run_token(issue).await;
    let is_known = issued.map_err(JobError::transient)?;
    let url = server.url;
    Ok(is_known.then_some(RunTokenGuard { token, secret, url }))
}

/// Records that a run had to work without our tools because its CLI could not connect.
pub async fn record_if_unconnected(
    context: &JobContext<'_>,
    guard: &RunTokenGuard,
    report: &AgentReport,
) {
    let mut events = report.events.iter();
    let Some(AgentEvent::McpUnavailable { why }) =
        events.find(|event| matches!(event, AgentEvent::McpUnavailable { .. }))
    else {
        return;
    };
    let now = (context.project.clock)();
    let mut noted = noted_of_token("tools_unconnected", &guard.token, now);
    noted.body["why"] = findings::shorten(&findings::one_line(why), WHY_CHARS_MAX).into();
    context.note(noted).await;
}

/// Revokes the token after the run. If that fails, the token still ends with its lease and its
/// expiry.
pub async fn revoke_token(context: &JobContext<'_>, guard: Option<RunTokenGuard>) {
    let Some(RunTokenGuard { token, .. }) = guard else {
        return;
    };
    let token = Box::new(token);
    let revoked = context
        .project
        .coordinator
        .run_token(RunToken::Revoke { token });
    revoked.await.log_err("revoke a run token");
}

/// Returns the server that the agent may call about its job. The server must know the ticket.
fn find_server(context: &JobContext<'_>, role: AgentRole) -> Option<AgentServer> {
    let project = context.project;
    if context.job.is_none() || *run_sandbox::network_policy(project, role) == Network::Off {
        return None;
    }
    project.server.find(&project.host.data_dir)
}

fn to_flow_role(role: AgentRole) -> flow::Role {
    match role {
        AgentRole::Build => flow::Role::Builder,
        AgentRole::Review => flow::Role::Reviewer,
        AgentRole::Verify => flow::Role::Verifier,
    }
}
