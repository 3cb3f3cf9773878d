//! Connects to the forge of a repository, and checks what the token may do there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::git::{Remote, Repository};
use flow::Time;
use forge::address::{ForgeKind, LocationOrigin};
use forge::{
    Forge, ForgeAccount, ForgeClock, ForgeConnection, ForgeError, ForgePermission, ForgeToken,
    ForgeTransport, Github, HyperTransport,
};

use super::App;
use super::config;
use super::doctor::DoctorCheck;
use super::forge_pacing::{CallMeter, PacedTransport};
use super::project::open_repository;
use crate::failure::{ExitKind, Failure};
use crate::remote::connection_pool;
use crate::settings::Environment;
use crate::settings::forge::{ForgeRepository, tool_logins};
use crate::settings::server::ServerTrust;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(20);

/// The wall clock, for the limits of a forge.
#[derive(Debug)]
struct WallClock(fn() -> Time);

#[async_trait]
impl ForgeClock for WallClock {
    fn now_ms(&self) -> i64 {
        (self.0)().0
    }

    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// A forge, and the repository on it.
#[derive(Debug)]
pub struct ConnectedForge {
    pub forge: Box<dyn Forge>,
    pub repository: ForgeRepository,
    token: ForgeToken,
    /// Variable or file that the token comes from.
    pub token_origin: String,
}

impl ConnectedForge {
    /// Returns the remote to fetch from. Git gets the token only if the remote is on the forge.
    pub fn git_remote(&self) -> Result<Remote, Failure> {
        let Some(address) = &self.repository.remote else {
            return Err(
                Failure::usage("this repository has no remote to fetch from")
                    .hint("add it with `git remote add origin ADDRESS`"),
            );
        };
        let remote = Remote::parse(address).map_err(Failure::usage)?;
        Ok(if self.repository.remote_is_forge {
            remote.with_header(self.token.git_header())
        } else {
            remote
        })
    }
}

/// Finds the forge of a repository and builds the client. Nothing is sent.
pub async fn connect_forge(
    environment: &Environment,
    git: &Repository,
    clock: fn() -> Time,
) -> Result<ConnectedForge, Failure> {
    connect(environment, git, clock, |transport, _, _| transport).await
}

/// The same for a server: its writes wait for their turn among those of the whole fleet, and its
/// calls are counted.
pub async fn connect_forge_paced(
    app: &App,
    git: &Repository,
    meter: &Arc<CallMeter>,
) -> Result<ConnectedForge, Failure> {
    let clock = app.coordinator.clock;
    connect(&app.environment, git, clock, |inner, api, token| {
        let hash = engine::hash::short_sha256(token.git_header().as_bytes());
        let host = api.split('/').nth(2).unwrap_or(api);
        Arc::new(PacedTransport {
            inner,
            store: Arc::clone(&app.coordinator.store),
            clock,
            name: format!("writes/{host}/{hash}"),
            meter: Arc::clone(meter),
        })
    })
    .await
}

async fn connect(
    environment: &Environment,
    git: &Repository,
    clock: fn() -> Time,
    wrap: impl FnOnce(Arc<dyn ForgeTransport>, &str, &ForgeToken) -> Arc<dyn ForgeTransport>,
) -> Result<ConnectedForge, Failure> {
    // Only the user's own file counts: a repository must not choose where a token goes.
    let section = config::load_user_settings(environment)?.forge;
    let remotes = git.remote_urls().await.map_err(Failure::error)?;
    let repository = section.locate(&remotes, &tool_logins(environment))?;
    let location = &repository.location;
    let (token, token_origin) = section.token(location)?;
    let trust = ServerTrust::Authorities(section.ca_file.as_ref().map(Into::into));
    let pool = connection_pool(&trust, CONNECT_WITHIN, IDLE)?;
    let transport = wrap(Arc::new(HyperTransport(pool)), &location.api, &token);
    let connection = ForgeConnection {
        transport,
        clock: Arc::new(WallClock(clock)),
        api: location.api.clone(),
        token: token.clone().into(),
    };
    let forge: Box<dyn Forge> = match location.kind {
        ForgeKind::Github => {
            let github = Github::new(connection, &location.repository);
            Box::new(github.map_err(forge_failure)?)
        }
        ForgeKind::Gitlab | ForgeKind::Gitea | ForgeKind::Jira => {
            return Err(Failure::usage(format!(
                "{} is not GitHub: Countersign connects to GitHub only",
                location.api
            ))
            .hint("docs/forges.md says what is connected"));
        }
    };
    Ok(ConnectedForge {
        forge,
        repository,
        token,
        token_origin,
    })
}

/// Turns an error of a forge into a message with the next step.
pub fn forge_failure(error: ForgeError) -> Failure {
    let doctor = "see what the token may do: countersign doctor --forge";
    match &error {
        ForgeError::Limited { .. } => Failure::new(ExitKind::Waiting, error),
        ForgeError::Unauthorized { .. }
        | ForgeError::Forbidden { .. }
        | ForgeError::NotFound { .. } => Failure::error(error).hint(doctor),
        ForgeError::Lost { .. } => {
            Failure::error(error).hint("run it again: everything is written once")
        }
        ForgeError::Unsupported { .. }
        | ForgeError::Refused { .. }
        | ForgeError::Moved { .. }
        | ForgeError::Unreadable { .. }
        | ForgeError::Address(_) => Failure::error(error),
    }
}

/// Checks the forge of a directory's repository: its address, the token, the account and its
/// permission. Nothing is written there.
pub async fn check_forge(environment: &Environment, directory: &Path) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    let mut add = |what, found: Result<String, String>| {
        let fine = found.is_ok();
        let found = found.unwrap_or_else(|why| why);
        checks.push(DoctorCheck { what, fine, found });
    };
    let connected = async {
        let git = open_repository(environment, directory).await?;
        connect_forge(environment, &git, engine::clock::now).await
    };
    let connected = match connected.await {
        Ok(connected) => connected,
        Err(failure) => {
            let hints = failure.hints.iter().map(|hint| format!("; {hint}"));
            let hints: String = hints.collect();
            add("forge", Err(format!("{}{hints}", failure.message)));
            return checks;
        }
    };
    let location = &connected.repository.location;
    let origin = match location.origin {
        LocationOrigin::Configured => "by [forge]",
        LocationOrigin::WellKnown => "a well-known host",
        LocationOrigin::Authenticated => "gh has a login for it",
    };
    let place = format!("{} at {} ({origin})", location.repository, location.api);
    add("forge", Ok(place));
    add("token", Ok(connected.token_origin.clone()));
    match connected.forge.whoami().await {
        Err(error) => add("account", Err(error.to_string())),
        Ok(account) => {
            add("account", Ok(findings::one_line(&account.login)));
            add("permission", describe_permission(&account));
        }
    }
    checks
}

/// Says what the account may do for us, or what is missing.
fn describe_permission(account: &ForgeAccount) -> Result<String, String> {
    let name = account.capabilities.name;
    match account.permission {
        ForgePermission::Write | ForgePermission::Admin => Ok(format!(
            "it may write. {name} takes no approval of a pull request from its own author; the commit status is the gate"
        )),
        ForgePermission::Read => Err(
            "it may only read: `review --pr` works, `--post` does not. Give the token \"Pull requests: write\" and \"Commit statuses: write\"".to_owned(),
        ),
        ForgePermission::None => {
            Err("it may not read the repository: give the token access to it".to_owned())
        }
    }
}
