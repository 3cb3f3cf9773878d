//! Queue tasks outside tickets. A worker performs one as an unsaved ticket, by the same code as any
//! other job. A task is never checked, reviewed or landed.
//!
//! Task files come from other systems and from agents. Their fields are read with tolerance,
//! because a wrong field is no reason to lose a task; names and texts are cleaned, because they end
//! up in directories, branches and briefs.

use std::collections::BTreeSet;
use std::fmt;

use findings::write::{FindingEntry, qa_findings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::advance::{Refused, open_ticket};
use crate::event::{Actor, Event, EventKind, Failure, Role};
use crate::policy::{Limits, Policy, QUOTA_WAITS_MAX};
use crate::ticket::{
    InvalidTicketId, PRIORITY_DEFAULT, Spec, Ticket, TicketContext, TicketId, Time, parse_label,
};

/// Fields of a task that are copied into its brief.
const ATTACHED_KEYS: [&str; 4] = ["context", "deliverables", "notes", "plan"];
// A brief is paid for with every run.
const ATTACHED_CHARS_MAX: usize = 20_000;

/// Type of the tasks whose result is a review.
const KIND_REVIEW: &str = "review";
/// Most findings of a result that are listed; its words have all of them.
const FINDINGS_LISTED_MAX: usize = 200;

/// Adds the findings in the words of a review's result, so that the agent that queued it can act on
/// them.
pub fn add_findings(kind: &str, result: &mut Value) {
    let words = result.get("summary").and_then(Value::as_str);
    let (Some(words), true) = (words, kind == KIND_REVIEW) else {
        return;
    };
    let review = findings::read(words);
    let entries: Vec<FindingEntry<'_>> = review
        .findings
        .iter()
        .take(FINDINGS_LISTED_MAX)
        .map(FindingEntry::from)
        .collect();
    if !entries.is_empty() {
        result["findings"] = qa_findings(&entries);
    }
}

/// Decision about a task whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRetry {
    /// The task goes back to its queue until `not_before`. `counts` says whether the failure counts
    /// as an attempt.
    Retry {
        not_before: Time,
        counts: bool,
    },
    GiveUp,
}

/// Status of a task, in the words of task files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// Whether the task has not ended yet.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress)
    }
}

/// Decides what cancelling does to a task of this status: it is dropped, it already was, or it has
/// ended.
/// Cancelling twice is no error: a client repeats a call whose answer it lost.
pub fn decide_cancel(status: TaskStatus) -> Result<CancelDecision, AlreadyEnded> {
    match status {
        TaskStatus::Pending | TaskStatus::InProgress => Ok(CancelDecision::Drop),
        TaskStatus::Cancelled => Ok(CancelDecision::AlreadyCancelled),
        // A result exists already. Reporting it as cancelled would hide it.
        TaskStatus::Completed | TaskStatus::Failed => Err(AlreadyEnded(status)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelDecision {
    Drop,
    AlreadyCancelled,
}

/// Error of a cancellation that comes after the task's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyEnded(pub TaskStatus);

impl fmt::Display for AlreadyEnded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "it has already ended: {}", self.0.as_str())
    }
}

/// Returns the task as an unsaved ticket. `number` names a task without an id.
pub fn ticket_from_task(body: &Value, number: i64, at: Time) -> Result<Ticket, String> {
    // Without an id the number of the job is unique.
    let name = text_field(body, "id").map_or_else(|| number.to_string(), str::to_owned);
    let id = ticket_id_for(&name).map_err(|bad| bad.to_string())?;
    open_task_ticket(&id, spec_from_task(body), at).map_err(|refused| refused.to_string())
}

fn open_task_ticket(id: &TicketId, spec: Spec, at: Time) -> Result<Ticket, Refused> {
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
    // A task is never reviewed or landed, so the default policy is enough.
    Ok(open_ticket(id, &event, &Policy::default())?.ticket)
}

/// Returns an id that is valid in branch and directory names, whatever the task's name is.
fn ticket_id_for(name: &str) -> Result<TicketId, InvalidTicketId> {
    // The prefix keeps tasks and tickets apart, in directories and in branches.
    TicketId::new(&format!("task-{name}")).or_else(|_| {
        // A hash of the name gives the same id at every attempt.
        let digest = Sha256::digest(name);
        let hex = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
        TicketId::new(&format!("task-{}", hex.collect::<String>()))
    })
}

/// Reads the task's request. Fields of a wrong type are skipped; the brief shows them anyway.
fn spec_from_task(body: &Value) -> Spec {
    let words = |key: &str| text_field(body, key).unwrap_or_default().to_owned();
    let title = findings::one_line(text_field(body, "title").unwrap_or("a task without a title"));
    Spec {
        title,
        description: words("description"),
        acceptance: list_field(body, "acceptance_criteria"),
        kind: text_field(body, "type").map(str::to_owned),
        priority: PRIORITY_DEFAULT,
        context: context_from_task(body.get("context").unwrap_or(&Value::Null)),
        ..Spec::default()
    }
}

fn context_from_task(fields: &Value) -> TicketContext {
    let word = |key: &str| text_field(fields, key).map(str::to_owned);
    TicketContext {
        repository: word("repository"),
        base_branch: word("base_branch"),
        remote: word("remote"),
        jira_key: word("jira_key"),
        github_repo: word("github_repo"),
        // An invalid label is kept as it is: no worker has it, so no worker claims the task.
        needs: list_field(fields, "needs")
            .into_iter()
            .map(|need| parse_label(&need).unwrap_or(need))
            .collect(),
        ..TicketContext::default()
    }
}

fn text_field<'a>(body: &'a Value, key: &str) -> Option<&'a str> {
    // A blank text counts as missing, so that the fallback of the caller applies.
    let text = body.get(key)?.as_str()?;
    Some(text).filter(|text| !text.trim().is_empty())
}

fn list_field(body: &Value, key: &str) -> Vec<String> {
    let items = body.get(key).and_then(Value::as_array);
    let words = items.into_iter().flatten().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// Names of tasks that must end before this one begins.
pub fn depends_on(body: &Value) -> Vec<String> {
    list_field(body, "depends_on")
}

/// Formats the fields that the task's author sent along, or returns an empty text.
pub fn attached_text(body: &Value) -> String {
    // `false`, `0` and an empty text are values that somebody wrote.
    let has_content = |value: &&Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    let fields = ATTACHED_KEYS.iter().filter_map(|key| {
        let value = body.get(*key).filter(has_content)?;
        Some(((*key).to_owned(), value.clone()))
    });
    let fields: Map<String, Value> = fields.collect();
    if fields.is_empty() {
        return String::new();
    }
    findings::shorten(&format!("{:#}", Value::Object(fields)), ATTACHED_CHARS_MAX)
}

/// Claims and failures of a task before the attempt that failed now.
#[derive(Clone, Copy, Debug)]
pub struct TaskHistory {
    /// Failures that counted as attempts.
    pub attempts: u32,
    /// Claims, which are the fencing tokens given out. The queue counts no waits for quota of a
    /// task, and no task waits more often than it was claimed.
    pub claims: u64,
}

/// Decides what follows an attempt that failed at `at`.
pub fn decide_retry(
    failure: Failure,
    id: &TicketId,
    history: TaskHistory,
    limits: &Limits,
    at: Time,
) -> TaskRetry {
    let tries = history.attempts.saturating_add(1);
    // The first claim is the run itself, so it is no wait.
    let waits = u32::try_from(history.claims.saturating_sub(1)).unwrap_or(u32::MAX);
    match failure {
        // A stopped worker says nothing about the task. It may be given back any number of times.
        Failure::Interrupted => TaskRetry::Retry {
            not_before: at,
            counts: false,
        },
        Failure::Quota { until } if waits < QUOTA_WAITS_MAX || tries <= limits.retries_max => {
            TaskRetry::Retry {
                not_before: limits.quota_wait(id.as_str(), waits, until, at),
                // After the free waits every further one counts as an attempt. So a provider that
                // is always out of quota ends the task.
                counts: waits >= QUOTA_WAITS_MAX,
            }
        }
        Failure::Deferred { until } => TaskRetry::Retry {
            not_before: until,
            counts: false,
        },
        Failure::Transient if tries <= limits.retries_max => TaskRetry::Retry {
            not_before: at.plus_ms(limits.backoff_ms(id.as_str(), tries)),
            counts: true,
        },
        // A task has no person to escalate to. It fails, and its author sees why.
        Failure::Quota { .. }
        | Failure::Transient
        | Failure::Permanent
        | Failure::Budget
        | Failure::NoJudge => TaskRetry::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Ticket {
        ticket_from_task(body, 7, Time(0)).unwrap()
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
            attached_text(&json!({"context": {}, "notes": [], "plan": null})),
            ""
        );
        let shown =
            attached_text(&json!({"id": "x", "context": {"pr_number": 456}, "plan": "first"}));
        assert!(shown.contains("456") && shown.contains("first") && !shown.contains("id"));
    }

    #[test]
    fn a_task_is_cancelled_until_it_has_ended_and_then_not() {
        for status in TaskStatus::ALL {
            assert_eq!(TaskStatus::from_word(status.as_str()), Some(status));
            let cancelled = decide_cancel(status);
            assert_eq!(cancelled == Ok(CancelDecision::Drop), status.is_open());
            let again = cancelled == Ok(CancelDecision::AlreadyCancelled);
            assert_eq!(again, status == TaskStatus::Cancelled);
        }
        assert_eq!(TaskStatus::from_word("asleep"), None);
    }

    #[test]
    fn a_task_is_tried_again_as_often_as_a_job_of_a_ticket() {
        let limits = Limits::default();
        let id = read(&json!({"id": "a"})).id;
        let after = |failure, attempts, claims| {
            let history = TaskHistory { attempts, claims };
            decide_retry(failure, &id, history, &limits, Time(1_000))
        };
        let of = |failure, attempts| after(failure, attempts, 1);
        let waits = |attempts| match of(Failure::Transient, attempts) {
            TaskRetry::Retry {
                not_before,
                counts: true,
            } => not_before.0 - 1_000,
            other => panic!("{other:?}"),
        };
        assert!((1_600..=2_400).contains(&waits(0)), "{}", waits(0));
        assert!(waits(4) > waits(1));
        assert_eq!(of(Failure::Transient, 5), TaskRetry::GiveUp);
        assert_eq!(of(Failure::Permanent, 0), TaskRetry::GiveUp);
        let given_back = TaskRetry::Retry {
            not_before: Time(1_000),
            counts: false,
        };
        assert_eq!(of(Failure::Interrupted, 99), given_back);
        let until = Time(90_000);
        let waited_for = TaskRetry::Retry {
            not_before: until,
            counts: false,
        };
        assert_eq!(of(Failure::Quota { until }, 99), waited_for);
        // Whatever time the agent names, the waits of a task end.
        for until in [Time(i64::MIN), Time(0), Time(1_000), Time(i64::MAX)] {
            let mut attempts = 0;
            for claims in 1.. {
                let TaskRetry::Retry { not_before, counts } =
                    after(Failure::Quota { until }, attempts, claims)
                else {
                    assert_eq!(claims, u64::from(QUOTA_WAITS_MAX + limits.retries_max) + 1);
                    break;
                };
                assert!(not_before.0 >= 1_000 + 12_000, "{not_before:?}");
                assert!(not_before.0 <= 1_000 + 7 * 86_400_000, "{not_before:?}");
                attempts += u32::from(counts);
            }
        }
    }
}
