//! The form of an answer, field by field: one JSON object in which every field is checked.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{quote, severity};
use crate::clean::{FIELD_CHARS_MAX, FINDINGS_MAX, TITLE_CHARS_MAX, clean, one_line, shorten};
use crate::finding::Finding;
use crate::read::{blocks_the_merge, find_stop};
use crate::severity::{Rating, Severity};

/// Text fields; they are searched for refusals and findings.
const TEXTS: [&str; 12] = [
    "notes",
    "summary",
    "feedback",
    "revision_notes",
    "message",
    "comment",
    "explanation",
    "rationale",
    "reasoning",
    "overview",
    "conclusion",
    "evidence",
];
/// Facts about the run or the ticket that say nothing about the change.
const FACTS: [&str; 5] = ["usage", "model", "ticket", "ticket_id", "session"];
/// Parts of a finding in which an imperative is a suggestion, not a refusal.
const SUGGESTIONS: [&str; 3] = ["fix", "suggestion", "recommendation"];
/// Parts of a finding that name a location, a rule or a kind.
const PLACES: [&str; 14] = [
    "id",
    "file",
    "path",
    "line",
    "start_line",
    "end_line",
    "category",
    "dimension",
    "confidence",
    "rule",
    "anchor",
    "severity",
    "code",
    "column",
];

/// Contents of a form except its verdict, and every reason why it is not an approval.
#[derive(Debug, Default)]
pub(super) struct AnswerForm {
    pub reasons: Vec<String>,
    pub findings: Vec<Finding>,
    pub texts: Vec<String>,
    pub item_texts: Vec<String>,
}

/// Parses the text as exactly one JSON object; the error is the reason.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let body = unfenced(text).unwrap_or(text).trim();
    if body.is_empty() {
        return Err("the answer is empty".to_owned());
    }
    if !body.starts_with('{') {
        return Err("the answer is not one JSON object".to_owned());
    }
    match serde_json::from_str(body) {
        Ok(UniqueKeyJson(Value::Object(fields))) => Ok(fields),
        Ok(UniqueKeyJson(_)) => Err("the answer is not one JSON object".to_owned()),
        Err(error) => Err(format!(
            "the answer is not exactly one JSON object: {error}"
        )),
    }
}

/// Returns the content of a fence around the whole text; `None` without a fence.
fn unfenced(text: &str) -> Option<&str> {
    let (head, rest) = text.strip_prefix("```")?.split_once('\n')?;
    let body = rest.strip_suffix("```")?;
    let plain = matches!(head.trim(), "" | "json");
    (plain && body.ends_with('\n') && !body.contains("```")).then_some(body)
}

impl AnswerForm {
    /// Checks every field except the verdict; an unknown field is a reason against approval.
    pub fn from_fields(fields: &Map<String, Value>) -> Self {
        let mut form = Self::default();
        for (name, value) in fields {
            form.field(name, value);
        }
        form
    }

    /// Requires the exact `verdict` and `complete` of an approval.
    pub fn require_approval(&mut self, fields: &Map<String, Value>) {
        match fields.get("verdict") {
            Some(Value::String(word)) if word == "approve" => {}
            None => self.add_reason("the answer has no `verdict`"),
            Some(other) => self.add_reason(format!(
                "`verdict` is neither \"approve\" nor \"request_changes\": {}",
                quote(&other.to_string())
            )),
        }
        match fields.get("complete") {
            Some(Value::Bool(true)) => {}
            None => self.add_reason("the answer does not say `complete: true`"),
            Some(other) => self.add_reason(format!(
                "`complete` is not the value true: {}",
                quote(&other.to_string())
            )),
        }
    }

    pub fn require_commit(&mut self, fields: &Map<String, Value>, commit: &str) {
        if fields.get("commit").is_none_or(is_empty) {
            self.add_reason("the answer names no commit");
        } else {
            self.check_named_commit(fields, commit);
        }
    }

    /// Requires that a named commit is the one under review.
    pub fn check_named_commit(&mut self, fields: &Map<String, Value>, commit: &str) {
        match fields.get("commit") {
            Some(Value::String(name)) if !commit.is_empty() && name == commit => {}
            Some(other) if !is_empty(other) => self.add_reason(format!(
                "the answer names the commit {}, but {commit} is under review",
                quote(&other.to_string())
            )),
            Some(_) | None => {}
        }
    }

    /// Adds a reason for words that prevent an approval, and says what to do with them.
    fn stops(&mut self, place: &str, what: &str, words: &str) {
        self.add_reason(format!(
            "{place} {what} ({:?}): report it as a finding with its severity, or leave it out",
            quote(words)
        ));
    }

    /// Searches every text outside the findings for words that prevent an approval.
    pub fn must_not_stop(&mut self) {
        let texts = std::mem::take(&mut self.texts);
        for text in &texts {
            if let Some((stop, words)) = find_stop(text) {
                self.stops("the text outside the findings", stop.says(), words);
            }
        }
        self.texts = texts;
    }

    fn add_reason(&mut self, why: impl Into<String>) {
        self.reasons.push(why.into());
    }

    fn field(&mut self, name: &str, value: &Value) {
        match name {
            "verdict" | "approved" | "commit" | "complete" => {}
            "findings" => self.list(name, value, Self::finding),
            "blocking_issues" => self.list(name, value, Self::blocking),
            "criteria" => self.list(name, value, Self::criterion),
            "dimension_scores" => self.scores(value),
            "overall_score" => {
                if !value.is_null() && value.as_u64().is_none_or(|score| score > 100) {
                    self.add_reason("`overall_score` is not a number from 0 to 100");
                }
            }
            _ if FACTS.contains(&name) => {
                self.texts.extend(strings(value));
                if !is_plain(value) {
                    self.add_reason(format!("`{name}` cannot be read"));
                }
            }
            _ if TEXTS.contains(&name) => match value {
                Value::String(text) => self.texts.push(text.clone()),
                other if is_empty(other) => {}
                _ => self.add_reason(format!("`{name}` is not a text")),
            },
            _ if is_empty(value) => {}
            _ => self.add_reason(format!(
                "the answer has an unknown field: `{}`",
                quote(name)
            )),
        }
    }

    fn list(
        &mut self,
        name: &str,
        value: &Value,
        mut read: impl FnMut(&mut Self, &Map<String, Value>),
    ) {
        let Value::Array(items) = value else {
            if !value.is_null() {
                self.add_reason(format!("`{name}` is not a list"));
            }
            return;
        };
        if items.len() > FINDINGS_MAX {
            self.add_reason(format!(
                "`{name}` has {} items, but only {FINDINGS_MAX} are read",
                items.len()
            ));
        }
        for item in items.iter().take(FINDINGS_MAX) {
            match item {
                Value::Object(fields) => read(self, fields),
                _ => self.add_reason(format!("an item of `{name}` is not an object")),
            }
        }
    }

    fn finding(&mut self, fields: &Map<String, Value>) {
        let mut texts = Vec::new();
        for (name, value) in fields {
            match value {
                Value::Null | Value::Number(_) => {}
                Value::String(text) if PLACES.contains(&name.as_str()) => {
                    if name == "severity" && severity(text).is_none() {
                        self.add_reason(format!(
                            "a finding has an unknown severity: {:?}",
                            quote(text)
                        ));
                    }
                }
                Value::String(text) => {
                    texts.push(text.as_str());
                    if !SUGGESTIONS.contains(&name.as_str()) {
                        self.item_texts.push(text.clone());
                    }
                    if blocks_the_merge(text) {
                        self.stops("a finding", "says that it must be fixed first", text);
                    }
                }
                other if is_empty(other) => {}
                Value::Bool(_) | Value::Array(_) | Value::Object(_) => self.add_reason(format!(
                    "a finding has a part that cannot be read: `{}`",
                    quote(name)
                )),
            }
        }
        let text_of = |name: &str| fields.get(name).and_then(Value::as_str);
        let title = text_of("title").or_else(|| texts.first().copied());
        let title = title.map(|text| shorten(&one_line(&clean(text)), TITLE_CHARS_MAX));
        let Some(title) = title.filter(|title| !title.trim().is_empty()) else {
            return self.add_reason("a finding has no text");
        };
        // "CRITICAL …" with the severity `low` contradicts itself.
        let own_severity = text_of("severity").and_then(severity);
        let more_severe = texts.iter().find(|text| {
            leading_severity(text).is_some_and(|in_text| {
                in_text.is_must_fix()
                    && own_severity.is_none_or(|own_severity| !own_severity.is_must_fix())
            })
        });
        if let Some(text) = more_severe {
            self.stops("a finding", "names a higher severity than its own", text);
        }
        let part = |name: &str| text_of(name).map(|text| shorten(&clean(text), FIELD_CHARS_MAX));
        let line = fields.get("line").and_then(Value::as_u64);
        self.findings.push(Finding {
            problem: part("problem"),
            impact: part("impact"),
            fix: part("fix"),
            file: text_of("file").and_then(crate::clean::confine),
            line: line.and_then(|line| u32::try_from(line).ok()),
            ..Finding::new(&title, Rating::of(text_of("severity"), true))
        });
    }

    /// Checks a blocking issue. One readable issue is a refusal; an unreadable one must not count
    /// as none.
    fn blocking(&mut self, fields: &Map<String, Value>) {
        let message = fields.get("message").and_then(Value::as_str);
        if message.is_none_or(|text| text.trim().is_empty()) {
            self.add_reason("a blocking issue has no `message`");
        }
    }

    fn criterion(&mut self, fields: &Map<String, Value>) {
        if !fields.get("met").is_some_and(Value::is_boolean) {
            self.add_reason("a criterion does not say whether it is `met`");
        }
        for (name, value) in fields {
            match (name.as_str(), value) {
                // The text of the criterion comes from the ticket, not from the reviewer.
                ("met", _)
                | (_, Value::Null | Value::Number(_))
                | ("criterion" | "id" | "name", Value::String(_)) => {}
                (_, Value::String(text)) => self.texts.push(text.clone()),
                _ => self.add_reason(format!(
                    "a criterion has a part that cannot be read: `{}`",
                    quote(name)
                )),
            }
        }
    }

    fn scores(&mut self, value: &Value) {
        let is_score = |score: &Value| {
            score.is_null() || score.as_f64().is_some_and(|n| (0.0..=100.0).contains(&n))
        };
        let is_valid = |value: &Value| match value {
            Value::Object(fields) => fields.iter().all(|(name, value)| match name.as_str() {
                "score" => is_score(value),
                "weight" => value.is_string() || value.is_null(),
                _ => is_empty(value) || value.is_string(),
            }),
            other => is_score(other),
        };
        if let Value::Object(scores) = value {
            let inner = scores.values().filter_map(Value::as_object).flatten();
            let texts = inner
                .filter(|(name, _)| name.as_str() != "weight")
                .filter_map(|(_, value)| value.as_str());
            self.texts.extend(texts.map(str::to_owned));
        }
        match value {
            Value::Object(scores) if scores.values().all(is_valid) => {}
            other if is_empty(other) => {}
            _ => self.add_reason("`dimension_scores` cannot be read"),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the strings of a fact, on two levels.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Object(fields) => fields
            .values()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Vec::new(),
    }
}

/// Returns the severity at the start of a text: `CRITICAL: …`, `BLOCKER …`.
fn leading_severity(text: &str) -> Option<Severity> {
    let first = text.split_whitespace().next()?;
    let word = first.trim_matches(|c: char| !c.is_alphanumeric());
    let marked = first.ends_with([':', ']', ')'])
        || (word.len() > 3 && word.chars().all(|c| c.is_ascii_uppercase()));
    marked.then(|| severity(word)).flatten()
}

/// Returns whether a value is a scalar, or an object of scalars.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Number(_) | Value::String(_) => true,
        Value::Object(fields) => fields
            .values()
            .all(|value| matches!(value, Value::Null | Value::Number(_) | Value::String(_))),
        Value::Bool(_) | Value::Array(_) => false,
    }
}

/// JSON without duplicate keys. An ordinary parser would keep the last of two verdicts.
struct UniqueKeyJson(Value);

impl<'de> Deserialize<'de> for UniqueKeyJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueKeyVisitor).map(Self)
    }
}

struct UniqueKeyVisitor;

impl<'de> Visitor<'de> for UniqueKeyVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(UniqueKeyJson(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, UniqueKeyJson(value))) =
            entries.next_entry::<String, UniqueKeyJson>()?
        {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!(
                    "the field `{}` occurs twice",
                    quote(&name)
                )));
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}
