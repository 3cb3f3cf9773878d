//! Follows findings over the rounds: which of the new ones is one we already know.
//!
//! Four rungs, the surest first: the line that the diff maps the old one to, the quoted line of
//! code, the title, and a weighted score of path, words and mapped line. What finds no partner is
//! new, or was not repeated; that a finding is gone says nothing about whether it is fixed.

mod likeness;
mod lines;

pub use lines::{LineMap, MappedLine};

use serde::{Deserialize, Serialize};

use crate::finding::{Disposition, Finding, Review};
use likeness::{FindingProfile as KnownWords, Similarity};

/// A finding of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct KnownFinding<'a> {
    /// The ledger's short id, `F3`.
    pub id: &'a str,
    pub finding: &'a Finding,
}

/// That a new finding is a known one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingLink {
    pub id: String,
    /// Which of the new findings, by index.
    pub new: usize,
    pub how: LinkReason,
    /// How sure the link is, in percent.
    pub sureness: u8,
}

/// What made the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkReason {
    /// The same place, through the diff, and much the same words.
    Line,
    /// The same quoted line of code.
    Anchor,
    /// The same title.
    Title,
    /// Alike enough in path, words and place.
    Score,
    /// The new finding sums up several known ones and names this one by its number.
    Mention,
}

/// The most pairs that are compared; beyond it only the exact rungs are tried.
const PAIRS_MAX: usize = 4_000_000;
/// How alike a disposition's subject and a finding's title must be, in percent.
const SUBJECT_MIN: u32 = 30;

/// Links new findings to known ones. A known finding is linked at most once; a new one that sums
/// up several known findings may answer for all of them.
pub fn track(known: &[KnownFinding<'_>], new: &[Finding], lines: &LineMap) -> Vec<FindingLink> {
    link(known, new, lines, &vec![false; known.len()])
}

/// [`track`], with what the review says of earlier findings taken into account: what it calls
/// fixed is not what it reports again in the same file.
pub fn track_review(
    known: &[KnownFinding<'_>],
    review: &Review,
    lines: &LineMap,
) -> Vec<FindingLink> {
    let mut settled = vec![false; known.len()];
    for (at, fixed) in dispositions(known, &review.earlier) {
        settled[at] |= fixed;
    }
    link(known, &review.findings, lines, &settled)
}

/// Which known finding each disposition of a review speaks of, and whether it calls it fixed.
pub fn dispositions(known: &[KnownFinding<'_>], earlier: &[Disposition]) -> Vec<(usize, bool)> {
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
    let alike = likeness::subjects(&findings, &subjects, SUBJECT_MIN);
    earlier
        .iter()
        .zip(alike)
        .filter_map(|(disposition, alike)| {
            Some((by_id(&disposition.subject).or(alike)?, disposition.fixed))
        })
        .collect()
}

fn link(
    known: &[KnownFinding<'_>],
    new: &[Finding],
    lines: &LineMap,
    settled: &[bool],
) -> Vec<FindingLink> {
    let mut pairs = best_pairs(candidates(known, new, lines, settled));
    let linked: Vec<usize> = pairs.iter().map(|candidate| candidate.known).collect();
    pairs.extend(mentions(known, new, &linked));
    pairs.sort_by_key(|candidate| candidate.known);
    pairs
        .into_iter()
        .map(|candidate| FindingLink {
            id: known[candidate.known].id.to_owned(),
            new: candidate.new,
            how: candidate.how,
            sureness: u8::try_from(candidate.score.min(100)).unwrap_or(100),
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct LinkCandidate {
    known: usize,
    new: usize,
    how: LinkReason,
    score: u32,
}

fn candidates(
    known: &[KnownFinding<'_>],
    new: &[Finding],
    lines: &LineMap,
    settled: &[bool],
) -> Vec<LinkCandidate> {
    let old_words: Vec<KnownWords> = known
        .iter()
        .map(|known| KnownWords::of(known.finding, lines))
        .collect();
    let likeness = Similarity::over(&old_words, new);
    let exact_only = known.len().saturating_mul(new.len()) > PAIRS_MAX;
    let mut found = Vec::new();
    for (old, words) in old_words.iter().enumerate() {
        for index in 0..new.len() {
            let judged = likeness.judge(words, index, exact_only);
            let told_fixed = settled[old] && likeness.same_file(words, index) == Some(true);
            if let Some((how, score)) =
                judged.filter(|&(how, _)| !told_fixed || how == LinkReason::Title)
            {
                found.push(LinkCandidate {
                    known: old,
                    new: index,
                    how,
                    score,
                });
            }
        }
    }
    found
}

/// The best pairs first, each finding once.
fn best_pairs(mut candidates: Vec<LinkCandidate>) -> Vec<LinkCandidate> {
    candidates.sort_by_key(|candidate| {
        (
            std::cmp::Reverse(candidate.score),
            candidate.how,
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

/// A new finding such as "Remaining items (5, 6, 7) were not addressed" speaks of known ones by
/// their place in the earlier document.
fn mentions(known: &[KnownFinding<'_>], new: &[Finding], linked: &[usize]) -> Vec<LinkCandidate> {
    let mut found = Vec::new();
    for (index, finding) in new.iter().enumerate() {
        for number in likeness::numbers_of_earlier(&finding.title) {
            if number >= 1 && number <= known.len() && !linked.contains(&(number - 1)) {
                found.push(LinkCandidate {
                    known: number - 1,
                    new: index,
                    how: LinkReason::Mention,
                    score: 60,
                });
            }
        }
    }
    found.dedup_by_key(|candidate| candidate.known);
    found
}

#[cfg(test)]
mod tests;
