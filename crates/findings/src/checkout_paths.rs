//! Turns paths of a reviewer's checkout into paths of the repository.
//!
//! `roots` are the directories of the repository as the reviewer sees it: the checkout, a copy of
//! it, a worktree, each also with its symbolic links resolved.

use crate::clean::confine_to;
use crate::finding::{Finding, Review};
use crate::read::read;

/// Like [`read`], and makes the paths of these directories relative to the repository.
pub fn read_with_roots(roots: &[&str], text: &str) -> Review {
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
        let is_inside_a_path = before_path
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '~'));
        let leads_nowhere = after
            .chars()
            .next()
            .is_none_or(|c| c.is_whitespace() || matches!(c, '/' | '"' | '`' | '\''));
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
