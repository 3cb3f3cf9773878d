//! `countersign findings …`: reads, converts, tracks and scores review texts.

use std::path::PathBuf;

use findings::score::claim_word;
use findings::write::location;
use serde_json::{Value, json};

use super::Context;
use super::choices;
use super::out::{columns, print_raw};
use app::failure::{ExitKind, Failure};
use app::operations::findings::{self as operation, ConvertFormat, ParsedReview};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Read review texts of any format: show their verdict and findings.
    #[command(after_help = "Example: my-reviewer | countersign findings parse - --json")]
    Parse {
        /// Files to read; `-` is standard input.
        #[arg(required = true, value_name = "FILE|-")]
        files: Vec<String>,
    },
    /// Convert reviews to another format.
    #[command(
        after_help = "A rejection survives in every format: blocking issues and a rejection without findings are written as must-fix findings.\n\nExamples:\n  countersign findings convert --to sarif review.md > review.sarif\n  countersign findings convert --to junit review.md > review.xml\n  countersign findings convert --to github-review --diff pr.diff --commit HEAD review.md"
    )]
    Convert {
        /// Format to write.
        #[arg(long, value_parser = choices::review_form())]
        to: ConvertFormat,
        /// Files to read; `-` is standard input.
        #[arg(required = true, value_name = "FILE|-")]
        files: Vec<String>,
        /// Diff of the pull request, for comments on its lines (github-review).
        #[arg(long, value_name = "FILE")]
        diff: Option<PathBuf>,
        /// Reviewed commit, for github-review: a full id, or a name that the repository knows.
        /// Without it the review names no commit.
        #[arg(long, value_name = "COMMIT")]
        commit: Option<String>,
        /// Repository in which to look up the commit.
        #[arg(long, value_name = "DIR", requires = "commit")]
        repo: Option<PathBuf>,
    },
    /// Match the findings of a new review with those of an old one.
    Track {
        /// The earlier review.
        old: String,
        /// The new review.
        new: String,
        /// Repository to follow lines through the diff between two commits.
        #[arg(long, value_name = "DIR", requires_all = ["from", "to"])]
        repo: Option<PathBuf>,
        /// Commit of the earlier review.
        #[arg(long, value_name = "SHA")]
        from: Option<String>,
        /// Commit of the new review.
        #[arg(long, value_name = "SHA")]
        to: Option<String>,
    },
    /// Measure the reader on a corpus of annotated reviews; --verbose prints a line for each
    /// document that was not read perfectly.
    Score {
        /// Directory of the corpus.
        dir: PathBuf,
        /// Use the annotations that were generated from machine formats.
        #[arg(long = "gen")]
        generated: bool,
    },
}

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Parse { files } => parse(&files, context),
        Verb::Convert {
            to,
            files,
            diff,
            commit,
            repo,
        } => convert(&files, to, (diff, commit, repo), context).await,
        Verb::Track {
            old,
            new,
            repo,
            from,
            to,
        } => track((&old, &new), (repo, from, to), context).await,
        Verb::Score { dir, generated } => score(&dir, generated, context),
    }
}

fn parse(files: &[String], context: &Context) -> Result<ExitKind, Failure> {
    let parsed = operation::parse(&context.directory, files)?;
    if context.out.json {
        let reviews: Vec<Value> = parsed.iter().map(operation::as_json).collect();
        context.out.print_json(&json!({"reviews": reviews}));
        return Ok(ExitKind::Done);
    }
    for review in &parsed {
        for line in describe(review) {
            context.out.line(line);
        }
    }
    Ok(ExitKind::Done)
}

fn describe(parsed: &ParsedReview) -> Vec<String> {
    let review = &parsed.review;
    let verdict = claim_word(review.claim).replace('_', " ");
    let claim = review
        .claim_text
        .as_deref()
        .map(|text| format!(" (“{}”)", findings::shorten(text, 80)))
        .unwrap_or_default();
    let format = format!("{:?}", review.format).to_lowercase();
    let mut lines = vec![format!(
        "{}: {verdict}{claim}, read as {format}, {} % sure",
        parsed.name, review.sureness
    )];
    let rows: Vec<Vec<String>> = review
        .findings
        .iter()
        .map(|finding| {
            let severity = finding.rating.severity.word();
            let note = if finding.actionable {
                ""
            } else {
                " (nothing to do)"
            };
            vec![
                format!("  {severity}"),
                location(finding).unwrap_or_default(),
                format!("{}{note}", findings::shorten(&finding.title, 100)),
            ]
        })
        .collect();
    lines.extend(columns(&rows));
    lines.extend(review.remarks.iter().map(|note| format!("  note: {note}")));
    lines
}

async fn convert(
    files: &[String],
    form: ConvertFormat,
    (diff, commit, repo): (Option<PathBuf>, Option<String>, Option<PathBuf>),
    context: &Context,
) -> Result<ExitKind, Failure> {
    let parsed = operation::parse(&context.directory, files)?;
    let diff = match diff {
        None => None,
        Some(path) => {
            let bytes =
                app::settings::read_bounded(&context.directory.join(path), "the diff", 64 << 20)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    };
    let commit = match commit {
        None => None,
        Some(name) => {
            let repository = context.directory.join(repo.unwrap_or_default());
            Some(operation::commit_id(&context.environment, &repository, &name).await?)
        }
    };
    let options = operation::ConvertOptions {
        diff: diff.as_deref(),
        commit: commit.as_deref(),
    };
    let text = operation::convert(&parsed, form, options, &engine::clock::now().to_iso());
    print_raw(&text);
    Ok(ExitKind::Done)
}

async fn track(
    (old, new): (&str, &str),
    (repo, from, to): (Option<PathBuf>, Option<String>, Option<String>),
    context: &Context,
) -> Result<ExitKind, Failure> {
    let commits = match (repo, &from, &to) {
        (Some(repo), Some(from), Some(to)) => Some((
            &context.environment,
            context.directory.join(repo),
            from.as_str(),
            to.as_str(),
        )),
        (None, Some(from), Some(to)) => Some((
            &context.environment,
            context.directory.clone(),
            from.as_str(),
            to.as_str(),
        )),
        (_, None, None) => None,
        (_, Some(_), None) | (_, None, Some(_)) => {
            return Err(Failure::usage("--from and --to must be given together")
                .hint("give both commits, or neither"));
        }
    };
    let tracked = operation::track(&context.directory, (old, new), commits).await?;
    context.out.print_json(&json!({"links": tracked.links}));
    let (old, new) = (&tracked.old.review.findings, &tracked.new.review.findings);
    let mut rows = Vec::new();
    for (at, finding) in old.iter().enumerate() {
        let id = format!("F{}", at + 1);
        let link = tracked.links.iter().find(|link| link.id == id);
        let target = link.and_then(|link| new.get(link.new)).map_or_else(
            || "not repeated (which does not mean fixed)".to_owned(),
            |new| {
                format!(
                    "→ {}",
                    location(new).unwrap_or_else(|| findings::shorten(&new.title, 60))
                )
            },
        );
        rows.push(vec![
            id,
            location(finding).unwrap_or_default(),
            target,
            findings::shorten(&finding.title, 70),
        ]);
    }
    for (at, finding) in new.iter().enumerate() {
        if !tracked.links.iter().any(|link| link.new == at) {
            rows.push(vec![
                "new".to_owned(),
                location(finding).unwrap_or_default(),
                String::new(),
                findings::shorten(&finding.title, 70),
            ]);
        }
    }
    for line in columns(&rows) {
        context.out.line(line);
    }
    Ok(ExitKind::Done)
}

fn score(dir: &std::path::Path, generated: bool, context: &Context) -> Result<ExitKind, Failure> {
    let (table, tracking) = operation::score(&context.directory.join(dir), generated)?;
    context.out.print_json(&json!({
        "documents": table.documents,
        "verdict": table.verdict.percent(),
        "recall": table.recall.percent(),
        "precision": table.precision.percent(),
        "file": table.file.percent(),
        "line": table.line.percent(),
        "severity": table.severity.percent(),
        "tracking": {"same": tracking.same.percent(), "reworded": tracking.reworded.percent(), "right": tracking.right.percent()},
    }));
    context.out.line(table.to_string());
    context.out.line(tracking.to_string());
    if context.verbose {
        for line in table.details.iter().chain(&tracking.details) {
            context.out.line(line);
        }
    }
    Ok(ExitKind::Done)
}
