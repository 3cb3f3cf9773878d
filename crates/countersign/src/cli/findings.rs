//! `countersign findings …`

use std::path::PathBuf;

use findings::score::claim_word;
use findings::write::location;
use serde_json::{Value, json};

use super::Context;
use super::choices;
use super::out::{columns, raw};
use app::failure::{ExitKind, Failure};
use app::operations::findings::{self as operation, ConvertFormat, ParsedReview};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Read review texts of any kind: what they claim, what they find.
    #[command(after_help = "Example: my-reviewer | countersign findings parse - --json")]
    Parse {
        /// Files; `-` is the standard input.
        #[arg(required = true, value_name = "FILE|-")]
        files: Vec<String>,
    },
    /// Write what was read in another form.
    #[command(
        after_help = "A refusal is in every form: blocking issues and a refusal without findings are written as\nfindings that must be fixed.\n\nExamples:\n  countersign findings convert --to sarif review.md > review.sarif\n  countersign findings convert --to junit review.md > review.xml\n  countersign findings convert --to github-review --diff pr.diff --commit HEAD review.md"
    )]
    Convert {
        #[arg(long, value_parser = choices::review_form())]
        to: ConvertFormat,
        #[arg(required = true, value_name = "FILE|-")]
        files: Vec<String>,
        /// The pull request's diff, for comments on its lines (github-review).
        #[arg(long, value_name = "FILE")]
        diff: Option<PathBuf>,
        /// The commit that was reviewed, for a review of it (github-review): a full id, or a name
        /// that the repository knows. Without it the review names no commit.
        #[arg(long, value_name = "COMMIT")]
        commit: Option<String>,
        /// Looks the commit up in this directory.
        #[arg(long, value_name = "DIR", requires = "commit")]
        repo: Option<PathBuf>,
    },
    /// Which finding of the new review is which of the old one.
    Track {
        old: String,
        new: String,
        /// Follow lines through the diff between two commits of this repository.
        #[arg(long, value_name = "DIR", requires_all = ["from", "to"])]
        repo: Option<PathBuf>,
        #[arg(long, value_name = "SHA")]
        from: Option<String>,
        #[arg(long, value_name = "SHA")]
        to: Option<String>,
    },
    /// Measure the reader on a corpus of annotated reviews.
    Score {
        dir: PathBuf,
        /// The annotations that were made mechanically from machine formats.
        #[arg(long = "gen")]
        generated: bool,
        /// A line for each document that was not read perfectly.
        #[arg(long, short)]
        verbose: bool,
    },
}

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Parse { files } => parse(&files, desktop),
        Verb::Convert {
            to,
            files,
            diff,
            commit,
            repo,
        } => convert(&files, to, (diff, commit, repo), desktop).await,
        Verb::Track {
            old,
            new,
            repo,
            from,
            to,
        } => track((&old, &new), (repo, from, to), desktop).await,
        Verb::Score {
            dir,
            generated,
            verbose,
        } => score(&dir, generated, verbose, desktop),
    }
}

fn parse(files: &[String], desktop: &Context) -> Result<ExitKind, Failure> {
    let parsed = operation::parse(&desktop.directory, files)?;
    if desktop.out.json {
        let reviews: Vec<Value> = parsed.iter().map(operation::as_json).collect();
        desktop.out.answer(&json!({"reviews": reviews}));
        return Ok(ExitKind::Done);
    }
    for one in &parsed {
        for line in describe(one) {
            desktop.out.line(line);
        }
    }
    Ok(ExitKind::Done)
}

fn describe(parsed: &ParsedReview) -> Vec<String> {
    let review = &parsed.review;
    let verdict = claim_word(review.claim).replace('_', " ");
    let said = review
        .claim_text
        .as_deref()
        .map(|text| format!(" (“{}”)", findings::shorten(text, 80)))
        .unwrap_or_default();
    let way = format!("{:?}", review.way).to_lowercase();
    let mut lines = vec![format!(
        "{}: {verdict}{said}, read as {way}, {} % sure",
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
    lines.extend(
        review
            .remarks
            .iter()
            .map(|remark| format!("  note: {remark}")),
    );
    lines
}

async fn convert(
    files: &[String],
    form: ConvertFormat,
    (diff, commit, repo): (Option<PathBuf>, Option<String>, Option<PathBuf>),
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let parsed = operation::parse(&desktop.directory, files)?;
    let diff = match diff {
        None => None,
        Some(path) => {
            let bytes =
                app::settings::read_bounded(&desktop.directory.join(path), "the diff", 64 << 20)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    };
    let commit = match commit {
        None => None,
        Some(name) => {
            let repository = desktop.directory.join(repo.unwrap_or_default());
            Some(operation::commit_id(&desktop.surroundings, &repository, &name).await?)
        }
    };
    let wanted = operation::ConvertOptions {
        diff: diff.as_deref(),
        commit: commit.as_deref(),
    };
    let text = operation::convert(&parsed, form, wanted, &engine::clock::now().iso());
    raw(&text);
    Ok(ExitKind::Done)
}

async fn track(
    (old, new): (&str, &str),
    (repo, from, to): (Option<PathBuf>, Option<String>, Option<String>),
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let commits = match (repo, &from, &to) {
        (Some(repo), Some(from), Some(to)) => Some((
            &desktop.surroundings,
            desktop.directory.join(repo),
            from.as_str(),
            to.as_str(),
        )),
        (None, Some(from), Some(to)) => Some((
            &desktop.surroundings,
            desktop.directory.clone(),
            from.as_str(),
            to.as_str(),
        )),
        (_, None, None) => None,
        (_, Some(_), None) | (_, None, Some(_)) => {
            return Err(Failure::usage("--from and --to belong together")
                .hint("give both commits, or neither"));
        }
    };
    let tracked = operation::track(&desktop.directory, (old, new), commits).await?;
    desktop.out.answer(&json!({"links": tracked.links}));
    let (old, new) = (&tracked.old.review.findings, &tracked.new.review.findings);
    let mut rows = Vec::new();
    for (at, finding) in old.iter().enumerate() {
        let id = format!("F{}", at + 1);
        let link = tracked.links.iter().find(|link| link.id == id);
        let place = link.and_then(|link| new.get(link.new)).map_or_else(
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
            place,
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
        desktop.out.line(line);
    }
    Ok(ExitKind::Done)
}

fn score(
    dir: &std::path::Path,
    generated: bool,
    verbose: bool,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let (table, tracking) = operation::score(&desktop.directory.join(dir), generated)?;
    desktop.out.answer(&json!({
        "documents": table.documents,
        "verdict": table.verdict.percent(),
        "recall": table.recall.percent(),
        "precision": table.precision.percent(),
        "file": table.file.percent(),
        "line": table.line.percent(),
        "severity": table.severity.percent(),
        "tracking": {"same": tracking.same.percent(), "reworded": tracking.reworded.percent(), "right": tracking.right.percent()},
    }));
    desktop.out.line(table.to_string());
    desktop.out.line(tracking.to_string());
    if verbose {
        for line in table.details.iter().chain(&tracking.details) {
            desktop.out.line(line);
        }
    }
    Ok(ExitKind::Done)
}
