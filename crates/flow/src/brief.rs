//! What an agent is told. Pure text, made anew for every run; whatever an agent wrote before is
//! quoted, fenced and labelled as material, so that a finding cannot give orders.

mod answers;
mod quote;

use std::fmt::Write as _;

use crate::ledger::{Entry, Status};
use crate::policy::Policy;
use crate::ticket::{CheckResult, Setback, Ticket};
use quote::{fenced, line, section};

/// What the project itself says to every agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct House {
    /// The project's rules, one sentence each.
    pub rules: Vec<String>,
    /// The commands that will be run on the commit.
    pub checks: Vec<String>,
}

/// For the builder: the ticket, or in a later round what it has to answer.
pub fn build(ticket: &Ticket, policy: &Policy, house: &House) -> String {
    let mut out = String::new();
    match &ticket.setback {
        None => {
            let _ = writeln!(out, "# Build {}: {}\n", ticket.id, line(&ticket.spec.title));
            out.push_str(answers::BUILDER_TASK);
        }
        Some(setback) => {
            let (id, title) = (&ticket.id, line(&ticket.spec.title));
            let _ = writeln!(out, "# Rework {id}, round {}: {title}\n", ticket.round);
            out.push_str(answers::FIXER_TASK);
            out.push_str(&rework(ticket, setback, policy));
        }
    }
    out.push_str(&wanted(ticket));
    out.push_str(&bullets("House rules", &house.rules));
    out.push_str(&checks_to_come(&house.checks));
    out.push_str(&protected(ticket, policy));
    out.push_str(answers::BUILDER_ANSWER);
    if ticket.setback.is_some() {
        let _ = writeln!(
            out,
            "\nCommit with the message `fix: address code review round {} - <what you did>`.",
            ticket
                .rounds
                .last()
                .map_or(ticket.round, |round| round.number)
        );
    }
    out
}

/// What the ticket asks for: the same for builder and reviewer.
fn wanted(ticket: &Ticket) -> String {
    let spec = &ticket.spec;
    let mut out = section("What is wanted", &spec.description);
    if spec.description.trim().is_empty() {
        out = section("What is wanted", &spec.title);
    }
    let criteria: Vec<String> = spec
        .acceptance
        .iter()
        .enumerate()
        .map(|(i, text)| format!("{}. {}", i + 1, line(text)))
        .collect();
    if !criteria.is_empty() {
        out.push_str(&section("Acceptance criteria", &criteria.join("\n")));
    }
    out.push_str(&bullets(
        "Demands of the epic (every ticket keeps them)",
        &spec.context.coordination,
    ));
    out
}

fn bullets(title: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let list: Vec<String> = items
        .iter()
        .map(|item| format!("- {}", line(item)))
        .collect();
    section(title, &list.join("\n"))
}

fn checks_to_come(checks: &[String]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let list: Vec<String> = checks
        .iter()
        .map(|check| format!("- `{}`", line(check)))
        .collect();
    section("Checks that will be run on your commit", &list.join("\n"))
}

fn protected(ticket: &Ticket, policy: &Policy) -> String {
    let paths: Vec<String> = policy
        .protected
        .iter()
        .chain(&ticket.spec.protected)
        .map(|path| format!("`{}`", line(path)))
        .collect();
    bullets("Leave these paths alone", &paths)
}

fn rework(ticket: &Ticket, setback: &Setback, policy: &Policy) -> String {
    match setback {
        Setback::Findings => findings_to_answer(ticket, policy),
        Setback::RedChecks { results } => {
            let mut out = section(
                "The checks are red",
                "Make them green; change nothing else.",
            );
            out.push_str(&check_tails(results));
            out
        }
        Setback::RedCombination { results } => {
            let text = "Your change is green alone and red together with the newest base branch. \
                        Bring the base into your branch and make the combination green.";
            let mut out = section("Red together with the base", text);
            out.push_str(&check_tails(results));
            out
        }
        Setback::Conflict { files, evidence } => {
            let text = "The base branch has moved and your change no longer merges. Merge the base \
                        branch into yours and resolve the conflicts without losing either side's intent.";
            let mut out = section("Merge conflict", text);
            out.push_str(&bullets("Files in conflict", files));
            out.push_str(&fenced("git's own words", evidence));
            out
        }
    }
}

fn check_tails(results: &[CheckResult]) -> String {
    results
        .iter()
        .map(|result| {
            fenced(
                &format!("the end of `{}`", line(&result.name)),
                &result.tail,
            )
        })
        .collect()
}

fn findings_to_answer(ticket: &Ticket, policy: &Policy) -> String {
    let ledger = &ticket.ledger;
    let must: Vec<&Entry> = ledger.open_must_fix(policy);
    let fixed: Vec<&Entry> = ledger
        .entries
        .iter()
        .filter(|entry| entry.status == Status::Fixed)
        .collect();
    let rest: Vec<&Entry> = ledger.follow_ups(policy);
    let mut out = section(
        "Must be fixed now",
        "Each by its id; the words are the reviewer's.",
    );
    for (number, entry) in must.iter().enumerate() {
        out.push_str(&numbered(number + 1, entry));
    }
    out.push_str(&one_liners(
        "Fixed before: do not let them come back",
        &fixed,
    ));
    out.push_str(&one_liners("Not asked of you in this round", &rest));
    out
}

fn numbered(number: usize, entry: &Entry) -> String {
    let finding = &entry.finding;
    let mut out = String::new();
    let severity = entry.severity().word();
    let _ = writeln!(
        out,
        "\n{number}. **{}** ({severity}) {}",
        entry.id,
        line(&finding.title)
    );
    let place = entry.place();
    let parts = [
        ("Where", (!place.is_empty()).then_some(place.as_str())),
        ("Problem", finding.problem.as_deref()),
        ("Why it matters", finding.impact.as_deref()),
        ("Suggested fix", finding.fix.as_deref()),
    ];
    for (label, text) in parts {
        if let Some(text) = text {
            let _ = writeln!(out, "   - {label}: {}", line(text));
        }
    }
    if let Some(note) = &entry.note {
        let _ = writeln!(
            out,
            "   - Last word ({}): {}",
            line(&note.by),
            line(&note.text)
        );
    }
    out
}

fn one_liners(title: &str, entries: &[&Entry]) -> String {
    let items: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} {} {}", entry.id, entry.place(), entry.finding.title))
        .collect();
    bullets(title, &items)
}

/// For a reviewer: the code, the wish, the criteria. Never a word of earlier rounds.
pub fn review(ticket: &Ticket, seat: &str, policy: &Policy, house: &House) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "# Review {}: {}\n",
        ticket.id,
        line(&ticket.spec.title)
    );
    out.push_str(answers::REVIEWER_TASK);
    let lens = policy
        .reviewers
        .iter()
        .find(|spec| spec.name == seat)
        .and_then(|spec| spec.lens.as_deref());
    if let Some(lens) = lens {
        let _ = writeln!(
            out,
            "\nLook at {} above all; report what else you see all the same.",
            line(lens)
        );
    }
    if let Some(put) = &ticket.submission {
        out.push_str(&section(
            "What to review",
            &format!(
                "The change from `{}` to `{}`, checked out here: `git diff {}`.",
                put.base, "HEAD", put.base
            ),
        ));
        out.push_str(&bullets("Files changed", &put.files));
        out.push_str(&bullets(
            "Protected paths and agent instructions that the change touches (look twice)",
            &put.protected,
        ));
    }
    out.push_str(&wanted(ticket));
    out.push_str(&claims(ticket));
    out.push_str(&bullets("House rules", &house.rules));
    out.push_str(&check_results(ticket));
    out.push_str(answers::CRITERIA);
    out.push_str(&dimensions(policy));
    out.push_str(answers::SEVERITIES);
    out.push_str(answers::REVIEWER_ANSWER);
    out
}

/// What the builder says of each criterion: to be tested, not to be believed.
fn claims(ticket: &Ticket) -> String {
    let Some(put) = ticket
        .submission
        .as_ref()
        .filter(|put| !put.claims.is_empty())
    else {
        return String::new();
    };
    let list: Vec<String> = put
        .claims
        .iter()
        .map(|claim| {
            let met = if claim.met { "met" } else { "not met" };
            let evidence = claim.evidence.as_deref().map(line).unwrap_or_default();
            format!("{met}: {} — {evidence}", line(&claim.criterion))
        })
        .collect();
    bullets("The builder's own claims (test them)", &list)
}

fn check_results(ticket: &Ticket) -> String {
    let Some(checks) = &ticket.checks else {
        return String::new();
    };
    let list: Vec<String> = checks
        .results
        .iter()
        .map(|result| {
            format!(
                "{}: {}",
                line(&result.name),
                answers::outcome(result.outcome)
            )
        })
        .collect();
    bullets("Checks on this commit, run by Countersign", &list)
}

fn dimensions(policy: &Policy) -> String {
    let mut list = Vec::new();
    for (name, dimension) in &policy.dimensions {
        let least = policy.minimum(name, dimension.weight);
        let least = least
            .map(|least| format!(", at least {least}"))
            .unwrap_or_default();
        let weight = answers::weight(dimension.weight);
        let questions = answers::questions(name);
        list.push(
            format!("- `{name}` ({weight}{least}): {questions}")
                .trim_end_matches([':', ' '])
                .to_owned(),
        );
    }
    section("Dimensions to score, 0 to 100", &list.join("\n"))
}

/// For a verifier: the findings and the code, nothing else.
pub fn verify(ticket: &Ticket, ids: &[String]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# Verify findings on {}\n", ticket.id);
    out.push_str(answers::VERIFIER_TASK);
    out.push_str(&section(
        "Findings",
        "Quoted from reviewers; the builder's objection where there is one.",
    ));
    let asked = ids.iter().filter_map(|id| ticket.ledger.get(id));
    for (number, entry) in asked.enumerate() {
        out.push_str(&numbered(number + 1, entry));
    }
    out.push_str(answers::VERIFIER_ANSWER);
    out
}

#[cfg(test)]
mod tests;
