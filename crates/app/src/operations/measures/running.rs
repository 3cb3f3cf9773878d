//! Sums over all tickets and claims that are kept up to date from the log, when somebody asks: each
//! question reads what has happened since the last, and nothing is done between. The first one looks
//! at every ticket that there is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use flow::event::Lease;
use flow::quality::{DurationHistogram, QualityMetrics, WAITS_MS};
use flow::{EventKind, Ticket, TicketId, Time};
use store::{Cursor, EventBody, EventQuery, Job, JobId, JobQuery, Page, StoredEvent, TicketQuery};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::operations::{App, overview};

/// How many tickets, and how many events, are taken in at once. Who stops asking in the middle loses
/// no more than that.
const TICKETS_AT_ONCE: u32 = 500;
const EVENTS_AT_ONCE: u32 = 2000;
/// A ticket that has ended is known for so long, for events of its that are read late.
const REMEMBERED: Duration = Duration::from_secs(600);
/// More queues are not told apart.
const QUEUES_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct MetricSums {
    sums: Mutex<SumsState>,
}

/// What was asked for, all of it.
#[derive(Clone, Debug, Default)]
pub struct MetricValues {
    pub quality: QualityMetrics,
    /// By queue: from ready to somebody's being at work, since this server has been asked first.
    pub waits: BTreeMap<String, DurationHistogram>,
}

#[derive(Debug, Default)]
struct SumsState {
    begun: Option<LogPosition>,
    /// Of tickets that have ended, and will not change.
    ended: QualityMetrics,
    /// Of the others, where there is anything to count.
    live: HashMap<TicketId, QualityMetrics>,
    /// The versions of those that have ended; see [`REMEMBERED`].
    counted: HashMap<TicketId, (u64, Instant)>,
    waits: BTreeMap<String, DurationHistogram>,
}

#[derive(Clone, Copy, Debug)]
struct LogPosition {
    /// Where the log is to be read on.
    after: Cursor,
    look: InitialScan,
}

/// How far the first look at all tickets is.
#[derive(Clone, Copy, Debug)]
enum InitialScan {
    GoesOn { after: Option<i64> },
    IsDone,
}

/// What a page of the log says.
#[derive(Debug, Default)]
struct LogBatch {
    tickets: BTreeSet<TicketId>,
    claims: Vec<ClaimEvent>,
    end: Option<Cursor>,
}

#[derive(Debug)]
struct ClaimEvent {
    at: Time,
    of: ClaimedWork,
}

#[derive(Debug)]
enum ClaimedWork {
    Ticket(TicketId, Lease),
    Free(JobId),
}

impl MetricSums {
    pub async fn told(&self, office: &App) -> Result<MetricValues, Failure> {
        let mut sums = self.sums.lock().await;
        while sums.take_more(office).await? {}
        Ok(sums.told())
    }
}

impl SumsState {
    /// Takes in a part of what there is; false when that was all. What was read is counted in one go,
    /// so that a question that is broken off in between counts nothing by half.
    async fn take_more(&mut self, office: &App) -> Result<bool, Failure> {
        let begun = match self.begun {
            Some(begun) => begun,
            None => LogPosition {
                after: overview::newest(office).await?,
                look: InitialScan::GoesOn { after: None },
            },
        };
        match begun.look {
            InitialScan::GoesOn { after } => self.look_on(office, begun, after).await,
            InitialScan::IsDone => self.read_on(office, begun.after).await,
        }
    }

    async fn look_on(
        &mut self,
        office: &App,
        begun: LogPosition,
        after: Option<i64>,
    ) -> Result<bool, Failure> {
        let store = &office.desk.store;
        let page = Page {
            after,
            most: TICKETS_AT_ONCE,
        };
        let rows = store.tickets(&TicketQuery::default(), &page).await?;
        let ids = rows.items.into_iter().map(|row| row.id);
        let tickets = read(office, ids).await?;
        for ticket in &tickets {
            self.count(ticket);
        }
        let look = match rows.next {
            Some(next) => InitialScan::GoesOn { after: Some(next) },
            None => InitialScan::IsDone,
        };
        self.begun = Some(LogPosition { look, ..begun });
        Ok(true)
    }

    async fn read_on(&mut self, office: &App, after: Cursor) -> Result<bool, Failure> {
        let query = EventQuery {
            ticket: None,
            after,
            most: EVENTS_AT_ONCE,
            ..EventQuery::default()
        };
        let events = office.desk.store.events(&query).await?;
        let is_all = events.len() < usize::try_from(EVENTS_AT_ONCE).unwrap_or(usize::MAX);
        let news = self.news(events);
        let tickets = read(office, news.tickets).await?;
        let waits = waits(office, news.claims).await?;
        for ticket in &tickets {
            self.count(ticket);
        }
        for (queue, ms) in waits {
            if self.waits.len() < QUEUES_MAX || self.waits.contains_key(&queue) {
                self.waits.entry(queue).or_default().count(ms, WAITS_MS);
            }
        }
        self.begun = Some(LogPosition {
            after: news.end.unwrap_or(after),
            look: InitialScan::IsDone,
        });
        self.counted.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        Ok(!is_all)
    }

    fn news(&self, events: Vec<StoredEvent>) -> LogBatch {
        let mut news = LogBatch::default();
        for event in events {
            news.end = Some(event.cursor);
            if let Some(of) = claimed(&event) {
                news.claims.push(ClaimEvent { at: event.at, of });
            }
            let (Some(id), Some(version)) = (event.ticket, event.version) else {
                continue;
            };
            let known = self.counted.get(&id);
            if known.is_none_or(|(counted, _)| *counted < version) {
                news.tickets.insert(id);
            }
        }
        news
    }

    fn count(&mut self, ticket: &Ticket) {
        let quality = QualityMetrics::of(ticket);
        if ticket.stage.is_terminal() {
            self.live.remove(&ticket.id);
            let version = (ticket.version, Instant::now());
            if self.counted.insert(ticket.id.clone(), version).is_none() {
                self.ended.add(&quality);
            }
        } else if quality == QualityMetrics::default() {
            self.live.remove(&ticket.id);
        } else {
            self.live.insert(ticket.id.clone(), quality);
        }
    }

    fn told(&self) -> MetricValues {
        let mut quality = self.ended.clone();
        self.live.values().for_each(|one| quality.add(one));
        MetricValues {
            quality,
            waits: self.waits.clone(),
        }
    }
}

fn claimed(event: &StoredEvent) -> Option<ClaimedWork> {
    match &event.body {
        EventBody::Decided(decided) => {
            let EventKind::Started { lease } = decided.what else {
                return None;
            };
            Some(ClaimedWork::Ticket(event.ticket.clone()?, lease))
        }
        EventBody::Noted(body) => {
            let job = body.get("job").filter(|_| event.name == "job_claimed")?;
            Some(ClaimedWork::Free(JobId(job.as_i64()?)))
        }
    }
}

/// As they are now; those that retention has removed meanwhile are gone.
async fn read(
    office: &App,
    ids: impl IntoIterator<Item = TicketId>,
) -> Result<Vec<Ticket>, Failure> {
    let mut tickets = Vec::new();
    for id in ids {
        let stored = office.desk.store.ticket(&id).await?;
        tickets.extend(stored.map(|stored| stored.ticket));
    }
    Ok(tickets)
}

/// How long each of them had been ready, by its queue. What has gone back to its queue since then no
/// longer says so.
async fn waits(office: &App, claims: Vec<ClaimEvent>) -> Result<Vec<(String, u64)>, Failure> {
    let mut found = Vec::new();
    for claim in claims {
        let Some(job) = job_of(office, &claim.of).await? else {
            continue;
        };
        let ready = job.created_at.0.max(job.not_before.0);
        // The clocks of two machines may differ by a little; a job that is ready later went back.
        let later = ready > claim.at.0 + CLOCKS_DIFFER_MS;
        if !later {
            let ms = u64::try_from(claim.at.0 - ready).unwrap_or_default();
            found.push((job.queue.into(), ms));
        }
    }
    Ok(found)
}

/// Between two machines that look after their clocks.
const CLOCKS_DIFFER_MS: i64 = 1000;

async fn job_of(office: &App, of: &ClaimedWork) -> Result<Option<Job>, Failure> {
    let store = &office.desk.store;
    let (id, lease) = match of {
        ClaimedWork::Free(job) => return Ok(store.job(*job).await?),
        ClaimedWork::Ticket(id, lease) => (id, *lease),
    };
    let query = JobQuery {
        ticket: Some(id.clone()),
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: TICKETS_AT_ONCE,
    };
    let jobs = store.jobs(&query, &page).await?.items;
    let mut jobs = jobs.into_iter();
    Ok(jobs.find(|job| job.serial == Some(lease.serial) && job.fence == lease.fence))
}
