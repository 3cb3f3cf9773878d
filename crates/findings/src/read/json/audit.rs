//! Checks every other field of a JSON review that approves. A field is harmless only if its name is
//! known and its value does not contradict the approval; an unknown field makes the approval
//! doubtful.

mod lists;

use serde_json::{Map, Value};

use crate::read::keys::{self, fold};
use crate::read::verdict;
use crate::severity::Severity;

use super::fields::{is_verdict_key, is_void};
use super::{is_answer, is_blocking_list, is_earlier, is_findings, is_list, severity_key};
use lists::{FACTS, GOOD, NUMBERS_OF_WORK, OK_WORDS, SCORES, TEXTS};

const DEPTH_MAX: usize = 16;

/// Returns whether nothing in the value contradicts its approval. `findings` is the number that was
/// read.
pub(super) fn is_harmless(value: &Value, findings: usize) -> bool {
    match value {
        Value::Object(object) => object_is_harmless(object, findings, 0),
        Value::Array(items) => items.iter().all(|item| is_harmless(item, findings)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn object_is_harmless(object: &Map<String, Value>, findings: usize, depth: usize) -> bool {
    depth < DEPTH_MAX
        && object
            .iter()
            .all(|(key, value)| field(key, value, findings, depth))
}

fn field(key: &str, value: &Value, findings: usize, depth: usize) -> bool {
    let name = fold(key);
    let name = name.as_str();
    if keys::is_empty(value) {
        // An empty verdict is not an approval, and an empty list of approvers is nobody.
        return !["verdict", "decision", "approv", "signedoff", "signoff"]
            .iter()
            .any(|stem| name.contains(stem));
    }
    if is_blocking_list(name) {
        return true;
    }
    if GOOD.contains(&name) {
        return is_yes(value);
    }
    if is_verdict_key(name) && !TEXTS.contains(&name) {
        return match value {
            Value::String(text) => {
                is_ok(text)
                    || verdict::match_keyed(text, false).is_some()
                    || fold(text) == "patchiscorrect"
            }
            Value::Object(inner) => object_is_harmless(inner, findings, depth + 1),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
        };
    }
    if matches!(name, "value" | "event") && value.as_str().is_some_and(is_ok) {
        return true;
    }
    if is_earlier(name) {
        return match value {
            Value::Array(_) => true,
            Value::Bool(yes) => *yes,
            other => is_void(other),
        };
    }
    if SCORES.contains(&name) {
        return is_good_score(name, value);
    }
    if is_map_of_scores(name) {
        return scores(value, findings, depth);
    }
    if name.contains("criteri")
        || name.starts_with("acceptance")
        || name.starts_with("check")
        || name == "tests"
    {
        return criteria(value);
    }
    if NUMBERS_OF_WORK.contains(&name) {
        return match value {
            Value::Array(items) => !items.is_empty(),
            other => keys::number(other).is_some_and(|count| count > 0.0),
        };
    }
    if is_findings(name) || is_list(name) || severity_key(key).is_some() || is_count(name) {
        return listed(name, value, findings, depth);
    }
    if FACTS.contains(&name) {
        return is_fact(name, value, 0);
    }
    if TEXTS.contains(&name) || is_answer(name) {
        return words(value, findings, depth);
    }
    if let Value::Bool(yes) = value {
        // A flag means nothing unless its name is known; then it has to be off.
        return !yes && is_bad_flag(name);
    }
    is_void(value) || unknown(name, value, findings, depth)
}

/// Returns whether a flag of this name stops an approval if it is set, and only then.
fn is_bad_flag(name: &str) -> bool {
    const STEMS: [&str; 40] = [
        "error",
        "iserror",
        "truncat",
        "partial",
        "incomplete",
        "unread",
        "unreviewed",
        "notreviewed",
        "skip",
        "condition",
        "timedout",
        "timeout",
        "abort",
        "interrupt",
        "cut",
        "exception",
        "fail",
        "limitreached",
        "draft",
        "provisional",
        "dryrun",
        "example",
        "quoted",
        "hypothetical",
        "template",
        "pending",
        "block",
        "isblock",
        "hasblock",
        "mustfix",
        "require",
        "need",
        "changesreq",
        "reject",
        "unresolved",
        "critical",
        "hascritical",
        "superseded",
        "revoked",
        "stale",
    ];
    STEMS.iter().any(|stem| name.starts_with(stem))
        || matches!(
            name,
            "hasissues"
                | "hasfindings"
                | "hasproblems"
                | "haserrors"
                | "haswarnings"
                | "withdrawn"
                | "expired"
                | "dismissed"
                | "retracted"
                | "simulated"
                | "mock"
                | "outdated"
                | "conflict"
                | "conflicts"
                | "regression"
                | "regressions"
        )
}

/// Checks an unknown field: only text that is understood is harmless.
fn unknown(name: &str, value: &Value, findings: usize, depth: usize) -> bool {
    match value {
        Value::String(text) => {
            matches!(name, "stopreason" | "finishreason") || verdict::is_harmless(text)
        }
        Value::Array(items) => items.iter().all(|item| {
            item.as_str().is_some_and(verdict::is_harmless)
                || item.is_object() && words(item, findings, depth)
        }),
        Value::Object(_) => words(value, findings, depth),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn words(value: &Value, findings: usize, depth: usize) -> bool {
    match value {
        Value::String(text) => !verdict::has_doubtful_sign(text),
        Value::Null => true,
        Value::Array(items) => items.iter().all(|item| match item {
            // Texts are checked with the others; objects are findings or comments.
            Value::String(_) | Value::Null => true,
            Value::Object(object) => {
                object_is_harmless(object, findings, depth + 1) || findings > 0
            }
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
        }),
        Value::Object(object) => object_is_harmless(object, findings, depth + 1),
        Value::Bool(_) | Value::Number(_) => is_void(value),
    }
}

/// Checks a list of findings, which was read already; a count must agree with them.
fn listed(name: &str, value: &Value, findings: usize, depth: usize) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| match item {
            Value::String(text) => verdict::is_harmless(text),
            _ => true,
        }),
        Value::Object(object) => object
            .iter()
            .all(|(key, value)| field(key, value, findings, depth + 1)),
        Value::String(text) => is_void(value) || verdict::is_harmless(text),
        Value::Number(_) => is_void(value) || (is_minor(name) && findings > 0),
        Value::Bool(yes) => !yes,
        Value::Null => true,
    }
}

fn is_count(name: &str) -> bool {
    [
        "count",
        "total",
        "critical",
        "high",
        "major",
        "medium",
        "minor",
        "low",
        "nit",
        "info",
        "blocker",
        "open",
        "severity",
        "remaining",
        "left",
        "byseverity",
        "stats",
        "statistics",
    ]
    .iter()
    .any(|stem| name.contains(stem))
}

/// Returns whether a count may be greater than zero in an approval.
fn is_minor(name: &str) -> bool {
    const GRAVE: [&str; 12] = [
        "critical",
        "high",
        "major",
        "block",
        "error",
        "fail",
        "must",
        "required",
        "left",
        "remaining",
        "open",
        "skip",
    ];
    !GRAVE.iter().any(|stem| name.contains(stem))
        && !matches!(Severity::from_word(name), Some(severity) if severity.is_must_fix())
}

fn is_map_of_scores(name: &str) -> bool {
    matches!(
        name,
        "scores" | "dimensionscores" | "ratings" | "dimensions"
    )
}

fn scores(value: &Value, findings: usize, depth: usize) -> bool {
    match value {
        Value::Object(object) => object.values().all(|value| match value {
            Value::Number(_) => is_good_score("score", value),
            Value::Object(inner) => inner.iter().all(|(key, value)| {
                fold(key) == "weight" || field(key, value, findings, depth + 1)
            }),
            Value::String(text) => is_ok(text) || verdict::is_harmless(text),
            Value::Null => true,
            Value::Bool(_) | Value::Array(_) => false,
        }),
        other => is_void(other),
    }
}

/// Returns whether a score is at least half of its scale. A number above 1 is out of a hundred. The
/// whole number 1 is full confidence, but as a score it may be the lowest one.
fn is_good_score(name: &str, value: &Value) -> bool {
    if value.as_u64() == Some(1) && !name.contains("confidence") {
        return false;
    }
    if value
        .as_str()
        .is_some_and(|text| matches!(fold(text).as_str(), "high" | "veryhigh"))
    {
        return true;
    }
    keys::number(value)
        .is_some_and(|score| (0.5..=1.0).contains(&score) || (50.0..=100.0).contains(&score))
}

fn is_ok(text: &str) -> bool {
    OK_WORDS.contains(&fold(text).as_str())
}

fn is_yes(value: &Value) -> bool {
    match value {
        Value::Bool(yes) => *yes,
        Value::String(text) => is_ok(text),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Returns whether every criterion is met.
fn criteria(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| match item {
            Value::Object(object) => {
                let answer = keys::get(
                    object,
                    &[
                        "met",
                        "passed",
                        "satisfied",
                        "status",
                        "result",
                        "ok",
                        "pass",
                        "conclusion",
                        "state",
                    ],
                );
                answer.is_some_and(is_yes)
                    && object.iter().all(|(key, value)| {
                        !matches!(
                            fold(key).as_str(),
                            "evidence" | "note" | "notes" | "comment" | "reason" | "details"
                        ) || value.as_str().is_none_or(|text| {
                            verdict::find_stop(text).is_none() && !verdict::objects(text)
                        })
                    })
            }
            Value::String(text) => verdict::is_harmless(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
        }),
        Value::Object(object) => object.values().all(|value| match value {
            Value::Object(inner) => keys::get(
                inner,
                &["met", "passed", "satisfied", "status", "result", "ok"],
            )
            .is_some_and(is_yes),
            other => is_yes(other),
        }),
        Value::String(text) => is_ok(text) || verdict::is_harmless(text),
        other => is_yes(other),
    }
}

fn is_fact(name: &str, value: &Value, depth: usize) -> bool {
    const NOT_A_REVIEWER: [&str; 8] = [
        "builder",
        "author",
        "self",
        "nobody",
        "placeholder",
        "template",
        "example",
        "dummy",
    ];
    match value {
        Value::Null | Value::Number(_) => true,
        Value::Bool(_) => depth > 0,
        Value::String(text) => {
            let lower = text.to_lowercase();
            let not_a_reviewer = name.starts_with("review")
                && NOT_A_REVIEWER.iter().any(|word| lower.contains(word));
            let zeros = matches!(name, "commit" | "sha" | "headsha" | "commitid")
                && !text.is_empty()
                && text.chars().all(|c| c == '0');
            let words = text.contains(' ')
                && (verdict::find_stop(text).is_some() || verdict::objects(text));
            let sign = verdict::has_doubtful_sign(text);
            text.len() <= 400 && !not_a_reviewer && !zeros && !words && !sign
        }
        Value::Array(items) => depth < 4 && items.iter().all(|item| is_fact(name, item, depth + 1)),
        Value::Object(object) => {
            depth < 4
                && object.iter().all(|(key, value)| {
                    let inner = fold(key);
                    let is_known = FACTS.contains(&inner.as_str())
                        || name == "user"
                        || name == "author"
                        || name == "links"
                        || name == "usage";
                    is_known && is_fact(&inner, value, depth + 1) || is_void(value)
                })
        }
    }
}
