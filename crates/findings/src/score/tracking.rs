//! Measures tracking on pairs of rounds: which finding of the first round is which of the second.

use serde_json::Value;

use super::{CorpusDocument, Ratio, best_match, squeezed};
use crate::track::{KnownFinding, LineMap, track_review};

/// Expected links between two rounds, by index into their annotations.
#[derive(Clone, Debug)]
pub struct RoundPair {
    pub first: String,
    pub second: String,
    /// Findings that are repeated unchanged.
    pub same: Vec<(usize, usize)>,
    /// Findings that are repeated in other words.
    pub reworded: Vec<(usize, usize)>,
}

impl RoundPair {
    /// Reads `TRACKING.json`.
    pub fn parse_list(value: &Value) -> Vec<Self> {
        let pairs = |value: &Value| -> Vec<(usize, usize)> {
            let index =
                |value: &Value| value.as_u64().and_then(|index| usize::try_from(index).ok());
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|pair| Some((index(&pair[0])?, index(&pair[1])?)))
                .collect()
        };
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                Some(Self {
                    first: entry["a"].as_str()?.to_owned(),
                    second: entry["b"].as_str()?.to_owned(),
                    same: pairs(&entry["same"]),
                    reworded: pairs(&entry["variant"]),
                })
            })
            .collect()
    }
}

/// Scores of tracking.
#[derive(Clone, Debug, Default)]
pub struct TrackingTable {
    pub same: Ratio,
    pub reworded: Ratio,
    /// Correct links out of all links.
    pub right: Ratio,
    pub details: Vec<String>,
}

impl std::fmt::Display for TrackingTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "tracking: carried over {} | reworded {} | links right {}",
            self.same, self.reworded, self.right
        )
    }
}

/// Reads both rounds of each pair, links them without a diff, and compares with the expected links.
pub fn score_tracking(pairs: &[RoundPair], documents: &[CorpusDocument]) -> TrackingTable {
    let mut table = TrackingTable::default();
    for pair in pairs {
        let find = |number: &str| documents.iter().find(|document| document.number == number);
        if let (Some(first), Some(second)) = (find(&pair.first), find(&pair.second)) {
            score_pair(pair, first, second, &mut table);
        }
    }
    table
}

fn score_pair(
    pair: &RoundPair,
    first: &CorpusDocument,
    second: &CorpusDocument,
    table: &mut TrackingTable,
) {
    let (old, new) = (crate::read(&first.text), crate::read(&second.text));
    let ids: Vec<String> = (0..old.findings.len())
        .map(|index| index.to_string())
        .collect();
    let known: Vec<KnownFinding<'_>> = old
        .findings
        .iter()
        .zip(&ids)
        .map(|(finding, id)| KnownFinding { id, finding })
        .collect();
    let links = track_review(&known, &new, &LineMap::default());
    let from = annotated(first, &old);
    let to = annotated(second, &new);
    let is_linked = |(a, b): &(usize, usize)| {
        let (Some(Some(a)), Some(Some(b))) = (from.get(*a), to.get(*b)) else {
            return false;
        };
        links
            .iter()
            .any(|link| link.id == a.to_string() && link.new == *b)
    };
    pair.same
        .iter()
        .for_each(|link| table.same.count(is_linked(link)));
    pair.reworded
        .iter()
        .for_each(|link| table.reworded.count(is_linked(link)));
    for link in &links {
        let good = pair.same.iter().chain(&pair.reworded).any(|(a, b)| {
            from.get(*a)
                .copied()
                .flatten()
                .is_some_and(|a| a.to_string() == link.id)
                && to.get(*b).copied().flatten() == Some(link.new)
        });
        table.right.count(good);
        table.details.push(format!(
            "{} → {}: {} {:?} {}% {:?} → {:?}",
            pair.first,
            pair.second,
            if good { "right" } else { "WRONG" },
            link.how,
            link.sureness,
            link.id
                .parse::<usize>()
                .ok()
                .and_then(|at| old.findings.get(at))
                .map(|finding| &finding.title),
            new.findings.get(link.new).map(|finding| &finding.title)
        ));
    }
}

/// Returns the index of the finding that matches each annotation.
fn annotated(document: &CorpusDocument, review: &crate::Review) -> Vec<Option<usize>> {
    let mut used = vec![false; review.findings.len()];
    let annotations = document.expected["findings"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    annotations
        .iter()
        .map(|annotation| {
            let at = best_match(
                annotation,
                &squeezed(annotation["title_contains"].as_str().unwrap_or_default()),
                review,
                &used,
            )?;
            used[at] = true;
            Some(at)
        })
        .collect()
}
