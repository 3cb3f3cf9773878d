//! The fields of a ticket as people and programs write them, and the one way from there to a
//! specification. Ticket files, epics, task files, imports and REST all go through it, so a new
//! field is added here and nowhere else.

use std::collections::BTreeSet;

use flow::TicketId;
use flow::ticket::{PRIORITY_DEFAULT, Spec, TicketContext, parse_label};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ticket_file::TicketRequest;
use crate::failure::Failure;

/// Longest title of a ticket.
pub const TITLE_CHARS_MAX: usize = 200;

/// The fields above the text of a ticket file, a whole ticket in YAML, or the body of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TicketFields {
    /// Your own name for the ticket; by default made from the title.
    pub id: Option<String>,
    /// The wanted change in one sentence; by default the first heading.
    pub title: Option<String>,
    /// The whole description; by default the text below the front matter.
    pub description: Option<String>,
    /// Higher goes first; 50 by default.
    pub priority: Option<i32>,
    /// Tickets that must be done first. Also: dependencies.
    #[serde(alias = "dependencies")]
    pub depends_on: Vec<String>,
    /// Acceptance criteria, one sentence each. Also: `acceptance_criteria`.
    #[serde(alias = "acceptance_criteria")]
    pub acceptance: Vec<String>,
    /// Any word: implementation, fix, … Also: type.
    #[serde(alias = "type")]
    pub kind: Option<String>,
    /// The epic fails if this ticket fails.
    pub critical: bool,
    /// Paths that the change must not touch.
    pub protected: Vec<String>,
    /// The epic of the ticket.
    pub epic: Option<String>,
    /// The branch to build on and to land on. Also: `base_branch`.
    #[serde(alias = "base_branch")]
    pub base: Option<String>,
    /// The branch for the work; countersign/ID by default.
    pub branch: Option<String>,
    /// Key of the issue in Jira.
    pub jira_key: Option<String>,
    /// OWNER/NAME on GitHub.
    pub github_repo: Option<String>,
    /// Number of the pull request.
    pub pr_number: Option<u64>,
    /// Requirements of the epic for every ticket.
    pub coordination: Vec<String>,
    /// Labels (KEY=VALUE) that a worker must have to claim it.
    pub needs: Vec<String>,
}

/// The fields of another system's file, and all that is not among them.
#[derive(Debug, Default)]
pub struct LenientFields {
    pub fields: TicketFields,
    /// Fields that we do not know, to be stored with the ticket.
    pub rest: Map<String, Value>,
    /// Known fields whose value has no meaning here.
    pub unread: Map<String, Value>,
}

/// Other names of a field. The first group is documented; the second is what other systems write.
pub const ALIASES: [(&str, &str); 8] = [
    ("dependencies", "depends_on"),
    ("acceptance_criteria", "acceptance"),
    ("type", "kind"),
    ("base_branch", "base"),
    ("name", "title"),
    ("summary", "title"),
    ("ticket_id", "id"),
    ("key", "id"),
];
/// Entries of [`ALIASES`] that a ticket file may use as well.
pub const FILE_ALIASES: usize = 4;

/// The schema of the fields.
pub fn schema(generator: &mut SchemaGenerator) -> Schema {
    TicketFields::json_schema(generator)
}

/// Names of the fields, without aliases.
pub fn names() -> Vec<String> {
    let schema = schemars::schema_for!(TicketFields).to_value();
    let properties = schema["properties"].as_object();
    properties
        .map(|fields| fields.keys().cloned().collect())
        .unwrap_or_default()
}

impl TicketFields {
    /// Reads the fields of another system's file. Values are converted where their meaning is
    /// clear.
    pub fn read_leniently(written: &Map<String, Value>) -> LenientFields {
        let names = names();
        let mut known = Map::new();
        let mut rest = Map::new();
        let mut unread = Map::new();
        for (key, value) in written {
            let alias = ALIASES.iter().find(|(alias, _)| *alias == key);
            let name = alias.map_or(key.as_str(), |(_, name)| name);
            if !names.iter().any(|known| known == name) {
                rest.insert(key.clone(), value.clone());
                continue;
            }
            match converted(name, value) {
                // A field's own name goes before its aliases.
                Some(value) if alias.is_none() || !known.contains_key(name) => {
                    if let Some(replaced) = known.insert(name.to_owned(), value) {
                        unread.insert(format!("another {name}"), replaced);
                    }
                }
                None if is_empty(value) => {}
                Some(_) | None => {
                    unread.insert(key.clone(), value.clone());
                }
            }
        }
        LenientFields {
            fields: serde_json::from_value(Value::Object(known)).unwrap_or_default(),
            rest,
            unread,
        }
    }

    /// Checks the fields and makes a specification of them; `name` is for messages.
    pub fn into_request(self, name: &str) -> Result<TicketRequest, Failure> {
        let title = self.title.unwrap_or_default().trim().to_owned();
        if title.is_empty() {
            return Err(
                Failure::usage(format!("{name} is not a ticket: it has no title"))
                    .hint("begin it with `# The wanted change`, or give it `title: …`"),
            );
        }
        if title.chars().count() > TITLE_CHARS_MAX {
            return Err(Failure::usage(format!(
                "{name}: the title is longer than {TITLE_CHARS_MAX} characters; put the rest into the description"
            )));
        }
        let refuse = |error: &dyn std::fmt::Display| Failure::usage(format!("{name}: {error}"));
        let id = |text: &String| TicketId::new(text).map_err(|error| refuse(&error));
        let depends_on: BTreeSet<TicketId> =
            self.depends_on.iter().map(id).collect::<Result<_, _>>()?;
        let needs = self.needs.iter().map(|text| parse_label(text));
        let needs = needs.collect::<Result<_, _>>();
        Ok(TicketRequest {
            id: self.id.as_ref().map(id).transpose()?,
            spec: Spec {
                title,
                description: self.description.unwrap_or_default(),
                acceptance: self.acceptance,
                priority: self.priority.unwrap_or(PRIORITY_DEFAULT),
                depends_on,
                kind: self.kind,
                critical: self.critical,
                protected: self.protected,
                context: TicketContext {
                    epic: self.epic,
                    base_branch: self.base,
                    branch: self.branch,
                    jira_key: self.jira_key,
                    github_repo: self.github_repo,
                    pr_number: self.pr_number,
                    coordination: self.coordination,
                    needs: needs.map_err(|error| refuse(&error))?,
                    ..TicketContext::default()
                },
            },
        })
    }
}

/// The value in a form that the field takes: as it is, as text, or as a list of sentences.
fn converted(name: &str, value: &Value) -> Option<Value> {
    let takes = |value: &Value| {
        let mut fields = Map::new();
        fields.insert(name.to_owned(), value.clone());
        serde_json::from_value::<TicketFields>(Value::Object(fields)).is_ok()
    };
    let text = Value::String(sentence(value));
    let list = match value {
        Value::Array(items) => items.iter().map(sentence).collect(),
        other => vec![sentence(other)],
    };
    let list: Vec<Value> = list
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(Value::String)
        .collect();
    if is_empty(value) {
        return None;
    }
    if name == "priority"
        && let Some(number) = value.as_str().and_then(priority_of_word)
    {
        return Some(number.into());
    }
    [value.clone(), text, Value::Array(list)]
        .into_iter()
        .find(takes)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// Our priority for a word that trackers use; higher goes first.
pub fn priority_of_word(word: &str) -> Option<i32> {
    match word.trim().to_ascii_lowercase().as_str() {
        "critical" | "urgent" | "highest" => Some(90),
        "high" => Some(70),
        "medium" | "normal" => Some(50),
        "low" => Some(30),
        "lowest" => Some(10),
        _ => None,
    }
}

/// A value in words: `{arity: 2}` is `arity 2`.
pub fn sentence(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Object(fields) => {
            let parts = fields
                .iter()
                .map(|(key, value)| format!("{} {}", key.replace('_', " "), sentence(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) => items.iter().map(sentence).collect::<Vec<_>>().join(", "),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> LenientFields {
        TicketFields::read_leniently(value.as_object().unwrap())
    }

    #[test]
    fn other_systems_names_and_forms_are_understood_and_the_rest_is_kept() {
        let LenientFields {
            fields,
            rest,
            unread,
        } = read(json!({
            "key": "P-7", "summary": "Mend it", "type": "fix", "priority": "high",
            "acceptance_criteria": [{"given": "a name"}, "it greets"], "dependencies": ["P-3"],
            "needs": "gpu=yes", "pr_number": 12, "labels": ["x"], "description": "",
            "critical": "perhaps",
        }));
        assert_eq!(fields.id.as_deref(), Some("P-7"));
        assert_eq!(fields.title.as_deref(), Some("Mend it"));
        assert_eq!(fields.kind.as_deref(), Some("fix"));
        assert_eq!(fields.priority, Some(70), "high");
        assert_eq!(fields.acceptance, ["given a name", "it greets"]);
        assert_eq!(fields.depends_on, ["P-3"]);
        assert_eq!(fields.needs, ["gpu=yes"]);
        assert_eq!(fields.pr_number, Some(12));
        assert_eq!(rest.keys().collect::<Vec<_>>(), ["labels"]);
        assert_eq!(unread.keys().collect::<Vec<_>>(), ["critical"]);
    }

    #[test]
    fn a_field_s_own_name_goes_before_its_aliases() {
        for value in [
            json!({"title": "own", "summary": "other"}),
            json!({"summary": "other", "title": "own"}),
        ] {
            assert_eq!(read(value).fields.title.as_deref(), Some("own"));
        }
    }

    /// Every field is one that all ways in know: nothing lists them a second time.
    #[test]
    fn every_alias_names_a_field() {
        let names = names();
        assert_eq!(names.len(), 17);
        for (alias, name) in ALIASES {
            assert!(names.iter().any(|known| known == name), "{alias}");
            assert!(!names.iter().any(|known| known == alias), "{alias}");
        }
    }
}
