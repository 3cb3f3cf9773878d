//! Groups Markdown lines into blocks.

use super::markup::MarkupLine;
use super::sections::{DETAILS, STRIDE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Bullet,
    Number(u32),
    Box { ticked: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
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
    pub kind: BlockKind,
    pub indent: usize,
    pub text: String,
    pub quoted: bool,
    /// Inside tags, or marked as part of a diff: not the reviewer's own words.
    pub set_apart: bool,
}

const DEPTH_MAX: u32 = 12;

pub(super) fn blocks(lines: &[MarkupLine]) -> Vec<Block> {
    let mut builder = BlockBuilder::default();
    let mut at = 0;
    while at < lines.len() {
        at += builder.take(&lines[at..]);
    }
    builder.out
}

#[derive(Default)]
struct BlockBuilder {
    out: Vec<Block>,
    depth: u32,
    /// The next text starts a new block.
    fresh: bool,
    /// The current line is not the reviewer's own words.
    apart: bool,
}

impl BlockBuilder {
    /// Takes one line, or a whole table; returns the number of lines taken.
    fn take(&mut self, lines: &[MarkupLine]) -> usize {
        match &lines[0] {
            MarkupLine::Code(text) => self.code(text),
            MarkupLine::Open(name) => {
                self.depth = (self.depth + 1).min(DEPTH_MAX);
                self.push(
                    BlockKind::Heading((self.depth - 1) * STRIDE + DETAILS),
                    0,
                    name,
                    false,
                );
                self.fresh = true;
            }
            MarkupLine::Close => {
                self.push(
                    BlockKind::Close(self.depth.saturating_sub(1) * STRIDE + DETAILS),
                    0,
                    "",
                    false,
                );
                self.depth = self.depth.saturating_sub(1);
                self.fresh = true;
            }
            MarkupLine::Text {
                text,
                quoted,
                apart,
            } => {
                self.apart = *apart;
                if let Some((rows, line_count)) = table(lines) {
                    self.apart |= indent_of(text) >= CODE_INDENT;
                    self.push(BlockKind::Table(rows), 0, "", *quoted);
                    self.fresh = true;
                    return line_count;
                }
                self.text(text, *quoted);
            }
        }
        1
    }

    fn push(&mut self, kind: BlockKind, indent: usize, text: &str, quoted: bool) {
        self.out.push(Block {
            kind,
            indent,
            text: text.trim_end().to_owned(),
            quoted,
            set_apart: self.apart,
        });
    }

    fn code(&mut self, text: &str) {
        match self.out.last_mut() {
            Some(block) if block.kind == BlockKind::Code && !self.fresh => {
                block.text.push('\n');
                block.text.push_str(text);
            }
            _ => self.push(BlockKind::Code, indent_of(text), text, false),
        }
        self.fresh = false;
    }

    fn text(&mut self, line: &str, quoted: bool) {
        let trimmed = line.trim();
        let indent = indent_of(line);
        if trimmed.is_empty() {
            self.fresh = true;
        } else if let Some((level, heading)) = heading(trimmed) {
            self.apart |= indent >= CODE_INDENT;
            self.push(
                BlockKind::Heading(self.depth * STRIDE + level),
                0,
                heading,
                quoted,
            );
            self.fresh = true;
        } else if is_rule(trimmed) {
            self.push(BlockKind::Rule, 0, "", quoted);
            self.fresh = true;
        } else if let Some((marker, rest)) = item(trimmed) {
            self.apart |= trimmed.starts_with('+');
            self.push(BlockKind::Item(marker), indent, rest, quoted);
            self.fresh = false;
        } else if self.continues(indent) {
            if let Some(block) = self.out.last_mut() {
                block.text.push('\n');
                block.text.push_str(trimmed);
                block.set_apart |= self.apart;
            }
            self.fresh = false;
        } else {
            self.push(BlockKind::Paragraph, indent, trimmed, quoted);
            self.fresh = false;
        }
    }

    /// Returns whether a text line continues the previous block.
    fn continues(&self, indent: usize) -> bool {
        match self.out.last() {
            Some(Block {
                kind: BlockKind::Paragraph,
                ..
            }) => !self.fresh,
            Some(Block {
                kind: BlockKind::Item(_),
                indent: item,
                ..
            }) => !self.fresh || indent > *item,
            _ => false,
        }
    }
}

/// Indentation that makes a line code.
const CODE_INDENT: usize = 4;

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

/// Splits a list item into its marker and text.
fn item(line: &str) -> Option<(Marker, &str)> {
    let (marker, rest) = if let Some(rest) = line.strip_prefix(['-', '*', '+', '•', '▪', '◦'])
    {
        (Marker::Bullet, rest)
    } else {
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        // A list may be long: with a lower limit, what follows its last item would be read as a part
        // of that item, without its severity.
        if !(1..=5).contains(&digits) {
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

/// Reads a table at the start of the lines: its rows, the head first, and the number of lines
/// taken.
fn table(lines: &[MarkupLine]) -> Option<(Vec<Vec<String>>, usize)> {
    let row = |line: &MarkupLine| match line {
        // A row of any length is a row: a limit here would take a long one out of the table, where
        // each row has to be accounted for.
        MarkupLine::Text { text, .. } if text.contains('|') => Some(cells(text)),
        _ => None,
    };
    let head = row(lines.first()?)?;
    let divider = row(lines.get(1)?)?;
    let is_divider = divider
        .iter()
        .all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':' | ' ')))
        && divider.iter().any(|cell| cell.contains('-'));
    if head.len() < 2 || !is_divider {
        return None;
    }
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(lines[2..].iter().map_while(row))
        .collect();
    let line_count = rows.len() + 1;
    Some((rows, line_count))
}

/// Splits a row into cells; a pipe inside back-ticks or after a backslash does not separate.
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
