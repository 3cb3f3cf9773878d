//! Login with an identity provider: authorisation code with PKCE (`OpenID` Connect). The provider is
//! found by its discovery document; nothing of a provider is built in.
//!
//! The server keeps nothing of a login that has begun. Everything is derived from one random secret
//! in a cookie of the browser: the state, the nonce and the PKCE verifier. So only the browser that
//! began a login can finish it, and another server of the same store can too.

mod client;
mod jwt;

use flow::{Role, Time};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::browser_sessions::{self, OpenedSession};
use super::{App, identity};
use crate::failure::{ExitKind, Failure};
use crate::settings::oidc::{ClientSecret, OidcSection, is_safe_address};
use client::ProviderClient;
use jwt::{ExpectedClaims, KeySet, TokenFault};

/// Path at which the provider sends the browser back.
pub const CALLBACK_PATH: &str = "/login/callback";
/// Time that a person has at the provider.
pub const LOGIN_SECS: u64 = 600;
/// Time after which the discovery document is read again.
const DISCOVERY_MS: i64 = 3_600_000;
/// Shortest time between two reads of the keys, so that tokens with made-up key ids cause no flood.
const KEYS_MS_MIN: i64 = 60_000;
const SCOPES: [&str; 3] = ["openid", "profile", "email"];
const GROUPS_MAX: usize = 1000;

/// Login with the configured provider.
#[derive(Debug)]
pub struct OidcLogin {
    section: OidcSection,
    secret: Option<ClientSecret>,
    client: ProviderClient,
    known: Mutex<KnownProvider>,
}

/// The documents of the provider, and when they were read.
#[derive(Debug, Default)]
struct KnownProvider {
    document: Option<(Time, Discovery)>,
    keys: Option<(Time, KeySet)>,
}

/// Part of a discovery document.
#[derive(Clone, Debug, Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// A login that has begun: where the browser goes, and the secret for its cookie.
#[derive(Debug)]
pub struct StartedLogin {
    pub url: String,
    pub secret: String,
}

/// Parameters with which the provider sends the browser back.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoginAnswer {
    code: String,
    state: String,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Values derived from the secret of a login. None of them reveals another.
struct LoginValues {
    state: String,
    nonce: String,
    verifier: String,
}

impl LoginValues {
    fn of(secret: &str) -> Self {
        let derive = |purpose: &str| {
            let text = format!("{purpose} {secret}");
            engine::hash::sha256(text.as_bytes())
        };
        Self {
            state: derive("state"),
            nonce: derive("nonce"),
            verifier: derive("verifier"),
        }
    }

    /// Returns the PKCE challenge (`S256`).
    fn challenge(&self) -> String {
        use base64::Engine;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let digest = ring::digest::digest(&ring::digest::SHA256, self.verifier.as_bytes());
        URL_SAFE_NO_PAD.encode(digest)
    }
}

fn refused(why: impl std::fmt::Display) -> Failure {
    Failure::new(ExitKind::Refused, why)
}

impl OidcLogin {
    pub fn new(section: OidcSection) -> Result<Self, Failure> {
        Ok(Self {
            secret: section.read_secret()?,
            client: ProviderClient::new(section.ca_file.as_deref())?,
            known: Mutex::default(),
            section,
        })
    }

    /// Returns the name of the provider for people: its host.
    pub fn provider_name(&self) -> &str {
        let (_, rest) = self.section.issuer.split_once("://").unwrap_or_default();
        rest.split('/').next().unwrap_or_default()
    }

    /// Returns the address to which the provider sends the browser back.
    fn redirect_uri(&self, reached_at: &str) -> String {
        let own = self.section.url.as_deref().unwrap_or(reached_at);
        format!("{}{CALLBACK_PATH}", own.trim_end_matches('/'))
    }

    /// Begins a login. `reached_at` is the address by which the browser reached this server.
    pub async fn begin(&self, reached_at: &str, now: Time) -> Result<StartedLogin, Failure> {
        let provider = self.discover(now).await?;
        let secret = engine::secret::generate().map_err(|error| {
            Failure::error(format!("cannot make a secret, no random numbers: {error}"))
        })?;
        let values = LoginValues::of(&secret);
        let mut scopes: Vec<&str> = SCOPES.to_vec();
        scopes.extend(self.section.scopes.iter().map(String::as_str));
        let (redirect, scope) = (self.redirect_uri(reached_at), scopes.join(" "));
        let challenge = values.challenge();
        let query = [
            ("response_type", "code"),
            ("client_id", self.section.client_id.as_str()),
            ("redirect_uri", redirect.as_str()),
            ("scope", scope.as_str()),
            ("state", values.state.as_str()),
            ("nonce", values.nonce.as_str()),
            ("code_challenge", challenge.as_str()),
            ("code_challenge_method", "S256"),
        ];
        let query = serde_urlencoded::to_string(query).map_err(Failure::error)?;
        let endpoint = provider.authorization_endpoint;
        let mark = if endpoint.contains('?') { '&' } else { '?' };
        Ok(StartedLogin {
            url: format!("{endpoint}{mark}{query}"),
            secret,
        })
    }

    /// Finishes a login: exchanges the code, verifies the ID token, and opens a session for the
    /// person if the configuration lets them in.
    pub async fn finish(
        &self,
        app: &App,
        secret: &str,
        answer: &LoginAnswer,
        reached_at: &str,
    ) -> Result<OpenedSession, Failure> {
        let values = LoginValues::of(secret);
        // First: what else the answer says counts only if this browser asked for it.
        if secret.is_empty() || !engine::secret::is_equal(&answer.state, &values.state) {
            return Err(
                refused("this answer of the identity provider belongs to no login that began in this browser")
                    .hint("log in again"),
            );
        }
        let provider = self.discover(app.now()).await?;
        let other = answer.iss.as_ref().filter(|iss| **iss != provider.issuer);
        let misses = provider.authorization_response_iss_parameter_supported;
        if other.is_some() || (misses && answer.iss.is_none()) {
            return Err(refused("the answer is of another identity provider"));
        }
        if let Some(error) = &answer.error {
            let more = answer.error_description.as_deref().unwrap_or_default();
            let said = findings::shorten(&findings::one_line(&format!("{error} {more}")), 200);
            return Err(refused(format!("the identity provider refused: {said}")));
        }
        let redirect = self.redirect_uri(reached_at);
        let form = [
            ("grant_type", "authorization_code"),
            ("code", answer.code.as_str()),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", values.verifier.as_str()),
        ];
        let tokens = self.exchange(&provider, &form).await?;
        let token = |name: &str| tokens.get(name).and_then(Value::as_str);
        let id_token = token("id_token").unwrap_or_default();
        let mut claims = self.verify(id_token, &provider, &values.nonce, app).await?;
        if let (Some(endpoint), Some(access)) = (&provider.userinfo_endpoint, token("access_token"))
        {
            let more = self.client.userinfo(endpoint, access).await?;
            // Another person's claims must not be added (OpenID Connect Core, 5.3.2).
            if more.get("sub") != claims.get("sub") {
                return Err(refused("the identity provider answers for another person"));
            }
            for (name, value) in more {
                claims.entry(name).or_insert(value);
            }
        }
        let (name, role) = self.person(&claims)?;
        identity::must_be_distinct(app, &name).await?;
        let app = app.acting_as(flow::Actor::new(&name, role));
        browser_sessions::open_for_person(&app, &name, role).await
    }

    /// Returns the name and the role of the person behind verified claims.
    fn person(&self, claims: &Map<String, Value>) -> Result<(String, Role), Failure> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let is_verified = claims.get("email_verified").and_then(Value::as_bool) == Some(true);
        let email = text("email").filter(|_| is_verified);
        let wanted = self.section.name_claim.as_deref().unwrap_or("email");
        let name = match wanted {
            "email" => email,
            other => text(other),
        };
        let name = name
            .map(findings::clean_name)
            .filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            let why = format!("the identity provider does not give a verified {wanted}");
            refused(why).hint("verify the address there, or set name_claim in [server.oidc]")
        })?;
        let claim = self.section.groups_claim.as_deref().unwrap_or("groups");
        let groups: Vec<String> = match claims.get(claim) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                let all = all.iter().take(GROUPS_MAX).filter_map(Value::as_str);
                all.map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let role = self.section.role_of(&groups, email).ok_or_else(|| {
            refused(format!(
                "{name} is known to the identity provider, but none of its groups or addresses is let in here"
            ))
            .hint("ask an administrator to add it to [server.oidc]")
        })?;
        Ok((name, role))
    }

    async fn exchange(
        &self,
        provider: &Discovery,
        form: &[(&str, &str)],
    ) -> Result<Map<String, Value>, Failure> {
        let id = self.section.client_id.as_str();
        let methods = &provider.token_endpoint_auth_methods_supported;
        let has = |method: &str| methods.iter().any(|known| known == method);
        let mut form = form.to_vec();
        let mut basic = None;
        match &self.secret {
            None => form.push(("client_id", id)),
            // The default of the standard, if the document does not say otherwise.
            Some(secret) if methods.is_empty() || has("client_secret_basic") => {
                basic = Some((id, secret.0.as_str()));
            }
            Some(secret) => {
                form.push(("client_id", id));
                form.push(("client_secret", &secret.0));
            }
        }
        let form = serde_urlencoded::to_string(form).map_err(Failure::error)?;
        let endpoint = &provider.token_endpoint;
        self.client.exchange(endpoint, form, basic).await
    }

    async fn verify(
        &self,
        token: &str,
        provider: &Discovery,
        nonce: &str,
        app: &App,
    ) -> Result<Map<String, Value>, Failure> {
        let expected = ExpectedClaims {
            issuer: &provider.issuer,
            client_id: &self.section.client_id,
            nonce,
            now: app.now(),
        };
        let keys = self.keys(provider, app.now(), false).await?;
        let verified = match jwt::verify(token, &keys, &expected) {
            // The provider may have new keys since.
            Err(TokenFault::NoKey) => {
                let keys = self.keys(provider, app.now(), true).await?;
                jwt::verify(token, &keys, &expected)
            }
            verified => verified,
        };
        verified.map_err(|fault| refused(format!("the login was refused: {fault}")))
    }

    async fn discover(&self, now: Time) -> Result<Discovery, Failure> {
        let mut known = self.known.lock().await;
        if let Some((at, document)) = &known.document
            && now.0.saturating_sub(at.0) < DISCOVERY_MS
        {
            return Ok(document.clone());
        }
        let issuer = &self.section.issuer;
        let base = issuer.trim_end_matches('/');
        let url = format!("{base}/.well-known/openid-configuration");
        let document: Discovery = self.client.get(&url).await?;
        if document.issuer != *issuer {
            return Err(Failure::error(format!(
                "the identity provider at {issuer} calls itself {:?}",
                findings::shorten(&findings::one_line(&document.issuer), 200)
            ))
            .hint("write that address as server.oidc.issuer, if it is the right provider"));
        }
        let endpoints = [
            &document.authorization_endpoint,
            &document.token_endpoint,
            &document.jwks_uri,
        ];
        for url in endpoints.into_iter().chain(&document.userinfo_endpoint) {
            if !is_safe_address(url) {
                let why = format!("the identity provider names {url:?}, which is not https");
                return Err(Failure::error(why));
            }
        }
        known.document = Some((now, document.clone()));
        Ok(document)
    }

    async fn keys(
        &self,
        provider: &Discovery,
        now: Time,
        must_be_new: bool,
    ) -> Result<KeySet, Failure> {
        let mut known = self.known.lock().await;
        if let Some((at, keys)) = &known.keys {
            let age = now.0.saturating_sub(at.0);
            if age < KEYS_MS_MIN || (!must_be_new && age < DISCOVERY_MS) {
                return Ok(keys.clone());
            }
        }
        let keys: KeySet = self.client.get(&provider.jwks_uri).await?;
        known.keys = Some((now, keys.clone()));
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn login(more: &str) -> OidcLogin {
        let text = format!(
            "issuer = \"https://id.example\"\nclient_id = \"c\"\n{more}\n\
             [groups]\nops = \"admin\"\n[emails]\n\"*@example.org\" = \"viewer\"\n"
        );
        OidcLogin::new(toml::from_str(&text).unwrap()).unwrap()
    }

    fn person(login: &OidcLogin, claims: Value) -> Result<(String, Role), String> {
        let Value::Object(claims) = claims else {
            return Err("no object".to_owned());
        };
        login.person(&claims).map_err(|failure| failure.message)
    }

    #[test]
    fn the_values_of_a_login_differ_and_the_challenge_is_the_one_of_the_standard() {
        let values = LoginValues::of("cs_0");
        let all = [&values.state, &values.nonce, &values.verifier];
        assert!(all.iter().all(|value| value.len() == 64));
        assert!(values.state != values.nonce && values.nonce != values.verifier);
        assert_ne!(values.state, LoginValues::of("cs_1").state);
        // RFC 7636, appendix B.
        let example = LoginValues {
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
            ..values
        };
        assert_eq!(
            example.challenge(),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn a_name_is_a_verified_claim() {
        let by_email = login("");
        let ada = json!({"email": "ada@example.org", "email_verified": true});
        assert_eq!(
            person(&by_email, ada),
            Ok(("ada@example.org".to_owned(), Role::Viewer))
        );
        let ops = json!({"email": "bo@example.com", "email_verified": true, "groups": ["ops"]});
        assert_eq!(
            person(&by_email, ops),
            Ok(("bo@example.com".to_owned(), Role::Admin))
        );
        for (claims, word) in [
            (json!({"email": "ada@example.org"}), "verified email"),
            (
                json!({"email": "ada@example.org", "email_verified": false, "groups": "ops"}),
                "verified email",
            ),
            (
                json!({"email": "ada@example.org", "email_verified": "true"}),
                "verified email",
            ),
            (
                json!({"email": "cy@example.com", "email_verified": true, "groups": ["dev"]}),
                "let in",
            ),
            (json!({}), "verified email"),
        ] {
            let refusal = person(&by_email, claims.clone()).unwrap_err();
            assert!(refusal.contains(word), "{claims}: {refusal}");
        }
        let by_name = login("name_claim = \"preferred_username\"");
        let bo = json!({"preferred_username": "bo\u{202e}", "groups": ["ops"]});
        assert_eq!(person(&by_name, bo), Ok(("bo".to_owned(), Role::Admin)));
        // An address that is not verified lets nobody in, whatever the name is.
        let cy = json!({"preferred_username": "cy", "email": "cy@example.org"});
        assert!(person(&by_name, cy).unwrap_err().contains("let in"));
    }
}
