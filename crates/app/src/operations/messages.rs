//! Messages between agents (003). Two kinds are a judge's verdict, and one is a builder's
//! submission: they act when the agent says that it is complete, once.

use engine::coordinator::Once;
use engine::session::{self, SessionClaim};
use flow::attempt::Attempt;
use flow::standing::Action;
use flow::{Task, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{ClaimStatement, Message, NewMessage, StatementKind};

use super::App;
use super::assignments::claims::{self, ClaimRef};
use super::assignments::verdict::{self, ReviewOutcome, VerdictInput};
use super::assignments::{self, BuilderSubmission};
use super::identity::Identity;
use crate::failure::{ExitKind, Failure};

/// No answer carries more.
const INBOX_MAX: u32 = 50;
const CONTENT_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    Question,
    Answer,
    Info,
    Request,
    ChangesRequested,
    Approved,
    NeedsReview,
}

impl MessageKind {
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
pub struct InboxMessage {
    pub from: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
    pub at: String,
    pub ticket: Option<String>,
}

/// Sends a message; a builder's `needs_review` is its submission, and no letter. A verdict waits
/// with its claim until the judge is complete. Says what came of it.
pub async fn send(
    office: &App,
    speaker: &Identity,
    to: &str,
    (kind, content): (MessageKind, &str),
    named: &ClaimRef,
    once: Option<Once>,
) -> Result<Option<CompletionOutcome>, Failure> {
    let submits = kind == MessageKind::NeedsReview && speaker.actor.role == flow::Role::Builder;
    if submits || kind.is_verdict() {
        let may = speaker.standing.may(Action::Report);
        may.map_err(|barred| Failure::new(ExitKind::Refused, barred))?;
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
    office: &App,
    speaker: &Identity,
    to: &str,
    (kind, content): (MessageKind, &str),
    named: &ClaimRef,
) -> Result<i64, Failure> {
    if content.len() > CONTENT_MAX {
        return Err(Failure::new(
            ExitKind::Refused,
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
                ExitKind::Refused,
                "only who has a review in hand can give a verdict",
            )
            .hint("get_my_assignment gives you one")
        })?;
        claims::say(office, speaker, named).await?;
        let verdict = match kind {
            MessageKind::Approved => StatementKind::Approved,
            _ => StatementKind::ChangesRequested,
        };
        say(office, speaker, errand, (verdict, content)).await?;
    }
    put(office, speaker, to, kind, content, held.as_ref()).await
}

/// Holds what is said under a claim until the claim is reported.
async fn say(
    office: &App,
    speaker: &Identity,
    errand: &SessionClaim,
    (kind, text): (StatementKind, &str),
) -> Result<(), Failure> {
    let statement = ClaimStatement {
        ticket: errand.stored.ticket.id.clone(),
        lease: errand.lease,
        kind,
        at: (office.desk.clock)(),
        by: findings::clean_name(&speaker.actor.agent),
        text: findings::clean(text),
    };
    Ok(office.desk.store.add_statement(statement).await?)
}

async fn put(
    office: &App,
    speaker: &Identity,
    to: &str,
    kind: MessageKind,
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
pub async fn read(office: &App, speaker: &Identity) -> Result<Vec<InboxMessage>, Failure> {
    let mut letters = Vec::new();
    for name in names(speaker) {
        letters.extend(empty(office, &name).await?.into_iter().map(letter));
    }
    Ok(letters)
}

/// An agent is written to by its own name, or by what it does (003's developer, reviewer).
fn names(speaker: &Identity) -> Vec<String> {
    let mut names = vec![speaker.actor.agent.clone()];
    match speaker.actor.role {
        flow::Role::Builder => names.push("developer".to_owned()),
        flow::Role::Reviewer => names.push("reviewer".to_owned()),
        flow::Role::Verifier | flow::Role::Human | flow::Role::Service | flow::Role::Admin => {}
    }
    names
}

async fn empty(office: &App, name: &str) -> Result<Vec<Message>, Failure> {
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

fn letter(message: Message) -> InboxMessage {
    let NewMessage {
        at,
        from,
        kind,
        ticket,
        content,
        ..
    } = message.message;
    InboxMessage {
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

/// A builder disputes a finding; the dispute goes with what it submits.
pub async fn dispute(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    (finding, reason): (&str, &str),
) -> Result<(), Failure> {
    if disputed_before(office, speaker, named, (finding, reason)).await? {
        return Ok(());
    }
    let errand = claims::reporting(office, speaker, named).await?;
    let ledger = &errand.stored.ticket.ledger;
    if !ledger.entries.iter().any(|entry| entry.id == finding) {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("there is no finding {finding} on this ticket"),
        )
        .hint("the brief names them: F1, F2, …"));
    }
    if reason.trim().is_empty() {
        return Err(Failure::new(ExitKind::Refused, "a dispute needs a reason"));
    }
    let kind = StatementKind::Dispute {
        finding: finding.to_owned(),
    };
    say(office, speaker, &errand, (kind, reason)).await
}

/// Whether the same dispute came before under the attempt that is named; another reason for the same
/// finding under it is refused.
async fn disputed_before(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    (finding, reason): (&str, &str),
) -> Result<bool, Failure> {
    let Some(attempt) = named.parsed()? else {
        return Ok(false);
    };
    let Attempt::Job {
        ticket,
        lease,
        commit: None,
    } = &attempt
    else {
        return Ok(false);
    };
    let store = &office.desk.store;
    let disputed = StatementKind::Dispute {
        finding: finding.to_owned(),
    };
    for one in store.statements(ticket, *lease, INBOX_MAX).await? {
        if one.by == speaker.actor.agent && one.kind == disputed {
            if one.text == findings::clean(reason) {
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
pub enum CompletionOutcome {
    Submitted(Box<Ticket>),
    Judged(ReviewOutcome),
}

impl CompletionOutcome {
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
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    summary: &str,
    once: Option<Once>,
) -> Result<CompletionOutcome, Failure> {
    let errand = claims::reporting(office, speaker, named).await?;
    // From here on it is about this claim, also where the caller named none.
    let named = &ClaimRef::of(&errand.attempt());
    if judges(&errand) {
        let word = gathered(office, &errand, summary).await?;
        let once = once.map(|once| Once {
            answer: |ticket| json!({"message": verdict::outcome(ticket).message}),
            ..once
        });
        let outcome = verdict::pass(office, speaker, named, word, once).await?;
        return Ok(CompletionOutcome::Judged(outcome));
    }
    let once = once.map(|once| Once {
        answer: |ticket| json!({"message": submitted(ticket)}),
        ..once
    });
    let said = BuilderSubmission {
        summary: summary.to_owned(),
        ..BuilderSubmission::default()
    };
    let ticket = assignments::submit(office, speaker, named, said, once).await?;
    Ok(CompletionOutcome::Submitted(Box::new(ticket)))
}

/// Joins the statements of this claim and the summary to one verdict: a refusal in any of them counts.
async fn gathered(
    office: &App,
    errand: &SessionClaim,
    summary: &str,
) -> Result<VerdictInput, Failure> {
    let (store, ticket) = (&office.desk.store, &errand.stored.ticket.id);
    let mut said = store.statements(ticket, errand.lease, INBOX_MAX).await?;
    said.retain(|one| !matches!(one.kind, StatementKind::Dispute { .. }));
    if said.is_empty() {
        return Err(
            Failure::new(ExitKind::Refused, "you have given no verdict yet")
                .hint("send_message with type approved or changes_requested first"),
        );
    }
    let texts = said.iter().map(|one| one.text.as_str());
    let texts: Vec<&str> = texts.chain([summary]).collect();
    Ok(VerdictInput {
        approved: Some(said.iter().all(|one| one.kind == StatementKind::Approved)),
        feedback: texts.join("\n\n").trim().to_owned(),
        ..VerdictInput::default()
    })
}
