//! Queues: their depth and age, dead jobs with the reason, pauses and limits.

use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{duration, empty, encode, time};
use super::{PageContext, PageError, PageResult, Viewer, html as respond};
use app::operations::questions::Question;
use app::operations::questions::people::{ListPauses, ListProviderLimits};
use app::operations::questions::work::ListJobs;
use app::operations::queue::{self, QueueDepth};
use app::operations::{Job, JobWork, Pause, PauseScope};

/// Dead jobs on the page.
const DEAD_MAX: u32 = 50;

pub async fn show(context: Viewer) -> PageResult {
    let live = topic(&context, "queues").await?;
    let body = html! {
        h1 { "Queues" }
        (live_part(&context).await?)
        @if context.may_change() { (forms(&context)) }
    };
    let frame = PageFrame {
        title: "Queues",
        section: "/queues",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the part that changes by itself.
pub async fn live_part(context: &PageContext) -> Result<Markup, PageError> {
    let app = &context.app;
    let queues = queue::load_queues(app).await?;
    let pauses = ListPauses::default().answer(app).await?.items;
    let limits = ListProviderLimits::default().answer(app).await?.items;
    let dead = ListJobs {
        state: Some("dead".to_owned()),
        limit: Some(DEAD_MAX),
        ..ListJobs::default()
    };
    let dead = dead.answer(app).await?.items;
    Ok(html! {
        div #queues {
            @if queues.is_empty() { (empty("queue", "No job waits.", &html! { p.quiet { "Jobs appear here as soon as a ticket is added." } })) }
            @else { (queue_table(context, &queues, &pauses)) }
            (pauses_list(context, &pauses))
            @if !dead.is_empty() { (dead_jobs(context, &dead)) }
            section.panel {
                h2 { "Limits of providers" }
                @if limits.is_empty() { p.quiet { "No provider is limited." } }
                @else { table.rows { tbody { @for limit in &limits {
                    tr { td.grow { strong { (limit.provider) } } td.num { @if let Some(most) = limit.most { "at most " (most) " at once" } } }
                } } } }
            }
        }
    })
}

fn dead_jobs(context: &PageContext, dead: &[Job]) -> Markup {
    html! {
        section.panel {
            h2 { "Dead jobs " span.count { (dead.len()) } }
            p.quiet { "They were tried as often as the policy permits. Their tickets wait for a person or have failed." }
            table.rows { tbody { @for job in dead {
                tr data-row {
                    td { span.tag.bad { (icon("failed")) (job_word(&job.work)) } }
                    td.grow {
                        @if let Some(ticket) = &job.ticket { a.title href=(format!("/tickets/{ticket}")) { (ticket) } }
                        @if let Some(error) = &job.last_error { span.meta { (error) } }
                    }
                    td.num { (job.attempts) " attempts" }
                    td.num { (time(job.created_at, context.now())) }
                }
            } } }
        }
    }
}

fn queue_table(context: &PageContext, queues: &[QueueDepth], pauses: &[Pause]) -> Markup {
    let age = |ms: Option<u64>| html! { td.num { @if let Some(ms) = ms { (duration(ms)) } } };
    let is_paused = |name: &str| {
        pauses
            .iter()
            .any(|pause| matches!(&pause.scope, PauseScope::Queue(queue) if queue == name))
    };
    let count =
        // A dash is quieter than a zero: the eye finds the queue that has work.
        |number: u64| html! { td.num { @if number > 0 { (number) } @else { span.quiet { "–" } } } };
    html! {
        div.wide tabindex="0" { table.rows {
            thead { tr {
                th { "Queue" } th.num { "Ready" } th.num { "Waiting" } th.num { "Running" } th.num { "Dead" }
                th.num { "Oldest" } th.num { "p50" } th.num { "p95" } th {}
            } }
            tbody { @for queue in queues {
                tr data-row {
                    td.grow { strong { (queue.name) } @if is_paused(&queue.name) { " " span.tag.warn { (icon("pause")) "paused" } } }
                    (count(queue.ready)) (count(queue.waiting)) (count(queue.leased)) (count(queue.dead))
                    (age(queue.oldest_ms)) (age(queue.p50_ms)) (age(queue.p95_ms))
                    // A paused queue is resumed in the list of pauses, next to the reason and the
                    // end.
                    td.num { @if context.may_change() && !is_paused(&queue.name) { (pause_form(context, "queue", &queue.name)) } }
                }
            } }
        } }
    }
}

fn forms(context: &PageContext) -> Markup {
    html! {
        details.panel {
            summary { "Set a limit, or pause a queue, agent or provider" }
            form method="post" action="/limits" {
                (form_token(context))
                div.row {
                    label { "Provider " input name="provider" required; }
                    label { "At most " input name="most" inputmode="numeric" pattern="[0-9]*" placeholder="empty: no limit"; }
                    button type="submit" { "Set" }
                }
            }
            form method="post" action="/pauses" {
                (form_token(context))
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
}

/// Renders the button that pauses an agent or a queue.
pub fn pause_form(context: &PageContext, scope: &str, name: &str) -> Markup {
    html! {
        // A form and not a link, because browsers may follow links by themselves.
        form.inline method="post" action="/pauses" {
            (form_token(context))
            input type="hidden" name="scope" value=(scope);
            input type="hidden" name="name" value=(name);
            button type="submit" aria-label=(format!("Pause {name}")) { (icon("pause")) "Pause" }
        }
    }
}

/// Renders the pauses in force.
pub fn pauses_list(context: &PageContext, pauses: &[Pause]) -> Markup {
    html! {
        @if !pauses.is_empty() {
            section.panel {
                h2 { "Pauses" }
                table.rows { tbody {
                    @for pause in pauses {
                        @let (scope, name) = scope_words(&pause.scope);
                        tr {
                            td { span.tag.warn { (icon("pause")) (scope) } }
                            td.grow { strong { (name) } span.meta { "by " (pause.by) @if !pause.why.is_empty() { ": " (pause.why) } } }
                            td.num { @if let Some(until) = pause.until { "ends " (time(until, context.now())) } @else { "no end" } }
                            td.num {
                                @if context.may_change() {
                                    form.inline method="post" action=(format!("/pauses/{scope}/{}/end", encode(name))) {
                                        (form_token(context))
                                        button type="submit" aria-label=(format!("Resume {name}")) { "Resume" }
                                    }
                                }
                            }
                        }
                    }
                } }
            }
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

fn job_word(work: &JobWork) -> String {
    match work {
        JobWork::Task(task) => task.word().to_owned(),
        JobWork::Free { kind, .. } => kind.clone(),
    }
}
