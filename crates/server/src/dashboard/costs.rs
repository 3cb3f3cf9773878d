//! Costs and quality, as plots. Unknown figures are left out: a zero would be a claim.

use std::collections::BTreeMap;

use flow::Usage;
use flow::insight::{DayFigures, FindingOutcomes, ProposedRule};
use maud::{Markup, html};

use super::layout::{PageFrame, page};
use super::parts::{duration, empty, grouped, severity_word, titled, usd};
use super::svg::{PlotBar, bars, days};
use super::{PageResult, Viewer, html as respond};
use app::operations::insights::{InsightPlots, TicketCost, load_plots};

/// Days in the plots.
const DAYS: u32 = 30;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// Rows of a table.
const ROWS_MAX: usize = 12;

pub async fn show(context: Viewer) -> PageResult {
    let InsightPlots {
        insights,
        days: figures,
        severities,
        agents,
        models,
        tickets,
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
            (empty("cost", "Nothing to count yet.", &html! { p.quiet { "Figures appear after the first round." } }))
        }
        div.tiles { @for (name, value) in &facts {
            @if let Some(value) = value { div.tile { span.meta { (name) } strong { (value) } } }
        } }
        @if let Some(count) = costs.newest_only { p.quiet { "Only the newest " (grouped(count)) " tickets are counted." } }
        div.plots {
            (day_plots(&figures))
            (bars("Rounds to approval", &rounds))
            (bars("Files with the most findings", &paths))
        }
        div.plots {
            (usage_table("Cost by agent", &agents))
            (usage_table("Cost by model", &models))
            (ticket_table(&tickets))
        }
        (severity_table(&severities))
        (outcomes("Precision of reviewers", "The share of a reviewer's findings that led to a verified fix.", &insights.reviewers))
        (outcomes("Findings by category", "", &insights.categories))
        (outcomes("Findings by builder", "", &insights.builders))
        (rules(&insights.rules))
    };
    let frame = PageFrame {
        title: "Costs",
        section: "/costs",
        // Not live: the page counts over all tickets, which is too much for each event.
        topic: None,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Draws the figures of each day.
fn day_plots(figures: &[DayFigures]) -> Markup {
    let day = |value: u64, shown: Option<String>, at: flow::Time| PlotBar {
        label: day_label(at),
        value,
        shown: shown.unwrap_or_else(|| "nothing".to_owned()),
    };
    let per_day: Vec<PlotBar> = figures
        .iter()
        .map(|one| day(one.usd_micros, usd(one.usd_micros), one.day))
        .collect();
    let tokens_per_day: Vec<PlotBar> = figures
        .iter()
        .map(|one| {
            let words = format!("{} tokens", grouped(one.tokens));
            day(one.tokens, Some(words), one.day)
        })
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
    html! {
        (days("Cost per day", &per_day))
        (days("Tokens per day", &tokens_per_day))
        (days("Cost per landed change, by day", &per_landed))
        (days("Landed changes per day", &landed))
    }
}

/// Renders rules that a project could give its builders.
fn rules(rules: &[ProposedRule]) -> Markup {
    html! {
        @if !rules.is_empty() {
            section.panel {
                h2 { "Rules that would help" }
                p.quiet { "Defects that reviewers found again and again. A line in the brief of your builders may prevent them." }
                ul { @for rule in rules { li { (rule.text) " " span.meta { (rule.because) } } } }
            }
        }
    }
}

/// Formats a day for people, such as `19 Nov`: the days of a plot are consecutive.
fn day_label(at: flow::Time) -> String {
    let iso = at.to_iso();
    let number = |part: Option<&str>| part.and_then(|text| text.parse::<usize>().ok());
    let (month, day) = (number(iso.get(5..7)), number(iso.get(8..10)));
    let month = month.and_then(|month| MONTHS.get(month.checked_sub(1)?));
    match (day, month) {
        (Some(day), Some(month)) => format!("{day} {month}"),
        _ => iso,
    }
}

/// Renders what each agent or model used in the days of the plots.
fn usage_table(title: &str, rows: &[(String, Usage)]) -> Markup {
    if rows.is_empty() {
        return html! {};
    }
    html! {
        section.panel {
            h2 { (title) span.meta { " in " (DAYS) " days" } }
            div.wide tabindex="0" { table.rows {
                thead { tr { th { "Name" } (usage_head()) } }
                tbody { @for (name, usage) in rows.iter().take(ROWS_MAX) { tr { td.grow { (name) } (usage_cells(*usage)) } } }
            } }
        }
    }
}

fn ticket_table(tickets: &[TicketCost]) -> Markup {
    if tickets.is_empty() {
        return html! {};
    }
    html! {
        section.panel {
            h2 { "Most expensive tickets" }
            div.wide tabindex="0" { table.rows {
                thead { tr { th { "Ticket" } (usage_head()) } }
                tbody { @for one in tickets {
                    tr data-row { td.grow { a.title href=(format!("/tickets/{}", one.id)) { (titled(&one.title)) } } (usage_cells(one.usage)) }
                } }
            } }
            p.meta { a href="/tickets?sort=-cost" { "All tickets by cost" } }
        }
    }
}

fn usage_head() -> Markup {
    html! { th.num { "Cost" } th.num { "Tokens" } th.num { "Time" } }
}

/// Renders usage. What is unknown stays empty.
fn usage_cells(used: Usage) -> Markup {
    html! {
        td.num { @if let Some(usd) = usd(used.usd_micros) { (usd) } }
        td.num { @if used.tokens > 0 { (grouped(used.tokens)) } }
        td.num { @if used.wall_ms > 0 { (duration(used.wall_ms)) } }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_named_for_people() {
        assert_eq!(day_label(flow::Time(0)), "1 Jan");
        assert_eq!(day_label(flow::Time(1_795_046_400_000)), "19 Nov");
    }
}
