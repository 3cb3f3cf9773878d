//! A region of lines at the bottom of the terminal that update in place, below lines that stay.
//!
//! It uses no raw mode and no alternate screen: printed lines stay in the scroll-back, Ctrl-C stays
//! a signal, and a killed program leaves at most a few stale lines.

use std::fmt::Write as _;
use std::io::Write as _;

use ratatui::text::Line;

use super::out::terminal_size;
use super::paint::render_line;

/// Begin and end of a synchronised update, which terminals without support ignore.
/// Without it, a terminal may show the cleared region for a moment, and the lines flicker.
const SYNC_BEGIN: &str = "\u{1b}[?2026h";
const SYNC_END: &str = "\u{1b}[?2026l";

/// The live lines as last drawn.
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

    /// Prints lines that stay, and the live lines below them.
    pub fn draw(&mut self, above: &str, lines: Vec<Line<'static>>) {
        if above.is_empty() && lines == self.drawn {
            return;
        }
        let mut text = format!("{SYNC_BEGIN}{}", self.cursor_to_start());
        // The lines above grow into the region, so it is cleared first.
        if !above.is_empty() {
            let _ = write!(text, "\u{1b}[J{above}");
        }
        for line in &lines {
            // The end of each line is cleared, because the new line may be shorter.
            let _ = write!(text, "{}\u{1b}[K\r\n", render_line(line, self.colours));
        }
        text.push_str("\u{1b}[J");
        text.push_str(SYNC_END);
        self.drawn = lines;
        write(&text);
    }

    /// Removes the live lines.
    pub fn clear(&mut self) {
        if !self.drawn.is_empty() {
            let text = format!("{}\u{1b}[J", self.cursor_to_start());
            self.drawn.clear();
            write(&text);
        }
    }

    /// Returns the sequence that moves the cursor to the start of the region. A terminal that has
    /// become narrower has wrapped the lines, so they may take more rows.
    fn cursor_to_start(&self) -> String {
        let (width, _) = terminal_size();
        let rows: usize = self
            .drawn
            .iter()
            // An empty line still takes a row.
            .map(|line| line.width().div_ceil(width.max(1)).max(1))
            .sum();
        if rows == 0 {
            return String::new();
        }
        format!("\r\u{1b}[{rows}A")
    }
}

// A panic or an early return must not leave stale lines above the prompt.
impl Drop for LiveRegion {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Writes to standard output and ignores errors, because a closed pipe is not our failure.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // See above.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
