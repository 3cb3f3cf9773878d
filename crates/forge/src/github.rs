//! GitHub: github.com, Enterprise Server and ghe.com.

mod check_runs;
mod feedback;
mod issues;
mod read;
mod threads;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::anchors::DiffLimits;
use crate::body::{BODY_CHARS_MAX, STATUS_CHARS_MAX, cut_body};
use crate::marker::{has_marker, marked};
use crate::model::{
    ChangeDraft, ChangeKey, ChangePage, ChangeState, CommentDraft, ForgeCapabilities, ForgeChange,
    ForgeComment, ForgeCursor, ForgeGate, GateState, LabelEdit, MergeMethod, MergeOrder,
    MergeReport, ReviewDraft, ReviewEvent, ReviewReceipt, ReviewThread, ThreadAnswer, ThreadDraft,
};
use crate::rest::{RestClient, encoded, parse_json, until_answered};
use crate::review_plan::{CUT_NOTICE, PlacedFinding, review_body, split_findings};
use crate::times;
use crate::token::TokenHeader;
use crate::{ChangeFeedback, Forge, ForgeConnection, ForgeError};
use read::{change, id, text};

const PAGE: usize = 100;
/// Words of GitHub for a repository without drafts.
const NO_DRAFTS: &str = "Draft pull requests are not supported";
const CAPABILITIES: ForgeCapabilities = ForgeCapabilities {
    name: "GitHub",
    has_changes: true,
    has_threads: true,
    has_check_runs: false,
    inline_outside_diff: false,
    has_reactions: true,
    author_may_approve: false,
    diff_limits: DiffLimits::GITHUB,
    body_chars_max: BODY_CHARS_MAX,
    head_refs: "refs/pull",
};

/// One repository on GitHub.
#[derive(Debug)]
pub struct Github {
    rest: RestClient,
    /// `/repos/OWNER/NAME`
    root: String,
    owner: String,
    name: String,
    login: OnceCell<String>,
}

impl Github {
    /// Builds the adapter for a repository `OWNER/NAME`. Nothing is sent.
    pub fn new(connection: ForgeConnection, repository: &str) -> Result<Self, ForgeError> {
        let Some((owner, name)) = repository.split_once('/') else {
            return Err(ForgeError::Address(format!(
                "{repository:?} is not OWNER/NAME"
            )));
        };
        let headers = vec![
            ("accept", "application/vnd.github+json".to_owned()),
            // Without a version GitHub chooses one, and may choose another tomorrow.
            ("x-github-api-version", "2022-11-28".to_owned()),
            ("user-agent", "countersign".to_owned()),
        ];
        Ok(Self {
            rest: RestClient::new(connection, TokenHeader::Bearer, headers)?,
            root: format!("/repos/{}/{}", encoded(owner), encoded(name)),
            owner: owner.to_owned(),
            name: name.to_owned(),
            login: OnceCell::new(),
        })
    }

    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.root)
    }

    async fn own_login(&self) -> Result<&str, ForgeError> {
        let login = self.login.get_or_try_init(|| async {
            // An App has no account of its own; its comments are by NAME[bot].
            if let Some(login) = self.rest.app_login().await? {
                return Ok(login);
            }
            let user = self.rest.get("/user").await?;
            Ok(text(&user, "login"))
        });
        login.await.map(String::as_str)
    }

    /// Finds our own entry with a marker in a list of comments or reviews.
    async fn find_own(
        &self,
        path: &str,
        subject: &str,
        key: &str,
    ) -> Result<Option<Value>, ForgeError> {
        let own = self.own_login().await?;
        let entries = self.rest.list(path, PAGE).await?;
        Ok(entries
            .into_iter()
            .find(|entry| is_own(entry, own) && has_marker(&text(entry, "body"), subject, key)))
    }

    async fn open_change_of(&self, branch: &str) -> Result<Option<ForgeChange>, ForgeError> {
        // The owner is part of the filter, because forks may have a branch of the same name.
        let head = encoded(&format!("{}:{branch}", self.owner));
        let path = self.path(&format!("/pulls?head={head}&state=open"));
        let found = self.rest.list(&path, PAGE).await?;
        // An unknown filter would list everything.
        let found = found.iter().map(change);
        Ok(found
            .into_iter()
            .find(|change| change.head_branch == branch && !change.from_fork))
    }

    async fn try_change(&self, draft: &ChangeDraft) -> Result<ForgeChange, ForgeError> {
        let body = cut_body(&draft.body, BODY_CHARS_MAX, CUT_NOTICE);
        let title = findings::shorten(&findings::one_line(&draft.title), 250);
        let found = if let Some(found) = self.open_change_of(&draft.head_branch).await? {
            found
        } else {
            let path = self.path("/pulls");
            let mut request = json!({"title": title, "head": draft.head_branch, "base": draft.base_branch,
                // People may push to the branch, as to any other.
                "body": body, "draft": draft.draft, "maintainer_can_modify": true});
            let mut created = self.rest.write("POST", &path, &request).await;
            // Private repositories have drafts in paid plans only.
            if created.as_ref().is_err_and(|error| error.says(NO_DRAFTS)) {
                request["draft"] = json!(false);
                created = self.rest.write("POST", &path, &request).await;
            }
            match created {
                Ok(created) => change(&created),
                // Somebody was faster, or an answer of ours was lost.
                Err(error) if error.refused_with() == Some(422) => {
                    let found = self.open_change_of(&draft.head_branch).await?;
                    found.ok_or(error)?
                }
                Err(error) => return Err(error),
            }
        };
        let differs =
            found.title != title || found.body != body || found.base_branch != draft.base_branch;
        if differs {
            let request = json!({"title": title, "body": body, "base": draft.base_branch});
            let path = self.path(&format!("/pulls/{}", found.number));
            self.rest.write("PATCH", &path, &request).await?;
        }
        // The REST API cannot change it; only GraphQL can.
        if found.draft != draft.draft {
            match self.set_draft(found.number, draft.draft).await {
                // Without drafts the status alone says that it is not approved.
                Err(error) if draft.draft && error.refused_with() == Some(422) => {}
                result => result?,
            }
        }
        // Read again, so that the caller gets the state after our writes and not what we meant to
        // write.
        let found = self.find_change(&ChangeKey::Number(found.number)).await?;
        found.ok_or_else(|| ForgeError::NotFound {
            what: draft.head_branch.clone(),
        })
    }

    async fn try_gate(&self, gate: &ForgeGate) -> Result<(), ForgeError> {
        // Check runs are for Apps only.
        if self.rest.is_app() {
            return self.try_check_run(gate).await;
        }
        let state = match gate.state {
            GateState::Pending => "pending",
            GateState::Success => "success",
            GateState::Failure => "failure",
            GateState::Error => "error",
        };
        let description =
            findings::shorten(&findings::one_line(&gate.description), STATUS_CHARS_MAX - 1);
        let commit = encoded(&gate.commit);
        let current = self
            .rest
            .get(&self.path(&format!("/commits/{commit}/status")))
            .await?;
        let mut statuses = current["statuses"].as_array().into_iter().flatten();
        let same = statuses.find(|status| status["context"] == gate.name.as_str());
        let url = gate.url.as_deref();
        // A commit takes a thousand statuses of a name, so an equal one is not repeated.
        if same.is_some_and(|status| {
            status["state"] == state
                && status["description"] == description.as_str()
                && status["target_url"].as_str() == url
        }) {
            return Ok(());
        }
        let request = json!({"state": state, "context": gate.name, "description": description, "target_url": url});
        let path = self.path(&format!("/statuses/{commit}"));
        self.rest.write("POST", &path, &request).await.map(drop)
    }

    async fn try_review(&self, draft: &ReviewDraft) -> Result<ReviewReceipt, ForgeError> {
        if draft.event == ReviewEvent::Withdraw {
            let withdrawn = self.withdraw_reviews(draft.change, &draft.body).await?;
            return Ok(ReviewReceipt {
                id: String::new(),
                existed: withdrawn == 0,
                inline: 0,
                in_body: 0,
            });
        }
        let path = self.path(&format!("/pulls/{}/reviews", draft.change));
        let found = self.find_own(&path, "review", &draft.key).await?;
        // A finding that has a thread from an earlier round gets no second one.
        let known = self.own_findings(draft.change).await?;
        let is_known = |key: &str| known.iter().any(|body| has_marker(body, "finding", key));
        let (placed, others) = split_findings(draft, is_known);
        let receipt = |review: &Value, existed: bool| ReviewReceipt {
            id: id(review),
            existed,
            inline: placed.len(),
            in_body: others.len(),
        };
        if let Some(found) = found {
            // It may have been sent without its lines, and stopped there.
            self.thread_each(draft, &placed).await?;
            return Ok(receipt(&found, true));
        }
        let own = self.find_change(&ChangeKey::Number(draft.change)).await?;
        let is_own = own.is_some_and(|change| Some(&change.author) == self.login.get());
        let event = match draft.event {
            // GitHub refuses a verdict on one's own pull request.
            _ if is_own => "COMMENT",
            ReviewEvent::Approve => "APPROVE",
            ReviewEvent::RequestChanges => "REQUEST_CHANGES",
            ReviewEvent::Comment | ReviewEvent::Withdraw => "COMMENT",
        };
        let comments: Vec<Value> = placed
            .iter()
            .map(|placed| {
                let body = threads::finding_body(placed.finding);
                threads::comment(&placed.anchor, &body)
            })
            .collect();
        let body = review_body(draft, &others, BODY_CHARS_MAX);
        let request =
            json!({"commit_id": draft.commit, "event": event, "body": body, "comments": comments});
        match self.rest.write("POST", &path, &request).await {
            Ok(review) => Ok(receipt(&review, false)),
            // One bad line rejects the whole review: send it without lines, then one by one.
            Err(error) if error.refused_with() == Some(422) && !placed.is_empty() => {
                let request = json!({"commit_id": draft.commit, "event": event, "body": body});
                let review = self.rest.write("POST", &path, &request).await?;
                self.thread_each(draft, &placed).await?;
                Ok(receipt(&review, false))
            }
            Err(error) => Err(error),
        }
    }

    async fn thread_each(
        &self,
        draft: &ReviewDraft,
        placed: &[PlacedFinding<'_>],
    ) -> Result<(), ForgeError> {
        for placed in placed {
            let thread = ThreadDraft {
                change: draft.change,
                commit: draft.commit.clone(),
                finding: placed.finding.clone(),
                lines: draft.lines.clone(),
            };
            self.ensure_thread(&thread).await?;
        }
        Ok(())
    }

    async fn try_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError> {
        let marked = marked("topic", &draft.topic.0, &draft.body);
        let body = cut_body(&marked, BODY_CHARS_MAX, CUT_NOTICE);
        let on = encoded(&draft.on);
        let path = self.path(&format!("/issues/{on}/comments"));
        let found = self.find_own(&path, "topic", &draft.topic.0).await?;
        let written = match found {
            // An equal text is not written again, because every edit marks the comment as edited.
            Some(found) if text(&found, "body") == body => found,
            Some(found) => {
                let path = self.path(&format!("/issues/comments/{}", id(&found)));
                self.rest
                    .write("PATCH", &path, &json!({"body": body}))
                    .await?
            }
            None => {
                self.rest
                    .write("POST", &path, &json!({"body": body}))
                    .await?
            }
        };
        Ok(ForgeComment {
            id: id(&written),
            author: text(&written["user"], "login"),
            body,
        })
    }

    async fn try_labels(&self, on: &str, edit: &LabelEdit) -> Result<Vec<String>, ForgeError> {
        let path = self.path(&format!("/issues/{}/labels", encoded(on)));
        // GitHub compares names of labels without regard to case.
        let has = |all: &[String], name: &str| all.iter().any(|one| one.eq_ignore_ascii_case(name));
        let current = read::names(&self.rest.list(&path, PAGE).await?);
        let missing: Vec<&String> = edit
            .add
            .iter()
            .filter(|name| !has(&current, name))
            .collect();
        if !missing.is_empty() {
            self.rest
                .write("POST", &path, &json!({"labels": missing}))
                .await?;
        }
        for name in edit.remove.iter().filter(|name| has(&current, name)) {
            let one = format!("{path}/{}", encoded(name));
            match self.rest.write("DELETE", &one, &Value::Null).await {
                // Somebody else has removed it meanwhile, which is what was wanted.
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(read::names(&self.rest.list(&path, PAGE).await?))
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
        let path = self.path(&format!("/pulls/{}/merge", order.change));
        // With the commit, GitHub refuses to merge anything that was pushed after the approval.
        let request = json!({"sha": order.commit, "merge_method": method});
        match self.rest.write("PUT", &path, &request).await {
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

/// Returns whether an entry is of our account: markers can be copied.
fn is_own(entry: &Value, own: &str) -> bool {
    text(&entry["user"], "login").eq_ignore_ascii_case(own)
}

#[async_trait]
impl Forge for Github {
    async fn find_change(&self, key: &ChangeKey) -> Result<Option<ForgeChange>, ForgeError> {
        match key {
            ChangeKey::Branch(branch) => self.open_change_of(branch).await,
            ChangeKey::Number(number) => {
                let found = self
                    .rest
                    .get_maybe(&self.path(&format!("/pulls/{number}")))
                    .await?;
                Ok(found.as_ref().map(change))
            }
        }
    }

    async fn change_feedback(&self, number: u64) -> Result<ChangeFeedback, ForgeError> {
        self.read_feedback(number).await
    }

    async fn queued_commit(&self, number: u64) -> Result<Option<String>, ForgeError> {
        self.read_queued_commit(number).await
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

    async fn changes_since(&self, cursor: &ForgeCursor) -> Result<ChangePage, ForgeError> {
        let path = self.path("/pulls?state=open&sort=updated&direction=desc&per_page=100");
        let etag = cursor
            .etag
            .iter()
            .map(|etag| ("if-none-match", etag.clone()));
        let response = self.rest.get_with(&path, &etag.collect::<Vec<_>>()).await?;
        // The cheap answer to most polls.
        if response.status == 304 {
            return Ok(ChangePage {
                changes: Vec::new(),
                cursor: cursor.clone(),
            });
        }
        let value = parse_json(&path, &response)?;
        let is_new =
            |change: &Value| times::is_since(&text(change, "updated_at"), &cursor.updated_at);
        let first = read::entries(&value).to_vec();
        let all = self.rest.read_on(&path, PAGE, first, is_new).await?;
        let changes: Vec<ForgeChange> = all.iter().filter(|one| is_new(one)).map(change).collect();
        let newest = times::newest(changes.iter().map(|change| change.updated_at.as_str()));
        let cursor = ForgeCursor {
            updated_at: newest.unwrap_or_else(|| cursor.updated_at.clone()),
            etag: response.header("etag").map(str::to_owned),
        };
        Ok(ChangePage { changes, cursor })
    }

    async fn merge(&self, order: &MergeOrder) -> Result<MergeReport, ForgeError> {
        until_answered!(self.try_merge(order))
    }
}
