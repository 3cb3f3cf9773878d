//! Interprets a linter's run: findings, no findings, or no answer at all.
//!
//! A linter that crashes, is stopped or prints unreadable output gives no answer about the change.
//! The exit code distinguishes these cases, and its meaning differs for every tool.

mod command;
mod known;
mod report;
mod shapes;

use findings::{Review, ReviewClaim, ReviewFormat};
use serde_json::Value;

use crate::process::ProcessExit;
use command::LinterCommand;
use known::{ExitCodeMeaning, exit_code_meaning};
use report::LinterReport;

/// Exit and output of a linter.
#[derive(Clone, Copy, Debug)]
pub struct LinterRun<'a> {
    /// The reviewer's name in the panel.
    pub name: &'a str,
    /// Command line for `sh -c`.
    pub command: &'a str,
    /// Exit, or `None` if it could not be started.
    pub exit: Option<ProcessExit>,
    pub stdout: &'a str,
    /// Both streams, in the order of their lines.
    pub output: &'a str,
    /// Whether some of the output was dropped.
    pub cut: bool,
    /// The end of the output, for people.
    pub tail: &'a str,
    /// Root directories of the repository, to make absolute paths relative.
    pub roots: &'a [&'a str],
}

/// Reads the findings of a linter's run. The error says why the run is no answer, and what to do.
pub fn read_linter_run(run: &LinterRun<'_>) -> Result<Review, String> {
    let code = match run.exit {
        None => return Err(unusable_run_message(run, "could not be started")),
        Some(ProcessExit::Code(126 | 127)) => {
            return Err(unusable_run_message(run, "was not found or cannot be run"));
        }
        // A shell reports a signal that ended its command as 128 plus its number.
        Some(ProcessExit::Code(code @ 129..=192)) => {
            let what = format!("was killed by signal {}", code - 128);
            return Err(unusable_run_message(run, &what));
        }
        Some(ProcessExit::Code(code)) => code,
        Some(
            ProcessExit::Signal(_)
            | ProcessExit::WallLimit
            | ProcessExit::IdleLimit
            | ProcessExit::DiskLimit { .. }
            | ProcessExit::Cancelled
            | ProcessExit::Dismissed,
        ) => return Err(unusable_run_message(run, "did not run to its end")),
    };
    if run.cut {
        return Err(unusable_run_message(
            run,
            "printed more than Countersign keeps, so findings may be missing",
        ));
    }
    let command = LinterCommand::parse(run.command);
    let review = read_output(run);
    let has_findings = !review.findings.is_empty();
    match exit_code_meaning(&command, code) {
        ExitCodeMeaning::Broken => Err(unusable_run_message(
            run,
            "ended with an exit code that does not mean findings",
        )),
        ExitCodeMeaning::Findings if !has_findings => Err(unusable_run_message(
            run,
            "ended with the exit code for findings, but its output contains none that can be read",
        )),
        _ if has_crashed(run) && !is_report(run.stdout) => {
            Err(unusable_run_message(run, "crashed"))
        }
        _ if reports_its_own_failure(run.stdout) || report::tells_of_failure(run.stdout) => Err(
            unusable_run_message(run, "reports that it did not run to its end"),
        ),
        ExitCodeMeaning::Findings => Ok(review),
        ExitCodeMeaning::Clean { .. } if has_findings => Ok(review),
        ExitCodeMeaning::Clean { is_certain } => {
            if let LinterReport::Unclear(why) = report::judge(run.stdout, command.tool) {
                return Err(unusable_run_message(run, why));
            }
            if is_clean(run, &command, is_certain) {
                Ok(Review {
                    format: ReviewFormat::Linter,
                    ..Review::new(ReviewClaim::Unknown, Vec::new())
                })
            } else {
                Err(unusable_run_message(
                    run,
                    "printed output that cannot be read as findings",
                ))
            }
        }
    }
}

/// Reads stdout alone if it contains findings, because notes on stderr would make a report
/// unreadable. Otherwise it reads both, because some tools print their findings on stderr.
fn read_output(run: &LinterRun<'_>) -> Review {
    let alone = findings::read_with_roots(run.roots, run.stdout);
    if !alone.findings.is_empty() || is_report(run.stdout) {
        return alone;
    }
    findings::read_with_roots(run.roots, run.output)
}

/// Returns whether output without findings means that there are none.
fn is_clean(run: &LinterRun<'_>, command: &LinterCommand<'_>, is_certain: bool) -> bool {
    let is_silent = run.stdout.trim().is_empty();
    let is_clean_report = report::judge(run.stdout, command.tool) == LinterReport::Clean;
    if has_crashed(run)
        || has_troubled_line(run.output, is_clean_report)
        || (looks_like_data(run.stdout) && !is_clean_report)
    {
        return false;
    }
    is_certain
        || is_clean_report
        || says_nothing_found(run.output)
        || known::is_known(command)
        || is_silent
}

/// Returns whether a text begins like JSON or XML. If it cannot be read as such, it was cut.
fn looks_like_data(text: &str) -> bool {
    let mut marks = text.trim_start_matches('\u{feff}').trim_start().chars();
    match marks.next() {
        Some('{' | '<') => true,
        // `[INFO]` begins a line of text.
        Some('[') => !marks.next().is_some_and(|c| c.is_ascii_uppercase()),
        _ => false,
    }
}

/// Returns whether a line speaks of trouble and does not deny it: `warning: no files found`.
fn has_troubled_line(output: &str, is_clean_report: bool) -> bool {
    output.lines().any(|line| {
        // The keys of a report, such as `errors`, are not prose.
        let is_data = is_clean_report
            && line
                .trim_start()
                .starts_with(['{', '}', '[', ']', '<', '"']);
        !is_data && mentions_trouble(line) && !denies_findings(&line.to_lowercase())
    })
}

/// Returns whether a line says that nothing was found, and counts nothing.
fn denies_findings(lower: &str) -> bool {
    says_nothing_found(lower)
        && ![
            "could not",
            "cannot",
            "fatal",
            "exception",
            "not found",
            "usage:",
        ]
        .iter()
        .any(|word| lower.contains(word))
}

/// Returns whether the text is machine-readable: JSON, JSON lines or XML.
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

/// Returns whether a report states that it is incomplete: in SARIF's invocations, or with a list
/// of tool errors and an empty list of results.
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

/// Texts that interpreters and runtimes print when a program crashes.
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
const TROUBLE: [&str; 27] = [
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
    "unable",
    "skipp",
    "timeout",
    "timed out",
    "interrupt",
    "abort",
    "partial",
    "incomplete",
    "truncat",
    "no files",
    "no input",
    "invalid",
    "killed",
];

fn mentions_trouble(output: &str) -> bool {
    let lower = output.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let read_nothing = words
        .windows(2)
        .any(|pair| pair[0] == "0" && pair[1].starts_with("file"));
    read_nothing
        || TROUBLE.iter().any(|word| lower.contains(word))
        || CRASHES.iter().any(|sign| output.contains(sign))
}

/// Returns whether the last line says that nothing was found, and no line counts a problem.
fn says_nothing_found(output: &str) -> bool {
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

fn unusable_run_message(run: &LinterRun<'_>, what: &str) -> String {
    let exit = run
        .exit
        .map(|exit| format!(" ({exit})"))
        .unwrap_or_default();
    let tail: Vec<&str> = run.tail.lines().collect();
    let last = tail[tail.len().saturating_sub(TAIL_LINES)..].join("\n");
    let last = findings::clean(last.trim());
    let last_lines = if last.is_empty() {
        "It printed nothing.".to_owned()
    } else {
        format!("Its last lines:\n{last}")
    };
    format!(
        "The linter {} {what}{exit}, so it gives no answer about the change. Run it yourself: {}\n{last_lines}",
        findings::one_line(run.name),
        findings::shorten(&findings::one_line(run.command), COMMAND_CHARS_MAX),
    )
}

/// Maximum number of output lines in a message.
const TAIL_LINES: usize = 20;
const COMMAND_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests;
