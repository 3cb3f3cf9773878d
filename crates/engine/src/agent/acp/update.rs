//! Parses `session/update`, the agent's progress messages.

use serde_json::Value;

use crate::agent::event::usd_to_micros;
use crate::agent::stream_json::{text, tool_event};
use crate::agent::{AgentEvent, AgentUsage};

pub(super) fn events(update: &Value) -> Vec<AgentEvent> {
    let event = match update["sessionUpdate"].as_str() {
        Some("agent_message_chunk") => {
            text(update, "/content/text").map(|text| AgentEvent::SaidPart { text })
        }
        Some("tool_call") => Some(tool_event(name(update), detail(update))),
        Some("usage_update") => cost(update),
        _ => None,
    };
    event.into_iter().collect()
}

fn name(update: &Value) -> Option<String> {
    text(update, "/kind")
        .filter(|kind| kind != "other")
        .or_else(|| text(update, "/title"))
}

fn detail(update: &Value) -> Option<&Value> {
    let input = update.get("rawInput").filter(|input| !input.is_null());
    let filled = |input: &&Value| input.as_object().is_none_or(|fields| !fields.is_empty());
    input.filter(filled).or_else(|| update.get("title"))
}

fn cost(update: &Value) -> Option<AgentEvent> {
    let dollars = update.pointer("/cost/amount")?.as_f64();
    let in_dollars = update.pointer("/cost/currency").and_then(Value::as_str) == Some("USD");
    let usage = AgentUsage {
        usd_micros: dollars.filter(|_| in_dollars).and_then(usd_to_micros),
        ..AgentUsage::default()
    };
    // Every update has the total so far; the conversation adds the last one at the end of the turn.
    Some(AgentEvent::Spent { usage, model: None })
}
