//! Reads SARIF 2.1.0.
//!
//! Results that are suppressed, passed or absent are kept as findings that ask for nothing, so that
//! a converted report is complete.

use serde_json::Value;

use super::confidence;
use super::draft::FindingDraft;
use super::item;
use super::keys;

pub(super) fn is_sarif(value: &Value) -> bool {
    value.get("runs").is_some_and(Value::is_array)
        // `runs` alone is a common key of other formats.
        && (value.get("version").is_some() || value.get("$schema").is_some())
}

pub(super) fn drafts(value: &Value) -> Vec<FindingDraft> {
    let runs = value["runs"].as_array().into_iter().flatten();
    runs.flat_map(|run| {
        run["results"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|result| draft(result, run))
    })
    .collect()
}

fn draft(result: &Value, run: &Value) -> Option<FindingDraft> {
    let rule = rule(result, run);
    let place = result["locations"][0]
        .as_object()
        .map(|location| item::location_of(location, 0))
        .unwrap_or_default();
    let suppressed = result["suppressions"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    let passed = matches!(
        result["kind"].as_str(),
        Some("pass" | "notApplicable" | "informational")
    );
    let own = |name: &str| result["properties"][name].as_str().map(str::to_owned);
    Some(FindingDraft {
        title: message(result, rule)?,
        problem: own("problem").or_else(|| rule.and_then(|rule| text(&rule["fullDescription"]))),
        impact: own("impact"),
        fix: own("fix").or_else(|| fix(result, rule)),
        file: place.file.as_deref().map(decoded),
        line: place.line,
        end_line: place.end_line,
        severity: Some(level(result, rule)),
        category: rule.and_then(|rule| keys::as_text(&rule["properties"]["tags"])),
        confidence: own_confidence(result),
        rule: result["ruleId"]
            .as_str()
            .or_else(|| rule.and_then(|rule| rule["id"].as_str()))
            .map(str::to_owned),
        anchor: result["locations"][0]["physicalLocation"]["region"]["snippet"]["text"]
            .as_str()
            .and_then(|code| code.lines().next())
            .map(str::to_owned),
        idle: suppressed || passed || result["baselineState"] == "absent",
        ..FindingDraft::default()
    })
}

/// Reads the rank of our own results as their confidence; other tools rank by importance.
fn own_confidence(result: &Value) -> Option<u8> {
    // Our own fingerprint proves that the rank was written as a confidence.
    result["partialFingerprints"].get("countersign/v1")?;
    let rank = result["rank"].as_f64()?;
    confidence::of_text(&format!("{rank}%"))
}

fn rule<'a>(result: &Value, run: &'a Value) -> Option<&'a Value> {
    let rules = &run["tool"]["driver"]["rules"];
    let index = result["ruleIndex"]
        .as_u64()
        .or_else(|| result["rule"]["index"].as_u64())
        .and_then(|index| usize::try_from(index).ok());
    let id = result["ruleId"].as_str();
    let by_index = index
        .and_then(|index| rules.get(index))
        // An index of another rule list would give a wrong rule, so the id has to agree.
        .filter(|rule| id.is_none() || rule["id"].as_str() == id);
    by_index.or_else(|| {
        rules
            .as_array()?
            .iter()
            .find(|rule| id.is_some() && rule["id"].as_str() == id)
    })
}

/// Undoes the escapes of a URI.
fn decoded(uri: &str) -> String {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        // A percent sign that begins no escape stays, because not every tool encodes.
        let hex = (byte == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(code) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(code);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn fix(result: &Value, rule: Option<&Value>) -> Option<String> {
    text(&result["fixes"][0]["description"]).or_else(|| rule.and_then(|rule| text(&rule["help"])))
}

/// Returns the message; fills in the arguments if it is a message string of the rule.
fn message(result: &Value, rule: Option<&Value>) -> Option<String> {
    if let Some(text) = text(&result["message"]) {
        return Some(text);
    }
    let id = result["message"]["id"].as_str()?;
    let mut text = rule?["messageStrings"][id]["text"].as_str()?.to_owned();
    for (index, argument) in result["message"]["arguments"]
        .as_array()
        .into_iter()
        .flatten()
        // The arguments are few in every rule; the limit bounds the replacements.
        .take(16)
        .enumerate()
    {
        text = text.replace(
            &format!("{{{index}}}"),
            argument.as_str().unwrap_or_default(),
        );
    }
    Some(text)
}

fn text(value: &Value) -> Option<String> {
    value["text"]
        .as_str()
        .or_else(|| value["markdown"].as_str())
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// Returns the level of a result, else that of its rule, else `warning`.
fn level(result: &Value, rule: Option<&Value>) -> String {
    // Our own results have the finer word.
    if let Some(word) = result["partialFingerprints"]
        .get("countersign/v1")
        .and(result["properties"]["severity"].as_str())
    {
        return word.to_owned();
    }
    let own = result["level"].as_str();
    own.or_else(|| rule.and_then(|rule| rule["defaultConfiguration"]["level"].as_str()))
        .unwrap_or("warning")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_without_a_level_takes_its_rules_then_warning() {
        let sarif = serde_json::json!({"version": "2.1.0", "runs": [{
        "tool": {"driver": {"name": "t", "rules": [{"id": "A", "defaultConfiguration": {"level": "error"}}, {"id": "B"}]}},
        "results": [
            {"ruleId": "A", "message": {"text": "one"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "../../x/a.yml"}, "region": {"startLine": 4, "endLine": 6}}}]},
            {"ruleId": "B", "message": {"text": "two"}},
            {"ruleId": "B", "level": "note", "message": {"text": "three"}, "suppressions": [{"kind": "inSource"}]},
        ]}]});
        let drafts = drafts(&sarif);
        let levels: Vec<_> = drafts
            .iter()
            .map(|draft| draft.severity.as_deref())
            .collect();
        assert_eq!(levels, [Some("error"), Some("warning"), Some("note")]);
        assert_eq!((drafts[0].line, drafts[0].end_line), (Some(4), Some(6)));
        assert!(drafts[2].idle);
    }
}
