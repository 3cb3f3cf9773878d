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

/// Removes all signs of a draft from a wanted title: they would make a draft of a ready change. A
/// title of nothing else keeps its letters.
pub fn plain_title(title: &str, prefixes: &[&str]) -> String {
    let mut rest = title.trim_start();
    loop {
        match without_prefix(rest, prefixes) {
            (true, shorter) => rest = shorter,
            (false, _) if rest.is_empty() => {
                return title.chars().filter(|c| c.is_alphanumeric()).collect();
            }
            (false, _) => return rest.to_owned(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wanted_title_is_no_draft_by_its_own_words() {
        let signs = ["WIP:", "[WIP]"];
        for (title, plain) in [
            ("Greet", "Greet"),
            ("WIP: Greet", "Greet"),
            ("[wip] wip:  Greet", "Greet"),
            ("WIP:", "WIP"),
            ("A WIP: Greet", "A WIP: Greet"),
            ("ß", "ß"),
        ] {
            assert_eq!(plain_title(title, &signs), plain, "{title:?}");
        }
    }
}
