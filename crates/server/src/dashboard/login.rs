//! Login and logout: a one-time code or a token opens a session, whose secret is a cookie that no
//! script can read.

use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::forms::SubmittedForm;
use super::{PageError, Viewer, layout};
use crate::web::ServerState;
use app::operations::browser_sessions::{self, OpenedSession};
use app::operations::identity::AuthError;

/// Name of the cookie under TLS. The prefix makes browsers insist on `Secure`, on no domain and on
/// the path `/`.
const SECURE_COOKIE: &str = "__Host-cs";
/// Name of the cookie on a loopback address without TLS.
const PLAIN_COOKIE: &str = "cs";

fn cookie_name(encrypted: bool) -> &'static str {
    if encrypted {
        SECURE_COOKIE
    } else {
        PLAIN_COOKIE
    }
}

/// Reads the secret of the session from the cookies.
pub fn session_cookie(headers: &HeaderMap, encrypted: bool) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, secret) = pairs.find(|(name, _)| *name == cookie_name(encrypted))?;
    Some(secret.to_owned())
}

fn set_cookie(secret: &str, lasts_secs: u64, encrypted: bool) -> Option<HeaderValue> {
    let name = cookie_name(encrypted);
    let secure = if encrypted { "; Secure" } else { "" };
    let text =
        format!("{name}={secret}; Path=/; Max-Age={lasts_secs}; HttpOnly; SameSite=Strict{secure}");
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

pub async fn show(Query(query): Query<LoginQuery>) -> Html<String> {
    login_page(query.next.as_deref(), None)
}

fn login_page(next: Option<&str>, problem: Option<&str>) -> Html<String> {
    let body = html! {
        main.login {
            h1 { (layout::logo()) "Countersign" }
            @if let Some(problem) = problem {
                p.notice.bad role="alert" { (layout::icon("alert")) (problem) }
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
pub async fn log_in(State(state): State<ServerState>, body: Bytes) -> Response {
    let form = match SubmittedForm::parse(&body) {
        Ok(form) => form,
        Err(error) => return error.into_response(),
    };
    let next = form.get("next").unwrap_or("/");
    // Wrong secrets are as slow as one caller may be, whoever sends them.
    if !state.allows_call("login") {
        let why = "too many logins at once; wait a second";
        return PageError::new(StatusCode::TOO_MANY_REQUESTS, why).into_response();
    }
    let secret = form.get("secret").unwrap_or_default();
    match browser_sessions::open(&state.app, secret).await {
        Ok(Ok(OpenedSession { secret, lasts_secs })) => {
            let mut response = Redirect::to(own_path(next)).into_response();
            if let Some(cookie) = set_cookie(&secret, lasts_secs, state.is_encrypted()) {
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
            let mut response = login_page(Some(next), Some(&words)).into_response();
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
    body: Bytes,
) -> Result<Response, PageError> {
    SubmittedForm::parse(&body)?.require_token(&context)?;
    browser_sessions::revoke(&context.app, &context.identity.token).await?;
    let mut response = Redirect::to("/login").into_response();
    if let Some(cookie) = set_cookie("", 0, state.is_encrypted()) {
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
        let secure = set_cookie("x", 5, true).unwrap();
        let text = secure.to_str().unwrap();
        for part in ["__Host-cs=x", "HttpOnly", "SameSite=Strict", "Secure"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
