//! Reads the fields of an object that somebody else wrote. The error of a value that does not fit
//! names its field, which the reader of a type cannot do by itself.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Deserialises an object. The error says which of its fields is wrong.
pub fn read_fields<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    T::deserialize(object).map_err(|error| {
        let error = error.to_string();
        match wrong_field::<T>(object, &error) {
            Some(name) => name_field(name, &error),
            None => error,
        }
    })
}

/// Finds the field that gives the same error alone. Unknown and missing fields are named already.
fn wrong_field<'a, T: DeserializeOwned>(object: &'a Value, error: &str) -> Option<&'a str> {
    let gives_error = |(name, value): &(&String, &Value)| {
        let alone = Map::from_iter([((*name).clone(), (*value).clone())]);
        T::deserialize(Value::Object(alone)).is_err_and(|one| one.to_string() == error)
    };
    let named = object.as_object()?.iter().find(gives_error);
    named.map(|(name, _)| name.as_str())
}

/// Adds the name of its field to an error, unless the error has it.
pub fn name_field(name: &str, error: &str) -> String {
    if error.contains(&format!("`{name}`")) {
        return error.to_owned();
    }
    format!("{}: {error}", findings::one_line(name))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        one: String,
        #[serde(default)]
        two: u32,
    }

    #[test]
    fn the_wrong_field_is_named() {
        let why = |object: Value| read_fields::<Pair>(&object).unwrap_err();
        assert!(why(json!({"one": 5})).starts_with("one: "));
        assert!(why(json!({"one": "a", "two": -1})).starts_with("two: "));
        assert!(why(json!({"two": 1})).contains("missing field `one`"));
        assert!(why(json!({"one": "a", "three": 1})).starts_with("unknown field `three`"));
        let pair: Pair = read_fields(&json!({"one": "a", "two": 2})).unwrap();
        assert_eq!((pair.one.as_str(), pair.two), ("a", 2));
    }
}
