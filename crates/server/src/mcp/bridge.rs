//! MCP over stdio as a thin bridge to a running server, so that all agents share one state: a line
//! in, a call of `/mcp`, lines out. It knows only as much of the protocol as the headers need. An
//! unreachable server is reported to the agent as a retryable error.
//!
//! One client on the server's side also means that an agent needs a token and no access to the
//! database.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, RwLock, Semaphore};
use tokio::task::JoinSet;

use crate::web::{BODY_MAX, session};
use app::failure::Failure;
use app::remote::{RemoteServer, ServerUnreachable};

/// Concurrent calls to the server.
/// An agent may send many calls before it reads an answer. Beyond this number the next line is not
/// read.
const CALLS_MAX: usize = 64;
/// First protocol version whose headers repeat the method and name of the message.
const HEADERS_SINCE: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// First code that JSON-RPC reserves for server errors.
const SERVER_UNREACHABLE: i64 = -32_000;
const PARSE_ERROR: i64 = -32_700;

/// Finds the running server; called again when a call cannot reach it.
pub type FindServer = Arc<dyn Fn() -> Result<RemoteServer, Failure> + Send + Sync>;

struct StdioBridge<W> {
    find: FindServer,
    /// Label of this process at the server, whatever protocol the agent uses.
    session: Option<String>,
    server: RwLock<RemoteServer>,
    /// Protocol version agreed on by `initialize`, if the client sends it.
    version: RwLock<Option<String>>,
    output: Mutex<W>,
}

/// Forwards messages until the input ends and all calls are answered.
pub async fn run(
    find: FindServer,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Result<(), Failure> {
    let bridge = Arc::new(StdioBridge {
        server: RwLock::new(find()?),
        find,
        session: session::new_session_id(),
        version: RwLock::default(),
        output: Mutex::new(output),
    });
    let permits = Arc::new(Semaphore::new(CALLS_MAX));
    let mut calls = JoinSet::new();
    let mut lines = input;
    while let Some(line) = next_line(&mut lines).await? {
        // Closed only at the end of the program.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            break;
        };
        let bridge = Arc::clone(&bridge);
        calls.spawn(async move {
            bridge.forward(&line).await;
            drop(permit);
        });
        // Finished calls are collected, so that the set does not grow with the connection's age.
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
    Ok(())
}

/// Reads the next line that is not blank; `None` at the end of the input.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        let mut line = Vec::new();
        let max = u64::try_from(BODY_MAX).unwrap_or(u64::MAX);
        // One message is one line. Without the limit a line without an end would fill the memory.
        let read = (&mut *input).take(max).read_until(b'\n', &mut line).await;
        let fail = |error: std::io::Error| {
            Failure::error(format!("could not read from the agent: {error}"))
        };
        let read = read.map_err(fail)?;
        if read == 0 {
            return Ok(None);
        }
        if read == BODY_MAX && !line.ends_with(b"\n") {
            return Err(Failure::error(format!(
                "the agent sent a message larger than {BODY_MAX} bytes"
            )));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(line));
        }
    }
}

impl<W: AsyncWrite + Unpin + Send> StdioBridge<W> {
    async fn forward(&self, line: &[u8]) {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                return self
                    .send_error(&Value::Null, PARSE_ERROR, &error.to_string())
                    .await;
            }
        };
        // Messages without an id are notifications. Their errors are not answered.
        let id = message.get("id").cloned().unwrap_or_default();
        // The message is written again below, which would hide the second key from the server.
        if std::str::from_utf8(line).is_ok_and(findings::repeats_a_key) {
            let why =
                "the JSON of this call has the same key twice in one object; send each key once";
            return self.send_error(&id, PARSE_ERROR, why).await;
        }
        match self.send(&message).await {
            Ok(response) => self.answer(&message, &id, response).await,
            Err(ServerUnreachable { why, .. }) => self.report_unreachable(&id, &why).await,
        }
    }

    /// Sends a message. A restarted server may have another address: if nothing was sent, the
    /// bridge looks for it again and retries once.
    async fn send(&self, message: &Value) -> Result<Response<Incoming>, ServerUnreachable> {
        let server = self.server.read().await.clone();
        let first = self.post(&server, message).await;
        match first {
            // Only if nothing was sent: a report that may have arrived must not be sent a second
            // time.
            Err(ServerUnreachable { unsent: true, .. }) => {}
            answered => return answered,
        }
        let Ok(server) = (self.find)() else {
            return first;
        };
        // All later calls use the new address.
        *self.server.write().await = server.clone();
        self.post(&server, message).await
    }

    async fn post(
        &self,
        server: &RemoteServer,
        message: &Value,
    ) -> Result<Response<Incoming>, ServerUnreachable> {
        let version = self.version(message).await;
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(
            self.session
                .as_deref()
                .map(|session| (session::HEADER, session)),
        );
        headers.extend(
            version
                .as_deref()
                .map(|version| ("mcp-protocol-version", version)),
        );
        if version
            .as_deref()
            .is_some_and(|version| version >= HEADERS_SINCE)
        {
            headers.extend(text(&message["method"]).map(|name| ("mcp-method", name)));
            headers.extend(header_subject(message).map(|name| ("mcp-name", name)));
        }
        let body = message.to_string().into_bytes();
        server.send(Method::POST, "/mcp", &headers, body).await
    }

    /// Returns the protocol version: in the newest protocol each message names it, in older ones
    /// `initialize` agrees on it.
    async fn version(&self, message: &Value) -> Option<String> {
        // The version is not agreed on yet in this message.
        if message["method"] == "initialize" {
            return None;
        }
        let own = text(&message["params"]["_meta"][VERSION]).map(str::to_owned);
        match own {
            Some(version) => Some(version),
            None => self.version.read().await.clone(),
        }
    }

    async fn answer(&self, message: &Value, id: &Value, response: Response<Incoming>) {
        let status = response.status();
        let kind = response.headers().get("content-type");
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return self.stream(id, response).await;
        }
        let is_message = kind.starts_with("application/json");
        let server = self.server.read().await.clone();
        let body = match server.read_body(response).await {
            Ok(body) => body,
            Err(ServerUnreachable { why, .. }) => return self.report_unreachable(id, &why).await,
        };
        // The server's answer is written as it is, also an error of the protocol.
        if is_message && !body.is_empty() {
            if message["method"] == "initialize" {
                self.remember_version(&body).await;
            }
            return self.write(&body).await;
        }
        // An empty answer with success is the answer to a notification.
        if !status.is_success() {
            self.report_refusal(id, status, &body).await;
        }
    }

    async fn remember_version(&self, body: &Bytes) {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let version = text(&answer["result"]["protocolVersion"]).map(str::to_owned);
        *self.version.write().await = version;
    }

    /// Forwards an event stream: the data of each event is one message.
    async fn stream(&self, id: &Value, response: Response<Incoming>) {
        let (mut body, mut rest) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let data = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => {
                    return self
                        .report_unreachable(
                            id,
                            &format!("the server's answer was cut off: {error}"),
                        )
                        .await;
                }
            };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if let Some(message) = line.strip_prefix(b"data:")
                    && !message.trim_ascii().is_empty()
                {
                    self.write(message).await;
                }
            }
            // The stream has no limit in sum, but one message has.
            if rest.len() > BODY_MAX {
                return self
                    .report_unreachable(id, "a message from the server is too large")
                    .await;
            }
        }
    }

    async fn report_refusal(&self, id: &Value, status: StatusCode, body: &Bytes) {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut why = text(&problem["detail"]).map_or_else(|| status.to_string(), str::to_owned);
        for hint in problem["hints"].as_array().into_iter().flatten() {
            why.push_str("; ");
            why.push_str(text(hint).unwrap_or_default());
        }
        let later = [
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        // Busy and throttled are worth another try; the agent is told so.
        if later.contains(&status) {
            return self.report_unreachable(id, &why).await;
        }
        self.send_error(id, SERVER_UNREACHABLE, &why).await;
    }

    async fn report_unreachable(&self, id: &Value, why: &str) {
        self.send_error_response(id, SERVER_UNREACHABLE, &format!("{why}; try again"), true)
            .await;
    }

    async fn send_error(&self, id: &Value, code: i64, why: &str) {
        self.send_error_response(id, code, why, false).await;
    }

    /// Sends an error response. Notifications (without id) get no response.
    async fn send_error_response(&self, id: &Value, code: i64, why: &str, retryable: bool) {
        if id.is_null() && code != PARSE_ERROR {
            return;
        }
        let error = json!({"code": code, "message": why, "data": {"retryable": retryable}});
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.write(answer.to_string().as_bytes()).await;
    }

    /// Writes a message as one line.
    async fn write(&self, message: &[u8]) {
        let mut line: Vec<u8> = message.trim_ascii().to_vec();
        // A line break inside a message would end it early. JSON has none outside of strings, and
        // inside they are escaped.
        line.retain(|byte| !matches!(byte, b'\n' | b'\r'));
        line.push(b'\n');
        let mut output = self.output.lock().await;
        // Ignored: if the agent has exited, our input ends too and the bridge stops.
        let _ = output.write_all(&line).await;
        let _ = output.flush().await;
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str()
}

/// Returns the name or URI that a message is about, for its header.
fn header_subject(message: &Value) -> Option<&str> {
    let params = &message["params"];
    match text(&message["method"])? {
        "tools/call" | "prompts/get" => text(&params["name"]),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => text(&params["uri"]),
        _ => None,
    }
}
