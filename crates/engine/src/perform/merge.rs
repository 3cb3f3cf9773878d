//! Landing: the approved commit and no other, on the newest tip, proven together, by compare and
//! swap. Nothing is pushed and nothing is forced.

use std::time::Duration;

use flow::{Usage, What};

use super::{Brought, Held, Trouble, build, check, ground, interrupted, submission};
use crate::git::{Combined, How, Identity, Landed, Oid, Turn};

/// How often the branch may move under us before the job goes back. Other landings wait for their
/// turn, so that only people move it.
const MOVES_MAX: u32 = 100;
/// How long we wait for our turn. Who has it may be stopped, and the swap is safe without.
const TURN_WAIT: Duration = Duration::from_secs(30 * 60);
const TURN_LOOK: Duration = Duration::from_millis(20);
/// How long a ticket waits before it looks again whether what it is stacked on has landed.
const STACKED_WAIT_MS: u64 = 1_000;

pub async fn merge(held: &Held<'_>, commit: &str) -> Result<Brought, Trouble> {
    let shop = held.shop;
    let approved =
        Oid::parse(commit).ok_or_else(|| Trouble::permanent(format!("{commit} is no commit")))?;
    if let Some(below) = build::unlanded(held).await?.first() {
        return Err(later(held, &below.0));
    }
    if let Some(what) = overtaken(held, &approved).await? {
        return Ok(Brought {
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
            Trouble::permanent(format!(
                "there is no local branch {branch} to land on; make it, then continue"
            ))
        })?;
        if shop.git.is_ancestor(&approved, &tip).await? {
            // It landed before; what a killed landing left behind goes.
            shop.git.recover_landing().await?;
            return Ok(landed(held, &approved, &tip));
        }
        let combined = match combine(held, &tip, &approved).await? {
            Combined::Clean { commit, .. } => commit,
            Combined::Conflicts { files, messages } => {
                return Ok(conflicted(held, files, &messages));
            }
        };
        if let Some(brought) = red_together(held, &tip, &approved, &combined).await? {
            return Ok(brought);
        }
        // What is cancelled or taken over in the meantime must not land.
        held.must_be_ours().await?;
        match land(held, branch, &combined, &tip).await? {
            Landed::Done { .. } => {
                shop.git.sync().await?;
                return Ok(landed(held, &approved, &combined));
            }
            Landed::Moved { .. } => {}
            Landed::Held { work_tree, why } => {
                return Err(Trouble::permanent(format!(
                    "{branch} is checked out in {} and cannot move: {why}; commit or stash there, then continue",
                    work_tree.display()
                )));
            }
        }
    }
    Err(Trouble::transient(format!(
        "{branch} moved {MOVES_MAX} times while we merged"
    )))
}

/// One at a time combines, checks and lands; the others would check a combination that is out of
/// date when they land it. None where it took too long: what is out of date is made again.
async fn turn(held: &Held<'_>, branch: &str) -> Result<Option<Turn>, Trouble> {
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
async fn land(held: &Held<'_>, branch: &str, new: &Oid, old: &Oid) -> Result<Landed, Trouble> {
    let git = &held.shop.git;
    let carrier = held.shop.carrier.as_ref().filter(|carrier| carrier.lands);
    if let Some(carrier) = carrier
        && !carrier.land(git, branch, new).await?
    {
        return Ok(Landed::Moved { to: None });
    }
    Ok(git.land(branch, new, old).await?)
}

/// What it is stacked on lands first; no try is counted.
fn later(held: &Held<'_>, below: &flow::TicketId) -> Trouble {
    let until = (held.shop.clock)().plus_ms(STACKED_WAIT_MS);
    Trouble {
        failure: flow::event::Failure::Deferred { until },
        ..Trouble::transient(format!("{below} lands first"))
    }
}

/// The branch under review has another commit than the one that was approved.
pub async fn overtaken(held: &Held<'_>, approved: &Oid) -> Result<Option<What>, Trouble> {
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
    Ok(Some(What::WentStale {
        submission,
        why,
        lease: Some(held.lease),
    }))
}

pub async fn combine(held: &Held<'_>, tip: &Oid, approved: &Oid) -> Result<Combined, Trouble> {
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
            How::Merge,
            &Identity::countersign(),
            &message,
        )
        .await?)
}

/// Where the base has moved since the checks ran, they run again on the combination.
async fn red_together(
    held: &Held<'_>,
    tip: &Oid,
    approved: &Oid,
    combined: &Oid,
) -> Result<Option<Brought>, Trouble> {
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
    let what = What::CombinationRed {
        lease: held.lease,
        results: red,
        usage: Usage::default(),
    };
    Ok(Some(Brought { what, artefacts }))
}

pub fn conflicted(held: &Held<'_>, files: Vec<String>, messages: &str) -> Brought {
    let evidence = findings::clean(messages);
    let what = What::Conflicted {
        lease: held.lease,
        files,
        evidence,
        usage: Usage::default(),
    };
    Brought {
        what,
        artefacts: Vec::new(),
    }
}

pub fn landed(held: &Held<'_>, approved: &Oid, tip: &Oid) -> Brought {
    let diff_id = held
        .ticket
        .approval
        .as_ref()
        .map(|approval| approval.diff_id.clone())
        .unwrap_or_default();
    let what = What::Landed {
        lease: held.lease,
        commit: approved.to_string(),
        landed: approved.to_string(),
        diff_id,
        branch: held.shop.project.base_branch.clone(),
        tip: Some(tip.to_string()),
        usage: Usage::default(),
    };
    Brought {
        what,
        artefacts: Vec::new(),
    }
}
