//! Calls of a REST API: authentication, redirects, limits, and the difference between a refusal and
//! a lost answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::address::is_safe_address;
use crate::app_auth::AppSender;
use crate::json::entries;
use crate::rate::{WriteSchedule, limit_status, limit_wait};
use crate::token::TokenHeader;
use crate::{ForgeCredential, ForgeError, ForgeToken, ForgeTransport, WireRequest, WireResponse};

/// Tries of a request that can be repeated, and of a whole verb.
pub(crate) const TRIES: u32 = 8;
/// Longest time that a call waits for a limit. The caller plans longer waits.
const WAIT_MAX: Duration = Duration::from_secs(120);
const REDIRECTS_MAX: usize = 5;
const PAGES_MAX: usize = 30;

/// The clock of the caller, so that tests have their own.
#[async_trait]
pub trait ForgeClock: Send + Sync + std::fmt::Debug {
    fn now_ms(&self) -> i64;
    async fn wait(&self, time: Duration);
}

/// Everything that is needed to reach one forge.
#[derive(Clone, Debug)]
pub struct ForgeConnection {
    pub transport: Arc<dyn ForgeTransport>,
    pub clock: Arc<dyn ForgeClock>,
    /// Address of the API, without a slash at its end.
    pub api: String,
    pub token: ForgeCredential,
}

impl ForgeConnection {
    /// Returns the token for now. For an App, this asks the forge for one.
    pub async fn current_token(&self) -> Result<ForgeToken, ForgeError> {
        match &self.token {
            ForgeCredential::Token(token) | ForgeCredential::Account { token, .. } => {
                Ok(token.clone())
            }
            ForgeCredential::App(app) => app.token(&self.api, self.clock.now_ms(), self).await,
        }
    }
}

#[async_trait]
impl AppSender for ForgeConnection {
    async fn send_as_app(&self, request: WireRequest) -> Result<WireResponse, ForgeError> {
        let sent = self.transport.exchange(&request).await;
        sent.map_err(|failure| ForgeError::Lost {
            what: format!("{request:?}"),
            detail: failure.why,
        })
    }
}

/// One request as a verb wants it, without what all of them have.
struct RestRequest<'a> {
    method: &'static str,
    url: &'a str,
    more: &'a [(&'static str, String)],
    body: Option<&'a Value>,
    is_write: bool,
}

impl<'a> RestRequest<'a> {
    fn question(
        method: &'static str,
        url: &'a str,
        more: &'a [(&'static str, String)],
        body: Option<&'a Value>,
    ) -> Self {
        Self {
            method,
            url,
            more,
            body,
            is_write: false,
        }
    }
}

/// Client for one API. Its headers have the token, so debug output leaves them out.
pub(crate) struct RestClient {
    connection: ForgeConnection,
    host: String,
    scheme: TokenHeader,
    headers: Vec<(&'static str, String)>,
    /// One write at a time.
    writes: Mutex<()>,
    schedule: Mutex<WriteSchedule>,
}

impl std::fmt::Debug for RestClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "RestClient({})", self.host)
    }
}

impl RestClient {
    pub fn new(
        connection: ForgeConnection,
        scheme: TokenHeader,
        headers: Vec<(&'static str, String)>,
    ) -> Result<Self, ForgeError> {
        let api = &connection.api;
        if !is_safe_address(api) {
            let why = format!("{api:?}: a token is only sent over https");
            return Err(ForgeError::Address(why));
        }
        Ok(Self {
            host: origin(api).to_owned(),
            connection,
            scheme,
            headers,
            writes: Mutex::default(),
            schedule: Mutex::default(),
        })
    }

    pub fn api(&self) -> &str {
        &self.connection.api
    }

    pub fn now_ms(&self) -> i64 {
        self.connection.clock.now_ms()
    }

    pub async fn pause(&self, time: Duration) {
        self.connection.clock.wait(time).await;
    }

    /// Reads; repeats after a lost answer, and follows redirects.
    pub async fn get(&self, path: &str) -> Result<Value, ForgeError> {
        let response = self.get_with(path, &[]).await?;
        parse_json(path, &response)
    }

    /// Like [`Self::get`], but a missing thing is `None`.
    pub async fn get_maybe(&self, path: &str) -> Result<Option<Value>, ForgeError> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn get_with(
        &self,
        path: &str,
        more: &[(&'static str, String)],
    ) -> Result<WireResponse, ForgeError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.follow(path, more).await {
                Err(error) if error.is_lost() && tries < TRIES => {}
                result => return result,
            }
        }
    }

    async fn follow(
        &self,
        path: &str,
        more: &[(&'static str, String)],
    ) -> Result<WireResponse, ForgeError> {
        let mut url = self.url(path);
        for _ in 0..=REDIRECTS_MAX {
            let response = self
                .send(RestRequest::question("GET", &url, more, None))
                .await?;
            if !matches!(response.status, 301 | 302 | 307 | 308) {
                return self.accept(path, response);
            }
            let location = response.header("location").unwrap_or_default();
            url = if location.starts_with('/') {
                format!("{}{location}", origin(&url))
            } else {
                location.to_owned()
            };
            if !is_safe_address(&url) {
                break;
            }
        }
        Err(ForgeError::Moved {
            what: path.to_owned(),
            to: url,
        })
    }

    /// Reads the end of a text that may be long. It is tried once.
    pub async fn get_end(&self, path: &str, chars_max: usize) -> Result<String, ForgeError> {
        // Not every server obeys the range, so the end is taken here as well.
        let range = ("range", format!("bytes=-{}", chars_max * 4));
        let response = self.follow(path, &[range]).await?;
        let text = String::from_utf8_lossy(&response.body);
        let skip = text.chars().count().saturating_sub(chars_max);
        Ok(text.chars().skip(skip).collect())
    }

    /// Sends a query that changes nothing, although its method is POST; repeats after a lost answer.
    pub async fn query(&self, path: &str, body: &Value) -> Result<Value, ForgeError> {
        let url = self.url(path);
        let mut tries = 0;
        loop {
            tries += 1;
            match self
                .send(RestRequest::question("POST", &url, &[], Some(body)))
                .await
            {
                Err(error) if error.is_lost() && tries < TRIES => {}
                Err(error) => return Err(error),
                Ok(response) => return parse_json(path, &self.accept(path, response)?),
            }
        }
    }

    /// Reads all pages of a list; `page` is the number of entries on one.
    pub async fn list(&self, path: &str, page: usize) -> Result<Vec<Value>, ForgeError> {
        self.list_by("per_page", path, page).await
    }

    /// Like [`Self::list`], for a server that gives the size of a page another name.
    pub async fn list_by(
        &self,
        size: &str,
        path: &str,
        page: usize,
    ) -> Result<Vec<Value>, ForgeError> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let mut all = Vec::new();
        for number in 1..=PAGES_MAX {
            let value = self
                .get(&format!("{path}{sign}{size}={page}&page={number}"))
                .await?;
            let Value::Array(entries) = value else {
                return Err(unreadable(path, "not a list"));
            };
            let is_last = entries.len() < page;
            all.extend(entries);
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// Reads on after the first page of a list whose newest entries come first, as long as there
    /// are new ones.
    pub async fn read_on(
        &self,
        path: &str,
        page: usize,
        first: Vec<Value>,
        is_new: impl Fn(&Value) -> bool + Send,
    ) -> Result<Vec<Value>, ForgeError> {
        let mut all = first;
        for number in 2..=PAGES_MAX {
            let is_full = all.len() >= page * (number - 1);
            if !is_full || !all.last().is_some_and(&is_new) {
                break;
            }
            let next = self.get(&format!("{path}&page={number}")).await?;
            all.extend(entries(&next).iter().cloned());
        }
        Ok(all)
    }

    /// Writes once. A lost answer is an error: the verb looks before it writes again.
    pub async fn write(
        &self,
        method: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Value, ForgeError> {
        let _turn = self.writes.lock().await;
        let now = self.connection.clock.now_ms();
        let wait = self.schedule.lock().await.reserve(now, WAIT_MAX);
        self.wait(wait).await?;
        let url = self.url(path);
        let sent = RestRequest {
            method,
            url: &url,
            more: &[],
            body: Some(body).filter(|body| !body.is_null()),
            is_write: true,
        };
        let response = self.send(sent).await?;
        if (300..400).contains(&response.status) {
            let to = response.header("location").unwrap_or_default().to_owned();
            return Err(ForgeError::Moved {
                what: path.to_owned(),
                to,
            });
        }
        let response = self.accept(path, response)?;
        if response.body.is_empty() {
            return Ok(Value::Null);
        }
        parse_json(path, &response)
    }

    fn url(&self, path: &str) -> String {
        if path.contains("://") {
            path.to_owned()
        } else {
            format!("{}{path}", self.connection.api)
        }
    }

    /// Sends a request, and waits and repeats it while a limit holds: a limited request was not
    /// carried out.
    async fn send(&self, sent: RestRequest<'_>) -> Result<WireResponse, ForgeError> {
        let RestRequest {
            method,
            url,
            more,
            body,
            is_write,
        } = sent;
        let (login, token) = self.credential().await?;
        let mut headers = vec![self.scheme.build(login, &token)];
        headers.extend(self.headers.iter().cloned());
        headers.extend(more.iter().cloned());
        if body.is_some() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        if origin(url) != self.host {
            // The token is for our host only, and so is everything else that we know.
            headers.retain(|(name, _)| matches!(*name, "accept" | "user-agent" | "range"));
        }
        let request = WireRequest {
            method,
            url: url.to_owned(),
            headers,
            body: body
                .map(|body| body.to_string().into_bytes())
                .unwrap_or_default(),
            is_write,
        };
        let clock = &self.connection.clock;
        let mut tries = 0;
        loop {
            tries += 1;
            let response = match self.connection.transport.exchange(&request).await {
                Ok(response) => response,
                Err(failure) if failure.unsent && tries < TRIES => {
                    clock.wait(Duration::from_secs(1)).await;
                    continue;
                }
                Err(failure) => return Err(lost(&token, &request, &failure.why)),
            };
            let text = String::from_utf8_lossy(&response.body);
            let header = |name: &str| response.header(name);
            let status = limit_status(&request.url, response.status, &response.body);
            if let Some(wait) = limit_wait(status, header, &text, clock.now_ms() / 1000)
                && tries < TRIES
            {
                let now = clock.now_ms();
                self.schedule.lock().await.pause(now, wait);
                self.wait(wait).await?;
                continue;
            }
            if response.status >= 500 {
                // A gateway may report an error for a request that was carried out.
                return Err(lost(
                    &token,
                    &request,
                    &format!("status {}", response.status),
                ));
            }
            return Ok(response);
        }
    }

    async fn wait(&self, time: Duration) -> Result<(), ForgeError> {
        if time > WAIT_MAX {
            return Err(ForgeError::Limited {
                host: self.host.clone(),
                seconds: time.as_secs(),
            });
        }
        if !time.is_zero() {
            self.connection.clock.wait(time).await;
        }
        Ok(())
    }

    /// Returns the token for now, and the account that belongs to it.
    async fn credential(&self) -> Result<(Option<&str>, ForgeToken), ForgeError> {
        let login = match &self.connection.token {
            ForgeCredential::Account { login, .. } => Some(login.as_str()),
            ForgeCredential::Token(_) | ForgeCredential::App(_) => None,
        };
        Ok((login, self.connection.current_token().await?))
    }

    /// Returns the account of an App; `None` for a token of a person.
    pub async fn app_login(&self) -> Result<Option<String>, ForgeError> {
        let ForgeCredential::App(app) = &self.connection.token else {
            return Ok(None);
        };
        let now = self.connection.clock.now_ms();
        app.login(self.api(), now, &self.connection).await.map(Some)
    }

    pub fn is_app(&self) -> bool {
        matches!(self.connection.token, ForgeCredential::App(_))
    }

    /// Removes the credential from a text of the forge, which may repeat what it was sent.
    fn redact(&self, text: &str) -> String {
        match &self.connection.token {
            ForgeCredential::Token(token) => token.redact(text),
            ForgeCredential::Account { login, token } => {
                let (_, header) = self.scheme.build(Some(login), token);
                let pair = header.rsplit(' ').next().unwrap_or_default();
                token.redact(&text.replace(pair, "[token]"))
            }
            // Its tokens change, and their beginning does not.
            ForgeCredential::App(_) if text.contains("ghs_") || text.contains("eyJ") => {
                "[an answer with a token]".to_owned()
            }
            ForgeCredential::App(_) => text.to_owned(),
        }
    }

    fn accept(&self, path: &str, response: WireResponse) -> Result<WireResponse, ForgeError> {
        let what = path.to_owned();
        let detail = || {
            let text = self.redact(&findings::one_line(&String::from_utf8_lossy(
                &response.body,
            )));
            findings::shorten(&text, 300)
        };
        Err(match response.status {
            200..=299 | 304 => return Ok(response),
            401 => ForgeError::Unauthorized {
                host: self.host.clone(),
            },
            403 => ForgeError::Forbidden {
                what,
                detail: detail(),
            },
            404 | 410 => ForgeError::NotFound { what },
            status => ForgeError::Refused {
                what,
                status,
                detail: detail(),
            },
        })
    }
}

fn lost(token: &ForgeToken, request: &WireRequest, why: &str) -> ForgeError {
    ForgeError::Lost {
        what: format!("{request:?}"),
        detail: token.redact(why),
    }
}

pub(crate) fn parse_json(path: &str, response: &WireResponse) -> Result<Value, ForgeError> {
    serde_json::from_slice(&response.body).map_err(|error| unreadable(path, &error.to_string()))
}

pub(crate) fn unreadable(what: &str, detail: &str) -> ForgeError {
    ForgeError::Unreadable {
        what: what.to_owned(),
        detail: detail.to_owned(),
    }
}

/// Returns scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = &url[start..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    &url[..start + end]
}

/// Returns one parameter of an address.
pub(crate) fn parameter(sign: char, name: &str, value: &str) -> String {
    format!("{sign}{name}={}", encoded(value))
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(digit), 16);
                out.extend(digit.map(|digit| digit.to_ascii_uppercase()));
            }
        }
    }
    out
}

/// Repeats a verb after a lost answer. The verb looks for its own work first.
macro_rules! until_answered {
    ($step:expr) => {{
        let mut tries = 0;
        loop {
            tries += 1;
            match $step.await {
                Err(error) if error.is_lost() && tries < $crate::rest::TRIES => {}
                result => break result,
            }
        }
    }};
}
pub(crate) use until_answered;
