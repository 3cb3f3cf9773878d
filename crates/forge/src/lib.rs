//! Talks to forges and trackers, and knows no tickets.
//!
//! [`Tracker`] has the idempotent verbs for issues and comments, and [`Forge`] those for pull requests
//! on top. A caller says what should exist (a change, a comment on a topic, a thread for a finding),
//! and an adapter looks first and writes only what is missing. So every verb can be repeated after a
//! crash or a lost answer.
//!
//! The parts that decide something are pure: which lines can carry a comment ([`anchors`]), where a
//! long text is cut ([`body`]), how untrusted text is made harmless ([`neutral`]), whether a webhook
//! is genuine ([`webhook`]), which forge a remote belongs to ([`address`]), how long a limit lasts
//! ([`rate`]), and which command a comment gives ([`command`]).

pub mod address;
pub mod anchors;
pub mod app_auth;
pub mod body;
pub mod command;
mod error;
mod feedback;
mod forgejo;
mod github;
mod gitlab;
mod http;
mod jira;
mod json;
mod marker;
mod model;
pub mod neutral;
pub mod rate;
mod rest;
mod review_plan;
mod times;
mod token;
mod tracker_only;
mod verbs;
pub mod webhook;

pub use error::ForgeError;
pub use feedback::{
    ChangeFeedback, CommentKind, CommentPage, CommentPlace, CommentQuery, CommentRef, IssueFilter,
    IssueGoal, IssueLink, IssuePage, LOG_CHARS_MAX, OtherCheck, OtherCheckState, PersonComment,
    PersonReview, Reaction, ReviewVerdict,
};
pub use forgejo::Forgejo;
pub use github::Github;
pub use gitlab::Gitlab;
pub use http::{ForgeTransport, HyperTransport, WireFailure, WireRequest, WireResponse};
pub use jira::Jira;
pub use model::{
    ChangeDraft, ChangeKey, ChangePage, ChangeState, CommentDraft, CommentTopic, ForgeAccount,
    ForgeCapabilities, ForgeChange, ForgeComment, ForgeCursor, ForgeGate, ForgePermission,
    GateState, InlineFinding, LabelEdit, MergeMethod, MergeOrder, MergeReport, ReviewDraft,
    ReviewEvent, ReviewReceipt, ReviewThread, ThreadAnswer, ThreadDraft, ThreadPlace, ThreadState,
    TrackedIssue, WriteObstacle,
};
pub use rest::{ForgeClock, ForgeConnection};
pub use token::{ForgeCredential, ForgeToken};
pub use tracker_only::TrackerOnly;
pub use verbs::{Forge, Tracker};
