//! What goes on while a job runs, told to whoever watches: an agent that began, spoke, used a tool,
//! spent money or ended; a check that began or ended.
//!
//! Only for eyes: nothing is decided by it and nothing of it is stored; the transcript has it all.
//! It refuses to flood: words are cleaned and cut short, and a run that says more than a person can
//! follow is told of in part, while its sums stay right.

use std::sync::Arc;

use flow::{TicketId, Time};

use crate::agent::{AgentEvent, AgentUsage};
use crate::coordinator::ProgressListener;

/// How much of its words an activity carries.
pub const DETAIL_CHARS_MAX: usize = 200;
/// How many activities of one run are told within a second; the rest only counts.
pub const PER_SECOND_MAX: u32 = 20;
/// How much of a text is looked at for its words.
const LOOKED_AT_CHARS_MAX: usize = 2_000;

/// A sign of life from a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    pub ticket: TicketId,
    /// The job's number in its ticket.
    pub job: u32,
    pub round: u32,
    /// `build`, `review`, `verify`, or `check`.
    pub role: &'static str,
    /// The agent's name, or the check's.
    pub name: String,
    pub sign: ActivityKind,
    /// One line without control characters, at most [`DETAIL_CHARS_MAX`] and a mark of the cut.
    pub detail: String,
    /// What the agent has told of its spending so far in this run.
    pub usage: AgentUsage,
    pub at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// The detail is the model, where it is known.
    Began,
    Said,
    /// The detail is the tool, and what with.
    Used,
    /// It was not let use a tool.
    Denied,
    Spent,
    /// No quota, no right, no tools of ours, or a failure of its own.
    Troubled,
    /// The detail is how.
    Ended,
}

/// Makes activities out of one run's events.
#[derive(Debug)]
pub struct Observer {
    /// What all of the run's activities have in common.
    pattern: Activity,
    clock: fn() -> Time,
    witness: Option<Arc<dyn ProgressListener>>,
    /// What it is saying, where that comes in pieces.
    saying: String,
    second: i64,
    told_in_second: u32,
}

impl Observer {
    pub fn new(
        pattern: Activity,
        clock: fn() -> Time,
        witness: Option<Arc<dyn ProgressListener>>,
    ) -> Self {
        Self {
            pattern,
            clock,
            witness,
            saying: String::new(),
            second: 0,
            told_in_second: 0,
        }
    }

    pub fn began(&self) {
        self.tell(ActivityKind::Began, "");
    }

    /// What the agent has told of its spending so far.
    pub fn usage(&self) -> AgentUsage {
        self.pattern.usage
    }

    pub fn ended(mut self, how: &str, usage: AgentUsage) {
        self.pattern.usage = usage;
        self.tell(ActivityKind::Ended, how);
    }

    pub fn see(&mut self, event: &AgentEvent) {
        if let AgentEvent::Spent { usage, .. } = event {
            self.pattern.usage = self.pattern.usage.plus(*usage);
        }
        if !self.has_room() {
            return;
        }
        if let AgentEvent::Wrote { text } = event {
            self.saying.push_str(last_chars(text, LOOKED_AT_CHARS_MAX));
            let kept = last_chars(&self.saying, LOOKED_AT_CHARS_MAX).to_owned();
            self.saying = kept;
            let line = last_line(&self.saying).to_owned();
            return self.tell(ActivityKind::Said, &line);
        }
        self.saying.clear();
        if let Some((sign, detail)) = read(event) {
            self.tell(sign, &detail);
        }
    }

    fn has_room(&mut self) -> bool {
        let second = (self.clock)().0.div_euclid(1000);
        if second != self.second {
            (self.second, self.told_in_second) = (second, 0);
        }
        self.told_in_second += 1;
        self.told_in_second <= PER_SECOND_MAX
    }

    fn tell(&self, sign: ActivityKind, detail: &str) {
        let Some(witness) = &self.witness else {
            return;
        };
        let looked_at = first_chars(detail, LOOKED_AT_CHARS_MAX);
        witness.see(Activity {
            sign,
            detail: findings::shorten(&findings::one_line(looked_at), DETAIL_CHARS_MAX),
            at: (self.clock)(),
            ..self.pattern.clone()
        });
    }
}

fn read(event: &AgentEvent) -> Option<(ActivityKind, String)> {
    Some(match event {
        AgentEvent::Started { model, .. } => {
            (ActivityKind::Began, model.clone().unwrap_or_default())
        }
        AgentEvent::Said { text } | AgentEvent::Wrote { text } | AgentEvent::Answered { text } => {
            (ActivityKind::Said, last_line(text).to_owned())
        }
        AgentEvent::Used { tool, detail } => (
            ActivityKind::Used,
            format!("{tool} {}", first_chars(detail, LOOKED_AT_CHARS_MAX)),
        ),
        AgentEvent::Denied { tool } => (ActivityKind::Denied, tool.clone()),
        AgentEvent::Spent { model, .. } => (ActivityKind::Spent, model.clone().unwrap_or_default()),
        AgentEvent::OutOfQuota { .. } => (ActivityKind::Troubled, "out of quota".to_owned()),
        AgentEvent::Barred { message }
        | AgentEvent::OverBudget { message }
        | AgentEvent::Failed { message } => (ActivityKind::Troubled, message.clone()),
        AgentEvent::Unconnected { why } => (
            ActivityKind::Troubled,
            format!("works without Countersign's tools: {why}"),
        ),
        AgentEvent::Turned { .. } | AgentEvent::Finished => return None,
    })
}

/// The last line that says anything.
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
        fn hear(&self, _: ProgressUpdate) {}

        fn see(&self, activity: Activity) {
            self.0.lock().unwrap().push(activity);
        }
    }

    /// What is told of these events, all within one second.
    fn told(events: &[AgentEvent]) -> Vec<Activity> {
        let notes = Arc::new(Notes::default());
        let mut observer = Observer::new(pattern(), || Time(5_000), Some(notes.clone()));
        for event in events {
            observer.see(event);
        }
        let spent = observer.pattern.usage;
        observer.ended("exit code 0", spent);
        std::mem::take(&mut *notes.0.lock().unwrap())
    }

    fn wrote(text: &str) -> AgentEvent {
        AgentEvent::Wrote {
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
        let tool = AgentEvent::Used {
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
