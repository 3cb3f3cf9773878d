//! HTTP client for an identity provider. It follows no redirects and reads answers up to a limit.
//!
//! A redirect could send the client's secret to another host.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::remote::{HttpPool, connection_pool, root_cause};
use crate::settings::server::ServerTrust;

const ANSWER_BYTES_MAX: usize = 256 * 1024;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(20);

pub struct ProviderClient {
    pool: HttpPool,
}

impl fmt::Debug for ProviderClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ProviderClient")
    }
}

impl ProviderClient {
    pub fn new(ca_file: Option<&str>) -> Result<Self, Failure> {
        let trust = ServerTrust::Authorities(ca_file.map(PathBuf::from));
        let pool = connection_pool(&trust, ANSWER_WITHIN, IDLE)?;
        Ok(Self { pool })
    }

    pub async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, Failure> {
        let request = Request::get(url);
        self.send(url, request, String::new()).await
    }

    /// Reads more claims about the person of an access token.
    pub async fn userinfo(&self, url: &str, access: &str) -> Result<Map<String, Value>, Failure> {
        let request = Request::get(url).header("authorization", format!("Bearer {access}"));
        self.send(url, request, String::new()).await
    }

    /// Exchanges a code for tokens.
    pub async fn exchange(
        &self,
        url: &str,
        form: String,
        basic: Option<(&str, &str)>,
    ) -> Result<Map<String, Value>, Failure> {
        let mut request =
            Request::post(url).header("content-type", "application/x-www-form-urlencoded");
        if let Some((id, secret)) = basic {
            // Both are encoded as in a form first (RFC 6749, 2.3.1).
            let encode = |text: &str| {
                let pair = serde_urlencoded::to_string([("", text)]).unwrap_or_default();
                pair.trim_start_matches('=').to_owned()
            };
            let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(secret)));
            request = request.header("authorization", format!("Basic {pair}"));
        }
        self.send(url, request, form).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        url: &str,
        request: hyper::http::request::Builder,
        body: String,
    ) -> Result<T, Failure> {
        // The query of an address may have something that is not for a log.
        let shown = url.split('?').next().unwrap_or_default();
        let failed = |why: String| {
            Failure::error(format!("the identity provider at {shown} {why}"))
                .hint("check server.oidc.issuer, and that this machine reaches it")
        };
        let request = request
            .header("accept", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| failed(format!("cannot be asked: {error}")))?;
        let exchange = async {
            let response =
                self.pool.request(request).await.map_err(|error| {
                    failed(format!("cannot be reached: {}", root_cause(&error)))
                })?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
            let body = body.collect().await;
            let body = body.map_err(|error| failed(format!("broke off: {error}")))?;
            Ok::<_, Failure>((status, body.to_bytes()))
        };
        let answered = tokio::time::timeout(ANSWER_WITHIN, exchange).await;
        let (status, body) = answered
            .map_err(|_| failed(format!("has not answered in {} s", ANSWER_WITHIN.as_secs())))??;
        if !status.is_success() {
            let said = findings::one_line(&String::from_utf8_lossy(&body));
            return Err(failed(format!(
                "answered {}: {}",
                status.as_u16(),
                findings::shorten(&said, 200)
            )));
        }
        serde_json::from_slice(&body)
            .map_err(|error| failed(format!("sent an answer that cannot be read: {error}")))
    }
}
