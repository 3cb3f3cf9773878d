//! Finds JSON in a text: the whole text, in fences, bare in prose, or one value per line.

use serde_json::Value;

use super::{duplicate_keys, lenient};

/// One JSON value in a text.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent fact about the text"
)]
pub(super) struct EmbeddedJson {
    pub value: Value,
    /// Start and end in the text, including fences.
    pub span: (usize, usize),
    pub repaired: bool,
    pub cut_off: bool,
    /// An object has a duplicate key.
    pub doubled: bool,
    /// The JSON has comments.
    pub commented: bool,
}

/// Parses the whole text as one JSON value, or as one per line.
pub(super) fn parse_whole(text: &str) -> Option<EmbeddedJson> {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    if !trimmed.starts_with(['{', '[']) {
        return None;
    }
    if let Some(json) = parse_strict(text) {
        return Some(json);
    }
    if let Some((values, doubled)) = parse_json_lines(trimmed) {
        return Some(EmbeddedJson {
            doubled,
            ..found(Value::Array(values), text, false, false)
        });
    }
    if !looks_like_json(trimmed) {
        return None;
    }
    let lenient = lenient::parse(trimmed)?;
    let rest = trimmed[lenient.taken..].trim();
    rest.is_empty().then(|| EmbeddedJson {
        doubled: lenient.doubled,
        commented: lenient.commented,
        ..found(lenient.value, text, true, lenient.cut_off)
    })
}

/// Parses the whole text as one strict JSON value.
pub(super) fn parse_strict(text: &str) -> Option<EmbeddedJson> {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    let (value, doubled) = duplicate_keys::parse(trimmed)?;
    Some(EmbeddedJson {
        doubled,
        ..found(value, text, false, false)
    })
}

fn found(value: Value, text: &str, repaired: bool, cut_off: bool) -> EmbeddedJson {
    EmbeddedJson {
        value,
        span: (0, text.len()),
        repaired,
        cut_off,
        doubled: false,
        commented: false,
    }
}

/// Parses JSON lines: at least 80 % of the lines must be values.
fn parse_json_lines(text: &str) -> Option<(Vec<Value>, bool)> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let object_lines = lines
        .iter()
        .filter(|line| line.starts_with('{') && line.ends_with('}'))
        .count();
    if lines.len() < 2 || object_lines * 10 < lines.len() * 8 {
        return None;
    }
    let (values, doubled): (Vec<Value>, Vec<bool>) = lines
        .iter()
        .filter_map(|line| duplicate_keys::parse(line))
        .unzip();
    (values.len() * 10 >= lines.len() * 8).then(|| (values, doubled.contains(&true)))
}

/// Finds every JSON object or array inside prose, in order.
pub(super) fn find_embedded(text: &str) -> Vec<EmbeddedJson> {
    let mut values = Vec::new();
    let mut covered = Vec::new();
    for (start, end, body) in find_fences(text) {
        let inner = text[body..end].trim();
        if !inner.starts_with(['{', '[']) || !looks_like_json(inner) {
            continue;
        }
        let close = text[end..].find('\n').map_or(text.len(), |at| end + at);
        if let Some(mut value) = parse_whole(inner).or_else(|| parse_prefix(inner)) {
            value.span = (start, close);
            covered.push((start, close));
            values.push(value);
        }
    }
    values.extend(find_bare(text, &covered));
    values.sort_by_key(|value| value.span.0);
    values
}

fn parse_prefix(text: &str) -> Option<EmbeddedJson> {
    let lenient = lenient::parse(text)?;
    Some(EmbeddedJson {
        value: lenient.value,
        span: (0, lenient.taken),
        repaired: true,
        cut_off: lenient.cut_off,
        doubled: lenient.doubled,
        commented: lenient.commented,
    })
}

/// Returns fenced blocks as (start of the fence, end of the body, start of the body). A fence that
/// is never closed runs to the end.
pub(super) fn find_fences(text: &str) -> Vec<(usize, usize, usize)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, usize, char, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches([' ', '\t', '>']).trim_end();
        let mark = bare.chars().next().filter(|&c| c == '`' || c == '~');
        let width = mark.map_or(0, |mark| bare.chars().take_while(|&c| c == mark).count());
        match open {
            None if width >= 3 => open = Some((at, at + line.len(), mark.unwrap_or('`'), width)),
            Some((start, body, kind, wide))
                if width >= wide && mark == Some(kind) && bare.len() == width =>
            {
                blocks.push((start, at, body));
                open = None;
            }
            _ => {}
        }
        at += line.len();
    }
    if let Some((start, body, _, _)) = open {
        blocks.push((start, text.len(), body));
    }
    blocks
}

/// Finds objects and arrays in the prose without a fence. The number of failed attempts is limited,
/// so a page of braces costs no more than a page of words.
fn find_bare(text: &str, covered: &[(usize, usize)]) -> Vec<EmbeddedJson> {
    let mut values = Vec::new();
    let mut at = 0;
    let mut failures = 0;
    while let Some(offset) = text[at..].find(['{', '[']) {
        let start = at + offset;
        if let Some(&(_, end)) = covered
            .iter()
            .find(|(from, to)| (*from..*to).contains(&start))
        {
            at = end.max(start + 1);
            continue;
        }
        at = start + 1;
        if failures > 32 || !begins_json(&text[start..]) {
            continue;
        }
        match parse_strict_prefix(&text[start..]).or_else(|| parse_repaired_prefix(text, start)) {
            Some(mut json) => {
                at = start + json.span.1;
                json.span = (start, at);
                values.push(json);
            }
            None => failures += 1,
        }
    }
    values
}

fn parse_strict_prefix(text: &str) -> Option<EmbeddedJson> {
    let (value, doubled, end) = duplicate_keys::prefix(text)?;
    Some(EmbeddedJson {
        value,
        span: (0, end),
        repaired: false,
        cut_off: false,
        doubled,
        commented: false,
    })
}

/// Tries to repair JSON only at the start of a line: prose has too many brackets.
fn parse_repaired_prefix(text: &str, start: usize) -> Option<EmbeddedJson> {
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let alone = text[line_start..start].trim().is_empty();
    if alone && looks_like_json(&text[start..]) {
        parse_prefix(&text[start..])
    } else {
        None
    }
}

/// Returns whether the text starts like an object with a key, or like an array of objects.
fn begins_json(text: &str) -> bool {
    let mut rest = text.chars().take(200).filter(|c| !c.is_whitespace());
    match (rest.next(), rest.next()) {
        (Some('{'), Some('"' | '\'')) | (Some('['), Some('{')) => true,
        (Some('{'), Some(c)) => {
            c.is_alphabetic()
                && text[1..]
                    .trim_start()
                    .split([':', '\n'])
                    .next()
                    .is_some_and(|key| {
                        key.len() < 40 && key.chars().all(|c| c.is_alphanumeric() || c == '_')
                    })
        }
        _ => false,
    }
}

fn looks_like_json(text: &str) -> bool {
    let head: String = text.chars().take(4000).collect();
    begins_json(&head) && head.contains(':')
}
