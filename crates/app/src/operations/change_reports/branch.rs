//! Brings the branch of a pull request to the submitted commit. Only our own commits are ever
//! replaced: the remote compares the old value, and a commit of somebody else stays where it is.

use engine::git::{Oid, Remote, Repository};
use flow::ticket::Submission;
use flow::{Ticket, TicketId};

use crate::failure::Failure;

/// State of the branch on the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchState {
    /// It is at the submitted commit.
    Ours,
    /// Somebody added commits to the submitted one.
    Extended(Oid),
    /// Somebody pushed commits that the ticket does not build on.
    Foreign(Oid),
}

/// Ref of the commit that we push. It is written first, so that a push that was killed is known.
fn pushed_ref(id: &TicketId, commit: &Oid) -> String {
    format!("refs/countersign/{id}/pushed/{commit}")
}

/// Pushes the submitted commit, unless somebody else pushed to the branch.
pub async fn bring_branch(
    git: &Repository,
    remote: &Remote,
    ticket: &Ticket,
    submission: &Submission,
) -> Result<BranchState, Failure> {
    let invalid = || Failure::error(format!("{:?} is not a commit", submission.commit));
    let commit = Oid::parse(&submission.commit).ok_or_else(invalid)?;
    let name = format!("refs/heads/{}", submission.branch);
    // Somebody may push between the two steps; the second look decides then.
    for _ in 0..3 {
        let there = git.remote_ref(remote, &name).await;
        let there = there.map_err(Failure::error)?;
        if there.as_ref() == Some(&commit) {
            return Ok(BranchState::Ours);
        }
        if let Some(there) = &there
            && let Some(state) = foreign_state(git, remote, ticket, (there, &commit)).await?
        {
            return Ok(state);
        }
        let own = pushed_ref(&ticket.id, &commit);
        let before = git.read_ref(&own).await.map_err(Failure::error)?;
        let kept = git.keep_ref(&own, &commit, before.as_ref()).await;
        kept.map_err(Failure::error)?;
        let pushed = git
            .push_over(remote, &commit, (&name, there.as_ref()))
            .await;
        if pushed.map_err(Failure::error)? {
            return Ok(BranchState::Ours);
        }
    }
    Err(Failure::error(format!(
        "the branch {} could not be pushed: it moves, or the remote refuses it",
        submission.branch
    )))
}

/// Returns what somebody else did to the branch; `None` if its commit is ours and may be replaced.
async fn foreign_state(
    git: &Repository,
    remote: &Remote,
    ticket: &Ticket,
    (there, commit): (&Oid, &Oid),
) -> Result<Option<BranchState>, Failure> {
    let own = git.read_ref(&pushed_ref(&ticket.id, there)).await;
    let was_pushed = own.map_err(Failure::error)?.is_some();
    let is_of_round = ticket
        .rounds
        .iter()
        .any(|round| round.commit == there.as_str());
    if was_pushed || is_of_round {
        return Ok(None);
    }
    let branch = ticket.submission.as_ref().map(|one| one.branch.as_str());
    let branch = branch.unwrap_or_default();
    let theirs = format!("refs/countersign/{}/theirs", ticket.id);
    let fetched = git.fetch_branch(remote, branch, &theirs);
    let fetched = fetched.await.map_err(Failure::error)?;
    let is_below = git.is_ancestor(&fetched, commit).await;
    if is_below.map_err(Failure::error)? {
        return Ok(None);
    }
    let is_above = git.is_ancestor(commit, &fetched).await;
    Ok(Some(if is_above.map_err(Failure::error)? {
        BranchState::Extended(fetched)
    } else {
        BranchState::Foreign(fetched)
    }))
}

/// Moves the local branch to commits that somebody added on the forge, so that they are submitted.
pub async fn follow_branch(
    git: &Repository,
    submission: &Submission,
    head: &Oid,
) -> Result<(), Failure> {
    let name = format!("refs/heads/{}", submission.branch);
    let now = git.read_ref(&name).await.map_err(Failure::error)?;
    let moved = git.share_ref(&name, head, now.as_ref()).await;
    if moved.map_err(Failure::error)? {
        return Ok(());
    }
    Err(Failure::error(format!(
        "the local branch {} moved while commits of the pull request were fetched",
        submission.branch
    )))
}
