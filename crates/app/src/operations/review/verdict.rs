//! Says the result of a review in one sentence, for every surface.

use flow::adhoc_review::AdhocOutcome;
use flow::ledger::LedgerEntry;
use flow::narrate::{count_noun, describe_approval};
use flow::ticket::ApprovedBy;
use flow::verdict::Verdict;

use super::JudgedChange;

/// Returns the open findings, most severe first; notes of low confidence come last.
pub fn open_findings(judged: &JudgedChange) -> Vec<&LedgerEntry> {
    let entries = judged.ticket.ledger.entries.iter();
    let mut open: Vec<_> = entries
        .filter(|entry| entry.status.is_open() && entry.finding.actionable)
        .collect();
    open.sort_by_key(|entry| {
        // By the number of the line: as text, line 10 would come before line 3.
        let place = (&entry.finding.file, entry.finding.line);
        (entry.low_confidence, entry.severity(), place)
    });
    open
}

/// Returns the result in one sentence. `reports_only` is true if findings fail nothing.
pub fn verdict_sentence(judged: &JudgedChange, reports_only: bool) -> String {
    let notes = judged.ticket.ledger.notes().len();
    let open = open_findings(judged).len() - notes;
    let and_notes = match notes {
        0 => String::new(),
        n => format!(", {} of low confidence", count_noun(n, "note")),
    };
    match &judged.outcome {
        AdhocOutcome::Approved if overrule_note(judged).is_some() => format!(
            "{}: {}, none that must be fixed{and_notes}",
            overrule_note(judged).unwrap_or_default(),
            count_noun(open, "finding")
        ),
        AdhocOutcome::Approved if open == 0 => format!("clean: nothing was found{and_notes}"),
        AdhocOutcome::Approved => {
            let found = count_noun(open, "finding");
            format!("clean: {found}, none that must be fixed{and_notes}")
        }
        AdhocOutcome::RedChecks(names) => format!("red checks: {}", names.join(", ")),
        AdhocOutcome::ForbiddenPaths(paths) => flow::advance::describe_forbidden_paths(paths),
        AdhocOutcome::Undecided(why) => format!("undecided: {}", findings::one_line(why)),
        AdhocOutcome::ChangesRequested => {
            let must_fix = judged.ticket.ledger.open_must_fix(&judged.policy).len();
            let reported = if reports_only { " (reported only)" } else { "" };
            if must_fix > 0 {
                let found = count_noun(open, "finding");
                return format!(
                    "changes requested: {must_fix} of {found} must be fixed{and_notes}{reported}"
                );
            }
            format!("changes requested: {}{reported}", failed_gates(judged))
        }
    }
}

/// Returns how the policy approved despite a refusal, if it did.
fn overrule_note(judged: &JudgedChange) -> Option<String> {
    let ticket = &judged.ticket;
    let approval = ticket.approval.as_ref()?;
    match ticket.approver(approval) {
        ApprovedBy::Reviewers { refused, .. } if !refused.is_empty() => describe_approval(ticket),
        ApprovedBy::Reviewers { .. }
        | ApprovedBy::Person { .. }
        | ApprovedBy::Earlier { .. }
        | ApprovedBy::NobodyAsPolicySays => None,
    }
}

/// Returns the gates that failed, for a verdict that no finding explains.
fn failed_gates(judged: &JudgedChange) -> String {
    let verdict = judged.ticket.rounds.last().map(|round| &round.verdict);
    let failed = verdict.into_iter().flat_map(Verdict::failed_gates);
    let why: Vec<&str> = failed.map(|gate| gate.why.as_str()).collect();
    why.join("; ")
}
