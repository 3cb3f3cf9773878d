//! Collects the output of a run line by line and selects the answer.

use super::event::last_json;
use super::{AgentEvent, AgentUsage, ResultSource};
use crate::process::OutputLine;

/// Maximum size of plain stdout text that is kept, from its end. An answer needs less; a longer
/// one belongs in the result file.
const SAID_MAX: usize = 2 << 20;
const COMPLAINT_MAX: usize = 4 << 10;
/// Maximum number of events in a report; the transcript has all of them.
const EVENTS_MAX: usize = 10_000;

/// Output of an agent so far.
#[derive(Default)]
pub(super) struct AgentOutput {
    said: String,
    /// The current or last message.
    saying: String,
    /// Whether the agent did something since, so that the next text starts a new message.
    paused: bool,
    pub events: Vec<AgentEvent>,
    pub usage: AgentUsage,
    pub session: Option<String>,
    pub model: Option<String>,
    pub turns: Option<u64>,
    pub denials: u64,
    /// Reported obstacle, cleared by a later answer.
    pub trouble: Option<AgentEvent>,
    answer: Option<String>,
    pub complaint: String,
}

impl AgentOutput {
    /// Adds a line that is not of the agent's format.
    pub fn push_text(&mut self, line: &OutputLine) {
        let end = if line.whole { "\n" } else { "" };
        append_keeping_end(&mut self.said, &line.text, SAID_MAX);
        append_keeping_end(&mut self.said, end, SAID_MAX);
    }

    pub fn push_stderr(&mut self, text: &str) {
        if !self.complaint.is_empty() {
            self.complaint.push('\n');
        }
        append_keeping_end(&mut self.complaint, text, COMPLAINT_MAX);
    }

    pub fn push_event(&mut self, event: AgentEvent) {
        match &event {
            AgentEvent::Started { session, model } => {
                self.session = session.clone().or(self.session.take());
                self.model = model.clone().or(self.model.take());
            }
            AgentEvent::Spent { usage, model } => {
                self.usage = self.usage.plus(*usage);
                self.model = model.clone().or(self.model.take());
            }
            AgentEvent::Answered { text } => {
                self.answer = Some(text.clone());
                self.trouble = None;
            }
            AgentEvent::SaidPart { text } => self.push_message(text),
            AgentEvent::ToolUsed { .. } => self.paused = true,
            AgentEvent::Denied { .. } => self.denials += 1,
            AgentEvent::TurnCount { turns } => self.turns = Some(*turns),
            AgentEvent::OutOfQuota { .. }
            | AgentEvent::ActionRequired { .. }
            | AgentEvent::OverBudget { .. } => {
                self.trouble = Some(event.clone());
            }
            AgentEvent::Failed { .. } => {
                // A more specific cause must not be replaced by a general failure.
                if matches!(self.trouble, None | Some(AgentEvent::Failed { .. })) {
                    self.trouble = Some(event.clone());
                }
            }
            AgentEvent::Said { .. } | AgentEvent::McpUnavailable { .. } | AgentEvent::Finished => {}
        }
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// Returns whether an event derived from the exit replaces the reported obstacle. The agent's
    /// own report takes precedence, except over a missing login.
    pub fn outweighs(&self, event: &AgentEvent) -> bool {
        self.trouble.is_none() || matches!(event, AgentEvent::ActionRequired { .. })
    }

    fn push_message(&mut self, text: &str) {
        if std::mem::take(&mut self.paused) {
            self.saying.clear();
        }
        append_keeping_end(&mut self.saying, text, SAID_MAX);
        self.trouble = None;
    }

    /// Returns the result and the other text.
    pub fn take_result(
        &mut self,
        file: Option<String>,
    ) -> (Option<(String, ResultSource)>, Option<String>) {
        let message = self
            .answer
            .take()
            .or_else(|| Some(std::mem::take(&mut self.saying)).filter(|text| !is_blank(text)));
        let said = || Some(self.said.trim().to_owned()).filter(|text| !text.is_empty());
        if let Some(text) = file {
            return (Some((text, ResultSource::File)), message.or_else(said));
        }
        if let Some(text) = message {
            return (Some((text, ResultSource::Event)), None);
        }
        if let Some(json) = last_json(&self.said) {
            let whole = self.said.trim();
            let other_text = (whole != json.trim()).then(|| whole.to_owned());
            return (Some((json.to_owned(), ResultSource::Json)), other_text);
        }
        (said().map(|text| (text, ResultSource::Text)), None)
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Replaces the dropped beginning of a text, so that its end is never taken for the whole.
const CUT: &str = "[the beginning was cut]\n";

/// Appends, and drops the beginning of a text that is too long. At most twice `max` is kept, so
/// that text is moved only once per `max` appended bytes.
fn append_keeping_end(text: &mut String, more: &str, max: usize) {
    text.push_str(more);
    if text.len() > 2 * max {
        let mut start = text.len() - max;
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text.replace_range(..start, CUT);
    }
}
