//! The words of severity scales, and headings that are such a word alone.

/// How plainly a word is a degree of severity and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plain {
    /// An everyday word too, or a mere sign: a label only where findings are expected.
    Weak,
    Strong,
}

pub(super) fn scale_word(word: &str) -> Option<Plain> {
    match word.to_lowercase().as_str() {
        "critical" | "crit" | "blocker" | "blockers" | "blocking" | "high" | "medium"
        | "moderate" | "low" | "major" | "minor" | "severe" | "nit" | "nits" | "nitpick"
        | "nitpicks" | "trivial" | "p0" | "p1" | "p2" | "p3" | "p4" | "s0" | "s1" | "s2" | "s3"
        | "sev0" | "sev1" | "sev2" | "sev3" | "sev4" | "must-fix" | "should-fix"
        | "nice-to-have" | "non-blocking" | "suggestion" | "suggestions" | "crítico"
        | "crítica" | "críticos" | "críticas" | "alto" | "alta" | "medio" | "média" | "médio"
        | "media" | "bajo" | "baja" | "baixo" | "baixa" | "严重" | "高危" | "中危" | "低危"
        | "高" | "中" | "低" | "chặn" | "kritisch" | "hoch" | "mittel" | "niedrig" | "致命"
        | "重大" => Some(Plain::Strong),
        "important" | "warning" | "warnings" | "info" | "informational" | "note" | "notes"
        | "error" | "errors" | "bug" | "bugs" | "optional" | "improvement" | "improvements"
        | "enhancement" | "question" | "cosmetic" | "advisory" | "significant" | "serious"
        | "建议" | "警告" | "sugerencia" | "observation" | "polish" => Some(Plain::Weak),
        _ => None,
    }
}

/// The degree that a heading gives to everything under it, if it is a degree alone:
/// `Critical Issues (Must Fix)`, `🟠 High Priority`, `Nitpick comments (16)`.
pub(super) fn degree_heading(heading: &str) -> Option<String> {
    if let Some(phrase) = must_fix(heading).filter(|_| heading.split_whitespace().count() <= 3) {
        return Some(phrase);
    }
    let mut degree: Option<String> = None;
    let bare = heading.split(['—', '–']).next().unwrap_or(heading);
    let mut words = bare
        .split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '\''))
        .map(|word| word.trim_matches('-'))
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        let known = scale_word(word).is_some();
        if degree.is_none()
            && known
            && !matches!(
                word.to_lowercase().as_str(),
                "bug" | "bugs" | "error" | "errors"
            )
        {
            let priority = words
                .peek()
                .is_some_and(|next| next.eq_ignore_ascii_case("priority"));
            let tail = if priority {
                words
                    .next()
                    .map(|next| format!(" {next}"))
                    .unwrap_or_default()
            } else {
                String::new()
            };
            degree = Some(format!("{}{tail}", singular(word)));
        } else if !known && !is_generic(word) {
            return None;
        }
    }
    degree.or_else(|| must_fix(heading))
}

fn must_fix(heading: &str) -> Option<String> {
    let lower = heading.to_lowercase();
    let at = [
        "must fix",
        "should fix",
        "nice to have",
        "nên sửa",
        "ghi nhận",
    ]
    .iter()
    .find_map(|phrase| lower.find(phrase).map(|at| (at, phrase.len())));
    at.and_then(|(at, len)| heading.get(at..at + len))
        .map(str::to_owned)
}

/// Degrees are named in the singular: under `Suggestions` stands a suggestion.
pub(super) fn singular(word: &str) -> String {
    let lower = word.to_lowercase();
    let plural = [
        "suggestions",
        "warnings",
        "nits",
        "nitpicks",
        "improvements",
        "blockers",
        "notes",
        "bugs",
        "errors",
    ]
    .contains(&lower.as_str());
    if plural {
        word[..word.len() - 1].to_owned()
    } else {
        word.to_owned()
    }
}

fn is_generic(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit())
        || matches!(
            word.to_lowercase().as_str(),
            "issue"
                | "issues"
                | "finding"
                | "findings"
                | "problem"
                | "problems"
                | "comment"
                | "comments"
                | "item"
                | "items"
                | "priority"
                | "severity"
                | "level"
                | "concern"
                | "concerns"
                | "recommendation"
                | "recommendations"
                | "change"
                | "changes"
                | "must"
                | "should"
                | "fix"
                | "fixes"
                | "nice"
                | "to"
                | "have"
                | "and"
                | "or"
                | "the"
                | "a"
                | "fixed"
                | "resolved"
                | "deferred"
                | "before"
                | "merge"
                | "merging"
                | "clarifications"
                | "found"
                | "identified"
                | "posted"
                | "potential"
                | "remaining"
                | "open"
                | "new"
                | "all"
                | "of"
                | "for"
                | "in"
                | "this"
                | "review"
                | "code"
                | "other"
                | "non"
                | "blocking"
                | "consider"
                | "required"
                | "requires"
                | "action"
                | "only"
                | "could"
                | "followup"
                | "follow-ups"
                | "follow-up"
                | "clarification"
                | "if"
                | "time"
                | "permits"
                | "none"
                | "total"
                | "s"
                | "vulnerabilities"
                | "gaps"
                | "defects"
                | "risks"
                | "risk"
                | "outside"
                | "diff"
                | "range"
                | "later"
                | "now"
                | "be"
                | "addressed"
                | "not"
                | "out"
                | "out-of-scope"
                | "scope"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_that_is_a_degree_alone_rates_what_is_under_it() {
        assert_eq!(
            degree_heading("Critical Issues (Must Fix)").as_deref(),
            Some("Critical")
        );
        assert_eq!(
            degree_heading("🟠 High Priority").as_deref(),
            Some("High Priority")
        );
        assert_eq!(
            degree_heading("Nitpick Comments (16 findings)").as_deref(),
            Some("Nitpick")
        );
        assert_eq!(
            degree_heading("💡 Suggestions").as_deref(),
            Some("Suggestion")
        );
        assert_eq!(degree_heading("Minor Anti-Patterns"), None);
        assert_eq!(degree_heading("Suggestion: Missing link"), None);
        assert_eq!(degree_heading("Findings"), None);
    }
}
