//! Cuts a review to the policy's limits before it becomes a stored event. The most severe findings
//! are kept, and a remark counts the others.
//!
//! This runs before the event is stored, because a ticket is one document: an agent with ten
//! thousand findings would make every later read of the ticket slow.

use findings::Review;

use crate::policy::Policy;

/// Returns the review with every list cut to the policy's limit.
#[must_use]
pub fn truncate_review(mut review: Review, policy: &Policy) -> Review {
    let most = policy.limits.findings_max as usize;
    let left_out = review.findings.len().saturating_sub(most);
    if left_out > 0 {
        // Many minor findings must not push out the severe ones.
        let gravity = |finding: &findings::Finding| {
            let last = (!finding.actionable, policy.is_note(finding));
            (last, finding.rating.severity)
        };
        review.findings.sort_by_key(gravity);
        review.findings.truncate(most);
    }
    // Remarks are cut before the count is added, so that the count itself is never cut off.
    review.remarks.truncate(most);
    if left_out > 0 {
        let remark = format!("{left_out} more findings were not kept");
        review.remarks.push(remark);
    }
    review.blocking_issues.truncate(most);
    review.criteria.truncate(most);
    review.earlier.truncate(most);
    review
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_stay_and_the_rest_is_counted() {
        let finding = |n: usize| {
            let severity = if n == 999 { "critical" } else { "low" };
            serde_json::json!({"severity": severity, "file": format!("f{n}.rs"), "line": n + 1,
                "title": format!("Thing {n} of f{n}"), "problem": format!("p{n}")})
        };
        let findings: Vec<_> = (0..1_000).map(finding).collect();
        let answer = serde_json::json!({"verdict": "changes_requested", "findings": findings});
        let review = findings::read(&answer.to_string());
        assert_eq!(review.findings.len(), 1_000);
        let kept = truncate_review(review.clone(), &Policy::default());
        assert_eq!(kept.findings.len(), 200);
        assert_eq!(kept.findings[0].title, "Thing 999 of f999");
        assert!(
            kept.remarks
                .contains(&"800 more findings were not kept".to_owned())
        );
        let mut few = review;
        few.findings.truncate(200);
        assert_eq!(truncate_review(few.clone(), &Policy::default()), few);
    }
}
