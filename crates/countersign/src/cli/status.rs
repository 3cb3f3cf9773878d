//! `countersign status`

use flow::Stage;

use super::Desktop;
use crate::failure::{Exit, Failure};
use crate::operations::{Page, Scope, escalations, insights, tickets};

/// How many of each are listed; `ticket list` has the rest.
const SHOWN_MAX: u32 = 10;

pub async fn perform(desktop: &Desktop) -> Result<Exit, Failure> {
    let office = desktop.office().await?;
    let tally = tickets::tally(&office).await?;
    let page = Page {
        after: None,
        most: SHOWN_MAX,
    };
    let waiting = escalations::list(&office, &page).await?;
    let at_work: Vec<Stage> = tally
        .iter()
        .map(|(stage, _)| *stage)
        .filter(|stage| stage.is_at_work())
        .collect();
    let working = if at_work.is_empty() {
        Vec::new()
    } else {
        tickets::list(&office, at_work, &page).await?.items
    };
    let pauses = tickets::pauses(&office).await?;
    let costs = insights::costs(&office).await?;
    desktop.out.answer(&serde_json::json!({
        "tally": tally.iter().map(|(stage, count)| (stage.word(), count)).collect::<std::collections::BTreeMap<_, _>>(),
        "waiting": waiting.items,
        "working": working,
        "pauses": pauses,
        "costs": costs,
    }));
    let out = &desktop.out;
    let total: u64 = tally.iter().map(|(_, count)| count).sum();
    let counts: Vec<String> = tally
        .iter()
        .map(|(stage, count)| format!("{count} {stage}"))
        .collect();
    out.line(if total == 0 {
        "no tickets yet; try `countersign demo`, or `countersign run \"what shall be done\"`"
            .to_owned()
    } else {
        format!(
            "{total} ticket{}: {}",
            if total == 1 { "" } else { "s" },
            counts.join(", ")
        )
    });
    if total > 0 {
        out.line(costs.text());
    }
    if !working.is_empty() {
        out.line("\nat work");
    }
    for row in working {
        out.line(format!(
            "  {}  {}, round {}  {}",
            row.id, row.stage, row.round, row.title
        ));
    }
    if !waiting.items.is_empty() {
        out.line("\nwaiting for a person");
    }
    for one in waiting.items {
        out.line(format!("  {}  {}  {}", one.id, one.title, one.reason));
        out.line(format!("    countersign escalation show {}", one.id));
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
    Ok(Exit::Done)
}

fn scope(scope: &Scope) -> (&'static str, &str) {
    match scope {
        Scope::Agent(name) => ("agent", name),
        Scope::Queue(name) => ("queue", name),
        Scope::Provider(name) => ("provider", name),
    }
}
