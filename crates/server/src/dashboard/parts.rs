//! Small pieces that several pages use: stages, severities, times, money, rows of tickets.

use findings::Severity;
use flow::narrate::Mood;
use flow::{Stage, TicketId, Time};
use maud::{Markup, html};

use super::PageContext;
use super::layout::icon;
use app::operations::TicketRow;

/// Renders a stage as an icon and a word; the colour only repeats them.
pub fn stage(stage: Stage) -> Markup {
    let mark = match stage {
        Stage::Escalated => "alert",
        Stage::Done | Stage::Approved => "passed",
        Stage::Failed | Stage::Cancelled => "failed",
        Stage::Building | Stage::Checking | Stage::Reviewing | Stage::Merging | Stage::Rework => {
            "run"
        }
        Stage::Pending | Stage::Queued | Stage::Blocked => "wait",
    };
    html! { span.tag.(stage_tone(stage)) { (icon(mark)) (stage.as_str()) } }
}

/// Returns the class of a stage's colour.
pub fn stage_tone(stage: Stage) -> &'static str {
    match stage {
        Stage::Escalated => "urgent",
        Stage::Done | Stage::Approved => "good",
        Stage::Failed => "bad",
        Stage::Building | Stage::Checking | Stage::Reviewing | Stage::Merging => "active",
        Stage::Rework => "warn",
        Stage::Pending | Stage::Queued | Stage::Blocked | Stage::Cancelled => "quiet",
    }
}

/// Renders a severity that is known by its word.
pub fn severity_word(word: &str) -> Markup {
    html! { span.tag.severity.(word) { (icon(word)) (word) } }
}

pub fn severity(severity: Severity) -> Markup {
    severity_word(severity.word())
}

/// Renders whether something passed.
pub fn outcome(passed: bool) -> Markup {
    if passed {
        html! { span.outcome.good { (icon("passed")) span.hidden { "passed" } } }
    } else {
        html! { span.outcome.bad { (icon("failed")) span.hidden { "failed" } } }
    }
}

pub fn mood(mood: Mood) -> &'static str {
    match mood {
        Mood::Plain => "plain",
        Mood::Good => "good",
        Mood::Bad => "bad",
        Mood::Urgent => "urgent",
    }
}

/// Renders a time relative to now, with the exact one for the pointer and for programs.
pub fn time(at: Time, now: Time) -> Markup {
    let iso = at.to_iso();
    html! { time datetime=(iso) title=(iso) { (ago(at, now)) } }
}

fn ago(at: Time, now: Time) -> String {
    let secs = (now.0 - at.0) / 1000;
    let (distance, ahead) = (secs.unsigned_abs(), secs < 0);
    let words = duration(distance * 1000);
    match (distance, ahead) {
        (0..5, _) => "now".to_owned(),
        (_, true) => format!("in {words}"),
        (_, false) => format!("{words} ago"),
    }
}

/// Formats a duration in its largest unit.
pub fn duration(ms: u64) -> String {
    let secs = ms / 1000;
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 => format!("{} min", secs / 60),
        3600..172_800 => format!("{} h", secs / 3600),
        _ => format!("{} d", secs / 86_400),
    }
}

/// Formats money; nothing for zero, because most agents report no price.
pub fn usd(micros: u64) -> Option<String> {
    let cents = (micros + 5_000) / 10_000;
    match (micros, cents) {
        (0, _) => None,
        (_, 0) => Some("<$0.01".to_owned()),
        _ => Some(format!("${}.{:02}", cents / 100, cents % 100)),
    }
}

/// Formats a count in groups of three digits.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space that does not break.
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Makes a sentence of a reason: a capital letter and a full stop.
pub fn sentence(reason: &str) -> String {
    // Reasons are written to follow other words, so they have neither a capital letter nor a full
    // stop.
    let mut letters = reason.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    let text = format!("{}{}", first.unwrap_or_default(), letters.as_str());
    if text.ends_with(['.', '!', '?', ':']) || text.is_empty() {
        text
    } else {
        format!("{text}.")
    }
}

/// Renders a title. What stands in backticks is code, as its author meant it.
pub fn titled(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // An odd mark belongs to no pair, so the text stays as it is.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if index % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// Returns the element id of a ticket's row or card. Ticket ids have only letters, digits and a few
/// marks that are escaped here, because the id is used as a selector.
pub fn element_id(prefix: &str, id: &TicketId) -> String {
    let escape = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => c.to_string(),
        _ => format!("_{:x}", u32::from(c)),
    };
    let escaped: String = id.as_str().chars().map(escape).collect();
    format!("{prefix}-{escaped}")
}

/// Returns the last part of a repository's path, without `.git`.
pub fn repository_name(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("/.git").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Builds the query of an address, with its question mark.
pub fn query_text<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<(&str, &str)> = pairs
        .into_iter()
        .filter(|(name, _)| !name.is_empty())
        .collect();
    format!(
        "?{}",
        serde_urlencoded::to_string(pairs).unwrap_or_default()
    )
}

/// Encodes a name as one part of a path.
pub fn encode(name: &str) -> String {
    let query = serde_urlencoded::to_string([("", name)]).unwrap_or_default();
    query.trim_start_matches('=').replace('+', "%20")
}

/// Shortens the name of a commit or tree.
pub fn short(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

/// Renders a row of the list of tickets.
pub fn ticket_row(context: &PageContext, row: &TicketRow) -> Markup {
    let now = context.now();
    html! {
        tr id=(element_id("row", &row.id)) data-row {
            td.state {
                @if context.may_change() {
                    input type="checkbox" name="ticket" value=(row.id) form="selection" aria-label=(format!("choose {}", row.id));
                }
                (stage(row.stage))
            }
            td.grow {
                a.title href=(format!("/tickets/{}", row.id)) { (titled(&row.title)) }
                span.meta {
                    code { (row.id) }
                    @if let Some(epic) = &row.epic { " · " a href=(format!("/epics/{}", encode(epic))) { (epic) } }
                    @if let Some(path) = &row.repository { " · " (repository_name(path)) }
                    @if row.waits_for > 0 { " · waits for " (row.waits_for) }
                }
            }
            td.num { @if row.round > 0 { span.unit { "round " } (row.round) } }
            td.num { @if row.open_must_fix > 0 { span.bad { (row.open_must_fix) " must-fix" } } }
            td.num { span.unit { "priority " } (row.priority) }
            td.num { @if let Some(usd) = usd(row.usd_micros) { (usd) } }
            td.num { (time(row.updated_at, now)) }
        }
    }
}

/// Renders a card of the board.
pub fn ticket_card(context: &PageContext, row: &TicketRow) -> Markup {
    html! {
        li.card id=(element_id("card", &row.id)) data-row {
            span.meta.top { code title=(row.id) { (row.id) } (time(row.updated_at, context.now())) }
            a.title href=(format!("/tickets/{}", row.id)) title=(row.title) { (titled(&row.title)) }
            @if row.round > 0 || row.waits_for > 0 {
                span.meta.strip {
                    @if row.round > 0 { span { "round " (row.round) } }
                    @if row.open_must_fix > 0 { span.bad { (row.open_must_fix) " must-fix" } }
                    @if row.waits_for > 0 { span { "waits for " (row.waits_for) } }
                    @if let Some(usd) = usd(row.usd_micros) { span { (usd) } }
                }
            }
        }
    }
}

/// Renders an empty state: an icon of the section, what it means, and what to do.
pub fn empty(mark: &str, title: &str, more: &Markup) -> Markup {
    html! { div.empty { (icon(mark)) h2 { (title) } (more) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_and_times_are_short() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(999), "999");
        assert_eq!(usd(0), None);
        assert_eq!(usd(4_000).unwrap(), "<$0.01");
        assert_eq!(usd(1_234_567).unwrap(), "$1.23");
        assert_eq!(ago(Time(0), Time(125_000)), "2 min ago");
        assert_eq!(ago(Time(7_300_000), Time(0)), "in 2 h");
    }

    #[test]
    fn code_in_a_title_is_marked_and_everything_is_escaped() {
        let title = titled("Add `<b>`: a tag").into_string();
        assert_eq!(title, "Add <code>&lt;b&gt;</code>: a tag");
        assert_eq!(titled("an odd ` mark").into_string(), "an odd ` mark");
        assert_eq!(counted(1, "file"), "1 file");
        assert_eq!(counted(0, "file"), "0 files");
    }

    #[test]
    fn element_ids_are_plain_selectors() {
        let id = TicketId::new("a.b").unwrap();
        assert_eq!(element_id("row", &id), "row-a_2eb");
    }
}
