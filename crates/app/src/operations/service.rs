//! The server's own life: how others find it, and what it does beside answering.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::coordinator::QUIET_POLL;
use engine::log::{LogErr, removed};
use engine::process::{ProcessIdentity, StopSignal};
use engine::worker::Shutdown;
use engine::workshop::AgentServerSource;
use flow::Role;
use serde::{Deserialize, Serialize};

use super::App;
use super::identity::{self, NewToken, TokenRequest};
use super::project::git_tool;
use super::{overview, silence, workers};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::server::{ServerAddress, ServerTrust};

/// How often leases are looked after, and news is brought that nobody else has.
pub const ROUND: Duration = Duration::from_secs(5);
/// Tickets that are checked or merged side by side.
const AT_ONCE: u16 = 4;
const FILE: &str = "server.json";

/// Where the server of this data directory is, for the person whose directory it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerFile {
    pub url: String,
    pub token: String,
    #[serde(flatten)]
    pub process: ProcessIdentity,
    /// The SHA-256 of its certificate, where it has one.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// A sign that is taken down when the server ends.
#[derive(Debug)]
pub struct PublishedServer {
    path: PathBuf,
    token: String,
    sign: ServerFile,
}

impl PublishedServer {
    /// The server shows another certificate from now on.
    pub fn renew(&mut self, certificate: String) -> Result<(), Failure> {
        self.sign.certificate = Some(certificate);
        put_up(&self.path, &self.sign)
    }
}

/// Where a listener may be without more ado, and what it needs elsewhere.
pub async fn must_be_safe(
    office: &App,
    address: SocketAddr,
    encrypted: bool,
) -> Result<(), Failure> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    if !encrypted {
        return Err(Failure::usage(format!(
            "{address} can be reached by others, and this is not encrypted"
        ))
        .hint("give it a certificate: --tls-cert FILE --tls-key FILE")
        .hint("or put a server with TLS in front and say --behind-tls, or listen on 127.0.0.1"));
    }
    if identity::list(office)
        .await?
        .iter()
        .all(|token| token.revoked_at.is_some() || token.lease.is_some())
    {
        return Err(Failure::usage("there are no tokens, so nobody could call")
            .hint("`countersign token create --agent NAME --role ROLE` makes one"));
    }
    Ok(())
}

/// Leaves the address and a token of its own for the person's command line, readable by nobody else.
pub async fn post(
    office: &App,
    address: SocketAddr,
    certificate: Option<String>,
) -> Result<PublishedServer, Failure> {
    let wanted = TokenRequest {
        agent: office.surroundings.person.clone(),
        principal: None,
        role: Role::Admin,
        family: None,
        ticket: None,
        ttl_ms: None,
    };
    let path = office.surroundings.data_dir.join(FILE);
    forget_the_dead(office, &path).await?;
    let NewToken { secret, token } = identity::create(office, wanted).await?;
    let sign = ServerFile {
        url: url(address, certificate.is_some()),
        token: secret,
        process: ProcessIdentity::ourselves()
            .ok_or_else(|| Failure::error("our own process cannot be found in /proc"))?,
        certificate,
    };
    put_up(&path, &sign)?;
    Ok(PublishedServer {
        path,
        token: token.id,
        sign,
    })
}

/// How to call it from this machine: who listens everywhere listens at home too.
pub fn url(mut address: SocketAddr, encrypted: bool) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let scheme = if encrypted { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// The server that runs on this data directory, if one does.
pub fn running(surroundings: &Environment) -> Option<ServerAddress> {
    let sign = read(&surroundings.data_dir.join(FILE))?;
    let trust = match sign.certificate {
        Some(fingerprint) => ServerTrust::Only(fingerprint),
        None => ServerTrust::Authorities(None),
    };
    let url = sign.url;
    sign.process
        .is_alive()
        .then_some(ServerAddress { url, trust })
}

/// Whom agents that we start can call: the server that we work for, or the one that runs here.
pub fn callable(surroundings: &Environment) -> AgentServerSource {
    let found = &surroundings.server;
    match (&found.place, &found.token) {
        (Some(place), Some(token)) => AgentServerSource::Named(engine::workshop::AgentServer {
            url: place.url.clone(),
            token_hash: engine::secret::hash(token.trim()),
        }),
        (Some(_), None) | (None, _) => AgentServerSource::Running(of_runs),
    }
}

/// The same for agents that we start, who are told its address and trust whom their own programs do.
fn of_runs(data_dir: &Path) -> Option<engine::workshop::AgentServer> {
    let sign = read(&data_dir.join(FILE)).filter(|sign| sign.process.is_alive())?;
    Some(engine::workshop::AgentServer {
        token_hash: engine::secret::hash(&sign.token),
        url: sign.url,
    })
}

fn read(path: &Path) -> Option<ServerFile> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn put_up(path: &Path, sign: &ServerFile) -> Result<(), Failure> {
    let text = serde_json::to_vec(sign).map_err(Failure::error)?;
    write_privately(path, &text)
        .map_err(|error| Failure::error(format!("{} cannot be written: {error}", path.display())))
}

/// A server that was killed has left its sign; the token on it ends here.
async fn forget_the_dead(office: &App, path: &Path) -> Result<(), Failure> {
    let Some(sign) = read(path).filter(|sign| !sign.process.is_alive()) else {
        return Ok(());
    };
    let hash = engine::secret::hash(&sign.token);
    if let Some(token) = office.desk.store.token(&hash).await?
        && token.revoked_at.is_none()
    {
        identity::revoke(office, &token.id).await?;
    }
    Ok(())
}

fn write_privately(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let aside = path.with_extension("part");
    removed(&aside, std::fs::remove_file(&aside));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&aside, path)
}

/// Takes the sign down; its token ends with it.
pub async fn take_down(office: &App, posted: PublishedServer) {
    let revoked = identity::revoke(office, &posted.token).await;
    revoked.log_err("revoke the token of this server");
    // Another server may have put up its own meanwhile.
    if read(&posted.path).is_some_and(|sign| sign.process == posted.sign.process) {
        removed(&posted.path, std::fs::remove_file(&posted.path));
    }
}

/// Does the house's own work, checks and merges, for tickets that agents work on by themselves.
pub async fn keep_house(office: &App, stop: StopSignal) {
    workers::keep_house(office, AT_ONCE, Shutdown::now(stop)).await;
}

/// Looks after leases and news until it is told to stop. Any number of nodes may do it. When the store
/// comes back after it was away, or we do, whoever is still at work has a round's time to say so first.
pub async fn look_after(office: &App, mut stop: StopSignal) {
    let mut was_away = true;
    loop {
        let now = office.desk.store.now().await;
        let is_away = now.log_err("reach the database").is_none();
        if !is_away && !was_away {
            // A store that is away now is back at another round.
            let reclaimed = office.desk.take_back_lapsed().await;
            reclaimed.log_err("reclaim expired leases");
            let watched = silence::watch(office).await;
            watched.log_err("look for silent agents");
            let told = office.desk.notify_dependents().await;
            told.log_err("notify dependent tickets");
            let packed = answer_wants(office).await;
            packed.log_err("pack commits for remote workers");
        }
        was_away = is_away;
        tokio::select! {
            () = next_round(office) => {}
            () = stop.asked() => return,
        }
    }
}

/// While nothing is open there is nothing to look after, until something happens.
async fn next_round(office: &App) {
    let quiet = office.desk.store.has_open(None).await == Ok(false);
    match overview::newest(office).await {
        Ok(newest) if quiet => {
            overview::changed(office, newest, QUIET_POLL).await;
        }
        Ok(_) | Err(_) => tokio::time::sleep(ROUND).await,
    }
}

/// Asks for one parcel, and packs it at once where its repository is here.
pub async fn answer_want(office: &App, key: &str) -> Result<(), Failure> {
    let surroundings = &office.surroundings;
    let tool = git_tool(surroundings, &surroundings.data_dir)?;
    engine::carrier::answer_want(&office.desk, &tool, &surroundings.data_dir, key).await?;
    Ok(())
}

/// Whoever has a repository packs what workers elsewhere want of it.
async fn answer_wants(office: &App) -> Result<(), Failure> {
    let surroundings = &office.surroundings;
    let tool = git_tool(surroundings, &surroundings.data_dir)?;
    engine::carrier::answer_wants(&office.desk, &tool, &surroundings.data_dir).await?;
    Ok(())
}
