//! Git's smart HTTP protocol for agents on other machines. The three routes are the whole of it:
//! there are no other files to ask for. Each request carries the credential of a claim, as a bearer
//! token or as the password of basic authentication, and is authenticated before its body is read.

use std::io::SeekFrom;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::log::LogErr;
use flow::TicketId;
use flow::event::Lease;
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_stream::wrappers::ReceiverStream;

use super::problem::{Problem, RefusalReason};
use super::{ServerState, body, trace};
use app::failure::{ExitKind, Failure};
use app::operations::git_access::{self, GitAddress, GitAnswer, GitCall, GitClaim, GitOperation};
use app::operations::identity::AuthError;

/// Requests that run git at the same time.
pub const AT_ONCE: usize = 4;
/// Time that a request waits for its turn.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time in which a body must arrive.
const READ_WITHIN: Duration = Duration::from_secs(120);
/// Maximum size of a fetch request: a list of object names.
const FETCH_BYTES_MAX: usize = super::BODY_MAX;
/// Size of the headers that git's backend writes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes that are read from the answer at once, and pieces that are read ahead of the client.
const PIECE_BYTES: usize = 64 * 1024;
const READ_AHEAD_MAX: usize = 4;

type Address = Path<(String, u32, u64)>;

#[derive(Debug, Deserialize)]
pub struct ServiceQuery {
    #[serde(default)]
    service: String,
}

/// Answers `info/refs`, with which every clone, fetch and push begins.
pub async fn refs(
    State(state): State<ServerState>,
    Path(address): Address,
    Query(query): Query<ServiceQuery>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    // Without a service it would be the old protocol, which reads single files.
    let service = GitOperation::parse(&query.service).ok_or_else(|| {
        plain(
            StatusCode::FORBIDDEN,
            "name a service: git 1.6.6 or newer does",
        )
    })?;
    let (claim, _) = authenticate(&state, address, &headers).await?;
    let refusal = |failure| refusal(&claim, failure);
    claim.require_operation(service).map_err(refusal)?;
    let _permit = acquire_permit(&state).await?;
    let call = call_of(&headers, Vec::new());
    let answer = claim.list_refs(&state.app, service, call).await;
    respond(answer.map_err(refusal)?).await
}

/// Answers a fetch or a clone.
pub async fn fetch(
    State(state): State<ServerState>,
    Path(address): Address,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Response> {
    let (claim, _) = authenticate(&state, address, &headers).await?;
    let body = body::read(body, FETCH_BYTES_MAX, READ_WITHIN).await;
    let body = body.map_err(IntoResponse::into_response)?;
    let _permit = acquire_permit(&state).await?;
    let call = call_of(&headers, body.to_vec());
    let answer = claim.fetch(&state.app, call).await;
    respond(answer.map_err(|failure| refusal(&claim, failure))?).await
}

/// Answers a push.
pub async fn push(
    State(state): State<ServerState>,
    Path(address): Address,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Response> {
    let (claim, (address, credential)) = authenticate(&state, address, &headers).await?;
    let refusal = |failure| refusal(&claim, failure);
    claim
        .require_operation(GitOperation::ReceivePack)
        .map_err(refusal)?;
    // The commands at the beginning are read before git runs, and git itself sends them plain.
    if headers.contains_key(header::CONTENT_ENCODING) {
        let why = "send a push without compression of the request";
        return Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    // One permit for body and git: the body is held in memory until git has it.
    let _permit = acquire_permit(&state).await?;
    let body = body::read(body, engine::git::PUSH_BYTES_MAX, READ_WITHIN).await;
    let body = body.map_err(IntoResponse::into_response)?;
    let call = call_of(&headers, body.to_vec());
    let answer = claim.push(&state.app, &address, &credential, call).await;
    respond(answer.map_err(refusal)?).await
}

/// Authenticates the credential of a request. An unknown ticket and a wrong credential get the same
/// answer.
async fn authenticate(
    state: &ServerState,
    (ticket, serial, fence): (String, u32, u64),
    headers: &HeaderMap,
) -> Result<(GitClaim, (GitAddress, String)), Response> {
    let Some(credential) = credential_of(headers) else {
        return Err(unauthorized(AuthError::NoToken));
    };
    let ticket = TicketId::new(&ticket).map_err(|_| unauthorized(AuthError::Unknown))?;
    let lease = Lease { serial, fence };
    let address = GitAddress { ticket, lease };
    let found = git_access::authenticate(&state.app, &address, &credential).await;
    let claim = found.map_err(|failure| Problem::from(failure).into_response())?;
    let claim = claim.map_err(unauthorized)?;
    let name = &claim.identity.actor.agent;
    trace::authenticated(name);
    if !state.rates.allow(name) {
        let busy = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many calls at once");
        return Err(busy.retry_after(1).into_response());
    }
    Ok((claim, (address, credential)))
}

/// Reads the credential: git sends a password after it was asked for one, or the header that its
/// user has set.
fn credential_of(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    let decoded = engine::secret::from_base64(rest.trim())
        .filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let decoded = String::from_utf8(decoded).ok()?;
    Some(decoded.split_once(':')?.1.to_owned())
}

/// Builds the answer to a missing or wrong credential. Git asks for a password if the answer offers
/// basic authentication; for a claim that has ended no password would help.
fn unauthorized(error: AuthError) -> Response {
    let status = match error {
        AuthError::NoToken | AuthError::Unknown => StatusCode::UNAUTHORIZED,
        AuthError::Expired | AuthError::Revoked | AuthError::RunEnded | AuthError::ClaimEnded => {
            StatusCode::FORBIDDEN
        }
    };
    let why = format!("{error}; use the clone_credential of your assignment");
    let mut response = plain(status, &why);
    if error == AuthError::NoToken {
        // Git's first request has none; that is not an attempt worth recording.
        response.extensions_mut().remove::<RefusalReason>();
    }
    if status == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"countersign\"");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, basic);
    }
    response
}

/// Answers a request that the claim does not allow, or that failed. The caller is recorded with it.
fn refusal(claim: &GitClaim, failure: Failure) -> Response {
    if failure.exit != ExitKind::Refused {
        return Problem::from(failure).into_response();
    }
    // 403 and not 409: git then says that it is not permitted.
    let mut response = plain(StatusCode::FORBIDDEN, &failure.message);
    response.extensions_mut().insert(claim.identity.clone());
    response
}

/// Builds an answer that git shows to its user: it prints plain text and nothing else.
fn plain(status: StatusCode, why: &str) -> Response {
    let why = findings::clean(why);
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let mut response = (status, kind, format!("{why}\n")).into_response();
    // The auth middleware records it.
    response.extensions_mut().insert(RefusalReason(why));
    response
}

fn call_of(headers: &HeaderMap, body: Vec<u8>) -> GitCall {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_version = |text: &&str| ["version=0", "version=1", "version=2"].contains(text);
    GitCall {
        protocol: text("git-protocol").filter(is_version).map(str::to_owned),
        gzip: text("content-encoding").is_some_and(|encoding| encoding == "gzip"),
        body,
    }
}

async fn acquire_permit(state: &ServerState) -> Result<tokio::sync::SemaphorePermit<'_>, Response> {
    let permit = tokio::time::timeout(PERMIT_TIMEOUT, state.git_requests.acquire()).await;
    if let Ok(Ok(permit)) = permit {
        return Ok(permit);
    }
    let why = "too many git requests at once";
    let busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, why);
    Err(busy.retry_after(5).into_response())
}

/// Sends the answer of git's backend. Its body may be as large as the repository, so it is streamed
/// from its file.
async fn respond(answer: GitAnswer) -> Result<Response, Response> {
    let failed = |error: std::io::Error| {
        let why = format!("the answer of git cannot be read: {error}");
        plain(StatusCode::INTERNAL_SERVER_ERROR, &why)
    };
    let mut file = File::open(&answer.file).await.map_err(failed)?;
    let mut head = vec![0; HEAD_BYTES_MAX];
    let mut length = 0;
    while length < head.len() {
        match file.read(&mut head[length..]).await.map_err(failed)? {
            0 => break,
            more => length += more,
        }
    }
    let Some((start, status, headers)) = parse_head(&head[..length]) else {
        let why = "git gave no answer";
        return Err(plain(StatusCode::INTERNAL_SERVER_ERROR, why));
    };
    file.seek(SeekFrom::Start(start)).await.map_err(failed)?;
    let (sender, pieces) = tokio::sync::mpsc::channel(READ_AHEAD_MAX);
    tokio::spawn(async move {
        send_pieces(file, sender).await;
        // Removed when everything is sent, or the client is gone.
        drop(answer);
    });
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(pieces)));
    *response.status_mut() = status;
    response.headers_mut().extend(headers);
    Ok(response)
}

async fn send_pieces(
    mut file: File,
    sender: tokio::sync::mpsc::Sender<Result<Bytes, std::io::Error>>,
) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = file.read(&mut piece).await;
        let Some(length) = read.log_err("read the answer of git") else {
            let cut = std::io::Error::other("the answer of git cannot be read");
            // The client is gone if nobody receives this.
            let _ = sender.send(Err(cut)).await;
            return;
        };
        piece.truncate(length);
        if length == 0 || sender.send(Ok(piece.into())).await.is_err() {
            return;
        }
    }
}

/// Parses the headers of a CGI answer; returns the offset of its body.
fn parse_head(bytes: &[u8]) -> Option<(u64, StatusCode, HeaderMap)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut status = StatusCode::OK;
    let mut headers = HeaderMap::new();
    for line in text.split("\r\n") {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next()?.parse().ok()?;
            status = StatusCode::from_u16(code).ok()?;
        } else {
            let name: HeaderName = name.parse().ok()?;
            headers.insert(name, value.parse().ok()?);
        }
    }
    Some((u64::try_from(end + 4).ok()?, status, headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_is_parsed() {
        let text = b"Status: 403 Forbidden\r\nContent-Type: text/plain\r\n\r\nno";
        let (start, status, headers) = parse_head(text).unwrap();
        assert_eq!(&text[usize::try_from(start).unwrap()..], b"no");
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert_eq!(headers[header::CONTENT_TYPE], "text/plain");
        let (_, status, _) = parse_head(b"Expires: never\r\n\r\n").unwrap();
        assert_eq!(status, StatusCode::OK);
        for bad in ["", "PACK", "no colon\r\n\r\n", "Status: many\r\n\r\n"] {
            assert!(parse_head(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_credential_is_a_bearer_token_or_a_password() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            credential_of(&headers)
        };
        assert_eq!(read("Bearer cs_1").as_deref(), Some("cs_1"));
        // `any:cs_1`.
        assert_eq!(read("Basic YW55OmNzXzE=").as_deref(), Some("cs_1"));
        for bad in ["cs_1", "Basic cs_1", "Basic", "Digest YW55OmNzXzE="] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
