//! Links between our documents: the file is there, and so is the heading.

use regex::Regex;

use super::rules::Breach;
use super::tree::Tree;

pub fn dead_links(tree: &Tree) -> Vec<Breach> {
    let link = Regex::new(r"\[[^\]]*\]\(([^)\s]+)[^)]*\)").expect("a fixed pattern");
    let mut breaches = Vec::new();
    for (path, text) in tree.named(".md") {
        for (number, line) in prose_lines(text) {
            for found in link.captures_iter(&line) {
                if !is_alive(tree, path, &found[1]) {
                    breaches.push(Breach::new(path, number, &found[1]));
                }
            }
        }
    }
    breaches
}

/// The lines outside code blocks, with quoted code left out.
fn prose_lines(text: &str) -> Vec<(usize, String)> {
    let quoted = Regex::new("`[^`]*`").expect("a fixed pattern");
    let mut in_block = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            lines.push((index + 1, quoted.replace_all(line, "").into_owned()));
        }
    }
    lines
}

fn is_alive(tree: &Tree, from: &str, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        from.to_owned()
    } else {
        resolve(from, file)
    };
    let has_heading = || match tree.text(&path) {
        Some(text) => headings(text).iter().any(|anchor| anchor == heading),
        None => false,
    };
    tree.holds(&path) && (heading.is_empty() || has_heading())
}

fn resolve(from: &str, file: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The anchors that a forge makes of a document's headings.
fn headings(text: &str) -> Vec<String> {
    let anchor = |title: &str| -> String {
        let kept = title.trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}
