//! Reads, converts, tracks and scores review texts without a ticket.

use std::path::{Path, PathBuf};

use engine::git::DiffContext;
use findings::score::{CorpusDocument, RoundPair, ScoreTable, TrackingTable, claim_word};
use findings::write::{self, DiffLines, FindingEntry, GithubReviewEvent};
use findings::{Finding, FindingLink, KnownFinding, LineMap, Review, ReviewClaim};
use serde_json::{Value, json};

use super::project::open_repository;
use crate::failure::Failure;
use crate::settings::{Environment, read_bounded};

/// Maximum size of a review text.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// A review text and its parsed review.
#[derive(Clone, Debug)]
pub struct ParsedReview {
    pub name: String,
    pub text: String,
    pub review: Review,
}

/// Reads files; `-` is the standard input.
pub fn parse(directory: &Path, names: &[String]) -> Result<Vec<ParsedReview>, Failure> {
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
            Ok(ParsedReview {
                name: name.clone(),
                review: findings::read_with_roots(&roots, &text),
                text,
            })
        })
        .collect()
}

/// Renders a review as JSON: the claim as `verdict`, severities as words, and the raw text.
pub fn as_json(parsed: &ParsedReview) -> Value {
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

/// Formats in which a review can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvertFormat {
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

/// Data that some formats need and the reviews do not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConvertOptions<'a> {
    /// The pull request's diff, for comments on its lines.
    pub diff: Option<&'a str>,
    /// The full id of the commit that was reviewed.
    pub commit: Option<&'a str>,
}

/// Writes the reviews in a format: findings, blocking issues, and rejections without findings, so
/// that a rejection is never an empty report.
pub fn convert(
    parsed: &[ParsedReview],
    form: ConvertFormat,
    options: ConvertOptions<'_>,
    now: &str,
) -> String {
    let reviews: Vec<&Review> = parsed
        .iter()
        .map(|parsed_review| &parsed_review.review)
        .collect();
    let reported: Vec<Finding> = reviews
        .iter()
        .flat_map(|review| write::reported_findings(review))
        .collect();
    let entries: Vec<FindingEntry<'_>> = reported.iter().map(FindingEntry::from).collect();
    let verdict = write::combined_verdict(&reviews);
    let pretty = |value: Value| format!("{value:#}\n");
    match form {
        ConvertFormat::Json => pretty(json!(parsed.iter().map(as_json).collect::<Vec<_>>())),
        ConvertFormat::Document => {
            write::write_findings_document(&document_header(parsed, verdict, now), &entries)
        }
        ConvertFormat::Checklist => write::checklist(&entries),
        ConvertFormat::Qa => pretty(write::qa_findings(&entries)),
        ConvertFormat::Report => pretty(build_report(parsed, &reported, verdict, now)),
        ConvertFormat::Rework => write::rework_context(&write::feedback(&entries)),
        ConvertFormat::Sarif => pretty(write::sarif(
            "countersign",
            env!("CARGO_PKG_VERSION"),
            &entries,
        )),
        ConvertFormat::Rdjson => pretty(write::rdjson("countersign", &entries)),
        ConvertFormat::Rdjsonl => write::rdjsonl(&entries),
        ConvertFormat::Gitlab => pretty(write::gitlab(&entries)),
        ConvertFormat::Checkstyle => write::checkstyle(&entries),
        ConvertFormat::Junit => write::junit("countersign", &entries),
        ConvertFormat::GithubAnnotations => write::workflow_commands(&entries),
        ConvertFormat::GithubReview => {
            let lines = options.diff.map(DiffLines::parse).unwrap_or_default();
            pretty(write::github_review(
                GithubReviewEvent::from(verdict),
                options.commit,
                headline(verdict),
                "countersign",
                &entries,
                &lines,
            ))
        }
        ConvertFormat::Summary => write::summary("countersign", headline(verdict), 1, &entries),
    }
}

/// Returns the full id of a commit; a name is looked up in the repository.
pub async fn commit_id(
    environment: &Environment,
    repository: &Path,
    name: &str,
) -> Result<String, Failure> {
    if write::is_commit_id(name) {
        return Ok(name.to_owned());
    }
    let git = open_repository(environment, repository).await?;
    let commit = git.resolve(name).await.map_err(Failure::usage)?;
    Ok(commit.to_string())
}

fn headline(claim: ReviewClaim) -> &'static str {
    match claim {
        ReviewClaim::Approved => "Approved",
        ReviewClaim::ChangesRequested => "Changes requested",
        ReviewClaim::Unknown => "No verdict stated",
    }
}

fn document_header<'a>(
    parsed: &'a [ParsedReview],
    claim: ReviewClaim,
    now: &'a str,
) -> write::DocumentHeader<'a> {
    write::DocumentHeader {
        story: parsed.first().map_or("", |review| review.name.as_str()),
        round: 1,
        reviewer: "unknown",
        date: now,
        branch: "unknown",
        recommendation: headline(claim),
    }
}

fn build_report(
    parsed: &[ParsedReview],
    reported: &[Finding],
    verdict: ReviewClaim,
    now: &str,
) -> Value {
    // Blocking issues have their own list in this format.
    let blocking_titles: Vec<&str> = parsed
        .iter()
        .flat_map(|parsed_review| &parsed_review.review.blocking_issues)
        .map(|issue| issue.message.as_str())
        .collect();
    let listed: Vec<&Finding> = reported
        .iter()
        .filter(|finding| !blocking_titles.contains(&finding.title.as_str()))
        .collect();
    let mut scores: Vec<_> = parsed
        .iter()
        .flat_map(|parsed_review| parsed_review.review.scores.clone())
        .collect();
    let blocking: Vec<_> = parsed
        .iter()
        .flat_map(|parsed_review| parsed_review.review.blocking_issues.clone())
        .collect();
    let policy = flow::Policy::default();
    let weight_of = |name: &str| Some(policy.dimensions.get(name)?.weight);
    for (name, score) in &mut scores {
        score.weight = weight_of(name).or(score.weight);
    }
    let is_low = |(name, score): &(String, findings::DimensionScore)| {
        let critical = score.weight == Some(findings::Weight::Critical);
        let least = policy.minimum(name, findings::Weight::Critical);
        critical && least.is_some_and(|least| score.score < least)
    };
    let overall = parsed
        .iter()
        .filter_map(|parsed_review| parsed_review.review.overall_score)
        .min();
    write::review_report(&write::ReviewReport {
        ticket_id: parsed
            .first()
            .map_or("", |parsed_review| parsed_review.name.as_str()),
        reviewed_at: now,
        reviewer: "unknown",
        approved: verdict == ReviewClaim::Approved,
        overall_score: overall,
        revision_count: 0,
        scores: &scores,
        findings: &listed,
        blocking_issues: &blocking,
        revision_notes: parsed
            .iter()
            .find_map(|parsed_review| parsed_review.review.notes.as_deref()),
        all_critical_dimensions_pass: (!scores.is_empty()).then(|| !scores.iter().any(is_low)),
        overall_score_above_threshold: overall.map(|score| score >= policy.overall_minimum),
    })
}

/// Links between the findings of an old and a new review.
#[derive(Clone, Debug)]
pub struct TrackedReviews {
    pub old: ParsedReview,
    pub new: ParsedReview,
    pub links: Vec<FindingLink>,
}

/// Links the findings of two reviews. With two commits, lines are mapped through the diff between
/// them.
pub async fn track(
    directory: &Path,
    names: (&str, &str),
    commits: Option<(&Environment, PathBuf, &str, &str)>,
) -> Result<TrackedReviews, Failure> {
    let mut both = parse(directory, &[names.0.to_owned(), names.1.to_owned()])?.into_iter();
    let (Some(old), Some(new)) = (both.next(), both.next()) else {
        return Err(Failure::usage("two reviews are needed"));
    };
    let lines = match commits {
        None => LineMap::default(),
        Some((environment, repository, from, to)) => {
            let git = open_repository(environment, &repository).await?;
            let from = git.resolve(from).await.map_err(Failure::usage)?;
            let to = git.resolve(to).await.map_err(Failure::usage)?;
            LineMap::parse(
                &git.diff(&from, &to, DiffContext::None)
                    .await
                    .map_err(Failure::error)?
                    .text,
            )
        }
    };
    let ids: Vec<String> = (1..=old.review.findings.len())
        .map(|n| format!("F{n}"))
        .collect();
    let known_findings: Vec<KnownFinding<'_>> = ids
        .iter()
        .zip(&old.review.findings)
        .map(|(id, finding)| KnownFinding { id, finding })
        .collect();
    let links = findings::track_review(&known_findings, &new.review, &lines);
    Ok(TrackedReviews { old, new, links })
}

/// Scores the review reader on a corpus of annotated reviews.
pub fn score(dir: &Path, generated: bool) -> Result<(ScoreTable, TrackingTable), Failure> {
    let documents = corpus(dir)?;
    let tracking = std::fs::read_to_string(dir.join("TRACKING.json")).unwrap_or_default();
    let pairs = RoundPair::parse_list(&serde_json::from_str(&tracking).unwrap_or_default());
    let table = findings::score::score(&documents, generated);
    Ok((table, findings::score::score_tracking(&pairs, &documents)))
}

/// Reads every `NNN-….*` that has an `NNN.expected.json` next to it.
fn corpus(dir: &Path) -> Result<Vec<CorpusDocument>, Failure> {
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
        documents.push(CorpusDocument {
            number: number.to_owned(),
            text,
            expected,
        });
    }
    if documents.is_empty() {
        return Err(
            Failure::usage(format!("{} has no annotated documents", dir.display()))
                .hint("a corpus has pairs NNN-name.md and NNN.expected.json"),
        );
    }
    documents.sort_by(|a, b| a.number.cmp(&b.number));
    Ok(documents)
}
