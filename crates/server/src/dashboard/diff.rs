//! Diff of a ticket: the whole change, an earlier round, or one round against another, with the
//! findings at their lines. A comment on a line becomes a finding of the person.

use axum::extract::{Path, Query};
use findings::diff::DiffRowKind;
use flow::Ticket;
use flow::ledger::LedgerEntry;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{PageFrame, form_token, page};
use super::parts::severity;
use super::{PageContext, PageResult, Viewer, html as respond, ticket};
use app::operations::diff::{self, DiffFile, DiffHunk, DiffRow, DiffSelection, RoundDiff};

/// Rows of one file that are shown at once; a longer file is folded.
const OPEN_ROWS_MAX: usize = 2_000;
/// Rows of a whole page; the rest is left to `git diff`.
const PAGE_ROWS_MAX: usize = 20_000;
/// Rows in one `tbody`: the browser skips the layout of those that are not visible.
const CHUNK_ROWS: usize = 60;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DiffQuery {
    /// Round whose commit is the left side; without it, the base.
    from: String,
    /// Round whose commit is the right side; without it, the newest.
    to: String,
}

pub async fn show(
    context: Viewer,
    Path(id): Path<String>,
    Query(query): Query<DiffQuery>,
) -> PageResult {
    let stored = context.app.ticket(&id).await?;
    let ticket = &stored.ticket;
    // A form sends an empty text for the first choice.
    let selection = DiffSelection {
        round: query.to.parse().ok(),
        from_round: query.from.parse().ok(),
        file: None,
    };
    let diff = diff::load_selected_diff(&context.app, &id, &selection).await;
    let body = html! {
        p.meta { a href=(format!("/tickets/{}", ticket.id)) { "← " (ticket.id) } }
        h1 { "Diff: " (ticket.spec.title) }
        (choices(ticket, selection.from_round, selection.round))
        @match &diff {
            Ok(diff) => (whole(&context, ticket, diff)),
            Err(failure) => p.notice { (failure.message) },
        }
    };
    let frame = PageFrame {
        title: &format!("Diff of {}", ticket.id),
        section: "/tickets",
        topic: None,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the choice of the two sides.
fn choices(ticket: &Ticket, from: Option<u32>, to: Option<u32>) -> Markup {
    let rounds: Vec<u32> = ticket.rounds.iter().map(|round| round.number).collect();
    html! {
        form.filter method="get" {
            label { "From " select name="from" {
                option value="" { "base" }
                @for round in &rounds {
                    option value=(round) selected[from == Some(*round)] { "round " (round) }
                }
            } }
            label { "to " select name="to" {
                option value="" { "newest" }
                @for round in &rounds {
                    option value=(round) selected[to == Some(*round)] { "round " (round) }
                }
            } }
            button type="submit" { "Compare" }
        }
    }
}

fn whole(context: &PageContext, ticket: &Ticket, diff: &RoundDiff) -> Markup {
    let elsewhere: Vec<&LedgerEntry> = diff.findings_elsewhere().collect();
    html! {
        p.meta {
            code { (short(&diff.base)) } " → " code { (short(&diff.commit)) }
            " · " (diff.files.len()) " files · " (diff.findings.len()) " findings"
        }
        @if diff.cut { p.notice { "The diff is longer than this page; see the rest with git." } }
        @if diff.files.is_empty() { p.notice { "No change." } }
        @if !elsewhere.is_empty() {
            section.panel {
                h2 { "Findings outside the change" }
                @for entry in elsewhere { (ticket::finding(context, ticket, entry)) }
            }
        }
        nav.files aria-label="Files" {
            ul {
                @for (index, file) in diff.files.iter().enumerate() {
                    li { a href=(format!("#file-{index}")) { (file.path) } " " (counts(file)) }
                }
            }
        }
        @for (index, file) in diff.files.iter().enumerate() {
            @let rows = row_count(file);
            @let fits = rows_before(diff, index) + rows <= PAGE_ROWS_MAX;
            details.file id=(format!("file-{index}")) open[rows <= OPEN_ROWS_MAX] data-file {
                summary { (status(file.status)) " " code { (file.path) } " " (counts(file)) }
                @if file.added.is_none() { p.quiet { "Binary file." } }
                @if fits {
                    (file_table(context, ticket, diff, file))
                } @else {
                    p.notice { "Too long for this page: " code { "countersign ticket diff " (ticket.id) } }
                }
            }
        }
        @if context.may_change() { (comment_form(context, ticket)) }
    }
}

fn row_count(file: &DiffFile) -> usize {
    file.hunks.iter().map(|hunk| hunk.rows.len()).sum()
}

/// Counts the rows of the files before this one.
fn rows_before(diff: &RoundDiff, index: usize) -> usize {
    diff.files.iter().take(index).map(row_count).sum()
}

fn short(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

fn status(letter: char) -> &'static str {
    match letter {
        'A' => "added",
        'D' => "deleted",
        'R' => "renamed",
        'T' => "type changed",
        _ => "changed",
    }
}

fn counts(file: &DiffFile) -> Markup {
    html! {
        @if let (Some(added), Some(removed)) = (file.added, file.removed) {
            span.good { "+" (added) } " " span.bad { "−" (removed) }
        }
    }
}

fn file_table(context: &PageContext, ticket: &Ticket, diff: &RoundDiff, file: &DiffFile) -> Markup {
    let found: Vec<&LedgerEntry> = diff.findings_in(&file.path).collect();
    let shown = |line: u32| {
        let mut rows = file.hunks.iter().flat_map(|hunk| &hunk.rows);
        rows.any(|row| row.new == Some(line))
    };
    let outside = found
        .iter()
        .filter(|entry| entry.finding.line.is_none_or(|line| !shown(line)));
    html! {
        @for entry in outside { (ticket::finding(context, ticket, entry)) }
        table.diff {
            @for hunk in &file.hunks { (hunk_rows(context, ticket, (file, hunk), &found)) }
        }
    }
}

fn hunk_rows(
    context: &PageContext,
    ticket: &Ticket,
    (file, hunk): (&DiffFile, &DiffHunk),
    found: &[&LedgerEntry],
) -> Markup {
    html! {
        tbody { tr.hunk { td colspan="3" { "⋯ " (hunk.heading) } } }
        @for chunk in hunk.rows.chunks(CHUNK_ROWS) {
            tbody {
                @for row in chunk {
                    (diff_row(file, row))
                    @for entry in found.iter().filter(|entry| is_at(entry, row)) {
                        tr.at { td colspan="3" { (ticket::finding(context, ticket, entry)) } }
                    }
                }
            }
        }
    }
}

fn is_at(entry: &LedgerEntry, row: &DiffRow) -> bool {
    row.new.is_some() && entry.finding.line == row.new
}

fn diff_row(file: &DiffFile, row: &DiffRow) -> Markup {
    let (class, sign) = match row.kind {
        DiffRowKind::Added => ("added", "+"),
        DiffRowKind::Removed => ("removed", "−"),
        DiffRowKind::Kept => ("kept", " "),
    };
    html! {
        tr.(class) {
            td.line { @if let Some(line) = row.old { (line) } }
            td.line {
                @if let Some(line) = row.new {
                    a href="#comment" data-comment=(file.path) data-line=(line) title="Comment on this line" { (line) }
                }
            }
            td.code { span.sign { (sign) } (row.text) }
        }
    }
}

/// Renders the form for a comment. A click on a line number fills in the place; without script the
/// person writes it.
fn comment_form(context: &PageContext, ticket: &Ticket) -> Markup {
    html! {
        section #comment.panel {
            h2 { "Comment on a line" }
            p.quiet { "It becomes a finding in your name; the builder answers it as any other." }
            form method="post" action=(format!("/tickets/{}/findings", ticket.id)) {
                (form_token(context))
                div.row {
                    label { "File " input #comment-file name="file"; }
                    label { "Line " input #comment-line name="line" inputmode="numeric" pattern="[0-9]*"; }
                    label { "Severity " select name="severity" {
                        option value="" { "medium, or high for must-fix" }
                        @for word in ["critical", "high", "medium", "low", "suggestion"] { option { (word) } }
                    } }
                }
                label for="comment-text" { "The defect; its first line is the title" }
                textarea #comment-text name="text" required rows="3" {}
                label { input type="checkbox" name="must_fix" value="true"; " Must be fixed before the change lands" }
                button.primary type="submit" { "Add the finding" }
            }
        }
        @if ticket.ledger.entries.is_empty() { p.quiet { "No findings so far." } }
        @else { p.quiet { "Most severe so far: " @if let Some(worst) = ticket.ledger.entries.iter().map(LedgerEntry::severity).min() { (severity(worst)) } } }
    }
}
