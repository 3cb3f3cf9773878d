//! Sessions of browsers: opened by a one-time login code or by a token, stored as hashes, with an
//! end that each visit moves, listed and revocable.
//!
//! A login code is made by a person who can read the data directory, so it opens a session of that
//! person. A token opens a session with its own name and role, which ends with the token. Agents
//! get no session.

use engine::secret::NewSecret;
use flow::Role;
use flow::access::Access;
use store::{Token, TokenChange, TokenKind, TokenQuery};

use super::App;
use super::identity::{self, AuthError, Identity};
use crate::failure::{ExitKind, Failure};

/// Lifetime of a login code. It is printed to a terminal, and terminals are recorded.
const CODE_MS: u64 = 60_000;
/// Time without a visit after which a session ends, so that a forgotten one ends over night.
const IDLE_MS: u64 = 12 * 3_600_000;
/// Age at which a session ends, however often it is used.
const SESSION_MS: u64 = 7 * 24 * 3_600_000;
/// Least time that a visit adds: each addition is a write.
const EXTEND_MS: u64 = 10 * 60_000;
/// Maximum number of sessions in a list.
const SESSIONS_MAX: u32 = 200;

/// A new session: the secret for the cookie, and how long the browser keeps it. The server decides
/// when the session ends.
#[derive(Debug)]
pub struct OpenedSession {
    pub secret: String,
    pub lasts_secs: u64,
}

/// Makes a login code for the person of this app. It works once, for a minute.
async fn create_login_code(app: &App) -> Result<String, Failure> {
    let person = app.person();
    let template = Token {
        principal: person.principal,
        agent: person.agent,
        // The local command line acts with these rights, and so does the browser that it opens.
        role: Role::Admin.as_str().to_owned(),
        ..blank(app, TokenKind::LoginCode)
    };
    Ok(put(app, template, CODE_MS).await?.0)
}

/// Returns an address that logs the person's browser in, once. The code is in the fragment, which
/// browsers do not send, so no log of a proxy has it.
pub async fn login_link(app: &App, url: &str) -> Result<String, Failure> {
    Ok(format!("{url}/login#{}", create_login_code(app).await?))
}

/// Opens a session with a login code, or with the token of a person.
pub async fn open(app: &App, secret: &str) -> Result<Result<OpenedSession, AuthError>, Failure> {
    let now = app.now();
    let hash = engine::secret::hash_secret(secret.trim());
    let Some(token) = app.coordinator.store.token(&hash).await? else {
        return Ok(Err(AuthError::Unknown));
    };
    let (id, kind, ends) = (token.id.clone(), token.kind, token.expires_at);
    let identity = match identity::identity_of(token, now) {
        Ok(identity) => identity,
        Err(error) => return Ok(Err(error)),
    };
    let parent = match kind {
        TokenKind::Session | TokenKind::SharedLink => return Ok(Err(AuthError::Unknown)),
        TokenKind::Bearer => Some(id),
        // Revoking tells whether this call was the first one, so a code works once.
        TokenKind::LoginCode if app.coordinator.store.revoke(&id, now).await? => None,
        TokenKind::LoginCode => return Ok(Err(AuthError::Revoked)),
    };
    require_person(&identity)?;
    let left = ends
        .filter(|_| parent.is_some())
        .and_then(|end| u64::try_from(end.0.saturating_sub(now.0)).ok());
    let left_ms = left.unwrap_or(SESSION_MS).min(SESSION_MS);
    let template = Token {
        principal: identity.actor.principal,
        agent: identity.actor.agent,
        role: identity.actor.role.as_str().to_owned(),
        parent,
        ..blank(app, TokenKind::Session)
    };
    let (secret, session) = put(app, template, left_ms.min(IDLE_MS)).await?;
    identity::note_token_event(app, "session_opened", &session).await?;
    Ok(Ok(OpenedSession {
        secret,
        lasts_secs: left_ms / 1000,
    }))
}

/// Opens a session for a person that an identity provider has verified.
pub(super) async fn open_for_person(
    app: &App,
    name: &str,
    role: Role,
) -> Result<OpenedSession, Failure> {
    let template = Token {
        principal: name.to_owned(),
        agent: name.to_owned(),
        role: role.as_str().to_owned(),
        ..blank(app, TokenKind::Session)
    };
    let (secret, session) = put(app, template, IDLE_MS).await?;
    identity::note_token_event(app, "session_opened", &session).await?;
    Ok(OpenedSession {
        secret,
        lasts_secs: SESSION_MS / 1000,
    })
}

/// Refuses agents, programs, and tokens of one ticket: the pages show everything.
fn require_person(identity: &Identity) -> Result<(), Failure> {
    let role = identity.actor.role;
    let is_person = matches!(role, Role::Human | Role::Admin | Role::Viewer);
    let refused = |why: String| {
        Err(Failure::new(ExitKind::Refused, why).hint(
            "create a token for a person: countersign token create --agent NAME --role human",
        ))
    };
    if !is_person || !matches!(identity.access, Access::SelfRegistered) {
        return refused(format!(
            "a token of the role {} opens no session in the browser",
            role.as_str()
        ));
    }
    match &identity.ticket {
        Some(ticket) => refused(format!(
            "this token is only for ticket {ticket}, and the dashboard shows all tickets"
        )),
        None => Ok(()),
    }
}

/// Returns the person behind the cookie of a session.
pub async fn authenticate(app: &App, secret: &str) -> Result<Result<Identity, AuthError>, Failure> {
    Ok(load_session(app, secret)
        .await?
        .map(|(_, identity)| identity))
}

/// The same for a visit of the person, which lets the session last longer. An open page that only
/// listens is no visit.
pub async fn visit(app: &App, secret: &str) -> Result<Result<Identity, AuthError>, Failure> {
    let (session, identity) = match load_session(app, secret).await? {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    let last = session.created_at.plus_ms(SESSION_MS);
    let until = app.now().plus_ms(IDLE_MS).min(last);
    let is_due = session
        .expires_at
        .is_some_and(|end| until > end.plus_ms(EXTEND_MS));
    if is_due {
        let change = TokenChange::Extend(until);
        let store = &app.coordinator.store;
        store.change_token(&session.id, change).await?;
    }
    Ok(Ok(identity))
}

async fn load_session(
    app: &App,
    secret: &str,
) -> Result<Result<(Token, Identity), AuthError>, Failure> {
    let hash = engine::secret::hash_secret(secret);
    let token = app.coordinator.store.token(&hash).await?;
    let session = token.filter(|token| token.kind == TokenKind::Session);
    Ok(session.ok_or(AuthError::Unknown).and_then(|session| {
        let identity = identity::identity_of(session.clone(), app.now())?;
        Ok((session, identity))
    }))
}

/// Lists the sessions that have not ended, newest first.
pub async fn list(app: &App) -> Result<Vec<Token>, Failure> {
    let query = TokenQuery {
        hash: None,
        kind: TokenKind::Session,
        most: SESSIONS_MAX,
    };
    let (now, mut sessions) = (app.now(), app.coordinator.store.tokens(&query).await?);
    sessions.retain(|session| {
        session.revoked_at.is_none() && session.expires_at.is_none_or(|end| end > now)
    });
    Ok(sessions)
}

/// Ends a session. Administrators end any session, other people their own.
pub async fn revoke(app: &App, id: &str) -> Result<(), Failure> {
    let mut sessions = list(app).await?;
    sessions.retain(|session| session.id == id);
    let session = sessions
        .pop()
        .ok_or_else(|| Failure::not_found(format!("there is no session {id}")))?;
    let own = session.agent == app.actor.agent && session.principal == app.actor.principal;
    if !own && app.actor.role != Role::Admin {
        let why = format!("the session {id} belongs to {}", session.agent);
        return Err(Failure::new(ExitKind::Refused, why));
    }
    app.coordinator.store.revoke(id, app.now()).await?;
    identity::note_token_event(app, "session_ended", &session).await
}

pub(super) fn blank(app: &App, kind: TokenKind) -> Token {
    Token {
        id: String::new(),
        hash: String::new(),
        agent: String::new(),
        principal: String::new(),
        role: String::new(),
        family: None,
        ticket: None,
        lease: None,
        created_by: app.person().agent,
        created_at: app.now(),
        expires_at: None,
        revoked_at: None,
        kind,
        parent: None,
        uses: 0,
    }
}

/// Stores a new secret with the template's identity.
pub(super) async fn put(
    app: &App,
    template: Token,
    lasts_ms: u64,
) -> Result<(String, Token), Failure> {
    let NewSecret { secret, hash, id } = engine::secret::new_secret().map_err(|error| {
        Failure::error(format!("cannot make a secret, no random numbers: {error}"))
    })?;
    let token = Token {
        id,
        hash,
        expires_at: Some(template.created_at.plus_ms(lasts_ms)),
        ..template
    };
    app.coordinator.store.put_token(token.clone()).await?;
    Ok((secret, token))
}
