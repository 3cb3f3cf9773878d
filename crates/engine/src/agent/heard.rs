//! What a run says, gathered line by line, and the answer picked out of it.

use super::event::last_json;
use super::{AgentEvent, AgentUsage, ResultSource};
use crate::process::OutputLine;

/// How much of what was said on stdout is kept: the end of it. More than an answer needs; who has
/// more to say leaves a file.
const SAID_MAX: usize = 2 << 20;
const COMPLAINT_MAX: usize = 4 << 10;
/// How many events a report keeps; the transcript has them all.
const EVENTS_MAX: usize = 10_000;

/// What has been heard of an agent so far.
#[derive(Default)]
pub(super) struct AgentOutput {
    said: String,
    /// What it is saying, or said last.
    saying: String,
    /// It did something since: what it says next is another saying.
    paused: bool,
    pub events: Vec<AgentEvent>,
    pub usage: AgentUsage,
    pub session: Option<String>,
    pub model: Option<String>,
    pub turns: Option<u64>,
    pub denials: u64,
    /// What stands between it and an answer, unless it gave one afterwards.
    pub trouble: Option<AgentEvent>,
    answer: Option<String>,
    pub complaint: String,
}

impl AgentOutput {
    /// A line that its format does not know: an agent's plain words.
    pub fn hear_text(&mut self, line: &OutputLine) {
        let end = if line.whole { "\n" } else { "" };
        keep_end(&mut self.said, &line.text, SAID_MAX);
        keep_end(&mut self.said, end, SAID_MAX);
    }

    pub fn hear_complaint(&mut self, text: &str) {
        if !self.complaint.is_empty() {
            self.complaint.push('\n');
        }
        keep_end(&mut self.complaint, text, COMPLAINT_MAX);
    }

    pub fn keep(&mut self, event: AgentEvent) {
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
            AgentEvent::Wrote { text } => self.hear_saying(text),
            AgentEvent::Used { .. } => self.paused = true,
            AgentEvent::Denied { .. } => self.denials += 1,
            AgentEvent::Turned { turns } => self.turns = Some(*turns),
            AgentEvent::OutOfQuota { .. }
            | AgentEvent::Barred { .. }
            | AgentEvent::OverBudget { .. } => {
                self.trouble = Some(event.clone());
            }
            AgentEvent::Failed { .. } => {
                // What is known better already is not forgotten.
                if matches!(self.trouble, None | Some(AgentEvent::Failed { .. })) {
                    self.trouble = Some(event.clone());
                }
            }
            AgentEvent::Said { .. } | AgentEvent::Unconnected { .. } | AgentEvent::Finished => {}
        }
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// Whether an event tells more than what is known: what the agent said itself is known better
    /// than what its end looks like, unless nobody let it in.
    pub fn outweighs(&self, event: &AgentEvent) -> bool {
        self.trouble.is_none() || matches!(event, AgentEvent::Barred { .. })
    }

    fn hear_saying(&mut self, text: &str) {
        if std::mem::take(&mut self.paused) {
            self.saying.clear();
        }
        keep_end(&mut self.saying, text, SAID_MAX);
        self.trouble = None;
    }

    /// The result, and what was said beside it.
    pub fn result(
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
            let beside = (whole != json.trim()).then(|| whole.to_owned());
            return (Some((json.to_owned(), ResultSource::Json)), beside);
        }
        (said().map(|text| (text, ResultSource::Text)), None)
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Stands where the beginning of a text was let go of, so that its end is never taken for the whole.
const CUT: &str = "[the beginning was cut]\n";

/// Appends, and lets go of the beginning: never more than twice `max` is held, and moving what stays
/// is paid for by as much that came.
fn keep_end(text: &mut String, more: &str, max: usize) {
    text.push_str(more);
    if text.len() > 2 * max {
        let mut start = text.len() - max;
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text.replace_range(..start, CUT);
    }
}
