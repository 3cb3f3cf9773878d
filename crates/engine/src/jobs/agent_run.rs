//! Runs an agent for a job and records its end. A worker that dies between the end of the agent and
//! the report must not make anyone pay for the same run twice.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flow::Usage;
use flow::event::Lease;
use flow::prices::{PriceTable, TokenCounts};
use serde_json::json;
use store::{Artefact, Noted};
use tokio::sync::Notify;

use super::budget_guard::BudgetGuard;
use super::build::builder_identity;
use super::checkout_site::CheckoutSite;
use super::failure::{could_not_resume, error_of_run, to_job_error};
use super::finished_run::{AgentRun, ENDED_FILE, runs_of};
use super::review::CHANGE_DIR;
use super::{JobContext, JobError, millis, run_sandbox, run_token, secs};
use crate::agent::{
    self, AgentAssignment, AgentEvent, AgentReport, AgentRole, RepositoryFacts, ResultSource,
    ReviewQuestion, registry,
};
use crate::git::{make_readable, remove_tree};
use crate::log::removed;
use crate::private_files;
use crate::process::{ProcessExit, ProcessLimits, RunId, StopSignal, end_runs};
use crate::project::AgentConfig;
use crate::redact::Redactor;
use crate::run_records;
use crate::sandbox::{RefusedHost, hosts};

/// One start of an agent: its brief, directory and time limit.
#[derive(Clone, Debug)]
pub struct AgentStart<'a> {
    pub role: AgentRole,
    pub brief: &'a str,
    pub dir: &'a Path,
    pub limit_secs: u64,
    pub question: ReviewQuestion,
    /// Earlier session to continue.
    pub resumed: Option<ResumedSession>,
    /// Checkout with the caches of the project, if it has any.
    pub site: Option<&'a CheckoutSite>,
}

/// A session that has ended, and its home directory.
#[derive(Clone, Debug)]
pub struct ResumedSession {
    pub session: agent::ResumableSession,
    pub home: PathBuf,
}

/// Returns the newest finished run of an earlier job of this ticket, and its directory.
pub fn last_run_of_job(context: &JobContext<'_>, serial: u32) -> Option<(PathBuf, AgentRun)> {
    let dirs = run_records::numbered_dirs(
        &context
            .project
            .ticket_files(&context.ticket.id)
            .job_dir(serial),
        "run-",
    );
    let ended = dirs.into_iter().filter_map(|(fence, dir)| {
        let text = fs::read(dir.join(ENDED_FILE)).ok()?;
        Some((fence, dir, serde_json::from_slice(&text).ok()?))
    });
    let (_, dir, run) = ended.max_by_key(|(fence, _, _)| *fence)?;
    Some((dir, run))
}

/// Returns the session of a run, if a later run of this agent can continue it.
pub fn resumable_session(
    agent: &AgentConfig,
    run: &AgentRun,
    dir: &Path,
) -> Option<ResumedSession> {
    let (adapter, home) = (agent.adapter.as_ref(), dir.join("home"));
    let stored = run.session.as_deref().filter(|_| adapter.can_resume())?;
    let session = agent::ResumableSession::from_text(stored, adapter.format())?;
    home.is_dir().then_some(ResumedSession { session, home })
}

/// Starts the agent with its brief in `dir` and waits for its end.
pub async fn run_agent(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    role: AgentRole,
    brief: &str,
    (dir, site): (&Path, Option<&CheckoutSite>),
    limit_secs: u64,
) -> Result<AgentRun, JobError> {
    let start = AgentStart {
        role,
        brief,
        dir,
        limit_secs,
        question: ReviewQuestion::Work,
        resumed: None,
        site,
    };
    start_agent(context, agent, &start, None).await
}

/// Starts the agent for any question. `whole` is the brief for one without its session.
pub async fn start_agent(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    start: &AgentStart<'_>,
    whole: Option<&str>,
) -> Result<AgentRun, JobError> {
    let role = start.role;
    context.ensure_lease_held().await?;
    end_earlier_holders(context).await?;
    let own = context.run_dir();
    private_files::make_dir(&own)?;
    let mut assignment = make_assignment(context, agent, start, &own)?;
    let (project, adapter) = (context.project, agent.adapter.as_ref());
    if role == AgentRole::Build {
        // Its home is empty, and git refuses to commit without an identity.
        assignment.env.extend(author_environment(&agent.name));
    }
    assignment.sandbox =
        run_sandbox::sandbox_for_agent(project, role, &assignment, adapter, (&own, start.site))
            .await?;
    if assignment.sandbox.is_none() {
        run_sandbox::link_credentials(adapter, &assignment.home)?;
    }
    let report = run_with_session_retry(context, agent, &mut assignment, whole).await;
    let mut dirs = vec![assignment.home.clone(), assignment.scratch.clone()];
    if role == AgentRole::Build {
        // The checkout of a reviewer is compared before and after, including file modes.
        dirs.extend([own.clone(), assignment.dir.clone()]);
    }
    // Files that the agent left may deny us reading and removal.
    let made_readable =
        tokio::task::spawn_blocking(move || dirs.iter().for_each(|dir| make_readable(dir)));
    made_readable.await.map_err(JobError::transient)?;
    if let Some(site) = start.site {
        site.clear_overlays()?;
    }
    if assignment.sandbox.is_some() {
        run_sandbox::clear_git_overlay(&own)?;
        run_sandbox::remove_credentials(adapter, &assignment.home)?;
    }
    let report = report?;
    let usage = usage_of(context, agent, &report);
    if let ProcessExit::DiskLimit { .. } = report.exit {
        remove_run_dirs(context, &assignment)?;
    }
    if let Some(error) = error_of_run(context, agent, &report) {
        return Err(JobError { usage, ..error });
    }
    let transcript = make_artefact(context, "transcript", &agent.name, &assignment.transcript);
    if start.question == ReviewQuestion::Form {
        append_transcript(
            &assignment.transcript,
            &own.join(run_records::TRANSCRIPT_FILE),
        )?;
    }
    let session = report.session.filter(|_| adapter.can_resume());
    let (result, other_text) = match (report.result, report.other_text) {
        // Output around a JSON result is part of a review: its form must be usable alone.
        (Some((_, ResultSource::Json)), Some(whole)) if role == AgentRole::Review => {
            (Some(whole), None)
        }
        (result, other_text) => (result.map(|(text, _)| text), other_text),
    };
    Ok(AgentRun {
        result,
        other_output: other_text,
        first: None,
        usage,
        session: session.map(|session| session.to_text()),
        artefacts: vec![transcript],
        head: None,
        unstorable: Vec::new(),
        tampered: None,
        sandbox: report.proof.map(|proof| {
            let unknown = run_sandbox::unknown_hosts_note(project, role, adapter);
            format!("{}{unknown}", proof.describe())
        }),
    })
}

/// Appends the transcript of the second answer to that of the first.
fn append_transcript(from: &Path, to: &Path) -> Result<(), JobError> {
    let mut to = fs::OpenOptions::new().append(true).create(true).open(to)?;
    io::copy(&mut fs::File::open(from)?, &mut to)?;
    Ok(fs::remove_file(from)?)
}

/// Runs the agent, and runs it again without its session if it could not continue that.
async fn run_with_session_retry(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    assignment: &mut AgentAssignment,
    whole: Option<&str>,
) -> Result<AgentReport, JobError> {
    let report = run_with_token(context, agent, assignment).await?;
    if assignment.session.is_some() && could_not_resume(&report) {
        // The full brief contains everything that the session would have known.
        assignment.session = None;
        if let Some(whole) = whole {
            whole.clone_into(&mut assignment.brief);
        }
        return run_with_token(context, agent, assignment).await;
    }
    Ok(report)
}

fn author_environment(builder: &str) -> Vec<(OsString, OsString)> {
    let who = builder_identity(builder);
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

/// Runs the agent once, with a run token for the duration of the run.
async fn run_with_token(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    assignment: &AgentAssignment,
) -> Result<AgentReport, JobError> {
    let guard = run_token::issue_token(context, agent, assignment).await?;
    let mut assignment = assignment.clone();
    assignment
        .env
        .extend(guard.iter().flat_map(run_token::RunTokenGuard::environment));
    assignment.mcp_endpoint = guard.as_ref().map(run_token::RunTokenGuard::mcp_endpoint);
    if let (Some(tools), Some(confinement)) = (&assignment.mcp_endpoint, &mut assignment.sandbox) {
        for host in hosts::hosts_in_text(&tools.url) {
            confinement.network.allow_host(host);
        }
    }
    let token = guard.as_ref().map(|guard| guard.id().to_owned());
    let report = run_recorded(context, agent, &assignment, token).await;
    if let (Some(guard), Ok(report)) = (&guard, &report) {
        run_token::record_if_unconnected(context, guard, report).await;
    }
    run_token::revoke_token(context, guard).await;
    report
}

/// Runs the agent and records the run before and after.
async fn run_recorded(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    assignment: &AgentAssignment,
    token: Option<String>,
) -> Result<AgentReport, JobError> {
    let (own, adapter) = (context.run_dir(), agent.adapter.as_ref());
    let mut record = run_records::RunRecord {
        role: assignment.role.as_str().to_owned(),
        round: assignment.round,
        agent: agent.name.clone(),
        format: adapter.format().to_owned(),
        started: (context.project.clock)(),
        budget: context.remaining_budget(),
        token,
        ended: None,
    };
    let before = run_records::read_record(&own)
        .filter(|_| assignment.facts.question == ReviewQuestion::Form);
    if let Some(before) = &before {
        record.started = before.started;
    }
    let before = before.and_then(|run| run.ended);
    let (wall_ms, used) = before
        .map(|ended| (ended.wall_ms, ended.usage))
        .unwrap_or_default();
    run_records::write_record(&own, &record)?;
    let report = run_within_budget(context, agent, assignment).await?;
    record.ended = Some(run_records::RunEnd {
        how: report.exit.to_string(),
        wall_ms: wall_ms.saturating_add(millis(report.wall)),
        model: report.model.clone(),
        session: report.session.as_ref().map(|session| session.id.clone()),
        turns: report.turns,
        denials: report.denials,
        usage: used.plus(report.usage),
    });
    run_records::write_record(&own, &record)?;
    record_refused_hosts(context, &agent.name, &report.refused_hosts).await;
    Ok(report)
}

/// Maximum length of the recorded list of refused hosts.
const REFUSED_CHARS_MAX: usize = 1000;

/// Records the hosts that the sandbox refused to a run.
async fn record_refused_hosts(context: &JobContext<'_>, agent: &str, refused: &[RefusedHost]) {
    if refused.is_empty() {
        return;
    }
    let hosts: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let hosts = findings::shorten(&hosts.join(", "), REFUSED_CHARS_MAX);
    let Lease { serial, fence } = context.lease;
    let noted = Noted {
        at: (context.project.clock)(),
        ticket: Some(context.ticket.id.clone()),
        name: "network_refused".to_owned(),
        by: context.project.system_actor().agent,
        body: json!({"agent": agent, "job": serial, "try": fence, "hosts": hosts}),
    };
    context.note(noted).await;
}

/// Runs the agent until it ends or its budget is spent, and reports its progress.
async fn run_within_budget(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    assignment: &AgentAssignment,
) -> Result<AgentReport, JobError> {
    let mut observer = context.observer(assignment.role.as_str(), &agent.name);
    observer.report_start();
    let adapter = agent.adapter.as_ref();
    let pricing = Pricing {
        table: &context.project.config.prices,
        model: agent.model.as_deref(),
        is_paid: false,
    };
    let left = context.remaining_budget();
    let mut budget = BudgetGuard::new(left, pricing, adapter, assignment);
    let ((stopper, stop), mut job_stop) = (StopSignal::pair(), context.stop.clone());
    let over_budget = Notify::new();
    let on_event = |event: &AgentEvent| {
        observer.on_event(event);
        if budget.is_exceeded_by(observer.usage()) {
            over_budget.notify_one();
        }
    };
    // Some agents report their spending just before they finish, so give them time to do that.
    let overspent = async {
        over_budget.notified().await;
        tokio::time::sleep(assignment.limits.exit_grace).await;
    };
    let result = {
        let running = agent::run_agent(&context.project.host, adapter, assignment, on_event, stop);
        tokio::pin!(running);
        tokio::select! {
            result = &mut running => result,
            () = job_stop.requested() => {
                stopper.stop();
                running.await
            }
            () = overspent => {
                stopper.stop();
                running.await
            }
        }
    };
    match result {
        Ok(report) => {
            let report = budget.apply_to_report(report);
            observer.report_end(&report.exit.to_string(), report.usage);
            Ok(report)
        }
        Err(error) => {
            observer.report_end(&error.to_string(), agent::AgentUsage::default());
            Err(to_job_error(error))
        }
    }
}

fn usage_of(context: &JobContext<'_>, agent: &AgentConfig, report: &AgentReport) -> Usage {
    let model = report.model.as_deref().or(agent.model.as_deref());
    let pricing = Pricing {
        table: &context.project.config.prices,
        model,
        is_paid: registry::find_cli(agent.adapter.format()).is_some(),
    };
    to_usage(report.usage, report.wall, pricing)
}

/// Facts for the price of a run that reports none.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'a> {
    pub table: &'a PriceTable,
    pub model: Option<&'a str>,
    /// Whether the agent is known to use a paid model. A command of the project may use none.
    pub is_paid: bool,
}

/// Converts the usage of an agent to the units of budgets. A price that the agent does not report is
/// estimated from its tokens; if that is impossible too, the run counts as one without a price.
pub fn to_usage(usage: agent::AgentUsage, wall: Duration, pricing: Pricing<'_>) -> Usage {
    let counts = TokenCounts {
        input: usage.tokens_in.unwrap_or_default(),
        output: usage.tokens_out.unwrap_or_default(),
        cached: usage.tokens_cached.unwrap_or_default(),
    };
    let tokens = counts.input.saturating_add(counts.output);
    let price = pricing.model.and_then(|model| pricing.table.find(model));
    let estimate = price.filter(|_| tokens > 0).map(|price| price.cost(counts));
    let estimate = estimate.filter(|_| usage.usd_micros.is_none());
    let is_unknown = usage.usd_micros.is_none() && estimate.is_none();
    Usage {
        usd_micros: usage.usd_micros.or(estimate).unwrap_or_default(),
        tokens,
        wall_ms: millis(wall),
        estimated_micros: estimate.unwrap_or_default(),
        unpriced_runs: u64::from(is_unknown && (pricing.is_paid || tokens > 0)),
    }
}

/// Removes the files of a run that was stopped for its disk use; a ref would keep them.
fn remove_run_dirs(context: &JobContext<'_>, assignment: &AgentAssignment) -> Result<(), JobError> {
    let mut dirs = vec![&assignment.home, &assignment.scratch];
    let layer = context.run_dir().join("git");
    dirs.push(&layer);
    if assignment.role == AgentRole::Build {
        dirs.push(&assignment.dir);
        // The next attempt gets a new worktree, which needs the setup again.
        let path = context
            .project
            .ticket_files(&context.ticket.id)
            .setup_marker();
        removed(&path, fs::remove_file(&path));
    }
    let caches = context
        .project
        .ticket_files(&context.ticket.id)
        .caches_dir();
    if assignment.role == AgentRole::Build {
        dirs.push(&caches);
    }
    for dir in dirs {
        remove_tree(dir)?;
    }
    Ok(())
}

/// Ends processes of earlier holders of this job, so that none continues in our worktree.
async fn end_earlier_holders(context: &JobContext<'_>) -> Result<(), JobError> {
    let prefix = format!("{}.{}.", context.ticket.id, context.lease.serial);
    let fence = context.lease.fence;
    let earlier = |run: &str| {
        let rest = run
            .strip_prefix(&prefix)
            .and_then(|rest| rest.split('.').next());
        rest.and_then(|token| token.parse::<u64>().ok())
            .is_some_and(|token| token < fence)
    };
    end_runs(&context.project.host.data_dir, earlier)
        .await
        .map_err(JobError::transient)?;
    Ok(())
}

/// Returns a redactor for the credentials that agents of this project get in their environment.
pub fn credentials_redactor(context: &JobContext<'_>) -> Result<Redactor, JobError> {
    let (agents, own) = (&context.project.agents, context.run_dir());
    let defaults = [&agents.builder, &agents.reviewer, &agents.verifier];
    let others = agents.others.iter().map(|(_, agent)| agent);
    let mut env = Vec::new();
    for agent in defaults.into_iter().flatten().chain(others) {
        // Nothing starts: only the adapter knows the names and values of its variables, so we ask
        // it for the environment of a run.
        let start = AgentStart {
            role: AgentRole::Build,
            brief: "",
            dir: &own,
            limit_secs: 0,
            question: ReviewQuestion::Work,
            resumed: None,
            site: None,
        };
        let assignment = make_assignment(context, agent, &start, &own)?;
        env.extend(agent.adapter.invocation(&assignment).env);
    }
    Ok(Redactor::for_environment(&env))
}

fn make_assignment(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    start: &AgentStart<'_>,
    own: &Path,
) -> Result<AgentAssignment, JobError> {
    let limits = &context.project.config.policy.limits;
    let (ticket, lease) = (context.ticket, context.lease);
    let submission = ticket.submission.as_ref();
    let (role, dir, limit_secs) = (start.role, start.dir, start.limit_secs);
    let left = context.remaining_budget();
    let (session, home) = match &start.resumed {
        Some(resumed) => (Some(resumed.session.clone()), resumed.home.clone()),
        None => (
            session_to_resume(context, agent, role),
            home_dir(context, agent, role),
        ),
    };
    let transcript = match start.question {
        ReviewQuestion::Form => "transcript-form.log",
        ReviewQuestion::Work | ReviewQuestion::Countersign => run_records::TRANSCRIPT_FILE,
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
        change: (role != AgentRole::Build).then(|| dir.join(CHANGE_DIR)),
        scratch: own.join("scratch"),
        copy: Some(own.join("scratch/copy/checkout")).filter(|copy| copy.is_dir()),
        result_file: own.join("answer/result.json"),
        transcript: own.join(transcript),
        env: context.project.base_environment(),
        facts: RepositoryFacts {
            commit: submission.map(|submission| submission.commit.clone()),
            base: submission.map(|submission| submission.base.clone()),
            branch: submission.map(|submission| submission.branch.clone()),
            question: start.question,
        },
        limits: ProcessLimits {
            wall: secs(limit_secs.min(left.wall_secs.unwrap_or(u64::MAX))),
            idle: secs(limits.idle_secs),
            output_bytes: limits.output_bytes_max,
            ..ProcessLimits::default()
        },
        disk_quota: {
            let mut dirs = vec![dir.to_owned(), home.clone(), own.to_owned()];
            dirs.extend(start.site.map(CheckoutSite::changes_dir));
            Some(context.disk_quota(dirs))
        },
        home,
        model: agent.model.clone(),
        usd_micros_max: left.usd_micros,
        session,
        mcp_endpoint: None,
        sandbox: None,
    })
}

/// Returns the home of an agent. A builder that continues its session finds it there.
pub fn home_dir(context: &JobContext<'_>, agent: &AgentConfig, role: AgentRole) -> PathBuf {
    if role == AgentRole::Build && agent.adapter.can_resume() {
        let files = context.project.ticket_files(&context.ticket.id);
        files.home_dir(agent.adapter.format())
    } else {
        context.run_dir().join("home")
    }
}

/// Returns the session to continue. Only builders continue one. A run that was cut short has
/// advanced the session while the worktree was reset, so the next attempt starts a new one.
fn session_to_resume(
    context: &JobContext<'_>,
    agent: &AgentConfig,
    role: AgentRole,
) -> Option<agent::ResumableSession> {
    let mut runs = runs_of(context.project, &context.ticket.id, context.lease);
    let first_try = runs.all(|(fence, _)| fence == context.lease.fence);
    if role != AgentRole::Build || !agent.adapter.can_resume() || !first_try {
        return None;
    }
    let stored = context.ticket.assigned.session.as_deref()?;
    agent::ResumableSession::from_text(stored, agent.adapter.format())
}

/// Describes a file of this job as the store refers to it.
pub fn make_artefact(context: &JobContext<'_>, kind: &str, name: &str, path: &Path) -> Artefact {
    Artefact {
        ticket: context.ticket.id.clone(),
        round: context.ticket.round,
        kind: kind.to_owned(),
        name: name.to_owned(),
        path: context
            .project
            .ticket_files(&context.ticket.id)
            .relative_path(path),
        bytes: fs::metadata(path)
            .map(|file| file.len())
            .unwrap_or_default(),
    }
}
