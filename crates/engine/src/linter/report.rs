//! Decides whether a machine-readable report means that nothing was found. Only known shapes do;
//! JSON or XML of another kind gives no answer, whatever the exit code.

use serde_json::{Map, Value};

use super::shapes;

/// The meaning of a linter's standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinterReport {
    /// The output is neither JSON nor XML.
    Text,
    /// The output is a known report without results and without a failure.
    Clean,
    /// The output is something else, or reports results or a failure.
    Unclear(&'static str),
}

const DEPTH_MAX: usize = 32;
const UNKNOWN_SHAPE: &str = "printed a report of an unknown kind";
const COUNTS: &str = "printed a report that counts results but lists none";
const FAILED: &str = "reports that it did not run to its end";

/// Judges a report in which no findings could be read.
pub fn judge(text: &str, tool: Option<&str>) -> LinterReport {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return LinterReport::Text;
    }
    if text.starts_with('<') && text.ends_with('>') {
        return of_xml(text);
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        // A plain parser keeps the last of two fields with the same name, so the first may be
        // hidden.
        return match of_json(&value, tool) {
            LinterReport::Clean if findings::repeats_a_key(text) => {
                LinterReport::Unclear(UNKNOWN_SHAPE)
            }
            report => report,
        };
    }
    let lines: Option<Vec<Value>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).ok())
        .collect();
    match lines {
        Some(lines) => of_lines(&lines, tool),
        None => LinterReport::Text,
    }
}

/// Returns whether a report, with findings or without, states that it is incomplete.
pub fn tells_of_failure(text: &str) -> bool {
    let text = text.trim();
    if text.starts_with("<?xml") || text.starts_with("<checkstyle") {
        return text.contains("<exception");
    }
    serde_json::from_str::<Value>(text).is_ok_and(|value| sarif_failed(&value))
}

fn sarif_failed(report: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    list(&report["runs"])
        .iter()
        .flat_map(|run| list(&run["invocations"]))
        .any(|invocation| {
            let has_error_note = [
                "toolExecutionNotifications",
                "toolConfigurationNotifications",
            ]
            .iter()
            .flat_map(|key| list(&invocation[*key]))
            .any(|note| note["level"] == "error");
            let code = invocation["exitCode"].as_i64().unwrap_or(0);
            let stopped = !invocation["exitSignalName"].is_null()
                || !invocation["processStartFailureMessage"].is_null();
            invocation["executionSuccessful"] == false || has_error_note || stopped || code > 1
        })
}

fn of_json(value: &Value, tool: Option<&str>) -> LinterReport {
    match value {
        Value::Array(items) if items.is_empty() => LinterReport::Clean,
        Value::Array(items) => {
            let has_trouble = items.iter().any(|item| trouble(item, "", 0).is_some());
            if !has_trouble && shapes::is_clean(value, tool) {
                LinterReport::Clean
            } else {
                LinterReport::Unclear(UNKNOWN_SHAPE)
            }
        }
        Value::Object(object) if object.is_empty() => {
            // These tools list results by file name, so no file means no results.
            if matches!(tool, Some("vale" | "markdownlint" | "markdownlint-cli2")) {
                LinterReport::Clean
            } else {
                LinterReport::Unclear(UNKNOWN_SHAPE)
            }
        }
        Value::Object(object) => of_object(object, value, tool),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            LinterReport::Unclear(UNKNOWN_SHAPE)
        }
    }
}

fn of_object(object: &Map<String, Value>, value: &Value, tool: Option<&str>) -> LinterReport {
    if object.contains_key("runs") {
        return of_sarif(object, value);
    }
    match trouble(value, "", 0) {
        Some(why) => LinterReport::Unclear(why),
        None if shapes::is_clean(value, tool) => LinterReport::Clean,
        None => LinterReport::Unclear(UNKNOWN_SHAPE),
    }
}

fn of_sarif(object: &Map<String, Value>, value: &Value) -> LinterReport {
    if sarif_failed(value) {
        LinterReport::Unclear(FAILED)
    } else if shapes::is_clean_sarif(object) {
        LinterReport::Clean
    } else {
        LinterReport::Unclear(UNKNOWN_SHAPE)
    }
}

/// Keys that list results, in lower case without separators.
const LISTS: [&str; 18] = [
    "results",
    "findings",
    "issues",
    "diagnostics",
    "generaldiagnostics",
    "violations",
    "warnings",
    "problems",
    "vulnerabilities",
    "comments",
    "alerts",
    "matches",
    "offenses",
    "messages",
    "advisories",
    "files",
    "leaks",
    "errors",
];

fn folded(key: &str) -> String {
    key.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Finds a part of a report that contradicts "nothing was found".
fn trouble(value: &Value, key: &str, depth: usize) -> Option<&'static str> {
    if depth > DEPTH_MAX {
        return Some(UNKNOWN_SHAPE);
    }
    let name = folded(key);
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match value {
        Value::Null => None,
        Value::Bool(yes) => of_flag(&name, *yes),
        Value::Number(number) => of_count(&name, number),
        Value::String(text) => of_word(&name, text),
        Value::Array(items) => {
            let listed = !items.is_empty()
                && (matches!(
                    name.as_str(),
                    "errors"
                        | "error"
                        | "exceptions"
                        | "failures"
                        | "parseerrors"
                        | "invalidoptionwarnings"
                        | "notifications"
                ) || (LISTS.contains(&name.as_str()) && name != "files"));
            if listed {
                return Some(COUNTS);
            }
            let name_of = |item: &Value| if item.is_object() { "" } else { key };
            items
                .iter()
                .find_map(|item| trouble(item, name_of(item), depth + 1))
        }
        Value::Object(_) if has(&["dependencies"]) => None,
        Value::Object(fields) => {
            if !fields.is_empty() && matches!(name.as_str(), "error" | "exception" | "failure") {
                return Some(FAILED);
            }
            if !fields.is_empty() && matches!(name.as_str(), "violations" | "files") {
                return Some(COUNTS);
            }
            fields
                .iter()
                .find_map(|(key, value)| trouble(value, key, depth + 1))
        }
    }
}

/// Judges a flag: "success" must be true, "error" must be false.
fn of_flag(name: &str, yes: bool) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let good = matches!(
        name,
        "success"
            | "successful"
            | "ok"
            | "passed"
            | "pass"
            | "valid"
            | "approved"
            | "clean"
            | "complete"
            | "completed"
            | "executionsuccessful"
            | "finished"
    );
    let bad = has(&[
        "error",
        "fail",
        "truncat",
        "incomplete",
        "timedout",
        "timeout",
        "fatal",
        "partial",
        "abort",
        "crash",
        "cancel",
        "reject",
        "blocked",
    ]);
    ((good && !yes) || (bad && yes)).then_some(FAILED)
}

/// Judges a number: a count of problems must be zero; a count of files or rules may be anything.
fn of_count(name: &str, number: &serde_json::Number) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let counted = has(&[
        "error",
        "warn",
        "fail",
        "critical",
        "high",
        "medium",
        "moderate",
        "low",
        "issue",
        "violation",
        "problem",
        "offense",
        "vulnerab",
        "fatal",
        "severity",
        "finding",
        "result",
        "informationcount",
        "blocker",
        "leak",
    ]) || matches!(
        name,
        "total" | "count" | "exit" | "exitcode" | "code" | "errorcode" | "info"
    );
    let of_work = has(&[
        "file",
        "scanned",
        "inspected",
        "analy",
        "checked",
        "rules",
        "time",
        "duration",
        "seconds",
        "line",
        "loc",
        "threshold",
        "max",
        "allow",
    ]) && !has(&["fileerror", "filesfailed", "failedfile"]);
    (counted && !of_work && number.as_f64() != Some(0.0)).then_some(COUNTS)
}

fn of_word(name: &str, text: &str) -> Option<&'static str> {
    const GOOD: [&str; 14] = [
        "success",
        "successful",
        "succeeded",
        "ok",
        "passed",
        "pass",
        "clean",
        "completed",
        "complete",
        "finished",
        "done",
        "none",
        "approved",
        "no",
    ];
    let word = folded(text);
    let states = matches!(
        name,
        "status"
            | "state"
            | "outcome"
            | "result"
            | "conclusion"
            | "verdict"
            | "decision"
            | "health"
            | "error"
            | "exception"
            | "message"
            | "reason"
            | "failure"
            | "fatal"
            | "warning"
            | "grade"
            | "detail"
            | "details"
    );
    (states && !word.is_empty() && !GOOD.contains(&word.as_str())).then_some(FAILED)
}

/// Judges JSON lines: a compiler's messages up to its end, or one clean report per line.
fn of_lines(lines: &[Value], tool: Option<&str>) -> LinterReport {
    let reason = |line: &Value| line["reason"].as_str().map(str::to_owned);
    if lines.iter().all(|line| reason(line).is_some()) {
        // A message of the compiler that is no finding, such as an error without a place in the
        // code, is a failure.
        let all_known = lines.iter().all(|line| {
            matches!(
                reason(line).as_deref(),
                Some("compiler-artifact" | "build-script-executed" | "build-finished")
            )
        });
        let is_end = |line: &Value| reason(line).as_deref() == Some("build-finished");
        let ended = lines.last().is_some_and(|last| {
            is_end(last)
                && last["success"] == true
                && last.as_object().is_some_and(|fields| fields.len() == 2)
        }) && lines.iter().filter(|line| is_end(line)).count() == 1;
        return if all_known && ended {
            LinterReport::Clean
        } else {
            LinterReport::Unclear(UNKNOWN_SHAPE)
        };
    }
    let unclear = lines
        .iter()
        .map(|line| of_json(line, tool))
        .find(|report| *report != LinterReport::Clean);
    unclear.unwrap_or(LinterReport::Clean)
}

/// Known XML reports: their root element, and the elements that a report without results has.
const XML: [(&str, &[&str]); 8] = [
    ("checkstyle", &["checkstyle", "file"]),
    ("pmd", &["pmd", "file"]),
    ("testsuites", TEST_ELEMENTS),
    ("testsuite", TEST_ELEMENTS),
    ("issues", &["issues"]),
    (
        "BugCollection",
        &[
            "BugCollection",
            "Project",
            "Jar",
            "AuxClasspathEntry",
            "SrcDir",
            "WrkDir",
            "Errors",
            "FindBugsSummary",
            "FileStats",
            "PackageStats",
            "ClassStats",
            "FindBugsProfile",
            "ClassProfile",
            "ClassFeatures",
            "History",
        ],
    ),
    ("results", &["results", "cppcheck", "errors"]),
    ("jslint", &["jslint", "file"]),
];

const TEST_ELEMENTS: &[&str] = &[
    "testsuites",
    "testsuite",
    "testcase",
    "properties",
    "property",
];

/// Attributes that count results or failures; all of them must be zero.
const COUNTED: [&str; 11] = [
    "failures",
    "errors",
    "failed",
    "error",
    "warnings",
    "skipped",
    "disabled",
    "aborted",
    "missingClasses",
    "total_bugs",
    "timeouts",
];

/// Judges XML: well-formed, only known elements, no text between them, no count above zero.
fn of_xml(text: &str) -> LinterReport {
    let mut open: Vec<&str> = Vec::new();
    let mut allowed: Option<&[&str]> = None;
    let mut ended = false;
    for part in text.split('<').skip(1) {
        let Some((tag, behind)) = part.split_once('>') else {
            return LinterReport::Unclear(UNKNOWN_SHAPE);
        };
        // Text between elements may be the message of a failure.
        if !behind.trim().is_empty() {
            return LinterReport::Unclear(UNKNOWN_SHAPE);
        }
        if tag.starts_with('?') && open.is_empty() && !ended {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name.trim()) {
                return LinterReport::Unclear(UNKNOWN_SHAPE);
            }
            ended = open.is_empty();
            continue;
        }
        let closed = tag.ends_with('/');
        let name = tag
            .split(|c: char| c.is_whitespace() || c == '/')
            .next()
            .unwrap_or_default();
        let known = match allowed {
            Some(known) => known,
            None => match XML.iter().find(|(root, _)| *root == name) {
                Some((_, known)) => *allowed.insert(known),
                None => return LinterReport::Unclear(UNKNOWN_SHAPE),
            },
        };
        if ended || open.len() > DEPTH_MAX {
            return LinterReport::Unclear(UNKNOWN_SHAPE);
        }
        if !known.contains(&name) || COUNTED.iter().any(|counted| counts(tag, counted)) {
            return LinterReport::Unclear(COUNTS);
        }
        if closed {
            ended = open.is_empty();
        } else {
            open.push(name);
        }
    }
    if ended && open.is_empty() {
        LinterReport::Clean
    } else {
        LinterReport::Unclear(UNKNOWN_SHAPE)
    }
}

/// Returns whether the attribute has a value other than zero.
fn counts(tag: &str, name: &str) -> bool {
    tag.split_whitespace().any(|word| {
        word.split_once('=').is_some_and(|(key, value)| {
            key == name && !matches!(value.trim_matches(['"', '\'', '/']), "0" | "false")
        })
    })
}
