//! Parses strict JSON without losing duplicate keys. `{"verdict": "approve", "verdict": "reject"}`
//! is legal, and most parsers keep one of the two; this one keeps both and reports the duplicate.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a whole text; returns the value and whether it has a duplicate key.
pub(super) fn parse(text: &str) -> Option<(Value, bool)> {
    let doubled = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = DuplicateKeySeed { doubled: &doubled }
        .deserialize(&mut reader)
        .ok()?;
    reader.end().ok()?;
    Some((value, doubled.get()))
}

/// Parses the value at the start of a text; also returns its length in bytes.
pub(super) fn prefix(text: &str) -> Option<(Value, bool, usize)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let _ = stream.next()?.ok()?;
    let end = stream.byte_offset();
    let (value, doubled) = parse(&text[..end])?;
    Some((value, doubled, end))
}

/// Adds an entry; returns false if the key exists. A duplicate gets an invisible mark at the end of
/// its key, which the folding of keys drops, so that both entries are kept.
pub(super) fn insert(object: &mut Map<String, Value>, mut key: String, value: Value) -> bool {
    let mut free = true;
    while object.contains_key(&key) {
        free = false;
        key.push('\u{1}');
        if key.len() > KEY_BYTES_MAX {
            return false;
        }
    }
    object.insert(key, value);
    free
}

/// Maximum length of a key with its marks, which limits the repeats of one key.
const KEY_BYTES_MAX: usize = 256;

#[derive(Clone, Copy)]
struct DuplicateKeySeed<'a> {
    doubled: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for DuplicateKeySeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeySeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            if !insert(&mut object, key, value) {
                self.doubled.set(true);
            }
        }
        Ok(Value::Object(object))
    }
}
