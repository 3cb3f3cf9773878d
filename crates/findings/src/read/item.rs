//! One finding out of one JSON object or one line of a JSON list.

mod location;

pub(super) use location::place_of;

use serde_json::{Map, Value};

use crate::severity::{Severity, is_no_severity};

use super::confidence;
use super::draft::FindingDraft;
use super::keys;
use super::place;

/// A finding says something, and says where or how bad it is. In a list that is named as one of
/// findings, saying something is enough.
pub(super) fn of_object(object: &Map<String, Value>, listed: bool) -> Option<FindingDraft> {
    let (title_key, title) = title(object)?;
    let place = place_of(object, 0);
    let (title, label) = without_label(&title);
    let severity = severity(object).or(label);
    let telling = place.file.is_some() || severity.is_some();
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
    if holds_list || !(telling || listed) || is_envelope(object) || is_rated_as_nothing(object) {
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
            .filter(|text| Severity::of(text).is_none() || text.len() > 24),
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

/// A title behind its severity label, and the label: `[P1] …`, `**[High]** …`, `nit: …`.
fn without_label(title: &str) -> (String, Option<String>) {
    match super::label::leading(title) {
        Some(label)
            if !label.rest.trim().is_empty() && label.raw.chars().any(char::is_alphanumeric) =>
        {
            (label.rest.trim().to_owned(), Some(label.raw))
        }
        _ => (title.to_owned(), None),
    }
}

/// Whether its severity field says that there is nothing: `"severity": "clean"`.
pub(super) fn is_rated_as_nothing(object: &Map<String, Value>) -> bool {
    keys::get(object, &["severity", "issueseverity", "severitylevel"])
        .and_then(Value::as_str)
        .is_some_and(is_no_severity)
}

/// A report or a message that carries a verdict is not itself a finding.
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

/// A finding that a list holds as a plain sentence.
pub(super) fn of_text(text: &str, severity: Option<&str>, file: Option<&str>) -> FindingDraft {
    let label = super::label::leading(text);
    let body = label.as_ref().map_or(text, |label| label.rest);
    let place = place::place(body);
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

/// All the longer texts that were not taken as the title, so that nothing the reviewer wrote is lost.
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

/// The reviewer's own word: a `severity` field first, then `priority`, `level` and their kin.
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
                .filter(|word| Severity::of(word).is_some() && word.len() < 16)
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
        // A priority that nobody set rates nothing.
        Value::String(text) if Severity::of(text).is_some() && !is_no_severity(text) => {
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

/// A status that says there is nothing left to do.
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
