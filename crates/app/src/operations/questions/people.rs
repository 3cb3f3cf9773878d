//! Tokens of callers, pauses of agents, queues and providers, and limits of providers.

use async_trait::async_trait;
use flow::{Role, TicketId, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Agent, Pause, PauseScope, Token};

use super::{Items, Method, Question};
use crate::failure::Failure;
use crate::operations::identity::{self, NewToken, TokenRequest};
use crate::operations::{App, parse_ticket_id, pauses, share_links, tickets};

/// Longest name of something that is paused.
const PAUSED_CHARS_MAX: usize = 100;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowCaller {}

/// The caller as the server knows it by its token.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallerProfile {
    pub agent: String,
    /// Person or team behind the agent.
    pub principal: String,
    pub role: Role,
    /// Family of the model behind the agent, if known.
    pub family: Option<String>,
    /// The only ticket that the caller may read or change; `null` for all.
    pub ticket: Option<TicketId>,
    /// Id of the token; it is not secret.
    pub token: Option<String>,
    /// End of the token's validity; `null` if it has none.
    pub expires_at: Option<Time>,
}

#[async_trait]
impl Question for ShowCaller {
    type Answer = CallerProfile;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/me";

    async fn answer(self, app: &App) -> Result<CallerProfile, Failure> {
        let actor = app.person();
        let token = app.call.token.clone();
        Ok(CallerProfile {
            agent: actor.agent,
            principal: actor.principal,
            role: actor.role,
            family: actor.family,
            ticket: app.call.only_ticket.clone(),
            expires_at: token.as_ref().and_then(|token| token.expires_at),
            token: token.map(|token| token.id),
        })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListTokens {}

#[async_trait]
impl Question for ListTokens {
    type Answer = Items<Token>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tokens";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let mut items = identity::list(app).await?;
        items.extend(share_links::list(app).await?);
        Ok(Items { items })
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    pub agent: String,
    /// builder, reviewer, verifier, human, service, admin or viewer.
    pub role: String,
    #[serde(default)]
    pub principal: Option<String>,
    #[serde(default)]
    pub family: Option<String>,
    #[serde(default)]
    pub ticket: Option<String>,
    #[serde(default)]
    pub ttl_secs: Option<u64>,
}

#[async_trait]
impl Question for CreateToken {
    type Answer = NewToken;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tokens";
    const CREATES: bool = true;

    async fn answer(self, app: &App) -> Result<NewToken, Failure> {
        let request = TokenRequest {
            agent: self.agent,
            principal: self.principal,
            role: identity::parse_role(&self.role)?,
            family: self.family,
            ticket: self.ticket.as_deref().map(parse_ticket_id).transpose()?,
            ttl_ms: self.ttl_secs.map(|secs| secs.saturating_mul(1000)),
        };
        identity::create(app, request).await
    }
}

/// Makes a link that shows one ticket to everybody who has it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareTicket {
    pub ticket: String,
    /// Lifetime in seconds; 7 days if it is not given, 90 days at most.
    #[serde(default)]
    pub expires_secs: Option<u64>,
}

/// A new link; its secret is shown only once.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewSharedLink {
    /// Address of the page below the address of the server. Everybody who has it can read.
    pub path: String,
    pub token: Token,
}

#[async_trait]
impl Question for ShareTicket {
    type Answer = NewSharedLink;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/shares";
    const CREATES: bool = true;

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, app: &App) -> Result<NewSharedLink, Failure> {
        let lasts_ms = self.expires_secs.map(|secs| secs.saturating_mul(1000));
        let made = share_links::create(app, &self.ticket, lasts_ms).await?;
        Ok(NewSharedLink {
            path: share_links::path_of(&made),
            token: made.token,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeToken {
    pub token: String,
}

#[async_trait]
impl Question for RevokeToken {
    type Answer = Token;
    const METHOD: Method = Method::Delete;
    const PATH: &'static str = "/api/v1/tokens/{token}";

    async fn answer(self, app: &App) -> Result<Token, Failure> {
        identity::revoke(app, &self.token).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotateToken {
    pub token: String,
}

#[async_trait]
impl Question for RotateToken {
    type Answer = NewToken;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tokens/{token}/rotate";
    const CREATES: bool = true;

    async fn answer(self, app: &App) -> Result<NewToken, Failure> {
        identity::rotate(app, &self.token).await
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListAgents {}

#[async_trait]
impl Question for ListAgents {
    type Answer = Items<Agent>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/agents";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let items = pauses::known_agents(app).await?;
        Ok(Items { items })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListPauses {}

#[async_trait]
impl Question for ListPauses {
    type Answer = Items<Pause>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/pauses";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let items = tickets::pauses(app).await?;
        Ok(Items { items })
    }
}

/// Kind of thing that can be paused.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseScopeKind {
    Agent,
    Queue,
    Provider,
}

impl PauseScopeKind {
    fn with_name(self, name: String) -> PauseScope {
        match self {
            Self::Agent => PauseScope::Agent(name),
            Self::Queue => PauseScope::Queue(name),
            Self::Provider => PauseScope::Provider(name),
        }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePause {
    pub scope: PauseScopeKind,
    pub name: String,
    #[serde(default)]
    pub why: String,
    /// Without it the pause has no end.
    #[serde(default)]
    pub for_secs: Option<u64>,
}

#[async_trait]
impl Question for CreatePause {
    type Answer = Pause;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/pauses";
    const CREATES: bool = true;

    async fn answer(self, app: &App) -> Result<Pause, Failure> {
        let name = findings::one_line(&self.name);
        if name.is_empty() || name.chars().count() > PAUSED_CHARS_MAX {
            let why = format!("the name has 1 to {PAUSED_CHARS_MAX} characters");
            return Err(Failure::usage(why));
        }
        let scope = self.scope.with_name(name);
        pauses::pause(app, scope, &self.why, self.for_secs).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndPause {
    pub scope: PauseScopeKind,
    pub name: String,
}

#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ResumedPause {
    pub resumed: PauseScope,
}

#[async_trait]
impl Question for EndPause {
    type Answer = ResumedPause;
    const METHOD: Method = Method::Delete;
    const PATH: &'static str = "/api/v1/pauses/{scope}/{name}";

    async fn answer(self, app: &App) -> Result<ResumedPause, Failure> {
        let scope = self.scope.with_name(self.name);
        if !pauses::resume(app, &scope).await? {
            return Err(Failure::not_found("there is no such pause").hint(
                "`countersign status` lists the pauses; --agent and --provider name other kinds",
            ));
        }
        Ok(ResumedPause { resumed: scope })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListProviderLimits {}

/// Maximum number of jobs of one provider that run at once, on all machines together.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderLimit {
    pub provider: String,
    /// Null removes the limit.
    pub most: Option<u32>,
}

#[async_trait]
impl Question for ListProviderLimits {
    type Answer = Items<ProviderLimit>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/limits";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let limits = pauses::provider_limits(app).await?.into_iter();
        let limit = |(provider, most)| ProviderLimit {
            provider,
            most: Some(most),
        };
        Ok(Items {
            items: limits.map(limit).collect(),
        })
    }
}

#[async_trait]
impl Question for ProviderLimit {
    type Answer = Self;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/limits";

    async fn answer(self, app: &App) -> Result<Self, Failure> {
        pauses::set_provider_limit(app, &self.provider, self.most).await?;
        Ok(self)
    }
}
