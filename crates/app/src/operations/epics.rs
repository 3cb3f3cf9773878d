//! Epics: their tickets are added once, run in parallel, and a person signs the whole at the end.

use std::path::Path;
use std::sync::Arc;

use engine::process::StopSignal;
use engine::project::Project;
use flow::epic::{EpicSignoff, EpicStatus, EpicSummary, epic_status, summarize};
use flow::ticket::Spec;
use flow::{Policy, Stage, Ticket, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Epic, Page, TicketQuery};
use tokio::task::JoinSet;

use super::tickets::{AddedTicket, add};
use super::{App, change_reports, project, retry_while_unavailable, run};
use crate::failure::Failure;
use crate::settings::epic_file::EpicFile;
use crate::settings::ticket_file::TicketRequest;

/// Maximum number of tickets of an epic that are read.
const TICKETS_MAX: u32 = 1000;
/// Poll interval while another process updates dependent tickets. If that process is dead, its
/// lease blocks the updates for at most 10 s.
const UPDATE_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

/// Stored data of an epic, apart from its tickets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct EpicBody {
    no_gate: bool,
    signed: Option<EpicSignature>,
    /// The imported file with all its fields, known or not.
    raw: Value,
}

/// A person's signature under an epic.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EpicSignature {
    pub by: String,
    pub at: Time,
    pub why: String,
}

/// An epic with its status.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EpicReport {
    pub id: String,
    pub title: String,
    pub signed: Option<EpicSignature>,
    #[serde(flatten)]
    pub status: EpicStatus,
    pub completion: EpicSummary,
}

/// Tickets of imported epics: those that were added, and those that were there before.
#[derive(Debug, Default)]
pub struct EpicAdditions {
    pub added: Vec<AddedTicket>,
    pub existing: Vec<TicketId>,
}

/// Stores an epic, and those of its tickets that do not exist yet.
pub async fn add_epic(
    app: &App,
    file: &EpicFile,
    repository: Option<&Project>,
    policy: &Policy,
) -> Result<Vec<AddedTicket>, Failure> {
    let (mut new, _) = missing_tickets(app, std::slice::from_ref(file)).await?;
    if let Some(project) = repository {
        for request in &mut new {
            let context = &mut request.spec.context;
            context.repository = Some(project.git.common_dir().to_string_lossy().into_owned());
            context
                .base_branch
                .get_or_insert_with(|| project.config.base_branch.clone());
        }
    }
    let added = add(app, new, policy).await?;
    save_epic_files(app, std::slice::from_ref(file)).await?;
    Ok(added)
}

/// Stores several imported epics at once, and those of their tickets that do not exist yet. The
/// tickets may depend on each other across the epics. They belong to the repository of the
/// directory.
pub async fn add_imported(
    app: &App,
    files: &[EpicFile],
    directory: &Path,
) -> Result<EpicAdditions, Failure> {
    let (mut new, existing) = missing_tickets(app, files).await?;
    let policy = project::assign_current_repository(app, directory, &mut new).await?;
    let added = add(app, new, &policy).await?;
    save_epic_files(app, files).await?;
    Ok(EpicAdditions { added, existing })
}

/// Splits the tickets into new ones and the ids of those that exist.
async fn missing_tickets(
    app: &App,
    files: &[EpicFile],
) -> Result<(Vec<TicketRequest>, Vec<TicketId>), Failure> {
    let (mut new, mut existing) = (Vec::new(), Vec::new());
    for file in files {
        for (id, spec) in &file.tickets {
            if let Some(stored) = app.coordinator.store.ticket(id).await? {
                refuse_other_ticket(&stored.ticket, file, spec)?;
                existing.push(id.clone());
                continue;
            }
            new.push(TicketRequest {
                id: Some(id.clone()),
                spec: spec.clone(),
            });
        }
    }
    Ok((new, existing))
}

async fn save_epic_files(app: &App, files: &[EpicFile]) -> Result<(), Failure> {
    for file in files {
        if !file.id.is_empty() && !file.title.is_empty() {
            save_epic_file(app, file).await?;
        }
    }
    Ok(())
}

/// Refuses an existing ticket that is not the file's: one of another epic, or, without an epic, one
/// with another title.
fn refuse_other_ticket(stored: &Ticket, file: &EpicFile, spec: &Spec) -> Result<(), Failure> {
    let id = &stored.id;
    if file.id.is_empty() {
        let title = findings::one_line(&spec.title);
        if stored.spec.context.epic.is_none() && stored.spec.title == title {
            return Ok(());
        }
        return Err(Failure::usage(format!(
            "a ticket {id} exists, and it is another one: {}",
            stored.spec.title
        ))
        .hint("give the ticket in the file another id"));
    }
    if stored.spec.context.epic.as_deref() != Some(&file.id) {
        return Err(Failure::usage(format!(
            "a ticket {id} exists and does not belong to this epic"
        ))
        .hint("give the epic's ticket another id"));
    }
    Ok(())
}

async fn save_epic_file(app: &App, file: &EpicFile) -> Result<(), Failure> {
    let stored = find(app, &file.id).await?;
    let body = EpicBody {
        no_gate: file.no_gate,
        signed: stored.and_then(|epic| body(&epic).signed),
        raw: file.raw.clone(),
    };
    save_epic(app, &file.id, &file.title, &body).await
}

async fn save_epic(app: &App, id: &str, title: &str, body: &EpicBody) -> Result<(), Failure> {
    let mut body = serde_json::to_value(body).map_err(Failure::error)?;
    findings::clean_json(&mut body);
    let epic = Epic {
        id: findings::clean_name(id),
        title: findings::one_line(title),
        body,
        updated_at: (app.coordinator.clock)(),
    };
    Ok(app.coordinator.store.put_epic(epic).await?)
}

fn body(epic: &Epic) -> EpicBody {
    serde_json::from_value(epic.body.clone()).unwrap_or_default()
}

async fn find(app: &App, id: &str) -> Result<Option<Epic>, Failure> {
    let epics = app.coordinator.store.epics().await?;
    Ok(epics.into_iter().find(|epic| epic.id == id))
}

async fn require_epic(app: &App, id: &str) -> Result<Epic, Failure> {
    find(app, id).await?.ok_or_else(|| {
        Failure::not_found(format!("there is no epic {id:?}"))
            .hint("`countersign epic list` shows all epics")
    })
}

async fn tickets_of(app: &App, id: &str) -> Result<Vec<Ticket>, Failure> {
    let query = TicketQuery {
        epic: Some(id.to_owned()),
        ..TicketQuery::default()
    };
    let page = Page {
        after: None,
        most: TICKETS_MAX,
    };
    let mut tickets = Vec::new();
    for row in app.coordinator.store.tickets(&query, &page).await?.items {
        tickets.push(app.coordinator.ticket(&row.id).await?.ticket);
    }
    tickets.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(tickets)
}

/// An epic with the file it was read from, for exports.
#[derive(Debug)]
pub struct EpicSource {
    pub id: String,
    pub title: String,
    pub file: Value,
}

/// Loads the file that an epic was read from.
pub async fn load_source(app: &App, id: &str) -> Result<Option<EpicSource>, Failure> {
    let epic = find(app, id).await?;
    Ok(epic.map(|epic| EpicSource {
        file: body(&epic).raw,
        id: epic.id,
        title: epic.title,
    }))
}

/// Loads an epic with all its tickets, for exports.
pub async fn load_whole(app: &App, id: &str) -> Result<(EpicSource, Vec<Ticket>), Failure> {
    let epic = require_epic(app, id).await?;
    let source = EpicSource {
        file: body(&epic).raw,
        id: epic.id,
        title: epic.title,
    };
    Ok((source, tickets_of(app, id).await?))
}

/// Loads an epic with its tickets and computes its status.
pub async fn load_report(app: &App, id: &str) -> Result<EpicReport, Failure> {
    let epic = require_epic(app, id).await?;
    let (body, tickets) = (body(&epic), tickets_of(app, id).await?);
    let gate = match (&body.signed, body.no_gate) {
        (Some(_), _) => EpicSignoff::Signed,
        (None, true) => EpicSignoff::None,
        (None, false) => EpicSignoff::Waiting,
    };
    Ok(EpicReport {
        id: epic.id,
        title: epic.title,
        signed: body.signed,
        status: epic_status(&tickets, gate),
        completion: summarize(&tickets),
    })
}

/// Lists the epic's tickets that have ended.
pub async fn ended_tickets(app: &App, id: &str) -> Result<Vec<TicketId>, Failure> {
    let tickets = tickets_of(app, id).await?;
    let ended = tickets
        .into_iter()
        .filter(|ticket| ticket.stage.is_terminal());
    Ok(ended.map(|ticket| ticket.id).collect())
}

pub async fn list(app: &App) -> Result<Vec<EpicReport>, Failure> {
    let mut reports = Vec::new();
    for epic in app.coordinator.store.epics().await? {
        reports.push(load_report(app, &epic.id).await?);
    }
    Ok(reports)
}

/// Lists the epics whose tickets have all landed and that wait for a signature.
pub async fn list_waiting(app: &App) -> Result<Vec<EpicReport>, Failure> {
    let store = &app.coordinator.store;
    let one = Page {
        after: None,
        most: 1,
    };
    let mut waiting = Vec::new();
    for epic in store.epics().await? {
        let EpicBody {
            no_gate, signed, ..
        } = body(&epic);
        if no_gate || signed.is_some() {
            continue;
        }
        // One row tells that the epic goes on, so that its tickets need not be read.
        let open = TicketQuery {
            epic: Some(epic.id.clone()),
            stages: Stage::ALL
                .into_iter()
                .filter(|stage| *stage != Stage::Done)
                .collect(),
            ..TicketQuery::default()
        };
        if store.tickets(&open, &one).await?.items.is_empty() {
            let report = load_report(app, &epic.id).await?;
            waiting.extend((report.status == EpicStatus::AtTheGate).then_some(report));
        }
    }
    Ok(waiting)
}

/// Records a person's signature under the epic. Refused unless all its tickets have landed.
pub async fn accept(app: &App, id: &str, why: &str) -> Result<EpicReport, Failure> {
    let epic = require_epic(app, id).await?;
    let before = load_report(app, id).await?;
    if before.status != EpicStatus::AtTheGate {
        return Err(Failure::new(
            crate::failure::ExitKind::Refused,
            format!(
                "{id} cannot be signed: not all of its tickets have landed, or it is already signed"
            ),
        )
        .hint(format!("see its state: countersign epic show {id}")));
    }
    let mut body = body(&epic);
    body.signed = Some(EpicSignature {
        by: app.person().agent,
        at: (app.coordinator.clock)(),
        why: why.to_owned(),
    });
    save_epic(app, &epic.id, &epic.title, &body).await?;
    load_report(app, id).await
}

/// Runs up to `jobs` tickets in parallel until nothing can continue without a person.
pub async fn run_epic(
    app: &App,
    project: &Arc<Project>,
    id: &str,
    jobs: usize,
    stop: StopSignal,
) -> Result<EpicReport, Failure> {
    run::take_over_orphans(project).await?;
    let mut running: JoinSet<(TicketId, Result<Ticket, Failure>)> = JoinSet::new();
    let mut at_work: Vec<TicketId> = Vec::new();
    let (stopper, halt) = StopSignal::pair();
    let mut stop_request = stop;
    let mut stopping = false;
    loop {
        // A ticket that has ended may let others start.
        let report = retry_while_unavailable(app, || async {
            let updates_pending = app.notify_dependents().await?;
            Ok((updates_pending, load_report(app, id).await?))
        });
        let (updates_pending, report) = tokio::select! {
            report = report => report?,
            () = stop_request.requested(), if !stopping => {
                stopping = true;
                stopper.stop();
                continue;
            }
        };
        match &report.status {
            EpicStatus::Goes { ready } if !stopping => {
                let waiting = ready
                    .iter()
                    .filter(|ticket_id| !at_work.contains(ticket_id));
                let slots = jobs.saturating_sub(at_work.len());
                for ticket_id in waiting.take(slots).cloned().collect::<Vec<_>>() {
                    at_work.push(ticket_id.clone());
                    running.spawn(work_on_ticket(
                        app.clone(),
                        project.clone(),
                        ticket_id,
                        halt.clone(),
                    ));
                }
            }
            EpicStatus::Stopped { .. } => stopper.stop(),
            EpicStatus::Goes { .. }
            | EpicStatus::Waits { .. }
            | EpicStatus::AtTheGate
            | EpicStatus::Complete
            | EpicStatus::Incomplete { .. } => {}
        }
        if running.is_empty() && (stopping || !updates_pending) {
            return Ok(report);
        }
        tokio::select! {
            () = tokio::time::sleep(UPDATE_POLL_INTERVAL), if running.is_empty() => {}
            Some(ended) = running.join_next() => {
                let (ticket_id, ended) = ended
                    .map_err(|error| Failure::error(format!("a worker crashed: {error}")))?;
                at_work.retain(|running_id| *running_id != ticket_id);
                ended?;
            }
            () = stop_request.requested(), if !stopping => {
                stopping = true;
                stopper.stop();
            }
        }
    }
}

async fn work_on_ticket(
    app: App,
    project: Arc<Project>,
    id: TicketId,
    stop: StopSignal,
) -> (TicketId, Result<Ticket, Failure>) {
    let result = change_reports::run_ticket(&app, &project, &id, stop).await;
    (id, result)
}
