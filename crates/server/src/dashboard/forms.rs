//! Forms: each one is a `Question` of the API with a token of the session. A refusal is a page that
//! says why.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;

use super::{PageContext, PageError, Viewer, html, settings, shared};
use crate::web::ServerState;
use app::operations::person_findings::PersonFinding;
use app::operations::questions::Question;
use app::operations::questions::decisions::{
    AddFindings, CancelTicket, RaiseBudget, ResolveEscalation, WaiveFinding,
};
use app::operations::questions::messages::MarkMessageRead;
use app::operations::questions::people::{
    CreatePause, CreateToken, EndPause, ProviderLimit, RevokeToken, ShareTicket,
};
use app::operations::questions::work::AcceptEpic;
use app::operations::ticket_search::parse_dollars;
use app::operations::tickets::BudgetScope;
use app::operations::viewed_files;
use app::operations::{browser_sessions, share_links};

/// Fields that belong to the form and not to the question.
const OWN_FIELDS: [&str; 3] = ["form_token", "version", "next"];
/// Characters of a field. Texts are shown on every page of a ticket, and sent with each update.
const FIELD_CHARS_MAX: usize = 50_000;
/// Name of the field with the session's token for forms.
pub const TOKEN_FIELD: &str = "form_token";

type PathFields = BTreeMap<String, String>;

/// Fields that a person has sent.
#[derive(Debug)]
pub struct SubmittedForm(Vec<(String, String)>);

impl SubmittedForm {
    pub fn parse(body: &Bytes) -> Result<Self, PageError> {
        let form = serde_urlencoded::from_bytes(body).map(Self);
        let form = form.map_err(|error| {
            let why = format!("The form could not be read: {error}");
            PageError::new(StatusCode::BAD_REQUEST, why)
        })?;
        let too_long = |(_, value): &&(String, String)| value.chars().count() > FIELD_CHARS_MAX;
        match form.0.iter().find(too_long) {
            None => Ok(form),
            Some((name, _)) => Err(PageError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!(
                    "{:?} has more than {FIELD_CHARS_MAX} characters; nothing was changed.",
                    findings::shorten(name, 40)
                ),
            )),
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str())
    }

    /// Returns the query of the page that the person came from. Anything that is not a query is left
    /// out, so that a form leads to no other page.
    fn next_query(&self) -> &str {
        let next = self.get("next").unwrap_or_default();
        let is_query = next.starts_with('?') && !next.contains(char::is_control);
        if is_query { next } else { "" }
    }

    /// Returns all values of a field that may occur several times.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.0.iter().filter(move |(field, _)| field == name);
        fields.map(|(_, value)| value.as_str())
    }

    /// Refuses a form that was not made for this session.
    pub fn require_token(&self, context: &PageContext) -> Result<(), PageError> {
        let given = self.get(TOKEN_FIELD).unwrap_or_default();
        if engine::secret::is_equal(given, &context.identity.form_token()) {
            return Ok(());
        }
        Err(PageError::forbidden(
            "This form belongs to another session; nothing was changed. Open the page again.",
        ))
    }

    /// Checks the token and the person's role, and returns the app for the change.
    pub fn acting(&self, context: &PageContext) -> Result<app::operations::App, PageError> {
        self.require_token(context)?;
        if !context.may_change() {
            return Err(PageError::forbidden(
                "The role viewer reads and changes nothing.",
            ));
        }
        let mut app = context.app.clone();
        // The version that the person saw: a ticket that moved on in the meantime refuses. One that
        // cannot be read must not pass for none.
        app.call.expected_version = match self.get("version").map(str::parse) {
            None => None,
            Some(Ok(version)) => Some(version),
            Some(Err(_)) => {
                let why = "The form names no version of the ticket; nothing was changed. Open the page again.";
                return Err(PageError::new(StatusCode::BAD_REQUEST, why));
            }
        };
        Ok(app)
    }

    /// Reads a question from the fields of the path and of the form. An empty field counts as
    /// absent, because a browser sends all of them.
    fn question<Q: Question>(&self, path: &PathFields) -> Result<Q, PageError> {
        let path = path
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let own = |name: &str| OWN_FIELDS.contains(&name);
        let fields = self
            .0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let fields = fields.filter(|(name, value)| !own(name) && !value.trim().is_empty());
        let pairs: Vec<_> = path.chain(fields).collect();
        let text = serde_urlencoded::to_string(pairs).unwrap_or_default();
        serde_urlencoded::from_str(&text).map_err(|error| {
            let is_without_reason = self.get("why").is_some_and(|why| why.trim().is_empty());
            let words = if is_without_reason {
                "a reason is missing".to_owned()
            } else {
                plain_words(&error.to_string())
            };
            let why = format!("The form is not complete: {words}. Nothing was changed.");
            PageError::new(StatusCode::UNPROCESSABLE_ENTITY, why)
        })
    }
}

/// Says in words for people what a parser says about a value.
pub fn plain_words(error: &str) -> String {
    let words = [
        (
            "number too large to fit in target type",
            "the number is too large",
        ),
        (
            "number too small to fit in target type",
            "the number is too small",
        ),
        (
            "invalid digit found in string",
            "a whole number is expected",
        ),
        (
            "cannot parse integer from empty string",
            "a whole number is expected",
        ),
    ];
    let replaced = words
        .iter()
        .fold(error.to_owned(), |text, (from, to)| text.replace(from, to));
    match replaced.strip_prefix("missing field ") {
        Some(field) => format!("{} is missing", field.replace('`', "")),
        None => replaced,
    }
}

pub fn router() -> Router<ServerState> {
    Router::new()
        .route(
            "/tickets/{ticket}/escalation",
            post(on_ticket::<ResolveEscalation>),
        )
        .route("/tickets/{ticket}/cancel", post(on_ticket::<CancelTicket>))
        .route("/tickets/{ticket}/budget", post(raise_budget))
        .route(
            "/tickets/{ticket}/findings/{finding}/waive",
            post(on_ticket::<WaiveFinding>),
        )
        .route("/tickets/{ticket}/findings", post(add_finding))
        .route("/tickets/{ticket}/shares", post(share_ticket))
        .route("/settings/links/{link}/revoke", post(revoke_link))
        .route("/tickets/{ticket}/viewed", post(mark_viewed))
        .route("/epics/{epic}/accept", post(on_epic))
        .route("/pauses", post(on_queues::<CreatePause>))
        .route("/pauses/{scope}/{name}/end", post(on_queues::<EndPause>))
        .route("/limits", post(on_queues::<ProviderLimit>))
        .route(
            "/messages/{message}/read",
            post(on_inbox::<MarkMessageRead>),
        )
        .route("/settings/tokens", post(create_token))
        .route("/settings/tokens/{token}/revoke", post(revoke_token))
        .route("/settings/sessions/{session}/revoke", post(revoke_session))
}

/// Asks the question of a form in the person's name.
async fn ask<Q: Question>(
    context: &PageContext,
    path: &PathFields,
    body: &Bytes,
) -> Result<Q::Answer, PageError> {
    let form = SubmittedForm::parse(body)?;
    let app = form.acting(context)?;
    let question: Q = form.question(path)?;
    Ok(question.answer(&app).await?)
}

fn see(path: &str) -> Response {
    Redirect::to(path).into_response()
}

async fn on_ticket<Q: Question>(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    let back = ticket_path(&path);
    let answered = ask::<Q>(&context, &path, &body).await;
    answered.map_err(|error| error.back_to(&back))?;
    Ok(see(&back))
}

fn ticket_path(path: &PathFields) -> String {
    let ticket = path.get("ticket").map_or("", String::as_str);
    format!("/tickets/{ticket}")
}

async fn on_epic(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    let back = format!("/epics/{}", path.get("epic").map_or("", String::as_str));
    let answered = ask::<AcceptEpic>(&context, &path, &body).await;
    answered.map_err(|error| error.back_to(&back))?;
    Ok(see(&back))
}

async fn on_queues<Q: Question>(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    let answered = ask::<Q>(&context, &path, &body).await;
    answered.map_err(|error| error.back_to("/queues"))?;
    Ok(see("/queues"))
}

async fn on_inbox<Q: Question>(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    ask::<Q>(&context, &path, &body).await?;
    Ok(see("/"))
}

/// Adds a comment on a line as a finding of the person.
async fn add_finding(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    let form = SubmittedForm::parse(&body)?;
    let back = format!("{}/diff{}", ticket_path(&path), form.next_query());
    let app = form.acting(&context)?;
    let field = |name: &str| {
        let value = form.get(name).map(str::trim).unwrap_or_default();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let question = AddFindings {
        ticket: path.get("ticket").cloned().unwrap_or_default(),
        findings: vec![PersonFinding {
            text: field("text").unwrap_or_default(),
            file: field("file"),
            line: field("line").and_then(|line| line.parse().ok()),
            severity: field("severity"),
            fix: field("fix"),
            ..PersonFinding::default()
        }],
        must_fix: form.get("must_fix") == Some("true"),
    };
    let answered = question.answer(&app).await.map_err(PageError::from);
    let answer = answered.map_err(|error| error.back_to(&back))?;
    let id = answer
        .findings
        .first()
        .map_or("", |finding| finding.id.as_str());
    let back = back.split('#').next().unwrap_or_default();
    Ok(see(&format!("{back}#{id}")))
}

/// Makes a link to the ticket and shows it once.
async fn share_ticket(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    let back = ticket_path(&path);
    let made = ask::<ShareTicket>(&context, &path, &body).await;
    let made = made.map_err(|error| error.back_to(&back))?;
    Ok(html(shared::made_page(&context, &made).await?).into_response())
}

async fn revoke_link(
    context: Viewer,
    Path(link): Path<String>,
    body: Bytes,
) -> Result<Response, PageError> {
    let app = SubmittedForm::parse(&body)?.acting(&context)?;
    let ended = share_links::revoke(&app, &link).await;
    ended.map_err(|failure| {
        let mut error = PageError::from(failure).back_to("/settings");
        // The link of another person, or one that has ended already.
        if error.status == StatusCode::CONFLICT {
            error.status = StatusCode::FORBIDDEN;
        }
        error
    })?;
    Ok(see("/settings"))
}

/// Replaces the limits of one scope. A person types dollars and minutes.
async fn raise_budget(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    let form = SubmittedForm::parse(&body)?;
    let app = form.acting(&context)?;
    let back = ticket_path(&path);
    let field = |name: &str| {
        form.get(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let bad = |name: &str| {
        let why = format!("{name} is not a number; nothing was changed.");
        PageError::new(StatusCode::UNPROCESSABLE_ENTITY, why).back_to(&back)
    };
    let number = |name: &'static str| match field(name) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| bad(name)),
    };
    let usd_micros = match field("usd") {
        None => None,
        Some(text) => Some(parse_dollars(text).ok_or_else(|| bad("usd"))?),
    };
    let question = RaiseBudget {
        ticket: path.get("ticket").cloned().unwrap_or_default(),
        scope: match field("scope") {
            Some("round") => BudgetScope::Round,
            Some("day") => BudgetScope::Day,
            _ => BudgetScope::Ticket,
        },
        usd: usd_micros.map(flow::usage::dollars),
        usd_micros: None,
        tokens: number("tokens")?,
        wall_secs: number("minutes")?.map(|minutes| minutes.saturating_mul(60)),
        why: field("why").unwrap_or_default().to_owned(),
    };
    if question.why.is_empty() {
        let why = "A reason is missing; nothing was changed.";
        return Err(PageError::new(StatusCode::UNPROCESSABLE_ENTITY, why).back_to(&back));
    }
    let answered = question.answer(&app).await.map_err(PageError::from);
    answered.map_err(|error| error.back_to(&back))?;
    Ok(see(&back))
}

/// Marks a file of the diff as read, or as unread.
async fn mark_viewed(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    let form = SubmittedForm::parse(&body)?;
    let app = form.acting(&context)?;
    let ticket = path.get("ticket").map_or("", String::as_str);
    let mark = form.get("mark").unwrap_or_default();
    let viewed = form.get("viewed") == Some("true");
    viewed_files::set_mark(&app, ticket, mark, viewed).await?;
    let back = format!("{}/diff{}", ticket_path(&path), form.next_query());
    Ok(see(&back))
}

fn require_admin(context: &PageContext) -> Result<(), PageError> {
    if context.is_admin() {
        return Ok(());
    }
    Err(PageError::forbidden("Only administrators manage tokens.").back_to("/settings"))
}

async fn create_token(context: Viewer, body: Bytes) -> Result<Response, PageError> {
    require_admin(&context)?;
    let made = ask::<CreateToken>(&context, &PathFields::new(), &body).await;
    let made = made.map_err(|error| error.back_to("/settings"))?;
    Ok(html(settings::page(&context, Some(&made)).await?).into_response())
}

async fn revoke_token(
    context: Viewer,
    Path(path): Path<PathFields>,
    body: Bytes,
) -> Result<Response, PageError> {
    require_admin(&context)?;
    let answered = ask::<RevokeToken>(&context, &path, &body).await;
    answered.map_err(|error| error.back_to("/settings"))?;
    Ok(see("/settings"))
}

/// Ends a session. A viewer may end its own ones, so only the token of the form is checked here.
async fn revoke_session(
    context: Viewer,
    Path(session): Path<String>,
    body: Bytes,
) -> Result<Response, PageError> {
    SubmittedForm::parse(&body)?.require_token(&context)?;
    let ended = browser_sessions::revoke(&context.app, &session).await;
    ended.map_err(|failure| PageError::from(failure).back_to("/settings"))?;
    Ok(see("/settings"))
}
