//! The numbered checklist of a fix task.

use std::fmt::Write;

use super::{FindingEntry, inline, inline_location};

/// Writes `## Review Findings` with one numbered checkbox for each finding.
pub fn checklist(entries: &[FindingEntry<'_>]) -> String {
    let mut out = String::from("## Review Findings\n");
    for (index, entry) in entries.iter().enumerate() {
        let finding = entry.finding;
        let severity = finding.rating.severity.word().to_uppercase();
        let category = finding
            .category
            .map(|category| format!(" ({})", category.word()))
            .unwrap_or_default();
        let place = inline_location(finding)
            .map(|place| format!(" {place}"))
            .unwrap_or_default();
        let id = entry.id.map(|id| format!(" [{id}]")).unwrap_or_default();
        let _ = write!(
            out,
            "\n{}. [ ] **{severity}**{category}:{place}{id}\n",
            index + 1
        );
        let _ = writeln!(out, "    Issue: {}", inline(&issue(entry)));
        if let Some(fix) = &finding.fix {
            let _ = writeln!(out, "    Fix: {}", inline(fix));
        }
    }
    out
}

pub(super) fn issue(entry: &FindingEntry<'_>) -> String {
    let finding = entry.finding;
    match &finding.problem {
        Some(problem) if problem.starts_with(finding.title.trim_end_matches('…')) => {
            problem.clone()
        }
        Some(problem) => format!("{}: {problem}", finding.title.trim_end_matches(['.', ':'])),
        None => finding.title.clone(),
    }
}
