//! Renders Markdown of people and agents. Every element is built by the template engine from the
//! parser's events, so nothing in the text becomes markup of its own: HTML is shown as text, and
//! only links to `http`, `https` and `mailto` are links. Images are never loaded.

use maud::{Markup, html};
use pulldown_cmark::{Event, Options, Parser, Tag};

/// Texts that are longer are shown as they are.
const MARKDOWN_BYTES_MAX: usize = 100_000;
/// Elements within elements; deeper ones are shown as plain text.
const DEPTH_MAX: usize = 16;

/// Renders a text of several paragraphs.
pub fn markdown(text: &str) -> Markup {
    if text.len() > MARKDOWN_BYTES_MAX {
        return html! { div.text { (text) } };
    }
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let mut events = Parser::new_ext(text, options);
    html! { div.markdown { (children(&mut events, 0)) } }
}

/// Renders events until the end of the current element.
fn children(events: &mut Parser<'_>, depth: usize) -> Markup {
    let mut parts = Vec::new();
    while let Some(event) = events.next() {
        parts.push(match event {
            Event::End(_) => break,
            Event::Start(tag) if depth >= DEPTH_MAX => {
                drop(tag);
                flatten(events)
            }
            Event::Start(tag) => element(&tag, events, depth + 1),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => html! { (&*text) },
            Event::Code(text) => html! { code { (&*text) } },
            // Agents break lines on purpose.
            Event::SoftBreak | Event::HardBreak => html! { br; },
            Event::Rule => html! { hr; },
            Event::TaskListMarker(done) => html! { @if done { "[x] " } @else { "[ ] " } },
        });
    }
    html! { @for part in &parts { (part) } }
}

/// Shows the text of an element without its structure.
fn flatten(events: &mut Parser<'_>) -> Markup {
    let (mut depth, mut out) = (1_usize, String::new());
    while depth > 0 {
        match events.next() {
            None => break,
            Some(Event::Start(_)) => depth += 1,
            Some(Event::End(_)) => depth -= 1,
            Some(Event::Text(text) | Event::Html(text) | Event::InlineHtml(text)) => {
                out.push_str(&text);
            }
            Some(Event::Code(text)) => out.push_str(&text),
            Some(_) => out.push(' '),
        }
    }
    html! { (out) }
}

fn element(tag: &Tag<'_>, events: &mut Parser<'_>, depth: usize) -> Markup {
    let inner = children(events, depth);
    match tag {
        Tag::Paragraph => html! { p { (inner) } },
        // Headings of a text are below those of the page.
        Tag::Heading { .. } => html! { p { strong { (inner) } } },
        Tag::BlockQuote(_) => html! { blockquote { (inner) } },
        Tag::CodeBlock(_) => html! { pre tabindex="0" { (inner) } },
        Tag::List(None) => html! { ul { (inner) } },
        Tag::List(Some(first)) => html! { ol start=(first) { (inner) } },
        Tag::Item => html! { li { (inner) } },
        Tag::Table(_) => html! { div.wide { table.rows { (inner) } } },
        Tag::TableHead => html! { thead { tr { (inner) } } },
        Tag::TableRow => html! { tr { (inner) } },
        Tag::TableCell => html! { td { (inner) } },
        Tag::Emphasis => html! { em { (inner) } },
        Tag::Strong => html! { strong { (inner) } },
        Tag::Strikethrough => html! { del { (inner) } },
        Tag::Link { dest_url, .. } if is_safe(dest_url) => {
            html! { a href=(&**dest_url) rel="noopener noreferrer nofollow" { (inner) } }
        }
        // The address is shown, because it may be the point of the text.
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
            html! { (inner) " (" (&**dest_url) ")" }
        }
        _ => inner,
    }
}

/// Renders a link to an address that an agent or a forge gave, if it is safe; else its text.
pub fn outside_link(address: &str, text: &str) -> Markup {
    html! {
        @if is_safe(address) { a href=(address) rel="noopener noreferrer nofollow" { (text) } }
        @else { (text) }
    }
}

/// True for an address that leads to a page or a mailbox, and runs nothing.
fn is_safe(address: &str) -> bool {
    let lower = address.to_ascii_lowercase();
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|start| lower.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> String {
        markdown(text).into_string()
    }

    #[test]
    fn usual_markdown_becomes_elements() {
        let shown =
            render("# One\n\n- `a` and **b**\n\n```sh\nls <x>\n```\n[d](https://e.example/)");
        for part in [
            "<strong>One</strong>",
            "<li><code>a</code> and <strong>b</strong></li>",
            "ls &lt;x&gt;",
            "<a href=\"https://e.example/\"",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn nothing_in_a_text_becomes_active() {
        for text in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "a <b onclick=x>b</b>",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,y)",
            "[x](//evil.example)",
            "![x](https://evil.example/pixel.png)",
            "<javascript:alert(1)>",
            "[x]: javascript:alert(1)\n\n[x]",
        ] {
            let shown = render(text);
            for bad in [
                "<script",
                "<img",
                "<b ",
                "href=\"java",
                "href=\"data",
                "href=\"//",
            ] {
                assert!(!shown.to_lowercase().contains(bad), "{text}: {shown}");
            }
        }
        assert!(render("<script>").contains("&lt;script&gt;"));
        let link = |address| outside_link(address, "7").into_string();
        assert!(link("https://forge.example/7").contains("href=\"https://forge.example/7\""));
        assert_eq!(link("javascript:alert(1)"), "7");
    }

    #[test]
    fn deep_and_long_texts_are_shown() {
        let deep = format!("{} end", "> ".repeat(2_000));
        assert!(render(&deep).contains("end"));
        let long = "x".repeat(MARKDOWN_BYTES_MAX + 1);
        assert!(render(&long).contains("class=\"text\""));
    }
}
