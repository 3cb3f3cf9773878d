//! Markdown lines grouped into blocks, and blocks into sections.

use super::fields;
use super::label;
use super::markup::Line;
use super::topic;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Bullet,
    Number(u32),
    Box { ticked: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Heading(u32),
    Item(Marker),
    Paragraph,
    Code,
    Table(Vec<Vec<String>>),
    Rule,
    Close(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub kind: Kind,
    pub indent: usize,
    pub text: String,
    pub quoted: bool,
}

/// A heading and all that stands under it.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub heading: String,
    pub level: u32,
    pub blocks: Vec<Block>,
    pub children: Vec<Section>,
}

impl Section {
    /// A heading of Markdown's own, not a bold line, an announcement or a `<details>`.
    pub fn is_headed(&self) -> bool {
        self.level % STRIDE < BOLD_LINE
    }

    /// A sentence that announces the list below it.
    pub fn is_lead(&self) -> bool {
        self.level % STRIDE == LEAD
    }
}

/// How much deeper a `<details>` lies than what it is in: room for headings of its own.
const STRIDE: u32 = 10;
/// A line that is all bold heads what follows it, below every real heading.
const BOLD_LINE: u32 = 7;
/// A line that ends in a colon and announces the list below it.
const LEAD: u32 = 8;
const DETAILS: u32 = 9;
const DEPTH_MAX: u32 = 12;

pub(super) fn blocks(lines: &[Line]) -> Vec<Block> {
    let mut builder = Builder::default();
    let mut at = 0;
    while at < lines.len() {
        at += builder.take(&lines[at..]);
    }
    builder.out
}

#[derive(Default)]
struct Builder {
    out: Vec<Block>,
    depth: u32,
    /// The next text begins a block of its own.
    fresh: bool,
}

impl Builder {
    /// Takes one line, or a whole table; gives how many lines it took.
    fn take(&mut self, lines: &[Line]) -> usize {
        match &lines[0] {
            Line::Code(text) => self.code(text),
            Line::Open(name) => {
                self.depth = (self.depth + 1).min(DEPTH_MAX);
                self.push(
                    Kind::Heading((self.depth - 1) * STRIDE + DETAILS),
                    0,
                    name,
                    false,
                );
                self.fresh = true;
            }
            Line::Close => {
                self.push(
                    Kind::Close(self.depth.saturating_sub(1) * STRIDE + DETAILS),
                    0,
                    "",
                    false,
                );
                self.depth = self.depth.saturating_sub(1);
                self.fresh = true;
            }
            Line::Text { text, quoted } => {
                if let Some((rows, taken)) = table(lines) {
                    self.push(Kind::Table(rows), 0, "", *quoted);
                    self.fresh = true;
                    return taken;
                }
                self.text(text, *quoted);
            }
        }
        1
    }

    fn push(&mut self, kind: Kind, indent: usize, text: &str, quoted: bool) {
        self.out.push(Block {
            kind,
            indent,
            text: text.trim_end().to_owned(),
            quoted,
        });
    }

    fn code(&mut self, text: &str) {
        match self.out.last_mut() {
            Some(block) if block.kind == Kind::Code && !self.fresh => {
                block.text.push('\n');
                block.text.push_str(text);
            }
            _ => self.push(Kind::Code, indent_of(text), text, false),
        }
        self.fresh = false;
    }

    fn text(&mut self, line: &str, quoted: bool) {
        let trimmed = line.trim();
        let indent = indent_of(line);
        if trimmed.is_empty() {
            self.fresh = true;
        } else if let Some((level, heading)) = heading(trimmed) {
            self.push(
                Kind::Heading(self.depth * STRIDE + level),
                0,
                heading,
                quoted,
            );
            self.fresh = true;
        } else if is_rule(trimmed) {
            self.push(Kind::Rule, 0, "", quoted);
            self.fresh = true;
        } else if let Some((marker, rest)) = item(trimmed) {
            self.push(Kind::Item(marker), indent, rest, quoted);
            self.fresh = false;
        } else if self.continues(indent) {
            if let Some(block) = self.out.last_mut() {
                block.text.push('\n');
                block.text.push_str(trimmed);
            }
            self.fresh = false;
        } else {
            self.push(Kind::Paragraph, indent, trimmed, quoted);
            self.fresh = false;
        }
    }

    /// Whether a text line goes on with the block before it.
    fn continues(&self, indent: usize) -> bool {
        match self.out.last() {
            Some(Block {
                kind: Kind::Paragraph,
                ..
            }) => !self.fresh,
            Some(Block {
                kind: Kind::Item(_),
                indent: item,
                ..
            }) => !self.fresh || indent > *item,
            _ => false,
        }
    }
}

fn indent_of(line: &str) -> usize {
    line.chars()
        .take_while(|c| c.is_whitespace())
        .map(|c| if c == '\t' { 4 } else { 1 })
        .sum()
}

fn heading(line: &str) -> Option<(u32, &str)> {
    let level = line.chars().take_while(|&c| c == '#').count();
    let rest = &line[level..];
    let text = rest.trim().trim_end_matches('#').trim();
    ((1..=6).contains(&level) && rest.starts_with(' ') && !text.is_empty())
        .then(|| (u32::try_from(level).unwrap_or(6), text))
}

fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    let Some(mark) = marks.next() else {
        return false;
    };
    matches!(mark, '-' | '*' | '_' | '=') && line.len() >= 3 && marks.all(|c| c == mark)
}

/// A list item's marker and text.
fn item(line: &str) -> Option<(Marker, &str)> {
    let (marker, rest) = if let Some(rest) = line.strip_prefix(['-', '*', '+', '•', '▪', '◦'])
    {
        (Marker::Bullet, rest)
    } else {
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        if !(1..=3).contains(&digits) {
            return None;
        }
        let rest = line[digits..].strip_prefix(['.', ')'])?;
        (Marker::Number(line[..digits].parse().ok()?), rest)
    };
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let text = rest.trim_start();
    for (mark, ticked) in [("[ ]", false), ("[x]", true), ("[X]", true)] {
        if let Some(inner) = text.strip_prefix(mark) {
            return Some((Marker::Box { ticked }, inner.trim_start()));
        }
    }
    Some((marker, text))
}

/// A longer line is no row of a table.
const ROW_BYTES_MAX: usize = 64 * 1024;

/// A table at the start of the lines: its rows, the head first, and how many lines it took.
fn table(lines: &[Line]) -> Option<(Vec<Vec<String>>, usize)> {
    let row = |line: &Line| match line {
        Line::Text { text, .. } if text.len() < ROW_BYTES_MAX && text.contains('|') => {
            Some(cells(text))
        }
        _ => None,
    };
    let head = row(lines.first()?)?;
    let rule = row(lines.get(1)?)?;
    let is_divider = rule
        .iter()
        .all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':' | ' ')))
        && rule.iter().any(|cell| cell.contains('-'));
    if head.len() < 2 || !is_divider {
        return None;
    }
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(lines[2..].iter().map_while(row))
        .collect();
    let taken = rows.len() + 1;
    Some((rows, taken))
}

/// The cells of a row; a pipe inside back-ticks or behind a backslash divides nothing.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim();
    let inner = inner.strip_prefix('|').unwrap_or(inner);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = vec![String::new()];
    let mut in_code = false;
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'|') => {
                chars.next();
                push(&mut cells, '|');
            }
            '`' => {
                in_code = !in_code;
                push(&mut cells, c);
            }
            '|' if !in_code => cells.push(String::new()),
            c => push(&mut cells, c),
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn push(cells: &mut [String], c: char) {
    if let Some(last) = cells.last_mut() {
        last.push(c);
    }
}

/// More blocks than this are not searched for findings.
pub(super) const BLOCKS_MAX: usize = 100_000;

/// Groups blocks under their headings.
pub(super) fn sections(blocks: Vec<Block>) -> Section {
    let mut stack = vec![Section::default()];
    let mut blocks = blocks.into_iter().take(BLOCKS_MAX).peekable();
    while let Some(block) = blocks.next() {
        let before_list = blocks
            .peek()
            .is_some_and(|next| matches!(next.kind, Kind::Item(_) | Kind::Table(_)));
        match block.kind {
            Kind::Heading(level) => open(&mut stack, level, block.text),
            Kind::Close(level) => close_to(&mut stack, level),
            Kind::Rule => close_bold(&mut stack),
            Kind::Paragraph => paragraph(&mut stack, block, before_list),
            Kind::Item(_) | Kind::Code | Kind::Table(_) => add(&mut stack, block),
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
        if let Some(done) = stack.pop()
            && let Some(parent) = stack.last_mut()
        {
            parent.children.push(done);
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

/// A paragraph whose first line is all bold heads what follows.
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
    let head = bold_line(first).filter(|head| !fields::is_label(head));
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

/// A list that was announced ends with the next paragraph of its own.
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

/// The sentence that announces a list of findings: `I found two problems:`.
fn lead(block: &Block) -> Option<String> {
    let last = block
        .text
        .lines()
        .last()?
        .trim()
        .trim_end_matches(['*', '_', ' ']);
    let sentence = last.strip_suffix([':', '：'])?.rsplit(". ").next()?;
    let plain = sentence.trim_matches(['*', '_', ' ']);
    topic::lead(plain).is_some().then(|| plain.to_owned())
}

/// The level that sections inside this one count from.
fn base_of(level: u32) -> u32 {
    let base = level / STRIDE * STRIDE;
    if level % STRIDE == DETAILS {
        base + STRIDE
    } else {
        base
    }
}

/// The text of a line that is bold from end to end. Behind a number there may be plain words in
/// between.
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
    let whole = !inner.contains("**") || label::ordinal(inner).0.is_some();
    (whole && inner.chars().count() > 2).then(|| format!("{range}{}", inner.trim()))
}

/// A line range in back-ticks in front of a line, as `(L3-L9) `, and the rest.
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

/// Marks a heading that still waits for its title.
const TAG_END: char = '\u{1}';

/// `29-42`: _Potential issue_ | _Major_, as some tools put above a comment: its degree and lines.
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
        .find(|word| label::scale_word(word).is_some())
        .map(|word| format!("[{word}] "));
    Some(format!("{}{range}{TAG_END}", degree.unwrap_or_default()))
}
