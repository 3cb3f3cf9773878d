//! Epics: their tickets are added once, worked on side by side, and signed by a person at the end.

use std::sync::Arc;

use engine::process::{StopSignal, adopt_orphans, sweep};
use engine::workshop::Project;
use flow::epic::{EpicSignoff, EpicStatus, EpicSummary, completion, standing};
use flow::{Policy, Ticket, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Epic, Page, TicketQuery};
use tokio::task::JoinSet;

use super::tickets::{AddedTicket, add};
use super::{App, patiently};
use crate::failure::Failure;
use crate::settings::epic_file::EpicFile;
use crate::settings::ticket_file::TicketRequest;

/// How many tickets of an epic are looked at.
const TICKETS_MAX: u32 = 1000;
/// How soon we look again for news that are in another's hands; they are in a dead one's for 10 s at most.
const NEWS_PATIENCE: std::time::Duration = std::time::Duration::from_millis(100);

/// What is kept of an epic beside its tickets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct EpicBody {
    no_gate: bool,
    signed: Option<EpicSignature>,
    /// The file that it came from, unknown fields and all.
    raw: Value,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpicSignature {
    pub by: String,
    pub at: Time,
    pub why: String,
}

/// An epic and how it stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpicReport {
    pub id: String,
    pub title: String,
    pub signed: Option<EpicSignature>,
    #[serde(flatten)]
    pub standing: EpicStatus,
    pub completion: EpicSummary,
}

/// Puts an epic and those of its tickets that are not there yet into the store.
pub async fn enter(
    office: &App,
    file: &EpicFile,
    repository: Option<&Project>,
    policy: &Policy,
) -> Result<Vec<AddedTicket>, Failure> {
    let mut new = Vec::new();
    for (id, spec) in &file.tickets {
        if let Some(known) = office.desk.store.ticket(id).await? {
            if known.ticket.spec.context.epic.as_deref() != Some(&file.id) {
                return Err(Failure::usage(format!(
                    "there is a ticket {id} that is not of this epic"
                ))
                .hint("give the epic's ticket another id"));
            }
            continue;
        }
        let mut spec = spec.clone();
        if let Some(shop) = repository {
            spec.context.repository = Some(shop.git.common_dir().to_string_lossy().into_owned());
            spec.context
                .base_branch
                .get_or_insert_with(|| shop.project.base_branch.clone());
        }
        new.push(TicketRequest {
            id: Some(id.clone()),
            spec,
        });
    }
    let added = add(office, new, policy).await?;
    if !file.id.is_empty() && !file.title.is_empty() {
        keep(office, file).await?;
    }
    Ok(added)
}

async fn keep(office: &App, file: &EpicFile) -> Result<(), Failure> {
    let known = find(office, &file.id).await?;
    let body = EpicBody {
        no_gate: file.no_gate,
        signed: known.and_then(|epic| body(&epic).signed),
        raw: file.raw.clone(),
    };
    put(office, &file.id, &file.title, &body).await
}

async fn put(office: &App, id: &str, title: &str, body: &EpicBody) -> Result<(), Failure> {
    let mut body = serde_json::to_value(body).map_err(Failure::error)?;
    findings::clean_json(&mut body);
    let epic = Epic {
        id: findings::clean_name(id),
        title: findings::one_line(title),
        body,
        updated_at: (office.desk.clock)(),
    };
    Ok(office.desk.store.put_epic(epic).await?)
}

fn body(epic: &Epic) -> EpicBody {
    serde_json::from_value(epic.body.clone()).unwrap_or_default()
}

async fn find(office: &App, id: &str) -> Result<Option<Epic>, Failure> {
    let epics = office.desk.store.epics().await?;
    Ok(epics.into_iter().find(|epic| epic.id == id))
}

async fn known(office: &App, id: &str) -> Result<Epic, Failure> {
    find(office, id).await?.ok_or_else(|| {
        Failure::missing(format!("there is no epic {id:?}"))
            .hint("`countersign epic list` shows those there are")
    })
}

async fn tickets_of(office: &App, id: &str) -> Result<Vec<Ticket>, Failure> {
    let query = TicketQuery {
        epic: Some(id.to_owned()),
        ..TicketQuery::default()
    };
    let page = Page {
        after: None,
        most: TICKETS_MAX,
    };
    let mut tickets = Vec::new();
    for row in office.desk.store.tickets(&query, &page).await?.items {
        tickets.push(office.desk.ticket(&row.id).await?.ticket);
    }
    tickets.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(tickets)
}

pub async fn look(office: &App, id: &str) -> Result<EpicReport, Failure> {
    let epic = known(office, id).await?;
    let (body, tickets) = (body(&epic), tickets_of(office, id).await?);
    let gate = match (&body.signed, body.no_gate) {
        (Some(_), _) => EpicSignoff::Signed,
        (None, true) => EpicSignoff::None,
        (None, false) => EpicSignoff::Waits,
    };
    Ok(EpicReport {
        id: epic.id,
        title: epic.title,
        signed: body.signed,
        standing: standing(&tickets, gate),
        completion: completion(&tickets),
    })
}

/// Those of its tickets that have ended.
pub async fn ended(office: &App, id: &str) -> Result<Vec<TicketId>, Failure> {
    let tickets = tickets_of(office, id).await?;
    let ended = tickets
        .into_iter()
        .filter(|ticket| ticket.stage.is_terminal());
    Ok(ended.map(|ticket| ticket.id).collect())
}

pub async fn list(office: &App) -> Result<Vec<EpicReport>, Failure> {
    let mut all = Vec::new();
    for epic in office.desk.store.epics().await? {
        all.push(look(office, &epic.id).await?);
    }
    Ok(all)
}

/// A person signs the whole. Only what stands at the gate can be signed.
pub async fn sign(office: &App, id: &str, why: &str) -> Result<EpicReport, Failure> {
    let epic = known(office, id).await?;
    let before = look(office, id).await?;
    if before.standing != EpicStatus::AtTheGate {
        return Err(Failure::new(
            crate::failure::ExitKind::Refused,
            format!("{id} is not at its gate: not all of its tickets have landed, or it is signed"),
        )
        .hint(format!("see how it stands: countersign epic show {id}")));
    }
    let mut body = body(&epic);
    body.signed = Some(EpicSignature {
        by: office.person().agent,
        at: (office.desk.clock)(),
        why: why.to_owned(),
    });
    put(office, &epic.id, &epic.title, &body).await?;
    look(office, id).await
}

/// Works on up to `jobs` tickets side by side until nothing goes on without a person.
pub async fn work(
    office: &App,
    shop: &Arc<Project>,
    id: &str,
    jobs: usize,
    stop: StopSignal,
) -> Result<EpicReport, Failure> {
    adopt_orphans()
        .map_err(|error| Failure::error(format!("orphans cannot be adopted: {error}")))?;
    sweep(&shop.host.data_dir).await.map_err(Failure::error)?;
    let mut running: JoinSet<(TicketId, Result<Ticket, engine::coordinator::Error>)> =
        JoinSet::new();
    let mut at_work: Vec<TicketId> = Vec::new();
    let (stopper, halt) = StopSignal::pair();
    let mut asked = stop;
    let mut stopping = false;
    loop {
        // News of what ended lets others begin.
        let looked = patiently(office, || async {
            let news_underway = office.bring_news().await?;
            Ok((news_underway, look(office, id).await?))
        });
        let (news_underway, looked) = tokio::select! {
            looked = looked => looked?,
            () = asked.asked(), if !stopping => {
                stopping = true;
                stopper.stop();
                continue;
            }
        };
        match &looked.standing {
            EpicStatus::Goes { ready } if !stopping => {
                let free = ready.iter().filter(|one| !at_work.contains(one));
                let room = jobs.saturating_sub(at_work.len());
                for one in free.take(room).cloned().collect::<Vec<_>>() {
                    at_work.push(one.clone());
                    running.spawn(on_one(shop.clone(), one, halt.clone()));
                }
            }
            EpicStatus::Stopped { .. } => stopper.stop(),
            EpicStatus::Goes { .. }
            | EpicStatus::Waits { .. }
            | EpicStatus::AtTheGate
            | EpicStatus::Complete
            | EpicStatus::Incomplete { .. } => {}
        }
        if running.is_empty() && (stopping || !news_underway) {
            return Ok(looked);
        }
        tokio::select! {
            () = tokio::time::sleep(NEWS_PATIENCE), if running.is_empty() => {}
            Some(ended) = running.join_next() => {
                let (one, ended) = ended.map_err(|error| Failure::error(format!("a worker broke: {error}")))?;
                at_work.retain(|known| *known != one);
                ended?;
            }
            () = asked.asked(), if !stopping => {
                stopping = true;
                stopper.stop();
            }
        }
    }
}

async fn on_one(
    shop: Arc<Project>,
    id: TicketId,
    stop: StopSignal,
) -> (TicketId, Result<Ticket, engine::coordinator::Error>) {
    let ended = super::run::see_through(&shop, &id, stop).await;
    (id, ended)
}
