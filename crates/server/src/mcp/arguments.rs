//! Names the arguments of a tool call that have a wrong type. The reader of the arguments says only
//! which type it met and which it wants, and the caller would have to guess the field.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

/// Beginning of the answer to arguments that cannot be read.
const UNREADABLE: &str = "failed to deserialize parameters: ";

/// Name, type and whether it is a number below zero, of each argument. The arguments themselves move
/// into the call.
pub fn summarize(arguments: Option<&JsonObject>) -> Vec<(String, &'static str, bool)> {
    let fields = arguments.into_iter().flatten();
    let describe = |(name, value): (&String, &Value)| {
        let is_negative = value.as_f64().is_some_and(|number| number < 0.0);
        (name.clone(), type_of(value), is_negative)
    };
    fields.map(describe).collect()
}

/// Rewrites the answer to unreadable arguments, so that it names them.
pub fn name_wrong_ones(
    result: &mut CallToolResult,
    schema: &JsonObject,
    given: &[(String, &'static str, bool)],
) {
    if result.is_error != Some(true) {
        return;
    }
    let text = result.content.first().and_then(ContentBlock::as_text);
    let Some(why) = text.and_then(|text| text.text.strip_prefix(UNREADABLE)) else {
        return;
    };
    let wrong: Vec<String> = given
        .iter()
        .filter_map(|one| problem(schema, one))
        .collect();
    let mut text = "the arguments are not understood, nothing was done: ".to_owned();
    if wrong.is_empty() {
        text.push_str(why);
    } else {
        text.push_str(&wrong.join("; "));
    }
    result.content = vec![ContentBlock::text(text)];
}

fn problem(
    schema: &JsonObject,
    (name, given, is_negative): &(String, &'static str, bool),
) -> Option<String> {
    let field = schema.get("properties")?.get(name)?;
    let allowed: Vec<&str> = match field.get("type")? {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = allowed.contains(given) || (*given == "integer" && allowed.contains(&"number"));
    if !fits {
        // Null stands for a field that is left out.
        let wanted: Vec<&str> = allowed.into_iter().filter(|one| *one != "null").collect();
        let wanted = wanted.join(" or ");
        return Some(format!(
            "{name} is of the type {given}, and must be {wanted}"
        ));
    }
    let from_zero = field.get("minimum").and_then(Value::as_f64) == Some(0.0);
    (from_zero && *is_negative).then(|| format!("{name} must not be below 0"))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
