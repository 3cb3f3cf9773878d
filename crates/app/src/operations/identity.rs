//! Who speaks: tokens, whom they stand for, and of what they may speak. The secret is shown once;
//! what is kept is its hash.

use engine::log::LogErr;
use engine::secret::NewSecret;
use flow::standing::Access;
use flow::{Actor, Role, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Noted, Token, TokenQuery};

use super::App;
use crate::failure::{ExitKind, Failure};

/// No list of tokens is longer.
const TOKENS_MAX: u32 = 1000;

fn all_tokens() -> TokenQuery {
    TokenQuery {
        hash: None,
        most: TOKENS_MAX,
    }
}

/// What a token is wanted for.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    pub agent: String,
    /// Whom the agent stands for; itself, where nobody is named.
    pub principal: Option<String>,
    pub role: Role,
    pub family: Option<String>,
    pub ticket: Option<TicketId>,
    pub ttl_ms: Option<u64>,
}

/// A new token, with the secret that nobody will see again.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewToken {
    pub secret: String,
    pub token: Token,
}

/// Somebody whose token is good.
#[derive(Clone, Debug)]
pub struct Identity {
    pub actor: Actor,
    /// The id of its token.
    pub token: String,
    /// Which of the processes that use the token it is, where the protocol says so.
    pub session: Option<String>,
    /// The only ticket that it may speak of.
    pub ticket: Option<TicketId>,
    /// Whether it came by itself, or we have started it.
    pub standing: Access,
}

/// Why nobody is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("no token was given; send it as `Authorization: Bearer …`")]
    Silent,
    #[error("this token is not known here")]
    Unknown,
    #[error("this token has expired; ask for a new one")]
    Expired,
    #[error("this token was revoked; ask for a new one")]
    Revoked,
    #[error("the run that this token was made for is over")]
    Over,
}

pub async fn create(office: &App, wanted: TokenRequest) -> Result<NewToken, Failure> {
    let agent = findings::one_line(wanted.agent.trim());
    if agent.is_empty() {
        return Err(Failure::usage("a token needs the name of its agent"));
    }
    let principal = match wanted.principal {
        Some(principal) => findings::clean_name(&principal),
        None => agent.clone(),
    };
    must_be_distinct(office, &principal).await?;
    let now = (office.desk.clock)();
    let NewSecret { secret, hash, id } = engine::secret::fresh()
        .map_err(|error| Failure::error(format!("no randomness to be had: {error}")))?;
    let token = Token {
        id,
        hash,
        principal,
        agent,
        role: wanted.role.word().to_owned(),
        family: wanted.family.map(|family| findings::clean_name(&family)),
        ticket: wanted.ticket,
        lease: None,
        created_by: office.person().agent,
        created_at: now,
        expires_at: wanted.ttl_ms.map(|ttl| now.plus_ms(ttl)),
        revoked_at: None,
    };
    office.desk.store.put_token(token.clone()).await?;
    note(office, "token_created", &token).await?;
    Ok(NewToken { secret, token })
}

/// Refuses a name that a person would take for another's. Independence is judged by the name, so
/// `Bea` must not review what `bea` built.
async fn must_be_distinct(office: &App, principal: &str) -> Result<(), Failure> {
    let mut letters = principal.chars().filter(|c| c.is_alphabetic());
    let mixed = letters.clone().any(|c| c.is_ascii()) && letters.any(|c| !is_latin(c));
    if mixed {
        return Err(Failure::usage(format!(
            "the name {principal:?} mixes Latin letters with letters of another alphabet, and can be taken for another name"
        ))
        .hint("write the name in one alphabet"));
    }
    let folded = principal.to_lowercase();
    let now = (office.desk.clock)();
    let tokens = list(office).await?;
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

/// Letters of the Latin blocks, with their accents.
fn is_latin(c: char) -> bool {
    c.is_ascii() || ('\u{c0}'..='\u{24f}').contains(&c) || ('\u{1e00}'..='\u{1eff}').contains(&c)
}

pub async fn list(office: &App) -> Result<Vec<Token>, Failure> {
    Ok(office.desk.store.tokens(&all_tokens()).await?)
}

pub async fn revoke(office: &App, id: &str) -> Result<Token, Failure> {
    let token = find(office, id).await?;
    let now = (office.desk.clock)();
    if !office.desk.store.revoke(&token.id, now).await? {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("the token {id} was revoked before"),
        ));
    }
    note(office, "token_revoked", &token).await?;
    Ok(token)
}

/// A new secret for the same agent, role and scope; the old one ends.
pub async fn rotate(office: &App, id: &str) -> Result<NewToken, Failure> {
    if find(office, id).await?.lease.is_some() {
        let why = format!("the token {id} was made for one run of an agent and ends with it");
        return Err(Failure::new(ExitKind::Refused, why));
    }
    let old = revoke(office, id).await?;
    let now = (office.desk.clock)();
    let left = old.expires_at.map(|end| end.0.saturating_sub(now.0));
    let wanted = TokenRequest {
        agent: old.agent,
        principal: Some(old.principal),
        role: role(&old.role)?,
        family: old.family,
        ticket: old.ticket,
        ttl_ms: left.and_then(|left| u64::try_from(left).ok()),
    };
    create(office, wanted).await
}

async fn find(office: &App, id: &str) -> Result<Token, Failure> {
    let mut known = list(office).await?;
    known.retain(|token| token.id == id);
    known.pop().ok_or_else(|| {
        Failure::missing(format!("there is no token {id}"))
            .hint("`countersign token list` shows those there are")
    })
}

pub fn role(word: &str) -> Result<Role, Failure> {
    let known = Role::ALL.into_iter().find(|role| role.word() == word);
    known.ok_or_else(|| {
        let words: Vec<&str> = Role::ALL.iter().map(|role| role.word()).collect();
        Failure::usage(format!("{word:?} is no role"))
            .hint(format!("it is one of {}", words.join(", ")))
    })
}

/// Whoever holds the secret, or why nobody is recognised by it.
pub async fn recognise(office: &App, secret: &str) -> Result<Result<Identity, AuthError>, Failure> {
    let now = (office.desk.clock)();
    let found = office
        .desk
        .store
        .token(&engine::secret::hash(secret))
        .await?;
    match found
        .ok_or(AuthError::Unknown)
        .and_then(|token| speaker(token, now))
    {
        Ok(speaker) => still_stands(office, speaker).await,
        stranger => Ok(stranger),
    }
}

/// Whom we have started for a run is heard while that goes on.
async fn still_stands(
    office: &App,
    speaker: Identity,
) -> Result<Result<Identity, AuthError>, Failure> {
    let id = match (speaker.standing, &speaker.ticket) {
        (Access::Guest, _) => return Ok(Ok(speaker)),
        (Access::Hired(_), Some(id)) => id,
        (Access::Hired(_), None) => return Ok(Err(AuthError::Over)),
    };
    let stored = office.desk.store.ticket(id).await?;
    let lasts = stored.is_some_and(|stored| speaker.standing.lasts(&stored.ticket));
    Ok(if lasts {
        Ok(speaker)
    } else {
        Err(AuthError::Over)
    })
}

fn speaker(token: Token, now: Time) -> Result<Identity, AuthError> {
    if token.revoked_at.is_some() {
        return Err(AuthError::Revoked);
    }
    if token.expires_at.is_some_and(|end| end <= now) {
        return Err(AuthError::Expired);
    }
    let role = role(&token.role).map_err(|_| AuthError::Unknown)?;
    Ok(Identity {
        actor: Actor {
            agent: token.agent,
            principal: token.principal,
            role,
            family: token.family,
            written: None,
        },
        token: token.id,
        session: None,
        ticket: token.ticket,
        standing: token.lease.map_or(Access::Guest, Access::Hired),
    })
}

/// Notes a refusal in the log, with who tried what; of a flood of them a part. The refusal stands,
/// whether or not it could be written down.
pub async fn note_refusal(office: &App, speaker: Option<&Identity>, body: Value) {
    let name = speaker.map_or("", |speaker| &speaker.actor.agent);
    if !office.desk.refusals.admit(name) {
        return;
    }
    let noted = Noted {
        at: (office.desk.clock)(),
        ticket: speaker.and_then(|speaker| speaker.ticket.clone()),
        name: "refused".to_owned(),
        by: speaker
            .map_or("nobody", |speaker| &speaker.actor.agent)
            .to_owned(),
        body,
    };
    let noted = office.desk.store.note(noted).await;
    noted.log_err("record a refusal");
}

async fn note(office: &App, name: &str, token: &Token) -> Result<(), Failure> {
    let noted = Noted {
        at: (office.desk.clock)(),
        ticket: token.ticket.clone(),
        name: name.to_owned(),
        by: office.person().agent,
        body: json!({"token": token.id, "agent": token.agent, "role": token.role}),
    };
    Ok(office.desk.store.note(noted).await?)
}
