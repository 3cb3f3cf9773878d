//! A GitHub review: comments on lines of the diff, everything else in the body.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::{Value, json};

use super::{FindingEntry, escape_for_forge, location};
use crate::diff::{DiffPart, DiffReader};
use crate::finding::{Finding, ReviewClaim};

/// Lines of the new side that a diff shows, by file. GitHub accepts comments only on these.
#[derive(Clone, Debug, Default)]
pub struct DiffLines {
    files: HashMap<String, HashSet<u32>>,
}

impl DiffLines {
    /// Parses a unified diff with context, as the pull request shows it.
    pub fn parse(diff: &str) -> Self {
        let mut lines = Self::default();
        let mut file: Option<String> = None;
        let mut reader = DiffReader::default();
        for line in diff.lines() {
            match reader.read(line) {
                DiffPart::Heading(line) => {
                    if let Some(path) = line.strip_prefix("+++ ") {
                        file = path
                            .strip_prefix("b/")
                            .or_else(|| (path != "/dev/null").then_some(path))
                            .and_then(|path| crate::confine(path.trim_end_matches('\t')));
                    }
                }
                DiffPart::Row { new: Some(new), .. } => {
                    if let Some(file) = &file {
                        lines.files.entry(file.clone()).or_default().insert(new);
                    }
                }
                DiffPart::Row { .. } | DiffPart::Hunk(..) | DiffPart::Marker => {}
            }
        }
        lines
    }

    pub fn has(&self, file: &str, line: u32) -> bool {
        self.files
            .get(file)
            .is_some_and(|lines| lines.contains(&line))
    }
}

/// Verdict of a GitHub review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GithubReviewEvent {
    Approve,
    RequestChanges,
    Comment,
}

impl From<ReviewClaim> for GithubReviewEvent {
    /// Maps our own verdict, as computed by `write`.
    fn from(verdict: ReviewClaim) -> Self {
        match verdict {
            ReviewClaim::Approved => Self::Approve,
            ReviewClaim::ChangesRequested => Self::RequestChanges,
            ReviewClaim::Unknown => Self::Comment,
        }
    }
}

impl GithubReviewEvent {
    fn word(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::RequestChanges => "REQUEST_CHANGES",
            Self::Comment => "COMMENT",
        }
    }
}

/// Writes the review for GitHub's API. `marker` is a hidden line that identifies the review, so
/// that it is not sent twice. A commit that is not a full id is left out, because GitHub refuses a
/// word such as `HEAD`; it then uses the newest commit of the pull request.
pub fn github_review(
    event: GithubReviewEvent,
    commit: Option<&str>,
    summary: &str,
    marker: &str,
    entries: &[FindingEntry<'_>],
    diff: &DiffLines,
) -> Value {
    let (on_lines, outside): (Vec<&FindingEntry<'_>>, Vec<&FindingEntry<'_>>) = entries
        .iter()
        .partition(|entry| is_placed(entry.finding, diff));
    let mut body = escape_for_forge(summary);
    if !outside.is_empty() {
        body.push_str("\n\n### Findings outside the diff\n");
        for entry in &outside {
            let place = location(entry.finding)
                .map(|place| format!(" `{place}`"))
                .unwrap_or_default();
            let _ = write!(
                body,
                "\n- **{}**{place}: {}",
                entry.finding.rating.severity.word(),
                escape_for_forge(&entry.finding.title)
            );
        }
    }
    let _ = write!(body, "\n\n{}", hidden(marker));
    let mut review = json!({
        "event": event.word(),
        "body": body,
        "comments": on_lines.iter().map(|entry| comment(entry, diff)).collect::<Vec<_>>(),
    });
    if let Some(commit) = commit.filter(|commit| is_commit_id(commit)) {
        review["commit_id"] = json!(commit);
    }
    review
}

/// Returns whether a word is a full commit id, of SHA-1 or SHA-256.
pub fn is_commit_id(word: &str) -> bool {
    matches!(word.len(), 40 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_placed(finding: &Finding, diff: &DiffLines) -> bool {
    finding
        .file
        .as_deref()
        .zip(finding.line)
        .is_some_and(|(file, line)| {
            diff.has(
                file,
                finding
                    .end_line
                    .filter(|end| diff.has(file, *end))
                    .unwrap_or(line),
            ) && diff.has(file, line)
        })
}

fn comment(entry: &FindingEntry<'_>, diff: &DiffLines) -> Value {
    let finding = entry.finding;
    let file = finding.file.as_deref().unwrap_or_default();
    let line = finding.line.unwrap_or(1);
    let end = finding
        .end_line
        .filter(|end| diff.has(file, *end) && *end > line);
    let mut value = json!({"path": file, "line": end.unwrap_or(line), "side": "RIGHT", "body": comment_body(entry)});
    if end.is_some() {
        value["start_line"] = json!(line);
        value["start_side"] = json!("RIGHT");
    }
    value
}

fn comment_body(entry: &FindingEntry<'_>) -> String {
    let finding = entry.finding;
    let id = entry.id.map(|id| format!("{id} · ")).unwrap_or_default();
    let mut body = format!(
        "**{id}{}**: {}",
        finding.rating.severity.word(),
        escape_for_forge(&finding.title)
    );
    let parts = [
        ("", &finding.problem),
        ("**Impact:** ", &finding.impact),
        ("**Fix:** ", &finding.fix),
    ];
    for (label, part) in parts {
        if let Some(part) = part {
            let _ = write!(body, "\n\n{label}{}", escape_for_forge(part));
        }
    }
    body
}

/// Writes the marker as a comment that GitHub does not show.
pub(super) fn hidden(marker: &str) -> String {
    let plain: String = marker
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_.:/ ".contains(*c))
        .collect();
    format!("<!-- {} -->", plain.replace("--", "-"))
}
