//! Inbox: what waits for a person, why, and what to do.

use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{empty, ticket_row, time};
use super::{PageContext, PageError, PageResult, Viewer, html as respond, ticket};
use app::operations::escalations::PendingEscalation;
use app::operations::messages::PersonMessage;
use app::operations::overview::{self, TicketGroup};
use app::operations::questions::Question;
use app::operations::questions::decisions::ListEscalations;
use app::operations::questions::messages::ListMessages;
use app::operations::questions::work::ShowStatus;

/// Escalations on the page; the rest is on the list of tickets.
const SHOWN_MAX: u32 = 50;
const LANDED_SHOWN: u32 = 3;

pub async fn show(context: Viewer) -> PageResult {
    let live = topic(&context, "inbox").await?;
    let body = body(&context).await?;
    let frame = PageFrame {
        title: "Inbox",
        section: "/",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

async fn body(context: &PageContext) -> Result<Markup, PageError> {
    let app = &context.app;
    let question = ListEscalations {
        limit: Some(SHOWN_MAX),
        ..ListEscalations::default()
    };
    let mut waiting = question.answer(app).await?;
    // The oldest first: whoever waits longest is served first.
    waiting.items.reverse();
    let status = ShowStatus::default().answer(app).await?;
    let messages = ListMessages::default().answer(app).await?.items;
    let nothing = waiting.items.is_empty() && messages.is_empty() && status.silent.is_empty();
    Ok(html! {
        h1 { "Inbox" }
        (news(0))
        @if nothing { (nobody_waits(context).await?) }
        @for escalation in &waiting.items { (escalation_card(context, escalation)) }
        @if waiting.next.is_some() {
            p { a href="/tickets?q=stage:escalated" { "All tickets that wait for a person" } }
        }
        @if !messages.is_empty() {
            h2 { "Messages" }
            @for one in &messages { (message_card(context, one)) }
        }
        @if !status.silent.is_empty() {
            h2 { "Silent agents" }
            @for silent in &status.silent {
                section.panel.row {
                    (icon("wait"))
                    p { strong { (silent.agent) } " (" (silent.role) "): " (silent.why) }
                    span.meta { (time(silent.since, context.now())) }
                }
            }
        }
        @if !status.pauses.is_empty() {
            h2 { "Pauses" }
            p { a href="/queues" { (status.pauses.len()) " in force" } }
        }
    })
}

/// Renders the banner for tickets that arrived after the page was opened. They are not inserted,
/// so that nothing moves under the pointer.
pub fn news(count: usize) -> Markup {
    html! {
        p #news.notice.urgent hidden[count == 0] role="status" {
            (icon("alert")) (count) " new. " a href="/" { "Show" }
        }
    }
}

async fn nobody_waits(context: &PageContext) -> Result<Markup, PageError> {
    let ended = overview::load_page(&context.app, TicketGroup::Ended, (None, None), LANDED_SHOWN);
    let ended = ended.await?.items;
    Ok(html! {
        (empty("Nobody waits for a person.", &html! {
            p.quiet { "Escalations, messages and silent agents appear here." }
        }))
        @if !ended.is_empty() {
            h2 { "Ended last" }
            table.rows { tbody { @for row in &ended { (ticket_row(context, row)) } } }
        }
    })
}

fn escalation_card(context: &PageContext, escalation: &PendingEscalation) -> Markup {
    let path = format!("/tickets/{}", escalation.id);
    let last = escalation.feedback.last();
    html! {
        section.panel.urgent data-row {
            h2 { a.title href=(path) { (escalation.title) } " " code { (escalation.id) } }
            p.reason { (icon("alert")) (escalation.reason) }
            @if !escalation.evidence.is_empty() {
                details { summary { "Evidence" } pre { (escalation.evidence) } }
            }
            @if last.is_some() { p { a href=(format!("{path}/diff")) { "See the change and its findings" } } }
            @if context.may_change() {
                details { summary { "Decide" } (ticket::decision_form(context, escalation, None)) }
            }
        }
    }
}

fn message_card(context: &PageContext, message: &PersonMessage) -> Markup {
    html! {
        section.panel data-row {
            p.meta {
                strong { (message.from) }
                @if let Some(ticket) = &message.ticket {
                    " on " a href=(format!("/tickets/{ticket}")) { (ticket) }
                }
                " · " (message.at)
            }
            p.text { (message.content) }
            @if context.may_change() {
                form method="post" action=(format!("/messages/{}/read", message.id)) {
                    (form_token(context))
                    button type="submit" { "Mark as read" }
                }
            }
        }
    }
}
