//! Signs next to an approval: pictographs, smileys, votes and marks out of a total. Only a closed
//! list of them says nothing against a change; any other one makes an approval doubtful.
//!
//! A list of bad signs would never be complete: each version of Unicode adds some.

/// Pictographs that support a change or only decorate a heading.
const HARMLESS: &[char] = &[
    '✅', '☑', '✔', '✓', '🟢', '🎉', '🚀', '👍', '🙌', '✨', '💯', '🙏', '👏', '💪', '🎊', '🏆',
    '😀', '😃', '😄', '😊', '🙂', '❤', '💚', '📝', '📋', '📄', '📁', '📦', '📚', '📊', '📈', '🔍',
    '🔎', '🧪', '🧹', '💡', 'ℹ', '🤖', '🔧', '🛠', '⚙', '📌', '🏁', '▪', '▫', '■', '●', '▶', '►',
    '◆', '➜', '➡', '➤', '➔',
];

/// Pictographs that rate a list of minor findings.
const MINOR: &[char] = &['⚠', '🟡', '🔵', '⚪', '🔹', '💭', '📎', '💬'];

fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{203c}' | '\u{2049}' | '\u{2139}' | '\u{231a}'..='\u{23ff}' | '\u{25a0}'..='\u{27bf}'
        | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1f3fa}' | '\u{1f400}'..='\u{1faff}')
}

/// Returns whether a text has a pictograph that is not known to be harmless.
pub(super) fn has_doubtful(text: &str) -> bool {
    !text.is_ascii()
        && text
            .chars()
            .any(|c| is_pictograph(c) && !HARMLESS.contains(&c))
}

/// Like [`has_doubtful`], for a minor finding or the heading of a list of them.
pub(super) fn has_grave(text: &str) -> bool {
    !text.is_ascii()
        && text
            .chars()
            .any(|c| is_pictograph(c) && !HARMLESS.contains(&c) && !MINOR.contains(&c))
}

/// Returns whether a text without letters and digits says nothing: rules, harmless signs, dots.
pub(super) fn is_empty_talk(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || HARMLESS.contains(&c)
            || matches!(
                c,
                '.' | '!' | '。' | '！' | '*' | '_' | '-' | '—' | '–' | '\u{fe0f}' | '='
            )
    })
}

/// Returns whether a text has a vote (`-2`, `+1/-1`), a mark below its total (`2/10`) or a smiley
/// that is not glad.
pub(super) fn has_vote(text: &str) -> bool {
    // `:)` is not in it. A glad smiley supports the change, and is harmless.
    const SMILEYS: [&str; 9] = [":(", ":-(", ":'(", ":/", ":|", ">:", "</3", "(!)", "(?)"];
    text.split_whitespace().any(|word| {
        // Brackets and full stops around a vote do not change it.
        let bare = word.trim_matches(['(', ')', ',', '.', ';', '*', '_']);
        let signed = bare
            .strip_prefix(['+', '-', '−'])
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let short = bare.split_once('/').is_some_and(|(few, all)| {
            // The usual totals only: `2/3` is more often a path or a date.
            let usual = matches!(all, "5" | "10" | "20" | "100");
            usual && matches!((few.parse::<f64>(), all.parse::<f64>()), (Ok(few), Ok(all)) if few < all)
        });
        // `/s` marks the sentence before it as sarcasm.
        signed || short || bare == "/s" || SMILEYS.contains(&word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_signs_are_harmless() {
        for text in [
            "✅",
            "👍 Nice",
            "🎉",
            "plain",
            "→ see",
            "1. ▪ item",
            "é 漢字",
        ] {
            assert!(!has_doubtful(text), "{text}");
        }
        for text in [
            "❌",
            "⚠️",
            "🟡",
            "👎",
            "🤔",
            "☐",
            "✗",
            "★☆☆",
            "⏳",
            "🚨 now",
            "□",
        ] {
            assert!(has_doubtful(text), "{text}");
        }
        assert!(!has_grave("🟡 Minor") && has_grave("🔴 Minor"));
        assert!(
            is_empty_talk("✅ …".trim_end_matches('…'))
                && !is_empty_talk("(")
                && !is_empty_talk("👎")
        );
        for text in ["-2", "+1/-1", "2/10", "All fine :(", "pass -1", "LGTM /s"] {
            assert!(has_vote(text), "{text}");
        }
        for text in ["42/42 tests", "src/a.rs", "well-known", "a - b", "10/10"] {
            assert!(!has_vote(text), "{text}");
        }
    }
}
