//! Publishes a running server for the person's command line, and does its background work:
//! maintenance, and jobs that need no agent.
//!
//! The file with the address and an administrator's token is readable by the owner only. A
//! reader of it can do everything, as with the database itself.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::coordinator::QUIET_POLL;
use engine::log::{LogErr, removed};
use engine::process::{ProcessIdentity, StopSignal};
use engine::project::AgentServerSource;
use engine::worker::Shutdown;
use flow::Role;
use serde::{Deserialize, Serialize};

use super::App;
use super::change_reports::ReportRunner;
use super::identity::{self, NewToken, TokenRequest};
use super::project::git_tool;
use super::{overview, silent_agents, workers};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::server::{ServerAddress, ServerTrust};

/// Interval of the maintenance of leases, silent agents, dependent tickets and bundle requests.
pub const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of tickets that are checked or merged at once.
const AT_ONCE: u16 = 4;
const SERVER_FILE: &str = "server.json";

/// Address and token of the server of a data directory, for the directory's owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerFile {
    pub url: String,
    pub token: String,
    #[serde(flatten)]
    pub process: ProcessIdentity,
    /// SHA-256 of its certificate, if it has one.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// A published server file, which is removed when the server ends.
#[derive(Debug)]
pub struct PublishedServer {
    path: PathBuf,
    token: String,
    file: ServerFile,
}

impl PublishedServer {
    /// Publishes a new certificate of the server.
    pub fn renew(&mut self, certificate: String) -> Result<(), Failure> {
        self.file.certificate = Some(certificate);
        write_server_file(&self.path, &self.file)
    }
}

/// Refuses an address that others can reach without TLS, or while no token exists.
pub async fn require_safe_address(
    app: &App,
    address: SocketAddr,
    encrypted: bool,
) -> Result<(), Failure> {
    // Other users of this machine can reach it too, but without a token they get nothing.
    if address.ip().is_loopback() {
        return Ok(());
    }
    if !encrypted {
        return Err(Failure::usage(format!(
            "other machines can reach {address}, and the connection is not encrypted"
        ))
        .hint("give it a certificate: --tls-cert FILE --tls-key FILE")
        .hint("or put a TLS proxy in front and pass --behind-tls, or listen on 127.0.0.1"));
    }
    if identity::list(app)
        .await?
        .iter()
        // A run token ends by itself and admits no person.
        .all(|token| token.revoked_at.is_some() || token.lease.is_some())
    {
        return Err(
            Failure::usage("there is no valid token, so no caller would be accepted")
                .hint("`countersign token create --agent NAME --role ROLE` makes one"),
        );
    }
    Ok(())
}

/// Writes the address and a new token to a file for the person's command line, readable only by the
/// owner.
pub async fn publish(
    app: &App,
    address: SocketAddr,
    certificate: Option<String>,
) -> Result<PublishedServer, Failure> {
    let request = TokenRequest {
        agent: app.environment.person.clone(),
        principal: None,
        role: Role::Admin,
        family: None,
        ticket: None,
        ttl_ms: None,
    };
    let path = app.environment.data_dir.join(SERVER_FILE);
    // The token of a killed server is still valid. It is revoked before a new file replaces the
    // only copy of its secret.
    revoke_stale_token(app, &path).await?;
    let NewToken { secret, token } = identity::create(app, request).await?;
    let file = ServerFile {
        url: local_url(address, certificate.is_some()),
        token: secret,
        process: ProcessIdentity::ourselves()
            .ok_or_else(|| Failure::error("cannot find our own process in /proc"))?,
        certificate,
    };
    write_server_file(&path, &file)?;
    Ok(PublishedServer {
        path,
        token: token.id,
        file,
    })
}

/// Returns the URL for callers on this machine. An unspecified address becomes localhost.
pub fn local_url(mut address: SocketAddr, encrypted: bool) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let scheme = if encrypted { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Returns the address of the server that runs on this data directory, if one does.
pub fn running_server(environment: &Environment) -> Option<ServerAddress> {
    let file = read(&environment.data_dir.join(SERVER_FILE))?;
    let trust = match file.certificate {
        // A certificate of a local server is often self-signed. The fingerprint in a private file
        // is the better proof.
        Some(fingerprint) => ServerTrust::Pinned(fingerprint),
        None => ServerTrust::Authorities(None),
    };
    let url = file.url;
    // By pid and start time, so that another process with the same pid does not count.
    file.process
        .is_alive()
        .then_some(ServerAddress { url, trust })
}

/// Returns the server for agents that we start: the configured one, or the one that runs on this
/// data directory.
pub fn agent_server_source(environment: &Environment) -> AgentServerSource {
    let server = &environment.server;
    match (&server.address, &server.token) {
        (Some(address), Some(token)) => AgentServerSource::Named(engine::project::AgentServer {
            url: address.url.clone(),
            token_hash: engine::secret::hash_secret(token.trim()),
        }),
        (Some(_), None) | (None, _) => AgentServerSource::Running(agent_server),
    }
}

/// Reads the running server for agents that we start. They get its address only: their own programs
/// decide which certificates they trust.
fn agent_server(data_dir: &Path) -> Option<engine::project::AgentServer> {
    let file = read(&data_dir.join(SERVER_FILE)).filter(|file| file.process.is_alive())?;
    Some(engine::project::AgentServer {
        token_hash: engine::secret::hash_secret(&file.token),
        url: file.url,
    })
}

fn read(path: &Path) -> Option<ServerFile> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn write_server_file(path: &Path, file: &ServerFile) -> Result<(), Failure> {
    let text = serde_json::to_vec(file).map_err(Failure::error)?;
    write_privately(path, &text)
        .map_err(|error| Failure::error(format!("{} cannot be written: {error}", path.display())))
}

/// Revokes the token in the file of a server that was killed.
async fn revoke_stale_token(app: &App, path: &Path) -> Result<(), Failure> {
    let Some(file) = read(path).filter(|file| !file.process.is_alive()) else {
        return Ok(());
    };
    let hash = engine::secret::hash_secret(&file.token);
    if let Some(token) = app.coordinator.store.token(&hash).await?
        && token.revoked_at.is_none()
    {
        identity::revoke(app, &token.id).await?;
    }
    Ok(())
}

fn write_privately(path: &Path, text: &[u8]) -> std::io::Result<()> {
    // Written under another name and renamed, so that a reader never sees half of it.
    let part = path.with_extension("part");
    removed(&part, std::fs::remove_file(&part));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        // Private from the first byte on. A later `chmod` would leave a moment in which others can
        // open it.
        .mode(0o600)
        .open(&part)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&part, path)
}

/// Revokes the server's token and removes its file.
pub async fn unpublish(app: &App, published: PublishedServer) {
    let revoked = identity::revoke(app, &published.token).await;
    revoked.log_err("revoke the token of this server");
    // Another server may have written its own file in the meantime.
    if read(&published.path).is_some_and(|file| file.process == published.file.process) {
        removed(&published.path, std::fs::remove_file(&published.path));
    }
}

/// Runs the jobs that need no agent, checks and merges, for tickets of agents that connect by
/// themselves.
pub async fn run_system_jobs(app: &App, stop: StopSignal) {
    workers::run_system_worker(app, AT_ONCE, Shutdown::now(stop)).await;
}

/// Does maintenance until it is told to stop. Any number of nodes may do it at once. After an
/// outage of the store, and after our own start, it waits one interval, so that workers can renew
/// their leases first.
pub async fn run_maintenance(app: &App, stop: StopSignal) {
    let mut reports = ReportRunner::new(app, None);
    tokio::join!(maintain(app, stop.clone()), reports.run(stop));
}

async fn maintain(app: &App, mut stop: StopSignal) {
    let mut was_away = true;
    loop {
        let now = app.coordinator.store.now().await;
        let is_away = now.log_err("reach the database").is_none();
        if !is_away {
            // A dead process renews nothing, so there is nothing to wait for.
            let reclaimed = app.coordinator.take_back_dead().await;
            reclaimed.log_err("reclaim leases of dead processes");
        }
        // Workers could not renew while the store was away. Reclaiming at once would take jobs from
        // all of them.
        if !is_away && !was_away {
            // Errors are only logged: an unreachable store may be back at the next interval.
            let reclaimed = app.coordinator.take_back_lapsed().await;
            reclaimed.log_err("reclaim expired leases");
            let watched = silent_agents::record_silent(app).await;
            watched.log_err("look for silent agents");
            let notified = app.coordinator.notify_dependents().await;
            notified.log_err("notify dependent tickets");
            let bundled = answer_bundle_requests(app).await;
            bundled.log_err("make bundles for remote workers");
        }
        was_away = is_away;
        tokio::select! {
            () = wait_for_next_round(app) => {}
            () = stop.requested() => return,
        }
    }
}

/// Waits for the next interval. Without open jobs it waits for a new event instead.
async fn wait_for_next_round(app: &App) {
    let quiet = app.coordinator.store.has_open(None).await == Ok(false);
    match overview::latest_cursor(app).await {
        Ok(newest) if quiet => {
            // An idle server should not wake the disk every few seconds.
            overview::wait_for_change(app, newest, QUIET_POLL).await;
        }
        Ok(_) | Err(_) => tokio::time::sleep(MAINTENANCE_INTERVAL).await,
    }
}

/// Requests one bundle, and makes it at once if its repository is on this machine.
pub async fn answer_bundle_request(app: &App, key: &str) -> Result<(), Failure> {
    let environment = &app.environment;
    let git = git_tool(environment, &environment.data_dir)?;
    engine::repo_sync::pack_requested_bundle(&app.coordinator, &git, &environment.data_dir, key)
        .await?;
    Ok(())
}

/// Makes the bundles that remote workers have requested from repositories on this machine.
async fn answer_bundle_requests(app: &App) -> Result<(), Failure> {
    let environment = &app.environment;
    let git = git_tool(environment, &environment.data_dir)?;
    engine::repo_sync::pack_requested_bundles(&app.coordinator, &git, &environment.data_dir)
        .await?;
    Ok(())
}
