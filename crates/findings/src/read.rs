//! Reads whatever a reviewer answered.
//!
//! The readers are tried from the strictest to the loosest: a whole JSON document, JSON inside
//! prose, text. Each says how sure it is. What no reader understands is [`Claim::Unknown`].

mod claim;
mod draft;
mod extract;
mod item;
mod json;
mod keys;
mod label;
mod lenient;
mod place;
mod verdict;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clean::{FIELD_CHARS_MAX, clean, shorten};
use crate::finding::{Claim, Review, Way};

/// Reads a review. Text that is not one gives [`Claim::Unknown`] and no findings.
pub fn read(text: &str) -> Review {
    if let Some(found) = extract::whole(text) {
        let said = json::said(&found.value);
        if said.is_review() {
            let way = if found.repaired {
                Way::RepairedJson
            } else if said.linter {
                Way::Linter
            } else {
                Way::Json
            };
            return of_said(said, way, found.cut_off);
        }
        return nothing();
    }
    let said = extract::inside(text)
        .into_iter()
        .map(|found| (json::said(&found.value), found))
        .rfind(|(said, _)| said.is_review());
    match said {
        Some((said, found)) => {
            let way = if found.repaired {
                Way::RepairedJson
            } else {
                Way::JsonInProse
            };
            of_said(said, way, found.cut_off)
        }
        None => nothing(),
    }
}

/// Reads the structured arguments of a review tool: the same shapes, already parsed.
pub fn read_value(value: &Value) -> Review {
    let said = json::said(value);
    if said.is_review() {
        of_said(said, Way::Json, false)
    } else {
        nothing()
    }
}

fn of_said(said: json::Said, way: Way, cut_off: bool) -> Review {
    let (claim, claim_text) = said.claim();
    let mut remarks = Vec::new();
    if said.contradicts_itself() {
        remarks.push("the verdict fields contradict each other; read as a refusal".to_owned());
    }
    if cut_off {
        remarks.push("the document is cut off".to_owned());
    }
    let sureness = match (way, cut_off) {
        (_, true) => 40,
        (Way::RepairedJson, false) => 75,
        (Way::JsonInProse, false) => 90,
        _ => 98,
    };
    let claim = if cut_off && claim == Claim::Approved {
        Claim::Unknown
    } else {
        claim
    };
    let mut review = Review {
        claim,
        claim_text,
        findings: draft::finish(said.drafts, claim, !said.linter),
        blocking_issues: said.blocking,
        scores: said.scores.into_iter().collect(),
        overall_score: said.overall,
        notes: said
            .notes
            .map(|notes| shorten(&clean(&notes), FIELD_CHARS_MAX)),
        criteria: said.criteria,
        earlier: said.earlier,
        way,
        sureness,
        remarks,
    };
    remark(&mut review);
    review
}

/// Says what a careful reader would notice about the review as a whole.
fn remark(review: &mut Review) {
    let unknown = review
        .findings
        .iter()
        .filter(|finding| finding.rating.unknown_word)
        .count();
    if unknown > 0 {
        review.remarks.push(format!(
            "{unknown} severity words are unknown and count as high"
        ));
    }
    let must_fix = review
        .findings
        .iter()
        .filter(|finding| finding.actionable && finding.rating.severity.is_must_fix())
        .count();
    if review.claim == Claim::Approved && must_fix + review.blocking_issues.len() > 0 {
        review.remarks.push(format!(
            "approves, yet lists {} must-fix findings",
            must_fix + review.blocking_issues.len()
        ));
    }
}

fn nothing() -> Review {
    Review {
        claim: Claim::Unknown,
        claim_text: None,
        findings: Vec::new(),
        blocking_issues: Vec::new(),
        scores: BTreeMap::new(),
        overall_score: None,
        notes: None,
        criteria: Vec::new(),
        earlier: Vec::new(),
        way: Way::Nothing,
        sureness: 0,
        remarks: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
