//! A notification and its formats.

use flow::Time;
use flow::narrate::Mood;
use serde_json::{Value, json};

use app::operations::history::LogLine;
use app::settings::notify::{NotifyTarget, Urgency};

/// Slack cuts longer texts.
const SLACK_CHARS_MAX: usize = 3000;

/// One event, as a message for a target.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Stable id: a repeated delivery has the same one.
    pub id: String,
    pub severity: Urgency,
    at: Time,
    activity: String,
    event: String,
    ticket: Option<String>,
    by: String,
    text: String,
    context: Option<Value>,
}

/// Events about delivery itself; they are never sent to the target they are about.
pub const GIVEN_UP: &str = "notification_given_up";
pub const TARGET_BACK: &str = "notification_target_back";

impl Notification {
    /// Builds a message from a log line; `nth` numbers the lines of one event.
    pub fn from_log_line(line: &LogLine, nth: usize) -> Self {
        Self {
            id: format!(
                "evt_{}_{}_{nth}",
                line.cursor.transaction, line.cursor.sequence
            ),
            severity: match line.mood {
                Mood::Plain | Mood::Good => Urgency::Info,
                Mood::Bad => Urgency::Warning,
                Mood::Urgent => Urgency::Urgent,
            },
            at: line.at,
            activity: line.activity.clone(),
            event: line.event.clone(),
            ticket: line.ticket.as_ref().map(ToString::to_string),
            by: line.by.clone(),
            text: findings::clean(&line.text),
            context: line.context.clone(),
        }
    }

    pub fn test_message(now: Time) -> Self {
        Self {
            id: format!("try_{}", now.0),
            severity: Urgency::Info,
            at: now,
            activity: "test".to_owned(),
            event: "test".to_owned(),
            ticket: None,
            by: "countersign".to_owned(),
            text: "this is a test: the target can be reached".to_owned(),
            context: None,
        }
    }

    pub fn is_for(&self, target: &NotifyTarget) -> bool {
        let is_listed = |name: &String| *name == self.activity || *name == self.event;
        let is_selected = target.events.is_empty() || target.events.iter().any(is_listed);
        is_selected && self.severity >= target.severity && !self.is_about(target)
    }

    fn is_about(&self, target: &NotifyTarget) -> bool {
        [GIVEN_UP, TARGET_BACK].contains(&self.event.as_str()) && self.by == feed_name(&target.name)
    }

    /// Returns the payload in the form of Standard Webhooks: type, timestamp and data.
    pub fn payload(&self) -> Value {
        json!({
            "type": self.activity,
            "timestamp": self.at.to_iso(),
            "data": {
                "id": self.id,
                "event": self.event,
                "severity": self.severity.word(),
                "ticket": self.ticket,
                "by": self.by,
                "text": self.text,
                "context": self.context,
            },
        })
    }

    /// Returns a Slack message. Characters that could form a mention or a link are escaped.
    pub fn slack(&self) -> Value {
        let mark = match self.severity {
            Urgency::Info => "",
            Urgency::Warning => ":warning: ",
            Urgency::Urgent => ":rotating_light: ",
        };
        let ticket = self
            .ticket
            .as_ref()
            .map(|id| format!("*{}*  ", escape_slack(id)));
        let text = format!(
            "{mark}{}{}",
            ticket.unwrap_or_default(),
            escape_slack(&findings::shorten(&self.text, SLACK_CHARS_MAX))
        );
        json!({"text": text})
    }
}

/// Returns the actor name for events about this target.
pub fn feed_name(target: &str) -> String {
    format!("notify:{target}")
}

fn escape_slack(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use app::settings::notify::NotifyChannel;
    use std::time::Duration;

    fn target(events: &[&str], severity: Urgency) -> NotifyTarget {
        NotifyTarget {
            name: "ops".to_owned(),
            channel: NotifyChannel::Slack { url: String::new() },
            ca_file: None,
            events: events.iter().map(|name| (*name).to_owned()).collect(),
            severity,
            timeout: Duration::from_secs(1),
            tries_max: 1,
        }
    }

    fn message(event: &str, by: &str, severity: Urgency) -> Notification {
        Notification {
            event: event.to_owned(),
            by: by.to_owned(),
            severity,
            ..Notification::test_message(Time(0))
        }
    }

    #[test]
    fn a_target_hears_what_it_asked_for_and_nothing_of_itself() {
        let done = message("landed", "countersign", Urgency::Info);
        assert!(done.is_for(&target(&["landed"], Urgency::Info)));
        assert!(done.is_for(&target(&["test"], Urgency::Info)));
        assert!(!done.is_for(&target(&["created"], Urgency::Info)));
        assert!(!done.is_for(&target(&[], Urgency::Urgent)));
        let own = message(GIVEN_UP, "notify:ops", Urgency::Warning);
        assert!(!own.is_for(&target(&[], Urgency::Info)));
        let other = message(GIVEN_UP, "notify:chat", Urgency::Warning);
        assert!(other.is_for(&target(&[], Urgency::Info)));
    }

    #[test]
    fn nothing_in_a_message_mentions_anybody() {
        let mut loud = message("x", "y", Urgency::Urgent);
        loud.text = "<!channel> & <https://evil.example|click>".to_owned();
        let text = loud.slack()["text"].as_str().unwrap().to_owned();
        let expected = ":rotating_light: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt;";
        assert_eq!(text, expected);
    }
}
