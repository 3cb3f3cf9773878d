//! Facts of a ticket: where it is, what it depends on, what it cost, and the proof of its approval.

use flow::Ticket;
use flow::forecast::{CapUnit, Forecast, ForecastBasis, RemainingCap};
use flow::ticket::{Approval, ApprovedBy, CheckResult};
use maud::{Markup, html};

use super::super::PageContext;
use super::super::layout::icon;
use super::super::markdown::outside_link;
use super::super::parts::{counted, duration, encode, grouped, outcome, short, stage, time, usd};
use app::operations::TicketRow;

pub fn facts(ticket: &Ticket) -> Markup {
    let context = &ticket.spec.context;
    let usage = &ticket.spent.ticket;
    html! {
        section.panel {
            h2 { "Facts" }
            dl.facts {
                @if let Some(submission) = &ticket.submission {
                    dt { "Commit" } dd { code title=(submission.commit) { (short(&submission.commit)) } " on " code { (submission.branch) } }
                }
                @if let Some(landed) = &ticket.landed {
                    dt { "Landed" } dd { code title=(landed.commit) { (short(&landed.commit)) } " on " code { (landed.branch) } }
                }
                @if let Some(change) = &ticket.change {
                    dt { "Pull request" } dd {
                        (outside_link(&change.url, &change.number.to_string())) " " (change.phase.as_str())
                        @if !change.waits_for.is_empty() { ", waits for " (change.waits_for) }
                    }
                }
                @if let Some(path) = &context.repository { dt { "Repository" } dd { code { (path.trim_end_matches("/.git")) } } }
                @if let Some(branch) = &context.base_branch { dt { "Base" } dd { code { (branch) } } }
                @if let Some(epic) = &context.epic { dt { "Epic" } dd { a href=(format!("/epics/{}", encode(epic))) { (epic) } } }
                @if let Some(key) = &context.jira_key { dt { "Jira" } dd { (key) } }
                @if !ticket.builders.is_empty() { dt { "Builder" } dd { (ticket.builders.iter().cloned().collect::<Vec<_>>().join(", ")) } }
                dt { "Priority" } dd { (ticket.spec.priority) }
                // Agents without a known price have worked too, so the sum is a lower bound.
                @if let Some(usd) = usd(usage.usd_micros) { dt { "Cost" } dd { (usd) @if !ticket.unpriced.is_empty() { " or more" } } }
                @if usage.tokens > 0 { dt { "Tokens" } dd { (grouped(usage.tokens)) } }
                @if usage.wall_ms > 0 { dt { "Time" } dd { (duration(usage.wall_ms)) " of agents" } }
            }
        }
    }
}

/// Renders what the ticket waits for, and what waits for it.
pub fn dependencies(ticket: &Ticket, dependents: &[TicketRow]) -> Markup {
    let needs = &ticket.spec.depends_on;
    if needs.is_empty() && dependents.is_empty() {
        return html! {};
    }
    html! {
        section.panel {
            h2 { "Dependencies" }
            @if !needs.is_empty() {
                h3 { "Needs" }
                ul.plain { @for need in needs {
                    li {
                        @if ticket.broken.contains_key(need) { (outcome(false)) }
                        @else if ticket.waits_for.contains(need) { (icon("wait")) }
                        @else { (outcome(true)) }
                        " " a href=(format!("/tickets/{need}")) { (need) }
                        @if let Some(why) = ticket.broken.get(need) { span.meta { " " (why) } }
                    }
                } }
            }
            @if !dependents.is_empty() {
                h3 { "Needed by" }
                ul.plain { @for row in dependents {
                    li { (stage(row.stage)) " " a href=(format!("/tickets/{}", row.id)) { (row.title) } }
                } }
            }
        }
    }
}

/// Renders what exactly was approved, by whom, and under which rules.
pub fn proof(context: &PageContext, ticket: &Ticket) -> Markup {
    let Some(approval) = &ticket.approval else {
        return html! {};
    };
    let levels = sandbox_levels(ticket, approval);
    html! {
        section.panel.proof {
            h2 { (icon("passed")) "Proof of the approval" }
            p { (approved_by(&approval.by)) " countersigned round " (approval.round) ", " (time(approval.at, context.now())) "." }
            dl.facts {
                dt { "Commit" } dd { code { (approval.commit) } }
                dt { "Tree" } dd { code { (approval.tree) } }
                dt { "Base tree" } dd { code { (approval.base_tree) } }
                dt { "Change" } dd { code { (approval.diff_id) } }
                dt { "Policy" } dd { code { (approval.policy) } }
                @if !levels.is_empty() { dt { "Sandbox" } dd { (levels.join(", ")) } }
                dt { "Checks" } dd {
                    @if approval.checks.is_empty() { "none" }
                    @for check in &approval.checks { (check_mark(check)) " " }
                }
            }
        }
    }
}

/// Lists the sandbox levels of the reviews in the approved round.
fn sandbox_levels(ticket: &Ticket, approval: &Approval) -> Vec<String> {
    let rounds = ticket
        .rounds
        .iter()
        .filter(|round| round.number == approval.round);
    let answers = rounds
        .flat_map(|round| &round.panel)
        .filter_map(|one| one.answer.as_ref());
    let mut levels: Vec<String> = answers
        .map(|answer| answer.sandbox.clone())
        .filter(|level| !level.is_empty())
        .collect();
    // Reviewers of one round may run on machines with different sandboxes.
    levels.sort();
    levels.dedup();
    levels
}

pub fn check_mark(check: &CheckResult) -> Markup {
    html! { span.check { (outcome(check.outcome.is_green())) " " (check.name) } }
}

fn approved_by(by: &ApprovedBy) -> String {
    match by {
        ApprovedBy::Reviewers { names, .. } => names.join(", "),
        ApprovedBy::Person { name, .. } => name.clone(),
        ApprovedBy::Earlier { round } => format!("The approval of round {round}"),
        ApprovedBy::NobodyAsPolicySays => "Without a review, as the policy says,".to_owned(),
    }
}

/// Renders what the next round will cost, as far as it is known, and the rest of each cap.
pub fn forecast(forecast: &Forecast) -> Markup {
    html! {
        section.panel {
            h2 { "Forecast of round " (forecast.round) }
            @if let Some(usage) = &forecast.usage {
                p {
                    @if let Some(usd) = usd(usage.usd_micros) { strong { "about " (usd) } ", " }
                    @if usage.tokens > 0 { (grouped(usage.tokens)) " tokens, " }
                    (duration(usage.wall_ms)) span.meta { " · " (basis(&forecast.basis)) }
                }
            } @else { p.quiet { (basis(&forecast.basis)) } }
            @if !forecast.left.is_empty() {
                ul.caps { @for cap in &forecast.left { (cap_bar(cap)) } }
            }
        }
    }
}

fn basis(basis: &ForecastBasis) -> String {
    match basis {
        ForecastBasis::OwnRounds { rounds } => {
            let rounds = usize::try_from(*rounds).unwrap_or(usize::MAX);
            format!("from its own {}", counted(rounds, "round"))
        }
        ForecastBasis::History { runs } => {
            let runs = usize::try_from(*runs).unwrap_or(usize::MAX);
            format!("from {} of its agents", counted(runs, "earlier run"))
        }
        // No sentence with an empty list of names.
        ForecastBasis::Unknown { agents } if agents.is_empty() => {
            "No estimate: no agent has worked in this repository yet.".to_owned()
        }
        ForecastBasis::Unknown { agents } => {
            format!(
                "No estimate: {} has no earlier run here.",
                agents.join(", ")
            )
        }
    }
}

fn cap_bar(cap: &RemainingCap) -> Markup {
    let show = |amount: u64| match cap.what {
        CapUnit::Rounds => amount.to_string(),
        CapUnit::UsdMicros => usd(amount).unwrap_or_else(|| "$0".to_owned()),
        CapUnit::Tokens => grouped(amount),
        CapUnit::Seconds => duration(amount.saturating_mul(1000)),
    };
    let unit = match cap.what {
        CapUnit::Rounds if cap.of == 1 => " round",
        CapUnit::Rounds => " rounds",
        CapUnit::Tokens => " tokens",
        CapUnit::UsdMicros | CapUnit::Seconds => "",
    };
    let used = cap.of.saturating_sub(cap.left);
    html! {
        li {
            span { (show(cap.left)) " of " (show(cap.of)) (unit) " left " span.meta { "per " (cap.scope) } }
            // A cap of zero is allowed, and `max` must be above zero.
            progress max=(cap.of.max(1)) value=(used) aria-label=(format!("used of the cap per {}", cap.scope)) {}
        }
    }
}
