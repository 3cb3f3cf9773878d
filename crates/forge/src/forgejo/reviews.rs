//! Reviews and threads on Forgejo and Gitea.

use serde_json::{Value, json};

use super::Forgejo;
use super::read::is_own;
use crate::ForgeError;
use crate::anchors::{DiffSide, LineAnchor, Placement};
use crate::body::{BODY_CHARS_MAX, cut_body};
use crate::json::{id, text};
use crate::marker::{has_marker, marked};
use crate::model::{
    CommentDraft, CommentTopic, InlineFinding, ReviewDraft, ReviewEvent, ReviewReceipt,
    ReviewThread, ThreadAnswer, ThreadDraft, ThreadPlace,
};
use crate::review_plan::{CUT_NOTICE, review_body, split_findings};

fn finding_body(finding: &InlineFinding) -> String {
    let marked = marked("finding", &finding.key, &finding.body);
    cut_body(&marked, BODY_CHARS_MAX, CUT_NOTICE)
}

/// A comment on a line. A position is the number of a line, in the old or in the new file.
fn comment(anchor: &LineAnchor, body: &str) -> Value {
    let (old, new) = match anchor.side {
        DiffSide::Left => (anchor.line, 0),
        DiffSide::Right => (0, anchor.line),
    };
    json!({"path": anchor.path, "body": body, "old_position": old, "new_position": new})
}

impl Forgejo {
    fn reviews_path(&self, change: u64) -> String {
        self.path(&format!("/pulls/{change}/reviews"))
    }

    /// Reads the comments of all reviews: there is no list of them.
    pub(super) async fn inline_comments(
        &self,
        change: u64,
        reviews: &[Value],
    ) -> Result<Vec<Value>, ForgeError> {
        let mut all = Vec::new();
        // One call for each review, so reviews without comments are left out.
        let with_comments = reviews
            .iter()
            .filter(|review| review["comments_count"] != 0);
        for review in with_comments {
            let path = format!("{}/{}/comments", self.reviews_path(change), id(review));
            // A review can be deleted between the two calls.
            let found = self.rest.get_maybe(&path).await?.unwrap_or_default();
            all.extend(crate::json::entries(&found).iter().cloned());
        }
        Ok(all)
    }

    async fn own_comments(&self, change: u64) -> Result<Vec<Value>, ForgeError> {
        let own = self.own_login().await?;
        let reviews = self.list(&self.reviews_path(change)).await?;
        // Only our own: anybody can copy a marker into a comment.
        let reviews: Vec<Value> = reviews.into_iter().filter(|one| is_own(one, own)).collect();
        self.inline_comments(change, &reviews).await
    }

    /// Refuses a review of a commit that is not the head: Forgejo would take it.
    async fn require_head(&self, change: u64, commit: &str) -> Result<String, ForgeError> {
        let what = self.path(&format!("/pulls/{change}"));
        let found = self.rest.get(&what).await?;
        if found["head"]["sha"] != commit {
            return Err(ForgeError::Refused {
                what,
                status: 409,
                detail: format!("commit_id {commit} is not the head of the change"),
            });
        }
        Ok(text(&found["user"], "login"))
    }

    pub(super) async fn try_review(
        &self,
        draft: &ReviewDraft,
    ) -> Result<ReviewReceipt, ForgeError> {
        let path = self.reviews_path(draft.change);
        if draft.event == ReviewEvent::Withdraw {
            return self.withdraw(&path, &draft.body).await;
        }
        // One call publishes the review with its comments, so a review that is there is complete.
        let found = self.find_own(&path, "review", &draft.key).await?;
        let known = self.own_comments(draft.change).await?;
        let is_known = |key: &str| {
            let mut known = known.iter();
            known.any(|one| has_marker(&text(one, "body"), "finding", key))
        };
        let (placed, others) = split_findings(draft, is_known);
        let receipt = |review: &Value, existed: bool| ReviewReceipt {
            id: id(review),
            existed,
            inline: placed.len(),
            in_body: others.len(),
        };
        if let Some(found) = found {
            return Ok(receipt(&found, true));
        }
        let author = self.require_head(draft.change, &draft.commit).await?;
        let is_own = self.own_login().await?.eq_ignore_ascii_case(&author);
        let event = match draft.event {
            // Forgejo refuses a verdict on one's own pull request.
            _ if is_own => "COMMENT",
            ReviewEvent::Approve => "APPROVED",
            ReviewEvent::RequestChanges => "REQUEST_CHANGES",
            ReviewEvent::Comment | ReviewEvent::Withdraw => "COMMENT",
        };
        let comments: Vec<Value> = placed
            .iter()
            .map(|placed| comment(&placed.anchor, &finding_body(placed.finding)))
            .collect();
        let body = review_body(draft, &others, BODY_CHARS_MAX);
        let request =
            json!({"event": event, "commit_id": draft.commit, "body": body, "comments": comments});
        let review = self.rest.write("POST", &path, &request).await?;
        Ok(receipt(&review, false))
    }

    async fn withdraw(&self, path: &str, reason: &str) -> Result<ReviewReceipt, ForgeError> {
        let own = self.own_login().await?;
        let found = self.list(path).await?;
        let counts = |one: &&Value| {
            is_own(one, own)
                // A dismissed review stays in the list with its state.
                && one["dismissed"] != true
                && matches!(one["state"].as_str(), Some("APPROVED" | "REQUEST_CHANGES"))
        };
        let mut existed = true;
        for review in found.iter().filter(counts) {
            let path = format!("{path}/{}/dismissals", id(review));
            self.rest
                .write("POST", &path, &json!({"message": reason}))
                .await?;
            existed = false;
        }
        Ok(ReviewReceipt {
            id: String::new(),
            existed,
            inline: 0,
            in_body: 0,
        })
    }

    pub(super) async fn try_thread(&self, draft: &ThreadDraft) -> Result<ReviewThread, ForgeError> {
        let finding = &draft.finding;
        let known = self.own_comments(draft.change).await?;
        let mut known = known.iter();
        if let Some(found) =
            known.find(|one| has_marker(&text(one, "body"), "finding", &finding.key))
        {
            return Ok(ReviewThread {
                id: id(found),
                place: ThreadPlace::Line,
            });
        }
        let placement = finding
            .anchor
            .as_ref()
            .map_or(Placement::Body, |anchor| draft.lines.place(anchor));
        if let Placement::Line(anchor) = &placement {
            self.require_head(draft.change, &draft.commit).await?;
            let comments = [comment(anchor, &finding_body(finding))];
            let request =
                json!({"event": "COMMENT", "commit_id": draft.commit, "comments": comments});
            let path = self.reviews_path(draft.change);
            match self.rest.write("POST", &path, &request).await {
                Ok(review) => {
                    return Ok(ReviewThread {
                        id: id(&review),
                        place: ThreadPlace::Line,
                    });
                }
                Err(error) if error.refused_with() == Some(422) => {}
                Err(error) => return Err(error),
            }
        }
        // Forgejo has no comment on a whole file.
        let written = self
            .try_comment(&CommentDraft {
                on: draft.change.to_string(),
                // The topic makes it one comment for each finding, however often this is repeated.
                topic: CommentTopic(format!("finding:{}", finding.key)),
                body: finding.body.clone(),
            })
            .await?;
        Ok(ReviewThread {
            id: written.id,
            place: ThreadPlace::Comment,
        })
    }

    /// Answers a finding on its line. The API cannot resolve a thread (`has_threads`).
    pub(super) async fn try_settle(&self, answer: &ThreadAnswer) -> Result<(), ForgeError> {
        let known = self.own_comments(answer.change).await?;
        let mut comments = known.iter();
        let first = comments.find(|one| has_marker(&text(one, "body"), "finding", &answer.finding));
        let Some((key, body)) = &answer.reply else {
            return Ok(());
        };
        let key = format!("{}:{key}", answer.finding);
        let Some(first) = first else {
            let draft = CommentDraft {
                on: answer.change.to_string(),
                topic: CommentTopic(format!("reply:{key}")),
                body: format!("**{}**: {body}", answer.finding),
            };
            return self.try_comment(&draft).await.map(drop);
        };
        let mut replies = known.iter();
        if replies.any(|one| has_marker(&text(one, "body"), "reply", &key)) {
            return Ok(());
        }
        let body = cut_body(&marked("reply", &key, body), BODY_CHARS_MAX, CUT_NOTICE);
        let mut reply = json!({"path": first["path"], "body": body});
        // The API cannot answer a comment. A comment on the same line joins the conversation there.
        reply["new_position"] = first["position"].clone();
        reply["old_position"] = first["original_position"].clone();
        // A line has one position that counts, and the other is zero.
        if first["position"].as_u64().unwrap_or_default() > 0 {
            reply["old_position"] = json!(0);
        }
        let request = json!({"event": "COMMENT", "comments": [reply]});
        let path = self.reviews_path(answer.change);
        self.rest.write("POST", &path, &request).await.map(drop)
    }
}
