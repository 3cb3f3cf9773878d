//! Running an agent for a job, and remembering that it came to its end: a worker that dies between
//! the agent's end and the report must not make anybody pay for the same run twice.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flow::event::Lease;
use flow::{TicketId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Artefact, Noted};
use tokio::sync::Notify;

use super::build::identity;
use super::fault::{could_not_go_on, trouble, trouble_of};
use super::purse::BudgetGuard;
use super::review::CHANGE;
use super::{JobContext, JobError, millis, pass, room, secs};
use crate::agent::{
    self, AgentAssignment, AgentEvent, AgentReport, AgentRole, RepositoryFacts, ResultSource,
    ReviewQuestion,
};
use crate::git::{make_readable, remove_tree};
use crate::log::removed;
use crate::private;
use crate::process::{ProcessExit, ProcessLimits, RunId, StopSignal, end_runs};
use crate::redact::Redactor;
use crate::runs;
use crate::sandbox::{RefusedHost, hosts};
use crate::workshop::{AgentConfig, Project};

/// The record of a run that has ended, in that run's own directory.
const ENDED: &str = "ended.json";
/// A run that came to its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentRun {
    pub result: Option<String>,
    /// What was said beside the result.
    #[serde(default)]
    pub beside: Option<String>,
    /// The first answer of a reviewer that was asked once more for it in form.
    #[serde(default)]
    pub first: Option<String>,
    pub usage: Usage,
    pub session: Option<String>,
    pub artefacts: Vec<Artefact>,
    /// The commit that a builder left.
    pub head: Option<String>,
    /// Files of a builder that are not in the commit, because git stores no such names.
    #[serde(default)]
    pub unstorable: Vec<String>,
    /// What a judge changed that it should not have.
    pub tampered: Option<String>,
    /// What the operating system kept it from, where it did.
    pub isolation: Option<String>,
}

/// The newest run for this job that came to its end, whoever held the job then.
pub fn finished(held: &JobContext<'_>) -> Option<AgentRun> {
    let runs = runs_of(held.shop, &held.ticket.id, held.lease);
    let texts = runs.filter_map(|(fence, dir)| Some((fence, fs::read(dir.join(ENDED)).ok()?)));
    let (_, newest) = texts.max_by_key(|(fence, _)| *fence)?;
    serde_json::from_slice(&newest).ok()
}

/// Which run for this job is reported: the newest that came to its end, else the one under our lease.
pub fn newest(held: &JobContext<'_>) -> u64 {
    let runs = runs_of(held.shop, &held.ticket.id, held.lease);
    let ended = runs.filter(|(_, dir)| dir.join(ENDED).exists());
    let newest = ended.map(|(fence, _)| fence).max();
    newest.unwrap_or(held.lease.fence)
}

/// Notes on disk, whole or not at all, that the run has ended.
pub fn record(held: &JobContext<'_>, run: &AgentRun) -> Result<(), JobError> {
    let (path, text) = (
        record_file(held),
        serde_json::to_vec(run).map_err(JobError::transient)?,
    );
    let aside = path.with_extension("part");
    let mut file = private::create(&aside)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(aside, &path)?;
    // The report names the transcript too: after a power cut all of it is there.
    let dir = fs::File::open(held.dir())?;
    Ok(rustix::fs::syncfs(dir).map_err(io::Error::from)?)
}

/// The run did not do: whoever takes the job next runs the agent again. What a later holder has
/// on record is not ours to forget.
pub fn forget(shop: &Project, ticket: &TicketId, lease: Lease) {
    for (_, dir) in runs_of(shop, ticket, lease) {
        // It may never have been there.
        let path = dir.join(ENDED);
        removed(&path, fs::remove_file(&path));
    }
}

fn record_file(held: &JobContext<'_>) -> PathBuf {
    held.dir().join(ENDED)
}

/// The directories of the runs for this job, up to the lease's own, by fence.
fn runs_of(
    shop: &Project,
    ticket: &TicketId,
    lease: Lease,
) -> impl Iterator<Item = (u64, PathBuf)> {
    let dirs = runs::numbered(&shop.files(ticket).job(lease.serial), "run-");
    let up_to_ours = move |(fence, _): &(u64, PathBuf)| *fence <= lease.fence;
    dirs.into_iter().filter(up_to_ours)
}

/// One start of an agent: what it is told, where, and for how long.
#[derive(Clone, Debug)]
pub struct AgentStart<'a> {
    pub role: AgentRole,
    pub brief: &'a str,
    pub dir: &'a Path,
    pub limit_secs: u64,
    pub question: ReviewQuestion,
    /// Where it was before, to go on there.
    pub resumed: Option<ResumedSession>,
}

/// A session that has ended, and the home that it lives in.
#[derive(Clone, Debug)]
pub struct ResumedSession {
    pub session: agent::ResumableSession,
    pub home: PathBuf,
}

/// The newest run of an earlier job of this ticket that came to its end here, and its directory.
pub fn ended_run(held: &JobContext<'_>, serial: u32) -> Option<(PathBuf, AgentRun)> {
    let dirs = runs::numbered(&held.shop.files(&held.ticket.id).job(serial), "run-");
    let ended = dirs.into_iter().filter_map(|(fence, dir)| {
        let text = fs::read(dir.join(ENDED)).ok()?;
        Some((fence, dir, serde_json::from_slice(&text).ok()?))
    });
    let (_, dir, run) = ended.max_by_key(|(fence, _, _)| *fence)?;
    Some((dir, run))
}

/// Where a run of this agent left its session, if a later one can go on there.
pub fn resumable(member: &AgentConfig, run: &AgentRun, dir: &Path) -> Option<ResumedSession> {
    let (adapter, home) = (member.adapter.as_ref(), dir.join("home"));
    let written = run.session.as_deref().filter(|_| adapter.resumes())?;
    let session = agent::ResumableSession::read(written, adapter.format())?;
    home.is_dir().then_some(ResumedSession { session, home })
}

/// Starts the agent with its brief in `dir` and waits for its end.
pub async fn run(
    held: &JobContext<'_>,
    member: &AgentConfig,
    role: AgentRole,
    brief: &str,
    dir: &Path,
    limit_secs: u64,
) -> Result<AgentRun, JobError> {
    let start = AgentStart {
        role,
        brief,
        dir,
        limit_secs,
        question: ReviewQuestion::Work,
        resumed: None,
    };
    begin(held, member, &start, None).await
}

/// The same for any question. `whole` is the brief for an agent that turns out to have forgotten.
pub async fn begin(
    held: &JobContext<'_>,
    member: &AgentConfig,
    start: &AgentStart<'_>,
    whole: Option<&str>,
) -> Result<AgentRun, JobError> {
    let role = start.role;
    held.must_be_ours().await?;
    end_earlier_holders(held).await?;
    let own = held.dir();
    private::make_dir(&own)?;
    let mut assignment = assignment(held, member, start, &own)?;
    let (shop, adapter) = (held.shop, member.adapter.as_ref());
    if role == AgentRole::Build {
        // Its home is empty: without this git would not let it commit.
        assignment.env.extend(signs_as(&member.name));
    }
    assignment.confinement = room::of_agent(shop, role, &assignment, adapter, &own).await?;
    if assignment.confinement.is_none() {
        room::link_credentials(adapter, &assignment.home)?;
    }
    let report = up_to_twice(held, member, &mut assignment, whole).await;
    let mut left = vec![assignment.home.clone(), assignment.scratch.clone()];
    if role == AgentRole::Build {
        // A judge's checkout is compared with how it was, modes included.
        left.extend([own.clone(), assignment.dir.clone()]);
    }
    // What it left may deny even us to read and to remove it.
    let opened =
        tokio::task::spawn_blocking(move || left.iter().for_each(|dir| make_readable(dir)));
    opened.await.map_err(JobError::transient)?;
    if assignment.confinement.is_some() {
        room::clear_git_layer(&own)?;
        room::remove_credentials(adapter, &assignment.home)?;
    }
    let report = report?;
    let usage = usage_of(&report);
    if let ProcessExit::DiskLimit { .. } = report.exit {
        throw_away(held, &assignment)?;
    }
    if let Some(trouble) = trouble_of(held, member, &report) {
        return Err(JobError { usage, ..trouble });
    }
    let artefacts = vec![artefact(
        held,
        "transcript",
        &member.name,
        &assignment.transcript,
    )];
    if start.question == ReviewQuestion::Form {
        append(&assignment.transcript, &own.join(runs::TRANSCRIPT))?;
    }
    let session = report.session.filter(|_| adapter.resumes());
    let (result, beside) = match (report.result, report.beside) {
        // Output around a JSON result is a part of a review: its form must stand alone.
        (Some((_, ResultSource::Json)), Some(whole)) if role == AgentRole::Review => {
            (Some(whole), None)
        }
        (result, beside) => (result.map(|(text, _)| text), beside),
    };
    Ok(AgentRun {
        result,
        beside,
        first: None,
        usage,
        session: session.map(|session| session.written()),
        artefacts,
        head: None,
        unstorable: Vec::new(),
        tampered: None,
        isolation: report.proof.map(|proof| {
            let unknown = room::unknown_hosts(shop, role, adapter);
            format!("{}{unknown}", proof.describe())
        }),
    })
}

/// One transcript for both answers of a reviewer that was asked twice.
fn append(from: &Path, to: &Path) -> Result<(), JobError> {
    let mut to = fs::OpenOptions::new().append(true).create(true).open(to)?;
    io::copy(&mut fs::File::open(from)?, &mut to)?;
    Ok(fs::remove_file(from)?)
}

/// Starts it again without its session, where it could not go on in that.
async fn up_to_twice(
    held: &JobContext<'_>,
    member: &AgentConfig,
    assignment: &mut AgentAssignment,
    whole: Option<&str>,
) -> Result<AgentReport, JobError> {
    let report = once(held, member, assignment).await?;
    if assignment.session.is_some() && could_not_go_on(&report) {
        // The brief says everything that the session would have known.
        assignment.session = None;
        if let Some(whole) = whole {
            whole.clone_into(&mut assignment.brief);
        }
        return once(held, member, assignment).await;
    }
    Ok(report)
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

/// One start of the agent, with a pass for as long as it runs.
async fn once(
    held: &JobContext<'_>,
    member: &AgentConfig,
    assignment: &AgentAssignment,
) -> Result<AgentReport, JobError> {
    let pass = pass::issue(held, member, assignment).await?;
    let mut assignment = assignment.clone();
    assignment
        .env
        .extend(pass.iter().flat_map(pass::RunTokenGuard::environment));
    assignment.tools = pass.as_ref().map(pass::RunTokenGuard::tools);
    if let (Some(tools), Some(confinement)) = (&assignment.tools, &mut assignment.confinement) {
        for host in hosts::in_text(&tools.url) {
            confinement.network.admit(host);
        }
    }
    let token = pass.as_ref().map(|pass| pass.id().to_owned());
    let report = recorded(held, member, &assignment, token).await;
    if let (Some(pass), Ok(report)) = (&pass, &report) {
        pass::tell_if_unconnected(held, pass, report).await;
    }
    pass::withdraw(held, pass).await;
    report
}

/// The run is on record before and after.
async fn recorded(
    held: &JobContext<'_>,
    member: &AgentConfig,
    assignment: &AgentAssignment,
    token: Option<String>,
) -> Result<AgentReport, JobError> {
    let (own, adapter) = (held.dir(), member.adapter.as_ref());
    let mut noted = runs::RunRecord {
        role: assignment.role.as_str().to_owned(),
        round: assignment.round,
        agent: member.name.clone(),
        format: adapter.format().to_owned(),
        started: (held.shop.clock)(),
        budget: held.left(),
        token,
        ended: None,
    };
    let before = runs::read(&own).filter(|_| assignment.facts.question == ReviewQuestion::Form);
    if let Some(before) = &before {
        noted.started = before.started;
    }
    let before = before.and_then(|run| run.ended);
    let (wall_ms, used) = before
        .map(|ended| (ended.wall_ms, ended.usage))
        .unwrap_or_default();
    runs::write(&own, &noted)?;
    let report = watched(held, member, assignment).await?;
    noted.ended = Some(runs::RunEnd {
        how: report.exit.to_string(),
        wall_ms: wall_ms.saturating_add(millis(report.wall)),
        model: report.model.clone(),
        session: report.session.as_ref().map(|session| session.id.clone()),
        turns: report.turns,
        denials: report.denials,
        usage: used.plus(report.usage),
    });
    runs::write(&own, &noted)?;
    tell_refused(held, &member.name, &report.refused_hosts).await;
    Ok(report)
}

/// How much is recorded of the hosts that a run wanted.
const REFUSED_CHARS_MAX: usize = 1000;

/// Hosts that a run wanted and may not reach are on record once.
async fn tell_refused(held: &JobContext<'_>, who: &str, refused: &[RefusedHost]) {
    if refused.is_empty() {
        return;
    }
    let hosts: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let hosts = findings::shorten(&hosts.join(", "), REFUSED_CHARS_MAX);
    let noted = Noted {
        at: (held.shop.clock)(),
        ticket: Some(held.ticket.id.clone()),
        name: "network_refused".to_owned(),
        by: held.shop.house().agent,
        body: json!({"agent": who, "job": held.lease.serial, "try": held.lease.fence, "hosts": hosts}),
    };
    held.note(noted).await;
}

/// The agent to its end, or to the end of what it may spend; seen by whoever watches.
async fn watched(
    held: &JobContext<'_>,
    member: &AgentConfig,
    assignment: &AgentAssignment,
) -> Result<AgentReport, JobError> {
    let mut observer = held.observer(assignment.role.as_str(), &member.name);
    observer.began();
    let adapter = member.adapter.as_ref();
    let mut purse = BudgetGuard::new(held.left(), adapter, assignment);
    let ((stopper, stop), mut asked) = (StopSignal::pair(), held.stop.clone());
    let emptied = Notify::new();
    let on_event = |event: &AgentEvent| {
        observer.see(event);
        if purse.is_emptied_by(observer.usage()) {
            emptied.notify_one();
        }
    };
    // Some tell what they spent when they are all but done.
    let overspent = async {
        emptied.notified().await;
        tokio::time::sleep(assignment.limits.exit_grace).await;
    };
    let ran = {
        let running = agent::run(&held.shop.host, adapter, assignment, on_event, stop);
        tokio::pin!(running);
        tokio::select! {
            ran = &mut running => ran,
            () = asked.asked() => {
                stopper.stop();
                running.await
            }
            () = overspent => {
                stopper.stop();
                running.await
            }
        }
    };
    match ran {
        Ok(report) => {
            let report = purse.judge(report);
            observer.ended(&report.exit.to_string(), report.usage);
            Ok(report)
        }
        Err(error) => {
            observer.ended(&error.to_string(), agent::AgentUsage::default());
            Err(trouble(error))
        }
    }
}

fn usage_of(report: &AgentReport) -> Usage {
    spent(report.usage, report.wall)
}

/// As budgets count.
pub fn spent(told: agent::AgentUsage, wall: Duration) -> Usage {
    let tokens = told.tokens_in.unwrap_or_default();
    Usage {
        usd_micros: told.usd_micros.unwrap_or_default(),
        tokens: tokens.saturating_add(told.tokens_out.unwrap_or_default()),
        wall_ms: millis(wall),
    }
}

/// What a run left that was ended for the room it took. Kept under a ref it would take that room
/// for good.
fn throw_away(held: &JobContext<'_>, assignment: &AgentAssignment) -> Result<(), JobError> {
    let mut dirs = vec![&assignment.home, &assignment.scratch];
    let layer = held.dir().join("git");
    dirs.push(&layer);
    if assignment.role == AgentRole::Build {
        dirs.push(&assignment.dir);
        // Set up again, in the worktree that the next try gets.
        let path = held.shop.files(&held.ticket.id).set_up();
        removed(&path, fs::remove_file(&path));
    }
    for dir in dirs {
        remove_tree(dir)?;
    }
    Ok(())
}

/// Whoever held this job before us has lost it; what it started must not go on in our worktree.
async fn end_earlier_holders(held: &JobContext<'_>) -> Result<(), JobError> {
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
        .map_err(JobError::transient)?;
    Ok(())
}

/// Finds again the credentials that agents of this crew get in their environment.
pub fn lent(held: &JobContext<'_>) -> Result<Redactor, JobError> {
    let (crew, own) = (&held.shop.crew, held.dir());
    let usual = [&crew.builder, &crew.reviewer, &crew.verifier];
    let others = crew.others.iter().map(|(_, member)| member);
    let mut env = Vec::new();
    for member in usual.into_iter().flatten().chain(others) {
        let start = AgentStart {
            role: AgentRole::Build,
            brief: "",
            dir: &own,
            limit_secs: 0,
            question: ReviewQuestion::Work,
            resumed: None,
        };
        let assignment = assignment(held, member, &start, &own)?;
        env.extend(member.adapter.invocation(&assignment).env);
    }
    Ok(Redactor::of_environment(&env))
}

fn assignment(
    held: &JobContext<'_>,
    member: &AgentConfig,
    start: &AgentStart<'_>,
    own: &Path,
) -> Result<AgentAssignment, JobError> {
    let (ticket, lease, limits) = (held.ticket, held.lease, &held.shop.project.policy.limits);
    let put = ticket.submission.as_ref();
    let (role, dir, limit_secs) = (start.role, start.dir, start.limit_secs);
    let left = held.left();
    let (session, home) = match &start.resumed {
        Some(resumed) => (Some(resumed.session.clone()), resumed.home.clone()),
        None => (session(held, member, role), home(held, member, role)),
    };
    let transcript = match start.question {
        ReviewQuestion::Form => "transcript-form.log",
        ReviewQuestion::Work | ReviewQuestion::Countersign => runs::TRANSCRIPT,
    };
    Ok(AgentAssignment {
        run_id: RunId::new(&format!("{}.{}.{}", ticket.id, lease.serial, lease.fence))
            .map_err(JobError::permanent)?,
        role,
        ticket: ticket.id.to_string(),
        round: ticket.round,
        slot: 1,
        brief: start.brief.to_owned(),
        dir: dir.to_owned(),
        change: (role != AgentRole::Build).then(|| dir.join(CHANGE)),
        scratch: own.join("scratch"),
        copy: Some(own.join("scratch/copy/checkout")).filter(|copy| copy.is_dir()),
        result_file: own.join("answer/result.json"),
        transcript: own.join(transcript),
        env: held.shop.environment(),
        facts: RepositoryFacts {
            commit: put.map(|put| put.commit.clone()),
            base: put.map(|put| put.base.clone()),
            branch: put.map(|put| put.branch.clone()),
            question: start.question,
        },
        limits: ProcessLimits {
            wall: secs(limit_secs.min(left.wall_secs.unwrap_or(u64::MAX))),
            idle: secs(limits.idle_secs),
            output_bytes: limits.output_bytes_max,
            ..ProcessLimits::default()
        },
        allotment: Some(held.allotment(vec![dir.to_owned(), home.clone(), own.to_owned()])),
        home,
        model: member.model.clone(),
        usd_micros_max: left.usd_micros,
        session,
        tools: None,
        confinement: None,
    })
}

/// One that goes on in its own session finds it in its home.
pub fn home(held: &JobContext<'_>, member: &AgentConfig, role: AgentRole) -> PathBuf {
    if role == AgentRole::Build && member.adapter.resumes() {
        let files = held.shop.files(&held.ticket.id);
        files.home(member.adapter.format())
    } else {
        held.dir().join("home")
    }
}

/// A builder goes on where it was; whoever judges begins with a fresh mind. A try that was cut
/// short has moved the session on while the worktree was put back, so the next one begins anew.
fn session(
    held: &JobContext<'_>,
    member: &AgentConfig,
    role: AgentRole,
) -> Option<agent::ResumableSession> {
    let mut runs = runs_of(held.shop, &held.ticket.id, held.lease);
    let first_try = runs.all(|(fence, _)| fence == held.lease.fence);
    if role != AgentRole::Build || !member.adapter.resumes() || !first_try {
        return None;
    }
    let written = held.ticket.assigned.session.as_deref()?;
    agent::ResumableSession::read(written, member.adapter.format())
}

/// A file of this job, as the store refers to it.
pub fn artefact(held: &JobContext<'_>, kind: &str, name: &str, path: &Path) -> Artefact {
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
