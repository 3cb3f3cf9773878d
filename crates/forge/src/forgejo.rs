//! Forgejo and Gitea, which have the same API.
//!
//! Their API can neither answer nor resolve a thread. An answer is a comment on the same line, which
//! the page shows below the first; the words of the answer say what became of the finding.

mod feedback;
mod issues;
mod read;
mod reviews;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::anchors::DiffLimits;
use crate::body::{BODY_CHARS_MAX, STATUS_CHARS_MAX, cut_body};
use crate::json::{self, entries, number, text};
use crate::marker::has_marker;
use crate::model::{
    ChangeDraft, ChangeKey, ChangePage, ChangeState, ForgeCapabilities, ForgeChange, ForgeCursor,
    ForgeGate, GateState, LabelEdit, MergeMethod, MergeOrder, MergeReport, ReviewDraft,
    ReviewReceipt, ReviewThread, ThreadAnswer, ThreadDraft,
};
use crate::rest::{RestClient, encoded, until_answered};
use crate::review_plan::CUT_NOTICE;
use crate::times;
use crate::token::TokenHeader;
use crate::{ChangeFeedback, Forge, ForgeConnection, ForgeError};
use read::{change, is_own};

/// Servers give at most fifty entries a page, unless their owner changed it.
const PAGE: usize = 50;
/// Grey, because a label needs a colour and ours means nothing.
const LABEL_COLOUR: &str = "#ededed";
const CAPABILITIES: ForgeCapabilities = ForgeCapabilities {
    name: "Forgejo",
    has_changes: true,
    has_threads: false,
    has_check_runs: false,
    inline_outside_diff: false,
    has_reactions: true,
    author_may_approve: false,
    diff_limits: DiffLimits::NONE,
    body_chars_max: BODY_CHARS_MAX,
    head_refs: "refs/pull",
};

/// One repository on Forgejo or Gitea.
#[derive(Debug)]
pub struct Forgejo {
    rest: RestClient,
    /// `/repos/OWNER/NAME`
    root: String,
    /// `OWNER/NAME`
    repository: String,
    login: OnceCell<String>,
}

impl Forgejo {
    /// Builds the adapter for a repository `OWNER/NAME`. Nothing is sent.
    pub fn new(connection: ForgeConnection, repository: &str) -> Result<Self, ForgeError> {
        let Some((owner, name)) = repository.split_once('/') else {
            return Err(ForgeError::Address(format!(
                "{repository:?} is not OWNER/NAME"
            )));
        };
        let headers = vec![
            ("accept", "application/json".to_owned()),
            ("user-agent", "countersign".to_owned()),
        ];
        Ok(Self {
            rest: RestClient::new(connection, TokenHeader::Token, headers)?,
            root: format!("/repos/{}/{}", encoded(owner), encoded(name)),
            repository: repository.to_owned(),
            login: OnceCell::new(),
        })
    }

    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.root)
    }

    async fn own_login(&self) -> Result<&str, ForgeError> {
        let login = self.login.get_or_try_init(|| async {
            let user = self.rest.get("/user").await?;
            Ok(text(&user, "login"))
        });
        login.await.map(String::as_str)
    }

    /// Reads all pages of a list. Forgejo's name for the size of a page is `limit`.
    async fn list(&self, path: &str) -> Result<Vec<Value>, ForgeError> {
        self.rest.list_by("limit", path, PAGE).await
    }

    /// Reads the comments of an issue or a change. This list has no pages: a second one would be the
    /// first again.
    async fn comments_on(&self, on: &str, more: &str) -> Result<Vec<Value>, ForgeError> {
        let path = self.path(&format!("/issues/{}/comments{more}", encoded(on)));
        Ok(entries(&self.rest.get(&path).await?).to_vec())
    }

    async fn find_own(
        &self,
        path: &str,
        subject: &str,
        key: &str,
    ) -> Result<Option<Value>, ForgeError> {
        let found = self.list(path).await?;
        self.own_among(found, subject, key).await
    }

    async fn own_among(
        &self,
        found: Vec<Value>,
        subject: &str,
        key: &str,
    ) -> Result<Option<Value>, ForgeError> {
        let own = self.own_login().await?;
        Ok(found
            .into_iter()
            .find(|entry| is_own(entry, own) && has_marker(&text(entry, "body"), subject, key)))
    }

    async fn open_change_of(&self, branch: &str) -> Result<Option<ForgeChange>, ForgeError> {
        // There is no filter for the branch of a pull request.
        let found = self.list(&self.path("/pulls?state=open")).await?;
        Ok(found
            .iter()
            .map(change)
            .find(|change| change.head_branch == branch && !change.from_fork))
    }

    async fn try_change(&self, draft: &ChangeDraft) -> Result<ForgeChange, ForgeError> {
        let body = cut_body(&draft.body, BODY_CHARS_MAX, CUT_NOTICE);
        // A title has at most 255 characters, and the mark of a draft is a part of it.
        let plain = json::plain_title(&findings::one_line(&draft.title), &read::DRAFTS);
        let plain = findings::shorten(&plain, 240);
        let title = if draft.draft {
            format!("{}{plain}", read::DRAFT)
        } else {
            plain.clone()
        };
        let found = if let Some(found) = self.open_change_of(&draft.head_branch).await? {
            found
        } else {
            let request = json!({"title": title, "head": draft.head_branch,
                "base": draft.base_branch, "body": body});
            match self
                .rest
                .write("POST", &self.path("/pulls"), &request)
                .await
            {
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
            let request = json!({"title": title, "body": body, "base": draft.base_branch});
            let path = self.path(&format!("/pulls/{}", found.number));
            self.rest.write("PATCH", &path, &request).await?;
        }
        // Read again, so that the caller gets the state after our writes and not what we meant to
        // write.
        let found = self.find_change(&ChangeKey::Number(found.number)).await?;
        found.ok_or_else(|| ForgeError::NotFound {
            what: draft.head_branch.clone(),
        })
    }

    async fn try_gate(&self, gate: &ForgeGate) -> Result<(), ForgeError> {
        let state = match gate.state {
            GateState::Pending => "pending",
            GateState::Success => "success",
            GateState::Failure => "failure",
            GateState::Error => "error",
        };
        let words = findings::one_line(&gate.description);
        let words = findings::shorten(&words, STATUS_CHARS_MAX - 1);
        let commit = encoded(&gate.commit);
        let found = self
            .list(&self.path(&format!("/commits/{commit}/statuses")))
            .await?;
        let found = found
            .iter()
            .filter(|status| status["context"] == gate.name.as_str());
        // A commit keeps every status of a name, and the newest counts.
        let newest = found.max_by_key(|status| number(status, "id"));
        let url = gate.url.as_deref().unwrap_or_default();
        if newest.is_some_and(|status| {
            status["status"] == state
                && status["description"] == words.as_str()
                && status["target_url"].as_str().unwrap_or_default() == url
        }) {
            return Ok(());
        }
        let request = json!({"state": state, "context": gate.name, "description": words,
            "target_url": url});
        let path = self.path(&format!("/statuses/{commit}"));
        self.rest.write("POST", &path, &request).await.map(drop)
    }

    /// Returns the number of a label, and makes the label if it is missing: Forgejo wants numbers.
    async fn label_id(&self, name: &str) -> Result<u64, ForgeError> {
        let path = self.path("/labels");
        let found = self.list(&path).await?;
        // Two labels whose names differ in case only would confuse people.
        let same = |label: &&Value| text(label, "name").eq_ignore_ascii_case(name);
        if let Some(label) = found.iter().find(same) {
            return Ok(number(label, "id"));
        }
        let request = json!({"name": name, "color": LABEL_COLOUR});
        Ok(number(
            &self.rest.write("POST", &path, &request).await?,
            "id",
        ))
    }

    async fn try_labels(&self, on: &str, edit: &LabelEdit) -> Result<Vec<String>, ForgeError> {
        let path = self.path(&format!("/issues/{}/labels", encoded(on)));
        let current = self.rest.get(&path).await?;
        let find = |name: &str| {
            let mut labels = entries(&current).iter();
            labels.find(|label| text(label, "name").eq_ignore_ascii_case(name))
        };
        let mut missing = Vec::new();
        for name in edit.add.iter().filter(|name| find(name).is_none()) {
            missing.push(self.label_id(name).await?);
        }
        if !missing.is_empty() {
            let request = json!({"labels": missing});
            self.rest.write("POST", &path, &request).await?;
        }
        // One call each: the list can only be replaced as a whole, which would undo what others do
        // meanwhile.
        for label in edit.remove.iter().filter_map(|name| find(name)) {
            let one = format!("{path}/{}", number(label, "id"));
            match self.rest.write("DELETE", &one, &Value::Null).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(json::texts(&self.rest.get(&path).await?, "name"))
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
        let method = match order.method {
            MergeMethod::Merge => "merge",
            MergeMethod::Squash => "squash",
            MergeMethod::Rebase => "rebase",
        };
        // With the commit, Forgejo refuses to merge anything that was pushed after the approval.
        let request = json!({"Do": method, "head_commit_id": order.commit});
        let path = self.path(&format!("/pulls/{}/merge", order.change));
        match self.rest.write("POST", &path, &request).await {
            Ok(_) => Ok(MergeReport::Merged),
            Err(ForgeError::Refused { status: 409, .. }) => Ok(MergeReport::HeadMoved),
            Err(ForgeError::Refused {
                status: 405 | 422,
                detail,
                ..
            }) => Ok(MergeReport::NotMergeable(detail)),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Forge for Forgejo {
    async fn find_change(&self, key: &ChangeKey) -> Result<Option<ForgeChange>, ForgeError> {
        match key {
            ChangeKey::Branch(branch) => self.open_change_of(branch).await,
            ChangeKey::Number(number) => {
                let path = self.path(&format!("/pulls/{number}"));
                Ok(self.rest.get_maybe(&path).await?.as_ref().map(change))
            }
        }
    }

    async fn changes_since(&self, cursor: &ForgeCursor) -> Result<ChangePage, ForgeError> {
        let path = self.path(&format!("/pulls?state=open&sort=recentupdate&limit={PAGE}"));
        let found = self.rest.get(&path).await?;
        let is_new =
            |change: &Value| times::is_since(&text(change, "updated_at"), &cursor.updated_at);
        let first = entries(&found).to_vec();
        let all = self.rest.read_on(&path, PAGE, first, is_new).await?;
        let changes: Vec<ForgeChange> = all.iter().filter(|one| is_new(one)).map(change).collect();
        let newest = times::newest(changes.iter().map(|change| change.updated_at.as_str()));
        let cursor = ForgeCursor {
            updated_at: newest.unwrap_or_else(|| cursor.updated_at.clone()),
            etag: None,
        };
        Ok(ChangePage { changes, cursor })
    }

    async fn change_feedback(&self, number: u64) -> Result<ChangeFeedback, ForgeError> {
        self.read_feedback(number).await
    }

    /// There is no merge queue.
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
        until_answered!(self.try_labels(&on.to_string(), edit))
    }

    async fn merge(&self, order: &MergeOrder) -> Result<MergeReport, ForgeError> {
        until_answered!(self.try_merge(order))
    }
}
