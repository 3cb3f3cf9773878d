//! Makes a finding of a unit: its title without numbers, labels and places, its severity from the
//! nearest label, its place from the surest text.

use super::confidence;
use super::degree::scale_word;
use super::draft::FindingDraft;
use super::label::{self, DegreeStrength};
use super::markdown::SectionContext;
use super::place::{self, Location};
use super::topic;
use super::unit::FindingUnit;
use crate::severity::Severity;

/// The severity that a title carries: in front, or in brackets at its end.
pub(super) fn label_of(title: &str) -> Option<(String, DegreeStrength)> {
    let first = title.lines().next().unwrap_or_default();
    let (name, rest) = label::ordinal(first);
    let own = label::leading(rest).or_else(|| label::leading(first));
    let own = own
        .filter(|label| label.plain == DegreeStrength::Strong || label::trailing(rest).is_none())
        .or_else(|| label::trailing(rest));
    own.map(|label| (label.raw, label.plain)).or_else(|| {
        name.filter(|name| name.to_lowercase().starts_with("bug"))
            .map(|_| ("Bug".to_owned(), DegreeStrength::Weak))
    })
}

/// Makes a finding of a unit.
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
        idle: told_fixed || asks_nothing || unit.ticked || context.settled,
        ..FindingDraft::default()
    })
}

fn title_text(unit: &FindingUnit) -> String {
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
pub(super) fn without_tail(title: &str) -> &str {
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

fn full_problem(unit: &FindingUnit, title: &str) -> Option<String> {
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
        .find(|word| scale_word(word).is_some() && word.is_ascii())
        .or_else(|| words.clone().find(|word| scale_word(word).is_some()));
    known.map_or_else(
        || line.trim_matches(['*', ' ', '`']).to_owned(),
        str::to_owned,
    )
}

fn place_of(unit: &FindingUnit, context: &SectionContext) -> Location {
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
fn bare_title(unit: &FindingUnit) -> &str {
    label::ordinal(&unit.title).1
}

/// Takes from a text what the place still lacks; a line counts only for the file it stands with.
fn fill(place: &mut Location, text: &str) {
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

/// A single quoted line of code is what the finding points at.
fn anchor(code: &str) -> Option<String> {
    let mut lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    (lines.next().is_none() && first.len() > 7).then(|| first.to_owned())
}
