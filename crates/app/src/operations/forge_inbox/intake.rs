//! Makes tickets of issues, with their dependencies, and writes the state of tickets back to their
//! issues: one comment that is edited in place, a label, a transition, a link.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use flow::intake::{IssueProgress, ticket_id_of_issue};
use flow::ticket::IssueOrigin;
use flow::{Ticket, TicketId};
use forge::neutral::{neutralise, neutralise_line_of};
use forge::{CommentDraft, CommentTopic, IssueGoal, IssueLink, LabelEdit, TrackedIssue};
use serde_json::json;
use store::ForgeState;

use super::{ForgeInbox, Progress};
use crate::failure::Failure;
use crate::operations::connections::LinkedForge;
use crate::operations::forge_connection::forge_failure;
use crate::operations::{project, tickets};
use crate::settings::connections::StatusNames;
use crate::settings::ticket_fields::TITLE_CHARS_MAX;
use crate::settings::ticket_file;

/// Maximum number of issues that one issue brings along, over all levels.
/// Each issue is two or three calls, and each ticket costs money.
const FAMILY_MAX: usize = 50;
/// Maximum size of the text of an issue that becomes a description.
const TEXT_CHARS_MAX: usize = 60_000;

impl ForgeInbox {
    /// Makes a ticket of an issue and of the wanted issues that it waits for.
    pub(super) async fn take_in(
        &self,
        client: &LinkedForge,
        key: &str,
    ) -> Result<Progress, Failure> {
        // The whole family is read before anything is written, so that either all become tickets or
        // none.
        let mut waiting = Vec::new();
        // The first issue is wanted already; its family is asked about.
        let mut order = vec![key.to_owned()];
        let mut issues: Vec<TrackedIssue> = Vec::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        while let Some(next) = order.pop() {
            // People link issues in circles, so each is read once.
            if seen.len() >= FAMILY_MAX || !seen.insert(next.clone()) {
                continue;
            }
            let found = client.tracker().issue(&next).await.map_err(forge_failure)?;
            let Some(issue) = found else {
                continue;
            };
            // A ticket that is there already is a dependency as it is, and brings no family along.
            if issue.closed || self.is_ticket(client, &next).await? {
                continue;
            }
            let is_first = next == key;
            if !is_first
                && !self
                    .is_wanted(client, &issue, client.own_login().await?)
                    .await?
            {
                // Nobody has asked for this one. Making a ticket of it would spend money that
                // nobody approved.
                waiting.push(next);
                continue;
            }
            order.extend(needs(&issue));
            issues.push(issue);
        }
        if !waiting.is_empty() {
            self.say_what_it_waits_for(client, key, &waiting).await?;
            // Tried again, because the label may be given, or the issue closed, at any time.
            return Ok(Progress::Later);
        }
        let requests = self.requests(client, issues).await?;
        if requests.is_empty() {
            return Ok(Progress::Done);
        }
        let mut requests = requests;
        let directory: &Path = &client.link.directory;
        let policy =
            project::assign_current_repository(&self.app, directory, &mut requests).await?;
        let added = tickets::add(&self.app, requests, &policy).await?;
        for ticket in added {
            let body = json!({"connection": client.name(), "ticket": ticket.id,
                "why": format!("an issue of {} became ticket {}", client.name(), ticket.id)});
            self.note("issue_taken_in", body).await;
        }
        Ok(Progress::Done)
    }

    async fn is_ticket(&self, client: &LinkedForge, key: &str) -> Result<bool, Failure> {
        match ticket_id_of_issue(client.name(), key) {
            Some(id) => self.has_ticket(id.as_str()).await,
            None => Ok(false),
        }
    }

    async fn requests(
        &self,
        client: &LinkedForge,
        issues: Vec<TrackedIssue>,
    ) -> Result<Vec<ticket_file::TicketRequest>, Failure> {
        let mut requests = Vec::new();
        let ids: BTreeSet<TicketId> = issues
            .iter()
            .filter_map(|issue| ticket_id_of_issue(client.name(), &issue.key))
            .collect();
        for issue in &issues {
            let mut depends_on = BTreeSet::new();
            for need in needs(issue) {
                let Some(id) = ticket_id_of_issue(client.name(), &need) else {
                    continue;
                };
                // A closed issue without a ticket is done and no dependency.
                if ids.contains(&id) || self.has_ticket(id.as_str()).await? {
                    depends_on.insert(id);
                }
            }
            requests.push(request(client, issue, depends_on)?);
        }
        break_cycles(&mut requests);
        Ok(requests)
    }

    async fn say_what_it_waits_for(
        &self,
        client: &LinkedForge,
        key: &str,
        waiting: &[String],
    ) -> Result<(), Failure> {
        let list = neutralise_line_of(&waiting.join(", "));
        let body = format!(
            "Countersign waits with this issue: {list} must be done first and has no ticket. Close it, or give it the label `{}`.",
            client.link.section.intake_label
        );
        self.comment_once(client, key, "ticket", body).await
    }

    /// Writes a comment that is edited in place, if it says something new.
    async fn comment_once(
        &self,
        client: &LinkedForge,
        key: &str,
        topic: &str,
        body: String,
    ) -> Result<(), Failure> {
        let store = &self.app.coordinator.store;
        let name = format!("comment/{}/{key}/{topic}", client.name());
        let state = store.forge_state(&name).await?;
        let hash = json!(engine::hash::short_sha256(body.as_bytes()));
        // Only the hash is kept: the text is on the forge, and a look at it there would cost a
        // call.
        if state.body == hash {
            return Ok(());
        }
        let draft = CommentDraft {
            on: key.to_owned(),
            topic: CommentTopic(topic.to_owned()),
            body,
        };
        let written = client.tracker().ensure_comment(&draft).await;
        written.map_err(forge_failure)?;
        // Remembered after it was written: a crash in between writes the same comment again, and
        // the adapter finds it.
        store
            .put_forge_state(ForgeState {
                body: hash,
                ..state
            })
            .await?;
        Ok(())
    }

    /// Writes the state of a ticket to its issue, if it is another than the last one.
    pub(super) async fn report_issue(
        &self,
        client: &LinkedForge,
        ticket: &str,
    ) -> Result<Progress, Failure> {
        let stored = match self.app.ticket(ticket).await {
            Ok(stored) => stored,
            // The database may have been restored from before the ticket was made.
            Err(failure) if failure.not_found => return Ok(Progress::Done),
            Err(failure) => return Err(failure),
        };
        let ticket = &stored.ticket;
        let Some((_, key)) = self.issue_of(ticket) else {
            return Ok(Progress::Done);
        };
        let progress = IssueProgress::of(ticket);
        self.comment_once(client, &key, "ticket", comment_text(ticket, progress))
            .await?;
        let store = &self.app.coordinator.store;
        let name = format!("issue/{}/{key}", client.name());
        let state = store.forge_state(&name).await?;
        let link = ticket.change.as_ref().map(|change| change.url.clone());
        // What people changed on the issue by hand meanwhile is left as it is, until the ticket
        // moves on.
        let wanted = json!({"progress": progress.word(), "link": link});
        if state.body == wanted {
            return Ok(Progress::Done);
        }
        for goal in goals(client, ticket, progress) {
            let ensured = client.tracker().ensure_issue_state(&key, &goal).await;
            match ensured {
                Ok(()) => {}
                // A workflow without this status, or without a way to it, is the project's own.
                Err(
                    error @ (forge::ForgeError::Refused { .. }
                    | forge::ForgeError::Unsupported { .. }),
                ) => {
                    let body = json!({"connection": client.name(), "issue": key,
                        "why": format!("issue {key} could not be changed: {error}")});
                    self.note("issue_not_changed", body).await;
                }
                Err(error) => return Err(forge_failure(error)),
            }
        }
        store
            .put_forge_state(ForgeState {
                body: wanted,
                ..state
            })
            .await?;
        Ok(Progress::Done)
    }
}

/// Returns the keys of the issues that an issue waits for: its blockers and its parts.
fn needs(issue: &TrackedIssue) -> Vec<String> {
    let both = issue.blocked_by.iter().chain(&issue.sub_issues);
    let mut needs: Vec<String> = both.filter(|need| **need != issue.key).cloned().collect();
    // A part is often a blocker too.
    needs.dedup();
    needs
}

fn request(
    client: &LinkedForge,
    issue: &TrackedIssue,
    depends_on: BTreeSet<TicketId>,
) -> Result<ticket_file::TicketRequest, Failure> {
    let title = findings::shorten(&findings::one_line(&issue.title), TITLE_CHARS_MAX - 1);
    let body = findings::shorten(&findings::clean(&issue.body), TEXT_CHARS_MAX);
    // Read like a ticket file, so that acceptance criteria in an issue mean the same.
    let text = format!("# {title}\n\n{body}\n");
    let mut request = ticket_file::read(&format!("issue {}", issue.key), text.as_bytes())?;
    request.id = ticket_id_of_issue(client.name(), &issue.key);
    // A heading in the issue's text would otherwise win over its title.
    request.spec.title = title;
    request.spec.depends_on = depends_on;
    let context = &mut request.spec.context;
    context.issue = Some(IssueOrigin {
        connection: client.name().to_owned(),
        key: issue.key.clone(),
        url: findings::one_line(&issue.url),
    });
    if client.link.is_tracker() {
        context.jira_key = Some(issue.key.clone());
    } else {
        context.github_repo = Some(client.link.section.repository.clone());
    }
    Ok(request)
}

/// Removes dependencies that close a circle. People link issues in circles, and none of them could
/// ever start.
fn break_cycles(requests: &mut [ticket_file::TicketRequest]) {
    for _ in 0..FAMILY_MAX {
        let graph = requests
            .iter()
            .filter_map(|request| Some((request.id.clone()?, request.spec.depends_on.clone())))
            .collect();
        if flow::graph::topological_order(&graph).is_ok() {
            return;
        }
        // One edge within the family at a time, from the last issue that has one.
        let ids: BTreeSet<TicketId> = graph.into_keys().collect();
        let mut last = requests.iter_mut().rev();
        let Some(request) = last.find(|request| !request.spec.depends_on.is_disjoint(&ids)) else {
            return;
        };
        let inner = request.spec.depends_on.intersection(&ids).last().cloned();
        if let Some(inner) = inner {
            request.spec.depends_on.remove(&inner);
        }
    }
}

fn comment_text(ticket: &Ticket, progress: IssueProgress) -> String {
    let mut text = format!(
        "Countersign works on this as ticket `{}`: **{}**.",
        ticket.id,
        progress.word()
    );
    if let Some(change) = &ticket.change {
        let _ = write!(text, "\n\nPull request: {}", change.url);
    }
    if let Some(escalation) = &ticket.escalation {
        let reason = flow::narrate::describe_reason(&escalation.reason);
        let _ = write!(text, "\n\nA person has to decide: {}", neutralise(&reason));
    }
    if let Some(ended) = &ticket.ended {
        let _ = write!(text, "\n\n{}", neutralise(ended));
    }
    text
}

/// Returns the changes of an issue for a state of its ticket.
fn goals(client: &LinkedForge, ticket: &Ticket, progress: IssueProgress) -> Vec<IssueGoal> {
    let mut goals = Vec::new();
    if let Some(change) = &ticket.change {
        goals.push(IssueGoal::Linked(IssueLink {
            // The tool of agents links a pull request by the same id.
            id: format!("countersign-{}", change.url),
            url: change.url.clone(),
            title: format!("Pull request {}", change.number),
        }));
    }
    if client.link.is_tracker() {
        let status = status_of(&client.link.section.statuses, progress);
        goals.extend(status.map(|status| IssueGoal::Status(status.to_owned())));
        return goals;
    }
    let label = |progress: IssueProgress| format!("countersign: {}", progress.word());
    // One label of ours at a time; the others of the issue are not touched.
    let others = IssueProgress::ALL
        .into_iter()
        .filter(|one| *one != progress);
    goals.push(IssueGoal::Labels(LabelEdit {
        add: vec![label(progress)],
        remove: others.map(label).collect(),
    }));
    // A ticket that ended without landing leaves the issue open: what was wanted is not there.
    if progress == IssueProgress::Done && ticket.landed.is_some() {
        goals.push(IssueGoal::Done);
    }
    goals
}

fn status_of(names: &StatusNames, progress: IssueProgress) -> Option<&str> {
    let name = match progress {
        IssueProgress::Working => &names.working,
        IssueProgress::InReview => &names.code_review,
        IssueProgress::Approved => &names.approved,
        IssueProgress::ChangesRequested => &names.changes_requested,
        IssueProgress::Done => &names.done,
        // A person moves what waits for a person.
        IssueProgress::Waiting | IssueProgress::NeedsPerson | IssueProgress::Stopped => {
            return None;
        }
    };
    Some(name.as_str()).filter(|name| !name.is_empty())
}
