//! SARIF 2.1.0, with partial fingerprints so that consumers recognise a result.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::FindingEntry;
use crate::finding::Finding;
use crate::fingerprint::{fingerprint, folded};
use crate::severity::Severity;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Writes one run. `version` is the version of the program.
pub fn sarif(tool: &str, version: &str, entries: &[FindingEntry<'_>]) -> Value {
    let mut rules: BTreeMap<String, usize> = BTreeMap::new();
    let mut rule_list: Vec<Value> = Vec::new();
    for entry in entries {
        let id = rule_id(entry.finding);
        rules.entry(id.clone()).or_insert_with(|| {
            rule_list.push(rule(&id, entry.finding));
            rule_list.len() - 1
        });
    }
    let results: Vec<Value> = entries.iter().map(|entry| result(entry, &rules)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": tool, "version": version, "rules": rule_list}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// Returns the linter's rule, else the dimension or category: SARIF requires a rule for every
/// result.
fn rule_id(finding: &Finding) -> String {
    finding
        .rule
        .clone()
        .or_else(|| finding.dimension.clone())
        .unwrap_or_else(|| {
            format!(
                "review/{}",
                finding
                    .category
                    .map_or("general", |category| category.word())
            )
        })
}

fn rule(id: &str, finding: &Finding) -> Value {
    let name: String = folded(id).split(' ').map(capitalised).collect();
    let mut rule = json!({"id": id, "name": name, "shortDescription": {"text": id}});
    if let Some(category) = finding.category {
        rule["properties"] = json!({"tags": [category.word()]});
    }
    rule
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

fn result(entry: &FindingEntry<'_>, rules: &BTreeMap<String, usize>) -> Value {
    let finding = entry.finding;
    let id = rule_id(finding);
    let mut result = json!({
        "ruleId": id,
        "ruleIndex": rules.get(&id),
        "level": level(finding.rating.severity),
        "message": {"text": finding.title, "markdown": markdown(finding)},
        "partialFingerprints": {"countersign/v1": fingerprint(finding)},
        "properties": properties(entry),
    });
    if let Some(location) = location(finding) {
        result["locations"] = json!([location]);
    }
    if let Some(percent) = finding.confidence {
        result["rank"] = json!(f64::from(percent));
    }
    if !finding.actionable {
        result["kind"] = json!("informational");
        result["level"] = json!("none");
    }
    result
}

fn location(finding: &Finding) -> Option<Value> {
    let file = finding.file.as_deref()?;
    let mut physical = json!({"artifactLocation": {"uri": uri(file), "uriBaseId": "%SRCROOT%"}});
    if let Some(line) = finding.line {
        let mut region = Map::new();
        region.insert("startLine".to_owned(), json!(line));
        if let Some(end) = finding.end_line {
            region.insert("endLine".to_owned(), json!(end));
        }
        if let Some(anchor) = &finding.anchor {
            region.insert("snippet".to_owned(), json!({"text": anchor}));
        }
        physical["region"] = Value::Object(region);
    }
    Some(json!({"physicalLocation": physical}))
}

/// Writes a path as a relative URI, with other characters escaped.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn markdown(finding: &Finding) -> String {
    let parts = [
        Some(finding.title.as_str()),
        finding.problem.as_deref(),
        finding.impact.as_deref(),
        finding.fix.as_deref(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

fn properties(entry: &FindingEntry<'_>) -> Value {
    let finding = entry.finding;
    let mut map = Map::new();
    map.insert("severity".to_owned(), json!(finding.rating.severity.word()));
    let texts = [
        ("rawSeverity", &finding.rating.raw),
        ("problem", &finding.problem),
        ("impact", &finding.impact),
        ("fix", &finding.fix),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            map.insert(name.to_owned(), json!(text));
        }
    }
    if let Some(id) = entry.id {
        map.insert("id".to_owned(), json!(id));
    }
    if let Some(category) = finding.category {
        map.insert("category".to_owned(), json!(category.word()));
    }
    Value::Object(map)
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Suggestion => "note",
    }
}
