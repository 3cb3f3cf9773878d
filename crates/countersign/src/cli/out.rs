//! Output to the terminal: text or JSON, with colours where supported. It never panics on a closed
//! pipe.
//!
//! Text of agents, tickets and other programs ends here. Everything hidden is removed or escaped at
//! this last step as well, so that one missed cleaning elsewhere cannot reach the terminal.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use flow::narrate::Mood;
use ratatui::text::Line;
use serde::Serialize;
use serde_json::{Value, json};

use super::paint::{Glyphs, mood_style, render_line, wrap_words};
use app::failure::{ExitKind, Failure};
use app::settings::terminal::{LinkStyle, TerminalFeatures};

/// Version of the JSON output format.
/// Programs compare it. A field that is added leaves it as it is; one that changes its meaning
/// raises it.
pub const JSON_VERSION: u32 = 1;

/// Longest title in a list. A ticket that was made from a sentence has all of it as its title.
const TITLE_CHARS_MAX: usize = 80;

/// Returns a title for a line of a list.
pub fn short_title(title: &str) -> String {
    findings::shorten(&findings::one_line(title), TITLE_CHARS_MAX)
}

#[derive(Clone, Debug)]
pub struct Out {
    pub json: bool,
    /// Whether only results are printed.
    pub is_quiet: bool,
    /// Features that may be used; only plain text if the output is not a terminal.
    pub terminal: TerminalFeatures,
}

impl Out {
    pub fn new(json: bool) -> Self {
        // JSON never has colours, also not on a terminal: it is pasted into files.
        let is_terminal = !json && std::io::stdout().is_terminal();
        let terminal = TerminalFeatures::read();
        Self {
            json,
            is_quiet: false,
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

    /// Returns the output with progress and notes switched off, if asked for.
    #[must_use]
    pub fn quiet(self, is_quiet: bool) -> Self {
        Self { is_quiet, ..self }
    }

    /// Returns the characters for lines and marks.
    pub fn glyphs(&self) -> Glyphs {
        Glyphs::for_terminal(self.terminal.unicode)
    }

    /// Prints a line of text; nothing in JSON mode.
    pub fn line(&self, text: impl AsRef<str>) {
        // In JSON mode the only output is the one object at the end.
        if !self.json {
            write_out(&format!("{}\n", self.sanitized(text.as_ref())));
        }
    }

    /// Returns whether notes and estimates are printed, and not the result only.
    pub fn prints_remarks(&self) -> bool {
        !self.json && !self.is_quiet
    }

    /// Prints a line that is no part of the result.
    pub fn remark(&self, text: impl AsRef<str>) {
        if self.prints_remarks() {
            self.line(text);
        }
    }

    /// Removes hidden characters; our own colours and links stay if the terminal supports them.
    fn sanitized(&self, text: &str) -> String {
        sanitize(text, self.terminal.colours, self.terminal.links)
    }

    /// Prints text wrapped at spaces to the width of the terminal.
    pub fn print_wrapped(&self, text: &str, indent: usize) {
        for part in text.split('\n') {
            for line in self.wrap(part, indent) {
                self.line(line);
            }
        }
    }

    /// Wraps text to the width of the terminal; other outputs get it in one line.
    pub fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        // A file or a pipe gets whole lines, so that `grep` finds a sentence.
        if self.terminal.moves {
            wrap_words(text, terminal_size().0, indent)
        } else {
            vec![text.to_owned()]
        }
    }

    /// Whether the output still has a reader; false once the other end of a pipe is closed.
    #[expect(
        clippy::unused_self,
        reason = "callers ask the output they write to, although there is only one"
    )]
    pub fn has_reader(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let stdout = std::io::stdout();
        // The kernel reports a closed pipe here before the next write fails. `log --follow` would
        // otherwise wait for an event to notice it.
        let mut ends = [PollFd::new(&stdout, PollFlags::OUT)];
        let at_once = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        match poll(&mut ends, Some(&at_once)) {
            Ok(_) => !ends.iter().any(|end| end.revents().intersects(gone)),
            // An error of `poll` says nothing about the reader.
            Err(_) => true,
        }
    }

    /// Prints progress to standard error, only if that is a terminal.
    pub fn progress(&self, text: impl AsRef<str>) {
        // Progress in a log file would only be noise.
        if !self.json && !self.is_quiet && std::io::stderr().is_terminal() {
            write_err(&format!("{}\n", self.sanitized(text.as_ref())));
        }
    }

    /// Prints a note to standard error.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.json && !self.is_quiet {
            write_err(&format!("note: {}\n", self.sanitized(text.as_ref())));
        }
    }

    /// Prints the result for programs in JSON mode: an object with `version` and the value's
    /// fields.
    pub fn print_json(&self, value: &impl Serialize) {
        if !self.json {
            return;
        }
        let mut answer = json!({"version": JSON_VERSION});
        match (
            serde_json::to_value(value).unwrap_or_default(),
            answer.as_object_mut(),
        ) {
            (Value::Object(fields), Some(object)) => object.extend(fields),
            // A list has no fields, and the answer has to be an object.
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
            // Errors go to standard output in JSON mode: a program reads one stream.
            write_out(&format!("{}\n", escaped_json(&error)));
            return;
        }
        let message = findings::strip_hidden(&failure.message);
        let mut text = format!("{} {message}\n", self.paint(Mood::Bad, "error:"));
        for hint in &failure.hints {
            let hint = findings::strip_hidden(hint);
            let _ = writeln!(text, "{} {hint}", self.paint(Mood::Plain, "  hint:"));
        }
        write_err(&text);
    }

    /// Colours the text by mood, if the terminal supports colours.
    pub fn paint(&self, mood: Mood, text: &str) -> String {
        render_line(&Line::styled(text, mood_style(mood)), self.terminal.colours)
    }

    pub fn bold(&self, text: &str) -> String {
        render_line(
            &Line::styled(text, super::paint::bold()),
            self.terminal.colours,
        )
    }
}

/// Returns the columns and rows of the terminal; 80 by 24 if unknown.
pub fn terminal_size() -> (usize, usize) {
    let window = rustix::termios::tcgetwinsize(std::io::stdout());
    match window {
        // A pseudo terminal without a size reports 0 by 0.
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        Ok(_) | Err(_) => (80, 24),
    }
}

/// Writes to standard output and ignores errors, because a closed pipe is not our failure.
fn write_out(text: &str) {
    // See above.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn write_err(text: &str) {
    // There is no other output to report the error to.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints text that is the result itself, such as an export, in both modes.
pub fn print_raw(text: &str) {
    write_out(&findings::strip_hidden(text));
}

/// Returns JSON with hidden characters as escapes: programs read the same value, and a terminal
/// shows them.
pub fn escaped_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.chars().any(findings::is_hidden) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if findings::is_hidden(c) {
            // JSON escapes are UTF-16, so a character beyond it becomes a pair.
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Keeps colour codes (`ESC [ … m`) and links (`ESC ] 8 ; …`) if the terminal supports them, and
/// removes all other hidden characters.
fn sanitize(text: &str, colours: bool, links: LinkStyle) -> String {
    let own_code = |text: &str| {
        let colour = colour_code(text).filter(|_| colours);
        colour.or_else(|| link_code(text).filter(|_| links != LinkStyle::None))
    };
    let mut out = String::with_capacity(text.len());
    // Text between two of our codes is cleaned as a whole, because a foreign sequence may contain
    // several escapes.
    let (mut from, mut at) = (0, 0);
    while let Some(offset) = text[at..].find('\u{1b}') {
        let start = at + offset;
        // Only our own two kinds of codes are kept. An agent can write them too, but they only
        // colour and link.
        match own_code(&text[start..]) {
            Some(length) => {
                out.push_str(&findings::strip_hidden(&text[from..start]));
                out.push_str(&text[start..start + length]);
                at = start + length;
                from = at;
            }
            None => at = start + 1,
        }
    }
    out.push_str(&findings::strip_hidden(&text[from..]));
    out
}

/// Returns the length of a colour code at the start of the text.
fn colour_code(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    // A longer list of numbers is no colour of ours.
    (codes.get(end..)?.starts_with('m') && end <= 16).then_some(end + 3)
}

/// Returns the length of a link's opening or closing sequence at the start of the text.
fn link_code(text: &str) -> Option<usize> {
    let address = text.strip_prefix("\u{1b}]8;;")?;
    let end = address.find('\u{1b}')?;
    // An address with a control character could end the link early and begin another sequence.
    let is_plain = address.get(..end)?.chars().all(|c| c.is_ascii_graphic());
    (is_plain && address.get(end..)?.starts_with("\u{1b}\\")).then_some(end + 7)
}

/// Prints clap's help and version as results, and everything else as a usage error.
pub fn report_usage(error: &clap::Error, json: bool) -> ExitKind {
    // `--help` and `--version` are results, and end with success.
    if !error.use_stderr() {
        // A closed pipe is not our failure.
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
        // The message quotes the arguments, which may contain control characters.
        let colours = std::io::stderr().is_terminal() && TerminalFeatures::read().colours;
        let text = if colours {
            error.render().ansi().to_string()
        } else {
            error.to_string()
        };
        write_err(&sanitize(&text, colours, LinkStyle::None));
    }
    ExitKind::Usage
}

/// Pads cells to columns of equal width; the last column is not padded.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(index) {
                Some(max) => *max = (*max).max(width),
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
        assert_eq!(sanitize(text, true, LinkStyle::None), own);
        assert_eq!(sanitize(text, false, LinkStyle::None), "a b cd e");
        let link = "\u{1b}]8;;file:///a\u{1b}\\x\u{1b}]8;;\u{1b}\\";
        assert_eq!(sanitize(link, true, LinkStyle::Code), link);
        assert_eq!(sanitize(link, true, LinkStyle::None), "x");
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_printed_where_there_are_no_colours(
            parts in proptest::collection::vec("(?s).{0,6}[\u{1b}\u{9b}\u{9d}\u{202e}\u{2066}\u{200b}\u{feff}\0\u{85}]?[\\[\\]0-9;m\\\\8]{0,5}", 0..8)
        ) {
            let text = parts.concat();
            let out = sanitize(&text, false, LinkStyle::None);
            prop_assert!(!out.chars().any(findings::is_hidden), "{:?}", out);
            let value = json!({"x": text});
            let escaped = escaped_json(&value);
            prop_assert!(!escaped.chars().any(findings::is_hidden));
            prop_assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
        }
    }
}
