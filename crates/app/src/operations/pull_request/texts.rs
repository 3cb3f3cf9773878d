//! The texts that are posted on a pull request. Everything that an agent, a linter or a stranger
//! wrote goes through `neutralise`, so it mentions nobody, closes nothing and gives no command.

use std::fmt::Write as _;

use findings::write::location;
use flow::ledger::LedgerEntry;
use forge::neutral::neutralise_line_of;

use crate::operations::finding_threads::thread_text;
use crate::operations::review::{JudgedChange, ReviewedChange};

/// A finding as it is posted, with the place that it gets.
#[derive(Debug)]
pub struct ListedFinding<'a> {
    pub entry: &'a LedgerEntry,
    /// False if the diff does not have its file, so that the summary has the whole text.
    pub has_thread: bool,
}

/// Writes a finding for its thread.
pub fn finding_text(entry: &LedgerEntry, judged: &JudgedChange) -> String {
    thread_text(&severity(entry, judged), entry)
}

fn severity(entry: &LedgerEntry, judged: &JudgedChange) -> String {
    let word = entry.severity().word();
    match () {
        () if entry.low_confidence => format!("{word}, a note of low confidence"),
        () if entry.is_must_fix(&judged.policy) => format!("{word}, must be fixed"),
        () => word.to_owned(),
    }
}

/// Writes the text of the review that carries the findings.
pub fn review_text(change: &ReviewedChange, sentence: &str) -> String {
    format!(
        "Countersign reviewed commit {}: {}",
        change.head.short(),
        neutralise_line_of(sentence)
    )
}

/// Writes the summary, which is edited in place.
pub fn summary_text(
    change: &ReviewedChange,
    judged: &JudgedChange,
    (sentence, from_fork): (&str, bool),
    listed: &[ListedFinding<'_>],
) -> String {
    let mut text = format!("### Countersign: {}\n", neutralise_line_of(sentence));
    let reviewers: Vec<&str> = judged.jobs.iter().map(|job| job.agent.as_str()).collect();
    let _ = write!(
        text,
        "\nThe review is of commit `{}` on `{}`, and of no later one. Reviewers: {}.",
        change.head,
        change.base.short(),
        neutralise_line_of(&reviewers.join(", "))
    );
    let checks = judged.ticket.checks.as_ref();
    let checks = checks.map_or(0, |checks| checks.results.len());
    match checks {
        0 if from_fork => text.push_str(" The head is in a fork, so no checks were run on it."),
        0 => text.push_str(" No checks were run."),
        count => {
            let _ = write!(text, " {} run.", flow::narrate::count_noun(count, "check"));
        }
    }
    if !listed.is_empty() {
        text.push_str("\n\n| severity | place | finding |\n|---|---|---|");
    }
    for one in listed {
        let place = location(&one.entry.finding).unwrap_or_else(|| "the whole change".to_owned());
        let _ = write!(
            text,
            "\n| {} | {} | {} |",
            severity(one.entry, judged),
            cell(&place),
            cell(&one.entry.finding.title)
        );
    }
    for one in listed.iter().filter(|one| !one.has_thread) {
        let place = location(&one.entry.finding).unwrap_or_else(|| "the whole change".to_owned());
        let _ = write!(
            text,
            "\n\n#### {}\n\n{}",
            neutralise_line_of(&place),
            finding_text(one.entry, judged)
        );
    }
    text
}

/// Makes a text fit a cell of a table.
fn cell(text: &str) -> String {
    neutralise_line_of(&findings::shorten(text, 200)).replace('|', "\\|")
}
