//! Labels in front of a sentence: `[P1]`, `**HIGH**:`, `🔴 Critical —`, `(minor)`.

use crate::severity::Severity;

/// Splits a leading severity label off a text: the word as written, and the rest.
pub(super) fn leading_severity(text: &str) -> (Option<String>, &str) {
    let trimmed = text.trim_start();
    for (open, close) in [('[', ']'), ('(', ')'), ('【', '】')] {
        if let Some(inner) = trimmed.strip_prefix(open)
            && let Some(end) = inner.find(close).filter(|&end| end < 40)
            && Severity::of(&inner[..end]).is_some()
        {
            return (
                Some(inner[..end].trim().to_owned()),
                inner[end + close.len_utf8()..].trim_start_matches([':', '-', '–', '—', ' ', '*']),
            );
        }
    }
    if let Some(end) = trimmed
        .find([':', '–', '—'])
        .or_else(|| trimmed.find(" - "))
        .filter(|&end| end > 0 && end < 32)
    {
        let label = trimmed[..end].trim_matches(['*', '_', ' ', '`']);
        let sign = trimmed[end..].chars().next().map_or(1, char::len_utf8);
        if label.split_whitespace().count() <= 2 && Severity::of(label).is_some() {
            return (
                Some(label.to_owned()),
                trimmed[end + sign..].trim_start_matches(['*', '-', ' ', ':']),
            );
        }
    }
    (None, text)
}
