//! Checks a review against the policy before it becomes an event. An approval that names a must-fix
//! finding is not an approval.
//!
//! The claim is corrected before the event is stored, and not in the transition: the log then has
//! the claim that counted, and replay under later rules changes nothing.

use findings::{Review, ReviewClaim};

use crate::advance::review::{names_must_fix, unusable_reason};
use crate::policy::Policy;

/// Returns the review with its claim corrected by the policy.
#[must_use]
pub fn downgrade_contradicted_approval(mut review: Review, policy: &Policy) -> Review {
    // Only approvals are checked. A refusal that contradicts itself still refuses.
    if review.claim != ReviewClaim::Approved {
        return review;
    }
    let unmet = review.criteria.iter().filter(|answer| !answer.met).count();
    // Not `names_must_fix`: here praise and remarks count as well. A grave defect that "asks for
    // nothing" is the usual way to talk a reviewer into a yes.
    let grave = |finding: &findings::Finding| {
        policy.must_fix.contains(&finding.rating.severity) && !policy.is_note(finding)
    };
    // The clearest contradiction goes first, because the remark names only one.
    let (claim, remark) = if names_must_fix(&review, policy) {
        (
            ReviewClaim::ChangesRequested,
            "says approve and names what must be fixed; read as a refusal",
        )
    } else if unmet > 0 {
        (
            ReviewClaim::ChangesRequested,
            "says approve and calls criteria unmet; read as a refusal",
        )
    } else if review.findings.iter().any(grave) {
        (
            ReviewClaim::Unknown,
            "says approve and lists a grave finding that asks for nothing; read as no verdict",
        )
    // Findings that were cut off were not read, and one of them may have to be fixed.
    } else if review.findings.len() > policy.limits.findings_max as usize {
        (
            ReviewClaim::Unknown,
            "lists more findings than are kept; read as no verdict",
        )
    } else {
        return review;
    };
    review.claim = claim;
    review.remarks.push(remark.to_owned());
    review
}

/// Whether a verdict can be based on the review: it approves, refuses, or names a must-fix finding.
pub fn is_usable(review: &Review, policy: &Policy) -> bool {
    unusable_reason(review, policy).is_none()
}

#[cfg(test)]
mod tests {
    use findings::{BlockingIssue, CriterionAnswer, Finding, Severity};

    use super::*;

    fn approving(findings: Vec<Finding>) -> Review {
        Review::new(ReviewClaim::Approved, findings)
    }

    fn weighs(review: Review) -> ReviewClaim {
        downgrade_contradicted_approval(review, &Policy::default()).claim
    }

    #[test]
    fn an_approval_with_something_that_must_be_fixed_is_a_refusal() {
        for severity in Severity::ALL {
            let claim = weighs(approving(vec![Finding::new("A thing", severity.into())]));
            let must = Policy::default().must_fix.contains(&severity);
            let expected = if must {
                ReviewClaim::ChangesRequested
            } else {
                ReviewClaim::Approved
            };
            assert_eq!(claim, expected, "{severity:?}");
        }
        let mut blocked = approving(Vec::new());
        blocked.blocking_issues.push(BlockingIssue {
            dimension: None,
            message: "no tests".to_owned(),
            required_action: None,
        });
        assert_eq!(weighs(blocked), ReviewClaim::ChangesRequested);
        let mut unmet = approving(Vec::new());
        unmet.criteria.push(CriterionAnswer {
            criterion: "1".to_owned(),
            met: false,
            evidence: None,
        });
        assert_eq!(weighs(unmet), ReviewClaim::ChangesRequested);
    }

    #[test]
    fn what_was_cut_or_calls_itself_harmless_is_no_approval() {
        let idle = Finding {
            actionable: false,
            ..Finding::new(
                "Passwords are logged, no fix needed",
                Severity::Critical.into(),
            )
        };
        assert_eq!(weighs(approving(vec![idle])), ReviewClaim::Unknown);
        let many = (0..201).map(|n| Finding::new(&format!("Thing {n}"), Severity::Low.into()));
        assert_eq!(weighs(approving(many.collect())), ReviewClaim::Unknown);
        assert_eq!(weighs(approving(Vec::new())), ReviewClaim::Approved);
    }
}
