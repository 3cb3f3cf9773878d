//! Metrics of the loop: rejections by builder and reviewer, findings by outcome, durations of
//! rounds, and costs.
//!
//! Everything is a sum over tickets. `/metrics` keeps one value for each live ticket and one sum
//! over all ended ones, and adds them for every answer.

use std::collections::BTreeMap;

use findings::ReviewClaim;

use crate::ledger::FindingStatus;
use crate::ticket::{Round, Stage, Ticket};
use crate::usage::Usage;

/// Upper bounds of the histogram buckets for rounds, in milliseconds.
pub const ROUND_BUCKETS_MS: &[u64] = &[
    10_000, 30_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000, 14_400_000,
];
/// Upper bounds of the histogram buckets for waits for a worker, in milliseconds.
pub const WAIT_BUCKETS_MS: &[u64] = &[
    10, 50, 100, 500, 1000, 5000, 30_000, 60_000, 300_000, 1_800_000, 14_400_000,
];

/// Metrics of one ticket or of many. All are sums, so that those of several tickets can be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QualityMetrics {
    /// Number of tickets by rounds until the approval.
    pub rounds_to_approval: BTreeMap<u32, u64>,
    /// Verdicts of rounds, by the builder of each round.
    pub built: BTreeMap<String, VerdictCounts>,
    /// Verdicts of reviews, by reviewer.
    pub reviewed: BTreeMap<String, VerdictCounts>,
    /// Findings by severity and status.
    pub findings: BTreeMap<(&'static str, &'static str), u64>,
    pub rounds: DurationHistogram,
    pub spent: Usage,
    /// Number of tickets that cost anything.
    pub paid: u64,
    /// Number of changes that landed.
    pub landed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    pub approved: u64,
    pub rejected: u64,
}

impl VerdictCounts {
    fn count(&mut self, approved: bool) {
        if approved {
            self.approved += 1;
        } else {
            self.rejected += 1;
        }
    }

    fn add(&mut self, other: Self) {
        self.approved += other.approved;
        self.rejected += other.rejected;
    }
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    /// Number of durations up to each bucket's upper bound. Empty if nothing was counted.
    pub within: Vec<u64>,
    pub count: u64,
    pub sum_ms: u64,
}

impl DurationHistogram {
    pub fn count(&mut self, took_ms: u64, ends_ms: &[u64]) {
        // Prometheus buckets are cumulative, so a duration counts in every bucket that is wide
        // enough.
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(took_ms);
        self.within.resize(ends_ms.len(), 0);
        for (within, end) in self.within.iter_mut().zip(ends_ms) {
            *within += u64::from(took_ms <= *end);
        }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
        // A histogram without a value has no buckets yet.
        self.within
            .resize(self.within.len().max(other.within.len()), 0);
        for (within, more) in self.within.iter_mut().zip(&other.within) {
            *within += more;
        }
    }
}

impl QualityMetrics {
    pub fn from_ticket(ticket: &Ticket) -> Self {
        let mut all = Self::default();
        all.add_ticket(ticket);
        all
    }

    pub fn add(&mut self, other: &Self) {
        for (round, count) in &other.rounds_to_approval {
            *self.rounds_to_approval.entry(*round).or_default() += count;
        }
        let mut verdicts = [
            (&mut self.built, &other.built),
            (&mut self.reviewed, &other.reviewed),
        ];
        for (ours, theirs) in &mut verdicts {
            for (name, count) in *theirs {
                ours.entry(name.clone()).or_default().add(*count);
            }
        }
        for (kind, count) in &other.findings {
            *self.findings.entry(*kind).or_default() += count;
        }
        self.rounds.add(&other.rounds);
        self.spent = self.spent.plus(other.spent);
        self.paid += other.paid;
        self.landed += other.landed;
    }

    /// Mean cost of a ticket that cost anything, in millionths of a dollar.
    /// Free tickets would lower the mean without saying anything about the price of an agent.
    pub fn usd_micros_per_ticket(&self) -> u64 {
        let each = self.spent.usd_micros.checked_div(self.paid);
        each.unwrap_or_default()
    }

    /// Total cost divided by the number of landed changes.
    pub fn usd_micros_per_landed(&self) -> u64 {
        let each = self.spent.usd_micros.checked_div(self.landed);
        each.unwrap_or_default()
    }

    fn add_ticket(&mut self, ticket: &Ticket) {
        self.spent = ticket.spent.ticket;
        self.paid = u64::from(self.spent != Usage::default());
        self.landed = u64::from(ticket.stage == Stage::Done);
        if let Some(round) = ticket.rounds.iter().find(|round| round.verdict.approved) {
            *self.rounds_to_approval.entry(round.number).or_default() += 1;
        }
        for round in &ticket.rounds {
            for name in builders_of(ticket, round) {
                let built = self.built.entry(findings::one_line(name)).or_default();
                built.count(round.verdict.approved);
            }
            self.add_round(round);
        }
        for entry in &ticket.ledger.entries {
            // A duplicate was counted under the entry that it repeats.
            if entry.status != FindingStatus::Duplicate {
                let kind = (entry.severity().word(), entry.status.as_str());
                *self.findings.entry(kind).or_default() += 1;
            }
        }
    }

    fn add_round(&mut self, round: &Round) {
        // A clock that was set back gives a negative time, which counts as zero.
        let took_ms = round.decided_at.0 - round.review_started_at.0;
        let took_ms = u64::try_from(took_ms).unwrap_or_default();
        self.rounds.count(took_ms, ROUND_BUCKETS_MS);
        for answer in round
            .panel
            .iter()
            .filter_map(|reviewer| reviewer.answer.as_ref())
        {
            let approved = match answer.claim {
                ReviewClaim::Approved => true,
                ReviewClaim::ChangesRequested => false,
                // No verdict is neither. Counted as a rejection it would blame the builder for a
                // broken review.
                ReviewClaim::Unknown => continue,
            };
            let reviewer = findings::one_line(&answer.reviewer);
            self.reviewed.entry(reviewer).or_default().count(approved);
        }
    }
}

/// Returns the builder of a round. Rounds of older versions have none, so they count for every
/// author of the change.
pub(crate) fn builders_of<'a>(ticket: &'a Ticket, round: &'a Round) -> Vec<&'a String> {
    match &round.builder {
        Some(builder) => vec![builder],
        None => ticket.authors.iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_is_in_the_wide_buckets_only() {
        let mut histogram = DurationHistogram::default();
        for secs in [5, 30, 61, 1_000_000] {
            histogram.count(secs * 1000, ROUND_BUCKETS_MS);
        }
        assert_eq!(histogram.within, [1, 2, 2, 3, 3, 3, 3, 3]);
        assert_eq!((histogram.count, histogram.sum_ms), (4, 1_000_096_000));
    }

    #[test]
    fn what_each_came_to_adds_up() {
        let one = |name: &str, ms| {
            let mut one = QualityMetrics {
                paid: 1,
                landed: 1,
                ..QualityMetrics::default()
            };
            one.spent.usd_micros = 30;
            one.built.entry(name.to_owned()).or_default().count(true);
            one.rounds.count(ms, ROUND_BUCKETS_MS);
            one
        };
        let mut all = QualityMetrics::default();
        for part in [
            one("a", 1),
            one("b", 50_000),
            one("a", 1),
            QualityMetrics::default(),
        ] {
            all.add(&part);
        }
        assert_eq!((all.built["a"].approved, all.built["b"].approved), (2, 1));
        assert_eq!((all.rounds.count, all.rounds.within[0]), (3, 2));
        assert_eq!(all.usd_micros_per_ticket(), 30);
        assert_eq!(QualityMetrics::default().usd_micros_per_landed(), 0);
    }
}
