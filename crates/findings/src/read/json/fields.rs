//! What a report says beside its findings: verdict, scores, criteria, blocking issues, dispositions.

use serde_json::{Map, Value};

use crate::finding::{BlockingIssue, Claim, CriterionAnswer, Disposition, Score, Weight};
use crate::read::claim;
use crate::read::item;
use crate::read::keys::{self, fold};
use crate::read::verdict;

use super::Said;

pub(super) fn take_fields(object: &Map<String, Value>, said: &mut Said) {
    for (key, value) in object {
        let name = fold(key);
        if let Some(claim) = claim_field(&name, value) {
            said.explicit |=
                name.contains("verdict") || name.contains("approve") || name.contains("decision");
            said.claims
                .push((claim, format!("{key}: {}", short(value))));
        }
        match name.as_str() {
            "overallscore" | "score" | "qualityscore" => {
                said.overall = said.overall.or_else(|| percent(value));
            }
            "dimensionscores" | "scores" => take_scores(value, said),
            "acceptancecriteria" | "criteria" => take_criteria(value, said),
            "revisionnotes" | "feedback" | "reviewfeedback" => {
                said.notes = said.notes.take().or_else(|| keys::as_text(value));
            }
            "findings" | "issues" => said.has_list |= value.is_array(),
            _ => {}
        }
    }
    take_message(object, said);
}

/// 003's message: the type is the verdict, the content the feedback.
fn take_message(object: &Map<String, Value>, said: &mut Said) {
    let kind = keys::text(object, &["type", "messagetype"])
        .and_then(|kind| claim::of_word(&kind).map(|claim| (claim, kind)));
    if let (Some((claim, kind)), Some(content)) = (kind, keys::text(object, &["content"])) {
        said.claims.push((claim, format!("type: {kind}")));
        said.notes = said.notes.take().or(Some(content));
    }
}

fn claim_field(name: &str, value: &Value) -> Option<Claim> {
    match value {
        Value::Bool(yes) => match name {
            "approved" | "approve" | "isapproved" | "lgtm" | "pass" | "passed" | "accepted"
            | "mergeable" | "signoff" | "readytomerge" => Some(if *yes {
                Claim::Approved
            } else {
                Claim::ChangesRequested
            }),
            "blocked" | "rejected" | "changesrequested" | "requestchanges" | "needsrework" => {
                Some(if *yes {
                    Claim::ChangesRequested
                } else {
                    Claim::Unknown
                })
                .filter(|claim| *claim != Claim::Unknown)
            }
            _ => None,
        },
        Value::String(text) => VERDICT_KEYS
            .contains(&name)
            .then(|| claim::of_word(text).or_else(|| verdict::of_phrase(text)))
            .flatten(),
        Value::Object(inner) => VERDICT_KEYS
            .contains(&name)
            .then(|| keys::text(inner, &["verdict", "decision", "status", "value", "result"]))
            .flatten()
            .and_then(|word| claim::of_word(&word)),
        Value::Null | Value::Number(_) | Value::Array(_) => None,
    }
}

const VERDICT_KEYS: &[&str] = &[
    "verdict",
    "decision",
    "reviewverdict",
    "reviewdecision",
    "finalverdict",
    "overallverdict",
    "overallcorrectness",
    "outcome",
    "status",
    "reviewstatus",
    "recommendation",
    "result",
    "conclusion",
    "state",
    "event",
    "assessment",
    "overallassessment",
    "approval",
    "gate",
    "gateresult",
    "approvalstatus",
    "mergerecommendation",
    "disposition",
    "signoff",
    "overall",
    "overallstatus",
    "finaldecision",
    "reviewresult",
    "approved",
];

pub(super) fn take_blocking(value: &Value, said: &mut Said) -> bool {
    let Value::Array(items) = value else {
        return false;
    };
    said.has_list = true;
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
                said.drafts
                    .extend(item::of_object(object, true).map(|mut draft| {
                        draft.severity = draft.severity.or_else(|| Some("blocking".to_owned()));
                        draft
                    }));
                None
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        };
        said.blocking.extend(issue);
    }
    true
}

pub(super) fn take_earlier(value: &Value, name: &str, said: &mut Said) {
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
        let fixed = status.map_or(named_fixed, |status| item::is_settled(&status));
        said.earlier.extend(subject.map(|subject| Disposition {
            subject,
            fixed,
            evidence,
        }));
    }
}

fn take_scores(value: &Value, said: &mut Said) {
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
        said.scores
            .extend(score.map(|score| (name.clone(), Score { score, weight })));
    }
}

fn take_criteria(value: &Value, said: &mut Said) {
    let Value::Array(items) = value else { return };
    for item in items {
        let Value::Object(object) = item else {
            continue;
        };
        let criterion = keys::text(object, &["criterion", "description", "text", "name"]);
        let met = keys::get(object, &["met", "passed", "satisfied"]).and_then(Value::as_bool);
        if let (Some(criterion), Some(met)) = (criterion, met) {
            said.criteria.push(CriterionAnswer {
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
