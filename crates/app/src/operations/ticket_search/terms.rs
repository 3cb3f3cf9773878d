//! The language of filters: `stage: agent: repo: epic: label: finding: cost>1 age>1h` and words. All
//! terms must match. It is read leniently: a term that is not understood is named and left out.

use flow::{Stage, Ticket, Time};
use store::TicketRow;

/// Terms with their meaning, for help texts.
pub const SEARCH_TERMS: [(&str, &str); 10] = [
    ("stage:reviewing,rework", "in one of these stages"),
    (
        "agent:claude",
        "built or reviewed by an agent with this in its name",
    ),
    ("repo:shop", "in a repository with this in its path"),
    ("epic:pay", "of this epic"),
    ("label:gpu", "that needs a worker with this label"),
    (
        "finding:high",
        "with a finding of this severity, state, category or title",
    ),
    ("cost>1", "that cost more than a dollar; also < for less"),
    (
        "age>2h",
        "created longer ago; s, min, h, d; also < for newer",
    ),
    ("round>1", "in a later round"),
    ("priority>50", "more urgent"),
];

/// Terms of a filter that are used. A database refuses a query of thousands of words.
const TERMS_MAX: usize = 30;

/// A bound on a number, such as `cost>1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberBound {
    column: BoundColumn,
    is_more: bool,
    /// Millionths of a dollar, milliseconds, or a count.
    than: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundColumn {
    Cost,
    Age,
    Round,
    Priority,
    MustFix,
}

impl BoundColumn {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "cost" => Self::Cost,
            "age" => Self::Age,
            "round" => Self::Round,
            "priority" => Self::Priority,
            "must-fix" => Self::MustFix,
            _ => return None,
        })
    }

    fn value(self, row: &TicketRow, now: Time) -> i64 {
        match self {
            Self::Cost => i64::try_from(row.usd_micros).unwrap_or(i64::MAX),
            Self::Age => now.0.saturating_sub(row.created_at.0),
            Self::Round => i64::from(row.round),
            Self::Priority => i64::from(row.priority),
            Self::MustFix => i64::from(row.open_must_fix),
        }
    }

    fn parse_amount(self, text: &str) -> Option<i64> {
        match self {
            Self::Cost => i64::try_from(parse_dollars(text.trim_start_matches('$'))?).ok(),
            Self::Age => parse_duration(text),
            Self::Round | Self::Priority | Self::MustFix => text.parse().ok(),
        }
    }
}

/// A filter as a person types it. All terms must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TicketFilter {
    /// The terms as they were typed, without those that are not understood.
    pub terms: Vec<String>,
    pub stages: Vec<Stage>,
    pub epic: Option<String>,
    /// Part of the repository's path.
    pub repository: Option<String>,
    /// The whole path of the repository, for pages that know it.
    pub exact_repository: Option<String>,
    /// Words in the id, the title or the epic, in lower case.
    pub words: Vec<String>,
    agents: Vec<String>,
    labels: Vec<String>,
    findings: Vec<String>,
    bounds: Vec<NumberBound>,
    /// Sentences about terms that are not understood.
    pub problems: Vec<String>,
}

impl TicketFilter {
    /// Parses a filter; a term that is not understood becomes a problem and is left out.
    pub fn parse(text: &str) -> Self {
        let mut filter = Self::default();
        let mut terms = text.split_whitespace();
        for term in terms.by_ref().take(TERMS_MAX) {
            let problems = filter.problems.len();
            filter.add(term);
            if filter.problems.len() == problems {
                filter.terms.push(term.to_owned());
            }
        }
        if terms.next().is_some() {
            let problem = format!("Only the first {TERMS_MAX} terms are used.");
            filter.problems.push(problem);
        }
        filter
    }

    fn add(&mut self, term: &str) {
        let lower = |text: &str| text.to_lowercase();
        match term.split_once(':') {
            Some(("stage", words)) => self.add_stages(words),
            Some(("epic", epic)) => self.epic = Some(epic.to_owned()),
            Some(("repo", name)) => self.repository = Some(lower(name)),
            Some(("agent", name)) => self.agents.push(lower(name)),
            Some(("label", name)) => self.labels.push(lower(name)),
            Some(("finding", word)) => self.findings.push(lower(word)),
            Some(_) | None => match parse_bound(term) {
                Some(Ok(bound)) => self.bounds.push(bound),
                Some(Err(problem)) => self.problems.push(problem),
                None => self.words.push(lower(term)),
            },
        }
    }

    fn add_stages(&mut self, words: &str) {
        for word in words.split(',') {
            if let Some(stage) = Stage::parse(word) {
                self.stages.push(stage);
                continue;
            }
            let known: Vec<&str> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
            let known = known.join(", ");
            self.problems
                .push(format!("{word:?} is not a stage. Stages are {known}."));
        }
    }

    /// True if the store can answer the whole filter.
    pub(super) fn is_by_stage(&self) -> bool {
        self.repository.is_none() && self.bounds.is_empty() && !self.reads_tickets()
    }

    /// True if a term asks for more than the row of a list has.
    pub(super) fn reads_tickets(&self) -> bool {
        !(self.agents.is_empty() && self.labels.is_empty() && self.findings.is_empty())
    }

    /// Checks the terms that a row can answer; the store has checked stages, epic and words.
    pub(super) fn matches_row(&self, row: &TicketRow, now: Time) -> bool {
        let repository = row.repository.as_deref().unwrap_or_default().to_lowercase();
        let part = self.repository.as_ref();
        part.is_none_or(|part| repository.contains(part))
            && self.bounds.iter().all(|bound| {
                let value = bound.column.value(row, now);
                if bound.is_more {
                    value > bound.than
                } else {
                    value < bound.than
                }
            })
    }

    /// Checks the terms about agents, labels and findings.
    pub(super) fn matches_ticket(&self, ticket: &Ticket) -> bool {
        let mut names: Vec<String> = ticket
            .builders
            .iter()
            .map(|name| name.to_lowercase())
            .collect();
        let assigned = [
            &ticket.assigned.builder,
            &ticket.assigned.reviewer,
            &ticket.assigned.built_by,
        ];
        names.extend(
            assigned
                .into_iter()
                .flatten()
                .map(|name| name.to_lowercase()),
        );
        names.extend(
            ticket
                .jobs
                .iter()
                .filter_map(|job| job.holder.as_ref())
                .map(|name| name.to_lowercase()),
        );
        let rounds = ticket.rounds.iter();
        let panels = rounds.flat_map(|round| &round.panel).chain(&ticket.panel);
        names.extend(
            panels
                .filter_map(|one| one.answer.as_ref())
                .map(|answer| answer.reviewer.to_lowercase()),
        );
        let labels: Vec<String> = ticket
            .spec
            .context
            .needs
            .iter()
            .map(|label| label.to_lowercase())
            .collect();
        let has = |all: &[String], part: &String| all.iter().any(|one| one.contains(part));
        self.agents.iter().all(|part| has(&names, part))
            && self.labels.iter().all(|part| has(&labels, part))
            && self.findings.iter().all(|word| has_finding(ticket, word))
    }
}

fn has_finding(ticket: &Ticket, word: &str) -> bool {
    ticket.ledger.entries.iter().any(|entry| {
        let category = format!("{:?}", entry.finding.category).to_lowercase();
        entry.severity().word() == word
            || entry.status.as_str() == word
            || entry.id.to_lowercase() == word
            || category.contains(word)
            || entry.finding.title.to_lowercase().contains(word)
    })
}

/// Parses a bound; `None` if the term is a word.
fn parse_bound(term: &str) -> Option<Result<NumberBound, String>> {
    let at = term.find(['>', '<'])?;
    let (word, amount) = term.split_at(at);
    let column = BoundColumn::parse(word)?;
    let is_more = amount.starts_with('>');
    let parsed = column.parse_amount(&amount[1..]);
    let problem = || format!("{term:?} is not a bound. Write for example cost>1, age>2h, round>1.");
    Some(parsed.ok_or_else(problem).map(|than| NumberBound {
        column,
        is_more,
        than,
    }))
}

/// Parses dollars with at most six decimals into millionths.
pub fn parse_dollars(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = decimals.chars().all(|c| c.is_ascii_digit());
    if decimals.len() > 6 || !are_digits {
        return None;
    }
    let micros: u64 = format!("{decimals:0<6}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(micros)
}

/// Parses a duration such as `90s`, `10min`, `2h` or `3d` into milliseconds.
fn parse_duration(text: &str) -> Option<i64> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(at);
    let secs = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    count.parse::<i64>().ok()?.checked_mul(secs * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_terms_and_words_and_names_what_it_does_not_know() {
        let filter = TicketFilter::parse("stage:queued,nonsense Epic:x epic:pay repo:Shop Greet");
        assert_eq!(filter.stages, [Stage::Queued]);
        assert_eq!(filter.epic.as_deref(), Some("pay"));
        assert_eq!(filter.repository.as_deref(), Some("shop"));
        assert_eq!(filter.words, ["epic:x", "greet"]);
        assert!(filter.problems[0].starts_with("\"nonsense\" is not a stage"));
    }

    #[test]
    fn bounds_have_units_and_bad_ones_are_named() {
        let filter = TicketFilter::parse("cost>1.5 age<2h round>1 x>y");
        let bounds: Vec<(bool, i64)> = filter
            .bounds
            .iter()
            .map(|bound| (bound.is_more, bound.than))
            .collect();
        assert_eq!(bounds, [(true, 1_500_000), (false, 7_200_000), (true, 1)]);
        assert_eq!(filter.words, ["x>y"]);
        for bad in [
            "cost>",
            "cost>x",
            "cost>-1",
            "age>2",
            "age>9999999999999999999h",
            "round>x",
        ] {
            let filter = TicketFilter::parse(bad);
            assert_eq!((filter.problems.len(), filter.terms.len()), (1, 0), "{bad}");
        }
    }
}
