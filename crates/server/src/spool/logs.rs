//! Writes `logs/<agent>.log` in a fixed line format that scripts parse:
//! `16:17:23 INFO [qa] [PROJ-123] Starting review of PR #456`. Times are UTC.

use engine::log::LogErr;
use serde_json::Value;

use super::Spool;

/// Size after which a log is rotated to `.1`, replacing the previous one.
const BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Maximum length of a line.
const LINE_CHARS_MAX: usize = 500;

impl Spool {
    /// Appends a line to a queue's log. A write error is only logged.
    pub(super) fn log(&self, queue: &str, level: &str, agent: &str, text: &str) {
        let time: String = self.app.now().to_iso().chars().skip(11).take(8).collect();
        let text = findings::shorten(&findings::one_line(text), LINE_CHARS_MAX);
        let line = format!("{time} {level} [{agent}] {text}\n");
        let name = format!("{queue}.log");
        let written = self.parts.logs.append(&name, line.as_bytes(), BYTES_MAX);
        written.log_err("write to the log of a spool queue");
    }

    /// Appends the two lines of a queue in which a task was found.
    pub(super) fn log_found(&self, queue: &str, id: &str) {
        self.log(queue, "INFO", queue, &format!("Polling queue: {queue}"));
        self.log(queue, "INFO", queue, &format!("Found task: {id}"));
    }

    /// Appends a line about a task, with its Jira key if it has one.
    pub(super) fn log_task(&self, queue: &str, level: &str, agent: &str, body: &Value, text: &str) {
        let key = body.pointer("/context/jira_key").and_then(Value::as_str);
        let key = key.map(|key| format!("[{key}] ")).unwrap_or_default();
        self.log(queue, level, agent, &format!("{key}{text}"));
    }
}

/// Formats the start of a task: `Starting review of PR #456`.
pub fn starting_line(body: &Value) -> String {
    let kind = kind(body);
    match body.pointer("/context/pr_number").and_then(Value::as_u64) {
        Some(number) => format!("Starting {kind} of PR #{number}"),
        None => format!("Starting {kind}: {}", title(body)),
    }
}

/// Formats the end of a task: `Review completed (82.3s)`.
pub fn ended_line(body: &Value, how: &str, took_ms: Option<i64>) -> String {
    let kind = kind(body);
    let mut letters = kind.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let kind: String = first.into_iter().chain(letters).collect();
    let took = took_ms.map(|ms| format!(" ({}.{}s)", ms / 1000, ms % 1000 / 100));
    format!("{kind} {how}{}", took.unwrap_or_default())
}

fn kind(body: &Value) -> &str {
    let kind = body.get("type").and_then(Value::as_str);
    kind.filter(|kind| !kind.is_empty()).unwrap_or("task")
}

fn title(body: &Value) -> &str {
    body.get("title").and_then(Value::as_str).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_have_the_words_that_scripts_look_for() {
        let body = json!({"type": "review", "context": {"pr_number": 456}});
        assert_eq!(starting_line(&body), "Starting review of PR #456");
        assert_eq!(
            ended_line(&body, "completed", Some(82_345)),
            "Review completed (82.3s)"
        );
        let plain = json!({"title": "Look"});
        assert_eq!(starting_line(&plain), "Starting task: Look");
        assert_eq!(ended_line(&plain, "failed", None), "Task failed");
    }
}
