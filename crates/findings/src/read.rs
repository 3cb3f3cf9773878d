//! Reads whatever a reviewer answered.

use std::collections::BTreeMap;

use crate::finding::{Claim, Review, Way};

/// Reads a review. Text that is not one gives [`Claim::Unknown`] and no findings.
pub fn read(_text: &str) -> Review {
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
