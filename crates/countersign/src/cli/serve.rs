//! `countersign serve` and `countersign mcp`: start and stop the server, and MCP over stdio.
//!
//! The order of the start is the order of what can fail: files and addresses first, then the port,
//! then the published address. Nobody is told an address that is not served.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use flow::narrate::Mood;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tracing::field;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::history::{LogFollower, LogLine};
use app::operations::service::{self, PublishedServer};
use app::operations::{App, config, identity, overview};
use app::remote::RemoteServer;
use app::settings::Environment;
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
    // A broken certificate ends the start before anything is opened.
    let tls = args.tls(context)?;
    let app = context.open_app().await?;
    tokio::spawn(app::operations::clean::apply_retention_daily(app.clone()));
    // An open port without TLS would send tokens in clear text.
    service::require_safe_address(&app, args.listen, tls.is_some() || args.behind_tls).await?;
    // Installed first, so that an early stop signal still cleans everything up.
    let mut signals = ServeSignals::new()?;
    let (listener, address) = web::listen(args.listen).await?;
    let (stopper, stop) = StopSignal::pair();
    let tasks = ServerTasks::open(&args, &app, context, &stop).await?;
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
    let log = tokio::spawn(log_events(app.clone(), stop.clone()));
    let tasks = tasks.start(&stop);
    let encrypted = tls.is_some() || args.behind_tls;
    let state = ServerState::new(app.clone(), args.host_names(), encrypted);
    let server = tokio::spawn(web::serve(listener, tls.clone(), state, stop));
    let url = service::local_url(address, tls.is_some());
    context.out.line(format!(
        "listening on {url}  (agents: /mcp, programs: /api/v1, people: `countersign status`)"
    ));
    context.out.print_json(&serde_json::json!({ "url": url }));
    tracing::info!(url, "listening");
    signals
        .wait_reloading_certificate(tls.as_deref(), &mut published)
        .await;
    tracing::info!("stopping: requests in progress are answered first");
    stopper.stop();
    server.await.log_err("stop the listener");
    watch.await.log_err("stop the lease watch");
    system_jobs.await.log_err("stop the workers of this server");
    log.await.log_err("stop the log of events");
    tasks.finish().await;
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

/// Tasks of the server besides the listener. They are opened before the address is published.
struct ServerTasks {
    spool: Option<Spool>,
    carriers: DeliveryTasks,
    running: JoinSet<()>,
}

impl ServerTasks {
    async fn open(
        args: &Args,
        app: &App,
        context: &Context,
        stop: &StopSignal,
    ) -> Result<Self, Failure> {
        let user_settings = config::load_user_settings(&context.environment)?;
        for note in user_settings.notify.iter().flat_map(NotifySection::remarks) {
            tracing::warn!("{note}");
        }
        let targets = user_settings.notify.iter().map(NotifySection::resolve);
        // A target that cannot be resolved ends the start of a server: nobody would notice it
        // later.
        let targets: Vec<NotifyTarget> = targets.collect::<Result<_, _>>()?;
        let at = |path: PathBuf| context.directory.join(path);
        let logs = user_settings.spool.logs.map(PathBuf::from).map(at);
        let configured = user_settings.spool.directory.map(PathBuf::from);
        let files = args.spool.clone().or(configured).map(at);
        let spool = files.map(|path| spool::open(app, &path, logs.as_deref()));
        Ok(Self {
            spool: spool.transpose()?,
            carriers: notify::start(app, targets, stop).await?,
            running: JoinSet::new(),
        })
    }

    fn start(mut self, stop: &StopSignal) -> Self {
        if let Some(spool) = self.spool.take() {
            self.running.spawn(spool::run(spool, stop.clone()));
        }
        self
    }

    async fn finish(mut self) {
        while self.running.join_next().await.is_some() {}
        self.carriers.finish().await;
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
    loop {
        let read = follower.read(&app, None, after, LOG_CHUNK).await;
        // An unreachable store is tried again at the next poll.
        let batch = read
            .log_err("read the event log")
            .and_then(|batch| Some((batch.end?, batch.lines)));
        if let Some((end, lines)) = batch {
            // Ordinary steps are in the event log; the operator's log has what decides.
            let notable = lines.iter().filter(|line| line.mood != Mood::Plain);
            notable.for_each(log_event);
            after = end;
        }
        let quiet = async {
            // Limits the rate, so that the log does not compete with the jobs.
            tokio::time::sleep(LOG_REST).await;
            overview::wait_for_change(&app, after, LOG_POLL_FALLBACK).await;
        };
        tokio::select! {
            () = quiet => {}
            () = stop.requested() => return,
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

/// Stop signals: Ctrl-C and those of service managers.
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

    /// Waits for a stop signal, and reloads the certificate until then.
    async fn wait_reloading_certificate(
        &mut self,
        tls: Option<&Tls>,
        published: &mut PublishedServer,
    ) {
        loop {
            let force = tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                // Without TLS files there is nothing to reload: the terminal was closed.
                _ = self.hangup.recv() => match tls {
                    Some(_) => true,
                    None => return,
                },
                () = tokio::time::sleep(CERTIFICATE_CHECK_INTERVAL), if tls.is_some() => false,
            };
            if let Some(tls) = tls {
                reload_certificate(tls, force, published);
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
