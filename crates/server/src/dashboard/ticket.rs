//! Page of one ticket: its state, the verdict gate by gate, the findings by round, the story, and
//! the decisions of a person as forms.

mod facts;
mod finding;

pub use facts::forecast;
pub use finding::finding;

use std::path::Path as FilePath;

use axum::extract::Path;
use flow::ticket::Round;
use flow::{Ticket, narrate};
use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon, page, topic};
use super::markdown::markdown;
use super::parts::{
    counted, encode, grouped, mood, outcome, sentence, short, stage, time, titled, usd,
};
use super::{PageContext, PageError, PageResult, Viewer, html as respond, new_work, shared};
use app::operations::Stored;
use app::operations::escalations::{self, PendingEscalation};
use app::operations::history::LogLine;
use app::operations::plans::{self, RunPlan};
use app::operations::project::ProjectOptions;
use app::operations::questions::Question;
use app::operations::questions::work::{LogLines, ReadLog};
use app::operations::{forecasts, ticket_search, tickets};

/// Lines of the story on the page; the log has all.
const STORY_MAX: u32 = 200;
/// Lines of it that are open; the others are folded.
const STORY_OPEN: usize = 12;
/// Characters of a line of it. A reason may be a long text.
const STORY_CHARS_MAX: usize = 2_000;
/// Tickets that are listed as waiting for this one.
/// Fifty are more than a person reads; the epic's page has all.
const DEPENDENTS_MAX: u32 = 50;

pub async fn show(context: Viewer, Path(id): Path<String>) -> PageResult {
    let stored = context.app.ticket(&id).await?;
    // The id as stored: the address may have a short form of it.
    let live = topic(&context, &format!("ticket:{}", stored.ticket.id)).await?;
    let ticket = &stored.ticket;
    let title = format!("{}: {}", ticket.id, ticket.spec.title);
    // An estimate reads many tickets, so it is not part of what is sent with every change.
    let forecast = if ticket.stage.is_terminal() {
        None
    } else {
        Some(forecasts::forecast_ticket(&context.app, &stored).await?)
    };
    let [head, decision, work, side] = live_parts(&context, &stored).await?;
    let body = html! {
        (head.1) (decision.1)
        div.columns {
            div { (work.1) @if context.may_change() { (forms(&context, ticket)) } }
            div {
                (side.1)
                @if let Some(forecast) = &forecast { (facts::forecast(forecast)) }
                @if let Some(plan) = plan_of(&context, ticket).await { (new_work::plan(&plan)) }
            }
        }
    };
    let frame = PageFrame {
        title: &title,
        section: "/tickets",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Returns the plan of a ticket that no round has decided yet. A repository that is not on this
/// machine has none.
async fn plan_of(context: &PageContext, ticket: &Ticket) -> Option<RunPlan> {
    let spec = &ticket.spec.context;
    let is_early = ticket.rounds.is_empty() && !ticket.stage.is_terminal();
    let repository = spec.repository.as_ref().filter(|_| is_early)?;
    let options = ProjectOptions {
        base: spec.base_branch.clone(),
        ..ProjectOptions::default()
    };
    let environment = &context.app.environment;
    let plan = plans::plan_run(environment, FilePath::new(repository), &options).await;
    plan.ok()
}

/// Renders the parts that change by themselves, with their element ids. A form in which somebody
/// writes stays as it is.
pub async fn live_parts(
    context: &PageContext,
    stored: &Stored,
) -> Result<[(&'static str, Markup); 4], PageError> {
    let ticket = &stored.ticket;
    let log = ReadLog {
        ticket: Some(ticket.id.to_string()),
        limit: Some(STORY_MAX),
        ..ReadLog::default()
    };
    let story = log.answer(&context.app).await?;
    // Read again with each change, because a dependent may have been added meanwhile.
    let dependents = tickets::dependents(&context.app, &ticket.id, DEPENDENTS_MAX).await?;
    let ahead = ticket_search::tickets_ahead(&context.app, ticket).await?;
    let head = html! { div #head { (header(context, ticket)) (why_waiting(ticket, ahead)) } };
    let work = html! {
        div #ticket {
            (verdict(ticket))
            (findings(context, ticket))
            (facts::proof(context, ticket))
            (description(ticket))
        }
    };
    let side = html! {
        div #side {
            (facts::facts(ticket))
            (facts::dependencies(ticket, &dependents))
            (story_list(context, &story))
        }
    };
    let decision = decision(context, stored).await?;
    Ok([
        ("head", head),
        ("decision", decision),
        ("ticket", work),
        ("side", side),
    ])
}

/// Renders the choices of a ticket that waits for a person, below the reason for it.
async fn decision(context: &PageContext, stored: &Stored) -> Result<Markup, PageError> {
    let escalation = if context.may_change() {
        Some(escalations::pending_escalation(&context.app, stored).await?)
    } else {
        None
    };
    let escalation = escalation.filter(|escalation| !escalation.choices.is_empty());
    Ok(html! {
        div #decision data-keep {
            @if let Some(escalation) = &escalation {
                section #decide.panel.urgent {
                    h2 { "Decide" }
                    (decision_form(context, escalation, stored.ticket.version))
                }
            }
        }
    })
}

fn header(context: &PageContext, ticket: &Ticket) -> Markup {
    let path = format!("/tickets/{}", ticket.id);
    // A reset by a person allows more rounds, so the number is that of the last round and not of
    // the policy.
    let allowed = ticket.rounds.last().map(|round| round.allowed);
    html! {
        p.crumbs {
            a href="/tickets" data-up { "Tickets" } " / "
            @if let Some(epic) = &ticket.spec.context.epic { a href=(format!("/epics/{}", encode(epic))) { (epic) } " / " }
            code { (ticket.id) }
        }
        div.heading {
            h1 { (titled(&ticket.spec.title)) }
            div.actions {
                @if ticket.submission.is_some() { a.button href=(format!("{path}/diff")) { (icon("diff")) "Diff" } }
                a.button href=(format!("{path}/runs")) { (icon("log")) "Runs" }
                @if ticket.needs_person() { a.button.primary href="#decide" data-decide { (icon("person")) "Decide" } }
            }
        }
        p.meta.strip {
            (stage(ticket.stage))
            span { "round " (ticket.round) @if let Some(allowed) = allowed { " of " (allowed) } }
            @if let Some(submission) = &ticket.submission { span { code title=(submission.commit) { (short(&submission.commit)) } } }
            @if let Some(usd) = usd(ticket.spent.ticket.usd_micros) { span { (usd) } }
            @if ticket.spent.ticket.tokens > 0 { span { (grouped(ticket.spent.ticket.tokens)) " tokens" } }
            span { "changed " (time(ticket.updated_at, context.now())) }
        }
    }
}

fn why_waiting(ticket: &Ticket, ahead: Option<usize>) -> Markup {
    html! {
        @match ahead {
            Some(0) => p.notice { (icon("wait")) "Waits for a builder. It is the next in line." },
            Some(count) => p.notice { (icon("wait")) "Waits for a builder. " (counted(count, "ticket")) " in line before it." },
            None => {},
        }
        @if let Some(escalation) = &ticket.escalation {
            div.notice.urgent {
                p { (icon("alert")) (sentence(&narrate::describe_reason(&escalation.reason))) }
                // Folded: it may be the output of a check.
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
        @if let Some(why) = &ticket.ended { p.notice.text { (findings::shorten(why, STORY_CHARS_MAX)) } }
    }
}

fn verdict(ticket: &Ticket) -> Markup {
    let Some(last) = ticket.rounds.last() else {
        return html! {
            section.panel {
                h2 { "Verdict" }
                p.quiet { "No round has a verdict yet. It appears here gate by gate when the reviewers have answered." }
            }
        };
    };
    html! {
        section.panel {
            h2 {
                "Verdict of round " (last.number) " "
                @if last.verdict.approved { span.tag.good { (icon("passed")) "approved" } }
                @else { span.tag.bad { (icon("failed")) "not approved" } }
            }
            (gates(last))
            @if let Some(text) = &last.verdict.disagreement { p.quiet { (text) } }
            @if ticket.rounds.len() > 1 {
                details {
                    summary { "Earlier rounds" }
                    // The newest has its place above.
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
        @if !round.panel.is_empty() || !round.checks.is_empty() {
            p.meta.strip {
                @for one in &round.panel {
                    @if let Some(answer) = &one.answer {
                        // An agent that does not tell its model is shown without one.
                        span { (icon("person")) (answer.reviewer) @if let Some(model) = &answer.model { " (" (model) ")" } ": " (answer.sandbox) }
                    }
                }
                @for check in &round.checks { (facts::check_mark(check)) }
            }
        }
        @for (reviewer, notes) in round.notes() {
            details { summary { "Notes of " (reviewer) } (markdown(notes)) }
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
            (finding::findings_by_round(ticket))
            @for entry in entries { (finding(context, ticket, entry)) }
        }
    }
}

/// Renders the version that the person sees, so that a decision on an old state is refused.
fn version_field(version: u64) -> Markup {
    html! { input type="hidden" name="version" value=(version); }
}

fn description(ticket: &Ticket) -> Markup {
    let spec = &ticket.spec;
    html! {
        section.panel {
            h2 { "Task" }
            @if spec.description.is_empty() { p.quiet { "The title says it all." } }
            (markdown(&spec.description))
            @if !spec.acceptance.is_empty() {
                h3 { "Acceptance criteria" }
                ul { @for criterion in &spec.acceptance { li { (titled(criterion)) } } }
            }
        }
    }
}

fn story_list(context: &PageContext, story: &LogLines) -> Markup {
    let mut told = story.items.iter().rev().filter(|line| is_told(line));
    let newest: Vec<&LogLine> = told.by_ref().take(STORY_OPEN).collect();
    let earlier: Vec<&LogLine> = told.collect();
    let entry = |line: &LogLine| {
        html! {
            li.(mood(line.mood)) {
                span.text { (findings::shorten(without_label(&line.text), STORY_CHARS_MAX)) }
                span.meta { (line.by) " · " (time(line.at, context.now())) }
            }
        }
    };
    html! {
        section.panel {
            h2 { "Story" }
            ol.story { @for line in newest { (entry(line)) } }
            @if !earlier.is_empty() {
                details.earlier {
                    summary { "Earlier " span.count { (earlier.len()) } }
                    ol.story { @for line in earlier { (entry(line)) } }
                }
            }
            @if let Some(ticket) = story.items.iter().find_map(|line| line.ticket.as_ref()) {
                p.meta { a href=(format!("/log?ticket={ticket}")) { "All events" } }
            }
        }
    }
}

/// Returns whether a line belongs to what a person wants to know of a ticket. Tokens of runs and
/// jobs of Countersign itself come and go with each round; the log has them.
fn is_told(line: &LogLine) -> bool {
    !line.event.starts_with("token_") && !line.event.starts_with("job_")
}

/// Leaves out the label in brackets that a sentence has for tools; the mark in front of the line
/// says the same.
pub fn without_label(text: &str) -> &str {
    let label = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    match label {
        Some((label, rest)) if label.chars().all(|c| c.is_ascii_uppercase() || c == '-') => rest,
        _ => text,
    }
}

/// Renders what a person can do with the ticket besides deciding.
fn forms(context: &PageContext, ticket: &Ticket) -> Markup {
    html! {
        (shared::share_form(context, ticket))
        @if !ticket.stage.is_terminal() {
            (budget_form(context, ticket))
            details.panel {
                summary { "Cancel this ticket" }
                form method="post" action=(format!("/tickets/{}/cancel", ticket.id)) {
                    (form_token(context)) (version_field(ticket.version))
                    label for="cancel-why" { "Reason, recorded with your name" }
                    textarea #cancel-why name="why" required rows="2" {}
                    button.danger type="submit" { "Cancel the ticket for good" }
                }
            }
        }
    }
}

fn budget_form(context: &PageContext, ticket: &Ticket) -> Markup {
    html! {
        details.panel {
            summary { "Change its budget" }
            form method="post" action=(format!("/tickets/{}/budget", ticket.id)) {
                (form_token(context)) (version_field(ticket.version))
                // Said here, because an empty field usually means "as it was".
                p.quiet { "The limits replace those of the chosen scope. An empty field means no limit." }
                div.row {
                    label { "Scope " select name="scope" { option value="ticket" { "whole ticket" } option value="round" { "each round" } option value="day" { "each day" } } }
                    label { "Dollars " input name="usd" inputmode="decimal" pattern="[0-9]*[.]?[0-9]*" size="8"; }
                    label { "Tokens " input name="tokens" inputmode="numeric" pattern="[0-9]*" size="10"; }
                    label { "Minutes " input name="minutes" inputmode="numeric" pattern="[0-9]*" size="6"; }
                }
                label for="budget-why" { "Reason, recorded with your name" }
                textarea #budget-why name="why" required rows="2" {}
                button type="submit" { "Change the budget" }
            }
        }
    }
}

/// Renders the choices of an escalation. The version that the person saw goes along: a page that was
/// open overnight must not decide about another commit or another reason.
pub fn decision_form(
    context: &PageContext,
    escalation: &PendingEscalation,
    version: u64,
) -> Markup {
    let id = &escalation.id;
    let why = format!("why-{id}");
    html! {
        form.decide method="post" action=(format!("/tickets/{id}/escalation")) {
            (form_token(context)) (version_field(version))
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
                    button type="submit" name="choice" value=(choice) title=(escalations::choice_meaning(choice))
                        // The script points to the empty field before the server refuses it.
                        // Without a script the server does.
                        data-needs=[escalations::needs_reason(choice).then_some(why.as_str())] {
                        (choice) span.hidden { ": " (escalations::choice_meaning(choice)) }
                    }
                }
            }
            ul.quiet { @for choice in &escalation.choices { li { strong { (choice) } ": " (escalations::choice_meaning(choice)) } } }
        }
    }
}
