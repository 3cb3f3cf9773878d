//! Authentication as a GitHub App: a signed JWT is exchanged for a token of one installation. The
//! token is valid for an hour and is renewed before it expires.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::RSA_PKCS1_SHA256;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::rate::server_seconds;
use crate::rest::encoded;
use crate::{ForgeError, ForgeToken, WireRequest, WireResponse};

/// Age at which a token is renewed. GitHub's tokens are valid for an hour.
const RENEW_AFTER_MS: i64 = 50 * 60_000;
/// GitHub accepts at most ten minutes, and clocks differ.
const STATEMENT_SECONDS: i64 = 9 * 60;
const CLOCK_SKEW_SECONDS: i64 = 60;
/// Difference of two clocks that explains a refused statement.
const CLOCKS_DIFFER_SECONDS: u64 = 30;

/// Key of an App. It appears in no debug output.
pub struct AppKey {
    /// Client id or number of the App.
    issuer: String,
    key: KeyPair,
    /// Number of the installation; without it, the installation of the repository.
    installation: Option<u64>,
}

impl fmt::Debug for AppKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "AppKey({})", self.issuer)
    }
}

impl AppKey {
    /// Reads the private key of an App, as GitHub gives it: PEM with PKCS #1 or PKCS #8.
    pub fn new(issuer: &str, pem: &str, installation: Option<u64>) -> Result<Self, ForgeError> {
        let wrong = |why: &str| ForgeError::Address(format!("the key of the App: {why}"));
        let is_issuer = !issuer.is_empty()
            && issuer.len() <= 100
            && issuer
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
        if !is_issuer {
            return Err(wrong("the App has no id"));
        }
        let lines = pem.lines().map(str::trim);
        let inner: String = lines
            .clone()
            .filter(|line| !line.starts_with("-----"))
            .collect();
        let der = STANDARD
            .decode(inner)
            .map_err(|_| wrong("it is not a PEM file"))?;
        let is_pkcs8 = lines
            .clone()
            .any(|line| line == "-----BEGIN PRIVATE KEY-----");
        let key = if is_pkcs8 {
            KeyPair::from_pkcs8(&der)
        } else {
            KeyPair::from_der(&der)
        };
        Ok(Self {
            issuer: issuer.to_owned(),
            key: key.map_err(|_| wrong("it is not an RSA key of at least 2048 bits"))?,
            installation,
        })
    }

    /// Signs the statement that we are the App, valid for some minutes.
    pub fn statement(&self, now_seconds: i64) -> Result<ForgeToken, ForgeError> {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({"alg": "RS256", "typ": "JWT"}));
        let claims = part(json!({
            "iat": now_seconds - CLOCK_SKEW_SECONDS,
            "exp": now_seconds + STATEMENT_SECONDS,
            "iss": self.issuer,
        }));
        let text = format!("{header}.{claims}");
        let mut signature = vec![0; self.key.public().modulus_len()];
        let random = SystemRandom::new();
        let signed = self
            .key
            .sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature);
        let failed = || ForgeError::Address("the key of the App does not sign".to_owned());
        signed.map_err(|_| failed())?;
        let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
        ForgeToken::new(&token).ok_or_else(failed)
    }
}

/// The newest token of an installation.
#[derive(Debug, Default)]
struct Installed {
    token: Option<ForgeToken>,
    bought_at_ms: i64,
    number: Option<u64>,
}

/// The App and the token of its installation, shared by everything that uses it.
#[derive(Clone, Debug)]
pub struct AppCredential {
    key: Arc<AppKey>,
    /// `OWNER/NAME`
    repository: String,
    installed: Arc<Mutex<Installed>>,
}

/// Sends one request for the credential.
#[async_trait::async_trait]
pub(crate) trait AppSender: Sync {
    async fn send_as_app(&self, request: WireRequest) -> Result<WireResponse, ForgeError>;
}

impl AppCredential {
    pub fn new(key: AppKey, repository: &str) -> Self {
        Self {
            key: Arc::new(key),
            repository: repository.to_owned(),
            installed: Arc::default(),
        }
    }

    /// Returns the token of the installation. Requests a new one if there is none or if it is old.
    pub(crate) async fn token(
        &self,
        api: &str,
        now_ms: i64,
        sender: &dyn AppSender,
    ) -> Result<ForgeToken, ForgeError> {
        let mut installed = self.installed.lock().await;
        let age = now_ms.saturating_sub(installed.bought_at_ms);
        if let Some(token) = &installed.token
            && (0..RENEW_AFTER_MS).contains(&age)
        {
            return Ok(token.clone());
        }
        let place = (sender, now_ms / 1000);
        let known = self.key.installation.or(installed.number);
        let number = if let Some(number) = known {
            number
        } else {
            let (owner, name) = self.repository.split_once('/').unwrap_or_default();
            let path = format!("/repos/{}/{}/installation", encoded(owner), encoded(name));
            let url = format!("{api}{path}");
            let found = self.send_signed(place, "GET", url, Vec::new()).await?;
            let found = answer(&found, "the App is not installed on the repository")?;
            found["id"].as_u64().unwrap_or_default()
        };
        installed.number = Some(number);
        let name = self.repository.split('/').next_back().unwrap_or_default();
        // The token is for this repository and for nothing else that the App is installed on.
        let body = json!({"repositories": [name]}).to_string().into_bytes();
        let url = format!("{api}/app/installations/{number}/access_tokens");
        let bought = self.send_signed(place, "POST", url, body).await?;
        let bought = answer(&bought, "the App got no token for the repository")?;
        let token = bought["token"].as_str().and_then(ForgeToken::new);
        let token = token.ok_or_else(|| ForgeError::Unreadable {
            what: "installation token".to_owned(),
            detail: "no token".to_owned(),
        })?;
        installed.token = Some(token.clone());
        installed.bought_at_ms = now_ms;
        Ok(token)
    }

    /// Sends a request with a signed statement. A statement is valid for minutes, so a refused one
    /// is signed again with the time of the forge if that differs from ours.
    async fn send_signed(
        &self,
        (sender, now_seconds): (&dyn AppSender, i64),
        method: &'static str,
        url: String,
        body: Vec<u8>,
    ) -> Result<WireResponse, ForgeError> {
        let request = |statement: &ForgeToken| WireRequest {
            method,
            url: url.clone(),
            headers: vec![
                ("authorization", format!("Bearer {}", statement.reveal())),
                ("accept", "application/vnd.github+json".to_owned()),
                ("user-agent", "countersign".to_owned()),
            ],
            body: body.clone(),
            is_write: false,
        };
        let statement = self.key.statement(now_seconds)?;
        let answered = sender.send_as_app(request(&statement)).await?;
        let there = server_seconds(|name| answered.header(name)).unwrap_or(now_seconds);
        if answered.status != 401 || there.abs_diff(now_seconds) <= CLOCKS_DIFFER_SECONDS {
            return Ok(answered);
        }
        let statement = self.key.statement(there)?;
        sender.send_as_app(request(&statement)).await
    }

    /// Returns the account name of the App: its comments are by `NAME[bot]`.
    pub(crate) async fn login(
        &self,
        api: &str,
        now_ms: i64,
        sender: &dyn AppSender,
    ) -> Result<String, ForgeError> {
        let url = format!("{api}/app");
        let place = (sender, now_ms / 1000);
        let found = self.send_signed(place, "GET", url, Vec::new()).await?;
        let found = answer(&found, "the App is not known")?;
        Ok(format!(
            "{}[bot]",
            found["slug"].as_str().unwrap_or_default()
        ))
    }
}

fn answer(response: &WireResponse, why: &str) -> Result<Value, ForgeError> {
    if !(200..300).contains(&response.status) {
        return Err(ForgeError::Refused {
            what: why.to_owned(),
            status: response.status,
            detail: findings::shorten(
                &findings::one_line(&String::from_utf8_lossy(&response.body)),
                300,
            ),
        });
    }
    serde_json::from_slice(&response.body).map_err(|error| ForgeError::Unreadable {
        what: why.to_owned(),
        detail: error.to_string(),
    })
}
