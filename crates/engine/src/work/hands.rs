//! Who of the crew takes what: each asks for its own jobs in its own name, and whoever cannot
//! (its provider is paused) hands over to whom the policy names.

use flow::{Queue, Role, Ticket, TicketId, What, stand_in};
use store::{ClaimRequest, Scope};

use super::{claim_request, queues};
use crate::desk::{Error, Report};
use crate::perform::Claimed;
use crate::workshop::{Member, Workshop};

const QUEUES: [(Role, Queue); 3] = [
    (Role::Builder, Queue::Build),
    (Role::Reviewer, Queue::Review),
    (Role::Verifier, Queue::Verify),
];

/// Asks for whatever of this ticket is ready; a job for a named agent is asked for in its name.
pub async fn claim(shop: &Workshop, id: &TicketId) -> Result<Vec<Claimed>, Error> {
    let mut claimed = Vec::new();
    let served = |(_, queue): &(Role, Queue)| shop.post.queues.contains(queue);
    for (role, queue) in QUEUES.into_iter().filter(served) {
        let Some(usual) = shop.crew.who(role, None) else {
            continue;
        };
        for name in [&usual.name, &usual.written] {
            let asked = of_member(shop, id, name, &queue, usual);
            take(shop, &asked, None, &mut claimed).await?;
        }
        for (_, member) in shop.crew.others.iter().filter(|(at, _)| *at == role) {
            let mut asked = of_member(shop, id, &member.written, &queue, member);
            for served in &mut asked.queues {
                served.assigned_only = true;
            }
            take(shop, &asked, Some(&member.written), &mut claimed).await?;
        }
    }
    let mut house = queues(shop);
    house.retain(Queue::is_of_system);
    let asked = claim_request(shop, id, "countersign", &house);
    take(shop, &asked, None, &mut claimed).await?;
    Ok(claimed)
}

fn of_member(
    shop: &Workshop,
    id: &TicketId,
    name: &str,
    queue: &Queue,
    member: &Member,
) -> ClaimRequest {
    claim_request(shop, id, name, std::slice::from_ref(queue)).with_provider(member.adapter.name())
}

/// As many as there are hands for, and shares in the provider.
async fn take(
    shop: &Workshop,
    asked: &ClaimRequest,
    agent: Option<&str>,
    claimed: &mut Vec<Claimed>,
) -> Result<(), Error> {
    let provider = asked.queues.first().and_then(|one| one.provider.as_deref());
    let provider = provider.unwrap_or_default();
    let one_by_one = shop.post.shares.limits(provider);
    loop {
        let taken = u32::try_from(claimed.len()).unwrap_or(u32::MAX);
        let left = shop.post.jobs_max.saturating_sub(taken);
        let most = if one_by_one { left.min(1) } else { left };
        let Some(share) = shop.post.shares.share(provider).filter(|_| most > 0) else {
            return Ok(());
        };
        let asked = ClaimRequest {
            limit: most,
            ..asked.clone()
        };
        let jobs = shop.desk.store.claim(&asked).await?;
        let found = !jobs.is_empty();
        let mut share = Some(share);
        claimed.extend(jobs.into_iter().map(|job| Claimed {
            job,
            agent: agent.map(str::to_owned),
            share: share.take(),
        }));
        if !found || !one_by_one {
            return Ok(());
        }
    }
}

/// A job that was given to somebody who does not work here would be waited for without end.
pub fn must_be_for_us(shop: &Workshop, ticket: &Ticket) -> Result<(), Error> {
    for job in ticket.jobs.iter().filter(|job| job.holder.is_none()) {
        let Some(agent) = job.agent.as_ref().filter(|_| job.task.is_paid()) else {
            continue;
        };
        if shop.member(&job.task, Some(agent)).is_none() {
            return Err(Error::ForSomebodyElse {
                ticket: ticket.id.clone(),
                task: job.task.queue(),
                agent: agent.clone(),
            });
        }
    }
    Ok(())
}

/// A job whose agent's provider is paused goes to its stand-in, where the policy has one that may
/// and that is not paused as well. `flow` decides; here is only known who is paused.
pub async fn hand_over(shop: &Workshop, id: &TicketId) -> Result<(), Error> {
    let policy = &shop.project.policy;
    if !policy.has_fallback() {
        return Ok(());
    }
    let paused = paused_providers(shop).await?;
    let ticket = shop.desk.ticket(id).await?.ticket;
    for job in ticket.jobs.iter().filter(|job| job.holder.is_none()) {
        let is_out = |agent: Option<&str>| {
            let member = shop.member(&job.task, agent);
            member.is_some_and(|member| paused.contains(&member.adapter.name().to_owned()))
        };
        let other = stand_in(&ticket, policy, job.serial);
        if other.is_none_or(|other| is_out(Some(&other))) || !is_out(job.agent.as_deref()) {
            continue;
        }
        let who = shop.actor(&job.task, job.agent.as_deref()).agent;
        let (serial, why) = (job.serial, format!("{who} is out of quota"));
        let report = Report::new(shop.house(), What::AgentOut { serial, why });
        match shop.desk.decide(id, policy, report).await {
            Ok(_) => {}
            // Somebody has taken it up meanwhile, or handed it over.
            Err(error) if error.refusal().is_some() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn paused_providers(shop: &Workshop) -> Result<Vec<String>, Error> {
    let now = shop.desk.store.now().await?;
    let pauses = shop.desk.store.pauses().await?.into_iter();
    let lasting = pauses.filter(|pause| pause.until.is_none_or(|until| until > now));
    Ok(lasting
        .filter_map(|pause| match pause.scope {
            Scope::Provider(name) => Some(name),
            Scope::Agent(_) | Scope::Queue(_) => None,
        })
        .collect())
}
