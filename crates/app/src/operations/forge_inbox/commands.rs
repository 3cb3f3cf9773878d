//! Obeys commands in comments: `/countersign accept F3 because …`. They call the same operations as
//! the command line, in the name of the person's account on the forge.

use std::fmt::Write as _;

use engine::coordinator::Once;
use flow::event::ChoiceOptions;
use flow::{Actor, Policy, Role, Ticket};
use forge::command::{
    COMMANDS, CommandAuthor, CommandRefusal, CommentCommand, authorise, parse_command,
};
use forge::neutral::{neutralise, neutralise_line_of};
use forge::{
    ChangeKey, CommentDraft, CommentKind, CommentRef, CommentTopic, ForgePermission, Reaction,
};
use serde_json::{Value, json};
use store::ForgeState;

use super::{ForgeInbox, Progress};
use crate::failure::{ExitKind, Failure};
use crate::operations::connections::LinkedForge;
use crate::operations::forge_connection::forge_failure;
use crate::operations::forge_work::{ForgeJob, ForgeSubject, ForgeTask, FoundCommand, queue_once};
use crate::operations::person_findings::{self, PersonFinding};
use crate::operations::{App, escalations, tickets};

impl ForgeInbox {
    pub(super) async fn obey(
        &self,
        client: &LinkedForge,
        found: &FoundCommand,
    ) -> Result<Progress, Failure> {
        let Some(command) = parse_command(&found.text) else {
            return Ok(Progress::Done);
        };
        if let Err(refusal) = self.authorise(client, found).await? {
            self.refuse(client, found, &refusal.to_string()).await;
            return Ok(Progress::Done);
        }
        // Before the work, which may take a while: a person should see at once that the command
        // arrived.
        self.react(client, found, Reaction::Seen).await;
        let performed = Box::pin(self.perform_command(client, found, command)).await;
        match performed {
            Ok(()) => {
                self.react(client, found, Reaction::Done).await;
                let line = found.text.lines().next().unwrap_or_default();
                let body = json!({"connection": client.name(), "by": found.author, "command": findings::one_line(line),
                    "why": format!("{} in a comment on {}: {}", found.author, found.subject.describe(), findings::one_line(line))});
                self.note("command_obeyed", body).await;
            }
            // The state of the ticket, or the words of the command: the person has to know.
            Err(failure) if is_refusal(&failure) => {
                let mut text = failure.message.clone();
                for hint in &failure.hints {
                    let _ = write!(text, "; {hint}");
                }
                self.refuse(client, found, &text).await;
                self.answer(client, found, &text).await;
            }
            Err(failure) => return Err(failure),
        }
        Ok(Progress::Done)
    }

    /// Checks the author. The permission is read now and from the repository: a role in an
    /// organisation, as a comment shows it, is no permission.
    async fn authorise(
        &self,
        client: &LinkedForge,
        found: &FoundCommand,
    ) -> Result<Result<(), CommandRefusal>, Failure> {
        let own = client.own_login().await?;
        let mut author = CommandAuthor {
            login: &found.author,
            is_bot: found.is_bot,
            is_edited: found.edited,
            // A permission that would be enough, to ask first what needs no call.
            permission: ForgePermission::Write,
        };
        // Do not look up an author whose command would be refused anyway.
        if found.is_own {
            return Ok(Err(CommandRefusal::Own));
        }
        if let Err(refusal) = authorise(&author, own) {
            return Ok(Err(refusal));
        }
        let permission = client.tracker().permission_of(&found.author).await;
        author.permission = permission.map_err(forge_failure)?;
        Ok(authorise(&author, own))
    }

    async fn perform_command(
        &self,
        client: &LinkedForge,
        found: &FoundCommand,
        command: CommentCommand,
    ) -> Result<(), Failure> {
        let app = self.acting_for(client, found);
        let ticket = self.ticket_of(client, &found.subject).await?;
        match (command, ticket) {
            (CommentCommand::Help, _) => {
                self.answer(client, found, &format!("Commands: {COMMANDS}"))
                    .await;
                Ok(())
            }
            (CommentCommand::Malformed(why), _) => Err(Failure::usage(why)),
            (CommentCommand::Permit { commit }, _) => {
                self.permit_checks(client, found, &commit).await
            }
            (CommentCommand::Review, None) => self.review_again(client, found).await,
            (CommentCommand::Continue, None) => self.take_in_by_command(client, found).await,
            (CommentCommand::Status, None) => {
                let text = "no Countersign ticket belongs to this";
                self.answer(client, found, text).await;
                Ok(())
            }
            (
                // These change a ticket, so without one the person has to learn that nothing
                // happened.
                CommentCommand::Rework | CommentCommand::Accept { .. } | CommentCommand::Cancel,
                None,
            ) => Err(Failure::usage("no Countersign ticket belongs to this")),
            (CommentCommand::Review, Some(id)) => {
                crate::operations::change_reports::queue_report(&app, &id, "a command").await?;
                Ok(())
            }
            (CommentCommand::Rework, Some(id)) => rework(&app, &id, &found.text).await,
            (CommentCommand::Accept { finding, why }, Some(id)) => {
                tickets::waive_finding(&app, &id, &finding, &why).await?;
                Ok(())
            }
            (CommentCommand::Continue, Some(id)) => continue_ticket(&app, &id).await,
            (CommentCommand::Status, Some(id)) => {
                let stored = app.ticket(&id).await?;
                let text = describe_ticket(&stored.ticket);
                self.answer(client, found, &text).await;
                Ok(())
            }
            (CommentCommand::Cancel, Some(id)) => {
                let why = format!("cancelled by {} in a comment", found.author);
                tickets::cancel(&app, &id, &why).await?;
                Ok(())
            }
        }
    }

    /// Returns an app that acts for the author. The comment is the idempotency key of its change.
    fn acting_for(&self, client: &LinkedForge, found: &FoundCommand) -> App {
        let login = findings::clean_name(&found.author);
        let mut app = self.app.acting_as(Actor::new(&login, Role::Human));
        app.call.once = Some(Once {
            key: format!("forge/{}/comment/{}", client.name(), found.comment),
            payload_hash: engine::hash::short_sha256(found.text.as_bytes()),
            answer: |ticket: &Ticket, _: &Policy| json!({"ticket": ticket.id, "version": ticket.version}),
        });
        app
    }

    async fn ticket_of(
        &self,
        client: &LinkedForge,
        subject: &ForgeSubject,
    ) -> Result<Option<String>, Failure> {
        match subject {
            ForgeSubject::Branch(_) | ForgeSubject::Repository => Ok(None),
            ForgeSubject::Issue(key) => {
                let id = flow::intake::ticket_id_of_issue(client.name(), key);
                // The id is made of the connection and the key, so an issue finds its ticket
                // without a search.
                let id = id.map(|id| id.to_string());
                Ok(match id {
                    Some(id) if self.has_ticket(&id).await? => Some(id),
                    _ => None,
                })
            }
            ForgeSubject::Change(number) => {
                let Some(forge) = client.forge() else {
                    return Ok(None);
                };
                let found = forge.find_change(&ChangeKey::Number(*number)).await;
                match found.map_err(forge_failure)? {
                    Some(change) => self.ticket_of_change(client, &change).await,
                    None => Ok(None),
                }
            }
        }
    }

    /// Reviews the head of a change once more.
    async fn review_again(
        &self,
        client: &LinkedForge,
        found: &FoundCommand,
    ) -> Result<(), Failure> {
        let (ForgeSubject::Change(number), Some(forge)) = (&found.subject, client.forge()) else {
            return Err(Failure::usage("only a pull request can be reviewed"));
        };
        let change = forge.find_change(&ChangeKey::Number(*number)).await;
        let change = change.map_err(forge_failure)?;
        let head = change.map(|change| change.head_commit).unwrap_or_default();
        let task = ForgeTask::Review {
            number: *number,
            head: head.clone(),
        };
        // The comment is part of the key, so that the same head can be reviewed again on request.
        let key = format!("review/{number}/{head}/{}", found.comment);
        queue_once(&self.app, &key, &ForgeJob::new(client.name(), task)).await?;
        Ok(())
    }

    async fn take_in_by_command(
        &self,
        client: &LinkedForge,
        found: &FoundCommand,
    ) -> Result<(), Failure> {
        match &found.subject {
            ForgeSubject::Issue(key) => {
                let cause = format!("command-{}", found.comment);
                self.queue_intake(client.name(), key, &cause).await
            }
            ForgeSubject::Change(_) | ForgeSubject::Branch(_) | ForgeSubject::Repository => Err(
                Failure::usage("no Countersign ticket belongs to this pull request")
                    .hint("use review"),
            ),
        }
    }

    /// Lets the checks of a fork's head run. The permission is for exactly this commit, so it ends
    /// with the next push.
    async fn permit_checks(
        &self,
        client: &LinkedForge,
        found: &FoundCommand,
        commit: &str,
    ) -> Result<(), Failure> {
        let (ForgeSubject::Change(number), Some(forge)) = (&found.subject, client.forge()) else {
            return Err(Failure::usage("checks belong to a pull request"));
        };
        let change = forge.find_change(&ChangeKey::Number(*number)).await;
        let change = change.map_err(forge_failure)?;
        let head = change.map(|change| change.head_commit).unwrap_or_default();
        // The author of a fork may push while a person reads. The permission is for what was read.
        if !head.eq_ignore_ascii_case(commit) {
            return Err(Failure::usage(format!(
                "{} is not the head of the pull request, which is {head}",
                findings::shorten(commit, 64)
            ))
            .hint("look at the newest commit, and name it"));
        }
        // Recorded before the review is queued, because the review reads it.
        record_permit(&self.app, client.name(), *number, &head, &found.author).await?;
        self.review_again(client, found).await
    }

    /// Notes a refused command. The reaction tells its author, and a stranger gets no text: a
    /// comment could be used to make us write.
    async fn refuse(&self, client: &LinkedForge, found: &FoundCommand, why: &str) {
        self.react(client, found, Reaction::Refused).await;
        let line = findings::one_line(found.text.lines().next().unwrap_or_default());
        let body = json!({"connection": client.name(), "by": found.author, "command": findings::shorten(&line, 200),
            "why": format!("the command of {} on {} was refused: {why}", findings::one_line(&found.author), found.subject.describe())});
        self.note("command_refused", body).await;
    }

    /// Reacts to a comment. A forge that takes no reaction does not stop a command.
    async fn react(&self, client: &LinkedForge, found: &FoundCommand, reaction: Reaction) {
        use engine::log::LogErr;
        let Some(on) = found.subject.on() else {
            return;
        };
        let comment = CommentRef {
            on,
            id: found.comment.clone(),
            kind: if found.inline {
                CommentKind::Inline
            } else {
                CommentKind::Plain
            },
        };
        let reacted = client.tracker().react(&comment, reaction).await;
        reacted.log_err("react to a command");
    }

    /// Answers a person in a comment that is edited in place, so that commands make no noise.
    async fn answer(&self, client: &LinkedForge, found: &FoundCommand, text: &str) {
        use engine::log::LogErr;
        let Some(on) = found.subject.on() else {
            return;
        };
        let line = findings::one_line(found.text.lines().next().unwrap_or_default());
        let draft = CommentDraft {
            on,
            topic: CommentTopic("answer".to_owned()),
            body: format!(
                "Countersign, to {}: `{}`\n\n{}",
                neutralise_line_of(&found.author),
                // A backquote would end the quotation, and the rest would be text of ours.
                neutralise_line_of(&findings::shorten(&line, 120)).replace('`', "'"),
                neutralise(text)
            ),
        };
        let written = client.tracker().ensure_comment(&draft).await;
        written.log_err("answer a command");
    }
}

/// Returns whether a failure is about the command and not about the machine.
fn is_refusal(failure: &Failure) -> bool {
    failure.not_found || matches!(failure.exit, ExitKind::Refused | ExitKind::Usage)
}

/// Sends a ticket back to its builder. The words behind the command are what must change.
async fn rework(app: &App, id: &str, text: &str) -> Result<(), Failure> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let words = first
        .split_whitespace()
        // The mention and the word `rework`.
        .skip(2)
        .collect::<Vec<_>>()
        .join(" ");
    let wanted = format!("{words}\n{rest}").trim().to_owned();
    if wanted.is_empty() {
        return continue_ticket(app, id).await.map_err(|failure| {
            failure.hint("say what must change: /countersign rework The empty name is greeted.")
        });
    }
    let finding = PersonFinding {
        text: wanted,
        ..PersonFinding::default()
    };
    person_findings::add(app, id, &[finding], true).await?;
    Ok(())
}

/// Lets a ticket that waits for a person go on.
async fn continue_ticket(app: &App, id: &str) -> Result<(), Failure> {
    let choice = escalations::parse_choice("continue", ChoiceOptions::default())?;
    escalations::resolve(app, id, choice, "continued in a comment").await?;
    Ok(())
}

fn describe_ticket(ticket: &Ticket) -> String {
    let mut text = format!(
        "Ticket {} ({}): {}, round {}.",
        ticket.id,
        findings::one_line(&ticket.spec.title),
        flow::intake::IssueProgress::of(ticket).word(),
        ticket.rounds.len().max(1)
    );
    if let Some(escalation) = &ticket.escalation {
        let reason = flow::narrate::describe_reason(&escalation.reason);
        let _ = write!(text, "\n\nA person has to decide: {reason}");
    }
    // Twenty, because a comment is read on a phone too. The dashboard has all.
    let open = ticket.ledger.entries.iter();
    for entry in open.filter(|entry| entry.status.is_open()).take(20) {
        let _ = write!(
            text,
            "\n- {} ({}): {}",
            entry.id,
            entry.severity().word(),
            findings::one_line(&entry.finding.title)
        );
    }
    text
}

fn permit_name(connection: &str, number: u64) -> String {
    format!("permit/{connection}/{number}")
}

async fn record_permit(
    app: &App,
    connection: &str,
    number: u64,
    commit: &str,
    by: &str,
) -> Result<(), Failure> {
    let store = &app.coordinator.store;
    let name = permit_name(connection, number);
    loop {
        let state = store.forge_state(&name).await?;
        let body = json!({"commit": commit, "by": findings::one_line(by)});
        // Another process may write the state between our two calls; then read it again.
        if state.body == body || store.put_forge_state(ForgeState { body, ..state }).await? {
            return Ok(());
        }
    }
}

/// Returns who permitted the checks of this commit of a fork, if somebody did.
pub(super) async fn permitted_by(
    app: &App,
    connection: &str,
    number: u64,
    commit: &str,
) -> Result<Option<String>, Failure> {
    let store = &app.coordinator.store;
    let state = store.forge_state(&permit_name(connection, number)).await?;
    let text = |name: &str| state.body.get(name).and_then(Value::as_str);
    let is_same = text("commit").is_some_and(|known| known.eq_ignore_ascii_case(commit));
    Ok(text("by").filter(|_| is_same).map(str::to_owned))
}
