//! Reads the answer to a review that Countersign commissioned.
//!
//! An approval must be unmistakable: it counts only in the form that the brief asks for. A refusal
//! counts in any form. Everything else is [`ReviewClaim::Unknown`], with the reason. Prose, other
//! JSON, a form with text around it, an unknown field, or an answer about another commit never
//! approves. Free text inside the form has to be vouched for (see [`vouch`]).
//!
//! The asymmetry is the point of this module. A wrong refusal costs one more round; a wrong
//! approval lands a change that nobody countersigned. So every step below may turn an approval into
//! something else, and none turns anything else into an approval.

mod empty_lists;
mod form;
mod vouch;

use serde_json::{Map, Value};

use crate::clean::{clean, one_line, shorten};
use crate::finding::{Finding, Review, ReviewClaim};
use crate::read::{find_stop, read, read_refusal, read_value};
use crate::severity::{Rating, Severity};
use form::AnswerForm;

/// Maximum length of a quotation in a reason.
const QUOTE_CHARS_MAX: usize = 80;
/// Maximum number of reported reasons; the first few are enough to correct an answer.
const REASONS_MAX: usize = 4;
/// Maximum number of JSON objects that are removed from a text.
/// A bound on work: each object is found by a search through the rest of the text.
const JSON_OBJECTS_MAX: usize = 16;

/// A commissioned review, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommissionedReview {
    /// The review; its claim is `Approved` only if the answer has the exact form.
    pub review: Review,
    /// Reasons why the claim is unknown.
    pub unclear: Option<String>,
    /// True if the only reason is a text that is not vouched for. The caller of a tool can then
    /// confirm its approval, see [`read_confirmed_tool_call`].
    pub confirmable: bool,
}

/// Reads the whole text of an answer about one commit, given by its full id. `criteria` are the
/// ticket's own: an answer may repeat their words.
pub fn read_answer(text: &str, commit: &str, criteria: &[String]) -> CommissionedReview {
    // The whole text is read as a foreign review first. A refusal in any form is found there,
    // whether the form is sound or not.
    let review = read(text);
    match form::parse(text) {
        // A text that is no form keeps the findings and the refusal of that reading, and never
        // approves.
        Err(why) => decide_claim(review, vec![why], Vec::new()),
        Ok(fields) => {
            let mut form = AnswerForm::from_fields(&fields);
            form.require_approval(&fields);
            // Other contracts have `approved` as well. If it is there, it has to agree with the
            // verdict.
            if fields
                .get("approved")
                .is_some_and(|value| *value != Value::Bool(true))
            {
                form.reasons
                    .push("`approved` is not the value true".to_owned());
            }
            form.require_commit(&fields, commit);
            judge(review, form, criteria)
        }
    }
}

/// Reads the arguments of a review tool. The call is the form: `approved` is the verdict, and the
/// claim of the caller determines the commit.
pub fn read_tool_call(
    arguments: &Map<String, Value>,
    commit: &str,
    criteria: &[String],
) -> CommissionedReview {
    // Every field is read by the general reader too, because a refusal may stand in a field that
    // the form does not know.
    let review = read_value(&Value::Object(arguments.clone()));
    let mut form = AnswerForm::from_fields(arguments);
    if arguments.get("approved") != Some(&Value::Bool(true)) {
        form.reasons
            .push("`approved` is not the value true".to_owned());
    }
    // A tool call belongs to a claim, so the commit may be missing. A named one has to be right.
    form.check_named_commit(arguments, commit);
    judge(review, form, criteria)
}

/// Reads the arguments of a review tool that were sent a second time, after the caller was told
/// which sentence is not understood. Clients of other systems always send their text, so the same
/// call again is their confirmation. A refusal, a recognised reservation and every fault of the form
/// count as before.
pub fn read_confirmed_tool_call(
    arguments: &Map<String, Value>,
    commit: &str,
    criteria: &[String],
) -> CommissionedReview {
    let answer = read_tool_call(arguments, commit, criteria);
    // Only a text that was not understood can be confirmed. A fault of the form cannot be repaired
    // by repeating it.
    if !answer.confirmable {
        return answer;
    }
    let mut review = answer.review;
    let remark = "approved twice with a text that is not understood; read as an approval";
    // The record shows that the text was not understood.
    review.remarks.push(remark.to_owned());
    decide_claim(review, Vec::new(), Vec::new())
}

/// Applies the reviewer's text outside its answer: the last message next to a result file, or the
/// output of a command. It never approves.
///
/// Agents report their work there ("I read the diff, then I ran the tests"), so this text need not be
/// vouched for as the text inside the form: every run would be asked again. A refusal there
/// overrules the answer, a finding with a must-fix severity is added to it, and a recognised
/// reservation (a condition, something unread, a demand, a failure, a withdrawal) makes the claim
/// unknown.
pub fn apply_text_beside(answer: CommissionedReview, text: &str) -> CommissionedReview {
    let CommissionedReview {
        mut review,
        unclear,
        confirmable,
    } = answer;
    // A refusal is final. Text outside the answer could only add to it.
    if review.claim == ReviewClaim::ChangesRequested {
        return CommissionedReview {
            review,
            unclear,
            confirmable,
        };
    }
    // Read as a foreign review, for its refusals and findings. An approval in it is dropped: only
    // the form approves.
    let outside = read(text);
    if outside.claim == ReviewClaim::ChangesRequested {
        review.claim = ReviewClaim::ChangesRequested;
        review.claim_text = outside.claim_text;
        review
            .remarks
            .push("the text outside the answer refuses; read as a refusal".to_owned());
        merge_findings(&mut review.findings, outside.findings);
        review.blocking_issues.extend(outside.blocking_issues);
        return decide_claim(review, Vec::new(), Vec::new());
    }
    // A finding without a severity in such a report is most often a description of work, so only
    // rated ones count.
    let rated = outside
        .findings
        .into_iter()
        .filter(|finding| finding.rating.raw.is_some() && finding.rating.severity.is_must_fix());
    merge_findings(&mut review.findings, rated.collect());
    review.blocking_issues.extend(outside.blocking_issues);
    // The copy of the answer inside the report would be searched as prose otherwise.
    let report = without_json(text);
    match find_stop(&report) {
        Some((stop, words)) if review.claim == ReviewClaim::Approved => {
            let why = format!(
                "the text outside the answer {} ({:?}): state it as a finding with its severity, or leave it out",
                stop.says(),
                quote(words)
            );
            decide_claim(review, vec![why], Vec::new())
        }
        _ => CommissionedReview {
            review,
            unclear,
            confirmable,
        },
    }
}

/// Removes JSON objects: agents often print their answer as well, and its minor findings describe
/// defects.
fn without_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    for _ in 0..JSON_OBJECTS_MAX {
        let Some(start) = rest.find('{') else { break };
        let mut stream =
            serde_json::Deserializer::from_str(&rest[start..]).into_iter::<serde::de::IgnoredAny>();
        let length = match stream.next() {
            // An opening brace that begins no JSON is skipped by itself, so that the search goes on
            // behind it.
            Some(Ok(_)) => stream.byte_offset(),
            _ => 1,
        };
        out.push_str(&rest[..start]);
        // A line end in place of the object, so that the sentences before and after it do not join.
        out.push('\n');
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    out
}

/// Determines the claim of an answer in the form: a refusal in any of its texts counts.
fn judge(mut review: Review, mut form: AnswerForm, criteria: &[String]) -> CommissionedReview {
    // Names of criteria become texts first, because the next line judges all texts.
    form.check_criterion_names(criteria);
    form.must_not_stop();
    if review.claim == ReviewClaim::ChangesRequested {
        if form.findings.is_empty() && review.blocking_issues.is_empty() {
            add_findings_of_texts(&mut review, &form.texts);
        }
        return decide_claim(review, Vec::new(), Vec::new());
    }
    merge_findings(&mut review.findings, form.findings);
    for text in &form.texts {
        apply_text_field(&mut review, text);
    }
    // Texts of findings describe defects by nature, so only a refusal in them counts.
    for text in &form.item_texts {
        let inner = read(text);
        if inner.claim == ReviewClaim::ChangesRequested {
            refuse(&mut review, inner.claim_text.as_deref().unwrap_or(text));
        }
    }
    decide_claim(review, form.reasons, form.unvouched)
}

/// Finishes the review: a refusal stays, whatever the form lacks. Without a refusal, a form without
/// faults approves; otherwise the claim is unknown.
fn decide_claim(
    mut review: Review,
    mut reasons: Vec<String>,
    unvouched: Vec<String>,
) -> CommissionedReview {
    if review.claim == ReviewClaim::ChangesRequested {
        return CommissionedReview {
            review,
            unclear: None,
            confirmable: false,
        };
    }
    // A single fault of the form makes the rest unconfirmable: the second call would be wrong too.
    let confirmable = reasons.is_empty() && !unvouched.is_empty();
    reasons.extend(unvouched);
    if reasons.is_empty() {
        review.claim = ReviewClaim::Approved;
        review.claim_text = Some("approve".to_owned());
        return CommissionedReview {
            review,
            unclear: None,
            confirmable: false,
        };
    }
    review.claim = ReviewClaim::Unknown;
    // The words that looked like an approval are not kept. Shown next to "unknown" they would
    // mislead.
    review.claim_text = None;
    reasons.truncate(REASONS_MAX);
    CommissionedReview {
        review,
        unclear: Some(reasons.join("; ")),
        confirmable,
    }
}

/// Adds the findings in the texts of a refusal that has no list of its own: clients of other systems
/// have one field for all that they say.
fn add_findings_of_texts(review: &mut Review, texts: &[String]) {
    let mut listed = Vec::new();
    for text in texts {
        let inner = read_refusal(text);
        // One point without severity and place is the text itself, which is kept whole as the
        // reason of the refusal.
        let is_bare = |it: &Finding| it.rating.raw.is_none() && it.file.is_none();
        if inner.findings.len() > 1 || !inner.findings.iter().all(is_bare) {
            merge_findings(&mut listed, inner.findings);
        }
        review.blocking_issues.extend(inner.blocking_issues);
    }
    // The general reader may have taken some of them from the same texts.
    let actionable = |found: &[Finding]| found.iter().filter(|it| it.actionable).count();
    if actionable(&listed) > actionable(&review.findings) {
        review.findings = listed;
    }
}

/// Reads a text field: a refusal counts, an approval does not, and findings are kept.
fn apply_text_field(review: &mut Review, text: &str) {
    let inner = read(text);
    if inner.claim == ReviewClaim::ChangesRequested {
        refuse(review, inner.claim_text.as_deref().unwrap_or(text));
    }
    // The form approves, so a point without a severity is only a remark. Otherwise every list of
    // praise in the notes would become a list of severe findings.
    let rated = inner.findings.into_iter().map(|finding| Finding {
        rating: match finding.rating.raw {
            Some(_) => finding.rating,
            None => Rating::of(None, true),
        },
        ..finding
    });
    merge_findings(&mut review.findings, rated.collect());
    review.blocking_issues.extend(inner.blocking_issues);
}

fn refuse(review: &mut Review, words: &str) {
    if review.claim != ReviewClaim::ChangesRequested {
        let quoted = quote(words);
        review.claim = ReviewClaim::ChangesRequested;
        review.claim_text = Some(quoted.clone());
        let remark = format!("its text refuses (\"{quoted}\"); read as a refusal");
        review.remarks.push(remark);
    }
}

/// Adds findings with new titles. Of two findings with the same title the more severe rating stays.
fn merge_findings(known: &mut Vec<Finding>, more: Vec<Finding>) {
    for finding in more {
        let same = known.iter_mut().find(|known_finding| {
            known_finding.title == finding.title
                // A finding without a file may be the same one, told again in prose. One with
                // another file is another.
                && (finding.file.is_none() || known_finding.file == finding.file)
        });
        match same {
            // The worst severity orders first.
            Some(known_finding) if finding.rating.severity < known_finding.rating.severity => {
                known_finding.rating = finding.rating;
                known_finding.actionable |= finding.actionable;
            }
            Some(_) => {}
            None => known.push(finding),
        }
    }
}

fn quote(text: &str) -> String {
    shorten(&one_line(&clean(text)), QUOTE_CHARS_MAX)
}

/// Returns the severity of a single word; a phrase could name two.
fn severity(word: &str) -> Option<Severity> {
    let is_word_char = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let word = word.trim();
    let is_single_word = !word.is_empty() && word.chars().all(is_word_char);
    is_single_word.then(|| Severity::from_word(word)).flatten()
}

#[cfg(test)]
mod tests;

/// Returns whether every sentence is vouched for: known words that speak for the change.
pub(crate) fn is_vouched(text: &str) -> bool {
    vouch::find_unvouched(text).is_none()
}
