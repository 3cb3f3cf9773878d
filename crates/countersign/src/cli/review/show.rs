//! Renders a review as text, Markdown, JSON and the formats of other tools.

use std::fmt::Write as _;

use findings::write::{self, FindingEntry, location};
use findings::{Finding, Severity};
use flow::adhoc_review::AdhocOutcome;
use flow::ledger;
use flow::narrate::{Mood, count_noun};
use flow::ticket::CheckResult;
use flow::usage::format_dollars;
use serde_json::{Value, json};

use super::Format;
use crate::cli::out::{JSON_VERSION, Out, columns};
use app::failure::{ExitKind, Failure};
use app::operations::pull_request::{PostReceipt, PullRequestFacts};
use app::operations::review::{
    JudgedChange, ReviewResult, ReviewedChange, open_findings, verdict_sentence,
};

/// The pull request of a review, with the result of posting.
#[derive(Debug)]
pub struct ShownPullRequest {
    pub facts: PullRequestFacts,
    pub posted: Option<Result<PostReceipt, Failure>>,
}

pub fn render(
    reviewed: &ReviewResult,
    pull_request: Option<&ShownPullRequest>,
    (format, exit): (Format, ExitKind),
    out: &Out,
) -> String {
    let entries = reviewed
        .judged
        .as_ref()
        .map(open_findings)
        .unwrap_or_default();
    // Copies, because formats of other tools get titles and severities that ours do not have.
    let owned: Vec<(&str, Finding)> = entries
        .iter()
        .map(|entry| exported_finding(entry))
        .collect();
    let mut listed: Vec<FindingEntry<'_>> = owned
        .iter()
        .map(|(id, finding)| FindingEntry {
            id: Some(id),
            finding,
        })
        .collect();
    let missing = reviewed
        .judged
        .as_ref()
        .and_then(|judged| missing_approval_finding(judged, exit, &listed));
    // These three say the verdict themselves.
    if !matches!(format, Format::Text | Format::Markdown | Format::Json) {
        listed.extend(missing.as_ref().map(FindingEntry::from));
    }
    let pretty = |value: Value| format!("{value:#}\n");
    match format {
        Format::Text => {
            let text = render_text(reviewed, exit, out);
            let lines = pull_request.map(pull_request_lines).unwrap_or_default();
            format!("{text}{lines}")
        }
        Format::Markdown => render_document(reviewed, exit, &listed),
        Format::Json => {
            let mut answer = as_json(reviewed, exit);
            if let Some(shown) = pull_request {
                answer["pull_request"] = json!(shown.facts);
                answer["posted"] = match &shown.posted {
                    Some(Ok(receipt)) => json!(receipt),
                    // The review is still good if posting it failed, so it is an answer and no
                    // error.
                    Some(Err(failure)) => json!({"error": failure.message}),
                    None => Value::Null,
                };
            }
            format!("{answer}\n")
        }
        Format::Sarif => pretty(write::sarif(
            "countersign",
            env!("CARGO_PKG_VERSION"),
            &listed,
        )),
        Format::Github => write::workflow_commands(&listed),
        Format::Gitlab => pretty(write::gitlab(&listed)),
        Format::Rdjson => pretty(write::rdjson("countersign", &listed)),
        Format::Checkstyle => write::checkstyle(&listed),
        Format::Junit => write::junit("countersign", &listed),
    }
}

/// Names the pull request, and what was posted on it.
fn pull_request_lines(shown: &ShownPullRequest) -> String {
    let facts = &shown.facts;
    let mut text = format!("pull request {}: {}\n", facts.number, facts.url);
    if let Some(Ok(receipt)) = &shown.posted {
        let _ = writeln!(
            text,
            "posted: {} on lines, {} on files, {} in the summary; {} resolved, {} reopened; commit status {}",
            receipt.on_lines,
            receipt.on_files,
            receipt.in_summary,
            receipt.resolved,
            receipt.reopened,
            receipt.gate
        );
    }
    text
}

/// Returns a finding for the formats of other tools. These tools fail a build by severity, so a
/// note of low confidence gets the lowest one, and its title says that it is a note.
fn exported_finding(entry: &ledger::LedgerEntry) -> (&str, Finding) {
    let mut finding = entry.finding.clone();
    if entry.low_confidence {
        finding.title = format!("{}: {}", entry.status_text(), finding.title);
        finding.rating = Severity::Suggestion.into();
    }
    (&entry.id, finding)
}

/// Returns a finding for formats without a verdict, if the change is not approved and no finding
/// says why: a check is red, or a reviewer gave no usable answer. An empty report would look clean.
fn missing_approval_finding(
    judged: &JudgedChange,
    exit: ExitKind,
    found: &[FindingEntry<'_>],
) -> Option<Finding> {
    let is_must_fix = |entry: &FindingEntry<'_>| entry.finding.rating.severity.is_must_fix();
    if exit == ExitKind::Done || found.iter().any(is_must_fix) {
        return None;
    }
    let title = findings::one_line(&verdict_sentence(judged, exit == ExitKind::Done));
    Some(Finding::new(&title, Severity::High.into()))
}

/// Returns the versioned JSON described in `docs/json.md`.
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
    let submission = judged.ticket.submission.as_ref();
    answer["outcome"] = json!(outcome_word(&judged.outcome));
    answer["why"] = json!(verdict_sentence(judged, exit == ExitKind::Done));
    answer["review"] = json!(judged.id);
    answer["change"]["files"] = json!(submission.map(|submission| &submission.files));
    answer["change"]["lines_changed"] =
        json!(submission.map(|submission| submission.lines_changed));
    let verdict = judged.ticket.rounds.last().map(|round| &round.verdict);
    answer["verdict"] = json!(verdict);
    answer["findings"] = json!(open_findings(judged));
    answer["reviewers"] = json!(judged.ticket.panel);
    answer["checks"] = json!(judged.ticket.checks.as_ref().map(|checks| &checks.results));
    answer["usage"] = json!(judged.ticket.spent.ticket);
    answer["directory"] = json!(judged.dir);
    answer
}

fn outcome_word(outcome: &AdhocOutcome) -> &'static str {
    match outcome {
        AdhocOutcome::Approved => "clean",
        AdhocOutcome::ChangesRequested => "changes_requested",
        AdhocOutcome::RedChecks(_) => "red_checks",
        AdhocOutcome::ForbiddenPaths(_) => "forbidden_paths",
        AdhocOutcome::Undecided(_) => "undecided",
    }
}

fn render_text(reviewed: &ReviewResult, exit: ExitKind, out: &Out) -> String {
    let Some(judged) = &reviewed.judged else {
        return empty_change_line(&reviewed.change);
    };
    let mut text = format!("{}\n", out.bold(&headline(&reviewed.change, judged)));
    for line in reviewer_lines(judged) {
        let _ = writeln!(text, "{line}");
    }
    for entry in open_findings(judged) {
        text.push_str(&render_finding(entry, judged, out));
    }
    for result in failed_checks(judged) {
        let _ = writeln!(text, "\n{} is red\n{}", result.name, indented(&result.tail));
    }
    let mood = match exit {
        ExitKind::Done => Mood::Good,
        ExitKind::Escalated => Mood::Urgent,
        _ => Mood::Bad,
    };
    let _ = writeln!(
        text,
        "\n{}",
        out.paint(mood, &verdict_sentence(judged, exit == ExitKind::Done))
    );
    let _ = writeln!(text, "kept: {}", judged.dir.display());
    text
}

fn empty_change_line(change: &ReviewedChange) -> String {
    format!(
        "nothing to review: {} has no changes\n\
         uncommitted changes: countersign review --worktree (or --staged)\n\
         the last commit: countersign review --commit HEAD\n",
        change.name
    )
}

fn headline(change: &ReviewedChange, judged: &JudgedChange) -> String {
    let (files, lines) = judged
        .ticket
        .submission
        .as_ref()
        .map_or((0, 0), |submission| {
            (submission.files.len(), submission.lines_changed)
        });
    format!(
        "{}: {}, {}, commit {} on {}",
        change.name,
        count_noun(files, "file"),
        count_noun(lines as usize, "line"),
        change.head.short(),
        change.base.short()
    )
}

/// Lists the reviewers with their time, cost and number of findings.
fn reviewer_lines(judged: &JudgedChange) -> Vec<String> {
    let mut rows = Vec::new();
    for job in &judged.jobs {
        // A reviewer that gave no answer has no findings to count; its failure is in the verdict.
        let reviewer = judged
            .ticket
            .panel
            .iter()
            .find(|reviewer| reviewer.name == job.reviewer);
        let Some(answer) = reviewer.and_then(|reviewer| reviewer.answer.as_ref()) else {
            continue;
        };
        let cost = if job.usage.usd_micros > 0 {
            format_dollars(job.usage.usd_micros)
        } else {
            String::new()
        };
        rows.push(vec![
            format!("  {}", job.agent),
            format!("{} s", job.usage.wall_ms / 1000),
            cost,
            count_noun(answer.reported.len(), "finding"),
        ]);
    }
    columns(&rows)
}

fn render_finding(entry: &ledger::LedgerEntry, judged: &JudgedChange, out: &Out) -> String {
    let finding = &entry.finding;
    let mood = if entry.is_must_fix(&judged.policy) {
        Mood::Bad
    } else {
        Mood::Plain
    };
    let location_text = location(finding).unwrap_or_else(|| "the whole change".to_owned());
    let severity = if entry.low_confidence {
        format!("{}, {}", entry.status_text(), entry.severity().word())
    } else {
        entry.severity().word().to_owned()
    };
    let mut text = format!(
        "\n{}  {}  {}\n",
        out.paint(mood, &severity),
        out.bold(&location_text),
        findings::one_line(&finding.title)
    );
    let title = finding.title.trim();
    let parts = [
        ("", finding.problem.as_deref()),
        ("why: ", finding.impact.as_deref()),
        ("fix: ", finding.fix.as_deref()),
    ];
    for (label, part) in parts {
        // Many reviewers repeat the title as the problem.
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

fn failed_checks(judged: &JudgedChange) -> Vec<&CheckResult> {
    let results = judged
        .ticket
        .checks
        .iter()
        .flat_map(|checks| &checks.results);
    results
        // A check that is red on the base as well may be accepted by the policy.
        .filter(|result| !judged.policy.accepts(result.outcome))
        .collect()
}

fn render_document(reviewed: &ReviewResult, exit: ExitKind, found: &[FindingEntry<'_>]) -> String {
    let Some(judged) = &reviewed.judged else {
        return empty_change_line(&reviewed.change);
    };
    let names = judged.jobs.iter().map(|job| job.agent.as_str());
    let reviewer = names.collect::<Vec<_>>().join(", ");
    let date = judged.ticket.updated_at.to_iso();
    write::write_findings_document(
        &write::DocumentHeader {
            story: judged.id.as_str(),
            // A review without a ticket has one round.
            round: 1,
            reviewer: &reviewer,
            date: &date,
            branch: &reviewed.change.name,
            recommendation: &verdict_sentence(judged, exit == ExitKind::Done),
        },
        found,
    )
}
