//! Reads a review out of a JSON value, whatever its keys are called.
//!
//! There is no list of shapes. The value is walked: an object that says something and says where
//! or how bad is a finding; keys above it lend it a severity or a file; verdict fields count only
//! on the way down to the findings, never inside one.

use serde_json::{Map, Value};

use crate::finding::{BlockingIssue, Claim, CriterionAnswer, Disposition, Score, Weight};
use crate::severity::Severity;

use super::claim;
use super::draft::Draft;
use super::item;
use super::keys::{self, fold};

const DEPTH_MAX: usize = 16;

/// What a JSON value says, before the findings are rated.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub drafts: Vec<Draft>,
    pub claims: Vec<(Claim, String)>,
    pub blocking: Vec<BlockingIssue>,
    pub scores: Vec<(String, Score)>,
    pub overall: Option<u8>,
    pub notes: Option<String>,
    pub criteria: Vec<CriterionAnswer>,
    pub earlier: Vec<Disposition>,
    /// A list of findings was there, perhaps an empty one.
    pub has_list: bool,
    pub linter: bool,
    /// Comments of people or bots, each a review of its own.
    pub comments: Vec<String>,
    /// A field that can only be a verdict was there: `verdict`, `approved`, `decision`.
    pub explicit: bool,
}

impl Said {
    /// Whether this is a review at all and not just any JSON.
    pub fn is_review(&self) -> bool {
        self.has_list
            || !self.comments.is_empty()
            || !self.drafts.is_empty()
            || !self.claims.is_empty()
            || !self.blocking.is_empty()
    }

    /// Whether JSON that stands in prose is the review and not an example in it.
    pub fn is_embedded_review(&self) -> bool {
        let stated = !self.claims.is_empty()
            && (self.has_list || self.notes.is_some() || self.overall.is_some() || self.explicit);
        stated
            || self
                .drafts
                .iter()
                .any(|draft| draft.severity.is_some() || draft.line.is_some())
            || (!self.blocking.is_empty() && self.has_list)
    }

    /// The machine fields' claim. Fields that contradict each other never approve.
    pub fn claim(&self) -> (Claim, Option<String>) {
        let refusal = self
            .claims
            .iter()
            .find(|(claim, _)| *claim == Claim::ChangesRequested);
        match refusal.or_else(|| self.claims.first()) {
            Some((claim, text)) => (*claim, Some(text.clone())),
            None => (Claim::Unknown, None),
        }
    }

    pub fn contradicts_itself(&self) -> bool {
        self.claims
            .iter()
            .any(|(claim, _)| *claim != self.claims[0].0)
    }
}

#[derive(Clone, Debug, Default)]
struct Context {
    severity: Option<String>,
    file: Option<String>,
    /// Inside a list that is one of findings by its name.
    listed: bool,
    depth: usize,
}

pub(super) fn said(value: &Value) -> Said {
    let mut said = Said {
        linter: is_linter(value),
        ..Said::default()
    };
    let listed = matches!(value, Value::Array(_));
    walk(
        value,
        &Context {
            listed,
            ..Context::default()
        },
        &mut said,
    );
    said
}

fn walk(value: &Value, context: &Context, said: &mut Said) {
    if context.depth > DEPTH_MAX || said.drafts.len() >= crate::clean::FINDINGS_MAX {
        return;
    }
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| walk(item, &deeper(context), said)),
        Value::Object(object) => walk_object(object, context, said),
        Value::String(text) if context.listed && text.trim().len() > 3 => {
            said.drafts.push(item::of_text(
                text,
                context.severity.as_deref(),
                context.file.as_deref(),
            ));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn deeper(context: &Context) -> Context {
    Context {
        depth: context.depth + 1,
        ..context.clone()
    }
}

fn walk_object(object: &Map<String, Value>, context: &Context, said: &mut Said) {
    if let Some(body) = comment_body(object) {
        said.comments.push(body);
        return;
    }
    if let Some(mut draft) = item::of_object(object, context.listed) {
        draft.severity = draft.severity.or_else(|| context.severity.clone());
        draft.file = draft.file.or_else(|| context.file.clone());
        said.drafts.push(draft);
        return;
    }
    take_fields(object, said);
    let file = keys::text(object, keys::FILE).or_else(|| context.file.clone());
    for (key, value) in object {
        let name = fold(key);
        if is_blocking_list(&name) && take_blocking(value, said) {
            continue;
        }
        if is_earlier(&name) {
            take_earlier(value, &name, said);
            continue;
        }
        if is_aside(&name) || !matches!(value, Value::Array(_) | Value::Object(_)) {
            continue;
        }
        let list = is_list(&name);
        said.has_list |= list && matches!(value, Value::Array(_));
        let severity = severity_key(key).or_else(|| context.severity.clone());
        let listed = list
            || severity_key(key).is_some()
            || (context.listed && matches!(value, Value::Array(_)) && is_list(&name));
        walk(
            value,
            &Context {
                severity,
                file: file.clone(),
                listed,
                depth: context.depth + 1,
            },
            said,
        );
    }
}

/// A comment of a forge, not a finding: somebody wrote it, and it points at no line.
fn comment_body(object: &Map<String, Value>) -> Option<String> {
    let by_somebody = keys::get(
        object,
        &["author", "user", "login", "createdat", "submittedat"],
    )
    .is_some();
    let placed = keys::get(object, &["path", "file", "line", "severity"]).is_some();
    (by_somebody && !placed)
        .then(|| keys::text(object, &["body"]))
        .flatten()
}

/// `"critical": […]` and `"must_fix": […]` rate what is in them.
fn severity_key(key: &str) -> Option<String> {
    let words = key.split(|c: char| !c.is_alphanumeric()).count();
    (words <= 3 && !key.to_lowercase().contains("score") && !key.to_lowercase().contains("count"))
        .then(|| Severity::of(key))
        .flatten()
        .map(|_| key.trim().to_owned())
}

fn is_list(name: &str) -> bool {
    const STEMS: [&str; 19] = [
        "finding",
        "issue",
        "problem",
        "comment",
        "result",
        "diagnostic",
        "violation",
        "defect",
        "concern",
        "blocker",
        "bug",
        "warning",
        "error",
        "suggestion",
        "message",
        "vulnerabilit",
        "nit",
        "requiredchange",
        "mustfix",
    ];
    STEMS.iter().any(|stem| name.contains(stem))
        && !name.contains("count")
        && !name.contains("summary")
        && !name.contains("total")
}

fn is_blocking_list(name: &str) -> bool {
    name == "blockingissues"
}

/// Lists of what an earlier round found and this one saw fixed.
fn is_earlier(name: &str) -> bool {
    [
        "resolved",
        "fixed",
        "previous",
        "prior",
        "earlier",
        "verifiedfix",
        "addressed",
    ]
    .iter()
    .any(|stem| name.starts_with(stem))
        && !name.contains("feedback")
}

/// What holds no findings, however it is shaped.
fn is_aside(name: &str) -> bool {
    const STEMS: [&str; 19] = [
        "praise",
        "strength",
        "positive",
        "good",
        "whatworks",
        "welldone",
        "highlight",
        "metric",
        "meta",
        "rules",
        "passcriteria",
        "dimensionscores",
        "scores",
        "acceptancecriteria",
        "criteria",
        "stats",
        "files_reviewed",
        "tested",
        "bySeverity",
    ];
    STEMS.iter().any(|stem| name.starts_with(stem))
        || name.starts_with("filesreviewed")
        || name.starts_with("byseverity")
}

fn take_fields(object: &Map<String, Value>, said: &mut Said) {
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
            .then(|| claim::of_word(text).or_else(|| super::verdict::of_phrase(text)))
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

fn take_blocking(value: &Value, said: &mut Said) -> bool {
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

fn take_earlier(value: &Value, name: &str, said: &mut Said) {
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
pub(super) fn percent(value: &Value) -> Option<u8> {
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

/// Keys that only tools write.
const MARKS: [&str; 12] = [
    "ruleid",
    "checkid",
    "checkname",
    "testid",
    "messageid",
    "noqarow",
    "fingerprint",
    "code",
    "hint",
    "enginename",
    "column",
    "endcolumn",
];

/// Whether the keys are those of a linter's report: such a report never repeats itself.
fn is_linter(value: &Value) -> bool {
    let first = match value {
        Value::Array(items) => items.first(),
        Value::Object(object) => ["results", "diagnostics", "comments"]
            .iter()
            .find_map(|key| object.get(*key)?.as_array()?.first()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    let Some(Value::Object(object)) = first else {
        return false;
    };
    let nested_range = object
        .get("location")
        .and_then(Value::as_object)
        .is_some_and(|location| location.contains_key("range") || location.contains_key("lines"));
    nested_range
        || MARKS
            .iter()
            .filter(|mark| keys::get(object, &[mark]).is_some())
            .count()
            >= 1
            && keys::get(object, &["message", "description", "issuetext", "extra"]).is_some()
}
