//! Words of severity scales, and headings that consist of such a word.

use crate::severity::{Plainness, foreign_severity, is_unspaced_filler, unspaced_degree};

/// Certainty that a word is a severity and not an everyday word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DegreeStrength {
    /// Also an everyday word, or only a sign: a label only where findings are expected.
    Weak,
    Strong,
}

pub(super) fn scale_word(word: &str) -> Option<DegreeStrength> {
    match word.to_lowercase().as_str() {
        "critical" | "crit" | "blocker" | "blockers" | "blocking" | "high" | "medium"
        | "moderate" | "low" | "major" | "minor" | "severe" | "nit" | "nits" | "nitpick"
        | "nitpicks" | "trivial" | "p0" | "p1" | "p2" | "p3" | "p4" | "s0" | "s1" | "s2" | "s3"
        | "sev0" | "sev1" | "sev2" | "sev3" | "sev4" | "must-fix" | "should-fix"
        | "nice-to-have" | "non-blocking" | "suggestion" | "suggestions" => {
            Some(DegreeStrength::Strong)
        }
        "important" | "warning" | "warnings" | "info" | "informational" | "note" | "notes"
        | "error" | "errors" | "bug" | "bugs" | "optional" | "improvement" | "improvements"
        | "enhancement" | "question" | "cosmetic" | "advisory" | "significant" | "serious"
        | "observation" | "polish" => Some(DegreeStrength::Weak),
        lower => match foreign_severity(lower) {
            Some((_, Plainness::Scale)) => Some(DegreeStrength::Strong),
            Some((_, Plainness::Everyday)) => Some(DegreeStrength::Weak),
            None => unspaced_degree(lower).map(|_| DegreeStrength::Strong),
        },
    }
}

/// Maximum length of a severity heading. Callers try every part of a line, so without this limit a
/// long line would take quadratic time.
const HEADING_BYTES_MAX: usize = 400;

/// Returns the severity that a heading gives to everything under it, if it names nothing else:
/// `Critical Issues (Must Fix)`, `🟠 High Priority`, `Nitpick comments (16)`, `重大な問題（2件）`.
pub(super) fn degree_heading(heading: &str) -> Option<String> {
    if heading.len() > HEADING_BYTES_MAX {
        return None;
    }
    if let Some(phrase) = must_fix(heading).filter(|_| heading.split_whitespace().count() <= 3) {
        return Some(phrase);
    }
    let outer = without_brackets(heading);
    // After a dash, a bar or a slash comes a remark: `Critical — 2 issues`, `High / to discuss`.
    let mut parts = outer
        .split(['—', '–', '|', '·', '•'])
        .flat_map(|part| part.split(" / "))
        .flat_map(|part| part.split(" - "));
    let first = parts.next().unwrap_or_default();
    match degree_words(first) {
        HeadingWords::Degree(degree) => Some(degree),
        // `Findings — High`: only the severity comes after the noun.
        HeadingWords::Generic => match parts.next().map(degree_words) {
            Some(HeadingWords::Degree(degree)) => Some(degree),
            _ => must_fix(heading),
        },
        HeadingWords::Other => None,
    }
}

/// Meaning of the words of a heading.
enum HeadingWords {
    /// A severity and generic words.
    Degree(String),
    /// Only generic words.
    Generic,
    Other,
}

fn degree_words(text: &str) -> HeadingWords {
    let mut degree: Option<String> = None;
    let mut after_noun = false;
    let mut words = text
        .split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '\''))
        .map(|word| word.trim_matches('-'))
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        let lower = word.to_lowercase();
        let is_degree = scale_word(word).is_some()
            && !matches!(lower.as_str(), "bug" | "bugs" | "error" | "errors");
        if degree.is_none() && is_degree {
            let priority = words
                .next_if(|next| next.eq_ignore_ascii_case("priority"))
                .map(|next| format!(" {next}"))
                .unwrap_or_default();
            degree = Some(format!("{}{priority}", singular(word)));
        } else if let Some(prefix) = hyphenated(word).filter(|_| degree.is_none()) {
            degree = Some(singular(prefix));
        } else if degree.is_some() && after_noun && opens_a_clause(&lower) {
            // `Critical issues that block the merge`: the clause describes all of them.
            break;
        } else if scale_word(word).is_none() && !is_generic(&lower) {
            return HeadingWords::Other;
        }
        after_noun = is_plural_noun(&lower);
    }
    degree.map_or(HeadingWords::Generic, HeadingWords::Degree)
}

/// Reads the severity in `high-severity`, `medium-priority`, `low-risk`.
fn hyphenated(word: &str) -> Option<&str> {
    let (degree, noun) = word.split_once('-')?;
    let noun = noun.to_lowercase();
    let is_scale = matches!(
        noun.as_str(),
        "severity" | "priority" | "risk" | "impact" | "level"
    );
    (is_scale && scale_word(degree).is_some()).then_some(degree)
}

fn is_plural_noun(word: &str) -> bool {
    matches!(
        word,
        "issues"
            | "findings"
            | "problems"
            | "bugs"
            | "defects"
            | "concerns"
            | "vulnerabilities"
            | "comments"
            | "items"
    )
}

fn opens_a_clause(word: &str) -> bool {
    matches!(
        word,
        "that" | "which" | "to" | "requiring" | "needing" | "in" | "with" | "from" | "we" | "i"
    )
}

/// Removes brackets after the first word of a heading: counts, remarks.
fn without_brackets(heading: &str) -> String {
    let mut out = String::with_capacity(heading.len());
    let mut depth = 0_usize;
    for c in heading.chars() {
        let has_words = out.chars().any(char::is_alphanumeric);
        match c {
            '(' | '（' | '[' | '{' if has_words => depth += 1,
            ')' | '）' | ']' | '}' if depth > 0 => depth -= 1,
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
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

/// Returns the singular of a severity word: under `Suggestions` there is a suggestion.
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
        unspaced_degree(word).unwrap_or(word).to_owned()
    }
}

/// Returns whether a lower-case word of a heading is generic.
fn is_generic(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit())
        || is_unspaced_filler(word)
        || FOREIGN_GENERIC
            .split_ascii_whitespace()
            .any(|generic| generic == word)
        || matches!(
            word,
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

/// The nouns, prepositions and names of scales that headings of other languages are made of.
const FOREIGN_GENERIC: &str = "problem probleme befund befunde mängel punkte punkt priorität schweregrad stufe schwere \
    problème problèmes remarque remarques constat constats point points priorité gravité sévérité criticité niveau \
    problema problemas hallazgo hallazgos asunto asuntos prioridad severidad gravedad criticidad nivel \
    achado achados prioridade severidade gravidade criticidade nível problemi rilievi rilievo priorità gravità severità \
    probleem problemen bevinding bevindingen prioriteit ernst problemy uwagi priorytet waga poziom \
    проблема проблемы проблем замечание замечания замечаний ошибка ошибки ошибок приоритет уровень серьёзность \
    серьезность критичность важность проблеми зауваження пріоритет серйозність sorun sorunlar bulgu bulgular öncelik \
    problem fynd prioritet prioritas masalah vấn đề mức độ ưu tiên \
    de des du la le les los las el von mit der die das do da dos das di del della per pour para zu à a y e et und и \
    corriger beheben corregir corrigir gefunden trouvés encontrados encontradas trovati найдено в по";

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
