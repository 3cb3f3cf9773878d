//! The verbs of a forge, and the plain values that they take and return.

use async_trait::async_trait;

use crate::ForgeError;
use crate::anchors::{CommentableLines, LineAnchor};

/// Abilities of a forge for this account, as data: callers branch on these and never on the kind of
/// a forge. Some depend on the token: only an app may write check runs on GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not states"
)]
pub struct ForgeCapabilities {
    pub name: &'static str,
    /// It has pull requests; a tracker has issues only.
    pub has_changes: bool,
    /// Threads can be resolved and reopened.
    pub has_threads: bool,
    pub has_check_runs: bool,
    /// A comment can be on a line that the diff does not show.
    pub inline_outside_diff: bool,
    pub body_chars_max: usize,
}

/// Account behind the token, and what it may do with the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeAccount {
    pub login: String,
    pub permission: ForgePermission,
    pub capabilities: ForgeCapabilities,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForgePermission {
    None,
    Read,
    Write,
    Admin,
}

/// Name by which a change is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKey {
    Number(u64),
    /// Branch of the repository itself, with an open change.
    Branch(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeState {
    Open,
    Closed,
    Merged,
}

/// A pull request or merge request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeChange {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub author: String,
    pub state: ChangeState,
    pub draft: bool,
    pub head_branch: String,
    pub head_commit: String,
    pub base_branch: String,
    /// True if the head is in another repository. Its checks do not run without a permission.
    pub from_fork: bool,
    pub labels: Vec<String>,
    pub url: String,
    pub updated_at: String,
}

/// A change as it should be. Its branch identifies it.
#[derive(Clone, Debug)]
pub struct ChangeDraft {
    pub head_branch: String,
    pub base_branch: String,
    pub title: String,
    pub body: String,
    pub draft: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    Pending,
    Success,
    Failure,
    Error,
}

/// A result on an exact commit, identified by its name.
#[derive(Clone, Debug)]
pub struct ForgeGate {
    pub commit: String,
    pub name: String,
    pub state: GateState,
    pub description: String,
    pub url: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewEvent {
    Approve,
    RequestChanges,
    Comment,
}

/// A finding with its wanted place. The key identifies its thread over all rounds.
#[derive(Clone, Debug)]
pub struct InlineFinding {
    pub key: String,
    pub anchor: Option<LineAnchor>,
    pub body: String,
}

/// One review. Its key identifies it, so that it is posted once.
#[derive(Clone, Debug)]
pub struct ReviewDraft {
    pub key: String,
    pub change: u64,
    pub commit: String,
    pub event: ReviewEvent,
    pub body: String,
    pub findings: Vec<InlineFinding>,
    pub lines: CommentableLines,
}

/// Result of a review: what was placed where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewReceipt {
    pub id: String,
    /// True if an earlier call had posted it.
    pub existed: bool,
    pub inline: usize,
    pub in_body: usize,
}

/// Subject of a comment that is edited in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentTopic(pub String);

#[derive(Clone, Debug)]
pub struct CommentDraft {
    /// Number of the change, or key of the issue.
    pub on: String,
    pub topic: CommentTopic,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeComment {
    pub id: String,
    pub author: String,
    pub body: String,
}

/// A thread for one finding.
#[derive(Clone, Debug)]
pub struct ThreadDraft {
    pub change: u64,
    pub commit: String,
    pub finding: InlineFinding,
    pub lines: CommentableLines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPlace {
    Line,
    File,
    /// A comment on the change, because the diff does not have the file.
    Comment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewThread {
    pub id: String,
    pub place: ThreadPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    Open,
    Resolved,
}

/// Answer to a finding's thread. The key identifies the reply, so that it is written once.
#[derive(Clone, Debug)]
pub struct ThreadAnswer {
    pub change: u64,
    pub finding: String,
    pub state: ThreadState,
    /// Key and text of a reply.
    pub reply: Option<(String, String)>,
}

#[derive(Clone, Debug, Default)]
pub struct LabelEdit {
    pub add: Vec<String>,
    pub remove: Vec<String>,
}

/// Position in the stream of updates; it is opaque to the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgeCursor {
    pub updated_at: String,
    pub etag: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ChangePage {
    pub changes: Vec<ForgeChange>,
    pub cursor: ForgeCursor,
}

/// An issue of a forge or tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedIssue {
    pub key: String,
    pub title: String,
    pub body: String,
    pub author: String,
    pub closed: bool,
    pub labels: Vec<String>,
    /// Keys of issues that it waits for.
    pub blocked_by: Vec<String>,
}

/// State that an issue should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueGoal {
    Open,
    Done,
    NotPlanned,
    /// A status of a tracker, by its name.
    Status(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeMethod {
    Merge,
    Squash,
    Rebase,
}

#[derive(Clone, Debug)]
pub struct MergeOrder {
    pub change: u64,
    /// Exact head that was approved.
    pub commit: String,
    pub method: MergeMethod,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeReport {
    Merged,
    /// Somebody pushed after the approval.
    HeadMoved,
    /// The forge refuses, with its reason.
    NotMergeable(String),
}

/// A forge or tracker. Every verb can be repeated: the second call changes nothing.
#[async_trait]
pub trait Forge: Send + Sync + std::fmt::Debug {
    /// Returns the account, its permission on the repository, and the abilities of the forge.
    async fn whoami(&self) -> Result<ForgeAccount, ForgeError>;
    async fn find_change(&self, key: &ChangeKey) -> Result<Option<ForgeChange>, ForgeError>;
    async fn ensure_change(&self, draft: &ChangeDraft) -> Result<ForgeChange, ForgeError>;
    async fn ensure_gate(&self, gate: &ForgeGate) -> Result<(), ForgeError>;
    async fn ensure_review(&self, draft: &ReviewDraft) -> Result<ReviewReceipt, ForgeError>;
    async fn ensure_comment(&self, draft: &CommentDraft) -> Result<ForgeComment, ForgeError>;
    async fn ensure_thread(&self, draft: &ThreadDraft) -> Result<ReviewThread, ForgeError>;
    async fn settle_thread(&self, answer: &ThreadAnswer) -> Result<(), ForgeError>;
    async fn labels(&self, on: u64, edit: &LabelEdit) -> Result<Vec<String>, ForgeError>;
    async fn permission_of(&self, login: &str) -> Result<ForgePermission, ForgeError>;
    async fn changes_since(&self, cursor: &ForgeCursor) -> Result<ChangePage, ForgeError>;
    async fn issue(&self, key: &str) -> Result<Option<TrackedIssue>, ForgeError>;
    async fn ensure_issue_state(&self, key: &str, goal: &IssueGoal) -> Result<(), ForgeError>;
    async fn merge(&self, order: &MergeOrder) -> Result<MergeReport, ForgeError>;
}
