//! Understands what reviewers wrote, and cannot act.
//!
//! Everything here is a pure function of its arguments: text in, findings out, or findings in,
//! text out. There is no file, no clock, no process. What cannot be understood is
//! [`Claim::Unknown`], never an approval.

mod answer;
mod checkout_paths;
mod clean;
mod finding;
mod fingerprint;
mod read;
pub mod score;
mod severity;
mod track;
pub mod write;

pub use answer::{CommissionedReview, hear_beside, read_answer, read_call};
pub use checkout_paths::{read_in, relocate};
pub use clean::{
    TOKEN_DIGITS, TOKEN_PREFIX, clean, clean_json, clean_name, confine, confine_to, is_hidden,
    one_line, shorten, without_hidden,
};
pub use finding::{
    BlockingIssue, Category, CriterionAnswer, DimensionScore, Disposition, Finding, Review,
    ReviewClaim, ReviewFormat, Weight,
};
pub use fingerprint::fingerprint;
pub use read::{JSON_BYTES_MAX, TEXT_BYTES_MAX, read, read_value, repeats_a_key};
pub use severity::{Rating, Severity};
pub use track::{
    FindingLink, KnownFinding, LineMap, LinkReason, MappedLine, dispositions, track, track_review,
};
