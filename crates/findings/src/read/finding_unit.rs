//! Splits a Markdown section into units. A unit may be a finding: a title, labelled parts, code.

use super::blocks::{Block, BlockKind, Marker};
use super::compose;
use super::fields::{self, FindingFields};
use super::label;
use super::locations;
use super::sections::Section;
use super::topic;
use super::verdict;
use crate::severity::is_no_severity;

#[derive(Clone, Debug, Default)]
pub(super) struct FindingUnit {
    /// Title: a heading, the bold part of an item, or its first sentence.
    pub title: String,
    pub fields: FindingFields,
    pub code: String,
    pub is_item: bool,
    pub bold_lead: bool,
    pub ticked: bool,
}

impl FindingUnit {
    /// Reads a section as one unit: the heading and everything under it.
    pub fn from_section(section: &Section) -> Self {
        let mut unit = Self::from_blocks(section);
        unit.title.clone_from(&section.heading);
        for child in &section.children {
            let under = Self::from_section(child);
            unit.code.push_str(&under.code);
            let text = section_text(child);
            if topic::topic(&child.heading) != topic::Topic::Aside
                || fields::is_label(&child.heading)
            {
                unit.fields.add_under(&child.heading, &text);
            }
        }
        unit
    }

    /// Reads only the blocks directly under the heading.
    pub fn from_blocks(section: &Section) -> Self {
        let mut unit = Self::default();
        unit.take(&section.blocks);
        unit
    }

    /// Reads only the outer level of the blocks directly under the heading.
    pub fn from_outer_blocks(section: &Section) -> Self {
        let base = section
            .blocks
            .iter()
            .filter(|block| matches!(block.kind, BlockKind::Item(_)))
            .map(|block| block.indent)
            .min()
            .unwrap_or(0);
        let mut unit = Self::default();
        for block in section
            .blocks
            .iter()
            .filter(|block| block.indent <= base + 1)
        {
            unit.take(std::slice::from_ref(block));
        }
        unit
    }

    fn take(&mut self, blocks: &[Block]) {
        let mut pending_label: Option<String> = None;
        for block in blocks {
            match &block.kind {
                BlockKind::Code => {
                    self.code.push_str(&block.text);
                    self.code.push('\n');
                }
                BlockKind::Table(rows) => {
                    for row in rows.iter().take(30) {
                        self.fields.add(&row.join(" "));
                    }
                }
                BlockKind::Item(_) | BlockKind::Paragraph => {
                    let alone = fields::is_label(&block.text) && !block.text.contains('\n');
                    match pending_label.take().filter(|_| !alone) {
                        Some(label) if fields::labelled(&block.text).is_none() => {
                            self.fields.add_under(&label, &block.text);
                        }
                        _ => self.fields.add(&block.text),
                    }
                    if alone {
                        pending_label = Some(block.text.trim_matches(['*', '_', ' ']).to_owned());
                    }
                }
                BlockKind::Heading(_) | BlockKind::Rule | BlockKind::Close(_) => {}
            }
        }
    }

    /// Returns the title without its number and severity.
    pub fn without_label(&self) -> &str {
        let (_, rest) = label::split_ordinal(&self.title);
        label::leading_label(rest).map_or(rest, |label| label.rest)
    }

    /// Returns whether the severity field means that there is no problem: `Severity: none`.
    pub fn is_rated_as_nothing(&self) -> bool {
        let severity = self.fields.severity.as_deref();
        severity.is_some_and(|field| is_no_severity(field.lines().next().unwrap_or_default()))
    }

    /// Returns whether the unit is a remark and not a finding: `**Verdict:** …`, `**Overall:** …`.
    /// If findings are expected, `**Validation missing** …` is one, although such a heading would
    /// not be.
    pub fn is_remark(&self, expected: bool) -> bool {
        let line = self.title.lines().next().unwrap_or_default();
        let label = fields::split_label(line).map(|(label, _)| label);
        let bold = line
            .strip_prefix("**")
            .and_then(|inner| inner.split_once("**"))
            .map(|(bold, _)| bold.trim_end_matches(':'));
        let is_remark = |label: &str| {
            verdict::is_label(label)
                || label.split_whitespace().count() <= 3
                    && topic::topic(label) == topic::Topic::Aside
                    && (!expected || topic::is_closing_word(label))
        };
        !self.fields.is_telling() && (label.is_some_and(is_remark) || bold.is_some_and(is_remark))
    }

    /// Reads an item that only reports on an earlier finding: `[Important] … -- FIXED.`
    pub fn disposition(&self) -> Option<(String, bool)> {
        let text = self.title.lines().next().unwrap_or_default();
        let marked =
            text.contains("FIXED") || text.contains("RESOLVED") || text.contains("VERIFIED");
        (self.is_item && marked).then(|| (text.to_owned(), true))
    }
}

fn section_text(section: &Section) -> String {
    let mut text = String::new();
    for block in &section.blocks {
        if matches!(block.kind, BlockKind::Item(_) | BlockKind::Paragraph) {
            text.push_str(&block.text);
            text.push('\n');
        }
    }
    text
}

/// Splits a section's own blocks into units: outer items with everything nested in them, and
/// paragraphs.
pub(super) fn units(blocks: &[Block]) -> Vec<FindingUnit> {
    let mut units: Vec<FindingUnit> = Vec::new();
    let base = blocks
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::Item(_)))
        .map(|block| block.indent)
        .min()
        .unwrap_or(0);
    let counted = blocks.iter().any(|block| {
        matches!(block.kind, BlockKind::Item(Marker::Number(_))) && block.indent == base
    });
    let mut by_file: Option<(String, usize)> = None;
    for (at, block) in blocks.iter().enumerate() {
        if let Some((file, indent)) = by_file.take().filter(|_| block.indent > base + 1) {
            if matches!(block.kind, BlockKind::Item(_)) && block.indent <= indent + 1 {
                units.push(start_in(block, &file));
            } else if let Some(unit) = units.last_mut() {
                unit.take(std::slice::from_ref(block));
            }
            by_file = Some((file, indent));
            continue;
        }
        match block.kind {
            BlockKind::Item(marker) if starts_unit(block, marker, base, counted, units.last()) => {
                by_file = file_of_list(block, &blocks[at + 1..]);
                if by_file.is_none() {
                    units.push(start(block, true));
                }
            }
            BlockKind::Paragraph
                if block.indent <= base + 1 && !belongs_to_item(block, units.last()) =>
            {
                units.push(start(block, false));
            }
            BlockKind::Item(_) | BlockKind::Paragraph | BlockKind::Code | BlockKind::Table(_) => {
                if let Some(unit) = units.last_mut() {
                    unit.take(std::slice::from_ref(block));
                }
            }
            BlockKind::Heading(_) | BlockKind::Rule | BlockKind::Close(_) => {}
        }
    }
    units
}

/// Returns the file of an item that is only a file name, if every item directly under it names its
/// own line: then those are the findings. Also returns their indentation.
fn file_of_list(block: &Block, rest: &[Block]) -> Option<(String, usize)> {
    let place = locations::find_location(&block.text);
    let alone = block.text.split_whitespace().count() == 1 && place.line.is_none();
    let file = place.file.filter(|_| alone)?;
    let indent = rest
        .first()
        .filter(|next| matches!(next.kind, BlockKind::Item(_)) && next.indent > block.indent)?
        .indent;
    let mut under = rest
        .iter()
        .take_while(|next| next.indent > block.indent)
        .filter(|next| matches!(next.kind, BlockKind::Item(_)) && next.indent <= indent + 1);
    under
        .all(|item| {
            locations::find_location(&item.text).line.is_some()
                && fields::labelled(&item.text).is_none()
        })
        .then_some((file, indent))
}

/// Starts a unit for an item under the name of a file.
fn start_in(block: &Block, file: &str) -> FindingUnit {
    let mut unit = start(block, true);
    let place = locations::find_location(&block.text);
    unit.fields.file = Some(place.file.unwrap_or_else(|| file.to_owned()));
    unit.fields.line = place.line.map(|line| match place.end_line {
        Some(end) => format!("{line}-{end}"),
        None => line.to_string(),
    });
    unit
}

fn starts_unit(
    block: &Block,
    marker: Marker,
    base: usize,
    counted: bool,
    last: Option<&FindingUnit>,
) -> bool {
    let detail_of_counted =
        counted && marker == Marker::Bullet && last.is_some_and(|unit| unit.is_item);
    if block.indent > base + 1 || detail_of_counted {
        return false;
    }
    // `Suggestion:` is a severity or a part; it is a part if the finding above has other parts.
    let degree = label::leading_label(&block.text).is_some()
        && last.is_none_or(|unit| !unit.fields.is_telling());
    marker != Marker::Bullet
        || fields::labelled(&block.text).is_none()
        || degree
        || is_whole_finding(block)
}

/// Returns whether an item has several labelled lines: `- Severity: high`, `File: a.rs:3` below it. A
/// part of a finding has one label.
fn is_whole_finding(block: &Block) -> bool {
    let labels = block
        .text
        .lines()
        .filter_map(fields::labelled)
        .map(|(field, _)| field);
    let mut known: Vec<fields::FindingField> = Vec::new();
    for field in labels {
        if !known.contains(&field) {
            known.push(field);
        }
    }
    known.len() > 2
}

/// Returns whether a labelled paragraph belongs to the finding above it.
fn belongs_to_item(block: &Block, last: Option<&FindingUnit>) -> bool {
    let labelled = fields::labelled(&block.text).is_some();
    last.is_some_and(|unit| labelled && (unit.is_item || unit.bold_lead))
}

fn start(block: &Block, is_item: bool) -> FindingUnit {
    let (title, rest) = split_title(&block.text);
    let mut unit = FindingUnit {
        title,
        is_item,
        bold_lead: block.text.starts_with("**") && !block.text.starts_with("**:"),
        ticked: matches!(block.kind, BlockKind::Item(Marker::Box { ticked: true })),
        ..FindingUnit::default()
    };
    unit.fields.add(&rest);
    unit
}

/// Splits an item into its title and the rest. The title is the bold part if that is more than a
/// label, else the first paragraph.
fn split_title(text: &str) -> (String, String) {
    if let Some(inner) = text.strip_prefix("**")
        && let Some(end) = inner.find("**")
    {
        let bold = &inner[..end];
        let short = bold.split_whitespace().count() < 3
            || label::leading_label(bold).is_some_and(|label| label.rest.trim().is_empty());
        let rest = inner[end + 2..].trim_start_matches([':', ' ']);
        if !short && !rest.is_empty() {
            return (bold.replace('\n', " "), rest.to_owned());
        }
    }
    // A first line that ends in a location is the title.
    if let Some((first, rest)) = text.split_once('\n')
        && compose::without_tail(first).len() < first.len()
    {
        return (first.to_owned(), rest.to_owned());
    }
    // A label at the start of a line ends the title.
    if fields::labelled(text).is_some_and(|(field, _)| field != fields::FindingField::Fix) {
        return (String::new(), text.to_owned());
    }
    let cut = text
        .match_indices('\n')
        .map(|(at, _)| at)
        .find(|&at| fields::labelled(&text[at + 1..]).is_some());
    match cut {
        Some(at) => (text[..at].to_owned(), text[at + 1..].to_owned()),
        None => (text.to_owned(), String::new()),
    }
}
