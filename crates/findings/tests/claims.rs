//! What counts as an approval in foreign text, and what never does: two lists, and variants that
//! are made from the first. The test prints the counts.

use findings::{Claim, read};
use proptest::prelude::*;

const APPROVALS: &str = include_str!("claims/approvals.txt");
const NON_APPROVALS: &str = include_str!("claims/non_approvals.txt");

/// The entries of a list, each with its class.
fn entries(list: &str) -> Vec<(&str, String)> {
    let mut class = "";
    let mut entries = Vec::new();
    for line in list.lines() {
        let is_class = line.starts_with('[')
            && line.ends_with(']')
            && !line.contains(['{', '"'])
            && line.len() > 2;
        if is_class {
            class = line.trim_matches(['[', ']']);
        } else if !line.is_empty() && !line.starts_with("# T") && !line.starts_with("# C") {
            entries.push((class, unescaped(line)));
        } else if line.starts_with("# Code review") {
            entries.push((class, unescaped(line)));
        }
    }
    entries
}

/// `\n` and `\u{…}` as the characters that they stand for.
fn unescaped(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('n') {
            out.push('\n');
            rest = after;
        } else if let Some((digits, after)) = rest
            .strip_prefix("u{")
            .and_then(|inner| inner.split_once('}'))
        {
            let code = u32::from_str_radix(digits, 16).unwrap_or(0);
            out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            rest = after;
        } else {
            out.push('\\');
        }
    }
    out.push_str(rest);
    out
}

fn approves(text: &str) -> bool {
    read(text).claim == Claim::Approved
}

#[test]
fn no_text_of_the_list_is_read_as_an_approval() {
    let entries = entries(NON_APPROVALS);
    let wrong: Vec<_> = entries.iter().filter(|(_, text)| approves(text)).collect();
    println!(
        "non-approvals: {} tried, {} read as approval",
        entries.len(),
        wrong.len()
    );
    assert!(entries.len() >= 300);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn clear_approvals_are_recognised() {
    let entries = entries(APPROVALS);
    let missed: Vec<_> = entries
        .iter()
        .filter(|(_, text)| !approves(text))
        .map(|(class, text)| (class, text, read(text).remarks))
        .collect();
    println!(
        "approvals: {} tried, {} recognised",
        entries.len(),
        entries.len() - missed.len()
    );
    assert!(entries.len() >= 60);
    assert!(missed.is_empty(), "{missed:#?}");
}
