//! Fits the arguments of a tool call to its schema, and names those that have a wrong type. The
//! reader of the arguments says only which type it met and which it wants, and the caller would have
//! to guess the field.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Number, Value};

/// Beginning of the answer to arguments that cannot be read.
const UNREADABLE: &str = "failed to deserialize parameters: ";

/// Rewrites arguments that mean a value of the schema in another form: null for an optional field that
/// is left out, and `1.0` or `"1"` for the integer 1, as clients in dynamic languages send them.
/// Booleans stay strict: a verdict must be unmistakable.
pub fn fit(arguments: &mut JsonObject, schema: &JsonObject) {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        required.is_some_and(|required| required.iter().any(|one| one.as_str() == Some(name)))
    };
    let fields = schema.get("properties").and_then(Value::as_object);
    let field_of = |name: &str| fields.and_then(|fields| fields.get(name));
    arguments
        .retain(|name, value| !value.is_null() || field_of(name).is_none() || is_required(name));
    for (name, value) in arguments {
        let wants_integer =
            field_of(name).is_some_and(|field| allowed_types(field).contains(&"integer"));
        if let Some(number) = wants_integer.then(|| to_integer(value)).flatten() {
            *value = Value::Number(number);
        }
    }
}

/// Largest whole number that every JSON reader keeps exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// Returns the integer that a value in another form means.
fn to_integer(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64()?;
            let is_whole = float.fract() == 0.0 && float.abs() <= EXACT_MAX;
            // Written without a fraction, it is read back as the integer that it is.
            is_whole
                .then(|| format!("{float:.0}").parse().ok())
                .flatten()
        }
        // Only the usual form: `+1`, `01` and spaces are no number of anybody's.
        Value::String(text) => text
            .parse::<i64>()
            .ok()
            .filter(|number| number.to_string() == *text)
            .map(Number::from),
        _ => None,
    }
}

/// Types that a field's schema allows.
fn allowed_types(field: &Value) -> Vec<&str> {
    match field.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

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
    let allowed = allowed_types(field);
    if allowed.is_empty() {
        return None;
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_in_another_form_are_fitted_and_all_others_stay() {
        let schema = json!({
            "properties": {
                "id": {"type": ["integer", "null"]}, "text": {"type": "string"},
                "yes": {"type": ["boolean", "null"]}, "must": {"type": "string"},
            },
            "required": ["must"],
        });
        let fitted = |given: Value| {
            let mut given = given.as_object().unwrap().clone();
            fit(&mut given, schema.as_object().unwrap());
            Value::Object(given)
        };
        for (given, expected) in [
            (json!({"id": 1.0}), json!({"id": 1})),
            (json!({"id": "12"}), json!({"id": 12})),
            (json!({"id": -3.0}), json!({"id": -3})),
            (json!({"id": null, "text": null, "yes": null}), json!({})),
        ] {
            assert_eq!(fitted(given), expected);
        }
        for same in [
            json!({"id": 1.5}),
            json!({"id": 1e300}),
            json!({"id": "01"}),
            json!({"id": " 1"}),
            json!({"id": "one"}),
            json!({"yes": "true"}),
            json!({"yes": 1}),
            json!({"text": 1.0}),
            json!({"text": "1"}),
            json!({"must": null}),
            json!({"unknown": null}),
        ] {
            assert_eq!(fitted(same.clone()), same);
        }
    }
}
