//! Combines an approved commit with the tip of the base branch, in the project's style, and makes
//! sure that what lands is the approved change: the commit itself, or commits with the same diff.

use flow::landing::{self, CommitName, LandingStyle};

use super::merge::conflict_output;
use super::{JobContext, JobError, JobOutput};
use crate::git::{CombinePlan, CommitIdentity, MergeResult, MergeStyle, Oid};

/// Refs of the commit that lands the change and of the tip below it. They are written before the
/// branch moves, so that a killed landing is recognised: a squashed or replayed commit does not
/// have the approved one in its history.
const LANDING_REF: &str = "landing";
const LANDING_BASE_REF: &str = "landing-base";

/// An approved change on top of a tip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandingCandidate {
    /// Tip below the change.
    pub below: Oid,
    /// New tip.
    pub top: Oid,
    /// Commit that counts as landed: the approved one if it is merged, else the new tip.
    pub landed: Oid,
    pub diff_id: String,
}

/// The result of a combination.
#[derive(Debug)]
pub enum Combination {
    Ready(LandingCandidate),
    /// The change cannot land like this; the result goes to its builder or to a person.
    Rejected(Box<Result<JobOutput, JobError>>),
}

/// Combines the approved commit with the tip; no branch moves.
pub async fn combine(
    context: &JobContext<'_>,
    tip: &Oid,
    approved: &Oid,
) -> Result<Combination, JobError> {
    let (project, ticket) = (context.project, context.ticket);
    let (git, config) = (&project.git, &project.config.landing);
    let style = project.landing_style().unwrap_or_default();
    let (author, committer) = (
        identity(context, approved, &config.author_for(style)).await?,
        identity(context, approved, &config.committer()).await?,
    );
    let (message, trailers) = (
        landing::message(ticket, config, style),
        landing::trailers(ticket),
    );
    let plan = CombinePlan {
        style: match style {
            LandingStyle::Merge => MergeStyle::Merge,
            LandingStyle::Squash => MergeStyle::Squash,
            LandingStyle::Rebase => MergeStyle::Rebase,
        },
        author: &author,
        committer: &committer,
        message: &message,
        rewrite: landing::with_trailers,
        trailers: &trailers,
    };
    let top = match git.combine(tip, approved, &plan).await? {
        MergeResult::Clean { commit, .. } => commit,
        MergeResult::Conflicts { files, messages } => {
            return Ok(rejected(Ok(conflict_output(context, files, &messages))));
        }
    };
    if style == LandingStyle::Merge {
        let approval = ticket.approval.as_ref();
        return Ok(Combination::Ready(LandingCandidate {
            below: tip.clone(),
            top,
            landed: approved.clone(),
            diff_id: approval
                .map(|approval| approval.diff_id.clone())
                .unwrap_or_default(),
        }));
    }
    if top == *tip {
        return Ok(rejected(Err(nothing_to_land(context))));
    }
    let diff_id = git.change_id(tip, &top).await?;
    let candidate = LandingCandidate {
        below: tip.clone(),
        landed: top.clone(),
        top,
        diff_id,
    };
    if !is_approved_diff(context, &candidate) {
        return Ok(rejected(Ok(other_change(context, style))));
    }
    Ok(Combination::Ready(candidate))
}

/// Records the candidates before the branch moves to them.
pub async fn record_candidate(
    context: &JobContext<'_>,
    candidate: &LandingCandidate,
) -> Result<(), JobError> {
    if candidate.landed != candidate.top {
        return Ok(());
    }
    let git = &context.project.git;
    let refs = [
        (LANDING_BASE_REF, &candidate.below),
        (LANDING_REF, &candidate.top),
    ];
    for (name, commit) in refs {
        let name = context.ref_name(name);
        let earlier = git.read_ref(&name).await?;
        if earlier.as_ref() != Some(commit)
            && !git.keep_ref(&name, commit, earlier.as_ref()).await?
        {
            return Err(JobError::transient(format!(
                "{name} changed during the landing"
            )));
        }
    }
    Ok(())
}

/// Returns the candidate that has landed already: by a landing that was killed before its report, or
/// by a person who merged the branch.
pub async fn landed_candidate(
    context: &JobContext<'_>,
    approved: &Oid,
    tip: &Oid,
) -> Result<Option<LandingCandidate>, JobError> {
    let git = &context.project.git;
    if git.is_ancestor(approved, tip).await? {
        let approval = context.ticket.approval.as_ref();
        return Ok(Some(LandingCandidate {
            below: tip.clone(),
            top: tip.clone(),
            landed: approved.clone(),
            diff_id: approval
                .map(|approval| approval.diff_id.clone())
                .unwrap_or_default(),
        }));
    }
    let below = git.read_ref(&context.ref_name(LANDING_BASE_REF)).await?;
    let top = git.read_ref(&context.ref_name(LANDING_REF)).await?;
    let (Some(below), Some(top)) = (below, top) else {
        return Ok(None);
    };
    if !git.is_ancestor(&top, tip).await? || !git.is_ancestor(&below, &top).await? {
        return Ok(None);
    }
    let candidate = LandingCandidate {
        diff_id: git.change_id(&below, &top).await?,
        below,
        landed: top.clone(),
        top,
    };
    // The refs may be those of an earlier approval of this ticket.
    Ok(Some(candidate).filter(|candidate| is_approved_diff(context, candidate)))
}

fn is_approved_diff(context: &JobContext<'_>, candidate: &LandingCandidate) -> bool {
    let approval = context.ticket.approval.as_ref();
    approval.is_some_and(|approval| {
        !approval.diff_id.is_empty() && approval.diff_id == candidate.diff_id
    })
}

fn rejected(result: Result<JobOutput, JobError>) -> Combination {
    Combination::Rejected(Box::new(result))
}

/// The base has every line of the change: somebody else made the same change, or brought it in by
/// hand. A person decides, because there is nothing that a builder could do.
fn nothing_to_land(context: &JobContext<'_>) -> JobError {
    let branch = &context.project.config.base_branch;
    JobError::permanent(format!(
        "{branch} already has everything in this change, so there is nothing to land; cancel the ticket if {branch} is as you want it"
    ))
}

/// The combination merges, but is another change than the approved one, so it needs another review.
fn other_change(context: &JobContext<'_>, style: LandingStyle) -> JobOutput {
    let branch = &context.project.config.base_branch;
    let files = context.ticket.submission.as_ref();
    let files = files
        .map(|submission| submission.files.clone())
        .unwrap_or_default();
    let evidence = format!(
        "{branch} has changed in the same places. The change merges without a conflict, but {} on {branch} it is no longer the diff that was approved. Merge {branch} into the branch, so that the result can be checked and reviewed.",
        style.past_tense()
    );
    conflict_output(context, files, &evidence)
}

/// Returns the name that a commit gets.
async fn identity(
    context: &JobContext<'_>,
    approved: &Oid,
    name: &CommitName,
) -> Result<CommitIdentity, JobError> {
    let project = context.project;
    let person = || {
        let person = project.config.person.clone();
        person.unwrap_or_else(CommitIdentity::countersign)
    };
    Ok(match name {
        CommitName::Person => person(),
        CommitName::Countersign => CommitIdentity::countersign(),
        CommitName::Fixed { name, email } => CommitIdentity {
            name: name.clone(),
            email: email.clone(),
        },
        CommitName::Builder => project
            .git
            .author_of(approved)
            .await?
            .unwrap_or_else(person),
    })
}
