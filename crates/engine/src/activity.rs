//! Live activity of a job for progress listeners: an agent started, spoke, used a tool, spent money
//! or ended; a check started or ended.
//!
//! This is for display only: nothing is decided by it and nothing of it is stored; the transcript
//! has everything. It never floods a listener: texts are cleaned and shortened, and only a part of
//! a very active run is reported, while its sums stay right.

use std::sync::Arc;

use flow::{TicketId, Time};

use crate::agent::{AgentEvent, AgentUsage};
use crate::coordinator::ProgressListener;

/// Maximum length of the detail of an activity.
pub const DETAIL_CHARS_MAX: usize = 200;
/// Maximum number of activities reported per second of a run; the rest only counts towards the
/// sums.
pub const PER_SECOND_MAX: u32 = 20;
/// Maximum length of a text that is processed for its detail.
const LOOKED_AT_CHARS_MAX: usize = 2_000;

/// An activity of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    pub ticket: TicketId,
    /// Serial of the job in its ticket.
    pub job: u32,
    pub round: u32,
    /// `build`, `review`, `verify`, `check`, or `preparing`.
    pub role: &'static str,
    /// Name of the agent or the check.
    pub name: String,
    pub sign: ActivityKind,
    /// One line without control characters, at most [`DETAIL_CHARS_MAX`] long plus a mark if it was
    /// cut.
    pub detail: String,
    /// Usage that the agent has reported so far in this run.
    pub usage: AgentUsage,
    pub at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// Started. The detail is the model, if known.
    Began,
    Said,
    /// Used a tool. The detail is the tool and its argument.
    Used,
    /// Was refused a tool.
    Denied,
    Spent,
    /// Has a problem: no quota, no login, no connection to our tools, or a failure of its own.
    Problem,
    /// Ended. The detail is how.
    Ended,
}

/// Converts the events of one run to activities.
#[derive(Debug)]
pub struct Observer {
    /// Fields that all activities of the run share.
    pattern: Activity,
    clock: fn() -> Time,
    listener: Option<Arc<dyn ProgressListener>>,
    /// Current line of an agent that writes in pieces.
    saying: String,
    second: i64,
    told_in_second: u32,
}

impl Observer {
    pub fn new(
        pattern: Activity,
        clock: fn() -> Time,
        listener: Option<Arc<dyn ProgressListener>>,
    ) -> Self {
        Self {
            pattern,
            clock,
            listener,
            saying: String::new(),
            second: 0,
            told_in_second: 0,
        }
    }

    /// Reports that the run started.
    pub fn report_start(&self) {
        self.emit(ActivityKind::Began, "");
    }

    /// Returns the usage that the agent has reported so far.
    pub fn usage(&self) -> AgentUsage {
        self.pattern.usage
    }

    /// Reports that the run ended, with its final usage.
    pub fn report_end(mut self, how: &str, usage: AgentUsage) {
        self.pattern.usage = usage;
        self.emit(ActivityKind::Ended, how);
    }

    /// Adds up the usage of an event, and reports it unless the run is too active.
    pub fn on_event(&mut self, event: &AgentEvent) {
        if let AgentEvent::Spent { usage, .. } = event {
            self.pattern.usage = self.pattern.usage.plus(*usage);
        }
        if !self.is_within_rate() {
            return;
        }
        if let AgentEvent::SaidPart { text } = event {
            self.saying.push_str(last_chars(text, LOOKED_AT_CHARS_MAX));
            let tail = last_chars(&self.saying, LOOKED_AT_CHARS_MAX).to_owned();
            self.saying = tail;
            let line = last_line(&self.saying).to_owned();
            return self.emit(ActivityKind::Said, &line);
        }
        self.saying.clear();
        if let Some((sign, detail)) = describe_event(event) {
            self.emit(sign, &detail);
        }
    }

    /// Counts an activity, and returns whether it is still within the limit per second.
    fn is_within_rate(&mut self) -> bool {
        let second = (self.clock)().0.div_euclid(1000);
        if second != self.second {
            (self.second, self.told_in_second) = (second, 0);
        }
        self.told_in_second += 1;
        self.told_in_second <= PER_SECOND_MAX
    }

    fn emit(&self, sign: ActivityKind, detail: &str) {
        let Some(listener) = &self.listener else {
            return;
        };
        let start = first_chars(detail, LOOKED_AT_CHARS_MAX);
        listener.on_activity(Activity {
            sign,
            detail: findings::shorten(&findings::one_line(start), DETAIL_CHARS_MAX),
            at: (self.clock)(),
            ..self.pattern.clone()
        });
    }
}

/// Returns the kind and detail of an event; `None` for events that are not shown.
fn describe_event(event: &AgentEvent) -> Option<(ActivityKind, String)> {
    Some(match event {
        AgentEvent::Started { model, .. } => {
            (ActivityKind::Began, model.clone().unwrap_or_default())
        }
        AgentEvent::Said { text }
        | AgentEvent::SaidPart { text }
        | AgentEvent::Answered { text } => (ActivityKind::Said, last_line(text).to_owned()),
        AgentEvent::ToolUsed { tool, detail } => (
            ActivityKind::Used,
            format!("{tool} {}", first_chars(detail, LOOKED_AT_CHARS_MAX)),
        ),
        AgentEvent::Denied { tool } => (ActivityKind::Denied, tool.clone()),
        AgentEvent::Spent { model, .. } => (ActivityKind::Spent, model.clone().unwrap_or_default()),
        AgentEvent::OutOfQuota { .. } => (ActivityKind::Problem, "out of quota".to_owned()),
        AgentEvent::ActionRequired { message }
        | AgentEvent::OverBudget { message }
        | AgentEvent::Failed { message } => (ActivityKind::Problem, message.clone()),
        AgentEvent::McpUnavailable { why } => (
            ActivityKind::Problem,
            format!("works without Countersign's tools: {why}"),
        ),
        AgentEvent::TurnCount { .. } | AgentEvent::Finished => return None,
    })
}

/// Returns the last line that is not empty.
fn last_line(text: &str) -> &str {
    let tail = last_chars(text, LOOKED_AT_CHARS_MAX);
    let mut lines = tail.lines().rev();
    lines
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
}

fn first_chars(text: &str, chars_max: usize) -> &str {
    let end = text.char_indices().nth(chars_max);
    end.map_or(text, |(at, _)| &text[..at])
}

fn last_chars(text: &str, chars_max: usize) -> &str {
    let start = text.char_indices().rev().nth(chars_max.saturating_sub(1));
    start.map_or(text, |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::coordinator::ProgressUpdate;

    fn pattern() -> Activity {
        Activity {
            ticket: TicketId::new("T-1").unwrap(),
            job: 1,
            round: 1,
            role: "build",
            name: "claude".to_owned(),
            sign: ActivityKind::Began,
            detail: String::new(),
            usage: AgentUsage::default(),
            at: Time(0),
        }
    }

    #[derive(Debug, Default)]
    struct Notes(Mutex<Vec<Activity>>);

    impl ProgressListener for Notes {
        fn on_update(&self, _: ProgressUpdate) {}

        fn on_activity(&self, activity: Activity) {
            self.0.lock().unwrap().push(activity);
        }
    }

    /// Returns the activities reported for these events, all within one second.
    fn told(events: &[AgentEvent]) -> Vec<Activity> {
        let notes = Arc::new(Notes::default());
        let mut observer = Observer::new(pattern(), || Time(5_000), Some(notes.clone()));
        for event in events {
            observer.on_event(event);
        }
        let spent = observer.pattern.usage;
        observer.report_end("exit code 0", spent);
        std::mem::take(&mut *notes.0.lock().unwrap())
    }

    fn wrote(text: &str) -> AgentEvent {
        AgentEvent::SaidPart {
            text: text.to_owned(),
        }
    }

    #[test]
    fn words_are_cleaned_and_cut_short() {
        let text = format!("\u{1b}[31mred\u{7}\u{202e} {}", "word ".repeat(1_000_000));
        let said = &told(&[AgentEvent::Said { text }])[0];
        assert_eq!(said.sign, ActivityKind::Said);
        assert!(said.detail.chars().count() <= DETAIL_CHARS_MAX + 1);
        assert!(!said.detail.chars().any(char::is_control));
    }

    #[test]
    fn pieces_add_up_to_the_line_that_is_being_said() {
        let tool = AgentEvent::ToolUsed {
            tool: "Bash".to_owned(),
            detail: "cargo test".to_owned(),
        };
        let events = [
            wrote("first\nI will"),
            wrote(" run it"),
            tool,
            wrote("Done"),
        ];
        let details: Vec<String> = told(&events).into_iter().map(|told| told.detail).collect();
        let expected = [
            "I will",
            "I will run it",
            "Bash cargo test",
            "Done",
            "exit code 0",
        ];
        assert_eq!(details, expected);
    }

    #[test]
    fn a_flood_is_told_in_part_and_its_sums_are_right() {
        let usage = AgentUsage {
            tokens_out: Some(3),
            ..AgentUsage::default()
        };
        let spent = AgentEvent::Spent { usage, model: None };
        let told = told(&vec![spent; 1_000]);
        assert_eq!(told.len(), PER_SECOND_MAX as usize + 1);
        let last = &told[told.len() - 1];
        assert_eq!(last.sign, ActivityKind::Ended);
        assert_eq!(last.usage.tokens_out, Some(3_000));
    }
}
