//! The verbs of forges and trackers. Every verb can be repeated: the second call changes nothing.

use async_trait::async_trait;

use crate::ForgeError;
use crate::feedback::{
    ChangeFeedback, CommentPage, CommentQuery, CommentRef, IssueFilter, IssueGoal, IssuePage,
    Reaction,
};
use crate::model::{
    ChangeDraft, ChangeKey, ChangePage, CommentDraft, ForgeAccount, ForgeCapabilities, ForgeChange,
    ForgeComment, ForgeCursor, ForgeGate, ForgePermission, LabelEdit, MergeOrder, MergeReport,
    ReviewDraft, ReviewReceipt, ReviewThread, ThreadAnswer, ThreadDraft, TrackedIssue,
};

/// A place with issues and comments. A tracker such as Jira has only these verbs, so that nobody can
/// ask it for a pull request.
#[async_trait]
pub trait Tracker: Send + Sync + std::fmt::Debug {
    /// Returns the abilities of the forge, without asking it.
    fn capabilities(&self) -> ForgeCapabilities;
    /// Returns the account, its permission on the repository, and the abilities of the forge.
    async fn whoami(&self) -> Result<ForgeAccount, ForgeError>;
    async fn permission_of(&self, login: &str) -> Result<ForgePermission, ForgeError>;
    async fn issue(&self, key: &str) -> Result<Option<TrackedIssue>, ForgeError>;
    /// Lists open issues that changed at or after the cursor; the newest are at the end.
    async fn issues_since(
        &self,
        filter: &IssueFilter,
        cursor: &ForgeCursor,
    ) -> Result<IssuePage, ForgeError>;
    /// Lists comments that changed at or after the cursor, of everybody.
    async fn comments_since(&self, query: &CommentQuery) -> Result<CommentPage, ForgeError>;
    async fn ensure_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError>;
    async fn ensure_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError>;
    /// Reacts to a comment. A place without reactions does nothing (`has_reactions`).
    async fn react(&self, comment: &CommentRef, reaction: Reaction) -> Result<(), ForgeError>;
}

/// A place that has pull requests as well.
#[async_trait]
pub trait Forge: Tracker {
    async fn find_change(&self, key: &ChangeKey) -> Result<Option<ForgeChange>, ForgeError>;
    async fn changes_since(&self, cursor: &ForgeCursor) -> Result<ChangePage, ForgeError>;
    /// Reads everything that others say on a change.
    async fn change_feedback(&self, number: u64) -> Result<ChangeFeedback, ForgeError>;
    /// Returns the commit that the forge tests in place of the head while the change is in its merge
    /// queue. Required gates have to be on that commit as well.
    async fn queued_commit(&self, number: u64) -> Result<Option<String>, ForgeError>;
    async fn ensure_change(&self, draft: &ChangeDraft) -> Result<ForgeChange, ForgeError>;
    async fn ensure_gate(&self, gate: &ForgeGate) -> Result<(), ForgeError>;
    async fn ensure_review(&self, draft: &ReviewDraft) -> Result<ReviewReceipt, ForgeError>;
    async fn ensure_thread(&self, draft: &ThreadDraft) -> Result<ReviewThread, ForgeError>;
    async fn settle_thread(&self, answer: &ThreadAnswer) -> Result<(), ForgeError>;
    async fn labels(&self, on: u64, edit: &LabelEdit) -> Result<Vec<String>, ForgeError>;
    async fn merge(&self, order: &MergeOrder) -> Result<MergeReport, ForgeError>;
}
