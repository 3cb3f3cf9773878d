//! Lists tickets that wait for a person, and records the person's decision.

use flow::event::{Choice, ChoiceOptions};
use flow::narrate::{describe_evidence, describe_reason};
use flow::{EventKind, Stage, Ticket, TicketId};
use serde::{Deserialize, Deserializer, Serialize};
use store::{Page, Paged};

use super::{App, tickets};
use crate::failure::Failure;

/// A ticket that waits for a person, with the reason and the possible choices.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PendingEscalation {
    pub id: TicketId,
    pub title: String,
    pub reason: String,
    /// Evidence for the reason, such as the last lines of a red check's output.
    #[serde(default)]
    pub evidence: String,
    #[serde(deserialize_with = "read_known_choices")]
    pub choices: Vec<&'static str>,
}

/// Reads choices and drops unknown ones, which a newer server may send.
fn read_known_choices<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<&'static str>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    let known = |word: &String| Choice::WORDS.into_iter().find(|known| known == word);
    Ok(words.iter().filter_map(known).collect())
}

/// Lists the escalated tickets of a page.
pub async fn list(
    app: &App,
    repository: Option<String>,
    page: &Page,
) -> Result<Paged<PendingEscalation>, Failure> {
    let rows = tickets::list(app, vec![Stage::Escalated], repository, page).await?;
    let mut items = Vec::with_capacity(rows.items.len());
    for row in rows.items {
        let stored = app.coordinator.ticket(&row.id).await?;
        items.push(pending_escalation(app, &stored).await?);
    }
    Ok(Paged {
        items,
        next: rows.next,
    })
}

pub async fn pending_escalation(
    app: &App,
    stored: &store::Stored,
) -> Result<PendingEscalation, Failure> {
    let policy = app.coordinator.policy_of(stored).await?;
    let ticket = &stored.ticket;
    let why = ticket
        .escalation
        .as_ref()
        .map(|escalation| describe_reason(&escalation.reason))
        .unwrap_or_default();
    let choices = flow::available_choices(ticket, &policy)
        .iter()
        .map(Choice::as_str)
        .collect();
    Ok(PendingEscalation {
        id: ticket.id.clone(),
        title: ticket.spec.title.clone(),
        reason: why,
        evidence: describe_evidence(ticket),
        choices,
    })
}

/// Parses the choice that a person names.
pub fn parse_choice(word: &str, options: ChoiceOptions) -> Result<Choice, Failure> {
    Choice::from_word(word, options).ok_or_else(|| {
        Failure::usage(format!("{word:?} is not a choice"))
            .hint(format!("choices are {}", Choice::WORDS.join(", ")))
    })
}

/// Resolves an escalation in the person's name.
pub async fn resolve(app: &App, id: &str, choice: Choice, why: &str) -> Result<Ticket, Failure> {
    let stored = app.ticket(id).await?;
    let policy = app.coordinator.policy_of(&stored).await?;
    let kind = EventKind::Settled {
        choice,
        why: why.to_owned(),
    };
    let report = engine::coordinator::Report {
        expects: app.call.expected_version.or(Some(stored.ticket.version)),
        ..app.report(kind)
    };
    let ticket = app
        .coordinator
        .decide(&stored.ticket.id, &policy, report)
        .await?;
    app.notify_dependents().await?;
    Ok(ticket)
}
