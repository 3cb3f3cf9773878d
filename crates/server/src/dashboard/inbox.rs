//! Inbox: what waits for a person, why, and what to do.

use flow::Ticket;
use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{
    element_id, empty, encode, sentence, severity, stage, ticket_card, time, titled, usd,
};
use super::{PageContext, PageError, PageResult, Viewer, html as respond, ticket};
use app::operations::escalations::PendingEscalation;
use app::operations::messages::PersonMessage;
use app::operations::overview::{self, TicketGroup};
use app::operations::questions::Question;
use app::operations::questions::decisions::ShowEscalation;
use app::operations::questions::messages::ListMessages;
use app::operations::questions::work::ShowStatus;
use app::operations::ticket_search::{self, TicketFilter};
use app::operations::{TicketRow, epics, forecasts};

/// Escalations on the page; the rest is on the list of tickets.
const SHOWN_MAX: u32 = 50;
/// Enough to see that work goes on, and too few to read.
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
    // Oldest first: the ticket that has waited longest comes first.
    let filter = TicketFilter::parse("stage:escalated");
    let rows = ticket_search::search(app, &filter, (Some("updated"), None), SHOWN_MAX).await?;
    let mut waiting = Vec::with_capacity(rows.items.len());
    for row in &rows.items {
        let question = ShowEscalation {
            ticket: row.id.to_string(),
        };
        // One question each: the reasons and choices are not in the rows, and the list is bounded.
        waiting.push((row, question.answer(app).await?));
    }
    let status = ShowStatus::default().answer(app).await?;
    let messages = ListMessages::default().answer(app).await?.items;
    let blocked = tickets_in(context, "stage:blocked").await?;
    let mut at_forge = tickets_in(context, "stage:approved").await?;
    at_forge.retain(Ticket::waits_for_forge);
    let nearly_used = forecasts::list_nearly_used(app, SHOWN_MAX).await?;
    let epics = epics::list_waiting(app).await?;
    let nothing = waiting.is_empty()
        && at_forge.is_empty()
        && nearly_used.is_empty()
        && messages.is_empty()
        && status.silent.is_empty()
        && blocked.is_empty()
        && epics.is_empty();
    let group =
        |title: &str, count: usize| html! { h2.group { (title) " " span.count { (count) } } };
    Ok(html! {
        div.heading { h1 { "Inbox" } (news(0)) }
        @if nothing { (nobody_waits(context).await?) }
        @if !waiting.is_empty() { (group("Need your decision", waiting.len())) }
        @for (row, escalation) in &waiting { (escalation_card(context, row, escalation)) }
        @if rows.next.is_some() {
            p { a href="/tickets?q=stage:escalated&sort=updated" { "All tickets that wait for a person" } }
        }
        @if !epics.is_empty() {
            (group("Need your signature", epics.len()))
            @for epic in &epics {
                section.panel.slim data-row {
                    p {
                        (icon("epic")) a.title href=(format!("/epics/{}", encode(&epic.id))) { (titled(&epic.title)) }
                        span.meta { " All " (epic.completion.tickets) " tickets have landed." }
                    }
                }
            }
        }
        @if !blocked.is_empty() {
            (group("Wait for a person's work", blocked.len()))
            @for ticket in &blocked { (waiting_line(context, ticket, &format!("Waits {}", ticket.describe_wait()))) }
        }
        @if !at_forge.is_empty() {
            (group("Wait for an approval on the forge", at_forge.len()))
            @for ticket in &at_forge { (waiting_line(context, ticket, &format!("Waits {}", ticket.describe_wait()))) }
        }
        @if !nearly_used.is_empty() {
            (group("Budget nearly used", nearly_used.len()))
            @for (ticket, cap) in &nearly_used { (waiting_line(context, ticket, &format!("{} is left", cap.describe()))) }
        }
        @if !messages.is_empty() {
            (group("Messages", messages.len()))
            @for one in &messages { (message_card(context, one)) }
        }
        @if !status.silent.is_empty() {
            (group("Silent agents", status.silent.len()))
            @for silent in &status.silent {
                section.panel.slim data-row {
                    p { (icon("wait")) strong { (silent.agent) } " (" (silent.role) ") " (silent.why) ". " span.meta { "Last seen " (time(silent.since, context.now())) } }
                }
            }
        }
        @if !status.pauses.is_empty() {
            (group("Pauses", status.pauses.len()))
            p { a href="/queues" { (icon("pause")) "See what is paused" } }
        }
    })
}

/// Renders a ticket that waits, in one line.
fn waiting_line(context: &PageContext, ticket: &Ticket, why: &str) -> Markup {
    html! {
        section.panel.slim id=(element_id("wait", &ticket.id)) data-row {
            p {
                (stage(ticket.stage)) " "
                a.title href=(format!("/tickets/{}", ticket.id)) { (titled(&ticket.spec.title)) }
                span.meta { " " (why) " · changed " (time(ticket.updated_at, context.now())) }
            }
        }
    }
}

/// Loads the tickets of a stage, those that changed longest ago first.
async fn tickets_in(context: &PageContext, query: &str) -> Result<Vec<Ticket>, PageError> {
    let filter = TicketFilter::parse(query);
    let order = (Some("updated"), None);
    let rows = ticket_search::search(&context.app, &filter, order, SHOWN_MAX).await?;
    let mut tickets = Vec::with_capacity(rows.items.len());
    for row in &rows.items {
        tickets.push(context.app.ticket(row.id.as_str()).await?.ticket);
    }
    Ok(tickets)
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
        div #nothing {
            (empty("passed", "Nothing waits for a person.", &html! {
                p.quiet { "Escalations, messages and silent agents appear here by themselves." }
                p { a.button href="/board" { "See the board" } }
            }))
        }
        @if !ended.is_empty() {
            h2 { "Ended last" }
            ul.cards { @for row in &ended { (ticket_card(context, row)) } }
        }
    })
}

fn escalation_card(
    context: &PageContext,
    row: &TicketRow,
    escalation: &PendingEscalation,
) -> Markup {
    let path = format!("/tickets/{}", escalation.id);
    let last = escalation.feedback.last();
    let worst = last.and_then(|round| round.findings.iter().min_by_key(|one| one.severity));
    html! {
        section.panel.urgent id=(element_id("wait", &row.id)) data-row {
            div.heading {
                h3 { a.title href=(path) { (titled(&escalation.title)) } }
                span.meta { code { (escalation.id) } " · changed " (time(row.updated_at, context.now())) }
            }
            p.reason { (icon("alert")) (sentence(&escalation.reason)) }
            @if let Some(worst) = worst {
                p.worst { (severity(worst.severity)) " " strong { (worst.id) } " " span { (worst.title) } @if let Some(place) = &worst.place { span.meta { " " code { (place) } } } }
            }
            p.meta.strip {
                @if row.round > 0 { span { "round " (row.round) } }
                @if row.open_must_fix > 0 { span.bad { (row.open_must_fix) " must-fix open" } }
                @if let Some(usd) = usd(row.usd_micros) { span { (usd) } }
                @if last.is_some() { a href=(format!("{path}/diff")) { (icon("diff")) "Change and findings" } }
            }
            div.offers {
                @if context.may_change() {
                    details data-decision { summary.button { "Decide" } (ticket::decision_form(context, escalation, row.version)) }
                }
                @if !escalation.evidence.is_empty() {
                    details { summary { "Evidence" } pre tabindex="0" { (escalation.evidence) } }
                }
            }
        }
    }
}

/// Renders what became of a ticket that no longer waits for a person. It stays in its place until
/// the page is loaded again.
pub fn settled_card(ticket: &Ticket) -> Markup {
    html! {
        section.panel.slim id=(element_id("wait", &ticket.id)) data-row {
            p {
                (stage(ticket.stage)) " "
                a.title href=(format!("/tickets/{}", ticket.id)) { (titled(&ticket.spec.title)) }
                span.meta { " No longer waits for you." }
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
