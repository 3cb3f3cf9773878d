//! Reads the tasks of task-master: `tasks.json`, with one list of tasks for each tag.

use flow::TicketId;
use serde_json::{Map, Value};

use super::{
    ForeignTask, ImportReport, ImportedTickets, KeyTally, TaskState, description, has_extension,
    make_tickets, shown, shown_text,
};
use crate::failure::Failure;
use crate::settings::epic_file::EpicFile;
use crate::settings::ticket_fields::{priority_of_word, sentence};
use crate::settings::ticket_file::id_for;

/// Keys of a task that become fields of the ticket.
const READ_KEYS: [&str; 20] = [
    "id",
    "title",
    "description",
    "details",
    "testStrategy",
    "status",
    "priority",
    "dependencies",
    "subtasks",
    "acceptanceCriteria",
    "relevantFiles",
    "codebasePatterns",
    "existingInfrastructure",
    "scopeBoundaries",
    "implementationApproach",
    "technicalConstraints",
    "category",
    "parentId",
    "parentTaskId",
    "parentTask",
];
/// Keys that have no effect here. They stay with the ticket.
const KEPT_KEYS: [&str; 17] = [
    "actualEffort",
    "assignee",
    "complexity",
    "complexityReasoning",
    "complexityScore",
    "createdAt",
    "databaseId",
    "effort",
    "expansionPrompt",
    "isSubtask",
    "metadata",
    "previousStatus",
    "recommendedSubtasks",
    "skills",
    "tag",
    "tags",
    "updatedAt",
];

/// Reads the file; `None` if it is in another format.
pub fn read(name: &str, bytes: &[u8]) -> Result<Option<ImportedTickets>, Failure> {
    if !has_extension(name, "json") {
        return Ok(None);
    }
    // The readers of the other formats have better messages for broken JSON.
    let Ok(Value::Object(raw)) = serde_json::from_slice(bytes) else {
        return Ok(None);
    };
    let Some(tags) = tags(&raw) else {
        return Ok(None);
    };
    let mut reader = TaskMasterReader {
        name,
        report: ImportReport::default(),
        kept: KeyTally::default(),
        unknown: KeyTally::default(),
    };
    let mut epics = Vec::new();
    let mut tasks = Vec::new();
    for (tag, list, metadata) in tags {
        let epic = epic_of_tag(tag, metadata);
        for item in list {
            tasks.push(reader.task(&epic.id, item)?);
        }
        epics.push(epic);
    }
    for key in raw.keys() {
        let is_list = raw.get("tasks").is_some_and(Value::is_array);
        if is_list && !["tasks", "metadata", "meta"].contains(&key.as_str()) {
            reader.unknown.add(key, name);
        }
    }
    let tickets = make_tickets(name, tasks, &mut reader.report)?;
    for (id, spec) in tickets {
        let epic = spec.context.epic.as_deref();
        if let Some(group) = epics
            .iter_mut()
            .find(|group| Some(group.id.as_str()) == epic)
        {
            group.tickets.push((id, spec));
        }
    }
    epics.retain(|group| !group.tickets.is_empty());
    Ok(Some(reader.finish(epics)))
}

/// One list of tasks: its tag, its tasks and its metadata.
type TagList<'a> = (&'a str, &'a [Value], Option<&'a Value>);

/// Lists the tags; `None` if the file has another format. Old files have one list without a tag,
/// which task-master itself reads as the tag `master`.
fn tags(raw: &Map<String, Value>) -> Option<Vec<TagList<'_>>> {
    if let Some(Value::Array(list)) = raw.get("tasks") {
        return Some(vec![("master", list, raw.get("metadata"))]);
    }
    let tags: Option<Vec<TagList<'_>>> = raw
        .iter()
        .map(|(tag, value)| {
            let list = value.get("tasks")?.as_array()?;
            Some((tag.as_str(), list.as_slice(), value.get("metadata")))
        })
        .collect();
    tags.filter(|tags| !tags.is_empty())
}

fn epic_of_tag(tag: &str, metadata: Option<&Value>) -> EpicFile {
    // A tag may have any name; an id may not.
    let id = TicketId::new(tag).map_or_else(|_| id_for(tag).to_string(), |id| id.to_string());
    let text = metadata.and_then(|data| data.get("description")?.as_str());
    let title = text.filter(|text| !text.trim().is_empty());
    let title = title.map_or_else(|| format!("Tag {tag} of task-master"), str::to_owned);
    EpicFile {
        raw: metadata.cloned().unwrap_or_default(),
        ..EpicFile::group(&id, &findings::one_line(&title))
    }
}

struct TaskMasterReader<'a> {
    name: &'a str,
    report: ImportReport,
    kept: KeyTally,
    unknown: KeyTally,
}

impl TaskMasterReader<'_> {
    fn finish(mut self, epics: Vec<EpicFile>) -> ImportedTickets {
        let kept = self
            .kept
            .into_lines("has no effect here; kept with the ticket");
        self.report.kept.extend(kept);
        let unknown = self.unknown.into_lines("not known; kept with the ticket");
        self.report.not_understood.extend(unknown);
        ImportedTickets {
            format: "task-master",
            epics,
            report: self.report,
        }
    }

    fn task(&mut self, epic: &str, item: &Value) -> Result<ForeignTask, Failure> {
        let Value::Object(item) = item else {
            return Err(Failure::usage(format!(
                "{}: a task of {epic} is not an object: {}",
                self.name,
                shown(item)
            )));
        };
        let Some(number) = item.get("id").and_then(number) else {
            return Err(Failure::usage(format!(
                "{}: a task of {epic} has no id: {}",
                self.name,
                shown(item.get("title").unwrap_or(&Value::Null))
            )));
        };
        let id = TicketId::new(&format!("{epic}-{number}"))
            .map_err(|error| Failure::usage(format!("{}: {error}", self.name)))?;
        let state = self.state(&id, item);
        let fields = if state == TaskState::Open {
            self.fields(&id, item)
        } else {
            Map::new()
        };
        Ok(ForeignTask {
            depends_on: self.dependencies(epic, &id, &number, item),
            id,
            state,
            fields,
            epic: Some(epic.to_owned()),
        })
    }

    fn state(&mut self, id: &TicketId, item: &Map<String, Value>) -> TaskState {
        match item
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or("pending")
        {
            "done" | "completed" => TaskState::Done,
            "cancelled" => TaskState::Cancelled,
            "deferred" => TaskState::LeftOut("is deferred".to_owned()),
            "pending" | "blocked" => TaskState::Open,
            status @ ("in-progress" | "review") => {
                self.report.changed.push(format!(
                    "{id} has the status {status} there: it starts from the beginning here"
                ));
                TaskState::Open
            }
            other => {
                let status = shown(&other.into());
                self.report.not_understood.push(format!(
                    "{id} has the status {status}, which is not known: it is left out"
                ));
                TaskState::LeftOut(format!("has the unknown status {status}"))
            }
        }
    }

    /// Collects the dependencies of the task and of its subtasks on other tasks. A dependency on
    /// another task's subtask is one on the task, because subtasks are no tickets.
    fn dependencies(
        &mut self,
        epic: &str,
        id: &TicketId,
        own: &str,
        item: &Map<String, Value>,
    ) -> Vec<Result<TicketId, String>> {
        let mut needs = Vec::new();
        for need in list(item, "dependencies") {
            match number(need) {
                Some(text) => needs.push(text),
                None => self.report.not_understood.push(format!(
                    "{id} has the dependency {}, which is not an id: dropped",
                    shown(need)
                )),
            }
        }
        for subtask in list(item, "subtasks") {
            let all = subtask.get("dependencies").and_then(Value::as_array);
            // A plain number is another subtask of the same task.
            let dotted = all.into_iter().flatten().filter_map(number);
            needs.extend(dotted.filter(|text| text.contains('.')));
        }
        let tasks = needs.into_iter().map(|text| {
            let task = text.split('.').next().unwrap_or_default();
            task.to_owned()
        });
        let mut tasks: Vec<String> = tasks.filter(|task| task != own).collect();
        tasks.dedup();
        let ticket = |task: String| TicketId::new(&format!("{epic}-{task}")).map_err(|_| task);
        tasks.into_iter().map(ticket).collect()
    }

    fn fields(&mut self, id: &TicketId, item: &Map<String, Value>) -> Map<String, Value> {
        self.count_keys(id, item);
        let steps = self.steps(id, item);
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| {
            fields.insert(key.to_owned(), value);
        };
        put("title", item.get("title").cloned().unwrap_or_default());
        let text = description(&[
            ("", item.get("description")),
            ("Details", item.get("details")),
            ("Approach", item.get("implementationApproach")),
            ("Constraints", item.get("technicalConstraints")),
            ("Scope", item.get("scopeBoundaries")),
            ("Patterns", item.get("codebasePatterns")),
            ("Existing parts", item.get("existingInfrastructure")),
            ("Files", item.get("relevantFiles")),
            ("Steps", steps.map(Value::String).as_ref()),
            ("Test strategy", item.get("testStrategy")),
        ]);
        put("description", text.into());
        match item.get("acceptanceCriteria") {
            Some(Value::String(text)) => put("acceptance", super::criteria(text).into()),
            Some(Value::Array(all)) => put("acceptance", Value::Array(all.clone())),
            Some(_) | None => {}
        }
        if let Some(category) = item.get("category").and_then(Value::as_str) {
            put("kind", category.into());
        }
        let ours = |value: &Value| priority_of_word(value.as_str()?);
        match item.get("priority").map(|value| (value, ours(value))) {
            Some((_, Some(ours))) => put("priority", ours.into()),
            Some((theirs, None)) => self.report.not_understood.push(format!(
                "{id} has the priority {}, which is not known: 50 is used",
                shown(theirs)
            )),
            None => {}
        }
        // The steps of the description do not have all keys of a subtask.
        let kept = |key: &str| !READ_KEYS.contains(&key) || matches!(key, "status" | "subtasks");
        let rest = item.iter().filter(|(key, _)| kept(key));
        let rest: Map<String, Value> = rest
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        put("task_master", Value::Object(rest));
        fields
    }

    fn count_keys(&mut self, id: &TicketId, item: &Map<String, Value>) {
        for key in item.keys() {
            if KEPT_KEYS.contains(&key.as_str()) {
                self.kept.add(key, id.as_str());
            } else if !READ_KEYS.contains(&key.as_str()) {
                self.unknown.add(key, id.as_str());
            }
        }
    }

    /// Writes the subtasks as a checklist for the builder.
    fn steps(&mut self, id: &TicketId, item: &Map<String, Value>) -> Option<String> {
        let subtasks = list(item, "subtasks");
        let mut lines = Vec::new();
        for subtask in subtasks {
            let Value::Object(subtask) = subtask else {
                self.report
                    .not_understood
                    .push(format!("{id} has the subtask {}: dropped", shown(subtask)));
                continue;
            };
            let text = |key: &str| subtask.get(key).and_then(Value::as_str).unwrap_or_default();
            let number = subtask.get("id").and_then(number).unwrap_or_default();
            let place = format!("{id}.{number}");
            for key in subtask.keys() {
                let path = format!("subtasks.{key}");
                if KEPT_KEYS.contains(&key.as_str()) {
                    self.kept.add(&path, &place);
                } else if !READ_KEYS.contains(&key.as_str()) {
                    self.unknown.add(&path, &place);
                }
            }
            let status = text("status");
            let mark = if matches!(status, "done" | "completed") {
                "x"
            } else {
                " "
            };
            let mut line = format!("- [{mark}] {number}. {}", findings::one_line(text("title")));
            if !matches!(status, "" | "pending" | "done" | "completed") {
                line.extend([" (", &shown_text(status), ")"]);
            }
            for key in [
                "description",
                "details",
                "testStrategy",
                "acceptanceCriteria",
            ] {
                let part = subtask.get(key).map(sentence);
                for part in part.iter().flat_map(|part| part.lines()) {
                    line.extend(["\n  ", part]);
                }
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return None;
        }
        if lines.iter().any(|line| line.starts_with("- [x]")) {
            lines.push("\nSteps with [x] were finished before the import.".to_owned());
        }
        Some(lines.join("\n"))
    }
}

fn list<'a>(item: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    let list = item.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// An id as text: task-master writes numbers, and texts such as `"23.4"`.
fn number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}
