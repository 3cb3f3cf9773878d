//! The findings document: Critical, Important and Minor issues with continuous numbers.

use std::fmt::Write;

use crate::finding::Category;
use crate::severity::Severity;

use super::{FindingEntry, inline, inline_location};

/// Header of a findings document.
#[derive(Clone, Copy, Debug)]
pub struct DocumentHeader<'a> {
    /// Name of the story or ticket, such as `2.1`.
    pub story: &'a str,
    pub round: u32,
    pub reviewer: &'a str,
    /// Date as `YYYY-MM-DD HH:MM`.
    pub date: &'a str,
    pub branch: &'a str,
    /// Recommended next step, one sentence.
    pub recommendation: &'a str,
}

const SECTIONS: [(&str, &str, &[Severity]); 3] = [
    (
        "Critical Issues (Must Fix)",
        "Critical",
        &[Severity::Critical],
    ),
    (
        "Important Issues (Should Fix)",
        "Important",
        &[Severity::High],
    ),
    (
        "Minor Issues (Nice to Have)",
        "Minor",
        &[Severity::Medium, Severity::Low, Severity::Suggestion],
    ),
];

/// Writes the findings document of one round.
pub fn write_findings_document(head: &DocumentHeader<'_>, entries: &[FindingEntry<'_>]) -> String {
    let mut out = format!(
        "# Story {} Code Review Findings - Round {}\n\n**Reviewer:** {}\n**Date:** {}\n**Branch:** {}\n",
        inline(head.story),
        head.round,
        inline(head.reviewer),
        inline(head.date),
        inline(head.branch)
    );
    let mut number = 0;
    let mut counts = [0; 3];
    for (index, (heading, _, severities)) in SECTIONS.iter().enumerate() {
        let _ = write!(out, "\n## {heading}\n");
        for entry in entries
            .iter()
            .filter(|entry| severities.contains(&entry.finding.rating.severity))
        {
            number += 1;
            counts[index] += 1;
            write_finding(&mut out, number, entry);
        }
        if counts[index] == 0 {
            out.push_str("\nNone.\n");
        }
    }
    let _ = write!(out, "\n## Summary\n\n- **Total findings:** {number}\n");
    for ((_, word, _), count) in SECTIONS.iter().zip(counts) {
        let _ = writeln!(out, "- **{word}:** {count}");
    }
    let _ = writeln!(out, "- **Recommendation:** {}", inline(head.recommendation));
    out
}

fn write_finding(out: &mut String, number: usize, entry: &FindingEntry<'_>) {
    let finding = entry.finding;
    let category = finding.category.map_or("General", category_title);
    let id = entry.id.map(|id| format!(" ({id})")).unwrap_or_default();
    let _ = write!(
        out,
        "\n{number}. **[{category}]:** {}{id}\n",
        inline(&finding.title)
    );
    if let Some(place) = inline_location(finding) {
        let _ = writeln!(out, "   - **File:** {place}");
    }
    // The document has three degrees; write the finer word where they would hide it.
    if matches!(
        finding.rating.severity,
        Severity::Medium | Severity::Suggestion
    ) {
        let _ = writeln!(out, "   - **Severity:** {}", finding.rating.severity.word());
    }
    if let Some(percent) = finding.confidence {
        let _ = writeln!(out, "   - **Confidence:** {percent} %");
    }
    let fields = [
        ("Problem", &finding.problem),
        ("Impact", &finding.impact),
        ("Fix", &finding.fix),
    ];
    for (name, text) in fields {
        if let Some(text) = text {
            let _ = writeln!(out, "   - **{name}:** {}", inline(text));
        }
    }
}

fn category_title(category: Category) -> &'static str {
    match category {
        Category::Security => "Security",
        Category::Correctness => "Correctness",
        Category::Performance => "Performance",
        Category::Readability => "Readability",
        Category::Testing => "Testing",
        Category::Requirements => "Requirements",
        Category::Coordination => "Coordination",
        Category::Patterns => "Patterns",
        Category::BestPractices => "Best Practices",
    }
}
