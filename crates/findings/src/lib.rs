//! Understands what reviewers wrote, and cannot act.
//!
//! Everything here is a pure function of its arguments: text in, findings out, or findings in,
//! text out. There is no file, no clock, no process. What cannot be understood is
//! [`Claim::Unknown`], never an approval.

mod finding;
mod lines;
mod read;
mod severity;

pub use finding::{
    BlockingIssue, Category, Claim, CriterionAnswer, Disposition, Finding, Review, Score, Way,
    Weight,
};
pub use lines::{Known, LineMap, Link, fingerprint, track};
pub use read::read;
pub use severity::{Rating, Severity};
