//! GitLab: gitlab.com and servers of one's own.
//!
//! A finding is a discussion, which can be resolved even if it is on no line. A review is a set of
//! draft notes that are published together.

mod feedback;
mod issues;
mod read;
mod reviews;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::anchors::DiffLimits;
use crate::body::cut_body;
use crate::json::{self, entries, number, text};
use crate::marker::has_marker;
use crate::model::{
    ChangeDraft, ChangeKey, ChangePage, ChangeState, ForgeCapabilities, ForgeChange, ForgeCursor,
    ForgeGate, GateState, LabelEdit, MergeMethod, MergeOrder, MergeReport, ReviewDraft,
    ReviewReceipt, ReviewThread, ThreadAnswer, ThreadDraft,
};
use crate::rest::{RestClient, encoded, parse_json, until_answered};
use crate::review_plan::CUT_NOTICE;
use crate::times;
use crate::token::TokenHeader;
use crate::{ChangeFeedback, Forge, ForgeConnection, ForgeError};
use read::{change, is_own};

const PAGE: usize = 100;
/// Maximum number of characters of a note.
const BODY_CHARS_MAX: usize = 1_000_000;
const DESCRIPTION_CHARS_MAX: usize = 255;
const CAPABILITIES: ForgeCapabilities = ForgeCapabilities {
    name: "GitLab",
    has_changes: true,
    has_threads: true,
    has_check_runs: false,
    inline_outside_diff: false,
    has_reactions: true,
    author_may_approve: false,
    diff_limits: DiffLimits::GITLAB,
    body_chars_max: BODY_CHARS_MAX,
    head_refs: "refs/merge-requests",
};

/// One project on GitLab. Keys of issues begin with `#`, because changes have numbers of their own.
#[derive(Debug)]
pub struct Gitlab {
    rest: RestClient,
    /// `/projects/GROUP%2FNAME`
    root: String,
    /// `GROUP/…/NAME`
    project: String,
    /// Address of the project's pages.
    pages: String,
    login: OnceCell<String>,
}

impl Gitlab {
    /// Builds the adapter for a project `GROUP/…/NAME`. Nothing is sent.
    pub fn new(connection: ForgeConnection, project: &str) -> Result<Self, ForgeError> {
        let headers = vec![
            ("accept", "application/json".to_owned()),
            ("user-agent", "countersign".to_owned()),
        ];
        // A server may live below a path, so its pages are found by taking the end of the API's
        // address off.
        let site = connection.api.strip_suffix("/api/v4");
        let pages = format!("{}/{project}/-", site.unwrap_or(&connection.api));
        Ok(Self {
            pages,
            rest: RestClient::new(connection, TokenHeader::Private, headers)?,
            // Groups are nested, so the whole name is one encoded part of the address.
            root: format!("/projects/{}", encoded(project)),
            project: project.to_owned(),
            login: OnceCell::new(),
        })
    }

    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.root)
    }

    fn change_path(&self, number: u64, rest: &str) -> String {
        self.path(&format!("/merge_requests/{number}{rest}"))
    }

    async fn own_login(&self) -> Result<&str, ForgeError> {
        let login = self.login.get_or_try_init(|| async {
            let user = self.rest.get("/user").await?;
            Ok(text(&user, "username"))
        });
        login.await.map(String::as_str)
    }

    async fn find_own(
        &self,
        path: &str,
        subject: &str,
        key: &str,
    ) -> Result<Option<Value>, ForgeError> {
        let own = self.own_login().await?;
        let notes = self.rest.list(path, PAGE).await?;
        Ok(notes
            .into_iter()
            .find(|note| is_own(note, own) && has_marker(&text(note, "body"), subject, key)))
    }

    async fn open_change_of(&self, branch: &str) -> Result<Option<ForgeChange>, ForgeError> {
        let source = encoded(branch);
        let path = self.path(&format!(
            "/merge_requests?source_branch={source}&state=opened"
        ));
        let found = self.rest.list(&path, PAGE).await?;
        Ok(found
            .iter()
            .map(change)
            // The filter matches forks as well, which may have a branch of the same name.
            .find(|change| change.head_branch == branch && !change.from_fork))
    }

    async fn try_change(&self, draft: &ChangeDraft) -> Result<ForgeChange, ForgeError> {
        let body = cut_body(&draft.body, BODY_CHARS_MAX, CUT_NOTICE);
        // A title has at most 255 characters, and the mark of a draft is a part of it.
        let plain = json::plain_title(&findings::one_line(&draft.title), &read::DRAFTS);
        let plain = findings::shorten(&plain, 240);
        // GitLab knows a draft by its title.
        let title = if draft.draft {
            format!("{}{plain}", read::DRAFT)
        } else {
            plain.clone()
        };
        let path = self.path("/merge_requests");
        let found = if let Some(found) = self.open_change_of(&draft.head_branch).await? {
            found
        } else {
            let request = json!({"source_branch": draft.head_branch, "target_branch": draft.base_branch,
                "title": title, "description": body});
            match self.rest.write("POST", &path, &request).await {
                Ok(created) => change(&created),
                // It exists: somebody was faster, or an answer of ours was lost.
                Err(error) if matches!(error.refused_with(), Some(409 | 422)) => {
                    let found = self.open_change_of(&draft.head_branch).await?;
                    found.ok_or(error)?
                }
                Err(error) => return Err(error),
            }
        };
        let differs = found.title != plain
            || found.body != body
            || found.base_branch != draft.base_branch
            || found.draft != draft.draft;
        if differs {
            let request =
                json!({"title": title, "description": body, "target_branch": draft.base_branch});
            let path = self.change_path(found.number, "");
            self.rest.write("PUT", &path, &request).await?;
        }
        // Read again, so that the caller gets the state after our writes and not what we meant to
        // write.
        let found = self.find_change(&ChangeKey::Number(found.number)).await?;
        found.ok_or_else(|| ForgeError::NotFound {
            what: draft.head_branch.clone(),
        })
    }

    /// Returns whether the newest status of the gate's name says what the gate says.
    async fn has_gate(
        &self,
        gate: &ForgeGate,
        state: &str,
        words: &str,
    ) -> Result<bool, ForgeError> {
        let (commit, name) = (encoded(&gate.commit), encoded(&gate.name));
        let path = self.path(&format!(
            "/repository/commits/{commit}/statuses?name={name}"
        ));
        let found = self.rest.list(&path, PAGE).await?;
        let found = found
            .iter()
            .filter(|status| status["name"] == gate.name.as_str());
        let newest = found.max_by_key(|status| number(status, "id"));
        let url = gate.url.as_deref();
        Ok(newest.is_some_and(|status| {
            status["status"] == state
                && status["description"].as_str().unwrap_or_default() == words
                && status["target_url"].as_str() == url
        }))
    }

    async fn try_gate(&self, gate: &ForgeGate) -> Result<(), ForgeError> {
        let state = match gate.state {
            GateState::Pending => "pending",
            GateState::Success => "success",
            // GitLab has one word for both; the description tells them apart.
            GateState::Failure | GateState::Error => "failed",
        };
        let words = findings::one_line(&gate.description);
        let words = findings::shorten(&words, DESCRIPTION_CHARS_MAX - 1);
        if self.has_gate(gate, state, &words).await? {
            return Ok(());
        }
        let mut request = json!({"state": state, "name": gate.name, "description": words});
        if let Some(url) = &gate.url {
            request["target_url"] = json!(url);
        }
        let path = self.path(&format!("/statuses/{}", encoded(&gate.commit)));
        match self.rest.write("POST", &path, &request).await {
            Ok(_) => Ok(()),
            // GitLab refuses a state that follows itself: pending after pending, for example.
            Err(error) if error.refused_with() == Some(400) && error.says("transition") => {
                let commit = encoded(&gate.commit);
                let path = self.path(&format!("/repository/commits/{commit}/statuses"));
                let found = self.rest.list(&path, PAGE).await?;
                let found = found
                    .iter()
                    .filter(|status| status["name"] == gate.name.as_str());
                let newest = found.max_by_key(|status| number(status, "id"));
                let is_there = newest.is_some_and(|status| status["status"] == state);
                if is_there { Ok(()) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    async fn try_labels(&self, path: &str, edit: &LabelEdit) -> Result<Vec<String>, ForgeError> {
        let names = |value: &Value| -> Vec<String> {
            let labels = entries(&value["labels"]).iter();
            labels
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect()
        };
        let current = names(&self.rest.get(path).await?);
        let add: Vec<&String> = edit
            .add
            .iter()
            .filter(|name| !current.contains(name))
            .collect();
        let remove = edit.remove.iter().filter(|name| current.contains(name));
        let remove: Vec<&String> = remove.collect();
        // A write that changes nothing would still count against the pace of writes.
        if add.is_empty() && remove.is_empty() {
            return Ok(current);
        }
        // A comma separates labels, so no label has one.
        let joined = |names: &[&String]| {
            let names = names.iter().map(|name| name.replace(',', " "));
            names.collect::<Vec<_>>().join(",")
        };
        let request = json!({"add_labels": joined(&add), "remove_labels": joined(&remove)});
        Ok(names(&self.rest.write("PUT", path, &request).await?))
    }

    async fn try_merge(&self, order: &MergeOrder) -> Result<MergeReport, ForgeError> {
        let found = self.find_change(&ChangeKey::Number(order.change)).await?;
        let found = found.ok_or_else(|| ForgeError::NotFound {
            what: order.change.to_string(),
        })?;
        match found.state {
            // The answer to an earlier try may have been lost.
            ChangeState::Merged => return Ok(MergeReport::Merged),
            ChangeState::Closed => return Ok(MergeReport::NotMergeable("it is closed".to_owned())),
            ChangeState::Open => {}
        }
        // Whether it is a merge or a rebase is a setting of the project.
        let squash = order.method == MergeMethod::Squash;
        // With the commit, GitLab refuses to merge anything that was pushed after the approval.
        let request = json!({"sha": order.commit, "squash": squash});
        let path = self.change_path(order.change, "/merge");
        match self.rest.write("PUT", &path, &request).await {
            Ok(_) => Ok(MergeReport::Merged),
            Err(ForgeError::Refused { status: 409, .. }) => Ok(MergeReport::HeadMoved),
            Err(ForgeError::Refused {
                status: 405 | 406 | 422,
                detail,
                ..
            }) => Ok(MergeReport::NotMergeable(detail)),
            // GitLab answers 401 if the account may not merge into the branch.
            Err(ForgeError::Unauthorized { .. }) => Ok(MergeReport::NotMergeable(
                "the account may not merge into the branch".to_owned(),
            )),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Forge for Gitlab {
    async fn find_change(&self, key: &ChangeKey) -> Result<Option<ForgeChange>, ForgeError> {
        match key {
            ChangeKey::Branch(branch) => self.open_change_of(branch).await,
            ChangeKey::Number(number) => {
                let found = self.rest.get_maybe(&self.change_path(*number, "")).await?;
                Ok(found.as_ref().map(change))
            }
        }
    }

    async fn changes_since(&self, cursor: &ForgeCursor) -> Result<ChangePage, ForgeError> {
        let path =
            self.path("/merge_requests?state=opened&order_by=updated_at&sort=desc&per_page=100");
        let etag = cursor
            .etag
            .iter()
            .map(|etag| ("if-none-match", etag.clone()));
        let response = self.rest.get_with(&path, &etag.collect::<Vec<_>>()).await?;
        if response.status == 304 {
            return Ok(ChangePage {
                changes: Vec::new(),
                cursor: cursor.clone(),
            });
        }
        let value = parse_json(&path, &response)?;
        let is_new =
            |change: &Value| times::is_since(&text(change, "updated_at"), &cursor.updated_at);
        let first = entries(&value).to_vec();
        let all = self.rest.read_on(&path, PAGE, first, is_new).await?;
        let changes: Vec<ForgeChange> = all.iter().filter(|one| is_new(one)).map(change).collect();
        let newest = times::newest(changes.iter().map(|change| change.updated_at.as_str()));
        let cursor = ForgeCursor {
            updated_at: newest.unwrap_or_else(|| cursor.updated_at.clone()),
            etag: response.header("etag").map(str::to_owned),
        };
        Ok(ChangePage { changes, cursor })
    }

    async fn change_feedback(&self, number: u64) -> Result<ChangeFeedback, ForgeError> {
        self.read_feedback(number).await
    }

    /// A merge train runs a pipeline of its own and asks for no status of others.
    async fn queued_commit(&self, _: u64) -> Result<Option<String>, ForgeError> {
        Ok(None)
    }

    async fn ensure_change(&self, draft: &ChangeDraft) -> Result<ForgeChange, ForgeError> {
        until_answered!(self.try_change(draft))
    }

    async fn ensure_gate(&self, gate: &ForgeGate) -> Result<(), ForgeError> {
        until_answered!(self.try_gate(gate))
    }

    async fn ensure_review(&self, draft: &ReviewDraft) -> Result<ReviewReceipt, ForgeError> {
        until_answered!(self.try_review(draft))
    }

    async fn ensure_thread(&self, draft: &ThreadDraft) -> Result<ReviewThread, ForgeError> {
        until_answered!(self.try_thread(draft))
    }

    async fn settle_thread(&self, answer: &ThreadAnswer) -> Result<(), ForgeError> {
        until_answered!(self.try_settle(answer))
    }

    async fn labels(&self, on: u64, edit: &LabelEdit) -> Result<Vec<String>, ForgeError> {
        until_answered!(self.try_labels(&self.change_path(on, ""), edit))
    }

    async fn merge(&self, order: &MergeOrder) -> Result<MergeReport, ForgeError> {
        until_answered!(self.try_merge(order))
    }
}
