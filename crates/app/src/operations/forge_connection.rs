//! Connects to the forge of a repository, and checks what the token may do there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::git::{Remote, Repository};
use flow::Time;
use forge::address::{ForgeKind, ForgeLocation, LocationOrigin};
use forge::{
    Forge, ForgeAccount, ForgeCapabilities, ForgeClock, ForgeConnection, ForgeCredential,
    ForgeError, ForgePermission, ForgeTransport, Forgejo, Github, Gitlab, HyperTransport, Jira,
    TrackerOnly,
};

use super::App;
use super::config;
use super::doctor::DoctorCheck;
use super::forge_pacing::{CallMeter, PacedTransport};
use super::project::open_repository;
use crate::failure::{ExitKind, Failure};
use crate::remote::connection_pool;
use crate::settings::Environment;
use crate::settings::connections::ConnectionKind;
use crate::settings::forge::{ForgeRepository, tool_logins};
use crate::settings::forge_token::CommandPlace;
use crate::settings::server::ServerTrust;
use crate::settings::tracker::JIRA_VARIABLES;

/// A forge that does not answer a handshake in this time is away; the caller tries again later.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Looks come in bursts. Longer than a burst, a kept connection is likely to be closed already.
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
    connection: ForgeConnection,
    /// Variable or file that the token comes from.
    pub token_origin: String,
}

impl ConnectedForge {
    /// Returns the remote to fetch from. Git gets the token only if the remote is on the forge.
    ///
    /// The token is asked for each time: that of an App ends after an hour, and a server keeps its
    /// clients for longer.
    pub async fn git_remote(&self) -> Result<Remote, Failure> {
        let Some(address) = &self.repository.remote else {
            return Err(
                Failure::usage("this repository has no remote to fetch from")
                    .hint("add it with `git remote add origin ADDRESS`"),
            );
        };
        let remote = Remote::parse(address).map_err(Failure::usage)?;
        // The remote may be another server, and the token is none of its business.
        Ok(if self.repository.remote_is_forge {
            let token = self.connection.current_token().await;
            remote.with_header(token.map_err(forge_failure)?.git_header())
        } else {
            remote
        })
    }
}

/// Finds the forge of a repository and builds the client. Nothing is sent. Its writes wait for their
/// turn among those of the whole fleet, and its calls are counted.
pub async fn connect_forge(
    app: &App,
    git: &Repository,
    meter: &Arc<CallMeter>,
) -> Result<ConnectedForge, Failure> {
    let clock = app.coordinator.clock;
    connect(&app.environment, git, clock, |inner, api, identity| {
        pace(app, meter, inner, api, identity)
    })
    .await
}

/// The same for a project of the tracker of `[tracker]`.
pub async fn connect_project(
    app: &App,
    project: &str,
    meter: &Arc<CallMeter>,
) -> Result<ConnectedForge, Failure> {
    let clock = app.coordinator.clock;
    connect_tracker(&app.environment, project, clock, |inner, api, identity| {
        pace(app, meter, inner, api, identity)
    })
    .await
}

fn pace(
    app: &App,
    meter: &Arc<CallMeter>,
    inner: Arc<dyn ForgeTransport>,
    api: &str,
    identity: &str,
) -> Arc<dyn ForgeTransport> {
    let hash = engine::hash::short_sha256(identity.as_bytes());
    // Forges limit an account, so writes with one credential wait for each other, and those with
    // another do not. The store sees only the hash.
    let host = api.split('/').nth(2).unwrap_or(api);
    Arc::new(PacedTransport {
        inner,
        store: Arc::clone(&app.coordinator.store),
        clock: app.coordinator.clock,
        name: format!("writes/{host}/{hash}"),
        meter: Arc::clone(meter),
    })
}

/// Returns the text by which a fleet recognises the same credential. It is only ever hashed.
fn identity_of(credential: &ForgeCredential, origin: &str) -> String {
    match credential {
        ForgeCredential::Token(token) | ForgeCredential::Account { token, .. } => {
            token.git_header()
        }
        // Its tokens change every hour; the App stays.
        ForgeCredential::App(_) => origin.to_owned(),
    }
}

async fn connect(
    environment: &Environment,
    git: &Repository,
    clock: fn() -> Time,
    wrap: impl FnOnce(Arc<dyn ForgeTransport>, &str, &str) -> Arc<dyn ForgeTransport>,
) -> Result<ConnectedForge, Failure> {
    // Only the user's own file counts: a repository must not choose where a token goes.
    let section = config::load_user_settings(environment)?.forge;
    // Read before the token, so that a repository without a forge asks for no password.
    let remotes = git.remote_urls().await.map_err(Failure::error)?;
    let repository = section.locate(&remotes, &tool_logins(environment))?;
    let location = &repository.location;
    let (credential, token_origin) = section
        .credential(CommandPlace::of(environment), location)
        .await?;
    let identity = identity_of(&credential, &token_origin);
    let transport = wrap(
        open_pool(section.ca_file.as_ref())?,
        &location.api,
        &identity,
    );
    let connection = ForgeConnection {
        transport,
        clock: Arc::new(WallClock(clock)),
        api: location.api.clone(),
        token: credential,
    };
    // Git needs the token too, and only an App has to ask for it: better now than after a review.
    connection.current_token().await.map_err(forge_failure)?;
    let name = &location.repository;
    let own = || connection.clone();
    let forge: Result<Box<dyn Forge>, ForgeError> = match location.kind {
        ForgeKind::Github => Github::new(own(), name).map(|forge| Box::new(forge) as _),
        ForgeKind::Gitlab => Gitlab::new(own(), name).map(|forge| Box::new(forge) as _),
        ForgeKind::Gitea => Forgejo::new(own(), name).map(|forge| Box::new(forge) as _),
        ForgeKind::Jira => {
            return Err(Failure::usage(
                "Jira has no pull requests, so it cannot be the forge of a repository",
            )
            .hint("name it in [tracker], and the forge in [forge]; see docs/jira.md"));
        }
    };
    Ok(ConnectedForge {
        forge: forge.map_err(forge_failure)?,
        repository,
        connection,
        token_origin,
    })
}

fn open_pool(ca_file: Option<&String>) -> Result<Arc<dyn ForgeTransport>, Failure> {
    let trust = ServerTrust::Authorities(ca_file.map(Into::into));
    let pool = connection_pool(&trust, CONNECT_WITHIN, IDLE)?;
    Ok(Arc::new(HyperTransport(pool)))
}

async fn connect_tracker(
    environment: &Environment,
    project: &str,
    clock: fn() -> Time,
    wrap: impl FnOnce(Arc<dyn ForgeTransport>, &str, &str) -> Arc<dyn ForgeTransport>,
) -> Result<ConnectedForge, Failure> {
    let section = config::load_user_settings(environment)?.tracker;
    let Some(api) = section.api() else {
        return Err(Failure::usage(format!("no tracker is configured for {project}")).hint(
            "put [tracker] with kind = \"jira\", url and login into your own file; see docs/jira.md",
        ));
    };
    let read = section.token_source();
    let read = read
        .read(CommandPlace::of(environment), &api, &JIRA_VARIABLES)
        .await;
    let (token, token_origin) = read?;
    let credential = match &section.login {
        Some(login) => ForgeCredential::Account {
            login: login.clone(),
            token,
        },
        None => token.into(),
    };
    let identity = identity_of(&credential, &token_origin);
    let connection = ForgeConnection {
        transport: wrap(open_pool(section.ca_file.as_ref())?, &api, &identity),
        clock: Arc::new(WallClock(clock)),
        api: api.clone(),
        token: credential,
    };
    let jira = Jira::new(connection.clone(), project).map_err(forge_failure)?;
    Ok(ConnectedForge {
        forge: Box::new(TrackerOnly(jira)),
        repository: ForgeRepository {
            location: ForgeLocation {
                kind: ForgeKind::Jira,
                api,
                repository: project.to_owned(),
                origin: LocationOrigin::Configured,
            },
            remote: None,
            remote_is_forge: false,
        },
        connection,
        token_origin,
    })
}

/// Turns an error of a forge into a message with the next step.
pub fn forge_failure(error: ForgeError) -> Failure {
    let doctor = "see what the token may do: countersign doctor --forge";
    match &error {
        // Not an error of the person's: the same command works later.
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
        // There may be no store yet, and nothing is written.
        let clock = engine::clock::now;
        connect(environment, &git, clock, |transport, _, _| transport).await
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
        LocationOrigin::Authenticated => "its own tool has a login for it",
    };
    let place = format!("{} at {} ({origin})", location.repository, location.api);
    add("forge", Ok(place));
    add("token", Ok(connected.token_origin.clone()));
    match connected.forge.whoami().await {
        Err(error) => add("account", Err(error.to_string())),
        Ok(account) => {
            add("account", Ok(findings::one_line(&account.login)));
            add("permission", describe_permission(&account));
            add("abilities", Ok(describe_abilities(&account.capabilities)));
        }
    }
    checks.extend(check_tracker(environment).await);
    checks
}

/// Checks the tracker of `[tracker]`, if there is one. Projects are checked by their connections.
async fn check_tracker(environment: &Environment) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    let mut add = |what, found: Result<String, String>| {
        let fine = found.is_ok();
        let found = found.unwrap_or_else(|why| why);
        checks.push(DoctorCheck { what, fine, found });
    };
    let Ok(settings) = config::load_user_settings(environment) else {
        return checks;
    };
    let Some(api) = settings.tracker.api() else {
        return checks;
    };
    let jira = settings.connections.iter();
    // An account has no permission as such, only for a project. The first connection has one to ask
    // about.
    let mut jira = jira.filter(|one| one.forge == Some(ConnectionKind::Jira));
    let Some(connection) = jira.next() else {
        let hint = "add a [[connection]] with forge = \"jira\" and the key of a project";
        add(
            "tracker",
            Err(format!("{api}: no connection uses it; {hint}")),
        );
        return checks;
    };
    let project = &connection.repository;
    let clock = engine::clock::now;
    // Only reads, so nothing has to wait for a turn.
    let connected = connect_tracker(environment, project, clock, |inner, _, _| inner).await;
    let account = match connected {
        Ok(connected) => connected
            .forge
            .whoami()
            .await
            .map_err(|error| error.to_string()),
        Err(failure) => Err(failure.message),
    };
    match account {
        Err(why) => add("tracker", Err(format!("{api}: {why}"))),
        Ok(account) => {
            add(
                "tracker",
                Ok(format!("{api} as {}", findings::one_line(&account.login))),
            );
            add(
                "tracker permission",
                describe_tracker_permission(project, account.permission),
            );
        }
    }
    checks
}

/// Says what the account may do with the issues of a project, or what is missing.
fn describe_tracker_permission(
    project: &str,
    permission: ForgePermission,
) -> Result<String, String> {
    match permission {
        ForgePermission::Write | ForgePermission::Admin => Ok(format!(
            "it may comment on and transition issues of {project}"
        )),
        ForgePermission::Read => Err(format!(
            "it may only read {project}: give the account \"Add comments\" and \"Transition issues\""
        )),
        ForgePermission::None => Err(format!(
            "it may not see {project}: give the account \"Browse projects\""
        )),
    }
}

/// Says what the forge can do for this account.
fn describe_abilities(capabilities: &ForgeCapabilities) -> String {
    let gate = if capabilities.has_check_runs {
        "check run"
    } else {
        "commit status"
    };
    let threads = if capabilities.has_threads {
        "threads are resolved and reopened"
    } else {
        "threads are answered, and people resolve them: the API cannot"
    };
    format!("the gate is a {gate}; {threads}")
}

/// Says what the account may do for us, or what is missing.
fn describe_permission(account: &ForgeAccount) -> Result<String, String> {
    let name = account.capabilities.name;
    if let Some(obstacle) = &account.obstacle {
        return Err(obstacle.to_string());
    }
    match account.permission {
        ForgePermission::Write | ForgePermission::Admin => Ok(format!(
            "it may write. {name} takes no approval of a pull request from its own author; the commit status is the gate"
        )),
        ForgePermission::Read => Err(format!(
            "it may only read: `review --pr` works, `--post` does not. {}",
            missing_scopes(name)
        )),
        ForgePermission::None => {
            Err("it may not read the repository: give the token access to it".to_owned())
        }
    }
}

/// Names the rights that a token needs, in the words of the forge.
fn missing_scopes(name: &str) -> &'static str {
    match name {
        "GitLab" => "Give the account the role Developer and the token the scope \"api\"",
        "Forgejo" => {
            "Make the account a collaborator with write access, and give the token \"repository: write\" and \"issue: write\""
        }
        _ => "Give the token \"Pull requests: write\" and \"Commit statuses: write\"",
    }
}
