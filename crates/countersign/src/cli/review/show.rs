//! A review in the forms that people and their tools read.

use std::fmt::Write as _;

use findings::write::{self, FindingEntry, location};
use findings::{Finding, Severity};
use flow::ledger;
use flow::narrate::{Mood, approved_by};
use flow::opinion::AdhocOutcome;
use flow::ticket::{ApprovedBy, CheckResult};
use flow::usage::dollars;
use serde_json::{Value, json};

use super::{Format, open};
use crate::cli::out::{JSON_VERSION, Out, columns};
use app::failure::ExitKind;
use app::operations::review::{JudgedChange, ReviewResult, ReviewedChange};

pub fn written(reviewed: &ReviewResult, format: Format, exit: ExitKind, out: &Out) -> String {
    let entries = reviewed.judged.as_ref().map(open).unwrap_or_default();
    let shown: Vec<(&str, Finding)> = entries.iter().map(|entry| as_shown(entry)).collect();
    let mut found: Vec<FindingEntry<'_>> = shown
        .iter()
        .map(|(id, finding)| FindingEntry {
            id: Some(id),
            finding,
        })
        .collect();
    let refused = reviewed
        .judged
        .as_ref()
        .and_then(|judged| not_approved(judged, exit, &found));
    if !matches!(format, Format::Text | Format::Markdown | Format::Json) {
        found.extend(refused.as_ref().map(FindingEntry::from));
    }
    let pretty = |value: Value| format!("{value:#}\n");
    match format {
        Format::Text => text(reviewed, exit, out),
        Format::Markdown => document(reviewed, exit, &found),
        Format::Json => format!("{}\n", as_json(reviewed, exit)),
        Format::Sarif => pretty(write::sarif(
            "countersign",
            env!("CARGO_PKG_VERSION"),
            &found,
        )),
        Format::Github => write::workflow_commands(&found),
        Format::Gitlab => pretty(write::gitlab(&found)),
        Format::Rdjson => pretty(write::rdjson("countersign", &found)),
        Format::Checkstyle => write::checkstyle(&found),
        Format::Junit => write::junit("countersign", &found),
    }
}

/// A finding as the forms of other tools have it. Such a tool would fail a build over a severity that
/// blocks, so a note has the mildest, and its title says what it is.
fn as_shown(entry: &ledger::LedgerEntry) -> (&str, Finding) {
    let mut finding = entry.finding.clone();
    if entry.low_confidence {
        finding.title = format!("{}: {}", entry.status_text(), finding.title);
        finding.rating = Severity::Suggestion.into();
    }
    (&entry.id, finding)
}

/// Holds what a form without a verdict says where the change is not approved and no finding says why: a
/// check is red, or a reviewer gave no usable answer. An empty report would read as a clean one.
fn not_approved(
    judged: &JudgedChange,
    exit: ExitKind,
    found: &[FindingEntry<'_>],
) -> Option<Finding> {
    let says_why = |entry: &FindingEntry<'_>| entry.finding.rating.severity.is_must_fix();
    if exit == ExitKind::Done || found.iter().any(says_why) {
        return None;
    }
    let title = findings::one_line(&sentence(judged, exit));
    Some(Finding::new(&title, Severity::High.into()))
}

/// The versioned shape of `docs/json.md`.
fn as_json(reviewed: &ReviewResult, exit: ExitKind) -> Value {
    let change = &reviewed.change;
    let mut answer = json!({
        "version": JSON_VERSION,
        "exit": exit.code(),
        "change": {"name": change.name, "base": change.base, "head": change.head},
        "outcome": "nothing_to_review",
        "notes": reviewed.remarks,
    });
    let Some(judged) = &reviewed.judged else {
        return answer;
    };
    let put = judged.ticket.submission.as_ref();
    answer["outcome"] = json!(word(&judged.outcome));
    answer["why"] = json!(sentence(judged, exit));
    answer["review"] = json!(judged.id);
    answer["change"]["files"] = json!(put.map(|put| &put.files));
    answer["change"]["lines_changed"] = json!(put.map(|put| put.lines_changed));
    let verdict = judged.ticket.rounds.last().map(|round| &round.verdict);
    answer["verdict"] = json!(verdict);
    answer["findings"] = json!(open(judged));
    answer["reviewers"] = json!(judged.ticket.seats);
    answer["checks"] = json!(judged.ticket.checks.as_ref().map(|checks| &checks.results));
    answer["usage"] = json!(judged.ticket.spent.ticket);
    answer["directory"] = json!(judged.dir);
    answer
}

fn word(outcome: &AdhocOutcome) -> &'static str {
    match outcome {
        AdhocOutcome::Approved => "clean",
        AdhocOutcome::ChangesRequested => "changes_requested",
        AdhocOutcome::RedChecks(_) => "red_checks",
        AdhocOutcome::ForbiddenPaths(_) => "forbidden_paths",
        AdhocOutcome::Undecided(_) => "undecided",
    }
}

fn text(reviewed: &ReviewResult, exit: ExitKind, out: &Out) -> String {
    let Some(judged) = &reviewed.judged else {
        return nothing(&reviewed.change);
    };
    let mut text = format!("{}\n", out.bold(&headline(&reviewed.change, judged)));
    for line in looked(judged) {
        let _ = writeln!(text, "{line}");
    }
    for entry in open(judged) {
        text.push_str(&finding(entry, judged, out));
    }
    for result in red(judged) {
        let _ = writeln!(text, "\n{} is red\n{}", result.name, indented(&result.tail));
    }
    let mood = match exit {
        ExitKind::Done => Mood::Good,
        ExitKind::Escalated => Mood::Urgent,
        _ => Mood::Bad,
    };
    let _ = writeln!(text, "\n{}", out.paint(mood, &sentence(judged, exit)));
    let _ = writeln!(text, "kept: {}", judged.dir.display());
    text
}

fn nothing(change: &ReviewedChange) -> String {
    format!(
        "nothing to review: {} changes nothing\n\
         what is not committed: countersign review --worktree (or --staged)\n\
         the last commit: countersign review --commit HEAD\n",
        change.name
    )
}

fn headline(change: &ReviewedChange, judged: &JudgedChange) -> String {
    let (files, lines) = judged
        .ticket
        .submission
        .as_ref()
        .map_or((0, 0), |put| (put.files.len(), put.lines_changed));
    format!(
        "{}: {files} file(s), {lines} line(s), commit {} on {}",
        change.name,
        change.head.short(),
        change.base.short()
    )
}

/// Who looked, for how long, for how much, and what they named.
fn looked(judged: &JudgedChange) -> Vec<String> {
    let mut rows = Vec::new();
    for look in &judged.looks {
        let seat = judged
            .ticket
            .seats
            .iter()
            .find(|seat| seat.name == look.seat);
        let Some(answer) = seat.and_then(|seat| seat.answer.as_ref()) else {
            continue;
        };
        let cost = if look.usage.usd_micros > 0 {
            dollars(look.usage.usd_micros)
        } else {
            String::new()
        };
        rows.push(vec![
            format!("  {}", look.who),
            format!("{} s", look.usage.wall_ms / 1000),
            cost,
            format!("{} finding(s)", answer.reported.len()),
        ]);
    }
    columns(&rows)
}

fn finding(entry: &ledger::LedgerEntry, judged: &JudgedChange, out: &Out) -> String {
    let finding = &entry.finding;
    let mood = if entry.is_must_fix(&judged.policy) {
        Mood::Bad
    } else {
        Mood::Plain
    };
    let place = location(finding).unwrap_or_else(|| "the whole change".to_owned());
    let degree = if entry.low_confidence {
        format!("{}, {}", entry.status_text(), entry.severity().word())
    } else {
        entry.severity().word().to_owned()
    };
    let mut text = format!(
        "\n{}  {}  {}\n",
        out.paint(mood, &degree),
        out.bold(&place),
        findings::one_line(&finding.title)
    );
    let title = finding.title.trim();
    let parts = [
        ("", finding.problem.as_deref()),
        ("why: ", finding.impact.as_deref()),
        ("fix: ", finding.fix.as_deref()),
    ];
    for (label, part) in parts {
        if let Some(part) = part.filter(|part| part.trim() != title) {
            let _ = writeln!(text, "    {label}{}", findings::one_line(part));
        }
    }
    let by: Vec<&str> = entry.reported_by.iter().map(String::as_str).collect();
    let _ = writeln!(text, "    {}, by {}", entry.id, by.join(", "));
    text
}

fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("    {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn red(judged: &JudgedChange) -> Vec<&CheckResult> {
    let results = judged
        .ticket
        .checks
        .iter()
        .flat_map(|checks| &checks.results);
    results
        .filter(|result| !judged.policy.accepts(result.outcome))
        .collect()
}

/// The end in one sentence.
fn sentence(judged: &JudgedChange, exit: ExitKind) -> String {
    let notes = judged.ticket.ledger.notes().len();
    let open = open(judged).len() - notes;
    let and_notes = match notes {
        0 => String::new(),
        n => format!(", {n} note(s) of low confidence"),
    };
    match &judged.outcome {
        AdhocOutcome::Approved if overruled(judged).is_some() => format!(
            "{}: {open} finding(s), none that must be fixed{and_notes}",
            overruled(judged).unwrap_or_default()
        ),
        AdhocOutcome::Approved if open == 0 => format!("clean: nothing was found{and_notes}"),
        AdhocOutcome::Approved => {
            format!("clean: {open} finding(s), none that must be fixed{and_notes}")
        }
        AdhocOutcome::RedChecks(names) => format!("red checks: {}", names.join(", ")),
        AdhocOutcome::ForbiddenPaths(paths) => flow::advance::forbidden_sentence(paths),
        AdhocOutcome::Undecided(why) => format!("nobody can tell: {}", findings::one_line(why)),
        AdhocOutcome::ChangesRequested => {
            let must = judged.ticket.ledger.open_must_fix(&judged.policy).len();
            let reported = if exit == ExitKind::Done {
                " (reported only)"
            } else {
                ""
            };
            if must > 0 {
                return format!(
                    "changes requested: {must} of {open} finding(s) must be fixed{and_notes}{reported}"
                );
            }
            format!("changes requested: {}{reported}", gates(judged))
        }
    }
}

/// How the policy approved over a refusal, where it did.
fn overruled(judged: &JudgedChange) -> Option<String> {
    let ticket = &judged.ticket;
    let approval = ticket.approval.as_ref()?;
    match ticket.approver(approval) {
        ApprovedBy::Reviewers { refused, .. } if !refused.is_empty() => approved_by(ticket),
        _ => None,
    }
}

/// The gates that do not hold, where no finding says it.
fn gates(judged: &JudgedChange) -> String {
    let verdict = judged.ticket.rounds.last().map(|round| &round.verdict);
    let gates = verdict.map(|verdict| verdict.gates.as_slice());
    let held: Vec<String> = gates
        .unwrap_or_default()
        .iter()
        .filter(|gate| !gate.passed)
        .map(|gate| format!("{} ({})", gate.name, gate.why))
        .collect();
    held.join("; ")
}

fn document(reviewed: &ReviewResult, exit: ExitKind, found: &[FindingEntry<'_>]) -> String {
    let Some(judged) = &reviewed.judged else {
        return nothing(&reviewed.change);
    };
    let names = judged.looks.iter().map(|look| look.who.as_str());
    let reviewer = names.collect::<Vec<_>>().join(", ");
    let date = judged.ticket.updated_at.iso();
    write::document(
        &write::DocumentHeader {
            story: judged.id.as_str(),
            round: 1,
            reviewer: &reviewer,
            date: &date,
            branch: &reviewed.change.name,
            recommendation: &sentence(judged, exit),
        },
        found,
    )
}
