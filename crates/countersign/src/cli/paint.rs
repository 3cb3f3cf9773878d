//! Styled text for a terminal: glyphs, colours of moods and stages, and conversion of a line to
//! bytes.
//!
//! It uses only the sixteen colours that users configure themselves, and never a background, so
//! that text is readable on light and dark terminals.
//!
//! Widths are counted in cells and not in characters, because Chinese letters and emoji take two.

use flow::Stage;
use flow::narrate::Mood;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use app::settings::terminal::LinkStyle;

/// Characters for marks, bars and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glyphs {
    pub good: &'static str,
    pub bad: &'static str,
    pub waits: &'static str,
    pub dot: &'static str,
    pub full: &'static str,
    pub rest: &'static str,
    pub rule: &'static str,
    pub side: &'static str,
    pub corner_top: &'static str,
    pub corner_bottom: &'static str,
    pub cut: &'static str,
    pub chosen: &'static str,
    pub spinner: &'static [&'static str],
}

pub const UNICODE: Glyphs = Glyphs {
    good: "✓",
    bad: "✗",
    waits: "○",
    dot: "·",
    full: "━",
    rest: "─",
    rule: "─",
    side: "│",
    corner_top: "╭",
    corner_bottom: "╰",
    cut: "…",
    chosen: "▸",
    spinner: &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"],
};

pub const ASCII: Glyphs = Glyphs {
    good: "+",
    bad: "x",
    waits: ".",
    dot: "-",
    full: "#",
    rest: ".",
    rule: "-",
    side: "|",
    corner_top: ".",
    corner_bottom: "`",
    cut: "~",
    chosen: ">",
    spinner: &["|", "/", "-", "\\"],
};

impl Glyphs {
    pub fn for_terminal(unicode: bool) -> Self {
        if unicode { UNICODE } else { ASCII }
    }

    /// Returns the filled and the empty part of a bar of `width` cells, `done` of `all` filled.
    pub fn bar(&self, done: usize, all: usize, width: usize) -> (String, String) {
        // A division by zero for an empty list, and a count above the total, both stay inside the
        // bar.
        let filled = (done * width).checked_div(all).unwrap_or(0).min(width);
        (self.full.repeat(filled), self.rest.repeat(width - filled))
    }
}

pub fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub fn mood_style(mood: Mood) -> Style {
    match mood {
        Mood::Plain => dim(),
        Mood::Good => Style::new().fg(Color::Green),
        Mood::Bad => Style::new().fg(Color::Red),
        Mood::Urgent => bold().fg(Color::Yellow),
    }
}

pub fn stage_style(stage: Stage) -> Style {
    match stage {
        Stage::Escalated | Stage::Blocked => mood_style(Mood::Urgent),
        Stage::Failed => mood_style(Mood::Bad),
        Stage::Approved | Stage::Merging | Stage::Done => mood_style(Mood::Good),
        Stage::Building | Stage::Checking | Stage::Reviewing | Stage::Rework => {
            Style::new().fg(Color::Cyan)
        }
        Stage::Pending | Stage::Queued | Stage::Cancelled => dim(),
    }
}

/// Renders a line, with escape sequences if `colours` is set.
pub fn render_line(line: &Line<'_>, colours: bool) -> String {
    let spans = line.spans.iter().map(|span| {
        let codes = ansi_codes(line.style.patch(span.style));
        if !colours || codes.is_empty() {
            return span.content.to_string();
        }
        // Each span resets by itself, so that a cut line leaves no colour behind.
        format!("\u{1b}[{codes}m{}\u{1b}[0m", span.content)
    });
    spans.collect()
}

fn ansi_codes(style: Style) -> String {
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
    ];
    let colour = match style.fg {
        Some(Color::Red) => Some("31"),
        Some(Color::Green) => Some("32"),
        Some(Color::Yellow) => Some("33"),
        Some(Color::Blue) => Some("34"),
        Some(Color::Magenta) => Some("35"),
        Some(Color::Cyan) => Some("36"),
        // Other colours are not used; an unknown one is printed without.
        Some(_) | None => None,
    };
    let set = modifiers
        .into_iter()
        .filter(|(modifier, _)| style.add_modifier.contains(*modifier));
    let codes: Vec<&str> = set.map(|(_, code)| code).chain(colour).collect();
    codes.join(";")
}

/// Links the text to a line of a file, if the terminal supports links.
pub fn hyperlink(
    text: &str,
    path: &std::path::Path,
    line: Option<u32>,
    links: LinkStyle,
) -> String {
    let encoded = escape_path(&path.to_string_lossy());
    let address = match (links, line) {
        (LinkStyle::None, _) => return text.to_owned(),
        // Editors differ in how they read a line number.
        (LinkStyle::Code, Some(line)) => format!("vscode://file{encoded}:{line}"),
        (LinkStyle::Fragment, Some(line)) => format!("file://{encoded}#{line}"),
        (LinkStyle::Code | LinkStyle::Fragment | LinkStyle::File, _) => format!("file://{encoded}"),
    };
    format!("\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\")
}

/// Percent-encodes a path, so that it cannot end the escape sequence of a link.
fn escape_path(path: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Formats a duration for people: `1m 12s`.
pub fn format_elapsed(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
        (hours, minutes, _) if hours < 48 => format!("{hours}h {minutes:02}m"),
        (hours, _, _) => format!("{}d", hours / 24),
    }
}

/// Formats a rounded count: `12k`.
pub fn format_count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Cuts the text to `width` cells and marks the cut.
pub fn truncate(text: &str, width: usize, glyphs: &Glyphs) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    format!("{}{}", first_cells(text, width - 1), glyphs.cut)
}

/// Cuts a styled line to `width` cells.
pub fn truncate_line(line: Line<'static>, width: usize, glyphs: &Glyphs) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    if width == 0 {
        return Line::default();
    }
    let mut room = width - 1;
    let mut spans = Vec::new();
    for mut span in line.spans {
        let cells = span.width();
        if cells > room {
            span.content = format!("{}{}", first_cells(&span.content, room), glyphs.cut).into();
            spans.push(span);
            break;
        }
        room -= cells;
        spans.push(span);
    }
    Line::from(spans).style(line.style)
}

/// Wraps at spaces into lines of at most `width` cells; all but the first are indented.
pub fn wrap_words(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.to_owned();
    // Too narrow for the indent: return one line; the caller cuts it.
    // The limit of 8 cells keeps the loop from cutting letter by letter.
    while Span::raw(rest.as_str()).width() > width && width > indent + 8 {
        let head = first_cells(&rest, width);
        let begins = head.len() - head.trim_start().len();
        // A space in the indent is no place to break: the line would become empty.
        let at = head.rfind(' ').filter(|at| *at > begins);
        let (head, tail) = rest.split_at(at.unwrap_or(head.len()));
        let tail = format!("{}{}", " ".repeat(indent), tail.trim_start());
        lines.push(head.trim_end().to_owned());
        rest = tail;
    }
    lines.push(rest);
    lines
}

fn first_cells(text: &str, width: usize) -> &str {
    let mut cells = 0;
    for (at, c) in text.char_indices() {
        cells += Span::raw(c.to_string()).width();
        if cells > width {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_line_is_printed_with_colours_only_where_they_are_wanted() {
        let line = Line::from(vec![
            Span::raw("a "),
            Span::styled("b", mood_style(Mood::Urgent)),
        ]);
        assert_eq!(render_line(&line, false), "a b");
        assert_eq!(render_line(&line, true), "a \u{1b}[1;33mb\u{1b}[0m");
    }

    #[test]
    fn a_path_cannot_break_out_of_its_link() {
        let path = Path::new("/srv/repos/a\u{1b}\\ b.rs");
        let link = hyperlink("b.rs", path, Some(3), LinkStyle::Fragment);
        assert_eq!(
            link,
            "\u{1b}]8;;file:///srv/repos/a%1B%5C%20b.rs#3\u{1b}\\b.rs\u{1b}]8;;\u{1b}\\"
        );
        assert_eq!(hyperlink("b.rs", path, None, LinkStyle::None), "b.rs");
    }

    #[test]
    fn times_are_short() {
        let texts = [0, 59_999, 60_000, 3_599_000, 3_600_000, 172_800_000].map(format_elapsed);
        assert_eq!(texts, ["0s", "59s", "1m 00s", "59m 59s", "1h 00m", "2d"]);
    }

    #[test]
    fn what_does_not_fit_is_cut_and_marked() {
        assert_eq!(truncate("greeting", 8, &UNICODE), "greeting");
        assert_eq!(truncate("greeting", 5, &UNICODE), "gree…");
        assert_eq!(truncate("漢字漢字", 5, &ASCII), "漢字~");
        assert_eq!(truncate("greeting", 0, &ASCII), "");
        let line = Line::from(vec![Span::raw("abc"), Span::raw("def")]);
        let text = |width| truncate_line(line.clone(), width, &ASCII).to_string();
        assert_eq!(
            [text(6), text(5), text(3), text(0)],
            ["abcdef", "abcd~", "ab~", ""]
        );
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        assert_eq!(
            wrap_words("a bc def ghij klm", 14, 2),
            ["a bc def ghij", "  klm"]
        );
        assert_eq!(
            wrap_words("abcdefghijklmnopq", 12, 2),
            ["abcdefghijkl", "  mnopq"]
        );
        assert_eq!(wrap_words("abcdefghijklmnopq", 5, 2), ["abcdefghijklmnopq"]);
    }

    #[test]
    fn a_bar_is_never_longer_than_its_room() {
        assert_eq!(ASCII.bar(1, 4, 8), ("##".to_owned(), "......".to_owned()));
        assert_eq!(ASCII.bar(9, 4, 3), ("###".to_owned(), String::new()));
        assert_eq!(ASCII.bar(0, 0, 2), (String::new(), "..".to_owned()));
    }
}
