//! Which task an agent that asks is given: the most urgent one that waits for no other.
//!
//! Where none of the queue waits for another, which is nearly always, one claim finds it, however
//! many ask at once. It refuses to claim in order to look: every claim is in the log.

use engine::shift::ready_tasks;
use flow::free::depends_on;
use store::{Ask, Ended, Job, JobId, Leased, Outcome, Work};

use super::board;
use crate::failure::Failure;
use crate::operations::Office;

/// How many are tried for one by one: a pause that keeps one from the agent keeps all.
const TRIES_MAX: usize = 4;

pub async fn next(office: &Office, ask: &Ask) -> Result<Option<Leased>, Failure> {
    let ready = ready_tasks(&office.desk, &ask.queues).await?;
    let free = free_of(office, &ready).await?;
    if free.len() < ready.len() {
        return one_of(office, ask, free).await;
    }
    let claimed = office.desk.store.claim(ask).await?.pop();
    match claimed {
        Some(job) if !may_begin(office, &job.work).await? => give_back(office, job).await,
        claimed => Ok(claimed),
    }
}

/// Those that wait for no other.
async fn free_of(office: &Office, ready: &[Job]) -> Result<Vec<JobId>, Failure> {
    let mut free = Vec::new();
    for job in ready {
        if may_begin(office, &job.work).await? {
            free.push(job.id);
        }
    }
    Ok(free)
}

async fn may_begin(office: &Office, work: &Work) -> Result<bool, Failure> {
    let Work::Free { body, .. } = work else {
        return Ok(true);
    };
    Ok(board::are_done(office, &depends_on(body)).await?)
}

/// What is due by now becomes ready with a claim, so nothing is claimed at first; it is found when the
/// agent asks again.
async fn one_of(office: &Office, ask: &Ask, free: Vec<JobId>) -> Result<Option<Leased>, Failure> {
    let store = &office.desk.store;
    let nothing = Ask {
        most: 0,
        ..ask.clone()
    };
    store.claim(&nothing).await?;
    for job in free.into_iter().take(TRIES_MAX) {
        let this = Ask {
            job: Some(job),
            ..ask.clone()
        };
        if let Some(claimed) = store.claim(&this).await?.pop() {
            return Ok(Some(claimed));
        }
    }
    Ok(None)
}

/// It was queued between the look and the claim.
async fn give_back(office: &Office, job: Leased) -> Result<Option<Leased>, Failure> {
    let ended = Ended {
        job: job.id,
        fence: job.fence,
        outcome: Outcome::Retry {
            error: "waits for others".to_owned(),
            not_before: (office.desk.clock)(),
            counts: false,
        },
    };
    office.desk.store.finish(vec![ended], None).await?;
    Ok(None)
}
