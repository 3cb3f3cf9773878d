//! Costs and quality, as plots that are drawn here as SVG.

use std::collections::BTreeMap;

use flow::insight::FindingOutcomes;
use maud::{Markup, html};

use super::layout::{PageFrame, page};
use super::parts::{duration, empty, usd};
use super::{PageResult, Viewer, html as respond};
use app::operations::questions::Question;
use app::operations::questions::work::ShowInsights;

/// Bars in one plot; the largest come first.
const BARS_MAX: usize = 12;
const BAR_HEIGHT: u32 = 22;
/// Width of the area of the bars, and of the labels before it.
const PLOT_WIDTH: u64 = 380;
const LABEL_WIDTH: u64 = 170;

pub async fn show(context: Viewer) -> PageResult {
    let insights = ShowInsights::default().answer(&context.app).await?;
    let costs = &insights.costs;
    let facts = [
        ("Tickets", Some(insights.tickets.to_string())),
        ("Accepted", Some(insights.accepted.to_string())),
        ("Went to a person", Some(insights.escalated.to_string())),
        ("Spent", usd(costs.spent.usd_micros)),
        ("Per ticket", usd(costs.usd_micros_per_ticket)),
        ("Per round", usd(costs.usd_micros_per_round)),
        (
            "Per accepted change",
            costs.usd_micros_per_accepted.and_then(usd),
        ),
        (
            "Tokens",
            (costs.spent.tokens > 0).then(|| costs.spent.tokens.to_string()),
        ),
        (
            "Time of agents",
            (costs.spent.wall_ms > 0).then(|| duration(costs.spent.wall_ms)),
        ),
    ];
    let rounds: Vec<(String, u64)> = insights
        .rounds_to_approval
        .iter()
        .map(|(rounds, count)| (format!("{rounds} rounds"), u64::from(*count)))
        .collect();
    let paths: Vec<(String, u64)> = insights
        .paths
        .iter()
        .map(|(path, count)| (path.clone(), u64::from(*count)))
        .collect();
    let body = html! {
        h1 { "Costs and quality" }
        @if insights.tickets == 0 {
            (empty("Nothing to count yet.", &html! { p.quiet { "Figures appear after the first round." } }))
        }
        // Unknown figures are left out: a zero would be a claim.
        div.tiles { @for (name, value) in &facts {
            @if let Some(value) = value { div.tile { span.meta { (name) } strong { (value) } } }
        } }
        @if let Some(count) = costs.newest_only { p.quiet { "Only the newest " (count) " tickets are counted." } }
        (bars("Rounds to approval", &rounds))
        (outcomes("Findings by reviewer: the share that led to a fix is its precision", &insights.reviewers))
        (outcomes("Findings by category", &insights.categories))
        (outcomes("Findings by builder", &insights.builders))
        (bars("Files with the most findings", &paths))
    };
    let frame = PageFrame {
        title: "Costs",
        section: "/costs",
        topic: None,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Draws horizontal bars with their labels and values.
fn bars(title: &str, values: &[(String, u64)]) -> Markup {
    if values.is_empty() {
        return html! {};
    }
    let most = values
        .iter()
        .map(|(_, value)| *value)
        .max()
        .unwrap_or(1)
        .max(1);
    let shown: Vec<_> = values.iter().take(BARS_MAX).collect();
    let height = u32::try_from(shown.len()).unwrap_or(0) * BAR_HEIGHT;
    html! {
        figure.panel {
            figcaption { h2 { (title) } }
            svg.plot viewBox=(format!("0 0 600 {height}")) role="img" aria-label=(title) {
                @for (index, (label, value)) in shown.iter().enumerate() {
                    @let y = index * BAR_HEIGHT as usize;
                    text x=(LABEL_WIDTH - 8) y=(y + 15) text-anchor="end" { (findings::shorten(label, 26)) }
                    rect x=(LABEL_WIDTH) y=(y + 4) height="14" rx="2" width=(value * PLOT_WIDTH / most) {}
                    text x=(LABEL_WIDTH + value * PLOT_WIDTH / most + 6) y=(y + 15) { (value) }
                }
            }
        }
    }
}

/// Draws what became of findings, with the same figures in a table.
fn outcomes(title: &str, groups: &BTreeMap<String, FindingOutcomes>) -> Markup {
    if groups.is_empty() {
        return html! {};
    }
    html! {
        section.panel {
            h2 { (title) }
            table.rows {
                thead { tr { th { "Name" } th.num { "Found" } th.num { "Fixed" } th.num { "Refuted" } th.num { "Waived" } th.num { "Open" } th { "Led to a fix" } } }
                tbody { @for (name, one) in groups.iter().take(BARS_MAX) {
                    @let share = (one.fixed * 100).checked_div(one.found).unwrap_or_default();
                    tr {
                        td.grow { (name) }
                        td.num { (one.found) } td.num { (one.fixed) } td.num { (one.refuted) } td.num { (one.waived) } td.num { (one.open) }
                        td {
                            svg.share viewBox="0 0 100 10" role="img" aria-label=(format!("{share} percent")) {
                                rect.rest width="100" height="10" rx="2" {}
                                rect width=(share) height="10" rx="2" {}
                            }
                            " " (share) " %"
                        }
                    }
                } }
            }
        }
    }
}
