//! What reviews amount to together, before they are written in a form that has no verdict.

use crate::clean::{TITLE_CHARS_MAX, one_line, shorten};
use crate::finding::{BlockingIssue, Finding, Review, ReviewClaim, ReviewFormat};
use crate::severity::{Rating, Severity};

/// The verdict of these reviews by our own rule: one refusal, one finding that must be fixed or one
/// blocking issue refuses; only claims that all approve, and no criterion that is called unmet,
/// approve.
pub fn verdict(reviews: &[&Review]) -> ReviewClaim {
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

/// Everything of a review that asks for something, as findings: its own, its blocking issues, and
/// the refusal itself where nothing else says that there is something to fix. A form without a
/// verdict would otherwise show a refusal as an empty, that is a clean, report.
pub fn reported(review: &Review) -> Vec<Finding> {
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
            ))
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
    let said = [&review.notes, &review.claim_text]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty());
    let title = match said {
        Some(text) => format!("Changes requested: {}", one_line(text)),
        None => "Changes requested without a reason".to_owned(),
    };
    Finding {
        problem: said.cloned(),
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
