//! What goes to the terminal: text or JSON, colours where they are wanted, and never a panic on a
//! pipe that was closed.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use flow::narrate::Mood;
use ratatui::text::Line;
use serde::Serialize;
use serde_json::{Value, json};

use super::paint::{Glyphs, of_mood, printed, wrapped};
use crate::failure::{Exit, Failure};
use crate::settings::terminal::{Links, Terminal};

/// The version of every JSON answer's shape.
pub const JSON_VERSION: u32 = 1;

#[derive(Clone, Debug)]
pub struct Out {
    pub json: bool,
    /// What may be written to it: nothing but text where it is no terminal.
    pub terminal: Terminal,
}

impl Out {
    pub fn new(json: bool) -> Self {
        let is_terminal = !json && std::io::stdout().is_terminal();
        let terminal = Terminal::read();
        Self {
            json,
            terminal: Terminal {
                colours: is_terminal && terminal.colours,
                moves: is_terminal && terminal.moves,
                links: if is_terminal {
                    terminal.links
                } else {
                    Links::None
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
            write_out(&format!("{}\n", text.as_ref()));
        }
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
            write_err(&format!("{}\n", text.as_ref()));
        }
    }

    /// What the person should know, beside the answer.
    pub fn remark(&self, text: impl AsRef<str>) {
        if !self.json {
            write_err(&format!("note: {}\n", text.as_ref()));
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
        write_out(&format!("{answer}\n"));
    }

    pub fn failure(&self, failure: &Failure) {
        if self.json {
            let error = json!({
                "version": JSON_VERSION,
                "error": {"message": failure.message, "hints": failure.hints, "exit": failure.exit.code()},
            });
            write_out(&format!("{error}\n"));
            return;
        }
        let mut text = format!("{} {}\n", self.paint(Mood::Bad, "error:"), failure.message);
        for hint in &failure.hints {
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
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn write_err(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Text that is the answer itself, in either form (an export).
pub fn raw(text: &str) {
    write_out(text);
}

/// Help and version are answers; everything else about the words is a usage error.
pub fn usage(error: &clap::Error, json: bool) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done;
    }
    if json {
        let text = error.to_string();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or_default();
        let failure = Failure::usage(first.trim_start_matches("error: "));
        let failure = lines.fold(failure, |failure, line| failure.hint(line.trim()));
        Out::new(true).failure(&failure);
    } else {
        let _ = error.print();
    }
    Exit::Usage
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
