//! Measures the reader against annotated documents. Only examples and tests use it.
//!
//! For each finding, an annotation has some of its words, its severity as written, its file and its
//! line; `lenient` lists the fields that are not scored. A finding matches an annotation if its
//! text contains those words.

mod tracking;

pub use tracking::{RoundPair, TrackingTable, score_tracking};

use std::fmt::Write;

use serde_json::Value;

use crate::finding::{Finding, Review, ReviewClaim};

/// One document of a corpus.
#[derive(Clone, Debug)]
pub struct CorpusDocument {
    /// Number of the document, such as `042`.
    pub number: String,
    pub text: String,
    pub expected: Value,
}

/// Scores of the reader over a corpus.
#[derive(Clone, Debug, Default)]
pub struct ScoreTable {
    pub documents: usize,
    pub verdict: Ratio,
    pub recall: Ratio,
    pub precision: Ratio,
    pub file: Ratio,
    pub line: Ratio,
    pub severity: Ratio,
    /// One entry for each document that was not read perfectly.
    pub details: Vec<String>,
}

/// Good cases out of all counted ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratio {
    pub good: usize,
    pub all: usize,
}

impl Ratio {
    fn count(&mut self, good: bool) {
        self.good += usize::from(good);
        self.all += 1;
    }

    /// Returns the ratio in percent; 100 if nothing was counted.
    #[expect(clippy::cast_precision_loss, reason = "counts of findings are small")]
    pub fn percent(self) -> f64 {
        if self.all == 0 {
            100.0
        } else {
            100.0 * self.good as f64 / self.all as f64
        }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} {:.1}%", self.good, self.all, self.percent())
    }
}

impl std::fmt::Display for ScoreTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "documents {} | verdict {} | finding recall {} | precision {} | file {} | line {} | severity {}",
            self.documents,
            self.verdict,
            self.recall,
            self.precision,
            self.file,
            self.line,
            self.severity
        )
    }
}

/// Scores every document; `generated` includes documents that were annotated by machine.
pub fn score(documents: &[CorpusDocument], generated: bool) -> ScoreTable {
    let mut table = ScoreTable::default();
    for document in documents {
        if generated || document.expected["generated"] != Value::Bool(true) {
            score_document(document, &mut table);
        }
    }
    table
}

fn score_document(document: &CorpusDocument, table: &mut ScoreTable) {
    let review = crate::read(&document.text);
    let expected = &document.expected;
    let mut faults = String::new();
    table.documents += 1;
    if expected["verdict_lenient"] != Value::Bool(true) {
        let good = expected["verdict"] == claim_word(review.claim);
        table.verdict.count(good);
        if !good {
            let _ = write!(
                faults,
                "\n    verdict {} for {} ({})",
                claim_word(review.claim),
                expected["verdict"],
                review.claim_text.as_deref().unwrap_or("-")
            );
        }
    }
    let mut used = vec![false; review.findings.len()];
    for annotated in expected["findings"].as_array().into_iter().flatten() {
        score_annotation(annotated, &review, &mut used, table, &mut faults);
    }
    for (finding, used) in review.findings.iter().zip(&used) {
        table.precision.count(*used);
        if !used {
            let _ = write!(
                faults,
                "\n    extra: {:?} {} {}",
                finding.rating.raw,
                finding.file.as_deref().unwrap_or("-"),
                crate::shorten(&finding.title, 90)
            );
        }
    }
    if !faults.is_empty() {
        table
            .details
            .push(format!("{} ({:?}){faults}", document.number, review.format));
    }
}

fn score_annotation(
    expected: &Value,
    review: &Review,
    used: &mut [bool],
    table: &mut ScoreTable,
    faults: &mut String,
) {
    let lenient = |field: &str| {
        expected["lenient"]
            .as_array()
            .is_some_and(|fields| fields.iter().any(|name| name == field))
    };
    let words = squeezed(expected["title_contains"].as_str().unwrap_or_default());
    let Some(at) = best_match(expected, &words, review, used) else {
        if !lenient("presence") {
            table.recall.count(false);
            let _ = write!(faults, "\n    missed: {words}");
        }
        return;
    };
    used[at] = true;
    let finding = &review.findings[at];
    if !lenient("presence") {
        table.recall.count(true);
    }
    if !lenient("file") && !expected["file"].is_null() {
        let good = file_fits(finding, expected);
        table.file.count(good);
        if !good {
            let _ = write!(
                faults,
                "\n    file {:?} for {} ({words})",
                finding.file, expected["file"]
            );
        }
    }
    if !lenient("line") && !expected["line"].is_null() {
        let good = line_fits(finding, expected);
        table.line.count(good);
        if !good {
            let _ = write!(
                faults,
                "\n    line {:?} for {} ({words})",
                finding.line, expected["line"]
            );
        }
    }
    if !lenient("severity") && !expected["severity"].is_null() {
        let raw = finding
            .rating
            .raw
            .as_deref()
            .unwrap_or_else(|| finding.rating.severity.word());
        let good = squeezed(raw)
            == squeezed(
                &expected["severity"]
                    .as_str()
                    .map_or_else(|| expected["severity"].to_string(), str::to_owned),
            );
        table.severity.count(good);
        if !good {
            let _ = write!(
                faults,
                "\n    severity {raw} for {} ({words})",
                expected["severity"]
            );
        }
    }
}

/// Returns the unused finding that contains the annotation's words and fits its location best.
fn best_match(expected: &Value, words: &str, review: &Review, used: &[bool]) -> Option<usize> {
    let mut chosen: Option<((bool, bool), usize)> = None;
    for (at, finding) in review.findings.iter().enumerate() {
        if used[at] || !squeezed(&all_text(finding)).contains(words) {
            continue;
        }
        let fit = (
            file_fits(finding, expected),
            finding.line.map(u64::from) == expected["line"].as_u64(),
        );
        if chosen.is_none_or(|(best, _)| fit > best) {
            chosen = Some((fit, at));
        }
    }
    chosen.map(|(_, at)| at)
}

fn all_text(finding: &Finding) -> String {
    [
        Some(&finding.title),
        finding.problem.as_ref(),
        finding.impact.as_ref(),
        finding.fix.as_ref(),
    ]
    .into_iter()
    .flatten()
    .map(String::as_str)
    .collect::<Vec<_>>()
    .join(" ")
}

fn squeezed(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

fn file_fits(finding: &Finding, expected: &Value) -> bool {
    let Some(expected) = expected["file"].as_str() else {
        return true;
    };
    let Some(actual) = finding.file.as_deref() else {
        return false;
    };
    let bare = |path: &str| {
        path.replace('\\', "/")
            .trim_start_matches(['.', '/'])
            .to_owned()
    };
    let (actual, expected) = (bare(actual), bare(expected));
    actual.ends_with(&expected) || expected.ends_with(&actual)
}

fn line_fits(finding: &Finding, expected: &Value) -> bool {
    let (Some(actual), Some(first)) = (finding.line.map(u64::from), expected["line"].as_u64())
    else {
        return false;
    };
    (first..=expected["end_line"].as_u64().unwrap_or(first)).contains(&actual)
}

/// Returns the word that annotations use for a claim.
pub fn claim_word(claim: ReviewClaim) -> &'static str {
    match claim {
        ReviewClaim::Approved => "approved",
        ReviewClaim::ChangesRequested => "changes_requested",
        ReviewClaim::Unknown => "unknown",
    }
}
