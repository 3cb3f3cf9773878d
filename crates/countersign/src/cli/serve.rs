//! `countersign serve` and `countersign mcp`: start and stop the server, and MCP over stdio.
//!
//! The order of the start is the order of what can fail: files and addresses first, then the port,
//! then the published address. Nobody is told an address that is not served.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::log::LogErr;
use engine::process::{StopSignal, Stopper};
use flow::narrate::Mood;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tracing::field;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::forge_inbox::ForgeInbox;
use app::operations::forge_poller;
use app::operations::history::{LogFollower, LogLine};
use app::operations::oidc::OidcLogin;
use app::operations::service::{self, PublishedServer};
use app::operations::{
    App, browser_sessions, config, connections, identity, overview, server_lock,
};
use app::remote::RemoteServer;
use app::settings::Environment;
use app::settings::connections::ForgeLink;
use app::settings::notify::{NotifySection, NotifyTarget};
use app::settings::server::{ServerAddress, ServerSettings};
use server::mcp::{self, bridge};
use server::notify::{self, DeliveryTasks};
use server::spool::{self, Spool};
use server::web::session;
use server::web::tls::{CertificateFiles, Tls};
use server::web::{self, ServerState};

/// Interval at which the certificate's files are checked for changes.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Events per read of the log, pause after each read, and fallback poll interval if a wake-up is
/// lost.
const LOG_CHUNK: u32 = 500;
/// Reads of the log after the stop: other processes may go on writing to it.
const LAST_CHUNKS_MAX: u32 = 20;
const LOG_REST: Duration = Duration::from_millis(100);
const LOG_POLL_FALLBACK: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address and port to listen on; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Additional host name of this server. Repeatable.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Use TLS with this certificate (PEM, the server's own first). Reloaded on SIGHUP and on
    /// changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM), not readable by others.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front handles TLS. An address that others can reach needs this or a certificate.
    #[arg(long)]
    behind_tls: bool,
    /// Directory for task files and their results [default: `spool.directory` of your user
    /// configuration, else none].
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
}

impl Args {
    /// Returns the options of a server for this machine only, on any free port.
    pub fn local() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            host: Vec::new(),
            tls_cert: None,
            tls_key: None,
            behind_tls: false,
            spool: None,
        }
    }

    fn tls(&self, context: &Context) -> Result<Option<Arc<Tls>>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let files = CertificateFiles {
            certificate: context.directory.join(certificate),
            key: context.directory.join(key),
        };
        Tls::read(files).map(Arc::new).map(Some)
    }

    /// Returns the accepted host names, including the listen address.
    fn host_names(&self) -> Vec<String> {
        let own = self.listen.ip();
        // An unspecified address is no name that a client can use.
        let own = (!own.is_unspecified()).then(|| own.to_string());
        self.host.iter().cloned().chain(own).collect()
    }
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    // A broken certificate or configuration ends the start before anything is opened.
    let tls = args.tls(context)?;
    let settings = TaskSettings::read(&args, context)?;
    let login_settings = config::load_user_settings(&context.environment)?.server;
    let oidc = login_settings.oidc.map(OidcLogin::new).transpose()?;
    let mut app = context.open_app().await?;
    // Held until the end: a second server must not touch the files of this one.
    let _lock = server_lock::acquire(&app.environment).await?;
    tokio::spawn(app::operations::clean::apply_retention_daily(app.clone()));
    // An open port without TLS would send tokens in clear text.
    service::require_safe_address(&app, args.listen, tls.is_some() || args.behind_tls).await?;
    // Installed first, so that an early stop signal still cleans everything up.
    let mut signals = ServeSignals::new()?;
    let (listener, address) = web::listen(args.listen).await?;
    let (stopper, stop) = StopSignal::pair();
    app.stop = stop.clone();
    let encrypted = tls.is_some() || args.behind_tls;
    let state = ServerState::new(app.clone(), args.host_names(), encrypted).with_oidc(oidc);
    let mut tasks = ServerTasks::open(settings, &app, &state).await?;
    let fingerprint = tls.as_ref().map(|tls| tls.fingerprint());
    // Published when the port is open. A client that reads the file can connect at once.
    let mut published = service::publish(&app, address, fingerprint).await?;
    let watch = tokio::spawn({
        let (app, stop) = (app.clone(), stop.clone());
        async move { service::run_maintenance(&app, stop).await }
    });
    let system_jobs = tokio::spawn({
        let (app, stop) = (app.clone(), stop.clone());
        async move { service::run_system_jobs(&app, stop).await }
    });
    // Ended last, so that what is decided while the server stops is in its log.
    let (log_stopper, log_stop) = StopSignal::pair();
    let log = tokio::spawn(log_events(app.clone(), log_stop));
    let server = tokio::spawn(web::serve(listener, tls.clone(), state.clone(), stop));
    let url = service::local_url(address, tls.is_some());
    context.out.line(format!(
        "listening on {url}  (agents: /mcp, programs: /api/v1, people: `countersign status`)"
    ));
    let login = browser_sessions::login_link(&app, &url).await?;
    context.out.line(format!(
        "dashboard: {login}  (works once, for a minute; another: `countersign open`)"
    ));
    context
        .out
        .print_json(&serde_json::json!({ "url": url, "login": login }));
    tracing::info!(url, "listening");
    loop {
        let force = match signals.next(tls.is_some()).await {
            ServeSignal::Stop => break,
            ServeSignal::Reload => true,
            ServeSignal::CheckCertificate => false,
        };
        if let Some(tls) = tls.as_deref() {
            reload_certificate(tls, force, &mut published);
        }
        if force {
            let settings = TaskSettings::read(&args, context);
            tasks = tasks.reload(settings, &app, &state).await;
        }
    }
    tracing::info!("stopping: requests in progress are answered first");
    stopper.stop();
    tasks.stopper.stop();
    server.await.log_err("stop the listener");
    watch.await.log_err("stop the lease watch");
    system_jobs.await.log_err("stop the workers of this server");
    tasks.finish().await;
    log_stopper.stop();
    log.await.log_err("stop the log of events");
    // Last, so that local commands find the server until it is gone.
    service::unpublish(&app, published).await;
    Ok(ExitKind::Done)
}

/// Reloads the certificate. An unusable one is logged, and the old one stays in use.
fn reload_certificate(tls: &Tls, force: bool, published: &mut PublishedServer) {
    let renewed = tls.reload(force).and_then(|is_new| {
        if is_new {
            // Local clients pin the certificate, so the file has to name the new one.
            published.renew(tls.fingerprint())?;
            tracing::info!("reloaded the certificate");
        }
        Ok(())
    });
    if let Err(failure) = renewed {
        let error = failure.to_string();
        tracing::error!(
            error,
            "could not reload the certificate, the old one stays in use"
        );
    }
}

/// Settings of the server from the user's own configuration file.
#[derive(Clone, Debug)]
struct TaskSettings {
    targets: Vec<NotifyTarget>,
    spool: Option<PathBuf>,
    spool_logs: Option<PathBuf>,
    links: Arc<Vec<ForgeLink>>,
}

impl TaskSettings {
    fn read(args: &Args, context: &Context) -> Result<Self, Failure> {
        let user_settings = config::load_user_settings(&context.environment)?;
        for note in user_settings.notify.iter().flat_map(NotifySection::remarks) {
            tracing::warn!("{note}");
        }
        let targets = user_settings.notify.iter().map(NotifySection::resolve);
        // A target that cannot be used ends the start of a server: nobody would notice it later.
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        notify::check(&targets, &context.environment)?;
        let at = |path: PathBuf| context.directory.join(path);
        let configured = user_settings.spool.directory.map(PathBuf::from);
        Ok(Self {
            targets,
            links: Arc::new(connections::load_links(&context.environment)?),
            spool: args.spool.clone().or(configured).map(at),
            spool_logs: user_settings.spool.logs.map(PathBuf::from).map(at),
        })
    }
}

/// Tasks of the server besides the listener: the spool and the notifications. They are opened before
/// the address is published, and again when the configuration is reloaded.
struct ServerTasks {
    settings: TaskSettings,
    deliveries: DeliveryTasks,
    running: JoinSet<()>,
    /// Stops these tasks only, so that a reload leaves the server alone.
    stopper: Stopper,
}

impl ServerTasks {
    async fn open(settings: TaskSettings, app: &App, state: &ServerState) -> Result<Self, Failure> {
        let (stopper, stop) = StopSignal::pair();
        let open = |path| spool::open(app, path, settings.spool_logs.as_deref());
        let spool: Option<Spool> = settings.spool.as_deref().map(open).transpose()?;
        let deliveries = notify::start(app, settings.targets.clone(), &stop).await?;
        let mut running = JoinSet::new();
        if let Some(spool) = spool {
            running.spawn(spool::run(spool, stop.clone()));
        }
        let links = Arc::clone(&settings.links);
        if !links.is_empty() {
            let inbox = ForgeInbox::new(app, Arc::clone(&links), stop.clone());
            inbox.note_start().await?;
            let poller =
                forge_poller::run(app.clone(), Arc::clone(&inbox), Arc::clone(&links), stop);
            running.spawn(poller);
            running.spawn(inbox.run());
        }
        // From now on, because the news of a webhook have a reader now.
        state.set_links(links);
        Ok(Self {
            settings,
            deliveries,
            running,
            stopper,
        })
    }

    /// Starts again with new settings. Unusable ones are logged, and the old ones stay in use.
    async fn reload(
        self,
        settings: Result<TaskSettings, Failure>,
        app: &App,
        state: &ServerState,
    ) -> Self {
        let unusable = |failure: Failure| {
            let error = failure.to_string();
            tracing::error!(
                error,
                "could not reload the configuration, the old one stays in use"
            );
        };
        let settings = match settings {
            Ok(settings) => settings,
            Err(failure) => {
                unusable(failure);
                return self;
            }
        };
        let old = self.settings.clone();
        // The spool's lock and the positions of the notifications have to be free first.
        self.stopper.stop();
        self.finish().await;
        match Self::open(settings, app, state).await {
            Ok(tasks) => {
                tracing::info!("reloaded the configuration");
                return tasks;
            }
            Err(failure) => unusable(failure),
        }
        match Self::open(old.clone(), app, state).await {
            Ok(tasks) => tasks,
            Err(failure) => {
                let error = failure.to_string();
                tracing::error!(error, "the spool and the notifications are off");
                Self::idle(old)
            }
        }
    }

    /// Returns tasks that do nothing, until a reload succeeds.
    fn idle(settings: TaskSettings) -> Self {
        Self {
            settings,
            deliveries: DeliveryTasks::default(),
            running: JoinSet::new(),
            stopper: StopSignal::pair().0,
        }
    }

    async fn finish(mut self) {
        while self.running.join_next().await.is_some() {}
        // What is not delivered now is delivered at the next start.
        self.deliveries.finish_within(web::DRAIN_TIMEOUT).await;
    }
}

/// Logs verdicts, escalations, ends and failures of tickets as they are decided, by whichever
/// process.
async fn log_events(app: App, mut stop: StopSignal) {
    let mut follower = LogFollower::default();
    let mut after = overview::latest_cursor(&app)
        .await
        .log_err("read the event log")
        .unwrap_or_default();
    let mut last_chunks = 0;
    loop {
        if stop.is_requested() {
            last_chunks += 1;
        }
        let read = follower.read(&app, None, after, LOG_CHUNK).await;
        // An unreachable store is tried again at the next poll.
        let batch = read
            .log_err("read the event log")
            .and_then(|batch| Some((batch.end?, batch.lines)));
        let has_more = batch.is_some();
        if let Some((end, lines)) = batch {
            // Ordinary steps are in the event log; the operator's log has what decides.
            let notable = lines.iter().filter(|line| line.mood != Mood::Plain);
            notable.for_each(log_event);
            after = end;
        }
        if last_chunks > 0 {
            if has_more && last_chunks < LAST_CHUNKS_MAX {
                continue;
            }
            return;
        }
        let quiet = async {
            // Limits the rate, so that the log does not compete with the jobs.
            tokio::time::sleep(LOG_REST).await;
            overview::wait_for_change(&app, after, LOG_POLL_FALLBACK).await;
        };
        tokio::select! {
            () = quiet => {}
            () = stop.requested() => {}
        }
    }
}

fn log_event(line: &LogLine) {
    let ticket = line.ticket.as_ref().map(field::display);
    tracing::info!(
        ticket,
        caller = line.by,
        event = line.event,
        "{}",
        findings::one_line(&line.text)
    );
}

/// A reason for the server to do something besides serving.
enum ServeSignal {
    Stop,
    /// SIGHUP: read certificate and configuration again. It never stops the server, also not when
    /// the terminal that started it is closed.
    Reload,
    CheckCertificate,
}

/// Signals of the terminal and of service managers.
pub struct ServeSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl ServeSignals {
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind: SignalKind| {
            signal(kind)
                .map_err(|error| Failure::error(format!("could not listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal, or for the time to look at the certificate's files.
    async fn next(&mut self, has_certificate: bool) -> ServeSignal {
        tokio::select! {
            _ = self.interrupt.recv() => ServeSignal::Stop,
            _ = self.terminate.recv() => ServeSignal::Stop,
            _ = self.hangup.recv() => ServeSignal::Reload,
            () = tokio::time::sleep(CERTIFICATE_CHECK_INTERVAL), if has_certificate => {
                ServeSignal::CheckCertificate
            }
        }
    }

    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Serves MCP over standard input and output for the agent of the token.
pub async fn run_mcp_stdio(context: &Context) -> Result<ExitKind, Failure> {
    let environment = &context.environment;
    let secret = environment.server.token.clone().ok_or_else(|| {
        Failure::usage("COUNTERSIGN_TOKEN is not set")
            .hint("create a token: `countersign token create --agent NAME --role ROLE`")
    })?;
    if server_address(environment).is_none() {
        return serve_stdio_locally(&secret, context).await;
    }
    let environment = environment.clone();
    let find = move || {
        let stopped = || Failure::new(ExitKind::Store, "the server on this machine has stopped");
        RemoteServer::new(server_address(&environment).ok_or_else(stopped)?, &secret)
    };
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    bridge::run(Arc::new(find), input, tokio::io::stdout()).await?;
    Ok(ExitKind::Done)
}

/// Returns the configured server, else the one running on this machine, unless `--server none` is
/// set.
fn server_address(environment: &Environment) -> Option<ServerAddress> {
    let ServerSettings {
        address, by_flag, ..
    } = environment.server.clone();
    // `--server none` asks for the local store, even if a server runs.
    let running = || service::running_server(environment).filter(|_| !by_flag);
    address.or_else(running)
}

/// Serves one agent from the local store, without a server.
async fn serve_stdio_locally(secret: &str, context: &Context) -> Result<ExitKind, Failure> {
    let app = context.open_app().await?;
    let mut identity = identity::authenticate(&app, secret)
        .await?
        .map_err(|error| Failure::new(ExitKind::Refused, error))?;
    // The label lets `flow` tell this process from another with the same token.
    identity.session = session::new_session_id();
    Box::pin(mcp::serve_stdio(app, identity)).await?;
    Ok(ExitKind::Done)
}
