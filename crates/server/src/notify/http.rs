//! One POST, and what became of it. Redirects are not followed, answers are read to a bound, and a
//! server that says nothing is waited for no longer than it was said.

use std::fmt;
use std::time::Duration;

use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::courier::DeliveryOutcome;
use app::failure::Failure;
use app::remote::{HttpPool, innermost, pool};
use app::settings::notify::NotifyTarget;
use app::settings::server::ServerTrust;

/// What is read of an answer.
const ANSWER_BYTES_MAX: usize = 4 * 1024;
/// A connection that nobody used for so long is made anew.
const IDLE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct WebhookClient {
    pool: HttpPool,
    url: String,
    within: Duration,
}

/// Without the address, which may be a secret.
impl fmt::Debug for WebhookClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl WebhookClient {
    pub fn new(target: &NotifyTarget, url: &str) -> Result<Self, Failure> {
        let (name, within) = (&target.name, target.timeout);
        let sound = url
            .parse::<hyper::Uri>()
            .ok()
            .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        if sound.and_then(|uri| uri.host().map(drop)).is_none() {
            // The address itself may be a secret.
            return Err(Failure::usage(format!(
                "notify {name:?}: its address is no http:// or https:// address"
            )));
        }
        // Whom this machine trusts, and whom the target's own file names.
        let trust = ServerTrust::Authorities(target.ca_file.clone());
        let pool = pool(&trust, within, IDLE)?;
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
            return DeliveryOutcome::Never("the request cannot be written".to_owned());
        };
        let answered = async {
            let response = self
                .pool
                .request(request)
                .await
                .map_err(|error| format!("it cannot be reached: {}", innermost(&error)))?;
            Ok::<DeliveryOutcome, String>(judged(response).await)
        };
        match tokio::time::timeout(self.within, answered).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(why)) => DeliveryOutcome::Again(why),
            Err(_) => DeliveryOutcome::Again(format!("no answer in {} s", self.within.as_secs())),
        }
    }
}

async fn judged(response: Response<Incoming>) -> DeliveryOutcome {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    // A longer answer is no better one.
    let body = body.collect().await.map(Collected::to_bytes);
    let body = findings::one_line(&String::from_utf8_lossy(&body.unwrap_or_default()));
    let said = format!("{} {}", status.as_u16(), findings::shorten(&body, 200));
    let said = said.trim_end().to_owned();
    let later = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    if status.is_success() {
        DeliveryOutcome::Delivered(said)
    } else if status.is_redirection() {
        DeliveryOutcome::Never(format!("{said} (redirects are not followed)"))
    } else if status.is_client_error() && !later.contains(&status) {
        DeliveryOutcome::Never(said)
    } else {
        DeliveryOutcome::Again(said)
    }
}
