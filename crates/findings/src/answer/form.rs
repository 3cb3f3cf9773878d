//! The form of an answer, field by field: one JSON object in which every field is checked.
//!
//! The form is read strictly on purpose. A lenient reader would accept what the author of an attack
//! writes into a change to be copied by the reviewer. Every reason is collected, so that one
//! question to the reviewer names all of them.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::empty_lists::without_empty_lists;
use super::{quote, severity, vouch};
use crate::clean::{FIELD_CHARS_MAX, FINDINGS_MAX, TITLE_CHARS_MAX, clean, one_line, shorten};
use crate::finding::Finding;
use crate::read::{blocks_the_merge, find_stop};
use crate::severity::{Rating, Severity};

/// Text fields; they are searched for refusals and findings.
/// Agents use these names for their explanations, whatever the brief says. Unknown names are
/// refused.
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
/// Lists of other review formats. An empty one says nothing.
/// Agents of other systems send them empty with every answer.
const EMPTY_LISTS: [&str; 10] = [
    "errors",
    "warnings",
    "issues",
    "comments",
    "suggestions",
    "questions",
    "follow_ups",
    "problems",
    "answers",
    "unmet",
];
/// Importance of a dimension, as the brief names it.
const WEIGHTS: [&str; 6] = ["critical", "important", "moderate", "high", "medium", "low"];
/// Maximum length of a fact about the run, in bytes.
/// A longer one is no name of a model, but a text in the place of a fact.
const FACT_BYTES_MAX: usize = 120;
/// Parts of a finding that may be numbers.
const NUMBERS: [&str; 8] = [
    "id",
    "line",
    "start_line",
    "end_line",
    "column",
    "confidence",
    "rule",
    "code",
];
/// Parts of a finding in which an imperative is a suggestion, not a refusal.
/// "Remove the unused import" is the fix of a minor finding and no demand on the change.
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
    /// Reasons that only say that a text is not understood. The caller of a tool can confirm them.
    pub unvouched: Vec<String>,
    pub findings: Vec<Finding>,
    pub texts: Vec<String>,
    pub item_texts: Vec<String>,
    /// Texts that name the ticket's criteria.
    pub criterion_names: Vec<String>,
}

/// Parses the text as exactly one JSON object; the error is the reason.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, String> {
    // Some programs write a byte-order mark before their JSON.
    let text = text.trim_start_matches('\u{feff}').trim();
    // A fence around the whole answer is how models write JSON. It adds nothing to it.
    let body = unfenced(text).unwrap_or(text).trim();
    if body.is_empty() {
        return Err("the answer is empty".to_owned());
    }
    if !body.starts_with('{') {
        return Err("the answer is not one JSON object".to_owned());
    }
    // The parser refuses text behind the object and duplicate keys.
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
    // A second fence inside would hide the rest of the text.
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
    /// Exactly these values: `"approved"`, `"Approve"` and `1` come from other contracts, where
    /// they may mean something else.
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

    // The full id ties the answer to one commit. A copied answer of an earlier round has another.
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
            // An empty expected commit must match nothing, also not an empty name.
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

    /// Searches every text outside the findings for words that prevent an approval, and requires
    /// that the rest is vouched for.
    pub fn must_not_stop(&mut self) {
        let texts = std::mem::take(&mut self.texts);
        for text in &texts {
            let text = &without_empty_lists(text);
            // A known reservation is a reason by itself. The vocabulary is asked only about the
            // rest.
            if let Some((stop, words)) = find_stop(text) {
                self.stops("the text outside the findings", stop.says(), words);
            } else if let Some(sentence) = vouch::find_unvouched(text) {
                self.unvouched.push(format!(
                    "the text outside the findings may hold a reservation ({:?}): state it as a finding \
                     with its severity, or leave it out",
                    quote(sentence)
                ));
            }
        }
        self.texts = texts;
    }

    /// Treats the name of a criterion as a text of the reviewer, unless it is a number or the
    /// ticket has the same words.
    pub fn check_criterion_names(&mut self, criteria: &[String]) {
        let known: Vec<String> = criteria.iter().map(|text| folded(text)).collect();
        for name in std::mem::take(&mut self.criterion_names) {
            let words = folded(&name);
            let numbered = words.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
            let is_number = !numbered.is_empty()
                && numbered.bytes().all(|byte| byte.is_ascii_digit())
                // `criterion 12` has at most this length. A longer text with a number at its end is
                // a sentence.
                && words.len() <= "criterion 000".len();
            let is_known = known.iter().any(|text| {
                let unnumbered = words.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                *text == words || text == unnumbered
            });
            // The words are the ticket's or they are the reviewer's. In the second case they are
            // judged as text.
            if !is_number && !is_known {
                self.texts.push(name);
            }
        }
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
                // A score is a whole number from 0 to 100 in the contract. Another one may be on
                // another scale.
                if !value.is_null() && value.as_u64().is_none_or(|score| score > 100) {
                    self.add_reason("`overall_score` is not a number from 0 to 100");
                }
            }
            _ if FACTS.contains(&name) => {
                // The engine compares the ticket with its own; a fact of several words is a text.
                let facts = strings(value);
                // A sentence in the field `model` would otherwise be read by nobody.
                self.texts.extend(facts.into_iter().filter(|fact| {
                    !(is_token(fact)
                        || matches!(name, "ticket" | "ticket_id") && find_stop(fact).is_none())
                }));
                if !is_plain(value) {
                    self.add_reason(format!("`{name}` cannot be read"));
                }
            }
            _ if TEXTS.contains(&name) => match value {
                Value::String(text) => self.texts.push(text.clone()),
                other if is_empty(other) => {}
                _ => self.add_reason(format!("`{name}` is not a text")),
            },
            _ if is_empty(value) && EMPTY_LISTS.contains(&name) => {}
            // A field that nobody reads could hold the refusal.
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
        // A list beyond the limit is not read to its end, and the rest may have to be fixed.
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
            // The keys of a finding are free, but they must be names: `"do not merge": true` is a
            // sentence.
            if !PLACES.contains(&name.as_str()) && !is_key(name) {
                self.add_reason(format!("a finding has an unknown field: `{}`", quote(name)));
            }
            match value {
                Value::Null => {}
                Value::Number(_) if NUMBERS.contains(&name.as_str()) => {}
                Value::String(text) if PLACES.contains(&name.as_str()) => {
                    // A refusal could stand in any of them.
                    self.item_texts.push(text.clone());
                    // Searched even in the fields for places, because an agent may write anything
                    // into them.
                    if blocks_the_merge(text) {
                        self.stops("a finding", "says that it must be fixed first", text);
                    }
                    if name == "severity" && severity(text).is_none() {
                        self.add_reason(format!(
                            "a finding has an unknown severity: {:?}",
                            quote(text)
                        ));
                    }
                }
                Value::String(text) => {
                    texts.push(text.as_str());
                    // A suggestion is an order by nature, so it is not searched for refusals.
                    if !SUGGESTIONS.contains(&name.as_str()) {
                        self.item_texts.push(text.clone());
                    }
                    if blocks_the_merge(text) {
                        self.stops("a finding", "says that it must be fixed first", text);
                    }
                }
                other if is_empty(other) => {}
                // `true` or a list in a text field has a meaning that this reader does not know.
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => self
                    .add_reason(format!(
                        "a finding has a part that cannot be read: `{}`",
                        quote(name)
                    )),
            }
        }
        let text_of = |name: &str| fields.get(name).and_then(Value::as_str);
        // A finding without a title is known by its first text.
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
            // The path cannot leave the repository.
            file: text_of("file").and_then(crate::clean::confine),
            line: line.and_then(|line| u32::try_from(line).ok()),
            ..Finding::new(&title, Rating::of(text_of("severity"), true))
        });
    }

    /// Checks a blocking issue. One readable issue is a refusal; an unreadable one must not count
    /// as none.
    /// The general reader turns a readable issue into a refusal.
    fn blocking(&mut self, fields: &Map<String, Value>) {
        let message = fields.get("message").and_then(Value::as_str);
        if message.is_none_or(|text| text.trim().is_empty()) {
            self.add_reason("a blocking issue has no `message`");
        }
    }

    fn criterion(&mut self, fields: &Map<String, Value>) {
        // A missing `met` must not count as met.
        if !fields.get("met").is_some_and(Value::is_boolean) {
            self.add_reason("a criterion does not say whether it is `met`");
        }
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("met", _)
                | ("criterion" | "id" | "name" | "evidence" | "comment", Value::Null)
                | ("criterion" | "id", Value::Number(_)) => {}
                ("criterion" | "id" | "name", Value::String(text)) => {
                    self.criterion_names.push(text.clone());
                }
                ("evidence" | "comment" | "notes" | "note", Value::String(text)) => {
                    self.texts.push(text.clone());
                }
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
        // A list or a text in place of the scores is no score.
        let Value::Object(scores) = value else {
            if !is_empty(value) {
                self.add_reason("`dimension_scores` cannot be read");
            }
            return;
        };
        for (dimension, value) in scores {
            let parts = match value {
                Value::Object(parts) if is_key(dimension) => parts,
                other if is_key(dimension) && is_score(other) => continue,
                _ => {
                    self.add_reason("`dimension_scores` cannot be read");
                    continue;
                }
            };
            for (name, value) in parts {
                match (name.as_str(), value) {
                    ("score", value) if is_score(value) => {}
                    (_, Value::Null) if is_key(name) => {}
                    // A weight is one of these words. Free text here would be a place for a
                    // reservation.
                    ("weight", Value::String(word)) if WEIGHTS.contains(&word.as_str()) => {}
                    (name, Value::String(text)) if name != "weight" && is_key(name) => {
                        self.texts.push(text.clone());
                    }
                    _ => self.add_reason("`dimension_scores` cannot be read"),
                }
            }
        }
    }
}

/// Returns whether a key is a name and not a sentence: nobody else reads the keys.
fn is_key(name: &str) -> bool {
    vouch::is_name(name)
}

/// Returns whether a fact about the run is one token, such as the name of a model.
fn is_token(text: &str) -> bool {
    text.len() <= FACT_BYTES_MAX && vouch::is_name(text)
}

/// Folds a text to its lower-case words.
fn folded(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
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
/// Only a marked word counts. "Critical" in the middle of a sentence may be about something else.
fn leading_severity(text: &str) -> Option<Severity> {
    let first = text.split_whitespace().next()?;
    let word = first.trim_matches(|c: char| !c.is_alphanumeric());
    let marked = first.ends_with([':', ']', ')'])
        // Upper case counts from four letters on: `LOW` and `BUG` are too short to tell a label
        // from a shout.
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
/// Two readers may take different ones of two equal keys, and then approve different answers.
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
