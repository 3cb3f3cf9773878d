//! One name of a path against one part of a pattern, as git's own matcher does it: byte by byte.
//!
//! Bytes and not characters: a path of git is any sequence of bytes, and `?` means one of them. The
//! matcher never calls itself, so that no pattern can make it slow or deep.

/// One step of a pattern inside a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternToken {
    Byte(u8),
    /// `?`
    Any,
    /// `*`
    Star,
    /// `[a-z]`, `[!a-z]`
    Class {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

impl PatternToken {
    fn matches_byte(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::Any => true,
            Self::Star => false,
            Self::Class { negated, ranges } => {
                ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&byte))
                    != *negated
            }
        }
    }
}

/// The pattern split at its slashes. `None` where it can match nothing: a `[` without its end, or a
/// backslash with nothing behind it.
pub fn tokens(pattern: &[u8]) -> Option<Vec<Vec<PatternToken>>> {
    let mut segments = vec![Vec::new()];
    let mut rest = pattern;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let token = match first {
            b'/' => {
                segments.push(Vec::new());
                continue;
            }
            b'?' => PatternToken::Any,
            b'*' => PatternToken::Star,
            b'\\' => {
                let (&escaped, after) = rest.split_first()?;
                rest = after;
                // Git treats a quoted slash as a slash.
                if escaped == b'/' {
                    segments.push(Vec::new());
                    continue;
                }
                PatternToken::Byte(escaped)
            }
            b'[' => {
                let (class, after) = parse_class(rest)?;
                rest = after;
                class
            }
            byte => PatternToken::Byte(byte),
        };
        segments.last_mut()?.push(token);
    }
    Some(segments)
}

/// Splits off the text between `[` and `]`.
fn parse_class(text: &[u8]) -> Option<(PatternToken, &[u8])> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let mut rest = text.get(usize::from(negated)..)?;
    let mut ranges = Vec::new();
    let mut first = true;
    loop {
        if let Some(after) = rest.strip_prefix(b"[:")
            && let Some(end) = after.windows(2).position(|pair| pair == b":]")
        {
            // An unknown class name makes the whole pattern match nothing, as in git.
            ranges.extend(named_class(after.get(..end)?)?);
            rest = after.get(end + 2..)?;
            first = false;
            continue;
        }
        let (low, after) = parse_class_byte(rest)?;
        // A `]` right after the opening is a letter of the class.
        let closes = rest.first() == Some(&b']') && !first;
        if closes {
            return Some((PatternToken::Class { negated, ranges }, after));
        }
        first = false;
        rest = after;
        match rest {
            // A `-` before the closing bracket is a letter and no range.
            [b'-', next, ..] if *next != b']' => {
                let (high, after) = parse_class_byte(rest.get(1..)?)?;
                ranges.push((low, high));
                rest = after;
            }
            _ => ranges.push((low, low)),
        }
    }
}

/// One byte of a class, where a backslash quotes the next.
fn parse_class_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\'] | [] => None,
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
    }
}

fn named_class(name: &[u8]) -> Option<Vec<(u8, u8)>> {
    const LOWER: (u8, u8) = (b'a', b'z');
    const UPPER: (u8, u8) = (b'A', b'Z');
    const DIGIT: (u8, u8) = (b'0', b'9');
    Some(match name {
        b"alnum" => vec![LOWER, UPPER, DIGIT],
        b"alpha" => vec![LOWER, UPPER],
        b"blank" => vec![(b' ', b' '), (b'\t', b'\t')],
        b"cntrl" => vec![(0, 31), (127, 127)],
        b"digit" => vec![DIGIT],
        b"graph" => vec![(b'!', b'~')],
        b"lower" => vec![LOWER],
        b"print" => vec![(b' ', b'~')],
        b"punct" => vec![(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')],
        b"space" => vec![(b'\t', b'\r'), (b' ', b' ')],
        b"upper" => vec![UPPER],
        b"xdigit" => vec![DIGIT, (b'a', b'f'), (b'A', b'F')],
        _ => return None,
    })
}

/// On a mismatch the last star takes one byte more, so the work is bounded by the product of both
/// lengths.
pub fn matches_name(tokens: &[PatternToken], name: &[u8]) -> bool {
    let (mut at, mut seen, mut back) = (0, 0, None);
    while let Some(&byte) = name.get(seen) {
        match tokens.get(at) {
            Some(PatternToken::Star) => {
                back = Some((at, seen));
                at += 1;
            }
            Some(token) if token.matches_byte(byte) => {
                at += 1;
                seen += 1;
            }
            Some(_) | None => {
                let Some((star, taken)) = back else {
                    return false;
                };
                back = Some((star, taken + 1));
                at = star + 1;
                seen = taken + 1;
            }
        }
    }
    // An empty name is no name: `a//b` matches nothing.
    let mut rest = tokens.iter().skip(at);
    !name.is_empty() && rest.all(|token| *token == PatternToken::Star)
}
