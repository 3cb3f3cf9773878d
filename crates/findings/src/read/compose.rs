//! Builds a finding from a unit of text: the title without numbers, labels and locations, the
//! severity from the nearest label, the location from the most reliable text.

use super::confidence;
use super::degree::scale_word;
use super::draft::FindingDraft;
use super::finding_unit::FindingUnit;
use super::label::{self, DegreeStrength};
use super::locations::{self, Location};
use super::markdown::SectionContext;
use super::topic;
use crate::severity::Severity;

/// Returns the severity label of a title: in front, or in brackets at its end.
pub(super) fn label_of(title: &str) -> Option<(String, DegreeStrength)> {
    let first = title.lines().next().unwrap_or_default();
    let (name, rest) = label::split_ordinal(first);
    let own = label::leading_label(rest).or_else(|| label::leading_label(first));
    let own = own
        .filter(|label| {
            label.plain == DegreeStrength::Strong || label::trailing_label(rest).is_none()
        })
        .or_else(|| label::trailing_label(rest));
    own.map(|label| (label.raw, label.plain)).or_else(|| {
        name.filter(|name| name.to_lowercase().starts_with("bug"))
            .map(|_| ("Bug".to_owned(), DegreeStrength::Weak))
    })
}

/// Builds a finding from a unit; `None` if it has no usable title.
pub(super) fn draft(unit: &FindingUnit, context: &SectionContext) -> Option<FindingDraft> {
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
    let place = locate(unit, context);
    let status = unit.fields.status.clone().unwrap_or_default();
    let is_settled = topic::is_settled(&status)
        || ends_settled(&unit.title)
        || unit
            .fields
            .problem
            .lines()
            .next()
            .is_some_and(starts_settled);
    let asks_nothing = unit.fields.fix.as_deref().is_some_and(topic::asks_nothing);
    let problem = full_problem(unit, &title);
    Some(FindingDraft {
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
        confidence: unit
            .fields
            .confidence
            .as_deref()
            .and_then(confidence::of_text),
        anchor: anchor(&unit.code),
        idle: is_settled || asks_nothing || unit.ticked || context.settled,
        ..FindingDraft::default()
    })
}

fn title_text(unit: &FindingUnit) -> String {
    let (_, rest) = label::split_ordinal(unit.title.trim());
    let mut rest = label::leading_label(rest).map_or(rest, |label| label.rest);
    // `[HIGH][Security] …` and `[Security]: …` start with a category.
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
    let (_, rest) = label::split_ordinal(rest);
    let plain = rest.replace("**", "").replace('\n', " ");
    without_tail(without_place(plain.trim()))
        .trim_matches([':', '—', '–', ' ', '\u{1}'])
        .to_owned()
}

/// Removes the location at the start of a title: `` `a.rs:3` — … ``. A location alone is no title.
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
    let location = locations::find_location(first);
    let bare = first.trim_matches(['`', ':']);
    let is_place = in_brackets || location.line.is_some() || location.file.as_deref() == Some(bare);
    let after = rest.trim_start_matches(['—', '–', '-', ':', ' ']);
    match after.len() {
        _ if !is_place => title,
        0 => "",
        4.. if dashed => after,
        _ => title,
    }
}

/// Removes the location at the end of a title: `… — a.rs:3-9`.
pub(super) fn without_tail(title: &str) -> &str {
    let Some((front, tail)) = title
        .rsplit_once(" — ")
        .or_else(|| title.rsplit_once(" – "))
        .or_else(|| title.rsplit_once(" - "))
    else {
        return title;
    };
    let bare = tail.trim().trim_matches('`');
    let place = locations::parse_location_field(bare);
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

/// Reads the category in `(security): …` after the severity.
fn category_in_brackets(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text
        .trim_start_matches('*')
        .strip_prefix('(')?
        .split_once(')')?;
    (name.len() < 30 && crate::Category::from_label(name).is_some())
        .then(|| (name, after.trim_start_matches([':', '*', ' '])))
}

fn full_problem(unit: &FindingUnit, title: &str) -> Option<String> {
    let problem = unit.fields.problem.trim();
    (!problem.is_empty() && problem != title).then(|| problem.to_owned())
}

/// Reads the category in `**[Security]:** …`.
fn category_tag(title: &str) -> Option<String> {
    let (_, rest) = label::split_ordinal(title);
    let rest = label::leading_label(rest).map_or(rest, |label| label.rest);
    if let Some((name, _)) = category_in_brackets(rest) {
        return Some(name.to_owned());
    }
    let inner = title
        .split('[')
        .skip(1)
        .find_map(|part| part.split_once(']'))?
        .0;
    (inner.len() < 40 && scale_word(inner).is_none()).then(|| inner.to_owned())
}

fn severity_of(unit: &FindingUnit, context: &SectionContext) -> Option<String> {
    let own = label_of(&unit.title);
    if let Some((raw, DegreeStrength::Strong)) = &own {
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
        // A sign that agrees with the heading adds nothing, so the heading's word stays.
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
    match (Severity::from_word(sign), Severity::from_word(word)) {
        (Some(sign), Some(word)) => sign == word || (sign.is_must_fix() && word.is_must_fix()),
        _ => true,
    }
}

/// Reads the severity in a field: `🔴 **Critical**`, `CRITICAL (Access Control)`.
fn first_degree(field: &str) -> String {
    let line = field.lines().next().unwrap_or_default();
    let words = line
        .split(|c: char| !(c.is_alphanumeric() || c == '-'))
        .filter(|word| !word.is_empty());
    let degree = words
        .clone()
        .find(|word| scale_word(word).is_some() && word.is_ascii())
        .or_else(|| words.clone().find(|word| scale_word(word).is_some()));
    degree.map_or_else(
        || line.trim_matches(['*', ' ', '`']).to_owned(),
        str::to_owned,
    )
}

fn locate(unit: &FindingUnit, context: &SectionContext) -> Location {
    let mut place = unit
        .fields
        .file
        .as_deref()
        .map(|file| locations::parse_location_field(file.lines().next().unwrap_or(file)))
        .unwrap_or_default();
    if let Some(range) = unit.fields.line.as_deref().filter(|_| place.line.is_none()) {
        (place.line, place.end_line) = locations::parse_line_range(
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
    // The file of the heading takes precedence over files that the text merely mentions.
    place.file = place.file.or_else(|| context.file.clone());
    for text in [unit.fields.problem.as_str(), unit.code.as_str()] {
        if place.file.is_none() || place.line.is_none() {
            fill(&mut place, text);
        }
    }
    place
}

/// Returns the title without its ordinal: `L1:` is not a line number.
fn bare_title(unit: &FindingUnit) -> &str {
    label::split_ordinal(&unit.title).1
}

/// Fills the missing parts of a location from a text; a line counts only with its file.
fn fill(place: &mut Location, text: &str) {
    let other_place = locations::find_location(text);
    match (&place.file, &other_place.file) {
        (None, Some(_)) => {
            let line = place.line;
            *place = other_place;
            place.line = line.or(place.line);
        }
        (Some(file), Some(other))
            if other_place.line.is_some()
                && (file.ends_with(other.as_str()) || other.ends_with(file.as_str())) =>
        {
            (place.line, place.end_line) = (other_place.line, other_place.end_line);
        }
        (None, None) if place.line.is_none() => {
            (place.line, place.end_line) = (other_place.line, other_place.end_line);
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

/// Returns the anchor of a finding: a single quoted line of code.
fn anchor(code: &str) -> Option<String> {
    let mut lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    (lines.next().is_none() && first.len() > 7).then(|| first.to_owned())
}
