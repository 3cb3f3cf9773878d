//! The HTTP client for a Countersign server. It sends the caller's token only to the configured
//! server, and every wait has a timeout.
//!
//! `unsent` is the important part of an error here. A request that never left can be tried again or
//! elsewhere; one that may have arrived must be recognised by its key.

mod ask;
mod trust;
mod worker;

pub use trust::{CERTIFICATE_BYTES_MAX, certificates};
pub use worker::workplace;

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::rustls as tls;

use crate::failure::{ExitKind, Failure};
use crate::settings::server::{ServerAddress, ServerTrust};

/// Maximum size of an answer.
/// An import or a diff may be large. The limit stops a wrong address from filling the memory.
const ANSWER_MAX: usize = 64 * 1024 * 1024;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A long poll takes up to 50 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// Idle connections are closed after this time.
/// Shorter than the server's own timeout, so that a request does not meet a connection that is
/// being closed.
const IDLE: Duration = Duration::from_secs(8);

/// Client with a pool of connections that are reused.
pub type HttpPool = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Address of a server, and the token for it.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    pub address: ServerAddress,
    bearer: String,
    client: HttpPool,
}

/// Reason why there is no answer.
#[derive(Debug)]
pub struct ServerUnreachable {
    pub why: String,
    /// True if nothing was sent, so that the request can be tried elsewhere.
    pub unsent: bool,
}

impl RemoteServer {
    /// Builds a client for a server; it connects at the first request.
    pub fn new(address: ServerAddress, token: &str) -> Result<Self, Failure> {
        let client = connection_pool(&address.trust, CONNECT_WITHIN, IDLE)?;
        Ok(Self {
            address,
            bearer: format!("Bearer {}", token.trim()),
            client,
        })
    }

    /// Sends one request and returns without waiting for the whole body of the answer.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, ServerUnreachable> {
        let failed = |why: String, unsent: bool| ServerUnreachable {
            why: format!("the server at {} {why}", self.address.url),
            unsent,
        };
        let mut request = Request::builder()
            // The address is fixed by the configuration, so a token never goes to a host that a
            // server names.
            .method(method)
            .uri(format!("{}{path}", self.address.url))
            .header("authorization", &self.bearer);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::from(body))
            .map_err(|error| failed(format!("cannot get this request: {error}"), true))?;
        let response = tokio::time::timeout(ANSWER_WITHIN, self.client.request(request)).await;
        match response {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                // A certificate problem looks like an unreachable server otherwise, and needs
                // another remedy.
                let why = match certificate_error(&error) {
                    Some(doubt) => format!(
                        "shows a certificate that is not trusted here ({doubt}); name it, or the authority that signed it, with COUNTERSIGN_CERTIFICATE or `certificate` in server.toml"
                    ),
                    None => format!("cannot be reached: {}", root_cause(&error)),
                };
                // Only a failed connection proves that nothing was sent.
                Err(failed(why, error.is_connect()))
            }
            Err(_) => {
                let why = format!("has not answered in {} s", ANSWER_WITHIN.as_secs());
                Err(failed(why, false))
            }
        }
    }

    /// Reads the whole body of an answer.
    pub async fn read_body(
        &self,
        response: Response<Incoming>,
    ) -> Result<Bytes, ServerUnreachable> {
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect();
        let read = tokio::time::timeout(ANSWER_WITHIN, body).await;
        let failed = |why: String| ServerUnreachable {
            why: format!("the answer of {} broke off: {why}", self.address.url),
            unsent: false,
        };
        match read {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("it took too long".to_owned())),
        }
    }
}

impl From<ServerUnreachable> for Failure {
    fn from(unreached: ServerUnreachable) -> Self {
        Self::new(ExitKind::Store, unreached.why)
            .hint("check that it runs and that --server has its address; then try again")
    }
}

/// Builds a client that connects over HTTP or HTTPS, by the address, and checks certificates.
pub fn connection_pool(
    trust: &ServerTrust,
    connect_within: Duration,
    idle: Duration,
) -> Result<HttpPool, Failure> {
    let mut http = HttpConnector::new();
    http.set_connect_timeout(Some(connect_within));
    http.set_nodelay(true);
    // The connector would refuse `https` addresses otherwise; TLS is added around it.
    http.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(trust::client_config(trust)?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(idle)
        .build(connector))
}

/// Returns the text of the innermost error; the outer ones only say that there was an error.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Returns the fault of the server's certificate if that is the cause of the error.
fn certificate_error(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls::Error::InvalidCertificate(fault)) = error.downcast_ref() {
            return Some(fault.to_string());
        }
        // The TLS error is wrapped in an I/O error, whose `source` does not show it.
        let wrapped = error.downcast_ref::<std::io::Error>();
        let inside = wrapped.and_then(std::io::Error::get_ref);
        next = match inside {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}
