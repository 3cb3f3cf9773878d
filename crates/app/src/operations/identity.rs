//! Tokens and the identities behind them: agent, principal, role and permitted ticket. A token's
//! secret is shown once; the store keeps only its hash.
//!
//! Independence of builder and reviewer is decided by principal. So this is the place where two
//! names that look alike are kept apart.

use std::fmt;

use engine::log::LogErr;
use engine::secret::{NewSecret, derive_credential};
use flow::access::Access;
use flow::attempt::Attempt;
use flow::{Actor, Role, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Noted, Token, TokenKind, TokenQuery};

use super::{App, share_links};
use crate::failure::{ExitKind, Failure};

/// Maximum number of tokens in a list.
const TOKENS_MAX: u32 = 1000;

fn all_tokens() -> TokenQuery {
    TokenQuery {
        hash: None,
        kind: TokenKind::Bearer,
        most: TOKENS_MAX,
    }
}

/// Properties of a token to create.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    pub agent: String,
    /// Person or team behind the agent; the agent itself if it is not given.
    pub principal: Option<String>,
    pub role: Role,
    pub family: Option<String>,
    pub ticket: Option<TicketId>,
    pub ttl_ms: Option<u64>,
}

/// A new token with its secret, which is not shown again.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NewToken {
    pub secret: String,
    pub token: Token,
}

/// Caller with a valid token.
#[derive(Clone, Debug)]
pub struct Identity {
    pub actor: Actor,
    /// Id of the token.
    pub token: String,
    /// End of the token's validity.
    pub expires_at: Option<Time>,
    /// Tells apart the processes that use the same token, if the protocol has sessions.
    pub session: Option<String>,
    /// The only ticket that the caller may read or change.
    pub ticket: Option<TicketId>,
    /// Whether the agent connected by itself or Countersign started it.
    pub access: Access,
    /// Address by which the caller reached this server, such as `http://127.0.0.1:7420`.
    pub server_url: Option<String>,
    key: CredentialKey,
}

/// Hash of the caller's token, from which credentials are derived. It is not printed.
#[derive(Clone)]
struct CredentialKey(String);

impl fmt::Debug for CredentialKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("CredentialKey")
    }
}

impl Identity {
    /// Derives the credential with which this agent gets the repository of one claim over git.
    /// Agents that Countersign started have none: their worker brings the commits.
    pub fn claim_credential(&self, attempt: &Attempt) -> Option<String> {
        let derived = || derive_credential(&self.token, &self.key.0, &purpose_of(attempt));
        matches!(self.access, Access::SelfRegistered).then(derived)
    }
}

impl Identity {
    /// Derives the token that forms of this session carry, so that another site cannot submit one.
    pub fn form_token(&self) -> String {
        derive_credential(&self.token, &self.key.0, "form")
    }
}

fn purpose_of(attempt: &Attempt) -> String {
    format!("git:{attempt}")
}

/// Reason why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("no token was given; send it as `Authorization: Bearer …`")]
    NoToken,
    #[error("this token is not known here")]
    Unknown,
    #[error("this token has expired; ask for a new one")]
    Expired,
    #[error("this token was revoked; ask for a new one")]
    Revoked,
    #[error("the run that this token was made for is over")]
    RunEnded,
    #[error("the claim that this credential was made for is over, or it is not this one")]
    ClaimEnded,
}

/// Creates a token. Names are cleaned, and a name that looks like another principal's is refused.
pub async fn create(app: &App, request: TokenRequest) -> Result<NewToken, Failure> {
    let agent = findings::one_line(request.agent.trim());
    if agent.is_empty() {
        return Err(Failure::usage("a token needs the name of its agent"));
    }
    let principal = match request.principal {
        // A principal keeps its inner spaces: it may be the name of a person.
        Some(principal) => findings::clean_name(&principal),
        None => agent.clone(),
    };
    must_be_distinct(app, &principal).await?;
    let now = (app.coordinator.clock)();
    let NewSecret { secret, hash, id } = engine::secret::new_secret().map_err(|error| {
        Failure::error(format!("cannot make a secret, no random numbers: {error}"))
    })?;
    let token = Token {
        id,
        hash,
        principal,
        agent,
        role: request.role.as_str().to_owned(),
        family: request.family.map(|family| findings::clean_name(&family)),
        ticket: request.ticket,
        lease: None,
        created_by: app.person().agent,
        created_at: now,
        expires_at: request.ttl_ms.map(|ttl| now.plus_ms(ttl)),
        revoked_at: None,
        kind: TokenKind::Bearer,
        parent: None,
        uses: 0,
    };
    app.coordinator.store.put_token(token.clone()).await?;
    // A token that is not in the log could not be explained later, so a failed note is an error
    // here.
    note_token_event(app, "token_created", &token).await?;
    Ok(NewToken { secret, token })
}

/// Refuses a name that a person would take for another's. Independence is judged by the name, so
/// `Bea` must not review what `bea` built.
pub(super) async fn must_be_distinct(app: &App, principal: &str) -> Result<(), Failure> {
    let mut letters = principal.chars().filter(|c| c.is_alphabetic());
    // `а` of Cyrillic looks like `a`. A name in one alphabet is fine, whichever it is.
    let mixed = letters.clone().any(|c| c.is_ascii()) && letters.any(|c| !is_latin(c));
    if mixed {
        return Err(Failure::usage(format!(
            "the name {principal:?} mixes Latin letters with letters of another alphabet, and can be taken for another name"
        ))
        .hint("write the name in one alphabet"));
    }
    let folded = principal.to_lowercase();
    let now = (app.coordinator.clock)();
    let tokens = list(app).await?;
    // An expired or revoked token acts no more, so its name is free.
    let valid = |token: &&Token| {
        token.revoked_at.is_none() && token.expires_at.is_none_or(|expiry| expiry > now)
    };
    let mut alike = tokens
        .iter()
        .filter(valid)
        .filter(|token| token.principal != principal && token.principal.to_lowercase() == folded);
    match alike.next() {
        Some(other) => Err(Failure::usage(format!(
            "the name {principal:?} differs from {:?} only in upper and lower case, and {:?} has a token",
            other.principal, other.principal
        ))
        .hint(format!(
            "for the same agent or person write it as {:?}; for another choose another name",
            other.principal
        ))),
        None => Ok(()),
    }
}

/// Tells whether a letter is in one of the Latin blocks, which include accented letters.
fn is_latin(c: char) -> bool {
    c.is_ascii() || ('\u{c0}'..='\u{24f}').contains(&c) || ('\u{1e00}'..='\u{1eff}').contains(&c)
}

pub async fn list(app: &App) -> Result<Vec<Token>, Failure> {
    Ok(app.coordinator.store.tokens(&all_tokens()).await?)
}

/// Revokes a token, or a link to one ticket; a revoked one is refused.
pub async fn revoke(app: &App, id: &str) -> Result<Token, Failure> {
    let token = match find(app, id).await {
        Err(failure) if failure.not_found => share_links::find(app, id).await?.ok_or(failure)?,
        found => found?,
    };
    let now = (app.coordinator.clock)();
    if !app.coordinator.store.revoke(&token.id, now).await? {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("the token {id} is already revoked"),
        ));
    }
    note_token_event(app, "token_revoked", &token).await?;
    Ok(token)
}

/// Creates a new secret for the same agent, role and scope, and revokes the old one.
pub async fn rotate(app: &App, id: &str) -> Result<NewToken, Failure> {
    // The secret of a run is in the environment of its process. A new one would not reach it.
    if find(app, id).await?.lease.is_some() {
        let why = format!("the token {id} was made for one run of an agent and ends with it");
        return Err(Failure::new(ExitKind::Refused, why));
    }
    // Revoked before the new one is made: after a crash in between there is no token, and not two.
    let old = revoke(app, id).await?;
    let now = (app.coordinator.clock)();
    // The new secret ends when the old one would have. Rotation must not extend access.
    let ttl = old.expires_at.map(|end| end.0.saturating_sub(now.0));
    let request = TokenRequest {
        agent: old.agent,
        principal: Some(old.principal),
        role: parse_role(&old.role)?,
        family: old.family,
        ticket: old.ticket,
        ttl_ms: ttl.and_then(|ttl| u64::try_from(ttl).ok()),
    };
    create(app, request).await
}

async fn find(app: &App, id: &str) -> Result<Token, Failure> {
    let mut tokens = list(app).await?;
    tokens.retain(|token| token.id == id);
    tokens.pop().ok_or_else(|| {
        Failure::not_found(format!("there is no token {id}"))
            .hint("`countersign token list` shows all tokens")
    })
}

pub fn parse_role(word: &str) -> Result<Role, Failure> {
    let role = Role::ALL.into_iter().find(|role| role.as_str() == word);
    role.ok_or_else(|| {
        let words: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        Failure::usage(format!("{word:?} is not a role"))
            .hint(format!("use one of {}", words.join(", ")))
    })
}

/// Authenticates a secret: returns the identity behind it, or the reason why it is not accepted.
pub async fn authenticate(app: &App, secret: &str) -> Result<Result<Identity, AuthError>, Failure> {
    let now = (app.coordinator.clock)();
    let token = app
        .coordinator
        .store
        // Looked up by hash, so the comparison takes no time that depends on the secret.
        .token(&engine::secret::hash_secret(secret))
        .await?;
    match token
        .filter(|token| token.kind == TokenKind::Bearer)
        .ok_or(AuthError::Unknown)
        .and_then(|token| identity_of(token, now))
    {
        Ok(identity) => check_run_active(app, identity).await,
        refused => Ok(refused),
    }
}

/// Returns the identity of the token that a credential for git was derived from, if the token is
/// valid. The caller compares the credential with the one of the claim.
pub async fn find_by_credential(
    app: &App,
    credential: &str,
) -> Result<Result<Identity, AuthError>, Failure> {
    let Some(id) = engine::secret::credential_token_id(credential) else {
        return Ok(Err(AuthError::Unknown));
    };
    let now = (app.coordinator.clock)();
    let mut tokens = list(app).await?;
    tokens.retain(|token| token.id == id);
    Ok(tokens
        .pop()
        .ok_or(AuthError::Unknown)
        .and_then(|token| identity_of(token, now)))
}

/// Accepts an agent that Countersign started only while its run is active.
async fn check_run_active(
    app: &App,
    identity: Identity,
) -> Result<Result<Identity, AuthError>, Failure> {
    let id = match (identity.access, &identity.ticket) {
        (Access::SelfRegistered, _) => return Ok(Ok(identity)),
        (Access::Spawned(_), Some(id)) => id,
        (Access::Spawned(_), None) => return Ok(Err(AuthError::RunEnded)),
    };
    let stored = app.coordinator.store.ticket(id).await?;
    let lasts = stored.is_some_and(|stored| identity.access.is_live(&stored.ticket));
    Ok(if lasts {
        Ok(identity)
    } else {
        Err(AuthError::RunEnded)
    })
}

pub(super) fn identity_of(token: Token, now: Time) -> Result<Identity, AuthError> {
    // Revoked goes first: it is the stronger reason.
    if token.revoked_at.is_some() {
        return Err(AuthError::Revoked);
    }
    if token.expires_at.is_some_and(|end| end <= now) {
        return Err(AuthError::Expired);
    }
    // A role of another version is not guessed.
    let role = parse_role(&token.role).map_err(|_| AuthError::Unknown)?;
    Ok(Identity {
        actor: Actor {
            agent: token.agent,
            principal: token.principal,
            role,
            family: token.family,
            written: None,
            model: None,
        },
        token: token.id,
        expires_at: token.expires_at,
        session: None,
        ticket: token.ticket,
        access: token.lease.map_or(Access::SelfRegistered, Access::Spawned),
        server_url: None,
        key: CredentialKey(token.hash),
    })
}

/// Notes a refused call and its caller in the log; a rate limiter drops part of a flood. The
/// refusal holds even if the note cannot be written.
pub async fn note_refusal(app: &App, identity: Option<&Identity>, body: Value) {
    let name = identity.map_or("", |identity| &identity.actor.agent);
    // A flood of refusals must not push everything else out of the log.
    if !app.coordinator.refusals.allow(name) {
        return;
    }
    let noted = Noted {
        at: (app.coordinator.clock)(),
        ticket: identity.and_then(|identity| identity.ticket.clone()),
        name: "refused".to_owned(),
        by: identity
            .map_or("nobody", |identity| &identity.actor.agent)
            .to_owned(),
        body,
    };
    let noted = app.coordinator.store.note(noted).await;
    noted.log_err("record a refusal");
}

pub(super) async fn note_token_event(app: &App, name: &str, token: &Token) -> Result<(), Failure> {
    let noted = Noted {
        at: (app.coordinator.clock)(),
        ticket: token.ticket.clone(),
        name: name.to_owned(),
        by: app.person().agent,
        body: json!({"token": token.id, "agent": token.agent, "role": token.role}),
    };
    Ok(app.coordinator.store.note(noted).await?)
}
