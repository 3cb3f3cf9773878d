//! Reading, converting, tracking and scoring review texts, outside of any ticket.

use std::path::{Path, PathBuf};

use engine::git::Context;
use findings::score::{Document as Scored, Pair, Table, TrackingTable, claim_word};
use findings::write::{self, DiffLines, Entry, Event};
use findings::{Claim, Finding, Known, LineMap, Link, Review};
use serde_json::{Value, json};

use super::project::open;
use crate::failure::Failure;
use crate::settings::{Surroundings, read_bounded};

/// More is read by nobody, and no reviewer writes as much.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// A review text, read.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub name: String,
    pub text: String,
    pub review: Review,
}

/// Reads files; `-` is the standard input.
pub fn parse(directory: &Path, names: &[String]) -> Result<Vec<Parsed>, Failure> {
    let real = directory.canonicalize().unwrap_or_default();
    let roots = [directory.to_string_lossy(), real.to_string_lossy()];
    let roots: Vec<&str> = roots.iter().map(|root| &**root).collect();
    names
        .iter()
        .map(|name| {
            let bytes = match name.as_str() {
                "-" => crate::settings::read_stdin(BYTES_MAX)?,
                name => read_bounded(&directory.join(name), "the review", BYTES_MAX)?,
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(Parsed {
                name: name.clone(),
                review: findings::read_in(&roots, &text),
                text,
            })
        })
        .collect()
}

/// What was read, as programs want it: the claim as `verdict`, severities as words, the raw text.
pub fn as_json(parsed: &Parsed) -> Value {
    let review = &parsed.review;
    let mut value = serde_json::to_value(review).unwrap_or_default();
    let findings: Vec<Value> = review.findings.iter().map(finding_json).collect();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("claim");
        fields.insert("file".to_owned(), json!(parsed.name));
        fields.insert("verdict".to_owned(), json!(claim_word(review.claim)));
        fields.insert("findings".to_owned(), json!(findings));
        fields.insert("raw".to_owned(), json!(parsed.text));
    }
    value
}

fn finding_json(finding: &Finding) -> Value {
    let mut value = serde_json::to_value(finding).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("rating");
        fields.insert("severity".to_owned(), json!(finding.rating.severity.word()));
        fields.insert("raw_severity".to_owned(), json!(finding.rating.raw));
        fields.insert(
            "severity_unknown".to_owned(),
            json!(finding.rating.unknown_word),
        );
        fields.insert("file".to_owned(), json!(finding.file));
        fields.insert("line".to_owned(), json!(finding.line));
        fields.insert(
            "fingerprint".to_owned(),
            json!(findings::fingerprint(finding)),
        );
    }
    value
}

/// The forms that a review can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Our own JSON.
    Json,
    /// Findings document, Markdown.
    Document,
    /// Numbered checklist, Markdown.
    Checklist,
    /// JSON array of findings for an engineer's task.
    Qa,
    /// `ReviewReport` JSON.
    Report,
    /// Rework context for a builder, Markdown.
    Rework,
    /// SARIF 2.1.0.
    Sarif,
    /// reviewdog's JSON.
    Rdjson,
    /// reviewdog's JSON lines.
    Rdjsonl,
    /// GitLab code quality.
    Gitlab,
    /// Checkstyle XML.
    Checkstyle,
    /// `JUnit` XML: what must be fixed fails, the rest is skipped.
    Junit,
    /// GitHub workflow commands.
    GithubAnnotations,
    /// A GitHub review; comments only on lines that the diff has (--diff).
    GithubReview,
    /// Markdown summary with a hidden marker, to be updated instead of repeated.
    Summary,
}

/// What a form needs that the reviews do not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// The pull request's diff, for comments on its lines.
    pub diff: Option<&'a str>,
    /// The full id of the commit that was reviewed.
    pub commit: Option<&'a str>,
}

/// All that the reviews ask for in one form: findings, blocking issues and bare refusals, so that
/// a refusal is never an empty report.
pub fn convert(parsed: &[Parsed], form: Form, wanted: Wanted<'_>, now: &str) -> String {
    let reviews: Vec<&Review> = parsed.iter().map(|one| &one.review).collect();
    let found: Vec<Finding> = reviews
        .iter()
        .flat_map(|review| write::reported(review))
        .collect();
    let entries: Vec<Entry<'_>> = found.iter().map(Entry::from).collect();
    let verdict = write::verdict(&reviews);
    let pretty = |value: Value| format!("{value:#}\n");
    match form {
        Form::Json => pretty(json!(parsed.iter().map(as_json).collect::<Vec<_>>())),
        Form::Document => write::document(&head(parsed, verdict, now), &entries),
        Form::Checklist => write::checklist(&entries),
        Form::Qa => pretty(write::qa_findings(&entries)),
        Form::Report => pretty(report(parsed, &found, verdict, now)),
        Form::Rework => write::rework_context(&write::feedback(&entries)),
        Form::Sarif => pretty(write::sarif(
            "countersign",
            env!("CARGO_PKG_VERSION"),
            &entries,
        )),
        Form::Rdjson => pretty(write::rdjson("countersign", &entries)),
        Form::Rdjsonl => write::rdjsonl(&entries),
        Form::Gitlab => pretty(write::gitlab(&entries)),
        Form::Checkstyle => write::checkstyle(&entries),
        Form::Junit => write::junit("countersign", &entries),
        Form::GithubAnnotations => write::workflow_commands(&entries),
        Form::GithubReview => {
            let lines = wanted.diff.map(DiffLines::parse).unwrap_or_default();
            pretty(write::github_review(
                Event::from(verdict),
                wanted.commit,
                headline(verdict),
                "countersign",
                &entries,
                &lines,
            ))
        }
        Form::Summary => write::summary("countersign", headline(verdict), 1, &entries),
    }
}

/// The full id of a commit: given as one, or looked up in the repository.
pub async fn commit_id(
    surroundings: &Surroundings,
    repository: &Path,
    name: &str,
) -> Result<String, Failure> {
    if write::is_commit_id(name) {
        return Ok(name.to_owned());
    }
    let git = open(surroundings, repository).await?;
    let found = git.resolve(name).await.map_err(Failure::usage)?;
    Ok(found.to_string())
}

fn headline(claim: Claim) -> &'static str {
    match claim {
        Claim::Approved => "Approved",
        Claim::ChangesRequested => "Changes requested",
        Claim::Unknown => "No verdict stated",
    }
}

fn head<'a>(parsed: &'a [Parsed], claim: Claim, now: &'a str) -> write::Document<'a> {
    write::Document {
        story: parsed.first().map_or("", |one| one.name.as_str()),
        round: 1,
        reviewer: "unknown",
        date: now,
        branch: "unknown",
        recommendation: headline(claim),
    }
}

fn report(parsed: &[Parsed], reported: &[Finding], verdict: Claim, now: &str) -> Value {
    // Blocking issues have a list of their own in this form.
    let blocking_titles: Vec<&str> = parsed
        .iter()
        .flat_map(|one| &one.review.blocking_issues)
        .map(|issue| issue.message.as_str())
        .collect();
    let found: Vec<&Finding> = reported
        .iter()
        .filter(|finding| !blocking_titles.contains(&finding.title.as_str()))
        .collect();
    let scores: Vec<_> = parsed
        .iter()
        .flat_map(|one| one.review.scores.clone())
        .collect();
    let blocking: Vec<_> = parsed
        .iter()
        .flat_map(|one| one.review.blocking_issues.clone())
        .collect();
    let policy = flow::Policy::default();
    let low = |(name, score): &(String, findings::Score)| {
        let weight = policy
            .dimensions
            .get(name)
            .map(|known| known.weight)
            .or(score.weight);
        weight
            .and_then(|weight| policy.minimum(name, weight))
            .is_some_and(|least| score.score < least)
    };
    let overall = parsed
        .iter()
        .filter_map(|one| one.review.overall_score)
        .min();
    write::review_report(&write::Report {
        ticket_id: parsed.first().map_or("", |one| one.name.as_str()),
        reviewed_at: now,
        reviewer: "unknown",
        approved: verdict == Claim::Approved,
        overall_score: overall,
        revision_count: 0,
        scores: &scores,
        findings: &found,
        blocking_issues: &blocking,
        revision_notes: parsed.iter().find_map(|one| one.review.notes.as_deref()),
        all_critical_dimensions_pass: !scores.iter().any(low),
        overall_score_above_threshold: overall.is_none_or(|score| score >= policy.overall_minimum),
    })
}

/// Which finding of the new review is which of the old one.
#[derive(Clone, Debug)]
pub struct Tracked {
    pub old: Parsed,
    pub new: Parsed,
    pub links: Vec<Link>,
}

/// Where two commits are named, lines are followed through the diff between them.
pub async fn track(
    directory: &Path,
    names: (&str, &str),
    commits: Option<(&Surroundings, PathBuf, &str, &str)>,
) -> Result<Tracked, Failure> {
    let mut both = parse(directory, &[names.0.to_owned(), names.1.to_owned()])?.into_iter();
    let (Some(old), Some(new)) = (both.next(), both.next()) else {
        return Err(Failure::usage("two reviews are needed"));
    };
    let lines = match commits {
        None => LineMap::default(),
        Some((surroundings, repository, from, to)) => {
            let git = open(surroundings, &repository).await?;
            let from = git.resolve(from).await.map_err(Failure::usage)?;
            let to = git.resolve(to).await.map_err(Failure::usage)?;
            LineMap::parse(
                &git.diff(&from, &to, Context::None)
                    .await
                    .map_err(Failure::error)?
                    .text,
            )
        }
    };
    let ids: Vec<String> = (1..=old.review.findings.len())
        .map(|n| format!("F{n}"))
        .collect();
    let known: Vec<Known<'_>> = ids
        .iter()
        .zip(&old.review.findings)
        .map(|(id, finding)| Known { id, finding })
        .collect();
    let links = findings::track_review(&known, &new.review, &lines);
    Ok(Tracked { old, new, links })
}

/// How the reader does on a corpus of annotated reviews.
pub fn score(dir: &Path, generated: bool) -> Result<(Table, TrackingTable), Failure> {
    let documents = corpus(dir)?;
    let tracking = std::fs::read_to_string(dir.join("TRACKING.json")).unwrap_or_default();
    let pairs = Pair::list(&serde_json::from_str(&tracking).unwrap_or_default());
    let table = findings::score::score(&documents, generated);
    Ok((table, findings::score::tracking(&pairs, &documents)))
}

/// Every `NNN-….*` that has an `NNN.expected.json` beside it.
fn corpus(dir: &Path) -> Result<Vec<Scored>, Failure> {
    let fail =
        |error: std::io::Error| Failure::usage(format!("the corpus {}: {error}", dir.display()));
    let mut documents = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some((number, _)) = name.split_once('-') else {
            continue;
        };
        let Ok(expected) = std::fs::read_to_string(dir.join(format!("{number}.expected.json")))
        else {
            continue;
        };
        let expected = serde_json::from_str(&expected)
            .map_err(|error| Failure::usage(format!("{number}.expected.json: {error}")))?;
        let text =
            String::from_utf8_lossy(&read_bounded(&path, "the document", BYTES_MAX)?).into_owned();
        documents.push(Scored {
            number: number.to_owned(),
            text,
            expected,
        });
    }
    if documents.is_empty() {
        return Err(
            Failure::usage(format!("{} holds no annotated documents", dir.display()))
                .hint("a corpus has pairs NNN-name.md and NNN.expected.json"),
        );
    }
    documents.sort_by(|a, b| a.number.cmp(&b.number));
    Ok(documents)
}
