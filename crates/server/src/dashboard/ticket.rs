//! Page of one ticket: its state, the verdict gate by gate, the findings by round, the story, and
//! the decisions of a person as forms.

use axum::extract::Path;
use flow::ledger::LedgerEntry;
use flow::ticket::{ApprovedBy, Round};
use flow::{Ticket, narrate};
use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{duration, mood, outcome, severity, stage, time, usd};
use super::{PageContext, PageError, PageResult, Viewer, html as respond, shared};
use app::operations::Stored;
use app::operations::escalations::{self, PendingEscalation};
use app::operations::questions::Question;
use app::operations::questions::work::{LogLines, ReadLog};

/// Lines of the story on the page; the log has all.
const STORY_MAX: u32 = 200;

pub async fn show(context: Viewer, Path(id): Path<String>) -> PageResult {
    let stored = context.app.ticket(&id).await?;
    let live = topic(&context, &format!("ticket:{}", stored.ticket.id)).await?;
    let ticket = &stored.ticket;
    let title = format!("{}: {}", ticket.id, ticket.spec.title);
    let body = html! {
        (live_part(&context, &stored).await?)
        @if context.may_change() { (forms(&context, &stored).await?) }
    };
    let frame = PageFrame {
        title: &title,
        section: "/tickets",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the part that changes by itself. Forms are outside of it, so that an update does not
/// touch a text that a person is writing.
pub async fn live_part(context: &PageContext, stored: &Stored) -> Result<Markup, PageError> {
    let ticket = &stored.ticket;
    let log = ReadLog {
        ticket: Some(ticket.id.to_string()),
        limit: Some(STORY_MAX),
        ..ReadLog::default()
    };
    let story = log.answer(&context.app).await?;
    Ok(html! {
        div #ticket {
            (header(context, ticket))
            (why_waiting(ticket))
            div.columns {
                div {
                    (verdict(ticket))
                    (findings(context, ticket))
                    (description(ticket))
                }
                div {
                    (facts(context, ticket))
                    (story_list(context, &story))
                }
            }
        }
    })
}

fn header(context: &PageContext, ticket: &Ticket) -> Markup {
    let path = format!("/tickets/{}", ticket.id);
    html! {
        h1 { (ticket.spec.title) }
        p.meta {
            (stage(ticket.stage)) " " code { (ticket.id) }
            " · round " (ticket.round)
            @if let Some(usd) = usd(ticket.spent.ticket.usd_micros) { " · " (usd) }
            " · changed " (time(ticket.updated_at, context.now()))
        }
        p.actions {
            @if ticket.submission.is_some() { a.button href=(format!("{path}/diff")) { "Diff" } }
            a.button href=(format!("{path}/runs")) { "Runs" }
            @if ticket.needs_person() { a.button.primary href="#decide" data-decide { "Decide" } }
        }
    }
}

fn why_waiting(ticket: &Ticket) -> Markup {
    html! {
        @if let Some(escalation) = &ticket.escalation {
            div.notice.urgent {
                p { (icon("alert")) (narrate::describe_reason(&escalation.reason)) }
                @let evidence = narrate::describe_evidence(ticket);
                @if !evidence.is_empty() { details { summary { "Evidence" } pre { (evidence) } } }
            }
        }
        @for need in &ticket.waits_for {
            p.notice { (icon("wait")) "Waits for " a href=(format!("/tickets/{need}")) { (need) } }
        }
        @for (need, why) in &ticket.broken {
            p.notice.bad { (icon("failed")) a href=(format!("/tickets/{need}")) { (need) } ": " (why) }
        }
        @if let Some(why) = &ticket.ended { p.notice { (why) } }
    }
}

fn verdict(ticket: &Ticket) -> Markup {
    let Some(last) = ticket.rounds.last() else {
        return html! {
            section.panel {
                h2 { "Verdict" }
                p.quiet { "No round has a verdict yet." }
            }
        };
    };
    html! {
        section.panel {
            h2 { "Verdict of round " (last.number) " " (outcome(last.verdict.approved)) }
            (gates(last))
            @if let Some(text) = &last.verdict.disagreement { p.quiet { (text) } }
            @if ticket.rounds.len() > 1 {
                details {
                    summary { "Earlier rounds" }
                    @for round in ticket.rounds.iter().rev().skip(1) {
                        h3 { "Round " (round.number) " " (outcome(round.verdict.approved)) }
                        (gates(round))
                    }
                }
            }
        }
    }
}

fn gates(round: &Round) -> Markup {
    html! {
        ul.gates {
            @for gate in &round.verdict.gates {
                li { (outcome(gate.passed)) span { strong { (gate.name) } " " (gate.why) } }
            }
        }
        @for check in &round.checks {
            @if !check.tail.is_empty() {
                details { summary { "Output of " (check.name) } pre { (check.tail) } }
            }
        }
    }
}

fn findings(context: &PageContext, ticket: &Ticket) -> Markup {
    let entries = &ticket.ledger.entries;
    html! {
        section.panel {
            h2 { "Findings " span.count { (entries.len()) } }
            @if entries.is_empty() { p.quiet { "No reviewer has reported a finding." } }
            @for entry in entries { (finding(context, ticket, entry)) }
        }
    }
}

/// Renders a finding with its way through the rounds.
pub fn finding(context: &PageContext, ticket: &Ticket, entry: &LedgerEntry) -> Markup {
    let one = &entry.finding;
    let sections = [
        ("Problem", &one.problem),
        ("Impact", &one.impact),
        ("Fix", &one.fix),
    ];
    html! {
        details.finding id=(entry.id) open[entry.status.is_open()] data-finding {
            summary {
                (severity(entry.severity())) " " strong { (entry.id) } " " (one.title)
                span.meta { " " (entry.status.as_str()) }
            }
            p.meta {
                code { (entry.location()) } " · by "
                @for (index, name) in entry.reported_by.iter().enumerate() {
                    @if index > 0 { ", " } (name)
                }
                " · "
                @for change in &entry.history { "round " (change.round) ": " (change.status.as_str()) "  " }
                @if entry.history.is_empty() { "round " (entry.first_round) }
            }
            @for (heading, text) in sections {
                @if let Some(text) = text { p.text { strong { (heading) ": " } (text) } }
            }
            @if let Some(note) = &entry.note { p.text { strong { (note.by) ": " } (note.text) } }
            @if context.may_change() && entry.status.is_open() {
                (waive_form(context, ticket, entry))
            }
        }
    }
}

fn waive_form(context: &PageContext, ticket: &Ticket, entry: &LedgerEntry) -> Markup {
    let action = format!("/tickets/{}/findings/{}/waive", ticket.id, entry.id);
    let field = format!("waive-{}", entry.id);
    html! {
        details.inline {
            summary { "Waive" }
            form method="post" action=(action) {
                (form_token(context)) (version_field(ticket))
                label for=(field) { "Reason, recorded with your name" }
                textarea id=(field) name="why" required rows="2" {}
                button type="submit" { "Waive " (entry.id) }
            }
        }
    }
}

/// Renders the version that the person sees, so that a decision on an old state is refused.
fn version_field(ticket: &Ticket) -> Markup {
    html! { input type="hidden" name="version" value=(ticket.version); }
}

fn description(ticket: &Ticket) -> Markup {
    let spec = &ticket.spec;
    html! {
        section.panel {
            h2 { "Task" }
            @if spec.description.is_empty() { p.quiet { "The title says it all." } }
            p.text { (spec.description) }
            @if !spec.acceptance.is_empty() {
                h3 { "Acceptance criteria" }
                ul { @for criterion in &spec.acceptance { li { (criterion) } } }
            }
        }
    }
}

fn facts(context: &PageContext, ticket: &Ticket) -> Markup {
    html! {
        section.panel {
            h2 { "Facts" }
            dl.facts {
                @if let Some(submission) = &ticket.submission {
                    dt { "Commit" } dd { code title=(submission.commit) { (short(&submission.commit)) } " on " code { (submission.branch) } }
                }
                @if let Some(landed) = &ticket.landed {
                    dt { "Landed" } dd { code { (short(&landed.commit)) } " on " (landed.branch) }
                }
                @if let Some(approval) = &ticket.approval {
                    dt { "Approved" } dd { (approved_by(&approval.by)) ", round " (approval.round) ", " (time(approval.at, context.now())) }
                    dt { "Tree" } dd { code title=(approval.tree) { (short(&approval.tree)) } }
                    dt { "Policy" } dd { code { (short(&approval.policy)) } }
                }
                @if let Some(path) = &ticket.spec.context.repository { dt { "Repository" } dd { code { (path) } } }
                dt { "Tokens" } dd { (ticket.spent.ticket.tokens) }
                @if ticket.spent.ticket.wall_ms > 0 { dt { "Time" } dd { (duration(ticket.spent.ticket.wall_ms)) } }
                @for need in &ticket.spec.depends_on {
                    dt { "Depends on" } dd { a href=(format!("/tickets/{need}")) { (need) } }
                }
            }
        }
    }
}

fn approved_by(by: &ApprovedBy) -> String {
    match by {
        ApprovedBy::Reviewers { names, .. } => names.join(", "),
        ApprovedBy::Person { name, .. } => name.clone(),
        ApprovedBy::Earlier { round } => format!("the approval of round {round}"),
        ApprovedBy::NobodyAsPolicySays => "nobody, as the policy says".to_owned(),
    }
}

fn short(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

fn story_list(context: &PageContext, story: &LogLines) -> Markup {
    html! {
        section.panel {
            h2 { "Story" }
            ol.story {
                @for line in story.items.iter().rev() {
                    li.(mood(line.mood)) {
                        span.text { (line.text) }
                        span.meta { (line.by) " · " (time(line.at, context.now())) }
                    }
                }
            }
        }
    }
}

/// Renders what a person can do with the ticket.
async fn forms(context: &PageContext, stored: &Stored) -> Result<Markup, PageError> {
    let ticket = &stored.ticket;
    let escalation = escalations::pending_escalation(&context.app, stored).await?;
    Ok(html! {
        @if !escalation.choices.is_empty() {
            section #decide.panel.urgent {
                h2 { "Decide" }
                (decision_form(context, &escalation, Some(ticket)))
            }
        }
        (shared::share_form(context, ticket))
        @if !ticket.stage.is_terminal() {
            details.panel {
                summary { "Cancel this ticket" }
                form method="post" action=(format!("/tickets/{}/cancel", ticket.id)) {
                    (form_token(context)) (version_field(ticket))
                    label for="cancel-why" { "Reason, recorded with your name" }
                    textarea #cancel-why name="why" required rows="2" {}
                    button.danger type="submit" { "Cancel the ticket for good" }
                }
            }
        }
    })
}

/// Renders the choices of an escalation. The ticket's version goes along if the whole ticket is
/// shown.
pub fn decision_form(
    context: &PageContext,
    escalation: &PendingEscalation,
    ticket: Option<&Ticket>,
) -> Markup {
    let id = &escalation.id;
    let why = format!("why-{id}");
    html! {
        form.decide method="post" action=(format!("/tickets/{id}/escalation")) {
            (form_token(context))
            @if let Some(ticket) = ticket { (version_field(ticket)) }
            label for=(why) { "Reason, recorded with your name" }
            textarea id=(why) name="why" rows="2" {}
            @if escalation.accept_needs_flag {
                label { input type="checkbox" name="over_red_checks" value="true"; " Accept although checks are not green" }
            }
            @if escalation.choices.contains(&"reassign") {
                div.row {
                    label { "Builder " input name="builder" placeholder="for reassign"; }
                    label { "Reviewer " input name="reviewer" placeholder="for reassign"; }
                }
            }
            div.choices {
                @for choice in &escalation.choices {
                    button type="submit" name="choice" value=(choice) title=(meaning(choice))
                        data-needs=[escalations::needs_reason(choice).then_some(why.as_str())] {
                        (choice) span.hidden { ": " (meaning(choice)) }
                    }
                }
            }
            ul.quiet { @for choice in &escalation.choices { li { strong { (choice) } ": " (meaning(choice)) } } }
        }
    }
}

/// Explains a choice in the words of `countersign escalation`.
fn meaning(choice: &str) -> &'static str {
    match choice {
        "accept" => "accept the change as it is",
        "continue" => "allow further rounds",
        "take-over" => "you finish the work yourself",
        "reset" => "start again from the base",
        "reassign" => "give it to another builder or reviewer",
        "reject" => "end the ticket without the change",
        _ => "",
    }
}
