//! Reads files of other systems for `countersign import`, and reports all that has no meaning here.
//!
//! Tasks of beads and task-master become tickets through the one reader of ticket fields. The
//! agents of an agent framework become a proposed configuration ([`agent_framework`]).

pub mod agent_framework;
mod beads;
mod task_master;

use std::collections::{BTreeMap, BTreeSet};

use flow::TicketId;
use flow::ticket::{ImportedFormat, Spec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::epic_file::{self, EpicFile};
use super::ticket_fields::TITLE_CHARS_MAX;
use crate::failure::Failure;

/// Maximum size of an imported file.
pub const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of tasks in an imported file.
const TASKS_MAX: usize = 5_000;
/// Characters of a foreign value that a report shows.
const SHOWN_CHARS_MAX: usize = 60;
/// Places that a report names for a key; more are counted.
const PLACES_MAX: usize = 3;

/// The tickets of an imported file.
#[derive(Clone, Debug)]
pub struct ImportedTickets {
    /// The name of the format, for messages.
    pub format: &'static str,
    pub epics: Vec<EpicFile>,
    pub report: ImportReport,
}

impl ImportedTickets {
    pub fn tickets(&self) -> impl Iterator<Item = &(TicketId, Spec)> {
        self.epics.iter().flat_map(|epic| &epic.tickets)
    }
}

/// All that an import did not take over as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ImportReport {
    /// Entries that are left out, each with the reason.
    pub left_out: Vec<String>,
    /// Values that mean something else here, or that are dropped.
    pub changed: Vec<String>,
    /// Keys that have no effect here and stay with the ticket.
    pub kept: Vec<String>,
    /// Keys and values that are not known.
    pub not_understood: Vec<String>,
}

/// Reads the tickets of a file in any known format.
pub fn read_tickets(name: &str, bytes: &[u8]) -> Result<ImportedTickets, Failure> {
    if bytes.len() > BYTES_MAX {
        return Err(Failure::usage(format!(
            "{name} is larger than {} MiB",
            BYTES_MAX >> 20
        )));
    }
    if has_extension(name, "jsonl") {
        return beads::read(name, bytes);
    }
    if let Some(tasks) = task_master::read(name, bytes)? {
        return Ok(tasks);
    }
    if agent_framework::recognizes(name, bytes) {
        return Err(Failure::usage(format!(
            "{name} configures agents and has no tickets"
        ))
        .hint(format!(
            "see the configuration it becomes, in the project's directory: countersign import --dry-run {name}"
        )));
    }
    let file = epic_file::read_any(name, bytes)?;
    let report = ImportReport {
        left_out: file.remarks.clone(),
        ..ImportReport::default()
    };
    let report = report_unknown_fields(report, &file);
    Ok(ImportedTickets {
        format: "tickets",
        epics: vec![file],
        report,
    })
}

pub(super) fn has_extension(name: &str, extension: &str) -> bool {
    let path = std::path::Path::new(name);
    path.extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn report_unknown_fields(mut report: ImportReport, file: &EpicFile) -> ImportReport {
    let mut keys = KeyTally::default();
    for (id, spec) in &file.tickets {
        for key in spec.context.extra.keys() {
            if !epic_file::CONTRACT_FIELDS.contains(&key.as_str()) {
                keys.add(key, id.as_str());
            }
        }
    }
    report
        .changed
        .extend(file.tickets.iter().filter_map(restart));
    report.not_understood.extend(file.unread.iter().cloned());
    let unknown = keys.into_lines("not known; kept with the ticket and exported again");
    report.not_understood.extend(unknown);
    report
}

/// Tells that an entry of an epic state which had begun, or has failed, starts from the beginning.
fn restart((id, spec): &(TicketId, Spec)) -> Option<String> {
    let entry = spec.context.imported.as_ref();
    let entry = entry.filter(|entry| entry.format == ImportedFormat::EpicState)?;
    match entry.field(&["status"])?.as_str()? {
        "pending" | "queued" | "blocked" => None,
        "failed" => Some(format!(
            "{id} had failed there; it starts from the beginning: countersign ticket cancel {id} ends it"
        )),
        "executing" | "validating" | "reviewing" | "needs_revision" => {
            Some(format!("{id} was under way there; it starts with a build"))
        }
        other => Some(format!(
            "{id} has the status {:?}, which is not known; it starts from the beginning",
            shown_text(other)
        )),
    }
}

/// Counts keys over many entries, so that a report has one line for each key.
#[derive(Debug, Default)]
struct KeyTally(BTreeMap<String, (usize, Vec<String>)>);

impl KeyTally {
    fn add(&mut self, key: &str, place: &str) {
        let (count, places) = self.0.entry(findings::one_line(key)).or_default();
        *count += 1;
        if places.len() < PLACES_MAX {
            places.push(place.to_owned());
        }
    }

    fn into_lines(self, meaning: &str) -> Vec<String> {
        let line = |(key, (count, places)): (String, (usize, Vec<String>))| {
            let more = count - places.len();
            let more = if more == 0 {
                String::new()
            } else {
                format!(" and {more} more")
            };
            format!(
                "{} ({}{more}): {meaning}",
                shown_text(&key),
                places.join(", ")
            )
        };
        self.0.into_iter().map(line).collect()
    }
}

/// A foreign value for a report: on one line, quoted and short.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", shown_text(text)),
        other => shown_text(&other.to_string()),
    }
}

fn shown_text(text: &str) -> String {
    findings::shorten(&findings::one_line(text), SHOWN_CHARS_MAX)
}

/// A task of another system on its way to a ticket.
#[derive(Debug)]
struct ForeignTask {
    id: TicketId,
    state: TaskState,
    /// Fields under our own names.
    fields: Map<String, Value>,
    /// Dependencies by the ids of their tickets; texts that are no ids are kept for the report.
    depends_on: Vec<Result<TicketId, String>>,
    epic: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TaskState {
    Open,
    /// Finished elsewhere: it becomes no ticket, and dependencies on it are met.
    Done,
    /// Given up elsewhere: nothing can wait for a task that is never done.
    Cancelled,
    /// Neither open nor finished, with the reason. Tasks that depend on it are left out as well.
    LeftOut(String),
}

/// Makes tickets of the open tasks, in the order of the file.
///
/// Two tasks with one id and dependencies in a cycle are refused: a guess would build the wrong
/// thing, or nothing.
fn make_tickets(
    name: &str,
    tasks: Vec<ForeignTask>,
    report: &mut ImportReport,
) -> Result<Vec<(TicketId, Spec)>, Failure> {
    if tasks.len() > TASKS_MAX {
        return Err(Failure::usage(format!(
            "{name} has {} tasks; at most {TASKS_MAX} can be imported at once",
            tasks.len()
        ))
        .hint("split the file"));
    }
    let mut states: BTreeMap<TicketId, TaskState> = BTreeMap::new();
    for task in &tasks {
        if states.insert(task.id.clone(), task.state.clone()).is_some() {
            return Err(Failure::usage(format!(
                "{name}: the id {} occurs twice, so a dependency on it has no clear meaning",
                task.id
            ))
            .hint("give each task its own id"));
        }
    }
    let graph = dependency_graph(&tasks, &states, report);
    let order = flow::graph::topological_order(&graph)
        .map_err(|cycle| Failure::usage(format!("{name}: {cycle}")))?;
    for id in order {
        let blocked_by = graph
            .get(&id)
            .into_iter()
            .flatten()
            .find(|need| matches!(states.get(need), Some(TaskState::LeftOut(_))));
        if let (Some(need), Some(TaskState::Open)) = (blocked_by, states.get(&id)) {
            let reason = format!("depends on {need}, which is left out");
            states.insert(id, TaskState::LeftOut(reason));
        }
    }
    let mut done = Vec::new();
    let mut tickets = Vec::new();
    for mut task in tasks {
        match states.get(&task.id) {
            Some(TaskState::Done) => done.push(task.id.to_string()),
            Some(TaskState::Cancelled) => {
                report.left_out.push(format!("{} is cancelled", task.id));
            }
            Some(TaskState::LeftOut(reason)) => {
                report.left_out.push(format!("{} {reason}", task.id));
            }
            Some(TaskState::Open) | None => {
                let open = graph.get(&task.id).into_iter().flatten();
                let open = open.filter(|need| states.get(need) == Some(&TaskState::Open));
                let open: Vec<&str> = open.map(TicketId::as_str).collect();
                task.fields.insert("depends_on".to_owned(), open.into());
                shorten_title(&mut task, report);
                task.fields.insert("id".to_owned(), task.id.as_str().into());
                if let Some(epic) = task.epic {
                    task.fields.insert("epic".to_owned(), epic.into());
                }
                let place = format!("{name}: {}", task.id);
                tickets.push(epic_file::task(&place, &task.fields)?.ticket);
            }
        }
    }
    if !done.is_empty() {
        report.left_out.insert(0, finished_line(&done));
    }
    Ok(tickets)
}

fn finished_line(done: &[String]) -> String {
    let (verb, them) = match done {
        [_] => ("is", "it"),
        _ => ("are", "them"),
    };
    format!(
        "{} {verb} finished: no ticket is added, and dependencies on {them} are met",
        done.join(", ")
    )
}

/// Collects the dependencies on tasks of the file that are not finished.
fn dependency_graph(
    tasks: &[ForeignTask],
    states: &BTreeMap<TicketId, TaskState>,
    report: &mut ImportReport,
) -> BTreeMap<TicketId, BTreeSet<TicketId>> {
    let mut graph = BTreeMap::new();
    for task in tasks {
        let mut needs = BTreeSet::new();
        for need in &task.depends_on {
            let known = need
                .as_ref()
                .ok()
                .and_then(|id| Some((id, states.get(id)?)));
            let why = match known {
                Some((_, TaskState::Done)) => continue,
                Some((id, TaskState::Open | TaskState::LeftOut(_))) => {
                    needs.insert(id.clone());
                    continue;
                }
                Some((_, TaskState::Cancelled)) => "is cancelled",
                None => "is not in the file",
            };
            // A task without a ticket needs no word on its dependencies.
            if task.state == TaskState::Open {
                let need = match need {
                    Ok(id) => id.to_string(),
                    Err(text) => shown_text(text),
                };
                report.changed.push(format!(
                    "{} depends on {need}, which {why}: the dependency is dropped",
                    task.id
                ));
            }
        }
        if !matches!(task.state, TaskState::Done | TaskState::Cancelled) {
            graph.insert(task.id.clone(), needs);
        }
    }
    graph
}

/// Shortens a title that is too long for a ticket, and keeps the whole of it in the description.
fn shorten_title(task: &mut ForeignTask, report: &mut ImportReport) {
    let title = task.fields.get("title").and_then(Value::as_str);
    let title = findings::one_line(title.unwrap_or_default());
    if title.chars().count() <= TITLE_CHARS_MAX {
        return;
    }
    let description = task.fields.get("description").and_then(Value::as_str);
    let whole = format!("{title}\n\n{}", description.unwrap_or_default());
    let short = findings::shorten(&title, TITLE_CHARS_MAX - 1);
    task.fields
        .insert("description".to_owned(), whole.trim_end().into());
    task.fields.insert("title".to_owned(), short.into());
    report.changed.push(format!(
        "the title of {} is longer than {TITLE_CHARS_MAX} characters: it is shortened, and the description begins with the whole",
        task.id
    ));
}

/// Joins the parts of a description; each part after the first has a heading.
fn description(parts: &[(&str, Option<&Value>)]) -> String {
    let mut text = String::new();
    for (heading, value) in parts {
        let part = value
            .map(super::ticket_fields::sentence)
            .unwrap_or_default();
        if part.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        if !heading.is_empty() {
            text.extend(["## ", heading, "\n\n"]);
        }
        text.push_str(&part);
    }
    text
}

/// Splits acceptance criteria in one text into sentences: the items of its list, or its lines.
fn criteria(text: &str) -> Vec<String> {
    let item = |line: &str| {
        let line = line.trim();
        let line = line.trim_start_matches(['-', '*', '•', '+']).trim_start();
        let line = ["[ ]", "[x]", "[X]"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark))
            .unwrap_or(line);
        let numbered = line.split_once(['.', ')']).filter(|(number, rest)| {
            !number.is_empty()
                && number.chars().all(|c| c.is_ascii_digit())
                && rest.starts_with(' ')
        });
        findings::one_line(numbered.map_or(line, |(_, rest)| rest))
    };
    let is_heading = |line: &&str| line.trim_start().starts_with('#');
    let lines = text.lines().filter(|line| !is_heading(line)).map(item);
    lines.filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;
