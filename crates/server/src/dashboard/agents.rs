//! Agents and workers: who holds which job, who is silent, who was seen, who is paused.

use maud::{Markup, html};

use super::layout::{PageFrame, icon, page, topic};
use super::parts::{empty, time};
use super::queues::{pause_form, pauses_list};
use super::{PageContext, PageError, PageResult, Viewer, html as respond};
use app::operations::overview::{self, ActiveLease};
use app::operations::questions::Question;
use app::operations::questions::people::ListAgents;
use app::operations::questions::work::ShowStatus;

pub async fn show(context: Viewer) -> PageResult {
    let live = topic(&context, "agents").await?;
    let body = html! {
        h1 { "Agents" }
        (live_part(&context).await?)
    };
    let frame = PageFrame {
        title: "Agents",
        section: "/agents",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the part that changes by itself.
pub async fn live_part(context: &PageContext) -> Result<Markup, PageError> {
    let (app, now) = (&context.app, context.now());
    let known = ListAgents::default().answer(app).await?.items;
    let current = overview::load_overview(app, None).await?;
    let status = ShowStatus::default().answer(app).await?;
    Ok(html! {
        div #agents {
            section.panel {
                h2 { "At work " span.count { (current.leases.len()) } }
                @if current.leases.is_empty() { p.quiet { "No agent holds a job." } }
                @else { div.wide { table.rows {
                    thead { tr { th { "Job" } th { "Agent" } th { "Ticket" } th.num { "Attempt" } th.num { "Lease ends" } } }
                    tbody { @for lease in &current.leases { (lease_row(context, lease)) } }
                } } }
            }
            @if !status.silent.is_empty() {
                section.panel.urgent {
                    h2 { "Silent " span.count { (status.silent.len()) } }
                    @for silent in &status.silent {
                        p { (icon("wait")) strong { (silent.agent) } " (" (silent.role) "): " (silent.why) ", " (time(silent.since, now)) }
                    }
                }
            }
            section.panel {
                h2 { "Seen " span.count { (known.len()) } }
                @if known.is_empty() && !current.leases.is_empty() {
                    p.quiet { "No agent or worker has connected by itself." }
                } @else if known.is_empty() {
                    (empty("agent", "No agent or worker has called.", &html! {
                        p { "Start a worker: " code { "countersign worker" } }
                        p { "Or let an agent connect: " code { "countersign token create --agent NAME --role builder" } }
                    }))
                } @else { table.rows { tbody {
                    @for agent in &known {
                        tr data-row {
                            td.grow { strong { (agent.name) } span.meta { (agent.role) } }
                            td.num { (time(agent.seen_at, now)) }
                            td.num { @if context.may_change() { (pause_form(context, "agent", &agent.name)) } }
                        }
                    }
                } } }
            }
            (pauses_list(context, &status.pauses))
        }
    })
}

fn lease_row(context: &PageContext, lease: &ActiveLease) -> Markup {
    html! {
        tr data-row {
            td { span.tag.active { (icon("run")) (lease.kind) } }
            td.grow { strong { (lease.holder) } }
            td { @if let Some(ticket) = &lease.ticket { a.title href=(format!("/tickets/{ticket}")) { (ticket) } } }
            td.num { @if lease.attempts > 1 { (lease.attempts) } }
            td.num { @if let Some(until) = lease.until { (time(until, context.now())) } }
        }
    }
}
