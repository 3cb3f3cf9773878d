//! Rules that a person has accepted for a repository's builders, with who accepted them and when. Those
//! in `countersign.toml` are not touched from here.

use engine::git::Repository;
use flow::Time;
use flow::insight::ProposedRule;
use serde::Serialize;
use store::{Noted, ProjectRule, RuleUpdate};

use super::App;
use crate::failure::Failure;

/// More would drown the brief.
const RULES_MAX: u32 = 50;
/// Accepted and rejected ones of one repository that are read.
const ANSWERED_MAX: u32 = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AcceptedRule {
    pub id: i64,
    pub text: String,
    pub by: String,
    pub at: Time,
}

/// What becomes of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleDecision {
    Accepted,
    /// It is not proposed again.
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

/// The name that tickets have for a repository.
fn name_of(git: &Repository) -> String {
    git.common_dir().to_string_lossy().into_owned()
}

/// The rules in force for a repository, beside those of its configuration.
pub async fn accepted(office: &App, git: &Repository) -> Result<Vec<AcceptedRule>, Failure> {
    let rules = answered(office, &name_of(git)).await?.into_iter();
    Ok(rules.filter(|rule| rule.accepted).map(shown).collect())
}

async fn answered(office: &App, repository: &str) -> Result<Vec<ProjectRule>, Failure> {
    Ok(office.desk.store.rules(repository, ANSWERED_MAX).await?)
}

fn shown(rule: ProjectRule) -> AcceptedRule {
    AcceptedRule {
        id: rule.id,
        text: findings::one_line(&rule.text),
        by: rule.by,
        at: rule.at,
    }
}

/// Those of the proposals that nobody has answered for this repository.
pub async fn unanswered(
    office: &App,
    git: &Repository,
    proposed: Vec<ProposedRule>,
) -> Result<Vec<ProposedRule>, Failure> {
    let answered = answered(office, &name_of(git)).await?.into_iter();
    let answered: Vec<AcceptedRule> = answered.map(shown).collect();
    let is_new = |rule: &ProposedRule| answered.iter().all(|known| known.text != rule.text);
    Ok(proposed.into_iter().filter(is_new).collect())
}

/// Answers the proposal of this number, counted from 1, in the person's name.
pub async fn answer(
    office: &App,
    git: &Repository,
    proposed: Vec<ProposedRule>,
    number: usize,
    answer: RuleDecision,
) -> Result<ProposedRule, Failure> {
    let open = unanswered(office, git, proposed).await?;
    let wanted = number.checked_sub(1).and_then(|at| open.get(at)).cloned();
    let wanted = wanted.ok_or_else(|| {
        Failure::usage(format!("there is no proposal {number}"))
            .hint("`countersign insights` lists them with their numbers")
    })?;
    if answer == RuleDecision::Accepted && accepted(office, git).await?.len() >= RULES_MAX as usize
    {
        let many = format!("{RULES_MAX} rules are accepted here; more would drown the brief");
        return Err(Failure::usage(many).hint("withdraw one: countersign insights withdraw ID"));
    }
    let update = RuleUpdate::Answer {
        repository: name_of(git),
        accepted: answer == RuleDecision::Accepted,
        text: wanted.text.clone(),
        by: office.surroundings.person.clone(),
        at: (office.desk.clock)(),
    };
    office.desk.store.update_rule(update).await?;
    note(office, &format!("rule_{}", answer.word()), &wanted.text).await?;
    Ok(wanted)
}

/// Takes an accepted rule back, in the person's name.
pub async fn withdraw(office: &App, git: &Repository, id: i64) -> Result<AcceptedRule, Failure> {
    let known = accepted(office, git).await?;
    let rule = known.into_iter().find(|rule| rule.id == id);
    let rule = rule.ok_or_else(|| {
        Failure::usage(format!("no rule {id} is accepted here"))
            .hint("`countersign insights` lists them with their ids")
    })?;
    let at = (office.desk.clock)();
    let update = RuleUpdate::Withdraw { id, at };
    office.desk.store.update_rule(update).await?;
    note(office, "rule_withdrawn", &rule.text).await?;
    Ok(rule)
}

/// Who did what stands in the log as well.
async fn note(office: &App, name: &str, text: &str) -> Result<(), Failure> {
    let noted = Noted {
        at: (office.desk.clock)(),
        ticket: None,
        name: name.to_owned(),
        by: office.surroundings.person.clone(),
        body: serde_json::json!({"why": text}),
    };
    Ok(office.desk.store.note(noted).await?)
}
