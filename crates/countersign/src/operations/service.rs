//! The server's own life: how others find it, and what it does beside answering.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::process::Stop;
use engine::shift::Told;
use flow::Role;
use serde::{Deserialize, Serialize};

use super::Office;
use super::identity::{self, Minted, Wanted};
use super::workers;
use crate::failure::Failure;

/// How often leases are looked after, and news is brought that nobody else has.
pub const ROUND: Duration = Duration::from_secs(5);
/// Tickets that are checked or merged side by side.
const AT_ONCE: u16 = 4;
const FILE: &str = "server.json";

/// Where the server of this data directory is, for the person whose directory it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sign {
    pub url: String,
    pub token: String,
    pub pid: u32,
}

/// A sign that is taken down when the server ends.
#[derive(Debug)]
pub struct Posted {
    path: PathBuf,
    token: String,
}

/// Where a listener may be without more ado, and what it needs elsewhere.
pub async fn must_be_safe(
    office: &Office,
    address: SocketAddr,
    behind_tls: bool,
) -> Result<(), Failure> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    if !behind_tls {
        return Err(Failure::usage(format!(
            "{address} can be reached by others, and this is not encrypted"
        ))
        .hint("put a server with TLS in front and say --behind-tls, or listen on 127.0.0.1"));
    }
    if identity::list(office)
        .await?
        .iter()
        .all(|token| token.revoked_at.is_some())
    {
        return Err(Failure::usage("there are no tokens, so nobody could call")
            .hint("`countersign token create --agent NAME --role ROLE` makes one"));
    }
    Ok(())
}

/// Leaves the address and a token of its own for the person's command line, readable by nobody else.
pub async fn post(office: &Office, address: SocketAddr) -> Result<Posted, Failure> {
    let wanted = Wanted {
        agent: office.surroundings.person.clone(),
        principal: None,
        role: Role::Admin,
        family: None,
        ticket: None,
        ttl_ms: None,
    };
    let path = office.surroundings.data_dir.join(FILE);
    forget_the_dead(office, &path).await?;
    let Minted { secret, token } = identity::create(office, wanted).await?;
    let sign = Sign {
        url: format!("http://{address}"),
        token: secret,
        pid: std::process::id(),
    };
    let text = serde_json::to_vec(&sign).map_err(Failure::error)?;
    write_privately(&path, &text).map_err(|error| {
        Failure::error(format!("{} cannot be written: {error}", path.display()))
    })?;
    Ok(Posted {
        path,
        token: token.id,
    })
}

/// A server that was killed has left its sign; the token on it ends here.
async fn forget_the_dead(office: &Office, path: &Path) -> Result<(), Failure> {
    let left = std::fs::read(path).ok();
    let Some(sign) = left.and_then(|text| serde_json::from_slice::<Sign>(&text).ok()) else {
        return Ok(());
    };
    let alive = Path::new("/proc").join(sign.pid.to_string()).exists();
    if alive && sign.pid != std::process::id() {
        return Ok(());
    }
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
    let _ = std::fs::remove_file(&aside);
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
pub async fn take_down(office: &Office, posted: Posted) {
    let _ = identity::revoke(office, &posted.token).await;
    // Another server may have put up its own meanwhile.
    let up = std::fs::read(&posted.path).ok();
    let sign = up.and_then(|text| serde_json::from_slice::<Sign>(&text).ok());
    if sign.is_some_and(|sign| sign.pid == std::process::id()) {
        let _ = std::fs::remove_file(&posted.path);
    }
}

/// Does the house's own work, checks and merges, for tickets that agents work on by themselves.
pub async fn keep_house(office: &Office, stop: Stop) {
    let told = Told {
        drain: stop.clone(),
        halt: stop,
    };
    workers::keep_house(office, AT_ONCE, told).await;
}

/// Looks after leases and news until it is told to stop. Any number of nodes may do it. When the store
/// comes back after it was away, whoever is still at work has a round's time to say so first.
pub async fn look_after(office: &Office, mut stop: Stop) {
    let worker = engine::post::worker_name();
    let mut was_away = false;
    loop {
        let is_away = office.desk.store.now().await.is_err();
        if !is_away && !was_away {
            // A store that is away now is back at another round.
            let _ = engine::watchdog::take_back(&office.desk).await;
            let _ = engine::news::bring(&office.desk, &worker).await;
        }
        was_away = is_away;
        tokio::select! {
            () = tokio::time::sleep(ROUND) => {}
            () = stop.asked() => return,
        }
    }
}
