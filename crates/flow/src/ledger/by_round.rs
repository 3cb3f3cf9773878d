//! Findings by round: one line with the counts of each round.
//!
//! The table is made from the history of each entry and not from counters, so it can be made for
//! any round later.

use serde::Serialize;

use super::{FindingStatus, Ledger, LedgerEntry};

/// Counts of a ticket's findings after one round. Each finding is counted at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundFindings {
    pub round: u32,
    pub new: u32,
    pub fixed: u32,
    pub still_open: u32,
    pub not_repeated: u32,
    pub reopened: u32,
    pub refuted: u32,
    pub disputed: u32,
    pub waived: u32,
}

impl RoundFindings {
    pub const COLUMNS: [&'static str; 9] = [
        "round",
        "new",
        "fixed",
        "still open",
        "not repeated",
        "reopened",
        "refuted",
        "disputed",
        "waived",
    ];

    pub fn cells(&self) -> [u32; 9] {
        [
            self.round,
            self.new,
            self.fixed,
            self.still_open,
            self.not_repeated,
            self.reopened,
            self.refuted,
            self.disputed,
            self.waived,
        ]
    }

    fn count(&mut self, entry: &LedgerEntry) {
        let round = self.round;
        // The last change up to this round, because an entry that nothing happened to has no change
        // of its own in it.
        let Some(last) = entry.history.iter().rev().find(|turn| turn.round <= round) else {
            return;
        };
        let now = last.round == round;
        match last.status {
            FindingStatus::Open if entry.first_round == round => self.new += 1,
            FindingStatus::Open => self.still_open += 1,
            FindingStatus::NotRepeated => self.not_repeated += 1,
            FindingStatus::Reopened => self.reopened += 1,
            FindingStatus::Disputed => self.disputed += 1,
            // A closed finding is counted only in the round that closed it.
            FindingStatus::Fixed if now => self.fixed += 1,
            FindingStatus::Refuted if now => self.refuted += 1,
            FindingStatus::Waived if now => self.waived += 1,
            FindingStatus::Fixed
            | FindingStatus::Refuted
            | FindingStatus::Waived
            | FindingStatus::Duplicate => {}
        }
    }
}

impl Ledger {
    /// Returns one line for each round up to `last`. Praise is not counted.
    pub fn findings_by_round(&self, last: u32) -> Vec<RoundFindings> {
        let line = |round| {
            let mut line = RoundFindings {
                round,
                ..RoundFindings::default()
            };
            for entry in self.entries.iter().filter(|entry| entry.finding.actionable) {
                line.count(entry);
            }
            line
        };
        (1..=last).map(line).collect()
    }
}

/// Formats the lines as a Markdown table.
pub fn findings_by_round_table(lines: &[RoundFindings]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = row(RoundFindings::COLUMNS
        .iter()
        .map(|&word| word.to_owned())
        .collect());
    out.push_str(&row(vec!["---".to_owned(); RoundFindings::COLUMNS.len()]).replace(' ', ""));
    for line in lines {
        out.push_str(&row(line.cells().iter().map(ToString::to_string).collect()));
    }
    out
}
