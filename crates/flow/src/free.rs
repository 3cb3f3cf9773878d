//! Free tasks (001's): jobs on a queue that somebody named, decided about by no ticket. Whoever performs
//! one sees it as a ticket that nobody keeps, so that it is worked on as any other; it is never checked,
//! reviewed or landed.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::advance::{Refused, open};
use crate::event::{Actor, Event, EventKind, Failure, Role};
use crate::policy::{Limits, Policy};
use crate::ticket::{
    InvalidTicketId, PRIORITY_DEFAULT, Spec, Ticket, TicketContext, TicketId, Time, label,
};

/// Of what a task sends along, for its brief.
const ALONG: [&str; 4] = ["context", "deliverables", "notes", "plan"];
const ALONG_CHARS_MAX: usize = 20_000;

/// What becomes of a task that came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRetry {
    /// Back into its queue, not before then; whether that counts as a try.
    Again {
        not_before: Time,
        counts: bool,
    },
    GivenUp,
}

/// Where a task stands, in 001's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::InProgress,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }

    /// Something may still happen to it.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress)
    }
}

/// What it means to cancel a task that stands so: it is dropped, it was before, or it is too late.
pub fn cancel(standing: TaskStatus) -> Result<CancelDecision, AlreadyEnded> {
    match standing {
        TaskStatus::Pending | TaskStatus::InProgress => Ok(CancelDecision::Drop),
        TaskStatus::Cancelled => Ok(CancelDecision::IsAlready),
        TaskStatus::Completed | TaskStatus::Failed => Err(AlreadyEnded(standing)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelDecision {
    Drop,
    IsAlready,
}

/// It has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyEnded(pub TaskStatus);

impl fmt::Display for AlreadyEnded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "it has ended before: {}", self.0.word())
    }
}

/// The task as a ticket; `number` names one that has no name.
pub fn ticket(body: &Value, number: i64, at: Time) -> Result<Ticket, String> {
    let name = text(body, "id").map_or_else(|| number.to_string(), str::to_owned);
    let id = id_for(&name).map_err(|bad| bad.to_string())?;
    opened(&id, spec(body), at).map_err(|refused| refused.to_string())
}

fn opened(id: &TicketId, spec: Spec, at: Time) -> Result<Ticket, Refused> {
    let what = EventKind::Created {
        spec: Box::new(spec),
        met: BTreeSet::new(),
        failed: Vec::new(),
    };
    let event = Event {
        at,
        by: Actor::new("countersign", Role::Service),
        expects: None,
        what,
    };
    Ok(open(id, &event, &Policy::default())?.ticket)
}

/// Fit for a branch and a directory whatever the task is called.
fn id_for(name: &str) -> Result<TicketId, InvalidTicketId> {
    TicketId::new(&format!("task-{name}")).or_else(|_| {
        let digest = Sha256::digest(name);
        let hex = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
        TicketId::new(&format!("task-{}", hex.collect::<String>()))
    })
}

/// Whatever is of no use in the form it has is left out: the whole of it is in the brief.
fn spec(body: &Value) -> Spec {
    let words = |key: &str| text(body, key).unwrap_or_default().to_owned();
    let title = findings::one_line(text(body, "title").unwrap_or("a task without a title"));
    Spec {
        title,
        description: words("description"),
        acceptance: list(body, "acceptance_criteria"),
        kind: text(body, "type").map(str::to_owned),
        priority: PRIORITY_DEFAULT,
        context: context(body.get("context").unwrap_or(&Value::Null)),
        ..Spec::default()
    }
}

fn context(given: &Value) -> TicketContext {
    let word = |key: &str| text(given, key).map(str::to_owned);
    TicketContext {
        repository: word("repository"),
        base_branch: word("base_branch"),
        remote: word("remote"),
        jira_key: word("jira_key"),
        github_repo: word("github_repo"),
        // A label that nobody can have is one that nobody has.
        needs: list(given, "needs")
            .into_iter()
            .map(|need| label(&need).unwrap_or(need))
            .collect(),
        ..TicketContext::default()
    }
}

fn text<'a>(body: &'a Value, key: &str) -> Option<&'a str> {
    let found = body.get(key)?.as_str()?;
    Some(found).filter(|text| !text.trim().is_empty())
}

fn list(body: &Value, key: &str) -> Vec<String> {
    let found = body.get(key).and_then(Value::as_array);
    let words = found.into_iter().flatten().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// Tasks that must have come to their ends before this one begins.
pub fn depends_on(body: &Value) -> Vec<String> {
    list(body, "depends_on")
}

/// What its maker sent along, as text; nothing where there is nothing.
pub fn along(body: &Value) -> String {
    let is_said = |value: &&Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    let found = ALONG.iter().filter_map(|key| {
        let value = body.get(*key).filter(is_said)?;
        Some(((*key).to_owned(), value.clone()))
    });
    let found: Map<String, Value> = found.collect();
    if found.is_empty() {
        return String::new();
    }
    findings::shorten(&format!("{:#}", Value::Object(found)), ALONG_CHARS_MAX)
}

/// What a try comes to that failed at `at`, after `attempts` that failed before it.
pub fn fate(
    failure: Failure,
    id: &TicketId,
    attempts: u32,
    limits: &Limits,
    at: Time,
) -> TaskRetry {
    let tries = attempts.saturating_add(1);
    match failure {
        Failure::Interrupted => TaskRetry::Again {
            not_before: at,
            counts: false,
        },
        Failure::Quota { until } | Failure::Deferred { until } => TaskRetry::Again {
            not_before: until,
            counts: false,
        },
        Failure::Transient if tries <= limits.retries_max => TaskRetry::Again {
            not_before: at.plus_ms(limits.backoff_ms(id.as_str(), tries)),
            counts: true,
        },
        Failure::Transient | Failure::Permanent | Failure::Budget | Failure::NoJudge => {
            TaskRetry::GivenUp
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Ticket {
        ticket(body, 7, Time(0)).unwrap()
    }

    #[test]
    fn a_task_is_a_ticket_of_its_own_name_and_place() {
        let one = read(
            &json!({"id": "fix-9", "type": "fix", "title": "Mend\nit", "description": "How.",
            "acceptance_criteria": ["green", 3], "depends_on": ["other"],
            "context": {"repository": "/srv/repos/a", "base_branch": "main", "pr_number": "456",
                "needs": ["gpu=yes"]}}),
        );
        assert_eq!(
            (one.id.as_str(), &*one.spec.title),
            ("task-fix-9", "Mend it")
        );
        assert_eq!(one.spec.acceptance, ["green"]);
        assert!(one.spec.depends_on.is_empty());
        let context = &one.spec.context;
        assert_eq!(context.repository.as_deref(), Some("/srv/repos/a"));
        assert!(context.needs.contains("gpu=yes") && context.branch.is_none());
    }

    #[test]
    fn whatever_a_task_is_called_and_holds_it_has_a_sound_name() {
        let names = [
            json!("../x"),
            json!("a b"),
            json!("x".repeat(200)),
            json!(7),
            json!(null),
        ];
        for name in names {
            let one = read(&json!({"id": name, "title": 4, "context": "none"}));
            assert!(one.id.as_str().starts_with("task-"), "{}", one.id);
        }
        let other = |name: &str| read(&json!({"id": name})).id;
        assert_ne!(other("a b"), other("a/b"));
        assert_eq!(read(&json!([])).id.as_str(), "task-7");
    }

    #[test]
    fn what_is_sent_along_is_shown_and_what_is_not_there_is_not() {
        assert_eq!(
            along(&json!({"context": {}, "notes": [], "plan": null})),
            ""
        );
        let shown = along(&json!({"id": "x", "context": {"pr_number": 456}, "plan": "first"}));
        assert!(shown.contains("456") && shown.contains("first") && !shown.contains("id"));
    }

    #[test]
    fn a_task_is_cancelled_until_it_has_ended_and_then_not() {
        for standing in TaskStatus::ALL {
            assert_eq!(TaskStatus::read(standing.word()), Some(standing));
            let cancelled = cancel(standing);
            assert_eq!(cancelled == Ok(CancelDecision::Drop), standing.is_open());
            let again = cancelled == Ok(CancelDecision::IsAlready);
            assert_eq!(again, standing == TaskStatus::Cancelled);
        }
        assert_eq!(TaskStatus::read("asleep"), None);
    }

    #[test]
    fn a_task_is_tried_again_as_often_as_a_job_of_a_ticket() {
        let limits = Limits::default();
        let id = read(&json!({"id": "a"})).id;
        let of = |failure, attempts| fate(failure, &id, attempts, &limits, Time(1_000));
        let waits = |attempts| match of(Failure::Transient, attempts) {
            TaskRetry::Again {
                not_before,
                counts: true,
            } => not_before.0 - 1_000,
            other => panic!("{other:?}"),
        };
        assert!((1_600..=2_400).contains(&waits(0)), "{}", waits(0));
        assert!(waits(4) > waits(1));
        assert_eq!(of(Failure::Transient, 5), TaskRetry::GivenUp);
        assert_eq!(of(Failure::Permanent, 0), TaskRetry::GivenUp);
        let given_back = TaskRetry::Again {
            not_before: Time(1_000),
            counts: false,
        };
        assert_eq!(of(Failure::Interrupted, 99), given_back);
        let until = Time(9_000);
        let waited_for = TaskRetry::Again {
            not_before: until,
            counts: false,
        };
        assert_eq!(of(Failure::Quota { until }, 99), waited_for);
    }
}
