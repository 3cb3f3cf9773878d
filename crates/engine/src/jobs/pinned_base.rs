//! The pinned base of a change. Someone may rewrite the base branch during a ticket; commits that
//! they removed must not come back with a change that was built on them.

use super::{JobContext, JobError, JobOutput};
use crate::git::{Oid, Repository};

/// Ref of the base commit that the first build of the ticket began on.
const PINNED_BASE_REF: &str = "ground";

/// Pins the base that the ticket begins on.
pub async fn pin_base(context: &JobContext<'_>, base: &Oid) -> Result<(), JobError> {
    let (git, name) = (&context.project.git, context.ref_name(PINNED_BASE_REF));
    let earlier = git.read_ref(&name).await?;
    if earlier.as_ref() != Some(base) {
        git.keep_ref(&name, base, earlier.as_ref()).await?;
    }
    Ok(())
}

/// Returns a former base commit that `head` contains and the base branch no longer has.
async fn rewritten_base_commit(
    context: &JobContext<'_>,
    head: &Oid,
) -> Result<Option<Oid>, JobError> {
    let (git, branch) = (&context.project.git, &context.project.config.base_branch);
    let mut tips = vec![git.base_tip(branch).await?];
    tips.extend(git.branch_tip(branch).await?);
    let stack = git
        .read_ref(&context.ref_name(super::build::STACK_REF))
        .await?;
    let submission = context.ticket.submission.as_ref();
    let pinned = [
        git.read_ref(&context.ref_name(PINNED_BASE_REF)).await?,
        submission.and_then(|submission| Oid::parse(&submission.base)),
    ];
    for base in pinned.into_iter().flatten() {
        let is_base = Some(&base) != stack.as_ref();
        if is_base
            && !is_below_any(git, &base, &tips).await?
            && git.is_ancestor(&base, head).await?
        {
            return Ok(Some(base));
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

/// Sends the change back to its builder before landing, so that its commits move to the new base.
pub async fn check_before_landing(
    context: &JobContext<'_>,
    head: &Oid,
) -> Result<Option<JobOutput>, JobError> {
    let Some(lost) = rewritten_base_commit(context, head).await? else {
        return Ok(None);
    };
    let explanation = describe_rewritten_base(context, &lost);
    Ok(Some(super::merge::conflict_output(
        context,
        Vec::new(),
        &explanation,
    )))
}

/// Fails after a build on a base that was removed. A person has to help.
pub async fn check_after_build(context: &JobContext<'_>, head: &Oid) -> Result<(), JobError> {
    match rewritten_base_commit(context, head).await? {
        Some(lost) => Err(JobError::permanent(describe_rewritten_base(context, &lost))),
        None => Ok(()),
    }
}

fn describe_rewritten_base(context: &JobContext<'_>, lost: &Oid) -> String {
    let branch = &context.project.config.base_branch;
    format!(
        "{branch} was rewritten: {} is no longer on it, but this change is based on it; move the commits of this change to the new {branch}: git rebase --onto {branch} {lost}",
        lost.short()
    )
}
