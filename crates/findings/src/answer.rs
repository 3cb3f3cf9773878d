//! Reads the answer to a review that Countersign commissioned.
//!
//! An approval must be unmistakable: it counts only in the form that the brief asks for. A refusal
//! counts in any form. Everything else is [`ReviewClaim::Unknown`], with the reason. Prose, other
//! JSON, a form with text around it, an unknown field, or an answer about another commit never
//! approves.

mod form;

use serde_json::{Map, Value};

use crate::clean::{clean, one_line, shorten};
use crate::finding::{Finding, Review, ReviewClaim};
use crate::read::{read, read_value};
use crate::severity::{Rating, Severity};
use form::AnswerForm;

/// Maximum length of a quotation in a reason.
const QUOTE_CHARS_MAX: usize = 80;
/// Maximum number of reported reasons; the first few are enough to correct an answer.
const REASONS_MAX: usize = 4;

/// A commissioned review, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommissionedReview {
    /// The review; its claim is `Approved` only if the answer has the exact form.
    pub review: Review,
    /// Reasons why the claim is unknown.
    pub unclear: Option<String>,
}

/// Reads the whole text of an answer about one commit, given by its full id.
pub fn read_answer(text: &str, commit: &str) -> CommissionedReview {
    let review = read(text);
    match form::parse(text) {
        Err(why) => decide_claim(review, vec![why]),
        Ok(fields) => {
            let mut form = AnswerForm::from_fields(&fields);
            form.require_approval(&fields);
            form.require_commit(&fields, commit);
            judge(review, form)
        }
    }
}

/// Reads the arguments of a review tool. The call is the form: `approved` is the verdict, and the
/// claim of the caller determines the commit.
pub fn read_tool_call(arguments: &Map<String, Value>, commit: &str) -> CommissionedReview {
    let review = read_value(&Value::Object(arguments.clone()));
    let mut form = AnswerForm::from_fields(arguments);
    if arguments.get("approved") != Some(&Value::Bool(true)) {
        form.reasons
            .push("`approved` is not the value true".to_owned());
    }
    form.check_named_commit(arguments, commit);
    judge(review, form)
}

/// Looks for a refusal in the reviewer's text outside its answer; never takes an approval from
/// there.
pub fn apply_refusal_beside(answer: CommissionedReview, text: &str) -> CommissionedReview {
    let CommissionedReview {
        mut review,
        unclear,
    } = answer;
    if review.claim == ReviewClaim::ChangesRequested {
        return CommissionedReview { review, unclear };
    }
    let outside = read(text);
    if outside.claim != ReviewClaim::ChangesRequested {
        return CommissionedReview { review, unclear };
    }
    review.claim = ReviewClaim::ChangesRequested;
    review.claim_text = outside.claim_text;
    review
        .remarks
        .push("the text outside the answer refuses; read as a refusal".to_owned());
    merge_findings(&mut review.findings, outside.findings);
    review.blocking_issues.extend(outside.blocking_issues);
    CommissionedReview {
        review,
        unclear: None,
    }
}

/// Determines the claim of an answer in the form: a refusal in any of its texts counts.
fn judge(mut review: Review, mut form: AnswerForm) -> CommissionedReview {
    form.must_not_stop();
    if review.claim == ReviewClaim::ChangesRequested {
        return decide_claim(review, form.reasons);
    }
    merge_findings(&mut review.findings, form.findings);
    for text in &form.texts {
        apply_text_field(&mut review, text);
    }
    for text in &form.item_texts {
        let inner = read(text);
        if inner.claim == ReviewClaim::ChangesRequested {
            refuse(&mut review, inner.claim_text.as_deref().unwrap_or(text));
        }
    }
    decide_claim(review, form.reasons)
}

/// Finishes the review: a refusal stays, whatever the form lacks. Without a refusal, a form without
/// faults approves; otherwise the claim is unknown.
fn decide_claim(mut review: Review, mut reasons: Vec<String>) -> CommissionedReview {
    if review.claim == ReviewClaim::ChangesRequested {
        return CommissionedReview {
            review,
            unclear: None,
        };
    }
    if reasons.is_empty() {
        review.claim = ReviewClaim::Approved;
        review.claim_text = Some("approve".to_owned());
        return CommissionedReview {
            review,
            unclear: None,
        };
    }
    review.claim = ReviewClaim::Unknown;
    review.claim_text = None;
    reasons.truncate(REASONS_MAX);
    CommissionedReview {
        review,
        unclear: Some(reasons.join("; ")),
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
                && (finding.file.is_none() || known_finding.file == finding.file)
        });
        match same {
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
