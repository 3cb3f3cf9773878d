//! Reads the output of tools, such as commands, from a line of an agent's transcript.
//!
//! The adapters do not report it, because no decision depends on it; a person who reads a
//! transcript wants to see it.

use serde_json::Value;

/// Lines of one output that are shown: the last ones, because errors stand at the end.
const LINES_MAX: usize = 20;
/// Characters of one line that are shown.
const LINE_CHARS_MAX: usize = 300;

/// Returns the outputs in the line; empty if it has none, or if the format is not known.
pub fn tool_outputs(line: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return Vec::new();
    };
    let kind = value.get("type").and_then(Value::as_str);
    let at = |path: &str| value.pointer(path).and_then(text_of);
    let outputs = match kind {
        // Claude Code and Qwen Code.
        Some("user") => {
            let parts = value.pointer("/message/content").and_then(Value::as_array);
            let is_result =
                |part: &&Value| part.get("type").and_then(Value::as_str) == Some("tool_result");
            let results = parts.into_iter().flatten().filter(is_result);
            results
                .filter_map(|part| text_of(part.get("content")?))
                .collect()
        }
        // Codex.
        Some("item.completed") => at("/item/aggregated_output").into_iter().collect(),
        // Gemini CLI.
        Some("tool_result") => at("/output").into_iter().collect(),
        // OpenCode.
        Some("tool_use") => at("/part/state/output").into_iter().collect(),
        Some(_) | None => Vec::new(),
    };
    let outputs: Vec<String> = outputs;
    let shown = outputs.iter().map(|text| shorten(text));
    shown.filter(|text| !text.is_empty()).collect()
}

/// A text, or the joined texts of a list of parts.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn shorten(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(LINES_MAX);
    let mut shown: Vec<String> = Vec::new();
    if skipped > 0 {
        let noun = if skipped == 1 { "line" } else { "lines" };
        shown.push(format!("… {skipped} {noun} above; --raw shows all"));
    }
    let kept = lines.iter().skip(skipped);
    shown.extend(kept.map(|line| findings::shorten(line, LINE_CHARS_MAX)));
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_commands_is_found_in_each_format() {
        for line in [
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"2 failed"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":"text","text":"2 failed"}]}]}}"#,
            r#"{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"2 failed\n"}}"#,
            r#"{"type":"tool_result","status":"success","output":"2 failed"}"#,
            r#"{"type":"tool_use","part":{"type":"tool","state":{"status":"completed","output":"2 failed"}}}"#,
        ] {
            assert_eq!(tool_outputs(line), ["2 failed"], "{line}");
        }
        for line in ["plain", "{}", r#"{"type":"assistant"}"#] {
            assert!(tool_outputs(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_long_output_shows_its_end() {
        let text: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
        let line = serde_json::json!({"type": "tool_result", "output": text.join("\n")});
        let shown = tool_outputs(&line.to_string()).remove(0);
        assert!(shown.starts_with("… 10 lines above"), "{shown}");
        assert!(shown.ends_with("29\n30"), "{shown}");
    }
}
