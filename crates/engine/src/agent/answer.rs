//! The answers of builders and verifiers, as contract version 2 has them.
//!
//! A reviewer's answer is read by `findings`, which knows many more forms.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::event::last_json;

/// The ticket that an answer names in a field of its own, if it does. What prose mentions is no such
/// field: a review may speak of other tickets.
pub fn ticket_named(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(alias = "ticket_id")]
        ticket: String,
    }
    let named: Named = serde_json::from_str(last_json(text)?).ok()?;
    Some(named.ticket).filter(|name| !name.trim().is_empty())
}

/// What a builder says about its work. All of it is a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct BuilderAnswer {
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub claims: Vec<CriterionClaim>,
    #[serde(default)]
    pub findings: Vec<HandledFinding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CriterionClaim {
    pub criterion: String,
    pub met: bool,
    #[serde(default)]
    pub evidence: String,
}

/// What became of a finding that the builder was asked to fix.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HandledFinding {
    pub id: String,
    pub outcome: HandlingOutcome,
    #[serde(default)]
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlingOutcome {
    Fixed,
    CouldNotFix,
    Disputed,
}

/// A verifier's answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VerifierAnswers {
    pub answers: Vec<VerifiedFinding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VerifiedFinding {
    pub finding: String,
    pub outcome: VerificationOutcome,
    #[serde(default)]
    pub evidence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationOutcome {
    Fixed,
    Confirmed,
    Refuted,
    Uncertain,
}

/// A builder's answer. One that is not of the contract's form is a summary.
pub fn built(text: &str) -> BuilderAnswer {
    let told: Option<BuilderAnswer> = in_json(text)
        .ok()
        .filter(|told| *told != BuilderAnswer::default());
    told.unwrap_or_else(|| BuilderAnswer {
        summary: text.trim().to_owned(),
        ..BuilderAnswer::default()
    })
}

/// A verifier's answer; the error says where it leaves the contract.
pub fn verified(text: &str) -> Result<VerifierAnswers, String> {
    in_json(text).map_err(|error| {
        format!("the verifier's answer is not {{\"answers\": [{{finding, outcome, evidence}}]}}: {error}")
    })
}

/// The text itself, or the last JSON in it: many say a sentence first, or fence it.
fn in_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| match last_json(text) {
        Some(json) => serde_json::from_str(json),
        None => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_may_answer_in_prose_or_in_full() {
        assert_eq!(built(" did it \n").summary, "did it");
        let text = r#"{"summary": "s", "claims": [{"criterion": "c", "met": true}],
            "findings": [{"id": "F1", "outcome": "could_not_fix", "note": "why"}], "usage": {}}"#;
        let answer = built(text);
        assert_eq!(answer.findings[0].outcome, HandlingOutcome::CouldNotFix);
        assert!(answer.claims[0].met);
    }

    #[test]
    fn a_sentence_before_the_answer_does_no_harm() {
        let text =
            "Done:\n```json\n{\"answers\": [{\"finding\": \"F1\", \"outcome\": \"fixed\"}]}\n```\n";
        assert_eq!(verified(text).unwrap().answers[0].finding, "F1");
    }

    #[test]
    fn a_verifier_must_keep_to_the_form() {
        let text = r#"{"answers": [{"finding": "F1", "outcome": "refuted", "evidence": "e"}]}"#;
        assert_eq!(
            verified(text).unwrap().answers[0].outcome,
            VerificationOutcome::Refuted
        );
        for bad in [
            "fine by me",
            "{}",
            r#"{"answers": [{"finding": "F1", "outcome": "maybe"}]}"#,
        ] {
            assert!(verified(bad).is_err(), "{bad}");
        }
    }
}
