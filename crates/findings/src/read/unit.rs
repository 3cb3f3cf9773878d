//! One finding of a Markdown document: its title, its labelled parts, its code.

use super::blocks::{Block, Kind, Marker, Section};
use super::draft::Draft;
use super::fields::{self, Fields};
use super::label::{self, Plain};
use super::markdown::Context;
use super::place::{self, Place};
use super::topic;
use super::verdict;
use crate::severity::Severity;

#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    /// The first words: a heading, the bold part of an item, or its first sentence.
    pub title: String,
    pub fields: Fields,
    pub code: String,
    pub is_item: bool,
    pub bold_lead: bool,
    pub ticked: bool,
}

impl Unit {
    /// A section as one finding: the heading and everything under it.
    pub fn of_section(section: &Section) -> Self {
        let mut unit = Self::of_blocks(section);
        unit.title.clone_from(&section.heading);
        for child in &section.children {
            let under = Self::of_section(child);
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

    /// Only what stands right under the heading.
    pub fn of_blocks(section: &Section) -> Self {
        let mut unit = Self::default();
        unit.take(&section.blocks);
        unit
    }

    /// Only the outer level of what stands right under the heading.
    pub fn of_outer_blocks(section: &Section) -> Self {
        let base = section
            .blocks
            .iter()
            .filter(|block| matches!(block.kind, Kind::Item(_)))
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
                Kind::Code => {
                    self.code.push_str(&block.text);
                    self.code.push('\n');
                }
                Kind::Table(rows) => {
                    for row in rows.iter().take(30) {
                        self.fields.add(&row.join(" "));
                    }
                }
                Kind::Item(_) | Kind::Paragraph => {
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
                Kind::Heading(_) | Kind::Rule | Kind::Close(_) => {}
            }
        }
    }

    /// The title behind its number and its severity.
    pub fn without_label(&self) -> &str {
        let (_, rest) = label::ordinal(&self.title);
        label::leading(rest).map_or(rest, |label| label.rest)
    }

    /// `**Verdict:** …`, `**Overall:** …` and the like among findings are none.
    pub fn is_remark(&self) -> bool {
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
        };
        !self.fields.is_telling() && (label.is_some_and(is_remark) || bold.is_some_and(is_remark))
    }

    /// An item that only reports on an earlier finding: `[Important] … -- FIXED.`
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
        if matches!(block.kind, Kind::Item(_) | Kind::Paragraph) {
            text.push_str(&block.text);
            text.push('\n');
        }
    }
    text
}

/// The units among a section's own blocks: items at the outer level with all that is nested in
/// them, and paragraphs.
pub(super) fn units(blocks: &[Block]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let base = blocks
        .iter()
        .filter(|block| matches!(block.kind, Kind::Item(_)))
        .map(|block| block.indent)
        .min()
        .unwrap_or(0);
    let counted = blocks
        .iter()
        .any(|block| matches!(block.kind, Kind::Item(Marker::Number(_))) && block.indent == base);
    for block in blocks {
        match block.kind {
            Kind::Item(marker) if starts_unit(block, marker, base, counted, units.last()) => {
                units.push(start(block, true));
            }
            Kind::Paragraph
                if block.indent <= base + 1 && !belongs_to_item(block, units.last()) =>
            {
                units.push(start(block, false));
            }
            Kind::Item(_) | Kind::Paragraph | Kind::Code | Kind::Table(_) => {
                if let Some(unit) = units.last_mut() {
                    unit.take(std::slice::from_ref(block));
                }
            }
            Kind::Heading(_) | Kind::Rule | Kind::Close(_) => {}
        }
    }
    units
}

fn starts_unit(
    block: &Block,
    marker: Marker,
    base: usize,
    counted: bool,
    last: Option<&Unit>,
) -> bool {
    let detail_of_counted =
        counted && marker == Marker::Bullet && last.is_some_and(|unit| unit.is_item);
    if block.indent > base + 1 || detail_of_counted {
        return false;
    }
    // `Suggestion:` is a degree or a part; it is a part where the finding above has others.
    let degree =
        label::leading(&block.text).is_some() && last.is_none_or(|unit| !unit.fields.is_telling());
    marker != Marker::Bullet || fields::labelled(&block.text).is_none() || degree
}

/// A labelled paragraph goes with the finding above it.
fn belongs_to_item(block: &Block, last: Option<&Unit>) -> bool {
    let labelled = fields::labelled(&block.text).is_some();
    last.is_some_and(|unit| labelled && (unit.is_item || unit.bold_lead))
}

fn start(block: &Block, is_item: bool) -> Unit {
    let (title, rest) = split_title(&block.text);
    let mut unit = Unit {
        title,
        is_item,
        bold_lead: block.text.starts_with("**") && !block.text.starts_with("**:"),
        ticked: matches!(block.kind, Kind::Item(Marker::Box { ticked: true })),
        ..Unit::default()
    };
    unit.fields.add(&rest);
    unit
}

/// The title of an item and the text behind it: the bold part where it is more than a label, else
/// the paragraph that the item starts with.
fn split_title(text: &str) -> (String, String) {
    if let Some(inner) = text.strip_prefix("**")
        && let Some(end) = inner.find("**")
    {
        let bold = &inner[..end];
        let short = bold.split_whitespace().count() < 3
            || label::leading(bold).is_some_and(|label| label.rest.trim().is_empty());
        let rest = inner[end + 2..].trim_start_matches([':', ' ']);
        if !short && !rest.is_empty() {
            return (bold.replace('\n', " "), rest.to_owned());
        }
    }
    // A first line that ends in a place is a title of its own.
    if let Some((first, rest)) = text.split_once('\n')
        && without_tail(first).len() < first.len()
    {
        return (first.to_owned(), rest.to_owned());
    }
    // Labels on lines of their own end the title.
    if fields::labelled(text).is_some_and(|(field, _)| field != fields::Field::Fix) {
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

/// The severity that a title carries: in front, or in brackets at its end.
pub(super) fn label_of(title: &str) -> Option<(String, Plain)> {
    let first = title.lines().next().unwrap_or_default();
    let (name, rest) = label::ordinal(first);
    let own = label::leading(rest).or_else(|| label::leading(first));
    let own = own
        .filter(|label| label.plain == Plain::Strong || label::trailing(rest).is_none())
        .or_else(|| label::trailing(rest));
    own.map(|label| (label.raw, label.plain)).or_else(|| {
        name.filter(|name| name.to_lowercase().starts_with("bug"))
            .map(|_| ("Bug".to_owned(), Plain::Weak))
    })
}

/// Makes a finding of a unit.
pub(super) fn draft(unit: &Unit, context: &Context) -> Option<Draft> {
    let mut title = title_text(unit);
    if title.is_empty() {
        unit.fields
            .problem
            .lines()
            .next()
            .unwrap_or_default()
            .clone_into(&mut title);
    }
    if title.chars().filter(|c| c.is_alphanumeric()).count() < 3 {
        return None;
    }
    let place = place_of(unit, context);
    let mark = unit.fields.status.clone().unwrap_or_default();
    let told_fixed = topic::is_settled(&mark)
        || ends_settled(&unit.title)
        || unit
            .fields
            .problem
            .lines()
            .next()
            .is_some_and(starts_settled);
    let asks_nothing = unit.fields.fix.as_deref().is_some_and(topic::asks_nothing);
    let problem = full_problem(unit, &title);
    Some(Draft {
        title,
        problem,
        impact: unit.fields.impact.clone(),
        fix: unit.fields.fix.clone(),
        file: place.file,
        line: place.line,
        end_line: place.end_line,
        severity: severity_of(unit, context),
        category: unit
            .fields
            .category
            .clone()
            .or_else(|| category_tag(&unit.title)),
        confidence: unit.fields.confidence.as_deref().and_then(percent),
        anchor: anchor(&unit.code),
        idle: told_fixed || asks_nothing || unit.ticked || context.settled,
        ..Draft::default()
    })
}

fn title_text(unit: &Unit) -> String {
    let (_, rest) = label::ordinal(unit.title.trim());
    let mut rest = label::leading(rest).map_or(rest, |label| label.rest);
    // `[HIGH][Security] …` and `[Security]: …` carry a category in front.
    if let Some((tag, after)) = rest
        .trim_start_matches('*')
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'))
        && tag.len() < 40
        && !after.starts_with('(')
    {
        rest = after.trim_start_matches([':', '*', ' ']);
    }
    let rest = category_in_brackets(rest).map_or(rest, |(_, after)| after);
    let (_, rest) = label::ordinal(rest);
    let plain = rest.replace("**", "").replace('\n', " ");
    without_tail(without_place(plain.trim()))
        .trim_matches([':', '—', '–', ' ', '\u{1}'])
        .to_owned()
}

/// A title behind the place it begins with: `` `a.rs:3` — … ``. A place alone is no title.
fn without_place(title: &str) -> &str {
    let first = match title.strip_prefix('`').and_then(|inner| inner.find('`')) {
        Some(end) => &title[..end + 2],
        None => title.split([' ', ',']).next().unwrap_or_default(),
    };
    let rest = title[first.len()..].trim_start();
    let in_brackets = first.starts_with("(L") && first.ends_with(')');
    let dashed = rest.starts_with(['—', '–', ':'])
        || rest.starts_with("- ")
        || first.ends_with(':')
        || in_brackets;
    let place = place::place(first);
    let bare = first.trim_matches(['`', ':']);
    let is_place = in_brackets || place.line.is_some() || place.file.as_deref() == Some(bare);
    let after = rest.trim_start_matches(['—', '–', '-', ':', ' ']);
    match after.len() {
        _ if !is_place => title,
        0 => "",
        4.. if dashed => after,
        _ => title,
    }
}

/// A title in front of the place it ends with: `… — a.rs:3-9`.
fn without_tail(title: &str) -> &str {
    let Some((front, tail)) = title
        .rsplit_once(" — ")
        .or_else(|| title.rsplit_once(" – "))
        .or_else(|| title.rsplit_once(" - "))
    else {
        return title;
    };
    let bare = tail.trim().trim_matches('`');
    let place = place::place_field(bare);
    let is_place = place.line.is_some()
        && place
            .file
            .is_some_and(|file| bare.starts_with(&file) && bare.len() < file.len() + 24);
    if is_place && front.chars().count() > 8 {
        front.trim_end()
    } else {
        title
    }
}

/// `(security): …` behind the degree names a category.
fn category_in_brackets(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text
        .trim_start_matches('*')
        .strip_prefix('(')?
        .split_once(')')?;
    (name.len() < 30 && crate::Category::of(name).is_some())
        .then(|| (name, after.trim_start_matches([':', '*', ' '])))
}

fn full_problem(unit: &Unit, title: &str) -> Option<String> {
    let problem = unit.fields.problem.trim();
    (!problem.is_empty() && problem != title).then(|| problem.to_owned())
}

/// The category in `**[Security]:** …`.
fn category_tag(title: &str) -> Option<String> {
    let (_, rest) = label::ordinal(title);
    let rest = label::leading(rest).map_or(rest, |label| label.rest);
    if let Some((name, _)) = category_in_brackets(rest) {
        return Some(name.to_owned());
    }
    let inner = title
        .split('[')
        .skip(1)
        .find_map(|part| part.split_once(']'))?
        .0;
    (inner.len() < 40 && label::scale_word(inner).is_none()).then(|| inner.to_owned())
}

fn severity_of(unit: &Unit, context: &Context) -> Option<String> {
    let own = label_of(&unit.title);
    if let Some((raw, Plain::Strong)) = &own {
        return Some(raw.clone());
    }
    if let Some(field) = unit
        .fields
        .severity
        .as_deref()
        .map(first_degree)
        .filter(|word| !word.is_empty())
    {
        return Some(field);
    }
    match (own, &context.severity) {
        // A sign that agrees with the heading adds nothing to its word.
        (Some((raw, _)), Some(word))
            if raw.chars().all(|c| !c.is_alphanumeric()) && agrees(&raw, word) =>
        {
            Some(word.clone())
        }
        (Some((raw, _)), _) => Some(raw),
        (None, word) => word.clone(),
    }
}

fn agrees(sign: &str, word: &str) -> bool {
    match (Severity::of(sign), Severity::of(word)) {
        (Some(sign), Some(word)) => sign == word || (sign.is_must_fix() && word.is_must_fix()),
        _ => true,
    }
}

/// The degree in a severity field: `🔴 **Critical**`, `CRITICAL (Access Control)`.
fn first_degree(field: &str) -> String {
    let line = field.lines().next().unwrap_or_default();
    let words = line
        .split(|c: char| !(c.is_alphanumeric() || c == '-'))
        .filter(|word| !word.is_empty());
    let known = words
        .clone()
        .find(|word| label::scale_word(word).is_some() && word.is_ascii())
        .or_else(|| words.clone().find(|word| label::scale_word(word).is_some()));
    known.map_or_else(
        || line.trim_matches(['*', ' ', '`']).to_owned(),
        str::to_owned,
    )
}

fn place_of(unit: &Unit, context: &Context) -> Place {
    let mut place = unit
        .fields
        .file
        .as_deref()
        .map(|file| place::place_field(file.lines().next().unwrap_or(file)))
        .unwrap_or_default();
    if let Some(range) = unit.fields.line.as_deref().filter(|_| place.line.is_none()) {
        (place.line, place.end_line) = place::range(
            range
                .lines()
                .next()
                .unwrap_or(range)
                .split(['(', ',', ';'])
                .next()
                .unwrap_or(range),
        );
    }
    if place.file.is_some() {
        return place;
    }
    fill(&mut place, bare_title(unit));
    // The heading's file counts before what the text mentions in passing.
    place.file = place.file.or_else(|| context.file.clone());
    for text in [unit.fields.problem.as_str(), unit.code.as_str()] {
        if place.file.is_none() || place.line.is_none() {
            fill(&mut place, text);
        }
    }
    place
}

/// The title without what counts it: `L1:` is no line.
fn bare_title(unit: &Unit) -> &str {
    label::ordinal(&unit.title).1
}

/// Takes from a text what the place still lacks; a line counts only for the file it stands with.
fn fill(place: &mut Place, text: &str) {
    let found = place::place(text);
    match (&place.file, &found.file) {
        (None, Some(_)) => {
            let line = place.line;
            *place = found;
            place.line = line.or(place.line);
        }
        (Some(file), Some(other))
            if found.line.is_some()
                && (file.ends_with(other.as_str()) || other.ends_with(file.as_str())) =>
        {
            (place.line, place.end_line) = (found.line, found.end_line);
        }
        (None, None) if place.line.is_none() => {
            (place.line, place.end_line) = (found.line, found.end_line);
        }
        _ => {}
    }
}

fn ends_settled(title: &str) -> bool {
    let first = title.lines().next().unwrap_or_default();
    let tail = first
        .rsplit(['—', '–', '(', '['])
        .next()
        .unwrap_or_default();
    (tail.len() < first.len() && tail.len() < 40 && topic::is_settled(tail))
        || first.contains('✅')
        || first.contains("RETRACTED")
}

fn starts_settled(text: &str) -> bool {
    let head: String = text.chars().take(24).collect();
    head.trim_start().starts_with(['—', '–', '-']) && topic::is_settled(&head)
}

fn percent(text: &str) -> Option<u8> {
    let digits: String = text
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok().filter(|percent| *percent <= 100)
}

/// A single quoted line of code is what the finding points at.
fn anchor(code: &str) -> Option<String> {
    let mut lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    (lines.next().is_none() && first.len() > 7).then(|| first.to_owned())
}
