//! XML of Checkstyle and `JUnit`, which most build servers read.

use std::fmt::Write;

use super::{FindingEntry, OWN_SEVERITY_KEY, machine::message};
use crate::finding::Finding;
use crate::read::OWN_SOURCE;
use crate::severity::Severity;

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// Writes a Checkstyle report: findings by file, in the order in which the files first occur.
pub fn checkstyle(entries: &[FindingEntry<'_>]) -> String {
    let mut files: Vec<&str> = Vec::new();
    for entry in entries {
        let file = entry.finding.file.as_deref().unwrap_or_default();
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let mut out = format!("{DECLARATION}<checkstyle version=\"8.0\">\n");
    for file in files {
        let _ = writeln!(out, "  <file name=\"{}\">", escaped(file));
        let in_file = entries
            .iter()
            .filter(|entry| entry.finding.file.as_deref().unwrap_or_default() == file);
        for entry in in_file {
            write_error(&mut out, entry.finding);
        }
        out.push_str("  </file>\n");
    }
    out.push_str("</checkstyle>\n");
    out
}

fn write_error(out: &mut String, finding: &Finding) {
    let level = match finding.rating.severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Suggestion => "info",
    };
    let line = finding
        .line
        .map(|line| format!(" line=\"{line}\""))
        .unwrap_or_default();
    let _ = writeln!(
        out,
        "    <error{line} severity=\"{level}\" message=\"{}\" source=\"{}\" {OWN_SEVERITY_KEY}=\"{}\"/>",
        escaped(&message(finding)),
        escaped(finding.rule.as_deref().unwrap_or(OWN_SOURCE)),
        finding.rating.severity.word(),
    );
}

/// Writes a `JUnit` report with a test case for each finding. Must-fix findings fail and the others
/// are skipped, so that a build is red exactly if a fix is required.
pub fn junit(suite: &str, entries: &[FindingEntry<'_>]) -> String {
    let failures = entries
        .iter()
        .filter(|entry| entry.finding.rating.severity.is_must_fix())
        .count();
    let skipped = entries.len() - failures;
    let tests = entries.len().max(1);
    let name = escaped(suite);
    let mut out = format!(
        "{DECLARATION}<testsuites tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">\n  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n"
    );
    for entry in entries {
        write_case(&mut out, &name, entry.finding);
    }
    // Some servers treat a report without a test as broken.
    if entries.is_empty() {
        let _ = writeln!(out, "    <testcase classname=\"{name}\" name=\"review\"/>");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn write_case(out: &mut String, suite: &str, finding: &Finding) {
    let title = escaped(&finding.title);
    let severity = finding.rating.severity;
    let file = finding
        .file
        .as_deref()
        .map(|file| format!(" file=\"{}\"", escaped(file)))
        .unwrap_or_default();
    let line = finding
        .line
        .map(|line| format!(" line=\"{line}\""))
        .unwrap_or_default();
    let (tag, kind) = if severity.is_must_fix() {
        ("failure", format!(" type=\"{}\"", severity.word()))
    } else {
        ("skipped", String::new())
    };
    let _ = writeln!(
        out,
        "    <testcase classname=\"{suite}\" name=\"{title}\"{file}{line}>\n      <properties><property name=\"{OWN_SEVERITY_KEY}\" value=\"{}\"/></properties>\n      <{tag} message=\"{title}\"{kind}>{}</{tag}>\n    </testcase>",
        severity.word(),
        escaped(&message(finding)),
    );
}

/// Escapes text for an attribute or an element; leaves out characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c < ' ' => {}
            c => out.push(c),
        }
    }
    out
}
