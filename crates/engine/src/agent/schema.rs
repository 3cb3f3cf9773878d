//! The form of each role's answer as a JSON schema, for CLIs that can hold their model to one.
//!
//! Strict as `OpenAI` wants it: every property required, none beside them. What a role has nothing
//! to say about is an empty text, an empty list or null, and is read as such.

use serde_json::{Value, json};

use super::AgentRole;

pub fn of(role: AgentRole) -> Value {
    match role {
        AgentRole::Build => built(),
        AgentRole::Review => reviewed(),
        AgentRole::Verify => verified(),
    }
}

fn built() -> Value {
    object(json!({
        "summary": text(),
        "claims": list(object(json!({
            "criterion": text(), "met": {"type": "boolean"}, "evidence": text(),
        }))),
        "findings": list(object(json!({
            "id": text(), "outcome": one_of(&["fixed", "could_not_fix", "disputed"]), "note": text(),
        }))),
    }))
}

fn reviewed() -> Value {
    let severity = one_of(&["critical", "high", "medium", "low", "suggestion"]);
    let scores: Vec<(String, Value)> = DIMENSIONS
        .iter()
        .map(|name| {
            (
                (*name).to_owned(),
                object(json!({"score": {"type": ["integer", "null"]}})),
            )
        })
        .collect();
    object(json!({
        "verdict": one_of(&["approve", "request_changes"]),
        "commit": text(),
        "complete": {"type": "boolean"},
        "findings": list(object(json!({
            "severity": severity, "category": text(), "file": nullable("string"),
            "line": nullable("integer"), "title": text(), "problem": text(), "impact": text(),
            "fix": text(),
        }))),
        "dimension_scores": object(Value::Object(scores.into_iter().collect())),
        "criteria": list(object(json!({
            "criterion": text(), "met": {"type": "boolean"}, "evidence": text(),
        }))),
        "notes": text(),
    }))
}

/// What the standard brief asks for scores on.
const DIMENSIONS: [&str; 6] = [
    "requirement_adherence",
    "coordination_compliance",
    "code_quality",
    "pattern_consistency",
    "test_quality",
    "security_performance",
];

fn verified() -> Value {
    object(json!({
        "answers": list(object(json!({
            "finding": text(),
            "outcome": one_of(&["fixed", "confirmed", "refuted", "uncertain"]),
            "evidence": text(),
        }))),
    }))
}

fn object(properties: Value) -> Value {
    let names: Vec<String> = properties
        .as_object()
        .map(|fields| fields.keys().cloned().collect())
        .unwrap_or_default();
    json!({
        "type": "object", "properties": properties, "required": names,
        "additionalProperties": false,
    })
}

fn text() -> Value {
    json!({"type": "string"})
}

fn nullable(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::answer;

    /// The emptiest value that the schema allows, with the n-th word of every choice.
    fn sample(schema: &Value, choice: usize) -> Value {
        if let Some(words) = schema["enum"].as_array() {
            return words[choice % words.len()].clone();
        }
        match schema["type"].as_str() {
            Some("object") => {
                let fields = schema["properties"].as_object().unwrap();
                let filled = fields
                    .iter()
                    .map(|(name, of)| (name.clone(), sample(of, choice)));
                Value::Object(filled.collect())
            }
            Some("array") => json!([sample(&schema["items"], choice)]),
            Some("boolean") => json!(true),
            Some("string") => json!("some words"),
            Some(other) => panic!("{other}"),
            None => Value::Null,
        }
    }

    #[test]
    fn what_the_schemas_allow_is_read_without_loss() {
        for choice in 0..5 {
            let said = answer::built(&sample(&of(AgentRole::Build), choice).to_string());
            assert_eq!(
                (
                    said.summary.as_str(),
                    said.claims.len(),
                    said.findings.len()
                ),
                ("some words", 1, 1)
            );
            let said =
                answer::verified(&sample(&of(AgentRole::Verify), choice).to_string()).unwrap();
            assert_eq!(said.answers.len(), 1);
            let text = sample(&of(AgentRole::Review), choice).to_string();
            let review = findings::read(&text);
            assert_eq!(review.findings.len(), 1, "{text}\n{review:?}");
        }
    }

    #[test]
    fn every_object_is_strict() {
        fn strict(schema: &Value) {
            if schema["type"] == "object" {
                assert_eq!(schema["additionalProperties"], false);
                let fields = schema["properties"].as_object().unwrap();
                assert_eq!(schema["required"].as_array().unwrap().len(), fields.len());
                fields.values().for_each(strict);
            }
            if schema["type"] == "array" {
                strict(&schema["items"]);
            }
        }
        for role in [AgentRole::Build, AgentRole::Review, AgentRole::Verify] {
            strict(&of(role));
        }
    }
}
