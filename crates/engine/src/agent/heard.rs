//! What a run says, gathered line by line, and the answer picked out of it.

use super::event::last_json;
use super::{Adapter, AgentEvent, Source, Usage};
use crate::process::{Line, Stream};

/// How much of what was said on stdout is kept: the end of it.
const SAID_MAX: usize = 16 << 20;
const COMPLAINT_MAX: usize = 4 << 10;
/// How many events a report keeps; the transcript has them all.
const EVENTS_MAX: usize = 10_000;

/// What has been heard of an agent so far.
#[derive(Default)]
pub(super) struct Heard {
    said: String,
    pub events: Vec<AgentEvent>,
    pub usage: Usage,
    pub session: Option<String>,
    pub model: Option<String>,
    answer: Option<String>,
    pub complaint: String,
}

impl Heard {
    pub fn take(&mut self, adapter: &dyn Adapter, line: Line) -> Option<AgentEvent> {
        match line.stream {
            Stream::Err => {
                keep_end(&mut self.complaint, &line.text, COMPLAINT_MAX);
                None
            }
            Stream::Out => {
                let event = adapter.event(&line.text);
                if event.is_none() {
                    let end = if line.whole { "\n" } else { "" };
                    keep_end(&mut self.said, &(line.text + end), SAID_MAX);
                }
                event
            }
        }
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
            AgentEvent::Answered { text } => self.answer = Some(text.clone()),
            AgentEvent::Said { .. }
            | AgentEvent::Used { .. }
            | AgentEvent::OutOfQuota { .. }
            | AgentEvent::Failed { .. } => {}
        }
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    pub fn result(&mut self, file: Option<String>) -> Option<(String, Source)> {
        if let Some(text) = file {
            return Some((text, Source::File));
        }
        if let Some(text) = self.answer.take() {
            return Some((text, Source::Event));
        }
        if let Some(json) = last_json(&self.said) {
            return Some((json.to_owned(), Source::Json));
        }
        let said = self.said.trim();
        (!said.is_empty()).then(|| (said.to_owned(), Source::Text))
    }
}

/// Appends, and lets go of the beginning beyond `max`.
fn keep_end(text: &mut String, more: &str, max: usize) {
    text.push_str(more);
    if text.len() > max {
        let mut start = text.len() - max;
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text.drain(..start);
    }
}
