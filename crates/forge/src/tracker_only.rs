//! Lets a tracker stand where a forge is expected: its pull requests are not supported, and its
//! capabilities say so first.

use async_trait::async_trait;

use crate::model::{
    ChangeDraft, ChangeKey, ChangePage, CommentDraft, ForgeAccount, ForgeCapabilities, ForgeChange,
    ForgeComment, ForgeCursor, ForgeGate, ForgePermission, LabelEdit, MergeOrder, MergeReport,
    ReviewDraft, ReviewReceipt, ReviewThread, ThreadAnswer, ThreadDraft, TrackedIssue,
};
use crate::{
    ChangeFeedback, CommentPage, CommentQuery, CommentRef, Forge, ForgeError, IssueFilter,
    IssueGoal, IssuePage, Reaction, Tracker,
};

/// A tracker without pull requests.
#[derive(Debug)]
pub struct TrackerOnly<T>(pub T);

impl<T: Tracker> TrackerOnly<T> {
    fn unsupported<V>(&self) -> Result<V, ForgeError> {
        Err(ForgeError::Unsupported {
            forge: self.0.capabilities().name,
            what: "pull requests",
        })
    }
}

#[async_trait]
impl<T: Tracker> Tracker for TrackerOnly<T> {
    fn capabilities(&self) -> ForgeCapabilities {
        self.0.capabilities()
    }

    async fn whoami(&self) -> Result<ForgeAccount, ForgeError> {
        self.0.whoami().await
    }

    async fn permission_of(&self, login: &str) -> Result<ForgePermission, ForgeError> {
        self.0.permission_of(login).await
    }

    async fn issue(&self, key: &str) -> Result<Option<TrackedIssue>, ForgeError> {
        self.0.issue(key).await
    }

    async fn issues_since(
        &self,
        filter: &IssueFilter,
        cursor: &ForgeCursor,
    ) -> Result<IssuePage, ForgeError> {
        self.0.issues_since(filter, cursor).await
    }

    async fn comments_since(&self, query: &CommentQuery) -> Result<CommentPage, ForgeError> {
        self.0.comments_since(query).await
    }

    async fn ensure_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError> {
        self.0.ensure_comment(draft).await
    }

    async fn ensure_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError> {
        self.0.ensure_issue_state(key, goal).await
    }

    async fn react(&self, comment: &CommentRef, reaction: Reaction) -> Result<(), ForgeError> {
        self.0.react(comment, reaction).await
    }
}

#[async_trait]
impl<T: Tracker> Forge for TrackerOnly<T> {
    async fn find_change(&self, _: &ChangeKey) -> Result<Option<ForgeChange>, ForgeError> {
        self.unsupported()
    }

    async fn changes_since(&self, _: &ForgeCursor) -> Result<ChangePage, ForgeError> {
        self.unsupported()
    }

    async fn change_feedback(&self, _: u64) -> Result<ChangeFeedback, ForgeError> {
        self.unsupported()
    }

    async fn queued_commit(&self, _: u64) -> Result<Option<String>, ForgeError> {
        self.unsupported()
    }

    async fn ensure_change(&self, _: &ChangeDraft) -> Result<ForgeChange, ForgeError> {
        self.unsupported()
    }

    async fn ensure_gate(&self, _: &ForgeGate) -> Result<(), ForgeError> {
        self.unsupported()
    }

    async fn ensure_review(&self, _: &ReviewDraft) -> Result<ReviewReceipt, ForgeError> {
        self.unsupported()
    }

    async fn ensure_thread(&self, _: &ThreadDraft) -> Result<ReviewThread, ForgeError> {
        self.unsupported()
    }

    async fn settle_thread(&self, _: &ThreadAnswer) -> Result<(), ForgeError> {
        self.unsupported()
    }

    async fn labels(&self, _: u64, _: &LabelEdit) -> Result<Vec<String>, ForgeError> {
        self.unsupported()
    }

    async fn merge(&self, _: &MergeOrder) -> Result<MergeReport, ForgeError> {
        self.unsupported()
    }
}
