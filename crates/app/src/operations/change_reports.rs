//! Pull requests of tickets: orders a look at one, and brings it to the state of its ticket.
//!
//! A report job is an effect of every event that the pull request shows. It reads the change on the
//! forge, reports what it sees to the ticket, and then writes what is missing there. Everything can
//! be repeated; the verdict of a ticket never waits for a forge. A process without a connection to
//! the forge leaves the job to another.

mod branch;
mod feedback;
mod look;
mod memory;
mod texts;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use engine::project::Project;
use flow::policy::Land;
use flow::{EventKind, Queue, Ticket, TicketId};
use forge::ForgePermission;
use serde_json::json;
use store::{JobQuery, Leased, Noted, Page, TaskOutcome};
use tokio::time::Instant;

use super::forge_connection::{connect_forge, forge_failure};
use super::{App, project, run};
use crate::failure::Failure;
pub use look::LookError;
use look::{Look, LookOutcome};

/// Longest look. It is shorter than the lease, so that two processes never look at once.
const LOOK_TIMEOUT: Duration = Duration::from_secs(540);
/// Fallback poll interval in case a wake-up is lost.
const POLL: Duration = Duration::from_secs(5);
/// Time for which a ticket is left alone that cannot be reported here.
const SKIP_FOR: Duration = Duration::from_secs(60);
/// Most tickets that are remembered as skipped.
const SKIPPED_MAX: usize = 1000;
/// Longest time between two tries of a report that failed.
const RETRY_MS_MAX: u64 = 600_000;
/// Longest wait of `run` for machines of the forge, over one approval.
const RUN_WAIT: Duration = Duration::from_secs(3600);
/// Tries of a failing report for which `run` waits.
const RUN_TRIES_MAX: u32 = 3;

/// Orders a look at the pull request of a ticket. A look that is ordered already is enough: it reads
/// the state of the forge when it runs.
pub async fn queue_report(app: &App, ticket: &str, why: &str) -> Result<Ticket, Failure> {
    let stored = app.ticket(ticket).await?;
    let query = JobQuery {
        queue: Some(Queue::Report),
        ticket: Some(stored.ticket.id.clone()),
        claimable: true,
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: 1,
    };
    let ready = app.coordinator.store.jobs(&query, &page).await?;
    if !ready.items.is_empty() {
        return Ok(stored.ticket);
    }
    let policy = app.coordinator.policy_of(&stored).await?;
    let why = findings::shorten(&findings::one_line(why), 200);
    let report = app.report(EventKind::ReportRequested { why });
    let id = &stored.ticket.id;
    Ok(app.coordinator.decide(id, &policy, report).await?)
}

/// Fails if tickets of this repository cannot become pull requests, before an agent is paid.
pub async fn require_forge(app: &App, project: &Project) -> Result<(), Failure> {
    if project.config.policy.land != Land::Pr {
        return Ok(());
    }
    let connected = connect_forge(app, &project.git, &Arc::default()).await?;
    connected.git_remote().await?;
    let account = connected.forge.whoami().await.map_err(forge_failure)?;
    if let Some(obstacle) = &account.obstacle {
        return Err(Failure::usage(format!(
            "land = \"pr\" cannot write to {}: {obstacle}",
            connected.repository.location.repository
        ))
        .hint("or leave the proven branch where it is: --land branch"));
    }
    if account.permission < ForgePermission::Write {
        return Err(Failure::usage(format!(
            "land = \"pr\" needs an account that may write to {}; {} may not",
            connected.repository.location.repository,
            findings::one_line(&account.login)
        ))
        .hint("see what is missing: countersign doctor --forge"));
    }
    Ok(())
}

/// Makes reports of pull requests, and remembers which tickets it has to leave to others.
#[derive(Debug)]
pub struct ReportRunner<'a> {
    app: &'a App,
    /// The only ticket that is reported, for `run`.
    only: Option<TicketId>,
    skipped: BTreeMap<TicketId, Instant>,
}

impl<'a> ReportRunner<'a> {
    pub fn new(app: &'a App, only: Option<TicketId>) -> Self {
        Self {
            app,
            only,
            skipped: BTreeMap::new(),
        }
    }

    /// Makes reports until it is stopped. Errors are logged: the store or the forge may be back.
    pub async fn run(&mut self, mut stop: StopSignal) {
        while !stop.is_requested() {
            let pass = tokio::select! {
                // A look that is dropped is made again: each of its steps looks first.
                () = stop.requested() => return,
                pass = Box::pin(self.pass()) => pass,
            };
            let made = pass.log_err("report to the forge").unwrap_or(0);
            if made > 0 {
                continue;
            }
            let waiting = async {
                if self.skipped.is_empty() {
                    self.app.coordinator.wait_for_reports(POLL).await;
                } else {
                    // A skipped job stays ready and would wake us at once.
                    tokio::time::sleep(POLL).await;
                }
            };
            tokio::select! {
                () = stop.requested() => return,
                () = waiting => {}
            }
        }
    }

    /// Makes all due reports once, and returns how many tickets it reported.
    pub async fn pass(&mut self) -> Result<usize, Failure> {
        self.skipped.retain(|_, since| since.elapsed() < SKIP_FOR);
        let due = self.app.coordinator.due_reports(self.only.as_ref()).await?;
        let mut made = 0;
        for id in due {
            if self.skipped.contains_key(&id) {
                continue;
            }
            let prepared = self.prepare(&id).await;
            let Some(look) = prepared.log_err("connect to the forge of a ticket") else {
                if self.skipped.len() < SKIPPED_MAX {
                    self.skipped.insert(id, Instant::now());
                }
                continue;
            };
            let jobs = self.app.coordinator.claim_reports(&id).await?;
            if !jobs.is_empty() {
                made += 1;
                self.make(&look, &jobs).await?;
            }
        }
        Ok(made)
    }

    /// Loads the repository and builds the client of its forge. Nothing is sent.
    async fn prepare(&self, id: &TicketId) -> Result<Look<'a>, Failure> {
        let ticket = self.app.coordinator.ticket(id).await?.ticket;
        let (git, project) = project::open_ticket_repository(self.app, &ticket).await?;
        let connected = connect_forge(self.app, &git, &Arc::default()).await?;
        connected.git_remote().await?;
        Ok(Look {
            app: self.app,
            git,
            project,
            connected,
            id: id.clone(),
        })
    }

    async fn make(&self, look: &Look<'_>, jobs: &[Leased]) -> Result<(), Failure> {
        let looked = tokio::time::timeout(LOOK_TIMEOUT, Box::pin(look.look())).await;
        let looked = match looked {
            Ok(looked) => looked,
            Err(_) => Err(Failure::error("the forge did not answer in nine minutes").into()),
        };
        let again = match looked {
            Ok(LookOutcome::Done) => None,
            Ok(LookOutcome::Again(not_before)) => Some(TaskOutcome::Retry {
                error: String::new(),
                not_before,
                counts: false,
            }),
            Err(error) => Some(self.after_error(look, jobs, &error).await?),
        };
        Ok(self.app.coordinator.finish_reports(jobs, again).await?)
    }

    /// Decides whether a failed report is tried again, and notes the end of one that is not.
    async fn after_error(
        &self,
        look: &Look<'_>,
        jobs: &[Leased],
        error: &LookError,
    ) -> Result<TaskOutcome, Failure> {
        let message = findings::one_line(&error.failure.message);
        let attempts = jobs.iter().map(|job| job.attempts).max().unwrap_or(0);
        let limit = look.project.policy.limits.retries_max;
        if let Some(retry_ms) = error.retry_ms
            && (!error.counts || attempts < limit)
        {
            let factor = 1_u64 << attempts.min(10);
            let wait = if error.counts {
                retry_ms.saturating_mul(factor).min(RETRY_MS_MAX)
            } else {
                retry_ms
            };
            return Ok(TaskOutcome::Retry {
                error: message,
                not_before: self.app.now().plus_ms(wait),
                counts: error.counts,
            });
        }
        let noted = Noted {
            at: self.app.now(),
            ticket: Some(look.id.clone()),
            name: "report_failed".to_owned(),
            by: flow::Actor::system().agent,
            body: json!({"why": message, "hints": error.failure.hints}),
        };
        self.app.coordinator.store.note(noted).await?;
        let ended: Result<(), &Failure> = Err(&error.failure);
        ended.log_err("report to the forge");
        Ok(TaskOutcome::Dead { error: message })
    }
}

/// Works on a ticket until it rests, with its pull request if it lands as one. Processes that an
/// earlier run left behind are ended first.
pub async fn run_until_idle(
    app: &App,
    project: &Arc<Project>,
    id: &TicketId,
    stop: StopSignal,
) -> Result<Ticket, Failure> {
    run::take_over_orphans(project).await?;
    run_ticket(app, project, id, stop).await
}

/// Works on a ticket until only a person, or a machine of the forge for very long, can go on.
pub async fn run_ticket(
    app: &App,
    project: &Arc<Project>,
    id: &TicketId,
    stop: StopSignal,
) -> Result<Ticket, Failure> {
    if project.config.policy.land != Land::Pr {
        return Ok(Box::pin(run::run_ticket(project, id, stop)).await?);
    }
    let ticket = app.coordinator.ticket(id).await?.ticket;
    if ticket.change.is_some() && ticket.rests() && !ticket.stage.is_terminal() {
        // Nobody told us what happened on the forge meanwhile.
        queue_report(app, id.as_str(), "a run of the ticket").await?;
    }
    loop {
        let (stopper, reports_stop) = StopSignal::pair();
        let worked = async {
            let worked = Box::pin(run::run_ticket(project, id, stop.clone())).await;
            stopper.stop();
            worked
        };
        let mut runner = ReportRunner::new(app, Some(id.clone()));
        let (worked, ()) = tokio::join!(worked, Box::pin(runner.run(reports_stop)));
        worked?;
        settle(app, id, stop.clone()).await?;
        let ticket = app.coordinator.ticket(id).await?.ticket;
        if ticket.rests() || stop.is_requested() {
            return Ok(ticket);
        }
    }
}

/// Makes the last reports of a ticket, and waits for machines of the forge that work on it.
async fn settle(app: &App, id: &TicketId, mut stop: StopSignal) -> Result<(), Failure> {
    let mut runner = ReportRunner::new(app, Some(id.clone()));
    let (began, mut failed) = (Instant::now(), 0);
    while !stop.is_requested() && began.elapsed() < RUN_WAIT {
        let passed = tokio::select! {
            () = stop.requested() => return Ok(()),
            passed = Box::pin(runner.pass()) => passed?,
        };
        if !app.coordinator.ticket(id).await?.ticket.rests() {
            return Ok(());
        }
        if passed > 0 {
            continue;
        }
        let Some((due, error)) = app.coordinator.waiting_report(id).await? else {
            return Ok(());
        };
        if error.is_some_and(|error| !error.is_empty()) {
            failed += 1;
            if failed > RUN_TRIES_MAX {
                return Ok(());
            }
        }
        let wait = u64::try_from(due.0.saturating_sub(app.now().0)).unwrap_or(0);
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = tokio::time::sleep(Duration::from_millis(wait.clamp(50, 30_000))) => {}
        }
    }
    Ok(())
}
