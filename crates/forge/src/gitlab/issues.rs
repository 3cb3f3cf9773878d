//! Issues, notes and reactions on GitLab.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::read;
use super::{BODY_CHARS_MAX, CAPABILITIES, Gitlab, PAGE};
use crate::body::cut_body;
use crate::feedback::{
    CommentPage, CommentQuery, CommentRef, IssueFilter, IssueGoal, IssuePage, Reaction,
};
use crate::json::{entries, id, number, text};
use crate::marker::marked;
use crate::model::{
    CommentDraft, CommentTopic, ForgeAccount, ForgeCapabilities, ForgeComment, ForgeCursor,
    ForgePermission, TrackedIssue, WriteObstacle,
};
use crate::rest::{encoded, parameter, until_answered};
use crate::review_plan::CUT_NOTICE;
use crate::{ForgeError, Tracker, times};

/// Levels of access, as GitLab counts them.
const DEVELOPER: u64 = 30;
const MAINTAINER: u64 = 40;

/// Guests and reporters read, developers push, maintainers and owners administer.
fn permission(level: u64) -> ForgePermission {
    match level {
        0 => ForgePermission::None,
        1..DEVELOPER => ForgePermission::Read,
        DEVELOPER..MAINTAINER => ForgePermission::Write,
        _ => ForgePermission::Admin,
    }
}

impl Gitlab {
    /// Returns the path of an issue (`#7`) or of a change (`7`).
    fn noteable(&self, on: &str) -> String {
        match on.strip_prefix('#') {
            Some(issue) => self.path(&format!("/issues/{}", encoded(issue))),
            // Issues and merge requests are counted separately, so one number names two things.
            None => self.path(&format!("/merge_requests/{}", encoded(on))),
        }
    }

    fn issue_path(&self, key: &str) -> String {
        let number = key.strip_prefix('#').unwrap_or(key);
        self.path(&format!("/issues/{}", encoded(number)))
    }

    async fn try_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError> {
        let marked = marked("topic", &draft.topic.0, &draft.body);
        // GitLab refuses a longer note instead of cutting it.
        let body = cut_body(&marked, BODY_CHARS_MAX, CUT_NOTICE);
        let path = format!("{}/notes", self.noteable(&draft.on));
        let found = self.find_own(&path, "topic", &draft.topic.0).await?;
        let request = json!({"body": body});
        let written = match found {
            Some(found) if text(&found, "body") == body => found,
            Some(found) => {
                let path = format!("{path}/{}", id(&found));
                self.rest.write("PUT", &path, &request).await?
            }
            None => self.rest.write("POST", &path, &request).await?,
        };
        Ok(ForgeComment {
            id: id(&written),
            author: text(&written["author"], "username"),
            body,
        })
    }

    async fn try_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError> {
        let path = self.issue_path(key);
        let (state, event) = match goal {
            IssueGoal::Open => ("opened", "reopen"),
            // GitLab keeps no reason for closing, so a plan that was dropped looks like one that
            // was done.
            IssueGoal::Done | IssueGoal::NotPlanned => ("closed", "close"),
            IssueGoal::Labels(edit) => return self.try_labels(&path, edit).await.map(drop),
            // Links of GitLab go to its own issues only, so the address of a pull request becomes a
            // note.
            IssueGoal::Linked(link) => {
                let number = key.strip_prefix('#').unwrap_or(key);
                let draft = CommentDraft {
                    on: format!("#{number}"),
                    topic: CommentTopic(format!("link:{}", link.id)),
                    body: format!("[{}]({})", link.title, link.url),
                };
                return self.try_comment(&draft).await.map(drop);
            }
            IssueGoal::Status(_) => {
                return Err(ForgeError::Unsupported {
                    forge: "GitLab",
                    what: "status of an issue besides open and closed",
                });
            }
        };
        let found = self.rest.get(&path).await?;
        // The state is `opened` and the event `reopen`. A write that changes nothing would still
        // count against the pace of writes.
        if found["state"] == state {
            return Ok(());
        }
        let request = json!({"state_event": event});
        self.rest.write("PUT", &path, &request).await.map(drop)
    }

    async fn try_react(&self, comment: &CommentRef, name: &str) -> Result<(), ForgeError> {
        let own = self.own_login().await?;
        let note = encoded(&comment.id);
        let path = format!("{}/notes/{note}/award_emoji", self.noteable(&comment.on));
        // A second award of the same name is an error, so look first.
        let found = self.rest.list(&path, PAGE).await?;
        let is_ours = |award: &Value| {
            award["name"] == name && text(&award["user"], "username").eq_ignore_ascii_case(own)
        };
        if found.iter().any(is_ours) {
            return Ok(());
        }
        self.rest
            .write("POST", &path, &json!({"name": name}))
            .await
            .map(drop)
    }
}

#[async_trait]
impl Tracker for Gitlab {
    fn capabilities(&self) -> ForgeCapabilities {
        CAPABILITIES
    }

    async fn whoami(&self) -> Result<ForgeAccount, ForgeError> {
        let login = self.own_login().await?.to_owned();
        let project = self.rest.get(&self.root).await?;
        let access = &project["permissions"];
        // A member of the group may have no entry in the project, and the higher of the two counts.
        let levels = ["project_access", "group_access"];
        let levels = levels.map(|name| number(&access[name], "access_level"));
        let level = levels.into_iter().max().unwrap_or_default();
        Ok(ForgeAccount {
            obstacle: WriteObstacle::find(
                &self.project,
                project["archived"] == true,
                &text(&project, "path_with_namespace"),
            ),
            login,
            // An answer proves that the account may read: the project may be public.
            permission: permission(level.max(1)),
            capabilities: CAPABILITIES,
        })
    }

    async fn permission_of(&self, login: &str) -> Result<ForgePermission, ForgeError> {
        let users = self
            .rest
            .get(&format!("/users?username={}", encoded(login)))
            .await?;
        // The answer is a list; only the account with exactly this name counts.
        let mut users = entries(&users).iter();
        let user = users.find(|user| text(user, "username").eq_ignore_ascii_case(login));
        // A blocked account keeps its memberships. It must not command anything.
        let Some(user) = user.filter(|user| user["state"] != "blocked") else {
            return Ok(ForgePermission::None);
        };
        // `all` includes members of the groups above; the plain list has only those of the project.
        let path = self.path(&format!("/members/all/{}", id(user)));
        let member = self.rest.get_maybe(&path).await?;
        Ok(member.map_or(ForgePermission::None, |member| {
            permission(number(&member, "access_level"))
        }))
    }

    async fn issue(&self, key: &str) -> Result<Option<TrackedIssue>, ForgeError> {
        let path = self.issue_path(key);
        let Some(found) = self.rest.get_maybe(&path).await? else {
            return Ok(None);
        };
        let mut issue = read::issue(&found);
        let links = self
            .rest
            .get_maybe(&format!("{path}/links"))
            .await?
            .unwrap_or_default();
        for link in entries(&links) {
            let key = read::issue_key(link);
            // `blocks` and `relates_to` order nothing for this issue.
            if link["link_type"] == "is_blocked_by" {
                issue.blocked_by.push(key);
            } else {
                issue.links.push(key);
            }
        }
        Ok(Some(issue))
    }

    async fn issues_since(
        &self,
        filter: &IssueFilter,
        cursor: &ForgeCursor,
    ) -> Result<IssuePage, ForgeError> {
        if filter.query.is_some() {
            return Err(ForgeError::Unsupported {
                forge: "GitLab",
                what: "query for issues: use a label or an assignee",
            });
        }
        // Oldest update first, and one page at a time: the cursor moves to the end of the page, so
        // nothing is skipped and no call is unbounded.
        let mut path = self.path("/issues?state=opened&order_by=updated_at&sort=asc&per_page=100");
        if !filter.labels.is_empty() {
            path.push_str(&parameter('&', "labels", &filter.labels.join(",")));
        }
        if let Some(assignee) = &filter.assignee {
            path.push_str(&parameter('&', "assignee_username", assignee));
        }
        if !cursor.updated_at.is_empty() {
            path.push_str(&parameter('&', "updated_after", &cursor.updated_at));
        }
        let found = self.rest.get(&path).await?;
        let issues: Vec<TrackedIssue> = entries(&found).iter().map(read::issue).collect();
        let newest = times::newest(issues.iter().map(|issue| issue.updated_at.as_str()));
        Ok(IssuePage {
            issues,
            cursor: ForgeCursor {
                updated_at: newest.unwrap_or_else(|| cursor.updated_at.clone()),
                etag: None,
            },
        })
    }

    async fn comments_since(&self, query: &CommentQuery) -> Result<CommentPage, ForgeError> {
        let own = self.own_login().await?.to_owned();
        let since = &query.cursor.updated_at;
        let mut comments = Vec::new();
        if let Some(on) = &query.on {
            let path = format!("{}/notes?order_by=updated_at&sort=asc", self.noteable(on));
            // The notes of one issue cannot be asked for by time, so all are read and filtered
            // below.
            let notes = self.rest.list(&path, PAGE).await?;
            comments.extend(
                notes
                    .iter()
                    .filter_map(|note| read::comment(note, on, &own, &self.pages)),
            );
        } else {
            // GitLab has no list of all notes; its events have them, by the day.
            let mut path = self.path("/events?target_type=note&sort=asc");
            // `after` excludes its day, so the day before the cursor's is given.
            if let Some(day) = since.get(..10) {
                path.push_str(&parameter('&', "after", &read::day_before(day)));
            }
            for event in self.rest.list(&path, PAGE).await? {
                let note = &event["note"];
                let number = number(note, "noteable_iid");
                let on = match note["noteable_type"].as_str() {
                    Some("MergeRequest") => number.to_string(),
                    Some("Issue") => format!("#{number}"),
                    // Notes on commits and snippets belong to no ticket.
                    _ => continue,
                };
                comments.extend(read::comment(note, &on, &own, &self.pages));
            }
        }
        comments.retain(|comment| times::is_since(&comment.updated_at, since));
        comments.sort_by(|one, other| times::compare(&one.updated_at, &other.updated_at));
        let newest = comments.last().map(|comment| comment.updated_at.clone());
        Ok(CommentPage {
            comments,
            cursor: ForgeCursor {
                updated_at: newest.unwrap_or_else(|| since.clone()),
                etag: None,
            },
        })
    }

    async fn ensure_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError> {
        until_answered!(self.try_comment(draft))
    }

    async fn ensure_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError> {
        until_answered!(self.try_issue_state(key, goal))
    }

    async fn react(&self, comment: &CommentRef, reaction: Reaction) -> Result<(), ForgeError> {
        let name = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "thumbsup",
            Reaction::Refused => "confused",
        };
        until_answered!(self.try_react(comment, name))
    }
}
