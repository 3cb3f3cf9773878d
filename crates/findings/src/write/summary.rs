//! A Markdown summary for a pull request or a ticket; it is updated in place, not repeated.

use std::fmt::Write;

use super::github::hidden;
use super::{FindingEntry, escape_for_forge, location};
use crate::severity::Severity;

/// Writes the summary. The `marker` becomes a hidden line that identifies the earlier summary for
/// its replacement.
pub fn summary(marker: &str, headline: &str, round: u32, entries: &[FindingEntry<'_>]) -> String {
    let mut out = format!(
        "{}\n## {}\n\nRound {round} · {}\n",
        hidden(marker),
        escape_for_forge(headline),
        counts(entries)
    );
    let actionable: Vec<&FindingEntry<'_>> = entries
        .iter()
        .filter(|entry| entry.finding.actionable)
        .collect();
    if !actionable.is_empty() {
        out.push_str("\n| id | severity | where | finding |\n|---|---|---|---|\n");
    }
    for entry in actionable {
        let place = location(entry.finding)
            .map(|place| format!("`{}`", place.replace('|', "\\|").replace('`', "")))
            .unwrap_or_default();
        let _ = writeln!(
            out,
            "| {} | {} | {place} | {} |",
            entry.id.unwrap_or("–"),
            entry.finding.rating.severity.word(),
            escape_for_forge(&entry.finding.title).replace('|', "\\|")
        );
    }
    out
}

fn counts(entries: &[FindingEntry<'_>]) -> String {
    let parts: Vec<String> = Severity::ALL
        .iter()
        .filter_map(|severity| {
            let count = entries
                .iter()
                .filter(|entry| {
                    entry.finding.actionable && entry.finding.rating.severity == *severity
                })
                .count();
            (count > 0).then(|| format!("{count} {}", severity.word()))
        })
        .collect();
    if parts.is_empty() {
        "no open findings".to_owned()
    } else {
        parts.join(", ")
    }
}

/// Replaces an earlier summary with the same marker by the new one, or appends it to the text.
pub fn replace_summary(existing: &str, marker: &str, new: &str) -> String {
    let hidden_line = hidden(marker);
    let Some(start) = existing.find(&hidden_line) else {
        let gap = if existing.trim().is_empty() {
            ""
        } else {
            "\n\n"
        };
        return format!("{}{gap}{new}", existing.trim_end());
    };
    let after = existing[start + hidden_line.len()..]
        .find("\n<!-- ")
        .map_or("", |at| &existing[start + hidden_line.len() + at..]);
    format!("{}{}{after}", &existing[..start], new.trim_end())
}
