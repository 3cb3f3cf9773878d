//! A message, and its forms.

use flow::Time;
use flow::narrate::Mood;
use serde_json::{Value, json};

use app::operations::history::Line;
use app::settings::notify::{Severity, Target};

/// Slack cuts longer ones.
const SLACK_CHARS_MAX: usize = 3000;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Message {
    /// The same for the same thing, however often it is sent.
    pub id: String,
    pub severity: Severity,
    at: Time,
    activity: String,
    event: String,
    ticket: Option<String>,
    by: String,
    text: String,
    context: Option<Value>,
}

/// What is told of how sending goes; never to the target that it is about.
pub const GIVEN_UP: &str = "notification_given_up";
pub const BACK: &str = "notification_target_back";

impl Message {
    /// `nth` counts what one event is told in.
    pub fn of(line: &Line, nth: usize) -> Self {
        Self {
            id: format!(
                "evt_{}_{}_{nth}",
                line.cursor.transaction, line.cursor.sequence
            ),
            severity: match line.mood {
                Mood::Plain | Mood::Good => Severity::Info,
                Mood::Bad => Severity::Warning,
                Mood::Urgent => Severity::Urgent,
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

    pub fn to_try(now: Time) -> Self {
        Self {
            id: format!("try_{}", now.0),
            severity: Severity::Info,
            at: now,
            activity: "test".to_owned(),
            event: "test".to_owned(),
            ticket: None,
            by: "countersign".to_owned(),
            text: "this is a test: the target can be reached".to_owned(),
            context: None,
        }
    }

    pub fn is_for(&self, target: &Target) -> bool {
        let named = |name: &String| *name == self.activity || *name == self.event;
        let chosen = target.events.is_empty() || target.events.iter().any(named);
        chosen && self.severity >= target.severity && !self.is_about(target)
    }

    fn is_about(&self, target: &Target) -> bool {
        [GIVEN_UP, BACK].contains(&self.event.as_str()) && self.by == carrier_of(&target.name)
    }

    /// As Standard Webhooks have it: what it is, when it was, and the rest.
    pub fn payload(&self) -> Value {
        json!({
            "type": self.activity,
            "timestamp": self.at.iso(),
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

    /// One text; what could mention somebody or be a link is text in it.
    pub fn slack(&self) -> Value {
        let mark = match self.severity {
            Severity::Info => "",
            Severity::Warning => ":warning: ",
            Severity::Urgent => ":rotating_light: ",
        };
        let ticket = self.ticket.as_ref().map(|id| format!("*{}*  ", plain(id)));
        let text = format!(
            "{mark}{}{}",
            ticket.unwrap_or_default(),
            plain(&findings::shorten(&self.text, SLACK_CHARS_MAX))
        );
        json!({"text": text})
    }
}

/// In whose name it is noted that a target is given up.
pub fn carrier_of(target: &str) -> String {
    format!("notify:{target}")
}

fn plain(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use app::settings::notify::Means;
    use std::time::Duration;

    fn target(events: &[&str], severity: Severity) -> Target {
        Target {
            name: "ops".to_owned(),
            means: Means::Slack { url: String::new() },
            ca_file: None,
            events: events.iter().map(|name| (*name).to_owned()).collect(),
            severity,
            timeout: Duration::from_secs(1),
            tries_max: 1,
        }
    }

    fn message(event: &str, by: &str, severity: Severity) -> Message {
        Message {
            event: event.to_owned(),
            by: by.to_owned(),
            severity,
            ..Message::to_try(Time(0))
        }
    }

    #[test]
    fn a_target_hears_what_it_asked_for_and_nothing_of_itself() {
        let done = message("landed", "countersign", Severity::Info);
        assert!(done.is_for(&target(&["landed"], Severity::Info)));
        assert!(done.is_for(&target(&["test"], Severity::Info)));
        assert!(!done.is_for(&target(&["created"], Severity::Info)));
        assert!(!done.is_for(&target(&[], Severity::Urgent)));
        let own = message(GIVEN_UP, "notify:ops", Severity::Warning);
        assert!(!own.is_for(&target(&[], Severity::Info)));
        let other = message(GIVEN_UP, "notify:chat", Severity::Warning);
        assert!(other.is_for(&target(&[], Severity::Info)));
    }

    #[test]
    fn nothing_in_a_message_mentions_anybody() {
        let mut loud = message("x", "y", Severity::Urgent);
        loud.text = "<!channel> & <https://evil.example|click>".to_owned();
        let text = loud.slack()["text"].as_str().unwrap().to_owned();
        let wanted = ":rotating_light: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt;";
        assert_eq!(text, wanted);
    }
}
