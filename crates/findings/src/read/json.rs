//! Reads a review from a JSON value, whatever its keys are called.
//!
//! There is no list of layouts. The reader walks the value: an object with a text and a location or
//! a severity is a finding; keys above it give it a severity or a file; verdict fields count only
//! on the path down to the findings, never inside one. A refusal counts on any such path; an
//! approval only in the outermost object or under a key that names the review or its answer.
//!
//! Formats of other tools change without notice, and a reader for each would be wrong in a month.
//! The price is caution with approvals: the outermost object decides, and every unknown field is a
//! doubt.

mod audit;
mod fields;

use serde_json::{Map, Value};

use crate::finding::{BlockingIssue, CriterionAnswer, DimensionScore, Disposition, ReviewClaim};
use crate::severity::Severity;

use super::draft::FindingDraft;
use super::item;
use super::keys::{self, fold};
use super::verdict;
use fields::{take_blocking, take_earlier, take_fields};

// Deeper values are no review. The limit bounds the recursion.
const DEPTH_MAX: usize = 16;

/// Contents of a JSON review, before the findings are rated.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent fact about the value"
)]
pub(super) struct JsonReview {
    pub drafts: Vec<FindingDraft>,
    pub claims: Vec<(ReviewClaim, String)>,
    pub blocking: Vec<BlockingIssue>,
    pub scores: Vec<(String, DimensionScore)>,
    pub overall: Option<u8>,
    pub notes: Option<String>,
    pub criteria: Vec<CriterionAnswer>,
    pub earlier: Vec<Disposition>,
    /// The value has a list of findings, perhaps an empty one.
    pub has_list: bool,
    pub linter: bool,
    /// Comments of people or bots, each a separate review.
    pub comments: Vec<String>,
    /// The value has a field that can only be a verdict: `verdict`, `approved`, `decision`.
    pub explicit: bool,
    /// Lists of findings that are plain text.
    pub listed_texts: Vec<String>,
    /// Texts outside the findings.
    pub texts: Vec<String>,
    /// Reason why an approval does not count.
    pub doubt: Option<&'static str>,
    /// Part of the value was too deep or too long to read.
    pub unread: bool,
}

/// Maximum text outside of findings that is judged, in bytes. More makes an approval doubtful.
/// Each text is split into blocks and compared with lists of phrases.
const TEXTS_BYTES_MAX: usize = 256 * 1024;

impl JsonReview {
    /// Returns whether this is a review and not some other JSON.
    pub fn is_review(&self) -> bool {
        self.has_list
            || !self.comments.is_empty()
            || !self.drafts.is_empty()
            || !self.claims.is_empty()
            || !self.blocking.is_empty()
    }

    /// Returns whether JSON inside prose is the review and not an example in it.
    /// Prose quotes JSON as an example. A verdict alone, such as `{"approved": true}`, is not
    /// enough unless a key says that it is one.
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

    /// Adds a reason why an approval does not count; only the first reason is kept.
    /// The first reason is the one that a reader sees first in the text.
    pub fn add_doubt(&mut self, why: Option<&'static str>) {
        self.doubt = self.doubt.or(why);
    }

    /// Merges another value of the same document.
    pub fn absorb(&mut self, other: Self) {
        self.drafts.extend(other.drafts);
        self.claims.extend(other.claims);
        self.blocking.extend(other.blocking);
        self.scores.extend(other.scores);
        self.overall = self.overall.or(other.overall);
        self.notes = self.notes.take().or(other.notes);
        self.criteria.extend(other.criteria);
        self.earlier.extend(other.earlier);
        self.comments.extend(other.comments);
        self.listed_texts.extend(other.listed_texts);
        self.texts.extend(other.texts);
        self.has_list |= other.has_list;
        self.explicit |= other.explicit;
        self.unread |= other.unread;
        self.add_doubt(other.doubt);
    }

    /// Reads the texts outside the findings: a refusal in them counts, and a reservation makes an
    /// approval doubtful.
    pub fn apply_texts(&mut self) {
        let texts = std::mem::take(&mut self.texts);
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > TEXTS_BYTES_MAX {
            self.add_doubt(Some("the report has more text than is judged"));
            return;
        }
        // Short texts must be understood word by word, as in prose; a long report is searched for
        // known phrases.
        let short = texts
            .iter()
            .map(|text| verdict::word_count(text))
            .sum::<usize>()
            <= verdict::SHORT_WORDS;
        for text in texts {
            let cleaned = crate::clean::clean(&text);
            let blocks = super::blocks::blocks(&super::markup::lines(&cleaned));
            let stated = verdict::find_verdict(&blocks);
            if let Some(refusal) = stated
                .verdict
                .filter(|verdict| verdict.claim == ReviewClaim::ChangesRequested)
            {
                self.claims.push((refusal.claim, refusal.text));
            }
            let understood = if short {
                verdict::is_understood(&blocks)
            } else {
                verdict::find_stop(&cleaned).is_none()
            };
            if stated.doubt.is_some() || !understood || verdict::forbids(&cleaned) {
                self.add_doubt(Some("the text of the report contradicts the approval"));
            }
        }
    }

    /// Returns the claim of the machine fields. Fields that contradict each other never approve.
    /// A refusal wins over any number of approvals.
    pub fn claim(&self) -> (ReviewClaim, Option<String>) {
        let refusal = self
            .claims
            .iter()
            .find(|(claim, _)| *claim == ReviewClaim::ChangesRequested);
        match refusal.or_else(|| self.claims.first()) {
            Some((claim, text)) => (*claim, Some(text.clone())),
            None => (ReviewClaim::Unknown, None),
        }
    }

    pub fn contradicts_itself(&self) -> bool {
        self.claims
            .iter()
            .any(|(claim, _)| *claim != self.claims[0].0)
    }
}

#[derive(Clone, Debug, Default)]
struct JsonContext {
    severity: Option<String>,
    file: Option<String>,
    /// Inside a list that is named as one of findings.
    listed: bool,
    /// Part of the review's own answer, not of a quotation or of one of several reviews.
    own: bool,
    depth: usize,
}

pub(super) fn extract_review(value: &Value) -> JsonReview {
    let mut review = JsonReview {
        linter: is_linter(value),
        ..JsonReview::default()
    };
    let listed = matches!(value, Value::Array(_));
    walk(
        value,
        &JsonContext {
            listed,
            own: true,
            ..JsonContext::default()
        },
        &mut review,
    );
    let approves = review
        .claims
        .iter()
        .any(|(claim, _)| *claim == ReviewClaim::Approved);
    if review.earlier.iter().any(|earlier| !earlier.fixed) {
        review.add_doubt(Some("a finding of an earlier round is not called fixed"));
    }
    // The audit is only needed for an approval, and it walks the whole value again.
    if approves && !audit::is_harmless(value, review.drafts.len()) {
        review.add_doubt(Some(
            "a field of the report is unknown or contradicts the approval",
        ));
    }
    review
}

fn walk(value: &Value, context: &JsonContext, review: &mut JsonReview) {
    if context.depth > DEPTH_MAX || review.drafts.len() >= crate::clean::FINDINGS_MAX {
        // A value that was not looked at makes the reading incomplete, and then nothing approves.
        review.unread |= matches!(value, Value::Array(_) | Value::Object(_))
            || (context.listed && value.is_string());
        return;
    }
    match value {
        Value::Array(items) => {
            let inner = JsonContext {
                // A list of several reviews has several voices. None of them is the verdict.
                own: context.own && items.len() == 1,
                ..deeper(context)
            };
            for item in items {
                walk(item, &inner, review);
            }
        }
        Value::Object(object) => walk_object(object, context, review),
        // Three letters or less are a mark and no finding.
        Value::String(text) if context.listed && text.trim().len() > 3 => {
            review.drafts.push(item::draft_from_text(
                text,
                context.severity.as_deref(),
                context.file.as_deref(),
            ));
        }
        Value::String(text) => take_text(text, review),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keeps a text that is not a finding. It skips texts without letters, addresses and names with
/// digits.
fn take_text(text: &str, review: &mut JsonReview) {
    let trimmed = text.trim();
    let word = trimmed
        // One word may still be a verdict ("rejected"), so words are kept and only codes and
        // addresses are dropped.
        .trim_end_matches(['.', '!', '?', ',', ';', ':'])
        .chars()
        .all(|c| c.is_alphabetic() || matches!(c, '_' | '-'));
    if trimmed.contains(char::is_whitespace) || !trimmed.is_ascii() || word {
        review.texts.push(trimmed.to_owned());
    }
}

fn deeper(context: &JsonContext) -> JsonContext {
    JsonContext {
        depth: context.depth + 1,
        ..context.clone()
    }
}

fn walk_object(object: &Map<String, Value>, context: &JsonContext, review: &mut JsonReview) {
    // A comment of a person is a review of its own and is read as prose.
    if let Some(body) = comment_body(object) {
        review.comments.push(body);
        return;
    }
    // `severity: none` in a list of checks says that nothing was found.
    if context.listed && item::is_rated_as_nothing(object) {
        return;
    }
    // Before the fields: inside a finding `status` or `result` is about the finding and not about
    // the change.
    if let Some(mut draft) = item::draft_from_object(object, context.listed) {
        draft.severity = draft.severity.or_else(|| context.severity.clone());
        draft.file = draft.file.or_else(|| context.file.clone());
        review
            .add_doubt(marks_itself_blocking(object).then_some("a finding is marked as blocking"));
        review.drafts.push(draft);
        return;
    }
    take_fields(object, context.own, review);
    let file = keys::text(object, keys::FILE).or_else(|| context.file.clone());
    for (key, value) in object {
        let name = fold(key);
        if is_blocking_list(&name) && take_blocking(value, review) {
            continue;
        }
        if is_earlier(&name) {
            take_earlier(value, &name, review);
            // The disposition of an earlier finding is no finding of this review.
            continue;
        }
        if let Value::String(text) = value {
            if is_findings(&name) && !says_none(text) {
                review.add_doubt(Some("the findings are given as text"));
                review.listed_texts.push(text.clone());
            } else if !fields::is_verdict_key(&name) {
                take_text(text, review);
            }
            continue;
        }
        // A flag such as `has_warnings: true` contradicts an approval without naming a finding.
        if fields::is_warning(&name) && !fields::is_void(value) {
            review.add_doubt(Some("a field of the report contradicts the approval"));
        }
        // Findings exist, but this text does not have them.
        if is_findings(&name) && value.as_u64().is_some_and(|count| count > 0) {
            review.add_doubt(Some("the findings are counted but not listed"));
        }
        if is_aside(&name) || !matches!(value, Value::Array(_) | Value::Object(_)) {
            continue;
        }
        let list = is_list(&name);
        review.has_list |= list && matches!(value, Value::Array(_));
        let severity = severity_key(key).or_else(|| context.severity.clone());
        let listed = list
            || severity_key(key).is_some()
            || (context.listed && matches!(value, Value::Array(_)) && is_list(&name));
        walk(
            value,
            &JsonContext {
                severity,
                file: file.clone(),
                listed,
                own: context.own && is_answer(&name),
                depth: context.depth + 1,
            },
            review,
        );
    }
}

/// Returns whether a finding has a flag or a verdict that stops the merge, whatever its severity.
fn marks_itself_blocking(object: &Map<String, Value>) -> bool {
    object.iter().any(|(key, value)| {
        let name = fold(key);
        let flag = ["block", "isblock", "mustfix", "required", "mandatory"]
            .iter()
            .any(|stem| name.starts_with(stem));
        let answer = matches!(name.as_str(), "verdict" | "decision");
        let set = value.as_bool() == Some(true)
            || value.as_u64().is_some_and(|number| number > 0)
            || value
                .as_str()
                .is_some_and(|text| matches!(fold(text).as_str(), "yes" | "true" | "1"));
        (flag && set) || (answer && value.as_str().is_some_and(verdict::refuses))
    })
}

/// Returns whether the review's own answer may be under this key.
pub(super) fn is_answer(name: &str) -> bool {
    matches!(
        name,
        "review"
            | "reviews"
            | "codereview"
            | "reviewresult"
            | "reviewreport"
            | "result"
            | "report"
            | "response"
            | "answer"
            | "output"
            | "structuredoutput"
            | "data"
            | "verdict"
            | "decision"
            | "assessment"
            | "summary"
    )
}

/// Returns whether a key lists findings, whatever it contains.
pub(super) fn is_findings(name: &str) -> bool {
    matches!(
        name,
        "findings"
            | "finding"
            | "issues"
            | "problems"
            | "bugs"
            | "defects"
            | "blockers"
            | "blockingissues"
            | "blocking"
            | "mustfix"
            | "requiredchanges"
            | "requiredfixes"
            | "violations"
            | "vulnerabilities"
            | "concerns"
            | "critical"
            | "criticalissues"
            | "errors"
    )
}

/// Returns whether a text is an empty list in words: `none`, `no findings`, `[]`.
fn says_none(text: &str) -> bool {
    let bare = fold(text);
    matches!(
        bare.as_str(),
        "" | "none"
            | "no"
            | "nofindings"
            | "noissues"
            | "noissuesfound"
            | "na"
            | "nothing"
            | "null"
            | "0"
    )
}

/// Returns the body of a forge comment. It has an author and points at no line, so it is not a
/// finding.
fn comment_body(object: &Map<String, Value>) -> Option<String> {
    let has_author = keys::get(
        object,
        &["author", "user", "login", "createdat", "submittedat"],
    )
    .is_some();
    let placed = keys::get(object, &["path", "file", "line", "severity"]).is_some();
    (has_author && !placed)
        .then(|| keys::text(object, &["body"]))
        .flatten()
}

/// Returns the severity of a key such as `"critical": […]` and `"must_fix": […]`, which rates its
/// items.
pub(super) fn severity_key(key: &str) -> Option<String> {
    let words = key.split(|c: char| !c.is_alphanumeric()).count();
    (words <= 3 && !key.to_lowercase().contains("score") && !key.to_lowercase().contains("count"))
        .then(|| Severity::from_word(key))
        .flatten()
        .map(|_| key.trim().to_owned())
}

pub(super) fn is_list(name: &str) -> bool {
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

pub(super) fn is_blocking_list(name: &str) -> bool {
    name == "blockingissues"
}

/// Returns whether a key lists findings of earlier rounds.
pub(super) fn is_earlier(name: &str) -> bool {
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

/// Returns whether the value of a key never contains findings.
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

/// Returns whether the keys are those of a linter's report. Such a report never repeats itself.
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
