//! Combines reviews before they are written in a format without a verdict.

use crate::clean::{TITLE_CHARS_MAX, one_line, shorten};
use crate::finding::{BlockingIssue, Finding, Review, ReviewClaim, ReviewFormat};
use crate::severity::{Rating, Severity};

/// Returns the verdict of these reviews. One refusal, one must-fix finding or one blocking issue
/// refuses. They approve only if all claims approve and no criterion is called unmet.
pub fn combined_verdict(reviews: &[&Review]) -> ReviewClaim {
    let refuses = |review: &&&Review| {
        review.claim == ReviewClaim::ChangesRequested
            || !review.blocking_issues.is_empty()
            || review.findings.iter().any(is_open_must_fix)
    };
    let approves = |review: &&Review| {
        review.claim == ReviewClaim::Approved && review.criteria.iter().all(|answer| answer.met)
    };
    if reviews.iter().any(|review| refuses(&review)) {
        ReviewClaim::ChangesRequested
    } else if !reviews.is_empty() && reviews.iter().all(approves) {
        ReviewClaim::Approved
    } else {
        ReviewClaim::Unknown
    }
}

/// Returns the findings and blocking issues that a review states, and nothing derived from its
/// verdict.
pub fn stated_findings(review: &Review) -> Vec<Finding> {
    let own = review.findings.iter().filter(|finding| finding.actionable);
    let blocking = review.blocking_issues.iter().map(blocking);
    own.cloned().chain(blocking).collect()
}

/// Returns everything in a review that asks for a change, as findings: its own, its blocking
/// issues, and the refusal itself if nothing else must be fixed. Otherwise a format without a
/// verdict would show a refusal as an empty, clean report.
pub fn reported_findings(review: &Review) -> Vec<Finding> {
    let mut all = stated_findings(review);
    let must_fix = all.iter().any(is_open_must_fix);
    match review.claim {
        ReviewClaim::ChangesRequested if !must_fix => all.push(refusal(review)),
        ReviewClaim::Unknown if all.is_empty() && review.format == ReviewFormat::Nothing => {
            all.push(rated(
                "Nothing in this text could be read as a review",
                Severity::High,
                "unreadable",
            ));
        }
        // An approval that does not count must not become an empty, clean report either.
        ReviewClaim::Unknown if !must_fix => {
            all.extend(withheld_remark(review).map(|remark| {
                let title = format!("The verdict is unclear: {}", one_line(remark));
                rated(&shorten(&title, TITLE_CHARS_MAX), Severity::High, "unclear")
            }));
        }
        ReviewClaim::ChangesRequested | ReviewClaim::Approved | ReviewClaim::Unknown => {}
    }
    all
}

/// Returns the remark that says why an approval in the text does not count, or why part of the text
/// was not read.
fn withheld_remark(review: &Review) -> Option<&String> {
    review.remarks.iter().find(|remark| {
        [
            "not counted as an approval",
            "not read",
            "was read",
            "not searched",
            "cut off",
        ]
        .iter()
        .any(|sign| remark.contains(sign))
    })
}

fn is_open_must_fix(finding: &Finding) -> bool {
    finding.actionable && finding.rating.severity.is_must_fix()
}

fn blocking(issue: &BlockingIssue) -> Finding {
    let title = shorten(&one_line(&issue.message), TITLE_CHARS_MAX);
    Finding {
        problem: (title != issue.message).then(|| issue.message.clone()),
        fix: issue.required_action.clone(),
        dimension: issue.dimension.clone(),
        ..rated(&title, Severity::Critical, "blocking issue")
    }
}

fn refusal(review: &Review) -> Finding {
    let reason = [&review.notes, &review.claim_text]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty());
    let title = match reason {
        Some(text) => format!("Changes requested: {}", one_line(text)),
        None => "Changes requested without a reason".to_owned(),
    };
    Finding {
        problem: reason.cloned(),
        ..rated(
            &shorten(&title, TITLE_CHARS_MAX),
            Severity::High,
            "rejection",
        )
    }
}

fn rated(title: &str, severity: Severity, word: &str) -> Finding {
    let rating = Rating {
        raw: Some(word.to_owned()),
        ..Rating::from(severity)
    };
    Finding::new(title, rating)
}
