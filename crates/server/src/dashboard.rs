//! Dashboard: pages for people, rendered here as HTML and served by the same listener as the API.
//! Each page translates operations of `app`, and forms call the same `Question`s as the command
//! line. No page holds a rule about tickets.
//!
//! Everything works without JavaScript. The content security policy permits only files of this
//! server and nothing inline. Text of agents is escaped by the template engine.

mod agents;
mod assets;
mod board;
mod costs;
mod diff;
mod epics;
mod forms;
mod highlight;
mod inbox;
mod jump;
mod layout;
mod live;
mod log;
mod login;
mod markdown;
mod new_work;
mod parts;
mod queues;
mod runs;
mod settings;
mod shared;
mod svg;
mod ticket;
mod tickets;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use maud::Markup;

use crate::web::ServerState;
use crate::web::problem::{Problem, RefusalReason};
use crate::web::representation;
use app::failure::Failure;
use app::operations::identity::Identity;
use app::operations::oidc::CALLBACK_PATH;
use app::operations::{App, browser_sessions};
use app::settings::connections::ForgeLink;
use flow::{Role, Time};

/// Only files of this server, and nothing inline: text that slips through the escaping cannot run.
const CONTENT_POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'self'";

/// Headers of every page and asset. `same-origin` and not `no-referrer`: with the latter a browser
/// sends `Origin: null` with forms, which the origin check refuses.
const SECURITY_HEADERS: [(&str, &str); 5] = [
    ("content-security-policy", CONTENT_POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// The person that looks at a page, and the app that acts in that person's name.
#[derive(Clone, Debug)]
struct PageContext {
    app: App,
    identity: Identity,
    /// Secret of the session, to check it again while a stream is open.
    session: String,
    /// Connections to forges, as the configuration has them.
    links: Arc<Vec<ForgeLink>>,
}

impl PageContext {
    fn now(&self) -> Time {
        self.app.now()
    }

    /// Returns whether the person may change anything.
    fn may_change(&self) -> bool {
        self.identity.actor.role != Role::Viewer
    }

    fn is_admin(&self) -> bool {
        self.identity.actor.role == Role::Admin
    }
}

type PageResult = Result<Html<String>, PageError>;

/// An error that is shown as a page: what happened, and what to do next.
#[derive(Clone, Debug)]
struct PageError {
    status: StatusCode,
    message: String,
    hints: Vec<String>,
    /// Page to go back to.
    back: String,
    is_refusal: bool,
}

impl PageError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            hints: Vec::new(),
            back: "/".to_owned(),
            is_refusal: false,
        }
    }

    /// Builds a refusal, which is recorded in the event log.
    fn forbidden(message: impl Into<String>) -> Self {
        Self {
            is_refusal: true,
            ..Self::new(StatusCode::FORBIDDEN, message)
        }
    }

    fn back_to(mut self, path: impl Into<String>) -> Self {
        self.back = path.into();
        self
    }
}

impl From<Failure> for PageError {
    fn from(failure: Failure) -> Self {
        let (message, hints) = (failure.message.clone(), failure.hints.clone());
        Self {
            hints,
            ..Self::new(Problem::from(failure).status(), message)
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let page = layout::error_page(&self);
        let mut response = (self.status, Html(page.into_string())).into_response();
        if self.is_refusal {
            let reason = RefusalReason(self.message.clone());
            response.extensions_mut().insert(reason);
        }
        // For a person who is logged in, it is rendered again with the navigation.
        response.extensions_mut().insert(self);
        response
    }
}

fn html(markup: Markup) -> Html<String> {
    Html(markup.into_string())
}

/// Builds the routes of the dashboard.
pub fn router(state: &ServerState) -> Router<ServerState> {
    let pages = Router::new()
        .route("/", get(inbox::show))
        .route("/board", get(board::show))
        .route("/tickets", get(tickets::show).post(tickets::act))
        .route("/tickets/{ticket}", get(ticket::show))
        .route("/tickets/{ticket}/diff", get(diff::show))
        .route("/tickets/{ticket}/runs", get(runs::list))
        .route("/tickets/{ticket}/runs/{run}", get(runs::show))
        .route("/agents", get(agents::show))
        .route("/queues", get(queues::show))
        .route(
            "/new",
            get(new_work::ticket_page).post(new_work::add_ticket),
        )
        .route("/epics", get(epics::list))
        .route(
            "/epics/new",
            get(new_work::epic_page).post(new_work::add_epic),
        )
        .route("/epics/{epic}", get(epics::show))
        .route("/jump", get(jump::go))
        .route("/jump/list", get(jump::suggest))
        .route("/costs", get(costs::show))
        .route("/log", get(log::show))
        .route("/settings", get(settings::show))
        .route("/pages/events", get(live::stream))
        .route("/pages/alerts", get(live::alerts))
        .merge(forms::router())
        .route("/logout", post(login::log_out))
        .layer(from_fn_with_state(state.clone(), require_session));
    Router::new()
        .route("/login", get(login::show).post(login::log_in))
        .route("/login/oidc", get(login::begin_oidc))
        .route(CALLBACK_PATH, get(login::finish_oidc))
        .route("/assets/{file}", get(assets::serve))
        .merge(shared::router())
        .merge(pages)
        .layer(from_fn(crate::web::body::buffer_body))
        .layer(from_fn(explain_rejection))
        .layer(from_fn(login::require_same_site))
        .layer(from_fn(compress_text))
        .layer(from_fn(secure_headers))
}

/// Renders a page for an address that is not known.
pub fn unknown_page() -> Response {
    let error = PageError::new(StatusCode::NOT_FOUND, "There is no page at this address.");
    let mut response = error.into_response();
    add_security_headers(response.headers_mut());
    response
}

/// Renders a page for an answer that was made for programs: the router answers with a line of text
/// for a number that is none, and the layer that reads bodies with a problem in JSON.
async fn explain_rejection(request: Request, next: Next) -> Response {
    explain(next.run(request).await).await
}

async fn explain(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_kind =
        |word: &str| kind.is_some_and(|kind| kind.as_bytes().starts_with(word.as_bytes()));
    let (is_text, is_problem) = (is_kind("text/plain"), is_kind("application/problem+json"));
    if !response.status().is_client_error() || !(is_text || is_problem) {
        return response;
    }
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    if is_problem {
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or_default();
        return PageError::new(status, format!("{detail}; nothing was changed")).into_response();
    }
    let text = String::from_utf8_lossy(&body);
    let reason = text.split_once(": ").map_or(&*text, |(_, reason)| reason);
    let reason = forms::plain_words(reason);
    let why = format!("The address is not understood: {reason}. Nothing was changed.");
    PageError::new(status, why).into_response()
}

/// Types of bodies that are compressed. Event streams are not among them.
const COMPRESSED_TYPES: [&str; 3] = ["text/html", "text/css", "text/javascript"];

/// Compresses pages, styles and scripts if the browser accepts it.
async fn compress_text(request: Request, next: Next) -> Response {
    let accepts = representation::accepts_gzip(request.headers());
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = COMPRESSED_TYPES.iter().any(|text| kind.starts_with(text));
    if !accepts || !is_text {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // These bodies are whole in memory; only a broken one gives an error.
    let Ok(collected) = body.collect().await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let body = collected.to_bytes();
    let Some(compressed) = representation::gzip(body.clone()).await else {
        return Response::from_parts(parts, body.into());
    };
    let headers = &mut parts.headers;
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(parts, compressed.into())
}

/// Adds the security headers, and forbids caches to keep a page.
async fn secure_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    add_security_headers(response.headers_mut());
    response
}

fn add_security_headers(headers: &mut HeaderMap) {
    for (name, value) in SECURITY_HEADERS {
        // A page may be stricter, such as one whose address is a secret.
        let header = headers.entry(name);
        header.or_insert(HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

/// Finds the session of the cookie. Without one, a page leads to the login and a form is refused.
async fn require_session(
    State(state): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    let secret = login::session_cookie(request.headers(), state.is_encrypted());
    let is_stream = request.uri().path().starts_with("/pages/");
    let identity = match &secret {
        Some(secret) if is_stream => browser_sessions::authenticate(&state.app, secret).await,
        Some(secret) => browser_sessions::visit(&state.app, secret).await,
        None => return without_session(&request),
    };
    match (identity, secret) {
        (Ok(Ok(identity)), Some(session)) => {
            if !state.allows_call(&identity.actor.agent) {
                let why = "too many requests at once; wait a second and reload";
                return PageError::new(StatusCode::TOO_MANY_REQUESTS, why).into_response();
            }
            let context = PageContext {
                app: state.app.acting_as(identity.actor.clone()),
                identity: identity.clone(),
                session,
                links: state.links(),
            };
            request.extensions_mut().insert(context.clone());
            let mut response = explain(next.run(request).await).await;
            if let Some(error) = response
                .extensions_mut()
                .remove::<PageError>()
                .filter(|_| !is_stream)
                && let Ok(page) = layout::framed_error_page(&context, &error).await
            {
                *response.body_mut() = page.into_string().into();
            }
            // The outer middleware records refusals and needs the caller.
            response.extensions_mut().insert(identity);
            response
        }
        (Err(failure), _) => PageError::from(failure).into_response(),
        (Ok(_), _) => without_session(&request),
    }
}

fn without_session(request: &Request) -> Response {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    if *request.method() == Method::GET && !path.starts_with("/pages/") {
        let query = serde_urlencoded::to_string([("next", path)]).unwrap_or_default();
        return Redirect::to(&format!("/login?{query}")).into_response();
    }
    PageError::new(
        StatusCode::UNAUTHORIZED,
        "You are not logged in; nothing was changed.",
    )
    .back_to("/login")
    .into_response()
}

/// The context that `require_session` has put into the request.
type Viewer = Extension<PageContext>;
