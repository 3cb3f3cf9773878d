//! Rules that a person has accepted for a repository's builders, with name and time. It does not
//! change the rules in `countersign.toml`.
//!
//! Proposals are made again from the findings at every look. Only decisions are stored, so a
//! rejected one does not come back.

use engine::git::Repository;
use flow::Time;
use flow::insight::ProposedRule;
use serde::Serialize;
use store::{Noted, ProjectRule, RuleUpdate};

use super::App;
use crate::failure::Failure;

/// Maximum number of accepted rules; more would make the brief too long.
const RULES_MAX: u32 = 50;
/// Maximum number of accepted and rejected rules of a repository that are read.
/// Rejected rules count as well, because they keep proposals away.
const ANSWERED_MAX: u32 = 1000;

/// A rule that a person has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AcceptedRule {
    pub id: i64,
    pub text: String,
    pub by: String,
    pub at: Time,
}

/// Decision on a proposed rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleDecision {
    Accepted,
    /// The rule is not proposed again.
    Rejected,
}

impl RuleDecision {
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }
}

/// Returns the name of a repository in tickets.
fn name_of(git: &Repository) -> String {
    git.common_dir().to_string_lossy().into_owned()
}

/// Lists the accepted rules of a repository; those of its configuration are not included.
pub async fn accepted(app: &App, git: &Repository) -> Result<Vec<AcceptedRule>, Failure> {
    let rules = decided_rules(app, &name_of(git)).await?.into_iter();
    Ok(rules
        .filter(|rule| rule.accepted)
        .map(accepted_rule)
        .collect())
}

async fn decided_rules(app: &App, repository: &str) -> Result<Vec<ProjectRule>, Failure> {
    Ok(app
        .coordinator
        .store
        .rules(repository, ANSWERED_MAX)
        .await?)
}

fn accepted_rule(rule: ProjectRule) -> AcceptedRule {
    AcceptedRule {
        id: rule.id,
        // A rule enters briefs as one sentence.
        text: findings::one_line(&rule.text),
        by: rule.by,
        at: rule.at,
    }
}

/// Filters the proposals that nobody has decided for this repository.
pub async fn undecided(
    app: &App,
    git: &Repository,
    proposed: Vec<ProposedRule>,
) -> Result<Vec<ProposedRule>, Failure> {
    // Compared by text: a proposal has no id of its own.
    let answered = decided_rules(app, &name_of(git)).await?.into_iter();
    let answered: Vec<AcceptedRule> = answered.map(accepted_rule).collect();
    let is_new = |rule: &ProposedRule| answered.iter().all(|decided| decided.text != rule.text);
    Ok(proposed.into_iter().filter(is_new).collect())
}

/// Decides on the proposal of this number, counted from 1, in the person's name.
pub async fn decide(
    app: &App,
    git: &Repository,
    proposed: Vec<ProposedRule>,
    number: usize,
    decision: RuleDecision,
) -> Result<ProposedRule, Failure> {
    let open = undecided(app, git, proposed).await?;
    let rule = number.checked_sub(1).and_then(|at| open.get(at)).cloned();
    let rule = rule.ok_or_else(|| {
        Failure::usage(format!("there is no proposal {number}"))
            .hint("`countersign insights` lists them with their numbers")
    })?;
    if decision == RuleDecision::Accepted && accepted(app, git).await?.len() >= RULES_MAX as usize {
        let message =
            format!("{RULES_MAX} rules are accepted here; more would make the brief too long");
        return Err(Failure::usage(message).hint("withdraw one: countersign insights withdraw ID"));
    }
    let update = RuleUpdate::Answer {
        repository: name_of(git),
        accepted: decision == RuleDecision::Accepted,
        text: rule.text.clone(),
        by: app.environment.person.clone(),
        at: (app.coordinator.clock)(),
    };
    app.coordinator.store.update_rule(update).await?;
    note(app, &format!("rule_{}", decision.word()), &rule.text).await?;
    Ok(rule)
}

/// Withdraws an accepted rule in the person's name.
pub async fn withdraw(app: &App, git: &Repository, id: i64) -> Result<AcceptedRule, Failure> {
    let rules = accepted(app, git).await?;
    let rule = rules.into_iter().find(|rule| rule.id == id);
    let rule = rule.ok_or_else(|| {
        Failure::usage(format!("no rule {id} is accepted here"))
            .hint("`countersign insights` lists them with their ids")
    })?;
    let at = (app.coordinator.clock)();
    let update = RuleUpdate::Withdraw { id, at };
    app.coordinator.store.update_rule(update).await?;
    note(app, "rule_withdrawn", &rule.text).await?;
    Ok(rule)
}

/// Notes the decision in the log.
async fn note(app: &App, name: &str, text: &str) -> Result<(), Failure> {
    let noted = Noted {
        at: (app.coordinator.clock)(),
        ticket: None,
        name: name.to_owned(),
        by: app.environment.person.clone(),
        body: serde_json::json!({"why": text}),
    };
    Ok(app.coordinator.store.note(noted).await?)
}
