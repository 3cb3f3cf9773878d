//! The plain values that the verbs of a forge take and return.

use crate::anchors::{CommentableLines, DiffLimits, LineAnchor};

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
    pub has_reactions: bool,
    /// The author of a change may approve it.
    pub author_may_approve: bool,
    /// Limits of the diff that it shows.
    pub diff_limits: DiffLimits,
    pub body_chars_max: usize,
    /// Directory of the refs that have the heads of changes, also those of forks.
    pub head_refs: &'static str,
}

impl ForgeCapabilities {
    /// Returns the ref of the head of a change in the repository that it is for.
    pub fn head_ref(&self, number: u64) -> String {
        format!("{}/{number}/head", self.head_refs)
    }
}

/// Account behind the token, and what it may do with the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeAccount {
    pub login: String,
    pub permission: ForgePermission,
    /// Reason why nobody can write to the repository, whatever the permission is.
    pub obstacle: Option<WriteObstacle>,
    pub capabilities: ForgeCapabilities,
}

/// Reason why a repository takes no writes under its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteObstacle {
    #[error("the repository is archived; unarchive it in its settings")]
    Archived,
    /// Reads are redirected, and writes are not: they would be lost on the way.
    #[error("the repository is called {0} now; correct your remote, and `repository` in [forge]")]
    Renamed(String),
}

impl WriteObstacle {
    /// Finds the obstacle in what a forge says about a repository.
    pub(crate) fn find(wanted: &str, is_archived: bool, named: &str) -> Option<Self> {
        match named {
            _ if is_archived => Some(Self::Archived),
            "" => None,
            named if named.eq_ignore_ascii_case(wanted) => None,
            named => Some(Self::Renamed(findings::one_line(named))),
        }
    }
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
    pub assignees: Vec<String>,
    /// Accounts whose review is wanted.
    pub reviewers: Vec<String>,
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
    /// Withdraws our earlier verdicts on the change, because their commit is not the head any more.
    /// The body is the reason; findings are not posted.
    Withdraw,
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackedIssue {
    pub key: String,
    pub title: String,
    pub body: String,
    pub author: String,
    pub assignees: Vec<String>,
    pub closed: bool,
    /// Name of its status; `open` or `closed` where there is nothing else.
    pub status: String,
    pub labels: Vec<String>,
    /// Keys of issues that it waits for.
    pub blocked_by: Vec<String>,
    /// Keys of issues that are parts of it.
    pub sub_issues: Vec<String>,
    /// Keys of issues that are linked in another way.
    pub links: Vec<String>,
    pub url: String,
    pub updated_at: String,
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
