//! Rules that a person has accepted for a repository's builders. Each is a standing message to
//! them, with who sent it and when; withdrawn is processed. Those in `countersign.toml` are not
//! touched from here.

use engine::git::Repository;
use flow::Time;
use flow::insight::Rule;
use serde::Serialize;
use store::{Message, NewMessage, Noted};

use super::Office;
use crate::failure::Failure;

/// More would drown the brief.
const RULES_MAX: u32 = 50;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HouseRule {
    pub id: i64,
    pub text: String,
    pub by: String,
    pub at: Time,
}

/// What becomes of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    /// It is not proposed again.
    Rejected,
}

impl Answer {
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }

    fn address(self, git: &Repository) -> String {
        self.address_of(&git.common_dir().to_string_lossy())
    }

    /// For the repository that tickets name so.
    fn address_of(self, repository: &str) -> String {
        format!("{}{repository}", self.prefix())
    }

    fn prefix(self) -> String {
        format!("house-rules-{}:", self.word())
    }
}

/// The rules in force for a repository, beside those of its configuration.
pub async fn accepted(office: &Office, git: &Repository) -> Result<Vec<HouseRule>, Failure> {
    sent(office, git, Answer::Accepted).await
}

async fn sent(
    office: &Office,
    git: &Repository,
    answer: Answer,
) -> Result<Vec<HouseRule>, Failure> {
    sent_to(office, answer.address(git)).await
}

async fn sent_to(office: &Office, to: String) -> Result<Vec<HouseRule>, Failure> {
    let messages = office.desk.store.messages(&to, RULES_MAX).await?;
    Ok(messages.into_iter().map(rule).collect())
}

fn rule(message: Message) -> HouseRule {
    HouseRule {
        id: message.id,
        text: findings::one_line(&message.message.content),
        by: message.message.from,
        at: message.message.at,
    }
}

/// Those of the proposals that nobody has answered for this repository.
pub async fn unanswered(
    office: &Office,
    git: &Repository,
    proposed: Vec<Rule>,
) -> Result<Vec<Rule>, Failure> {
    let mut answered = accepted(office, git).await?;
    answered.extend(sent(office, git, Answer::Rejected).await?);
    let is_new = |rule: &Rule| answered.iter().all(|known| known.text != rule.text);
    Ok(proposed.into_iter().filter(is_new).collect())
}

/// Answers the proposal of this number, counted from 1, in the person's name.
pub async fn answer(
    office: &Office,
    git: &Repository,
    proposed: Vec<Rule>,
    number: usize,
    answer: Answer,
) -> Result<Rule, Failure> {
    let open = unanswered(office, git, proposed).await?;
    let wanted = number.checked_sub(1).and_then(|at| open.get(at)).cloned();
    let wanted = wanted.ok_or_else(|| {
        Failure::usage(format!("there is no proposal {number}"))
            .hint("`countersign insights` lists them with their numbers")
    })?;
    if answer == Answer::Accepted && accepted(office, git).await?.len() >= RULES_MAX as usize {
        let many = format!("{RULES_MAX} rules are accepted here; more would drown the brief");
        return Err(Failure::usage(many).hint("withdraw one: countersign insights withdraw ID"));
    }
    let message = NewMessage {
        at: (office.desk.clock)(),
        from: office.surroundings.person.clone(),
        to: answer.address(git),
        kind: format!("rule_{}", answer.word()),
        ticket: None,
        content: wanted.text.clone(),
    };
    office.desk.store.send(message).await?;
    note(office, &format!("rule_{}", answer.word()), &wanted.text).await?;
    Ok(wanted)
}

/// Takes an accepted rule back, in the person's name.
pub async fn withdraw(office: &Office, git: &Repository, id: i64) -> Result<HouseRule, Failure> {
    let known = accepted(office, git).await?;
    let rule = known.into_iter().find(|rule| rule.id == id);
    let rule = rule.ok_or_else(|| {
        Failure::usage(format!("no rule {id} is accepted here"))
            .hint("`countersign insights` lists them with their ids")
    })?;
    let at = (office.desk.clock)();
    office.desk.store.mark_processed(id, at).await?;
    note(office, "rule_withdrawn", &rule.text).await?;
    Ok(rule)
}

/// Who did what stands in the log as well.
async fn note(office: &Office, name: &str, text: &str) -> Result<(), Failure> {
    let noted = Noted {
        at: (office.desk.clock)(),
        ticket: None,
        name: name.to_owned(),
        by: office.surroundings.person.clone(),
        body: serde_json::json!({"why": text}),
    };
    Ok(office.desk.store.note(noted).await?)
}
