//! The transport below the adapters: one exchange, with limits on time and size.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;

const ANSWER_MAX: usize = 16 * 1024 * 1024;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// One request. Its headers have the token, so debug output leaves them out.
#[derive(Clone)]
pub struct WireRequest {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// True if it changes something. Its method does not say so: questions are sent by POST as well.
    pub is_write: bool,
}

impl fmt::Debug for WireRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.method, self.url)
    }
}

/// One answer.
#[derive(Clone, Debug)]
pub struct WireResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl WireResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Reason why there is no answer.
#[derive(Clone, Debug)]
pub struct WireFailure {
    pub why: String,
    /// True if nothing was sent, so that the request can be repeated.
    pub unsent: bool,
}

/// Sends one request and reads one answer. It follows no redirects.
#[async_trait]
pub trait ForgeTransport: Send + Sync + fmt::Debug {
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure>;
}

/// Transport over a pool of connections that the caller has built, with its trust in certificates.
#[derive(Clone, Debug)]
pub struct HyperTransport<C>(pub Client<C, Full<Bytes>>);

#[async_trait]
impl<C> ForgeTransport for HyperTransport<C>
where
    C: Connect + Clone + Send + Sync + fmt::Debug + 'static,
{
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure> {
        let failed = |why: String, unsent: bool| WireFailure { why, unsent };
        let mut built = Request::builder().method(request.method).uri(&request.url);
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        let built = built.body(Full::from(request.body.clone()));
        // The error of a bad header could contain its value.
        let built = built.map_err(|_| failed("the request cannot be built".to_owned(), true))?;
        let exchange = async {
            let response = self.0.request(built).await.map_err(|error| {
                // Only a failed connection proves that nothing was sent.
                let unsent = error.is_connect();
                failed(root_cause(&error), unsent)
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await;
            let body = body.map_err(|error| failed(error.to_string(), false))?;
            let text = |value: &hyper::header::HeaderValue| value.to_str().map(str::to_owned);
            let headers = head.headers.iter();
            let headers =
                headers.filter_map(|(name, value)| Some((name.to_string(), text(value).ok()?)));
            Ok(WireResponse {
                status: head.status.as_u16(),
                headers: headers.collect(),
                body: body.to_bytes().to_vec(),
            })
        };
        let limited = tokio::time::timeout(ANSWER_WITHIN, exchange).await;
        limited.unwrap_or_else(|_| Err(failed("it took too long".to_owned(), false)))
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
