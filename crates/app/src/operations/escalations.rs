//! Lists tickets that wait for a person, and records the person's decision.

use std::path::PathBuf;

use engine::log::LogErr;
use engine::project::TicketFiles;
use flow::event::{Choice, ChoiceOptions};
use flow::export::{RoundFeedback, feedback_by_round};
use flow::narrate::{describe_evidence, describe_reason};
use flow::ticket::Reason;
use flow::{EventKind, Stage, Ticket, TicketId};
use serde::{Deserialize, Deserializer, Serialize};
use store::{NewMessage, Page, Paged};

use super::messages::MessageKind;
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
    /// The feedback of every round, in the words of that round.
    #[serde(default)]
    pub feedback: Vec<RoundFeedback>,
    /// The findings document of the last round, on the machine that has the data.
    #[serde(default)]
    pub document: Option<PathBuf>,
    /// True if `accept` needs the flag for red checks.
    #[serde(default)]
    pub accept_needs_flag: bool,
}

/// Returns the findings document of the ticket's last round, if it was written.
pub fn findings_document(app: &App, ticket: &Ticket) -> Option<PathBuf> {
    let round = ticket.rounds.last()?.number;
    let files = TicketFiles::new(&app.environment.data_dir, &ticket.id);
    Some(files.round_document_path(round)).filter(|path| path.is_file())
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
    let offered = flow::available_choices(ticket, &policy);
    let choices = offered.iter().map(Choice::as_str).collect();
    let over_red = Choice::Accept {
        over_red_checks: true,
    };
    Ok(PendingEscalation {
        id: ticket.id.clone(),
        title: ticket.spec.title.clone(),
        reason: why,
        evidence: describe_evidence(ticket),
        choices,
        feedback: feedback_by_round(ticket),
        document: findings_document(app, ticket),
        accept_needs_flag: offered.contains(&over_red),
    })
}

/// Returns whether a choice is refused without a reason, so that a form can say so before it is sent.
pub fn needs_reason(choice: &str) -> bool {
    matches!(choice, "accept" | "reject")
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
    if !ticket.stage.is_terminal() {
        let answered = answer_help(app, &stored.ticket, why).await;
        // The decision stands; the log has the answer too.
        answered.log_err("send the answer to the agent that asked for help");
    }
    Ok(ticket)
}

/// Sends the person's reason to the agent that asked for help: it is the answer to its question.
async fn answer_help(app: &App, asked: &Ticket, why: &str) -> Result<(), Failure> {
    let escalation = asked.escalation.as_ref();
    let Some(Reason::HelpRequested { by }) = escalation.map(|it| &it.reason) else {
        return Ok(());
    };
    if why.trim().is_empty() {
        return Ok(());
    }
    let message = NewMessage {
        at: (app.coordinator.clock)(),
        from: findings::clean_name(&app.person().agent),
        to: by.clone(),
        kind: MessageKind::Answer.word().to_owned(),
        ticket: Some(asked.id.clone()),
        content: findings::clean(why),
    };
    app.coordinator.store.send(message).await?;
    Ok(())
}

/// Explains a choice of an escalation, in the same words on every surface.
pub fn choice_meaning(choice: &str) -> &'static str {
    match choice {
        "accept" => "done despite open findings, which are waived in your name",
        "continue" => "one more round, or retry the interrupted step",
        "take-over" => "you fix it by hand and resubmit; until then the ticket is blocked",
        "reset" => "restart the count of rounds",
        "reassign" => "assign another builder or reviewer",
        "reject" => "the ticket fails",
        _ => "",
    }
}
