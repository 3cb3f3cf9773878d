//! A shift: a pair of hands that takes up whatever is ready in its queues, of any ticket, until it is
//! told to stop. Any number of them may work on one store, on any number of machines; leases keep
//! them apart. Told to drain, it claims no more and finishes what it has; told to halt, it gives
//! that back.

mod tasks;

pub use tasks::ready as ready_tasks;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flow::{Queue, Ticket, TicketId};
use store::{ClaimRequest, JobQuery, Page, Scope};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::desk::{Desk, Error};
use crate::perform::task::Taken;
use crate::perform::{self, Claimed};
use crate::post::worker_name;
use crate::process::Stop;
use crate::work::attend;
use crate::workshop::Workshop;

/// The net under the wake-ups.
const POLL: Duration = Duration::from_secs(2);
/// The same while nothing is open at all: whatever comes then rings.
pub const QUIET_POLL: Duration = Duration::from_secs(30);
/// After a failure that is nobody's job's, such as a store that is away.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// How many ready jobs of a queue are looked through; more of them where none of the first is for us.
const LOOKS: [u32; 2] = [32, 1000];
/// For so long a ticket that was not for us is not looked at again.
const PASSED_OVER: Duration = Duration::from_secs(10);
/// More are forgotten.
const PASSED_OVER_MAX: usize = 10_000;

/// Furnishes the workshop that a ticket is worked on in.
pub trait Shops: Send + Sync + fmt::Debug {
    /// `None` where the ticket is not for us: its repository is not here, or its rules cannot be read.
    fn of(&self, ticket: &Ticket) -> impl Future<Output = Option<Arc<Workshop>>> + Send;

    /// The same for a task, which is a ticket that nobody keeps and may belong to no repository.
    fn of_task(&self, task: &Ticket) -> impl Future<Output = Option<Arc<Workshop>>> + Send;

    /// Whether all these tasks have come to their ends.
    fn are_done(&self, tasks: &[String]) -> impl Future<Output = Result<bool, Error>> + Send;
}

/// One pair of hands.
#[derive(Clone, Debug)]
pub struct Hand {
    /// As people call it, and pause it: `qa-1`.
    pub name: String,
    pub queues: Vec<Queue>,
    /// Queues of free tasks, as people name them.
    pub tasks: Vec<Queue>,
    /// Only tickets that need no others are taken up.
    pub labels: BTreeSet<String>,
}

/// What a hand is told while it works.
#[derive(Clone, Debug)]
pub struct Told {
    /// Claim no more, and finish what is in hand.
    pub drain: Stop,
    /// Give back what is in hand.
    pub halt: Stop,
}

/// What a look at the queues came to.
enum Found {
    /// Something of ours, under a lease.
    Work(Arc<Workshop>, Vec<Claimed>),
    /// It is this ticket's turn in the queue of landings.
    Turn(Arc<Workshop>, TicketId),
    /// A free task of ours, under a lease.
    Task(Box<Taken>),
    Nothing,
    /// There is something, and not for us.
    NotForUs,
}

/// Works until told to drain, and is over when nothing is in hand any more.
pub async fn work<S: Shops>(desk: &Desk, shops: &S, hand: &Hand, told: Told) {
    let mut passed_over = PassedOver::default();
    let mut drain = told.drain.clone();
    loop {
        let found = next(desk, shops, hand, &mut passed_over).await;
        // What failed is on the ticket's record, or will be tried again.
        let rest = match found {
            Ok(Found::Work(shop, claimed)) => {
                let _ = all(&shop, claimed, &told.halt).await;
                Duration::ZERO
            }
            Ok(Found::Turn(shop, id)) => {
                let turn = perform::queue::take_turn(shop, id, told.halt.clone());
                let _ = Box::pin(turn).await;
                Duration::ZERO
            }
            Ok(Found::Task(taken)) => {
                let _ = Box::pin(perform::task::perform(*taken, told.halt.clone())).await;
                Duration::ZERO
            }
            Ok(Found::Nothing) => {
                let request = claim_request(hand);
                tokio::select! {
                    () = listen(desk, &request) => Duration::ZERO,
                    () = drain.asked() => return,
                }
            }
            Ok(Found::NotForUs) => POLL,
            Err(_) => AFTER_TROUBLE,
        };
        tokio::select! {
            biased;
            () = drain.asked() => return,
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Returns when there may be something to claim.
async fn listen(desk: &Desk, request: &ClaimRequest) {
    // Where no job is ready, in hand, or waits for its time, nothing happens before somebody comes.
    let most = match desk.store.has_open(None).await {
        Ok(false) => QUIET_POLL,
        Ok(true) | Err(_) => POLL,
    };
    desk.store.wait(request, most).await;
}

/// The request for whatever is in our queues.
fn claim_request(hand: &Hand) -> ClaimRequest {
    let queues = hand.queues.iter().chain(&hand.tasks);
    ClaimRequest::new(worker_name(), &hand.name, queues, Duration::ZERO)
}

async fn all(shop: &Arc<Workshop>, claimed: Vec<Claimed>, halt: &Stop) -> Result<(), Error> {
    let mut running = JoinSet::new();
    for job in claimed {
        running.spawn(perform::perform(shop.clone(), job, halt.clone()));
    }
    let mut came_to = Ok(());
    while let Some(ended) = running.join_next().await {
        let ended = ended.map_err(|error| Error::Broken(error.to_string()));
        came_to = came_to.and(ended.and_then(|ended| ended));
    }
    came_to
}

/// What was not for us, and since when it is not looked at.
#[derive(Debug, Default)]
struct PassedOver {
    tickets: HashMap<TicketId, Instant>,
    tasks: tasks::PassedOver,
}

/// The most urgent thing that is ready and for us: of tickets, else of tasks.
async fn next<S: Shops>(
    desk: &Desk,
    shops: &S,
    hand: &Hand,
    passed_over: &mut PassedOver,
) -> Result<Found, Error> {
    if is_paused(desk, hand).await? {
        return Ok(Found::NotForUs);
    }
    let of_tickets = next_of_tickets(desk, shops, hand, &mut passed_over.tickets).await?;
    match of_tickets {
        Found::Nothing => tasks::next(desk, shops, hand, &mut passed_over.tasks).await,
        Found::NotForUs => match tasks::next(desk, shops, hand, &mut passed_over.tasks).await? {
            Found::Nothing => Ok(Found::NotForUs),
            found => Ok(found),
        },
        work => Ok(work),
    }
}

async fn next_of_tickets<S: Shops>(
    desk: &Desk,
    shops: &S,
    hand: &Hand,
    passed_over: &mut HashMap<TicketId, Instant>,
) -> Result<Found, Error> {
    passed_over.retain(|_, since| since.elapsed() < PASSED_OVER);
    let mut found = Found::Nothing;
    for most in LOOKS {
        let (ids, more) = ready(desk, hand, most).await?;
        for id in ids {
            found = Found::NotForUs;
            if passed_over.contains_key(&id) {
                continue;
            }
            match take(desk, shops, hand, &id).await? {
                Found::NotForUs if passed_over.len() < PASSED_OVER_MAX => {
                    passed_over.insert(id, Instant::now());
                }
                // Somebody else was faster.
                Found::Nothing | Found::NotForUs => {}
                work => return Ok(work),
            }
        }
        if !more {
            break;
        }
    }
    Ok(found)
}

/// Whether somebody wants this hand, or all of its kind, to rest. The store minds the pauses of queues,
/// providers and agents by itself.
async fn is_paused(desk: &Desk, hand: &Hand) -> Result<bool, Error> {
    let pauses = desk.store.pauses().await?;
    if pauses.is_empty() {
        return Ok(false);
    }
    let now = desk.store.now().await?;
    let kind = hand.name.rsplit_once('-').map(|(kind, _)| kind);
    let mut lasting = pauses
        .iter()
        .filter(|pause| pause.until.is_none_or(|until| until > now));
    Ok(lasting.any(|pause| match &pause.scope {
        Scope::Agent(name) => *name == hand.name || Some(name.as_str()) == kind,
        Scope::Queue(_) | Scope::Provider(_) => false,
    }))
}

/// Tickets with something ready in our queues, the most urgent first, and whether there may be more.
async fn ready(desk: &Desk, hand: &Hand, most: u32) -> Result<(Vec<TicketId>, bool), Error> {
    let mut jobs = Vec::new();
    let mut more = false;
    for queue in &hand.queues {
        let query = JobQuery {
            queue: Some(queue.clone()),
            claimable: true,
            urgent_first: true,
            ..JobQuery::default()
        };
        let page = Page { after: None, most };
        let found = desk.store.jobs(&query, &page).await?.items;
        more |= found.len() >= usize::try_from(most).unwrap_or(usize::MAX);
        jobs.extend(found);
    }
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.id));
    let mut ids = Vec::new();
    for id in jobs.into_iter().filter_map(|job| job.ticket) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok((ids, more))
}

/// Takes up what is ready of one ticket, if it is for us.
async fn take<S: Shops>(
    desk: &Desk,
    shops: &S,
    hand: &Hand,
    id: &TicketId,
) -> Result<Found, Error> {
    let ticket = desk.ticket(id).await?.ticket;
    if !ticket.spec.context.suits(&hand.labels) {
        return Ok(Found::NotForUs);
    }
    let Some(shop) = shops.of(&ticket).await else {
        return Ok(Found::NotForUs);
    };
    let lands = shop.post.queues.contains(&Queue::Merge);
    if lands && shop.lands_in_turn() && flow::queue::waits(&ticket) {
        return Ok(Found::Turn(shop, id.clone()));
    }
    let claimed = attend(&shop, id).await?;
    if claimed.is_empty() {
        return Ok(Found::Nothing);
    }
    Ok(Found::Work(shop, claimed))
}

/// The queues of the house itself: nobody is paid for what is in them.
pub fn of_the_house() -> Vec<Queue> {
    let mut queues = Queue::OF_LOOP.to_vec();
    queues.retain(Queue::is_of_system);
    queues
}
