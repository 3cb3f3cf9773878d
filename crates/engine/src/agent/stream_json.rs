//! The line format that Claude Code began and others took over: `system`, `assistant`, `user`,
//! `result`, an object a line. And what all formats of that kind need.

use serde_json::Value;

use super::event::micros;
use super::quota::QuotaReset;
use super::{AgentEvent, AgentUsage, tools, trouble};

/// How much of a tool's input is told.
const DETAIL_CHARS_MAX: usize = 200;

/// The object that a line is, with its type; None for any other line.
pub(super) fn object(line: &str) -> Option<(String, Value)> {
    if !line.starts_with('{') {
        return None;
    }
    let value: Value = serde_json::from_str(line).ok()?;
    let kind = value.get("type")?.as_str()?.to_owned();
    Some((kind, value))
}

pub(super) fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

pub(super) fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer)?.as_u64()
}

pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let items = value.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten()
}

pub(super) fn used(tool: Option<String>, input: Option<&Value>) -> AgentEvent {
    AgentEvent::Used {
        tool: tool.unwrap_or_else(|| "tool".to_owned()),
        detail: input.map(detail).unwrap_or_default(),
    }
}

/// The part of a tool's input that says most: what it runs, else where, else all of it.
pub(super) fn detail(input: &Value) -> String {
    const TELLING: [&str; 9] = [
        "command",
        "file_path",
        "filePath",
        "absolute_path",
        "path",
        "pattern",
        "query",
        "url",
        "description",
    ];
    let told = TELLING.iter().find_map(|key| input.get(key)?.as_str());
    let whole = match (told, input) {
        (Some(text), _) => text.to_owned(),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Null) => String::new(),
        (None, other) => other.to_string(),
    };
    findings::shorten(&findings::one_line(&whole), DETAIL_CHARS_MAX)
}

/// Reads a line of the common format.
pub(super) fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let (kind, value) = object(line)?;
    Some(match kind.as_str() {
        "system" => system(&value),
        "assistant" => list(&value, "/message/content").filter_map(block).collect(),
        "rate_limit_event" => limited(&value).into_iter().collect(),
        "result" => result(&value),
        _ => Vec::new(),
    })
}

fn system(value: &Value) -> Vec<AgentEvent> {
    match value["subtype"].as_str() {
        Some("init") => init(value),
        Some("permission_denied") => vec![AgentEvent::Denied {
            tool: text(value, "/tool_name").unwrap_or_default(),
        }],
        _ => Vec::new(),
    }
}

fn init(value: &Value) -> Vec<AgentEvent> {
    let mut events = vec![AgentEvent::Started {
        session: text(value, "/session_id"),
        model: text(value, "/model"),
    }];
    let servers = list(value, "/mcp_servers");
    events.extend(
        servers.filter_map(|told| tools::state(&told["name"], &told["status"], &told["error"])),
    );
    events
}

fn block(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => Some(AgentEvent::Said {
            text: text(block, "/text")?,
        }),
        "tool_use" => Some(used(text(block, "/name"), block.get("input"))),
        _ => None,
    }
}

/// A warning that the limit is near is not yet the limit.
fn limited(value: &Value) -> Option<AgentEvent> {
    let told = value.get("rate_limit_info")?;
    let rejected = told["status"].as_str() == Some("rejected");
    let resets = told["resetsAt"].as_i64().and_then(QuotaReset::epoch);
    rejected.then_some(AgentEvent::OutOfQuota { until: resets })
}

fn result(value: &Value) -> Vec<AgentEvent> {
    let mut events = vec![AgentEvent::Spent {
        usage: usage(value),
        model: None,
    }];
    events.extend(number(value, "/num_turns").map(|turns| AgentEvent::Turned { turns }));
    let said = text(value, "/result");
    // `subtype` says "success" even where nobody is logged in.
    if value["is_error"].as_bool() == Some(true) {
        let errors = list(value, "/errors").filter_map(Value::as_str);
        let errors: Vec<&str> = errors
            .chain(value.pointer("/error/message").and_then(Value::as_str))
            .collect();
        let message = said.unwrap_or_else(|| errors.join("\n"));
        events.push(match value["subtype"].as_str() {
            Some("error_max_budget_usd") => AgentEvent::OverBudget { message },
            _ => failure(value, &message),
        });
    } else {
        let structured = value
            .get("structured_output")
            .filter(|told| !told.is_null());
        let answer = structured.map(Value::to_string).or(said);
        events.extend(answer.map(|text| AgentEvent::Answered { text }));
    }
    events
}

fn failure(value: &Value, message: &str) -> AgentEvent {
    let status = number(value, "/api_error_status");
    let message = match status {
        // The words may be a proxy's own; the number is the provider's.
        Some(401 | 403) => format!("{message} (status 401)"),
        Some(429) => format!("{message} (status 429)"),
        _ => message.to_owned(),
    };
    trouble::of(&message)
}

/// The price is of the whole session, so the part since the last result is taken where it is told.
fn usage(value: &Value) -> AgentUsage {
    let count = |name: &str| number(value, &format!("/usage/{name}"));
    let (plain, out) = (count("input_tokens"), count("output_tokens"));
    let cached = count("cache_read_input_tokens");
    let beside =
        cached.unwrap_or_default() + count("cache_creation_input_tokens").unwrap_or_default();
    // Claude counts the cache apart from the rest; who tells a sum has it inside.
    let beside = count("total_tokens").map_or(beside, |_| 0);
    let since = value
        .get("model_usage_since_last_result")
        .and_then(Value::as_object);
    let price = since.map(|models| {
        let prices = models
            .values()
            .filter_map(|model| model["costUSD"].as_f64());
        prices.sum::<f64>()
    });
    AgentUsage {
        usd_micros: price
            .or_else(|| value["total_cost_usd"].as_f64())
            .and_then(micros),
        tokens_in: plain.map(|plain| plain + beside),
        tokens_out: out,
        tokens_cached: cached,
    }
}
