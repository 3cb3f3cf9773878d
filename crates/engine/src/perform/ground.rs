//! What a change stands on. Somebody may rewrite the base branch while a ticket is at work; what
//! they threw away must not come back with the change that was built on it.

use super::{JobContext, JobError, JobOutput};
use crate::git::{Oid, Repository};

/// The ref of the base's commit that the ticket's first build began on.
const GROUND: &str = "ground";

/// Keeps where the ticket begins.
pub async fn remember(held: &JobContext<'_>, base: &Oid) -> Result<(), JobError> {
    let (git, name) = (&held.shop.git, held.ref_named(GROUND));
    let earlier = git.read_ref(&name).await?;
    if earlier.as_ref() != Some(base) {
        git.keep_ref(&name, base, earlier.as_ref()).await?;
    }
    Ok(())
}

/// A commit of the base as it was that `head` has below it and the base has no more.
async fn thrown_away(held: &JobContext<'_>, head: &Oid) -> Result<Option<Oid>, JobError> {
    let (git, branch) = (&held.shop.git, &held.shop.project.base_branch);
    let mut tips = vec![git.base(branch).await?];
    tips.extend(git.branch(branch).await?);
    let stack = git.read_ref(&held.ref_named(super::build::STACK)).await?;
    let put = held.ticket.submission.as_ref();
    let known = [
        git.read_ref(&held.ref_named(GROUND)).await?,
        put.and_then(|put| Oid::parse(&put.base)),
    ];
    for ground in known.into_iter().flatten() {
        let is_base = Some(&ground) != stack.as_ref();
        if is_base
            && !is_below_any(git, &ground, &tips).await?
            && git.is_ancestor(&ground, head).await?
        {
            return Ok(Some(ground));
        }
    }
    Ok(None)
}

async fn is_below_any(git: &Repository, commit: &Oid, tips: &[Oid]) -> Result<bool, JobError> {
    for tip in tips {
        if git.is_ancestor(commit, tip).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Before it lands: back to its builder, who puts its own commits on the new base.
pub async fn must_be_there(
    held: &JobContext<'_>,
    head: &Oid,
) -> Result<Option<JobOutput>, JobError> {
    let Some(lost) = thrown_away(held, head).await? else {
        return Ok(None);
    };
    let words = words(held, &lost);
    Ok(Some(super::merge::conflicted(held, Vec::new(), &words)))
}

/// After a build: a builder that left it on ground that is gone needs a person's help.
pub async fn must_be_left(held: &JobContext<'_>, head: &Oid) -> Result<(), JobError> {
    match thrown_away(held, head).await? {
        Some(lost) => Err(JobError::permanent(words(held, &lost))),
        None => Ok(()),
    }
}

fn words(held: &JobContext<'_>, lost: &Oid) -> String {
    let branch = &held.shop.project.base_branch;
    format!(
        "{branch} was rewritten: {} is no longer on it, and this change stands on it; its own commits belong on the new {branch} (git rebase --onto {branch} {lost})",
        lost.short()
    )
}
