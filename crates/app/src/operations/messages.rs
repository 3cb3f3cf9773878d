//! Messages between agents. Two kinds are a reviewer's verdict; they count, once, when the reviewer
//! says that it has completed its turn. One kind is a builder's submission.

mod recipients;

pub use recipients::{PersonMessage, mark_read, person_inbox};

use engine::coordinator::Once;
use engine::session::{self, SessionClaim};
use flow::access::Action;
use flow::attempt::Attempt;
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

/// Maximum number of messages in one answer.
const INBOX_MAX: u32 = 50;
const CONTENT_MAX: usize = 64 * 1024;
/// Characters of a message to a person in the log and in notifications; the inbox has all of it.
const NOTE_CHARS_MAX: usize = 500;

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
    pub fn word(self) -> &'static str {
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

/// Sends a message. A builder's `needs_review` is not delivered: it submits, and the outcome is
/// returned. A verdict is held with its claim until the reviewer completes its turn.
pub async fn send(
    app: &App,
    identity: &Identity,
    to: &str,
    (kind, content): (MessageKind, &str),
    claim_ref: &ClaimRef,
    once: Option<Once>,
) -> Result<Option<CompletionOutcome>, Failure> {
    let submits = kind == MessageKind::NeedsReview && identity.actor.role == flow::Role::Builder;
    if submits || kind.is_verdict() {
        let permitted = identity.access.check(Action::Report);
        permitted.map_err(|denied| Failure::new(ExitKind::Refused, denied))?;
    }
    if submits {
        return Box::pin(complete(app, identity, claim_ref, content, once))
            .await
            .map(Some);
    }
    deliver(app, identity, to, (kind, content), claim_ref).await?;
    Ok(None)
}

async fn deliver(
    app: &App,
    identity: &Identity,
    to: &str,
    (kind, content): (MessageKind, &str),
    claim_ref: &ClaimRef,
) -> Result<(), Failure> {
    // An unknown name is refused first: a verdict must not count if its message goes nowhere.
    let recipients = recipients::resolve(app, identity, to).await?;
    if content.len() > CONTENT_MAX {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("a message has at most {CONTENT_MAX} bytes"),
        ));
    }
    let current = session::current_claim(&app.coordinator, &identity.agent_session()).await?;
    if kind.is_verdict() || claim_ref.attempt.is_some() {
        let claim = current.as_ref().map(SessionClaim::claim);
        claims::check_report(app, identity, claim_ref, claim.as_ref()).await?;
    }
    let judged = current.as_ref().filter(|current| is_judge_claim(current));
    if !kind.is_verdict() && judged.is_some() && rejects(content) {
        return Err(
            Failure::new(ExitKind::Refused, "this message rejects the change, but its type is not a verdict; it was not sent")
                .hint("send it with type changes_requested, or call submit_review_result (approved: false, with feedback)"),
        );
    }
    if kind.is_verdict() {
        let claim = current
            .as_ref()
            .filter(|current| is_judge_claim(current))
            .ok_or_else(|| {
                Failure::new(
                    ExitKind::Refused,
                    "a verdict needs a review assignment, and you have none",
                )
                .hint("get_my_assignment gives you one")
            })?;
        claims::record_verdict_words(app, identity, claim_ref).await?;
        let verdict = match kind {
            MessageKind::Approved => StatementKind::Approved,
            _ => StatementKind::ChangesRequested,
        };
        add_statement(app, identity, claim, (verdict, content)).await?;
    }
    for name in &recipients.names {
        store_message(app, identity, name, kind, content, current.as_ref()).await?;
    }
    if recipients.has_person {
        let body = json!({"from": findings::one_line(&identity.actor.agent),
            "to": findings::one_line(to), "kind": kind.word(),
            "content": findings::shorten(&findings::one_line(content), NOTE_CHARS_MAX)});
        app.note("message_to_person", body).await?;
    }
    Ok(())
}

/// Returns whether a text rejects a change. In a message that is no verdict it would be lost, and an
/// approval of the same claim would stand next to it.
fn rejects(text: &str) -> bool {
    findings::read(text).claim == findings::ReviewClaim::ChangesRequested
}

/// Stores a statement under a claim until the claim is reported.
async fn add_statement(
    app: &App,
    identity: &Identity,
    claim: &SessionClaim,
    (kind, text): (StatementKind, &str),
) -> Result<(), Failure> {
    let statement = ClaimStatement {
        ticket: claim.stored.ticket.id.clone(),
        lease: claim.lease,
        kind,
        at: (app.coordinator.clock)(),
        by: findings::clean_name(&identity.actor.agent),
        text: findings::clean(text),
    };
    Ok(app.coordinator.store.add_statement(statement).await?)
}

async fn store_message(
    app: &App,
    identity: &Identity,
    to: &str,
    kind: MessageKind,
    content: &str,
    held: Option<&SessionClaim>,
) -> Result<i64, Failure> {
    let message = NewMessage {
        at: (app.coordinator.clock)(),
        from: findings::clean_name(&identity.actor.agent),
        to: findings::one_line(to),
        kind: kind.word().to_owned(),
        ticket: held.map(|held| held.stored.ticket.id.clone()),
        content: findings::clean(content),
    };
    Ok(app.coordinator.store.send(message).await?)
}

/// Returns the agent's new messages; each is returned once.
pub async fn read(app: &App, identity: &Identity) -> Result<Vec<InboxMessage>, Failure> {
    let mut messages = Vec::new();
    for name in recipient_names(identity) {
        messages.extend(
            drain_inbox(app, &name)
                .await?
                .into_iter()
                .map(inbox_message),
        );
    }
    Ok(messages)
}

/// Returns the names under which the agent gets messages: its own, and `developer` or `reviewer` by
/// its role.
fn recipient_names(identity: &Identity) -> Vec<String> {
    let mut names = vec![identity.actor.agent.clone()];
    match identity.actor.role {
        flow::Role::Builder => names.push("developer".to_owned()),
        flow::Role::Reviewer => names.push("reviewer".to_owned()),
        flow::Role::Verifier
        | flow::Role::Human
        | flow::Role::Service
        | flow::Role::Admin
        | flow::Role::Viewer => {}
    }
    names
}

async fn drain_inbox(app: &App, name: &str) -> Result<Vec<Message>, Failure> {
    let store = &app.coordinator.store;
    let mut received = Vec::new();
    for message in store.messages(name, INBOX_MAX).await? {
        if store
            .mark_processed(message.id, (app.coordinator.clock)())
            .await?
        {
            received.push(message);
        }
    }
    Ok(received)
}

fn inbox_message(message: Message) -> InboxMessage {
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
        at: at.to_iso(),
        ticket: ticket.map(|id| id.to_string()),
    }
}

fn is_judge_claim(claim: &SessionClaim) -> bool {
    matches!(claim.task, Task::Review { .. })
}

/// Stores a builder's dispute of a finding, which is sent with its submission.
pub async fn dispute(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    (finding, reason): (&str, &str),
) -> Result<(), Failure> {
    if is_repeated_dispute(app, identity, claim_ref, (finding, reason)).await? {
        return Ok(());
    }
    let claim = claims::require_reported_claim(app, identity, claim_ref).await?;
    let ledger = &claim.stored.ticket.ledger;
    if !ledger.entries.iter().any(|entry| entry.id == finding) {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("there is no finding {finding} on this ticket"),
        )
        .hint("use an id from the brief: F1, F2, …"));
    }
    if reason.trim().is_empty() {
        return Err(Failure::new(ExitKind::Refused, "a dispute needs a reason"));
    }
    let kind = StatementKind::Dispute {
        finding: finding.to_owned(),
    };
    add_statement(app, identity, &claim, (kind, reason)).await
}

/// Tells whether the same dispute came before under the named attempt. Another reason for the same
/// finding under that attempt is refused.
async fn is_repeated_dispute(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    (finding, reason): (&str, &str),
) -> Result<bool, Failure> {
    let Some(attempt) = claim_ref.parse_attempt()? else {
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
    let store = &app.coordinator.store;
    let disputed = StatementKind::Dispute {
        finding: finding.to_owned(),
    };
    for statement in store.statements(ticket, *lease, INBOX_MAX).await? {
        if statement.by == identity.actor.agent && statement.kind == disputed {
            if statement.text == findings::clean(reason) {
                return Ok(true);
            }
            let key = format!("{attempt}/{finding}");
            return Err(store::Error::KeyReused { key }.into());
        }
    }
    Ok(false)
}

/// Result of an agent's completed turn.
#[derive(Debug)]
pub enum CompletionOutcome {
    Submitted(Box<Ticket>),
    Judged(ReviewOutcome),
}

impl CompletionOutcome {
    /// Returns the text for the agent.
    pub fn message(self) -> String {
        match self {
            Self::Submitted(ticket) => submitted_text(&ticket),
            Self::Judged(outcome) => outcome.message,
        }
    }
}

/// Returns the text that tells a builder the state after its submission.
pub fn submitted_text(ticket: &Ticket) -> String {
    format!("{} is {} now", ticket.id, ticket.stage)
}

/// Ends a turn: submits a builder's branch, or makes a reviewer's messages its verdict.
pub async fn complete(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    summary: &str,
    once: Option<Once>,
) -> Result<CompletionOutcome, Failure> {
    let claim = claims::require_reported_claim(app, identity, claim_ref).await?;
    // From here on the call is about this claim, even if the caller named none.
    let claim_ref = &ClaimRef::from_attempt(&claim.attempt());
    if is_judge_claim(&claim) {
        let verdict_input = collect_verdict(app, &claim, summary).await?;
        let once = once.map(|once| Once {
            answer: |ticket, policy| json!({"message": verdict::outcome(ticket, policy).message}),
            ..once
        });
        let outcome =
            verdict::submit_verdict(app, identity, claim_ref, verdict_input, once).await?;
        return Ok(CompletionOutcome::Judged(outcome));
    }
    let once = once.map(|once| Once {
        answer: |ticket, _| json!({"message": submitted_text(ticket)}),
        ..once
    });
    let submission = BuilderSubmission {
        summary: summary.to_owned(),
        ..BuilderSubmission::default()
    };
    let ticket = assignments::submit(app, identity, claim_ref, submission, once).await?;
    Ok(CompletionOutcome::Submitted(Box::new(ticket)))
}

/// Joins the statements of this claim and the summary to one verdict; one rejection is enough to
/// reject.
async fn collect_verdict(
    app: &App,
    claim: &SessionClaim,
    summary: &str,
) -> Result<VerdictInput, Failure> {
    let (store, ticket) = (&app.coordinator.store, &claim.stored.ticket.id);
    let mut statements = store.statements(ticket, claim.lease, INBOX_MAX).await?;
    statements.retain(|statement| !matches!(statement.kind, StatementKind::Dispute { .. }));
    if statements.is_empty() {
        return Err(
            Failure::new(ExitKind::Refused, "you have given no verdict yet")
                .hint("send_message with type approved or changes_requested first"),
        );
    }
    if statements.len() >= INBOX_MAX as usize {
        // A rejection could be among those that were not read.
        return Err(Failure::new(
            ExitKind::Refused,
            format!(
                "this assignment has {INBOX_MAX} messages with a verdict, and no more are read"
            ),
        )
        .hint("give your verdict once more with submit_review_result"));
    }
    let mut texts = Vec::new();
    let said = statements.iter().map(|statement| statement.text.as_str());
    for text in said.chain([summary]) {
        // An agent that takes its turn again says the same again. It must be the same verdict, or
        // it would never count as the confirmation of one that was sent back.
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(VerdictInput {
        approved: Some(
            statements
                .iter()
                .all(|statement| statement.kind == StatementKind::Approved),
        ),
        feedback: texts.join("\n\n").trim().to_owned(),
        ..VerdictInput::default()
    })
}
