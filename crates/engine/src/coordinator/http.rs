//! The coordinator of a worker whose tickets are on a server. Each method is one call, and the
//! server decides. An unreachable server is reported like an unreachable store, so that the worker
//! waits and retries.
//!
//! It refuses to decide anything: no ticket is changed here, and no answer is cached. After a lost
//! answer it repeats the call instead of guessing.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flow::event::Lease;
use flow::{Actor, Policy, Role, Ticket, TicketId, Time};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::{Agent, Artefact, JobId, Leased, Pause, StoredBundle, Token};

use super::wire::{
    Attachment, Bundle, Call, CallError, EventReport, RunNote, RunTokenRequest, WAIT_MAX,
};
use super::{
    Coordinator, Error, JobRequest, Offer, Report, RunToken, TaskReport, Upload, attachments,
};

/// Time limit of ordinary calls. A call waits for one transaction on the server; 20 seconds are far
/// more than that takes.
const QUICK: Duration = Duration::from_secs(20);
/// Time limit of calls that may carry large data. It lets a bundle of the largest size pass over a
/// slow line.
const HEAVY: Duration = Duration::from_secs(180);
const TOO_MANY_REQUESTS: u16 = 429;
const REQUEST_TIMEOUT: u16 = 408;

/// Sends calls to the server. The caller provides the HTTP client.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync {
    /// Returns the address of the server, for messages.
    fn url(&self) -> &str;

    /// Posts one call and returns the status and body of the response.
    async fn post(&self, body: Vec<u8>, within: Duration)
    -> Result<(u16, Vec<u8>), TransportError>;
}

/// Reason for a missing response.
#[derive(Debug)]
pub struct TransportError {
    pub why: String,
    /// True if nothing was sent, so that nothing was done.
    pub unsent: bool,
}

#[derive(Debug)]
pub struct HttpCoordinator {
    transport: Arc<dyn Transport>,
    /// Directory that attachments are read from.
    data_dir: PathBuf,
}

/// Reason why a call failed.
#[derive(Debug)]
enum CallFailure {
    /// The call was not sent, so nothing was written.
    Unsent(String),
    /// The response is missing, so the effect is unknown.
    Unanswered(String),
    /// The server answered with an error.
    Told(Error),
}

impl From<CallFailure> for Error {
    /// Makes an error that callers may retry. Every call may be repeated, because the server
    /// recognises a report by its lease and content.
    fn from(lost: CallFailure) -> Self {
        match lost {
            CallFailure::Unsent(why) | CallFailure::Unanswered(why) => {
                store::Error::Unreachable(why).into()
            }
            CallFailure::Told(error) => error,
        }
    }
}

/// Fields of a problem document that a worker uses.
#[derive(Deserialize)]
struct ProblemBody {
    #[serde(default)]
    detail: String,
    #[serde(default)]
    error: Option<CallError>,
}

impl HttpCoordinator {
    pub fn new(transport: Arc<dyn Transport>, data_dir: PathBuf) -> Self {
        Self {
            transport,
            data_dir,
        }
    }

    /// Sends one call and decodes the answer.
    async fn call<T: DeserializeOwned>(&self, call: &Call) -> Result<T, CallFailure> {
        let body =
            // The call never left, so the effect is certain.
            serde_json::to_vec(call).map_err(|error| CallFailure::Unsent(error.to_string()))?;
        let posted = self.transport.post(body, time_limit(call)).await;
        let (status, body) = posted.map_err(|TransportError { why, unsent }| {
            if unsent {
                CallFailure::Unsent(why)
            } else {
                CallFailure::Unanswered(why)
            }
        })?;
        // A success that cannot be read means different versions, and repeating would not help.
        if (200..300).contains(&status) {
            let url = self.transport.url();
            return serde_json::from_slice(&body).map_err(|error| {
                CallFailure::Told(Error::Broken(format!(
                    "could not read the answer of {url}: {error}; compare `countersign --version` there and here"
                )))
            });
        }
        Err(self.error_from_response(status, serde_json::from_slice(&body).ok()))
    }

    /// Converts the error response of the server, or of a proxy before it.
    fn error_from_response(&self, status: u16, problem: Option<ProblemBody>) -> CallFailure {
        let detail = problem.as_ref().map_or("", |problem| &problem.detail);
        let why = format!("{} answered {status}: {detail}", self.transport.url());
        match problem.and_then(|problem| problem.error) {
            Some(CallError::Denied { why, no_judge }) => {
                CallFailure::Told(Error::Denied { why, no_judge })
            }
            Some(CallError::Store(error)) => CallFailure::Told(error.into()),
            // Both answers are given before the call is executed, so nothing was written.
            None if [TOO_MANY_REQUESTS, REQUEST_TIMEOUT].contains(&status) => {
                CallFailure::Unsent(why)
            }
            // A proxy may have lost the connection after the server had done its work.
            None if status >= 500 => CallFailure::Unanswered(why),
            None => CallFailure::Told(Error::Denied {
                why,
                no_judge: false,
            }),
        }
    }

    /// Sends the files of a report before the report itself. The report counts without them. The
    /// files come first: once the report has ended the lease, the server takes no more files.
    async fn attach(
        &self,
        ticket: &TicketId,
        lease: Lease,
        artefacts: &[Artefact],
    ) -> Result<(), Error> {
        for path in attachments::paths(ticket, lease, artefacts) {
            let Some(bytes) = attachments::read(&self.data_dir, &path).await else {
                continue;
            };
            let attachment = Attachment {
                ticket: ticket.clone(),
                lease,
                path,
                bytes,
            };
            match self
                .call::<()>(&Call::Attach(attachment))
                .await
                .map_err(Error::from)
            {
                // A refused file is no reason to lose the result of a run.
                Ok(()) | Err(Error::Denied { .. } | Error::Store(store::Error::Other(_))) => {}
                // The report may have been accepted before, which ended its lease.
                Err(error) if error.is_stale() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the time limit of a call. A server that hangs must not keep the worker from stopping.
fn time_limit(call: &Call) -> Duration {
    match call {
        // The server answers a wait only after its time, so the limit is added to it.
        Call::Wait { most, .. } => QUICK + *most,
        heavy if heavy.is_heavy() => HEAVY,
        _ => QUICK,
    }
}

#[async_trait]
impl Coordinator for HttpCoordinator {
    async fn wait(&self, request: &JobRequest, most: Duration) -> Result<Vec<Offer>, Error> {
        // Proxies close silent connections after about a minute.
        let (request, most) = (request.clone(), most.min(WAIT_MAX));
        Ok(self.call(&Call::Wait { request, most }).await?)
    }

    async fn claim(&self, request: &JobRequest) -> Result<Vec<Leased>, Error> {
        let request = request.clone();
        Ok(self.call(&Call::Claim { request }).await?)
    }

    async fn renew(&self, job: JobId, fence: u64, extend: Option<Duration>) -> Result<(), Error> {
        Ok(self.call(&Call::Renew { job, fence, extend }).await?)
    }

    async fn report(&self, ticket: &TicketId, _: &Policy, report: Report) -> Result<Ticket, Error> {
        if let Some(lease) = attachments::of_report(&report.what) {
            self.attach(ticket, lease, &report.artefacts).await?;
        }
        let call = Call::Report(Box::new(EventReport {
            ticket: ticket.clone(),
            by: report.by,
            what: report.what,
            artefacts: report.artefacts,
        }));
        match self.call(&call).await {
            // Repeated once at once: the report carries its lease as a key, so it counts only once.
            // If that fails too, the worker's own retry follows.
            Err(CallFailure::Unanswered(_)) => Ok(self.call(&call).await?),
            answered => Ok(answered?),
        }
    }

    async fn finish(&self, report: TaskReport) -> Result<(), Error> {
        Ok(self.call(&Call::Finish(Box::new(report))).await?)
    }

    async fn ticket(&self, id: &TicketId) -> Result<Option<Ticket>, Error> {
        Ok(self.call(&Call::Ticket { id: id.clone() }).await?)
    }

    async fn upload(&self, upload: Upload) -> Result<(), Error> {
        let call = match upload {
            Upload::Bundle(bundle) => Call::Upload(bundle.into()),
            Upload::Note { lease, noted } => {
                let Some(ticket) = noted.ticket else {
                    return Ok(());
                };
                Call::Note(RunNote {
                    ticket,
                    lease,
                    name: noted.name,
                    body: noted.body,
                })
            }
        };
        Ok(self.call(&call).await?)
    }

    async fn download(&self, key: &str) -> Result<Option<StoredBundle>, Error> {
        let key = key.to_owned();
        let bundle: Option<Bundle> = self.call(&Call::Download { key }).await?;
        Ok(bundle.map(StoredBundle::from))
    }

    async fn run_token(&self, change: RunToken) -> Result<bool, Error> {
        let token = match change {
            RunToken::Issue { token, .. } => *token,
            RunToken::Revoke { token } => {
                let token = token.id;
                return Ok(self.call(&Call::RevokeToken { token }).await?);
            }
        };
        let Some(request) = token_request(token) else {
            return Ok(false);
        };
        // The server stores no ticket for a task, so its agent has no reason to call it.
        if self.ticket(&request.ticket).await?.is_none() {
            return Ok(false);
        }
        self.call::<()>(&Call::IssueToken(Box::new(request)))
            .await?;
        Ok(true)
    }

    async fn pause_provider(&self, pause: Pause) -> Result<(), Error> {
        Ok(self.call(&Call::PauseProvider { pause }).await?)
    }

    async fn heartbeat(&self, agent: Agent) -> Result<(), Error> {
        Ok(self.call(&Call::Heartbeat { agent }).await?)
    }

    async fn now(&self) -> Result<Time, Error> {
        Ok(self.call(&Call::Now {}).await?)
    }
}

/// Converts a token to a request; `None` for a token without a ticket or a lease.
fn token_request(token: Token) -> Option<RunTokenRequest> {
    let role = Role::ALL
        .into_iter()
        .find(|role| role.as_str() == token.role)?;
    // The server's clock decides, so a duration is sent and not a time.
    let lasts_ms = token.expires_at.map_or(0, |end| end.0 - token.created_at.0);
    Some(RunTokenRequest {
        id: token.id,
        hash: token.hash,
        by: Actor {
            family: token.family,
            principal: token.principal,
            ..Actor::new(&token.agent, role)
        },
        ticket: token.ticket?,
        lease: token.lease?,
        lasts_ms: u64::try_from(lasts_ms).unwrap_or_default(),
    })
}
