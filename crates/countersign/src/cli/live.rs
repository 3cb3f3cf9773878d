//! A few lines at the bottom of the terminal that change, below lines that stay.
//!
//! No raw mode, no other screen: what was printed stays in the scroll-back, Ctrl-C stays a signal,
//! and a program that is killed leaves at most a few stale lines.

use std::fmt::Write as _;
use std::io::Write as _;

use ratatui::text::Line;

use super::out::size;
use super::paint::printed;

/// Both ends of an update that is shown at once, where the terminal knows how.
const HOLD: &str = "\u{1b}[?2026h";
const SHOW: &str = "\u{1b}[?2026l";

/// The changing lines, as they were drawn last.
#[derive(Debug, Default)]
pub struct LiveRegion {
    drawn: Vec<Line<'static>>,
    colours: bool,
}

impl LiveRegion {
    pub fn new(colours: bool) -> Self {
        Self {
            drawn: Vec::new(),
            colours,
        }
    }

    /// Prints lines that stay, and the changing ones below them.
    pub fn draw(&mut self, above: &str, lines: Vec<Line<'static>>) {
        if above.is_empty() && lines == self.drawn {
            return;
        }
        let mut text = format!("{HOLD}{}", self.back());
        if !above.is_empty() {
            let _ = write!(text, "\u{1b}[J{above}");
        }
        for line in &lines {
            let _ = write!(text, "{}\u{1b}[K\r\n", printed(line, self.colours));
        }
        text.push_str("\u{1b}[J");
        text.push_str(SHOW);
        self.drawn = lines;
        write(&text);
    }

    /// Takes the changing lines away.
    pub fn clear(&mut self) {
        if !self.drawn.is_empty() {
            let text = format!("{}\u{1b}[J", self.back());
            self.drawn.clear();
            write(&text);
        }
    }

    /// To where the region begins. A terminal that has become narrower has folded its lines.
    fn back(&self) -> String {
        let (width, _) = size();
        let rows: usize = self
            .drawn
            .iter()
            .map(|line| line.width().div_ceil(width.max(1)).max(1))
            .sum();
        if rows == 0 {
            return String::new();
        }
        format!("\r\u{1b}[{rows}A")
    }
}

impl Drop for LiveRegion {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A reader that has gone is no error of ours.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // As said above.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
