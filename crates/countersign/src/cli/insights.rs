//! `countersign insights`: shows statistics of findings, and decides on proposed rules.

use std::collections::BTreeMap;

use engine::git::Repository;
use flow::insight::{FindingOutcomes, Insights};
use flow::narrate::count_noun;

use super::Context;
use super::out::columns;
use app::failure::{ExitKind, Failure};
use app::operations::insights::load_insights;
use app::operations::project::open_repository;
use app::operations::project_rules::{self, AcceptedRule, RuleDecision};
use app::operations::questions::work::ShowInsights;

#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum Verb {
    /// Accept a proposed rule. It becomes part of every later build brief in this repository.
    Accept {
        /// Number of the rule in `countersign insights`.
        number: usize,
    },
    /// Reject a proposed rule. It is not proposed again.
    Reject {
        /// Number of the rule in `countersign insights`.
        number: usize,
    },
    /// Withdraw an accepted rule.
    Withdraw {
        /// Id of the rule in `countersign insights`.
        id: i64,
    },
}

pub async fn perform(verb: Option<Verb>, context: &Context) -> Result<ExitKind, Failure> {
    let git = open_repository(&context.environment, &context.directory).await;
    let Some(verb) = verb else {
        return show(git.ok().as_ref(), context).await;
    };
    let (git, app) = (git?, context.open_app().await?);
    let proposed = load_insights(&app).await?.rules;
    let (word, text) = match verb {
        Verb::Accept { number } => {
            let rule = project_rules::decide(&app, &git, proposed, number, RuleDecision::Accepted);
            ("accepted", rule.await?.text)
        }
        Verb::Reject { number } => {
            let rule = project_rules::decide(&app, &git, proposed, number, RuleDecision::Rejected);
            ("rejected", rule.await?.text)
        }
        Verb::Withdraw { id } => (
            "withdrawn",
            project_rules::withdraw(&app, &git, id).await?.text,
        ),
    };
    let by = &app.environment.person;
    context.out.line(format!("{word} by {by}: {text}"));
    context
        .out
        .print_json(&serde_json::json!({"answer": word, "rule": text, "by": by}));
    Ok(ExitKind::Done)
}

/// Prints the insights. Outside a repository, or from a server, no rule counts as accepted and all
/// proposals are shown.
async fn show(git: Option<&Repository>, context: &Context) -> Result<ExitKind, Failure> {
    let mut all = context.ask(ShowInsights {}).await?;
    let mut accepted = Vec::new();
    let is_remote = context.environment.server.address.is_some();
    if let Some(git) = git.filter(|_| !is_remote) {
        let app = context.open_app().await?;
        accepted = project_rules::accepted(&app, git).await?;
        all.rules = project_rules::undecided(&app, git, all.rules).await?;
    }
    let mut answer = serde_json::to_value(&all).unwrap_or_default();
    answer["accepted_rules"] = serde_json::json!(accepted);
    context.out.print_json(&answer);
    for line in describe(&all, &accepted) {
        context.out.line(line);
    }
    Ok(ExitKind::Done)
}

fn describe(all: &Insights, accepted: &[AcceptedRule]) -> Vec<String> {
    let mut lines = vec![format!(
        "{}, {} landed, {} waiting for a person; {}",
        count_noun(usize::try_from(all.tickets).unwrap_or(usize::MAX), "ticket"),
        all.accepted,
        all.escalated,
        all.costs.describe(),
    )];
    let rounds = all.rounds_to_approval.iter();
    let rounds: Vec<String> = rounds
        .map(|(round, n)| format!("{n} in round {round}"))
        .collect();
    if !rounds.is_empty() {
        lines.push(format!("approved: {}", rounds.join(", ")));
    }
    for (title, outcomes) in [
        ("category", &all.categories),
        ("reviewer", &all.reviewers),
        ("builder", &all.builders),
    ] {
        lines.extend(table(title, outcomes));
    }
    if !all.paths.is_empty() {
        lines.push("\nfiles with most findings".to_owned());
        let rows = all
            .paths
            .iter()
            .map(|(path, n)| vec![format!("  {n}"), path.clone()]);
        lines.extend(columns(&rows.collect::<Vec<_>>()));
    }
    if !all.rules.is_empty() {
        lines.push("\nproposed rules: countersign insights accept N, or reject N".to_owned());
    }
    for (at, rule) in all.rules.iter().enumerate() {
        lines.push(format!("  {}. {}", at + 1, rule.text));
        lines.push(format!("     {}", rule.because));
    }
    if !accepted.is_empty() {
        let head = "\naccepted rules (part of every build brief): countersign insights withdraw ID";
        lines.push(head.to_owned());
    }
    for rule in accepted {
        let (id, by, at) = (rule.id, &rule.by, rule.at.to_iso());
        lines.push(format!("  {id}  {} ({by}, {at})", rule.text));
    }
    lines
}

fn table(title: &str, outcomes: &BTreeMap<String, FindingOutcomes>) -> Vec<String> {
    if outcomes.is_empty() {
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
    for (name, counts) in outcomes {
        let mut row = vec![name.clone()];
        row.extend(
            [
                counts.found,
                counts.fixed,
                counts.refuted,
                counts.waived,
                counts.open,
            ]
            .map(|n| n.to_string()),
        );
        row.push(percent(counts.precision()));
        row.push(percent(counts.refutation()));
        rows.push(row);
    }
    std::iter::once(String::new())
        .chain(columns(&rows))
        .collect()
}
