//! The loop: claim, perform, report, until the ticket rests. Any number of workers may run it on
//! the same ticket; leases keep them apart, and what is lost by one is taken up by the next.

mod hands;
mod outage;

pub use outage::Outage;

use std::sync::Arc;
use std::time::Duration;

use flow::event::Lease;
use flow::usage::Caps;
use flow::{Queue, Task, Ticket, TicketId, What};
use store::{ClaimRequest, ClaimTarget, JobQuery, JobState, Page, Work};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::desk::{Error, Report};
use crate::news;
use crate::perform;
use crate::post::{let_go, worker_is_dead};
use crate::process::{Stop, Stopper};
use crate::watchdog::report_lost;
use crate::workshop::Workshop;

/// The net under the wake-ups.
const POLL: Duration = Duration::from_secs(2);
/// Between two looks at something that is not given to us.
const REST: Duration = Duration::from_millis(250);

/// Works on one ticket until it is done, waits for a person or another ticket, or we are stopped. A
/// store that goes away meanwhile is waited for.
pub async fn work(shop: &Arc<Workshop>, id: &TicketId, mut stop: Stop) -> Result<Ticket, Error> {
    let (stopper, halt) = Stop::pair();
    let mut at_work = AtWork {
        running: JoinSet::new(),
        held: Vec::new(),
        landing: None,
        stopping: false,
        stopper,
        halt,
        calm_until: None,
    };
    let lease = Duration::from_secs(shop.project.policy.limits.lease_secs);
    let mut outage = Outage::new(shop.desk.witness.clone());
    loop {
        match at_work.turn(shop, id, &mut stop).await {
            Ok(Some(ticket)) => return Ok(ticket),
            Ok(None) => outage.is_over(),
            Err(error) => {
                at_work
                    .wait_for_store((&mut outage, lease), error, &mut stop)
                    .await?;
            }
        }
    }
}

/// What is being done for the ticket at present.
struct AtWork {
    running: JoinSet<(Option<Lease>, Result<(), Error>)>,
    /// The leases of what runs here. Our own work is not lost, however late its renewal is.
    held: Vec<Lease>,
    landing: Option<AbortHandle>,
    stopping: bool,
    stopper: Stopper,
    halt: Stop,
    /// After an outage those who are still at work get the time of a lease to renew theirs, before
    /// any is taken back.
    calm_until: Option<Instant>,
}

impl AtWork {
    /// One look at the ticket, and whatever comes next. Answers the ticket once it rests.
    async fn turn(
        &mut self,
        shop: &Arc<Workshop>,
        id: &TicketId,
        stop: &mut Stop,
    ) -> Result<Option<Ticket>, Error> {
        let mut in_vain = true;
        if !self.stopping {
            let calm = self.calm_until.is_some_and(|until| Instant::now() < until);
            if !calm {
                take_back(shop, id, &self.held).await?;
            }
            for claimed in claim(shop, id).await? {
                in_vain = false;
                let fence = claimed.job.fence;
                let lease = claimed.job.serial.map(|serial| Lease { serial, fence });
                self.held.extend(lease);
                let job = perform::perform(shop.clone(), claimed, self.halt.clone());
                self.running.spawn(async move { (lease, job.await) });
            }
        }
        let ticket = shop.desk.ticket(id).await?.ticket;
        let queued = shop.lands_in_turn() && flow::queue::waits(&ticket);
        let landed = self.landing.as_ref().is_none_or(AbortHandle::is_finished);
        if queued && !self.stopping && landed {
            let turn = perform::queue::take_turn(shop.clone(), id.clone(), self.halt.clone());
            let turn = Box::pin(turn);
            self.landing = Some(self.running.spawn(async move { (None, turn.await) }));
        }
        if ticket.stage.is_terminal() {
            // Somebody ended it: nobody waits for what is still being done.
            self.stopper.stop();
        }
        if self.running.is_empty() && (self.stopping || !ticket.stage.is_at_work()) {
            // What the ticket's end means to others is told before we go.
            news::bring(&shop.desk, &shop.post.worker).await?;
            return Ok(Some(ticket));
        }
        if self.running.is_empty() {
            hands::must_be_for_us(shop, &ticket)?;
        }
        let any = claim_request(shop, id, "countersign", &queues(shop));
        tokio::select! {
            Some(ended) = self.running.join_next() => {
                let (lease, ended) = ended.map_err(|error| Error::Broken(error.to_string()))?;
                self.held.retain(|held| Some(*held) != lease);
                ended?;
            }
            () = quiet(shop, &any, in_vain), if !self.stopping => {}
            () = stop.asked(), if !self.stopping => self.stop(),
        }
        Ok(None)
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.stopper.stop();
    }

    /// What runs goes on while the store is away; once we are stopped, it is over when that has ended.
    async fn wait_for_store(
        &mut self,
        (outage, lease): (&mut Outage, Duration),
        error: Error,
        stop: &mut Stop,
    ) -> Result<(), Error> {
        self.calm_until = Some(Instant::now() + lease);
        if self.stopping {
            while self.running.join_next().await.is_some() {}
            return Err(error);
        }
        let away = matches!(&error, Error::Store(error) if error.is_transient());
        match outage.wait(error, stop).await {
            // It is stopped, not given up: what runs is ended in order.
            Err(error) if away && !self.running.is_empty() => {
                self.stop();
                while self.running.join_next().await.is_some() {}
                Err(error)
            }
            waited => waited,
        }
    }
}

/// Until there may be something to claim. What is ready and was not given to us, because its provider has
/// all that it may have, would wake us without end: it is looked at again after a rest.
async fn quiet(shop: &Workshop, any: &ClaimRequest, in_vain: bool) {
    let began = Instant::now();
    shop.desk.store.wait(any, POLL).await;
    if in_vain {
        tokio::time::sleep(REST.saturating_sub(began.elapsed())).await;
    }
}

/// Looks after a ticket before anything of it is done: leases, the day's budget, stand-ins, news. Then
/// claims what is ready of it for us.
pub async fn attend(shop: &Workshop, id: &TicketId) -> Result<Vec<perform::Claimed>, Error> {
    take_back(shop, id, &[]).await?;
    claim(shop, id).await
}

async fn claim(shop: &Workshop, id: &TicketId) -> Result<Vec<perform::Claimed>, Error> {
    mind_the_day(shop, id).await?;
    hands::hand_over(shop, id).await?;
    news::bring(&shop.desk, &shop.post.worker).await?;
    hands::claim(shop, id).await
}

/// Those of the loop that are worked from here. A queue of landings has its own way to take them up.
fn queues(shop: &Workshop) -> Vec<Queue> {
    let mut queues = shop.post.queues.clone();
    if shop.lands_in_turn() {
        queues.retain(|queue| *queue != Queue::Merge);
    }
    queues
}

fn claim_request(shop: &Workshop, id: &TicketId, agent: &str, queues: &[Queue]) -> ClaimRequest {
    let lease = Duration::from_secs(shop.project.policy.limits.lease_secs);
    ClaimRequest {
        only: Some(ClaimTarget::Ticket(id.clone())),
        limit: shop.post.jobs_max,
        ..ClaimRequest::new(&shop.post.worker, agent, queues, lease)
    }
}

/// What all tickets of the day have spent is known here only: where it is too much, the ticket
/// hears of it before anybody is paid.
async fn mind_the_day(shop: &Workshop, id: &TicketId) -> Result<(), Error> {
    let ticket = shop.desk.ticket(id).await?.ticket;
    let policy = &shop.project.policy;
    let caps = ticket.budget.unwrap_or(policy.budget).day;
    let mut jobs = ticket.jobs.iter();
    let paid = jobs.any(|job| job.task.is_paid() && job.holder.is_none());
    if caps == Caps::default() || !paid {
        return Ok(());
    }
    let today = (shop.desk.clock)().day();
    let spent = shop.desk.store.spent_since(today).await?;
    let Some(limit) = flow::over_day(&ticket, policy, spent) else {
        return Ok(());
    };
    let report = Report::new(shop.house(), What::BudgetReached { limit });
    match shop.desk.decide(id, policy, report).await {
        Ok(_) => Ok(()),
        Err(error) if error.refusal().is_some() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Leases that ran out, and those of workers on this machine that are certainly dead, become
/// events: the job goes back to its queue.
async fn take_back(shop: &Workshop, id: &TicketId, ours: &[Lease]) -> Result<(), Error> {
    let query = JobQuery {
        ticket: Some(id.clone()),
        state: Some(JobState::Leased),
        queue: None,
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: 100,
    };
    let now = shop.desk.store.now().await?;
    let jobs = shop.desk.store.jobs(&query, &page).await?.items.into_iter();
    // News are nobody's in particular, and are looked after by whoever brings some.
    for job in jobs.filter(|job| !matches!(job.work, Work::Task(Task::Tell { .. }))) {
        let dead = job.holder.as_deref().is_some_and(worker_is_dead);
        let expired = job.lease_until.is_some_and(|until| until <= now);
        let (Some(serial), true) = (job.serial, dead || expired) else {
            continue;
        };
        let lease = Lease {
            serial,
            fence: job.fence,
        };
        if ours.contains(&lease) {
            continue;
        }
        if dead && !expired {
            let_go(&shop.desk, &job).await?;
        }
        report_lost(&shop.desk, id, &shop.project.policy, lease).await?;
    }
    Ok(())
}
