//! MCP on the standard input and output as a thin bridge to a running server, so that all agents
//! share one state: a line in, a call of `/mcp`, lines out. It knows of the protocol only what the
//! headers need. A server that is away is told to the agent as an error it may try again after.

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

/// Calls that may be under way at once.
const CALLS_MAX: usize = 64;
/// From here on the headers repeat what the message says.
const HEADERS_SINCE: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What JSON-RPC leaves to servers.
const AWAY: i64 = -32_000;
const PARSE_ERROR: i64 = -32_700;

/// Where the server is now; asked again when it has gone from where it was.
pub type FindServer = Arc<dyn Fn() -> Result<RemoteServer, Failure> + Send + Sync>;

struct StdioBridge<W> {
    find: FindServer,
    /// Names this process to the server, whatever the agent's protocol has.
    session: Option<String>,
    server: RwLock<RemoteServer>,
    /// What was agreed on at the beginning, by clients that begin.
    version: RwLock<Option<String>>,
    output: Mutex<W>,
}

/// Carries messages until the input ends and everything has been answered.
pub async fn run(
    find: FindServer,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Result<(), Failure> {
    let bridge = Arc::new(StdioBridge {
        server: RwLock::new(find()?),
        find,
        session: session::fresh(),
        version: RwLock::default(),
        output: Mutex::new(output),
    });
    let places = Arc::new(Semaphore::new(CALLS_MAX));
    let mut calls = JoinSet::new();
    let mut lines = input;
    while let Some(line) = next(&mut lines).await? {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            break;
        };
        let bridge = Arc::clone(&bridge);
        calls.spawn(async move {
            bridge.carry(&line).await;
            drop(place);
        });
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
    Ok(())
}

/// The next line that says something; none at the end.
async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        let mut line = Vec::new();
        let most = u64::try_from(BODY_MAX).unwrap_or(u64::MAX);
        let read = (&mut *input).take(most).read_until(b'\n', &mut line).await;
        let read = read.map_err(|error| Failure::error(format!("the dialogue broke: {error}")))?;
        if read == 0 {
            return Ok(None);
        }
        if read == BODY_MAX && !line.ends_with(b"\n") {
            return Err(Failure::error(format!(
                "a message of more than {BODY_MAX} bytes is not carried"
            )));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(line));
        }
    }
}

impl<W: AsyncWrite + Unpin + Send> StdioBridge<W> {
    async fn carry(&self, line: &[u8]) {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                return self
                    .complain(&Value::Null, PARSE_ERROR, &error.to_string())
                    .await;
            }
        };
        let id = message.get("id").cloned().unwrap_or_default();
        match self.ask(&message).await {
            Ok(response) => self.answer(&message, &id, response).await,
            Err(ServerUnreachable { why, .. }) => self.away(&id, &why).await,
        }
    }

    /// A server that was started anew may be elsewhere: nothing was sent, so it is looked for once.
    async fn ask(&self, message: &Value) -> Result<Response<Incoming>, ServerUnreachable> {
        let server = self.server.read().await.clone();
        let first = self.post(&server, message).await;
        match first {
            Err(ServerUnreachable { unsent: true, .. }) => {}
            answered => return answered,
        }
        let Ok(found) = (self.find)() else {
            return first;
        };
        *self.server.write().await = found.clone();
        self.post(&found, message).await
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
            headers.extend(subject(message).map(|name| ("mcp-name", name)));
        }
        let body = message.to_string().into_bytes();
        server.send(Method::POST, "/mcp", &headers, body).await
    }

    /// Each message of the newest protocol names its version; before, it is agreed on once.
    async fn version(&self, message: &Value) -> Option<String> {
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
        let body = match server.whole(response).await {
            Ok(body) => body,
            Err(ServerUnreachable { why, .. }) => return self.away(id, &why).await,
        };
        if is_message && !body.is_empty() {
            if message["method"] == "initialize" {
                self.agree(&body).await;
            }
            return self.write(&body).await;
        }
        if !status.is_success() {
            self.refused(id, status, &body).await;
        }
    }

    async fn agree(&self, body: &Bytes) {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let version = text(&answer["result"]["protocolVersion"]).map(str::to_owned);
        *self.version.write().await = version;
    }

    /// Messages as they come: each event's data is one.
    async fn stream(&self, id: &Value, response: Response<Incoming>) {
        let (mut body, mut rest) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let data = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => {
                    return self
                        .away(id, &format!("the answer broke off: {error}"))
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
            if rest.len() > BODY_MAX {
                return self.away(id, "a message of the server is too large").await;
            }
        }
    }

    async fn refused(&self, id: &Value, status: StatusCode, body: &Bytes) {
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
        if later.contains(&status) {
            return self.away(id, &why).await;
        }
        self.complain(id, AWAY, &why).await;
    }

    async fn away(&self, id: &Value, why: &str) {
        self.fail(id, AWAY, &format!("{why}; try again"), true)
            .await;
    }

    async fn complain(&self, id: &Value, code: i64, why: &str) {
        self.fail(id, code, why, false).await;
    }

    /// Who asked nothing is told nothing.
    async fn fail(&self, id: &Value, code: i64, why: &str, retryable: bool) {
        if id.is_null() && code != PARSE_ERROR {
            return;
        }
        let error = json!({"code": code, "message": why, "data": {"retryable": retryable}});
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.write(answer.to_string().as_bytes()).await;
    }

    /// One line, whole. A reader that has gone is noticed at the input's end.
    async fn write(&self, message: &[u8]) {
        let mut line: Vec<u8> = message.trim_ascii().to_vec();
        line.retain(|byte| !matches!(byte, b'\n' | b'\r'));
        line.push(b'\n');
        let mut output = self.output.lock().await;
        // An agent that has gone reads no more; our input ends then, and so do we.
        let _ = output.write_all(&line).await;
        let _ = output.flush().await;
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str()
}

/// What a message is about, for its header.
fn subject(message: &Value) -> Option<&str> {
    let params = &message["params"];
    match text(&message["method"])? {
        "tools/call" | "prompts/get" => text(&params["name"]),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => text(&params["uri"]),
        _ => None,
    }
}
