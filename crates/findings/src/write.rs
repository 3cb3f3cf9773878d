//! Writes findings in the formats that other tools expect.
//!
//! Every writer takes [`FindingEntry`]s: a finding and its id in the ticket's ledger, if any.

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
pub use document::{DocumentHeader, write_findings_document};
pub use github::{DiffLines, GithubReviewEvent, github_review, is_commit_id};
pub use machine::{gitlab, qa_findings, rdjson, rdjsonl, workflow_commands};
pub use outcome::{combined_verdict, reported_findings, stated_findings};
pub use report::{ReviewReport, review_report};
pub use sarif::sarif;
pub use summary::{replace_summary, summary};
pub use xml::{checkstyle, junit};

use crate::finding::Finding;

/// Prefix of our own, finer severity in a text field of a format.
pub(crate) const OWN_SEVERITY: &str = "severity: ";
/// Key or attribute of our own, finer severity in a format that allows other keys.
pub(crate) const OWN_SEVERITY_KEY: &str = "rating";

/// One finding to write.
#[derive(Clone, Copy, Debug)]
pub struct FindingEntry<'a> {
    /// Short id in the ledger, such as `F3`.
    pub id: Option<&'a str>,
    pub finding: &'a Finding,
}

impl<'a> From<&'a Finding> for FindingEntry<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self { id: None, finding }
    }
}

/// Returns `path:line` or `path:line-end`; `None` for a finding about the whole change.
pub fn location(finding: &Finding) -> Option<String> {
    let file = finding.file.as_deref()?;
    let place = match (finding.line, finding.end_line) {
        (Some(line), Some(end)) => format!("{file}:{line}-{end}"),
        (Some(line), None) => format!("{file}:{line}"),
        (None, _) => file.to_owned(),
    };
    Some(place)
}

/// Like [`location`], for running text: a path with blanks needs back-ticks.
fn inline_location(finding: &Finding) -> Option<String> {
    let place = location(finding)?;
    Some(if place.contains(' ') {
        format!("`{}`", place.replace('`', ""))
    } else {
        place
    })
}

/// Puts the text on one line, so that it cannot start a new Markdown structure.
fn inline(text: &str) -> String {
    crate::clean::one_line(text)
}

/// Prepares text for a forge: cleaned, HTML escaped, mentions and closing keywords disarmed. Code
/// spans are shown verbatim, so they stay.
pub fn escape_for_forge(text: &str) -> String {
    let cleaned = crate::clean::clean(text);
    let parts: Vec<&str> = cleaned.split('`').collect();
    let last = parts.len() - 1;
    let disarmed_parts = parts.iter().enumerate().map(|(at, part)| {
        let is_code = at % 2 == 1 && at < last;
        if is_code {
            (*part).to_owned()
        } else {
            disarmed(&escaped(part))
        }
    });
    disarmed_parts.collect::<Vec<_>>().join("`")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Inserts an invisible empty comment, so that `@name` notifies nobody and `fixes #1` closes
/// nothing.
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
