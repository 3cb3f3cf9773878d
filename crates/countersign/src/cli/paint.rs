//! Styled text on its way to a terminal: the marks and lines that are drawn with, the colours that
//! moods and stages have, and how a line becomes the bytes of an ordinary print.
//!
//! Only the sixteen colours that people choose for themselves are used, and never a background:
//! that is what reads well on light and on dark.

use flow::Stage;
use flow::narrate::Mood;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use app::settings::terminal::LinkStyle;

/// What marks, bars and lines are drawn with.
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
    pub fn of(unicode: bool) -> Self {
        if unicode { UNICODE } else { ASCII }
    }

    /// A bar of `width` cells, `done` of `all` filled.
    pub fn bar(&self, done: usize, all: usize, width: usize) -> (String, String) {
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

pub fn of_mood(mood: Mood) -> Style {
    match mood {
        Mood::Plain => dim(),
        Mood::Good => Style::new().fg(Color::Green),
        Mood::Bad => Style::new().fg(Color::Red),
        Mood::Urgent => bold().fg(Color::Yellow),
    }
}

pub fn of_stage(stage: Stage) -> Style {
    match stage {
        Stage::Escalated | Stage::Blocked => of_mood(Mood::Urgent),
        Stage::Failed => of_mood(Mood::Bad),
        Stage::Approved | Stage::Merging | Stage::Done => of_mood(Mood::Good),
        Stage::Building | Stage::Checking | Stage::Reviewing | Stage::Rework => {
            Style::new().fg(Color::Cyan)
        }
        Stage::Pending | Stage::Queued | Stage::Cancelled => dim(),
    }
}

/// A line as it is printed, with escape sequences where colours are wanted.
pub fn printed(line: &Line<'_>, colours: bool) -> String {
    let spans = line.spans.iter().map(|span| {
        let codes = codes(line.style.patch(span.style));
        if !colours || codes.is_empty() {
            return span.content.to_string();
        }
        format!("\u{1b}[{codes}m{}\u{1b}[0m", span.content)
    });
    spans.collect()
}

fn codes(style: Style) -> String {
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
        Some(_) | None => None,
    };
    let set = modifiers
        .into_iter()
        .filter(|(modifier, _)| style.add_modifier.contains(*modifier));
    let codes: Vec<&str> = set.map(|(_, code)| code).chain(colour).collect();
    codes.join(";")
}

/// Text that leads to a line of a file, where the terminal shows links.
pub fn linked(text: &str, path: &std::path::Path, line: Option<u32>, links: LinkStyle) -> String {
    let place = escaped(&path.to_string_lossy());
    let address = match (links, line) {
        (LinkStyle::None, _) => return text.to_owned(),
        (LinkStyle::Code, Some(line)) => format!("vscode://file{place}:{line}"),
        (LinkStyle::Fragment, Some(line)) => format!("file://{place}#{line}"),
        (LinkStyle::Code | LinkStyle::Fragment | LinkStyle::File, _) => format!("file://{place}"),
    };
    format!("\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\")
}

/// A path may hold anything; an address holds only what ends no escape sequence.
fn escaped(path: &str) -> String {
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

/// `1m 12s`, for people who wait.
pub fn elapsed(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
        (hours, minutes, _) if hours < 48 => format!("{hours}h {minutes:02}m"),
        (hours, _, _) => format!("{}d", hours / 24),
    }
}

/// `12k`, for counts that nobody reads to the last digit.
pub fn rough(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Cut to `width` cells, marked where it was cut.
pub fn fitted(text: &str, width: usize, glyphs: &Glyphs) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    format!("{}{}", first_cells(text, width - 1), glyphs.cut)
}

/// A whole line cut to `width` cells.
pub fn clipped(line: Line<'static>, width: usize, glyphs: &Glyphs) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    if width == 0 {
        return Line::default();
    }
    let mut room = width - 1;
    let mut spans = Vec::new();
    for mut span in line.spans {
        let wide = span.width();
        if wide > room {
            span.content = format!("{}{}", first_cells(&span.content, room), glyphs.cut).into();
            spans.push(span);
            break;
        }
        room -= wide;
        spans.push(span);
    }
    Line::from(spans).style(line.style)
}

/// Broken at spaces into lines of at most `width` cells, all but the first indented.
pub fn wrapped(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.to_owned();
    // Too narrow for the indent: everything is cut to one line by whoever shows it.
    while Span::raw(rest.as_str()).width() > width && width > indent + 8 {
        let head = first_cells(&rest, width);
        let begins = head.len() - head.trim_start().len();
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
    let mut wide = 0;
    for (at, c) in text.char_indices() {
        wide += Span::raw(c.to_string()).width();
        if wide > width {
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
            Span::styled("b", of_mood(Mood::Urgent)),
        ]);
        assert_eq!(printed(&line, false), "a b");
        assert_eq!(printed(&line, true), "a \u{1b}[1;33mb\u{1b}[0m");
    }

    #[test]
    fn a_path_cannot_break_out_of_its_link() {
        let path = Path::new("/srv/repos/a\u{1b}\\ b.rs");
        let link = linked("b.rs", path, Some(3), LinkStyle::Fragment);
        assert_eq!(
            link,
            "\u{1b}]8;;file:///srv/repos/a%1B%5C%20b.rs#3\u{1b}\\b.rs\u{1b}]8;;\u{1b}\\"
        );
        assert_eq!(linked("b.rs", path, None, LinkStyle::None), "b.rs");
    }

    #[test]
    fn times_are_short() {
        let told = [0, 59_999, 60_000, 3_599_000, 3_600_000, 172_800_000].map(elapsed);
        assert_eq!(told, ["0s", "59s", "1m 00s", "59m 59s", "1h 00m", "2d"]);
    }

    #[test]
    fn what_does_not_fit_is_cut_and_marked() {
        assert_eq!(fitted("greeting", 8, &UNICODE), "greeting");
        assert_eq!(fitted("greeting", 5, &UNICODE), "gree…");
        assert_eq!(fitted("漢字漢字", 5, &ASCII), "漢字~");
        assert_eq!(fitted("greeting", 0, &ASCII), "");
        let line = Line::from(vec![Span::raw("abc"), Span::raw("def")]);
        let text = |width| clipped(line.clone(), width, &ASCII).to_string();
        assert_eq!(
            [text(6), text(5), text(3), text(0)],
            ["abcdef", "abcd~", "ab~", ""]
        );
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        assert_eq!(
            wrapped("a bc def ghij klm", 14, 2),
            ["a bc def ghij", "  klm"]
        );
        assert_eq!(
            wrapped("abcdefghijklmnopq", 12, 2),
            ["abcdefghijkl", "  mnopq"]
        );
        assert_eq!(wrapped("abcdefghijklmnopq", 5, 2), ["abcdefghijklmnopq"]);
    }

    #[test]
    fn a_bar_is_never_longer_than_its_room() {
        assert_eq!(ASCII.bar(1, 4, 8), ("##".to_owned(), "......".to_owned()));
        assert_eq!(ASCII.bar(9, 4, 3), ("###".to_owned(), String::new()));
        assert_eq!(ASCII.bar(0, 0, 2), (String::new(), "..".to_owned()));
    }
}
