//! Reads epic files, and tickets in the formats of other systems: epic YAML, epic state
//! (`epic-state.json`), task files, and story files.

use flow::TicketId;
use flow::ticket::{ImportedEntry, ImportedFormat, Spec, TicketContext};
use serde_json::{Map, Value};

use super::ticket_fields::{LenientFields, TicketFields, sentence};
use super::ticket_file::{self, TicketRequest, id_for};
use crate::failure::Failure;

/// Maximum size of an epic file.
pub const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Fields of task files and epic states that exports write back, so they are not unknown.
pub(super) const CONTRACT_FIELDS: [&str; 17] = [
    "assigned_to",
    "blocks",
    "created_at",
    "created_by",
    "current_review_report",
    "deliverables",
    "failure_reason",
    "git_info",
    "notes",
    "plan",
    "retry_count",
    "review_approved",
    "review_completed_at",
    "review_history",
    "review_started_at",
    "revision_count",
    "status",
];
/// Names of our own fields in a ticket's context. A file of another system must not set them: they
/// would bind the ticket to a repository or a worker.
const RESERVED_FIELDS: [&str; 5] = ["coordination", "imported", "needs", "remote", "repository"];

/// Tickets of one epic file.
#[derive(Clone, Debug)]
pub struct EpicFile {
    pub id: String,
    pub title: String,
    /// True if no person has to sign the whole at the end.
    pub no_gate: bool,
    pub base: Option<String>,
    pub tickets: Vec<(TicketId, Spec)>,
    /// Tickets that were left out, with the reason.
    pub remarks: Vec<String>,
    /// Values of known fields that have no meaning here, each as a sentence.
    pub unread: Vec<String>,
    /// The file with all its fields, known or not.
    pub raw: Value,
}

impl EpicFile {
    /// Returns an epic without tickets; with an empty id, a group of tickets without an epic.
    pub fn group(id: &str, title: &str) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            no_gate: id.is_empty(),
            base: None,
            tickets: Vec::new(),
            remarks: Vec::new(),
            unread: Vec::new(),
            raw: Value::Null,
        }
    }

    fn with_ticket(mut self, id: TicketId, spec: Spec) -> Self {
        self.tickets.push((id, spec));
        self
    }
}

/// A ticket of a file, and the values that could not be read.
pub(super) struct TicketEntry {
    pub ticket: (TicketId, Spec),
    pub unread: Vec<String>,
}

/// Reads an epic; `None` if the file is a single ticket or in no known format.
pub fn read(name: &str, bytes: &[u8]) -> Result<Option<EpicFile>, Failure> {
    let raw = match value(name, bytes) {
        Ok(Some(raw)) => raw,
        Err(failure) if looks_like_epic(bytes) => return Err(failure),
        // The reader of tickets has better messages for a broken ticket.
        Ok(None) | Err(_) => return Ok(None),
    };
    match raw.get("tickets").or_else(|| raw.get("stories")) {
        Some(Value::Array(list)) => epic(name, &raw, list).map(Some),
        Some(Value::Object(states)) => epic_state(name, &raw, states).map(Some),
        Some(_) | None => Ok(None),
    }
}

fn looks_like_epic(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(|line| line.trim_start_matches([' ', '"']));
    lines.any(|line| line.starts_with("tickets"))
}

/// Reads the tickets of a file in any known format.
pub fn read_any(name: &str, bytes: &[u8]) -> Result<EpicFile, Failure> {
    if let Some(epic) = read(name, bytes)? {
        return Ok(epic);
    }
    if is_json(name)
        && let Some(Value::Object(fields)) = value(name, bytes)?
    {
        let entry = task(name, &fields)?;
        let (id, mut spec) = entry.ticket;
        if let Some(status @ ("completed" | "cancelled")) =
            fields.get("status").and_then(Value::as_str)
        {
            let remark = format!("{id} is already {status}; no ticket is added for it");
            return Ok(EpicFile {
                remarks: vec![remark],
                raw: Value::Object(fields),
                ..EpicFile::group("", "")
            });
        }
        keep_entry(&mut spec, ImportedFormat::Task, fields.clone(), &[]);
        return Ok(EpicFile {
            unread: entry.unread,
            ..single_ticket(id, spec, Value::Object(fields))
        });
    }
    let TicketRequest { id, spec } = ticket_file::read(name, bytes)?;
    let (id, spec) = story(id, spec);
    Ok(single_ticket(id, spec, Value::Null))
}

/// Keeps the whole entry with the ticket, so that an export writes it back.
fn keep_entry(
    spec: &mut Spec,
    format: ImportedFormat,
    fields: Map<String, Value>,
    completed: &[String],
) {
    let extra = &mut spec.context.extra;
    extra.retain(|key, _| !CONTRACT_FIELDS.contains(&key.as_str()));
    spec.context.imported = Some(ImportedEntry {
        format,
        fields,
        completed_dependencies: completed.iter().cloned().collect(),
    });
}

fn single_ticket(id: TicketId, spec: Spec, raw: Value) -> EpicFile {
    EpicFile {
        no_gate: true,
        raw,
        ..EpicFile::group(spec.context.epic.as_deref().unwrap_or_default(), "")
    }
    .with_ticket(id, spec)
}

fn is_json(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".json")
}

/// Parses the file if it is YAML or JSON.
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
    let requirements = coordination_sentences(raw);
    let base = text(raw, &["base", "base_branch"]).map(str::to_owned);
    let mut tickets = Vec::with_capacity(list.len());
    let mut unread = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let place = format!("{name}: ticket {}", index + 1);
        let entry = entry(&place, item)?;
        unread.extend(entry.unread);
        let (ticket, mut spec) = entry.ticket;
        spec.context.epic = Some(id.clone());
        spec.context.base_branch = spec.context.base_branch.or_else(|| base.clone());
        let of_ticket = std::mem::take(&mut spec.context.coordination);
        spec.context.coordination = requirements.iter().cloned().chain(of_ticket).collect();
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
        unread,
        raw: raw.clone(),
    })
}

/// Reads one ticket of an epic.
fn entry(name: &str, item: &Value) -> Result<TicketEntry, Failure> {
    if let Some(title) = item.as_str() {
        let spec = Spec {
            title: title.to_owned(),
            ..Spec::default()
        };
        return Ok(TicketEntry {
            ticket: (id_for(title), spec),
            unread: Vec::new(),
        });
    }
    let Value::Object(fields) = item else {
        return Err(Failure::usage(format!(
            "{name} must be a sentence or a table"
        )));
    };
    task(name, fields)
}

/// Reads a ticket from the fields of a task file, an epic's ticket or our own format. Unknown
/// fields are stored with it.
pub(super) fn task(name: &str, fields: &Map<String, Value>) -> Result<TicketEntry, Failure> {
    let LenientFields {
        fields: mut own,
        mut rest,
        mut unread,
    } = TicketFields::read_leniently(fields);
    let title = own.title.take().or_else(|| own.id.clone());
    own.title = title.as_deref().map(findings::one_line);
    let mut inherited = context(rest.shift_remove("context").as_ref());
    inherited.extra.extend(rest);
    for name in RESERVED_FIELDS {
        if let Some(value) = inherited.extra.remove(name) {
            unread.insert(name.to_owned(), value);
        }
    }
    let TicketRequest { id, mut spec } = own.into_request(name)?;
    let id = id.unwrap_or_else(|| id_for(&spec.title));
    let stated = spec.context;
    spec.context = TicketContext {
        epic: stated.epic.or(inherited.epic),
        base_branch: stated.base_branch.or(inherited.base_branch),
        branch: stated.branch.or(inherited.branch),
        jira_key: stated.jira_key.or(inherited.jira_key),
        github_repo: stated.github_repo.or(inherited.github_repo),
        pr_number: stated.pr_number.or(inherited.pr_number),
        extra: inherited.extra,
        ..stated
    };
    let unread = unread.iter().map(|(key, value)| {
        let value = findings::shorten(&findings::one_line(&value.to_string()), 60);
        format!(
            "{id}: `{}` = {value} has no meaning here and is dropped",
            findings::one_line(key)
        )
    });
    let unread = unread.collect();
    Ok(TicketEntry {
        ticket: (id, spec),
        unread,
    })
}

/// Reads the context of a task file; unknown fields are stored with it.
fn context(value: Option<&Value>) -> TicketContext {
    let Some(Value::Object(fields)) = value else {
        return TicketContext::default();
    };
    let object = Value::Object(fields.clone());
    let field = |keys: &[&str]| text(&object, keys).map(str::to_owned);
    let known_fields = [
        "base_branch",
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
        .filter(|(key, _)| !known_fields.contains(&key.as_str()));
    TicketContext {
        epic: field(&["epic_key", "epic"]),
        base_branch: field(&["base_branch"]),
        branch: field(&["branch_name", "branch"]),
        jira_key: field(&["jira_key"]),
        github_repo: field(&["github_repo"]),
        pr_number: fields.get("pr_number").and_then(Value::as_u64),
        extra: rest
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        ..TicketContext::default()
    }
}

/// Turns the coordination requirements of an epic into sentences: each leaf with the keys above it.
fn coordination_sentences(raw: &Value) -> Vec<String> {
    let mut sentences = Vec::new();
    for key in ["coordination_requirements", "coordination"] {
        if let Some(value) = raw.get(key) {
            flatten("", value, &mut sentences);
        }
    }
    sentences
}

fn flatten(above: &str, value: &Value, sentences: &mut Vec<String>) {
    let path_of = |key: &str| {
        let key = key.replace('_', " ");
        if above.is_empty() {
            key
        } else {
            format!("{above}, {key}")
        }
    };
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| flatten(above, item, sentences)),
        Value::Object(fields)
            if fields
                .values()
                .any(|value| value.is_object() || value.is_array()) =>
        {
            for (key, value) in fields {
                flatten(&path_of(key), value, sentences);
            }
        }
        Value::Null => {}
        Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let leaf = sentence(value);
            let text = if above.is_empty() {
                leaf
            } else {
                format!("{above}: {leaf}")
            };
            sentences.push(findings::one_line(&text));
        }
    }
}

/// Reads an epic state. A completed ticket is not added, and dependencies on it are dropped.
fn epic_state(name: &str, raw: &Value, states: &Map<String, Value>) -> Result<EpicFile, Failure> {
    let title = text(raw, &["title", "epic_name", "epic_id", "epic"])
        .unwrap_or(name)
        .to_owned();
    let id =
        text(raw, &["epic_id", "id"]).map_or_else(|| id_for(&title).to_string(), str::to_owned);
    let completed = |state: &Value| text(state, &["status"]) == Some("completed");
    let mut remarks = Vec::new();
    let mut unread = Vec::new();
    let mut tickets = Vec::new();
    for (key, state) in states {
        if completed(state) {
            remarks.push(format!(
                "{key} is already completed; no ticket is added for it"
            ));
            continue;
        }
        let mut fields = state.as_object().cloned().unwrap_or_default();
        fields.insert("id".to_owned(), Value::String(key.clone()));
        let entry = task(&format!("{name}: {key}"), &fields)?;
        unread.extend(entry.unread);
        let (ticket, mut spec) = entry.ticket;
        let is_met = |need: &TicketId| states.get(need.as_str()).is_some_and(completed);
        let needs = spec.depends_on.iter().filter(|need| is_met(need));
        let met: Vec<String> = needs.map(TicketId::to_string).collect();
        spec.depends_on.retain(|need| !is_met(need));
        spec.context.epic = Some(id.clone());
        let fields = state.as_object().cloned().unwrap_or_default();
        keep_entry(&mut spec, ImportedFormat::EpicState, fields, &met);
        tickets.push((ticket, spec));
    }
    Ok(EpicFile {
        id,
        title,
        no_gate: false,
        base: None,
        tickets,
        remarks,
        unread,
        raw: raw.clone(),
    })
}

/// Takes the id of a story file from its title: `# Story 1.2: Title`.
fn story(id: Option<TicketId>, mut spec: Spec) -> (TicketId, Spec) {
    let numbered = spec
        .title
        .strip_prefix("Story ")
        .and_then(|rest| rest.split_once(':'));
    let parsed = numbered.and_then(|(number, title)| {
        Some((TicketId::new(number.trim()).ok()?, title.trim().to_owned()))
    });
    if let Some((number, title)) = parsed.filter(|(_, title)| !title.is_empty()) {
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
        let kept = epic.tickets[0].1.context.imported.as_ref().unwrap();
        assert_eq!(kept.fields["revision_count"], 1);
        assert!(kept.completed_dependencies.contains("a"));
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
        let kept = spec.context.imported.as_ref().unwrap();
        assert_eq!(kept.fields["notes"][0], "n");
        let done = br#"{"id": "fix-2", "title": "Mended", "status": "completed"}"#;
        let read = read_any("task.json", done).unwrap();
        assert!(read.tickets.is_empty() && read.remarks.len() == 1);
        let story = "# Story 2.1: The list\n\nShow it.\n\n## Acceptance Criteria\n- sorted\n";
        let read = read_any("story-2.1.md", story.as_bytes()).unwrap();
        assert_eq!(read.tickets[0].0.as_str(), "2.1");
        assert_eq!(read.tickets[0].1.title, "The list");
        assert_eq!(read.tickets[0].1.acceptance, ["sorted"]);
    }
}
