//! A worker whose tickets are on a server: the transport of its calls, and what must be so before it
//! begins.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::coordinator::wire::PATH;
use engine::coordinator::{Coordinator, Error, HttpCoordinator, Transport, TransportError};
use hyper::Method;

use super::{RemoteServer, ServerUnreachable};
use crate::failure::Failure;
use crate::operations::project::ProjectLoader;
use crate::operations::workers::Workplace;
use crate::operations::{data_dir, service};
use crate::settings::Environment;

#[async_trait]
impl Transport for RemoteServer {
    fn url(&self) -> &str {
        &self.place.url
    }

    async fn post(
        &self,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<(u16, Vec<u8>), TransportError> {
        let headers = [("content-type", "application/json")];
        let answered = async {
            let response = self.send(Method::POST, PATH, &headers, body).await?;
            let status = response.status().as_u16();
            Ok::<_, ServerUnreachable>((status, self.whole(response).await?.to_vec()))
        };
        match tokio::time::timeout(within, answered).await {
            Ok(answered) => {
                answered.map_err(|ServerUnreachable { why, unsent }| TransportError { why, unsent })
            }
            Err(_) => Err(TransportError {
                why: format!("the server at {} does not answer", self.place.url),
                unsent: false,
            }),
        }
    }
}

/// For a worker with this server's token; one that is not let in hears so at once.
pub async fn workplace(
    server: RemoteServer,
    surroundings: Environment,
) -> Result<Workplace, Failure> {
    must_be_the_only_store(&surroundings)?;
    must_be_our_own(&surroundings)?;
    data_dir::prepare(&surroundings.data_dir)?;
    let data_dir = surroundings.data_dir.clone();
    let coordinator = HttpCoordinator::new(Arc::new(server), data_dir);
    coordinator.now().await.map_err(not_let_in)?;
    Ok(Workplace {
        loader: ProjectLoader {
            coordinator: Arc::new(coordinator),
            clock: engine::clock::now,
            witness: None,
            surroundings,
        },
        office: None,
    })
}

fn not_let_in(error: Error) -> Failure {
    match error {
        Error::Store(store::Error::Unreachable(why)) => {
            ServerUnreachable { why, unsent: true }.into()
        }
        other => other.into(),
    }
}

/// The server keeps what we send it where its own files are; they must not be ours.
fn must_be_our_own(surroundings: &Environment) -> Result<(), Failure> {
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

/// A named database counts, unless a server is named for this call.
fn must_be_the_only_store(surroundings: &Environment) -> Result<(), Failure> {
    let by_flag = surroundings.origins.database == "flag";
    if surroundings.database.is_none() || (surroundings.server.by_flag && !by_flag) {
        return Ok(());
    }
    Err(
        Failure::usage("a database and a server are named, and a worker has its tickets from one")
            .hint("say `--server none` for the database, or leave the database out"),
    )
}
