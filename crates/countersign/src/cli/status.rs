//! `countersign status`

use flow::Stage;
use flow::narrate::Mood;
use flow::usage::dollars;
use ratatui::text::Line;

use super::Context;
use super::out::{Out, columns};
use super::paint::{of_stage, printed};
use app::failure::{ExitKind, Failure};
use app::operations::questions::decisions::ListEscalations;
use app::operations::questions::tickets::ListTickets;
use app::operations::questions::work::{ShowCosts, ShowStatus, StatusSummary};
use app::operations::{PauseScope, TicketRow};

/// How many of each are listed; `ticket list` has the rest.
const SHOWN_MAX: u32 = 10;

pub async fn perform(desktop: &Context) -> Result<ExitKind, Failure> {
    let StatusSummary {
        tally,
        pauses,
        silent,
    } = desktop.ask(ShowStatus {}).await?;
    let tally: Vec<(Stage, u64)> = tally.into_iter().collect();
    let first = ListEscalations {
        after: None,
        limit: Some(SHOWN_MAX),
    };
    let waiting = desktop.ask(first).await?;
    let at_work: Vec<Stage> = tally
        .iter()
        .map(|(stage, _)| *stage)
        .filter(|stage| stage.is_at_work())
        .collect();
    let working = if at_work.is_empty() {
        Vec::new()
    } else {
        let first = ListTickets {
            stage: ListTickets::of(&at_work),
            after: None,
            limit: Some(SHOWN_MAX),
        };
        desktop.ask(first).await?.items
    };
    let costs = desktop.ask(ShowCosts {}).await?;
    desktop.out.answer(&serde_json::json!({
        "tally": tally.iter().map(|(stage, count)| (stage.word(), count)).collect::<std::collections::BTreeMap<_, _>>(),
        "waiting": waiting.items,
        "working": working,
        "pauses": pauses,
        "silent": silent,
        "costs": costs,
    }));
    let out = &desktop.out;
    let total: u64 = tally.iter().map(|(_, count)| count).sum();
    if total == 0 {
        let first =
            "no tickets yet; try `countersign demo`, or `countersign run \"what shall be done\"`";
        out.line(first);
    } else {
        out.line(counted(total, &tally, out));
        out.line(costs.text());
    }
    if !waiting.items.is_empty() {
        out.line(format!(
            "\n{}",
            out.paint(Mood::Urgent, "waiting for a person")
        ));
    }
    for one in waiting.items {
        let title = findings::one_line(&one.title);
        out.line(format!("  {}  {title}", out.bold(one.id.as_str())));
        out.line(format!("    {}", findings::one_line(&one.reason)));
        out.line(format!("    countersign escalation show {}", one.id));
    }
    if !working.is_empty() {
        out.line(format!("\n{}", out.bold("at work")));
    }
    let rows: Vec<Vec<String>> = working.iter().map(at_a_glance).collect();
    for line in columns(&rows) {
        out.line(line);
    }
    if !silent.is_empty() {
        out.line(format!("\n{}", out.paint(Mood::Urgent, "silent agents")));
    }
    for one in silent {
        let why = findings::one_line(&one.why);
        out.line(format!("  {why} (since {})", one.since.iso()));
    }
    if !pauses.is_empty() {
        out.line("\npaused");
    }
    for pause in pauses {
        let until = pause
            .until
            .map_or_else(String::new, |until| format!(" until {}", until.iso()));
        let (kind, name) = scope(&pause.scope);
        out.line(format!("  {kind} {name}{until}  {}", pause.why));
    }
    Ok(ExitKind::Done)
}

/// `3 tickets: 1 building, 2 done`, each stage in its colour.
fn counted(total: u64, tally: &[(Stage, u64)], out: &Out) -> String {
    let stages = tally.iter().map(|(stage, count)| {
        let text = format!("{count} {stage}");
        printed(&Line::styled(text, of_stage(*stage)), out.terminal.colours)
    });
    let plural = if total == 1 { "" } else { "s" };
    format!(
        "{} {}",
        out.bold(&format!("{total} ticket{plural}:")),
        stages.collect::<Vec<_>>().join(", ")
    )
}

fn at_a_glance(row: &TicketRow) -> Vec<String> {
    vec![
        format!("  {}", row.id),
        row.stage.to_string(),
        format!("round {}", row.round),
        dollars(row.usd_micros),
        findings::one_line(&row.title),
    ]
}

fn scope(scope: &PauseScope) -> (&'static str, &str) {
    match scope {
        PauseScope::Agent(name) => ("agent", name),
        PauseScope::Queue(name) => ("queue", name),
        PauseScope::Provider(name) => ("provider", name),
    }
}
