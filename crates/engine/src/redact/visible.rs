//! Shows bytes as a person would read them, to find a secret that was printed with something in
//! between: colour codes, invisible characters, line breaks of a terminal, frames around a text,
//! escapes of JSON or C, percent escapes. Every character of a view knows its place in the
//! original, so that exactly that part can be masked.

use std::ops::Range;

use findings::for_each_visible;

/// Levels of escapes that are undone: JSON inside of JSON is common, deeper is not.
const ESCAPE_LEVELS: usize = 2;
/// Stands for a byte that is no UTF-8. Cleaning removes it like any other control character.
const INVALID: char = '\u{1}';

/// A character with the first and the last position of its bytes.
#[derive(Clone, Copy)]
struct PlacedChar {
    from: u32,
    to: u32,
    c: char,
}

/// Bytes without anything that only separates them, each with its place in the original.
#[derive(Debug, Default)]
pub(super) struct VisibleText {
    pub bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

impl VisibleText {
    /// Returns the part of the original that a part of this view shows.
    pub fn original(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let from = self.places.get(part.start)?.0;
        let to = self.places.get(part.end.checked_sub(1)?)?.1;
        Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    }

    fn push(&mut self, c: char, from: u32, to: u32) {
        let mut buffer = [0; 4];
        for byte in c.encode_utf8(&mut buffer).bytes() {
            self.bytes.push(byte);
            self.places.push((from, to));
        }
    }
}

/// Returns the ways to read the bytes: as they are, with escapes undone once and twice, and with
/// percent escapes undone. The caller limits the length.
pub(super) fn views(bytes: &[u8]) -> Vec<VisibleText> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let has_escapes = bytes.contains(&b'\\') || bytes.contains(&b'%');
    if !has_escapes && bytes.iter().all(is_plain) {
        return vec![without_spaces(bytes)];
    }
    let mut chars = decode(bytes);
    let mut all = vec![squeeze(&chars)];
    if chars.iter().any(|placed| placed.c == '%') {
        all.push(squeeze(&undo_percent(&chars)));
    }
    for _ in 0..ESCAPE_LEVELS {
        if !chars.iter().any(|placed| placed.c == '\\') {
            break;
        }
        chars = undo_escapes(&chars);
        all.push(squeeze(&chars));
    }
    all
}

fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The common case of plain ASCII, without a detour over characters.
fn without_spaces(bytes: &[u8]) -> VisibleText {
    let mut view = VisibleText::default();
    for (at, byte) in bytes.iter().enumerate() {
        if !separates(char::from(*byte)) {
            view.bytes.push(*byte);
            view.places.push((place(at), place(at + 1)));
        }
    }
    view
}

fn decode(bytes: &[u8]) -> Vec<PlacedChar> {
    let mut chars = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let to = at + c.len_utf8();
            chars.push(PlacedChar {
                from: place(at),
                to: place(to),
                c,
            });
            at = to;
        }
        for _ in chunk.invalid() {
            chars.push(PlacedChar {
                from: place(at),
                to: place(at + 1),
                c: INVALID,
            });
            at += 1;
        }
    }
    chars
}

/// Removes what cleaning removes, and everything that only separates: spaces, line breaks, frames.
fn squeeze(chars: &[PlacedChar]) -> VisibleText {
    let mut text = String::with_capacity(chars.len());
    let mut places = Vec::with_capacity(chars.len());
    for placed in chars {
        text.push(placed.c);
        places.resize(text.len(), (placed.from, placed.to));
    }
    let mut view = VisibleText::default();
    for_each_visible(&text, |at, c| {
        if let (false, Some((from, to))) = (separates(c), places.get(at)) {
            view.push(c, *from, *to);
        }
    });
    view
}

/// Returns whether a character only separates: spaces, line breaks, and the frames and quotation
/// marks that are drawn around wrapped text.
pub(super) fn separates(c: char) -> bool {
    c.is_whitespace() || matches!(c, '|' | '>' | '\u{2500}'..='\u{257f}' | '\u{fffd}')
}

/// Undoes `%2D`, for any choice of escaped characters.
fn undo_percent(chars: &[PlacedChar]) -> Vec<PlacedChar> {
    undo(chars, |rest| match rest {
        [first, digits @ ..] if first.c == '%' => hex_char(digits, 2).map(|c| (c, 3)),
        _ => None,
    })
}

/// Undoes the escapes of JSON and C strings: `\n`, `\/`, `\u001b`, `\x2d`.
fn undo_escapes(chars: &[PlacedChar]) -> Vec<PlacedChar> {
    undo(chars, |rest| match rest {
        [first, kind, digits @ ..] if first.c == '\\' => match kind.c {
            'n' | 'r' | 't' | 'f' | 'v' => Some(('\n', 2)),
            'b' | 'a' => Some((INVALID, 2)),
            'e' => Some(('\u{1b}', 2)),
            '"' | '\'' | '\\' | '/' => Some((kind.c, 2)),
            'u' => hex_char(digits, 4).map(|c| (c, 6)),
            'x' => hex_char(digits, 2).map(|c| (c, 4)),
            _ => None,
        },
        _ => None,
    })
}

/// Replaces each part that `read` recognises by the character that it stands for.
fn undo(
    chars: &[PlacedChar],
    read: impl Fn(&[PlacedChar]) -> Option<(char, usize)>,
) -> Vec<PlacedChar> {
    let mut out = Vec::with_capacity(chars.len());
    let mut at = 0;
    while let Some(rest) = chars.get(at..).filter(|rest| !rest.is_empty()) {
        let (c, length) = read(rest).unwrap_or((rest[0].c, 1));
        let to = rest.get(length - 1).map_or(rest[0].to, |last| last.to);
        out.push(PlacedChar {
            from: rest[0].from,
            to,
            c,
        });
        at += length;
    }
    out
}

fn hex_char(digits: &[PlacedChar], count: usize) -> Option<char> {
    let mut digits = digits.get(..count)?.iter();
    let number = digits.try_fold(0, |sum, placed| Some(sum * 16 + placed.c.to_digit(16)?));
    // Half of a surrogate pair is no character; no secret contains one.
    number.map(|number| char::from_u32(number).unwrap_or(INVALID))
}
