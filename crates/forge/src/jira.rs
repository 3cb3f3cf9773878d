//! Jira: Cloud (version 3, texts as documents) and Data Center (version 2, texts as wiki markup).
//!
//! It has issues only. A status is reached by its name: the numbers of transitions differ from
//! project to project and change when somebody edits the workflow.

mod document;
mod read;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::anchors::DiffLimits;
use crate::body::cut_body;
use crate::feedback::{
    CommentPage, CommentQuery, CommentRef, IssueFilter, IssueGoal, IssuePage, Reaction,
};
use crate::json::{entries, id, number, text};
use crate::marker::plain;
use crate::model::{
    CommentDraft, ForgeAccount, ForgeCapabilities, ForgeComment, ForgeCursor, ForgePermission,
    TrackedIssue,
};
use crate::rest::{RestClient, encoded, until_answered};
use crate::review_plan::CUT_NOTICE;
use crate::token::TokenHeader;
use crate::{ForgeConnection, ForgeError, Tracker, times};

const PAGE: u64 = 100;
const PAGES_MAX: u64 = 30;
/// Maximum number of characters of a comment.
const BODY_CHARS_MAX: usize = 32_767;
const FIELDS: [&str; 9] = [
    "summary",
    "description",
    "status",
    "labels",
    "assignee",
    "reporter",
    "issuelinks",
    "subtasks",
    "updated",
];
const CAPABILITIES: ForgeCapabilities = ForgeCapabilities {
    name: "Jira",
    has_changes: false,
    has_threads: false,
    has_check_runs: false,
    inline_outside_diff: false,
    has_reactions: false,
    author_may_approve: false,
    diff_limits: DiffLimits::NONE,
    body_chars_max: BODY_CHARS_MAX,
    head_refs: "refs/pull",
};

/// One project in Jira.
#[derive(Debug)]
pub struct Jira {
    rest: RestClient,
    project: String,
    /// True for Cloud, whose texts are documents.
    is_cloud: bool,
    account: OnceCell<String>,
}

impl Jira {
    /// Builds the adapter for a project key. The address of the API says which Jira it is: it ends
    /// with `/rest/api/3` or `/rest/api/2`. Nothing is sent.
    pub fn new(connection: ForgeConnection, project: &str) -> Result<Self, ForgeError> {
        let is_key = project.starts_with(|c: char| c.is_ascii_uppercase())
            && project
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        if !is_key {
            return Err(ForgeError::Address(format!(
                "{project:?} is not the key of a Jira project, such as PROJ"
            )));
        }
        let is_cloud = !connection.api.ends_with("/2");
        let headers = vec![
            ("accept", "application/json".to_owned()),
            ("user-agent", "countersign".to_owned()),
        ];
        Ok(Self {
            rest: RestClient::new(connection, TokenHeader::Bearer, headers)?,
            project: project.to_owned(),
            is_cloud,
            account: OnceCell::new(),
        })
    }

    /// Field by which this Jira names an account.
    fn account_field(&self) -> &'static str {
        if self.is_cloud { "accountId" } else { "name" }
    }

    async fn own_account(&self) -> Result<&str, ForgeError> {
        let account = self.account.get_or_try_init(|| async {
            let user = self.rest.get("/myself").await?;
            Ok(text(&user, self.account_field()))
        });
        account.await.map(String::as_str)
    }

    /// Returns the address of an issue. A key is of this project: a token may see others.
    fn issue_path(&self, key: &str) -> Result<String, ForgeError> {
        let number = key.strip_prefix(&self.project);
        let number = number.and_then(|rest| rest.strip_prefix('-'));
        let is_key = number
            .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()));
        if is_key {
            return Ok(format!("/issue/{key}"));
        }
        Err(ForgeError::NotFound {
            what: format!("issue {key:?} of the project {}", self.project),
        })
    }

    /// Writes a text as this Jira wants it.
    fn formatted(&self, body: &str) -> Value {
        if self.is_cloud {
            document::to_document(body)
        } else {
            json!(document::to_wiki(body))
        }
    }

    fn plain_text(body: &Value) -> String {
        match body {
            Value::String(text) => text.clone(),
            body => document::to_text(body),
        }
    }

    async fn comments(&self, key: &str) -> Result<Vec<Value>, ForgeError> {
        let path = format!("{}/comment", self.issue_path(key)?);
        let mut all = Vec::new();
        for page in 0..PAGES_MAX {
            let start = page * PAGE;
            let found = self
                .rest
                .get(&format!(
                    "{path}?startAt={start}&maxResults={PAGE}&orderBy=created"
                ))
                .await?;
            let comments = entries(&found["comments"]);
            all.extend(comments.iter().cloned());
            let seen = start + comments.len() as u64;
            if comments.is_empty() || seen >= number(&found, "total") {
                break;
            }
        }
        Ok(all)
    }

    async fn try_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError> {
        let own = self.own_account().await?;
        // Jira shows HTML comments, so the marker is an ordinary last line.
        let mark = plain("topic", &draft.topic.0);
        let room = BODY_CHARS_MAX / 2 - mark.chars().count();
        let body = format!("{}\n\n{mark}", cut_body(&draft.body, room, CUT_NOTICE));
        let formatted = self.formatted(&body);
        let path = format!("{}/comment", self.issue_path(&draft.on)?);
        let comments = self.comments(&draft.on).await?;
        let found = comments.iter().find(|comment| {
            let is_own = text(&comment["author"], self.account_field()) == own;
            let words = Self::plain_text(&comment["body"]);
            is_own && words.lines().any(|line| line.trim() == mark)
        });
        let request = json!({"body": formatted});
        let written = match found {
            Some(found) if Self::plain_text(&found["body"]) == Self::plain_text(&formatted) => {
                found.clone()
            }
            Some(found) => {
                let path = format!("{path}/{}", encoded(&id(found)));
                self.rest.write("PUT", &path, &request).await?
            }
            None => self.rest.write("POST", &path, &request).await?,
        };
        Ok(ForgeComment {
            id: id(&written),
            author: own.to_owned(),
            body,
        })
    }

    async fn try_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError> {
        let path = self.issue_path(key)?;
        match goal {
            IssueGoal::Labels(edit) => {
                let found = self.rest.get(&format!("{path}?fields=labels")).await?;
                let current = read::words(&found["fields"]["labels"]);
                // A label of Jira has no spaces.
                let label = |name: &String| name.replace(char::is_whitespace, "-");
                let add = edit
                    .add
                    .iter()
                    .map(label)
                    .filter(|name| !current.contains(name));
                let remove = edit
                    .remove
                    .iter()
                    .map(label)
                    .filter(|name| current.contains(name));
                let add = add.map(|name| json!({"add": name}));
                let edits: Vec<Value> = add
                    .chain(remove.map(|name| json!({"remove": name})))
                    .collect();
                if edits.is_empty() {
                    return Ok(());
                }
                let request = json!({"update": {"labels": edits}});
                self.rest.write("PUT", &path, &request).await.map(drop)
            }
            // The same id changes the link that is there.
            IssueGoal::Linked(link) => {
                let request = json!({"globalId": link.id, "relationship": "pull request",
                    "object": {"url": link.url, "title": link.title}});
                let path = format!("{path}/remotelink");
                self.rest.write("POST", &path, &request).await.map(drop)
            }
            IssueGoal::Status(name) => {
                self.transition(&path, name, |status| {
                    text(status, "name").eq_ignore_ascii_case(name)
                })
                .await
            }
            IssueGoal::Open => {
                self.transition(&path, "a status that is not done", |status| {
                    !read::is_done(status)
                })
                .await
            }
            IssueGoal::Done => self.transition(&path, "a done status", read::is_done).await,
            IssueGoal::NotPlanned => {
                let declined = |status: &Value| read::is_done(status) && read::is_declined(status);
                let tried = self.transition(&path, "a declined status", declined).await;
                match tried {
                    Err(error) if error.refused_with() == Some(409) => {
                        self.transition(&path, "a done status", read::is_done).await
                    }
                    result => result,
                }
            }
        }
    }

    /// Takes the transition whose target status fits, unless the issue is there already.
    async fn transition(
        &self,
        path: &str,
        wanted: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<(), ForgeError> {
        let found = self.rest.get(&format!("{path}?fields=status")).await?;
        let current = &found["fields"]["status"];
        if fits(current) {
            return Ok(());
        }
        let path = format!("{path}/transitions");
        let found = self.rest.get(&path).await?;
        let all = entries(&found["transitions"]);
        let Some(transition) = all.iter().find(|transition| fits(&transition["to"])) else {
            let names: Vec<String> = all.iter().map(|one| text(&one["to"], "name")).collect();
            return Err(ForgeError::Refused {
                what: path,
                status: 409,
                detail: format!(
                    "no transition from {:?} to {wanted}; there are: {}",
                    text(current, "name"),
                    names.join(", ")
                ),
            });
        };
        let request = json!({"transition": {"id": id(transition)}});
        self.rest.write("POST", &path, &request).await.map(drop)
    }

    fn jql(&self, filter: &IssueFilter, since_minutes: Option<i64>) -> String {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let mut parts = vec![
            format!("project = {}", quoted(&self.project)),
            "statusCategory != Done".to_owned(),
        ];
        if let Some(query) = &filter.query {
            parts.push(format!("({})", read::without_order(query)));
        }
        parts.extend(
            filter
                .labels
                .iter()
                .map(|name| format!("labels = {}", quoted(name))),
        );
        if let Some(assignee) = &filter.assignee {
            parts.push(format!("assignee = {}", quoted(assignee)));
        }
        // A date without a zone means the zone of the account; a relative one means the same everywhere.
        if let Some(minutes) = since_minutes {
            parts.push(format!("updated >= \"-{minutes}m\""));
        }
        format!("{} ORDER BY updated ASC", parts.join(" AND "))
    }

    async fn search(&self, jql: &str) -> Result<Vec<Value>, ForgeError> {
        let mut all: Vec<Value> = Vec::new();
        let mut next = Value::Null;
        for _ in 0..PAGES_MAX {
            let mut request = json!({"jql": jql, "fields": FIELDS, "maxResults": PAGE});
            // Cloud has removed the search of Data Center, and Data Center has no other.
            let path = if self.is_cloud {
                "/search/jql"
            } else {
                "/search"
            };
            if !next.is_null() {
                request["nextPageToken"] = next.clone();
            }
            if !self.is_cloud {
                request["startAt"] = json!(all.len());
            }
            let found = self.rest.query(path, &request).await?;
            let issues = entries(&found["issues"]);
            all.extend(issues.iter().cloned());
            next = found["nextPageToken"].clone();
            let is_last = if self.is_cloud {
                next.is_null() || found["isLast"] == true
            } else {
                all.len() as u64 >= number(&found, "total")
            };
            if issues.is_empty() || is_last {
                break;
            }
        }
        Ok(all)
    }
}

#[async_trait]
impl Tracker for Jira {
    fn capabilities(&self) -> ForgeCapabilities {
        CAPABILITIES
    }

    async fn whoami(&self) -> Result<ForgeAccount, ForgeError> {
        let login = self.own_account().await?.to_owned();
        let wanted =
            "BROWSE_PROJECTS,ADD_COMMENTS,TRANSITION_ISSUES,EDIT_ISSUES,ADMINISTER_PROJECTS";
        let path = format!(
            "/mypermissions?projectKey={}&permissions={wanted}",
            self.project
        );
        let found = self.rest.get_maybe(&path).await?.unwrap_or_default();
        let may = |name: &str| found["permissions"][name]["havePermission"] == true;
        let permission = match () {
            () if !may("BROWSE_PROJECTS") => ForgePermission::None,
            () if may("ADMINISTER_PROJECTS") => ForgePermission::Admin,
            () if may("ADD_COMMENTS") && may("TRANSITION_ISSUES") => ForgePermission::Write,
            () => ForgePermission::Read,
        };
        Ok(ForgeAccount {
            obstacle: None,
            login,
            permission,
            capabilities: CAPABILITIES,
        })
    }

    /// A person who can be assigned issues of the project may give commands; Jira shows an account no more
    /// of another's permissions.
    async fn permission_of(&self, login: &str) -> Result<ForgePermission, ForgeError> {
        let field = if self.is_cloud {
            "accountId"
        } else {
            "username"
        };
        let (project, login_part) = (&self.project, encoded(login));
        let path = format!("/user/assignable/search?project={project}&{field}={login_part}");
        let found = self.rest.get_maybe(&path).await?.unwrap_or_default();
        let mut users = entries(&found).iter();
        let is_member =
            users.any(|user| text(user, self.account_field()) == login && user["active"] != false);
        Ok(if is_member {
            ForgePermission::Write
        } else {
            ForgePermission::None
        })
    }

    async fn issue(&self, key: &str) -> Result<Option<TrackedIssue>, ForgeError> {
        let Ok(path) = self.issue_path(key) else {
            return Ok(None);
        };
        let path = format!("{path}?fields={}", FIELDS.join(","));
        let found = self.rest.get_maybe(&path).await?;
        Ok(found.map(|found| read::issue(&found, self.account_field(), self.rest.api())))
    }

    async fn issues_since(
        &self,
        filter: &IssueFilter,
        cursor: &ForgeCursor,
    ) -> Result<IssuePage, ForgeError> {
        let minutes = read::minutes_since(&cursor.updated_at, self.rest.now_ms());
        let found = self.search(&self.jql(filter, minutes)).await?;
        let field = self.account_field();
        let read = |issue: &Value| read::issue(issue, field, self.rest.api());
        let mut issues: Vec<TrackedIssue> = found.iter().map(read).collect();
        // The search is by the minute, so the cursor decides again.
        issues.retain(|issue| times::is_since(&issue.updated_at, &cursor.updated_at));
        issues.sort_by(|one, other| times::compare(&one.updated_at, &other.updated_at));
        let newest = issues.last().map(|issue| issue.updated_at.clone());
        Ok(IssuePage {
            issues,
            cursor: ForgeCursor {
                updated_at: newest.unwrap_or_else(|| cursor.updated_at.clone()),
                etag: None,
            },
        })
    }

    /// Jira lists comments by issue only: without one, the page is empty.
    async fn comments_since(&self, query: &CommentQuery) -> Result<CommentPage, ForgeError> {
        let Some(on) = &query.on else {
            return Ok(CommentPage {
                comments: Vec::new(),
                cursor: query.cursor.clone(),
            });
        };
        let own = self.own_account().await?.to_owned();
        let field = self.account_field();
        let found = self.comments(on).await?;
        let read = |entry| read::comment(entry, on, field, &own);
        let mut comments: Vec<_> = found.iter().map(read).collect();
        let since = &query.cursor.updated_at;
        comments.retain(|comment| times::is_since(&comment.updated_at, since));
        let newest = times::newest(comments.iter().map(|one| one.updated_at.as_str()));
        Ok(CommentPage {
            comments,
            cursor: ForgeCursor {
                updated_at: newest.unwrap_or_else(|| query.cursor.updated_at.clone()),
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

    async fn react(&self, _: &CommentRef, _: Reaction) -> Result<(), ForgeError> {
        Ok(())
    }
}
