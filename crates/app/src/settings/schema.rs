//! JSON schemas of the files that people write, for their editors. They are derived from the types
//! that read the files; the doc comments there are the descriptions.

use flow::Policy;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::file;
use super::ticket_fields::{self, ALIASES, FILE_ALIASES};

/// Kind of file that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// `countersign.toml`.
    Config,
    /// The front matter of a ticket, or a whole ticket in YAML.
    Ticket,
    /// An epic in YAML.
    Epic,
}

impl SchemaKind {
    fn title(self) -> &'static str {
        match self {
            Self::Config => "countersign.toml",
            Self::Ticket => "A ticket of Countersign",
            Self::Epic => "An epic of Countersign",
        }
    }
}

/// Builds the whole schema of a kind of file.
pub fn build_schema(kind: SchemaKind) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.title(),
    });
    let body = match kind {
        SchemaKind::Config => config(),
        SchemaKind::Ticket => ticket(),
        SchemaKind::Epic => epic(),
    };
    if let (Some(schema), Value::Object(body)) = (schema.as_object_mut(), body) {
        schema.extend(body);
    }
    schema
}

fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12();
    settings
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
}

fn config() -> Value {
    let mut schema = simplified(file::schema(&mut generator()).to_value());
    schema["properties"]["preset"]["enum"] = json!(Policy::PRESETS);
    schema
}

fn ticket() -> Value {
    let mut schema = simplified(ticket_fields::schema(&mut generator()).to_value());
    for (alias, name) in ALIASES.into_iter().take(FILE_ALIASES) {
        let mut field = schema["properties"][name].clone();
        field["description"] = json!(format!("The same as {name}."));
        schema["properties"][alias] = field;
    }
    schema
}

/// Builds the schema of an epic by hand, because an epic may have unknown fields.
fn epic() -> Value {
    let mut ticket_schema = ticket();
    if let Some(fields) = ticket_schema.as_object_mut() {
        fields.remove("additionalProperties");
        fields.remove("description");
    }
    let requirements = json!(["array", "object", "string"]);
    json!({
        "type": "object",
        "required": ["tickets"],
        "properties": {
            "id": {"type": "string", "description": "Your own name for the epic."},
            "title": {"type": "string", "description": "The purpose of the epic."},
            "base": {"type": "string", "description": "The branch that all tickets land on."},
            "gate": {
                "enum": ["person", "none", true, false],
                "description": "person: a person approves the whole epic at its end; none: no approval is needed.",
            },
            "coordination": {
                "type": requirements,
                "description": "Requirements for every ticket; every reviewer checks them.",
            },
            "coordination_requirements": {
                "type": requirements,
                "description": "The same as coordination, in sections of your own.",
            },
            "tickets": {
                "type": "array",
                "minItems": 1,
                "items": {"anyOf": [{"type": "string"}, ticket_schema]},
                "description": "The tickets, in any order.",
            },
        },
    })
}

/// Removes the parts of a schema that no file can express: nulls, widths of our numbers, and empty
/// defaults. A description becomes one line.
fn simplified(value: Value) -> Value {
    let is_null_type = |kind: &Value| kind == "null" || kind["type"] == "null";
    match value {
        Value::Object(fields) => {
            let mut fields: serde_json::Map<String, Value> = fields
                .into_iter()
                .filter(|(key, value)| !(key == "format" && value.is_string()))
                .filter(|(key, value)| key != "default" || !is_empty(value))
                .map(|(key, value)| match (key.as_str(), value) {
                    ("type", Value::Array(kinds)) => {
                        let mut kinds = kinds;
                        kinds.retain(|kind| !is_null_type(kind));
                        let kind = if kinds.len() == 1 {
                            kinds.remove(0)
                        } else {
                            Value::Array(kinds)
                        };
                        (key, kind)
                    }
                    ("anyOf", Value::Array(kinds)) => {
                        let kinds = kinds.into_iter().filter(|kind| !is_null_type(kind));
                        (key, kinds.map(simplified).collect())
                    }
                    ("description", Value::String(text)) => (key, json!(text.replace('\n', " "))),
                    (_, value) => (key, simplified(value)),
                })
                .collect();
            // schemars writes an optional value as `anyOf` of its type and null.
            if let Some(Value::Array(kinds)) = fields.get("anyOf")
                && let [Value::Object(only)] = kinds.as_slice()
            {
                let only = only.clone();
                fields.remove("anyOf");
                for (key, value) in only {
                    fields.entry(key).or_insert(value);
                }
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(simplified).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ticket_file;

    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            if inner["description"].is_null() {
                found.push(path.clone());
            }
            undescribed(inner, &path, found);
        }
        for part in ["items", "additionalProperties"] {
            if schema[part].is_object() {
                undescribed(&schema[part], &format!("{path}[]"), found);
            }
        }
    }

    #[test]
    fn every_key_has_a_sentence() {
        let mut found = Vec::new();
        for kind in [SchemaKind::Config, SchemaKind::Ticket, SchemaKind::Epic] {
            undescribed(&build_schema(kind), kind.title(), &mut found);
        }
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn every_alias_of_a_ticket_is_a_name_that_the_reader_takes() {
        for (alias, _) in ALIASES.into_iter().take(FILE_ALIASES) {
            let value = match alias {
                "type" | "base_branch" => "fix",
                _ => "[a]",
            };
            let text = format!("title: x\n{alias}: {value}\n");
            assert!(
                ticket_file::read("t.yaml", text.as_bytes()).is_ok(),
                "{alias}"
            );
        }
    }

    #[test]
    fn words_numbers_and_lists_are_told_apart() {
        let schema = build_schema(SchemaKind::Config);
        let policy = &schema["properties"]["policy"]["properties"];
        let land = policy["land"].to_string();
        for word in ["branch", "merge", "queue"] {
            assert!(land.contains(&format!("{word:?}")), "{land}");
        }
        assert_eq!(policy["max_rounds"]["type"], "integer");
        assert_eq!(policy["max_rounds"]["default"], 3);
        assert_eq!(policy["must_fix"]["items"]["enum"][0], "critical");
        assert_eq!(
            policy["reviewers"]["items"]["properties"]["paths"]["type"],
            "array"
        );
        assert_eq!(schema["properties"]["checks"]["type"], "object");
        let usd = &policy["budget"]["properties"]["ticket"]["properties"]["usd"];
        assert_eq!(usd["type"], "number");
        assert!(!schema.to_string().contains("usd_micros"));
    }
}
