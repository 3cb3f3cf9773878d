//! Determines the topic of a heading: findings, praise, earlier rounds, or none of these.

use std::sync::LazyLock;

use regex::Regex;

use super::degree;
use super::label;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// Findings of one severity.
    Degree(String),
    /// Findings.
    Findings,
    /// State of the findings of earlier rounds.
    Earlier,
    /// Praise, summary, verdict, method: never findings, whatever the layout.
    Aside,
    Open,
}

static EARLIER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)
        \b(?:prior|previous|earlier|past|last)[\s-]+(?:code[\s-]+)?(?:reviews?|rounds?|findings?|issues?|feedback|fix(?:es)?|concerns?|blockers?|comments?)\b
      | \b(?:round|r|pass|iteration|review)[\s-]*\#?[0-9]+\b.*\b(?:fix(?:es|ed)?|verif\w*|disposition\w*|resol\w*|status|issues?|findings?|follow[\s-]?ups?|items?|blockers?|address\w*|check)\b
      | \b(?:verif\w*|status|disposition\w*|re-?check|review|resolution)\s+(?:of|for)\b.*\b(?:fix(?:es)?|findings?|round|prior|previous|issues?)\b
      | \b(?:fix(?:es)?|findings?|issues?)\s+(?:verification|disposition\w*|status|resolution|follow[\s-]?up|recheck|closure)\b
      | \bdispositions?\b | \bpreviously\b | \b(?:resolved|fixed|closed|addressed)\b.*\b(?:round|previous|prior|earlier)\b | \bcarry[\s-]?over\b | \bcarried\s+(?:over|forward)\b | \balready\s+(?:fixed|resolved|addressed)\b | \bsince\s+(?:the\s+)?last\s+round\b",
    )
    .ok()
});

static ASIDE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:the\s+|overall\s+|executive\s+|final\s+|review\s+|code\s+|pr\s+|general\s+|issues?\s+|findings?\s+|ac\s*/\s*task\s+|quick\s+|detailed\s+|test(?:ing)?\s+|suggested\s+|proposed\s+|some\s+|my\s+|key\s+|other\s+)*
        (?: summary\b | overview\b | context\b | scope\b | background\b | verdict | decision | recommendation | recommended | conclusion | outcome | approval | sign[\s-]?off
          | verification\b | validation\b | acceptance | criteria\b | checklist\b | what\s+(?:was|i|is|went|works|checks|looks|has|did) | follow[\s-]?ups?\b | next\s+steps? | legend\b | metadata\b | method
          | notes?\s*$ | references?\s*$ | appendix | statistic | metrics?\b | files?\s+(?:changed|reviewed|modified|examined|list) | details\s*$ | changes?\s*(?:made|reviewed|summary)?\s*$ | walkthrough | proposed\s+fix
          | prompt\s+for | strengths?\b | strong\s+points | positive | praise | highlights?\b | good\b | pros\b | well\s+done | commendation | what's\s+good | verified\b | passed\b | results?\s*$ | tests?\s*$ | test\s+(?:results|plan|coverage\s+summary)
          | suggested\s+(?:fixes|next|order|action) | action\s+(?:items|plan) | implementation\s+(?:plan|order|approach) | rationale\s*$ | invocation | success\s+criteria | committable | before\s*$ | after\s*$ | examples?\s*$ | solution\s+walkthrough
          | suggestion\s+importance | requirements?\s+(?:analysis|check|coverage|traceability) | traceability | assumptions | limitations | confidence | no\s+issues | story\s+status | learnings | additional\s+context | tools?\s+used | commands?\s+run | evidence\s*$ | review\s+(?:details|info|profile|metadata)
          | 总结 | 總結 | 摘要 | 结论 | 結論 | 概述 | 概要 | 优点 | 優點 | 执行摘要 | まとめ | 総評 | 良い点 | 要約 | 요약 | 결론 | 총평 | 잘된 | 장점
          | resumen | conclusi | veredicto | resumo | zusammenfassung | fazit | résumé | synthèse | points\s+forts | stärken | puntos\s+fuertes | pontos\s+fortes | riepilogo | sommario | samenvatting | podsumowanie | итог | резюме | вывод | сводка | сильные\s+стороны | підсумок | özet )",
    )
    .ok()
});

static FINDINGS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)\b(?:findings?|issues?|problems?|bugs?|concerns?|defects?|violations?|vulnerabilit\w+|blockers?|code\s+suggestions|actionable\s+comments?|review\s+comments?|inline\s+comments?|hallazgos|problemas|achados|probleme|befunde|mängel|phát\s+hiện|problèmes|constats|remarques|problemi|rilievi|problemen|bevindingen|problemy|uwagi|проблем\w*|замечани\w*|ошибк\w*|зауваження|sorunlar|bulgular)\b | 发现 | 發現 | 问题 | 問題 | 指摘 | 缺陷 | 欠陥 | 문제 | 이슈 | 지적 | 결함",
    )
    .ok()
});

fn says(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

/// Maximum length of a heading that has a topic.
const HEADING_BYTES_MAX: usize = 400;

/// Returns the topic of a heading.
pub(super) fn topic(heading: &str) -> Topic {
    if heading.len() > HEADING_BYTES_MAX {
        return Topic::Open;
    }
    let (number, rest) = label::split_ordinal(heading);
    let bare = rest
        .trim_start_matches(|c: char| !c.is_alphanumeric())
        .trim_end_matches([':', '：', '*', ' ']);
    let new = bare
        .split_whitespace()
        .any(|word| word.eq_ignore_ascii_case("new"));
    if (says(&EARLIER, bare) || is_all_fixed(bare)) && !new {
        return Topic::Earlier;
    }
    if rest.contains('✅') && number.is_none() && !says(&FINDINGS, bare) {
        return Topic::Aside;
    }
    if bare.to_lowercase().contains("focus areas for review") {
        return Topic::Findings;
    }
    if says(&ASIDE, bare) {
        return Topic::Aside;
    }
    if let Some(degree) = degree::degree_heading(bare) {
        return Topic::Degree(degree);
    }
    // A severity followed by words names one finding, not a list.
    if label::leading_label(bare).is_some_and(|label| !label.rest.is_empty()) {
        return Topic::Open;
    }
    if says(&FINDINGS, bare)
        && number.is_none()
        && bare.split_whitespace().count() <= 8
        && !is_denial(bare)
    {
        return Topic::Findings;
    }
    Topic::Open
}

/// Returns the topic that a sentence before a list announces: findings, or the state of earlier
/// ones.
pub(super) fn topic_of_lead(sentence: &str) -> Option<Topic> {
    let words = sentence.split_whitespace().count();
    if words > LEAD_WORDS_MAX || is_denial(sentence) || is_order(sentence) {
        return None;
    }
    let findings = says(&FINDINGS, sentence) || says(&TO_FIX, sentence);
    if (findings && is_settled(sentence)) || is_all_fixed(sentence) || says(&EARLIER, sentence) {
        return Some(Topic::Earlier);
    }
    degree::degree_heading(sentence)
        .map(Topic::Degree)
        .or_else(|| findings.then_some(Topic::Findings))
}

static ALL_FIXED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)\b(?:all|both|each|every\w*|these|those|they|following|two|three|four|five|six|seven|eight|nine|ten|[0-9]{1,3})\b
          [^.!?]{0,60}\b(?:is|are|was|were|been|now|as|look\w*|confirmed|verified)\b[^.!?]{0,24}\b(?:fixed|resolved|addressed|closed|corrected|done)\b
        | ^(?:now\s+)?(?:fixed|resolved|addressed|verified\s+fix(?:ed|es))(?:\s+(?:issues?|findings?|items?|since\b.*|in\s+this\s+round|\(?[0-9]{1,3}\)?))*$",
    )
    .ok()
});

/// Returns whether a sentence or heading announces settled findings: `All five are fixed`.
fn is_all_fixed(text: &str) -> bool {
    says(&ALL_FIXED, text) && !says(&UNSETTLED, text) && !says(&EXCEPTION, text)
}

static EXCEPTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:but|except|unless|until|if|once|when|before|not|n't|still|however)\b")
        .ok()
});

/// Returns whether a label closes a list of findings and is not a finding itself.
pub(super) fn is_closing_word(label: &str) -> bool {
    says(&CLOSING, label)
}

static CLOSING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?xi)^[^\w]*(?:overall|final)?\s*(?:summary|overview|verdict|decision|recommendation\w*|recommended\s+action|conclusion\w*|outcome|approval|sign[\s-]?off|next\s+steps?|follow[\s-]?ups?|notes?|references?|legend|strengths?|positives?|praise|highlights?|good|pros|confidence|results?|tests?|context|scope|background|总结|摘要|结论|まとめ|結論|요약|결론|resumen|conclusi\S*|resumo|zusammenfassung|fazit|résumé)\W*$").ok()
});

/// Returns whether a sentence is an instruction to a reviewer: `List all findings as`.
fn is_order(sentence: &str) -> bool {
    const ORDERS: [&str; 18] = [
        "list",
        "report",
        "include",
        "output",
        "write",
        "provide",
        "format",
        "use",
        "return",
        "describe",
        "flag",
        "look",
        "check",
        "identify",
        "categorize",
        "classify",
        "focus",
        "review",
    ];
    let first = sentence
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_lowercase();
    ORDERS.contains(&first.as_str())
}

/// Maximum number of words in a sentence that announces a list.
const LEAD_WORDS_MAX: usize = 18;

static TO_FIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:must|should|need(?:s)?\s+to|please)\s+(?:be\s+)?(?:fix(?:ed)?|address(?:ed)?|change[d]?|correct(?:ed)?)\b|\brequired\s+changes\b|\bbefore\s+(?:merge|merging|approval)\b").ok()
});

/// Returns whether a text denies findings: `No issues found`, `Other changes (no issues)`.
fn is_denial(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower.starts_with("no ") || lower.contains("(no ") || lower.contains("without issues")
}

static NOTHING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^[\s*_`-]*(?: none\b | n/a\b | nothing\b | nil\b | 无[。\s]*$ | 没有 | ninguno | nenhum | keine\b
          | no\s+(?:(?:new|further|other|additional|remaining|open|outstanding|critical|major|minor|high|medium|low|important|blocking|significant|security|serious|must-fix|severity|performance|correctness|discrete|actionable|unresolved|known|or|and|,)\s*)*
            (?:issues?|findings?|problems?|concerns?|bugs?|blockers?|defects?|comments?|suggestions?|regressions?|changes?\s+(?:needed|required|requested)|action\s+(?:needed|required))\b )",
    )
    .ok()
});

/// Returns whether a text means that there is nothing to report.
pub(super) fn is_nothing(text: &str) -> bool {
    says(&NOTHING, text)
        && (text.chars().count() < 160
            || text
                .trim_start_matches(['*', ' '])
                .to_lowercase()
                .starts_with("none"))
}

static PRAISE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^[\s*_]*(?: (?:the\s+)?(?:code|changes?|review|tests?|implementation|fix|pr|patch)\s+(?:correctly|properly|looks?\s+good|is\s+(?:clean|solid|correct|well)|follows|adheres) | looks\s+good | lgtm )",
    )
    .ok()
});

/// Returns whether a text is praise. Only its beginning counts.
pub(super) fn is_praise(text: &str) -> bool {
    let bare = text.trim_start_matches(['*', '_', ' ']);
    bare.starts_with(['✅', '✓', '👍', '🎉', '✔']) || says(&PRAISE, bare)
}

static NO_ACTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^[\s*_]*(?:no\s+(?:immediate\s+|further\s+|code\s+)?(?:fix|change|changes|action)\s+(?:is\s+|are\s+)?(?:needed|required|necessary)|none\b|n/a\b|nothing\s+to\s+do|acceptable\s+as[\s-]is)").ok()
});

/// Returns whether a fix means that none is needed.
pub(super) fn asks_nothing(fix: &str) -> bool {
    says(&NO_ACTION, fix)
}

static SETTLED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?xi)(?:^|[\s(\[*,—–-])(?:(?:already|verified|now)\s+)?(?:fixed|resolved|addressed|done|closed|false[\s_-]positive|retracted|wontfix|won't\s+fix|not\s+applicable|dismissed|implemented)(?:$|[\s)\]*.,;:—–])").ok()
});

static UNSETTLED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:not|partially|partly|in\s*complete\w*|never|must\s+be|should\s+be|to\s+be|needs?\s+to\s+be|un)\s*(?:yet\s+)?(?:fixed|resolved|addressed|done|closed|implemented)").ok()
});

/// Matches an incomplete fix: `Fixed, but …`, `All resolved except …`.
static SETTLED_BUT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:fixed|resolved|addressed|done|closed|implemented)\b.{0,80}?(?:\b(?:but|except|unless|until|still|however|not)\b|n't\b)").ok()
});

/// Returns whether a short mark means that the finding is settled.
pub(super) fn is_settled(mark: &str) -> bool {
    (says(&SETTLED, mark) || mark.contains('✅'))
        && !says(&UNSETTLED, mark)
        && !says(&SETTLED_BUT, mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_sorted_by_what_they_announce() {
        assert_eq!(
            topic("Critical Issues (Must Fix)"),
            Topic::Degree("Critical".into())
        );
        assert_eq!(topic("Verification of Round 1 Fixes"), Topic::Earlier);
        assert_eq!(topic("Prior-review finding check"), Topic::Earlier);
        assert_eq!(topic("Round 2 New Findings"), Topic::Findings);
        assert_eq!(topic("Issues Summary"), Topic::Aside);
        assert_eq!(topic("Summary: 2 critical, 4 minor"), Topic::Aside);
        assert_eq!(topic("What checks out"), Topic::Aside);
        assert_eq!(topic("Potential Issues"), Topic::Findings);
        assert_eq!(topic("发现的问题"), Topic::Findings);
        assert_eq!(topic("Channel scope for race resources"), Topic::Open);
    }

    #[test]
    fn nothing_to_report_is_no_finding() {
        for text in [
            "None.",
            "None found.",
            "N/A",
            "No issues found.",
            "No critical or major findings",
            "**None**",
            "No new findings. All verified.",
        ] {
            assert!(is_nothing(text), "{text}");
        }
        for text in [
            "No tests for the parser",
            "No end-to-end test for tokens",
            "Nonexistent path is used",
            "Noisy log",
        ] {
            assert!(!is_nothing(text), "{text}");
        }
    }
}
