//! Reviews and threads on GitLab.

use std::time::Duration;

use serde_json::{Value, json};

use super::read::is_own;
use super::{BODY_CHARS_MAX, Gitlab, PAGE};
use crate::ForgeError;
use crate::anchors::{CommentableLines, LineAnchor, Placement};
use crate::body::cut_body;
use crate::json::{entries, id, text};
use crate::marker::{has_marker, marked};
use crate::model::{
    InlineFinding, ReviewDraft, ReviewEvent, ReviewReceipt, ReviewThread, ThreadAnswer,
    ThreadDraft, ThreadPlace, ThreadState,
};
use crate::rest::TRIES;
use crate::review_plan::{CUT_NOTICE, PlacedFinding, review_body, split_findings};

/// Wait for GitLab to compute the diff of a new change.
const DIFF_WAIT: Duration = Duration::from_secs(2);

fn finding_body(finding: &InlineFinding) -> String {
    let marked = marked("finding", &finding.key, &finding.body);
    cut_body(&marked, BODY_CHARS_MAX, CUT_NOTICE)
}

/// Position of a line. An unchanged line needs both numbers, and every file both paths.
fn line_position(refs: &Value, lines: &CommentableLines, anchor: &LineAnchor) -> Option<Value> {
    // GitLab refuses a position that is not in the diff, so positions come only from the diff that
    // we have parsed.
    let place = lines.position(&anchor.path, anchor.side, anchor.line)?;
    let mut position = refs.clone();
    position["position_type"] = json!("text");
    position["old_path"] = json!(place.old_path);
    position["new_path"] = json!(place.new_path);
    if let Some(line) = place.old_line {
        position["old_line"] = json!(line);
    }
    if let Some(line) = place.new_line {
        position["new_line"] = json!(line);
    }
    Some(position)
}

fn file_position(refs: &Value, path: &str) -> Value {
    let mut position = refs.clone();
    position["position_type"] = json!("file");
    position["old_path"] = json!(path);
    position["new_path"] = json!(path);
    position
}

impl Gitlab {
    /// Returns the commits that a position names. They are missing until GitLab has the diff.
    async fn diff_refs(&self, change: u64, commit: &str) -> Result<Value, ForgeError> {
        let path = self.change_path(change, "");
        // GitLab computes the diff in the background after a push.
        for _ in 0..TRIES {
            let found = self.rest.get(&path).await?;
            let refs = &found["diff_refs"];
            let head = refs["head_sha"].as_str();
            if head == Some(commit) {
                return Ok(
                    json!({"base_sha": refs["base_sha"], "start_sha": refs["start_sha"],
                    "head_sha": refs["head_sha"]}),
                );
            }
            // Somebody has pushed meanwhile. The review is of another commit and must not appear on
            // this one.
            if head.is_some() {
                return Err(ForgeError::Refused {
                    what: path,
                    status: 409,
                    detail: format!("commit_id {commit} is not the head of the change"),
                });
            }
            self.rest.pause(DIFF_WAIT).await;
        }
        Err(ForgeError::Unreadable {
            what: path,
            detail: "GitLab has not computed the diff yet".to_owned(),
        })
    }

    async fn discussions(&self, change: u64) -> Result<Vec<Value>, ForgeError> {
        let path = self.change_path(change, "/discussions");
        self.rest.list(&path, PAGE).await
    }

    async fn own_discussion(&self, change: u64, key: &str) -> Result<Option<Value>, ForgeError> {
        let own = self.own_login().await?;
        let all = self.discussions(change).await?;
        Ok(all.into_iter().find(|discussion| {
            // Only the first note of a discussion can be the finding; the others are answers.
            let first = &discussion["notes"][0];
            is_own(first, own) && has_marker(&text(first, "body"), "finding", key)
        }))
    }

    pub(super) async fn try_review(
        &self,
        draft: &ReviewDraft,
    ) -> Result<ReviewReceipt, ForgeError> {
        let approvals = self.change_path(draft.change, "/approvals");
        if draft.event == ReviewEvent::Withdraw {
            // There is no review that could be dismissed. The approval is what counts for merging.
            let existed = !self.unapprove(draft.change, &approvals).await?;
            return Ok(ReviewReceipt {
                id: String::new(),
                existed,
                inline: 0,
                in_body: 0,
            });
        }
        // The summary of the review is a note, and its marker says whether this review was
        // published.
        let notes = self.change_path(draft.change, "/notes");
        let found = self.find_own(&notes, "review", &draft.key).await?;
        let own = self.own_login().await?;
        let mut known: Vec<String> = Vec::new();
        for discussion in self.discussions(draft.change).await? {
            let first = &discussion["notes"][0];
            if is_own(first, own) {
                known.push(text(first, "body"));
            }
        }
        let is_known = |key: &str| known.iter().any(|body| has_marker(body, "finding", key));
        // A finding that has a thread from an earlier round gets no second one.
        let (placed, others) = split_findings(draft, is_known);
        let (inline, in_body) = (placed.len(), others.len());
        let existed = found.is_some();
        // All drafts are published by one call, so half a review is never public.
        if !existed {
            self.publish(draft, &placed, &others).await?;
        }
        match draft.event {
            ReviewEvent::Approve => self.approve(draft, own, &approvals).await?,
            // The REST API cannot request changes. Taking back our approval is what it offers.
            ReviewEvent::RequestChanges => {
                self.unapprove(draft.change, &approvals).await?;
            }
            ReviewEvent::Comment | ReviewEvent::Withdraw => {}
        }
        Ok(ReviewReceipt {
            id: found.as_ref().map(id).unwrap_or_default(),
            existed,
            inline,
            in_body,
        })
    }

    /// Writes draft notes for everything that is missing, and publishes them together.
    async fn publish(
        &self,
        draft: &ReviewDraft,
        placed: &[PlacedFinding<'_>],
        others: &[&InlineFinding],
    ) -> Result<(), ForgeError> {
        let refs = self.diff_refs(draft.change, &draft.commit).await?;
        let path = self.change_path(draft.change, "/draft_notes");
        // Drafts are visible to their author only. A process that died may have left some.
        let drafts = self.rest.list(&path, PAGE).await?;
        let is_drafted = |subject: &str, key: &str| {
            let mut drafts = drafts.iter();
            drafts.any(|note| has_marker(&text(note, "note"), subject, key))
        };
        let mut refused = Vec::new();
        for one in placed {
            if is_drafted("finding", &one.finding.key) {
                continue;
            }
            let mut request = json!({"note": finding_body(one.finding)});
            if let Some(position) = line_position(&refs, &draft.lines, &one.anchor) {
                request["position"] = position;
            }
            match self.rest.write("POST", &path, &request).await {
                Ok(_) => {}
                // The server does not accept the line. The finding becomes a thread of its own
                // below, on the file or without a place.
                Err(error) if matches!(error.refused_with(), Some(400 | 422)) => refused.push(one),
                Err(error) => return Err(error),
            }
        }
        if !is_drafted("review", &draft.key) {
            let body = review_body(draft, others, BODY_CHARS_MAX);
            let request = json!({"note": body});
            self.rest.write("POST", &path, &request).await?;
        }
        let publish = self.change_path(draft.change, "/draft_notes/bulk_publish");
        self.rest.write("POST", &publish, &json!({})).await?;
        for one in refused {
            let thread = ThreadDraft {
                change: draft.change,
                commit: draft.commit.clone(),
                finding: one.finding.clone(),
                lines: draft.lines.clone(),
            };
            self.try_thread(&thread).await?;
        }
        Ok(())
    }

    async fn approve(
        &self,
        draft: &ReviewDraft,
        own: &str,
        approvals: &str,
    ) -> Result<(), ForgeError> {
        // By default GitLab does not let authors approve, and our own approval would prove nothing.
        let change = self.rest.get(&self.change_path(draft.change, "")).await?;
        if is_own(&change, own) || self.has_approved(approvals, own).await? {
            return Ok(());
        }
        let path = self.change_path(draft.change, "/approve");
        // With the commit, GitLab refuses to approve a newer one that was pushed meanwhile.
        let request = json!({"sha": draft.commit});
        match self.rest.write("POST", &path, &request).await {
            // Without the right to approve, the status is the gate.
            Err(ForgeError::Unauthorized { .. } | ForgeError::Forbidden { .. }) => Ok(()),
            result => result.map(drop),
        }
    }

    async fn has_approved(&self, approvals: &str, own: &str) -> Result<bool, ForgeError> {
        let found = self.rest.get_maybe(approvals).await?.unwrap_or_default();
        let mut by = entries(&found["approved_by"]).iter();
        Ok(by.any(|entry| text(&entry["user"], "username").eq_ignore_ascii_case(own)))
    }

    /// Returns whether there was an approval of ours to withdraw.
    async fn unapprove(&self, change: u64, approvals: &str) -> Result<bool, ForgeError> {
        let own = self.own_login().await?;
        if !self.has_approved(approvals, own).await? {
            return Ok(false);
        }
        let path = self.change_path(change, "/unapprove");
        match self.rest.write("POST", &path, &json!({})).await {
            // Not found: somebody else took it back between our two calls.
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(true),
        }
    }

    pub(super) async fn try_thread(&self, draft: &ThreadDraft) -> Result<ReviewThread, ForgeError> {
        let finding = &draft.finding;
        if let Some(found) = self.own_discussion(draft.change, &finding.key).await? {
            let position = &found["notes"][0]["position"];
            let place = match position["position_type"].as_str() {
                Some("text") => ThreadPlace::Line,
                Some("file") => ThreadPlace::File,
                _ => ThreadPlace::Comment,
            };
            return Ok(ReviewThread {
                id: id(&found),
                place,
            });
        }
        let placement = finding
            .anchor
            .as_ref()
            .map_or(Placement::Body, |anchor| draft.lines.place(anchor));
        let refs = self.diff_refs(draft.change, &draft.commit).await?;
        let body = finding_body(finding);
        let mut requests = Vec::new();
        let mut file = None;
        match &placement {
            Placement::Line(anchor) => {
                if let Some(position) = line_position(&refs, &draft.lines, anchor) {
                    requests.push((
                        ThreadPlace::Line,
                        json!({"body": body, "position": position}),
                    ));
                }
                file = Some(&anchor.path);
            }
            Placement::File(path) => file = Some(path),
            Placement::Body => {}
        }
        if let Some(path) = file {
            let position = file_position(&refs, path);
            requests.push((
                ThreadPlace::File,
                json!({"body": body, "position": position}),
            ));
        }
        // From the most exact place to the least; the first that the server accepts is kept.
        // A discussion without a place can be resolved too.
        requests.push((ThreadPlace::Comment, json!({"body": body})));
        let path = self.change_path(draft.change, "/discussions");
        let mut refusal = None;
        for (place, request) in requests {
            match self.rest.write("POST", &path, &request).await {
                Ok(written) => {
                    return Ok(ReviewThread {
                        id: id(&written),
                        place,
                    });
                }
                Err(error) if matches!(error.refused_with(), Some(400 | 422)) => {
                    refusal = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(refusal.unwrap_or(ForgeError::NotFound { what: path }))
    }

    pub(super) async fn try_settle(&self, answer: &ThreadAnswer) -> Result<(), ForgeError> {
        let found = self.own_discussion(answer.change, &answer.finding).await?;
        let Some(found) = found else {
            return Err(ForgeError::NotFound {
                what: format!("thread of {}", answer.finding),
            });
        };
        let path = self.change_path(answer.change, &format!("/discussions/{}", id(&found)));
        let own = self.own_login().await?;
        let notes = entries(&found["notes"]);
        if let Some((key, body)) = &answer.reply {
            let key = format!("{}:{key}", answer.finding);
            let mut replies = notes.iter();
            // The answer to the write may have been lost, so look before writing again.
            let is_there = replies
                .any(|note| is_own(note, own) && has_marker(&text(note, "body"), "reply", &key));
            if !is_there {
                let body = cut_body(&marked("reply", &key, body), BODY_CHARS_MAX, CUT_NOTICE);
                let request = json!({"body": body});
                self.rest
                    .write("POST", &format!("{path}/notes"), &request)
                    .await?;
            }
        }
        let is_resolved = notes.first().is_some_and(|note| note["resolved"] == true);
        let wanted = answer.state == ThreadState::Resolved;
        if is_resolved != wanted {
            self.rest
                .write("PUT", &path, &json!({"resolved": wanted}))
                .await?;
        }
        Ok(())
    }
}
