//! Running a ticket from wherever it stands to where it rests.

use std::path::Path;
use std::sync::Arc;

use engine::git::Repository;
use engine::process::{StopSignal, adopt_orphans, sweep};
use engine::supplies::ProjectSetup;
use engine::worker::{self, Shutdown, WorkerConfig};
use engine::workshop::{Project, ProjectConfig};
use flow::brief::ProjectRules;
use flow::{Ticket, TicketId};

use super::project::open;
use super::{App, ticket_id};
use crate::failure::Failure;
use crate::settings::ticket_file::{TicketRequest, id_for};

/// What was found under the words of the command line.
#[derive(Debug)]
pub struct StartedRun {
    pub id: TicketId,
    /// It was there before, and goes on.
    pub resumed: bool,
}

/// The ticket that the words mean: a known one, or a new one.
pub async fn begin(
    office: &App,
    shop: &Project,
    words: &str,
    wanted: impl FnOnce() -> Result<TicketRequest, Failure>,
) -> Result<StartedRun, Failure> {
    if let Ok(id) = ticket_id(words)
        && let Some(stored) = office.desk.store.ticket(&id).await?
    {
        must_be_here(&shop.git, &stored.ticket)?;
        return Ok(StartedRun { id, resumed: true });
    }
    let wanted = wanted()?;
    let named = wanted.id.is_some();
    let mut id = wanted
        .id
        .clone()
        .unwrap_or_else(|| id_for(&wanted.spec.title));
    for copy in 2..100 {
        let Some(stored) = office.desk.store.ticket(&id).await? else {
            break;
        };
        let over = stored.ticket.stage.is_terminal();
        if !over || named {
            must_be_here(&shop.git, &stored.ticket)?;
            return Ok(StartedRun { id, resumed: true });
        }
        // The same sentence again, after it was done, is a new wish.
        id = ticket_id(&format!("{}-{copy}", id_for(&wanted.spec.title)))?;
    }
    let mut spec = wanted.spec;
    spec.context.repository = Some(shop.git.common_dir().to_string_lossy().into_owned());
    spec.context
        .base_branch
        .get_or_insert_with(|| shop.project.base_branch.clone());
    let policy = &shop.project.policy;
    match office
        .desk
        .open(&id, spec, policy, (office.person(), None))
        .await
    {
        Ok(_) => Ok(StartedRun { id, resumed: false }),
        // Somebody began the same in this instant: it is theirs and ours.
        Err(engine::coordinator::Error::Store(store::Error::Exists(_))) => {
            must_be_here(&shop.git, &office.desk.ticket(&id).await?.ticket)?;
            Ok(StartedRun { id, resumed: true })
        }
        Err(error) => Err(error.into()),
    }
}

/// A ticket belongs to the repository it was made in.
fn must_be_here(git: &Repository, ticket: &Ticket) -> Result<(), Failure> {
    let here = git.common_dir();
    match &ticket.spec.context.repository {
        Some(there) if Path::new(there) != here => Err(Failure::usage(format!(
            "{} belongs to the repository {there}",
            ticket.id
        ))
        .hint("go there, or give your ticket another id")),
        Some(_) | None => Ok(()),
    }
}

/// Puts the ticket's branch forward in the person's name.
pub async fn resubmit(office: &App, directory: &Path, id: &str) -> Result<Ticket, Failure> {
    let stored = office.ticket(id).await?;
    let git = open(&office.surroundings, directory).await?;
    must_be_here(&git, &stored.ticket)?;
    let base_branch = match &stored.ticket.spec.context.base_branch {
        Some(base) => base.clone(),
        None => git.default_base().await.map_err(Failure::usage)?,
    };
    let policy = office.desk.policy_of(&stored).await?;
    let project = ProjectConfig {
        base_branch,
        policy,
        house: ProjectRules::default(),
        checks: Vec::new(),
        setup: ProjectSetup::default(),
    };
    let id = &stored.ticket.id;
    Ok(engine::perform::resubmit(&office.desk, &git, &project, id, office.person()).await?)
}

/// Works until the ticket rests or we are stopped. What an earlier Countersign left running is
/// ended first.
pub async fn work(shop: &Arc<Project>, id: &TicketId, stop: StopSignal) -> Result<Ticket, Failure> {
    adopt_orphans()
        .map_err(|error| Failure::error(format!("orphans cannot be adopted: {error}")))?;
    sweep(&shop.host.data_dir).await.map_err(Failure::error)?;
    Ok(see_through(shop, id, stop).await?)
}

/// The worker of one ticket, until that rests.
pub async fn see_through(
    shop: &Arc<Project>,
    id: &TicketId,
    stop: StopSignal,
) -> Result<Ticket, engine::coordinator::Error> {
    let config = WorkerConfig::for_ticket(id, shop);
    let coordinator = Arc::clone(&shop.coordinator);
    let work = worker::run(coordinator, shop, &config, Shutdown::now(stop));
    let rested = Box::pin(work).await?;
    rested.ok_or_else(|| engine::coordinator::Error::NoSuchTicket(id.clone()))
}
