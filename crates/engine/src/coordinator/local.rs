//! The coordinator of a process that has the store: reads the ticket, lets `flow` decide, writes the
//! decision whole, and begins again where somebody else was faster. It knows no stage.

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
    Agent, Change, CommitOutcome, FinishedTask, JobId, JobState, JobWork, Leased, Noted, Parcel,
    Pause, StatementKind, Store, Stored, TaskOutcome, Token,
};

use super::{
    Coordinator, Error, JobRequest, Offer, Once, ProgressListener, ProgressUpdate, Report,
    RunToken, TaskReport, Upload,
};
use crate::git::without_secret;
use crate::log::LogErr;
use crate::rate::RateLimiter;

/// How often a decision is made again because somebody else was faster.
pub(super) const ATTEMPTS_MAX: u32 = 32;
/// Statements under one claim that are read.
const STATEMENTS_MAX: u32 = 50;

#[derive(Clone, Debug)]
pub struct LocalCoordinator {
    pub store: Arc<dyn Store>,
    pub clock: fn() -> Time,
    /// Hears the story as it is decided, where somebody listens.
    pub witness: Option<Arc<dyn ProgressListener>>,
    /// How many refusals of one name are noted: a loop of bad reports must not fill the log.
    pub refusals: Arc<RateLimiter>,
}

impl LocalCoordinator {
    pub async fn ticket(&self, id: &TicketId) -> Result<Stored, Error> {
        self.store
            .ticket(id)
            .await?
            .ok_or_else(|| Error::NoSuchTicket(id.clone()))
    }

    /// The policy that the ticket's last decision was made under.
    pub async fn policy_of(&self, stored: &Stored) -> Result<Policy, Error> {
        Ok(self.store.policy(&stored.policy).await?.unwrap_or_default())
    }

    /// Brings a ticket into the world, looking at what it depends on.
    pub async fn open(
        &self,
        id: &TicketId,
        mut spec: Spec,
        policy: &Policy,
        (by, once): (Actor, Option<Once>),
    ) -> Result<Ticket, Error> {
        // Whoever reads the log reads a ticket's context.
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
            let step = flow::open(id, &event, policy)?;
            let change = Change {
                reads,
                remember: once.as_ref().map(|once| once.remember(&step.ticket)),
                ..change(step, None, event, policy)
            };
            match self.store.commit(change.clone()).await {
                Ok(_) => {
                    self.tell(None, &change.event, &change.ticket, policy);
                    return Ok(change.ticket);
                }
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooBusy(id.clone()))
    }

    /// The first event, with what is known of the dependencies, and their versions as read.
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

    /// Lets `flow` decide on a report and writes what it decided.
    pub async fn decide(
        &self,
        id: &TicketId,
        policy: &Policy,
        mut report: Report,
    ) -> Result<Ticket, Error> {
        report.what = report.what.cleaned();
        report.by = report.by.cleaned();
        // Tickets on the way through make the future large; callers should not carry that.
        let (ticket, _) = Box::pin(self.decide_until_written(id, policy, report)).await?;
        Ok(ticket)
    }

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
            let has_news = step.effects.iter().any(is_news);
            let change = Change {
                remember: report.remember(id, &step.ticket),
                artefacts: report.artefacts.clone(),
                ..change(step, Some(stored.ticket.version), event.clone(), policy)
            };
            let ticket = change.ticket.clone();
            match self.store.commit(change).await {
                Ok(CommitOutcome::Written { .. }) => {
                    self.tell(Some(&stored.ticket), &event, &ticket, policy);
                    return Ok((ticket, has_news));
                }
                Ok(CommitOutcome::Again(_)) => return Ok((ticket, false)),
                // The lease may have been prolonged in this instant: whoever asked looks again.
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

    fn tell(&self, before: Option<&Ticket>, event: &Event, after: &Ticket, policy: &Policy) {
        if let Some(witness) = &self.witness {
            witness.hear(ProgressUpdate {
                ticket: after.id.clone(),
                story: narrate(before, event, after, policy),
                after: Box::new(after.clone()),
            });
        }
    }

    /// A refusal is noted in the log, with who tried what; of a flood of them a part.
    async fn refuse(&self, id: &TicketId, event: &Event, refused: Refused) -> Result<Error, Error> {
        self.note(id, event, &refused.to_string()).await?;
        Ok(refused.into())
    }

    async fn note(&self, id: &TicketId, event: &Event, why: &str) -> Result<(), Error> {
        if !self.refusals.admit(&event.by.agent) {
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

    /// Adds what a builder disputed earlier under the same claim; the report has the last word.
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

    /// Findings disputed under a lease, each with the builder's reason.
    async fn disputes(
        &self,
        ticket: &TicketId,
        lease: Lease,
    ) -> Result<Vec<(String, String)>, Error> {
        let said = self.store.statements(ticket, lease, STATEMENTS_MAX);
        let said = said.await?.into_iter();
        let disputes = said.filter_map(|said| match said.kind {
            StatementKind::Dispute { finding } => Some((finding, said.text)),
            StatementKind::Approved | StatementKind::ChangesRequested => None,
        });
        Ok(disputes.collect())
    }

    /// The ticket, where this very report was taken before. A worker whose answer was lost sends it
    /// again, when its lease has ended with the first.
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

    /// The report as it is decided on and remembered.
    async fn prepared(&self, id: &TicketId, report: Report) -> Result<Report, Error> {
        Ok(Report {
            what: self.with_disputes(id, report.what.cleaned()).await?,
            by: report.by.cleaned(),
            ..report
        })
    }

    async fn was_taken(&self, id: &TicketId, report: &Report) -> Result<bool, Error> {
        let Some((key, payload_hash)) = report.fingerprint(id) else {
            return Ok(false);
        };
        let first = self.store.recall(&key).await?;
        Ok(first.is_some_and(|first| first.payload_hash == payload_hash))
    }

    /// A commit whose answer was lost: its key tells whether it was written.
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
        let found = self.store.job(job).await?;
        let current = found.as_ref().map_or(0, |found| found.fence);
        if found.is_some_and(|found| found.state == JobState::Leased && found.fence == fence) {
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
            // The same report again, because its answer was lost, gets the first answer.
            Err(error) if error.refusal().is_some() && self.was_taken(ticket, &report).await? => {
                return Ok(self.ticket(ticket).await?.ticket);
            }
            decided => decided?,
        };
        if has_news {
            // The decision stands. News that cannot be brought now stays queued, and whoever looks
            // after leases brings it.
            let told = self.notify_dependents().await;
            told.log_err("notify dependent tickets");
        }
        Ok(ticket)
    }

    async fn finish(&self, report: TaskReport) -> Result<(), Error> {
        let found = self.store.job(report.job).await?;
        let (task, queue) = match found.map(|job| (job.work, job.queue)) {
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
            // A run's cost counts once, however often it is reported and by whom.
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
            Upload::Bundle(bundle) => self.store.put_parcel(bundle).await?,
            Upload::Note { noted, .. } => self.store.note(noted).await?,
        }
        Ok(())
    }

    async fn download(&self, key: &str) -> Result<Option<Parcel>, Error> {
        // A base branch moves, so the newest is asked for each time; a commit stays what it is.
        if !key.starts_with("base:") {
            let bundle = self.store.parcel(key).await?;
            if bundle.as_ref().is_some_and(|bundle| bundle.bytes.is_some()) {
                return Ok(bundle);
            }
        }
        self.store.want_parcel(key).await?;
        Ok(self.store.parcel(key).await?)
    }

    async fn run_token(&self, change: RunToken) -> Result<bool, Error> {
        let (name, token) = match change {
            RunToken::Issue { token, server } => {
                let is_known = match &token.ticket {
                    // A task is in no store as a ticket: its agent has nothing to say to a server.
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
        Ok(self.store.pause(pause).await?)
    }

    async fn heartbeat(&self, agent: Agent) -> Result<(), Error> {
        Ok(self.store.beat(agent).await?)
    }

    async fn now(&self) -> Result<Time, Error> {
        Ok(self.store.now().await?)
    }
}

/// The log entry that says who may call the server, and until when it could.
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

fn is_news(effect: &Effect) -> bool {
    matches!(effect, Effect::Enqueue(job) if matches!(job.task, Task::Tell { .. }))
}

fn change(step: Step, was: Option<u64>, event: Event, policy: &Policy) -> Change {
    Change {
        ticket: step.ticket,
        was,
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
