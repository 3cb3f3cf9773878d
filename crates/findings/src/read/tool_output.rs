//! Reads the text output of tools: one finding per line, or a few lines each.
//!
//! It knows `path:line:col: level: message`, GitHub workflow commands, rustc's arrows, XML reports
//! and blocks of `File:`, `Line:`, `Type:`.
//!
//! Prose with a few quoted lines of a compiler is a review and no tool output. So at least half of
//! the sampled lines must have the shape of a record.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::draft::FindingDraft;
use super::locations;
use super::xml;
use crate::clean::FINDINGS_MAX;
use crate::write::OWN_SEVERITY_KEY;

type RecordPattern = LazyLock<Option<Regex>>;

static GCC: RecordPattern = LazyLock::new(|| {
    Regex::new(
        r"(?x)^\s*(?P<file>(?:[A-Za-z]:)?[^\s:()][^:()\n]{0,300}?)
        (?: :(?P<line>[0-9]{1,7})(?:[:.][0-9]{1,7})?(?:-[0-9]{1,7}(?::[0-9]{1,7})?)? | \((?P<line2>[0-9]{1,7})(?:,[0-9]{1,7})*\) )
        \s?:?\s+(?P<rest>\S.*)$",
    )
    .ok()
});

static LEVEL: RecordPattern = LazyLock::new(|| {
    Regex::new(r"(?xi)^(?:\[?(?P<level>fatal\s+error|error|warning|warn|note|info|information|style|hint|refactor|convention|fatal|critical|high|medium|low|major|minor|help)\]?(?:\[(?P<code>[\w-]+)\])?\s*(?::|\s-)?\s+)?(?:(?P<rule>[A-Z]{1,5}[0-9]{2,6})(?:\([\w-]+\))?:?\s+)?(?:\[\*\]\s+)?(?P<message>\S.*)$").ok()
});

static TAIL: RecordPattern =
    LazyLock::new(|| Regex::new(r"\s*[\[(](?P<rule>[A-Za-z][\w/.@:-]{1,60})[\])]\s*$").ok());

fn capture<'a>(pattern: &RecordPattern, text: &'a str) -> Option<Captures<'a>> {
    pattern.as_ref()?.captures(text)
}

fn text(captures: &Captures<'_>, name: &str) -> Option<String> {
    captures
        .name(name)
        .map(|group| group.as_str().trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// Reads the text output of a tool; `None` for prose, even if it quotes a few lines of a tool.
pub(super) fn drafts(input: &str) -> Option<Vec<FindingDraft>> {
    if let Some(drafts) = xml::drafts(input) {
        return Some(drafts);
    }
    if let Some(drafts) = labelled_blocks(input) {
        return Some(drafts);
    }
    let lines: Vec<&str> = input
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    // A minified file in a log has lines of megabytes, on which patterns are slow.
    if lines
        .iter()
        .take(SAMPLE_LINES)
        .any(|line| line.len() > LINE_BYTES_MAX)
    {
        return None;
    }
    // The first lines show whether this is the output of a tool; the rest is read only then.
    let sample = &lines[..lines.len().min(SAMPLE_LINES)];
    let mostly = |read: fn(&str) -> Option<FindingDraft>| {
        sample.iter().filter(|line| read(line).is_some()).count() * 2 >= sample.len().max(1)
    };
    if mostly(command) {
        return Some(
            lines
                .iter()
                .filter_map(|line| command(line))
                .take(FINDINGS_MAX)
                .collect(),
        );
    }
    let arrows = arrows(&lines);
    // rustc writes up to a dozen lines per message.
    if arrows.len() * 12 >= lines.len() && !arrows.is_empty() && !input.contains("\n#") {
        return Some(arrows);
    }
    mostly(gcc).then(|| {
        lines
            .iter()
            .filter_map(|line| gcc(line))
            .take(FINDINGS_MAX)
            .collect()
    })
}

/// Number of lines that are checked to tell a tool's output from prose.
const SAMPLE_LINES: usize = 2_000;
/// Maximum length of a line of a tool's output.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Reads `a.c:3:5: warning: message [rule]`.
fn gcc(line: &str) -> Option<FindingDraft> {
    // A cheap test before the pattern: most lines of a log have no number.
    if !line.contains([':', '(']) || !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let captures = capture(&GCC, line)?;
    let file = text(&captures, "file")?;
    let rest = text(&captures, "rest")?;
    let is_file = locations::find_location(&format!("{file}:1"))
        .file
        .is_some()
        && !file.contains(' ');
    // A path with a blank is prose most of the time, and these marks begin a list, a table or a
    // heading.
    if !is_file || file.starts_with(['-', '*', '|', '#', '`']) {
        return None;
    }
    let parts = capture(&LEVEL, &rest)?;
    let message = text(&parts, "message")?;
    let tail = capture(&TAIL, &message);
    let rule = text(&parts, "rule")
        .or_else(|| text(&parts, "code"))
        .or_else(|| tail.as_ref().and_then(|tail| text(tail, "rule")));
    let title = tail
        // A rule in brackets at the end is no part of the message.
        .and_then(|tail| {
            tail.get(0)
                .map(|matched| message[..matched.start()].to_owned())
        })
        .filter(|title| !title.is_empty())
        .unwrap_or(message);
    Some(FindingDraft {
        title,
        file: Some(file),
        line: text(&captures, "line")
            .or_else(|| text(&captures, "line2"))
            .and_then(|line| line.parse().ok()),
        severity: text(&parts, "level"),
        rule,
        ..FindingDraft::default()
    })
}

/// Reads `::error file=a.js,line=3,endLine=4,title=Lint::message`.
fn command(line: &str) -> Option<FindingDraft> {
    let line = line.trim_start();
    let (head, message) = match line.strip_prefix("::") {
        Some(rest) => rest.split_once("::")?,
        // Azure Pipelines writes the same commands with other brackets.
        None => line.strip_prefix("##[")?.split_once(']')?,
    };
    let (level, keys) = head.split_once(' ').unwrap_or((head, ""));
    if !matches!(level, "error" | "warning" | "notice" | "debug") || message.trim().is_empty() {
        return None;
    }
    let value = |name: &str| {
        keys.split(',')
            .find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
            .map(unescaped)
    };
    let message = unescaped(message.trim());
    let whole = match value("title") {
        Some(title) if title != message => {
            FindingDraft::from_message(&format!("{title}\n\n{message}"))
        }
        Some(_) | None => FindingDraft::from_message(&message),
    };
    Some(FindingDraft {
        file: value("file"),
        line: value("line").and_then(|line| line.parse().ok()),
        end_line: value("endLine").and_then(|line| line.parse().ok()),
        severity: value(OWN_SEVERITY_KEY).or_else(|| Some(level.to_owned())),
        ..whole
    })
}

/// Undoes the runner's escapes of characters that would end a command or a property.
fn unescaped(text: &str) -> String {
    // `%25` is replaced last. Else `%250A` would become a line end.
    text.replace("%0D", "")
        .replace("%0A", "\n")
        .replace("%3A", ":")
        .replace("%2C", ",")
        .replace("%25", "%")
}

/// Reads output like that of rustc: a message, then `--> path:line:col` on one of the next lines.
fn arrows(lines: &[&str]) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let mut heading: Option<&str> = None;
    for line in lines {
        let trimmed = line.trim();
        if let Some(place) = trimmed
            .strip_prefix("--> ")
            .map(locations::parse_location_field)
        {
            let parts = heading.take().and_then(|heading| {
                capture(&LEVEL, heading).map(|captures| {
                    (
                        text(&captures, "level"),
                        text(&captures, "code"),
                        text(&captures, "message"),
                    )
                })
            });
            if let Some((level, rule, Some(title))) = parts {
                drafts.push(FindingDraft {
                    title,
                    severity: level,
                    rule,
                    file: place.file,
                    line: place.line,
                    ..FindingDraft::default()
                });
            }
        } else if ["error", "warning", "note", "info", "help"]
            .iter()
            .any(|level| trimmed.starts_with(level))
            && trimmed.contains(':')
        {
            heading = Some(trimmed);
        }
    }
    drafts
}

/// Reads blocks of `File:`, `Line:` and `Type:` between rules, as review tools print them.
fn labelled_blocks(input: &str) -> Option<Vec<FindingDraft>> {
    let is_rule = |line: &str| line.len() >= 8 && line.trim().chars().all(|c| c == '=' || c == '-');
    if input.lines().filter(|line| is_rule(line)).count() < 1 || !input.contains("\nFile:") {
        return None;
    }
    let mut drafts = Vec::new();
    let mut block: Vec<&str> = Vec::new();
    for line in input.lines().chain(std::iter::once("========")) {
        if is_rule(line) {
            drafts.extend(labelled_block(&block));
            block.clear();
        } else {
            block.push(line);
        }
    }
    (!drafts.is_empty()).then_some(drafts)
}

fn labelled_block(lines: &[&str]) -> Option<FindingDraft> {
    let value = |name: &str| {
        lines
            .iter()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let file = value("File:")?;
    let (line, end_line) = value("Line:")
        .or_else(|| value("Lines:"))
        .map(locations::parse_line_range)
        .unwrap_or_default();
    let is_boilerplate = |line: &str| {
        line.is_empty()
            || line.ends_with("Agent:")
            || line.ends_with("Agents:")
            || line.starts_with("Verify each finding")
            || line == "Comment:"
    };
    let body: Vec<&str> = lines
        .iter()
        .filter(|line| {
            !["File:", "Line:", "Lines:", "Type:", "Severity:"]
                .iter()
                .any(|name| line.starts_with(name))
        })
        .map(|line| line.trim())
        .filter(|line| !is_boilerplate(line))
        .collect();
    let title = (*body.first()?).to_owned();
    Some(FindingDraft {
        title,
        problem: Some(body.join("\n")),
        file: Some(file.to_owned()),
        line,
        end_line,
        severity: value("Severity:")
            .or_else(|| value("Type:"))
            .map(str::to_owned),
        ..FindingDraft::default()
    })
}

#[cfg(test)]
mod tests;
