//! Statistics over finished and running tickets: findings by category, reviewer and builder, their
//! precision, costs, and rules that a project could give its builders.

mod by_day;

pub use by_day::{DayFigures, figures_by_day, outcomes_by_severity};

use std::collections::BTreeMap;

use findings::Category;
use serde::{Deserialize, Serialize};

use crate::ledger::{FindingStatus, LedgerEntry};
use crate::narrate::count_noun;
use crate::ticket::{Stage, Ticket};
use crate::usage::{Usage, format_dollars};

/// Fixed findings of one category before a rule is proposed for it.
const RULE_MIN: u32 = 3;
/// Most paths that are listed.
const PATHS_MAX: usize = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Insights {
    pub tickets: u32,
    pub accepted: u32,
    pub escalated: u32,
    /// Number of tickets by rounds until the approval.
    pub rounds_to_approval: BTreeMap<u32, u32>,
    pub costs: Costs,
    pub categories: BTreeMap<String, FindingOutcomes>,
    pub reviewers: BTreeMap<String, FindingOutcomes>,
    pub builders: BTreeMap<String, FindingOutcomes>,
    /// Paths with the most findings, the highest count first.
    pub paths: Vec<(String, u32)>,
    pub rules: Vec<ProposedRule>,
}

/// Costs of all tickets, in total and on average.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Costs {
    pub spent: Usage,
    /// Rounds that had a verdict.
    pub rounds: u32,
    /// Mean over the tickets that cost anything.
    pub usd_micros_per_ticket: u64,
    pub usd_micros_per_round: u64,
    /// Total cost divided by the number of landed changes, or `None` without one.
    pub usd_micros_per_accepted: Option<u64>,
    /// The number of tickets summed, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_only: Option<u64>,
}

impl Costs {
    pub fn from_tickets(tickets: &[Ticket]) -> Self {
        let sum = |sum: Usage, ticket: &Ticket| sum.plus(ticket.spent.ticket);
        let spent = tickets.iter().fold(Usage::default(), sum);
        let count = |of: &dyn Fn(&Ticket) -> bool| tickets.iter().filter(|one| of(one)).count();
        let rounds: usize = tickets.iter().map(|ticket| ticket.rounds.len()).sum();
        let each = |n: usize| spent.usd_micros.checked_div(n as u64);
        let landed = count(&|one| one.stage == Stage::Done);
        let paid = count(&|one| one.spent.ticket != Usage::default());
        Self {
            spent,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            usd_micros_per_ticket: each(paid).unwrap_or_default(),
            usd_micros_per_round: each(rounds).unwrap_or_default(),
            usd_micros_per_accepted: each(landed),
            newest_only: None,
        }
    }

    /// Formats the costs: `$1.20 spent: $0.40 a ticket, $0.20 a round, $0.60 for each that landed`.
    /// Without some prices: `≥ $0.05 spent, price unknown for 8 runs: ≥ $0.05 a ticket, …`.
    pub fn describe(&self) -> String {
        let unpriced = usize::try_from(self.spent.unpriced_runs).unwrap_or(usize::MAX);
        // A sum that lacks prices is a lower bound, and so is every mean of it.
        let (least, unknown) = match unpriced {
            0 => ("", String::new()),
            runs => (
                "≥ ",
                format!(", price unknown for {}", count_noun(runs, "run")),
            ),
        };
        let priced = Usage {
            unpriced_runs: 0,
            ..self.spent
        };
        let spent = format!("{least}{} spent{unknown}", priced.describe_cost([]));
        let mean = |micros: u64| format!("{least}{}", format_dollars(micros));
        let [ticket, round] = [self.usd_micros_per_ticket, self.usd_micros_per_round].map(mean);
        let landed = self.usd_micros_per_accepted.map_or_else(
            || "nothing landed yet".to_owned(),
            |each| format!("{} for each that landed", mean(each)),
        );
        let only = self.newest_only.map_or_else(String::new, |count| {
            format!(" (the newest {count} tickets)")
        });
        format!("{spent}: {ticket} a ticket, {round} a round, {landed}{only}")
    }
}

/// Counts of findings by outcome.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct FindingOutcomes {
    pub found: u32,
    pub fixed: u32,
    pub refuted: u32,
    pub waived: u32,
    pub open: u32,
}

impl FindingOutcomes {
    fn count(&mut self, status: FindingStatus) {
        self.found += 1;
        match status {
            FindingStatus::Fixed => self.fixed += 1,
            FindingStatus::Refuted => self.refuted += 1,
            FindingStatus::Waived => self.waived += 1,
            FindingStatus::Open
            | FindingStatus::NotRepeated
            | FindingStatus::Reopened
            | FindingStatus::Disputed => {
                self.open += 1;
            }
            FindingStatus::Duplicate => {}
        }
    }

    /// Share of findings that led to a verified fix, in percent.
    pub fn precision(&self) -> Option<u32> {
        (self.fixed * 100).checked_div(self.found)
    }

    pub fn refutation(&self) -> Option<u32> {
        (self.refuted * 100).checked_div(self.found)
    }
}

/// A rule for the build brief, and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProposedRule {
    pub text: String,
    pub because: String,
}

pub fn collect_insights(tickets: &[Ticket]) -> Insights {
    let mut all = Insights::default();
    let mut paths: BTreeMap<String, u32> = BTreeMap::new();
    for ticket in tickets {
        all.add_ticket(ticket);
        for entry in actionable_entries(ticket) {
            if let Some(file) = &entry.finding.file {
                *paths.entry(file.clone()).or_default() += 1;
            }
        }
    }
    let mut paths: Vec<(String, u32)> = paths.into_iter().collect();
    paths.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    paths.truncate(PATHS_MAX);
    all.paths = paths;
    all.costs = Costs::from_tickets(tickets);
    all.rules = propose_rules(tickets);
    all
}

fn actionable_entries(ticket: &Ticket) -> impl Iterator<Item = &LedgerEntry> {
    let entries = ticket.ledger.entries.iter();
    entries.filter(|entry| entry.finding.actionable && entry.status != FindingStatus::Duplicate)
}

impl Insights {
    fn add_ticket(&mut self, ticket: &Ticket) {
        self.tickets += 1;
        self.accepted += u32::from(ticket.stage == Stage::Done);
        self.escalated += u32::from(ticket.stage == Stage::Escalated);
        if let Some(round) = ticket.rounds.iter().find(|round| round.verdict.approved) {
            *self.rounds_to_approval.entry(round.number).or_default() += 1;
        }
        for entry in actionable_entries(ticket) {
            let builder = builder_of(ticket, entry);
            let category = entry.finding.category.map_or("other", category_word);
            let of = |map: &mut BTreeMap<String, FindingOutcomes>, key: &str| {
                map.entry(findings::one_line(key))
                    .or_default()
                    .count(entry.status);
            };
            of(&mut self.categories, category);
            of(&mut self.builders, builder);
            for reviewer in &entry.reported_by {
                of(&mut self.reviewers, reviewer);
            }
        }
    }
}

/// Returns the builder of the round in which the finding was first reported.
fn builder_of<'a>(ticket: &'a Ticket, entry: &LedgerEntry) -> &'a str {
    let mut rounds = ticket.rounds.iter();
    let round = rounds.find(|round| round.number == entry.first_round);
    let of_round = round.and_then(|round| round.builder.as_ref());
    let assigned = &ticket.assigned;
    let builder = of_round
        .or(assigned.builder.as_ref())
        .or(assigned.built_by.as_ref())
        .or_else(|| ticket.authors.first());
    builder.map_or("", String::as_str)
}

fn category_word(category: Category) -> &'static str {
    match category {
        Category::Security => "security",
        Category::Correctness => "correctness",
        Category::Performance => "performance",
        Category::Readability => "readability",
        Category::Testing => "testing",
        Category::Requirements => "requirements",
        Category::Coordination => "coordination",
        Category::Patterns => "patterns",
        Category::BestPractices => "best practices",
    }
}

fn advice(category: Category) -> &'static str {
    match category {
        Category::Security => {
            "Check every input and every right before it is used, and keep secrets out of the code."
        }
        Category::Correctness => {
            "Handle the empty, the missing and the last case, and never swallow an error."
        }
        Category::Performance => "No query and no allocation in a loop that can grow.",
        Category::Readability => "Names say what a thing is; nothing is there twice.",
        Category::Testing => {
            "Every change of behaviour has a test that fails without it, edges included."
        }
        Category::Requirements => {
            "Go through the acceptance criteria one by one before you submit."
        }
        Category::Coordination => "Keep the epic's names, arguments and directories exactly.",
        Category::Patterns => "Look how this code base does it elsewhere, and do it the same way.",
        Category::BestPractices => "Follow the project's own conventions, error handling first.",
    }
}

/// Proposes rules for categories with enough fixed findings. Refuted findings do not count.
fn propose_rules(tickets: &[Ticket]) -> Vec<ProposedRule> {
    let mut fixed: BTreeMap<Category, (u32, String)> = BTreeMap::new();
    for entry in tickets
        .iter()
        .flat_map(actionable_entries)
        .filter(|entry| entry.status == FindingStatus::Fixed)
    {
        if let Some(category) = entry.finding.category {
            let (count, example) = fixed.entry(category).or_default();
            *count += 1;
            example.clone_from(&entry.finding.title);
        }
    }
    let often = fixed
        .into_iter()
        .filter(|(_, (count, _))| *count >= RULE_MIN);
    often
        .map(|(category, (count, example))| ProposedRule {
            text: advice(category).to_owned(),
            because: format!(
                "{count} findings on {} were fixed, the last: {}",
                category_word(category),
                findings::one_line(&example)
            ),
        })
        .collect()
}
