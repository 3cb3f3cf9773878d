//! Looks at a place on a forge: queues its commands, wakes its ticket, or queues a review.

use flow::Time;
use flow::intake::{ArrivedChange, ArrivedIssue, IntakeRules, ReviewRules};
use forge::command::parse_command;
use forge::{
    ChangeKey, ChangeState, CommentKind, CommentQuery, ForgeChange, ForgeCursor, PersonComment,
    TrackedIssue,
};
use serde_json::json;
use store::ForgeState;

use super::{ForgeInbox, Progress};
use crate::failure::Failure;
use crate::operations::change_reports::queue_report;
use crate::operations::connections::LinkedForge;
use crate::operations::forge_connection::forge_failure;
use crate::operations::forge_work::{ForgeJob, ForgeSubject, ForgeTask, FoundCommand, queue_once};

/// Maximum number of pages of comments that one look reads. The next look reads on.
const COMMENT_PAGES_MAX: usize = 10;

impl ForgeInbox {
    pub(super) async fn look(
        &self,
        client: &LinkedForge,
        subject: &ForgeSubject,
    ) -> Result<Progress, Failure> {
        match subject {
            ForgeSubject::Change(number) => self.look_at_change(client, *number).await?,
            ForgeSubject::Branch(name) => self.look_at_branch(client, name).await?,
            ForgeSubject::Issue(key) => self.look_at_issue(client, key).await?,
            // The webhook named no place. The poller finds out what has changed.
            ForgeSubject::Repository => self.ask_soon(client.name()).await?,
        }
        Ok(Progress::Done)
    }

    /// Looks at the open change of a branch, if there is one.
    async fn look_at_branch(&self, client: &LinkedForge, name: &str) -> Result<(), Failure> {
        let Some(forge) = client.forge() else {
            return Ok(());
        };
        let found = forge.find_change(&ChangeKey::Branch(name.to_owned())).await;
        match found.map_err(forge_failure)? {
            Some(change) => self.look_at_change(client, change.number).await,
            None => Ok(()),
        }
    }

    async fn look_at_change(&self, client: &LinkedForge, number: u64) -> Result<(), Failure> {
        let Some(forge) = client.forge() else {
            return Ok(());
        };
        let found = forge.find_change(&ChangeKey::Number(number)).await;
        let Some(change) = found.map_err(forge_failure)? else {
            return Ok(());
        };
        // Commands first: one of them may cancel what the rest of this look would start.
        self.queue_commands(client, &ForgeSubject::Change(number))
            .await?;
        if let Some(ticket) = self.ticket_of_change(client, &change).await? {
            let why = format!("change {number} was updated");
            match queue_report(&self.app, &ticket, &why).await {
                Ok(_) => {}
                // Its stage wants no look, for example because it has ended.
                Err(failure) if failure.exit == crate::failure::ExitKind::Refused => {}
                Err(failure) => return Err(failure),
            }
            return Ok(());
        }
        // No ticket of ours: the rules of the connection say whether it is reviewed.
        let rules = review_rules(client, client.own_login().await?);
        if let Some(reason) = flow::intake::review_reason(&arrived_change(&change), &rules) {
            let job = ForgeJob::new(
                client.name(),
                ForgeTask::Review {
                    number,
                    head: change.head_commit.clone(),
                },
            );
            // One review for each head, however many webhooks and polls tell of it.
            let key = format!("review/{number}/{}", change.head_commit);
            if queue_once(&self.app, &key, &job).await? {
                let body = json!({"connection": client.name(), "change": number, "head": change.head_commit,
                    "rule": reason.word(), "why": format!("change {number} of {} is reviewed ({})", client.name(), reason.word())});
                self.note("change_review_queued", body).await;
            }
        }
        Ok(())
    }

    /// Returns whether a change matters here besides its comments: it belongs to a ticket, or a review
    /// is wanted.
    pub async fn minds_change(
        &self,
        client: &LinkedForge,
        change: &ForgeChange,
    ) -> Result<bool, Failure> {
        if self.ticket_of_change(client, change).await?.is_some() {
            return Ok(true);
        }
        let rules = review_rules(client, client.own_login().await?);
        Ok(flow::intake::review_reason(&arrived_change(change), &rules).is_some())
    }

    async fn look_at_issue(&self, client: &LinkedForge, key: &str) -> Result<(), Failure> {
        let issue = client.tracker().issue(key).await.map_err(forge_failure)?;
        let Some(issue) = issue else {
            return Ok(());
        };
        self.queue_commands(client, &ForgeSubject::Issue(key.to_owned()))
            .await?;
        let login = client.own_login().await?;
        let id = flow::intake::ticket_id_of_issue(client.name(), key);
        let is_ticket = match &id {
            Some(id) => self.has_ticket(id.as_str()).await?,
            // Without an id there can be no ticket, and no second look would change that.
            None => true,
        };
        if !is_ticket && self.is_wanted(client, &issue, login).await? {
            self.queue_intake(client.name(), key, &issue.updated_at)
                .await?;
        }
        Ok(())
    }

    pub(super) async fn queue_intake(
        &self,
        connection: &str,
        key: &str,
        cause: &str,
    ) -> Result<(), Failure> {
        let task = ForgeTask::TakeIn {
            key: key.to_owned(),
        };
        let name = format!("take-in/{key}/{cause}");
        queue_once(&self.app, &name, &ForgeJob::new(connection, task)).await?;
        Ok(())
    }

    /// Returns whether an issue becomes a ticket by the rules of its connection.
    pub(super) async fn is_wanted(
        &self,
        client: &LinkedForge,
        issue: &TrackedIssue,
        login: &str,
    ) -> Result<bool, Failure> {
        let section = &client.link.section;
        let rules = IntakeRules {
            label: Some(section.intake_label.clone()).filter(|label| !label.is_empty()),
            account: section.intake_assigned.then(|| login.to_owned()),
            all: false,
        };
        let facts = ArrivedIssue {
            labels: issue.labels.clone(),
            assignees: issue.assignees.clone(),
            is_closed: issue.closed,
        };
        // A query of the project takes the place of label and assignee.
        let Some(jql) = &section.jql else {
            return Ok(flow::intake::is_wanted(&facts, &rules));
        };
        if issue.closed {
            return Ok(false);
        }
        // Only the tracker can say whether its query has the issue. The key is one of its own.
        let query = format!(
            "key = \"{}\" AND ({jql})",
            issue.key.replace(['"', '\\'], "")
        );
        let filter = forge::IssueFilter {
            query: Some(query),
            ..forge::IssueFilter::default()
        };
        let tracker = client.tracker();
        let start = ForgeCursor::default();
        let page = tracker.issues_since(&filter, &start).await;
        let page = page.map_err(forge_failure)?;
        Ok(page.issues.iter().any(|found| found.key == issue.key))
    }

    pub(super) async fn has_ticket(&self, id: &str) -> Result<bool, Failure> {
        match self.app.ticket(id).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.not_found => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Queues the commands in the comments of a place. Each comment is obeyed once.
    async fn queue_commands(
        &self,
        client: &LinkedForge,
        subject: &ForgeSubject,
    ) -> Result<(), Failure> {
        let Some(on) = subject.on() else {
            return Ok(());
        };
        let store = &self.app.coordinator.store;
        let state = store
            .forge_state(&format!("seen/{}/{on}", client.name()))
            .await?;
        let seen = state.body.as_str().unwrap_or_default().to_owned();
        let mut query = CommentQuery {
            on: Some(on),
            ..CommentQuery::default()
        };
        query.cursor.updated_at.clone_from(&seen);
        for _ in 0..COMMENT_PAGES_MAX {
            let page = client.tracker().comments_since(&query).await;
            let page = page.map_err(forge_failure)?;
            // Oldest first, so that commands are obeyed in the order in which they were written.
            for comment in &page.comments {
                self.queue_command(client, subject, comment).await?;
            }
            // The page brought nothing newer, so it was the last one.
            if page.cursor.updated_at == query.cursor.updated_at {
                break;
            }
            query.cursor = ForgeCursor {
                updated_at: page.cursor.updated_at,
                etag: None,
            };
        }
        // Written after the commands are queued: a crash in between reads the same comments again.
        if query.cursor.updated_at != seen {
            let body = json!(query.cursor.updated_at);
            store.put_forge_state(ForgeState { body, ..state }).await?;
        }
        Ok(())
    }

    async fn queue_command(
        &self,
        client: &LinkedForge,
        subject: &ForgeSubject,
        comment: &PersonComment,
    ) -> Result<(), Failure> {
        // Our own answers quote commands, and are the most frequent comments.
        if comment.is_own || parse_command(&comment.body).is_none() {
            return Ok(());
        }
        // Commands from before the connection was made are history.
        let start = self.connected_since(client.name()).await?;
        // Their clock and ours may differ by more than a minute.
        let written = Time::parse_iso(&comment.created_at);
        let written = written.map(|written| client.meter.by_our_clock(written));
        // A time that cannot be read is taken for an old one: obeying too little is the safe side.
        if written.is_none_or(|written| written < start) {
            return Ok(());
        }
        let found = FoundCommand {
            subject: subject.clone(),
            comment: comment.comment.id.clone(),
            inline: comment.comment.kind == CommentKind::Inline,
            author: comment.author.clone(),
            is_bot: comment.is_bot,
            is_own: comment.is_own,
            edited: comment.edited,
            // A command is a line, and the words for a rework some more. A job is no place for a
            // novel.
            text: findings::shorten(&comment.body, 4000),
        };
        let kind = if found.inline { "inline" } else { "plain" };
        // The two kinds of comments are counted separately, so one number may name two comments.
        let key = format!("command/{kind}/{}", found.comment);
        let job = ForgeJob::new(client.name(), ForgeTask::Command(found));
        queue_once(&self.app, &key, &job).await?;
        Ok(())
    }

    /// Returns when the connection was first used. It is written once for the whole fleet.
    pub async fn connected_since(&self, connection: &str) -> Result<Time, Failure> {
        let store = &self.app.coordinator.store;
        let state = store.forge_state(&format!("since/{connection}")).await?;
        if let Some(since) = state.body.as_i64() {
            return Ok(Time(since));
        }
        let now = self.app.now();
        // A minute of grace, because the clocks of the forge and of this machine differ.
        let since = Time(now.0 - 60_000);
        store
            .put_forge_state(ForgeState {
                body: json!(since.0),
                ..state
            })
            .await?;
        Ok(since)
    }

    /// Writes when the connections are first used, before any news arrives.
    pub async fn note_start(&self) -> Result<(), Failure> {
        for link in self.links.iter() {
            self.connected_since(link.name()).await?;
        }
        Ok(())
    }

    /// Returns the ticket that a change belongs to: the one that has its number, or, if the change
    /// was made by hand, the one whose branch it has.
    pub(super) async fn ticket_of_change(
        &self,
        client: &LinkedForge,
        change: &ForgeChange,
    ) -> Result<Option<String>, Failure> {
        // A fork may have a branch with any name. It must not speak for a ticket.
        if change.from_fork {
            return Ok(None);
        }
        let repository = client.git.common_dir().to_string_lossy().into_owned();
        let mut candidates = Vec::new();
        // The branch of a ticket ends with its id, whatever the template of the project is.
        let last = change.head_branch.rsplit('/').next().unwrap_or_default();
        candidates.push(last.to_owned());
        for id in candidates {
            // Most branches are no tickets, so a failure here is the usual case.
            let Ok(stored) = self.app.ticket(&id).await else {
                continue;
            };
            let ticket = &stored.ticket;
            let context = &ticket.spec.context;
            let has_number =
                ticket.change.as_ref().map(|known| known.number) == Some(change.number);
            let has_branch = context.branch.as_deref() == Some(change.head_branch.as_str())
                || change.head_branch == format!("countersign/{}", ticket.id);
            // The same id may exist in another repository of this server.
            if context.repository.as_ref() == Some(&repository) && (has_number || has_branch) {
                return Ok(Some(ticket.id.to_string()));
            }
        }
        Ok(None)
    }

    /// Makes the poller ask at its next tick.
    async fn ask_soon(&self, connection: &str) -> Result<(), Failure> {
        super::super::forge_poller::ask_soon(&self.app, connection).await
    }
}

fn review_rules(client: &LinkedForge, login: &str) -> ReviewRules {
    let section = &client.link.section;
    ReviewRules {
        label: Some(section.review_label.clone()).filter(|label| !label.is_empty()),
        account: section.review_assigned.then(|| login.to_owned()),
        base_branches: section.review_branches.clone(),
    }
}

fn arrived_change(change: &ForgeChange) -> ArrivedChange {
    ArrivedChange {
        labels: change.labels.clone(),
        // A wanted review by our account is as good as an assignment.
        assignees: change
            .assignees
            .iter()
            .chain(&change.reviewers)
            .cloned()
            .collect(),
        base_branch: change.base_branch.clone(),
        is_open: change.state == ChangeState::Open,
        is_draft: change.draft,
    }
}
