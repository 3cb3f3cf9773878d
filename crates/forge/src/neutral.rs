//! Makes untrusted text harmless for a forge: it mentions nobody, links and closes nothing, gives no
//! command, and is no HTML.
//!
//! A zero-width space after the character that starts a reference is enough. It works in prose and
//! in code alike, so nothing here depends on reading Markdown exactly as each forge does. Agents
//! quote code, and a code span that we recognise and the forge does not would be a way around.

use crate::body::open_fence;

/// The zero-width space. `findings::clean` removes it, which makes the whole function idempotent.
pub const GAP: char = '\u{200b}';

/// Ends of paths after which a number refers to an issue or a change.
const REFERENCES: [&str; 6] = [
    "/issues",
    "/pull",
    "/pulls",
    "/merge_requests",
    "/work_items",
    "/discussions",
];

/// Returns the text without hidden characters, with a gap in everything that a forge acts on, and
/// with its code block closed.
pub fn neutralise(text: &str) -> String {
    let text = findings::clean(text);
    let mut out = String::with_capacity(text.len() + 16);
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        neutralise_line(line, &mut out);
    }
    // Whatever follows would be code, up to the end of the comment.
    if let Some((mark, length)) = open_fence(&out) {
        out.push('\n');
        out.extend(std::iter::repeat_n(mark, length));
    }
    out
}

/// Like [`neutralise`], on one line.
pub fn neutralise_line_of(text: &str) -> String {
    let mut out = String::new();
    neutralise_line(&findings::one_line(text), &mut out);
    out
}

fn neutralise_line(line: &str, out: &mut String) {
    let mut at_start = true;
    for (at, c) in line.char_indices() {
        out.push(c);
        let before = &line[..at];
        let next = line[at + c.len_utf8()..].chars().next();
        let is_word = next.is_some_and(|next| next.is_alphanumeric() || next == '_');
        let is_digit = next.is_some_and(|next| next.is_ascii_digit());
        let acts = match c {
            '@' => is_word,
            '#' | '&' | '%' | '$' => is_digit,
            // A change of GitLab, or an image that is fetched from anywhere.
            '!' => is_digit || next == Some('['),
            '~' => is_word || next == Some('"'),
            '<' => next.is_some_and(|next| next.is_alphabetic() || "/!?".contains(next)),
            '/' => (at_start && is_word) || (is_digit && ends_with_reference(before)),
            '-' => is_digit && ends_with_gh(before),
            _ => false,
        };
        if acts {
            out.push(GAP);
        }
        // A forge may read a command behind the signs of a quotation or a list.
        at_start = at_start && (c.is_whitespace() || c.is_ascii_digit() || ">-*+.)".contains(c));
    }
}

fn ends_with_reference(before: &str) -> bool {
    REFERENCES.iter().any(|end| before.ends_with(end))
}

fn ends_with_gh(before: &str) -> bool {
    let mut end = before.chars().rev();
    let word: (Option<char>, Option<char>) = (end.next(), end.next());
    matches!(word, (Some('h' | 'H'), Some('g' | 'G')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_in_hostile_text_acts() {
        for (hostile, active) in [
            ("cc @team and @org/team", "@t"),
            ("fixes #12", "#1"),
            ("closes GH-12", "GH-1"),
            ("resolves https://github.com/o/r/issues/12", "/issues/1"),
            ("see group/project!7", "!7"),
            ("/countersign accept F1 fine", "/c"),
            ("  > /approve", "/a"),
            ("1. /merge", "/m"),
            ("<!-- countersign:v1 finding=F1; -->", "<!"),
            ("<details><img src=x>", "<d"),
            ("![x](https://evil.example/x.png)", "!["),
            ("`\n\n@team `", "@t"),
            ("\\` @team \\`", "@t"),
            ("@\u{200b}team", "@t"),
            ("~\"a label\"", "~\""),
        ] {
            let text = neutralise(hostile);
            assert!(!text.contains(active), "{text:?}");
        }
    }

    #[test]
    fn a_block_of_code_that_is_left_open_ends_with_the_text() {
        assert_eq!(
            neutralise("see\n````rust\nfn f()"),
            "see\n````rust\nfn f()\n````"
        );
        assert_eq!(neutralise("```\nx\n```"), "```\nx\n```");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for fine in [
            "a / b, src/lib.rs:12, 50 % of it",
            "if a < b && c > d { x[1] }",
            "Use `Vec::new()` - it is 3 lines.",
        ] {
            assert_eq!(neutralise(fine), fine);
        }
    }

    proptest! {
        #[test]
        fn neutral_text_stays_neutral(text in "[@#!</a-z0-9 \\n>~&-]{0,60}") {
            let once = neutralise(&text);
            prop_assert_eq!(neutralise(&once), once.clone());
            let (shown, wanted) = (findings::clean(&once), findings::clean(&text));
            prop_assert!(shown.starts_with(&wanted), "{:?} of {:?}", shown, wanted);
            prop_assert_eq!(open_fence(&once), None);
            let bad = regex_free_search(&once);
            prop_assert!(bad.is_none(), "{:?} in {:?}", bad, once);
        }
    }

    /// Looks for an active reference without the code under test.
    fn regex_free_search(text: &str) -> Option<String> {
        let chars: Vec<char> = text.chars().collect();
        let pairs = chars.windows(2);
        let mut bad = pairs.filter(|pair| match pair[0] {
            '@' => pair[1].is_alphanumeric(),
            '#' => pair[1].is_ascii_digit(),
            '<' => pair[1].is_alphabetic() || pair[1] == '!' || pair[1] == '/',
            _ => false,
        });
        let pair = bad.next().map(|pair| pair.iter().collect());
        let command = text.lines().find(|line| {
            let mut rest = line.trim_start_matches(['>', ' ', '-']).chars();
            rest.next() == Some('/') && rest.next().is_some_and(char::is_alphanumeric)
        });
        pair.or_else(|| command.map(str::to_owned))
    }
}
