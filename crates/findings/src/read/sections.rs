//! Groups blocks under their headings. A line that is all bold, a sentence that announces a list
//! and a `<details>` count as headings, too.

use super::blocks::{Block, BlockKind};
use super::degree;
use super::fields;
use super::label;
use super::topic;

/// A heading and everything under it.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub heading: String,
    pub level: u32,
    pub blocks: Vec<Block>,
    pub children: Vec<Section>,
}

impl Section {
    /// Returns whether this is a Markdown heading, not a bold line, an announcement or a
    /// `<details>`.
    pub fn is_headed(&self) -> bool {
        self.level % STRIDE < BOLD_LINE
    }

    /// Returns whether the heading is a sentence that announces the list below it.
    pub fn is_lead(&self) -> bool {
        self.level % STRIDE == LEAD
    }
}

/// Levels between a `<details>` and its parent: space for headings of its own.
pub(super) const STRIDE: u32 = 10;
/// Level of a line that is all bold; it is below every real heading.
const BOLD_LINE: u32 = 7;
/// Level of a line that ends in a colon and announces the list below it.
const LEAD: u32 = 8;
pub(super) const DETAILS: u32 = 9;

/// Maximum number of blocks that are searched for findings.
pub(super) const BLOCKS_MAX: usize = 100_000;

/// Groups blocks under their headings.
pub(super) fn sections(blocks: Vec<Block>) -> Section {
    let mut stack = vec![Section::default()];
    let mut blocks = blocks.into_iter().take(BLOCKS_MAX).peekable();
    while let Some(block) = blocks.next() {
        let before_list = blocks
            .peek()
            .is_some_and(|next| matches!(next.kind, BlockKind::Item(_) | BlockKind::Table(_)));
        match block.kind {
            BlockKind::Heading(level) => open(&mut stack, level, block.text),
            BlockKind::Close(level) => close_to(&mut stack, level),
            BlockKind::Rule => close_bold(&mut stack),
            BlockKind::Paragraph => paragraph(&mut stack, block, before_list),
            BlockKind::Item(_) | BlockKind::Code | BlockKind::Table(_) => add(&mut stack, block),
        }
    }
    close_to(&mut stack, 1);
    stack.pop().unwrap_or_default()
}

fn add(stack: &mut [Section], block: Block) {
    if let Some(section) = stack.last_mut() {
        section.blocks.push(block);
    }
}

/// Closes every open section of this level or deeper.
fn close_to(stack: &mut Vec<Section>, level: u32) {
    while stack.len() > 1 && stack.last().is_some_and(|section| section.level >= level) {
        if let Some(closed) = stack.pop()
            && let Some(parent) = stack.last_mut()
        {
            parent.children.push(closed);
        }
    }
}

fn close_bold(stack: &mut Vec<Section>) {
    if let Some(level) = stack
        .last()
        .map(|section| section.level)
        .filter(|level| level % STRIDE == BOLD_LINE)
    {
        close_to(stack, level);
    }
}

fn open(stack: &mut Vec<Section>, level: u32, heading: String) {
    close_to(stack, level);
    stack.push(Section {
        heading,
        level,
        ..Section::default()
    });
}

/// Adds a paragraph; if its first line is all bold, that line becomes a heading.
fn paragraph(stack: &mut Vec<Section>, block: Block, before_list: bool) {
    close_lead(stack, &block);
    if let Some(lead) = lead(&block).filter(|_| before_list) {
        let base = stack.last().map_or(0, |section| base_of(section.level));
        return open(stack, base + LEAD, lead);
    }
    let (first, rest) = block
        .text
        .split_once('\n')
        .unwrap_or((block.text.as_str(), ""));
    let head = bold_line(first).filter(|head| !fields::is_label(head) && !is_part(stack, head));
    let tag = tag_line(first);
    let is_tag = tag.is_some();
    let Some(head) = tag.or(head) else {
        return add(stack, block);
    };
    let waiting = stack
        .last_mut()
        .filter(|section| section.heading.ends_with(TAG_END) && section.blocks.is_empty());
    if let Some(section) = waiting.filter(|_| !is_tag) {
        section.heading = format!("{}{head}", section.heading.trim_end_matches(TAG_END));
    } else {
        let base = stack.last().map_or(0, |section| base_of(section.level));
        open(stack, base + BOLD_LINE, head);
    }
    if !rest.is_empty() {
        add(
            stack,
            Block {
                text: rest.to_owned(),
                ..block
            },
        );
    }
}

/// Returns whether a bold line such as `**Severity: low**`, right under the title of a finding, is
/// a part of the finding and not a heading.
fn is_part(stack: &[Section], head: &str) -> bool {
    let is_labelled = fields::labelled(head).is_some_and(|(_, value)| !value.is_empty());
    is_labelled
        && stack.last().is_some_and(|section| {
            section.level > 1
                && section.is_headed()
                && section.blocks.is_empty()
                && topic::topic(&section.heading) == topic::Topic::Open
        })
}

/// Closes an announced list at the next independent paragraph.
fn close_lead(stack: &mut Vec<Section>, block: &Block) {
    if let Some(level) = stack
        .last()
        .map(|section| section.level)
        .filter(|level| level % STRIDE == LEAD)
        && block.indent == 0
        && fields::labelled(&block.text).is_none()
    {
        close_to(stack, level);
    }
}

/// Returns the sentence that announces a list of findings: `I found two problems:`.
fn lead(block: &Block) -> Option<String> {
    let last = block
        .text
        .lines()
        .last()?
        .trim()
        .trim_end_matches(['*', '_', ' ']);
    let sentence = last.strip_suffix([':', '：'])?.rsplit(". ").next()?;
    let plain = sentence.trim_matches(['*', '_', ' ']);
    topic::topic_of_lead(plain)
        .is_some()
        .then(|| plain.to_owned())
}

/// Returns the base level of the sections inside this one.
fn base_of(level: u32) -> u32 {
    let base = level / STRIDE * STRIDE;
    if level % STRIDE == DETAILS {
        base + STRIDE
    } else {
        base
    }
}

/// Returns the text of a line that is bold from end to end. After a number, plain words in between
/// are allowed.
fn bold_line(line: &str) -> Option<String> {
    let (range, rest) = line_range(line);
    let inner = rest.trim().trim_end_matches([':', '：', ' ']);
    let inner =
        inner.trim_start_matches(|c: char| !c.is_ascii() && !c.is_alphanumeric() || c == ' ');
    let inner = inner
        .strip_prefix("**")
        .or_else(|| inner.strip_prefix("__"))?;
    let inner = inner
        .strip_suffix("**")
        .or_else(|| inner.strip_suffix("__"))?;
    let whole = !inner.contains("**") || label::split_ordinal(inner).0.is_some();
    (whole && (inner.chars().count() > 2 || !inner.is_ascii()))
        .then(|| format!("{range}{}", inner.trim()))
}

/// Splits off a line range in back-ticks at the start of a line, as `(L3-L9) `; returns it and the
/// rest.
fn line_range(line: &str) -> (String, &str) {
    let trimmed = line.trim();
    let Some((range, rest)) = trimmed
        .strip_prefix('`')
        .and_then(|inner| inner.split_once('`'))
    else {
        return (String::new(), trimmed);
    };
    let is_range = !range.is_empty()
        && range
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '-' | ',' | ' '));
    if !is_range || !rest.starts_with(':') {
        return (String::new(), trimmed);
    }
    let first = range.split(',').next().unwrap_or(range);
    let lines: Vec<String> = first
        .split('-')
        .map(|line| format!("L{}", line.trim()))
        .collect();
    (
        format!("({}) ", lines.join("-")),
        rest.trim_start_matches([':', ' ']),
    )
}

/// Marks a heading whose title is still missing.
const TAG_END: char = '\u{1}';

/// Reads a line such as `` `29-42`: _Potential issue_ | _Major_ ``, which some tools put above a
/// comment: its lines and severity.
fn tag_line(line: &str) -> Option<String> {
    let (range, rest) = line_range(line);
    let tags: Vec<&str> = rest.split('|').map(str::trim).collect();
    let all_tags = rest.len() < 120
        && tags
            .iter()
            .all(|tag| tag.len() > 2 && tag.starts_with('_') && tag.ends_with('_'));
    if !all_tags {
        return None;
    }
    let words = tags
        .iter()
        .flat_map(|tag| tag.split(|c: char| !c.is_alphanumeric()));
    let degree = words
        .rev()
        .find(|word| degree::scale_word(word).is_some())
        .map(|word| format!("[{word}] "));
    Some(format!("{}{range}{TAG_END}", degree.unwrap_or_default()))
}
