//! JSON schemas of each role's answer, for CLIs that can enforce one on their model.
//!
//! They are strict as `OpenAI` requires: every property is required, and no other one is allowed.
//! An absent value is an empty text, an empty list or null, and is read as such.

use serde_json::{Value, json};

use super::AgentRole;

pub fn answer_schema(role: AgentRole) -> Value {
    match role {
        AgentRole::Build => builder_schema(),
        AgentRole::Review => reviewer_schema(),
        AgentRole::Verify => verifier_schema(),
    }
}

fn builder_schema() -> Value {
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

fn reviewer_schema() -> Value {
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

/// Dimensions that the standard brief asks to score.
const DIMENSIONS: [&str; 6] = [
    "requirement_adherence",
    "coordination_compliance",
    "code_quality",
    "pattern_consistency",
    "test_quality",
    "security_performance",
];

fn verifier_schema() -> Value {
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

    /// Returns the smallest value that the schema allows, with the n-th word of every choice.
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
            let said = answer::parse_builder_answer(
                &sample(&answer_schema(AgentRole::Build), choice).to_string(),
            );
            assert_eq!(
                (
                    said.summary.as_str(),
                    said.claims.len(),
                    said.findings.len()
                ),
                ("some words", 1, 1)
            );
            let said = answer::parse_verifier_answers(
                &sample(&answer_schema(AgentRole::Verify), choice).to_string(),
            )
            .unwrap();
            assert_eq!(said.answers.len(), 1);
            let text = sample(&answer_schema(AgentRole::Review), choice).to_string();
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
            strict(&answer_schema(role));
        }
    }
}
