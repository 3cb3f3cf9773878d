//! Splits output into lines and writes the transcript.
//!
//! Memory stays bounded for any input: a line longer than the limit is passed on in pieces, and
//! the transcript stops growing at its cap.
//!
//! Redaction happens here, before the transcript and before any caller: a secret that an agent
//! prints must not reach a file. That is why a line may be held back for a moment.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::private_files;
use crate::redact::Redactor;

/// Number of lines over which a secret may be wrapped. Terminals wrap at about 80 columns, so 32
/// lines hold any token or key of a usual size.
const WRAPPED_LINES_MAX: usize = 32;

/// Cuts a byte stream at newlines, or at `limit` if a line is longer. Secrets are removed before a
/// piece is passed on.
pub(super) struct Splitter {
    kept: Vec<u8>,
    limit: usize,
    redactor: Redactor,
}

/// A piece of output that still has its line end, if it had one.
pub(super) struct LinePiece<'a> {
    pub raw: &'a [u8],
    pub whole: bool,
}

impl Splitter {
    pub fn new(limit: usize, redactor: Redactor) -> Self {
        Self {
            kept: Vec::new(),
            // A tiny limit could never hold a whole character and would not make progress.
            limit: limit.max(16),
            redactor,
        }
    }

    /// Returns the splitters for both streams of a program with this environment.
    pub fn pair(limit: usize, env: &[(OsString, OsString)]) -> [Self; 2] {
        let redactor = Redactor::for_environment(env);
        // Streams are redacted separately: a secret is not continued from stdout to stderr.
        [redactor.clone(), redactor].map(|redactor| Self::new(limit, redactor))
    }

    pub fn push(&mut self, mut bytes: &[u8], mut emit: impl FnMut(LinePiece<'_>)) {
        while !bytes.is_empty() {
            // The limit counts what is already kept, so memory is bounded however the chunks
            // arrive.
            let room = self.limit.saturating_sub(self.kept.len());
            let window = &bytes[..bytes.len().min(room)];
            if let Some(end) = window.iter().position(|&byte| byte == b'\n') {
                self.kept.extend_from_slice(&window[..=end]);
                bytes = &bytes[end + 1..];
                if !self.may_be_wrapped() {
                    self.emit_lines(&mut emit);
                }
            } else {
                self.kept.extend_from_slice(window);
                bytes = &bytes[window.len()..];
                if self.kept.len() >= self.limit {
                    self.cut(&mut emit);
                }
            }
        }
    }

    /// Returns whether a terminal may have wrapped a secret at this line end, so that the next line
    /// decides. A text that goes on like this for long is none, and would be read again and again.
    fn may_be_wrapped(&self) -> bool {
        let lines = self.kept.split(|byte| *byte == b'\n').count() - 1;
        lines <= WRAPPED_LINES_MAX
            // Half of the limit, so that `cut` never meets a line that only waits.
            && self.kept.len() <= self.redactor.wrapped_max().min(self.limit / 2)
            && self.redactor.unfinished_secret(&self.kept).is_some()
    }

    /// Returns whether a complete line waits for the next one.
    pub fn holds_line(&self) -> bool {
        self.kept.last() == Some(&b'\n')
    }

    /// Emits the rest, at the end of the stream or when nothing has followed a line for long.
    pub fn finish(&mut self, mut emit: impl FnMut(LinePiece<'_>)) {
        self.emit_lines(&mut emit);
    }

    /// Emits everything that was kept, line by line.
    fn emit_lines(&mut self, emit: &mut impl FnMut(LinePiece<'_>)) {
        let text = self.redactor.redact_bytes(&self.kept);
        for raw in text.split_inclusive(|byte| *byte == b'\n') {
            emit(LinePiece { raw, whole: true });
        }
        self.kept.clear();
    }

    fn cut(&mut self, emit: &mut impl FnMut(LinePiece<'_>)) {
        let mut pending = self.redactor.redact_bytes(&self.kept).into_owned();
        // The piece may end within a secret: keep its beginning until more has been read.
        let begun = self.redactor.unfinished_secret(&pending);
        // At least half is emitted, even if all of it looks like the beginning of a secret.
        // Otherwise a crafted output could stop the progress.
        let end = begun.unwrap_or(pending.len()).max(pending.len() / 2);
        // A character that is cut in two would become two replacement characters for the caller.
        let end = end - unfinished_character(&pending[..end]);
        for raw in pending[..end].split_inclusive(|byte| *byte == b'\n') {
            let whole = raw.ends_with(b"\n");
            emit(LinePiece { raw, whole });
        }
        pending.drain(..end);
        self.kept = pending;
    }
}

/// Returns the number of bytes at the end that belong to an incomplete character. A character has
/// at most four bytes, so at most three can be missing their end.
fn unfinished_character(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    for (back, &byte) in tail.iter().rev().enumerate() {
        let have = back + 1;
        let needs = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if have < needs { have } else { 0 };
    }
    0
}

/// Converts a line to text that every reader and every database accepts.
pub(super) fn to_text(raw: &[u8]) -> String {
    let line = raw.strip_suffix(b"\n").unwrap_or(raw);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    // PostgreSQL refuses NUL in text.
    if text.contains('\0') {
        text.replace('\0', "\u{FFFD}")
    } else {
        text.into_owned()
    }
}

/// The transcript, which takes bytes up to its cap. A failing disk does not fail the run.
pub(super) struct TranscriptFile {
    file: Option<File>,
    room: u64,
    pub cut: bool,
    pub error: Option<String>,
}

impl TranscriptFile {
    pub fn create(path: &Path, cap: u64) -> std::io::Result<Self> {
        if let Some(parent) = path.parent() {
            private_files::make_dir(parent)?;
        }
        Ok(Self {
            // Transcripts hold briefs and source code, so they are readable by the owner only.
            file: Some(private_files::create(path)?),
            room: cap,
            cut: false,
            error: None,
        })
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else {
            // Output goes on being read after an error: a program with a full pipe would hang.
            self.cut = true;
            return;
        };
        let fits = usize::try_from(self.room)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        if fits < bytes.len() {
            self.cut = true;
        }
        if let Err(error) = file.write_all(&bytes[..fits]) {
            self.error = Some(error.to_string());
            self.cut = true;
            self.file = None;
            return;
        }
        self.room -= fits as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(limit: usize, chunks: &[&[u8]]) -> Vec<(String, bool)> {
        let mut splitter = Splitter::new(limit, Redactor::default());
        let mut seen = Vec::new();
        let mut take = |piece: LinePiece<'_>| seen.push((to_text(piece.raw), piece.whole));
        for chunk in chunks {
            splitter.push(chunk, &mut take);
        }
        splitter.finish(&mut take);
        seen
    }

    #[test]
    fn a_line_may_come_in_chunks_and_the_last_needs_no_end() {
        let seen = pieces(64, &[b"on", b"e\r\ntw", b"o"]);
        assert_eq!(seen, [("one".to_owned(), true), ("two".to_owned(), true)]);
    }

    #[test]
    fn a_character_is_not_torn_where_a_long_line_is_cut() {
        let line = "x".repeat(15) + "é" + "tail";
        let seen = pieces(16, &[line.as_bytes(), b"\n"]);
        assert_eq!(seen, [("x".repeat(15), false), ("étail".to_owned(), true)]);
    }

    #[test]
    fn broken_bytes_and_nuls_become_replacement_characters() {
        let seen = pieces(64, &[b"a\xFFb\0c\n"]);
        assert_eq!(seen, [("a\u{FFFD}b\u{FFFD}c".to_owned(), true)]);
    }

    #[test]
    fn a_secret_is_found_wherever_chunks_and_cuts_fall() {
        let token = format!("cs_{}", "0f".repeat(32));
        let secret = "sk-test-0123456789";
        let env = [("X_API_KEY".into(), secret.into())];
        let text = format!(
            "{}{token}{}{secret}{}\n",
            "x".repeat(300),
            "y".repeat(90),
            "z".repeat(200)
        );
        for limit in [200, 256, 331, 400, 1000] {
            for chunk in [1, 7, 64, 1000] {
                let mut splitter = Splitter::new(limit, Redactor::for_environment(&env));
                let mut seen = Vec::new();
                let mut take = |piece: LinePiece<'_>| seen.extend_from_slice(piece.raw);
                for part in text.as_bytes().chunks(chunk) {
                    splitter.push(part, &mut take);
                }
                splitter.finish(&mut take);
                let seen = String::from_utf8(seen).unwrap();
                let expected = text
                    .replace(&token, "[redacted]")
                    .replace(secret, "[redacted]");
                assert_eq!(seen, expected, "limit {limit}, chunks of {chunk}");
            }
        }
    }

    #[test]
    fn a_wrapped_or_coloured_secret_is_found_in_a_stream() {
        let secret = "sk-test-0123456789-abcdefghij";
        let env = [("X_API_KEY".into(), secret.into())];
        let coloured: Vec<String> = secret.chars().map(|c| format!("\u{1b}[1m{c}")).collect();
        let mut texts = vec![coloured.concat()];
        for width in 1..secret.len() {
            let lines: Vec<&str> = secret
                .as_bytes()
                .chunks(width)
                .map(|line| std::str::from_utf8(line).unwrap())
                .collect();
            texts.push(lines.join("\n"));
            texts.push(lines.join("\r\n  "));
            texts.push(lines.join("\u{1b}[0m\n\u{1b}[1m"));
        }
        for text in texts {
            let text = format!("first s\nkey {text}\nlast s");
            for chunk in [1, 7, 1000] {
                let mut splitter = Splitter::new(4096, Redactor::for_environment(&env));
                let mut seen = Vec::new();
                let mut take = |piece: LinePiece<'_>| seen.push(to_text(piece.raw));
                for part in text.as_bytes().chunks(chunk) {
                    splitter.push(part, &mut take);
                }
                splitter.finish(&mut take);
                let seen: Vec<String> = seen.iter().map(|line| findings::clean(line)).collect();
                assert_eq!(seen, ["first s", "key [redacted]", "last s"], "{text:?}");
            }
        }
    }

    #[test]
    fn lines_that_look_like_the_beginning_of_a_secret_do_not_pile_up() {
        let env = [("X_API_KEY".into(), "sssssssssssssssssssss!".into())];
        let mut splitter = Splitter::new(1 << 16, Redactor::for_environment(&env));
        let mut lines = 0;
        for _ in 0..10_000 {
            splitter.push(b"s\n", |_| lines += 1);
            assert!(splitter.kept.len() < 4096);
        }
        splitter.finish(|_| lines += 1);
        assert_eq!(lines, 10_000);
    }

    #[test]
    fn a_line_that_waits_for_the_next_can_be_asked_for() {
        let env = [("X_API_KEY".into(), "sk-test-0123456789".into())];
        let mut splitter = Splitter::new(4096, Redactor::for_environment(&env));
        let mut seen = Vec::new();
        let mut take = |piece: LinePiece<'_>| seen.push(to_text(piece.raw));
        splitter.push(b"running tests\npar", &mut take);
        assert!(!splitter.holds_line(), "the second line is not complete");
        splitter.push(b"ts\n", &mut take);
        assert!(splitter.holds_line(), "an `s` may begin the secret");
        splitter.finish(&mut take);
        assert!(!splitter.holds_line());
        assert_eq!(seen, ["running tests", "parts"]);
    }

    #[test]
    fn continuation_bytes_without_end_are_still_cut() {
        let seen = pieces(16, &[&[0x80; 40]]);
        assert_eq!(seen.len(), 3);
    }
}
