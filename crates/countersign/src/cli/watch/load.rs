//! Answers the view's requests from `operations`.
//!
//! Each request is a task of its own. A failed one becomes an event, so that the view shows the
//! reason and stays open.

use flow::event::ChoiceOptions;
use flow::{Actor, Role};
use tokio::sync::mpsc::Sender;

use super::model::comment_dialog::Comment;
use super::model::list::PAGE;
use super::model::resolve_dialog::Decision;
use super::model::{PageRequest, ViewEvent, ViewRequest};
use app::failure::Failure;
use app::operations::person_findings::{self, AddedFinding, PersonFinding};
use app::operations::{App, diff, escalations, history, overview};

use crate::cli::ticket::comment::parse_place;

/// Maximum number of log lines shown for a ticket.
const LOG_LINES_MAX: u32 = 1000;

/// Loads the data of a request and sends it to the view.
pub async fn load_and_send(
    app: App,
    repository: Option<String>,
    request: ViewRequest,
    sender: Sender<ViewEvent>,
) {
    let event = match load(&app, repository.as_deref(), request).await {
        Ok(event) => event,
        Err(failure) => ViewEvent::Failed(failure_text(&failure)),
    };
    // Ignored: the view may have been closed.
    let _ = sender.send(event).await;
}

fn failure_text(failure: &Failure) -> String {
    // One line is free for it; the first hint is the most useful.
    match failure.hints.first() {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    }
}

/// Loads the data of a request; lists have the tickets of one repository, or of all.
pub async fn load(
    app: &App,
    repository: Option<&str>,
    request: ViewRequest,
) -> Result<ViewEvent, Failure> {
    Ok(match request {
        ViewRequest::Overview => {
            let overview = overview::load_overview(app, repository).await?;
            ViewEvent::Overview(Box::new(overview))
        }
        ViewRequest::Page(page) => {
            let PageRequest { group, after } = page;
            let from = (repository, after);
            ViewEvent::Page(page, overview::load_page(app, group, from, PAGE).await?)
        }
        ViewRequest::Ticket(id) => {
            let stored = app.ticket(id.as_str()).await?;
            let waiting = match &stored.ticket.escalation {
                Some(_) => Some(escalations::pending_escalation(app, &stored).await?),
                None => None,
            };
            ViewEvent::Ticket(Box::new(stored), waiting)
        }
        ViewRequest::Diff(id, round) => {
            let changes = diff::load_diff(app, id.as_str(), round).await?;
            ViewEvent::Diff(id, Box::new(changes))
        }
        ViewRequest::Log(id) => {
            let lines = history::latest(app, (Some(&id), None), LOG_LINES_MAX).await?;
            ViewEvent::Log(id, lines)
        }
        ViewRequest::Settle(id, decision) => {
            let word = decision.choice;
            let resolved = resolve(app, id.as_str(), *decision).await?;
            ViewEvent::Settled(Box::new(resolved), word)
        }
        ViewRequest::Comment(id, comment) => {
            let (ticket, added) = add_comment(app, id.as_str(), *comment).await?;
            ViewEvent::Commented(Box::new(ticket), added)
        }
        // Handled by the loop before it comes here.
        ViewRequest::Quit => ViewEvent::Tick(app.now()),
    })
}

/// Resolves an escalation like `escalation resolve`, in the name that the user typed.
async fn resolve(app: &App, id: &str, decision: Decision) -> Result<flow::Ticket, Failure> {
    let Decision {
        choice,
        who,
        why,
        over_red_checks,
        builder,
        reviewer,
    } = decision;
    let options = ChoiceOptions {
        over_red_checks,
        builder,
        reviewer,
    };
    let choice = escalations::parse_choice(choice, options)?;
    // The person's name is typed in the dialog and recorded with the decision.
    let app = app.acting_as(Actor::new(&who, Role::Human));
    escalations::resolve(&app, id, choice, &why).await
}

/// Adds a finding like `ticket comment`, in the name that the user typed.
async fn add_comment(
    app: &App,
    id: &str,
    comment: Comment,
) -> Result<(flow::Ticket, Vec<AddedFinding>), Failure> {
    let (file, line, end_line) = parse_place(&comment.place)?;
    let finding = PersonFinding {
        text: comment.text,
        file: Some(file),
        line,
        end_line,
        ..PersonFinding::default()
    };
    let app = app.acting_as(Actor::new(&comment.who, Role::Human));
    person_findings::add(&app, id, &[finding], comment.must_fix).await
}
