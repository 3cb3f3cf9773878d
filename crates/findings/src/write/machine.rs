//! Formats that other tools read: rdjson, GitLab code quality, GitHub workflow commands and the QA
//! list of findings.

use serde_json::{Map, Value, json};

use super::{FindingEntry, OWN_SEVERITY, OWN_SEVERITY_KEY};
use crate::finding::Finding;
use crate::fingerprint::fingerprint;
use crate::severity::Severity;

/// Writes reviewdog's rdjson.
pub fn rdjson(source: &str, entries: &[FindingEntry<'_>]) -> Value {
    json!({"source": {"name": source}, "diagnostics": entries.iter().map(|entry| diagnostic(entry.finding)).collect::<Vec<_>>()})
}

/// Writes reviewdog's rdjsonl: one diagnostic per line.
pub fn rdjsonl(entries: &[FindingEntry<'_>]) -> String {
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| diagnostic(entry.finding).to_string())
        .collect();
    lines.join("\n") + "\n"
}

fn diagnostic(finding: &Finding) -> Value {
    let mut location = json!({"path": finding.file.as_deref().unwrap_or_default()});
    if let Some(line) = finding.line {
        location["range"] = json!({"start": {"line": line}});
        if let Some(end) = finding.end_line {
            location["range"]["end"] = json!({"line": end});
        }
    }
    let severity = finding.rating.severity;
    let mut value = json!({
        "message": message(finding),
        "location": location,
        "severity": rdjson_severity(severity),
        "original_output": format!("{OWN_SEVERITY}{}", severity.word()),
    });
    if let Some(rule) = &finding.rule {
        value["code"] = json!({"value": rule});
    }
    value
}

fn rdjson_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "ERROR",
        Severity::Medium => "WARNING",
        Severity::Low | Severity::Suggestion => "INFO",
    }
}

/// Joins the title, problem, impact and fix as plain text.
pub(super) fn message(finding: &Finding) -> String {
    let mut text = finding.title.clone();
    let parts = [
        ("", &finding.problem),
        ("Impact: ", &finding.impact),
        ("Fix: ", &finding.fix),
    ];
    for (label, part) in parts {
        if let Some(part) = part {
            text.push_str("\n\n");
            text.push_str(label);
            text.push_str(part);
        }
    }
    text
}

/// Writes GitLab's code quality report. It requires a path and a line: a finding without a line
/// gets line 1, one without a file gets the repository's root.
pub fn gitlab(entries: &[FindingEntry<'_>]) -> Value {
    Value::Array(entries.iter().map(|entry| quality(entry.finding)).collect())
}

fn quality(finding: &Finding) -> Value {
    let mut lines = Map::new();
    lines.insert("begin".to_owned(), json!(finding.line.unwrap_or(1)));
    if let Some(end) = finding.end_line {
        lines.insert("end".to_owned(), json!(end));
    }
    json!({
        "type": "issue",
        "description": finding.title,
        "check_name": finding.rule.as_deref().or(finding.category.map(crate::Category::word)).unwrap_or("review"),
        "content": {"body": message(finding)},
        "fingerprint": fingerprint(finding),
        "severity": gitlab_severity(finding.rating.severity),
        OWN_SEVERITY_KEY: {"severity": finding.rating.severity.word(), "line": finding.line},
        "location": {"path": finding.file.as_deref().unwrap_or("."), "lines": lines},
    })
}

/// Returns GitLab's word by our own meaning of it, so that a report that we read back has the same
/// must-fix findings.
fn gitlab_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::High => "major",
        Severity::Medium | Severity::Low => "minor",
        Severity::Suggestion => "info",
    }
}

/// Writes `::error file=…,line=…,title=…::…`, which a GitHub runner shows at the line.
pub fn workflow_commands(entries: &[FindingEntry<'_>]) -> String {
    entries.iter().map(|entry| command(entry.finding)).collect()
}

fn command(finding: &Finding) -> String {
    let level = match finding.rating.severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Suggestion => "notice",
    };
    let line = finding.line.map(|line| line.to_string());
    let end = finding.end_line.map(|line| line.to_string());
    let pairs = [
        ("file", finding.file.as_deref()),
        ("line", line.as_deref()),
        ("endLine", end.as_deref()),
        (OWN_SEVERITY_KEY, Some(finding.rating.severity.word())),
        ("title", Some(finding.title.as_str())),
    ];
    let keys: Vec<String> = pairs
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", property((*value)?))))
        .collect();
    let whole = message(finding);
    let body = whole
        .strip_prefix(finding.title.as_str())
        .map(str::trim_start)
        .filter(|body| !body.is_empty())
        .unwrap_or(&finding.title);
    format!("::{level} {}::{}\n", keys.join(","), data(body))
}

fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Writes the QA list: `file`, `line_number`, `severity`, `description`, `suggested_fix`,
/// `category`.
pub fn qa_findings(entries: &[FindingEntry<'_>]) -> Value {
    Value::Array(
        entries
            .iter()
            .map(|entry| {
                let finding = entry.finding;
                json!({
                    "file": finding.file,
                    "line_number": finding.line,
                    "severity": finding.rating.severity.word().to_uppercase(),
                    "description": super::checklist::issue(entry),
                    "suggested_fix": finding.fix,
                    "category": finding.category.map(qa_category),
                })
            })
            .collect(),
    )
}

/// Returns the category of the QA list, which has six of our nine.
fn qa_category(category: crate::Category) -> &'static str {
    use crate::Category as C;
    match category {
        C::Security | C::Correctness | C::Performance | C::Readability | C::Testing => {
            category.word()
        }
        C::Requirements | C::Coordination => "correctness",
        C::Patterns | C::BestPractices => "best_practices",
    }
}
