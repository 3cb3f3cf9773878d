//! A finished round: its verdict, and the findings and scores as the round reported them.

use std::collections::BTreeMap;

use findings::{Finding, Weight};
use serde::{Deserialize, Serialize};

use super::{CheckResult, PanelReviewer, Ticket, Time};
use crate::usage::Usage;
use crate::verdict::Verdict;

/// A finished round, with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Round {
    pub number: u32,
    /// Rounds allowed when it was decided.
    pub allowed: u32,
    pub commit: String,
    pub tree: String,
    #[serde(default)]
    pub base_tree: String,
    /// Agent or person that submitted the commit. Rounds of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder: Option<String>,
    /// Id of the policy that decided it.
    #[serde(default)]
    pub policy: String,
    pub review_started_at: Time,
    pub decided_at: Time,
    pub verdict: Verdict,
    #[serde(alias = "seats")]
    pub panel: Vec<PanelReviewer>,
    pub checks: Vec<CheckResult>,
    pub usage: Usage,
    /// The findings in this round's words and lines. The ledger has those of the newest report, so
    /// a document of an earlier round cannot be made from it. Rounds of older versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<RoundFinding>,
    /// The dimensions with weight and minimum under the policy that decided. Empty if nobody scored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, RoundScore>,
}

/// A finding as one round reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoundFinding {
    /// Id of the finding in the ledger.
    pub id: String,
    pub finding: Finding,
    /// A reviewer reported it as a blocking issue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocking: bool,
}

/// The score of one dimension in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoundScore {
    /// Mean of the reviewers' scores; `None` if none of them scored this dimension.
    pub score: Option<u8>,
    pub weight: Weight,
    pub minimum: Option<u8>,
}

impl Round {
    /// Returns the reviewers' notes, each with its reviewer's name.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.panel.iter().filter_map(|reviewer| {
            let notes = reviewer.answer.as_ref()?.notes.as_deref()?;
            Some((reviewer.name.as_str(), notes))
        })
    }

    /// Whether all critical dimensions reach their minimums; `None` if nobody scored. A critical
    /// dimension without a score does not pass.
    pub fn critical_dimensions_pass(&self) -> Option<bool> {
        if self.scores.values().all(|one| one.score.is_none()) {
            return None;
        }
        let mut critical = self.scores.values();
        Some(critical.all(|one| {
            one.weight != Weight::Critical || one.score.is_some_and(|n| Some(n) >= one.minimum)
        }))
    }
}

impl Ticket {
    /// Returns the number of the review attempt under way, or of the last one if its verdict ended
    /// the loop. Attempts are counted from 1 since the last reset by a person, as the limit is.
    pub fn review_attempt(&self) -> u32 {
        let last = self.rounds.last();
        let is_decided = last.is_some_and(|round| round.number == self.round);
        let under_way = u32::from(!is_decided);
        self.counts.verdicts.saturating_add(under_way).max(1)
    }
}
