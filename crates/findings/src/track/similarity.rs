//! Measures the similarity of two findings. Rare words count more than common ones.
//!
//! Reviewers seldom repeat a sentence word for word, but they repeat the names in it. So
//! identifiers weigh more, and the thresholds fall where the place is the same.

use std::collections::{HashMap, HashSet};

use crate::finding::Finding;
use crate::fingerprint::folded;

use super::LinkReason;
use super::lines::{LineMap, ends_with_path};

/// A finding prepared for comparison; a known one with its location mapped to the new commit.
pub(super) struct FindingProfile {
    file: Option<String>,
    line: Option<u32>,
    end_line: Option<u32>,
    title: String,
    anchor: Option<String>,
    rule: Option<String>,
    title_words: HashSet<String>,
    words: HashSet<String>,
}

impl FindingProfile {
    pub fn mapped_to(finding: &Finding, lines: &LineMap) -> Self {
        let mapped = finding
            .file
            .as_deref()
            .map(|file| lines.map(file, finding.line));
        let (file, line) = mapped.map_or((None, finding.line), |mapped| (mapped.file, mapped.line));
        // The length of the range is kept, because only its first line is mapped.
        let length = finding
            .line
            .zip(finding.end_line)
            .map(|(start, end)| end.saturating_sub(start));
        let end_line = line
            .zip(length)
            .map(|(line, length)| line.saturating_add(length));
        Self {
            file,
            line,
            end_line,
            ..Self::plain(finding)
        }
    }

    fn plain(finding: &Finding) -> Self {
        Self {
            file: finding.file.clone(),
            line: finding.line,
            end_line: finding.end_line,
            title: folded(&finding.title),
            anchor: finding
                .anchor
                .as_deref()
                .map(squeezed)
                // A short line, such as `}` or `return;`, occurs in every file.
                .filter(|anchor| anchor.len() > 7),
            rule: finding.rule.clone(),
            title_words: words(&finding.title),
            words: words(&body(finding)),
        }
    }
}

fn body(finding: &Finding) -> String {
    let parts = [
        Some(&finding.title),
        finding.problem.as_ref(),
        finding.fix.as_ref(),
    ];
    parts
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) struct Similarity {
    new: Vec<FindingProfile>,
    /// Number of findings in which a word occurs.
    seen_in: HashMap<String, u32>,
    total: u32,
}

impl Similarity {
    pub fn from_findings(known: &[FindingProfile], new: &[Finding]) -> Self {
        let new: Vec<FindingProfile> = new.iter().map(FindingProfile::plain).collect();
        let mut seen_in: HashMap<String, u32> = HashMap::new();
        for finding in known.iter().chain(&new) {
            for word in &finding.words {
                *seen_in.entry(word.clone()).or_default() += 1;
            }
        }
        let total = u32::try_from(known.len() + new.len()).unwrap_or(u32::MAX);
        Self {
            new,
            seen_in,
            total,
        }
    }

    /// Compares one pair; returns the criterion that links it, and the score.
    pub fn compare(
        &self,
        old: &FindingProfile,
        index: usize,
        exact_only: bool,
    ) -> Option<(LinkReason, u32)> {
        let new = self.new.get(index)?;
        let same_file = same_file(old, new);
        // Two different rules of a linter are two findings, even on one line.
        if old.rule != new.rule && old.rule.is_some() && new.rule.is_some() {
            return None;
        }
        let near = near(old, new).filter(|_| same_file == Some(true));
        if old.title == new.title && same_file != Some(false) {
            return Some(if near == Some(0) {
                (LinkReason::Line, 100)
            } else {
                // The nearer, the surer. A far place with the same title is still the same title.
                (LinkReason::Title, 96 - near.unwrap_or(20).min(20))
            });
        }
        if old.anchor.is_some() && old.anchor == new.anchor && same_file != Some(false) {
            return Some((LinkReason::Anchor, 90));
        }
        if exact_only {
            return None;
        }
        // Both are summed: a title may be new while the text is the old one, and the other way
        // round.
        let alike = self.weighted_overlap(&old.title_words, &new.title_words)
            + self.weighted_overlap(&old.words, &new.words);
        score(alike, same_file, near, shared_names(old, new))
    }

    pub fn same_file(&self, old: &FindingProfile, index: usize) -> Option<bool> {
        same_file(old, self.new.get(index)?)
    }

    /// Returns the shared words in percent of all words, each weighted by its rarity.
    fn weighted_overlap(&self, left: &HashSet<String>, right: &HashSet<String>) -> u32 {
        let weight = |word: &String| {
            let occurrences = self.seen_in.get(word).copied().unwrap_or(1);
            // A word that is in every finding says nothing about a pair.
            let rarity = f64::from(self.total + 1) / f64::from(occurrences);
            let bonus = if is_identifier(word) { 1.6 } else { 1.0 };
            (rarity.ln() + 0.15) * bonus
        };
        let shared: f64 = left.intersection(right).map(weight).sum();
        let (left, right): (f64, f64) = (
            left.iter().map(weight).sum(),
            right.iter().map(weight).sum(),
        );
        if left + right <= 0.0 {
            return 0;
        }
        percent(200.0 * shared / (left + right))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=100 first"
)]
fn percent(number: f64) -> u32 {
    number.clamp(0.0, 100.0) as u32
}

/// Decides by words: `alike` is the percentage of the title plus that of the whole text. The same
/// location lowers the threshold; across files only shared identifiers do.
fn score(
    alike: u32,
    same_file: Option<bool>,
    near: Option<u32>,
    names: usize,
) -> Option<(LinkReason, u32)> {
    let (how, threshold) = match (same_file, near) {
        (Some(true), Some(0)) => (LinkReason::Line, 34),
        (Some(true), Some(1..=12)) => (LinkReason::Line, 50),
        (Some(true), _) => (LinkReason::Score, 54),
        (None | Some(false), _) if names >= 3 => (LinkReason::Score, 52),
        (None, _) => (LinkReason::Score, 64),
        // The sum of both overlaps is at most 200. Different files need more than half of it.
        (Some(false), _) => (LinkReason::Score, 110),
    };
    (alike >= threshold).then(|| {
        (
            how,
            50 + (alike - threshold).min(80) / 2 + if how == LinkReason::Line { 8 } else { 0 },
        )
    })
}

/// Counts the identifiers in both findings that are long enough to be distinctive.
fn shared_names(old: &FindingProfile, new: &FindingProfile) -> usize {
    old.words
        .intersection(&new.words)
        .filter(|word| word.len() >= 8 && is_identifier(word))
        .count()
}

/// Returns the distance between the new lines and the mapped old ones; 0 if they overlap.
fn near(old: &FindingProfile, new: &FindingProfile) -> Option<u32> {
    let (old_start, new_start) = (old.line?, new.line?);
    let (old_end, new_end) = (
        old.end_line.unwrap_or(old_start).max(old_start),
        new.end_line.unwrap_or(new_start).max(new_start),
    );
    Some(
        new_start
            .saturating_sub(old_end)
            .max(old_start.saturating_sub(new_end)),
    )
}

fn same_file(old: &FindingProfile, new: &FindingProfile) -> Option<bool> {
    let (old, new) = (old.file.as_deref()?, new.file.as_deref()?);
    Some(ends_with_path(old, new) || ends_with_path(new, old))
}

fn is_identifier(word: &str) -> bool {
    word.contains(['_', ':', '('])
        || word.chars().skip(1).any(char::is_uppercase)
        || word.chars().any(|c| c.is_ascii_digit())
}

/// Returns the words and identifiers of a text. An identifier counts as a whole and in its parts.
fn words(text: &str) -> HashSet<String> {
    let mut out = HashSet::new();
    for token in text
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        // Longer texts add no new evidence, but cost time.
        .take(600)
    {
        // Words of two letters and the commonest words are in every finding.
        if token.len() < 3 || COMMON.contains(&token.to_lowercase().as_str()) {
            continue;
        }
        if is_identifier(token) {
            out.insert(token.to_owned());
        }
        for part in parts(token) {
            if part.chars().count() > 2 && !COMMON.contains(&part.as_str()) {
                out.insert(stem(&part));
            }
        }
    }
    out
}

fn parts(token: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut lower_before = false;
    for c in token.chars() {
        if c == '_' || (c.is_uppercase() && lower_before) {
            parts.push(String::new());
        }
        lower_before = c.is_lowercase();
        if c != '_'
            && let Some(last) = parts.last_mut()
        {
            last.extend(c.to_lowercase());
        }
    }
    parts
}

/// Removes the commonest endings, so that `validates` matches `validate`.
fn stem(word: &str) -> String {
    for ending in [
        "ations", "ation", "ings", "ing", "ies", "ed", "es", "s", "e",
    ] {
        // At least four letters stay, so that `used` does not become `us`.
        if let Some(rest) = word.strip_suffix(ending)
            && rest.chars().count() > 3
        {
            return rest.to_owned();
        }
    }
    word.to_owned()
}

const COMMON: &[&str] = &[
    "the", "and", "that", "this", "with", "for", "not", "are", "was", "but", "from", "into",
    "only", "when", "which", "has", "have", "will", "would", "should", "could", "can", "any",
    "all", "its", "does", "did", "been", "being", "than", "then", "there", "their", "also", "more",
    "such", "using", "use", "used", "uses", "line", "lines", "file", "files", "code", "function",
    "test", "tests", "add", "fix", "change", "issue",
];

/// Returns the numbers by which a title names findings of an earlier round.
pub(super) fn numbers_of_earlier(title: &str) -> Vec<usize> {
    let lower = title.to_lowercase();
    // Without such a word the numbers in brackets may be lines or counts.
    let earlier = [
        "previous",
        "prior",
        "earlier",
        "remaining",
        "round",
        "carried",
        "still open",
    ]
    .iter()
    .any(|word| lower.contains(word));
    if !earlier {
        return Vec::new();
    }
    let Some(list) = lower
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(list, _)| list)
    else {
        return Vec::new();
    };
    let plain = list
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | '#' | '&'))
        || list.contains("and");
    if !plain {
        return Vec::new();
    }
    list.split(|c: char| !c.is_ascii_digit())
        // Up to three digits: a larger number is no position in a list.
        .filter(|digits| !digits.is_empty() && digits.len() < 4)
        .filter_map(|digits| digits.parse().ok())
        .take(20)
        .collect()
}

/// Returns the finding that each subject names, if one is similar enough.
pub(super) fn match_subjects(
    findings: &[&Finding],
    subjects: &[&str],
    percent_min: u32,
) -> Vec<Option<usize>> {
    let known: Vec<FindingProfile> = findings
        .iter()
        .take(500)
        .map(|finding| FindingProfile::plain(finding))
        .collect();
    let subject_words: Vec<HashSet<String>> = subjects
        .iter()
        .take(500)
        .map(|subject| words(subject))
        .collect();
    let mut likeness = Similarity {
        new: Vec::new(),
        seen_in: HashMap::new(),
        total: u32::try_from(known.len() + subject_words.len()).unwrap_or(u32::MAX),
    };
    for word in known
        .iter()
        .flat_map(|known| &known.title_words)
        .chain(subject_words.iter().flatten())
    {
        *likeness.seen_in.entry(word.clone()).or_default() += 1;
    }
    subject_words
        .iter()
        .map(|subject| {
            let scored = known
                .iter()
                .enumerate()
                .map(|(at, known)| (likeness.weighted_overlap(&known.title_words, subject), at));
            scored
                .filter(|&(alike, _)| alike >= percent_min)
                .max()
                .map(|(_, at)| at)
        })
        .collect()
}
