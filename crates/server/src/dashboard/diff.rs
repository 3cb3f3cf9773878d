//! Diff of a ticket: the whole change, an earlier round, or one round against another, with the
//! findings at their lines. A comment on a line becomes a finding of the person.

mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query};
use flow::Ticket;
use flow::ledger::LedgerEntry;
use maud::{Markup, html};
use serde::Deserialize;

use super::highlight::{Highlighting, highlight_diff};
use super::layout::{PageFrame, form_token, icon, page, topic};
use super::parts::{counted, query_text, short, stage, titled};
use super::{PageContext, PageResult, Viewer, html as respond, ticket};
use app::failure::Failure;
use app::operations::diff::{self, DiffFile, DiffSelection, RoundDiff};
use app::operations::viewed_files;

/// Rows of one file that are shown at once; a longer file has pages of its own.
const FILE_ROWS_MAX: usize = 1_500;
/// Rows of a file on each of its own pages.
const PART_ROWS: usize = 4_000;
/// Highest number of a part that an address may name; no diff that is read has so many.
const PARTS_MAX: usize = 100_000;
/// Rows of a page with several files.
const PAGE_ROWS_MAX: usize = 6_000;
/// Files on a page; the rest is left to the list of files.
const PAGE_FILES_MAX: usize = 300;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DiffQuery {
    /// Round whose commit is the left side; without it, the base.
    from: String,
    /// Round whose commit is the right side; without it, the newest.
    to: String,
    /// `split` shows both sides next to each other.
    view: String,
    /// Only this file.
    file: String,
    /// Page of a long file, from 0.
    part: usize,
    /// Place of the comment form, for browsers without script: index of the file and line, `2.17`.
    comment: String,
}

impl DiffQuery {
    fn is_split(&self) -> bool {
        self.view == "split"
    }

    /// Returns the query with one value replaced. Empty values are left out.
    fn with(&self, name: &str, value: &str) -> String {
        let mut pairs: BTreeMap<&str, &str> = BTreeMap::from([
            ("from", self.from.as_str()),
            ("to", &self.to),
            ("view", &self.view),
            ("file", &self.file),
        ]);
        pairs.insert(name, value);
        pairs.retain(|_, value| !value.is_empty());
        query_text(pairs)
    }

    fn between(&self, from: &str, to: &str) -> String {
        let pairs = [("from", from), ("to", to), ("view", &self.view)];
        query_text(pairs.into_iter().filter(|(_, value)| !value.is_empty()))
    }

    /// Parses the place of the comment form.
    fn comment_place(&self) -> Option<(usize, u32)> {
        let (file, line) = self.comment.split_once('.')?;
        Some((file.parse().ok()?, line.parse().ok()?))
    }
}

/// Everything that the parts of the page need.
struct ShownDiff<'a> {
    context: &'a PageContext,
    ticket: &'a Ticket,
    diff: &'a RoundDiff,
    query: &'a DiffQuery,
    colours: &'a [Highlighting],
    /// Whether the long file goes on after this part.
    has_next_part: bool,
    /// Marks of the files, and those that the person has set.
    marks: Vec<String>,
    viewed: Vec<String>,
}

pub async fn show(
    context: Viewer,
    Path(id): Path<String>,
    Query(mut query): Query<DiffQuery>,
) -> PageResult {
    query.part = query.part.min(PARTS_MAX);
    let stored = context.app.ticket(&id).await?;
    let ticket = &stored.ticket;
    // A form sends an empty text for the first choice.
    let selection = DiffSelection {
        round: query.to.parse().ok(),
        from_round: query.from.parse().ok(),
        file: Some(query.file.clone()).filter(|file| !file.is_empty()),
    };
    let live = topic(&context, &format!("stale:{}", ticket.id)).await?;
    let diff = diff::load_selected_diff(&context.app, &id, &selection).await;
    let content = match diff {
        Ok(diff) => whole(&context, ticket, diff, &query).await?,
        Err(failure) => html! {
            p.notice { (icon("wait")) (failure.message) }
            @for hint in &failure.hints { p.quiet { (hint) } }
        },
    };
    let body = html! {
        p.crumbs { a href=(format!("/tickets/{}", ticket.id)) data-up { (ticket.id) } " / Diff" }
        h1 { (titled(&ticket.spec.title)) }
        (choices(ticket, &query))
        (content)
    };
    let frame = PageFrame {
        title: &format!("Diff of {}", ticket.id),
        section: "/tickets",
        topic: live,
    };
    Ok(respond(page(&context, frame, &body).await?))
}

/// Renders the choice of the two sides: a link for each usual one, and a form for all others.
fn choices(ticket: &Ticket, query: &DiffQuery) -> Markup {
    let rounds: Vec<String> = ticket
        .rounds
        .iter()
        .map(|round| round.number.to_string())
        .collect();
    let (from, to) = (query.from.as_str(), query.to.as_str());
    let chip = |left: &str, right: &str, label: String| {
        let is_current = left == from && right == to;
        html! {
            a.chip href=(query.between(left, right)) aria-current=[is_current.then_some("true")] { (label) }
        }
    };
    html! {
        div.quick {
            (stage(ticket.stage)) " "
            (chip("", "", "Whole change".to_owned()))
            @for pair in rounds.windows(2) {
                (chip(&pair[0], &pair[1], format!("Rework of round {}", pair[1])))
            }
            details.inline-form {
                summary.chip { "Compare…" }
                form.filter method="get" {
                    input type="hidden" name="view" value=(query.view);
                    label { "From " select name="from" {
                        option value="" { "base" }
                        @for round in &rounds { option value=(round) selected[from == round] { "round " (round) } }
                    } }
                    label { "to " select name="to" {
                        option value="" { "newest" }
                        @for round in &rounds { option value=(round) selected[to == round] { "round " (round) } }
                    } }
                    button type="submit" { "Compare" }
                }
            }
        }
    }
}

async fn whole(
    context: &PageContext,
    ticket: &Ticket,
    mut diff: RoundDiff,
    query: &DiffQuery,
) -> Result<Markup, Failure> {
    let marks: Vec<String> = diff.files.iter().map(viewed_files::mark_of).collect();
    let viewed = viewed_files::load_marks(&context.app, &ticket.id);
    let is_single = !query.file.is_empty();
    let mut has_next_part = false;
    if is_single && let Some(file) = diff.files.first_mut() {
        has_next_part = keep_part(file, query.part);
    }
    let shown = shown_files(&diff, is_single);
    let diff = Arc::new(diff);
    let work = Arc::clone(&diff);
    let colours = tokio::task::spawn_blocking(move || highlight_diff(&work, &shown));
    let colours = colours.await.map_err(Failure::error)?;
    let page = ShownDiff {
        context,
        ticket,
        diff: &diff,
        query,
        colours: &colours,
        has_next_part,
        marks,
        viewed,
    };
    Ok(page.render(is_single))
}

fn row_count(file: &DiffFile) -> usize {
    file.hunks.iter().map(|hunk| hunk.rows.len()).sum()
}

/// Decides which files are shown with their rows. A file alone on its page always is.
fn shown_files(diff: &RoundDiff, is_single: bool) -> Vec<bool> {
    let mut rows_left = PAGE_ROWS_MAX;
    let files = diff.files.iter().enumerate();
    files
        .map(|(index, file)| {
            let rows = row_count(file);
            let fits = rows <= FILE_ROWS_MAX && rows <= rows_left && index < PAGE_FILES_MAX;
            if fits {
                rows_left -= rows;
            }
            is_single || fits
        })
        .collect()
}

/// Keeps only the rows of one part of a long file. Returns whether there are more after it.
fn keep_part(file: &mut DiffFile, part: usize) -> bool {
    let end = part.saturating_add(1).saturating_mul(PART_ROWS);
    let has_next = row_count(file) > end;
    let (mut skip, mut left) = (part.saturating_mul(PART_ROWS), PART_ROWS);
    for hunk in &mut file.hunks {
        let dropped = skip.min(hunk.rows.len());
        hunk.rows.drain(..dropped);
        skip -= dropped;
        hunk.rows.truncate(left);
        left -= hunk.rows.len();
    }
    file.hunks.retain(|hunk| !hunk.rows.is_empty());
    has_next
}

/// Counts all lines of a file's diff without context, also those on other pages.
fn changed_lines(file: &DiffFile) -> usize {
    let lines = file.added.unwrap_or(0) + file.removed.unwrap_or(0);
    usize::try_from(lines).unwrap_or(usize::MAX)
}

impl ShownDiff<'_> {
    fn render(&self, is_single: bool) -> Markup {
        let diff = self.diff;
        let shown = shown_files(diff, is_single);
        let elsewhere: Vec<&LedgerEntry> = diff.findings_elsewhere().collect();
        let is_viewed = |index: &usize| self.viewed.contains(&self.marks[*index]);
        let viewed = (0..diff.files.len()).filter(is_viewed).count();
        let sums = diff.files.iter().fold((0, 0), |(added, removed), file| {
            (
                added + file.added.unwrap_or(0),
                removed + file.removed.unwrap_or(0),
            )
        });
        let split = self.query.is_split();
        html! {
            div.toolbar {
                span.meta {
                    code title=(diff.base) { (short(&diff.base)) } " → " code title=(diff.commit) { (short(&diff.commit)) }
                    " · " (counted(diff.files.len(), "file")) " · " span.good { "+" (sums.0) } " " span.bad { "−" (sums.1) }
                    " · " (counted(diff.findings.len(), "finding")) " · " span data-viewed-count { (viewed) } " of " (diff.files.len()) " viewed"
                }
                span.switch role="group" aria-label="Layout" {
                    a.chip data-view="u" href=(self.query.with("view", "")) aria-current=[(!split).then_some("true")] { "Unified" }
                    a.chip data-view="s" href=(self.query.with("view", "split")) aria-current=[split.then_some("true")] { "Split" }
                }
            }
            @if diff.base_moved { p.notice { (icon("alert")) "The two rounds are on different commits of the base branch, so the diff has changes of the base branch as well." } }
            @if diff.cut { p.notice { "The diff is longer than the part that was read; see the rest with git." } }
            @if diff.files.is_empty() { p.notice { "No change between these commits." } }
            @if !elsewhere.is_empty() && !is_single {
                section.panel {
                    h2 { "Findings outside the change" }
                    @for entry in elsewhere { (ticket::finding(self.context, self.ticket, entry)) }
                }
            }
            @if is_single { p { a href=(self.query.with("file", "")) { "← All files" } } }
            div.diff-page {
                @if !is_single && diff.files.len() > 1 { (self.tree()) }
                div.files {
                    @for (index, file) in diff.files.iter().enumerate().take(PAGE_FILES_MAX) {
                        (self.file(index, file, shown[index], is_single))
                    }
                    @if diff.files.len() > PAGE_FILES_MAX {
                        p.notice { "The list has all " (diff.files.len()) " files; open the others one by one." }
                    }
                    @if self.context.may_change() { (self.comment_anywhere()) }
                }
            }
        }
    }

    /// Renders the files by directory.
    fn tree(&self) -> Markup {
        let mut directories: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
        for (index, file) in self.diff.files.iter().enumerate() {
            let (directory, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
            directories
                .entry(directory)
                .or_default()
                .push((index, name));
        }
        html! {
            nav.tree aria-label="Files" {
                details open { summary { "Files" }
                    @for (directory, files) in &directories {
                        @if !directory.is_empty() { p.directory title=(directory) { (directory) "/" } }
                        ul { @for (index, name) in files {
                            @let file = &self.diff.files[*index];
                            @let found = self.diff.findings_in(&file.path).filter(|entry| entry.status.is_open()).count();
                            li data-viewed[self.viewed.contains(&self.marks[*index])] data-tree=(index) {
                                a href=(self.link_to(*index, file)) title=(file.path) { (status_mark(file.status)) (name) }
                                @if found > 0 { span.tag.bad title="open findings" { (found) } }
                                span.num { (counts(file)) }
                            }
                        } }
                    }
                }
            }
        }
    }

    /// Returns the address of a file: its place on this page, or its own page.
    fn link_to(&self, index: usize, file: &DiffFile) -> String {
        if index < PAGE_FILES_MAX {
            format!("#file-{index}")
        } else {
            self.query.with("file", &file.path)
        }
    }

    fn file(&self, index: usize, file: &DiffFile, shown: bool, is_single: bool) -> Markup {
        let generated = diff::is_generated(file);
        let viewed = self.viewed.contains(&self.marks[index]);
        let found = self
            .diff
            .findings_in(&file.path)
            .any(|entry| entry.status.is_open());
        let has_form = self
            .query
            .comment_place()
            .is_some_and(|(place, _)| place == index);
        let open = is_single || has_form || (!viewed && (!generated || found));
        html! {
            // The button stands next to the summary: a summary must have no control inside.
            div.filebox {
                (self.viewed_form(index, viewed))
                details.file id=(format!("file-{index}")) open[open] data-file=(index) {
                    summary {
                        (status_mark(file.status))
                        span.path {
                            @if let Some(old) = file.old_path.as_ref().filter(|old| **old != file.path) { (old) " → " }
                            (file.path)
                        }
                        span.num { (counts(file)) }
                        @if generated { span.tag { "generated" } }
                        @if file.added.is_none() { span.tag { "binary" } }
                    }
                    @if file.added.is_none() { p.quiet { "Binary file: there are no lines to show." } }
                    @else if file.hunks.is_empty() { p.quiet { "No line changed: only the name or the mode." } }
                    @if let Highlighting::Off(Some(why)) = &self.colours[index] {
                        p.quiet.meta { "Without highlighting: " (why) "." }
                    }
                    @if shown { (self.table(index, file)) }
                    @else if !file.hunks.is_empty() {
                        p.notice {
                            (row_count(file)) " lines are too many for this page. "
                            a href=(self.query.with("file", &file.path)) { "Show this file" }
                        }
                        @for entry in self.diff.findings_in(&file.path) { (ticket::finding(self.context, self.ticket, entry)) }
                    }
                    @if is_single { (self.parts(file)) }
                }
            }
        }
    }

    /// Renders the pages of a long file.
    fn parts(&self, file: &DiffFile) -> Markup {
        let part = self.query.part;
        let has_next = self.has_next_part;
        let address = |part: usize| format!("{}&part={part}", self.query.with("file", &file.path));
        html! {
            @if part > 0 || has_next {
                nav.pager aria-label="Parts of the file" {
                    @if part > 0 { a href=(address(part - 1)) { "Lines before" } }
                    span.meta { "part " (part + 1) " of " (changed_lines(file)) " changed lines" }
                    @if has_next { a rel="next" href=(address(part + 1)) { "Lines after" } }
                }
            }
        }
    }

    /// Renders the mark that the person has read the file. It is a form, so that it works without
    /// script; the script sends it without leaving the page.
    fn viewed_form(&self, index: usize, viewed: bool) -> Markup {
        html! {
            @if self.context.may_change() {
                form.viewed method="post" action=(format!("/tickets/{}/viewed", self.ticket.id)) data-viewed-form {
                    (form_token(self.context))
                    input type="hidden" name="mark" value=(self.marks[index]);
                    input type="hidden" name="next" value=(format!("{}#file-{index}", self.query.with("", "")));
                    button type="submit" name="viewed" value=(!viewed) aria-pressed=(viewed) {
                        (icon("passed")) "Viewed"
                    }
                }
            }
        }
    }

    /// Renders the form for a comment on this line, or the one that the script copies.
    fn comment_form(&self, file: &str, line: Option<u32>) -> Markup {
        let id = line.map_or("comment-text".to_owned(), |_| "comment-here".to_owned());
        html! {
            form.comment method="post" action=(format!("/tickets/{}/findings", self.ticket.id)) {
                (form_token(self.context))
                input type="hidden" name="next" value=(self.query.with("", ""));
                div.row {
                    label { "File " input name="file" value=(file); }
                    label { "Line " input name="line" value=[line] inputmode="numeric" pattern="[0-9]*" size="6"; }
                    label { "Severity " select name="severity" {
                        option value="" { "medium, or high for must-fix" }
                        @for word in ["critical", "high", "medium", "low", "suggestion"] { option { (word) } }
                    } }
                }
                label for=(id) { "The defect; its first line is the title" }
                textarea id=(id) name="text" required rows="3" autofocus[line.is_some()] {}
                label.check { input type="checkbox" name="must_fix" value="true"; " Must be fixed before the change lands" }
                div.choices {
                    button.primary type="submit" { "Add the finding" }
                    button.plain type="button" data-close hidden { "Cancel" }
                }
            }
        }
    }

    fn comment_anywhere(&self) -> Markup {
        html! {
            section #comment.panel {
                h2 { "Comment" }
                p.quiet { "It becomes a finding in your name, and the builder answers it as any other. A click on a line number opens this form at the line." }
                (self.comment_form("", None))
            }
        }
    }
}

/// Renders what happened to a file as a letter with its meaning.
fn status_mark(letter: char) -> Markup {
    let (word, tone) = match letter {
        'A' => ("added", "good"),
        'D' => ("deleted", "bad"),
        'R' => ("renamed", "active"),
        'T' => ("type changed", "warn"),
        _ => ("modified", "quiet"),
    };
    html! { abbr.status.(tone) title=(word) { (letter) span.hidden { " " (word) " " } } }
}

fn counts(file: &DiffFile) -> Markup {
    html! {
        @if let (Some(added), Some(removed)) = (file.added, file.removed) {
            @if added > 0 { span.good { "+" (added) } } " " @if removed > 0 { span.bad { "−" (removed) } }
        }
    }
}
