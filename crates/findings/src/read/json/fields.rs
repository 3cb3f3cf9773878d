//! Reads the fields of a report outside its findings: verdict, scores, criteria, blocking issues,
//! dispositions.

use serde_json::{Map, Value};

use crate::finding::{
    BlockingIssue, CriterionAnswer, DimensionScore, Disposition, ReviewClaim, Weight,
};
use crate::read::item;
use crate::read::keys::{self, fold};
use crate::read::refusal_words;
use crate::read::verdict::{self, ApprovalMatch};

use super::JsonReview;

pub(super) fn take_fields(object: &Map<String, Value>, own: bool, review: &mut JsonReview) {
    let test_report = is_test_report(object);
    for (key, value) in object {
        let name = fold(key);
        match field_verdict(&name, value, test_report) {
            FieldVerdict::Refusal => review.claims.push((
                ReviewClaim::ChangesRequested,
                format!("{key}: {}", short(value)),
            )),
            FieldVerdict::Approval => {
                review
                    .claims
                    .push((ReviewClaim::Approved, format!("{key}: {}", short(value))));
                review.add_doubt((!own).then_some("the approval is inside something else"));
            }
            FieldVerdict::Unclear => {
                review.add_doubt(Some("a verdict field is neither an approval nor a refusal"));
            }
            FieldVerdict::Unfinished => {
                review.add_doubt(Some("the report says that the review is not complete"));
            }
            FieldVerdict::Nothing => {}
        }
        review.explicit |=
            name.contains("verdict") || name.contains("approve") || name.contains("decision");
        match name.as_str() {
            "overallscore" | "score" | "qualityscore" => {
                review.overall = review.overall.or_else(|| percent(value));
            }
            "dimensionscores" | "scores" => take_scores(value, review),
            "acceptancecriteria" | "criteria" => take_criteria(value, review),
            "revisionnotes" | "feedback" | "reviewfeedback" => {
                review.notes = review.notes.take().or_else(|| keys::as_text(value));
            }
            "findings" | "issues" => review.has_list |= value.is_array(),
            _ => {}
        }
    }
    // The brief calls them notes, other systems revision notes; those go first.
    review.notes = review
        .notes
        .take()
        .or_else(|| keys::text(object, &["notes"]));
    take_message(object, own, review);
}

/// Reads a message with a type and content: the type is the verdict, the content is the feedback.
fn take_message(object: &Map<String, Value>, own: bool, review: &mut JsonReview) {
    let Some(kind) = keys::text(object, &["type", "messagetype"]) else {
        return;
    };
    let claim = if refusal_words::refuses(&kind) {
        ReviewClaim::ChangesRequested
    } else if matches!(fold(&kind).as_str(), "approve" | "approved") {
        ReviewClaim::Approved
    } else {
        return;
    };
    if let Some(content) = keys::text(object, &["content"]) {
        review.add_doubt((!own).then_some("the approval is inside something else"));
        review.claims.push((claim, format!("type: {kind}")));
        review.notes = review.notes.take().or(Some(content));
    }
}

/// Meaning of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldVerdict {
    Approval,
    Refusal,
    /// A verdict field whose value is neither an approval nor a refusal.
    Unclear,
    /// The review is not complete.
    Unfinished,
    Nothing,
}

fn field_verdict(name: &str, value: &Value, test_report: bool) -> FieldVerdict {
    if is_unfinished(name, value) {
        return FieldVerdict::Unfinished;
    }
    match value {
        Value::Bool(yes) => verdict_of_flag(name, *yes),
        Value::String(text) => verdict_of_text(name, text, test_report),
        Value::Object(inner) if APPROVING_KEYS.contains(&name) || REFUSING_KEYS.contains(&name) => {
            let word = keys::text(inner, &["verdict", "decision", "status", "value", "result"]);
            match word.map(|word| verdict_of_text(name, &word, test_report)) {
                Some(verdict_of_word) => verdict_of_word,
                None if APPROVING_KEYS.contains(&name) => FieldVerdict::Unclear,
                None => FieldVerdict::Nothing,
            }
        }
        Value::Null | Value::Number(_) | Value::Array(_) if APPROVING_KEYS.contains(&name) => {
            FieldVerdict::Unclear
        }
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            FieldVerdict::Nothing
        }
    }
}

fn verdict_of_flag(name: &str, yes: bool) -> FieldVerdict {
    match (name, yes) {
        ("approved" | "approve" | "isapproved" | "lgtm", true) => FieldVerdict::Approval,
        (
            "approved" | "approve" | "isapproved" | "lgtm" | "pass" | "passed" | "accepted"
            | "mergeable" | "signoff" | "readytomerge",
            false,
        )
        | (
            "blocked" | "rejected" | "changesrequested" | "requestchanges" | "needsrework"
            | "mustfix" | "needschanges" | "changesrequired" | "blocking",
            true,
        ) => FieldVerdict::Refusal,
        (name, _) if STRICT_KEYS.contains(&name) => FieldVerdict::Unclear,
        _ => FieldVerdict::Nothing,
    }
}

fn verdict_of_text(name: &str, text: &str, test_report: bool) -> FieldVerdict {
    let strict = STRICT_KEYS.contains(&name);
    let approving = APPROVING_KEYS.contains(&name);
    if !strict && !approving && !REFUSING_KEYS.contains(&name) {
        return FieldVerdict::Nothing;
    }
    if refusal_words::refuses(text) || verdict::refuses(text) {
        return FieldVerdict::Refusal;
    }
    let approves = match verdict::match_keyed(text, test_report) {
        Some(ApprovalMatch::Whole) => true,
        Some(ApprovalMatch::Explained(rest)) => verdict::is_harmless(rest),
        None => name == "overallcorrectness" && fold(text) == "patchiscorrect",
    };
    match (approving, approves) {
        (true, true) => FieldVerdict::Approval,
        (true, false) if !text.trim().is_empty() => FieldVerdict::Unclear,
        _ if is_trouble(text) => FieldVerdict::Unfinished,
        _ => FieldVerdict::Nothing,
    }
}

/// Returns whether the value of a status means that the work is not done.
fn is_trouble(text: &str) -> bool {
    const WORDS: [&str; 20] = [
        "error",
        "errored",
        "incomplete",
        "partial",
        "pending",
        "inprogress",
        "running",
        "timeout",
        "timedout",
        "truncated",
        "aborted",
        "cancelled",
        "canceled",
        "interrupted",
        "unknown",
        "skipped",
        "queued",
        "maxtokens",
        "length",
        "draft",
    ];
    let folded = fold(text);
    WORDS.contains(&folded.as_str()) || (text.contains(' ') && verdict::objects(text))
}

/// Returns whether a field means that the review is not complete.
fn is_unfinished(name: &str, value: &Value) -> bool {
    let is_set = !keys::is_empty(value)
        && value.as_bool() != Some(false)
        && value.as_u64() != Some(0)
        && !value.as_str().is_some_and(|text| {
            matches!(
                fold(text).as_str(),
                "none" | "no" | "null" | "false" | "0" | "na"
            )
        });
    let troubled = name.starts_with("error")
        || name.starts_with("truncat")
        || name.starts_with("incomplete")
        || name.starts_with("partial")
        || name.starts_with("unread")
        || name.starts_with("unreviewed")
        || name.starts_with("notreviewed")
        || name.starts_with("skippedfile")
        || name.starts_with("condition")
        || matches!(
            name,
            "iserror"
                | "timedout"
                | "timeout"
                | "aborted"
                | "interrupted"
                | "cutoff"
                | "cut"
                | "exception"
                | "failure"
                | "limitreached"
                | "draft"
                | "provisional"
                | "dryrun"
                | "example"
                | "quoted"
                | "hypothetical"
                | "template"
                | "pending"
                | "skipped"
                | "blockers"
                | "unlessfixed"
        );
    let unfinished = matches!(
        name,
        "complete"
            | "completed"
            | "finished"
            | "done"
            | "final"
            | "valid"
            | "reviewcomplete"
            | "iscomplete"
    ) && (value.as_bool() == Some(false)
        || value.as_str().is_some_and(|text| {
            matches!(
                fold(text).as_str(),
                "false" | "no" | "partial" | "partially"
            )
        }));
    let stopped = matches!(name, "stopreason" | "finishreason")
        && value.as_str().is_some_and(|text| {
            !matches!(
                fold(text).as_str(),
                "stop" | "endturn" | "end" | "completed"
            )
        });
    (is_set && troubled) || unfinished || stopped
}

/// Returns whether a key is read as a verdict, not as text.
pub(super) fn is_verdict_key(name: &str) -> bool {
    STRICT_KEYS.contains(&name) || APPROVING_KEYS.contains(&name) || REFUSING_KEYS.contains(&name)
}

/// Returns whether any value of this key contradicts an approval: `needs_human_review`,
/// `critical_count`.
pub(super) fn is_warning(name: &str) -> bool {
    const STEMS: [&str; 22] = [
        "block",
        "mustfix",
        "required",
        "requires",
        "needs",
        "requestedchange",
        "changesrequest",
        "reject",
        "fail",
        "unresolved",
        "critical",
        "severe",
        "invalid",
        "superseded",
        "quoted",
        "revoked",
        "withdrawn",
        "expired",
        "stale",
        "unless",
        "onlyif",
        "pending",
    ];
    STEMS.iter().any(|stem| name.starts_with(stem)) && !name.starts_with("failopen")
}

/// Returns whether a value means nothing: false, 0, "none", an empty list, or only such values.
pub(super) fn is_void(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            matches!(
                fold(text).as_str(),
                "" | "none" | "no" | "false" | "0" | "na" | "nothing" | "null"
            )
        }
        Value::Array(items) => items.iter().all(is_void),
        Value::Object(object) => object.values().all(is_void),
    }
}

/// Returns whether the object has keys of a test report.
fn is_test_report(object: &Map<String, Value>) -> bool {
    const KEYS: [&str; 16] = [
        "tests",
        "test",
        "testsuite",
        "suite",
        "testcases",
        "testcase",
        "duration",
        "durationms",
        "exitcode",
        "coverage",
        "passed",
        "failed",
        "failures",
        "numtests",
        "total",
        "job",
    ];
    keys::get(object, &KEYS).is_some() || KEYS.iter().any(|key| object.contains_key(*key))
}

/// Keys that can only be a verdict: any other value in them is a doubt.
const STRICT_KEYS: &[&str] = &[
    "verdict",
    "decision",
    "reviewverdict",
    "reviewdecision",
    "finalverdict",
    "overallverdict",
    "finaldecision",
    "approved",
    "approve",
];

/// Keys whose value may approve.
const APPROVING_KEYS: &[&str] = &[
    "verdict",
    "decision",
    "reviewverdict",
    "reviewdecision",
    "finalverdict",
    "overallverdict",
    "finaldecision",
    "overallcorrectness",
    "recommendation",
    "finalrecommendation",
    "mergerecommendation",
    "event",
];

/// Keys whose value may refuse, but never approve.
const REFUSING_KEYS: &[&str] = &[
    "outcome",
    "status",
    "reviewstatus",
    "result",
    "conclusion",
    "state",
    "assessment",
    "overallassessment",
    "approval",
    "gate",
    "gateresult",
    "approvalstatus",
    "disposition",
    "signoff",
    "overall",
    "overallstatus",
    "reviewresult",
    "approved",
    "approve",
];

pub(super) fn take_blocking(value: &Value, review: &mut JsonReview) -> bool {
    let Value::Array(items) = value else {
        return false;
    };
    review.has_list = true;
    for item in items {
        let issue = match item {
            Value::String(text) => Some(BlockingIssue {
                dimension: None,
                message: text.clone(),
                required_action: None,
            }),
            Value::Object(object)
                if keys::get(object, keys::FILE).is_none()
                    && keys::get(object, keys::PLACE).is_none() =>
            {
                keys::text(object, keys::TITLE).map(|message| BlockingIssue {
                    dimension: keys::text(object, &["dimension", "category"]),
                    message,
                    required_action: keys::text(object, keys::FIX),
                })
            }
            Value::Object(object) => {
                review
                    .drafts
                    .extend(item::draft_from_object(object, true).map(|mut draft| {
                        draft.severity = draft.severity.or_else(|| Some("blocking".to_owned()));
                        draft
                    }));
                None
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        };
        review.blocking.extend(issue);
    }
    true
}

pub(super) fn take_earlier(value: &Value, name: &str, review: &mut JsonReview) {
    let Value::Array(items) = value else { return };
    for item in items {
        let (subject, status, evidence) = match item {
            Value::String(text) => (Some(text.clone()), None, None),
            Value::Object(object) => (
                keys::text(
                    object,
                    &[
                        "id",
                        "title",
                        "finding",
                        "issue",
                        "summary",
                        "description",
                        "message",
                    ],
                ),
                keys::text(
                    object,
                    &["status", "state", "disposition", "verdict", "resolution"],
                ),
                keys::text(object, &["evidence", "note", "verification", "reason"]),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => (None, None, None),
        };
        let named_fixed =
            !name.starts_with("prev") && !name.starts_with("prior") && !name.starts_with("earlier");
        let flag = item.as_object().and_then(|object| {
            keys::get(object, &["fixed", "resolved", "addressed", "closed"])?.as_bool()
        });
        let fixed = flag != Some(false)
            && status.map_or(named_fixed || flag == Some(true), |status| {
                item::is_settled(&status)
            });
        review.earlier.extend(subject.map(|subject| Disposition {
            subject,
            fixed,
            evidence,
        }));
    }
}

fn take_scores(value: &Value, review: &mut JsonReview) {
    let Value::Object(object) = value else { return };
    for (name, entry) in object {
        let (score, weight) = match entry {
            Value::Object(inner) => (
                keys::get(inner, &["score", "value"]).and_then(percent),
                keys::text(inner, &["weight"]),
            ),
            other => (percent(other), None),
        };
        let weight = weight.and_then(|word| match word.to_lowercase().as_str() {
            "critical" => Some(Weight::Critical),
            "important" => Some(Weight::Important),
            "moderate" => Some(Weight::Moderate),
            _ => None,
        });
        review
            .scores
            .extend(score.map(|score| (name.clone(), DimensionScore { score, weight })));
    }
}

fn take_criteria(value: &Value, review: &mut JsonReview) {
    let Value::Array(items) = value else { return };
    for item in items {
        let Value::Object(object) = item else {
            continue;
        };
        let criterion = keys::text(object, &["criterion", "description", "text", "name"]);
        let met = keys::get(object, &["met", "passed", "satisfied"]).and_then(Value::as_bool);
        if let (Some(criterion), Some(met)) = (criterion, met) {
            review.criteria.push(CriterionAnswer {
                criterion,
                met,
                evidence: keys::text(object, &["evidence", "note"]),
            });
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=100 first"
)]
fn percent(value: &Value) -> Option<u8> {
    let number = keys::number(value)?;
    number
        .is_finite()
        .then(|| number.clamp(0.0, 100.0).round() as u8)
}

fn short(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    crate::clean::shorten(&crate::clean::one_line(&text), 120)
}
