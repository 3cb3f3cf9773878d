//! Messages between agents (003). Two kinds are a judge's verdict, and one is a builder's
//! submission: they act when the agent says that it is complete, once.

use engine::coordinator::Once;
use engine::session::{self, SessionClaim};
use flow::standing::Deed;
use flow::{Task, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Message, NewMessage};

use super::Office;
use super::assignments::claims::{self, Named};
use super::assignments::verdict::{self, Outcome, Word};
use super::assignments::{self, Submitted};
use super::identity::Speaker;
use crate::failure::{Exit, Failure};

/// No answer carries more.
const INBOX_MAX: u32 = 50;
const CONTENT_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Question,
    Answer,
    Info,
    Request,
    ChangesRequested,
    Approved,
    NeedsReview,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Answer => "answer",
            Self::Info => "info",
            Self::Request => "request",
            Self::ChangesRequested => "changes_requested",
            Self::Approved => "approved",
            Self::NeedsReview => "needs_review",
        }
    }

    fn is_verdict(self) -> bool {
        matches!(self, Self::ChangesRequested | Self::Approved)
    }
}

/// A message as an agent reads it.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Letter {
    pub from: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
    pub at: String,
    pub ticket: Option<String>,
}

/// Sends a message; a builder's `needs_review` is its submission, and no letter. A verdict waits in
/// the claim's own box until the judge is complete. Says what came of it.
pub async fn send(
    office: &Office,
    speaker: &Speaker,
    to: &str,
    (kind, content): (Kind, &str),
    named: &Named,
    once: Option<Once>,
) -> Result<Option<Completed>, Failure> {
    let submits = kind == Kind::NeedsReview && speaker.actor.role == flow::Role::Builder;
    if submits || kind.is_verdict() {
        let may = speaker.standing.may(Deed::Report);
        may.map_err(|barred| Failure::new(Exit::Refused, barred))?;
    }
    if submits {
        return complete(office, speaker, named, content, once)
            .await
            .map(Some);
    }
    deliver(office, speaker, to, (kind, content), named).await?;
    Ok(None)
}

async fn deliver(
    office: &Office,
    speaker: &Speaker,
    to: &str,
    (kind, content): (Kind, &str),
    named: &Named,
) -> Result<i64, Failure> {
    if content.len() > CONTENT_MAX {
        return Err(Failure::new(
            Exit::Refused,
            format!("a message has at most {CONTENT_MAX} bytes"),
        ));
    }
    let held = session::held(&office.desk, &speaker.agent_session()).await?;
    if kind.is_verdict() || named.attempt.is_some() {
        let claim = held.as_ref().map(SessionClaim::claim);
        claims::admit(office, speaker, named, claim.as_ref()).await?;
    }
    if kind.is_verdict() {
        let errand = held.as_ref().filter(|held| judges(held)).ok_or_else(|| {
            Failure::new(
                Exit::Refused,
                "only who has a review in hand can give a verdict",
            )
            .hint("get_my_assignment gives you one")
        })?;
        claims::say(office, speaker, named).await?;
        put(
            office,
            speaker,
            &verdict_box(errand),
            kind,
            content,
            held.as_ref(),
        )
        .await?;
    }
    put(office, speaker, to, kind, content, held.as_ref()).await
}

async fn put(
    office: &Office,
    speaker: &Speaker,
    to: &str,
    kind: Kind,
    content: &str,
    held: Option<&SessionClaim>,
) -> Result<i64, Failure> {
    let message = NewMessage {
        at: (office.desk.clock)(),
        from: findings::clean_name(&speaker.actor.agent),
        to: findings::one_line(to),
        kind: kind.word().to_owned(),
        ticket: held.map(|held| held.stored.ticket.id.clone()),
        content: findings::clean(content),
    };
    Ok(office.desk.store.send(message).await?)
}

/// What has come for the agent, each once.
pub async fn read(office: &Office, speaker: &Speaker) -> Result<Vec<Letter>, Failure> {
    let mut letters = Vec::new();
    for name in names(speaker) {
        letters.extend(empty(office, &name).await?.into_iter().map(letter));
    }
    Ok(letters)
}

/// An agent is written to by its own name, or by what it does (003's developer, reviewer).
fn names(speaker: &Speaker) -> Vec<String> {
    let mut names = vec![speaker.actor.agent.clone()];
    match speaker.actor.role {
        flow::Role::Builder => names.push("developer".to_owned()),
        flow::Role::Reviewer => names.push("reviewer".to_owned()),
        flow::Role::Verifier | flow::Role::Human | flow::Role::Service | flow::Role::Admin => {}
    }
    names
}

async fn empty(office: &Office, name: &str) -> Result<Vec<Message>, Failure> {
    let store = &office.desk.store;
    let mut ours = Vec::new();
    for message in store.messages(name, INBOX_MAX).await? {
        if store
            .mark_processed(message.id, (office.desk.clock)())
            .await?
        {
            ours.push(message);
        }
    }
    Ok(ours)
}

fn letter(message: Message) -> Letter {
    let NewMessage {
        at,
        from,
        kind,
        ticket,
        content,
        ..
    } = message.message;
    Letter {
        from,
        kind,
        content,
        at: at.iso(),
        ticket: ticket.map(|id| id.to_string()),
    }
}

fn judges(errand: &SessionClaim) -> bool {
    matches!(errand.task, Task::Review { .. })
}

fn verdict_box(errand: &SessionClaim) -> String {
    format!("verdict:{}", errand.attempt())
}

/// A builder disputes a finding; the dispute goes with what it submits.
pub async fn dispute(
    office: &Office,
    speaker: &Speaker,
    named: &Named,
    (finding, reason): (&str, &str),
) -> Result<(), Failure> {
    if disputed_before(office, speaker, named, (finding, reason)).await? {
        return Ok(());
    }
    let errand = claims::reporting(office, speaker, named).await?;
    let ledger = &errand.stored.ticket.ledger;
    if !ledger.entries.iter().any(|entry| entry.id == finding) {
        return Err(Failure::new(
            Exit::Refused,
            format!("there is no finding {finding} on this ticket"),
        )
        .hint("the brief names them: F1, F2, …"));
    }
    if reason.trim().is_empty() {
        return Err(Failure::new(Exit::Refused, "a dispute needs a reason"));
    }
    let text = format!("{finding}\n{reason}");
    put(
        office,
        speaker,
        &errand.dispute_box(),
        Kind::Info,
        &text,
        Some(&errand),
    )
    .await?;
    Ok(())
}

/// Whether the same dispute came before under the attempt that is named; another reason for the same
/// finding under it is refused.
async fn disputed_before(
    office: &Office,
    speaker: &Speaker,
    named: &Named,
    (finding, reason): (&str, &str),
) -> Result<bool, Failure> {
    let Some(attempt) = named.parsed()? else {
        return Ok(false);
    };
    let to = format!("dispute:{attempt}");
    let before = office.desk.store.messages(&to, INBOX_MAX).await?;
    let ours = |one: &&Message| one.message.from == speaker.actor.agent;
    for one in before.iter().filter(ours) {
        let content = &one.message.content;
        let (disputed, why) = content.split_once('\n').unwrap_or((content, ""));
        if disputed == finding {
            if why == findings::clean(reason) {
                return Ok(true);
            }
            let key = format!("{attempt}/{finding}");
            return Err(store::Error::KeyReused { key }.into());
        }
    }
    Ok(false)
}

/// What became of what the agent has completed.
#[derive(Debug)]
pub enum Completed {
    Submitted(Box<Ticket>),
    Judged(Outcome),
}

impl Completed {
    /// As the agent is told it.
    pub fn message(self) -> String {
        match self {
            Self::Submitted(ticket) => submitted(&ticket),
            Self::Judged(outcome) => outcome.message,
        }
    }
}

pub fn submitted(ticket: &Ticket) -> String {
    format!("{} is {} now", ticket.id, ticket.stage)
}

/// 003's end of a turn: a builder's branch is put forward, a judge's messages become its verdict.
pub async fn complete(
    office: &Office,
    speaker: &Speaker,
    named: &Named,
    summary: &str,
    once: Option<Once>,
) -> Result<Completed, Failure> {
    let errand = claims::reporting(office, speaker, named).await?;
    // From here on it is about this claim, also where the caller named none.
    let named = &Named::of(&errand.attempt());
    if judges(&errand) {
        let word = gathered(office, &errand).await?;
        let once = once.map(|once| Once {
            answer: |ticket| json!({"message": verdict::outcome(ticket).message}),
            ..once
        });
        let outcome = verdict::pass(office, speaker, named, word, once).await?;
        return Ok(Completed::Judged(outcome));
    }
    let once = once.map(|once| Once {
        answer: |ticket| json!({"message": submitted(ticket)}),
        ..once
    });
    let said = Submitted {
        summary: summary.to_owned(),
        ..Submitted::default()
    };
    let ticket = assignments::submit(office, speaker, named, said, once).await?;
    Ok(Completed::Submitted(Box::new(ticket)))
}

/// What a judge has said under this claim.
async fn gathered(office: &Office, errand: &SessionClaim) -> Result<Word, Failure> {
    let said = office
        .desk
        .store
        .messages(&verdict_box(errand), INBOX_MAX)
        .await?;
    if said.is_empty() {
        return Err(Failure::new(Exit::Refused, "you have given no verdict yet")
            .hint("send_message with type approved or changes_requested first"));
    }
    let against = Kind::ChangesRequested.word();
    let texts: Vec<&str> = said
        .iter()
        .map(|one| one.message.content.as_str())
        .collect();
    Ok(Word {
        approved: Some(said.iter().all(|one| one.message.kind != against)),
        feedback: texts.join("\n\n"),
        ..Word::default()
    })
}
