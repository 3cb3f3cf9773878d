//! JSON schemas of the files that people write, for their editors. They are found out from the
//! readers themselves, by asking them what they would admit, so that they cannot say anything else.

use serde_json::{Map, Value, json};

use super::{file, keys, ticket_file};

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

    fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Ticket => "ticket",
            Self::Epic => "epic",
        }
    }
}

/// The whole schema.
pub fn of(kind: SchemaKind) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.title(),
    });
    let body = match kind {
        SchemaKind::Config => ReaderProbe(&file::admits).schema(&[]),
        SchemaKind::Ticket => ticket(),
        SchemaKind::Epic => epic(),
    };
    if let (Some(schema), Value::Object(body)) = (schema.as_object_mut(), described(body, kind)) {
        schema.extend(body);
    }
    schema
}

fn ticket() -> Value {
    ReaderProbe(&ticket_file::admits).schema(&[])
}

/// An epic keeps what it does not know, so its reader cannot be asked.
fn epic() -> Value {
    let mut one = ticket();
    if let Some(fields) = one.as_object_mut() {
        fields.remove("additionalProperties");
    }
    describe(&mut one, "ticket");
    json!({
        "type": "object",
        "required": ["tickets"],
        "properties": {
            "id": {"type": "string"},
            "title": {"type": "string"},
            "base": {"type": "string"},
            "gate": {"enum": ["person", "none", true, false]},
            "coordination": {"type": ["array", "object", "string"]},
            "coordination_requirements": {"type": ["array", "object", "string"]},
            "tickets": {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string"}, one]}},
        },
    })
}

/// A reader, asked with values at a path.
struct ReaderProbe<'a>(&'a dyn Fn(Value) -> Result<(), String>);

/// What no file has as a key or a word.
const NOTHING: &str = "\u{1}";
/// Deeper than any file of ours.
const DEPTH_MAX: usize = 8;

impl ReaderProbe<'_> {
    fn ask(&self, path: &[String], value: Value) -> Result<(), String> {
        let wrap = |inner: Value, key: &String| match key.as_str() {
            "[]" => json!([inner]),
            // A dimension is none without its weight.
            "minimum" => json!({"minimum": inner, "weight": "critical"}),
            key => json!({key: inner}),
        };
        (self.0)(path.iter().rev().fold(value, wrap))
    }

    fn schema(&self, path: &[String]) -> Value {
        if path.len() > DEPTH_MAX {
            return json!({});
        }
        let with = |key: &str| [path, &[key.to_owned()]].concat();
        if let Some(fields) = self.fields(path) {
            let properties: Map<String, Value> = fields
                .iter()
                .map(|field| (field.clone(), self.schema(&with(field))))
                .collect();
            return json!({"type": "object", "additionalProperties": false, "properties": properties});
        }
        if let Err(why) = self.ask(path, json!(NOTHING))
            && let Some(words) = expected(&why, "unknown variant")
        {
            let words = self.words(path, words);
            if self.ask(path, json!([])).is_err() {
                return words;
            }
            let list = json!({"type": "array", "items": self.schema(&with("[]"))});
            return json!({"anyOf": [words, list]});
        }
        let mut kinds: Vec<Value> = self.plain(path);
        if self.ask(path, json!([])).is_ok() {
            kinds.push(json!({"type": "array", "items": self.schema(&with("[]"))}));
        }
        if self.ask(path, json!({})).is_ok() {
            kinds.push(json!({"type": "object", "additionalProperties": self.schema(&with("x"))}));
        } else if self.ask(path, json!({"run": "true"})).is_ok() {
            kinds.push(check());
        }
        match kinds.len() {
            1 => kinds.remove(0),
            _ => json!({"anyOf": kinds}),
        }
    }

    /// The keys of an object that knows its keys.
    fn fields(&self, path: &[String]) -> Option<Vec<String>> {
        let why = self.ask(path, json!({NOTHING: 1})).err()?;
        expected(&why, "unknown field")
    }

    /// A word that stands alone, or `{ word = value }`.
    fn words(&self, path: &[String], words: Vec<String>) -> Value {
        let (alone, with_value): (Vec<String>, Vec<String>) = words
            .into_iter()
            .partition(|word| self.ask(path, json!(word)).is_ok());
        let plain = json!({"enum": alone});
        if with_value.is_empty() {
            return plain;
        }
        let mut kinds = vec![plain];
        for word in with_value {
            let inner = self.schema(&[path, std::slice::from_ref(&word)].concat());
            kinds.push(json!({"type": "object", "required": [word], "properties": {word: inner}}));
        }
        json!({"anyOf": kinds})
    }

    fn plain(&self, path: &[String]) -> Vec<Value> {
        let text = self.ask(path, json!(NOTHING)).is_ok().then_some("string");
        let least = if self.ask(path, json!(-1)).is_ok() {
            json!({"type": "integer"})
        } else {
            json!({"type": "integer", "minimum": 0})
        };
        let share = self.ask(path, json!(0.5)).is_ok() && self.ask(path, json!(2)).is_err();
        let least = if share {
            json!({"type": "number", "minimum": 0, "maximum": 1})
        } else {
            least
        };
        let number = self.ask(path, json!(1)).is_ok().then_some(least);
        let switch = self.ask(path, json!(true)).is_ok().then_some("boolean");
        let of_type = |kind: &str| json!({"type": kind});
        text.map(of_type)
            .into_iter()
            .chain(number)
            .chain(switch.map(of_type))
            .collect()
    }
}

/// The long form of a check; an untagged form is not told by its reader.
fn check() -> Value {
    json!({
        "type": "object",
        "required": ["run"],
        "properties": {
            "run": {"type": "string"},
            "timeout_secs": {"type": "integer", "minimum": 1},
            "parallel": {"type": "boolean"},
            "coverage_min": {"type": "integer", "minimum": 0, "maximum": 100},
        },
    })
}

/// The words in a reader's complaint that it would have understood.
fn expected(why: &str, complaint: &str) -> Option<Vec<String>> {
    let rest = why.split(complaint).nth(1)?;
    let quoted = rest.split('`').skip(1).step_by(2).skip(1);
    Some(quoted.map(str::to_owned).collect())
}

/// With a sentence on each key.
fn described(schema: Value, kind: SchemaKind) -> Value {
    let mut schema = schema;
    describe(&mut schema, kind.name());
    schema
}

fn describe(schema: &mut Value, path: &str) {
    if let Some(sentence) = keys::sentence(path)
        && let Some(fields) = schema.as_object_mut()
    {
        fields.insert("description".to_owned(), json!(sentence));
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (key, inner) in properties {
            describe(inner, &format!("{path}.{key}"));
        }
    }
    for part in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(part) {
            describe(inner, &format!("{path}[]"));
        }
    }
    if let Some(kinds) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        for inner in kinds {
            describe(inner, &format!("{path}|"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_key_has_a_sentence_and_every_sentence_a_key() {
        let mut found = Vec::new();
        for kind in [SchemaKind::Config, SchemaKind::Ticket, SchemaKind::Epic] {
            undescribed(&of(kind), kind.name(), &mut found);
        }
        assert_eq!(found, [""; 0]);
        let all = [SchemaKind::Config, SchemaKind::Ticket, SchemaKind::Epic]
            .map(|kind| of(kind).to_string());
        for (path, sentence) in keys::SENTENCES {
            let quoted = json!(sentence).to_string();
            assert!(all.iter().any(|text| text.contains(&quoted)), "{path}");
        }
    }

    #[test]
    fn words_numbers_and_lists_are_told_apart() {
        let schema = of(SchemaKind::Config);
        let policy = &schema["properties"]["policy"]["properties"];
        assert_eq!(policy["land"]["enum"], json!(["branch", "merge", "queue"]));
        assert_eq!(policy["max_rounds"]["type"], "integer");
        assert_eq!(policy["must_fix"]["items"]["enum"][0], "critical");
        assert_eq!(
            policy["reviewers"]["items"]["properties"]["paths"]["type"],
            "array"
        );
        assert_eq!(schema["properties"]["checks"]["type"], "object");
    }
}
