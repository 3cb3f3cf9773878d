//! Reviews commits in the background, after the post-commit hook. One review runs at a time for each
//! repository, and the newest commit wins. The result waits in a small file until a later review is
//! clean or a person dismisses it.
//!
//! A review covers everything since the last clean one, so a finding does not disappear with the
//! next commit.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::git::{Oid, Repository};
use engine::process::StopSignal;
use flow::Time;
use flow::adhoc_review::AdhocOutcome;
use flow::narrate::count_noun;
use serde::{Deserialize, Serialize};

use super::review::{self, JudgedChange, ReviewOptions, ReviewTarget, ReviewedChange};
use super::{App, project};
use crate::failure::Failure;
use crate::settings::{Environment, read_bounded};

/// Directory of the results below the data directory.
const DIRECTORY: &str = "commit-reviews";
const BYTES_MAX: usize = 256 << 10;
/// Maximum number of findings that are kept.
const FINDINGS_MAX: usize = 20;
/// Maximum number of commits that one process reviews before it leaves the rest to the next commit.
const COMMITS_MAX: u32 = 100;
/// Pause before a review, in which a rebase can make its other commits.
const SETTLE: Duration = Duration::from_secs(1);
/// Interval at which a running review looks for a newer commit.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time for a stopped review to end its processes.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Result of the last background review of a repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommitReview {
    pub commit: String,
    pub at: Time,
    /// Id of the review; `None` if there was no verdict.
    pub review: Option<String>,
    /// One sentence: what came out.
    pub summary: String,
    pub findings: Vec<CommitFinding>,
    /// Whether nothing waits for a person.
    pub is_settled: bool,
    /// Last commit up to which everything was clean or dismissed.
    pub clean_through: Option<String>,
}

/// A must-fix finding of a background review.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommitFinding {
    pub id: String,
    pub severity: String,
    pub location: String,
    pub title: String,
}

impl CommitReview {
    /// Returns the result as lines for a person or an agent.
    pub fn lines(&self) -> Vec<String> {
        let short: String = self.commit.chars().take(8).collect();
        let mut lines = vec![format!(
            "background review of commit {short}: {}",
            self.summary
        )];
        lines.extend(self.findings.iter().map(|finding| {
            format!(
                "{} {} {} {}",
                finding.id, finding.severity, finding.location, finding.title
            )
        }));
        if let Some(review) = &self.review {
            lines.push(format!("countersign log --transcript {review}"));
        }
        lines
    }
}

/// Returns the result that waits for a person, if there is one.
pub fn load_waiting(environment: &Environment, repository: &Path) -> Option<CommitReview> {
    let files = ReviewFiles::new(environment, repository);
    files.load().filter(|review| !review.is_settled)
}

/// Dismisses the result that waits. Later reviews begin after its commit.
pub async fn dismiss(app: &App, directory: &Path) -> Result<Option<CommitReview>, Failure> {
    let git = project::open_repository(&app.environment, directory).await?;
    let files = ReviewFiles::new(&app.environment, git.common_dir());
    let Some(mut review) = files.load().filter(|review| !review.is_settled) else {
        return Ok(None);
    };
    review.is_settled = true;
    review.clean_through = Some(review.commit.clone());
    files.save(&review)?;
    Ok(Some(review))
}

/// Reviews a commit and every newer one that arrives meanwhile. Returns at once if another process
/// does so already for this repository; that one then takes the commit.
pub async fn review_commits(
    app: &App,
    directory: &Path,
    options: &ReviewOptions,
    time_limit: Duration,
) -> Result<(), Failure> {
    let ReviewTarget::Commit(revision) = &options.target else {
        return Err(Failure::usage("a background review needs --commit"));
    };
    let git = project::open_repository(&app.environment, directory).await?;
    let commit = git.resolve(revision).await.map_err(Failure::usage)?;
    let files = ReviewFiles::new(&app.environment, git.common_dir());
    files.want(&commit)?;
    for _ in 0..COMMITS_MAX {
        let Some(_lock) = files.try_lock()? else {
            return Ok(());
        };
        let old = files.load();
        let reviewed = old.as_ref().map(|review| review.commit.as_str());
        if files.wanted().as_ref().map(Oid::as_str) == reviewed {
            return Ok(());
        }
        tokio::time::sleep(SETTLE).await;
        let Some(wanted) = files.wanted() else {
            return Ok(());
        };
        let job = CommitJob {
            app,
            directory,
            git: &git,
            files: &files,
            options,
            time_limit,
        };
        let Some(mut review) = job.review(&wanted, old.as_ref()).await else {
            continue;
        };
        if !review.is_settled {
            review.clean_through = old.and_then(|old| old.clean_through);
        }
        files.save(&review)?;
        // The lock ends here. A commit that arrived since the last look found it taken, so look
        // again after it is free.
    }
    Ok(())
}

/// The review of one commit.
struct CommitJob<'a> {
    app: &'a App,
    directory: &'a Path,
    git: &'a Repository,
    files: &'a ReviewFiles,
    options: &'a ReviewOptions,
    time_limit: Duration,
}

impl CommitJob<'_> {
    /// Reviews everything since the last clean commit; `None` if a newer commit arrived.
    async fn review(&self, wanted: &Oid, old: Option<&CommitReview>) -> Option<CommitReview> {
        let base = match self.base(wanted, old).await {
            Ok(base) => base,
            Err(failure) => return Some(self.failed(wanted, &failure)),
        };
        let options = ReviewOptions {
            target: ReviewTarget::Exact(ReviewedChange {
                name: format!("commit {}", wanted.short()),
                base,
                head: wanted.clone(),
            }),
            ..self.options.clone()
        };
        let (stopper, requested) = StopSignal::pair();
        let work = review::review(self.app, self.directory, &options, requested, |_| {});
        let mut work = Box::pin(work);
        let failure = tokio::select! {
            done = &mut work => {
                return Some(match done {
                    Ok(result) => self.summarize(wanted, result.judged.as_ref()),
                    Err(failure) => self.failed(wanted, &failure),
                });
            }
            () = self.newer_commit(wanted) => None,
            () = tokio::time::sleep(self.time_limit) => Some(Failure::error(format!(
                "it did not end within {} s",
                self.time_limit.as_secs()
            ))),
        };
        stopper.stop();
        // The reason is known; this only gives the reviewer's processes time to end.
        let _ = tokio::time::timeout(STOP_GRACE, &mut work).await;
        failure.map(|failure| self.failed(wanted, &failure))
    }

    /// Returns the commit after which the review begins.
    async fn base(&self, commit: &Oid, old: Option<&CommitReview>) -> Result<Oid, Failure> {
        let clean = old.and_then(|old| Oid::parse(old.clean_through.as_deref()?));
        if let Some(clean) = clean
            && clean != *commit
            && self.git.is_ancestor(&clean, commit).await.unwrap_or(false)
        {
            return Ok(clean);
        }
        let parent = self.git.parent_or_empty(commit).await;
        parent.map_err(Failure::error)
    }

    async fn newer_commit(&self, than: &Oid) {
        while self.files.wanted().is_none_or(|wanted| wanted == *than) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn result(&self, commit: &Oid, summary: String) -> CommitReview {
        CommitReview {
            commit: commit.to_string(),
            at: (self.app.clock())(),
            review: None,
            summary,
            findings: Vec::new(),
            is_settled: false,
            clean_through: None,
        }
    }

    fn failed(&self, commit: &Oid, failure: &Failure) -> CommitReview {
        let why = findings::shorten(&findings::one_line(&failure.message), 400);
        self.result(commit, format!("there is no verdict: {why}"))
    }

    fn summarize(&self, commit: &Oid, judged: Option<&JudgedChange>) -> CommitReview {
        let clean = |summary: &str| CommitReview {
            is_settled: true,
            clean_through: Some(commit.to_string()),
            ..self.result(commit, summary.to_owned())
        };
        let Some(judged) = judged else {
            return clean("there is nothing to review");
        };
        let open = judged.ticket.ledger.open_must_fix(&judged.policy);
        let review = match &judged.outcome {
            AdhocOutcome::Approved => clean("clean"),
            AdhocOutcome::ChangesRequested => self.result(
                commit,
                format!("{} to fix", count_noun(open.len(), "finding")),
            ),
            AdhocOutcome::RedChecks(names) => {
                self.result(commit, format!("red checks: {}", names.join(", ")))
            }
            AdhocOutcome::ForbiddenPaths(paths) => {
                self.result(commit, flow::advance::describe_forbidden_paths(paths))
            }
            AdhocOutcome::Undecided(why) => self.result(
                commit,
                format!("there is no verdict: {}", findings::one_line(why)),
            ),
        };
        let findings = open.into_iter().take(FINDINGS_MAX);
        CommitReview {
            review: Some(judged.id.to_string()),
            findings: findings
                .map(|entry| CommitFinding {
                    id: entry.id.clone(),
                    severity: entry.severity().word().to_owned(),
                    location: entry.location(),
                    title: findings::shorten(&findings::one_line(&entry.finding.title), 200),
                })
                .collect(),
            ..review
        }
    }
}

/// Files of one repository: the newest commit to review, the lock, and the last result.
#[derive(Debug)]
struct ReviewFiles(PathBuf);

impl ReviewFiles {
    fn new(environment: &Environment, repository: &Path) -> Self {
        let name = engine::hash::sha256(repository.as_os_str().as_encoded_bytes());
        Self(environment.data_dir.join(DIRECTORY).join(name))
    }

    fn load(&self) -> Option<CommitReview> {
        let path = self.0.join("result.json");
        if !path.exists() {
            return None;
        }
        let bytes = read_bounded(&path, "the result of a background review", BYTES_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn save(&self, review: &CommitReview) -> Result<(), Failure> {
        let text = serde_json::to_string(review).map_err(Failure::error)?;
        self.write("result.json", &text)
    }

    /// Notes the newest commit.
    fn want(&self, commit: &Oid) -> Result<(), Failure> {
        self.write("wanted", commit.as_str())
    }

    fn wanted(&self) -> Option<Oid> {
        let text = std::fs::read_to_string(self.0.join("wanted")).ok()?;
        Oid::parse(text.trim())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.0.join(name);
        let part = self.0.join(format!("{name}.{}.part", std::process::id()));
        engine::private_files::make_dir(&self.0)
            .and_then(|()| engine::private_files::write(&part, text))
            .and_then(|()| std::fs::rename(&part, &path))
            .map_err(|error| Failure::error(format!("{}: {error}", path.display())))
    }

    /// Takes the lock of the repository; `None` if another process has it. The operating system
    /// releases it if that process dies.
    fn try_lock(&self) -> Result<Option<File>, Failure> {
        let path = self.0.join("lock");
        let failed = |error: std::io::Error| Failure::error(format!("{}: {error}", path.display()));
        let file = engine::private_files::create(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
