//! How well the loop works, in numbers for those who watch from afar: who is sent back how often,
//! what is found and what becomes of it, how long rounds take.

use std::collections::BTreeMap;

use findings::Claim;

use crate::ledger::Status;
use crate::ticket::{Round, Ticket};

/// Upper ends of the buckets that rounds are counted in, in seconds.
pub const BUCKETS_SECS: [u64; 8] = [10, 30, 60, 300, 900, 1800, 3600, 14_400];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Tickets by how many rounds they took to their approval.
    pub rounds_to_approval: BTreeMap<u32, u64>,
    /// Rounds with a verdict, by who built any part of the change.
    pub built: BTreeMap<String, Verdicts>,
    /// Reviews with a word, by who gave it.
    pub reviewed: BTreeMap<String, Verdicts>,
    /// Findings by severity and by what became of them.
    pub findings: BTreeMap<(&'static str, &'static str), u64>,
    pub round_secs: Spread,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    pub approved: u64,
    pub rejected: u64,
}

impl Verdicts {
    fn count(&mut self, approved: bool) {
        if approved {
            self.approved += 1;
        } else {
            self.rejected += 1;
        }
    }
}

/// How long things took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many took no longer than each bucket's end.
    pub within: [u64; BUCKETS_SECS.len()],
    pub count: u64,
    pub sum_secs: u64,
}

impl Spread {
    fn count(&mut self, secs: u64) {
        self.count += 1;
        self.sum_secs = self.sum_secs.saturating_add(secs);
        for (within, end) in self.within.iter_mut().zip(BUCKETS_SECS) {
            *within += u64::from(secs <= end);
        }
    }
}

pub fn quality(tickets: &[Ticket]) -> Quality {
    let mut all = Quality::default();
    for ticket in tickets {
        all.take(ticket);
    }
    all
}

impl Quality {
    fn take(&mut self, ticket: &Ticket) {
        if let Some(round) = ticket.rounds.iter().find(|round| round.verdict.approved) {
            *self.rounds_to_approval.entry(round.number).or_default() += 1;
        }
        for round in &ticket.rounds {
            for name in &ticket.authors {
                let built = self.built.entry(findings::one_line(name)).or_default();
                built.count(round.verdict.approved);
            }
            self.take_round(round);
        }
        for entry in &ticket.ledger.entries {
            if entry.status != Status::Duplicate {
                let which = (entry.severity().word(), entry.status.word());
                *self.findings.entry(which).or_default() += 1;
            }
        }
    }

    fn take_round(&mut self, round: &Round) {
        let took_ms = round.decided_at.0 - round.review_started_at.0;
        self.round_secs
            .count(u64::try_from(took_ms / 1000).unwrap_or_default());
        for answer in round.seats.iter().filter_map(|seat| seat.answer.as_ref()) {
            let approved = match answer.claim {
                Claim::Approved => true,
                Claim::ChangesRequested => false,
                Claim::Unknown => continue,
            };
            let reviewer = findings::one_line(&answer.reviewer);
            self.reviewed.entry(reviewer).or_default().count(approved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_is_in_the_wide_buckets_only() {
        let mut spread = Spread::default();
        for secs in [5, 30, 61, 1_000_000] {
            spread.count(secs);
        }
        assert_eq!(spread.within, [1, 2, 2, 3, 3, 3, 3, 3]);
        assert_eq!((spread.count, spread.sum_secs), (4, 1_000_096));
    }
}
