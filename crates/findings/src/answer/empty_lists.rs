//! Removes the empty lists of a findings document: `## Critical Issues (Must Fix)` with nothing below
//! it but `None.`. Such a heading has the words of a demand and says that there is none.
//!
//! Both lists below are closed, because what is removed is not searched for a reservation.

use std::borrow::Cow;

/// Headings of lists, without their mark and in lower case.
const HEADINGS: [&str; 17] = [
    "critical issues (must fix)",
    "important issues (should fix)",
    "minor issues (nice to have)",
    "critical issues",
    "important issues",
    "minor issues",
    "blocking issues",
    "must fix",
    "should fix",
    "nice to have",
    "critical",
    "high",
    "medium",
    "low",
    "findings",
    "issues",
    "review findings",
];

/// Lines that say that a list is empty, without marks and in lower case.
const NOTHING: [&str; 8] = [
    "",
    "none",
    "none found",
    "n/a",
    "nothing",
    "no issues",
    "no issues found",
    "no findings",
];

/// Returns the text without its empty lists.
pub(super) fn without_empty_lists(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let below = lines[at + 1..].iter();
        let body = below.take_while(|line| !line.trim_start().starts_with('#'));
        let body: Vec<&&str> = body.collect();
        if is_list_heading(lines[at]) && body.iter().all(|line| says_nothing(line)) {
            at += 1 + body.len();
        } else {
            kept.push(lines[at]);
            at += 1;
        }
    }
    if kept.len() == lines.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(kept.join("\n"))
    }
}

fn is_list_heading(line: &str) -> bool {
    let bare = line.trim_start_matches('#');
    let title = bare.trim().trim_end_matches(':').to_lowercase();
    let level = line.len() - bare.len();
    (1..=6).contains(&level) && HEADINGS.contains(&title.as_str())
}

fn says_nothing(line: &str) -> bool {
    let bare = line.trim_matches(|c: char| c.is_whitespace() || "-*_.".contains(c));
    NOTHING.contains(&bare.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::without_empty_lists;

    #[test]
    fn empty_lists_are_removed_and_nothing_else() {
        let document = "# Round 3\n\n## Critical Issues (Must Fix)\n\nNone.\n\n## Findings:\n- _none_\n## Summary\n\nFine.\n";
        assert_eq!(
            without_empty_lists(document),
            "# Round 3\n\n## Summary\n\nFine."
        );
        for same in [
            "## Critical Issues (Must Fix)\n\n1. It crashes\n",
            "## Must fix\nNone of the tests pass.\n",
            "## Must fix before the merge\n",
            "Must fix\n",
            "## Issues\nnone\n\nBut do not merge.\n",
            "",
        ] {
            assert_eq!(without_empty_lists(same), same);
        }
    }
}
