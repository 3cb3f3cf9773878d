//! The other end of `web`: a server somewhere, called over HTTP. It sends a caller's own token to the
//! server that was named and to nobody else, and waits for nothing without an end.

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

/// No answer is larger.
const ANSWER_MAX: usize = 64 * 1024 * 1024;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A long poll takes up to 50 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// A connection that nobody used for so long is made anew.
const IDLE: Duration = Duration::from_secs(8);

/// Connections that are kept for the next request.
pub type HttpPool = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A server that was named, and who we are to it.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    pub place: ServerAddress,
    bearer: String,
    client: HttpPool,
}

/// Why there is no answer.
#[derive(Debug)]
pub struct ServerUnreachable {
    pub why: String,
    /// Nothing was sent, so that it may be tried elsewhere.
    pub unsent: bool,
}

impl RemoteServer {
    pub fn new(place: ServerAddress, token: &str) -> Result<Self, Failure> {
        let client = pool(&place.trust, CONNECT_WITHIN, IDLE)?;
        Ok(Self {
            place,
            bearer: format!("Bearer {}", token.trim()),
            client,
        })
    }

    /// Sends one request; the answer's body comes as it is sent.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, ServerUnreachable> {
        let broken = |why: String, unsent: bool| ServerUnreachable {
            why: format!("the server at {} {why}", self.place.url),
            unsent,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.place.url))
            .header("authorization", &self.bearer);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::from(body))
            .map_err(|error| broken(format!("cannot be asked that: {error}"), true))?;
        let answered = tokio::time::timeout(ANSWER_WITHIN, self.client.request(request)).await;
        match answered {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let why = match untrusted(&error) {
                    Some(doubt) => format!(
                        "shows a certificate that is not trusted here ({doubt}); name it, or who signed it, with COUNTERSIGN_CERTIFICATE or `certificate` in server.toml"
                    ),
                    None => format!("cannot be reached: {}", innermost(&error)),
                };
                Err(broken(why, error.is_connect()))
            }
            Err(_) => {
                let why = format!("has not answered in {} s", ANSWER_WITHIN.as_secs());
                Err(broken(why, false))
            }
        }
    }

    /// The whole of an answer.
    pub async fn whole(&self, response: Response<Incoming>) -> Result<Bytes, ServerUnreachable> {
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect();
        let read = tokio::time::timeout(ANSWER_WITHIN, body).await;
        let broken = |why: String| ServerUnreachable {
            why: format!("the answer of {} broke off: {why}", self.place.url),
            unsent: false,
        };
        match read {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) => Err(broken(error.to_string())),
            Err(_) => Err(broken("it took too long".to_owned())),
        }
    }
}

impl From<ServerUnreachable> for Failure {
    fn from(unreached: ServerUnreachable) -> Self {
        Self::new(ExitKind::Store, unreached.why)
            .hint("see that it runs and that --server names it; then try again")
    }
}

/// Connects to whom we believe, over HTTP or HTTPS as the address says.
pub fn pool(
    trust: &ServerTrust,
    connect_within: Duration,
    idle: Duration,
) -> Result<HttpPool, Failure> {
    let mut http = HttpConnector::new();
    http.set_connect_timeout(Some(connect_within));
    http.set_nodelay(true);
    http.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(trust::config(trust)?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(idle)
        .build(connector))
}

/// What it all came from: the outer errors only say that there was one.
pub fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// What is wrong with the certificate, where that is what it all came from.
fn untrusted(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls::Error::InvalidCertificate(doubt)) = error.downcast_ref() {
            return Some(doubt.to_string());
        }
        let wrapped = error.downcast_ref::<std::io::Error>();
        let inside = wrapped.and_then(std::io::Error::get_ref);
        next = match inside {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}
