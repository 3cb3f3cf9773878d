//! Reads the tasks of beads: `issues.jsonl`, one JSON object per line.

use std::collections::BTreeMap;

use flow::TicketId;
use serde_json::{Map, Value};

use super::{
    ForeignTask, ImportReport, ImportedTickets, KeyTally, TASKS_MAX, TaskState, criteria,
    description, make_tickets, shown,
};
use crate::failure::Failure;
use crate::settings::epic_file::EpicFile;

/// Comments of a task that enter its description, newest last.
const COMMENTS_MAX: usize = 20;

/// Keys of beads that have no effect here. They stay with the ticket.
const KEPT_KEYS: [&str; 45] = [
    "_type",
    "actor",
    "assignee",
    "await_id",
    "await_type",
    "bonded_from",
    "close_reason",
    "closed_at",
    "closed_by_session",
    "comment_count",
    "compacted_at",
    "compacted_at_commit",
    "compaction_level",
    "content_hash",
    "created_at",
    "created_by",
    "defer_until",
    "dependency_count",
    "dependent_count",
    "due_at",
    "ephemeral",
    "estimated_minutes",
    "event_kind",
    "external_ref",
    "is_template",
    "labels",
    "metadata",
    "mol_type",
    "no_history",
    "original_size",
    "owner",
    "parent",
    "payload",
    "pinned",
    "sender",
    "source_formula",
    "source_location",
    "source_repo",
    "source_system",
    "spec_id",
    "started_at",
    "target",
    "timeout",
    "updated_at",
    "wisp_type",
];
/// Kept keys that are in every file and say nothing about the work; a report does not name them.
const BOOKKEEPING: [&str; 12] = [
    "_type",
    "comment_count",
    "compacted_at",
    "compacted_at_commit",
    "compaction_level",
    "content_hash",
    "created_at",
    "dependency_count",
    "dependent_count",
    "original_size",
    "started_at",
    "updated_at",
];
/// Keys that become fields of the ticket.
const READ_KEYS: [&str; 11] = [
    "id",
    "title",
    "description",
    "design",
    "acceptance_criteria",
    "notes",
    "status",
    "priority",
    "issue_type",
    "dependencies",
    "comments",
];

pub fn read(name: &str, bytes: &[u8]) -> Result<ImportedTickets, Failure> {
    let mut report = ImportReport::default();
    let issues = lines(name, bytes, &mut report)?;
    let epics = epics_with_children(&issues);
    let mut keys = (KeyTally::default(), KeyTally::default());
    let mut links = KeyTally::default();
    let mut tasks = Vec::with_capacity(issues.len());
    for (line, issue) in &issues {
        let text = issue.get("id").and_then(Value::as_str).unwrap_or_default();
        let id = TicketId::new(text)
            .map_err(|error| Failure::usage(format!("{name}, line {line}: {error}")))?;
        for key in issue.keys() {
            if KEPT_KEYS.contains(&key.as_str()) {
                if !BOOKKEEPING.contains(&key.as_str()) {
                    keys.0.add(key, text);
                }
            } else if !READ_KEYS.contains(&key.as_str()) {
                keys.1.add(key, text);
            }
        }
        tasks.push(task(id, issue, &epics, (&mut report, &mut links)));
    }
    let tickets = make_tickets(name, tasks, &mut report)?;
    report.kept.extend(
        keys.0
            .into_lines("has no effect here; kept with the ticket"),
    );
    report
        .kept
        .extend(links.into_lines("this kind of link sets no order here; kept with the ticket"));
    report
        .not_understood
        .extend(keys.1.into_lines("not known; kept with the ticket"));
    Ok(ImportedTickets {
        format: "beads",
        epics: by_epic(tickets, &epics),
        report,
    })
}

/// An issue with the number of its line.
type NumberedIssue = (usize, Map<String, Value>);

/// Parses the lines that are issues, with their numbers.
fn lines(
    name: &str,
    bytes: &[u8],
    report: &mut ImportReport,
) -> Result<Vec<NumberedIssue>, Failure> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not text in UTF-8")))?;
    let mut issues = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(line).map_err(|error| {
            let conflict = ["<<<<<<<", "=======", ">>>>>>>"];
            let failure = Failure::usage(format!("{name}, line {number}: {error}"));
            if conflict.iter().any(|mark| line.starts_with(mark)) {
                return failure.hint("the file has an unresolved merge conflict");
            }
            failure
        })?;
        let Value::Object(issue) = value else {
            return Err(Failure::usage(format!(
                "{name}, line {number} is not a JSON object"
            )));
        };
        match issue.get("_type").and_then(Value::as_str) {
            None | Some("issue") => issues.push((number, issue)),
            Some(kind) => report.left_out.push(format!(
                "line {number} is a record of the type {}, not an issue",
                shown(&kind.into())
            )),
        }
        if issues.len() > TASKS_MAX {
            return Err(
                Failure::usage(format!("{name} has more than {TASKS_MAX} issues"))
                    .hint("export only the open ones"),
            );
        }
    }
    if issues.is_empty() {
        return Err(Failure::usage(format!("{name} has no issues of beads")));
    }
    Ok(issues)
}

/// An issue of the type `epic` that other issues name as their parent.
struct ParentEpic {
    id: String,
    title: String,
    /// The issue with all its fields.
    raw: Map<String, Value>,
    children: Vec<String>,
    /// Issues that block the epic, and so all of its children.
    blockers: Vec<String>,
}

fn epics_with_children(issues: &[NumberedIssue]) -> Vec<ParentEpic> {
    let targets = |issue: &Map<String, Value>, wanted: &str| -> Vec<String> {
        let of_kind = dependencies(issue).filter(|(_, kind)| *kind == wanted);
        of_kind
            .filter_map(|(target, _)| target.map(str::to_owned))
            .collect()
    };
    let mut children: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, issue) in issues {
        let child = issue.get("id").and_then(Value::as_str).unwrap_or_default();
        for parent in targets(issue, "parent-child") {
            children.entry(parent).or_default().push(child.to_owned());
        }
    }
    let epics = issues.iter().filter_map(|(_, issue)| {
        let id = issue.get("id")?.as_str()?;
        let is_epic = issue.get("issue_type")?.as_str()? == "epic";
        let title = issue.get("title").and_then(Value::as_str).unwrap_or(id);
        is_epic.then_some(ParentEpic {
            id: id.to_owned(),
            title: findings::one_line(title),
            raw: issue.clone(),
            children: children.remove(id)?,
            blockers: targets(issue, "blocks"),
        })
    });
    epics.collect()
}

/// The issue's links: the target, if it is named, and the type.
fn dependencies(issue: &Map<String, Value>) -> impl Iterator<Item = (Option<&str>, &str)> {
    let list = issue.get("dependencies").and_then(Value::as_array);
    list.into_iter().flatten().map(|link| {
        let kind = link.get("type").and_then(Value::as_str);
        let target = link.get("depends_on_id").and_then(Value::as_str);
        (target, kind.unwrap_or("blocks"))
    })
}

fn task(
    id: TicketId,
    issue: &Map<String, Value>,
    epics: &[ParentEpic],
    (report, links): (&mut ImportReport, &mut KeyTally),
) -> ForeignTask {
    let state = state(&id, issue, epics, report);
    let is_open = state == TaskState::Open;
    let find = |target: &str| epics.iter().find(|epic| epic.id == target);
    let mut needs: Vec<String> = Vec::new();
    let mut own_epic = None;
    for (target, kind) in dependencies(issue) {
        match (kind, target) {
            ("blocks", Some(target)) => needs.push(target.to_owned()),
            ("parent-child", Some(target)) if find(target).is_some() => own_epic = find(target),
            (_, Some(_)) if is_open => links.add(kind, id.as_str()),
            (_, None) if is_open => report
                .not_understood
                .push(format!("{id} has a dependency without `depends_on_id`")),
            _ => {}
        }
    }
    needs.extend(own_epic.into_iter().flat_map(|epic| epic.blockers.clone()));
    let is_own_epic = |need: &String| own_epic.is_some_and(|epic| epic.id == *need);
    needs.retain(|need| !is_own_epic(need));
    // An epic is no ticket: an issue that waits for it waits for all of its children.
    let expanded = needs.into_iter().flat_map(|need| match find(&need) {
        Some(epic) => epic.children.clone(),
        None => vec![need],
    });
    let depends_on = expanded
        .map(|need| TicketId::new(&need).map_err(|_| need))
        .collect();
    let fields = if is_open {
        fields(&id, issue, report)
    } else {
        Map::new()
    };
    ForeignTask {
        id,
        state,
        fields,
        depends_on,
        epic: own_epic.map(|epic| epic.id.clone()),
    }
}

fn state(
    id: &TicketId,
    issue: &Map<String, Value>,
    epics: &[ParentEpic],
    report: &mut ImportReport,
) -> TaskState {
    let word = |key: &str| issue.get(key).and_then(Value::as_str);
    let is_set = |key: &str| issue.get(key) == Some(&Value::Bool(true));
    let left_out = |reason: &str| TaskState::LeftOut(reason.to_owned());
    match word("status").unwrap_or("open") {
        "closed" | "tombstone" => return TaskState::Done,
        "deferred" => return left_out("is deferred"),
        "pinned" => return left_out("is pinned: a note, not work"),
        "in_progress" | "hooked" => report.changed.push(format!(
            "{id} is in progress there: it starts from the beginning here"
        )),
        "open" | "blocked" => {}
        other => {
            let status = shown(&other.into());
            report.not_understood.push(format!(
                "{id} has the status {status}, which is not known: it is left out"
            ));
            return TaskState::LeftOut(format!("has the unknown status {status}"));
        }
    }
    if is_set("is_template") || is_set("ephemeral") || is_set("pinned") {
        return left_out("is a template, ephemeral or pinned: not work");
    }
    match word("issue_type").unwrap_or("task") {
        "epic" if epics.iter().any(|epic| epic.id == id.as_str()) => {
            left_out("is an epic: its children are the tickets")
        }
        kind @ ("message" | "gate" | "molecule" | "milestone" | "event" | "decision") => {
            left_out(&format!("is a {kind}, which is not a change of code"))
        }
        _ => TaskState::Open,
    }
}

/// Fields of the ticket; the rest of the issue stays with it under `beads`.
fn fields(
    id: &TicketId,
    issue: &Map<String, Value>,
    report: &mut ImportReport,
) -> Map<String, Value> {
    const KNOWN_TYPES: [&str; 7] = ["bug", "feature", "task", "epic", "chore", "spike", "story"];
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| {
        fields.insert(key.to_owned(), value);
    };
    put("title", issue.get("title").cloned().unwrap_or_default());
    let comments = issue.get("comments").map(|all| comments(id, all, report));
    let text = description(&[
        ("", issue.get("description")),
        ("Design", issue.get("design")),
        ("Notes", issue.get("notes")),
        ("Comments", comments.as_ref()),
    ]);
    put("description", text.into());
    match issue.get("acceptance_criteria") {
        Some(Value::String(text)) => put("acceptance", criteria(text).into()),
        Some(other) => put("acceptance", other.clone()),
        None => {}
    }
    if let Some(kind) = issue.get("issue_type").and_then(Value::as_str) {
        if !KNOWN_TYPES.contains(&kind) {
            report.not_understood.push(format!(
                "{id} has the type {}, which is not known: kept as the ticket's kind",
                shown(&kind.into())
            ));
        }
        put("kind", kind.into());
    }
    match issue.get("priority") {
        None => {}
        Some(value) => match value.as_u64().and_then(priority) {
            Some(ours) => put("priority", ours.into()),
            None => report.not_understood.push(format!(
                "{id} has the priority {}, and beads knows 0 to 4: 50 is used",
                shown(value)
            )),
        },
    }
    let read = [
        "id",
        "title",
        "description",
        "design",
        "notes",
        "acceptance_criteria",
        "comments",
    ];
    let rest: Map<String, Value> = issue
        .iter()
        .filter(|(key, _)| !read.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    put("beads", Value::Object(rest));
    fields
}

/// Our priority for one of beads: 0 is the most urgent there, and higher goes first here.
fn priority(theirs: u64) -> Option<i32> {
    [90, 70, 50, 30, 10]
        .get(usize::try_from(theirs).ok()?)
        .copied()
}

fn comments(id: &TicketId, all: &Value, report: &mut ImportReport) -> Value {
    let all = all.as_array().map(Vec::as_slice).unwrap_or_default();
    let skipped = all.len().saturating_sub(COMMENTS_MAX);
    if skipped > 0 {
        report.changed.push(format!(
            "{id} has {} comments: the newest {COMMENTS_MAX} enter the description",
            all.len()
        ));
    }
    let lines: Vec<String> = all
        .iter()
        .skip(skipped)
        .map(|comment| {
            let part = |key: &str| comment.get(key).and_then(Value::as_str).unwrap_or_default();
            format!(
                "{}: {}",
                findings::one_line(part("author")),
                part("text").trim()
            )
        })
        .collect();
    lines.join("\n\n").into()
}

/// Groups the tickets by epic; those without one come last, in a group without a name.
fn by_epic(tickets: Vec<(TicketId, flow::ticket::Spec)>, epics: &[ParentEpic]) -> Vec<EpicFile> {
    let mut groups: Vec<EpicFile> = epics
        .iter()
        .map(|epic| EpicFile {
            raw: Value::Object(epic.raw.clone()),
            ..EpicFile::group(&epic.id, &epic.title)
        })
        .collect();
    groups.push(EpicFile::group("", ""));
    for (id, spec) in tickets {
        let epic = spec.context.epic.as_deref().unwrap_or_default();
        let group = groups.iter_mut().find(|group| group.id == epic);
        if let Some(group) = group {
            group.tickets.push((id, spec));
        }
    }
    groups.retain(|group| !group.tickets.is_empty());
    groups
}
