//! Findings of a person on a ticket's commit: a comment on a line, or the report of a tool that the
//! person ran. They enter the ledger and are reworked and verified like a reviewer's.

use engine::git::{Oid, Repository};
use findings::{Finding, Rating, ReviewFormat, Severity};
use flow::ticket::Submission;
use flow::{EventKind, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::diff::repository_of;
use crate::failure::Failure;

/// Longest title; the rest of a longer text is its problem.
const TITLE_CHARS_MAX: usize = 120;
/// Longest text of one finding.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// One finding, as a person writes it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonFinding {
    /// The defect. Its first line is the title.
    pub text: String,
    /// Path in the repository.
    #[serde(default)]
    pub file: Option<String>,
    /// Line in the ticket's current commit, counted from 1.
    #[serde(default)]
    pub line: Option<u32>,
    #[serde(default)]
    pub end_line: Option<u32>,
    /// `critical`, `high`, `medium`, `low` or `suggestion`. Without it: high for a must-fix
    /// finding, else medium.
    #[serde(default)]
    pub severity: Option<String>,
    /// A proposal how to fix it.
    #[serde(default)]
    pub fix: Option<String>,
}

/// An entry of the ledger that a person's finding became.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AddedFinding {
    /// Id in the ledger, such as `F3`.
    pub id: String,
    pub severity: String,
    pub location: String,
    pub title: String,
    pub status: String,
}

/// Adds a person's findings to the ledger of a ticket. A finding on a line that the commit does not
/// have is refused, and then none is added.
pub async fn add(
    app: &App,
    id: &str,
    written: &[PersonFinding],
    must_fix: bool,
) -> Result<(Ticket, Vec<AddedFinding>), Failure> {
    let findings: Vec<Finding> = written
        .iter()
        .map(|one| to_finding(one, must_fix))
        .collect::<Result<_, _>>()?;
    add_findings(app, id, findings, must_fix).await
}

/// Adds the findings of a report in any format that `findings parse` reads, such as SARIF, rdjson
/// or a linter's JSON. A finding on a file or line that the commit does not have keeps its text and
/// loses its place: tools also report on generated files.
pub async fn import(
    app: &App,
    id: &str,
    text: &str,
    must_fix: bool,
) -> Result<(Ticket, Vec<AddedFinding>), Failure> {
    let stored = app.ticket(id).await?;
    let git = repository_of(app, &stored.ticket).await?;
    let root = git
        .work_tree()
        .map(|tree| tree.to_string_lossy().into_owned());
    let roots: Vec<&str> = root.iter().map(String::as_str).collect();
    let review = findings::read_with_roots(&roots, text);
    let mut findings = findings::write::stated_findings(&review);
    let is_report = matches!(
        review.format,
        ReviewFormat::Sarif | ReviewFormat::Rdjson | ReviewFormat::Linter
    );
    if findings.is_empty() && is_report && review.remarks.is_empty() {
        // A clean report is an ordinary answer of a tool, not a mistake. It approves nothing.
        return Ok((stored.ticket, Vec::new()));
    }
    if findings.is_empty() {
        return Err(Failure::usage("the report has no finding that could be read").hint(
            "`countersign findings parse FILE` shows how it is read; SARIF, rdjson, GitLab code quality, Checkstyle, JUnit, the JSON of linters and review texts are known",
        ));
    }
    if let Some(submission) = &stored.ticket.submission {
        let commit = parse_commit(submission)?;
        for finding in &mut findings {
            if place_problem(&git, &commit, finding).await?.is_some() {
                finding.file = None;
                finding.line = None;
                finding.end_line = None;
            }
        }
    }
    add_findings(app, id, findings, must_fix).await
}

async fn add_findings(
    app: &App,
    id: &str,
    findings: Vec<Finding>,
    must_fix: bool,
) -> Result<(Ticket, Vec<AddedFinding>), Failure> {
    let stored = app.ticket(id).await?;
    let policy = app.coordinator.policy_of(&stored).await?;
    // A ticket without a submission is refused by the state machine, with the reason.
    let commit = match &stored.ticket.submission {
        Some(submission) => {
            let git = repository_of(app, &stored.ticket).await?;
            let commit = parse_commit(submission)?;
            for finding in &findings {
                if let Some(problem) = place_problem(&git, &commit, finding).await? {
                    return Err(Failure::usage(format!("{problem}; nothing was added"))
                        .hint(format!("countersign ticket diff {id}")));
                }
            }
            submission.commit.clone()
        }
        None => String::new(),
    };
    let known: Vec<(String, u32)> = last_reports(&stored.ticket);
    let report = app.report(EventKind::FindingsAdded {
        commit,
        findings: findings.clone(),
        must_fix,
        comments: Vec::new(),
    });
    let ticket = app
        .coordinator
        .decide(&stored.ticket.id, &policy, report)
        .await?;
    let added = added_entries(&ticket, &known, &findings);
    Ok((ticket, added))
}

fn last_reports(ticket: &Ticket) -> Vec<(String, u32)> {
    let entries = ticket.ledger.entries.iter();
    entries
        .map(|entry| (entry.id.clone(), entry.last_round))
        .collect()
}

/// Finds the entries that the findings became: new ones, and known ones with the same title that
/// the person reported again.
fn added_entries(
    ticket: &Ticket,
    known: &[(String, u32)],
    findings: &[Finding],
) -> Vec<AddedFinding> {
    let is_new = |id: &str| !known.iter().any(|(known, _)| known == id);
    let titles: Vec<&str> = findings.iter().map(|one| one.title.as_str()).collect();
    let entries = ticket.ledger.entries.iter();
    let added =
        entries.filter(|entry| is_new(&entry.id) || titles.contains(&entry.finding.title.as_str()));
    added
        .map(|entry| AddedFinding {
            id: entry.id.clone(),
            severity: entry.severity().word().to_owned(),
            location: entry.location(),
            title: entry.finding.title.clone(),
            status: entry.status_text(),
        })
        .collect()
}

fn to_finding(written: &PersonFinding, must_fix: bool) -> Result<Finding, Failure> {
    let text = findings::clean(written.text.trim());
    if text.trim().is_empty() {
        return Err(Failure::usage("the comment is empty; say what is wrong"));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the comment has {} bytes; {TEXT_BYTES_MAX} are the most",
            text.len()
        )));
    }
    let severity = match written.severity.as_deref() {
        None if must_fix => Severity::High,
        None => Severity::Medium,
        Some(word) => Severity::from_word(word).ok_or_else(|| {
            Failure::usage(format!("{word:?} is not a severity"))
                .hint("use critical, high, medium, low or suggestion")
        })?,
    };
    let first = text.lines().next().unwrap_or_default();
    let title = findings::shorten(first, TITLE_CHARS_MAX);
    let file = match written.file.as_deref() {
        None => None,
        Some(path) => Some(path_in_repository(path).ok_or_else(|| {
            Failure::usage(format!("{path:?} is not a path in the repository"))
                .hint("write it relative to the top of the repository: src/main.rs:12")
        })?),
    };
    if file.is_none() && written.line.is_some() {
        return Err(Failure::usage("a line needs a file").hint("src/main.rs:12"));
    }
    let mut finding = Finding::new(&title, Rating::from(severity));
    finding.problem = (title != text).then_some(text);
    finding.file = file;
    finding.line = written.line;
    finding.end_line = written.end_line;
    finding.fix = written.fix.as_deref().map(findings::clean);
    Ok(finding)
}

/// Returns a path as git writes it. A person's path is refused where an agent's would be bent into
/// the repository: it would name another file than the person means.
fn path_in_repository(path: &str) -> Option<String> {
    let leaves = path.starts_with('/') || path.split('/').any(|part| part == "..");
    (!leaves).then(|| findings::confine(path)).flatten()
}

fn parse_commit(submission: &Submission) -> Result<Oid, Failure> {
    Oid::parse(&submission.commit)
        .ok_or_else(|| Failure::error(format!("{:?} is not a commit", submission.commit)))
}

/// Says what is wrong with the place of a finding: the commit has no such file or no such line.
async fn place_problem(
    git: &Repository,
    commit: &Oid,
    finding: &Finding,
) -> Result<Option<String>, Failure> {
    let Some(file) = &finding.file else {
        return Ok(None);
    };
    let content = git.file_at(commit, file).await.map_err(Failure::error)?;
    let Some(content) = content else {
        return Ok(Some(format!(
            "commit {} has no file {file}",
            commit.short()
        )));
    };
    let Some(first) = finding.line else {
        return Ok(None);
    };
    let lines = count_lines(&content);
    let last = finding.end_line.unwrap_or(first);
    let problem = if first == 0 || last < first {
        Some(format!("{file}:{first}-{last} is not a range of lines"))
    } else if last as usize > lines {
        let short = commit.short();
        Some(format!(
            "{file} has {lines} lines in commit {short}, not {last}"
        ))
    } else {
        None
    };
    Ok(problem)
}

fn count_lines(content: &[u8]) -> usize {
    content.split_inclusive(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_with_and_without_its_break() {
        for (content, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(count_lines(content.as_bytes()), lines, "{content:?}");
        }
    }

    #[test]
    fn a_comment_becomes_a_finding_with_title_and_severity() {
        let written = PersonFinding {
            text: "The key is logged.\nEvery request writes it.".to_owned(),
            file: Some("src/a.rs".to_owned()),
            line: Some(3),
            ..PersonFinding::default()
        };
        let finding = to_finding(&written, true).unwrap();
        assert_eq!(finding.title, "The key is logged.");
        assert_eq!(finding.rating.severity, Severity::High);
        assert!(finding.problem.unwrap().contains("Every request"));
        let minor = to_finding(&written, false).unwrap();
        assert_eq!(minor.rating.severity, Severity::Medium);
    }

    #[test]
    fn bad_comments_are_refused() {
        let bad = |change: fn(&mut PersonFinding)| {
            let mut written = PersonFinding {
                text: "x".to_owned(),
                ..PersonFinding::default()
            };
            change(&mut written);
            assert!(to_finding(&written, false).is_err(), "{written:?}");
        };
        bad(|one| one.text = " \n".to_owned());
        bad(|one| one.text = "x".repeat(TEXT_BYTES_MAX + 1));
        bad(|one| one.severity = Some("terrible".to_owned()));
        bad(|one| one.file = Some("../outside".to_owned()));
        bad(|one| one.line = Some(3));
    }
}
