//! Looks up keys in any spelling: `line_number`, `lineNumber` and `Line-Number` are the same.

use serde_json::{Map, Value};

pub(super) const TITLE: &[&str] = &[
    "title",
    "summary",
    "headline",
    "shortdescription",
    "issue",
    "finding",
    "problem",
    "message",
    "description",
    "issuetext",
    "text",
    "msg",
    "claim",
    "observation",
    "concern",
    "comment",
    "name",
    "subject",
    "topic",
    "what",
    "body",
    "content",
    "details",
    "detail",
    "question",
    "note",
    "reason",
    "evidence",
];
pub(super) const PROBLEM: &[&str] = &[
    "problem",
    "description",
    "details",
    "detail",
    "explanation",
    "message",
    "body",
    "comment",
    "issue",
    "content",
    "reasoning",
    "rationale",
    "analysis",
    "reason",
    "evidence",
    "verification",
    "text",
    "observation",
    "note",
];
pub(super) const IMPACT: &[&str] = &[
    "impact",
    "consequence",
    "consequences",
    "failurescenario",
    "exploitscenario",
    "attackscenario",
    "whyitmatters",
    "why",
    "risk",
    "effect",
    "scenario",
];
pub(super) const FIX: &[&str] = &[
    "fix",
    "suggestedfix",
    "suggestion",
    "requiredfix",
    "recommendedfix",
    "proposedfix",
    "fixsuggestion",
    "recommendation",
    "remediation",
    "requiredaction",
    "resolution",
    "solution",
    "howtofix",
    "suggestedchange",
    "requiredchange",
    "proposal",
    "action",
    "mitigation",
    "correction",
    "improvedcode",
    "fixexample",
];
pub(super) const FILE: &[&str] = &[
    "file",
    "filepath",
    "path",
    "filename",
    "relativepath",
    "relevantfile",
    "absolutefilepath",
    "sourcefile",
    "uri",
];
pub(super) const PLACE: &[&str] = &[
    "location",
    "where",
    "codelocation",
    "position",
    "loc",
    "locations",
    "files",
    "filerefs",
    "source",
    "range",
    "lines",
    "span",
    "reference",
    "references",
    "at",
];
pub(super) const LINE: &[&str] = &[
    "linestart",
    "startline",
    "beginline",
    "firstline",
    "line",
    "linenumber",
    "lineno",
    "row",
    "line1",
];
pub(super) const LINE_RANGE: &[&str] = &[
    "linerange",
    "lines",
    "range",
    "linenumbers",
    "start",
    "begin",
    "positions",
];
pub(super) const END_LINE: &[&str] = &[
    "endline",
    "lineend",
    "endrow",
    "endlineno",
    "lastline",
    "lineto",
];
pub(super) const SEVERITY: &[&str] = &[
    "severity",
    "issueseverity",
    "severitylevel",
    "risklevel",
    "level",
    "priority",
    "importance",
    "criticality",
    "rating",
    "classification",
    "label",
    "tier",
    "impactlevel",
    "risk",
];
pub(super) const CATEGORY: &[&str] = &[
    "category",
    "categories",
    "kind",
    "area",
    "type",
    "tag",
    "tags",
];
pub(super) const RULE: &[&str] = &[
    "ruleid",
    "checkname",
    "checkid",
    "testid",
    "rule",
    "code",
    "symbol",
    "messageid",
];
pub(super) const ANCHOR: &[&str] = &[
    "snippet",
    "codesnippet",
    "anchor",
    "existingcode",
    "quote",
    "offendingcode",
    "quotedcode",
    "evidencesnippet",
];
pub(super) const CONFIDENCE: &[&str] = &[
    "confidence",
    "confidencescore",
    "issueconfidence",
    "certainty",
];

/// Folds a key to lower case without separators.
pub(super) fn fold(key: &str) -> String {
    key.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the value of the first of `names` that the object has and that is not empty.
pub(super) fn get<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    find(object, names).map(|(_, value)| value)
}

pub(super) fn find<'a>(
    object: &'a Map<String, Value>,
    names: &[&str],
) -> Option<(&'a str, &'a Value)> {
    names.iter().find_map(|name| {
        let mut entries = object.iter().take(KEYS_MAX);
        entries
            .find(|(key, value)| is_key(key, name) && !is_empty(value))
            .map(|(key, value)| (key.as_str(), value))
    })
}

/// Maximum number of keys of one object that are searched.
const KEYS_MAX: usize = 256;

/// Returns whether a key, folded, is this name.
fn is_key(key: &str, name: &str) -> bool {
    let mut letters = key
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase);
    name.chars()
        .all(|expected| letters.next() == Some(expected))
        && letters.next().is_none()
}

/// Returns the first of `names` that has text.
pub(super) fn text(object: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names
        .iter()
        .find_map(|name| get(object, &[name]).and_then(as_text))
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Array(items) => {
            let lines: Vec<String> = items
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            (!lines.is_empty()).then(|| lines.join("\n"))
        }
        Value::Object(object) => object
            .get("text")
            .or_else(|| object.get("message"))
            .or_else(|| object.get("description"))
            .and_then(Value::as_str)
            .map(str::to_owned),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Reads a number, also one written as text.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
