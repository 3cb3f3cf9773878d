//! Pages behind a link to one ticket: its story and its diff, read-only and without a session. They
//! show no transcripts and no costs, and lead nowhere else.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use findings::diff::DiffRowKind;
use flow::ledger::LedgerEntry;
use flow::{Actor, Role, Ticket};
use maud::{Markup, html};

use super::layout::{self, PageFrame, form_token};
use super::parts::{outcome, severity, stage, time, titled};
use super::ticket::without_label;
use super::{PageContext, PageError, html as respond};
use crate::web::ServerState;
use app::failure::Failure;
use app::operations::diff::{self, DiffFile, RoundDiff};
use app::operations::questions::Question;
use app::operations::questions::people::NewSharedLink;
use app::operations::questions::work::{LogLines, ReadLog};
use app::operations::share_links::{self, LinkState};
use app::operations::{App, Token};

/// Lines of the story on the page.
/// The newest. A link is opened by strangers, so its page has a bound.
const STORY_MAX: u32 = 200;
/// Rows of the diff on the page.
const ROWS_MAX: usize = 20_000;
/// Rows in one `tbody`: the browser skips the layout of those that are not visible.
const CHUNK_ROWS: usize = 60;
/// Activities whose sentences are about money.
/// Money is nobody's business outside.
const COST_ACTIVITIES: [&str; 2] = ["budget_raised", "budget_reached"];

pub fn router() -> Router<ServerState> {
    let page = format!("{}/{{secret}}/tickets/{{ticket}}", share_links::PATH);
    Router::new()
        .route(&page, get(show))
        .route(&format!("{page}/diff"), get(show_diff))
}

type LinkPath = Path<(String, String)>;

/// Finds the ticket behind a link. A neighbour of it is not found, and a link that has ended says so.
async fn open(
    state: &ServerState,
    (secret, id): &(String, String),
) -> Result<(App, Ticket), PageError> {
    // Guessed links are as slow as one caller may be.
    if !state.allows_call("shared links") {
        let why = "too many requests at once; wait a second and reload";
        return Err(PageError::new(StatusCode::TOO_MANY_REQUESTS, why));
    }
    match share_links::open(&state.app, secret, id).await? {
        LinkState::Open => {
            // The weakest role for every visitor: a session in the browser gives no further rights
            // here.
            let app = state.app.acting_as(Actor::new("shared link", Role::Viewer));
            let ticket = app.ticket(id).await?.ticket;
            Ok((app, ticket))
        }
        // The holder of a real secret may know that the link has ended. An unknown secret is a
        // plain 404.
        LinkState::Ended => Err(PageError::new(
            StatusCode::GONE,
            "This link has ended. Ask the person who gave it to you for a new one.",
        )
        .back_to("/login")),
        LinkState::Unknown => Err(PageError::new(
            StatusCode::NOT_FOUND,
            "There is nothing at this address.",
        )
        .back_to("/login")),
    }
}

/// Answers with a page whose address is a secret: no search engine keeps it, and no other server
/// gets the address.
fn answer(result: Result<Markup, PageError>) -> Response {
    let response = match result {
        Ok(page) => respond(page).into_response(),
        Err(error) => error.into_response(),
    };
    let headers = [
        (header::REFERRER_POLICY.as_str(), "no-referrer"),
        ("x-robots-tag", "noindex, nofollow"),
    ];
    (headers, response).into_response()
}

async fn show(State(state): State<ServerState>, Path(path): LinkPath) -> Response {
    answer(ticket_page(&state, &path).await)
}

async fn show_diff(State(state): State<ServerState>, Path(path): LinkPath) -> Response {
    answer(diff_page(&state, &path).await)
}

async fn ticket_page(state: &ServerState, path: &(String, String)) -> Result<Markup, PageError> {
    let (app, ticket) = open(state, path).await?;
    let log = ReadLog {
        ticket: Some(ticket.id.to_string()),
        limit: Some(STORY_MAX),
        ..ReadLog::default()
    };
    let story = log.answer(&app).await?;
    let now = app.now();
    let body = html! {
        main.shared {
            p.meta { (layout::logo()) "Countersign · a link to one ticket, read-only" }
            h1 { (titled(&ticket.spec.title)) }
            p.meta {
                (stage(ticket.stage)) " " code { (ticket.id) } " · round " (ticket.round)
                " · changed " (time(ticket.updated_at, now))
            }
            @if ticket.submission.is_some() {
                p { a.button href=(format!("{}/diff", own_path(path))) { "Diff" } }
            }
            @if let Some(last) = ticket.rounds.last() {
                section.panel {
                    h2 { "Verdict of round " (last.number) " " (outcome(last.verdict.approved)) }
                    ul.gates {
                        @for gate in &last.verdict.gates {
                            li { (outcome(gate.passed)) span { strong { (gate.name) } " " (gate.why) } }
                        }
                    }
                }
            }
            section.panel {
                h2 { "Findings " span.count { (ticket.ledger.entries.len()) } }
                @if ticket.ledger.entries.is_empty() { p.quiet { "No reviewer has reported a finding." } }
                @for entry in &ticket.ledger.entries { (finding(entry)) }
            }
            section.panel {
                h2 { "Task" }
                p.text { (ticket.spec.description) }
                @if !ticket.spec.acceptance.is_empty() {
                    h3 { "Acceptance criteria" }
                    ul { @for criterion in &ticket.spec.acceptance { li { (titled(criterion)) } } }
                }
            }
            (story_list(&story, now))
        }
    };
    Ok(layout::bare(&ticket.spec.title, &body))
}

fn story_list(story: &LogLines, now: flow::Time) -> Markup {
    // Newest first, like everywhere on the dashboard.
    let told = story.items.iter().rev();
    let told = told.filter(|line| {
        let is_cost = COST_ACTIVITIES.contains(&line.activity.as_str());
        // Notes tell about logins and links, and amounts of money are of no concern here.
        !is_cost && !line.text.contains('$') && !line.event.starts_with("link_")
    });
    html! {
        section.panel {
            h2 { "Story" }
            ol.story {
                @for line in told {
                    li { span.text { (without_label(&line.text)) } span.meta { (line.by) " · " (time(line.at, now)) } }
                }
            }
        }
    }
}

fn own_path((secret, id): &(String, String)) -> String {
    format!("{}/{secret}/tickets/{id}", share_links::PATH)
}

fn finding(entry: &LedgerEntry) -> Markup {
    let one = &entry.finding;
    html! {
        details.finding id=(entry.id) open[entry.status.is_open()] {
            summary {
                (severity(entry.severity())) " " strong { (entry.id) } " " (one.title)
                span.meta { " " (entry.status.as_str()) }
            }
            p.meta { code { (entry.location()) } }
            @for text in [&one.problem, &one.impact, &one.fix].into_iter().flatten() {
                p.text { (text) }
            }
        }
    }
}

async fn diff_page(state: &ServerState, path: &(String, String)) -> Result<Markup, PageError> {
    let (app, ticket) = open(state, path).await?;
    let diff = diff::load_diff(&app, ticket.id.as_str(), None).await;
    let body = html! {
        main.shared {
            p.meta { a href=(own_path(path)) { "← " (ticket.id) } }
            h1 { "Diff: " (titled(&ticket.spec.title)) }
            @match &diff {
                Ok(diff) => (files(diff)),
                // The reason may name paths of the server, so a stranger does not get it.
                Err(_) => p.notice { "There is no change yet." },
            }
        }
    };
    Ok(layout::bare(&format!("Diff of {}", ticket.id), &body))
}

fn files(diff: &RoundDiff) -> Markup {
    let count = |file: &DiffFile| -> usize { file.hunks.iter().map(|hunk| hunk.rows.len()).sum() };
    html! {
        @for entry in diff.findings_elsewhere() { (finding(entry)) }
        @for (index, file) in diff.files.iter().enumerate() {
            // The limit is for the page, so a file counts those above it.
            @let before: usize = diff.files.iter().take(index).map(count).sum();
            @let count = count(file);
            @let fits = before + count <= ROWS_MAX;
            // A long file opens on a click, so that the page can be scrolled at once.
            details.file open[count <= 2_000] {
                summary { code { (file.path) } }
                @if file.added.is_none() { p.quiet { "Binary file." } }
                @if fits { (file_table(diff, file)) } @else { p.notice { "Too long for this page." } }
            }
        }
    }
}

fn file_table(diff: &RoundDiff, file: &DiffFile) -> Markup {
    let found: Vec<&LedgerEntry> = diff.findings_in(&file.path).collect();
    html! {
        @for entry in &found { (finding(entry)) }
        table.diff {
            @for hunk in &file.hunks {
                tbody { tr.hunk { td colspan="3" { "⋯ " (hunk.heading) } } }
                @for chunk in hunk.rows.chunks(CHUNK_ROWS) {
                    tbody {
                        @for row in chunk {
                            @let (class, sign) = match row.kind {
                                DiffRowKind::Added => ("added", "+"),
                                DiffRowKind::Removed => ("removed", "−"),
                                DiffRowKind::Kept => ("kept", " "),
                            };
                            tr.(class) {
                                td.line { @if let Some(line) = row.old { (line) } }
                                td.line { @if let Some(line) = row.new { (line) } }
                                td.code { span.sign { (sign) } (row.text) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the form on the page of a ticket that makes a link.
pub fn share_form(context: &PageContext, ticket: &Ticket) -> Markup {
    html! {
        details.panel {
            summary { "Share this ticket" }
            p.quiet { "Everybody who has the link can read the ticket and its diff until it ends: no transcripts, no costs, no other ticket." }
            form method="post" action=(format!("/tickets/{}/shares", ticket.id)) {
                (form_token(context))
                label { "Ends " select name="expires_secs" {
                    // No link without an end can be made here.
                    option value="86400" { "in a day" }
                    option value="604800" selected { "in a week" }
                    option value="2592000" { "in 30 days" }
                } }
                button type="submit" { "Make a link" }
            }
        }
    }
}

/// Renders the page that shows a new link, once.
pub async fn made_page(context: &PageContext, made: &NewSharedLink) -> Result<Markup, Failure> {
    let ticket = made
        .token
        .ticket
        .as_ref()
        .map_or("", flow::TicketId::as_str);
    let body = html! {
        h1 { "A link to " (ticket) }
        div.notice.good role="status" {
            p { "This is the only time that it is shown:" }
            // A path, because the server does not know under which name it is reached from outside.
            pre #shared-link { a href=(made.path) { (made.path) } }
        }
        p { "Put the address of this server before it. Links are listed and revoked under " a href="/settings" { "Settings" } "." }
        p { a.button href=(format!("/tickets/{ticket}")) { "Back to the ticket" } }
    };
    let frame = PageFrame {
        title: "Link",
        section: "/tickets",
        topic: None,
    };
    layout::page(context, frame, &body).await
}

/// Renders the list of links: all of them for administrators, else the person's own.
pub async fn links_panel(context: &PageContext) -> Result<Markup, Failure> {
    let mut links = share_links::list(&context.app).await?;
    let own = &context.identity.actor.agent;
    links.retain(|link| context.is_admin() || link.created_by == *own);
    let now = context.now();
    let ended = |link: &Token| match link.expires_at {
        _ if link.revoked_at.is_some() => Some("revoked"),
        Some(end) if end > now => None,
        _ => Some("expired"),
    };
    Ok(html! {
        @if !links.is_empty() {
            section.panel {
                h2 { "Links to tickets" }
                table.rows { tbody { @for link in &links {
                    tr {
                        td.grow {
                            @if let Some(ticket) = &link.ticket { a href=(format!("/tickets/{ticket}")) { (ticket) } }
                            span.meta { " by " (link.created_by) " · " code { (link.id) } }
                        }
                        td.num { "opened " (link.uses) " times" }
                        td.num { @match (ended(link), link.expires_at) {
                            (Some(word), _) => (word),
                            (None, Some(end)) => { "ends " (time(end, now)) },
                            (None, None) => {},
                        } }
                        td.num {
                            @if ended(link).is_none() && context.may_change() {
                                form.inline method="post" action=(format!("/settings/links/{}/revoke", link.id)) {
                                    (form_token(context)) button type="submit" { "Revoke" }
                                }
                            }
                        }
                    }
                } } }
            }
        }
    })
}
