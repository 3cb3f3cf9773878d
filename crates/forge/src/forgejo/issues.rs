//! Issues, comments and reactions on Forgejo and Gitea.

use async_trait::async_trait;
use serde_json::json;

use super::{CAPABILITIES, Forgejo, read};
use crate::body::{BODY_CHARS_MAX, cut_body};
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

impl Forgejo {
    pub(super) async fn try_comment(
        &self,
        draft: &CommentDraft,
    ) -> Result<ForgeComment, ForgeError> {
        // The marker is in the body, because a comment has no other field for our key.
        let marked = marked("topic", &draft.topic.0, &draft.body);
        let body = cut_body(&marked, BODY_CHARS_MAX, CUT_NOTICE);
        let path = self.path(&format!("/issues/{}/comments", encoded(&draft.on)));
        let found = self.comments_on(&draft.on, "").await?;
        let found = self.own_among(found, "topic", &draft.topic.0).await?;
        let request = json!({"body": body});
        let written = match found {
            // An equal text is not written again, because every edit marks the comment as edited.
            Some(found) if text(&found, "body") == body => found,
            Some(found) => {
                let path = self.path(&format!("/issues/comments/{}", id(&found)));
                self.rest.write("PATCH", &path, &request).await?
            }
            None => self.rest.write("POST", &path, &request).await?,
        };
        Ok(ForgeComment {
            id: id(&written),
            author: text(&written["user"], "login"),
            body,
        })
    }

    async fn try_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError> {
        let state = match goal {
            IssueGoal::Open => "open",
            // Forgejo keeps no reason for closing an issue.
            IssueGoal::Done | IssueGoal::NotPlanned => "closed",
            IssueGoal::Labels(edit) => return self.try_labels(key, edit).await.map(drop),
            // An issue has no list of links, so a comment with a topic of its own is the link.
            IssueGoal::Linked(link) => {
                let draft = CommentDraft {
                    on: key.to_owned(),
                    topic: CommentTopic(format!("link:{}", link.id)),
                    body: format!("[{}]({})", link.title, link.url),
                };
                return self.try_comment(&draft).await.map(drop);
            }
            IssueGoal::Status(_) => {
                return Err(ForgeError::Unsupported {
                    forge: "Forgejo",
                    what: "status of an issue besides open and closed",
                });
            }
        };
        let path = self.path(&format!("/issues/{}", encoded(key)));
        // A write that changes nothing would still count against the pace of writes.
        if self.rest.get(&path).await?["state"] == state {
            return Ok(());
        }
        let request = json!({"state": state});
        self.rest.write("PATCH", &path, &request).await.map(drop)
    }
}

#[async_trait]
impl Tracker for Forgejo {
    fn capabilities(&self) -> ForgeCapabilities {
        CAPABILITIES
    }

    async fn whoami(&self) -> Result<ForgeAccount, ForgeError> {
        let login = self.own_login().await?.to_owned();
        let repository = self.rest.get(&self.root).await?;
        let may = |name: &str| repository["permissions"][name] == true;
        let permission = match () {
            () if may("admin") => ForgePermission::Admin,
            () if may("push") => ForgePermission::Write,
            () if may("pull") => ForgePermission::Read,
            () => ForgePermission::None,
        };
        Ok(ForgeAccount {
            obstacle: WriteObstacle::find(
                &self.repository,
                repository["archived"] == true,
                &text(&repository, "full_name"),
            ),
            login,
            permission,
            capabilities: CAPABILITIES,
        })
    }

    async fn permission_of(&self, login: &str) -> Result<ForgePermission, ForgeError> {
        let path = self.path(&format!("/collaborators/{}/permission", encoded(login)));
        let found = self.rest.get_maybe(&path).await?;
        // A login that is unknown and one that is no collaborator are both 404. Neither may do
        // anything.
        Ok(found.map_or(ForgePermission::None, |found| {
            read::permission(&text(&found, "permission"))
        }))
    }

    async fn issue(&self, key: &str) -> Result<Option<TrackedIssue>, ForgeError> {
        let path = self.path(&format!("/issues/{}", encoded(key)));
        let Some(found) = self.rest.get_maybe(&path).await? else {
            return Ok(None);
        };
        // Pull requests are issues too, with numbers from the same sequence.
        if !found["pull_request"].is_null() {
            return Ok(None);
        }
        let mut issue = read::issue(&found);
        // Dependencies can be switched off for a repository, and are then not found.
        let waits_for = self.rest.get_maybe(&format!("{path}/dependencies")).await?;
        let waits_for = waits_for.unwrap_or_default();
        let waits_for = entries(&waits_for).iter();
        issue.blocked_by = waits_for
            .map(|one| number(one, "number").to_string())
            .collect();
        Ok(Some(issue))
    }

    async fn issues_since(
        &self,
        filter: &IssueFilter,
        cursor: &ForgeCursor,
    ) -> Result<IssuePage, ForgeError> {
        if filter.query.is_some() {
            return Err(ForgeError::Unsupported {
                forge: "Forgejo",
                what: "query for issues: use a label or an assignee",
            });
        }
        // Only open issues are asked for, because a closed one starts nothing.
        let mut path = self.path("/issues?state=open&type=issues");
        if !filter.labels.is_empty() {
            path.push_str(&parameter('&', "labels", &filter.labels.join(",")));
        }
        if let Some(assignee) = &filter.assignee {
            path.push_str(&parameter('&', "assigned_by", assignee));
        }
        if !cursor.updated_at.is_empty() {
            path.push_str(&parameter('&', "since", &cursor.updated_at));
        }
        let found = self.list(&path).await?;
        // A label that the repository does not have filters nothing, so the filter is applied again.
        let has = |issue: &TrackedIssue| {
            let mut labels = filter.labels.iter();
            labels.all(|name| {
                issue
                    .labels
                    .iter()
                    .any(|one| one.eq_ignore_ascii_case(name))
            })
        };
        // A server that does not know `type` returns pull requests as well.
        let found = found.iter().filter(|issue| issue["pull_request"].is_null());
        let mut issues: Vec<_> = found.map(read::issue).filter(has).collect();
        // The answer is not sorted by update, and the cursor is the newest update.
        issues.sort_by(|one, other| times::compare(&one.updated_at, &other.updated_at));
        let newest = issues.last().map(|issue| issue.updated_at.clone());
        Ok(IssuePage {
            issues,
            cursor: ForgeCursor {
                // An empty page keeps the cursor. Our own clock would lose what happens before it
                // by the server's clock.
                updated_at: newest.unwrap_or_else(|| cursor.updated_at.clone()),
                etag: None,
            },
        })
    }

    async fn comments_since(&self, query: &CommentQuery) -> Result<CommentPage, ForgeError> {
        let own = self.own_login().await?.to_owned();
        let since = &query.cursor.updated_at;
        let filter = match since.as_str() {
            "" => String::new(),
            since => parameter('?', "since", since),
        };
        let found = if let Some(on) = &query.on {
            self.comments_on(on, &filter).await?
        } else {
            let path = self.path(&format!("/issues/comments{filter}"));
            self.list(&path).await?
        };
        // The list of a whole repository names the issue of a comment only by its address.
        let comment = |entry| read::comment(entry, &read::belongs_to(entry), &own);
        let mut comments: Vec<_> = found.iter().map(comment).collect();
        for comment in &mut comments {
            if let (true, Some(on)) = (comment.comment.on.is_empty(), &query.on) {
                comment.comment.on.clone_from(on);
            }
        }
        // Not `>`: times have seconds only, and a second comment of the same second would be lost.
        // The jobs that they queue have keys, so a repetition does nothing.
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
        let content = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "+1",
            Reaction::Refused => "confused",
        };
        let path = self.path(&format!(
            "/issues/comments/{}/reactions",
            encoded(&comment.id)
        ));
        // The second one of a kind is answered with 200.
        let request = json!({"content": content});
        until_answered!(self.rest.write("POST", &path, &request)).map(drop)
    }
}
