//! Reviews a pull request without a ticket, and posts the result if that is wanted.
//!
//! The head is fetched by its number and counts by its hash. Rules come from our own base branch.
//! The verdict never waits for the forge: a review that cannot be posted is still shown.

mod memory;
mod post;
mod texts;

use std::path::Path;
use std::sync::Arc;

use engine::git::{Oid, Remote, Repository};
use engine::process::StopSignal;
use forge::{ChangeKey, ChangeState, ForgeChange, ForgePermission};
use serde::Serialize;

use super::forge_connection::{ConnectedForge, connect_forge, forge_failure};
use super::review::{
    self, PullRequestMaterial, ReviewOptions, ReviewProgress, ReviewResult, ReviewTarget,
    ReviewedChange,
};
use super::{App, project};
use crate::failure::Failure;

/// Options of the review of a pull request.
#[derive(Clone, Debug)]
pub struct PullRequestOptions {
    pub number: u64,
    /// True if the result is posted.
    pub post: bool,
    /// True if findings fail nothing.
    pub reports_only: bool,
    /// Head of a fork whose checks a person permitted. A head that was pushed later has none.
    pub permitted_head: Option<String>,
    pub review: ReviewOptions,
}

/// A pull request, as shown to people.
#[derive(Clone, Debug, Serialize)]
pub struct PullRequestFacts {
    pub number: u64,
    pub title: String,
    pub author: String,
    pub url: String,
    pub head: String,
    pub from_fork: bool,
}

/// Everything that was posted, or was there already.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PostReceipt {
    /// Findings with a thread on a line.
    pub on_lines: usize,
    /// Findings with a thread on a file.
    pub on_files: usize,
    /// Findings that only the summary has, because the diff does not have their file.
    pub in_summary: usize,
    /// Threads of earlier findings that were resolved, because the finding was not reported again.
    pub resolved: usize,
    pub reopened: usize,
    /// State of the commit status: `success`, `failure` or `error`.
    pub gate: &'static str,
}

/// Result of the review of a pull request.
#[derive(Debug)]
pub struct PullRequestReview {
    pub result: ReviewResult,
    pub pull_request: PullRequestFacts,
    /// Result of posting; `None` if it was not wanted, or if there was nothing to review.
    pub posted: Option<Result<PostReceipt, Failure>>,
}

/// Fetches the head of a pull request, reviews it, and posts the result if that is wanted.
pub async fn review_pull_request(
    app: &App,
    directory: &Path,
    options: &PullRequestOptions,
    stop: StopSignal,
    tell: impl Fn(ReviewProgress<'_>),
) -> Result<PullRequestReview, Failure> {
    let git = project::open_repository(&app.environment, directory).await?;
    let connected = connect_forge(app, &git, &Arc::default()).await?;
    let change = find_pull_request(&connected, options.number).await?;
    if options.post {
        require_postable(&connected, &change).await?;
    }
    let remote = connected.git_remote().await?;
    let head_ref = connected.forge.capabilities().head_ref(change.number);
    let commits = fetch_commits(&git, &remote, &change, head_ref).await?;
    let (base_branch, remark) = local_base(&git, &change.base_branch).await?;
    let request = ReviewOptions {
        target: ReviewTarget::Exact(commits.clone()),
        base: base_branch,
        pull_request: Some(PullRequestMaterial {
            title: change.title.clone(),
            body: change.body.clone(),
            from_fork: change.from_fork,
            is_permitted: options.permitted_head.as_ref() == Some(&change.head_commit),
        }),
        ..options.review.clone()
    };
    let reviewing = review::review(app, directory, &request, stop, tell);
    let mut result = Box::pin(reviewing).await?;
    result.remarks.extend(remark);
    let posted = match &result.judged {
        Some(judged) if options.post => {
            let posting = post::Posting {
                app,
                git: &git,
                connected: &connected,
                change: &change,
                commits: &commits,
                judged,
                reports_only: options.reports_only,
            };
            Some(Box::pin(posting.post()).await)
        }
        _ => None,
    };
    Ok(PullRequestReview {
        result,
        pull_request: describe(&change),
        posted,
    })
}

fn describe(change: &ForgeChange) -> PullRequestFacts {
    PullRequestFacts {
        number: change.number,
        title: findings::one_line(&change.title),
        author: findings::one_line(&change.author),
        url: findings::one_line(&change.url),
        head: change.head_commit.clone(),
        from_fork: change.from_fork,
    }
}

async fn find_pull_request(
    connected: &ConnectedForge,
    number: u64,
) -> Result<ForgeChange, Failure> {
    let found = connected
        .forge
        .find_change(&ChangeKey::Number(number))
        .await;
    found.map_err(forge_failure)?.ok_or_else(|| {
        let repository = &connected.repository.location.repository;
        Failure::not_found(format!(
            "{repository} has no pull request {number}, or the token may not see it"
        ))
        .hint("see what the token may do: countersign doctor --forge")
    })
}

/// Refuses to post before the review is paid, if the result could not be posted after it.
async fn require_postable(connected: &ConnectedForge, change: &ForgeChange) -> Result<(), Failure> {
    let number = change.number;
    match change.state {
        ChangeState::Open => {}
        ChangeState::Closed => {
            return Err(Failure::usage(format!("pull request {number} is closed"))
                .hint("review it without --post"));
        }
        ChangeState::Merged => {
            return Err(Failure::usage(format!("pull request {number} is merged"))
                .hint("review it without --post"));
        }
    }
    let account = connected.forge.whoami().await.map_err(forge_failure)?;
    if let Some(obstacle) = &account.obstacle {
        return Err(Failure::usage(format!(
            "the review could not be posted: {obstacle}"
        )));
    }
    if account.permission < ForgePermission::Write {
        return Err(Failure::usage(format!(
            "the token of {} may not write to {}, so the review could not be posted",
            findings::one_line(&account.login),
            connected.repository.location.repository
        ))
        .hint("see what is missing: countersign doctor --forge"));
    }
    Ok(())
}

/// Fetches head and target branch, and returns the two commits of the change. No ref is written.
async fn fetch_commits(
    git: &Repository,
    remote: &Remote,
    change: &ForgeChange,
    head_ref: String,
) -> Result<ReviewedChange, Failure> {
    let number = change.number;
    let unknown = |what: &str| {
        let address = remote.address();
        Failure::error(format!("{address} has no {what} of pull request {number}"))
            .hint("somebody may have pushed or deleted it just now; run it again")
    };
    let head = Oid::parse(&change.head_commit).ok_or_else(|| unknown("head"))?;
    let target = format!("refs/heads/{}", change.base_branch);
    let tip = git.remote_ref(remote, &target).await;
    let tip = tip
        .map_err(Failure::error)?
        .ok_or_else(|| unknown("target branch"))?;
    let names = [head_ref, target];
    git.fetch_objects(remote, &names)
        .await
        .map_err(Failure::error)?;
    // The commit counts and not the name: the head may have moved since we asked.
    for commit in [&head, &tip] {
        if !git.has_commit(commit).await.map_err(Failure::error)? {
            return Err(unknown("commit"));
        }
    }
    Ok(ReviewedChange {
        name: format!("pull request {number}"),
        base: git.merge_base(&tip, &head).await.map_err(Failure::error)?,
        head,
    })
}

/// Returns the local branch whose rules count: the target branch, if this repository has it.
async fn local_base(
    git: &Repository,
    target: &str,
) -> Result<(Option<String>, Option<String>), Failure> {
    match git.base_tip(target).await {
        Ok(_) => Ok((Some(target.to_owned()), None)),
        Err(engine::git::Error::UnknownRevision { .. }) => {
            let base = git.default_base().await.map_err(Failure::usage)?;
            let target = findings::one_line(target);
            let remark =
                format!("this repository has no branch {target}; the rules of {base} count");
            Ok((Some(base), Some(remark)))
        }
        Err(error) => Err(Failure::error(error)),
    }
}
