//! Reads JSON that a strict parser refuses: byte-order mark, comments, single quotes, bare keys,
//! trailing or missing commas, raw line ends and stray quotes in strings, a truncated end.
//!
//! It never goes back in the text, so it takes linear time, and its nesting depth is limited.
//!
//! Agents write JSON by hand, and a review must not be lost for a comma. Each repair is reported,
//! because an approval that needed one is worth less: a doubled key, a comment or a cut end makes it
//! doubtful.

use serde_json::{Map, Number, Value};

// The parser calls itself once per level, and the text is untrusted.
const DEPTH_MAX: u32 = 64;

pub(super) struct LenientJson {
    pub value: Value,
    /// The text ended before the value did.
    pub cut_off: bool,
    /// Length of the value in bytes.
    pub taken: usize,
    /// An object has a duplicate key.
    pub doubled: bool,
    /// The value has comments.
    pub commented: bool,
}

/// Reads one object or array at the start of the text.
pub(super) fn parse(text: &str) -> Option<LenientJson> {
    let mut parser = LenientParser {
        text,
        at: 0,
        cut_off: false,
        doubled: false,
        commented: false,
    };
    parser.skip_blank();
    if !matches!(parser.peek(), Some('{' | '[')) {
        return None;
    }
    let value = parser.value(0)?;
    Some(LenientJson {
        value,
        cut_off: parser.cut_off,
        taken: parser.at,
        doubled: parser.doubled,
        commented: parser.commented,
    })
}

struct LenientParser<'a> {
    text: &'a str,
    at: usize,
    cut_off: bool,
    doubled: bool,
    commented: bool,
}

impl LenientParser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip_while(&mut self, condition: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !condition(c)).unwrap_or(rest.len());
    }

    fn skip_blank(&mut self) {
        loop {
            self.skip_while(|c| c.is_whitespace() || c == '\u{feff}');
            let rest = &self.text[self.at..];
            self.commented |= rest.starts_with("//") || rest.starts_with("/*");
            if rest.starts_with("//") {
                self.skip_while(|c| c != '\n');
            } else if rest.starts_with("/*") {
                // An open comment runs to the end of the text.
                self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    fn value(&mut self, depth: u32) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_blank();
        match self.peek() {
            // The text ends where a value should begin.
            None => {
                self.cut_off = true;
                Some(Value::Null)
            }
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some(quote @ ('"' | '\'')) => Some(Value::String(self.string(quote))),
            Some(_) => Some(self.bare()),
        }
    }

    fn object(&mut self, depth: u32) -> Option<Value> {
        self.next();
        let mut object = Map::new();
        loop {
            self.skip_blank();
            match self.peek() {
                None => {
                    self.cut_off = true;
                    return Some(Value::Object(object));
                }
                Some('}') => {
                    self.next();
                    return Some(Value::Object(object));
                }
                // A semicolon is a comma that was mistyped.
                Some(',' | ';') => {
                    self.next();
                }
                // A missing brace: the list around this object goes on.
                Some(']') => return Some(Value::Object(object)),
                Some(_) => {
                    let key = self.key()?;
                    let value = self.value(depth + 1)?;
                    self.doubled |= !super::duplicate_keys::insert(&mut object, key, value);
                }
            }
        }
    }

    fn key(&mut self) -> Option<String> {
        let key = if let quote @ ('"' | '\'') = self.peek()? {
            self.string(quote)
        } else {
            let start = self.at;
            self.skip_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '.'));
            self.text[start..self.at].to_owned()
        };
        self.skip_blank();
        match self.peek() {
            Some(':' | '=') => {
                self.next();
                Some(key)
            }
            None => {
                self.cut_off = true;
                Some(key)
            }
            Some(_) => None,
        }
    }

    fn array(&mut self, depth: u32) -> Option<Value> {
        self.next();
        let mut items = Vec::new();
        loop {
            self.skip_blank();
            match self.peek() {
                None => {
                    self.cut_off = true;
                    return Some(Value::Array(items));
                }
                Some(']') => {
                    self.next();
                    return Some(Value::Array(items));
                }
                Some(',' | ';') => {
                    self.next();
                }
                // The same for a missing bracket. A colon means that this was an object.
                Some('}' | ':') => return Some(Value::Array(items)),
                Some(_) => items.push(self.value(depth + 1)?),
            }
        }
    }

    fn string(&mut self, quote: char) -> String {
        self.next();
        let mut out = String::new();
        loop {
            match self.next() {
                None => {
                    self.cut_off = true;
                    return out;
                }
                Some('\\') => self.escape(&mut out),
                // A quote in the middle of a text is written without its backslash at times.
                Some(c) if c == quote && self.ends_here() => return out,
                Some(c) => out.push(c),
            }
        }
    }

    /// Returns whether a quote ends its string: only if JSON could continue after it.
    fn ends_here(&self) -> bool {
        let rest = self.text[self.at..].trim_start();
        rest.is_empty()
            // A quote before a comma is ambiguous. It is taken as the end, which is right for sound
            // JSON.
            || rest.starts_with([',', ':', '}', ']', '/'])
            || self.text[self.at..]
                .trim_start_matches([' ', '\t', '\r'])
                .starts_with('\n')
    }

    fn escape(&mut self, out: &mut String) {
        match self.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            // Neither has a meaning in a text that is shown.
            Some('b' | 'f') => out.push(' '),
            Some('u') => out.push(self.unicode()),
            Some(c) => out.push(c),
            None => self.cut_off = true,
        }
    }

    fn unicode(&mut self) -> char {
        let first = self.hex();
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let second = self.hex();
            let joined = 0x10000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff);
            return char::from_u32(joined).unwrap_or('\u{fffd}');
        }
        char::from_u32(first).unwrap_or('\u{fffd}')
    }

    fn hex(&mut self) -> u32 {
        // `get` refuses a cut inside a character.
        let digits = self.text.get(self.at..self.at + 4).unwrap_or_default();
        match u32::from_str_radix(digits, 16) {
            Ok(code) => {
                self.at += 4;
                code
            }
            // A broken escape costs one replacement character and not the whole answer.
            Err(_) => 0xfffd,
        }
    }

    fn bare(&mut self) -> Value {
        let start = self.at;
        self.skip_while(|c| !matches!(c, ',' | ':' | '}' | ']' | '{' | '[' | '\n' | '"' | '\''));
        // At least one character is taken, so that the loop ends.
        if self.at == start {
            self.next();
        }
        let word = self.text[start..self.at].trim();
        match word {
            "true" | "True" | "TRUE" => Value::Bool(true),
            "false" | "False" | "FALSE" => Value::Bool(false),
            // Words of Python, JavaScript and Ruby for the same thing.
            "null" | "None" | "undefined" | "nil" | "NaN" => Value::Null,
            word => number(word).map_or_else(|| Value::String(word.to_owned()), Value::Number),
        }
    }
}

fn number(word: &str) -> Option<Number> {
    word.parse::<i64>()
        .map(Number::from)
        .ok()
        .or_else(|| word.parse().ok().and_then(Number::from_f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        parse(text).map_or(Value::Null, |lenient| lenient.value)
    }

    #[test]
    fn what_strict_readers_refuse_is_read() {
        let expected = serde_json::json!({"a": ["x\ny", 2], "b": true});
        assert_eq!(
            read("\u{feff}{\"a\": [\"x\ny\", 2,], // why\n 'b': True,}"),
            expected
        );
        assert_eq!(read("{a: ['x\\ny', 2] /* c */ b: true"), expected);
        assert_eq!(
            read(r#"{"t": "say "no" twice", "n": 1}"#),
            serde_json::json!({"t": "say \"no\" twice", "n": 1})
        );
    }

    #[test]
    fn a_cut_off_document_keeps_what_came_before_the_cut() {
        let cut =
            parse(r#"[{"file": "a.rs", "line": 3}, {"file": "b.r"#).map(|l| (l.value, l.cut_off));
        assert_eq!(
            cut,
            Some((
                serde_json::json!([{"file": "a.rs", "line": 3}, {"file": "b.r"}]),
                true
            ))
        );
    }

    #[test]
    fn surrogate_pairs_and_broken_escapes_do_not_break_it() {
        assert_eq!(
            read(r#"["\ud83d\ude00 \q \u12"]"#),
            serde_json::json!(["😀 q \u{fffd}12"])
        );
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        assert!(parse(&"[".repeat(100_000)).is_none());
    }
}
