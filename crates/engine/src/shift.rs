//! A shift of workers: takes up whatever is ready in its queues, of any ticket, until it is told to
//! stop. Any number of shifts may work on one store, on any number of machines; leases keep them
//! apart. Told to stop, it claims no more and gives back what it has in hand.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flow::policy::Land;
use flow::{Task, Ticket, TicketId};
use store::{Ask, JobQuery, JobState, Page};
use tokio::task::JoinSet;

use crate::desk::{Desk, Error};
use crate::perform;
use crate::process::Stop;
use crate::work::{attend, worker_name};
use crate::workshop::Workshop;

/// The net under the wake-ups.
const POLL: Duration = Duration::from_secs(2);
/// After a failure that is nobody's job's, such as a store that is away.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// How many ready jobs are looked through at a time.
const LOOK_MOST: u32 = 200;

/// Furnishes the workshop that a ticket is worked on in.
pub trait Shops: Send + Sync + fmt::Debug {
    /// `None` where the ticket is not for us: its repository is not here, or its rules cannot be read.
    fn of(&self, ticket: &Ticket) -> impl Future<Output = Option<Arc<Workshop>>> + Send;
}

/// What a shift does.
#[derive(Clone, Debug)]
pub struct Shift {
    pub queues: Vec<&'static str>,
    /// Tickets that are worked on side by side.
    pub tickets_max: usize,
}

/// Works until told to stop, and is over when nothing is in hand any more.
pub async fn run<S>(desk: &Desk, shops: Arc<S>, shift: &Shift, mut stop: Stop)
where
    S: Shops + 'static,
{
    let mut running: JoinSet<TicketId> = JoinSet::new();
    let mut busy: BTreeSet<TicketId> = BTreeSet::new();
    let mut stopping = false;
    loop {
        let mut trouble = false;
        if !stopping && busy.len() < shift.tickets_max {
            match ready(desk, shift, &busy).await {
                Ok(found) => {
                    for id in found {
                        busy.insert(id.clone());
                        let (desk, shops, stop) = (desk.clone(), shops.clone(), stop.clone());
                        running.spawn(async move {
                            // What failed is on the ticket's record, or will be tried again.
                            let _ = once(&desk, shops.as_ref(), &id, stop).await;
                            id
                        });
                    }
                }
                Err(_) => trouble = true,
            }
        }
        if stopping && running.is_empty() {
            return;
        }
        let wait = pause(desk, shift, busy.len(), trouble);
        tokio::select! {
            Some(ended) = running.join_next() => {
                if let Ok(id) = ended {
                    busy.remove(&id);
                }
            }
            () = wait, if !stopping => {}
            () = stop.asked(), if !stopping => stopping = true,
        }
    }
}

/// Until there may be something new.
async fn pause(desk: &Desk, shift: &Shift, busy: usize, trouble: bool) {
    if trouble {
        return tokio::time::sleep(AFTER_TROUBLE).await;
    }
    if busy > 0 {
        // What is ready may be what is in hand: the queue's bell would ring without end.
        return tokio::time::sleep(POLL / 4).await;
    }
    let ask = Ask {
        queues: shift.queues.iter().map(|name| (*name).to_owned()).collect(),
        agent: "countersign".to_owned(),
        own_only: false,
        holder: worker_name(),
        provider: None,
        ticket: None,
        lease: Duration::ZERO,
        most: 1,
    };
    desk.store.wait(&ask, POLL).await;
}

/// Tickets with something ready for us, the most urgent first, up to what we have hands for.
async fn ready(
    desk: &Desk,
    shift: &Shift,
    busy: &BTreeSet<TicketId>,
) -> Result<Vec<TicketId>, Error> {
    let mut jobs = Vec::new();
    for queue in &shift.queues {
        let query = JobQuery {
            queue: Some((*queue).to_owned()),
            state: Some(JobState::Ready),
            ticket: None,
        };
        let page = Page {
            after: None,
            most: LOOK_MOST,
        };
        jobs.extend(desk.store.jobs(&query, &page).await?.items);
    }
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.id));
    let mut found = Vec::new();
    for id in jobs.into_iter().filter_map(|job| job.ticket) {
        let free = shift.tickets_max.saturating_sub(busy.len());
        if found.len() == free {
            break;
        }
        if !busy.contains(&id) && !found.contains(&id) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Takes up what is ready of one ticket now, and does it.
async fn once(desk: &Desk, shops: &impl Shops, id: &TicketId, stop: Stop) -> Result<(), Error> {
    let ticket = desk.ticket(id).await?.ticket;
    let Some(shop) = shops.of(&ticket).await else {
        // Looked at again, but not at once.
        tokio::time::sleep(POLL).await;
        return Ok(());
    };
    if shop.project.policy.land == Land::Queue && flow::queue::waits(&ticket) {
        return Box::pin(perform::queue::take_turn(shop, id.clone(), stop)).await;
    }
    let claimed = attend(&shop, id).await?;
    if claimed.is_empty() {
        tokio::time::sleep(POLL).await;
    }
    let mut running = JoinSet::new();
    for job in claimed {
        running.spawn(perform::perform(shop.clone(), job, stop.clone()));
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| Error::Broken(error.to_string()))??;
    }
    Ok(())
}

/// The queues of the house itself: nobody is paid for what is in them.
pub fn of_the_house() -> Vec<&'static str> {
    let mut queues = Task::QUEUES.to_vec();
    queues.retain(|queue| ["check", "merge"].contains(queue));
    queues
}
