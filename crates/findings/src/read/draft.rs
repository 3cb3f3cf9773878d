//! Drafts of findings: the reviewer's words, not yet cleaned, rated or merged.

use std::collections::{HashMap, HashSet};

use crate::clean::{
    FIELD_CHARS_MAX, FINDINGS_MAX, TITLE_CHARS_MAX, clean, confine, one_line, shorten,
};
use crate::finding::{Category, Finding, ReviewClaim};
use crate::fingerprint::folded;
use crate::severity::{Rating, Severity};

use super::fields::FindingFields;
use super::locations;

#[derive(Clone, Debug, Default)]
pub(super) struct FindingDraft {
    pub title: String,
    pub problem: Option<String>,
    pub impact: Option<String>,
    pub fix: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub end_line: Option<u32>,
    pub severity: Option<String>,
    /// Severity, if the format itself defines it and the word would mislead.
    pub degree: Option<Severity>,
    pub category: Option<String>,
    pub dimension: Option<String>,
    pub confidence: Option<u8>,
    pub rule: Option<String>,
    pub anchor: Option<String>,
    /// Praise, "no fix needed", a false positive: shown, never counted.
    pub idle: bool,
}

impl FindingDraft {
    /// Reads a message of several paragraphs: the first is the title, the others are labelled
    /// parts.
    pub fn from_message(message: &str) -> Self {
        let Some((title, rest)) = message.split_once("\n\n") else {
            return Self {
                title: message.to_owned(),
                ..Self::default()
            };
        };
        let mut fields = FindingFields::default();
        rest.split("\n\n").for_each(|part| fields.add(part));
        let problem = Some(fields.problem).filter(|problem| !problem.is_empty());
        Self {
            title: title.to_owned(),
            problem,
            impact: fields.impact,
            fix: fields.fix,
            ..Self::default()
        }
    }

    fn finish(self, claim: ReviewClaim) -> Finding {
        let (head, rest) = self
            .title
            .trim()
            .split_once("\n\n")
            .unwrap_or((self.title.trim(), ""));
        let title = one_line(&locations::without_citations(head));
        let short = shorten(&title, TITLE_CHARS_MAX);
        // The problem keeps the whole text of a title that had to be cut.
        let cut = if short == title && !head.contains('\n') {
            ""
        } else {
            head
        };
        let problem = [cut, rest, self.problem.as_deref().unwrap_or_default()].map(str::trim);
        let problem = field(Some(
            problem
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("\n\n"),
        ));
        let word = self
            .severity
            .as_deref()
            .map(|word| shorten(&one_line(word), 80));
        let mut rating = Rating::of(word.as_deref(), claim == ReviewClaim::Approved);
        if let Some(degree) = self.degree {
            rating.severity = degree;
            rating.unknown_word = false;
        }
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
            rating,
            category: self.category.as_deref().and_then(Category::from_label),
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

/// Cleans, rates and limits the drafts. `merge` joins repeated statements of one finding; it is off
/// for linters, which never repeat themselves.
pub(super) fn finish(drafts: Vec<FindingDraft>, claim: ReviewClaim, merge: bool) -> Vec<Finding> {
    let findings = drafts
        .into_iter()
        .take(FINDINGS_MAX)
        .map(|draft| draft.finish(claim))
        .filter(|finding| {
            finding
                .title
                .chars()
                .filter(|c| c.is_alphanumeric())
                .count()
                > 0
        });
    if merge {
        merged(findings)
    } else {
        findings.collect()
    }
}

/// Maximum number of earlier findings with the same location or title that one is compared with.
const COMPARED_MAX: usize = 24;

fn merged(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut merged_findings: Vec<Finding> = Vec::new();
    let mut by_title: HashMap<String, Vec<usize>> = HashMap::new();
    let mut by_place: HashMap<(String, u32), Vec<usize>> = HashMap::new();
    for finding in findings {
        let title = folded(&finding.title);
        let place = finding.file.clone().zip(finding.line);
        let same_title = by_title.get(&title).into_iter().flatten();
        let same_place = place
            .as_ref()
            .and_then(|place| by_place.get(place))
            .into_iter()
            .flatten();
        let repeat = same_title
            .chain(same_place)
            .copied()
            .take(COMPARED_MAX)
            .find(|&at| says_the_same(&merged_findings[at], &finding, &title));
        if let Some(at) = repeat {
            fill_gaps(&mut merged_findings[at], finding);
            continue;
        }
        by_title
            .entry(title)
            .or_default()
            .push(merged_findings.len());
        if let Some(place) = place {
            by_place
                .entry(place)
                .or_default()
                .push(merged_findings.len());
        }
        merged_findings.push(finding);
    }
    merged_findings
}

/// Returns whether two findings are one: the same title and no other location, or the same location
/// and half of the words.
fn says_the_same(first: &Finding, repeat: &Finding, title: &str) -> bool {
    let elsewhere = first.file.is_some()
        && repeat.file.is_some()
        && (first.file != repeat.file
            || (first.line != repeat.line && first.line.is_some() && repeat.line.is_some()));
    let kept_title = folded(&first.title);
    if kept_title == title {
        return !elsewhere;
    }
    if elsewhere || first.line.is_none() || repeat.line.is_none() {
        return false;
    }
    let words: HashSet<&str> = kept_title
        .split(' ')
        .filter(|word| word.len() > 3)
        .collect();
    let others: HashSet<&str> = title.split(' ').filter(|word| word.len() > 3).collect();
    let shared = words.intersection(&others).count();
    shared * 2 >= words.len().min(others.len()).max(2)
}

/// Adds to the first finding what only the repeat has; the worse severity wins.
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
