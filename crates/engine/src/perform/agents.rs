//! Running an agent for a job, and remembering that it came to its end: a worker that dies between
//! the agent's end and the report must not make anybody pay for the same run twice.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flow::event::Lease;
use flow::{TicketId, Usage};
use serde::{Deserialize, Serialize};
use store::Artefact;

use super::build::identity;
use super::{Held, Trouble, millis, room, secs};
use crate::agent::{self, AgentEvent, Assignment, Facts, Role};
use crate::process::{self, Exit, Limits, RunId, end_runs};
use crate::sandbox;
use crate::workshop::{Member, Workshop};

/// The record of a run that has ended, in that run's own directory.
const ENDED: &str = "ended.json";
/// How much of its complaint goes into a message.
const COMPLAINT_CHARS_MAX: usize = 400;

/// A run that came to its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    pub result: Option<String>,
    pub usage: Usage,
    pub session: Option<String>,
    pub artefacts: Vec<Artefact>,
    /// The commit that a builder left.
    pub head: Option<String>,
    /// What a judge changed that it should not have.
    pub tampered: Option<String>,
    /// What the operating system kept it from, where it did.
    pub isolation: Option<String>,
}

/// The newest run for this job that came to its end, whoever held the job then.
pub fn finished(held: &Held<'_>) -> Option<Run> {
    let runs = runs_of(held.shop, &held.ticket.id, held.lease);
    let texts = runs.filter_map(|(fence, dir)| Some((fence, fs::read(dir.join(ENDED)).ok()?)));
    let (_, newest) = texts.max_by_key(|(fence, _)| *fence)?;
    serde_json::from_slice(&newest).ok()
}

/// Notes on disk, whole or not at all, that the run has ended.
pub fn record(held: &Held<'_>, run: &Run) -> Result<(), Trouble> {
    let (path, text) = (
        record_file(held),
        serde_json::to_vec(run).map_err(Trouble::transient)?,
    );
    let aside = path.with_extension("part");
    let mut file = fs::File::create(&aside)?;
    file.write_all(&text)?;
    file.sync_all()?;
    Ok(fs::rename(aside, path)?)
}

/// The run did not do: whoever takes the job next runs the agent again. What a later holder has
/// on record is not ours to forget.
pub fn forget(shop: &Workshop, ticket: &TicketId, lease: Lease) {
    for (_, dir) in runs_of(shop, ticket, lease) {
        // It may never have been there.
        let _ = fs::remove_file(dir.join(ENDED));
    }
}

fn record_file(held: &Held<'_>) -> PathBuf {
    held.dir().join(ENDED)
}

/// The directories of the runs for this job, up to the lease's own, by fence.
fn runs_of(
    shop: &Workshop,
    ticket: &TicketId,
    lease: Lease,
) -> impl Iterator<Item = (u64, PathBuf)> {
    let entries = fs::read_dir(shop.files(ticket).job(lease.serial));
    let dirs = entries.into_iter().flatten().filter_map(move |entry| {
        let entry = entry.ok()?;
        let fence = entry
            .file_name()
            .to_str()?
            .strip_prefix("run-")?
            .parse()
            .ok()?;
        Some((fence, entry.path()))
    });
    dirs.filter(move |(fence, _)| *fence <= lease.fence)
}

/// Starts the agent with its brief in `dir` and waits for its end.
pub async fn run(
    held: &Held<'_>,
    member: &Member,
    role: Role,
    brief: &str,
    dir: &Path,
    limit_secs: u64,
) -> Result<Run, Trouble> {
    held.must_be_ours().await?;
    end_earlier_holders(held).await?;
    let own = held.dir();
    fs::create_dir_all(&own)?;
    let mut assignment = assignment(held, role, brief, dir, &own, limit_secs)?;
    let shop = held.shop;
    if role == Role::Build {
        // Its home is empty: without this git would not let it commit.
        assignment.env.extend(signs_as(&member.name));
    }
    assignment.confinement =
        room::of_agent(shop, role, &assignment, member.adapter.as_ref(), &own)?;
    let heard = |_: &AgentEvent| {};
    let report = agent::run(
        &shop.host,
        member.adapter.as_ref(),
        &assignment,
        heard,
        held.stop.clone(),
    )
    .await
    .map_err(trouble)?;
    let usage = Usage {
        usd_micros: report.usage.usd_micros.unwrap_or_default(),
        tokens: report
            .usage
            .tokens_in
            .unwrap_or_default()
            .saturating_add(report.usage.tokens_out.unwrap_or_default()),
        wall_ms: millis(report.wall),
    };
    match report.exit {
        Exit::Code(0) => {}
        Exit::Cancelled => {
            return Err(Trouble {
                usage,
                ..super::interrupted()
            });
        }
        exit @ (Exit::Code(_) | Exit::Signal(_) | Exit::WallLimit | Exit::IdleLimit) => {
            let complaint =
                findings::shorten(&findings::clean(&report.complaint), COMPLAINT_CHARS_MAX);
            let text = format!(
                "{}: {exit}\n{complaint}\ntranscript: {}",
                member.name,
                assignment.transcript.display()
            );
            return Err(Trouble {
                usage,
                ..Trouble::transient(text.trim_end())
            });
        }
    }
    let artefacts = vec![artefact(
        held,
        "transcript",
        &member.name,
        &assignment.transcript,
    )];
    let result = report.result.map(|(text, _)| text);
    Ok(Run {
        result,
        usage,
        session: report.session,
        artefacts,
        head: None,
        tampered: None,
        isolation: report.proof.map(|proof| proof.describe()),
    })
}

fn signs_as(builder: &str) -> Vec<(OsString, OsString)> {
    let who = identity(builder);
    ["AUTHOR", "COMMITTER"]
        .iter()
        .flat_map(|part| {
            [
                (format!("GIT_{part}_NAME").into(), who.name.clone().into()),
                (format!("GIT_{part}_EMAIL").into(), who.email.clone().into()),
            ]
        })
        .collect()
}

fn trouble(error: agent::Error) -> Trouble {
    match error {
        agent::Error::NotInstalled { .. }
        | agent::Error::Process(process::Error::Sandbox(sandbox::Error::NotConfined { .. })) => {
            Trouble::permanent(error)
        }
        agent::Error::File { .. } | agent::Error::Process(_) => Trouble::transient(error),
    }
}

/// Whoever held this job before us has lost it; what it started must not go on in our worktree.
async fn end_earlier_holders(held: &Held<'_>) -> Result<(), Trouble> {
    let ours = format!("{}.{}.", held.ticket.id, held.lease.serial);
    let fence = held.lease.fence;
    let earlier = |run: &str| {
        let rest = run
            .strip_prefix(&ours)
            .and_then(|rest| rest.split('.').next());
        rest.and_then(|token| token.parse::<u64>().ok())
            .is_some_and(|token| token < fence)
    };
    end_runs(&held.shop.host.data_dir, earlier)
        .await
        .map_err(Trouble::transient)?;
    Ok(())
}

fn assignment(
    held: &Held<'_>,
    role: Role,
    brief: &str,
    dir: &Path,
    own: &Path,
    limit_secs: u64,
) -> Result<Assignment, Trouble> {
    let (ticket, lease, limits) = (held.ticket, held.lease, &held.shop.project.policy.limits);
    let put = ticket.submission.as_ref();
    Ok(Assignment {
        run_id: RunId::new(&format!("{}.{}.{}", ticket.id, lease.serial, lease.fence))
            .map_err(Trouble::permanent)?,
        role,
        ticket: ticket.id.to_string(),
        round: ticket.round,
        slot: 1,
        brief: brief.to_owned(),
        dir: dir.to_owned(),
        home: own.join("home"),
        scratch: own.join("scratch"),
        copy: Some(own.join("scratch/copy/checkout")).filter(|copy| copy.is_dir()),
        result_file: own.join("answer/result.json"),
        transcript: own.join("transcript.log"),
        env: held.shop.environment(),
        facts: Facts {
            commit: put.map(|put| put.commit.clone()),
            base: put.map(|put| put.base.clone()),
            branch: put.map(|put| put.branch.clone()),
        },
        limits: Limits {
            wall: secs(limit_secs),
            idle: secs(limits.idle_secs),
            output_bytes: limits.output_bytes_max,
            ..Limits::default()
        },
        model: None,
        confinement: None,
    })
}

/// A file of this job, as the store refers to it.
pub fn artefact(held: &Held<'_>, kind: &str, name: &str, path: &Path) -> Artefact {
    Artefact {
        ticket: held.ticket.id.clone(),
        round: held.ticket.round,
        kind: kind.to_owned(),
        name: name.to_owned(),
        path: held.shop.files(&held.ticket.id).relative(path),
        bytes: fs::metadata(path)
            .map(|file| file.len())
            .unwrap_or_default(),
    }
}
