use super::*;

fn all(words: &[&str], severity: Severity) {
    for word in words {
        assert_eq!(Severity::from_word(word), Some(severity), "{word}");
    }
}

#[test]
fn every_scale_of_the_seeds_maps_onto_ours() {
    all(
        &["CRITICAL", "critical", "Critical Issues (Must Fix)"],
        Severity::Critical,
    );
    all(
        &[
            "HIGH",
            "MAJOR",
            "major",
            "Important",
            "Important Issues (Should Fix)",
            "error",
        ],
        Severity::High,
    );
    all(&["MEDIUM", "warning"], Severity::Medium);
    all(
        &["LOW", "MINOR", "Minor Issues (Nice to Have)"],
        Severity::Low,
    );
    all(&["SUGGESTION", "info"], Severity::Suggestion);
}

#[test]
fn other_reviewers_scales_are_known_too() {
    all(
        &["[P0]", "blocker", "🔴 Critical", "BLOCKING", "严重"],
        Severity::Critical,
    );
    all(&["P1", "🟠", "must-fix", "alta"], Severity::High);
    all(
        &["P2", "🟡 Medium", "should-fix", "média", "mittel"],
        Severity::Medium,
    );
    all(&["P3", "note", "non-blocking", "convention"], Severity::Low);
    all(
        &["nit", "💡", "nice-to-have", "Nitpick"],
        Severity::Suggestion,
    );
}

#[test]
fn an_unknown_word_counts_as_high_and_is_flagged() {
    let rating = Rating::of(Some("spicy"), true);
    assert_eq!(rating.severity, Severity::High);
    assert!(rating.unknown_word);
    assert_eq!(rating.raw.as_deref(), Some("spicy"));
}

#[test]
fn no_word_is_high_unless_the_reviewer_approves() {
    assert_eq!(Rating::of(None, false).severity, Severity::High);
    assert_eq!(Rating::of(Some("  "), true).severity, Severity::Medium);
    assert!(!Rating::of(None, false).unknown_word);
}
