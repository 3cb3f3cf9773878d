//! Reads JSON of tools with their own layout: `ESLint`, clippy, rdjson, code quality reports. The
//! JSON of other linters has ordinary keys and is read like any list of findings.
//!
//! A wrong reader is worse than none: a report that is taken for another tool's could look clean.
//! So each layout is recognised by keys that only that tool has.

use serde_json::Value;

use crate::finding::Category;
use crate::severity::Severity;
use crate::write::{OWN_SEVERITY, OWN_SEVERITY_KEY};

use super::draft::FindingDraft;
use super::item;
use super::keys;

/// Reads a tool's report; `None` if it needs no special reader.
pub(super) fn drafts(value: &Value) -> Option<Vec<FindingDraft>> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(object) if object.get("diagnostics").is_some_and(Value::is_array) => {
            let all = list(&value["diagnostics"]);
            return Some(all.filter_map(|one| rdjson(one, value)).collect());
        }
        Value::Object(_) => std::slice::from_ref(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    // Some tools write a summary before the first result.
    let first = items.iter().find(|item| item.is_object())?;
    if first.get("messages").is_some_and(Value::is_array) && first.get("filePath").is_some() {
        return Some(items.iter().flat_map(eslint).collect());
    }
    if first.get("reason").is_some()
        // Both reasons are cargo's own, and a build without warnings has only the second.
        && items
            .iter()
            .any(|item| item["reason"] == "compiler-message" || item["reason"] == "build-finished")
    {
        return Some(
            items
                .iter()
                .filter_map(|item| clippy(&item["message"]))
                .collect(),
        );
    }
    if first.get("spans").is_some_and(Value::is_array) && first.get("level").is_some() {
        return Some(items.iter().filter_map(clippy).collect());
    }
    // All of them need a place: a single other object means that this is something else.
    if items.iter().any(is_rdjson) && items.iter().all(|item| item["location"].is_object()) {
        let none = Value::Null;
        return Some(items.iter().filter_map(|one| rdjson(one, &none)).collect());
    }
    if value.is_array() && items.iter().all(is_code_quality) {
        return Some(items.iter().filter_map(code_quality).collect());
    }
    None
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn line(value: &Value) -> Option<u32> {
    value
        .as_u64()
        .and_then(|line| u32::try_from(line).ok())
        .filter(|&line| line > 0)
}

fn eslint(file: &Value) -> Vec<FindingDraft> {
    let path = file["filePath"].as_str().map(str::to_owned);
    list(&file["messages"])
        .filter_map(|message| {
            // Fatal means that the file could not be parsed, so nothing in it was checked.
            let error = message["severity"] == 2 || message["fatal"] == true;
            Some(FindingDraft {
                title: message["message"].as_str()?.to_owned(),
                file: path.clone(),
                line: line(&message["line"]),
                end_line: line(&message["endLine"]),
                severity: Some(if error { "error" } else { "warning" }.to_owned()),
                rule: message["ruleId"].as_str().map(str::to_owned),
                fix: message["suggestions"][0]["desc"]
                    .as_str()
                    .map(str::to_owned),
                // A suppressed message is kept for the record and asks for nothing.
                idle: message["suppressions"]
                    .as_array()
                    .is_some_and(|list| !list.is_empty()),
                ..FindingDraft::default()
            })
        })
        .collect()
}

/// Reads a compiler message of `cargo clippy --message-format=json`. It skips notes on the whole
/// build, which have no span.
fn clippy(message: &Value) -> Option<FindingDraft> {
    let spans: Vec<&Value> = list(&message["spans"]).collect();
    // The primary span is where the compiler points; the others explain.
    let span = spans
        .iter()
        .find(|span| span["is_primary"] == true)
        .or_else(|| spans.first())?;
    let help: Vec<&str> = list(&message["children"])
        .filter(|child| child["level"] == "help")
        .filter_map(|child| child["message"].as_str())
        .collect();
    Some(FindingDraft {
        title: message["message"].as_str()?.to_owned(),
        file: span["file_name"].as_str().map(str::to_owned),
        line: line(&span["line_start"]),
        end_line: line(&span["line_end"]),
        severity: message["level"].as_str().map(str::to_owned),
        rule: message["code"]["code"].as_str().map(str::to_owned),
        fix: (!help.is_empty()).then(|| help.join("\n")),
        anchor: span["text"][0]["text"]
            .as_str()
            .map(|text| text.trim().to_owned()),
        ..FindingDraft::default()
    })
}

/// Returns whether an object is a diagnostic of rdjsonl: with a range in a file, or written by us.
fn is_rdjson(item: &Value) -> bool {
    let is_own = item["original_output"]
        .as_str()
        .is_some_and(|text| text.starts_with(OWN_SEVERITY));
    item["message"].is_string() && (item["location"].get("range").is_some() || is_own)
}

/// Reads one diagnostic of rdjson. The document provides the severity and source that it lacks.
fn rdjson(diagnostic: &Value, document: &Value) -> Option<FindingDraft> {
    let object = diagnostic.as_object()?;
    let message = FindingDraft::from_message(diagnostic["message"].as_str()?);
    let place = item::location_of(object, 0);
    let (raw, degree) = rdjson_severity(&diagnostic["severity"])
        .or_else(|| rdjson_severity(&document["severity"]))
        .unwrap_or_default();
    let source = [diagnostic, document]
        .iter()
        .find_map(|level| level["source"]["name"].as_str())
        .filter(|name| !name.is_empty() && *name != OWN_NAME);
    // Our own diagnostics have the finer word.
    // rdjson has three levels and we have more. Our own word survives the round trip.
    let own = diagnostic["original_output"]
        .as_str()
        .and_then(|text| text.strip_prefix(OWN_SEVERITY))
        .map(str::to_owned);
    Some(FindingDraft {
        file: place.file,
        line: place.line,
        end_line: place.end_line,
        degree: degree.filter(|_| own.is_none()),
        severity: own.or(raw),
        rule: diagnostic["code"]["value"]
            .as_str()
            .filter(|code| !code.is_empty())
            .or(source)
            .map(str::to_owned),
        fix: message
            .fix
            .clone()
            .or_else(|| keys::as_text(&diagnostic["suggestions"][0]["text"])),
        ..message
    })
}

/// Source name in our own reports.
const OWN_NAME: &str = "countersign";

/// Reads the severity of rdjson: a word, or the number of its enum (1 error, 2 warning, 3 info).
fn rdjson_severity(value: &Value) -> Option<(Option<String>, Option<Severity>)> {
    match value {
        Value::Number(number) => {
            let degree = match number.as_u64()? {
                // 0 is unspecified in its enum.
                0 => return None,
                1 => Some(Severity::High),
                2 => Some(Severity::Medium),
                3 => Some(Severity::Suggestion),
                _ => None,
            };
            Some((Some(number.to_string()), degree))
        }
        Value::String(word) if !word.is_empty() && !word.starts_with("UNKNOWN") => {
            Some((Some(word.clone()), None))
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// Returns whether an object is an issue of a code quality report (Code Climate, GitLab).
fn is_code_quality(issue: &Value) -> bool {
    let location = &issue["location"];
    issue["description"].is_string()
        && location["path"].is_string()
        && (location["lines"].is_object() || location["positions"].is_object())
        && (issue.get("check_name").is_some() || issue.get("fingerprint").is_some())
}

/// Reads an issue of a code quality report. The description is the title; the body repeats it,
/// followed by problem, impact and fix.
fn code_quality(issue: &Value) -> Option<FindingDraft> {
    let place = item::location_of(issue.as_object()?, 0);
    let description = issue["description"].as_str()?;
    let body = issue["content"]["body"].as_str().unwrap_or_default();
    let whole = match body.strip_prefix(description) {
        Some(rest) if rest.is_empty() || rest.starts_with("\n\n") => body.to_owned(),
        _ if body.is_empty() => description.to_owned(),
        _ => format!("{description}\n\n{body}"),
    };
    let word = |name: &str| issue[name].as_str().map(str::to_owned);
    // The format requires a line, so we write 1 and note that there was none.
    // Our own report records that there was no line, which the format itself cannot.
    let own = &issue[OWN_SEVERITY_KEY];
    let line = place
        .line
        .filter(|_| own["line"] != Value::Null || !own.is_object());
    let categories = keys::as_text(&issue["categories"]);
    Some(FindingDraft {
        file: place.file.filter(|file| file != "."),
        line,
        end_line: place.end_line,
        severity: own["severity"]
            .as_str()
            .map(str::to_owned)
            .or_else(|| word("severity")),
        category: categories.or_else(|| word("check_name")),
        rule: word("check_name").filter(|name| !is_own_check(name)),
        ..FindingDraft::from_message(&whole)
    })
}

/// Returns whether our own reports use this name for findings without a rule.
fn is_own_check(name: &str) -> bool {
    name == "review" || Category::ALL.iter().any(|category| category.word() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eslint_files_hold_messages() {
        let drafts = drafts(
            &serde_json::json!([{"filePath": "/w/a.js", "messages": [{"ruleId": "eqeqeq", "severity": 2, "message": "Expected ===", "line": 3}, {"ruleId": null, "severity": 1, "message": "File ignored"}]}]),
        );
        let drafts = drafts.unwrap_or_default();
        assert_eq!(drafts.len(), 2);
        assert_eq!(
            (
                drafts[0].severity.as_deref(),
                drafts[0].line,
                drafts[0].rule.as_deref()
            ),
            (Some("error"), Some(3), Some("eqeqeq"))
        );
    }

    #[test]
    fn clippy_lines_without_a_message_are_passed_over() {
        let drafts = drafts(&serde_json::json!([
            {"reason": "compiler-artifact", "target": {}},
            {"reason": "compiler-message", "message": {"message": "needless return", "level": "warning", "code": {"code": "clippy::needless_return"}, "spans": [{"file_name": "src/a.rs", "line_start": 9, "line_end": 9, "is_primary": true}], "children": [{"level": "help", "message": "remove it"}]}},
            {"reason": "build-finished", "success": true}]));
        let drafts = drafts.unwrap_or_default();
        assert_eq!(drafts.len(), 1);
        assert_eq!(
            (drafts[0].file.as_deref(), drafts[0].fix.as_deref()),
            (Some("src/a.rs"), Some("remove it"))
        );
    }

    #[test]
    fn rdjson_numbers_are_degrees_of_its_own_scale() {
        let drafts = drafts(&serde_json::json!({"diagnostics": [{"message": "m", "severity": 2, "location": {"path": "a.go", "range": {"start": {"line": 7}}}}]})).unwrap_or_default();
        assert_eq!(
            (
                drafts[0].degree,
                drafts[0].severity.as_deref(),
                drafts[0].line
            ),
            (Some(Severity::Medium), Some("2"), Some(7))
        );
    }
}
