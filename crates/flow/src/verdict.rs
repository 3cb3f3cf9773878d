//! The verdict: computed by policy from findings, scores, votes and checks. A reviewer's claim is
//! one input. It is recorded with the verdict, and a disagreement is shown but never followed.
//!
//! Every gate is evaluated, also after one has failed, so that a builder and a person see all
//! reasons at once and not one per round.

use std::collections::BTreeMap;

use findings::{DimensionScore, ReviewClaim, Severity, Weight};
use serde::{Deserialize, Serialize};

use crate::ledger::LedgerEntry;
use crate::policy::{MinorOnly, Policy, Votes};
use crate::rejection::VOTES_GATE;
use crate::ticket::{ApprovedBy, PanelReviewer, ReviewerAnswer, RoundScore, Ticket};

/// Most ids of open findings named in a gate's reason.
/// A ledger may have hundreds of entries, and the reason is one line of a log.
const IDS_SHOWN_MAX: usize = 12;

/// Decision on one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gate {
    pub name: String,
    pub passed: bool,
    /// The result as a sentence, without a full stop.
    pub why: String,
    /// Ledger ids of the open findings behind a failed gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// Computes the verdict on the current round.
pub fn compute_verdict(ticket: &Ticket, policy: &Policy) -> Verdict {
    let answers: Vec<&ReviewerAnswer> = ticket
        .panel
        .iter()
        .filter_map(|reviewer| reviewer.answer.as_ref())
        .collect();
    let open = ticket.ledger.open_must_fix(policy);
    let scores = mean_scores(&answers);
    let overall = overall_score(&answers, &scores, policy);
    let enabled = &policy.gates;
    let gates: Vec<Gate> = [
        enabled
            .reviewer_approves
            .then(|| votes_gate(ticket, policy)),
        // This gate is built even if it is off: a critical finding blocks in any case.
        must_fix_gate(&open, enabled.no_open_must_fix),
        enabled.no_blocking_issue.then(|| blocking_gate(ticket)),
        // Gates about scores are absent if nobody scored. A missing score is no low score.
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
    // An empty panel must never be an approval: all gates could pass without anybody having read
    // the change.
    // Without voters the linters' answers decide.
    let nobody_votes = voters(ticket).next().is_none();
    let is_reviewed = if nobody_votes {
        !answers.is_empty()
    } else {
        voters(ticket).any(|reviewer| reviewer.answer.is_some())
    };
    let approved = is_reviewed && gates.iter().all(|gate| gate.passed);
    let claims = claims_by_reviewer(&answers);
    let ids = |entries: Vec<&LedgerEntry>| entries.iter().map(|entry| entry.id.clone()).collect();
    Verdict {
        // The sentence is made for both directions: an overruled refusal and an overruled approval.
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

/// Returns the claim of each reviewer. For one with several reviewers, a claim other than an approval
/// counts.
fn claims_by_reviewer(answers: &[&ReviewerAnswer]) -> BTreeMap<String, ReviewClaim> {
    let mut claims = BTreeMap::new();
    for answer in answers {
        let claim = claims
            .entry(answer.reviewer.clone())
            .or_insert(answer.claim);
        // One agent may hold several places of a panel. If it refuses in one of them, it must not
        // be listed among those that approved.
        if *claim == ReviewClaim::Approved {
            *claim = answer.claim;
        }
    }
    claims
}

impl Verdict {
    /// Returns the gates that did not pass.
    pub fn failed_gates(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter().filter(|gate| !gate.passed)
    }

    /// Removes the sentences and keeps the decision. A later version may word them differently, so
    /// they do not count when a log is compared with the store.
    #[must_use]
    pub fn without_wording(mut self) -> Self {
        for gate in &mut self.gates {
            gate.why.clear();
            gate.findings.clear();
        }
        self.disagreement = self.disagreement.map(|_| String::new());
        self
    }

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

/// Whether one reviewer's answer counts as a yes. A refusal counts as a no while a finding behind it is
/// open. A note blocks nothing, but it does not turn a refusal into a yes.
fn counts_as_approval(answer: &ReviewerAnswer, ticket: &Ticket, policy: &Policy) -> bool {
    match answer.claim {
        // The agent's word is enough for a yes only in this gate. Open findings stop the change in
        // the next one.
        ReviewClaim::Approved => true,
        // No verdict is no vote. It counts against `all` and against a majority.
        ReviewClaim::Unknown => false,
        // A refusal whose findings are all closed, refuted or waived has lost its reason. Else one
        // wrong finding would block the ticket for ever.
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

/// Reviewers that vote. Linters report findings, but do not vote.
fn voters(ticket: &Ticket) -> impl Iterator<Item = &PanelReviewer> {
    ticket.panel.iter().filter(|reviewer| !reviewer.linter)
}

fn votes_gate(ticket: &Ticket, policy: &Policy) -> Gate {
    let reviewers = voters(ticket).count();
    let yes = voters(ticket)
        .filter_map(|reviewer| reviewer.answer.as_ref())
        .filter(|answer| counts_as_approval(answer, ticket, policy))
        .count();
    let needed = match policy.votes {
        // Counted over all voters, also those that did not answer: a missing answer is no approval.
        Votes::All => reviewers,
        Votes::Majority => reviewers / 2 + 1,
        Votes::Quorum(n) => n as usize,
    };
    gate(
        VOTES_GATE,
        // With no voter, `all` would need 0 votes and pass.
        yes >= needed && reviewers > 0,
        describe_votes(yes, reviewers, needed),
    )
}

fn describe_votes(yes: usize, reviewers: usize, needed: usize) -> String {
    match (yes, reviewers) {
        (_, 0) => "no reviewer has a vote".to_owned(),
        (0, 1) => "the reviewer did not approve".to_owned(),
        (_, 1) => "the reviewer approved".to_owned(),
        (yes, reviewers) if yes >= needed => format!("{yes} of {reviewers} reviewers approved"),
        (yes, reviewers) if needed == reviewers => {
            format!("{yes} of {reviewers} reviewers approved, all are needed")
        }
        (yes, reviewers) => {
            let verb = if needed == 1 { "is" } else { "are" };
            format!("{yes} of {reviewers} reviewers approved, {needed} {verb} needed")
        }
    }
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
    let why = match blocking.as_slice() {
        [] => "no must-fix finding is open".to_owned(),
        [id] => format!("the must-fix finding {id} is open"),
        ids => format!("must-fix findings are open: {}", list_first_ids(ids)),
    };
    let mut gate = gate("no open must-fix", blocking.is_empty(), why);
    gate.findings = blocking.into_iter().map(str::to_owned).collect();
    Some(gate)
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
    let open: Vec<String> = ticket
        .ledger
        .entries
        .iter()
        // Blocking issues are found by their mark and not by severity: a later report may rate the
        // same entry lower.
        .filter(|entry| entry.blocking && entry.status.is_open())
        .map(|entry| entry.id.clone())
        .collect();
    let why = match open.len() {
        0 => "no blocking issue is open".to_owned(),
        1 => "1 blocking issue is open".to_owned(),
        n => format!("{n} blocking issues are open"),
    };
    let mut gate = gate("no blocking issue", open.is_empty(), why);
    gate.findings = open;
    gate
}

fn minimums_gate(scores: &BTreeMap<String, DimensionScore>, policy: &Policy) -> Option<Gate> {
    // No reviewer scored, so there is nothing to compare with a minimum.
    if scores.is_empty() {
        return None;
    }
    let low: Vec<String> = scores
        .iter()
        .filter_map(|(name, score)| {
            let least = policy.minimum(name, weight_of(name, *score, policy))?;
            (score.score < least).then(|| {
                let score = score.score;
                format!("the score of {name} is {score}, {least} is needed")
            })
        })
        .collect();
    let why = if low.is_empty() {
        "every dimension reaches its minimum".to_owned()
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
        format!("the weighted score is {score}, {least} is needed"),
    ))
}

/// Passes if the policy accepts every check result on the current commit.
pub(crate) fn checks_gate(ticket: &Ticket, policy: &Policy) -> Gate {
    // The gate is closed if nothing ran. Else a ticket without a check result would look like one
    // with green checks.
    let Some(checks) = &ticket.checks else {
        return gate(
            "checks green",
            false,
            "no check has run on this commit".to_owned(),
        );
    };
    // Results of another commit prove nothing about this one.
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
        (false, _, _) => "the check results belong to another commit".to_owned(),
        (true, false, _) => describe_red(&red),
        // A project without checks is no failure, but the sentence says so. It must not read like
        // green tests.
        (true, true, 0) => "the project has no checks".to_owned(),
        (true, true, 1) => "the check is green".to_owned(),
        (true, true, n) => format!("all {n} checks are green"),
    };
    gate("checks green", of_this_commit && red.is_empty(), why)
}

fn describe_red(names: &[&str]) -> String {
    match names {
        [name] => format!("check `{name}` is red"),
        names => {
            let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("checks {} are red", quoted.join(", "))
        }
    }
}

/// Returns the mean of all reviewers' scores for each dimension, rounded down.
fn mean_scores(answers: &[&ReviewerAnswer]) -> BTreeMap<String, DimensionScore> {
    let mut sums: BTreeMap<&str, (u32, u32, Option<Weight>)> = BTreeMap::new();
    for (name, score) in answers.iter().flat_map(|answer| &answer.scores) {
        let sum = sums.entry(name).or_default();
        // A reviewer may write 1000. It would lift the mean of all others over the minimum.
        sum.0 += u32::from(score.score.min(100));
        sum.1 += 1;
        sum.2 = sum.2.or(score.weight);
    }
    let mean = |(total, count, weight): (u32, u32, Option<Weight>)| DimensionScore {
        // Rounded down: 79.9 does not reach a minimum of 80.
        score: u8::try_from(total / count.max(1)).unwrap_or(100),
        weight,
    };
    sums.into_iter()
        .map(|(name, sum)| (name.to_owned(), mean(sum)))
        .collect()
}

/// Returns the scores of all dimensions with the policy's weights and minimums, for the record of
/// the round; nothing if nobody scored.
pub(crate) fn round_scores(ticket: &Ticket, policy: &Policy) -> BTreeMap<String, RoundScore> {
    let answers = ticket.panel.iter().filter_map(|it| it.answer.as_ref());
    let scores = mean_scores(&answers.collect::<Vec<_>>());
    if scores.is_empty() {
        return BTreeMap::new();
    }
    let names = scores.keys().chain(policy.dimensions.keys());
    let record = |name: &String| {
        let score = scores.get(name);
        let unscored = DimensionScore {
            score: 0,
            weight: None,
        };
        let weight = weight_of(name, score.copied().unwrap_or(unscored), policy);
        let record = RoundScore {
            score: score.map(|score| score.score),
            weight,
            minimum: policy.minimum(name, weight),
        };
        (name.clone(), record)
    };
    names.map(record).collect()
}

/// Returns the weight of a dimension. The policy's weight takes precedence over the reviewer's.
/// A reviewer must not make a dimension cheap by giving it a low weight.
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
    answers: &[&ReviewerAnswer],
    scores: &BTreeMap<String, DimensionScore>,
    policy: &Policy,
) -> Option<u8> {
    if scores.is_empty() {
        return answers
            // The lowest, because several overall numbers without dimensions have no weights to
            // average by.
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
    // Only the opposite claim is a disagreement. A missing verdict disagrees with nothing.
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
        let failed = gates.iter().filter(|gate| !gate.passed);
        let why: Vec<&str> = failed.map(|gate| gate.why.as_str()).collect();
        format!("{names} approved, but {}", why.join("; "))
    })
}

fn gate(name: &str, passed: bool, why: String) -> Gate {
    Gate {
        name: name.to_owned(),
        passed,
        why,
        findings: Vec::new(),
    }
}
