//! Writes findings in the forms that people's tools expect.
//!
//! Every writer takes [`Entry`]s: a finding and the id it has in the ticket's ledger, if any.

mod checklist;
mod document;
mod report;

pub use checklist::checklist;
pub use document::{Document, document};
pub use report::{Report, review_report};

use crate::finding::Finding;

/// One finding to be written.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The ledger's short id, `F3`.
    pub id: Option<&'a str>,
    pub finding: &'a Finding,
}

impl<'a> From<&'a Finding> for Entry<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self { id: None, finding }
    }
}

/// `path:line` or `path:line-end`; `None` for a finding about the whole change.
pub fn location(finding: &Finding) -> Option<String> {
    let file = finding.file.as_deref()?;
    Some(match (finding.line, finding.end_line) {
        (Some(line), Some(end)) => format!("{file}:{line}-{end}"),
        (Some(line), None) => format!("{file}:{line}"),
        (None, _) => file.to_owned(),
    })
}

/// The text on one line, with what would start a new Markdown structure kept inline.
fn inline(text: &str) -> String {
    crate::clean::one_line(text)
}
