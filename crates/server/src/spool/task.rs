//! 001's task file: what is asked of it, and the fields in it that are ours to write. All others are
//! kept as they are.

use serde_json::{Map, Value, json};

use app::operations::tasks::board::{TaskCard, TaskStatus};

/// A larger file is no task.
pub const BYTES_MAX: usize = 256 * 1024;
/// Its id names files.
const ID_CHARS_MAX: usize = 128;
const DEPENDENCIES_MAX: usize = 100;
/// What only we write. What a file brings of them says nothing.
const OURS: [&str; 6] = [
    "started_at",
    "started_by",
    "completed_at",
    "completed_by",
    "last_error",
    "result",
];

/// A sound task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    pub id: String,
    pub priority: i32,
    pub depends_on: Vec<String>,
    /// Where it stands, as the file says, and in whose hands; nothing where the word is not known.
    pub standing: Option<TaskStatus>,
    pub agent: Option<String>,
    /// As it was written, whatever has become of it since.
    pub body: Value,
}

/// Why a file is no task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskFileError {
    /// It may be half written.
    Unreadable(String),
    Unsound(String),
}

pub fn read(queue: &str, bytes: &[u8]) -> Result<TaskFile, TaskFileError> {
    let value = serde_json::from_slice(bytes)
        .map_err(|error| TaskFileError::Unreadable(format!("it is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(unsound("it is JSON, but no object"));
    };
    sound(queue, fields)
}

fn sound(queue: &str, fields: Map<String, Value>) -> Result<TaskFile, TaskFileError> {
    let id = text(&fields, "id")?.ok_or_else(|| unsound("it has no `id`"))?;
    if !names_a_file(id) {
        return Err(unsound(format!(
            "its id {id:?} is not one: letters, digits, '-', '_' and '.', at most {ID_CHARS_MAX}, no '.' first"
        )));
    }
    if text(&fields, "title")?.is_none_or(|title| title.trim().is_empty()) {
        return Err(unsound("it has no `title`"));
    }
    if let Some(agent) = text(&fields, "assigned_to")?
        && !is_of(agent, queue)
    {
        let agent = findings::one_line(agent);
        return Err(unsound(format!(
            "it is assigned to {agent:?}, and lies in the queue of {queue:?}"
        )));
    }
    text(&fields, "type")?;
    Ok(TaskFile {
        id: id.to_owned(),
        priority: priority(&fields)?,
        depends_on: depends_on(&fields)?,
        standing: TaskStatus::read(text(&fields, "status")?.unwrap_or("pending")),
        agent: fields
            .get("started_by")
            .and_then(Value::as_str)
            .map(str::to_owned),
        body: Value::Object(as_written(fields)),
    })
}

fn unsound(why: impl Into<String>) -> TaskFileError {
    TaskFileError::Unsound(why.into())
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, TaskFileError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(unsound(format!("its `{name}` is no text"))),
    }
}

fn priority(fields: &Map<String, Value>) -> Result<i32, TaskFileError> {
    let Some(given) = fields.get("priority").filter(|value| !value.is_null()) else {
        return Ok(flow::ticket::PRIORITY_DEFAULT);
    };
    let number = given.as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| unsound("its `priority` is no number that one can have"))
}

fn depends_on(fields: &Map<String, Value>) -> Result<Vec<String>, TaskFileError> {
    let bad = || unsound("its `depends_on` is no list of task ids");
    let Some(given) = fields.get("depends_on").filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    let list = given.as_array().ok_or_else(bad)?;
    if list.len() > DEPENDENCIES_MAX {
        return Err(unsound(format!(
            "it depends on more than {DEPENDENCIES_MAX} tasks"
        )));
    }
    let ids = list.iter().map(|id| id.as_str().map(str::to_owned));
    ids.collect::<Option<_>>().ok_or_else(bad)
}

/// Whether it can be part of a file's name.
pub fn names_a_file(word: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !word.is_empty() && word.len() <= ID_CHARS_MAX && !word.starts_with('.');
    fits && word.chars().all(sound)
}

/// The queue's own agent, or a replica (`qa-2` of `qa`).
fn is_of(agent: &str, queue: &str) -> bool {
    let rest = agent.strip_prefix(queue);
    let number = rest.and_then(|rest| rest.strip_prefix('-'));
    let replica = number.is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
    rest == Some("") || replica
}

/// The task without what has become of it: the same file before and after we wrote into it. What
/// people read has no control characters.
fn as_written(mut fields: Map<String, Value>) -> Map<String, Value> {
    for name in ["title", "description"] {
        if let Some(Value::String(text)) = fields.get_mut(name) {
            *text = findings::clean(text);
        }
    }
    for name in OURS {
        fields.shift_remove(name);
    }
    fields.insert("status".to_owned(), "pending".into());
    fields.insert("retry_count".to_owned(), 0.into());
    fields
}

/// Whether a file asks for just what was queued.
pub fn is_same(file: &Value, queued: &Value) -> bool {
    let bare = |value: &Value| value.as_object().cloned().map(as_written);
    bare(file) == bare(queued)
}

/// When something began or ended, and by whom.
#[derive(Clone, Debug, Default)]
pub struct TaskTimes {
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
}

/// The file as it should be: what was queued, and what has become of it.
pub fn written(card: &TaskCard, times: &TaskTimes) -> Vec<u8> {
    let mut fields = card.body.as_object().cloned().unwrap_or_default();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    let ended = times.completed_at.is_some();
    set("status", Some(card.standing.word().into()));
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

/// What a lock says of who has the task.
pub fn lock(card: &TaskCard) -> Vec<u8> {
    let until = card.until.map(flow::Time::iso);
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
        assert_eq!(flaw("[]"), "it is JSON, but no object");
        assert_eq!(flaw("{\"title\": \"x\"}"), "it has no `id`");
        assert_eq!(flaw("{\"id\": \"a\"}"), "it has no `title`");
        assert_eq!(flaw("{\"id\": 7}"), "its `id` is no text");
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
            standing: TaskStatus::Completed,
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
        let after = read("qa", &written(&card, &times)).unwrap();
        assert_eq!(after.standing, Some(TaskStatus::Completed));
        assert_eq!(after.body, first.body);
        assert!(is_same(&after.body, &first.body));
        let value: Value = serde_json::from_slice(&written(&card, &times)).unwrap();
        assert_eq!(
            (&value["zeta"], &value["own"]["b"]),
            (&json!(1.5), &json!([null]))
        );
        assert_eq!(value["completed_by"], "qa-2");
    }
}
