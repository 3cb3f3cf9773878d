//! Reads XML reports of Checkstyle and `JUnit`, in one pass over the text, without a tree.
//!
//! A general XML parser would bring entities that expand and files that are included. This one
//! knows tags, attributes and the usual entities, and follows nothing.

use std::borrow::Cow;

use super::degree::scale_word;
use super::draft::FindingDraft;
use super::locations;
use crate::clean::FINDINGS_MAX;
use crate::severity::Severity;
use crate::write::OWN_SEVERITY_KEY;

/// Reads a Checkstyle or `JUnit` report; `None` unless the whole text is one.
pub(super) fn drafts(input: &str) -> Option<Vec<FindingDraft>> {
    let root = ["<checkstyle", "<testsuites", "<testsuite"]
        .iter()
        .filter_map(|root| input.find(root))
        .min()?;
    // The root may stand behind a declaration or a few lines of a log.
    let report = &input[root..];
    if !is_preamble(&input[..root]) {
        return None;
    }
    let mut events = XmlEvents::new(report);
    let drafts = if report.starts_with("<checkstyle") {
        checkstyle(&mut events)
    } else {
        junit(&mut events)
    };
    // A truncated report without findings must not count as clean.
    let is_whole = events.depth == 0 && events.has_ended;
    let trailer = &report[report.len() - events.rest.len()..];
    (is_preamble(trailer) && (is_whole || !drafts.is_empty())).then_some(drafts)
}

/// Returns whether a text may be around a report: blanks, an XML declaration, a few log lines of
/// the tool. Prose that quotes a report is longer, or fences it.
fn is_preamble(text: &str) -> bool {
    let text = text.trim();
    // Prose around a report is a review that quotes it.
    text.len() <= 400 && !text.contains("```") && !text.lines().any(|line| line.starts_with('#'))
}

enum XmlEvent<'a> {
    Open { name: &'a str, tag: &'a str },
    Close { name: &'a str },
    Text(Cow<'a, str>),
}

/// Iterates over the tags and texts of a report.
struct XmlEvents<'a> {
    rest: &'a str,
    depth: usize,
    /// The root element was closed.
    has_ended: bool,
    /// Name of a self-closing tag, whose close event comes next.
    pending_close: Option<&'a str>,
}

impl<'a> XmlEvents<'a> {
    fn new(report: &'a str) -> Self {
        Self {
            rest: report,
            depth: 0,
            has_ended: false,
            pending_close: None,
        }
    }

    /// Takes everything up to and including `end`.
    fn take_past(&mut self, start: usize, end: &str) -> Option<&'a str> {
        let inner = self.rest.get(start..)?;
        let at = inner.find(end)?;
        self.rest = &inner[at + end.len()..];
        Some(&inner[..at])
    }

    fn close(&mut self, name: &'a str) -> XmlEvent<'a> {
        self.depth = self.depth.saturating_sub(1);
        // Trailing text after the root is left unread, and is judged as a trailer.
        self.has_ended = self.depth == 0;
        XmlEvent::Close { name }
    }
}

impl<'a> Iterator for XmlEvents<'a> {
    type Item = XmlEvent<'a>;

    fn next(&mut self) -> Option<XmlEvent<'a>> {
        if let Some(name) = self.pending_close.take() {
            return Some(self.close(name));
        }
        loop {
            if self.has_ended {
                return None;
            }
            if !self.rest.starts_with('<') {
                let end = self.rest.find('<')?;
                let (text, rest) = self.rest.split_at(end);
                self.rest = rest;
                return Some(XmlEvent::Text(decoded(text)));
            }
            if self.rest.starts_with("<!--") {
                self.take_past(4, "-->")?;
            } else if self.rest.starts_with("<![CDATA[") {
                // CDATA is taken as it is: entities in it are text.
                return self
                    .take_past(9, "]]>")
                    .map(|text| XmlEvent::Text(Cow::Borrowed(text)));
            } else if self.rest.starts_with("<?") || self.rest.starts_with("<!") {
                self.take_past(2, ">")?;
            } else if self.rest.starts_with("</") {
                let name = self.take_past(2, ">")?.trim();
                return Some(self.close(name));
            } else {
                let end = end_of_tag(self.rest)?;
                // The slash belongs to the tag's end and not to its last attribute.
                let tag = self.rest[1..end].trim_end_matches('/');
                let closes_itself = self.rest[..end].ends_with('/');
                self.rest = &self.rest[end + 1..];
                let name = tag.split_whitespace().next().unwrap_or_default();
                self.depth += 1;
                if closes_itself {
                    self.pending_close = Some(name);
                }
                return Some(XmlEvent::Open { name, tag });
            }
        }
    }
}

/// Finds the `>` that ends a tag; skips those inside the quotes of an attribute.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote: Option<u8> = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Returns the value of an attribute, with its entities decoded.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag.split_once(char::is_whitespace)?.1;
    loop {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        // An attribute without quotes is no XML. The rest of the tag is then not read.
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, rest_of_tag) = after[1..].split_once(quote)?;
        if key.trim() == name {
            return Some(decoded(value).into_owned());
        }
        rest = rest_of_tag;
    }
}

/// Maximum length of an entity, such as `&#x10FFFF;`.
const ENTITY_BYTES_MAX: usize = 12;

/// Decodes numeric and named entities; other text stays as it is.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest
            .bytes()
            .take(ENTITY_BYTES_MAX)
            .position(|byte| byte == b';');
        if let Some((c, end)) = end.and_then(|end| Some((entity(&rest[1..end])?, end))) {
            out.push(c);
            rest = &rest[end + 1..];
        } else {
            // A lone ampersand is common in hand-made reports.
            out.push('&');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code);
    }
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "hellip" => '…',
        "ndash" => '–',
        "mdash" => '—',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "laquo" => '«',
        "raquo" => '»',
        "rarr" => '→',
        "larr" => '←',
        _ => return None,
    };
    Some(c)
}

fn number(tag: &str, name: &str) -> Option<u32> {
    attribute(tag, name)
        .and_then(|line| line.trim().parse().ok())
        // Line 0 means "no line" in several tools.
        .filter(|&line| line > 0)
}

/// Reads `<file name="…"><error line="…" severity="…" message="…" source="…"/></file>`.
fn checkstyle(events: &mut XmlEvents<'_>) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let mut file: Option<String> = None;
    for event in events {
        match event {
            XmlEvent::Open { name: "file", tag } => {
                file = attribute(tag, "name").filter(|name| !name.is_empty());
            }
            XmlEvent::Close { name: "file" } => file = None,
            XmlEvent::Open { name: "error", tag } if drafts.len() < FINDINGS_MAX => {
                let Some(message) = attribute(tag, "message") else {
                    continue;
                };
                let source = attribute(tag, "source").filter(|source| !source.is_empty());
                drafts.push(FindingDraft {
                    file: file.clone(),
                    line: number(tag, "line"),
                    severity: attribute(tag, OWN_SEVERITY_KEY)
                        .or_else(|| attribute(tag, "severity")),
                    rule: source.filter(|source| source != OWN_SOURCE),
                    ..FindingDraft::from_message(&message)
                });
            }
            XmlEvent::Open { .. } | XmlEvent::Close { .. } | XmlEvent::Text(_) => {}
        }
    }
    drafts
}

/// Source of a finding without a rule in our own reports.
pub(crate) const OWN_SOURCE: &str = "countersign.review";

/// A test case that is being read.
#[derive(Default)]
struct JunitCase {
    name: String,
    file: Option<String>,
    line: Option<u32>,
    class: Option<String>,
    /// Message and type of its failure.
    failure: Option<(Option<String>, Option<String>)>,
    severity: Option<String>,
    text: String,
}

/// Reads `<testcase name="…" file="…" line="…"><failure message="…"
/// type="…">…</failure></testcase>`. A failed test is a finding; our own reports also have findings
/// that are not failures.
fn junit(events: &mut XmlEvents<'_>) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let mut case: Option<JunitCase> = None;
    let mut in_failure = false;
    for event in events {
        match event {
            XmlEvent::Open {
                name: "testcase",
                tag,
            } => {
                case = Some(JunitCase {
                    name: attribute(tag, "name").unwrap_or_default(),
                    file: attribute(tag, "file").filter(|file| !file.is_empty()),
                    line: number(tag, "line"),
                    class: attribute(tag, "classname"),
                    ..JunitCase::default()
                });
            }
            XmlEvent::Open {
                name: "failure" | "error",
                tag,
            } => {
                in_failure = true;
                if let Some(case) = &mut case {
                    case.failure = Some((attribute(tag, "message"), attribute(tag, "type")));
                }
            }
            XmlEvent::Open {
                name: "skipped", ..
            // Text of a skipped case is read away, so that it is not taken for something else.
            } => in_failure = true,
            XmlEvent::Close {
                name: "failure" | "error" | "skipped",
            } => in_failure = false,
            XmlEvent::Open {
                name: "property",
                tag,
            } if attribute(tag, "name").as_deref() == Some(OWN_SEVERITY_KEY) => {
                if let Some(case) = &mut case {
                    case.severity = attribute(tag, "value");
                }
            }
            XmlEvent::Text(text) if in_failure => {
                if let Some(case) = &mut case {
                    case.text.push_str(&text);
                }
            }
            XmlEvent::Close { name: "testcase" } if drafts.len() < FINDINGS_MAX => {
                drafts.extend(case.take().and_then(finding_of_case));
            }
            XmlEvent::Open { .. } | XmlEvent::Close { .. } | XmlEvent::Text(_) => {}
        }
    }
    drafts
}

fn finding_of_case(case: JunitCase) -> Option<FindingDraft> {
    let (message, kind) = match (case.failure, &case.severity) {
        (Some(failure), _) => failure,
        (None, Some(_)) => (None, None),
        (None, None) => return None,
    };
    let text = case.text.trim();
    let message = message.filter(|message| !message.trim().is_empty());
    let first = message
        .as_deref()
        // JUnit puts the message into the attribute, the body or both.
        .or_else(|| text.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or_default()
        .trim();
    let draft = if text.starts_with(case.name.as_str()) && case.severity.is_some() {
        FindingDraft::from_message(text)
    } else if first.is_empty() || first == case.name {
        FindingDraft {
            title: case.name,
            ..FindingDraft::default()
        }
    } else {
        let problem = (!text.is_empty() && text != first).then(|| text.to_owned());
        FindingDraft {
            title: format!("{}: {first}", case.name),
            problem,
            ..FindingDraft::default()
        }
    };
    let own_word = case
        .severity
        .or_else(|| kind.filter(|kind| scale_word(kind).is_some()));
    let class = case
        .class
        .as_deref()
        .map(locations::find_location)
        .unwrap_or_default();
    Some(FindingDraft {
        file: case.file.or(class.file),
        line: case.line,
        // A failed test without a rating is high: something does not work.
        degree: own_word.is_none().then_some(Severity::High),
        severity: own_word.or_else(|| Some("failure".to_owned())),
        ..draft
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_way_to_write_a_character_is_decoded(text in "[ -~àéß→漢🔥\n\t]{0,40}") {
            let named = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            let each = |write: fn(u32) -> String| {
                let encoded: Vec<String> = text.chars().map(|c| write(u32::from(c))).collect();
                encoded.concat()
            };
            let decimal = each(|code| format!("&#{code};"));
            let hex = each(|code| format!("&#x{code:X};"));
            for encoded in [named, decimal, hex] {
                proptest::prop_assert_eq!(decoded(&encoded).into_owned(), text.clone());
                let report = format!("<checkstyle><file name=\"a.rs\"><error line=\"2\" severity=\"error\" message=\"x{encoded}\"/></file></checkstyle>");
                let titles: Vec<String> = drafts(&report).unwrap_or_default().into_iter().map(|draft| draft.title).collect();
                proptest::prop_assert_eq!(titles.len(), 1);
                let expected = format!("x{text}");
                proptest::prop_assert!(expected.starts_with(&titles[0]));
            }
        }

        #[test]
        fn no_text_makes_the_reader_fail(text in "(<checkstyle|<testsuite|<file |<error |</|/>|>|<!--|-->|<!\\[CDATA\\[|\\]\\]>|message=|\"|'|&#|;|a| ){0,40}") {
            let _ = drafts(&text);
            let _ = drafts(&format!("<checkstyle>{text}"));
        }
    }

    #[test]
    fn a_quoted_report_is_no_report() {
        let report = "<checkstyle><file name=\"a\"><error message=\"m\"/></file></checkstyle>";
        assert!(drafts(report).is_some());
        assert!(drafts(&format!("I looked at it.\n\n```xml\n{report}\n```\n")).is_none());
        assert!(drafts(&format!("# Review\n\n{report}")).is_none());
        assert!(drafts(&format!("{report}\n\n# Verdict\n\nRequest changes\n")).is_none());
    }

    #[test]
    fn a_report_that_is_cut_off_is_not_clean() {
        let report = "<checkstyle><file name=\"a\"><error message=\"m > n\"/></file></checkstyle>";
        assert!(drafts("<checkstyle></checkstyle>").is_some_and(|drafts| drafts.is_empty()));
        assert!(drafts("<checkstyle/>").is_some_and(|drafts| drafts.is_empty()));
        for end in 11..report.len() {
            assert!(
                drafts(&report[..end]).is_none_or(|drafts| !drafts.is_empty()),
                "{end}"
            );
        }
    }

    #[test]
    fn a_test_that_fails_is_a_finding() {
        let report = "<?xml version=\"1.0\"?>\n<testsuites><testsuite name=\"t\"><testcase classname=\"tests/a.py\" name=\"test_a\" line=\"3\"><failure message=\"assert 1 &lt; 0\" type=\"AssertionError\">trace</failure></testcase><testcase name=\"ok\"/><testcase name=\"later\"><skipped message=\"slow\"/></testcase></testsuite></testsuites>";
        let drafts = drafts(report).unwrap_or_default();
        assert_eq!(drafts.len(), 1);
        assert_eq!(
            (
                drafts[0].title.as_str(),
                drafts[0].file.as_deref(),
                drafts[0].line,
                drafts[0].degree
            ),
            (
                "test_a: assert 1 < 0",
                Some("tests/a.py"),
                Some(3),
                Some(Severity::High)
            )
        );
    }
}
