//! Sums over all tickets and claims. Each request reads the log since the last one and updates the
//! sums; nothing runs in between. The first request reads every ticket.
//!
//! A scrape every few seconds must not read all tickets. Ended tickets never change, so their sum
//! is kept; the others have one value each, which is replaced when they change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use flow::event::Lease;
use flow::quality::{DurationHistogram, QualityMetrics, WAIT_BUCKETS_MS};
use flow::{EventKind, Ticket, TicketId, Time};
use store::{Cursor, EventBody, EventQuery, Job, JobId, JobQuery, Page, StoredEvent, TicketQuery};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::operations::{App, overview};

/// Numbers of tickets and events that are read at once. A cancelled request loses at most that much
/// work.
const TICKETS_AT_ONCE: u32 = 500;
const EVENTS_AT_ONCE: u32 = 2000;
/// Time for which an ended ticket is remembered, because its last events may be read late.
const ENDED_KEPT_FOR: Duration = Duration::from_secs(600);
/// Maximum number of queues with a histogram of their own.
/// A label of Prometheus costs memory at both ends.
const QUEUES_MAX: usize = 100;

/// Sums that are shared by all requests for metrics.
#[derive(Debug, Default)]
pub struct MetricSums {
    sums: Mutex<SumsState>,
}

/// Current values of all sums.
#[derive(Clone, Debug, Default)]
pub struct MetricValues {
    pub quality: QualityMetrics,
    /// Time from ready to start, by queue, since the first request to this server.
    pub waits: BTreeMap<String, DurationHistogram>,
}

#[derive(Debug, Default)]
struct SumsState {
    position: Option<LogPosition>,
    /// Sum over ended tickets, which do not change any more.
    ended: QualityMetrics,
    /// Values of the other tickets, if there is anything to count.
    live: HashMap<TicketId, QualityMetrics>,
    /// Versions of ended tickets; see [`ENDED_KEPT_FOR`].
    counted: HashMap<TicketId, (u64, Instant)>,
    waits: BTreeMap<String, DurationHistogram>,
}

#[derive(Clone, Copy, Debug)]
struct LogPosition {
    /// Position from which the log is read.
    after: Cursor,
    scan: InitialScan,
}

/// Progress of the first scan of all tickets.
#[derive(Clone, Copy, Debug)]
enum InitialScan {
    InProgress { after: Option<i64> },
    Done,
}

/// Contents of a page of the log.
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
    Task(JobId),
}

impl MetricSums {
    /// Reads everything new and returns the values.
    pub async fn current_values(&self, app: &App) -> Result<MetricValues, Failure> {
        // Two scrapes at once: the second waits and reads what is left.
        let mut sums = self.sums.lock().await;
        while sums.read_more(app).await? {}
        Ok(sums.values())
    }
}

impl SumsState {
    /// Reads one batch; returns false if it was the last. A batch is counted without an await in
    /// between, so that a cancelled request leaves no half-counted batch.
    async fn read_more(&mut self, app: &App) -> Result<bool, Failure> {
        let position = match self.position {
            Some(position) => position,
            None => LogPosition {
                // Taken before the scan, so that an event during the scan is read again from the
                // log. Counting a ticket twice replaces its value.
                after: overview::latest_cursor(app).await?,
                scan: InitialScan::InProgress { after: None },
            },
        };
        match position.scan {
            InitialScan::InProgress { after } => self.scan_tickets(app, position, after).await,
            InitialScan::Done => self.read_log(app, position.after).await,
        }
    }

    async fn scan_tickets(
        &mut self,
        app: &App,
        position: LogPosition,
        after: Option<i64>,
    ) -> Result<bool, Failure> {
        let store = &app.coordinator.store;
        let page = Page {
            after,
            most: TICKETS_AT_ONCE,
        };
        let rows = store.tickets(&TicketQuery::default(), &page).await?;
        let ids = rows.items.into_iter().map(|row| row.id);
        let tickets = load_tickets(app, ids).await?;
        for ticket in &tickets {
            self.count(ticket);
        }
        let scan = match rows.next {
            Some(next) => InitialScan::InProgress { after: Some(next) },
            None => InitialScan::Done,
        };
        self.position = Some(LogPosition { scan, ..position });
        Ok(true)
    }

    async fn read_log(&mut self, app: &App, after: Cursor) -> Result<bool, Failure> {
        let query = EventQuery {
            ticket: None,
            after,
            most: EVENTS_AT_ONCE,
            ..EventQuery::default()
        };
        let events = app.coordinator.store.events(&query).await?;
        // A full page means that there may be more.
        let is_all = events.len() < usize::try_from(EVENTS_AT_ONCE).unwrap_or(usize::MAX);
        let batch = self.collect_batch(events);
        let tickets = load_tickets(app, batch.tickets).await?;
        let waits = waits(app, batch.claims).await?;
        for ticket in &tickets {
            self.count(ticket);
        }
        for (queue, ms) in waits {
            if self.waits.len() < QUEUES_MAX || self.waits.contains_key(&queue) {
                self.waits
                    .entry(queue)
                    .or_default()
                    .count(ms, WAIT_BUCKETS_MS);
            }
        }
        self.position = Some(LogPosition {
            after: batch.end.unwrap_or(after),
            scan: InitialScan::Done,
        });
        self.counted
            .retain(|_, (_, at)| at.elapsed() < ENDED_KEPT_FOR);
        Ok(!is_all)
    }

    fn collect_batch(&self, events: Vec<StoredEvent>) -> LogBatch {
        let mut batch = LogBatch::default();
        for event in events {
            batch.end = Some(event.cursor);
            if let Some(of) = claimed_work(&event) {
                batch.claims.push(ClaimEvent { at: event.at, of });
            }
            let (Some(id), Some(version)) = (event.ticket, event.version) else {
                continue;
            };
            let counted_version = self.counted.get(&id);
            // An event that the scan has already seen brings nothing new.
            if counted_version.is_none_or(|(counted, _)| *counted < version) {
                batch.tickets.insert(id);
            }
        }
        batch
    }

    fn count(&mut self, ticket: &Ticket) {
        let quality = QualityMetrics::from_ticket(ticket);
        if ticket.stage.is_terminal() {
            self.live.remove(&ticket.id);
            let version = (ticket.version, Instant::now());
            // Added once, also if several events of the end are read.
            if self.counted.insert(ticket.id.clone(), version).is_none() {
                self.ended.add(&quality);
            }
        // Tickets without any number would fill the map.
        } else if quality == QualityMetrics::default() {
            self.live.remove(&ticket.id);
        } else {
            self.live.insert(ticket.id.clone(), quality);
        }
    }

    fn values(&self) -> MetricValues {
        let mut quality = self.ended.clone();
        self.live.values().for_each(|metrics| quality.add(metrics));
        MetricValues {
            quality,
            waits: self.waits.clone(),
        }
    }
}

fn claimed_work(event: &StoredEvent) -> Option<ClaimedWork> {
    match &event.body {
        EventBody::Decided(decided) => {
            let EventKind::Started { lease } = decided.what else {
                return None;
            };
            Some(ClaimedWork::Ticket(event.ticket.clone()?, lease))
        }
        EventBody::Noted(body) => {
            let job = body.get("job").filter(|_| event.name == "job_claimed")?;
            Some(ClaimedWork::Task(JobId(job.as_i64()?)))
        }
    }
}

/// Loads tickets in their current state, without those that retention has removed.
async fn load_tickets(
    app: &App,
    ids: impl IntoIterator<Item = TicketId>,
) -> Result<Vec<Ticket>, Failure> {
    let mut tickets = Vec::new();
    for id in ids {
        let stored = app.coordinator.store.ticket(&id).await?;
        tickets.extend(stored.map(|stored| stored.ticket));
    }
    Ok(tickets)
}

/// Returns the waiting time of each claimed job, with its queue. A job that has gone back to its
/// queue since then is left out, because its ready time is lost.
async fn waits(app: &App, claims: Vec<ClaimEvent>) -> Result<Vec<(String, u64)>, Failure> {
    let mut times = Vec::new();
    for claim in claims {
        let Some(job) = job_of(app, &claim.of).await? else {
            continue;
        };
        let ready = job.created_at.0.max(job.not_before.0);
        // A ready time after the claim means that the job went back. Clocks of two machines may
        // differ a little.
        let later = ready > claim.at.0 + CLOCKS_DIFFER_MS;
        if !later {
            let ms = u64::try_from(claim.at.0 - ready).unwrap_or_default();
            times.push((job.queue.into(), ms));
        }
    }
    Ok(times)
}

/// Tolerated clock difference between two machines that synchronise their clocks.
const CLOCKS_DIFFER_MS: i64 = 1000;

async fn job_of(app: &App, work: &ClaimedWork) -> Result<Option<Job>, Failure> {
    let store = &app.coordinator.store;
    let (id, lease) = match work {
        ClaimedWork::Task(job) => return Ok(store.job(*job).await?),
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
