//! Tracks findings over the rounds: links new findings to known ones.
//!
//! Four criteria, the strongest first: the line that the diff maps the old one to, the quoted line
//! of code, the title, and a weighted score of path, words and mapped line. A finding without a
//! link is new, or was not repeated. A finding that is not repeated is not therefore fixed.
//!
//! Links decide money: a finding that is not recognised is verified and reworked a second time, and
//! two defects that are taken for one hide each other. So an uncertain pair is not linked.

mod lines;
mod similarity;

pub use lines::{LineMap, MappedLine};

use serde::{Deserialize, Serialize};

use crate::finding::{Disposition, Finding, Review};
use similarity::{FindingProfile as KnownWords, Similarity};

/// A finding of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct KnownFinding<'a> {
    /// Short id in the ledger, such as `F3`.
    pub id: &'a str,
    pub finding: &'a Finding,
}

/// Link from a known finding to a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingLink {
    pub id: String,
    /// Index of the new finding.
    pub new: usize,
    pub how: LinkReason,
    /// Confidence of the link, in percent.
    pub sureness: u8,
}

/// Criterion that made a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkReason {
    /// The same line, mapped through the diff, and similar words.
    Line,
    /// The same quoted line of code.
    Anchor,
    /// The same title.
    Title,
    /// Similar enough in path, words and location.
    Score,
    /// The new finding summarises several known ones and names this one by its number.
    Mention,
}

/// Maximum number of pairs that are compared; above it only the exact criteria are tried.
/// Comparing words costs about the product of both lists. Two thousand findings on each side are
/// far beyond any review, and must not stop the process.
const PAIRS_MAX: usize = 4_000_000;
/// Minimum similarity between a disposition's subject and a finding's title, in percent.
const SUBJECT_MIN: u32 = 30;

/// Links new findings to known ones. A known finding is linked at most once; a new one that
/// summarises several known findings may be linked to all of them.
pub fn track(known: &[KnownFinding<'_>], new: &[Finding], lines: &LineMap) -> Vec<FindingLink> {
    link_findings(known, new, lines, &vec![false; known.len()])
}

/// Like [`track`], and uses the review's statements about earlier findings: a finding that it calls
/// fixed is not the one that it reports again in the same file.
pub fn track_review(
    known: &[KnownFinding<'_>],
    review: &Review,
    lines: &LineMap,
) -> Vec<FindingLink> {
    let mut settled = vec![false; known.len()];
    // Called fixed once is enough: a review may mention a finding twice.
    for (at, fixed) in match_dispositions(known, &review.earlier) {
        settled[at] |= fixed;
    }
    link_findings(known, &review.findings, lines, &settled)
}

/// Returns the known finding of each disposition, and whether the review calls it fixed.
pub fn match_dispositions(
    known: &[KnownFinding<'_>],
    earlier: &[Disposition],
) -> Vec<(usize, bool)> {
    let findings: Vec<&Finding> = known.iter().map(|known| known.finding).collect();
    let by_id = |subject: &str| {
        known
            .iter()
            .position(|known| subject.trim().eq_ignore_ascii_case(known.id))
    };
    let subjects: Vec<&str> = earlier
        .iter()
        .map(|disposition| disposition.subject.as_str())
        .collect();
    let alike = similarity::match_subjects(&findings, &subjects, SUBJECT_MIN);
    earlier
        .iter()
        .zip(alike)
        .filter_map(|(disposition, alike)| {
            // The id goes first. It is exact, where the words are a guess.
            Some((by_id(&disposition.subject).or(alike)?, disposition.fixed))
        })
        .collect()
}

fn link_findings(
    known: &[KnownFinding<'_>],
    new: &[Finding],
    lines: &LineMap,
    settled: &[bool],
) -> Vec<FindingLink> {
    // All pairs are rated before any is chosen, so that the order of the findings does not decide.
    let mut pairs = best_pairs(find_candidates(known, new, lines, settled));
    let linked: Vec<usize> = pairs.iter().map(|candidate| candidate.known).collect();
    pairs.extend(find_mentions(known, new, &linked));
    // By known finding, so that the result is the same at every run.
    pairs.sort_by_key(|candidate| candidate.known);
    pairs
        .into_iter()
        .map(|candidate| FindingLink {
            id: known[candidate.known].id.to_owned(),
            new: candidate.new,
            how: candidate.reason,
            sureness: u8::try_from(candidate.score.min(100)).unwrap_or(100),
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct LinkCandidate {
    known: usize,
    new: usize,
    reason: LinkReason,
    score: u32,
}

fn find_candidates(
    known: &[KnownFinding<'_>],
    new: &[Finding],
    lines: &LineMap,
    settled: &[bool],
) -> Vec<LinkCandidate> {
    let old_words: Vec<KnownWords> = known
        .iter()
        .map(|known| KnownWords::mapped_to(known.finding, lines))
        .collect();
    let likeness = Similarity::from_findings(&old_words, new);
    let exact_only = known.len().saturating_mul(new.len()) > PAIRS_MAX;
    let mut candidates = Vec::new();
    for (old, words) in old_words.iter().enumerate() {
        for index in 0..new.len() {
            let judged = likeness.compare(words, index, exact_only);
            // A finding that this review calls fixed is not what it reports in the same file,
            // unless the title is the same.
            let called_fixed = settled[old] && likeness.same_file(words, index) == Some(true);
            if let Some((how, score)) =
                judged.filter(|&(how, _)| !called_fixed || how == LinkReason::Title)
            {
                candidates.push(LinkCandidate {
                    known: old,
                    new: index,
                    reason: how,
                    score,
                });
            }
        }
    }
    candidates
}

/// Keeps the best pairs, so that each finding occurs once.
fn best_pairs(mut candidates: Vec<LinkCandidate>) -> Vec<LinkCandidate> {
    // The score decides; the criterion and the positions only break ties, so that the result is
    // stable.
    candidates.sort_by_key(|candidate| {
        (
            std::cmp::Reverse(candidate.score),
            candidate.reason,
            candidate.known,
            candidate.new,
        )
    });
    let mut known = std::collections::HashSet::new();
    let mut new = std::collections::HashSet::new();
    candidates.retain(|candidate| {
        let free = !known.contains(&candidate.known) && !new.contains(&candidate.new);
        if free {
            known.insert(candidate.known);
            new.insert(candidate.new);
        }
        free
    });
    candidates
}

/// Links new findings such as "Remaining items (5, 6, 7) were not addressed", which name known ones
/// by their position in the earlier document.
fn find_mentions(
    known: &[KnownFinding<'_>],
    new: &[Finding],
    linked: &[usize],
) -> Vec<LinkCandidate> {
    let mut links = Vec::new();
    for (index, finding) in new.iter().enumerate() {
        for number in similarity::numbers_of_earlier(&finding.title) {
            // Numbers in a text are untrusted: one outside of the list names nothing.
            if number >= 1 && number <= known.len() && !linked.contains(&(number - 1)) {
                links.push(LinkCandidate {
                    known: number - 1,
                    new: index,
                    reason: LinkReason::Mention,
                    score: 60,
                });
            }
        }
    }
    // One finding can be named twice in the same title.
    links.dedup_by_key(|candidate| candidate.known);
    links
}

#[cfg(test)]
mod tests;
