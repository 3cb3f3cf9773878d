//! Parses the answers of builders and verifiers, in the form of contract version 2.
//!
//! The crate `findings` parses a reviewer's answer, in many more forms.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::event::last_json;

/// Returns the ticket that an answer names in a JSON field. Mentions in prose do not count,
/// because a review may discuss other tickets.
pub fn named_ticket(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(alias = "ticket_id")]
        ticket: String,
    }
    let answer: Named = serde_json::from_str(last_json(text)?).ok()?;
    Some(answer.ticket).filter(|name| !name.trim().is_empty())
}

/// A builder's answer about its work. All of it is an unverified claim.
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

/// Outcome of a finding that the builder was asked to fix.
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

/// Parses a builder's answer. An answer that is not in the form of the contract becomes the
/// summary.
pub fn parse_builder_answer(text: &str) -> BuilderAnswer {
    let answer: Option<BuilderAnswer> = parse_json_answer(text)
        .ok()
        .filter(|answer| *answer != BuilderAnswer::default());
    answer.unwrap_or_else(|| BuilderAnswer {
        summary: text.trim().to_owned(),
        ..BuilderAnswer::default()
    })
}

/// Parses a verifier's answer. The error says where it differs from the contract.
pub fn parse_verifier_answers(text: &str) -> Result<VerifierAnswers, String> {
    parse_json_answer(text).map_err(|error| {
        let words = findings::one_line(text);
        // A position in a text that is no JSON helps nobody, so its words are shown.
        let why = if words.is_empty() {
            "it is empty".to_owned()
        } else if last_json(text).is_none() {
            format!("it says \"{}\"", findings::shorten(&words, SHOWN_CHARS))
        } else {
            error.to_string()
        };
        format!("the answer is not {{\"answers\": [{{finding, outcome, evidence}}]}}: {why}")
    })
}

/// Characters of an answer that a message shows.
const SHOWN_CHARS: usize = 80;

/// Parses the whole text, or the last JSON in it: many agents write a sentence first, or a code
/// fence.
fn parse_json_answer<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
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
        assert_eq!(parse_builder_answer(" did it \n").summary, "did it");
        let text = r#"{"summary": "s", "claims": [{"criterion": "c", "met": true}],
            "findings": [{"id": "F1", "outcome": "could_not_fix", "note": "why"}], "usage": {}}"#;
        let answer = parse_builder_answer(text);
        assert_eq!(answer.findings[0].outcome, HandlingOutcome::CouldNotFix);
        assert!(answer.claims[0].met);
    }

    #[test]
    fn a_sentence_before_the_answer_does_no_harm() {
        let text =
            "Done:\n```json\n{\"answers\": [{\"finding\": \"F1\", \"outcome\": \"fixed\"}]}\n```\n";
        assert_eq!(
            parse_verifier_answers(text).unwrap().answers[0].finding,
            "F1"
        );
    }

    #[test]
    fn a_verifier_must_keep_to_the_form() {
        let text = r#"{"answers": [{"finding": "F1", "outcome": "refuted", "evidence": "e"}]}"#;
        assert_eq!(
            parse_verifier_answers(text).unwrap().answers[0].outcome,
            VerificationOutcome::Refuted
        );
        for bad in [
            "fine by me",
            "{}",
            r#"{"answers": [{"finding": "F1", "outcome": "maybe"}]}"#,
        ] {
            assert!(parse_verifier_answers(bad).is_err(), "{bad}");
        }
        let form = "the answer is not {\"answers\": [{finding, outcome, evidence}]}";
        assert_eq!(
            parse_verifier_answers("I have to see\nit first.").unwrap_err(),
            format!("{form}: it says \"I have to see it first.\"")
        );
        assert_eq!(
            parse_verifier_answers(" \n").unwrap_err(),
            format!("{form}: it is empty")
        );
        let error = parse_verifier_answers("{}").unwrap_err();
        assert!(error.contains("missing field `answers`"), "{error}");
    }
}
