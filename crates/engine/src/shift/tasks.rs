//! Free tasks from the queues that a hand is named for: looked at in their order, and claimed one by one
//! once it is known that they can be worked on here. What cannot is left to others, as it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flow::{Queue, Ticket, free};
use store::{ClaimRequest, ClaimTarget, Job, JobId, JobQuery, Page, ServedQueue, Work};
use tokio::time::Instant;

use super::{Found, Hand, LOOKS, PASSED_OVER, PASSED_OVER_MAX, Shops, claim_request};
use crate::desk::{Desk, Error};
use crate::perform::task::Taken;
use crate::post::replica_name;
use crate::workshop::Workshop;

/// How many are tried for in one look: what a pause or a provider's share keeps from us now, it keeps
/// for all of them.
const MISSED_MAX: u32 = 4;

/// Tasks that were not for us, and since when they are not looked at.
pub type PassedOver = HashMap<JobId, Instant>;

/// The most urgent task that is ready and for us.
pub async fn next<S: Shops>(
    desk: &Desk,
    shops: &S,
    hand: &Hand,
    passed_over: &mut PassedOver,
) -> Result<Found, Error> {
    passed_over.retain(|_, since| since.elapsed() < PASSED_OVER);
    let (mut found, mut missed) = (Found::Nothing, 0);
    for job in ready(desk, &hand.tasks).await? {
        found = Found::NotForUs;
        if missed >= MISSED_MAX {
            break;
        }
        if passed_over.contains_key(&job.id) {
            continue;
        }
        let id = job.id;
        match take(desk, shops, hand, job).await? {
            Found::NotForUs if passed_over.len() < PASSED_OVER_MAX => {
                passed_over.insert(id, Instant::now());
            }
            // Somebody else was faster, or it is not given to us now.
            Found::Nothing => missed += 1,
            Found::NotForUs => {}
            work => return Ok(work),
        }
    }
    Ok(found)
}

/// What is ready in these queues, the most urgent first. A queue of tasks is short.
pub async fn ready(desk: &Desk, queues: &[Queue]) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for queue in queues {
        let query = JobQuery {
            queue: Some(queue.clone()),
            claimable: true,
            urgent_first: true,
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: LOOKS[1],
        };
        jobs.extend(desk.store.jobs(&query, &page).await?.items);
    }
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.id));
    Ok(jobs)
}

async fn take<S: Shops>(desk: &Desk, shops: &S, hand: &Hand, job: Job) -> Result<Found, Error> {
    let Work::Free { body, .. } = &job.work else {
        return Ok(Found::NotForUs);
    };
    let Ok(ticket) = free::ticket(body, job.id.0, (desk.clock)()) else {
        return Ok(Found::NotForUs);
    };
    let waits_for = free::depends_on(body);
    if !ticket.spec.context.suits(&hand.labels) || !shops.are_done(&waits_for).await? {
        return Ok(Found::NotForUs);
    }
    let Some(shop) = shops.of_task(&ticket).await else {
        return Ok(Found::NotForUs);
    };
    if is_over_the_day(&shop, &ticket).await? {
        return Ok(Found::NotForUs);
    }
    claim(desk, hand, shop, (job.id, ticket)).await
}

/// What all tickets of the day have spent leaves nothing for tasks either.
async fn is_over_the_day(shop: &Workshop, ticket: &Ticket) -> Result<bool, Error> {
    let today = (shop.desk.clock)().day();
    let spent = shop.desk.store.spent_since(today).await?;
    Ok(flow::over_day(ticket, &shop.project.policy, spent).is_some())
}

async fn claim(
    desk: &Desk,
    hand: &Hand,
    shop: Arc<Workshop>,
    (job, ticket): (JobId, Ticket),
) -> Result<Found, Error> {
    let provider = shop.crew.builder.as_ref();
    let provider = provider.map(|member| member.adapter.name().to_owned());
    let Some(share) = shop
        .post
        .shares
        .share(provider.as_deref().unwrap_or_default())
    else {
        // Others of ours have all that there is; it is looked at again soon.
        return Ok(Found::Nothing);
    };
    let queues = hand.tasks.iter().map(|queue| ServedQueue {
        provider: provider.clone(),
        ..ServedQueue::new(queue, &hand.name)
    });
    let request = ClaimRequest {
        worker: replica_name(&hand.name),
        queues: queues.collect(),
        labels: Some(hand.labels.clone()),
        only: Some(ClaimTarget::Job(job)),
        lease: Duration::from_secs(shop.project.policy.limits.lease_secs),
        ..claim_request(hand)
    };
    let claimed = desk.store.claim(&request).await?.into_iter().next();
    Ok(claimed.map_or(Found::Nothing, |job| {
        Found::Task(Box::new(Taken {
            shop,
            job,
            ticket,
            by: hand.name.clone(),
            share,
        }))
    }))
}
