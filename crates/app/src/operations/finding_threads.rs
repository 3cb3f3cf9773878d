//! A finding as a thread of a pull request: its text and its lines. Tickets and reviews without a
//! ticket write the same, so that people learn one form.

use std::fmt::Write as _;

use findings::Finding;
use flow::ledger::LedgerEntry;
use forge::anchors::{DiffSide, LineAnchor};
use forge::neutral::{neutralise, neutralise_line_of};

/// Writes a finding under a heading such as its id and severity. The finding's own words are an
/// agent's or a tool's, so they are neutralised; the heading is ours.
pub fn thread_text(heading: &str, entry: &LedgerEntry) -> String {
    let finding = &entry.finding;
    let mut text = format!("**{heading}**: {}", neutralise_line_of(&finding.title));
    let title = finding.title.trim();
    let parts = [
        ("", finding.problem.as_deref()),
        ("Why: ", finding.impact.as_deref()),
        ("Fix: ", finding.fix.as_deref()),
    ];
    for (label, part) in parts {
        // Many reviewers repeat the title as the problem.
        if let Some(part) = part.filter(|part| part.trim() != title) {
            let _ = write!(text, "\n\n{label}{}", neutralise(part));
        }
    }
    let by: Vec<&str> = entry.reported_by.iter().map(String::as_str).collect();
    let by = neutralise_line_of(&by.join(", "));
    let _ = write!(text, "\n\n_Reported by {by}, through Countersign._");
    text
}

/// Returns the lines of a finding, on the side after the change. A finding without a line is about
/// its file, whose first line is in the diff only if the file is new.
pub fn line_anchor(finding: &Finding) -> Option<LineAnchor> {
    let path = finding.file.clone()?;
    let first = finding.line.unwrap_or(0);
    let last = finding.end_line.unwrap_or(first).max(first);
    Some(LineAnchor {
        path,
        side: DiffSide::Right,
        // Forges refuse a range whose two ends are one line.
        start_line: (first < last).then_some(first),
        line: last,
    })
}
