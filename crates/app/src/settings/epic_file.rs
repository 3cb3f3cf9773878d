//! Epic files, and tickets in other systems' forms: 002's epic YAML and epic-state.json, 001's
//! task files, 004's stories.

use std::collections::BTreeSet;

use flow::TicketId;
use flow::ticket::{PRIORITY_DEFAULT, Spec, TicketContext};
use serde_json::{Map, Value};

use super::ticket_file::{self, TicketRequest, id_for};
use crate::failure::Failure;

/// A longer file is no epic.
pub const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Tickets that belong together, as a file asks for them.
#[derive(Clone, Debug)]
pub struct EpicFile {
    pub id: String,
    pub title: String,
    /// Nobody signs the whole at its end.
    pub no_gate: bool,
    pub base: Option<String>,
    pub tickets: Vec<(TicketId, Spec)>,
    /// Left out, and why.
    pub remarks: Vec<String>,
    /// The file as it was, unknown fields and all.
    pub raw: Value,
}

/// Reads an epic; `None` where the file is one ticket, or nothing that we know, and no epic.
pub fn read(name: &str, bytes: &[u8]) -> Result<Option<EpicFile>, Failure> {
    let raw = match value(name, bytes) {
        Ok(Some(raw)) => raw,
        Err(failure) if claims_to_be(bytes) => return Err(failure),
        // Whoever reads tickets says better what is wrong with one.
        Ok(None) | Err(_) => return Ok(None),
    };
    match raw.get("tickets").or_else(|| raw.get("stories")) {
        Some(Value::Array(list)) => epic(name, &raw, list).map(Some),
        Some(Value::Object(states)) => epic_state(name, &raw, states).map(Some),
        Some(_) | None => Ok(None),
    }
}

fn claims_to_be(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(|line| line.trim_start_matches([' ', '"']));
    lines.any(|line| line.starts_with("tickets"))
}

/// Tickets of any known form in one file.
pub fn read_any(name: &str, bytes: &[u8]) -> Result<EpicFile, Failure> {
    if let Some(epic) = read(name, bytes)? {
        return Ok(epic);
    }
    if is_json(name)
        && let Some(Value::Object(fields)) = value(name, bytes)?
    {
        let (id, spec) = task(name, &fields)?;
        return Ok(single(id, spec, Value::Object(fields)));
    }
    let TicketRequest { id, spec } = ticket_file::read(name, bytes)?;
    let (id, spec) = story(id, spec);
    Ok(single(id, spec, Value::Null))
}

fn single(id: TicketId, spec: Spec, raw: Value) -> EpicFile {
    EpicFile {
        id: spec.context.epic.clone().unwrap_or_default(),
        title: String::new(),
        no_gate: true,
        base: None,
        tickets: vec![(id, spec)],
        remarks: Vec::new(),
        raw,
    }
}

fn is_json(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".json")
}

/// The file as data, where it is YAML or JSON.
fn value(name: &str, bytes: &[u8]) -> Result<Option<Value>, Failure> {
    let structured = [".yaml", ".yml", ".json"]
        .iter()
        .any(|end| name.to_ascii_lowercase().ends_with(end));
    if !structured {
        return Ok(None);
    }
    if bytes.len() > BYTES_MAX {
        return Err(Failure::usage(format!("{name} is larger than 4 MiB")));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not text in UTF-8")))?;
    let refuse = |error: String| Failure::usage(format!("{name}: {error}"));
    if is_json(name) {
        return serde_json::from_str(text)
            .map(Some)
            .map_err(|error| refuse(error.to_string()));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
        .map(Some)
        .map_err(|error| ticket_file::yaml_failure(name, &error, 0))
}

fn text<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter()
        .find_map(|key| value.get(key)?.as_str())
        .filter(|text| !text.trim().is_empty())
}

fn epic(name: &str, raw: &Value, list: &[Value]) -> Result<EpicFile, Failure> {
    let title = text(raw, &["title", "name", "epic"])
        .unwrap_or(name)
        .to_owned();
    let id = text(raw, &["id", "key"]).map_or_else(|| id_for(&title).to_string(), str::to_owned);
    let demands = demands(raw);
    let base = text(raw, &["base", "base_branch"]).map(str::to_owned);
    let mut tickets = Vec::with_capacity(list.len());
    for (at, one) in list.iter().enumerate() {
        let named = format!("{name}: ticket {}", at + 1);
        let (ticket, mut spec) = entry(&named, one)?;
        spec.context.epic = Some(id.clone());
        spec.context.base_branch = spec.context.base_branch.or_else(|| base.clone());
        let own = std::mem::take(&mut spec.context.coordination);
        spec.context.coordination = demands.iter().cloned().chain(own).collect();
        tickets.push((ticket, spec));
    }
    if tickets.is_empty() {
        return Err(Failure::usage(format!("{name}: the epic has no tickets")));
    }
    let gate = text(raw, &["gate"]);
    Ok(EpicFile {
        no_gate: gate == Some("none") || raw.get("gate") == Some(&Value::Bool(false)),
        id,
        title,
        base,
        tickets,
        remarks: Vec::new(),
        raw: raw.clone(),
    })
}

fn ticket_id(name: &str, word: &str) -> Result<TicketId, Failure> {
    TicketId::new(word).map_err(|bad| Failure::usage(format!("{name}: {bad}")))
}

/// One ticket of an epic.
fn entry(name: &str, one: &Value) -> Result<(TicketId, Spec), Failure> {
    if let Some(title) = one.as_str() {
        let spec = Spec {
            title: title.to_owned(),
            ..Spec::default()
        };
        return Ok((id_for(title), spec));
    }
    let Value::Object(fields) = one else {
        return Err(Failure::usage(format!(
            "{name} is neither a sentence nor a table"
        )));
    };
    task(name, fields)
}

/// The fields that a task (001), a ticket (002) or ours may have; the rest is kept.
fn task(name: &str, fields: &Map<String, Value>) -> Result<(TicketId, Spec), Failure> {
    let whole = Value::Object(fields.clone());
    let title = text(&whole, &["title", "name", "summary", "id"]).map(findings::one_line);
    let title = title
        .ok_or_else(|| Failure::usage(format!("{name} has no title")).hint("give it `title: …`"))?;
    let id = match text(&whole, &["id", "ticket_id", "key"]) {
        Some(word) => ticket_id(name, word)?,
        None => id_for(&title),
    };
    let list = |keys: &[&str]| -> Vec<String> {
        let found = keys.iter().find_map(|key| fields.get(*key)?.as_array());
        let words = found.into_iter().flatten().map(sentence);
        words.filter(|word| !word.is_empty()).collect()
    };
    let depends_on: BTreeSet<TicketId> = list(&["depends_on", "dependencies"])
        .iter()
        .map(|word| ticket_id(name, word))
        .collect::<Result<_, _>>()?;
    let known = [
        "id",
        "ticket_id",
        "key",
        "title",
        "name",
        "summary",
        "description",
        "priority",
        "depends_on",
        "dependencies",
        "acceptance",
        "acceptance_criteria",
        "type",
        "kind",
        "critical",
        "protected",
        "coordination",
        "context",
        "base",
        "branch",
    ];
    let mut context = context(fields.get("context"));
    context.coordination = list(&["coordination"]);
    context.base_branch = text(&whole, &["base"]).map(str::to_owned);
    context.branch = text(&whole, &["branch"])
        .map(str::to_owned)
        .or(context.branch);
    let rest = fields
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()));
    context
        .extra
        .extend(rest.map(|(key, value)| (key.clone(), value.clone())));
    let priority = fields.get("priority").and_then(Value::as_i64);
    let spec = Spec {
        title,
        description: text(&whole, &["description"])
            .unwrap_or_default()
            .to_owned(),
        acceptance: list(&["acceptance", "acceptance_criteria"]),
        priority: priority
            .and_then(|n| i32::try_from(n).ok())
            .unwrap_or(PRIORITY_DEFAULT),
        depends_on,
        kind: text(&whole, &["type", "kind"]).map(str::to_owned),
        critical: fields
            .get("critical")
            .and_then(Value::as_bool)
            .unwrap_or_default(),
        protected: list(&["protected"]),
        context,
    };
    Ok((id, spec))
}

/// 001's context; what we do not know of it is kept.
fn context(given: Option<&Value>) -> TicketContext {
    let Some(Value::Object(fields)) = given else {
        return TicketContext::default();
    };
    let whole = Value::Object(fields.clone());
    let own = |keys: &[&str]| text(&whole, keys).map(str::to_owned);
    let known = [
        "jira_key",
        "github_repo",
        "pr_number",
        "branch_name",
        "branch",
        "epic_key",
        "epic",
    ];
    let rest = fields
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()));
    TicketContext {
        epic: own(&["epic_key", "epic"]),
        branch: own(&["branch_name", "branch"]),
        jira_key: own(&["jira_key"]),
        github_repo: own(&["github_repo"]),
        pr_number: fields.get("pr_number").and_then(Value::as_u64),
        extra: rest
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        ..TicketContext::default()
    }
}

/// 002's coordination requirements as sentences: each leaf with the words above it.
fn demands(raw: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["coordination_requirements", "coordination"] {
        if let Some(value) = raw.get(key) {
            flatten("", value, &mut found);
        }
    }
    found
}

fn flatten(above: &str, value: &Value, found: &mut Vec<String>) {
    let below = |key: &str| {
        let key = key.replace('_', " ");
        if above.is_empty() {
            key
        } else {
            format!("{above}, {key}")
        }
    };
    match value {
        Value::Array(items) => items.iter().for_each(|item| flatten(above, item, found)),
        Value::Object(fields)
            if fields
                .values()
                .any(|value| value.is_object() || value.is_array()) =>
        {
            for (key, value) in fields {
                flatten(&below(key), value, found);
            }
        }
        Value::Null => {}
        Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let said = sentence(value);
            let text = if above.is_empty() {
                said
            } else {
                format!("{above}: {said}")
            };
            found.push(findings::one_line(&text));
        }
    }
}

fn sentence(value: &Value) -> String {
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

/// 002's state file. What is completed there needs no ticket here, and nobody waits for it.
fn epic_state(name: &str, raw: &Value, states: &Map<String, Value>) -> Result<EpicFile, Failure> {
    let title = text(raw, &["title", "epic_name", "epic_id", "epic"])
        .unwrap_or(name)
        .to_owned();
    let id =
        text(raw, &["epic_id", "id"]).map_or_else(|| id_for(&title).to_string(), str::to_owned);
    let completed = |state: &Value| text(state, &["status"]) == Some("completed");
    let mut remarks = Vec::new();
    let mut tickets = Vec::new();
    for (key, state) in states {
        if completed(state) {
            remarks.push(format!(
                "{key} is completed there; no ticket is made for it"
            ));
            continue;
        }
        let mut fields = state.as_object().cloned().unwrap_or_default();
        fields.insert("id".to_owned(), Value::String(key.clone()));
        let (ticket, mut spec) = task(&format!("{name}: {key}"), &fields)?;
        spec.depends_on.retain(|need| {
            states
                .get(need.as_str())
                .is_none_or(|state| !completed(state))
        });
        spec.context.epic = Some(id.clone());
        tickets.push((ticket, spec));
    }
    Ok(EpicFile {
        id,
        title,
        no_gate: false,
        base: None,
        tickets,
        remarks,
        raw: raw.clone(),
    })
}

/// 004's `# Story 1.2: Title`: its number is its id.
fn story(id: Option<TicketId>, mut spec: Spec) -> (TicketId, Spec) {
    let titled = spec
        .title
        .strip_prefix("Story ")
        .and_then(|rest| rest.split_once(':'));
    let named = titled.and_then(|(number, title)| {
        Some((TicketId::new(number.trim()).ok()?, title.trim().to_owned()))
    });
    if let Some((number, title)) = named.filter(|(_, title)| !title.is_empty()) {
        spec.title = title;
        return (id.unwrap_or(number), spec);
    }
    let id = id.unwrap_or_else(|| id_for(&spec.title));
    (id, spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPIC: &str = "epic: Sign in
id: AUTH
coordination_requirements:
  breaking_changes_prohibited: [Do not change login()]
  function_profiles:
    UserService:
      authenticateUser: {arity: 2, intent: check a password}
tickets:
  - id: auth-base
    critical: true
    acceptance_criteria: [it compiles]
    coordination_role: gives the interface
  - id: auth-web
    name: The form
    depends_on: [auth-base]
";

    #[test]
    fn an_epic_has_tickets_dependencies_and_demands() {
        let epic = read("e.yaml", EPIC.as_bytes()).unwrap().unwrap();
        assert_eq!((epic.id.as_str(), epic.title.as_str()), ("AUTH", "Sign in"));
        let [(base, first), (_, second)] = &epic.tickets[..] else {
            panic!("{epic:?}");
        };
        assert!(first.critical && second.depends_on.contains(base));
        assert_eq!(first.context.epic.as_deref(), Some("AUTH"));
        assert_eq!(
            first.context.extra["coordination_role"],
            "gives the interface"
        );
        assert_eq!(
            second.context.coordination,
            [
                "breaking changes prohibited: Do not change login()",
                "function profiles, UserService, authenticateUser: arity 2, intent check a password",
            ]
        );
        assert_eq!(second.title, "The form");
    }

    #[test]
    fn a_ticket_is_no_epic() {
        assert!(read("t.yaml", b"title: one\n").unwrap().is_none());
        assert!(read("t.md", b"# one\n").unwrap().is_none());
        assert!(read("t.yaml", b"tickets: []\n").is_err());
    }

    #[test]
    fn a_state_file_leaves_out_what_is_completed() {
        let text = r#"{"epic_id": "E", "tickets": {"a": {"status": "completed"},
            "b": {"status": "needs_revision", "depends_on": ["a"], "revision_count": 1}}}"#;
        let epic = read("epic-state.json", text.as_bytes()).unwrap().unwrap();
        assert_eq!(epic.tickets.len(), 1);
        assert!(epic.tickets[0].1.depends_on.is_empty());
        assert_eq!(epic.tickets[0].1.context.extra["revision_count"], 1);
        assert_eq!(epic.remarks.len(), 1);
    }

    #[test]
    fn a_task_file_and_a_story_are_read() {
        let task = r#"{"id": "fix-1", "type": "fix", "title": "Mend it", "priority": 80, "notes": ["n"],
            "context": {"jira_key": "P-1", "branch_name": "feature/x", "jira_project": "P"}}"#;
        let read = read_any("task.json", task.as_bytes()).unwrap();
        let (id, spec) = &read.tickets[0];
        assert_eq!(
            (id.as_str(), spec.priority, spec.kind.as_deref()),
            ("fix-1", 80, Some("fix"))
        );
        assert_eq!(spec.context.branch.as_deref(), Some("feature/x"));
        assert_eq!(spec.context.extra["jira_project"], "P");
        assert_eq!(spec.context.extra["notes"][0], "n");
        let story = "# Story 2.1: The list\n\nShow it.\n\n## Acceptance Criteria\n- sorted\n";
        let read = read_any("story-2.1.md", story.as_bytes()).unwrap();
        assert_eq!(read.tickets[0].0.as_str(), "2.1");
        assert_eq!(read.tickets[0].1.title, "The list");
        assert_eq!(read.tickets[0].1.acceptance, ["sorted"]);
    }
}
