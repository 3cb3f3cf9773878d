//! Runs one ticket from its current stage until it rests: done, failed, or waiting for a person.

use std::path::Path;
use std::sync::Arc;

use engine::caches::ProjectSetup;
use engine::git::Repository;
use engine::process::{StopSignal, adopt_orphans, end_orphaned_runs};
use engine::project::{Project, ProjectConfig};
use engine::worker::{self, Shutdown, WorkerConfig};
use flow::brief::ProjectRules;
use flow::{Ticket, TicketId};

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
    for copy in 2..100 {
        let Some(stored) = app.coordinator.store.ticket(&id).await? else {
            break;
        };
        let has_ended = stored.ticket.stage.is_terminal();
        if !has_ended || has_own_id {
            require_same_repository(&project.git, &stored.ticket)?;
            return Ok(StartedRun { id, resumed: true });
        }
        // The same sentence after its ticket has ended asks for a new ticket.
        id = parse_ticket_id(&format!("{}-{copy}", id_for(&request.spec.title)))?;
    }
    let mut spec = request.spec;
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
    let here = git.common_dir();
    match &ticket.spec.context.repository {
        Some(there) if Path::new(there) != here => Err(Failure::usage(format!(
            "{} belongs to the repository {there}",
            ticket.id
        ))
        .hint("run it from there, or give your ticket another id")),
        Some(_) | None => Ok(()),
    }
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
        rules: ProjectRules::default(),
        checks: Vec::new(),
        setup: ProjectSetup::default(),
    };
    let id = &stored.ticket.id;
    Ok(engine::jobs::resubmit(&app.coordinator, &git, &project, id, app.person()).await?)
}

/// Adopts orphaned processes from now on, and ends those that an earlier run left behind.
pub async fn take_over_orphans(project: &Project) -> Result<(), Failure> {
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

/// Works until the ticket rests or the run is stopped. Processes that an earlier run left behind
/// are ended first.
pub async fn run_until_idle(
    project: &Arc<Project>,
    id: &TicketId,
    stop: StopSignal,
) -> Result<Ticket, Failure> {
    take_over_orphans(project).await?;
    Ok(run_ticket(project, id, stop).await?)
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
