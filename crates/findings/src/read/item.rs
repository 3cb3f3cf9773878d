//! Reads one finding from a JSON object or from a string in a JSON list.

mod location;

pub(super) use location::location_of;

use serde_json::{Map, Value};

use crate::severity::{Severity, is_no_severity};

use super::confidence;
use super::draft::FindingDraft;
use super::keys;
use super::locations;

/// Reads an object as a finding. It needs a text, and a location or a severity; in a list that is
/// named as one of findings, a text is enough.
pub(super) fn draft_from_object(object: &Map<String, Value>, listed: bool) -> Option<FindingDraft> {
    let (title_key, title) = title(object)?;
    let place = location_of(object, 0);
    let (title, label) = without_label(&title);
    let severity = severity(object).or(label);
    let has_detail = place.file.is_some() || severity.is_some();
    let holds_list = object.iter().any(|(key, value)| {
        value
            .as_array()
            .is_some_and(|items| items.iter().any(Value::is_object))
            && !matches!(
                keys::fold(key).as_str(),
                "locations"
                    | "files"
                    | "references"
                    | "suggestions"
                    | "evidence"
                    | "fixes"
                    | "related"
                    | "relatedlocations"
                    | "children"
                    | "spans"
            )
    });
    if holds_list || !(has_detail || listed) || is_envelope(object) || is_rated_as_nothing(object) {
        return None;
    }
    let rest: Map<String, Value> = object
        .iter()
        .filter(|(key, _)| **key != title_key)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let settled = keys::text(&rest, &["status", "state", "disposition", "resolution"])
        .is_some_and(|status| is_settled(&status));
    let no_action = keys::text(&rest, &["action", "actionrequired"])
        .is_some_and(|action| is_no_action(&action));
    Some(FindingDraft {
        title: title.clone(),
        problem: problem(&rest, &title),
        impact: keys::text(&rest, keys::IMPACT)
            .filter(|text| Severity::from_word(text).is_none() || text.len() > 24),
        fix: keys::text(&rest, keys::FIX).filter(|text| !is_no_action(text)),
        file: place.file,
        line: place.line,
        end_line: place.end_line,
        severity,
        category: keys::text(&rest, keys::CATEGORY),
        dimension: keys::text(&rest, &["dimension"]),
        confidence: keys::get(&rest, keys::CONFIDENCE).and_then(confidence::of_value),
        rule: keys::get(&rest, keys::RULE).and_then(rule),
        anchor: keys::text(&rest, keys::ANCHOR).or_else(|| place_anchor(&rest)),
        idle: settled || no_action,
        ..FindingDraft::default()
    })
}

/// Splits a title into the text and its severity label: `[P1] …`, `**[High]** …`, `nit: …`.
fn without_label(title: &str) -> (String, Option<String>) {
    match super::label::leading_label(title) {
        Some(label)
            if !label.rest.trim().is_empty() && label.raw.chars().any(char::is_alphanumeric) =>
        {
            (label.rest.trim().to_owned(), Some(label.raw))
        }
        _ => (title.to_owned(), None),
    }
}

/// Returns whether the severity field means that there is no problem: `"severity": "clean"`.
pub(super) fn is_rated_as_nothing(object: &Map<String, Value>) -> bool {
    keys::get(object, &["severity", "issueseverity", "severitylevel"])
        .and_then(Value::as_str)
        .is_some_and(is_no_severity)
}

/// Returns whether the object is a report or a message with a verdict, and so not a finding.
fn is_envelope(object: &Map<String, Value>) -> bool {
    [
        "verdict",
        "approved",
        "decision",
        "feedback",
        "overallscore",
        "findings",
        "issues",
    ]
    .iter()
    .any(|name| keys::get(object, &[name]).is_some())
        || keys::get(object, &["findings", "issues"]).is_some()
}

/// Reads a finding that is a plain sentence in a list.
pub(super) fn draft_from_text(
    text: &str,
    severity: Option<&str>,
    file: Option<&str>,
) -> FindingDraft {
    let label = super::label::leading_label(text);
    let body = label.as_ref().map_or(text, |label| label.rest);
    let place = locations::find_location(body);
    FindingDraft {
        title: body.trim().to_owned(),
        file: place.file.or_else(|| file.map(str::to_owned)),
        line: place.line,
        end_line: place.end_line,
        severity: label
            .map(|label| label.raw)
            .or_else(|| severity.map(str::to_owned)),
        ..FindingDraft::default()
    }
}

fn title(object: &Map<String, Value>) -> Option<(String, String)> {
    if let Some(Value::Object(extra)) = object
        .get("extra")
        .or_else(|| object.get("message").filter(|message| message.is_object()))
        && let Some(message) = keys::text(extra, &["message", "text"])
    {
        return Some((String::new(), message));
    }
    keys::TITLE.iter().find_map(|name| {
        let (key, value) = keys::find(object, &[name])?;
        let text = keys::as_text(value)?;
        Some((key.to_owned(), text))
    })
}

/// Joins the longer texts that are not the title, so that nothing the reviewer wrote is lost.
fn problem(rest: &Map<String, Value>, title: &str) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for name in keys::PROBLEM {
        if let Some(text) = keys::text(rest, &[name])
            && text != title
            && !parts.contains(&text)
        {
            parts.push(text);
        }
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Returns the reviewer's own severity word: from `severity` first, then `priority`, `level` and
/// similar.
pub(super) fn severity(object: &Map<String, Value>) -> Option<String> {
    let direct = keys::SEVERITY
        .iter()
        .find_map(|name| keys::get(object, &[name]).and_then(|value| severity_word(name, value)));
    direct
        .or_else(|| {
            object
                .get("extra")
                .and_then(Value::as_object)
                .and_then(severity)
        })
        .or_else(|| {
            object
                .get("message")
                .and_then(Value::as_object)
                .and_then(severity)
        })
        .or_else(|| {
            keys::text(object, &["type", "kind", "category"])
                .filter(|word| Severity::from_word(word).is_some() && word.len() < 16)
        })
        .or_else(|| {
            keys::get(object, &["blocking", "isblocking", "mustfix"])
                .and_then(Value::as_bool)
                .filter(|yes| *yes)
                .map(|_| "blocking".to_owned())
        })
}

fn severity_word(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) if name == "severity" || name == "issueseverity" => {
            Some(text.trim().to_owned())
        }
        // A priority that is not set is no severity.
        Value::String(text) if Severity::from_word(text).is_some() && !is_no_severity(text) => {
            Some(text.trim().to_owned())
        }
        Value::Number(number)
            if name == "priority" && number.as_u64().is_some_and(|priority| priority <= 3) =>
        {
            Some(format!("P{number}"))
        }
        Value::Number(number) if name == "severity" => Some(match number.as_u64() {
            Some(1) => "warning".to_owned(),
            Some(2) => "error".to_owned(),
            _ => number.to_string(),
        }),
        Value::Object(inner) => keys::text(inner, &["level", "name", "value", "label"]),
        Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) => {
            None
        }
    }
}

fn rule(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.len() < 120 && !text.contains('\n') => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(inner) => keys::get(inner, &["code", "value", "id"]).and_then(rule),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

fn place_anchor(object: &Map<String, Value>) -> Option<String> {
    ["where", "location"].iter().find_map(|name| {
        keys::get(object, &[name])?
            .as_object()
            .and_then(|inner| keys::text(inner, keys::ANCHOR))
    })
}

/// Returns whether a status means that nothing is left to do.
pub(super) fn is_settled(status: &str) -> bool {
    matches!(
        keys::fold(status).as_str(),
        "falsepositive"
            | "fixed"
            | "resolved"
            | "closed"
            | "done"
            | "invalid"
            | "wontfix"
            | "dismissed"
            | "suppressed"
            | "refuted"
            | "rejected"
            | "duplicate"
            | "verified"
            | "addressed"
            | "notabug"
            | "ignored"
            | "mitigated"
            | "verifiedfixed"
    )
}

fn is_no_action(action: &str) -> bool {
    matches!(
        keys::fold(action).as_str(),
        "noop"
            | "none"
            | "noaction"
            | "noactionrequired"
            | "noactionneeded"
            | "nofixneeded"
            | "nofixrequired"
            | "na"
            | "ignore"
            | "nochange"
            | "nochangerequired"
    )
}
