//! Splits output into lines and writes the transcript.
//!
//! Memory stays bounded for any input: a line longer than the limit is passed on in pieces, and
//! the transcript stops growing at its cap.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::private_files;
use crate::redact::Redactor;

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
            limit: limit.max(16),
            redactor,
        }
    }

    /// Returns the splitters for both streams of a program with this environment.
    pub fn pair(limit: usize, env: &[(OsString, OsString)]) -> [Self; 2] {
        let redactor = Redactor::for_environment(env);
        [redactor.clone(), redactor].map(|redactor| Self::new(limit, redactor))
    }

    pub fn push(&mut self, mut bytes: &[u8], mut emit: impl FnMut(LinePiece<'_>)) {
        while !bytes.is_empty() {
            let room = self.limit.saturating_sub(self.kept.len());
            let window = &bytes[..bytes.len().min(room)];
            if let Some(end) = window.iter().position(|&byte| byte == b'\n') {
                self.kept.extend_from_slice(&window[..=end]);
                emit(LinePiece {
                    raw: &self.redactor.redact_bytes(&self.kept),
                    whole: true,
                });
                self.kept.clear();
                bytes = &bytes[end + 1..];
            } else {
                self.kept.extend_from_slice(window);
                bytes = &bytes[window.len()..];
                if self.kept.len() >= self.limit {
                    self.cut(&mut emit);
                }
            }
        }
    }

    /// Emits the rest at the end of the stream.
    pub fn finish(&mut self, emit: impl FnOnce(LinePiece<'_>)) {
        if !self.kept.is_empty() {
            emit(LinePiece {
                raw: &self.redactor.redact_bytes(&self.kept),
                whole: true,
            });
            self.kept.clear();
        }
    }

    fn cut(&mut self, emit: &mut impl FnMut(LinePiece<'_>)) {
        let mut pending = self.redactor.redact_bytes(&self.kept).into_owned();
        // The piece may end within a secret: keep that many bytes until more have been read.
        let back = self.redactor.longest_secret().min(pending.len() / 2);
        let end = pending.len() - back;
        let end = end - unfinished_character(&pending[..end]);
        emit(LinePiece {
            raw: &pending[..end],
            whole: false,
        });
        pending.drain(..end);
        self.kept = pending;
    }
}

/// Returns the number of bytes at the end that belong to an incomplete character.
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
            file: Some(private_files::create(path)?),
            room: cap,
            cut: false,
            error: None,
        })
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else {
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
    fn continuation_bytes_without_end_are_still_cut() {
        let seen = pieces(16, &[&[0x80; 40]]);
        assert_eq!(seen.len(), 3);
    }
}
