//! Issues, comments and reactions on GitHub.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::read::{self, entries, text};
use super::{CAPABILITIES, Github, PAGE};
use crate::feedback::{
    CommentKind, CommentPage, CommentQuery, CommentRef, IssueFilter, IssueGoal, IssuePage, Reaction,
};
use crate::model::{
    CommentDraft, CommentTopic, ForgeAccount, ForgeCapabilities, ForgeComment, ForgeCursor,
    ForgePermission, TrackedIssue, WriteObstacle,
};
use crate::rest::{encoded, parameter, parse_json, until_answered};
use crate::{ForgeError, Tracker, times};

impl Github {
    /// Reads one page of a list that changed, unless it is still the page of the entity tag.
    async fn page_since(
        &self,
        path: &str,
        etag: Option<&str>,
    ) -> Result<(Vec<Value>, Option<String>), ForgeError> {
        let more = etag.map(|etag| ("if-none-match", etag.to_owned()));
        let response = self.rest.get_with(path, more.as_slice()).await?;
        // Nothing has changed. Such an answer does not count against the limit of calls.
        if response.status == 304 {
            return Ok((Vec::new(), etag.map(str::to_owned)));
        }
        let next = response.header("etag").map(str::to_owned);
        Ok((entries(&parse_json(path, &response)?).to_vec(), next))
    }

    async fn try_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError> {
        // The reason is shown next to the state: a plan that was dropped does not look like work
        // done.
        let (state, reason) = match goal {
            IssueGoal::Open => ("open", Value::Null),
            IssueGoal::Done => ("closed", json!("completed")),
            IssueGoal::NotPlanned => ("closed", json!("not_planned")),
            IssueGoal::Labels(edit) => return self.try_labels(key, edit).await.map(drop),
            // Links between issues and pull requests are made from words in their texts, and not by
            // a call. A comment with a topic of its own says the same.
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
                    forge: "GitHub",
                    what: "status of an issue besides open and closed",
                });
            }
        };
        let path = self.path(&format!("/issues/{}", encoded(key)));
        // Looks first: a write that changes nothing would still count against the pace of writes.
        let found = self.rest.get(&path).await?;
        if found["state"] == state {
            return Ok(());
        }
        let request = json!({"state": state, "state_reason": reason});
        self.rest.write("PATCH", &path, &request).await.map(drop)
    }
}

#[async_trait]
impl Tracker for Github {
    fn capabilities(&self) -> ForgeCapabilities {
        ForgeCapabilities {
            has_check_runs: self.rest.is_app(),
            ..CAPABILITIES
        }
    }

    async fn whoami(&self) -> Result<ForgeAccount, ForgeError> {
        let login = self.own_login().await?.to_owned();
        let repository = self.rest.get(&self.root).await?;
        let permissions = &repository["permissions"];
        // From the most to the least: an administrator has all three.
        let may = |name: &str| permissions[name] == true;
        let permission = match () {
            () if may("admin") => ForgePermission::Admin,
            () if may("push") => ForgePermission::Write,
            () if may("pull") => ForgePermission::Read,
            () => ForgePermission::None,
        };
        Ok(ForgeAccount {
            login,
            permission,
            obstacle: WriteObstacle::find(
                &format!("{}/{}", self.owner, self.name),
                repository["archived"] == true,
                &text(&repository, "full_name"),
            ),
            capabilities: self.capabilities(),
        })
    }

    async fn permission_of(&self, login: &str) -> Result<ForgePermission, ForgeError> {
        let path = self.path(&format!("/collaborators/{}/permission", encoded(login)));
        let found = self.rest.get_maybe(&path).await?;
        Ok(found.map_or(ForgePermission::None, |found| {
            read::permission(&text(&found, "permission"))
        }))
    }

    async fn issue(&self, key: &str) -> Result<Option<TrackedIssue>, ForgeError> {
        let path = self.path(&format!("/issues/{}", encoded(key)));
        let Some(found) = self.rest.get_maybe(&path).await? else {
            return Ok(None);
        };
        // A pull request is an issue too, with a number from the same sequence.
        if !found["pull_request"].is_null() {
            return Ok(None);
        }
        let mut issue = read::issue(&found);
        let numbers = |value: Option<Value>| {
            let all = value.unwrap_or_default();
            entries(&all).iter().map(read::number).collect()
        };
        // Enterprise Server has these later than github.com.
        let blocked_by = format!("{path}/dependencies/blocked_by?per_page=100");
        issue.blocked_by = numbers(self.rest.get_maybe(&blocked_by).await?);
        let parts = format!("{path}/sub_issues?per_page=100");
        issue.sub_issues = numbers(self.rest.get_maybe(&parts).await?);
        Ok(Some(issue))
    }

    async fn issues_since(
        &self,
        filter: &IssueFilter,
        cursor: &ForgeCursor,
    ) -> Result<IssuePage, ForgeError> {
        if filter.query.is_some() {
            return Err(ForgeError::Unsupported {
                forge: "GitHub",
                what: "query for issues: use a label or an assignee",
            });
        }
        // Oldest update first, one page at a time: what does not fit is on the next page after the
        // cursor.
        let mut path = self.path("/issues?state=open&sort=updated&direction=asc&per_page=100");
        if !filter.labels.is_empty() {
            path.push_str(&parameter('&', "labels", &filter.labels.join(",")));
        }
        if let Some(assignee) = &filter.assignee {
            path.push_str(&parameter('&', "assignee", assignee));
        }
        if !cursor.updated_at.is_empty() {
            path.push_str(&parameter('&', "since", &cursor.updated_at));
        }
        let (found, etag) = self.page_since(&path, cursor.etag.as_deref()).await?;
        // GitHub lists pull requests as issues too; they move the cursor all the same.
        let newest = times::newest(found.iter().filter_map(|one| one["updated_at"].as_str()));
        let issues = found.iter().filter(|issue| issue["pull_request"].is_null());
        Ok(IssuePage {
            issues: issues.map(read::issue).collect(),
            cursor: read::advanced(cursor, newest, etag),
        })
    }

    async fn comments_since(&self, query: &CommentQuery) -> Result<CommentPage, ForgeError> {
        let own = self.own_login().await?.to_owned();
        let on = match &query.on {
            Some(on) => format!("/{}", encoded(on)),
            None => String::new(),
        };
        // Only the list of the whole repository has an order to choose.
        let (mut filter, sign) = match &query.on {
            Some(_) => (String::new(), '?'),
            None => ("?sort=updated&direction=asc&per_page=100".to_owned(), '&'),
        };
        let since = &query.cursor.updated_at;
        if !since.is_empty() {
            filter.push_str(&parameter(sign, "since", since));
        }
        let path = self.path(&format!("/issues{on}/comments{filter}"));
        let (plain, etag) = if query.on.is_some() {
            // The oldest come first, and one of them may have been edited just now, like our own
            // summary. So all are read before the cursor moves there.
            (self.rest.list(&path, PAGE).await?, None)
        } else {
            self.page_since(&path, query.cursor.etag.as_deref()).await?
        };
        let mut comments: Vec<_> = plain
            .iter()
            .map(|entry| read::comment(entry, CommentKind::Plain, &own))
            .collect();
        // A filter that is ignored must do no harm.
        comments.retain(|comment| times::is_since(&comment.updated_at, since));
        comments.sort_by(|one, other| times::compare(&one.updated_at, &other.updated_at));
        let newest = comments.last().map(|comment| comment.updated_at.clone());
        Ok(CommentPage {
            comments,
            cursor: read::advanced(&query.cursor, newest, etag),
        })
    }

    async fn ensure_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError> {
        until_answered!(self.try_comment(draft))
    }

    async fn ensure_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError> {
        until_answered!(self.try_issue_state(key, goal))
    }

    async fn react(&self, comment: &CommentRef, reaction: Reaction) -> Result<(), ForgeError> {
        // GitHub has eight reactions; these are the nearest to seen, done and refused.
        let content = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "+1",
            Reaction::Refused => "confused",
        };
        let list = match comment.kind {
            // The two kinds of comments are counted separately and have addresses of their own.
            CommentKind::Plain => "issues",
            CommentKind::Inline => "pulls",
        };
        let id = encoded(&comment.id);
        let path = self.path(&format!("/{list}/comments/{id}/reactions"));
        // GitHub keeps one reaction of a kind for an account, and answers 200 for the second.
        let request = json!({"content": content});
        until_answered!(self.rest.write("POST", &path, &request)).map(drop)
    }
}
