//! Parses the line format of Claude Code, which others adopted: one object per line, with the
//! types `system`, `assistant`, `user` and `result`. It also has helpers for all similar formats.

use serde_json::Value;

use super::event::usd_to_micros;
use super::quota::QuotaReset;
use super::{AgentEvent, AgentUsage, error_class, mcp};

/// Maximum length of the shown part of a tool's input.
const DETAIL_CHARS_MAX: usize = 200;

/// Parses a line that is an object with a type. Returns `None` for any other line.
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

pub(super) fn tool_event(tool: Option<String>, input: Option<&Value>) -> AgentEvent {
    AgentEvent::ToolUsed {
        tool: tool.unwrap_or_else(|| "tool".to_owned()),
        detail: input.map(detail).unwrap_or_default(),
    }
}

/// Returns the most informative part of a tool's input: the command, else the path, else all of it.
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
    let informative = TELLING.iter().find_map(|key| input.get(key)?.as_str());
    let whole = match (informative, input) {
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
        "rate_limit_event" => rate_limit_event(&value).into_iter().collect(),
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
    events.extend(servers.filter_map(|server| {
        mcp::connection_event(&server["name"], &server["status"], &server["error"])
    }));
    events
}

fn block(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => Some(AgentEvent::Said {
            text: text(block, "/text")?,
        }),
        "tool_use" => Some(tool_event(text(block, "/name"), block.get("input"))),
        _ => None,
    }
}

/// Parses a rate limit event. A warning that the limit is near is not yet the limit.
fn rate_limit_event(value: &Value) -> Option<AgentEvent> {
    let info = value.get("rate_limit_info")?;
    let rejected = info["status"].as_str() == Some("rejected");
    let resets = info["resetsAt"].as_i64().and_then(QuotaReset::from_epoch);
    rejected.then_some(AgentEvent::OutOfQuota { until: resets })
}

fn result(value: &Value) -> Vec<AgentEvent> {
    let mut events = vec![AgentEvent::Spent {
        usage: usage(value),
        model: None,
    }];
    events.extend(number(value, "/num_turns").map(|turns| AgentEvent::TurnCount { turns }));
    let message_text = text(value, "/result");
    // `subtype` is "success" even if there is no login.
    if value["is_error"].as_bool() == Some(true) {
        let errors = list(value, "/errors").filter_map(Value::as_str);
        let errors: Vec<&str> = errors
            .chain(value.pointer("/error/message").and_then(Value::as_str))
            .collect();
        let message = message_text.unwrap_or_else(|| errors.join("\n"));
        events.push(match value["subtype"].as_str() {
            Some("error_max_budget_usd") => AgentEvent::OverBudget { message },
            _ => failure(value, &message),
        });
    } else {
        let structured = value
            .get("structured_output")
            .filter(|output| !output.is_null());
        let answer = structured.map(Value::to_string).or(message_text);
        events.extend(answer.map(|text| AgentEvent::Answered { text }));
    }
    events
}

fn failure(value: &Value, message: &str) -> AgentEvent {
    let status = number(value, "/api_error_status");
    let message = match status {
        // The text may come from a proxy, but the status is the provider's.
        Some(401 | 403) => format!("{message} (status 401)"),
        Some(429) => format!("{message} (status 429)"),
        _ => message.to_owned(),
    };
    error_class::classify_error(&message)
}

/// Returns the usage. The total price covers the whole session, so the part since the last result
/// is used if it is reported.
fn usage(value: &Value) -> AgentUsage {
    let count = |name: &str| number(value, &format!("/usage/{name}"));
    let (plain, out) = (count("input_tokens"), count("output_tokens"));
    let cached = count("cache_read_input_tokens");
    let cache_tokens =
        cached.unwrap_or_default() + count("cache_creation_input_tokens").unwrap_or_default();
    // Claude reports cached tokens separately; a CLI that reports a total includes them.
    let cache_tokens = count("total_tokens").map_or(cache_tokens, |_| 0);
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
            .and_then(usd_to_micros),
        tokens_in: plain.map(|plain| plain + cache_tokens),
        tokens_out: out,
        tokens_cached: cached,
    }
}
