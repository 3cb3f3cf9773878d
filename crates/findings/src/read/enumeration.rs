//! Splits enumerations inside a line into the items of a list: `Issues: 1) …, 2) …`.
//!
//! Only for texts that are known to refuse: a condition of an approval may be an enumeration too, and
//! must stay one sentence there.

/// Longest number of an item inside a line.
const DIGITS_MAX: usize = 2;

/// Returns the text with each enumeration inside a line as a numbered list of its own. Code, tables,
/// headings, quotations and items of lists stay as they are.
pub(super) fn split_lines(text: &str) -> String {
    let is_list = text.lines().filter(|line| starts_with_number(line)).count() > 1;
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    for line in text.lines() {
        let bare = line.trim_start();
        in_code ^= bare.starts_with("```") || bare.starts_with("~~~");
        let is_other = in_code
            || bare.starts_with(['#', '>', '|', '-', '*', '+', '•', '`'])
            || (is_list && starts_with_number(line));
        let items = if is_other { Vec::new() } else { items(line) };
        let Some(first) = items.first() else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let head = line[..first.start].trim_end();
        if !head.is_empty() {
            out.push_str(head);
            out.push('\n');
        }
        let ends = items.iter().skip(1).map(|item| item.start);
        for (item, end) in items.iter().zip(ends.chain([line.len()])) {
            out.push_str(&item.number.to_string());
            out.push_str(". ");
            out.push_str(without_joint(&line[item.text..end]));
            out.push('\n');
        }
        // What follows is no part of the last item.
        out.push('\n');
    }
    out
}

/// Place of an item in its line, in bytes.
struct InlineItem {
    number: u32,
    start: usize,
    text: usize,
}

/// Returns the items of a line that are numbered from one on without a gap; none if there is only
/// one.
fn items(line: &str) -> Vec<InlineItem> {
    let mut found: Vec<InlineItem> = Vec::new();
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        let begins_word = before.is_whitespace() && (c.is_ascii_digit() || c == '(');
        before = c;
        let Some(item) = begins_word.then(|| item_at(line, at)).flatten() else {
            continue;
        };
        if u32::try_from(found.len()).is_ok_and(|count| item.number == count + 1) {
            found.push(item);
        }
    }
    if found.len() < 2 {
        found.clear();
    }
    found
}

/// Reads `1) `, `1. ` or `(1) ` at a place of the line.
fn item_at(line: &str, start: usize) -> Option<InlineItem> {
    let rest = &line[start..];
    let bare = rest.strip_prefix('(').unwrap_or(rest);
    let digits = bare.chars().take_while(char::is_ascii_digit).count();
    let number = bare.get(..digits).filter(|_| digits <= DIGITS_MAX)?;
    let closing = if bare.len() < rest.len() {
        &[')'][..]
    } else {
        &[')', '.'][..]
    };
    let after = bare[digits..].strip_prefix(closing)?;
    let text = after.trim_start();
    let is_text = text.len() < after.len() && text.starts_with(|c: char| !c.is_ascii_digit());
    is_text
        .then(|| {
            Some(InlineItem {
                number: number.parse().ok()?,
                start,
                text: line.len() - text.len(),
            })
        })
        .flatten()
}

/// Removes what joins an item with the next one: `…, `, `…; and `.
fn without_joint(text: &str) -> &str {
    let text = text.trim_end();
    let text = text.strip_suffix(" and").unwrap_or(text);
    text.trim_end_matches([',', ';', ' '])
}

fn starts_with_number(line: &str) -> bool {
    let bare = line.trim_start();
    let digits = bare.chars().take_while(char::is_ascii_digit).count();
    digits > 0 && bare[digits..].starts_with([')', '.'])
}

#[cfg(test)]
mod tests {
    use super::split_lines;

    #[test]
    fn an_enumeration_inside_a_line_becomes_a_list() {
        for (line, list) in [
            (
                "Issues: 1) No test of X, 2) No null check in Y",
                "Issues:\n1. No test of X\n2. No null check in Y\n\n",
            ),
            ("(1) One thing (2) Another", "1. One thing\n2. Another\n\n"),
            (
                "Fix 1. the parser. 2. the writer, and 3. the docs.",
                "Fix\n1. the parser.\n2. the writer\n3. the docs.\n\n",
            ),
        ] {
            assert_eq!(split_lines(line), list);
        }
    }

    #[test]
    fn other_numbers_split_nothing() {
        for text in [
            "It runs 2) times and then 3) stops\n",
            "Needs Python 3. 2 tests fail.\n",
            "Only 1) this\n",
            "See 1.2 and 2.3\n",
            "1. A list 1) with 2) steps\n2. and its second item\n",
            "```\ncall 1) one 2) two\n```\n",
            "| 1) a | 2) b |\n",
            "ümläut 1)x 2)y\n",
        ] {
            assert_eq!(split_lines(text), text);
        }
    }
}
