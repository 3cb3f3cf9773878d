//! Pages about current work: agents, queues, epics and the log.

use axum::extract::{Path, Query};
use flow::epic::EpicStatus;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{duration, empty, encode, mood, stage, time, usd};
use super::{PageContext, PageResult, Viewer, html as respond};
use app::operations::overview;
use app::operations::questions::people::{ListAgents, ListPauses, ListProviderLimits};
use app::operations::questions::work::{ListEpics, ListJobs, ReadLog, ShowEpic, ShowStatus};
use app::operations::questions::{Question, format_cursor};
use app::operations::{JobWork, Pause, PauseScope};

/// Lines of the log on a page.
const LOG_MAX: u32 = 200;
/// Dead jobs on the page of queues.
const DEAD_MAX: u32 = 50;

pub async fn agents(context: Viewer) -> PageResult {
    let live = topic(&context, "reload").await?;
    let (app, now) = (&context.app, context.now());
    let known = ListAgents::default().answer(app).await?.items;
    let current = overview::load_overview(app, None).await?;
    let status = ShowStatus::default().answer(app).await?;
    let body = html! {
        h1 { "Agents" }
        (stale_notice())
        h2 { "At work" }
        @if current.leases.is_empty() { p.quiet { "No agent holds a job." } }
        table.rows { tbody {
            @for lease in &current.leases {
                tr data-row {
                    td { span.tag.active { (icon("run")) (lease.kind) } }
                    td.grow {
                        strong { (lease.holder) }
                        @if let Some(ticket) = &lease.ticket { span.meta { " on " a.title href=(format!("/tickets/{ticket}")) { (ticket) } } }
                    }
                    td.num { @if lease.attempts > 1 { "attempt " (lease.attempts) } }
                    td.num { @if let Some(until) = lease.until { "lease ends " (time(until, now)) } }
                }
            }
        } }
        @if !status.silent.is_empty() {
            h2 { "Silent" }
            @for silent in &status.silent {
                p.notice { (icon("wait")) strong { (silent.agent) } " (" (silent.role) "): " (silent.why) ", " (time(silent.since, now)) }
            }
        }
        h2 { "Seen" }
        @if known.is_empty() {
            (empty("No agent or worker has called.", &html! {
                p { "Start a worker: " code { "countersign worker" } }
                p { "Or let an agent connect: " code { "countersign token create --agent NAME --role builder" } }
            }))
        }
        table.rows { tbody {
            @for agent in &known {
                tr data-row {
                    td.grow { strong { (agent.name) } span.meta { " " (agent.role) } }
                    td.num { (time(agent.seen_at, now)) }
                    td.num { @if context.may_change() { (pause_form(&context, "agent", &agent.name)) } }
                }
            }
        } }
        (pauses_list(&context, &status.pauses))
    };
    let frame = PageFrame {
        title: "Agents",
        section: "/agents",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the notice that the live stream fills when something has changed since.
pub fn stale_notice() -> Markup {
    html! { p #stale.notice hidden role="status" { "Something has changed. " a href="" { "Reload" } } }
}

fn pause_form(context: &PageContext, scope: &str, name: &str) -> Markup {
    html! {
        form.inline method="post" action="/pauses" {
            (form_token(context))
            input type="hidden" name="scope" value=(scope);
            input type="hidden" name="name" value=(name);
            button type="submit" { "Pause" }
        }
    }
}

fn pauses_list(context: &PageContext, pauses: &[Pause]) -> Markup {
    html! {
        @if !pauses.is_empty() {
            h2 { "Pauses" }
            table.rows { tbody {
                @for pause in pauses {
                    @let (scope, name) = scope_words(&pause.scope);
                    tr {
                        td { span.tag.warn { (icon("wait")) (scope) } }
                        td.grow { strong { (name) } span.meta { " by " (pause.by) @if !pause.why.is_empty() { ": " (pause.why) } } }
                        td.num { @if let Some(until) = pause.until { "ends " (time(until, context.now())) } @else { "no end" } }
                        td.num {
                            @if context.may_change() {
                                form.inline method="post" action=(format!("/pauses/{scope}/{}/end", encode(name))) {
                                    (form_token(context))
                                    button type="submit" { "Resume" }
                                }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn scope_words(scope: &PauseScope) -> (&'static str, &str) {
    match scope {
        PauseScope::Agent(name) => ("agent", name),
        PauseScope::Queue(name) => ("queue", name),
        PauseScope::Provider(name) => ("provider", name),
    }
}

pub async fn queues(context: Viewer) -> PageResult {
    let live = topic(&context, "reload").await?;
    let app = &context.app;
    let current = overview::load_overview(app, None).await?;
    let pauses = ListPauses::default().answer(app).await?.items;
    let limits = ListProviderLimits::default().answer(app).await?.items;
    let dead = ListJobs {
        state: Some("dead".to_owned()),
        limit: Some(DEAD_MAX),
        ..ListJobs::default()
    };
    let dead = dead.answer(app).await?.items;
    let body = html! {
        h1 { "Queues" }
        (stale_notice())
        @if current.ready.is_empty() { (empty("No job waits.", &html! { p.quiet { (current.leases.len()) " at work." } })) }
        table.rows { tbody {
            @for (queue, count) in &current.ready {
                tr data-row {
                    td.grow { strong { (queue) } }
                    td.num { (count) @if current.more { "+" } " ready" }
                    td.num { @if context.may_change() { (pause_form(&context, "queue", queue)) } }
                }
            }
        } }
        (pauses_list(&context, &pauses))
        h2 { "Limits of providers" }
        @if limits.is_empty() { p.quiet { "No provider is limited." } }
        table.rows { tbody { @for limit in &limits {
            tr { td.grow { strong { (limit.provider) } } td.num { @if let Some(most) = limit.most { "at most " (most) " at once" } } }
        } } }
        @if context.may_change() {
            details.panel {
                summary { "Set a limit, or pause a queue, agent or provider" }
                form method="post" action="/limits" {
                    (form_token(&context))
                    div.row {
                        label { "Provider " input name="provider" required; }
                        label { "At most " input name="most" inputmode="numeric" pattern="[0-9]*" placeholder="empty: no limit"; }
                        button type="submit" { "Set" }
                    }
                }
                form method="post" action="/pauses" {
                    (form_token(&context))
                    div.row {
                        label { "Pause " select name="scope" { option { "queue" } option { "agent" } option { "provider" } } }
                        label { "Name " input name="name" required; }
                        label { "Reason " input name="why"; }
                        label { "Seconds " input name="for_secs" inputmode="numeric" pattern="[0-9]*" placeholder="empty: no end"; }
                        button type="submit" { "Pause" }
                    }
                }
            }
        }
        @if !dead.is_empty() {
            h2 { "Dead jobs" }
            table.rows { tbody { @for job in &dead {
                tr data-row {
                    td { span.tag.bad { (icon("failed")) (job_word(&job.work)) } }
                    td.grow {
                        @if let Some(ticket) = &job.ticket { a.title href=(format!("/tickets/{ticket}")) { (ticket) } }
                        @if let Some(error) = &job.last_error { span.meta { " " (error) } }
                    }
                    td.num { (job.attempts) " attempts" }
                    td.num { (time(job.created_at, context.now())) }
                }
            } } }
        }
    };
    let frame = PageFrame {
        title: "Queues",
        section: "/queues",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

fn job_word(work: &JobWork) -> String {
    match work {
        JobWork::Task(task) => task.word().to_owned(),
        JobWork::Free { kind, .. } => kind.clone(),
    }
}

pub async fn epics(context: Viewer) -> PageResult {
    let items = ListEpics::default().answer(&context.app).await?.items;
    let body = html! {
        h1 { "Epics" }
        @if items.is_empty() {
            (empty("No epics yet.", &html! { p { "Add one: " code { "countersign epic add FILE" } } }))
        }
        table.rows { tbody { @for epic in &items {
            tr data-row {
                td.grow { a.title href=(format!("/epics/{}", encode(&epic.id))) { (epic.title) } span.meta { code { (epic.id) } " · " (epic_words(&epic.status)) } }
                td.num { (epic.completion.landed) " of " (epic.completion.tickets) " landed" }
                td.num { @if let Some(usd) = usd(epic.completion.spent.usd_micros) { (usd) } }
            }
        } } }
    };
    let frame = PageFrame {
        title: "Epics",
        section: "/epics",
        topic: None,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

fn epic_words(status: &EpicStatus) -> String {
    match status {
        EpicStatus::Stopped { why, .. } => format!("stopped: {why}"),
        EpicStatus::Goes { .. } => "in progress".to_owned(),
        EpicStatus::Waits { .. } => "waits for a person".to_owned(),
        EpicStatus::AtTheGate => "waits for a signature".to_owned(),
        EpicStatus::Complete => "complete".to_owned(),
        EpicStatus::Incomplete { failed } => format!("ended, {} not landed", failed.len()),
    }
}

pub async fn epic(context: Viewer, Path(id): Path<String>) -> PageResult {
    let live = topic(&context, "reload").await?;
    let epic = ShowEpic { epic: id }.answer(&context.app).await?;
    let total = epic.completion.tickets.max(1);
    let body = html! {
        p.meta { a href="/epics" { "← Epics" } }
        h1 { (epic.title) }
        (stale_notice())
        p.meta { code { (epic.id) } " · " (epic_words(&epic.status)) " · " (duration(epic.completion.took_ms)) }
        progress max=(total) value=(epic.completion.landed) { (epic.completion.landed) " of " (total) }
        table.rows { tbody { @for line in &epic.completion.lines {
            tr data-row {
                td { (stage(line.stage)) }
                td.grow { a.title href=(format!("/tickets/{}", line.id)) { (line.title) } span.meta { code { (line.id) } } }
                td.num { (line.rounds) " rounds" }
                td.num { (line.findings) " findings" }
                td.num { @if let Some(usd) = usd(line.usd_micros) { (usd) } }
            }
        } } }
        @if context.may_change() && epic.signed.is_none() {
            details.panel {
                summary { "Sign this epic" }
                form method="post" action=(format!("/epics/{}/accept", encode(&epic.id))) {
                    (form_token(&context))
                    label for="why" { "Reason, recorded with your name" }
                    textarea #why name="why" required rows="2" {}
                    button type="submit" { "Sign" }
                }
            }
        }
    };
    let frame = PageFrame {
        title: &epic.title,
        section: "/epics",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    ticket: Option<String>,
    after: Option<String>,
}

pub async fn log(context: Viewer, Query(query): Query<LogQuery>) -> PageResult {
    let live = topic(&context, "reload").await?;
    let ticket = query.ticket.filter(|ticket| !ticket.is_empty());
    let question = ReadLog {
        ticket: ticket.clone(),
        after: query.after.clone(),
        limit: Some(LOG_MAX),
        ..ReadLog::default()
    };
    let lines = question.answer(&context.app).await?;
    let end = format_cursor(lines.end);
    let body = html! {
        h1 { "Log" }
        (stale_notice())
        form.filter method="get" {
            label { "Ticket " input name="ticket" value=[ticket.as_deref()]; }
            button type="submit" { "Filter" }
        }
        ol.story.wide {
            @for line in lines.items.iter().rev() {
                li.(mood(line.mood)) {
                    span.text {
                        @if let Some(ticket) = &line.ticket { a href=(format!("/tickets/{ticket}")) { (ticket) } " " }
                        (line.text)
                    }
                    span.meta { (line.by) " · " code { (line.event) } " · " (time(line.at, context.now())) }
                }
            }
        }
        nav.pager {
            a href="/log?after=0.0" { "From the beginning" }
            @if query.after.is_some() { a rel="next" href=(format!("/log?after={end}")) { "Later" } a href="/log" { "Newest" } }
        }
    };
    let frame = PageFrame {
        title: "Log",
        section: "/log",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}
