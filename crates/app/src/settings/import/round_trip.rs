//! Task files and epic states keep all their fields over import, export and import.

use std::collections::BTreeSet;

use flow::event::{Actor, Event, EventKind, Role};
use flow::export::{ExportedEpic, epic_state_json, task_json};
use flow::ticket::Spec;
use flow::{Policy, Ticket, TicketId, Time};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{ImportedTickets, read_tickets};

/// Makes a ticket as the store keeps it: cleaned, and read back from JSON.
fn stored(id: &TicketId, spec: &Spec) -> Ticket {
    let spec = Box::new(spec.clone().cleaned());
    let event = Event {
        at: Time(0),
        by: Actor::new("ada", Role::Human),
        expects: None,
        what: EventKind::Created {
            spec,
            met: BTreeSet::new(),
            failed: Vec::new(),
        },
    };
    let ticket = flow::open_ticket(id, &event, &Policy::default()).unwrap();
    let text = serde_json::to_string(&ticket.ticket).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn read(name: &str, document: &Value) -> ImportedTickets {
    read_tickets(name, document.to_string().as_bytes()).unwrap()
}

fn export_epic(document: &Value) -> Value {
    let imported = read("epic-state.json", document);
    let [file] = &imported.epics[..] else {
        panic!("{imported:?}");
    };
    let tickets = file.tickets.iter().map(|(id, spec)| stored(id, spec));
    let epic = ExportedEpic {
        id: &file.id,
        title: &file.title,
        file: &file.raw,
        is_whole: true,
    };
    epic_state_json(&tickets.collect::<Vec<_>>(), Some(&epic))
}

/// Every field of the first document is in the second, with the same value.
fn assert_kept(before: &Value, after: &Value) {
    for (name, value) in before.as_object().unwrap() {
        assert_eq!(after.get(name), Some(value), "{name}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~äß→]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            fields(inner, 4).prop_map(Value::Object),
        ]
    })
}

fn fields(
    values: impl Strategy<Value = Value>,
    most: usize,
) -> impl Strategy<Value = Map<String, Value>> {
    let names = "[a-z]{1,3}_[a-z]{1,6}";
    let map = prop::collection::btree_map(names, values, 0..most);
    map.prop_map(|map| map.into_iter().collect())
}

fn state_entry() -> impl Strategy<Value = Value> {
    let status = prop::sample::select(vec![
        "pending",
        "queued",
        "executing",
        "validating",
        "reviewing",
        "needs_revision",
        "completed",
        "failed",
        "blocked",
    ]);
    let history = prop::collection::vec((any::<bool>(), 0..101_u8), 0..4);
    (status, 0..3_u64, history, fields(values(), 5)).prop_map(
        |(status, count, history, unknown)| {
            let history: Vec<Value> = history
                .iter()
                .enumerate()
                .map(|(attempt, (passed, score))| {
                    json!({"attempt": attempt, "reviewed_at": "2026-01-02T03:04:05Z",
                        "status": if *passed { "pass" } else { "fail" }, "overall_score": score,
                        "blocking_issues_count": 0, "revision_notes": null})
                })
                .collect();
            let mut entry = unknown;
            entry.insert("status".to_owned(), json!(status));
            entry.insert("revision_count".to_owned(), json!(count));
            entry.insert("review_history".to_owned(), json!(history));
            Value::Object(entry)
        },
    )
}

fn epic_states() -> impl Strategy<Value = Value> {
    let entries = prop::collection::vec((state_entry(), any::<prop::sample::Index>()), 1..6);
    (entries, fields(values(), 5)).prop_map(|(entries, mut epic)| {
        let mut tickets = Map::new();
        for (at, (mut entry, need)) in entries.into_iter().enumerate() {
            // Dependencies on earlier entries only: a cycle is refused elsewhere.
            if at > 0 {
                entry["depends_on"] = json!([format!("t-{}", need.index(at))]);
            }
            tickets.insert(format!("t-{at}"), entry);
        }
        epic.insert("epic_id".to_owned(), json!("E"));
        epic.insert("tickets".to_owned(), Value::Object(tickets));
        Value::Object(epic)
    })
}

fn tasks() -> impl Strategy<Value = Value> {
    let status = prop::sample::select(vec!["pending", "in_progress", "testing", "failed"]);
    (status, 0..9_u64, fields(values(), 6), fields(values(), 6)).prop_map(
        |(status, retries, unknown, context)| {
            let mut task = unknown;
            let known = json!({"id": "task-1", "type": "fix", "status": status, "priority": 80,
                "created_by": "engineer-1", "assigned_to": "qa", "title": "Mend it",
                "created_at": "2026-02-03T10:00:00.000Z", "description": "Now.",
                "depends_on": ["task-0"], "blocks": ["task-2"], "acceptance_criteria": ["a"],
                "deliverables": ["d"], "notes": ["n"], "retry_count": retries, "plan": {"p": 1}});
            task.extend(known.as_object().unwrap().clone());
            task.insert("context".to_owned(), Value::Object(context));
            Value::Object(task)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_epic_state_keeps_everything(document in epic_states()) {
        let exported = export_epic(&document);
        let (before, after) = (&document["tickets"], &exported["tickets"]);
        for (name, value) in document.as_object().unwrap().iter().filter(|(name, _)| *name != "tickets") {
            prop_assert_eq!(exported.get(name), Some(value));
        }
        for (id, entry) in before.as_object().unwrap() {
            assert_kept(entry, &after[id]);
        }
        prop_assert_eq!(before.as_object().unwrap().len(), after.as_object().unwrap().len());
        prop_assert_eq!(export_epic(&exported), exported);
    }

    #[test]
    fn a_task_file_keeps_everything(document in tasks()) {
        let export = |document: &Value| {
            let imported = read("task.json", document);
            let (id, spec) = imported.tickets().next().unwrap().clone();
            task_json(&stored(&id, &spec))
        };
        let exported = export(&document);
        assert_kept(&document, &exported);
        prop_assert_eq!(export(&exported), exported);
    }
}

/// Fields that would bind the ticket to a repository, a remote or a worker have no effect.
#[test]
fn a_file_of_another_system_cannot_set_our_own_fields() {
    let document = json!({"id": "task-1", "title": "Mend it", "remote": "ssh://x",
        "context": {"repository": "/etc", "imported": 1}});
    let imported = read("task.json", &document);
    let (id, spec) = imported.tickets().next().unwrap();
    let ticket = stored(id, spec);
    let context = &ticket.spec.context;
    assert_eq!((&context.repository, &context.remote), (&None, &None));
    assert_eq!(task_json(&ticket)["context"], document["context"]);
    assert_eq!(imported.report.not_understood.len(), 3);
}
