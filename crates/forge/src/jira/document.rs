//! Texts of Jira: documents of Cloud, with the four kinds of nodes that we write, and the wiki markup
//! of Data Center.

use serde_json::{Value, json};

use crate::body::open_fence;

/// Depth to which a document is read. Tables and lists of people are not deeper.
const DEPTH_MAX: usize = 40;

/// A part of a text: a paragraph, or the lines between two fences.
enum Part {
    Paragraph(Vec<String>),
    Code(Vec<String>),
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut paragraph: Vec<String> = Vec::new();
    let mut code: Option<(String, Vec<String>)> = None;
    for line in text.lines() {
        if let Some((fence, mut lines)) = code.take() {
            if open_fence(&format!("{fence}\n{line}")).is_none() {
                parts.push(Part::Code(lines));
            } else {
                lines.push(line.to_owned());
                code = Some((fence, lines));
            }
            continue;
        }
        let opens = open_fence(line).is_some();
        if opens || line.trim().is_empty() {
            if !paragraph.is_empty() {
                parts.push(Part::Paragraph(std::mem::take(&mut paragraph)));
            }
            if opens {
                code = Some((line.to_owned(), Vec::new()));
            }
        } else {
            paragraph.push(line.to_owned());
        }
    }
    if let Some((_, lines)) = code {
        parts.push(Part::Code(lines));
    }
    if !paragraph.is_empty() {
        parts.push(Part::Paragraph(paragraph));
    }
    parts
}

/// Writes a text as a document of Cloud. Text in it is never markup, so it mentions nobody.
pub fn to_document(text: &str) -> Value {
    let node = |part: &Part| match part {
        Part::Code(lines) => {
            let text = lines.join("\n");
            // An empty text node is refused.
            let content = if text.is_empty() {
                json!([])
            } else {
                json!([{"type": "text", "text": text}])
            };
            json!({"type": "codeBlock", "content": content})
        }
        Part::Paragraph(lines) => {
            let mut content = Vec::new();
            for line in lines {
                if !content.is_empty() {
                    content.push(json!({"type": "hardBreak"}));
                }
                content.push(json!({"type": "text", "text": line}));
            }
            json!({"type": "paragraph", "content": content})
        }
    };
    let content: Vec<Value> = parts(text).iter().map(node).collect();
    json!({"type": "doc", "version": 1, "content": content})
}

/// Writes a text as wiki markup of Data Center, with everything escaped that acts there.
pub fn to_wiki(text: &str) -> String {
    let written = parts(text).into_iter().map(|part| match part {
        // The end of a code block cannot be escaped inside it.
        Part::Code(lines) => {
            let code = lines.join("\n").replace("{code", "{ code");
            format!("{{code}}\n{code}\n{{code}}")
        }
        Part::Paragraph(lines) => {
            let lines = lines.iter().map(|line| wiki_line(line));
            lines.collect::<Vec<_>>().join("\n")
        }
    });
    written.collect::<Vec<_>>().join("\n\n")
}

fn wiki_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    for (at, c) in line.char_indices() {
        let is_first = line[..at].trim().is_empty();
        if matches!(c, '{' | '}' | '[' | ']' | '!' | '|' | '\\') || (is_first && c == '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Reads the text of a document. Nodes that it does not know count by their content.
pub fn to_text(document: &Value) -> String {
    let mut out = String::new();
    read(document, 0, &mut out);
    out.trim_end().to_owned()
}

fn read(node: &Value, depth: usize, out: &mut String) {
    if depth > DEPTH_MAX {
        return;
    }
    let content = crate::json::entries(&node["content"]);
    let kind = node["type"].as_str().unwrap_or_default();
    match kind {
        "text" => {
            out.push_str(node["text"].as_str().unwrap_or_default());
            return;
        }
        "hardBreak" => {
            out.push('\n');
            return;
        }
        "mention" => {
            out.push_str(node["attrs"]["text"].as_str().unwrap_or_default());
            return;
        }
        "inlineCard" | "blockCard" => {
            out.push_str(node["attrs"]["url"].as_str().unwrap_or_default());
            return;
        }
        "listItem" => out.push_str("- "),
        "heading" => {
            let level = node["attrs"]["level"].as_u64().unwrap_or(1).clamp(1, 6);
            out.extend((0..level).map(|_| '#'));
            out.push(' ');
        }
        "codeBlock" => {
            let mut code = String::new();
            for child in content {
                read(child, depth + 1, &mut code);
            }
            let fence = fence_for(&code);
            for part in [&fence, "\n", code.as_str(), "\n", &fence, "\n\n"] {
                out.push_str(part);
            }
            return;
        }
        _ => {}
    }
    for child in content {
        read(child, depth + 1, out);
    }
    if matches!(kind, "paragraph" | "heading") {
        out.push_str("\n\n");
    }
}

/// Returns a fence that is longer than all in the code.
fn fence_for(code: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in code.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat((longest + 1).max(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_has_paragraphs_breaks_and_code() {
        let document = to_document("one\ntwo\n\n```rust\nfn f() {}\n```\nend");
        let kinds: Vec<_> = document["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["paragraph", "codeBlock", "paragraph"]);
        assert_eq!(document["content"][0]["content"][1]["type"], "hardBreak");
        assert_eq!(to_text(&document), "one\ntwo\n\n```\nfn f() {}\n```\n\nend");
        let empty = to_document("```\n```");
        assert_eq!(empty["content"][0]["content"], json!([]));
    }

    #[test]
    fn wiki_markup_does_not_act() {
        let wiki = to_wiki("[~ada] {color:red} !x.png!\n# a\n\n```\n{code}\n```");
        assert!(
            !wiki.contains(" {color") && wiki.starts_with("\\[~ada\\]"),
            "{wiki}"
        );
        assert_eq!(wiki.matches("{code}").count(), 2, "{wiki}");
    }

    #[test]
    fn a_deep_document_ends() {
        let mut node = json!({"type": "text", "text": "x"});
        for _ in 0..100 {
            node = json!({"type": "panel", "content": [node]});
        }
        assert_eq!(to_text(&node), "");
    }

    proptest! {
        #[test]
        fn a_document_has_no_empty_text_and_reads_back(text in "(a|b c|\n|\n\n|```|~~~|\\{code\\}){0,30}") {
            let document = to_document(&text);
            let all = document.to_string();
            prop_assert!(!all.contains("\"text\":\"\""), "{}", all);
            let again = to_document(&to_text(&document));
            prop_assert_eq!(to_text(&again), to_text(&document));
        }
    }
}
