//! Epics: the list, and one epic with its graph, its tickets and the signature at the end.

use axum::extract::Path;
use flow::epic::EpicStatus;
use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{counted, duration, empty, encode, stage, time, titled, usd};
use super::svg::{GraphNode, graph};
use super::{PageContext, PageError, PageResult, Viewer, html as respond};
use app::operations::epics::{self, EpicReport};
use app::operations::questions::Question;
use app::operations::questions::work::{ListEpics, ShowEpic};

pub async fn list(context: Viewer) -> PageResult {
    let live = topic(&context, "epics").await?;
    let body = html! {
        div.heading {
            h1 { "Epics" }
            @if context.may_change() {
                div.actions { a.button.primary href="/epics/new" { (icon("new")) "New epic" } }
            }
        }
        (list_part(&context).await?)
    };
    let frame = PageFrame {
        title: "Epics",
        section: "/epics",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the list, which changes by itself.
pub async fn list_part(context: &PageContext) -> Result<Markup, PageError> {
    let items = ListEpics::default().answer(&context.app).await?.items;
    Ok(html! {
        div #epics {
            @if items.is_empty() {
                (empty("epic", "No epics yet.", &html! {
                    p { "An epic is several tickets that depend on each other and are signed as a whole." }
                    p { code { "countersign run EPIC.yaml" } }
                }))
            } @else {
                table.rows { tbody { @for epic in &items {
                    tr data-row {
                        td { (status(&epic.status)) }
                        td.grow {
                            a.title href=(format!("/epics/{}", encode(&epic.id))) { (epic.title) }
                            span.meta { code { (epic.id) } }
                        }
                        td { (bar(epic)) }
                        td.num { (epic.completion.landed) " of " (epic.completion.tickets) " landed" }
                        td.num { @if let Some(usd) = usd(epic.completion.spent.usd_micros) { (usd) } }
                    }
                } } }
            }
        }
    })
}

fn bar(epic: &EpicReport) -> Markup {
    html! {
        progress max=(epic.completion.tickets.max(1)) value=(epic.completion.landed) aria-label="landed" {
            (epic.completion.landed) " of " (epic.completion.tickets)
        }
    }
}

fn status(status: &EpicStatus) -> Markup {
    let (tone, mark) = match status {
        EpicStatus::Stopped { .. } | EpicStatus::Incomplete { .. } => ("bad", "failed"),
        EpicStatus::Goes { .. } => ("active", "run"),
        EpicStatus::Waits { .. } | EpicStatus::AtTheGate => ("urgent", "alert"),
        EpicStatus::Complete => ("good", "passed"),
    };
    html! { span.tag.(tone) { (icon(mark)) (status_words(status)) } }
}

fn status_words(status: &EpicStatus) -> String {
    match status {
        EpicStatus::Stopped { why, .. } => format!("stopped: {why}"),
        EpicStatus::Goes { .. } => "in progress".to_owned(),
        EpicStatus::Waits { .. } => "waits for a person".to_owned(),
        EpicStatus::AtTheGate => "waits for a signature".to_owned(),
        EpicStatus::Complete => "complete".to_owned(),
        EpicStatus::Incomplete { failed } => format!("ended, {} not landed", failed.len()),
    }
}

pub async fn show(context: Viewer, Path(id): Path<String>) -> PageResult {
    let live = topic(&context, &format!("epic:{id}")).await?;
    let epic = ShowEpic { epic: id.clone() }.answer(&context.app).await?;
    let body = html! {
        p.crumbs { a href="/epics" data-up { "Epics" } " / " code { (epic.id) } }
        h1 { (epic.title) }
        (live_part(&context, &id).await?)
    };
    let frame = PageFrame {
        title: &epic.title,
        section: "/epics",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the part that changes by itself. The form stays as it is while somebody writes in it.
pub async fn live_part(context: &PageContext, id: &str) -> Result<Markup, PageError> {
    let question = ShowEpic {
        epic: id.to_owned(),
    };
    let epic = question.answer(&context.app).await?;
    let (_, tickets) = epics::load_whole(&context.app, &epic.id).await?;
    let nodes: Vec<GraphNode> = tickets
        .iter()
        .map(|ticket| GraphNode {
            id: ticket.id.clone(),
            title: ticket.spec.title.clone(),
            stage: ticket.stage,
            needs: ticket.spec.depends_on.clone(),
        })
        .collect();
    Ok(html! {
        div #epic {
            p.meta.strip {
                (status(&epic.status))
                span { (epic.completion.landed) " of " (epic.completion.tickets) " landed" }
                span { (epic.completion.rounds) " rounds" }
                @if let Some(usd) = usd(epic.completion.spent.usd_micros) { span { (usd) } }
                span { (duration(epic.completion.took_ms)) }
            }
            (bar(&epic))
            (graph(&nodes))
            div.wide { table.rows { tbody { @for line in &epic.completion.lines {
                tr data-row {
                    td { (stage(line.stage)) }
                    td.grow { a.title href=(format!("/tickets/{}", line.id)) { (titled(&line.title)) } span.meta { code { (line.id) } } }
                    td.num { @if line.rounds > 0 { (counted(line.rounds, "round")) } }
                    td.num { @if line.findings > 0 { (counted(line.findings, "finding")) } }
                    td.num { @if let Some(usd) = usd(line.usd_micros) { (usd) } }
                }
            } } } }
            div #signature data-keep { (signature(context, &epic)) }
        }
    })
}

fn signature(context: &PageContext, epic: &EpicReport) -> Markup {
    html! {
        @if let Some(signed) = &epic.signed {
            p.notice.good { (icon("passed")) "Signed by " (signed.by) ", " (time(signed.at, context.now())) ": " (signed.why) }
        } @else if context.may_change() {
            details.panel {
                summary { "Sign this epic" }
                form method="post" action=(format!("/epics/{}/accept", encode(&epic.id))) {
                    (form_token(context))
                    label for="why" { "Reason, recorded with your name" }
                    textarea #why name="why" required rows="2" {}
                    button type="submit" { "Sign" }
                }
            }
        }
    }
}
