//! What a linter's run amounts to: findings, nothing to report, or no answer at all.
//!
//! A linter that dies, is stopped or prints what cannot be read has said nothing about the change.
//! Its exit code tells these apart, and what a code means is different for every tool.

mod command;
mod known;
mod report;

use findings::{Review, ReviewClaim, ReviewFormat};
use serde_json::Value;

use crate::process::ProcessExit;
use command::LinterCommand;
use known::{ExitCodeMeaning, meaning};
use report::LinterReport;

/// How a linter ended and what it printed.
#[derive(Clone, Copy, Debug)]
pub struct LinterRun<'a> {
    /// The reviewer's name in the panel.
    pub name: &'a str,
    /// For `sh -c`.
    pub command: &'a str,
    /// None where it could not be started.
    pub exit: Option<ProcessExit>,
    pub stdout: &'a str,
    /// Both streams, in the order in which they came.
    pub output: &'a str,
    /// Some of the output was not kept.
    pub cut: bool,
    /// The end of the output, for people.
    pub tail: &'a str,
    /// The directories at which the repository stands, to make absolute paths relative.
    pub roots: &'a [&'a str],
}

/// Reads the findings of a linter's run. An error says why the run is no answer, and what to do.
pub fn findings_of(run: &LinterRun<'_>) -> Result<Review, String> {
    let code = match run.exit {
        None => return Err(no_answer(run, "could not be started")),
        Some(ProcessExit::Code(126 | 127)) => {
            return Err(no_answer(run, "was not found or cannot be run"));
        }
        // A shell tells of a signal that ended its command in this way.
        Some(ProcessExit::Code(code @ 129..=192)) => {
            let what = format!("was killed by signal {}", code - 128);
            return Err(no_answer(run, &what));
        }
        Some(ProcessExit::Code(code)) => code,
        Some(
            ProcessExit::Signal(_)
            | ProcessExit::WallLimit
            | ProcessExit::IdleLimit
            | ProcessExit::DiskLimit { .. }
            | ProcessExit::Cancelled
            | ProcessExit::Dismissed,
        ) => return Err(no_answer(run, "did not run to its end")),
    };
    if run.cut {
        return Err(no_answer(
            run,
            "printed more than is kept, so findings may be missing",
        ));
    }
    let command = LinterCommand::parse(run.command);
    let review = read(run);
    let has_findings = !review.findings.is_empty();
    match meaning(&command, code) {
        ExitCodeMeaning::Broken => Err(no_answer(
            run,
            "ended with a code that does not stand for findings",
        )),
        ExitCodeMeaning::Findings if !has_findings => Err(no_answer(
            run,
            "ended as if it had findings, and none can be read from its output",
        )),
        _ if has_crashed(run) && !is_report(run.stdout) => Err(no_answer(run, "crashed")),
        _ if reports_its_own_failure(run.stdout) || report::tells_of_failure(run.stdout) => {
            Err(no_answer(run, "reports that it did not run to its end"))
        }
        ExitCodeMeaning::Findings => Ok(review),
        ExitCodeMeaning::Clean { .. } if has_findings => Ok(review),
        ExitCodeMeaning::Clean { is_certain } => {
            if let LinterReport::Unclear(why) = report::judge(run.stdout, command.tool) {
                return Err(no_answer(run, why));
            }
            if is_clean(run, &command, is_certain) {
                Ok(Review {
                    way: ReviewFormat::Linter,
                    ..Review::new(ReviewClaim::Unknown, Vec::new())
                })
            } else {
                Err(no_answer(
                    run,
                    "printed something that cannot be read as findings",
                ))
            }
        }
    }
}

/// Its standard output alone where findings are in it: notes on standard error would make a report
/// unreadable. Some tools print their findings there, though.
fn read(run: &LinterRun<'_>) -> Review {
    let alone = findings::read_in(run.roots, run.stdout);
    if !alone.findings.is_empty() || is_report(run.stdout) {
        return alone;
    }
    findings::read_in(run.roots, run.output)
}

/// Whether output without findings says that there are none.
fn is_clean(run: &LinterRun<'_>, command: &LinterCommand<'_>, is_certain: bool) -> bool {
    let is_silent = run.stdout.trim().is_empty();
    let is_clean_report = report::judge(run.stdout, command.tool) == LinterReport::Clean;
    if is_certain || is_clean_report || says_none(run.output) {
        return !has_crashed(run);
    }
    if known::is_known(command) {
        return !is_troubled(run.output);
    }
    is_silent && !is_troubled(run.output)
}

/// Whether the text is a machine's: JSON, JSON lines or XML.
fn is_report(text: &str) -> bool {
    let text = text.trim();
    if text.is_empty() {
        return false;
    }
    let is_json =
        |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_string());
    let is_xml = text.starts_with('<') && text.ends_with('>');
    is_xml
        || is_json(text)
        || text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .all(is_json)
}

/// Whether a report says of itself that it is not complete: SARIF's invocations, a list of errors
/// of the tool beside an empty list of results.
fn reports_its_own_failure(stdout: &str) -> bool {
    let Ok(report) = serde_json::from_str::<Value>(stdout.trim()) else {
        return false;
    };
    let runs = report["runs"].as_array().into_iter().flatten();
    let mut invocations = runs.flat_map(|run| run["invocations"].as_array().into_iter().flatten());
    if invocations.any(|invocation| invocation["executionSuccessful"] == false) {
        return true;
    }
    let is_there = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    let has_results = ["results", "findings", "issues", "diagnostics"]
        .iter()
        .any(|key| report[*key].as_array().is_some_and(|list| !list.is_empty()));
    !has_results
        && (is_there(&report["error"])
            || report["errors"].is_array() && is_there(&report["errors"]))
}

/// What interpreters and runtimes print when a program dies.
const CRASHES: [&str; 13] = [
    "Traceback (most recent call last)",
    "panicked at ",
    "Segmentation fault",
    "core dumped",
    "Exception in thread ",
    "Unhandled exception",
    "UnhandledPromiseRejection",
    "Uncaught exception",
    "JavaScript heap out of memory",
    "OutOfMemoryError",
    "Out of memory",
    "fatal error: all goroutines are asleep",
    "PHP Fatal error",
];

fn has_crashed(run: &LinterRun<'_>) -> bool {
    CRASHES.iter().any(|sign| run.output.contains(sign))
}

/// Words that a tool with nothing to report does not use.
const TROUBLE: [&str; 14] = [
    "error",
    "warning",
    "problem",
    "issue",
    "offense",
    "violation",
    "fail",
    "fatal",
    "exception",
    "not found",
    "no such file",
    "usage:",
    "cannot",
    "could not",
];

fn is_troubled(output: &str) -> bool {
    let lower = output.to_lowercase();
    TROUBLE.iter().any(|word| lower.contains(word))
        || CRASHES.iter().any(|sign| output.contains(sign))
}

/// Whether the last line says in words that nothing was found, and no line counts anything.
fn says_none(output: &str) -> bool {
    const NOUNS: [&str; 8] = [
        "issue",
        "problem",
        "error",
        "warning",
        "finding",
        "violation",
        "offense",
        "defect",
    ];
    let lower = output.to_lowercase();
    let Some(last) = lower.lines().rfind(|line| !line.trim().is_empty()) else {
        return false;
    };
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let is_noun = |word: &str| NOUNS.iter().any(|noun| word.starts_with(noun));
    let counts = words(&lower)
        .windows(2)
        .any(|pair| pair[0].parse::<u64>().is_ok_and(|count| count > 0) && is_noun(&pair[1]));
    let denies = last.contains("all checks passed")
        || words(last)
            .windows(2)
            .any(|pair| matches!(pair[0].as_str(), "no" | "0" | "zero") && is_noun(&pair[1]));
    denies && !counts
}

fn no_answer(run: &LinterRun<'_>, what: &str) -> String {
    let ended = run
        .exit
        .map(|exit| format!(" ({exit})"))
        .unwrap_or_default();
    let tail: Vec<&str> = run.tail.lines().collect();
    let last = tail[tail.len().saturating_sub(TAIL_LINES)..].join("\n");
    let last = findings::clean(last.trim());
    let shown = if last.is_empty() {
        "It printed nothing.".to_owned()
    } else {
        format!("Its last lines:\n{last}")
    };
    format!(
        "The linter {} {what}{ended}, so it says nothing about the change. Run it yourself: {}\n{shown}",
        findings::one_line(run.name),
        findings::shorten(&findings::one_line(run.command), COMMAND_CHARS_MAX),
    )
}

/// How many lines of the output a message shows.
const TAIL_LINES: usize = 20;
const COMMAND_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests;
