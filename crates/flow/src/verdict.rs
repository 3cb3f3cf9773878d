//! The verdict: computed by policy from findings, scores, votes and checks. A reviewer's claim is
//! one input. It is recorded with the verdict, and a disagreement is shown but never followed.

use std::collections::BTreeMap;

use findings::{DimensionScore, ReviewClaim, Severity, Weight};
use serde::{Deserialize, Serialize};

use crate::ledger::LedgerEntry;
use crate::policy::{MinorOnly, Policy, Votes};
use crate::ticket::{ApprovedBy, Seat, SeatAnswer, Ticket};

/// Most ids of open findings named in a gate's reason.
const IDS_SHOWN_MAX: usize = 12;

/// Decision on one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub approved: bool,
    /// Every gate that was evaluated, in order, with its reason.
    pub gates: Vec<Gate>,
    /// Claim of each reviewer.
    pub claims: BTreeMap<String, ReviewClaim>,
    /// Difference between the claims and the verdict, if there is one.
    pub disagreement: Option<String>,
    pub open_must_fix: u32,
    /// Ledger ids of open findings that block nothing.
    pub follow_ups: Vec<String>,
    /// Ledger ids of open notes: findings under the policy's threshold of confidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub overall_score: Option<u8>,
}

/// One condition of an approval, with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub name: String,
    pub passed: bool,
    pub why: String,
}

/// Computes the verdict on the current round.
pub fn compute_verdict(ticket: &Ticket, policy: &Policy) -> Verdict {
    let answers: Vec<&SeatAnswer> = ticket
        .seats
        .iter()
        .filter_map(|seat| seat.answer.as_ref())
        .collect();
    let open = ticket.ledger.open_must_fix(policy);
    let scores = mean_scores(&answers);
    let overall = overall_score(&answers, &scores, policy);
    let enabled = &policy.gates;
    let gates: Vec<Gate> = [
        enabled
            .reviewer_approves
            .then(|| votes_gate(ticket, policy)),
        must_fix_gate(&open, enabled.no_open_must_fix),
        enabled.no_blocking_issue.then(|| blocking_gate(ticket)),
        enabled
            .dimension_minimums
            .then(|| minimums_gate(&scores, policy))
            .flatten(),
        enabled
            .overall_score
            .then(|| overall_gate(overall, policy))
            .flatten(),
        enabled.checks_green.then(|| checks_gate(ticket, policy)),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Without voters the linters' answers decide.
    let nobody_votes = voters(ticket).next().is_none();
    let is_reviewed = if nobody_votes {
        !answers.is_empty()
    } else {
        voters(ticket).any(|seat| seat.answer.is_some())
    };
    let approved = is_reviewed && gates.iter().all(|gate| gate.passed);
    let claims = claims_by_reviewer(&answers);
    let ids = |entries: Vec<&LedgerEntry>| entries.iter().map(|entry| entry.id.clone()).collect();
    Verdict {
        approved,
        disagreement: describe_disagreement(approved, &claims, &gates),
        open_must_fix: u32::try_from(open.len()).unwrap_or(u32::MAX),
        follow_ups: ids(ticket.ledger.follow_ups(policy)),
        notes: ids(ticket.ledger.notes()),
        overall_score: overall,
        gates,
        claims,
    }
}

/// Returns the claim of each reviewer. For one with several seats, a claim other than an approval
/// counts.
fn claims_by_reviewer(answers: &[&SeatAnswer]) -> BTreeMap<String, ReviewClaim> {
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
    /// Returns the reviewers that approved, and those whose refusal the policy overruled.
    pub fn approved_by(&self) -> ApprovedBy {
        let names_with = |expected: ReviewClaim| {
            let claims = self.claims.iter();
            let matching = claims.filter(|(_, claim)| **claim == expected);
            matching.map(|(name, _)| name.clone()).collect()
        };
        ApprovedBy::Reviewers {
            names: names_with(ReviewClaim::Approved),
            refused: names_with(ReviewClaim::ChangesRequested),
        }
    }
}

/// Whether a finding alone upholds the refusal of the reviewer that reported it.
pub(crate) fn upholds_refusal(entry: &LedgerEntry, policy: &Policy) -> bool {
    match policy.minor_only {
        // A reviewer that was asked and did not countersign upholds all its findings.
        MinorOnly::Ask => true,
        MinorOnly::Approve => entry.is_must_fix(policy),
        MinorOnly::Rework => entry.is_must_fix(policy) || entry.costs_a_round(),
    }
}

/// Whether one seat's answer counts as a yes. A refusal counts as a no while a finding behind it is
/// open. A note blocks nothing, but it does not turn a refusal into a yes.
fn counts_as_approval(answer: &SeatAnswer, ticket: &Ticket, policy: &Policy) -> bool {
    match answer.claim {
        ReviewClaim::Approved => true,
        ReviewClaim::Unknown => false,
        ReviewClaim::ChangesRequested => {
            let upholds =
                |entry: &LedgerEntry| entry.low_confidence || upholds_refusal(entry, policy);
            let mut reported = answer
                .reported
                .iter()
                .filter_map(|id| ticket.ledger.get(id));
            !reported.any(|entry| entry.status.is_open() && upholds(entry))
        }
    }
}

/// Seats that vote. Linters report findings, but do not vote.
fn voters(ticket: &Ticket) -> impl Iterator<Item = &Seat> {
    ticket.seats.iter().filter(|seat| !seat.linter)
}

fn votes_gate(ticket: &Ticket, policy: &Policy) -> Gate {
    let seats = voters(ticket).count();
    let yes = voters(ticket)
        .filter_map(|seat| seat.answer.as_ref())
        .filter(|answer| counts_as_approval(answer, ticket, policy))
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

/// Passes without open must-fix findings. A critical finding blocks even with the gate off, until
/// it is verified.
fn must_fix_gate(open: &[&LedgerEntry], on: bool) -> Option<Gate> {
    let blocking: Vec<&str> = open
        .iter()
        .filter(|entry| on || entry.severity() == Severity::Critical)
        .map(|entry| entry.id.as_str())
        .collect();
    if !on && blocking.is_empty() {
        return None;
    }
    let why = if blocking.is_empty() {
        "none is open".to_owned()
    } else {
        format!("open: {}", list_first_ids(&blocking))
    };
    Some(gate("no open must-fix", blocking.is_empty(), why))
}

/// Lists the first ids, and counts the rest.
fn list_first_ids(ids: &[&str]) -> String {
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

/// Passes if the policy accepts every check result on the current commit.
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
        .is_some_and(|submission| submission.commit == checks.commit);
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

/// Returns the mean of all reviewers' scores for each dimension, rounded down.
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

/// Returns the weight of a dimension. The policy's weight takes precedence over the reviewer's.
fn weight_of(name: &str, score: DimensionScore, policy: &Policy) -> Weight {
    policy
        .dimensions
        .get(name)
        .map_or(score.weight.unwrap_or(Weight::Moderate), |dimension| {
            dimension.weight
        })
}

/// Returns the weighted mean of the dimensions. Without dimensions, the lowest overall score that a
/// reviewer gave counts.
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

fn describe_disagreement(
    approved: bool,
    claims: &BTreeMap<String, ReviewClaim>,
    gates: &[Gate],
) -> Option<String> {
    let other = if approved {
        ReviewClaim::ChangesRequested
    } else {
        ReviewClaim::Approved
    };
    let reviewers: Vec<&str> = claims
        .iter()
        .filter(|(_, claim)| **claim == other)
        .map(|(name, _)| name.as_str())
        .collect();
    if reviewers.is_empty() {
        return None;
    }
    let names = reviewers.join(", ");
    Some(if approved {
        format!("{names} asked for changes, but named nothing that must be fixed")
    } else {
        let failed = gates
            .iter()
            .filter(|gate| !gate.passed)
            .map(|gate| format!("{} ({})", gate.name, gate.why));
        format!(
            "{names} approved, but: {}",
            failed.collect::<Vec<_>>().join("; ")
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
