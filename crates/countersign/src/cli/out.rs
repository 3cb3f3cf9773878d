//! What goes to the terminal: text or JSON, colours where they are wanted, and never a panic on a
//! pipe that was closed.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use flow::narrate::Mood;
use ratatui::text::Line;
use serde::Serialize;
use serde_json::{Value, json};

use super::paint::{Glyphs, of_mood, printed, wrapped};
use app::failure::{ExitKind, Failure};
use app::settings::terminal::{LinkStyle, TerminalFeatures};

/// The version of every JSON answer's shape.
pub const JSON_VERSION: u32 = 1;

#[derive(Clone, Debug)]
pub struct Out {
    pub json: bool,
    /// What may be written to it: nothing but text where it is no terminal.
    pub terminal: TerminalFeatures,
}

impl Out {
    pub fn new(json: bool) -> Self {
        let is_terminal = !json && std::io::stdout().is_terminal();
        let terminal = TerminalFeatures::read();
        Self {
            json,
            terminal: TerminalFeatures {
                colours: is_terminal && terminal.colours,
                moves: is_terminal && terminal.moves,
                links: if is_terminal {
                    terminal.links
                } else {
                    LinkStyle::None
                },
                ..terminal
            },
        }
    }

    /// What lines and marks are drawn with.
    pub fn glyphs(&self) -> Glyphs {
        Glyphs::of(self.terminal.unicode)
    }

    /// One line of text for people; nothing where JSON was asked for.
    pub fn line(&self, text: impl AsRef<str>) {
        if !self.json {
            write_out(&format!("{}\n", self.shown(text.as_ref())));
        }
    }

    /// The text without characters that nobody sees; our own colours and links stay on a terminal
    /// that has them.
    fn shown(&self, text: &str) -> String {
        shown(text, self.terminal.colours, self.terminal.links)
    }

    /// A line for people, broken at its words where the terminal would break it anywhere.
    pub fn told(&self, text: &str, indent: usize) {
        for part in text.split('\n') {
            for line in self.broken(part, indent) {
                self.line(line);
            }
        }
    }

    /// In lines as wide as the terminal; whole where it goes elsewhere.
    pub fn broken(&self, text: &str, indent: usize) -> Vec<String> {
        if self.terminal.moves {
            wrapped(text, size().0, indent)
        } else {
            vec![text.to_owned()]
        }
    }

    /// Whether somebody still reads: false once the other end of a pipe is closed.
    #[expect(
        clippy::unused_self,
        reason = "whoever writes to it asks it; that there is one output is its own matter"
    )]
    pub fn is_heard(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let stdout = std::io::stdout();
        let mut ends = [PollFd::new(&stdout, PollFlags::OUT)];
        let at_once = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        match poll(&mut ends, Some(&at_once)) {
            Ok(_) => !ends.iter().any(|end| end.revents().intersects(gone)),
            Err(_) => true,
        }
    }

    /// What goes on, beside the answer; only for somebody who watches.
    pub fn aside(&self, text: impl AsRef<str>) {
        if !self.json && std::io::stderr().is_terminal() {
            write_err(&format!("{}\n", self.shown(text.as_ref())));
        }
    }

    /// What the person should know, beside the answer.
    pub fn remark(&self, text: impl AsRef<str>) {
        if !self.json {
            write_err(&format!("note: {}\n", self.shown(text.as_ref())));
        }
    }

    /// The answer for programs: an object with `version`, and the value's own fields.
    pub fn answer(&self, value: &impl Serialize) {
        if !self.json {
            return;
        }
        let mut answer = json!({"version": JSON_VERSION});
        match (
            serde_json::to_value(value).unwrap_or_default(),
            answer.as_object_mut(),
        ) {
            (Value::Object(fields), Some(object)) => object.extend(fields),
            (other, Some(object)) => {
                object.insert("items".to_owned(), other);
            }
            (_, None) => {}
        }
        write_out(&format!("{}\n", escaped_json(&answer)));
    }

    pub fn failure(&self, failure: &Failure) {
        if self.json {
            let error = json!({
                "version": JSON_VERSION,
                "error": {"message": failure.message, "hints": failure.hints, "exit": failure.exit.code()},
            });
            write_out(&format!("{}\n", escaped_json(&error)));
            return;
        }
        let message = findings::without_hidden(&failure.message);
        let mut text = format!("{} {message}\n", self.paint(Mood::Bad, "error:"));
        for hint in &failure.hints {
            let hint = findings::without_hidden(hint);
            let _ = writeln!(text, "{} {hint}", self.paint(Mood::Plain, "  hint:"));
        }
        write_err(&text);
    }

    /// Coloured by mood, where the terminal wants colours.
    pub fn paint(&self, mood: Mood, text: &str) -> String {
        printed(&Line::styled(text, of_mood(mood)), self.terminal.colours)
    }

    pub fn bold(&self, text: &str) -> String {
        printed(
            &Line::styled(text, super::paint::bold()),
            self.terminal.colours,
        )
    }
}

/// Columns and rows of the terminal; the usual ones where it does not tell.
pub fn size() -> (usize, usize) {
    let told = rustix::termios::tcgetwinsize(std::io::stdout());
    match told {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        Ok(_) | Err(_) => (80, 24),
    }
}

/// A reader that has gone is no error of ours.
fn write_out(text: &str) {
    // As said above.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn write_err(text: &str) {
    // There is no other place to say it.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Text that is the answer itself, in either form (an export).
pub fn raw(text: &str) {
    write_out(&findings::without_hidden(text));
}

/// JSON in which characters that nobody sees are written as escapes: programs read the same, and a
/// terminal shows them.
pub fn escaped_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.chars().any(findings::is_hidden) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if findings::is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Keeps colour codes (`ESC [ … m`) and links (`ESC ] 8 ; …`) where the terminal has them, and takes
/// out every other character that nobody sees.
fn shown(text: &str, colours: bool, links: LinkStyle) -> String {
    let own = |text: &str| {
        let colour = colour_code(text).filter(|_| colours);
        colour.or_else(|| link_code(text).filter(|_| links != LinkStyle::None))
    };
    let mut out = String::with_capacity(text.len());
    // What lies between two codes of ours is cleaned as a whole: a foreign sequence may have several
    // escapes in it.
    let (mut from, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\u{1b}') {
        let here = at + found;
        match own(&text[here..]) {
            Some(length) => {
                out.push_str(&findings::without_hidden(&text[from..here]));
                out.push_str(&text[here..here + length]);
                at = here + length;
                from = at;
            }
            None => at = here + 1,
        }
    }
    out.push_str(&findings::without_hidden(&text[from..]));
    out
}

/// The length of a colour code at the beginning of the text.
fn colour_code(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    (codes.get(end..)?.starts_with('m') && end <= 16).then_some(end + 3)
}

/// The length of a link's beginning or end at the beginning of the text.
fn link_code(text: &str) -> Option<usize> {
    let address = text.strip_prefix("\u{1b}]8;;")?;
    let end = address.find('\u{1b}')?;
    let sound = address.get(..end)?.chars().all(|c| c.is_ascii_graphic());
    (sound && address.get(end..)?.starts_with("\u{1b}\\")).then_some(end + 7)
}

/// Help and version are answers; everything else about the words is a usage error.
pub fn usage(error: &clap::Error, json: bool) -> ExitKind {
    if !error.use_stderr() {
        // A reader that has gone is no error of ours.
        let _ = error.print();
        return ExitKind::Done;
    }
    if json {
        let text = error.to_string();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or_default();
        let failure = Failure::usage(first.trim_start_matches("error: "));
        let failure = lines.fold(failure, |failure, line| failure.hint(line.trim()));
        Out::new(true).failure(&failure);
    } else {
        // The message quotes the words as they were typed.
        let colours = std::io::stderr().is_terminal() && TerminalFeatures::read().colours;
        let text = if colours {
            error.render().ansi().to_string()
        } else {
            error.to_string()
        };
        write_err(&shown(&text, colours, LinkStyle::None));
    }
    ExitKind::Usage
}

/// Columns of equal width, the last one free.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(index) {
                Some(known) => *known = (*known).max(width),
                None => widths.push(width),
            }
        }
    }
    let pad = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(index, (cell, width))| {
                if index + 1 == row.len() {
                    cell.clone()
                } else {
                    format!("{cell:width$}")
                }
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(pad).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_our_own_codes_reach_a_terminal() {
        let text = "a \u{1b}[1;33mb\u{1b}[0m \u{1b}[2Jc\u{202e}\u{9b}31md \u{1b}]0;t\u{7}e";
        let own = "a \u{1b}[1;33mb\u{1b}[0m cd e";
        assert_eq!(shown(text, true, LinkStyle::None), own);
        assert_eq!(shown(text, false, LinkStyle::None), "a b cd e");
        let link = "\u{1b}]8;;file:///a\u{1b}\\x\u{1b}]8;;\u{1b}\\";
        assert_eq!(shown(link, true, LinkStyle::Code), link);
        assert_eq!(shown(link, true, LinkStyle::None), "x");
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_printed_where_there_are_no_colours(
            parts in proptest::collection::vec("(?s).{0,6}[\u{1b}\u{9b}\u{9d}\u{202e}\u{2066}\u{200b}\u{feff}\0\u{85}]?[\\[\\]0-9;m\\\\8]{0,5}", 0..8)
        ) {
            let text = parts.concat();
            let out = shown(&text, false, LinkStyle::None);
            prop_assert!(!out.chars().any(findings::is_hidden), "{:?}", out);
            let value = json!({"x": text});
            let escaped = escaped_json(&value);
            prop_assert!(!escaped.chars().any(findings::is_hidden));
            prop_assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
        }
    }
}
