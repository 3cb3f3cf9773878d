//! `countersign ticket comment` and `import-findings`: findings of a person.

use app::failure::{ExitKind, Failure};
use app::operations::person_findings::PersonFinding;
use app::operations::questions::decisions::{AddFindings, FindingsAnswer, ImportFindings};
use app::settings::{read_bounded, read_stdin};

use crate::cli::Context;

/// Longest comment that is read from the standard input.
const COMMENT_BYTES_MAX: usize = 64 * 1024;
/// Largest report.
const REPORT_BYTES_MAX: usize = 8 * 1024 * 1024;

pub const COMMENT_HELP: &str = "\
Examples:
  countersign ticket comment T-7 src/greet.py:12 \"An empty name is greeted\" --must-fix
  countersign ticket comment T-7 src/greet.py:12-15 \"This could be one line\" --severity low";

pub const IMPORT_HELP: &str = "\
Examples:
  countersign ticket import-findings T-7 results.sarif
  eslint --format json . | countersign ticket import-findings T-7 - --must-fix";

#[derive(Debug, clap::Args)]
pub struct CommentArgs {
    /// Id of the ticket; its beginning is enough.
    pub ticket: String,
    /// File and line in the ticket's current commit, such as `src/main.rs:12` or
    /// `src/main.rs:12-15`. A file without a line is possible.
    #[arg(value_name = "FILE:LINE")]
    place: String,
    /// Description of the defect. The first line is the title. `-` reads the standard input.
    text: String,
    /// The ticket cannot land before this is fixed and verified. An approval that has not landed
    /// yet is taken back.
    #[arg(long)]
    must_fix: bool,
    /// Severity: critical, high, medium, low or suggestion.
    #[arg(long)]
    severity: Option<String>,
    /// Proposal how to fix it.
    #[arg(long)]
    fix: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    /// Id of the ticket; its beginning is enough.
    pub ticket: String,
    /// The report. `-` reads the standard input.
    file: String,
    /// Every finding must be fixed, whatever its severity. Without it the policy decides by
    /// severity.
    #[arg(long)]
    must_fix: bool,
}

pub async fn comment(args: CommentArgs, context: &Context) -> Result<ExitKind, Failure> {
    let text = match args.text.as_str() {
        "-" => String::from_utf8_lossy(&read_stdin(COMMENT_BYTES_MAX)?).into_owned(),
        text => text.to_owned(),
    };
    let (file, line, end_line) = parse_place(&args.place)?;
    let finding = PersonFinding {
        text,
        file: Some(file),
        line,
        end_line,
        severity: args.severity,
        fix: args.fix,
    };
    let request = AddFindings {
        ticket: args.ticket,
        findings: vec![finding],
        must_fix: args.must_fix,
    };
    Ok(show_added(&context.ask(request).await?, context))
}

pub async fn import(args: ImportArgs, context: &Context) -> Result<ExitKind, Failure> {
    let bytes = match args.file.as_str() {
        "-" => read_stdin(REPORT_BYTES_MAX)?,
        file => read_bounded(
            &context.directory.join(file),
            "the report",
            REPORT_BYTES_MAX,
        )?,
    };
    let request = ImportFindings {
        ticket: args.ticket,
        report: String::from_utf8_lossy(&bytes).into_owned(),
        must_fix: args.must_fix,
    };
    Ok(show_added(&context.ask(request).await?, context))
}

/// Parses `src/main.rs:12`, `src/main.rs:12-15` or `src/main.rs`.
pub fn parse_place(place: &str) -> Result<(String, Option<u32>, Option<u32>), Failure> {
    let bad = || {
        Failure::usage(format!("{place:?} is not a place in a file"))
            .hint("write FILE:LINE or FILE:FIRST-LAST, such as src/main.rs:12")
    };
    let Some((file, lines)) = place.rsplit_once(':') else {
        return Ok((place.to_owned(), None, None));
    };
    let number = |text: &str| text.parse::<u32>().ok().filter(|line| *line > 0);
    let (first, last) = match lines.split_once('-') {
        Some((first, last)) => (number(first), Some(number(last).ok_or_else(bad)?)),
        None => (number(lines), None),
    };
    if file.is_empty() || first.is_none() || last < first && last.is_some() {
        return Err(bad());
    }
    Ok((file.to_owned(), first, last))
}

/// Shows the ledger's entries with their ids, and the ticket's stage.
fn show_added(answer: &FindingsAnswer, context: &Context) -> ExitKind {
    for finding in &answer.findings {
        let place = if finding.location.is_empty() {
            String::new()
        } else {
            format!(", {}", finding.location)
        };
        context.out.line(format!(
            "{} ({}, {}) {}{place}",
            finding.id, finding.severity, finding.status, finding.title
        ));
    }
    if answer.findings.is_empty() {
        context
            .out
            .line("the report has no findings: nothing was added");
    }
    context
        .out
        .line(format!("{} is {}", answer.id, answer.stage));
    context.out.print_json(&serde_json::json!({
        "id": answer.id, "stage": answer.stage, "findings": answer.findings,
    }));
    ExitKind::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_with_or_without_lines() {
        let place = |text: &str| parse_place(text).ok();
        assert_eq!(place("a.rs"), Some(("a.rs".to_owned(), None, None)));
        assert_eq!(place("a.rs:3"), Some(("a.rs".to_owned(), Some(3), None)));
        assert_eq!(
            place("src/a.rs:3-9"),
            Some(("src/a.rs".to_owned(), Some(3), Some(9)))
        );
        for bad in [
            ":3", "a.rs:0", "a.rs:x", "a.rs:9-3", "a.rs:3-", "a.rs:-3", "a.rs:",
        ] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
