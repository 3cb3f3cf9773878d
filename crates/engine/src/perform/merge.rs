//! Landing: the approved commit and no other, on the newest tip, proven together, by compare and
//! swap. Nothing is pushed and nothing is forced.

use std::time::Duration;

use flow::{EventKind, Usage};

use super::{JobContext, JobError, JobOutput, build, check, ground, interrupted, submission};
use crate::git::{CommitIdentity, LandingOutcome, LandingTurn, MergeResult, MergeStyle, Oid};

/// How often the branch may move under us before the job goes back. Other landings wait for their
/// turn, so that only people move it.
const MOVES_MAX: u32 = 100;
/// How long we wait for our turn. Who has it may be stopped, and the swap is safe without.
const TURN_WAIT: Duration = Duration::from_secs(30 * 60);
const TURN_LOOK: Duration = Duration::from_millis(20);
/// How long a ticket waits before it looks again whether what it is stacked on has landed.
const STACKED_WAIT_MS: u64 = 1_000;

pub async fn merge(held: &JobContext<'_>, commit: &str) -> Result<JobOutput, JobError> {
    let shop = held.shop;
    let approved =
        Oid::parse(commit).ok_or_else(|| JobError::permanent(format!("{commit} is no commit")))?;
    if let Some(below) = build::unlanded(held).await?.first() {
        return Err(later(held, &below.0));
    }
    if let Some(what) = overtaken(held, &approved).await? {
        return Ok(JobOutput {
            what,
            artefacts: Vec::new(),
        });
    }
    if let Some(brought) = ground::must_be_there(held, &approved).await? {
        return Ok(brought);
    }
    let branch = &shop.project.base_branch;
    let _turn = turn(held, branch).await?;
    for _ in 0..MOVES_MAX {
        let tip = shop.git.branch(branch).await?.ok_or_else(|| {
            JobError::permanent(format!(
                "there is no local branch {branch} to land on; make it, then continue"
            ))
        })?;
        if shop.git.is_ancestor(&approved, &tip).await? {
            // It landed before; what a killed landing left behind goes.
            shop.git.recover_landing().await?;
            return Ok(landed(held, &approved, &tip));
        }
        let combined = match combine(held, &tip, &approved).await? {
            MergeResult::Clean { commit, .. } => commit,
            MergeResult::Conflicts { files, messages } => {
                return Ok(conflicted(held, files, &messages));
            }
        };
        if let Some(brought) = red_together(held, &tip, &approved, &combined).await? {
            return Ok(brought);
        }
        // What is cancelled or taken over in the meantime must not land.
        held.must_be_ours().await?;
        match land(held, branch, &combined, &tip).await? {
            LandingOutcome::Done { .. } => {
                shop.git.sync().await?;
                return Ok(landed(held, &approved, &combined));
            }
            LandingOutcome::Moved { .. } => {}
            LandingOutcome::Held { work_tree, why } => {
                return Err(JobError::permanent(format!(
                    "{branch} is checked out in {} and cannot move: {why}; commit or stash there, then continue",
                    work_tree.display()
                )));
            }
        }
    }
    Err(JobError::transient(format!(
        "{branch} moved {MOVES_MAX} times while we merged"
    )))
}

/// One at a time combines, checks and lands; the others would check a combination that is out of
/// date when they land it. None where it took too long: what is out of date is made again.
async fn turn(held: &JobContext<'_>, branch: &str) -> Result<Option<LandingTurn>, JobError> {
    let mut stop = held.stop.clone();
    let until = tokio::time::Instant::now() + TURN_WAIT;
    while tokio::time::Instant::now() < until {
        if let Some(turn) = held.shop.git.landing_turn(branch)? {
            return Ok(Some(turn));
        }
        tokio::select! {
            () = tokio::time::sleep(TURN_LOOK) => {}
            () = stop.asked() => return Err(interrupted()),
        }
    }
    Ok(None)
}

/// Where the remote's branch shall move too, it moves first: it alone decides who was faster.
async fn land(
    held: &JobContext<'_>,
    branch: &str,
    new: &Oid,
    old: &Oid,
) -> Result<LandingOutcome, JobError> {
    let git = &held.shop.git;
    let carrier = held.shop.carrier.as_ref().filter(|carrier| carrier.lands);
    if let Some(carrier) = carrier
        && !carrier.land(git, branch, new).await?
    {
        return Ok(LandingOutcome::Moved { to: None });
    }
    Ok(git.land(branch, new, old).await?)
}

/// What it is stacked on lands first; no try is counted.
fn later(held: &JobContext<'_>, below: &flow::TicketId) -> JobError {
    let until = (held.shop.clock)().plus_ms(STACKED_WAIT_MS);
    JobError {
        failure: flow::event::Failure::Deferred { until },
        ..JobError::transient(format!("{below} lands first"))
    }
}

/// The branch under review has another commit than the one that was approved.
pub async fn overtaken(
    held: &JobContext<'_>,
    approved: &Oid,
) -> Result<Option<EventKind>, JobError> {
    let branch = held
        .ticket
        .submission
        .as_ref()
        .map(|put| put.branch.clone())
        .unwrap_or_default();
    let Some(head) = held.shop.git.branch(&branch).await? else {
        return Ok(None);
    };
    if &head == approved {
        return Ok(None);
    }
    let submission = Box::new(
        submission::describe(
            &held.shop.git,
            &held.shop.project,
            held.ticket,
            &head,
            &branch,
            held.shop.builder_name(),
        )
        .await?,
    );
    let why = format!("{branch} is at {} now", head.short());
    Ok(Some(EventKind::WentStale {
        submission,
        why,
        lease: Some(held.lease),
    }))
}

pub async fn combine(
    held: &JobContext<'_>,
    tip: &Oid,
    approved: &Oid,
) -> Result<MergeResult, JobError> {
    let ticket = held.ticket;
    let message = format!(
        "Merge {}: {}\n\nCountersign-Ticket: {}\nCountersign-Commit: {approved}\nCountersign-Policy: {}\n",
        ticket.id,
        findings::one_line(&ticket.spec.title),
        ticket.id,
        ticket
            .approval
            .as_ref()
            .map(|approval| approval.policy.clone())
            .unwrap_or_default(),
    );
    Ok(held
        .shop
        .git
        .combine(
            tip,
            approved,
            MergeStyle::Merge,
            &CommitIdentity::countersign(),
            &message,
        )
        .await?)
}

/// Where the base has moved since the checks ran, they run again on the combination.
async fn red_together(
    held: &JobContext<'_>,
    tip: &Oid,
    approved: &Oid,
    combined: &Oid,
) -> Result<Option<JobOutput>, JobError> {
    if held.shop.git.is_ancestor(tip, approved).await? {
        return Ok(None);
    }
    let (results, artefacts) = check::run_checks(held, combined, tip).await?;
    let red: Vec<_> = results
        .into_iter()
        .filter(|result| !held.shop.project.policy.accepts(result.outcome))
        .collect();
    if red.is_empty() {
        return Ok(None);
    }
    let what = EventKind::CombinationRed {
        lease: held.lease,
        results: red,
        usage: Usage::default(),
    };
    Ok(Some(JobOutput { what, artefacts }))
}

pub fn conflicted(held: &JobContext<'_>, files: Vec<String>, messages: &str) -> JobOutput {
    let evidence = findings::clean(messages);
    let what = EventKind::Conflicted {
        lease: held.lease,
        files,
        evidence,
        usage: Usage::default(),
    };
    JobOutput {
        what,
        artefacts: Vec::new(),
    }
}

pub fn landed(held: &JobContext<'_>, approved: &Oid, tip: &Oid) -> JobOutput {
    let diff_id = held
        .ticket
        .approval
        .as_ref()
        .map(|approval| approval.diff_id.clone())
        .unwrap_or_default();
    let what = EventKind::Landed {
        lease: held.lease,
        commit: approved.to_string(),
        landed: approved.to_string(),
        diff_id,
        branch: held.shop.project.base_branch.clone(),
        tip: Some(tip.to_string()),
        usage: Usage::default(),
    };
    JobOutput {
        what,
        artefacts: Vec::new(),
    }
}
