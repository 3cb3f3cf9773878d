//! Turns paths of a reviewer's checkout into paths of the repository.
//!
//! `roots` are the directories of the repository as the reviewer sees it: the checkout, a copy of
//! it, a worktree, each also with its symbolic links resolved.
//!
//! A reviewer works in a temporary directory that no one else has. A path from there would be
//! useless in a report and would differ from round to round, so that tracking could not recognise
//! the finding.

use crate::clean::confine_to;
use crate::finding::{Finding, Review};
use crate::read::read;

/// Like [`read`], and makes the paths of these directories relative to the repository.
pub fn read_with_roots(roots: &[&str], text: &str) -> Review {
    // The text is changed before it is read: paths stand in prose, in titles and in JSON.
    let mut review = read(&without_roots(roots, text));
    make_paths_relative(roots, &mut review);
    review
}

/// Makes the paths of a parsed review relative to the repository.
pub fn make_paths_relative(roots: &[&str], review: &mut Review) {
    for finding in &mut review.findings {
        relocate_finding(roots, finding);
    }
    for issue in &mut review.blocking_issues {
        issue.message = without_roots(roots, &issue.message);
    }
}

fn relocate_finding(roots: &[&str], finding: &mut Finding) {
    // Each root in turn, because the reviewer may use the resolved path or the link.
    for root in roots {
        let file = finding.file.take();
        finding.file = file.as_deref().and_then(|file| confine_to(root, file));
    }
    finding.title = without_roots(roots, &finding.title);
    let texts = [&mut finding.problem, &mut finding.impact, &mut finding.fix];
    for text in texts.into_iter().flatten() {
        *text = without_roots(roots, text);
    }
}

/// Makes absolute paths of these directories in the text relative to them. A path that only ends
/// like one of them, or is a sibling, stays.
fn without_roots(roots: &[&str], text: &str) -> String {
    let mut prefixes: Vec<String> = roots
        .iter()
        .map(|root| format!("{}/", root.trim_end_matches('/')))
        // A root of `/` would make every absolute path relative.
        .filter(|prefix| prefix.len() > 1 && prefix.starts_with('/'))
        .collect();
    // Longest first: a copy may be inside the checkout's own directory.
    prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
    let mut text = text.to_owned();
    for prefix in prefixes {
        if text.contains(&prefix) {
            text = without_prefix(&prefix, &text);
        }
    }
    text
}

fn without_prefix(prefix: &str, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, after) = (&rest[..at], &rest[at + prefix.len()..]);
        let bare = before.strip_suffix("file://").unwrap_or(before);
        let before_path = bare.chars().next_back();
        // `/srv/x/` inside `/home/srv/x/` is another directory.
        let is_inside_a_path = before_path
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '~'));
        let leads_nowhere = after
            .chars()
            .next()
            .is_none_or(|c| c.is_whitespace() || matches!(c, '/' | '"' | '`' | '\''));
        // `..` behind the root leads out of it again.
        if is_inside_a_path || leads_nowhere || after.starts_with("..") {
            out.push_str(&rest[..at + prefix.len()]);
        } else {
            out.push_str(bare);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
