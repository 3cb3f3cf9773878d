//! Runs one ticket from its current stage until it rests: done, failed, or waiting for a person.
//!
//! `run` may be killed at any moment and started again with the same words. So the words have to
//! find the same ticket again.

use std::path::Path;
use std::sync::Arc;

use engine::caches::ProjectSetup;
use engine::git::Repository;
use engine::process::{StopSignal, adopt_orphans, end_orphaned_runs};
use engine::project::{Project, ProjectConfig};
use engine::worker::{self, Shutdown, WorkerConfig};
use flow::brief::ProjectRules;
use flow::landing::LandingConfig;
use flow::prices::PriceTable;
use flow::{Ticket, TicketId, Time};
use store::{JobQuery, JobState, Page};

use super::project::open_repository;
use super::{App, parse_ticket_id};
use crate::failure::Failure;
use crate::settings::ticket_file::{TicketRequest, id_for};

/// Ticket that a run works on.
#[derive(Debug)]
pub struct StartedRun {
    pub id: TicketId,
    /// True if the ticket existed and the run continues it.
    pub resumed: bool,
}

/// Finds the ticket that the argument names, or adds a new one.
pub async fn find_or_add(
    app: &App,
    project: &Project,
    words: &str,
    build_request: impl FnOnce() -> Result<TicketRequest, Failure>,
) -> Result<StartedRun, Failure> {
    // An existing id goes first: the argument may also be a sentence or a file.
    if let Ok(id) = parse_ticket_id(words)
        && let Some(stored) = app.coordinator.store.ticket(&id).await?
    {
        require_same_repository(&project.git, &stored.ticket)?;
        return Ok(StartedRun { id, resumed: true });
    }
    let request = build_request()?;
    let has_own_id = request.id.is_some();
    let mut id = request
        .id
        .clone()
        .unwrap_or_else(|| id_for(&request.spec.title));
    // A bound on the search; nobody has the same sentence a hundred times.
    for copy in 2..100 {
        let Some(stored) = app.coordinator.store.ticket(&id).await? else {
            break;
        };
        let has_ended = stored.ticket.stage.is_terminal();
        let is_elsewhere = !is_of_repository(&project.git, &stored.ticket);
        // An open ticket is continued. A ticket with an id of its own is continued in any state, so
        // that its end is shown.
        if has_own_id || !(has_ended || is_elsewhere) {
            require_same_repository(&project.git, &stored.ticket)?;
            return Ok(StartedRun { id, resumed: true });
        }
        // The same sentence asks for a new ticket, after its ticket has ended and in another
        // repository.
        id = parse_ticket_id(&format!("{}-{copy}", id_for(&request.spec.title)))?;
    }
    let mut spec = request.spec;
    // The common directory is the same for all worktrees of a repository.
    spec.context.repository = Some(project.git.common_dir().to_string_lossy().into_owned());
    spec.context
        .base_branch
        .get_or_insert_with(|| project.config.base_branch.clone());
    let policy = &project.config.policy;
    match app
        .coordinator
        .open(&id, spec, policy, (app.person(), None))
        .await
    {
        Ok(_) => Ok(StartedRun { id, resumed: false }),
        // Another process added the same ticket at this moment; both work on it.
        Err(engine::coordinator::Error::Store(store::Error::Exists(_))) => {
            require_same_repository(&project.git, &app.coordinator.ticket(&id).await?.ticket)?;
            Ok(StartedRun { id, resumed: true })
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses a ticket of another repository.
fn require_same_repository(git: &Repository, ticket: &Ticket) -> Result<(), Failure> {
    if is_of_repository(git, ticket) {
        return Ok(());
    }
    // Its commits are not here, and a worktree would be made in the wrong repository.
    let there = ticket.spec.context.repository.as_deref();
    Err(Failure::usage(format!(
        "{} belongs to the repository {}",
        ticket.id,
        there.unwrap_or_default()
    ))
    .hint("run it from there, or give your ticket another id"))
}

/// Whether the ticket belongs to this repository, or to none yet.
fn is_of_repository(git: &Repository, ticket: &Ticket) -> bool {
    let there = ticket.spec.context.repository.as_deref();
    there.is_none_or(|there| Path::new(there) == git.common_dir())
}

/// Submits the ticket's branch in the person's name.
pub async fn resubmit(app: &App, directory: &Path, id: &str) -> Result<Ticket, Failure> {
    let stored = app.ticket(id).await?;
    let git = open_repository(&app.environment, directory).await?;
    require_same_repository(&git, &stored.ticket)?;
    let base_branch = match &stored.ticket.spec.context.base_branch {
        Some(base) => base.clone(),
        None => git.default_base().await.map_err(Failure::usage)?,
    };
    let policy = app.coordinator.policy_of(&stored).await?;
    let project = ProjectConfig {
        base_branch,
        policy,
        // Submitting needs the base and the policy only. Checks and rules are read when the job
        // runs.
        landing: LandingConfig::default(),
        prices: PriceTable::default(),
        person: None,
        rules: ProjectRules::default(),
        checks: Vec::new(),
        setup: ProjectSetup::default(),
        keep_working_files: false,
    };
    let id = &stored.ticket.id;
    Ok(engine::jobs::resubmit(&app.coordinator, &git, &project, id, app.person()).await?)
}

/// A job of the ticket that another process works on.
#[derive(Clone, Debug)]
pub struct BusyTicket {
    /// Work, such as `build`.
    pub task: String,
    /// Agent that works, if it is known.
    pub agent: Option<String>,
    /// Worker that has the lease: machine and process.
    pub worker: String,
    /// End of its lease, unless it renews it.
    pub lease_until: Option<Time>,
    /// Time of the last event of the ticket: usually the claim.
    pub since: Time,
}

/// Returns the job that another process holds, if there is one.
pub async fn find_busy(app: &App, id: &TicketId) -> Result<Option<BusyTicket>, Failure> {
    let query = JobQuery {
        state: Some(JobState::Leased),
        ticket: Some(id.clone()),
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: 1,
    };
    let jobs = app.coordinator.store.jobs(&query, &page).await?;
    let Some(job) = jobs.items.into_iter().next() else {
        return Ok(None);
    };
    // A lease that ran out belongs to a process that died; this run takes the job over.
    if job.lease_until.is_some_and(|until| until <= app.now()) {
        return Ok(None);
    }
    let ticket = app.coordinator.ticket(id).await?.ticket;
    let open = ticket
        .jobs
        .iter()
        .find(|open| Some(open.serial) == job.serial);
    Ok(Some(BusyTicket {
        task: open.map_or("work", |open| open.task.word()).to_owned(),
        agent: open.and_then(|open| open.holder.clone()),
        worker: job.holder.unwrap_or_default(),
        lease_until: job.lease_until,
        since: ticket.updated_at,
    }))
}

/// Adopts orphaned processes from now on, and ends those that an earlier run left behind.
pub async fn take_over_orphans(project: &Project) -> Result<(), Failure> {
    // Adopt first: an orphan that appears in between is ours then.
    adopt_orphans().map_err(|error| {
        Failure::error(format!(
            "cannot become the parent of orphaned processes: {error}"
        ))
    })?;
    end_orphaned_runs(&project.host.data_dir)
        .await
        .map_err(Failure::error)?;
    Ok(())
}

/// Runs a worker for one ticket until the ticket rests.
pub async fn run_ticket(
    project: &Arc<Project>,
    id: &TicketId,
    stop: StopSignal,
) -> Result<Ticket, engine::coordinator::Error> {
    let config = WorkerConfig::for_ticket(id, project);
    let coordinator = Arc::clone(&project.coordinator);
    let work = worker::run(coordinator, project, &config, Shutdown::now(stop));
    let ticket = Box::pin(work).await?;
    ticket.ok_or_else(|| engine::coordinator::Error::NoSuchTicket(id.clone()))
}
