//! Everything that others say on a change or an issue: reviews, comments, checks and conflicts.

use crate::model::{ForgeCursor, LabelEdit, TrackedIssue};

/// Maximum number of characters that are kept of the log of a failed check: its end.
pub const LOG_CHARS_MAX: usize = 8_000;
/// Maximum number of failed checks whose log is read.
pub const LOGS_MAX: usize = 3;

/// Kind of a text that somebody wrote. Forges keep them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommentKind {
    /// On the change or the issue as a whole.
    Plain,
    /// On a line or a file of the diff, or an answer there.
    Inline,
}

/// Name of a comment: enough to react to it and to remember it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommentRef {
    /// Number of the change, or key of the issue.
    pub on: String,
    pub id: String,
    pub kind: CommentKind,
}

/// Place of a comment in the diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentPlace {
    pub path: String,
    /// Line in the new file; `None` for a whole file, a removed line, or a line that is gone.
    pub line: Option<u32>,
}

/// A comment, of anybody. Texts are as they were written: neutralise them before they go out again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not states"
)]
pub struct PersonComment {
    pub comment: CommentRef,
    pub author: String,
    /// True for an account that a program uses.
    pub is_bot: bool,
    /// True for the account of our own token.
    pub is_own: bool,
    /// True if the text was changed after it was written.
    pub edited: bool,
    pub body: String,
    pub place: Option<CommentPlace>,
    /// Id of the first comment of the thread, for an answer.
    pub in_reply_to: Option<String>,
    /// Key of our finding, if the comment is in the thread of one.
    pub finding: Option<String>,
    /// True if somebody resolved its thread.
    pub resolved: bool,
    pub created_at: String,
    pub updated_at: String,
    pub url: String,
}

/// Verdict of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVerdict {
    Approved,
    ChangesRequested,
    Commented,
    /// It counted once, and was withdrawn.
    Dismissed,
}

/// A review, of anybody. Its comments on lines are among the comments of the feedback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonReview {
    pub id: String,
    pub author: String,
    pub is_bot: bool,
    pub is_own: bool,
    pub verdict: ReviewVerdict,
    pub body: String,
    /// Commit that was reviewed; empty if the forge does not say it.
    pub commit: String,
    pub submitted_at: String,
}

/// State of a check that another program reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCheckState {
    Pending,
    Passed,
    Failed,
    /// Cancelled, skipped, or neutral: neither green nor red.
    Neutral,
}

/// Result of another program on the head of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCheck {
    pub name: String,
    pub state: OtherCheckState,
    pub summary: String,
    pub url: String,
    /// End of the log, if it failed and the forge has it.
    pub log_tail: Option<String>,
}

/// Everything that the forge knows about a change besides its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeFeedback {
    /// Head that the checks belong to.
    pub head_commit: String,
    pub reviews: Vec<PersonReview>,
    /// In the order in which they were written.
    pub comments: Vec<PersonComment>,
    /// Checks of others on the head; our own gates are not among them.
    pub checks: Vec<OtherCheck>,
    /// Whether it conflicts with its base; `None` while the forge computes it.
    pub conflict: Option<bool>,
}

/// Reaction to a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Eyes: it is seen.
    Seen,
    /// Thumb up: it is done.
    Done,
    /// Confused: it is refused, or not understood.
    Refused,
}

/// Selection of comments.
#[derive(Clone, Debug, Default)]
pub struct CommentQuery {
    /// A change or an issue; without it, the whole repository, as far as the forge lists that.
    pub on: Option<String>,
    pub cursor: ForgeCursor,
}

#[derive(Clone, Debug, Default)]
pub struct CommentPage {
    pub comments: Vec<PersonComment>,
    pub cursor: ForgeCursor,
}

/// Selection of open issues. Every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct IssueFilter {
    pub labels: Vec<String>,
    pub assignee: Option<String>,
    /// Query in the language of the tracker (JQL). Other forges refuse it.
    pub query: Option<String>,
}

/// Issues that changed. A list leaves out dependencies; `issue` reads them.
#[derive(Clone, Debug, Default)]
pub struct IssuePage {
    pub issues: Vec<TrackedIssue>,
    pub cursor: ForgeCursor,
}

/// Link from an issue to something elsewhere. Its id identifies it, so that it is made once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueLink {
    pub id: String,
    pub url: String,
    pub title: String,
}

/// A state or a detail that an issue should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueGoal {
    Open,
    Done,
    NotPlanned,
    /// A status of a tracker, by its name.
    Status(String),
    /// Labels that it has, and labels that it has not.
    Labels(LabelEdit),
    /// A link to a change. A forge without links of its own gets a comment.
    Linked(IssueLink),
}
