//! Lands the approved commit and no other: on the newest tip, checked in combination, by compare
//! and swap. It pushes nothing and forces nothing.
//!
//! The job may be repeated after any kill: it looks first whether the commit has landed.

use std::time::Duration;

use flow::{EventKind, Usage};

use super::combination::{
    Combination, LandingCandidate, combine, landed_candidate, record_candidate,
};
use super::{JobContext, JobError, JobOutput, build, check, interrupted, pinned_base, submission};
use crate::git::{LandingOutcome, LandingTurn, Oid};

/// Maximum number of times the branch may move before the job goes back. Other landings wait for
/// their turn, so only people move it.
const MOVES_MAX: u32 = 100;
/// Maximum wait for our turn. Its holder may be suspended, and the swap is safe without a turn.
const TURN_WAIT: Duration = Duration::from_secs(30 * 60);
const TURN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Delay before a ticket checks again whether the tickets below it in the stack have landed.
const STACKED_WAIT_MS: u64 = 1_000;

/// Runs a merge job.
pub async fn merge(context: &JobContext<'_>, commit: &str) -> Result<JobOutput, JobError> {
    let project = context.project;
    let approved = Oid::parse(commit)
        .ok_or_else(|| JobError::permanent(format!("{commit} is not a commit id")))?;
    // A stacked change contains the commits of the ticket below, and would land them unapproved.
    if let Some(below) = build::unlanded_dependencies(context).await?.first() {
        return Err(stacked_base_not_landed(context, &below.0));
    }
    // An approval is for one commit. If the branch has another one, that one was not reviewed.
    if let Some(what) = check_branch_moved(context, &approved).await? {
        return Ok(JobOutput {
            what,
            artefacts: Vec::new(),
        });
    }
    if let Some(output) = pinned_base::check_before_landing(context, &approved).await? {
        return Ok(output);
    }
    let branch = &project.config.base_branch;
    let _turn = wait_for_landing_turn(context, branch).await?;
    for _ in 0..MOVES_MAX {
        // The tip is read again in each round, because a person may have committed meanwhile.
        let tip = project.git.branch_tip(branch).await?.ok_or_else(|| {
            JobError::permanent(format!(
                "there is no local branch {branch} to land on; create it, then continue"
            ))
        })?;
        if let Some(landed) = landed_candidate(context, &approved, &tip).await? {
            // It landed before; clean up after a landing that was killed.
            project.git.recover_landing().await?;
            return Ok(landed_output(context, &landed));
        }
        let candidate = match combine(context, &tip, &approved).await? {
            Combination::Ready(candidate) => candidate,
            Combination::Rejected(result) => return *result,
        };
        // Both sides passed their checks, but their combination may not.
        if let Some(output) = check_combination(context, &tip, &approved, &candidate.top).await? {
            return Ok(output);
        }
        // Recorded before landing: after a kill the next attempt recognises its own commit by this.
        record_candidate(context, &candidate).await?;
        // A change that was cancelled or taken over meanwhile must not land.
        context.ensure_lease_held().await?;
        match land(context, branch, &candidate.top, &tip).await? {
            LandingOutcome::Done { .. } => {
                // The landed commit must be on disk before the ticket says so.
                project.git.sync().await?;
                return Ok(landed_output(context, &candidate));
            }
            // The next round combines with the new tip.
            LandingOutcome::Moved { .. } => {}
            LandingOutcome::Blocked { work_tree, why } => {
                return Err(JobError::permanent(format!(
                    "{branch} is checked out in {} and cannot move: {why}; commit or stash there, then continue",
                    work_tree.display()
                )));
            }
        }
    }
    Err(JobError::transient(format!(
        "{branch} moved {MOVES_MAX} times during the merge"
    )))
}

/// Takes the turn to combine, check and land. Without turns, others would check a combination that
/// is out of date when they land it. Returns `None` after a long wait; an outdated combination is
/// then made again.
async fn wait_for_landing_turn(
    context: &JobContext<'_>,
    branch: &str,
) -> Result<Option<LandingTurn>, JobError> {
    let mut stop = context.stop.clone();
    let until = tokio::time::Instant::now() + TURN_WAIT;
    while tokio::time::Instant::now() < until {
        if let Some(turn) = context.project.git.try_landing_turn(branch)? {
            return Ok(Some(turn));
        }
        tokio::select! {
            () = tokio::time::sleep(TURN_POLL_INTERVAL) => {}
            () = stop.requested() => return Err(interrupted()),
        }
    }
    Ok(None)
}

/// Lands the commit. If the branch of the remote moves too, it moves first: it alone decides who
/// was faster.
async fn land(
    context: &JobContext<'_>,
    branch: &str,
    new: &Oid,
    old: &Oid,
) -> Result<LandingOutcome, JobError> {
    let git = &context.project.git;
    let sync = context
        .project
        .repo_sync
        .as_ref()
        .filter(|sync| sync.pushes_base_branch);
    if let Some(sync) = sync
        && !sync.push_base_branch(git, branch, new).await?
    {
        return Ok(LandingOutcome::Moved { to: None });
    }
    Ok(git.land(branch, new, old).await?)
}

/// Defers the landing until the ticket below in the stack has landed; this counts as no attempt.
fn stacked_base_not_landed(context: &JobContext<'_>, below: &flow::TicketId) -> JobError {
    let until = (context.project.clock)().plus_ms(STACKED_WAIT_MS);
    JobError {
        failure: flow::event::Failure::Deferred { until },
        ..JobError::transient(format!("{below} lands first"))
    }
}

/// Returns an event if the branch under review has a different commit than the approved one.
pub async fn check_branch_moved(
    context: &JobContext<'_>,
    approved: &Oid,
) -> Result<Option<EventKind>, JobError> {
    let branch = context
        .ticket
        .submission
        .as_ref()
        .map(|submission| submission.branch.clone())
        .unwrap_or_default();
    let Some(head) = context.project.git.branch_tip(&branch).await? else {
        return Ok(None);
    };
    if &head == approved {
        return Ok(None);
    }
    let submission = Box::new(
        submission::describe(
            &context.project.git,
            &context.project.config,
            context.ticket,
            &head,
            &branch,
            context.project.builder_name(),
        )
        .await?,
    );
    let why = format!("{branch} is at {} now", head.short());
    Ok(Some(EventKind::WentStale {
        submission,
        why,
        lease: Some(context.lease),
    }))
}

/// Runs the checks again on the combination if the base has moved since they ran.
async fn check_combination(
    context: &JobContext<'_>,
    tip: &Oid,
    approved: &Oid,
    combined: &Oid,
) -> Result<Option<JobOutput>, JobError> {
    if context.project.git.is_ancestor(tip, approved).await? {
        return Ok(None);
    }
    let (results, artefacts) = check::run_checks(context, combined, tip).await?;
    let red: Vec<_> = results
        .into_iter()
        .filter(|result| !context.project.config.policy.accepts(result.outcome))
        .collect();
    if red.is_empty() {
        return Ok(None);
    }
    let what = EventKind::CombinationRed {
        lease: context.lease,
        results: red,
        usage: Usage::default(),
    };
    Ok(Some(JobOutput { what, artefacts }))
}

pub fn conflict_output(context: &JobContext<'_>, files: Vec<String>, messages: &str) -> JobOutput {
    let evidence = findings::clean(messages);
    let what = EventKind::Conflicted {
        lease: context.lease,
        files,
        evidence,
        usage: Usage::default(),
    };
    JobOutput {
        what,
        artefacts: Vec::new(),
    }
}

pub fn landed_output(context: &JobContext<'_>, candidate: &LandingCandidate) -> JobOutput {
    let approval = context.ticket.approval.as_ref();
    let approved = approval.map(|approval| approval.commit.clone());
    let what = EventKind::Landed {
        lease: context.lease,
        commit: approved.unwrap_or_default(),
        landed: candidate.landed.to_string(),
        diff_id: candidate.diff_id.clone(),
        branch: context.project.config.base_branch.clone(),
        tip: Some(candidate.top.to_string()),
        usage: Usage::default(),
    };
    JobOutput {
        what,
        artefacts: Vec::new(),
    }
}
