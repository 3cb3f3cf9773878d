//! `countersign insights`

use std::collections::BTreeMap;

use flow::insight::{Fates, Insights};
use flow::usage::dollars;

use super::Desktop;
use super::out::columns;
use crate::failure::{Exit, Failure};
use crate::operations::insights::gather;

pub async fn perform(desktop: &Desktop) -> Result<Exit, Failure> {
    let office = desktop.office().await?;
    let all = gather(&office).await?;
    desktop.out.answer(&all);
    for line in describe(&all) {
        desktop.out.line(line);
    }
    Ok(Exit::Done)
}

fn describe(all: &Insights) -> Vec<String> {
    let mut lines = vec![format!(
        "{} tickets, {} landed, {} wait for a person; {} spent, {} for each that landed",
        all.tickets,
        all.accepted,
        all.escalated,
        dollars(all.spent.usd_micros),
        dollars(all.usd_micros_per_accepted),
    )];
    let rounds = all.rounds_to_approval.iter();
    let rounds: Vec<String> = rounds
        .map(|(round, n)| format!("{n} in round {round}"))
        .collect();
    if !rounds.is_empty() {
        lines.push(format!("approved: {}", rounds.join(", ")));
    }
    for (title, fates) in [
        ("category", &all.categories),
        ("reviewer", &all.reviewers),
        ("builder", &all.builders),
    ] {
        lines.extend(table(title, fates));
    }
    if !all.paths.is_empty() {
        lines.push("\nwhere most is found".to_owned());
        let rows = all
            .paths
            .iter()
            .map(|(path, n)| vec![format!("  {n}"), path.clone()]);
        lines.extend(columns(&rows.collect::<Vec<_>>()));
    }
    if !all.rules.is_empty() {
        lines.push("\nrules to consider; accepted is what you put into `rules` in countersign.toml on the base".to_owned());
    }
    for rule in &all.rules {
        lines.push(format!("  {:?},  # {}", rule.text, rule.because));
    }
    lines
}

fn table(title: &str, fates: &BTreeMap<String, Fates>) -> Vec<String> {
    if fates.is_empty() {
        return Vec::new();
    }
    let percent = |share: Option<u32>| share.map(|n| format!("{n} %")).unwrap_or_default();
    let head = [
        title,
        "found",
        "fixed",
        "refuted",
        "waived",
        "open",
        "precision",
        "refutation",
    ];
    let mut rows = vec![head.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()];
    for (name, one) in fates {
        let mut row = vec![name.clone()];
        row.extend(
            [one.found, one.fixed, one.refuted, one.waived, one.open].map(|n| n.to_string()),
        );
        row.push(percent(one.precision()));
        row.push(percent(one.refutation()));
        rows.push(row);
    }
    std::iter::once(String::new())
        .chain(columns(&rows))
        .collect()
}
