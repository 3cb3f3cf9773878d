//! Reads findings in Markdown tables; the head of a column determines its meaning.

use super::degree;
use super::draft::FindingDraft;
use super::fields;
use super::label;
use super::locations;
use super::markdown::SectionContext;
use super::topic;
use crate::clean::FINDINGS_MAX;
use crate::severity::is_no_severity;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Issue,
    Severity,
    File,
    Line,
    Fix,
    Status,
    Category,
    Other,
}

fn column(head: &str) -> Column {
    let name = head.to_lowercase();
    let name = name.trim_matches(|c: char| !c.is_alphanumeric() && c != ')');
    match name {
        "issue" | "issues" | "finding" | "findings" | "problem" | "description" | "title"
        | "comment" | "what" | "message" | "detail" | "details" | "concern" | "bug" | "summary"
        | "defect" | "observation" | "violation" | "问题" | "描述" | "发现" | "hallazgo"
        | "problema" | "descripción" | "gap" | "risk" | "vulnerability" | "suggestion" | "nit" => {
            Column::Issue
        }
        "severity" | "sev" | "priority" | "prio" | "level" | "严重程度" | "优先级"
        | "severidad" | "risk level" | "sev." => Column::Severity,
        "line" | "lines" | "line(s)" | "行号" => Column::Line,
        "fix" | "recommendation" | "suggested fix" | "resolution" | "action" | "remediation"
        | "required action" | "solution" | "修复建议" | "recomendación" | "proposed fix" => {
            Column::Fix
        }
        "status" | "state" | "disposition" | "状态" | "fixed?" | "estado" => Column::Status,
        "category" | "type" | "area" | "dimension" | "kind" => Column::Category,
        _ if fields::is_severity_label(name) => Column::Severity,
        _ if name.contains("file")
            || name.contains("location")
            || name.contains("where")
            || name.contains("path")
            || name == "文件"
            || name == "位置" =>
        {
            Column::File
        }
        _ => Column::Other,
    }
}

fn columns(rows: &[Vec<String>]) -> Vec<Column> {
    rows.first()
        .map(|head| head.iter().map(|name| column(name)).collect())
        .unwrap_or_default()
}

/// Returns whether the table lists findings: it has a column for the problem, and one for the
/// location or the severity, or findings are expected here.
pub(super) fn is_findings(rows: &[Vec<String>], expected: bool) -> bool {
    let columns = columns(rows);
    let has = |column| columns.contains(&column);
    has(Column::Issue)
        && (has(Column::Severity) || has(Column::File) || (expected && columns.len() > 1))
        && !is_earlier(rows)
}

/// Returns whether the table reports on an earlier round.
pub(super) fn is_earlier(rows: &[Vec<String>]) -> bool {
    rows.first().is_some_and(|head| {
        head.iter().any(|name| {
            topic::topic(name) == topic::Topic::Earlier || name.to_lowercase().contains("round ")
        })
    })
}

pub(super) fn drafts(rows: &[Vec<String>], context: &SectionContext) -> Vec<FindingDraft> {
    let columns = columns(rows);
    rows.iter()
        .skip(1)
        .take(FINDINGS_MAX)
        .filter_map(|row| draft(row, &columns, context))
        .collect()
}

fn draft(row: &[String], columns: &[Column], context: &SectionContext) -> Option<FindingDraft> {
    let cell = |searched| {
        row.iter()
            .zip(columns)
            .find(|(_, column)| **column == searched)
            .map(|(cell, _)| cell.as_str())
            .filter(|cell| !cell.is_empty() && *cell != "-" && *cell != "—")
    };
    let issue = cell(Column::Issue)?;
    let rated_as_nothing = cell(Column::Severity).is_some_and(is_no_severity);
    if rated_as_nothing || topic::is_nothing(issue) || fields::is_label(issue) {
        return None;
    }
    let mut place = cell(Column::File)
        .map(locations::parse_location_field)
        .unwrap_or_default();
    if let Some(lines) = cell(Column::Line).filter(|_| place.line.is_none()) {
        (place.line, place.end_line) =
            locations::parse_line_range(lines.split([',', ';']).next().unwrap_or(lines));
    }
    if place.file.is_none() {
        let inside = locations::find_location(issue);
        place.line = place.line.or(inside.line);
        place.file = inside.file.or_else(|| context.file.clone());
    }
    let status = cell(Column::Status).unwrap_or_default();
    let (_, rest) = label::split_ordinal(issue);
    let own = label::leading_label(rest);
    Some(FindingDraft {
        title: title(own.as_ref().map_or(rest, |label| label.rest)),
        problem: Some(issue.replace("**", "")),
        fix: cell(Column::Fix).map(str::to_owned),
        file: place.file,
        line: place.line,
        end_line: place.end_line,
        severity: cell(Column::Severity)
            .map(degree)
            .or_else(|| own.map(|label| label.raw))
            .or_else(|| context.severity.clone()),
        category: cell(Column::Category).map(str::to_owned),
        idle: context.settled
            || topic::is_settled(status)
            || status.contains('❌')
            || issue.contains("RETRACTED"),
        ..FindingDraft::default()
    })
}

/// Returns the title of a cell: its bold part if that is a sentence, else the whole text.
fn title(text: &str) -> String {
    let bold = text
        .strip_prefix("**")
        .and_then(|inner| inner.split_once("**"))
        .map(|(bold, _)| bold)
        .filter(|bold| bold.split_whitespace().count() > 2);
    bold.unwrap_or(text).replace("**", "")
}

fn degree(cell: &str) -> String {
    let bare = cell.trim_matches(['*', '`', ' ']);
    degree::degree_heading(bare).unwrap_or_else(|| bare.to_owned())
}

/// Reads a table about an earlier round: the subject of each finding, and whether it is fixed.
pub(super) fn earlier(rows: &[Vec<String>]) -> Vec<(String, bool)> {
    let columns = columns(rows);
    let status = columns.iter().position(|column| *column == Column::Status);
    rows.iter()
        .skip(1)
        .filter_map(|row| {
            let subject = row
                .iter()
                .zip(&columns)
                .find(|(cell, column)| {
                    !matches!(column, Column::Status | Column::Severity)
                        && cell.chars().any(char::is_alphabetic)
                })?
                .0;
            let settled = status
                .and_then(|at| row.get(at))
                .is_some_and(|mark| topic::is_settled(mark));
            Some((subject.clone(), settled))
        })
        .collect()
}
