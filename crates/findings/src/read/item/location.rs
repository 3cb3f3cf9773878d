//! Reads the location of a finding in JSON.

use serde_json::{Map, Value};

use crate::read::keys;
use crate::read::locations::{self, Location};

/// Follows `location`, `where`, `range`, `start` and similar keys down to a path and a line.
pub(in crate::read) fn location_of(object: &Map<String, Value>, depth: usize) -> Location {
    let mut place = file_field(object);
    if place.line.is_none() {
        (place.line, place.end_line) = line_fields(object);
    }
    if depth > 4 {
        return place;
    }
    for name in keys::PLACE.iter().chain(&[
        "physicallocation",
        "artifactlocation",
        "region",
        "spans",
        "begin",
        "start",
        "linerange",
    ]) {
        if place.file.is_some() && place.line.is_some() {
            break;
        }
        let Some(value) = keys::get(object, &[name]) else {
            continue;
        };
        let inner = match value {
            Value::Object(inner) => location_of(inner, depth + 1),
            Value::Array(items) => items
                .iter()
                .find_map(|item| first_place(name, item, depth))
                .unwrap_or_default(),
            Value::String(text)
                if !matches!(*name, "source" | "references" | "reference" | "at") =>
            {
                locations::parse_location_field(text)
            }
            Value::String(text) => locations::find_location(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => Location::default(),
        };
        place.file = place.file.or(inner.file);
        if place.line.is_none() {
            (place.line, place.end_line) = (inner.line, inner.end_line);
        }
    }
    place
}

fn first_place(name: &str, item: &Value, depth: usize) -> Option<Location> {
    let place = match item {
        Value::Object(inner) => location_of(inner, depth + 1),
        Value::String(text) if name.starts_with("ref") => locations::find_location(text),
        Value::String(text) => locations::parse_location_field(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Location::default(),
    };
    place.file.is_some().then_some(place)
}

fn file_field(object: &Map<String, Value>) -> Location {
    let Some(text) = keys::text(object, keys::FILE) else {
        return Location::default();
    };
    let first = text.lines().next().unwrap_or_default();
    let first = first.split(", ").next().unwrap_or(first);
    let place = locations::parse_location_field(first);
    match (&place.file, place.line) {
        (Some(_), Some(_)) => place,
        _ => Location {
            file: Some(first.to_owned()).filter(|file| !is_nowhere(file)),
            ..Location::default()
        },
    }
}

fn is_nowhere(file: &str) -> bool {
    matches!(
        file.trim().to_lowercase().as_str(),
        "" | "n/a"
            | "na"
            | "none"
            | "-"
            | "general"
            | "multiple"
            | "various"
            | "unknown"
            | "(none)"
            | "global"
            | "overall"
    )
}

fn line_fields(object: &Map<String, Value>) -> (Option<u32>, Option<u32>) {
    if let Some((line, end)) = keys::get(object, keys::LINE).and_then(range_of)
        && line.is_some()
    {
        let end = end
            .or_else(|| keys::get(object, keys::END_LINE).and_then(line_number))
            .or_else(|| end_object(object));
        return (line, end.filter(|end| line.is_some_and(|line| line < *end)));
    }
    for name in keys::LINE_RANGE {
        if let Some((line, end)) = keys::get(object, &[name]).and_then(range_of)
            && line.is_some()
        {
            return (
                line,
                end.or_else(|| end_object(object))
                    .filter(|end| line.is_some_and(|line| line < *end)),
            );
        }
    }
    (None, None)
}

fn end_object(object: &Map<String, Value>) -> Option<u32> {
    let end = keys::get(object, &["end", "endlocation"])?;
    line_number(end).or_else(|| keys::get(end.as_object()?, keys::LINE).and_then(line_number))
}

fn range_of(value: &Value) -> Option<(Option<u32>, Option<u32>)> {
    match value {
        Value::Number(_) => Some((line_number(value), None)),
        Value::String(text) if text.len() < 60 => Some(locations::parse_line_range(text)),
        Value::Array(items) => Some((
            items.first().and_then(line_number),
            items.get(1).and_then(line_number),
        )),
        Value::Object(inner) => {
            let start = keys::get(
                inner,
                &["start", "begin", "from", "line", "startline", "row"],
            );
            let line = start.and_then(|start| {
                line_number(start)
                    .or_else(|| keys::get(start.as_object()?, keys::LINE).and_then(line_number))
            });
            let end = keys::get(inner, &["end", "to", "endline", "last"]);
            let end = end.and_then(|end| {
                line_number(end)
                    .or_else(|| keys::get(end.as_object()?, keys::LINE).and_then(line_number))
            });
            Some((line, end))
        }
        Value::String(_) | Value::Null | Value::Bool(_) => None,
    }
}

fn line_number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number
            .as_u64()
            .and_then(|line| u32::try_from(line).ok())
            .filter(|&line| line > 0),
        Value::String(text) => locations::parse_line_range(text).0,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
