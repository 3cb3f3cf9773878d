//! Talks to forges and trackers, and knows no tickets.
//!
//! One trait, [`Forge`], has fourteen idempotent verbs. A caller says what should exist (a change, a
//! comment on a topic, a thread for a finding), and an adapter looks first and writes only what is
//! missing. So every verb can be repeated after a crash or a lost answer.
//!
//! The parts that decide something are pure: which lines can carry a comment ([`anchors`]), where a
//! long text is cut ([`body`]), how untrusted text is made harmless ([`neutral`]), whether a webhook
//! is genuine ([`webhook`]), which forge a remote belongs to ([`address`]), how long a limit lasts
//! ([`rate`]), and which command a comment gives ([`command`]).

pub mod address;
pub mod anchors;
pub mod body;
pub mod command;
mod error;
mod github;
mod http;
mod marker;
mod model;
pub mod neutral;
pub mod rate;
mod rest;
mod review_plan;
mod token;
pub mod webhook;

pub use error::ForgeError;
pub use github::Github;
pub use http::{ForgeTransport, HyperTransport, WireFailure, WireRequest, WireResponse};
pub use model::{
    ChangeDraft, ChangeKey, ChangePage, ChangeState, CommentDraft, CommentTopic, Forge,
    ForgeAccount, ForgeCapabilities, ForgeChange, ForgeComment, ForgeCursor, ForgeGate,
    ForgePermission, GateState, InlineFinding, IssueGoal, LabelEdit, MergeMethod, MergeOrder,
    MergeReport, ReviewDraft, ReviewEvent, ReviewReceipt, ReviewThread, ThreadAnswer, ThreadDraft,
    ThreadPlace, ThreadState, TrackedIssue,
};
pub use rest::{ForgeClock, ForgeConnection};
pub use token::ForgeToken;
