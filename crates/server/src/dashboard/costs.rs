//! Costs and quality, as plots. Unknown figures are left out: a zero would be a claim.

use std::collections::BTreeMap;

use flow::insight::FindingOutcomes;
use maud::{Markup, html};

use super::layout::{PageFrame, page};
use super::parts::{duration, empty, grouped, severity_word, usd};
use super::svg::{PlotBar, bars, days};
use super::{PageResult, Viewer, html as respond};
use app::operations::insights::{InsightPlots, load_plots};

/// Days in the plots.
const DAYS: u32 = 30;
/// Rows of a table.
const ROWS_MAX: usize = 12;

pub async fn show(context: Viewer) -> PageResult {
    let InsightPlots {
        insights,
        days: figures,
        severities,
    } = load_plots(&context.app, DAYS).await?;
    let costs = &insights.costs;
    let spent = &costs.spent;
    // `None` hides the tile.
    let accepted = (insights.accepted > 0).then(|| insights.accepted.to_string());
    let facts = [
        (
            "Tickets",
            (insights.tickets > 0).then(|| insights.tickets.to_string()),
        ),
        ("Landed", accepted),
        (
            "Wait for a person",
            (insights.escalated > 0).then(|| insights.escalated.to_string()),
        ),
        ("Spent", usd(spent.usd_micros)),
        ("Per ticket", usd(costs.usd_micros_per_ticket)),
        ("Per round", usd(costs.usd_micros_per_round)),
        (
            "Per landed change",
            costs.usd_micros_per_accepted.and_then(usd),
        ),
        ("Tokens", (spent.tokens > 0).then(|| grouped(spent.tokens))),
        (
            "Time of agents",
            (spent.wall_ms > 0).then(|| duration(spent.wall_ms)),
        ),
    ];
    let day = |value: u64, shown: Option<String>, at: flow::Time| PlotBar {
        // Month and day are enough for a label: the days are consecutive.
        label: at.to_iso().get(5..10).unwrap_or_default().to_owned(),
        value,
        shown: shown.unwrap_or_else(|| "nothing".to_owned()),
    };
    let per_day: Vec<PlotBar> = figures
        .iter()
        .map(|one| day(one.usd_micros, usd(one.usd_micros), one.day))
        .collect();
    let per_landed: Vec<PlotBar> = figures
        .iter()
        .map(|one| {
            // A day without a landed change has no price. Its bar is empty, and `usd` gives no
            // words for it.
            let each = one.usd_micros_per_landed().unwrap_or(0);
            day(each, usd(each), one.day)
        })
        .collect();
    let landed: Vec<PlotBar> = figures
        .iter()
        .map(|one| {
            let count = u64::from(one.landed);
            day(count, Some(format!("{count} landed")), one.day)
        })
        .collect();
    let rounds: Vec<PlotBar> = insights
        .rounds_to_approval
        .iter()
        .map(|(rounds, count)| {
            let word = if *rounds == 1 { "round" } else { "rounds" };
            plain_bar(format!("{rounds} {word}"), *count)
        })
        .collect();
    let paths: Vec<PlotBar> = insights
        .paths
        .iter()
        .map(|(path, count)| plain_bar(path.clone(), *count))
        .collect();
    let body = html! {
        h1 { "Costs and quality" }
        @if insights.tickets == 0 {
            (empty("Nothing to count yet.", &html! { p.quiet { "Figures appear after the first round." } }))
        }
        div.tiles { @for (name, value) in &facts {
            @if let Some(value) = value { div.tile { span.meta { (name) } strong { (value) } } }
        } }
        @if let Some(count) = costs.newest_only { p.quiet { "Only the newest " (grouped(count)) " tickets are counted." } }
        div.plots {
            (days("Cost per day", &per_day))
            (days("Cost per landed change, by day", &per_landed))
            (days("Landed changes per day", &landed))
            (bars("Rounds to approval", &rounds))
            (bars("Files with the most findings", &paths))
        }
        (severity_table(&severities))
        (outcomes("Precision of reviewers", "The share of a reviewer's findings that led to a verified fix.", &insights.reviewers))
        (outcomes("Findings by category", "", &insights.categories))
        (outcomes("Findings by builder", "", &insights.builders))
    };
    let frame = PageFrame {
        title: "Costs",
        section: "/costs",
        // Not live: the page counts over all tickets, which is too much for each event.
        topic: None,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

fn plain_bar(label: String, count: u32) -> PlotBar {
    PlotBar {
        label,
        value: u64::from(count),
        shown: count.to_string(),
    }
}

fn head(first: &str) -> Markup {
    html! {
        thead { tr { th { (first) } th.num { "Found" } th.num { "Fixed" } th.num { "Refuted" } th.num { "Waived" } th.num { "Open" } th { "What became of them" } } }
    }
}

fn cells(one: &FindingOutcomes) -> Markup {
    let count = |number: u32| html! { td.num { @if number > 0 { (number) } } };
    html! {
        (count(one.found)) (count(one.fixed)) (count(one.refuted)) (count(one.waived)) (count(one.open))
        td.share-cell { (share(one)) " " (one.precision().unwrap_or_default()) " % fixed" }
    }
}

/// Draws the outcomes as parts of one bar; the words are in the table.
fn share(one: &FindingOutcomes) -> Markup {
    // Nothing found must not divide by zero.
    let whole = one.found.max(1);
    let parts = [
        ("fixed", one.fixed),
        ("refuted", one.refuted),
        ("waived", one.waived),
        ("open", one.open),
    ];
    let mut x = 0;
    html! {
        svg.share viewBox="0 0 100 10" role="img" aria-label=(format!("{} of {} led to a fix", one.fixed, one.found)) {
            rect.rest width="100" height="10" rx="2" {}
            @for (class, count) in parts {
                // Rounded down, so that the parts never reach beyond the bar.
                @let width = count * 100 / whole;
                @if width > 0 { rect.(class) x=(x) width=(width) height="10" {} }
                @let () = x += width;
            }
        }
    }
}

fn severity_table(severities: &[(String, FindingOutcomes)]) -> Markup {
    if severities.is_empty() {
        return html! {};
    }
    html! {
        section.panel {
            h2 { "Findings by severity" }
            div.wide tabindex="0" { table.rows {
                (head("Severity"))
                tbody { @for (word, one) in severities { tr { td.grow { (severity_word(word)) } (cells(one)) } } }
            } }
        }
    }
}

/// Draws what became of findings, with the same figures in a table.
fn outcomes(title: &str, meaning: &str, groups: &BTreeMap<String, FindingOutcomes>) -> Markup {
    if groups.is_empty() {
        return html! {};
    }
    let mut groups: Vec<_> = groups.iter().collect();
    groups.sort_by_key(|(_, one)| std::cmp::Reverse(one.found));
    html! {
        section.panel {
            h2 { (title) }
            @if !meaning.is_empty() { p.quiet { (meaning) } }
            div.wide tabindex="0" { table.rows {
                (head("Name"))
                tbody { @for (name, one) in groups.iter().take(ROWS_MAX) { tr { td.grow { (name) } (cells(one)) } } }
            } }
        }
    }
}
