//! Links that show one ticket to everybody who has the address: read-only, with an end, revocable,
//! and with a count of their uses.
//!
//! A link is no token: it is accepted at its own address only, and shows neither transcripts nor
//! costs.

use flow::{Role, TicketId};
use store::{Token, TokenChange, TokenKind, TokenQuery};

use super::identity::{self, NewToken};
use super::{App, browser_sessions};
use crate::failure::{ExitKind, Failure};

/// Path of the pages that links lead to.
pub const PATH: &str = "/shared";
const DAY_MS: u64 = 24 * 3_600_000;
const LIFETIME_MS_DEFAULT: u64 = 7 * DAY_MS;
const LIFETIME_MS_MAX: u64 = 90 * DAY_MS;
/// Maximum number of links in a list.
const LINKS_MAX: u32 = 500;

/// State of a link for the ticket that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Open,
    /// Revoked or expired.
    Ended,
    /// There is no such link, or it is for another ticket.
    Unknown,
}

/// Makes a link to a ticket.
pub async fn create(app: &App, ticket: &str, lasts_ms: Option<u64>) -> Result<NewToken, Failure> {
    let ticket = app.ticket(ticket).await?.ticket.id;
    let lasts_ms = lasts_ms.unwrap_or(LIFETIME_MS_DEFAULT);
    if lasts_ms == 0 || lasts_ms > LIFETIME_MS_MAX {
        let days = LIFETIME_MS_MAX / DAY_MS;
        return Err(Failure::usage(format!(
            "a link lasts at least a second and at most {days} days"
        )));
    }
    let person = app.person();
    let template = Token {
        principal: person.principal,
        agent: person.agent,
        role: Role::Viewer.as_str().to_owned(),
        ticket: Some(ticket),
        ..browser_sessions::blank(app, TokenKind::SharedLink)
    };
    let (secret, token) = browser_sessions::put(app, template, lasts_ms).await?;
    identity::note_token_event(app, "link_created", &token).await?;
    Ok(NewToken { secret, token })
}

/// Returns the path of the page that a new link leads to.
pub fn path_of(link: &NewToken) -> String {
    let ticket = link.token.ticket.as_ref().map_or("", TicketId::as_str);
    format!("{PATH}/{}/tickets/{ticket}", link.secret)
}

/// Looks at a link and counts the use if it is open.
pub async fn open(app: &App, secret: &str, ticket: &str) -> Result<LinkState, Failure> {
    let hash = engine::secret::hash_secret(secret);
    let token = app.coordinator.store.token(&hash).await?;
    let is_for_it = |token: &Token| {
        let only = token.ticket.as_ref().map(TicketId::as_str);
        token.kind == TokenKind::SharedLink && only == Some(ticket)
    };
    let Some(token) = token.filter(is_for_it) else {
        return Ok(LinkState::Unknown);
    };
    let has_expired = token.expires_at.is_none_or(|end| end <= app.now());
    if token.revoked_at.is_some() || has_expired {
        return Ok(LinkState::Ended);
    }
    let store = &app.coordinator.store;
    let is_open = store.change_token(&token.id, TokenChange::CountUse).await?;
    // Not open if somebody revoked it at this moment.
    Ok(if is_open {
        LinkState::Open
    } else {
        LinkState::Ended
    })
}

/// Lists links, newest first, including ended ones.
pub async fn list(app: &App) -> Result<Vec<Token>, Failure> {
    let query = TokenQuery {
        hash: None,
        kind: TokenKind::SharedLink,
        most: LINKS_MAX,
    };
    Ok(app.coordinator.store.tokens(&query).await?)
}

pub(super) async fn find(app: &App, id: &str) -> Result<Option<Token>, Failure> {
    let mut links = list(app).await?;
    links.retain(|link| link.id == id);
    Ok(links.pop())
}

/// Ends a link. Administrators end any link, other people their own.
pub async fn revoke(app: &App, id: &str) -> Result<Token, Failure> {
    let link = find(app, id).await?;
    let link = link.ok_or_else(|| Failure::not_found(format!("there is no link {id}")))?;
    if app.actor.role != Role::Admin && link.created_by != app.person().agent {
        let why = format!("the link {id} was made by {}", link.created_by);
        return Err(Failure::new(ExitKind::Refused, why));
    }
    if !app.coordinator.store.revoke(id, app.now()).await? {
        let why = format!("the link {id} is already revoked");
        return Err(Failure::new(ExitKind::Refused, why));
    }
    identity::note_token_event(app, "link_revoked", &link).await?;
    Ok(link)
}
