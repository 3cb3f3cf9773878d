//! Transcripts and artefacts as bytes, with ranges, and the transcript of a running agent as a
//! stream of server-sent events.
//!
//! Agents and checks wrote these files, so a browser must never take one for a page: the media type
//! is fixed and may not be guessed.

use std::convert::Infallible;
use std::io::SeekFrom;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flow::TicketId;
use serde::Deserialize;
use serde_json::json;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::ServerState;
use super::api::{RouteAccess, require_ticket};
use super::events::{KEEP_ALIVE_AFTER, READ_AHEAD_MAX, RECONNECT};
use super::problem::Problem;
use super::representation::{has_current, set_validators};
use app::operations::App;
use app::operations::identity::Identity;
use app::operations::run_files::{self, RunState, StoredFile};

/// Bytes that are read from a file at once. With [`READ_AHEAD_MAX`] it bounds the memory of a
/// reader.
const CHUNK: usize = 64 * 1024;
/// Interval in which a growing transcript is looked at. Another process writes it.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Polls without new output until the store is asked whether the run goes on.
const POLLS_PER_STATE: u32 = 4;

type RunPath = Path<(String, String)>;

pub async fn transcript(
    State(state): State<ServerState>,
    Extension(identity): Extension<Identity>,
    Path((ticket, run)): RunPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ticket = require_reader(&state.app, &identity, &ticket).await?;
    let file = run_files::open_transcript(&state.app, &ticket, &run)?;
    Ok(serve(file, "text/plain; charset=utf-8", &headers))
}

pub async fn artefact(
    State(state): State<ServerState>,
    Extension(identity): Extension<Identity>,
    Path((ticket, artefact)): RunPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ticket = require_reader(&state.app, &identity, &ticket).await?;
    let file = run_files::open_artefact(&state.app, &ticket, &artefact).await?;
    Ok(serve(file, "application/octet-stream", &headers))
}

/// Admits people, programs and administrators to the tickets of their token. Transcripts show the
/// work of other agents, which would break the independence of reviewers.
async fn require_reader(app: &App, identity: &Identity, ticket: &str) -> Result<TicketId, Problem> {
    if !RouteAccess::People.admits(app::operations::questions::Method::Get, identity.actor.role) {
        let why = "agents may not read the files of other runs";
        return Err(Problem::new(StatusCode::FORBIDDEN, why));
    }
    require_ticket(app, identity, ticket).await
}

/// Part of a file that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedRange {
    Whole,
    /// First byte, and the number of bytes.
    Part(u64, u64),
    /// Nothing of it is in the file.
    Outside,
}

/// Parses `Range`. Several ranges and other units are answered with the whole file, as HTTP allows.
fn parse_range(headers: &HeaderMap, bytes: u64) -> RequestedRange {
    let range = headers
        .get(header::RANGE)
        .and_then(|range| range.to_str().ok());
    let Some(range) = range.and_then(|range| range.trim().strip_prefix("bytes=")) else {
        return RequestedRange::Whole;
    };
    let Some((first, last)) = range.split_once('-').filter(|_| !range.contains(',')) else {
        return RequestedRange::Whole;
    };
    // Digits only: a parser of numbers would take a sign as well.
    let parse = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    match (first.trim(), last.trim()) {
        ("", count) => match parse(count) {
            Some(0) => RequestedRange::Outside,
            Some(_) if bytes == 0 => RequestedRange::Outside,
            Some(count) => RequestedRange::Part(bytes.saturating_sub(count), count.min(bytes)),
            None => RequestedRange::Whole,
        },
        (first, last) => {
            let end = if last.is_empty() {
                Some(u64::MAX)
            } else {
                parse(last)
            };
            match (parse(first), end) {
                (Some(first), Some(end)) if first > end => RequestedRange::Whole,
                (Some(first), Some(_)) if first >= bytes => RequestedRange::Outside,
                (Some(first), Some(end)) => {
                    let end = end.min(bytes.saturating_sub(1));
                    RequestedRange::Part(first, end - first + 1)
                }
                _ => RequestedRange::Whole,
            }
        }
    }
}

fn serve(stored: StoredFile, kind: &'static str, request: &HeaderMap) -> Response {
    let StoredFile { file, bytes, etag } = stored;
    // A part of an older file would not fit to what the client has.
    let if_range = request.get(header::IF_RANGE);
    let is_same = if_range.is_none_or(|tag| tag.as_bytes() == etag.as_bytes());
    let range = if is_same {
        parse_range(request, bytes)
    } else {
        RequestedRange::Whole
    };
    let content_range = |text: String| HeaderValue::try_from(text).ok();
    let mut response = if has_current(request, &etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let (status, first, count, place) = match range {
            RequestedRange::Whole => (StatusCode::OK, 0, bytes, None),
            RequestedRange::Part(first, count) => {
                let last = first + count - 1;
                let place = content_range(format!("bytes {first}-{last}/{bytes}"));
                (StatusCode::PARTIAL_CONTENT, first, count, place)
            }
            RequestedRange::Outside => {
                let why = format!("the file has {bytes} bytes");
                let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, why);
                let mut response = problem.into_response();
                if let Some(place) = content_range(format!("bytes */{bytes}")) {
                    response.headers_mut().insert(header::CONTENT_RANGE, place);
                }
                return response;
            }
        };
        let (sender, chunks) = tokio::sync::mpsc::channel(READ_AHEAD_MAX);
        tokio::spawn(send_part(File::from_std(file), first, count, sender));
        let body = Body::from_stream(ReceiverStream::new(chunks));
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(count));
        if let Some(place) = place {
            headers.insert(header::CONTENT_RANGE, place);
        }
        response
    };
    let headers = response.headers_mut();
    set_validators(headers, &etag);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    response
}

/// Sends a part of a file. The channel is the brake: a slow reader fills it, and then nothing is
/// read.
async fn send_part(
    mut file: File,
    first: u64,
    count: u64,
    sender: Sender<Result<Bytes, std::io::Error>>,
) {
    let mut left = count;
    let mut sought = file.seek(SeekFrom::Start(first)).await.map(drop);
    while left > 0 {
        let read = match sought {
            Ok(()) => read_chunk(&mut file, usize::try_from(left).unwrap_or(CHUNK)).await,
            Err(error) => Err(error),
        };
        sought = Ok(());
        // A file that became shorter ends the answer early, which the client sees by its length.
        let read = match read {
            Ok(bytes) if bytes.is_empty() => Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        let is_error = read.is_err();
        left -= read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if sender.send(read).await.is_err() || is_error {
            return;
        }
    }
}

async fn read_chunk(file: &mut File, most: usize) -> Result<Bytes, std::io::Error> {
    let mut buffer = vec![0; most.min(CHUNK)];
    let count = file.read(&mut buffer).await?;
    buffer.truncate(count);
    Ok(buffer.into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailQuery {
    /// Bytes of the transcript that the reader has; without it the stream starts at the beginning.
    #[serde(default)]
    after: Option<String>,
}

/// Streams a transcript: what there is, then what is added, until the run ends.
pub async fn tail(
    State(state): State<ServerState>,
    Extension(identity): Extension<Identity>,
    Path((ticket, run)): RunPath,
    query: Result<Query<TailQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bad = |why: &dyn std::fmt::Display| Problem::new(StatusCode::BAD_REQUEST, why);
    let Query(TailQuery { after }) = query.map_err(|error| bad(&error))?;
    let ticket = require_reader(&state.app, &identity, &ticket).await?;
    let run_state = run_files::run_state(&state.app, &ticket, &run).await?;
    // Browsers send this header when they connect again. It is newer than the address, so it wins.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let position = last.or(after.as_deref());
    let offset = match position {
        None => 0,
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| bad(&format!("{text:?} is not a position in a transcript")))?,
    };
    let has_all = || {
        let file = run_files::open_transcript(&state.app, &ticket, &run);
        file.map_or(0, |file| file.bytes) <= offset
    };
    if last.is_some() && run_state != RunState::Running && has_all() {
        // Browsers connect again after the end of a stream; this status stops them.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (sender, chunks) = tokio::sync::mpsc::channel(READ_AHEAD_MAX);
    let tail = Tail {
        app: state.app,
        ticket,
        run,
        offset,
    };
    tokio::spawn(tail.follow(sender));
    let body = Body::from_stream(ReceiverStream::new(chunks).map(Ok::<Bytes, Infallible>));
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((kind, body).into_response())
}

/// A reader of a transcript that may grow.
struct Tail {
    app: App,
    ticket: TicketId,
    run: String,
    offset: u64,
}

impl Tail {
    /// Sends output until the run ends, the reader disconnects or the server stops.
    async fn follow(mut self, sender: Sender<Bytes>) {
        let (mut silent_polls, mut last_sent) = (0_u32, Instant::now());
        let mut stop = self.app.stop.clone();
        loop {
            // Asked before reading: what was written before the end is then read.
            let state = match silent_polls % POLLS_PER_STATE {
                0 => run_files::run_state(&self.app, &self.ticket, &self.run).await,
                _ => Ok(RunState::Running),
            };
            // A run that cannot be read any more ends the stream; the client may connect again.
            let Ok(state) = state else { return };
            let text = self.read_output(state != RunState::Running).await;
            let frame = match (text, state) {
                (Some(text), _) => text,
                (None, RunState::Ended(how)) => {
                    let end = format!("event: end\ndata: {}\n\n", json!({"how": how}));
                    // The reader need not be there any more.
                    let _ = sender.send(end.into()).await;
                    return;
                }
                (None, RunState::Running) => {
                    silent_polls = silent_polls.wrapping_add(1);
                    tokio::select! {
                        () = tokio::time::sleep(POLL_INTERVAL) => {}
                        () = stop.requested() => {
                            // The reader need not be there any more.
                            let _ = sender.send(Bytes::from_static(RECONNECT)).await;
                            return;
                        }
                        () = sender.closed() => return,
                    }
                    if last_sent.elapsed() < KEEP_ALIVE_AFTER {
                        continue;
                    }
                    ": still here\n\n".to_owned()
                }
            };
            last_sent = Instant::now();
            if sender.send(frame.into()).await.is_err() {
                return;
            }
        }
    }

    /// Reads the next output as one event. A character that is not complete yet waits for its rest,
    /// unless the run is over.
    async fn read_output(&mut self, is_over: bool) -> Option<String> {
        let stored = run_files::open_transcript(&self.app, &self.ticket, &self.run).ok()?;
        if stored.bytes <= self.offset {
            return None;
        }
        let mut file = File::from_std(stored.file);
        file.seek(SeekFrom::Start(self.offset)).await.ok()?;
        let bytes = read_chunk(&mut file, CHUNK).await.ok()?;
        let mut whole = bytes.len();
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
            && (!is_over || error.valid_up_to() > 0)
        {
            whole = error.valid_up_to();
        }
        let text = String::from_utf8_lossy(bytes.get(..whole)?);
        if text.is_empty() {
            return None;
        }
        let data = json!({"at": self.offset, "text": text});
        self.offset += whole as u64;
        Some(format!(
            "id: {}\nevent: output\ndata: {data}\n\n",
            self.offset
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_http_says() {
        use RequestedRange::{Outside, Part, Whole};
        for (range, expected) in [
            ("bytes=0-3", Part(0, 4)),
            ("bytes=2-", Part(2, 8)),
            ("bytes=-4", Part(6, 4)),
            ("bytes=-400", Part(0, 10)),
            ("bytes=9-400", Part(9, 1)),
            ("bytes=10-", Outside),
            ("bytes=-0", Outside),
            ("bytes=18446744073709551615-", Outside),
            ("bytes=5-2", Whole),
            ("bytes=0-1,4-5", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=a-b", Whole),
            ("bytes=-", Whole),
            ("lines=1-2", Whole),
        ] {
            let headers = [(header::RANGE, HeaderValue::from_static(range))];
            let headers = headers.into_iter().collect();
            assert_eq!(parse_range(&headers, 10), expected, "{range}");
        }
        assert_eq!(parse_range(&HeaderMap::new(), 10), Whole);
        let headers = [(header::RANGE, HeaderValue::from_static("bytes=-5"))];
        assert_eq!(parse_range(&headers.into_iter().collect(), 0), Outside);
    }
}
