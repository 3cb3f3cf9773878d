//! The verdict: computed by policy from findings, scores, votes and checks. What a reviewer
//! claims is one input and is kept beside it; a disagreement is shown, never followed.

use std::collections::BTreeMap;

use findings::{DimensionScore, ReviewClaim, Severity, Weight};
use serde::{Deserialize, Serialize};

use crate::ledger::LedgerEntry;
use crate::policy::{MinorOnly, Policy, Votes};
use crate::ticket::{ApprovedBy, Seat, SeatAnswer, Ticket};

/// Of the findings that hold a verdict up, in its own words.
const IDS_SHOWN_MAX: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub approved: bool,
    /// Every gate that was asked, in order, with its reason.
    pub gates: Vec<Gate>,
    /// What each reviewer claimed.
    pub claims: BTreeMap<String, ReviewClaim>,
    /// Where the claims and the verdict part.
    pub disagreement: Option<String>,
    pub open_must_fix: u32,
    /// Ledger ids that are open and hold nothing up.
    pub follow_ups: Vec<String>,
    /// Ledger ids of open notes: findings under the policy's threshold of confidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub overall_score: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub name: String,
    pub passed: bool,
    pub why: String,
}

/// The verdict on the round at work.
pub fn verdict(ticket: &Ticket, policy: &Policy) -> Verdict {
    let answers: Vec<&SeatAnswer> = ticket
        .seats
        .iter()
        .filter_map(|seat| seat.answer.as_ref())
        .collect();
    let open = ticket.ledger.open_must_fix(policy);
    let scores = mean_scores(&answers);
    let overall = overall_score(&answers, &scores, policy);
    let on = &policy.gates;
    let gates: Vec<Gate> = [
        on.reviewer_approves.then(|| votes_gate(ticket, policy)),
        must_fix_gate(&open, on.no_open_must_fix),
        on.no_blocking_issue.then(|| blocking_gate(ticket)),
        on.dimension_minimums
            .then(|| minimums_gate(&scores, policy))
            .flatten(),
        on.overall_score
            .then(|| overall_gate(overall, policy))
            .flatten(),
        on.checks_green.then(|| checks_gate(ticket, policy)),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Where nobody has a vote the linters' word is all there is.
    let nobody_votes = voters(ticket).next().is_none();
    let heard = if nobody_votes {
        !answers.is_empty()
    } else {
        voters(ticket).any(|seat| seat.answer.is_some())
    };
    let approved = heard && gates.iter().all(|gate| gate.passed);
    let claims = claims(&answers);
    let ids = |entries: Vec<&LedgerEntry>| entries.iter().map(|entry| entry.id.clone()).collect();
    Verdict {
        approved,
        disagreement: disagreement(approved, &claims, &gates),
        open_must_fix: u32::try_from(open.len()).unwrap_or(u32::MAX),
        follow_ups: ids(ticket.ledger.follow_ups(policy)),
        notes: ids(ticket.ledger.notes()),
        overall_score: overall,
        gates,
        claims,
    }
}

/// What each reviewer claimed; who had several seats is remembered by what it said against.
fn claims(answers: &[&SeatAnswer]) -> BTreeMap<String, ReviewClaim> {
    let mut claims = BTreeMap::new();
    for answer in answers {
        let claim = claims
            .entry(answer.reviewer.clone())
            .or_insert(answer.claim);
        if *claim == ReviewClaim::Approved {
            *claim = answer.claim;
        }
    }
    claims
}

impl Verdict {
    /// Who approved, and whose refusal the policy overruled.
    pub fn approved_by(&self) -> ApprovedBy {
        let who = |said: ReviewClaim| {
            let named = self.claims.iter().filter(|(_, claim)| **claim == said);
            named.map(|(name, _)| name.clone()).collect()
        };
        ApprovedBy::Reviewers {
            names: who(ReviewClaim::Approved),
            refused: who(ReviewClaim::ChangesRequested),
        }
    }
}

/// Whether a finding by itself keeps the refusal of the reviewer that named it.
pub(crate) fn keeps_refusal(entry: &LedgerEntry, policy: &Policy) -> bool {
    match policy.minor_only {
        // Whoever was asked and did not countersign stands by all that it named.
        MinorOnly::Ask => true,
        MinorOnly::Approve => entry.is_must_fix(policy),
        MinorOnly::Rework => entry.is_must_fix(policy) || entry.costs_a_round(),
    }
}

/// Whether one seat's answer counts as a yes. A rejection counts as a no as long as something
/// that it named stands. A note holds nothing up, but it does not turn a refusal into a yes.
fn says_yes(answer: &SeatAnswer, ticket: &Ticket, policy: &Policy) -> bool {
    match answer.claim {
        ReviewClaim::Approved => true,
        ReviewClaim::Unknown => false,
        ReviewClaim::ChangesRequested => {
            let stands = |entry: &LedgerEntry| entry.low_confidence || keeps_refusal(entry, policy);
            let mut named = answer
                .reported
                .iter()
                .filter_map(|id| ticket.ledger.get(id));
            !named.any(|entry| entry.status.is_open() && stands(entry))
        }
    }
}

/// Linters report; they do not vote.
fn voters(ticket: &Ticket) -> impl Iterator<Item = &Seat> {
    ticket.seats.iter().filter(|seat| !seat.linter)
}

fn votes_gate(ticket: &Ticket, policy: &Policy) -> Gate {
    let seats = voters(ticket).count();
    let yes = voters(ticket)
        .filter_map(|seat| seat.answer.as_ref())
        .filter(|answer| says_yes(answer, ticket, policy))
        .count();
    let needed = match policy.votes {
        Votes::All => seats,
        Votes::Majority => seats / 2 + 1,
        Votes::Quorum(n) => n as usize,
    };
    gate(
        "reviewer approves",
        yes >= needed && seats > 0,
        format!("{yes} of {seats} approve, {needed} needed"),
    )
}

/// With the gate off, a critical finding blocks all the same until it is verified.
fn must_fix_gate(open: &[&LedgerEntry], on: bool) -> Option<Gate> {
    let held: Vec<&str> = open
        .iter()
        .filter(|entry| on || entry.severity() == Severity::Critical)
        .map(|entry| entry.id.as_str())
        .collect();
    if !on && held.is_empty() {
        return None;
    }
    let why = if held.is_empty() {
        "none is open".to_owned()
    } else {
        format!("open: {}", first_few(&held))
    };
    Some(gate("no open must-fix", held.is_empty(), why))
}

/// A sentence, not a list of hundreds.
fn first_few(ids: &[&str]) -> String {
    let shown = ids.len().min(IDS_SHOWN_MAX);
    let list = ids[..shown].join(", ");
    match ids.len() - shown {
        0 => list,
        more => format!("{list} and {more} more"),
    }
}

fn blocking_gate(ticket: &Ticket) -> Gate {
    let open = ticket
        .ledger
        .entries
        .iter()
        .filter(|entry| entry.blocking && entry.status.is_open())
        .count();
    gate("no blocking issue", open == 0, format!("{open} open"))
}

fn minimums_gate(scores: &BTreeMap<String, DimensionScore>, policy: &Policy) -> Option<Gate> {
    if scores.is_empty() {
        return None;
    }
    let low: Vec<String> = scores
        .iter()
        .filter_map(|(name, score)| {
            let least = policy.minimum(name, weight_of(name, *score, policy))?;
            (score.score < least).then(|| format!("{name} {} < {least}", score.score))
        })
        .collect();
    let why = if low.is_empty() {
        "all reached".to_owned()
    } else {
        low.join(", ")
    };
    Some(gate("dimension minimums", low.is_empty(), why))
}

fn overall_gate(overall: Option<u8>, policy: &Policy) -> Option<Gate> {
    let score = overall?;
    let least = policy.overall_minimum;
    Some(gate(
        "overall score",
        score >= least,
        format!("{score} of {least} needed"),
    ))
}

/// Whether the checks on the commit that stands have nothing against it.
pub(crate) fn checks_gate(ticket: &Ticket, policy: &Policy) -> Gate {
    let Some(checks) = &ticket.checks else {
        return gate(
            "checks green",
            false,
            "no check has run on this commit".to_owned(),
        );
    };
    let of_this_commit = ticket
        .submission
        .as_ref()
        .is_some_and(|put| put.commit == checks.commit);
    let red: Vec<&str> = checks
        .results
        .iter()
        .filter(|result| !policy.accepts(result.outcome))
        .map(|result| result.name.as_str())
        .collect();
    let why = match (of_this_commit, red.is_empty(), checks.results.len()) {
        (false, _, _) => "the results belong to another commit".to_owned(),
        (true, false, _) => format!("red: {}", red.join(", ")),
        (true, true, 0) => "the project names no checks".to_owned(),
        (true, true, n) => format!("{n} green"),
    };
    gate("checks green", of_this_commit && red.is_empty(), why)
}

/// Several reviewers' scores of one dimension count by their mean, rounded down.
fn mean_scores(answers: &[&SeatAnswer]) -> BTreeMap<String, DimensionScore> {
    let mut sums: BTreeMap<&str, (u32, u32, Option<Weight>)> = BTreeMap::new();
    for (name, score) in answers.iter().flat_map(|answer| &answer.scores) {
        let sum = sums.entry(name).or_default();
        sum.0 += u32::from(score.score.min(100));
        sum.1 += 1;
        sum.2 = sum.2.or(score.weight);
    }
    let mean = |(total, count, weight): (u32, u32, Option<Weight>)| DimensionScore {
        score: u8::try_from(total / count.max(1)).unwrap_or(100),
        weight,
    };
    sums.into_iter()
        .map(|(name, sum)| (name.to_owned(), mean(sum)))
        .collect()
}

/// The project's word on a dimension's weight goes before the reviewer's.
fn weight_of(name: &str, score: DimensionScore, policy: &Policy) -> Weight {
    policy
        .dimensions
        .get(name)
        .map_or(score.weight.unwrap_or(Weight::Moderate), |known| {
            known.weight
        })
}

/// The weighted mean of the dimensions; the reviewer's own number only where it gave no dimensions.
fn overall_score(
    answers: &[&SeatAnswer],
    scores: &BTreeMap<String, DimensionScore>,
    policy: &Policy,
) -> Option<u8> {
    if scores.is_empty() {
        return answers
            .iter()
            .filter_map(|answer| answer.overall_score)
            .min();
    }
    let (mut total, mut weights) = (0_u64, 0_u64);
    for (name, score) in scores {
        let weight = u64::from(policy.weight_of(weight_of(name, *score, policy)));
        total += u64::from(score.score) * weight;
        weights += weight;
    }
    u8::try_from(total.checked_div(weights)?).ok()
}

fn disagreement(
    approved: bool,
    claims: &BTreeMap<String, ReviewClaim>,
    gates: &[Gate],
) -> Option<String> {
    let other = if approved {
        ReviewClaim::ChangesRequested
    } else {
        ReviewClaim::Approved
    };
    let who: Vec<&str> = claims
        .iter()
        .filter(|(_, claim)| **claim == other)
        .map(|(name, _)| name.as_str())
        .collect();
    if who.is_empty() {
        return None;
    }
    let names = who.join(", ");
    Some(if approved {
        format!("{names} asked for changes, but named nothing that must be fixed")
    } else {
        let held = gates
            .iter()
            .filter(|gate| !gate.passed)
            .map(|gate| format!("{} ({})", gate.name, gate.why));
        format!(
            "{names} approved, but: {}",
            held.collect::<Vec<_>>().join("; ")
        )
    })
}

fn gate(name: &str, passed: bool, why: String) -> Gate {
    Gate {
        name: name.to_owned(),
        passed,
        why,
    }
}
