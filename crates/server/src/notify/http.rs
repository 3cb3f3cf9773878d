//! Sends one POST and judges the answer. It follows no redirects, reads answers up to a limit, and
//! gives up after the target's timeout.
//!
//! A redirect would send the message, with its signature, to an address that the person did not
//! configure.

use std::fmt;
use std::time::Duration;

use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::sender::DeliveryOutcome;
use app::failure::Failure;
use app::remote::{HttpPool, connection_pool, root_cause};
use app::settings::notify::NotifyTarget;
use app::settings::server::ServerTrust;

/// Maximum size of an answer that is read.
/// Only its beginning is shown, in the log.
const ANSWER_BYTES_MAX: usize = 4 * 1024;
/// Idle time after which a connection is closed.
const IDLE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct WebhookClient {
    pool: HttpPool,
    url: String,
    within: Duration,
}

/// Omits the address, which may contain a secret.
impl fmt::Debug for WebhookClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl WebhookClient {
    pub fn new(target: &NotifyTarget, url: &str) -> Result<Self, Failure> {
        let (name, within) = (&target.name, target.timeout);
        let parsed = url
            .parse::<hyper::Uri>()
            .ok()
            .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        // Checked at the start, so that a typo is not found by the first lost escalation.
        if parsed.and_then(|uri| uri.host().map(drop)).is_none() {
            // The address itself may be a secret, so the message omits it.
            return Err(Failure::usage(format!(
                "notify {name:?}: its address does not start with http:// or https://"
            )));
        }
        // The machine's trusted authorities, plus those in the target's own file.
        let trust = ServerTrust::Authorities(target.ca_file.clone());
        let pool = connection_pool(&trust, within, IDLE)?;
        Ok(Self {
            pool,
            url: url.to_owned(),
            within,
        })
    }

    pub async fn post(&self, headers: &[(&str, String)], body: String) -> DeliveryOutcome {
        let mut request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header(
                "user-agent",
                concat!("countersign/", env!("CARGO_PKG_VERSION")),
            );
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let Ok(request) = request.body(Full::from(body)) else {
            return DeliveryOutcome::Rejected("the request is invalid".to_owned());
        };
        let exchange = async {
            let response =
                self.pool.request(request).await.map_err(|error| {
                    format!("could not reach the target: {}", root_cause(&error))
                })?;
            Ok::<DeliveryOutcome, String>(delivery_outcome(response).await)
        };
        match tokio::time::timeout(self.within, exchange).await {
            Ok(Ok(outcome)) => outcome,
            // A target that cannot be reached may be back; one that answers with an error of the
            // client will not take this message.
            Ok(Err(why)) => DeliveryOutcome::Retry(why),
            Err(_) => DeliveryOutcome::Retry(format!("no answer in {} s", self.within.as_secs())),
        }
    }
}

async fn delivery_outcome(response: Response<Incoming>) -> DeliveryOutcome {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    // A longer answer is dropped; only the status matters then.
    let body = body.collect().await.map(Collected::to_bytes);
    let body = findings::one_line(&String::from_utf8_lossy(&body.unwrap_or_default()));
    let answer = format!("{} {}", status.as_u16(), findings::shorten(&body, 200));
    let answer = answer.trim_end().to_owned();
    // These three are errors of the client by their number and ask for another try by their
    // meaning.
    let later = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    if status.is_success() {
        DeliveryOutcome::Delivered(answer)
    } else if status.is_redirection() {
        DeliveryOutcome::Rejected(format!("{answer} (redirects are not followed)"))
    } else if status.is_client_error() && !later.contains(&status) {
        DeliveryOutcome::Rejected(answer)
    } else {
        DeliveryOutcome::Retry(answer)
    }
}
