//! A finding while it is being read: the reviewer's words, not yet cleaned, rated or merged.

use crate::clean::{
    FIELD_CHARS_MAX, FINDINGS_MAX, TITLE_CHARS_MAX, clean, confine, one_line, shorten,
};
use crate::finding::{Category, Claim, Finding};
use crate::fingerprint::folded;
use crate::severity::Rating;

#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub title: String,
    pub problem: Option<String>,
    pub impact: Option<String>,
    pub fix: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub end_line: Option<u32>,
    pub severity: Option<String>,
    pub category: Option<String>,
    pub dimension: Option<String>,
    pub confidence: Option<u8>,
    pub rule: Option<String>,
    pub anchor: Option<String>,
    /// Praise, "no fix needed", a false positive: shown, never counted.
    pub idle: bool,
}

impl Draft {
    fn finish(self, claim: Claim) -> Finding {
        let title = one_line(&self.title);
        let full = clean(self.title.trim());
        let short = shorten(&title, TITLE_CHARS_MAX);
        let problem = field(self.problem).or_else(|| {
            (short != title || full.contains('\n')).then(|| shorten(&full, FIELD_CHARS_MAX))
        });
        Finding {
            title: short,
            problem,
            impact: field(self.impact),
            fix: field(self.fix),
            file: self.file.as_deref().and_then(confine),
            line: self.line,
            end_line: self
                .end_line
                .filter(|end| self.line.is_some_and(|line| line < *end)),
            rating: Rating::of(
                self.severity
                    .as_deref()
                    .map(|word| shorten(&one_line(word), 80))
                    .as_deref(),
                claim == Claim::Approved,
            ),
            category: self.category.as_deref().and_then(Category::of),
            dimension: self
                .dimension
                .map(|text| shorten(&one_line(&text), 80))
                .filter(|text| !text.is_empty()),
            confidence: self.confidence,
            rule: self
                .rule
                .map(|text| shorten(&one_line(&text), TITLE_CHARS_MAX))
                .filter(|text| !text.is_empty()),
            anchor: field(self.anchor),
            actionable: !self.idle,
        }
    }
}

fn field(text: Option<String>) -> Option<String> {
    let text = clean(text?.trim());
    let text = text.trim();
    (!text.is_empty()).then(|| shorten(text, FIELD_CHARS_MAX))
}

/// Cleans, rates and bounds what was read. `merge` folds one finding that the document states
/// several times into one; linters never repeat themselves, so theirs are left alone.
pub(super) fn finish(drafts: Vec<Draft>, claim: Claim, merge: bool) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for draft in drafts.into_iter().take(FINDINGS_MAX) {
        let finding = draft.finish(claim);
        if finding.title.is_empty() {
            continue;
        }
        if merge {
            let key = (finding.file.clone(), finding.line, folded(&finding.title));
            if let Some(&at) = seen.get(&key) {
                fill_gaps(&mut findings[at], finding);
                continue;
            }
            seen.insert(key, findings.len());
        }
        findings.push(finding);
    }
    findings
}

/// A repeat adds what the first statement left out, and the worse severity wins.
fn fill_gaps(first: &mut Finding, repeat: Finding) {
    let rated_worse = repeat.rating.raw.is_some()
        && (first.rating.raw.is_none() || repeat.rating.severity < first.rating.severity);
    if rated_worse {
        first.rating = repeat.rating;
    }
    first.problem = first.problem.take().or(repeat.problem);
    first.impact = first.impact.take().or(repeat.impact);
    first.fix = first.fix.take().or(repeat.fix);
    first.end_line = first.end_line.or(repeat.end_line);
    first.category = first.category.or(repeat.category);
    first.actionable |= repeat.actionable;
}
