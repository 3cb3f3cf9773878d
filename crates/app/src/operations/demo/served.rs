//! The served demo: a populated store, and tickets that move while a person looks at them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use engine::project::Project;
use flow::TicketId;
use tokio::task::JoinSet;

use super::crowd::{self, CrowdTicket};
use crate::failure::Failure;
use crate::operations::project::{ProjectOptions, load_project};
use crate::operations::{App, run};
use crate::settings::{Environment, ticket_file};

/// Tickets that are worked on at once.
const AT_ONCE: usize = 2;
/// Pause after which decisions of the person are looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Files of one served demo.
#[derive(Clone, Debug)]
pub struct ServedDemo {
    pub repository: PathBuf,
    /// Data directory of the demo, so that it leaves no trace in yours.
    pub data_dir: PathBuf,
    root: PathBuf,
}

/// Creates the served demo in `root`, which must not exist yet.
pub async fn build_served_demo(
    root: &Path,
    environment: &Environment,
) -> Result<ServedDemo, Failure> {
    let repository = super::create_repository(root, environment, crowd::PROJECT).await?;
    for ticket in crowd::TICKETS {
        std::fs::write(script_path(root, &ticket), ticket.script())
            .map_err(|error| Failure::error(format!("{}: {error}", root.display())))?;
    }
    Ok(ServedDemo {
        repository,
        data_dir: root.join("data"),
        root: root.to_owned(),
    })
}

fn script_path(root: &Path, ticket: &CrowdTicket) -> PathBuf {
    root.join(format!("{}.json", ticket.name))
}

/// Adds the tickets and works on them until it is stopped, also after decisions of the person.
pub async fn play_tickets(app: &App, demo: &ServedDemo, stop: StopSignal) -> Result<(), Failure> {
    let mut projects: BTreeMap<TicketId, Arc<Project>> = BTreeMap::new();
    for ticket in crowd::TICKETS {
        let agent = format!("scripted:{}", script_path(&demo.root, &ticket).display());
        let options = ProjectOptions {
            builder: Some(agent.clone()),
            reviewers: vec![agent],
            ..ProjectOptions::default()
        };
        let project = load_project(app, &demo.repository, &options).await?.project;
        let started = run::find_or_add(app, &project, ticket.name, || {
            ticket_file::read("ticket.md", ticket.description().as_bytes())
        });
        projects.insert(started.await?.id, project);
    }
    let first = projects.values().next();
    if let Some(project) = first {
        run::take_over_orphans(project).await?;
    }
    let mut running: JoinSet<TicketId> = JoinSet::new();
    let mut busy: Vec<TicketId> = Vec::new();
    while !stop.is_requested() {
        for (id, project) in &projects {
            if running.len() >= AT_ONCE {
                break;
            }
            let is_waiting = app.ticket(id.as_str()).await?.ticket.stage.is_active();
            if is_waiting && !busy.contains(id) {
                busy.push(id.clone());
                let (project, id, stop) = (Arc::clone(project), id.clone(), stop.clone());
                running.spawn(async move {
                    let ended = run::run_ticket(&project, &id, stop).await;
                    ended.log_err("work on a ticket of the demo");
                    id
                });
            }
        }
        tokio::select! {
            Some(Ok(ended)) = running.join_next() => busy.retain(|id| *id != ended),
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
    while running.join_next().await.is_some() {}
    Ok(())
}
