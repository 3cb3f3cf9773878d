//! Reads answers of forges. Missing fields are empty: older servers leave some out.

use serde_json::Value;

pub fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Returns the id of an entry, which is a number or a text.
pub fn id(value: &Value) -> String {
    match &value["id"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => String::new(),
    }
}

/// Entries of a list; anything else has none.
pub fn entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// Texts of a field of all entries of a list.
pub fn texts(list: &Value, field: &str) -> Vec<String> {
    entries(list)
        .iter()
        .map(|entry| text(entry, field))
        .collect()
}

/// Splits the sign of a draft from a title.
pub fn without_prefix<'a>(title: &'a str, prefixes: &[&str]) -> (bool, &'a str) {
    for prefix in prefixes {
        let head = title.get(..prefix.len());
        if head.is_some_and(|head| head.eq_ignore_ascii_case(prefix)) {
            return (true, title[prefix.len()..].trim_start());
        }
    }
    (false, title)
}
