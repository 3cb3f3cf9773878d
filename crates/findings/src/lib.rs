//! Reads and writes reviews; it cannot act.
//!
//! Everything here is a pure function of its arguments: text in, findings out, or findings in, text
//! out. There is no file, no clock, no process. A text that cannot be understood gives
//! [`ReviewClaim::Unknown`], never an approval.

mod answer;
mod checkout_paths;
mod clean;
pub mod diff;
mod finding;
mod fingerprint;
mod read;
pub mod score;
mod severity;
mod track;
pub mod write;

pub use answer::{
    CommissionedReview, apply_text_beside, read_answer, read_confirmed_tool_call, read_tool_call,
};
pub use checkout_paths::{make_paths_relative, read_with_roots};
pub use clean::{
    TOKEN_DIGITS, TOKEN_PREFIX, clean, clean_json, clean_name, confine, confine_to,
    for_each_visible, is_hidden, one_line, shorten, strip_hidden,
};
pub use finding::{
    BlockingIssue, Category, CriterionAnswer, DimensionScore, Disposition, Finding, Review,
    ReviewClaim, ReviewFormat, Weight,
};
pub use fingerprint::fingerprint;
pub use read::{JSON_BYTES_MAX, TEXT_BYTES_MAX, read, read_value, repeats_a_key};
pub use severity::{Rating, Severity};
pub use track::{
    FindingLink, KnownFinding, LineMap, LinkReason, MappedLine, match_dispositions, track,
    track_review,
};
