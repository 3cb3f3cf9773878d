//! The coordinator of a process that has the store. It reads the ticket, lets `flow` decide, and
//! writes the decision in one transaction. If another process was faster, it starts over. It knows
//! no stage.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flow::event::{FindingReport, Lease, ReportedOutcome};
use flow::narrate::narrate;
use flow::ticket::Spec;
use flow::{Actor, Effect, Event, EventKind, Policy, Refused, Step, Task, Ticket, TicketId, Time};
use serde_json::{Value, json};
use store::{
    Agent, Change, CommitOutcome, FinishedTask, JobId, JobState, JobWork, Leased, Noted, Pause,
    StatementKind, Store, Stored, StoredBundle, TaskOutcome, Token,
};

use super::{
    Coordinator, Error, JobRequest, Offer, Once, ProgressListener, ProgressUpdate, Report,
    RunToken, TaskReport, Upload,
};
use crate::git::without_secret;
use crate::log::LogErr;
use crate::rate_limit::RateLimiter;

/// Maximum number of attempts at a decision when other processes keep changing the ticket.
pub(super) const ATTEMPTS_MAX: u32 = 32;
/// Maximum number of statements read per claim.
const STATEMENTS_MAX: u32 = 50;

#[derive(Clone, Debug)]
pub struct LocalCoordinator {
    pub store: Arc<dyn Store>,
    pub clock: fn() -> Time,
    /// Receives progress as it is decided, if there is a listener.
    pub listener: Option<Arc<dyn ProgressListener>>,
    /// Limits the refusals that are logged per agent: a loop of bad reports must not fill the log.
    pub refusals: Arc<RateLimiter>,
}

impl LocalCoordinator {
    pub async fn ticket(&self, id: &TicketId) -> Result<Stored, Error> {
        self.store
            .ticket(id)
            .await?
            .ok_or_else(|| Error::NoSuchTicket(id.clone()))
    }

    /// Returns the policy of the ticket's last decision.
    pub async fn policy_of(&self, stored: &Stored) -> Result<Policy, Error> {
        Ok(self.store.policy(&stored.policy).await?.unwrap_or_default())
    }

    /// Creates a ticket, with the current state of its dependencies.
    pub async fn open(
        &self,
        id: &TicketId,
        mut spec: Spec,
        policy: &Policy,
        (by, once): (Actor, Option<Once>),
    ) -> Result<Ticket, Error> {
        // Everyone who can read the log can read the context of a ticket.
        let remote = spec.context.remote.take();
        spec.context.remote = remote.map(|address| without_secret(&address));
        let (spec, by) = (spec.cleaned(), by.cleaned());
        for _ in 0..ATTEMPTS_MAX {
            let (what, reads) = self.created(id, &spec).await?;
            let event = Event {
                at: (self.clock)(),
                by: by.clone(),
                expects: None,
                what,
            };
            let step = flow::open_ticket(id, &event, policy)?;
            let change = Change {
                reads,
                remember: once
                    .as_ref()
                    .map(|once| once.remember(&step.ticket, policy)),
                ..change(step, None, event, policy)
            };
            match self.store.commit(change.clone()).await {
                Ok(_) => {
                    self.notify_listener(None, &change.event, &change.ticket, policy);
                    return Ok(change.ticket);
                }
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooBusy(id.clone()))
    }

    /// Builds the first event with the state of the dependencies, and returns their versions as
    /// read.
    async fn created(
        &self,
        id: &TicketId,
        spec: &Spec,
    ) -> Result<(EventKind, Vec<(TicketId, u64)>), Error> {
        let (mut met, mut failed, mut reads) = (BTreeSet::new(), Vec::new(), Vec::new());
        for dependency in spec
            .depends_on
            .iter()
            .filter(|dependency| *dependency != id)
        {
            let Some(stored) = self.store.ticket(dependency).await? else {
                let (ticket, dependency) = (id.clone(), dependency.clone());
                return Err(Error::NoSuchDependency { ticket, dependency });
            };
            reads.push((dependency.clone(), stored.ticket.version));
            let policy = self.policy_of(&stored).await?;
            match stored.ticket.as_dependency(&policy) {
                Some(Ok(())) => {
                    met.insert(dependency.clone());
                }
                Some(Err(why)) => failed.push((dependency.clone(), why)),
                None => {}
            }
        }
        Ok((
            EventKind::Created {
                spec: Box::new(spec.clone()),
                met,
                failed,
            },
            reads,
        ))
    }

    /// Lets `flow` decide on a report and writes the decision.
    pub async fn decide(
        &self,
        id: &TicketId,
        policy: &Policy,
        mut report: Report,
    ) -> Result<Ticket, Error> {
        report.what = report.what.cleaned();
        report.by = report.by.cleaned();
        // The tickets inside make this future large, so box it for the callers.
        let (ticket, _) = Box::pin(self.decide_until_written(id, policy, report)).await?;
        Ok(ticket)
    }

    /// Decides and writes until no other process changes the ticket in between. Returns the ticket,
    /// and whether dependents have to be notified.
    async fn decide_until_written(
        &self,
        id: &TicketId,
        policy: &Policy,
        report: Report,
    ) -> Result<(Ticket, bool), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.ticket(id).await?;
            let event = Event {
                at: (self.clock)(),
                by: report.by.clone(),
                expects: report.expects,
                what: report.what.clone(),
            };
            let step = match flow::advance(&stored.ticket, &event, policy) {
                Ok(step) => step,
                Err(refused) => return Err(self.refuse(id, &event, refused).await?),
            };
            let has_news = step.effects.iter().any(is_dependency_update);
            let change = Change {
                remember: report.remember(id, &step.ticket, policy),
                artefacts: report.artefacts.clone(),
                ..change(step, Some(stored.ticket.version), event.clone(), policy)
            };
            let ticket = change.ticket.clone();
            match self.store.commit(change).await {
                Ok(CommitOutcome::Written { .. }) => {
                    self.notify_listener(Some(&stored.ticket), &event, &ticket, policy);
                    return Ok((ticket, has_news));
                }
                Ok(CommitOutcome::Again(_)) => return Ok((ticket, false)),
                // The lease may have been prolonged at the same moment: the caller looks again.
                Err(error @ store::Error::Conflict { .. }) if is_about_a_lost_lease(&event) => {
                    return Err(error.into());
                }
                Err(store::Error::Conflict { .. }) => {}
                Err(store::Error::OutcomeUnknown(why)) => {
                    return Ok((self.look_up(id, &report, why).await?, true));
                }
                Err(error @ store::Error::StaleFence { .. }) => {
                    self.note(id, &event, &error.to_string()).await?;
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooBusy(id.clone()))
    }

    fn notify_listener(
        &self,
        before: Option<&Ticket>,
        event: &Event,
        after: &Ticket,
        policy: &Policy,
    ) {
        if let Some(listener) = &self.listener {
            listener.on_update(ProgressUpdate {
                ticket: after.id.clone(),
                story: narrate(before, event, after, policy),
                after: Box::new(after.clone()),
            });
        }
    }

    /// Logs a refusal with its actor and event. Of a flood of refusals only some are logged.
    async fn refuse(&self, id: &TicketId, event: &Event, refused: Refused) -> Result<Error, Error> {
        self.note(id, event, &refused.to_string()).await?;
        Ok(refused.into())
    }

    async fn note(&self, id: &TicketId, event: &Event, why: &str) -> Result<(), Error> {
        if !self.refusals.allow(&event.by.agent) {
            return Ok(());
        }
        let body = json!({"event": event.what.name(), "role": event.by.role, "why": why});
        let noted = Noted {
            at: event.at,
            ticket: Some(id.clone()),
            name: "refused".to_owned(),
            by: event.by.agent.clone(),
            body,
        };
        Ok(self.store.note(noted).await?)
    }

    /// Adds the findings that the builder disputed earlier under the same claim. The report itself
    /// takes precedence.
    async fn with_disputes(&self, ticket: &TicketId, what: EventKind) -> Result<EventKind, Error> {
        let EventKind::Submitted {
            lease,
            submission,
            mut reports,
            session,
            usage,
        } = what
        else {
            return Ok(what);
        };
        for (finding, note) in self.disputes(ticket, lease).await? {
            if reports.iter().all(|one| one.finding != finding) {
                reports.push(FindingReport {
                    finding,
                    outcome: ReportedOutcome::Disputed,
                    note,
                });
            }
        }
        Ok(EventKind::Submitted {
            lease,
            submission,
            reports,
            session,
            usage,
        })
    }

    /// Returns the findings disputed under a lease, each with the builder's reason.
    async fn disputes(
        &self,
        ticket: &TicketId,
        lease: Lease,
    ) -> Result<Vec<(String, String)>, Error> {
        let statements = self.store.statements(ticket, lease, STATEMENTS_MAX);
        let statements = statements.await?.into_iter();
        let disputes = statements.filter_map(|statement| match statement.kind {
            StatementKind::Dispute { finding } => Some((finding, statement.text)),
            StatementKind::Approved | StatementKind::ChangesRequested => None,
        });
        Ok(disputes.collect())
    }

    /// Returns the ticket if this same report was accepted before. A worker that lost the answer
    /// sends the report again, after its lease has ended with the first one.
    pub async fn ticket_if_taken(
        &self,
        id: &TicketId,
        report: Report,
    ) -> Result<Option<Ticket>, Error> {
        let report = self.prepared(id, report).await?;
        if !self.was_taken(id, &report).await? {
            return Ok(None);
        }
        Ok(Some(self.ticket(id).await?.ticket))
    }

    /// Returns the report in the form that is decided on and remembered.
    async fn prepared(&self, id: &TicketId, report: Report) -> Result<Report, Error> {
        Ok(Report {
            what: self.with_disputes(id, report.what.cleaned()).await?,
            by: report.by.cleaned(),
            ..report
        })
    }

    /// Returns whether this same report was accepted before.
    async fn was_taken(&self, id: &TicketId, report: &Report) -> Result<bool, Error> {
        let Some((key, payload_hash)) = report.fingerprint(id) else {
            return Ok(false);
        };
        let first = self.store.recall(&key).await?;
        Ok(first.is_some_and(|first| first.payload_hash == payload_hash))
    }

    /// Handles a commit whose answer was lost: the key of the report shows whether it was written.
    async fn look_up(&self, id: &TicketId, report: &Report, why: String) -> Result<Ticket, Error> {
        if let Some(key) = report.key(id)
            && self.store.recall(&key).await?.is_some()
        {
            return Ok(self.ticket(id).await?.ticket);
        }
        Err(store::Error::OutcomeUnknown(why).into())
    }
}

#[async_trait]
impl Coordinator for LocalCoordinator {
    async fn wait(&self, request: &JobRequest, most: Duration) -> Result<Vec<Offer>, Error> {
        self.wait_for_offers(request, most).await
    }

    async fn claim(&self, request: &JobRequest) -> Result<Vec<Leased>, Error> {
        self.claim_jobs(request).await
    }

    async fn renew(&self, job: JobId, fence: u64, extend: Option<Duration>) -> Result<(), Error> {
        if let Some(lease) = extend {
            self.store.renew(job, fence, lease).await?;
            return Ok(());
        }
        let leased = self.store.job(job).await?;
        let current = leased.as_ref().map_or(0, |leased| leased.fence);
        if leased.is_some_and(|leased| leased.state == JobState::Leased && leased.fence == fence) {
            return Ok(());
        }
        let job = job.0.to_string();
        let given = fence;
        Err(store::Error::StaleFence {
            job,
            given,
            current,
        }
        .into())
    }

    async fn report(
        &self,
        ticket: &TicketId,
        policy: &Policy,
        report: Report,
    ) -> Result<Ticket, Error> {
        let report = self.prepared(ticket, report).await?;
        let decided = Box::pin(self.decide_until_written(ticket, policy, report.clone())).await;
        let (ticket, has_news) = match decided {
            // A repeated report whose answer was lost gets the first answer.
            Err(error) if error.refusal().is_some() && self.was_taken(ticket, &report).await? => {
                return Ok(self.ticket(ticket).await?.ticket);
            }
            decided => decided?,
        };
        if has_news {
            // The decision stands. An update that fails now stays queued, and the process that
            // takes back expired leases delivers it.
            let notified = self.notify_dependents().await;
            notified.log_err("notify dependent tickets");
        }
        Ok(ticket)
    }

    async fn finish(&self, report: TaskReport) -> Result<(), Error> {
        let stored = self.store.job(report.job).await?;
        let (task, queue) = match stored.map(|job| (job.work, job.queue)) {
            Some((JobWork::Free { body, .. }, queue)) => (body["id"].clone(), Some(queue)),
            Some((JobWork::Task(_), queue)) => (Value::Null, Some(queue)),
            None => (Value::Null, None),
        };
        let TaskReport {
            job, fence, run, ..
        } = report;
        let noted = |name: &str, body: Value| Noted {
            at: (self.clock)(),
            ticket: None,
            name: name.to_owned(),
            by: report.by.clone(),
            body,
        };
        if report.usage != flow::Usage::default() {
            let body = json!({"task": task, "queue": queue, "usage": report.usage,
                "job": job, "fence": fence, "run": run});
            // The cost of a run counts once, however often and by whichever worker it is reported.
            let key = format!("task/{}/{run}", job.0);
            let noted = noted("task_ran", body);
            self.store.spend(&key, noted, report.usage).await?;
        }
        let is_result = matches!(report.outcome, TaskOutcome::Done { .. });
        let ended = FinishedTask {
            job,
            fence,
            outcome: report.outcome,
        };
        match self.store.finish(vec![ended], None).await {
            Ok(_) => Ok(()),
            Err(error @ store::Error::StaleFence { .. }) => {
                if is_result {
                    let body = json!({"task": task, "why": error.to_string()});
                    self.store.note(noted("refused", body)).await?;
                }
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn ticket(&self, id: &TicketId) -> Result<Option<Ticket>, Error> {
        Ok(self.store.ticket(id).await?.map(|stored| stored.ticket))
    }

    async fn upload(&self, upload: Upload) -> Result<(), Error> {
        match upload {
            Upload::Bundle(bundle) => self.store.put_bundle(bundle).await?,
            Upload::Note { noted, .. } => self.store.note(noted).await?,
        }
        Ok(())
    }

    async fn download(&self, key: &str) -> Result<Option<StoredBundle>, Error> {
        // A base branch moves, so the newest bundle is requested each time; a commit never changes.
        if !key.starts_with("base:") {
            let bundle = self.store.bundle(key).await?;
            if bundle.as_ref().is_some_and(|bundle| bundle.bytes.is_some()) {
                return Ok(bundle);
            }
        }
        self.store.want_bundle(key).await?;
        Ok(self.store.bundle(key).await?)
    }

    async fn run_token(&self, change: RunToken) -> Result<bool, Error> {
        let (name, token) = match change {
            RunToken::Issue { token, server } => {
                let is_known = match &token.ticket {
                    // A task is not stored as a ticket, so its agent has no reason to call a
                    // server.
                    Some(id) => self.store.ticket(id).await?.is_some(),
                    None => false,
                };
                let server = self.store.token(&server).await?;
                if !is_known || server.is_none_or(|server| server.revoked_at.is_some()) {
                    return Ok(false);
                }
                self.store.put_token((*token).clone()).await?;
                ("token_created", token)
            }
            RunToken::Revoke { token } => {
                if !self.store.revoke(&token.id, (self.clock)()).await? {
                    return Ok(false);
                }
                ("token_revoked", token)
            }
        };
        self.store
            .note(noted_of_token(name, &token, (self.clock)()))
            .await?;
        Ok(true)
    }

    async fn pause_provider(&self, pause: Pause) -> Result<(), Error> {
        let pauses = self.store.pauses().await?;
        let same = pauses.iter().find(|other| other.scope == pause.scope);
        // The time comes from an agent: it must not end a person's pause, or a longer one.
        let is_longer = |other: &Pause| match (other.until, pause.until) {
            (None, _) => true,
            (Some(end), Some(until)) => end >= until,
            (Some(_), None) => false,
        };
        if same.is_some_and(is_longer) {
            return Ok(());
        }
        Ok(self.store.pause(pause).await?)
    }

    async fn heartbeat(&self, agent: Agent) -> Result<(), Error> {
        Ok(self.store.beat(agent).await?)
    }

    async fn now(&self) -> Result<Time, Error> {
        Ok(self.store.now().await?)
    }
}

/// Builds the log entry of a token that was created or revoked.
pub fn noted_of_token(name: &str, token: &Token, at: Time) -> Noted {
    let (job, fence) = token.lease.map(|lease| (lease.serial, lease.fence)).unzip();
    Noted {
        at,
        ticket: token.ticket.clone(),
        name: name.to_owned(),
        by: token.created_by.clone(),
        body: json!({"token": token.id, "agent": token.agent, "role": token.role,
            "job": job, "try": fence}),
    }
}

fn is_dependency_update(effect: &Effect) -> bool {
    matches!(effect, Effect::Enqueue(job) if matches!(job.task, Task::Tell { .. }))
}

fn change(step: Step, was: Option<u64>, event: Event, policy: &Policy) -> Change {
    Change {
        ticket: step.ticket,
        base_version: was,
        event,
        policy: policy.clone(),
        effects: step.effects,
        reads: Vec::new(),
        remember: None,
        artefacts: Vec::new(),
        queue_max: None,
        then: None,
    }
}

fn is_about_a_lost_lease(event: &Event) -> bool {
    matches!(event.what, EventKind::LeaseLost { .. })
}
