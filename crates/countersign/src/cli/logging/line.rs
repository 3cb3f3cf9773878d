//! Writer behind both log formats. It masks secrets and escapes control characters in every line.
//!
//! The log is the last place where a secret can leak, and callers cannot be trusted to remember. A
//! line break in a field could forge a second line, so it is escaped too.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use engine::redact::Redactor;
use tracing_subscriber::fmt::MakeWriter;

/// Writes to standard error. The subscriber passes each line whole, in one call.
#[derive(Clone, Debug)]
pub struct LineWriter(Arc<Redactor>);

impl LineWriter {
    pub fn new(redactor: Redactor) -> Self {
        Self(Arc::new(redactor))
    }
}

impl MakeWriter<'_> for LineWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = clean(&self.0, line);
        // One write per line, under the lock, so that lines of two threads do not mix.
        io::stderr().lock().write_all(text.as_bytes())?;
        // The caller asks for its own bytes; a shorter count would make it write the rest again.
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// Returns one line without secrets. Hidden and control characters become JSON escapes, which are
/// valid in both formats.
fn clean(redactor: &Redactor, line: &[u8]) -> String {
    // Masked as bytes, before anything is escaped: an escape inside a secret would hide it from the
    // search.
    let masked = redactor.redact_bytes(line);
    let text = String::from_utf8_lossy(&masked);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if findings::is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, env: &[(&str, &str)]) -> String {
        let env: Vec<_> = env.iter().map(|(n, v)| (n.into(), v.into())).collect();
        clean(&Redactor::of_log(&env), text.as_bytes())
    }

    #[test]
    fn a_line_holds_no_control_character_but_its_end() {
        let text = "a\nb\tc\u{1b}[31m\r\u{202e}\u{9b}d\u{e0041}\n";
        let line = "a\\nb\\tc\\u001b[31m\\u000d\\u202e\\u009bd\\udb40\\udc41\n";
        assert_eq!(cleaned(text, &[]), line);
    }

    #[test]
    fn what_is_escaped_in_a_json_line_is_read_back() {
        let line = cleaned("{\"a\":\"x\u{202e}\u{9b}\u{e0041}\"}\n", &[]);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["a"], "x\u{202e}\u{9b}\u{e0041}");
    }

    #[test]
    fn tokens_credentials_and_passwords_in_addresses_are_masked() {
        let token = format!("cs_{}", "0a".repeat(32));
        let text = format!(
            "{token} Bearer abcdefghijkl postgres://ada:pa%20ss@db/x sk-very-secret https://x/y\n"
        );
        let line = cleaned(&text, &[("SOME_API_KEY", "sk-very-secret")]);
        assert_eq!(
            line,
            "[redacted] [redacted] postgres[redacted]db/x [redacted] https://x/y\n"
        );
    }
}
