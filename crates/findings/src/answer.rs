//! Reads the answer to a review that Countersign commissioned.
//!
//! An approval must be unmistakable: it counts only in the form that the brief asks for. A refusal is
//! heard in any form. Everything else is [`Claim::Unknown`], with the reason. This reader cannot
//! be talked into an approval: prose, foreign JSON, a form with something around it, a field it does
//! not know, or another commit's answer never is one.

mod form;

use serde_json::{Map, Value};

use crate::clean::{clean, one_line, shorten};
use crate::finding::{Finding, Review, ReviewClaim};
use crate::read::{read, read_value};
use crate::severity::{Rating, Severity};
use form::AnswerForm;

/// How much of a reviewer's text a reason quotes.
const QUOTE_CHARS_MAX: usize = 80;
/// How many reasons are told; the first few are enough to mend an answer.
const REASONS_MAX: usize = 4;

/// A commissioned review as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommissionedReview {
    /// Its claim is `Approved` only where the answer kept to the form.
    pub review: Review,
    /// What the form misses, where the claim is unknown.
    pub unclear: Option<String>,
}

/// Reads the whole text of an answer on one commit, named by its full id.
pub fn read_answer(text: &str, commit: &str) -> CommissionedReview {
    let review = read(text);
    match form::parse(text) {
        Err(why) => unless_refused(review, vec![why]),
        Ok(fields) => {
            let mut form = AnswerForm::of(&fields);
            form.must_approve(&fields);
            form.must_name(&fields, commit);
            judge(review, form)
        }
    }
}

/// Reads the arguments of a review tool. The call is the form: `approved` is the verdict, and the claim
/// that the call is made under names the commit.
pub fn read_call(arguments: &Map<String, Value>, commit: &str) -> CommissionedReview {
    let review = read_value(&Value::Object(arguments.clone()));
    let mut form = AnswerForm::of(arguments);
    if arguments.get("approved") != Some(&Value::Bool(true)) {
        form.reasons
            .push("`approved` is not the value true".to_owned());
    }
    form.may_name(arguments, commit);
    judge(review, form)
}

/// Hears a refusal in what a reviewer said beside its answer; an approval is never taken from there.
pub fn hear_beside(answer: CommissionedReview, said: &str) -> CommissionedReview {
    let CommissionedReview {
        mut review,
        unclear,
    } = answer;
    if review.claim == ReviewClaim::ChangesRequested {
        return CommissionedReview { review, unclear };
    }
    let beside = read(said);
    if beside.claim != ReviewClaim::ChangesRequested {
        return CommissionedReview { review, unclear };
    }
    review.claim = ReviewClaim::ChangesRequested;
    review.claim_text = beside.claim_text;
    review
        .remarks
        .push("what was said beside the answer refuses; read as a refusal".to_owned());
    add_new(&mut review.findings, beside.findings);
    review.blocking_issues.extend(beside.blocking_issues);
    CommissionedReview {
        review,
        unclear: None,
    }
}

/// The claim of an answer in form, unless something in it refuses or is missing.
fn judge(mut review: Review, mut form: AnswerForm) -> CommissionedReview {
    form.must_not_stop();
    if review.claim == ReviewClaim::ChangesRequested {
        return unless_refused(review, form.reasons);
    }
    add_new(&mut review.findings, form.findings);
    for text in &form.texts {
        hear(&mut review, text);
    }
    for text in &form.item_texts {
        let said = read(text);
        if said.claim == ReviewClaim::ChangesRequested {
            refuse(&mut review, said.claim_text.as_deref().unwrap_or(text));
        }
    }
    unless_refused(review, form.reasons)
}

/// A refusal stands whatever the form misses; without one, a form that misses nothing approves.
fn unless_refused(mut review: Review, mut reasons: Vec<String>) -> CommissionedReview {
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

/// Hears what a text field says: a refusal counts, an approval does not, and findings are kept.
fn hear(review: &mut Review, text: &str) {
    let said = read(text);
    if said.claim == ReviewClaim::ChangesRequested {
        refuse(review, said.claim_text.as_deref().unwrap_or(text));
    }
    // The form approves, so a point without a severity is a remark: else every list of praise in the
    // notes would be a list of grave findings.
    let rated = said.findings.into_iter().map(|finding| Finding {
        rating: match finding.rating.raw {
            Some(_) => finding.rating,
            None => Rating::of(None, true),
        },
        ..finding
    });
    add_new(&mut review.findings, rated.collect());
    review.blocking_issues.extend(said.blocking_issues);
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

/// Adds those whose titles are not there yet. Of two with one title the graver rating stays.
fn add_new(known: &mut Vec<Finding>, more: Vec<Finding>) {
    for finding in more {
        let same = known.iter_mut().find(|one| {
            one.title == finding.title && (finding.file.is_none() || one.file == finding.file)
        });
        match same {
            Some(one) if finding.rating.severity < one.rating.severity => {
                one.rating = finding.rating;
                one.actionable |= finding.actionable;
            }
            Some(_) => {}
            None => known.push(finding),
        }
    }
}

fn quote(text: &str) -> String {
    shorten(&one_line(&clean(text)), QUOTE_CHARS_MAX)
}

/// The severity that one word names; a phrase could name two.
fn severity(word: &str) -> Option<Severity> {
    let is_one = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let word = word.trim();
    let one = !word.is_empty() && word.chars().all(is_one);
    one.then(|| Severity::of(word)).flatten()
}

#[cfg(test)]
mod tests;
