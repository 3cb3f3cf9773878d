//! The task file: its validation, and the fields that Countersign writes. All other fields are kept
//! as they are.
//!
//! A task file belongs to two programs. Fields that we do not know are written back unchanged,
//! because the other one needs them.

use serde_json::{Map, Value, json};

use app::operations::tasks::listing::{TaskCard, TaskStatus};

/// Maximum size of a task file.
pub const BYTES_MAX: usize = 256 * 1024;
/// Maximum length of an id, because ids become file names.
/// File systems allow 255 bytes for a name, and we add endings.
const ID_CHARS_MAX: usize = 128;
// Each of them is looked up in the store with every scan.
const DEPENDENCIES_MAX: usize = 100;
/// Fields that only Countersign writes; their values in a new file are ignored.
const OWN_FIELDS: [&str; 6] = [
    "started_at",
    "started_by",
    "completed_at",
    "completed_by",
    "last_error",
    "result",
];

/// A valid task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    pub id: String,
    pub priority: i32,
    pub depends_on: Vec<String>,
    /// Status in the file; `None` if the word is unknown.
    pub status: Option<TaskStatus>,
    /// Agent that runs the task, as the file says (`started_by`).
    pub agent: Option<String>,
    /// Task as queued, without later status fields.
    pub body: Value,
}

/// Reason why a file is not a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskFileError {
    /// Not valid JSON; the file may be half written.
    Unreadable(String),
    Unsound(String),
}

pub fn read(queue: &str, bytes: &[u8]) -> Result<TaskFile, TaskFileError> {
    let value = serde_json::from_slice(bytes)
        .map_err(|error| TaskFileError::Unreadable(format!("it is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(invalid("it is JSON, but not an object"));
    };
    validate(queue, fields)
}

fn validate(queue: &str, fields: Map<String, Value>) -> Result<TaskFile, TaskFileError> {
    let id = text(&fields, "id")?.ok_or_else(|| invalid("it has no `id`"))?;
    if !is_file_name(id) {
        return Err(invalid(format!(
            "its id {id:?} is invalid: use letters, digits, '-', '_' and '.', at most {ID_CHARS_MAX}, not starting with '.'"
        )));
    }
    // A title is what people see in every list.
    if text(&fields, "title")?.is_none_or(|title| title.trim().is_empty()) {
        return Err(invalid("it has no `title`"));
    }
    // A file in the wrong directory is a mistake of its author, and a task must not run as another
    // agent.
    if let Some(agent) = text(&fields, "assigned_to")?
        && !belongs_to(agent, queue)
    {
        let agent = findings::one_line(agent);
        return Err(invalid(format!(
            "it is assigned to {agent:?}, but lies in the queue of {queue:?}"
        )));
    }
    // The type is free, but it has to be a text, as the other fields are.
    text(&fields, "type")?;
    Ok(TaskFile {
        id: id.to_owned(),
        priority: priority(&fields)?,
        depends_on: depends_on(&fields)?,
        status: TaskStatus::from_word(text(&fields, "status")?.unwrap_or("pending")),
        agent: fields
            .get("started_by")
            .and_then(Value::as_str)
            .map(str::to_owned),
        body: Value::Object(without_own_fields(fields)),
    })
}

fn invalid(why: impl Into<String>) -> TaskFileError {
    TaskFileError::Unsound(why.into())
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, TaskFileError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(format!("its `{name}` is not a string"))),
    }
}

fn priority(fields: &Map<String, Value>) -> Result<i32, TaskFileError> {
    let Some(value) = fields.get("priority").filter(|value| !value.is_null()) else {
        return Ok(flow::ticket::PRIORITY_DEFAULT);
    };
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| invalid("its `priority` is not a 32-bit integer"))
}

fn depends_on(fields: &Map<String, Value>) -> Result<Vec<String>, TaskFileError> {
    let bad = || invalid("its `depends_on` is not a list of task ids");
    let Some(value) = fields.get("depends_on").filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    let list = value.as_array().ok_or_else(bad)?;
    if list.len() > DEPENDENCIES_MAX {
        return Err(invalid(format!(
            "it depends on more than {DEPENDENCIES_MAX} tasks"
        )));
    }
    let ids = list.iter().map(|id| id.as_str().map(str::to_owned));
    ids.collect::<Option<_>>().ok_or_else(bad)
}

/// Whether a word is safe as part of a file name.
pub fn is_file_name(word: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !word.is_empty() && word.len() <= ID_CHARS_MAX && !word.starts_with('.');
    fits && word.chars().all(is_safe)
}

/// Whether the agent is the queue's own, or a replica (`qa-2` of `qa`).
/// Replicas share the queue of their agent.
fn belongs_to(agent: &str, queue: &str) -> bool {
    let rest = agent.strip_prefix(queue);
    let number = rest.and_then(|rest| rest.strip_prefix('-'));
    let replica = number.is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
    rest == Some("") || replica
}

/// Returns the task without status fields, so that a file compares equal before and after we wrote
/// to it. Control characters are removed from texts for people.
fn without_own_fields(mut fields: Map<String, Value>) -> Map<String, Value> {
    for name in ["title", "description"] {
        if let Some(Value::String(text)) = fields.get_mut(name) {
            *text = findings::clean(text);
        }
    }
    for name in OWN_FIELDS {
        fields.shift_remove(name);
    }
    // A file that we have written has another status than the queued task, and still is the same
    // task.
    fields.insert("status".to_owned(), "pending".into());
    fields.insert("retry_count".to_owned(), 0.into());
    fields
}

/// Whether a file has the same content as the queued task.
pub fn is_same(file: &Value, queued: &Value) -> bool {
    let without_status = |value: &Value| value.as_object().cloned().map(without_own_fields);
    without_status(file) == without_status(queued)
}

/// Times at which a task started and completed.
#[derive(Clone, Debug, Default)]
pub struct TaskTimes {
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
}

/// Renders the file: the queued task with its current status.
pub fn render(card: &TaskCard, times: &TaskTimes) -> Vec<u8> {
    let mut fields = card.body.as_object().cloned().unwrap_or_default();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    let ended = times.completed_at.is_some();
    set("status", Some(card.status.as_str().into()));
    set("retry_count", Some(card.attempts.into()));
    set("started_at", times.started_at.clone().map(Value::from));
    let by = if ended { "completed_by" } else { "started_by" };
    set(by, card.agent.clone().map(Value::from));
    set("completed_at", times.completed_at.clone().map(Value::from));
    set("last_error", card.error.clone().map(Value::from));
    set("result", card.result.clone());
    let mut text = format!("{:#}", Value::Object(fields));
    text.push('\n');
    text.into_bytes()
}

/// Renders the lock file: the task, its agent and the end of the lease.
pub fn render_lock(card: &TaskCard) -> Vec<u8> {
    let until = card.until.map(flow::Time::to_iso);
    let lock = json!({"task_id": card.id, "agent": card.agent, "until": until});
    format!("{lock:#}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(text: &str) -> String {
        match read("qa", text.as_bytes()).unwrap_err() {
            TaskFileError::Unreadable(why) => format!("unreadable: {why}"),
            TaskFileError::Unsound(why) => why,
        }
    }

    #[test]
    fn what_is_no_task_is_told_apart_from_what_may_be_half_written() {
        assert!(flaw("").starts_with("unreadable"));
        assert!(flaw("{\"id\": \"a").starts_with("unreadable"));
        assert_eq!(flaw("[]"), "it is JSON, but not an object");
        assert_eq!(flaw("{\"title\": \"x\"}"), "it has no `id`");
        assert_eq!(flaw("{\"id\": \"a\"}"), "it has no `title`");
        assert_eq!(flaw("{\"id\": 7}"), "its `id` is not a string");
        for id in ["../x", "a/b", ".x", "a b", ""] {
            let text = json!({"id": id, "title": "x"}).to_string();
            assert!(flaw(&text).starts_with("its id"), "{id}");
        }
        let other = "{\"id\": \"a\", \"title\": \"x\", \"assigned_to\": \"engineer\"}";
        assert!(flaw(other).contains("lies in the queue"));
        let urgent = "{\"id\": \"a\", \"title\": \"x\", \"priority\": 1e30}";
        assert!(flaw(urgent).contains("priority"));
    }

    #[test]
    fn a_file_is_the_same_before_and_after_we_wrote_into_it() {
        let text = "{\"zeta\": 1.5, \"id\": \"a\", \"title\": \"x\", \"assigned_to\": \"qa-2\", \"own\": {\"b\": [null]}}";
        let first = read("qa", text.as_bytes()).unwrap();
        let card = TaskCard {
            id: "a".to_owned(),
            queue: "qa".to_owned(),
            status: TaskStatus::Completed,
            agent: Some("qa-2".to_owned()),
            until: None,
            attempts: 2,
            error: Some("once it failed".to_owned()),
            result: Some(json!({"summary": "fine"})),
            body: first.body.clone(),
        };
        let times = TaskTimes {
            started_at: Some("then".to_owned()),
            completed_at: Some("now".to_owned()),
        };
        let after = read("qa", &render(&card, &times)).unwrap();
        assert_eq!(after.status, Some(TaskStatus::Completed));
        assert_eq!(after.body, first.body);
        assert!(is_same(&after.body, &first.body));
        let value: Value = serde_json::from_slice(&render(&card, &times)).unwrap();
        assert_eq!(
            (&value["zeta"], &value["own"]["b"]),
            (&json!(1.5), &json!([null]))
        );
        assert_eq!(value["completed_by"], "qa-2");
    }
}
