//! Works on the news of forges and trackers: looks at changes and issues, obeys commands, reviews
//! pull requests without a ticket, makes tickets of issues, and writes their state back.
//!
//! All work is in the durable queue, so a killed server continues where it stopped, and any number
//! of servers share it.

mod commands;
mod intake;
mod look;
mod reviews;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use flow::{Actor, Queue, Role};
use serde_json::json;
use store::{FinishedTask, Leased, TaskOutcome};
use tokio::sync::Mutex;

use super::App;
use super::connections::{LinkedForge, connect_link};
use super::event_feed::EventFeed;
use super::forge_work::{ForgeJob, ForgeTask, NEWS_QUEUE, REVIEW_QUEUE, queue_once};
use super::overview;
use crate::failure::{ExitKind, Failure};
use crate::settings::connections::ForgeLink;

/// Lease of a job. It is renewed while the job runs.
const LEASE: Duration = Duration::from_secs(90);
const RENEW_INTERVAL: Duration = Duration::from_secs(25);
/// Number of news that are claimed at once. Those of one place are worked on together.
const BATCH: u32 = 32;
/// Fallback interval in case a wake-up is lost.
const WAIT: Duration = Duration::from_secs(30);
/// Pause after an error of the store.
const ERROR_DELAY: Duration = Duration::from_secs(2);
/// Wait before a job is tried again; it doubles with each attempt.
const RETRY_MS: u64 = 5_000;
/// Wait of a job that cannot go on yet, because of a limit of the forge or an open dependency.
const LATER_MS: u64 = 60_000;
/// Name of the reader of the event log that reports to issues, and its lease.
const FEED: &str = "forge-issues";
const FEED_LEASE: Duration = Duration::from_secs(30);

/// Name of the actor for everything that no person has asked for.
const ACTOR: &str = "forge";

/// Result of a piece of work that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Done,
    /// The work cannot go on yet, and nothing failed.
    Later,
}

/// Everything that the handlers share.
#[derive(Debug)]
pub struct ForgeInbox {
    app: App,
    links: Arc<Vec<ForgeLink>>,
    /// Clients, by the name of the connection. A client keeps its connections open.
    clients: Mutex<BTreeMap<String, Arc<LinkedForge>>>,
    stop: StopSignal,
}

impl ForgeInbox {
    pub fn new(app: &App, links: Arc<Vec<ForgeLink>>, stop: StopSignal) -> Arc<Self> {
        Arc::new(Self {
            app: app.acting_as(Actor::new(ACTOR, Role::Service)),
            links,
            clients: Mutex::default(),
            stop,
        })
    }

    pub fn app(&self) -> &App {
        &self.app
    }

    /// Returns the client of a connection.
    pub async fn client(&self, name: &str) -> Result<Arc<LinkedForge>, Failure> {
        let mut clients = self.clients.lock().await;
        if let Some(client) = clients.get(name) {
            return Ok(Arc::clone(client));
        }
        let link = self.links.iter().find(|link| link.name() == name);
        let link = link.ok_or_else(|| {
            Failure::usage(format!("the configuration has no connection {name:?}"))
        })?;
        let client = Arc::new(connect_link(&self.app, link).await?);
        clients.insert(name.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    /// Works until the stop signal.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(
            self.serve_queue(NEWS_QUEUE, BATCH),
            // One review at a time: each starts agents, which cost money and memory.
            self.serve_queue(REVIEW_QUEUE, 1),
            self.follow_tickets(),
        );
    }

    async fn serve_queue(&self, name: &str, most: u32) {
        let queue = Queue::from(name);
        let mut stop = self.stop.clone();
        while !stop.is_requested() {
            let worked = self.work_once(&queue, most).await;
            match worked.log_err("claim news of forges") {
                Some(true) => {}
                worked => tokio::select! {
                    () = self.app.coordinator.wait_for_system_tasks(&queue, WAIT) => {
                        if worked.is_none() {
                            tokio::time::sleep(ERROR_DELAY).await;
                        }
                    }
                    () = stop.requested() => {}
                },
            }
        }
    }

    /// Claims a batch and works on it; returns false if there is none.
    pub async fn work_once(&self, queue: &Queue, most: u32) -> Result<bool, Failure> {
        let coordinator = &self.app.coordinator;
        let jobs = coordinator.claim_system_tasks(queue, most, LEASE).await?;
        let has_some = !jobs.is_empty();
        if has_some {
            self.work_on(jobs).await;
        }
        Ok(has_some)
    }

    /// Works on a batch. Jobs with the same task are done together, because each reads the state.
    async fn work_on(&self, jobs: Vec<Leased>) {
        let mut groups: Vec<(Option<ForgeJob>, Vec<Leased>)> = Vec::new();
        for job in jobs {
            let work = ForgeJob::read(&job.work);
            match groups
                .iter_mut()
                .find(|(known, _)| work.is_some() && *known == work)
            {
                Some((_, group)) => group.push(job),
                None => groups.push((work, vec![job])),
            }
        }
        // The others wait under their lease, so it has to be renewed for all of them.
        let mut waiting: Vec<Leased> = groups.iter().flat_map(|(_, group)| group.clone()).collect();
        for (work, group) in groups {
            let done = async {
                match &work {
                    Some(work) => Box::pin(self.perform(work)).await,
                    None => Err(Failure::usage("the job is of another version")),
                }
            };
            let done = self.renewing(&waiting, done).await;
            waiting.retain(|job| !group.iter().any(|one| one.id == job.id));
            let Some(done) = done else {
                // Stopped: the jobs go back at once.
                for job in group.iter().chain(&waiting) {
                    let released = self.app.coordinator.store.release(job.id, job.fence).await;
                    released.log_err("give a job back");
                }
                return;
            };
            self.finish(&group, done).await;
        }
    }

    /// Renews the leases while the work runs. `None` if the server stops.
    async fn renewing<T>(&self, jobs: &[Leased], work: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                () = stop.requested() => return None,
                () = tokio::time::sleep(RENEW_INTERVAL) => {
                    for job in jobs {
                        let renewed = self.app.coordinator.store.renew(job.id, job.fence, LEASE);
                        renewed.await.log_err("renew the lease of a job");
                    }
                }
            }
        }
    }

    async fn perform(&self, job: &ForgeJob) -> Result<Progress, Failure> {
        let client = self.client(&job.connection).await?;
        match &job.task {
            ForgeTask::Look(subject) => self.look(&client, subject).await,
            ForgeTask::Command(command) => self.obey(&client, command).await,
            ForgeTask::Review { number, head } => self.review(&client, *number, head).await,
            ForgeTask::TakeIn { key } => self.take_in(&client, key).await,
            ForgeTask::ReportIssue { ticket } => self.report_issue(&client, ticket).await,
        }
    }

    async fn finish(&self, jobs: &[Leased], done: Result<Progress, Failure>) {
        let now = self.app.now();
        for job in jobs {
            let outcome = match &done {
                Ok(Progress::Done) => TaskOutcome::Done {
                    result: json!({"by": ACTOR}),
                },
                Ok(Progress::Later) => TaskOutcome::Retry {
                    error: "waits for the issues that it depends on".to_owned(),
                    not_before: now.plus_ms(LATER_MS),
                    counts: false,
                },
                Err(failure) => retry(failure, job, now),
            };
            let ended = vec![FinishedTask {
                job: job.id,
                fence: job.fence,
                outcome,
            }];
            let finished = self.app.coordinator.store.finish(ended, None).await;
            finished.log_err("finish a job");
        }
        done.log_err("work on a job of a forge");
    }

    /// Follows the event log, and queues a report to the issue of each ticket that changed.
    async fn follow_tickets(&self) {
        let mut stop = self.stop.clone();
        while !stop.is_requested() {
            let followed = self.follow_until_lost().await;
            followed.log_err("follow the tickets of issues");
            tokio::select! {
                () = tokio::time::sleep(ERROR_DELAY) => {}
                () = stop.requested() => {}
            }
        }
    }

    async fn follow_until_lost(&self) -> Result<(), Failure> {
        let newest = overview::latest_cursor(&self.app).await?;
        let opened = EventFeed::open(&self.app, FEED, newest, FEED_LEASE).await?;
        let Some(mut feed) = opened else {
            return Ok(());
        };
        let mut stop = self.stop.clone();
        loop {
            let Some(page) = feed.next_page().await? else {
                tokio::select! {
                    () = feed.wait_for_events(FEED_LEASE / 3) => {
                        if !feed.renew().await? {
                            return Ok(());
                        }
                    }
                    () = stop.requested() => {
                        feed.release().await;
                        return Ok(());
                    }
                }
                continue;
            };
            let mut tickets: Vec<_> = page
                .lines
                .iter()
                .filter_map(|line| line.ticket.clone())
                .collect();
            tickets.sort_unstable();
            tickets.dedup();
            for id in tickets {
                self.queue_issue_report(id.as_str()).await?;
            }
            if !feed.advance_to(page.end).await? {
                return Ok(());
            }
        }
    }

    async fn queue_issue_report(&self, ticket: &str) -> Result<(), Failure> {
        let stored = match self.app.ticket(ticket).await {
            Ok(stored) => stored,
            // It was removed in the meantime.
            Err(failure) if failure.not_found => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let Some(connection) = self.issue_of(&stored.ticket).map(|(link, _)| link.name()) else {
            return Ok(());
        };
        let task = ForgeTask::ReportIssue {
            ticket: ticket.to_owned(),
        };
        let key = format!("issue-of/{ticket}/{}", stored.ticket.version);
        queue_once(&self.app, &key, &ForgeJob::new(connection, task)).await?;
        Ok(())
    }

    /// Returns the connection and the key of a ticket's issue: the one that it was made of, or the
    /// key of a tracker that it names.
    fn issue_of(&self, ticket: &flow::Ticket) -> Option<(&ForgeLink, String)> {
        let context = &ticket.spec.context;
        let found = match (&context.issue, &context.jira_key) {
            (Some(issue), _) => {
                let link = self
                    .links
                    .iter()
                    .find(|link| link.name() == issue.connection);
                (link?, issue.key.clone())
            }
            (None, Some(key)) => {
                let project = key.rsplit_once('-')?.0;
                let mut trackers = self.links.iter().filter(|link| link.is_tracker());
                (trackers.find(|link| link.is_for(project))?, key.clone())
            }
            (None, None) => return None,
        };
        found.0.section.report.then_some(found)
    }

    /// Adds an entry to the event log.
    async fn note(&self, name: &str, body: serde_json::Value) {
        let noted = self.app.note(name, body).await;
        noted.log_err("record a job of a forge");
    }
}

/// Decides when a job that failed is tried again.
fn retry(failure: &Failure, job: &Leased, now: flow::Time) -> TaskOutcome {
    let error = findings::one_line(&failure.message);
    match failure.exit {
        // A limit of the forge, or the store: the job has not failed.
        ExitKind::Waiting | ExitKind::Store | ExitKind::Interrupted => TaskOutcome::Retry {
            error,
            not_before: now.plus_ms(LATER_MS),
            counts: false,
        },
        _ => TaskOutcome::Retry {
            error,
            not_before: now.plus_ms(RETRY_MS << job.attempts.min(8)),
            counts: true,
        },
    }
}
