//! Gets what the view wants from `operations`, and says what came of it.

use flow::event::ChoiceOptions;
use flow::{Actor, Role};
use tokio::sync::mpsc::Sender;

use super::model::list::PAGE;
use super::model::settle::Decision;
use super::model::{PageRequest, ViewEvent, ViewRequest};
use app::failure::Failure;
use app::operations::{App, diff, escalations, history, overview};

/// How much of a ticket's story is shown.
const STORY_MAX: u32 = 1000;

/// Gets it in its own time. A view that has gone needs nothing.
pub async fn bring(office: App, want: ViewRequest, to: Sender<ViewEvent>) {
    let happened = match fetch(&office, want).await {
        Ok(happened) => happened,
        Err(failure) => ViewEvent::Failed(said(&failure)),
    };
    // The view that wanted it may have been closed.
    let _ = to.send(happened).await;
}

fn said(failure: &Failure) -> String {
    match failure.hints.first() {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    }
}

pub async fn fetch(office: &App, want: ViewRequest) -> Result<ViewEvent, Failure> {
    Ok(match want {
        ViewRequest::Overview => ViewEvent::Overview(Box::new(overview::look(office).await?)),
        ViewRequest::Page(asked) => {
            let PageRequest { group, after } = asked;
            ViewEvent::Page(asked, overview::page(office, group, after, PAGE).await?)
        }
        ViewRequest::Ticket(id) => {
            let stored = office.ticket(id.as_str()).await?;
            let waiting = match &stored.ticket.escalation {
                Some(_) => Some(escalations::waiting(office, &stored).await?),
                None => None,
            };
            ViewEvent::Ticket(Box::new(stored), waiting)
        }
        ViewRequest::Diff(id, round) => {
            let changes = diff::of(office, id.as_str(), round).await?;
            ViewEvent::Diff(id, Box::new(changes))
        }
        ViewRequest::Log(id) => {
            let lines = history::latest(office, Some(&id), STORY_MAX).await?;
            ViewEvent::Log(id, lines)
        }
        ViewRequest::Settle(id, decision) => {
            let word = decision.choice;
            let settled = settle(office, id.as_str(), *decision).await?;
            ViewEvent::Settled(Box::new(settled), word)
        }
        ViewRequest::Quit => ViewEvent::Tick(office.now()),
    })
}

/// The same operation as the verb's, in the name that was typed.
async fn settle(office: &App, id: &str, decision: Decision) -> Result<flow::Ticket, Failure> {
    let Decision {
        choice,
        who,
        why,
        over_red_checks,
        builder,
        reviewer,
    } = decision;
    let besides = ChoiceOptions {
        over_red_checks,
        builder,
        reviewer,
    };
    let choice = escalations::choice(choice, besides)?;
    let office = office.speaking_as(Actor::new(&who, Role::Human));
    escalations::resolve(&office, id, choice, &why).await
}
