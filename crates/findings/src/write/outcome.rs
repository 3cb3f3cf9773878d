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

/// Returns everything in a review that asks for a change, as findings: its own, its blocking
/// issues, and the refusal itself if nothing else must be fixed. Otherwise a format without a
/// verdict would show a refusal as an empty, clean report.
pub fn reported_findings(review: &Review) -> Vec<Finding> {
    let own = review.findings.iter().filter(|finding| finding.actionable);
    let mut all: Vec<Finding> = own.cloned().collect();
    all.extend(review.blocking_issues.iter().map(blocking));
    let must_fix = all.iter().any(is_open_must_fix);
    match review.claim {
        ReviewClaim::ChangesRequested if !must_fix => all.push(refusal(review)),
        ReviewClaim::Unknown if all.is_empty() && review.way == ReviewFormat::Nothing => {
            all.push(rated(
                "Nothing in this text could be read as a review",
                Severity::High,
                "unreadable",
            ));
        }
        ReviewClaim::ChangesRequested | ReviewClaim::Approved | ReviewClaim::Unknown => {}
    }
    all
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
