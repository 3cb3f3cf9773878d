//! Writes findings in the forms that people's tools expect.
//!
//! Every writer takes [`Entry`]s: a finding and the id it has in the ticket's ledger, if any.

mod checklist;
mod context;
mod document;
mod github;
mod machine;
mod outcome;
mod report;
mod sarif;
mod summary;
mod xml;

pub use checklist::checklist;
pub use context::{feedback, revision_instructions, rework_context};
pub use document::{DocumentHeader, document};
pub use github::{DiffLines, GithubReviewEvent, github_review, is_commit_id};
pub use machine::{gitlab, qa_findings, rdjson, rdjsonl, workflow_commands};
pub use outcome::{reported, verdict};
pub use report::{ReviewReport, review_report};
pub use sarif::sarif;
pub use summary::{summary, update};
pub use xml::{checkstyle, junit};

use crate::finding::Finding;

/// What our own reports write in front of the finer severity where a format has a field for text.
pub(crate) const OWN_SEVERITY: &str = "severity: ";
/// The key or attribute of the finer severity where a format lets other keys pass.
pub(crate) const OWN_SEVERITY_KEY: &str = "rating";

/// One finding to be written.
#[derive(Clone, Copy, Debug)]
pub struct FindingEntry<'a> {
    /// The ledger's short id, `F3`.
    pub id: Option<&'a str>,
    pub finding: &'a Finding,
}

impl<'a> From<&'a Finding> for FindingEntry<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self { id: None, finding }
    }
}

/// `path:line` or `path:line-end`; `None` for a finding about the whole change.
pub fn location(finding: &Finding) -> Option<String> {
    let file = finding.file.as_deref()?;
    let place = match (finding.line, finding.end_line) {
        (Some(line), Some(end)) => format!("{file}:{line}-{end}"),
        (Some(line), None) => format!("{file}:{line}"),
        (None, _) => file.to_owned(),
    };
    Some(place)
}

/// [`location`] for running text: a path with blanks needs back-ticks to hold together.
fn inline_location(finding: &Finding) -> Option<String> {
    let place = location(finding)?;
    Some(if place.contains(' ') {
        format!("`{}`", place.replace('`', ""))
    } else {
        place
    })
}

/// The text on one line, with what would start a new Markdown structure kept inline.
fn inline(text: &str) -> String {
    crate::clean::one_line(text)
}

/// Text for a forge: cleaned, HTML escaped, mentions and closing keywords disarmed. Code spans
/// are shown as they are, so they are left as they are.
pub fn safe(text: &str) -> String {
    let cleaned = crate::clean::clean(text);
    let parts: Vec<&str> = cleaned.split('`').collect();
    let last = parts.len() - 1;
    let written = parts.iter().enumerate().map(|(at, part)| {
        let is_code = at % 2 == 1 && at < last;
        if is_code {
            (*part).to_owned()
        } else {
            disarmed(&escaped(part))
        }
    });
    written.collect::<Vec<_>>().join("`")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// An empty comment that nobody sees keeps `@name` from calling anyone and `fixes #1` from
/// closing it.
fn disarmed(text: &str) -> String {
    const GAP: &str = "<!-- -->";
    let mut out = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        out.push(c);
        let rest = &text[at + c.len_utf8()..];
        let names = rest.starts_with(|next: char| next.is_ascii_alphanumeric());
        let numbers = rest.starts_with(|next: char| next.is_ascii_digit());
        let address =
            c == '/' && (text[..at].ends_with("/issues") || text[..at].ends_with("/pull"));
        let key = c == '-' && text[..at].ends_with("GH");
        if (c == '@' && names) || ((c == '#' || address || key) && numbers) {
            out.push_str(GAP);
        }
    }
    out
}

#[cfg(test)]
mod tests;
