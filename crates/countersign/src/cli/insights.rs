//! `countersign insights`

use std::collections::BTreeMap;

use engine::git::Repository;
use flow::insight::{FindingOutcomes, Insights};

use super::Context;
use super::out::columns;
use app::failure::{ExitKind, Failure};
use app::operations::house_rules::{self, AcceptedRule, RuleDecision};
use app::operations::insights::gather;
use app::operations::project::open;
use app::operations::questions::work::ShowInsights;

#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum Verb {
    /// Accept a proposed rule: every later build brief in this repository carries it.
    Accept {
        /// Its number in `countersign insights`.
        number: usize,
    },
    /// Turn a proposed rule down; it is not proposed again.
    Reject {
        /// Its number in `countersign insights`.
        number: usize,
    },
    /// Take an accepted rule back.
    Withdraw {
        /// Its id in `countersign insights`.
        id: i64,
    },
}

pub async fn perform(verb: Option<Verb>, desktop: &Context) -> Result<ExitKind, Failure> {
    let git = open(&desktop.surroundings, &desktop.directory).await;
    let Some(verb) = verb else {
        return show(git.ok().as_ref(), desktop).await;
    };
    let (git, office) = (git?, desktop.office().await?);
    let proposed = gather(&office).await?.rules;
    let (word, text) = match verb {
        Verb::Accept { number } => {
            let rule = house_rules::answer(&office, &git, proposed, number, RuleDecision::Accepted);
            ("accepted", rule.await?.text)
        }
        Verb::Reject { number } => {
            let rule = house_rules::answer(&office, &git, proposed, number, RuleDecision::Rejected);
            ("rejected", rule.await?.text)
        }
        Verb::Withdraw { id } => (
            "withdrawn",
            house_rules::withdraw(&office, &git, id).await?.text,
        ),
    };
    let by = &office.surroundings.person;
    desktop.out.line(format!("{word} by {by}: {text}"));
    desktop
        .out
        .answer(&serde_json::json!({"answer": word, "rule": text, "by": by}));
    Ok(ExitKind::Done)
}

/// Outside of a repository, and from afar, nothing is accepted, and all proposals are shown.
async fn show(git: Option<&Repository>, desktop: &Context) -> Result<ExitKind, Failure> {
    let mut all = desktop.ask(ShowInsights {}).await?;
    let mut accepted = Vec::new();
    let from_afar = desktop.surroundings.server.place.is_some();
    if let Some(git) = git.filter(|_| !from_afar) {
        let office = desktop.office().await?;
        accepted = house_rules::accepted(&office, git).await?;
        all.rules = house_rules::unanswered(&office, git, all.rules).await?;
    }
    let mut answer = serde_json::to_value(&all).unwrap_or_default();
    answer["accepted_rules"] = serde_json::json!(accepted);
    desktop.out.answer(&answer);
    for line in describe(&all, &accepted) {
        desktop.out.line(line);
    }
    Ok(ExitKind::Done)
}

fn describe(all: &Insights, accepted: &[AcceptedRule]) -> Vec<String> {
    let mut lines = vec![format!(
        "{} tickets, {} landed, {} wait for a person; {}",
        all.tickets,
        all.accepted,
        all.escalated,
        all.costs.text(),
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
        lines.push("\nrules to consider: countersign insights accept N, or reject N".to_owned());
    }
    for (at, rule) in all.rules.iter().enumerate() {
        lines.push(format!("  {}. {}", at + 1, rule.text));
        lines.push(format!("     {}", rule.because));
    }
    if !accepted.is_empty() {
        let head = "\nrules in every build brief here: countersign insights withdraw ID";
        lines.push(head.to_owned());
    }
    for rule in accepted {
        let (id, by, at) = (rule.id, &rule.by, rule.at.iso());
        lines.push(format!("  {id}  {} ({by}, {at})", rule.text));
    }
    lines
}

fn table(title: &str, fates: &BTreeMap<String, FindingOutcomes>) -> Vec<String> {
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
