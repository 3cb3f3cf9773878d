//! Tickets that wait for a person, and the person's answer.

use flow::event::{Choice, ChoiceOptions};
use flow::narrate::reason;
use flow::{EventKind, Stage, Ticket, TicketId};
use serde::{Deserialize, Deserializer, Serialize};
use store::{Page, Paged};

use super::{App, tickets};
use crate::failure::Failure;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PendingEscalation {
    pub id: TicketId,
    pub title: String,
    pub reason: String,
    #[serde(deserialize_with = "known")]
    pub choices: Vec<&'static str>,
}

/// Words that we know; another server's newer ones are not offered.
fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<&'static str>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    let known = |word: &String| Choice::WORDS.into_iter().find(|known| known == word);
    Ok(words.iter().filter_map(known).collect())
}

pub async fn list(office: &App, page: &Page) -> Result<Paged<PendingEscalation>, Failure> {
    let rows = tickets::list(office, vec![Stage::Escalated], page).await?;
    let mut items = Vec::with_capacity(rows.items.len());
    for row in rows.items {
        let stored = office.desk.ticket(&row.id).await?;
        items.push(waiting(office, &stored).await?);
    }
    Ok(Paged {
        items,
        next: rows.next,
    })
}

pub async fn waiting(office: &App, stored: &store::Stored) -> Result<PendingEscalation, Failure> {
    let policy = office.desk.policy_of(stored).await?;
    let ticket = &stored.ticket;
    let why = ticket
        .escalation
        .as_ref()
        .map(|escalation| reason(&escalation.reason))
        .unwrap_or_default();
    let choices = flow::choices(ticket, &policy)
        .iter()
        .map(Choice::word)
        .collect();
    Ok(PendingEscalation {
        id: ticket.id.clone(),
        title: ticket.spec.title.clone(),
        reason: why,
        choices,
    })
}

/// The choice that a person names.
pub fn choice(word: &str, besides: ChoiceOptions) -> Result<Choice, Failure> {
    Choice::of(word, besides).ok_or_else(|| {
        Failure::usage(format!("{word:?} is no choice"))
            .hint(format!("choices are {}", Choice::WORDS.join(", ")))
    })
}

/// Settles an escalation in the person's name.
pub async fn resolve(office: &App, id: &str, choice: Choice, why: &str) -> Result<Ticket, Failure> {
    let stored = office.ticket(id).await?;
    let policy = office.desk.policy_of(&stored).await?;
    let what = EventKind::Settled {
        choice,
        why: why.to_owned(),
    };
    let report = engine::coordinator::Report {
        expects: office.call.expects.or(Some(stored.ticket.version)),
        ..office.report(what)
    };
    let ticket = office
        .desk
        .decide(&stored.ticket.id, &policy, report)
        .await?;
    office.bring_news().await?;
    Ok(ticket)
}
