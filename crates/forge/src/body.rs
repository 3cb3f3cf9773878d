//! Cuts a text to the size that a forge accepts, at a paragraph, with every code fence closed.

/// Maximum number of characters in a body, for GitHub, Forgejo and Gitea.
pub const BODY_CHARS_MAX: usize = 65_536;
/// Maximum number of characters in the description of a commit status.
pub const STATUS_CHARS_MAX: usize = 140;

/// A code fence: its character and its length.
type FenceMark = (char, usize);

/// Returns the text if it fits, or else its beginning, cut at a paragraph, with the open code fence
/// closed and `notice` as the last paragraph. The result never has more than `chars_max` characters,
/// unless the notice alone has.
pub fn cut_body(text: &str, chars_max: usize, notice: &str) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let budget = chars_max.saturating_sub(notice.chars().count() + 2);
    let mut out = cut_head(text, budget).to_owned();
    if let Some((mark, length)) = open_fence(&out) {
        out.push('\n');
        out.extend(std::iter::repeat_n(mark, length));
    }
    if !out.is_empty() {
        out.push_str("\n\n");
    }
    out.push_str(notice);
    out
}

/// Returns the longest beginning that ends at a paragraph (or a line, or a character) and fits the
/// budget together with the end of its open fence.
fn cut_head(text: &str, budget: usize) -> &str {
    let mut take = budget;
    loop {
        let end = text
            .char_indices()
            .nth(take)
            .map_or(text.len(), |(at, _)| at);
        let head = best_end(&text[..end]).trim_end();
        let closing = open_fence(head).map_or(0, |(_, length)| length + 1);
        if take == 0 || head.chars().count() + closing <= budget {
            return head;
        }
        take = take.saturating_sub(closing.max(1));
    }
}

/// Prefers the last paragraph in the second half of the text, then the last line there.
fn best_end(text: &str) -> &str {
    let half = text.len() / 2;
    let paragraph = text.rfind("\n\n").filter(|at| *at >= half);
    let line = || text.rfind('\n').filter(|at| *at >= half);
    match paragraph.or_else(line) {
        Some(at) => &text[..at],
        None => text,
    }
}

/// Returns the fence that is still open at the end of the text.
pub fn open_fence(text: &str) -> Option<(char, usize)> {
    let mut open: Option<FenceMark> = None;
    for line in text.lines() {
        let Some((mark, length, rest)) = fence(line) else {
            continue;
        };
        open = match open {
            None => Some((mark, length)),
            Some((opened, needed))
                if opened == mark && length >= needed && rest.trim().is_empty() =>
            {
                None
            }
            open => open,
        };
    }
    open
}

/// Reads a line as a fence: up to three spaces, then at least three backticks or tildes.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let text = line.trim_start_matches(' ');
    if line.len() - text.len() > 3 {
        return None;
    }
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let length = text.len() - rest.len();
    // Backticks after backticks on the same line make a code span.
    (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some((mark, length, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_text_is_cut_at_a_paragraph_with_its_fence_closed() {
        let text = format!("one\n\ntwo\n\n```rust\nfn f() {{}}\n\n{}", "x".repeat(50));
        let cut = cut_body(&text, 50, "(cut)");
        assert_eq!(cut, "one\n\ntwo\n\n```rust\nfn f() {}\n```\n\n(cut)");
        assert_eq!(cut_body("short", 50, "(cut)"), "short");
    }

    #[test]
    fn characters_count_and_not_bytes() {
        let text = "\u{1f600}".repeat(BODY_CHARS_MAX);
        assert_eq!(cut_body(&text, BODY_CHARS_MAX, "(cut)"), text);
        let cut = cut_body(&format!("{text}x"), BODY_CHARS_MAX, "(cut)");
        assert!(cut.chars().count() <= BODY_CHARS_MAX && cut.ends_with("(cut)"));
    }

    proptest! {
        #[test]
        fn a_cut_text_fits_and_leaves_no_fence_open(
            parts in prop::collection::vec("(```|````rust|~~~|\n|\n\n|a|bc d|\u{e9}|    ```)", 0..60),
            max in 8_usize..80,
        ) {
            let text = parts.concat();
            let cut = cut_body(&text, max, "(cut)");
            prop_assert!(cut.chars().count() <= max, "{:?}", cut);
            if text.chars().count() > max {
                prop_assert!(cut.ends_with("(cut)"));
                prop_assert_eq!(open_fence(&cut), None, "{:?}", cut);
            } else {
                prop_assert_eq!(cut, text);
            }
        }
    }
}
