//! The store as a worker has it whose tickets are elsewhere: every call goes to the server, which
//! decides. What a worker has no business with is refused here already. A server that is away is
//! told as a database that is away would be, and whoever asked waits and asks again.

mod verbs;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow::TicketId;
use flow::event::Lease;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::{Artefact, Error, Events};

use super::{Server, Unreached, luggage};
use crate::failure::Failure;
use crate::operations::outpost::call::{Call, Kept, PATH};
use crate::operations::{Office, data_dir, service};
use crate::settings::Surroundings;

const QUICK: Duration = Duration::from_secs(20);
const HEAVY: Duration = Duration::from_secs(180);

/// A server's store.
#[derive(Debug)]
pub struct Ledger {
    server: Server,
    /// Where the files of runs are.
    data_dir: PathBuf,
}

/// Why a call came to nothing.
#[derive(Debug)]
enum Lost {
    /// Nothing was written.
    Unsent(String),
    /// Perhaps it was written.
    Unanswered(String),
    /// The server said so.
    Told(Error),
}

impl Lost {
    /// For what may be asked again as it is.
    fn of_question(self) -> Error {
        match self {
            Self::Unsent(why) | Self::Unanswered(why) => Error::Unreachable(why),
            Self::Told(error) => error,
        }
    }

    /// For what must not be done twice.
    fn of_change(self) -> Error {
        match self {
            Self::Unsent(why) => Error::Unreachable(why),
            Self::Unanswered(why) => Error::OutcomeUnknown(why),
            Self::Told(error) => error,
        }
    }
}

impl From<Unreached> for Lost {
    fn from(Unreached { why, unsent }: Unreached) -> Self {
        if unsent {
            Self::Unsent(why)
        } else {
            Self::Unanswered(why)
        }
    }
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    detail: String,
    #[serde(default)]
    error: Option<Error>,
}

impl Ledger {
    /// For a worker with this server's token; one that is not let in hears so at once.
    pub async fn open(server: Server, surroundings: Surroundings) -> Result<Office, Failure> {
        must_be_the_only_store(&surroundings)?;
        must_be_our_own(&surroundings)?;
        let remark = data_dir::prepare(&surroundings.data_dir)?;
        let ledger = Self {
            server,
            data_dir: surroundings.data_dir.clone(),
        };
        ledger.database().await.map_err(not_let_in)?;
        Ok(Office {
            remark,
            ..Office::with(surroundings, Arc::new(ledger))
        })
    }

    async fn send<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Lost> {
        let body = serde_json::to_vec(call).map_err(|error| Lost::Unsent(error.to_string()))?;
        let headers = [("content-type", "application/json")];
        let answered = async {
            let response = self.server.send(Method::POST, PATH, &headers, body).await?;
            let status = response.status();
            Ok::<_, Unreached>((status, self.server.whole(response).await?))
        };
        let (status, body) = tokio::time::timeout(within(call), answered)
            .await
            .map_err(|_| Lost::Unanswered(self.silent()))??;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| {
                let url = &self.server.place.url;
                Lost::Told(Error::Other(format!(
                    "the answer of {url} is not understood: {error}; compare `countersign --version` there and here"
                )))
            });
        }
        Err(self.told(status, serde_json::from_slice(&body).ok()))
    }

    fn silent(&self) -> String {
        format!("the server at {} does not answer", self.server.place.url)
    }

    /// What the server has said, or what has answered in its stead.
    fn told(&self, status: StatusCode, problem: Option<Problem>) -> Lost {
        let why = problem
            .as_ref()
            .map_or_else(String::new, |problem| problem.detail.clone());
        let why = format!("{} answered {status}: {why}", self.server.place.url);
        match problem.and_then(|problem| problem.error) {
            Some(error) => Lost::Told(error),
            None if is_for_later(status) => Lost::Unsent(why),
            None if status.is_server_error() => Lost::Unanswered(why),
            None => Lost::Told(Error::Overruled(why)),
        }
    }

    async fn ask<T: DeserializeOwned>(&self, call: Call) -> store::Result<T> {
        self.send(&call).await.map_err(Lost::of_question)
    }

    /// Brings the files that a report speaks of before the report.
    async fn bring(
        &self,
        ticket: &TicketId,
        lease: Lease,
        artefacts: &[Artefact],
    ) -> store::Result<()> {
        for path in luggage::paths(ticket, lease, artefacts) {
            let Some(bytes) = luggage::read(&self.data_dir, &path).await else {
                continue;
            };
            let kept = Kept {
                ticket: ticket.clone(),
                lease,
                path,
                bytes,
            };
            match self.ask::<()>(Call::Keep(kept)).await {
                // The report counts without its files; one that is not kept is not shown.
                Ok(()) | Err(Error::Overruled(_) | Error::Other(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn not_let_in(error: Error) -> Failure {
    match error {
        Error::Unreachable(why) => Unreached { why, unsent: true }.into(),
        other => other.into(),
    }
}

/// Nothing of the call was done, and it may be made again.
fn is_for_later(status: StatusCode) -> bool {
    [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status)
}

/// How long an answer is waited for: a server that hangs must not keep us from stopping.
fn within(call: &Call) -> Duration {
    match call {
        Call::Wait { most, .. } => QUICK + *most,
        heavy if heavy.is_heavy() => HEAVY,
        _ => QUICK,
    }
}

/// The server keeps what we send it where its own files are; they must not be ours.
fn must_be_our_own(surroundings: &Surroundings) -> Result<(), Failure> {
    if service::running(surroundings).is_none() {
        return Ok(());
    }
    let data = surroundings.data_dir.display();
    Err(
        Failure::usage(format!("a server runs on the data directory {data}"))
            .hint("give the worker one of its own with --data-dir DIR")
            .hint("or leave the server out: on its own machine a worker uses its store"),
    )
}

/// Whoever names a database means it, unless a server is named for this call.
fn must_be_the_only_store(surroundings: &Surroundings) -> Result<(), Failure> {
    let by_flag = surroundings.origins.database == "flag";
    if surroundings.database.is_none() || (surroundings.server.by_flag && !by_flag) {
        return Ok(());
    }
    Err(
        Failure::usage("a database and a server are named, and a worker has its tickets from one")
            .hint("say `--server none` for the database, or leave the database out"),
    )
}
