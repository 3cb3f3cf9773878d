//! Login and logout: a one-time code or a token opens a session, whose secret is a cookie that no
//! script can read.

use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::html;
use serde::{Deserialize, Serialize};

use super::forms::SubmittedForm;
use super::{PageError, Viewer, layout};
use crate::web::ServerState;
use crate::web::auth::reached_at;
use app::failure::{ExitKind, Failure};
use app::operations::browser_sessions::{self, OpenedSession};
use app::operations::identity::AuthError;
use app::operations::oidc::{LOGIN_SECS, LoginAnswer, OidcLogin, StartedLogin};

/// Name of the cookie of a session, and of a login at an identity provider that has begun.
const SESSION: &str = "cs";
const BEGUN: &str = "cs-login";

/// Builds the name of a cookie. Under TLS its prefix makes browsers insist on `Secure`, on no domain
/// and on the path `/`. Without, on loopback, it has the port: browsers do not separate cookies by
/// port, so a second server on the machine would log a person out of the first one.
fn cookie_name(base: &str, headers: &HeaderMap, encrypted: bool) -> String {
    if encrypted {
        return format!("__Host-{base}");
    }
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port);
    match port.and_then(|port| port.parse::<u16>().ok()) {
        Some(port) => format!("{base}-{port}"),
        None => base.to_owned(),
    }
}

/// Reads the secret of the session from the cookies.
pub fn session_cookie(headers: &HeaderMap, encrypted: bool) -> Option<String> {
    read_cookie(headers, &cookie_name(SESSION, headers, encrypted))
}

fn read_cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, secret) = pairs.find(|(name, _)| *name == wanted)?;
    Some(secret.to_owned())
}

/// Builds the cookie of a session. `Lax` and not `Strict`: a link in a message leads to the page and
/// not to the login. Forms of other sites are refused by three other checks.
fn set_cookie(
    headers: &HeaderMap,
    secret: &str,
    lasts_secs: u64,
    encrypted: bool,
) -> Option<HeaderValue> {
    let name = cookie_name(SESSION, headers, encrypted);
    cookie(&name, secret, lasts_secs, encrypted)
}

fn cookie(name: &str, secret: &str, lasts_secs: u64, encrypted: bool) -> Option<HeaderValue> {
    let secure = if encrypted { "; Secure" } else { "" };
    let text =
        format!("{name}={secret}; Path=/; Max-Age={lasts_secs}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(text).ok()
}

/// Refuses requests that another site caused, by the header that browsers add. The `Origin` is
/// checked for every request of the server; a form has a token besides.
pub async fn require_same_site(request: Request, next: Next) -> Response {
    let site = request.headers().get("sec-fetch-site");
    // A person who follows a link comes from another site, and only reads.
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_own = site.is_none_or(|site| site == "same-origin");
    if reads || is_own {
        return next.run(request).await;
    }
    PageError::forbidden("This form was sent by another site; nothing was changed.").into_response()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoginQuery {
    next: Option<String>,
}

pub async fn show(
    State(state): State<ServerState>,
    Query(query): Query<LoginQuery>,
) -> Html<String> {
    login_page(&state, query.next.as_deref(), None)
}

fn login_page(state: &ServerState, next: Option<&str>, problem: Option<&str>) -> Html<String> {
    let provider = state.oidc().map(OidcLogin::provider_name);
    let query = serde_urlencoded::to_string([("next", next.unwrap_or("/"))]);
    let begin = format!("/login/oidc?{}", query.unwrap_or_default());
    let body = html! {
        main.login {
            h1 { (layout::logo()) "Countersign" }
            @if let Some(problem) = problem {
                p.notice.bad role="alert" { (layout::icon("alert")) (problem) }
            }
            @if let Some(provider) = provider {
                p { a.button.primary href=(begin) { "Log in with " (provider) } }
            }
            form method="post" action="/login" id="login" {
                input type="hidden" name="next" value=(next.unwrap_or("/"));
                label for="secret" { "Login code or token" }
                input #secret name="secret" type="password" required autofocus
                    autocomplete="off" spellcheck="false";
                button.primary type="submit" { "Log in" }
            }
            p.quiet {
                "For a link that logs you in, run " code { "countersign open" }
                " on the machine of the server. It works once, for a minute."
            }
        }
    };
    super::html(layout::bare("Log in", &body))
}

/// Opens a session and goes on to the page that was asked for.
pub async fn log_in(State(state): State<ServerState>, headers: HeaderMap, body: Bytes) -> Response {
    let form = match SubmittedForm::parse(&body) {
        Ok(form) => form,
        Err(error) => return error.into_response(),
    };
    let next = form.get("next").unwrap_or("/");
    // All senders of wrong secrets share the rate limit of one caller.
    if !state.allows_call("login") {
        let why = "too many logins at once; wait a second";
        return PageError::new(StatusCode::TOO_MANY_REQUESTS, why).into_response();
    }
    let secret = form.get("secret").unwrap_or_default();
    match browser_sessions::open(&state.app, secret).await {
        Ok(Ok(OpenedSession { secret, lasts_secs })) => {
            let mut response = Redirect::to(own_path(next)).into_response();
            let encrypted = state.is_encrypted();
            if let Some(cookie) = set_cookie(&headers, &secret, lasts_secs, encrypted) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Ok(Err(error)) => {
            // A used code is deleted after a while, so it may be unknown as well as revoked.
            let words = match error {
                AuthError::Unknown | AuthError::Revoked => {
                    "This login code or token is not valid. A login link works once, for a minute."
                        .to_owned()
                }
                AuthError::Expired
                | AuthError::NoToken
                | AuthError::RunEnded
                | AuthError::ClaimEnded => error.to_string(),
            };
            let mut response = login_page(&state, Some(next), Some(&words)).into_response();
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            let reason = crate::web::problem::RefusalReason(words);
            response.extensions_mut().insert(reason);
            response
        }
        Err(failure) => {
            let mut error = PageError::from(failure).back_to("/login");
            if error.status == StatusCode::CONFLICT {
                error.status = StatusCode::FORBIDDEN;
            }
            error.into_response()
        }
    }
}

/// Secret of a begun login and the page to go on to, as the cookie has them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct BegunLogin {
    secret: String,
    next: String,
}

/// Sends the browser to the identity provider.
pub async fn begin_oidc(
    State(state): State<ServerState>,
    Query(query): Query<LoginQuery>,
    request: Request,
) -> Response {
    let next = own_path(query.next.as_deref().unwrap_or("/")).to_owned();
    let (Some(oidc), Some(own)) = (state.oidc(), reached_at(&state, &request)) else {
        let why = "No identity provider is configured.";
        return PageError::new(StatusCode::NOT_FOUND, why)
            .back_to("/login")
            .into_response();
    };
    if !state.allows_call("login") {
        let why = "too many logins at once; wait a second";
        return PageError::new(StatusCode::TOO_MANY_REQUESTS, why).into_response();
    }
    let StartedLogin { url, secret } = match oidc.begin(&own, state.app.now()).await {
        Ok(started) => started,
        Err(failure) => return refuse_oidc(&state, &next, &failure),
    };
    let begun = BegunLogin { secret, next };
    let mut response = Redirect::to(&url).into_response();
    let value = serde_urlencoded::to_string(begun).unwrap_or_default();
    let encrypted = state.is_encrypted();
    let name = cookie_name(BEGUN, request.headers(), encrypted);
    if let Some(cookie) = cookie(&name, &value, LOGIN_SECS, encrypted) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Takes the answer of the identity provider, and opens a session.
pub async fn finish_oidc(
    State(state): State<ServerState>,
    Query(answer): Query<LoginAnswer>,
    request: Request,
) -> Response {
    let encrypted = state.is_encrypted();
    let name = cookie_name(BEGUN, request.headers(), encrypted);
    let value = read_cookie(request.headers(), &name).unwrap_or_default();
    let begun: BegunLogin = serde_urlencoded::from_str(&value).unwrap_or_default();
    let next = own_path(&begun.next).to_owned();
    let (Some(oidc), Some(own)) = (state.oidc(), reached_at(&state, &request)) else {
        return Redirect::to("/login").into_response();
    };
    if !state.allows_call("login") {
        let why = "too many logins at once; wait a second";
        return PageError::new(StatusCode::TOO_MANY_REQUESTS, why).into_response();
    }
    let opened = oidc.finish(&state.app, &begun.secret, &answer, &own).await;
    let mut response = match opened {
        Ok(OpenedSession { secret, lasts_secs }) => {
            let mut response = Redirect::to(&next).into_response();
            if let Some(cookie) = set_cookie(request.headers(), &secret, lasts_secs, encrypted) {
                response.headers_mut().append(header::SET_COOKIE, cookie);
            }
            response
        }
        Err(failure) => refuse_oidc(&state, &next, &failure),
    };
    // An answer counts once, whatever it was.
    if let Some(cookie) = cookie(&name, "", 0, encrypted) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

fn refuse_oidc(state: &ServerState, next: &str, failure: &Failure) -> Response {
    let hints = failure.hints.iter().map(|hint| format!(" {hint}."));
    let words = format!("{}.{}", failure.message, hints.collect::<String>());
    let mut response = login_page(state, Some(next), Some(&words)).into_response();
    *response.status_mut() = match failure.exit {
        ExitKind::Refused | ExitKind::Usage => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_GATEWAY,
    };
    let reason = crate::web::problem::RefusalReason(words);
    response.extensions_mut().insert(reason);
    response
}

/// Returns the path if it is one of this server; `//host` and a backslash lead elsewhere.
fn own_path(next: &str) -> &str {
    // Browsers drop tabs and line ends from an address, so a control character could hide `//`.
    let has_odd = next.chars().any(|c| c == '\\' || c.is_control());
    let is_own = next.starts_with('/') && !next.starts_with("//") && !has_odd;
    if is_own { next } else { "/" }
}

/// Ends the session.
pub async fn log_out(
    State(state): State<ServerState>,
    context: Viewer,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, PageError> {
    SubmittedForm::parse(&body)?.require_token(&context)?;
    browser_sessions::revoke(&context.app, &context.identity.token).await?;
    let mut response = Redirect::to("/login").into_response();
    if let Some(cookie) = set_cookie(&headers, "", 0, state.is_encrypted()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_only_to_pages_of_this_server() {
        assert_eq!(own_path("/tickets/a?x=1"), "/tickets/a?x=1");
        for foreign in [
            "//evil",
            "https://evil",
            "/\\evil",
            "/\t/evil",
            "",
            "javascript:alert(1)",
        ] {
            assert_eq!(own_path(foreign), "/", "{foreign}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=1; cs=x; b=2"));
        assert_eq!(session_cookie(&headers, false), Some("x".to_owned()));
        assert_eq!(session_cookie(&headers, true), None);
        // Another server on this machine has another port and another cookie.
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:7420"));
        assert_eq!(session_cookie(&headers, false), None);
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static("cs-7421=y; cs-7420=x"),
        );
        assert_eq!(session_cookie(&headers, false), Some("x".to_owned()));
        let secure = set_cookie(&headers, "x", 5, true).unwrap();
        let text = secure.to_str().unwrap();
        for part in ["__Host-cs=x", "HttpOnly", "SameSite=Lax", "Secure"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
