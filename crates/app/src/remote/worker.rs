//! A worker whose tickets are on a server: the transport of its calls, and the preconditions of its
//! start.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::coordinator::wire::PATH;
use engine::coordinator::{Coordinator, Error, HttpCoordinator, Transport, TransportError};
use hyper::Method;

use super::{RemoteServer, ServerUnreachable};
use crate::failure::Failure;
use crate::operations::project::ProjectLoader;
use crate::operations::workers::WorkerContext;
use crate::operations::{data_dir, service};
use crate::settings::Environment;

#[async_trait]
impl Transport for RemoteServer {
    fn url(&self) -> &str {
        &self.address.url
    }

    async fn post(
        &self,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<(u16, Vec<u8>), TransportError> {
        let headers = [("content-type", "application/json")];
        let exchange = async {
            let response = self.send(Method::POST, PATH, &headers, body).await?;
            let status = response.status().as_u16();
            Ok::<_, ServerUnreachable>((status, self.read_body(response).await?.to_vec()))
        };
        match tokio::time::timeout(within, exchange).await {
            Ok(result) => {
                result.map_err(|ServerUnreachable { why, unsent }| TransportError { why, unsent })
            }
            Err(_) => Err(TransportError {
                why: format!("the server at {} does not answer", self.address.url),
                unsent: false,
            }),
        }
    }
}

/// Prepares a worker with this server's token. A token without access fails here, not at the first
/// job.
pub async fn workplace(
    server: RemoteServer,
    environment: Environment,
) -> Result<WorkerContext, Failure> {
    require_single_store(&environment)?;
    require_own_data_dir(&environment)?;
    data_dir::prepare(&environment.data_dir)?;
    let data_dir = environment.data_dir.clone();
    let coordinator = HttpCoordinator::new(Arc::new(server), data_dir);
    coordinator.now().await.map_err(access_error)?;
    Ok(WorkerContext {
        loader: ProjectLoader {
            coordinator: Arc::new(coordinator),
            clock: engine::clock::now,
            listener: None,
            environment,
        },
        app: None,
    })
}

fn access_error(error: Error) -> Failure {
    match error {
        Error::Store(store::Error::Unreachable(why)) => {
            ServerUnreachable { why, unsent: true }.into()
        }
        other => other.into(),
    }
}

/// Refuses to share the data directory with a running server: the server stores uploaded files
/// there, under the paths that the worker uses.
fn require_own_data_dir(environment: &Environment) -> Result<(), Failure> {
    if service::running_server(environment).is_none() {
        return Ok(());
    }
    let data = environment.data_dir.display();
    Err(
        Failure::usage(format!("a server runs on the data directory {data}"))
            .hint("give the worker one of its own with --data-dir DIR")
            .hint("or leave out --server: this worker can then use the store directly"),
    )
}

/// Refuses a database next to a server. A configured database counts, unless `--server` was given.
fn require_single_store(environment: &Environment) -> Result<(), Failure> {
    let by_flag = environment.origins.database == "flag";
    if environment.database.is_none() || (environment.server.by_flag && !by_flag) {
        return Ok(());
    }
    Err(Failure::usage(
        "both a database and a server are configured; a worker uses only one of them",
    )
    .hint("pass `--server none` to use the database, or remove the database"))
}
