//! `countersign serve` and `countersign mcp`

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

/// How often the certificate's files are looked at.
const RENEWAL: Duration = Duration::from_secs(10);
/// How much of the log is written at a time, how long it rests then, and the net under its wake-ups.
const LOG_CHUNK: u32 = 500;
const LOG_REST: Duration = Duration::from_millis(100);
const LOG_LOOK: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Another name that this server answers to; may be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Speak TLS with this certificate (PEM, its own first). Read again on SIGHUP, and when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM), closed to others.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A server with TLS stands in front. Where others can reach us, it or a certificate is needed.
    #[arg(long)]
    behind_tls: bool,
    /// A directory for task files and what becomes of them [default: `spool.directory` of your own
    /// configuration, else none].
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
}

impl Args {
    fn tls(&self, desktop: &Context) -> Result<Option<Arc<Tls>>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let files = CertificateFiles {
            certificate: desktop.directory.join(certificate),
            key: desktop.directory.join(key),
        };
        Tls::read(files).map(Arc::new).map(Some)
    }

    /// The names that it answers to; an address that it was told to listen on is one.
    fn names(&self) -> Vec<String> {
        let own = self.listen.ip();
        let own = (!own.is_unspecified()).then(|| own.to_string());
        self.host.iter().cloned().chain(own).collect()
    }
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let tls = args.tls(desktop)?;
    let office = desktop.office().await?;
    service::must_be_safe(&office, args.listen, tls.is_some() || args.behind_tls).await?;
    // Heard from the start: who stops us early finds nothing of us left.
    let mut told = ServeSignals::new()?;
    let (listener, address) = web::listen(args.listen).await?;
    let (stopper, stop) = StopSignal::pair();
    let outlets = ServerTasks::open(&args, &office, desktop, &stop).await?;
    let fingerprint = tls.as_ref().map(|tls| tls.fingerprint());
    let mut posted = service::post(&office, address, fingerprint).await?;
    let watch = tokio::spawn({
        let (office, stop) = (office.clone(), stop.clone());
        async move { service::look_after(&office, stop).await }
    });
    let keeper = tokio::spawn({
        let (office, stop) = (office.clone(), stop.clone());
        async move { service::keep_house(&office, stop).await }
    });
    let log = tokio::spawn(log_events(office.clone(), stop.clone()));
    let outlets = outlets.start(&stop);
    let house = ServerState::new(office.clone(), args.names());
    let server = tokio::spawn(web::serve(listener, tls.clone(), house, stop));
    let url = service::url(address, tls.is_some());
    desktop.out.line(format!(
        "listening on {url}  (agents: /mcp, programs: /api/v1, people: `countersign status`)"
    ));
    desktop.out.answer(&serde_json::json!({ "url": url }));
    tracing::info!(url, "listening");
    told.stop_fresh(tls.as_deref(), &mut posted).await;
    tracing::info!("stopping: requests in progress are answered first");
    stopper.stop();
    server.await.log_err("stop the listener");
    watch.await.log_err("stop the lease watch");
    keeper.await.log_err("stop the workers of this server");
    log.await.log_err("stop the log of events");
    outlets.finish().await;
    service::take_down(&office, posted).await;
    Ok(ExitKind::Done)
}

/// Reads a renewed certificate; one that cannot be used is told of, and the old one goes on.
fn renew(tls: &Tls, asked: bool, posted: &mut PublishedServer) {
    let renewed = tls.renew(asked).and_then(|is_new| {
        if is_new {
            posted.renew(tls.fingerprint())?;
            tracing::info!("the certificate is renewed");
        }
        Ok(())
    });
    if let Err(failure) = renewed {
        let error = failure.to_string();
        tracing::error!(
            error,
            "the certificate is not renewed, the old one stays in use"
        );
    }
}

/// The ways in and out beside the listener, opened before anybody is told of us.
struct ServerTasks {
    spool: Option<Spool>,
    carriers: DeliveryTasks,
    running: JoinSet<()>,
}

impl ServerTasks {
    async fn open(
        args: &Args,
        office: &App,
        desktop: &Context,
        stop: &StopSignal,
    ) -> Result<Self, Failure> {
        let own = config::own(&desktop.surroundings)?;
        for remark in own.notify.iter().flat_map(NotifySection::remarks) {
            tracing::warn!("{remark}");
        }
        let targets = own.notify.iter().map(NotifySection::target);
        let targets: Vec<NotifyTarget> = targets.collect::<Result<_, _>>()?;
        let at = |path: PathBuf| desktop.directory.join(path);
        let logs = own.spool.logs.map(PathBuf::from).map(at);
        let named = own.spool.directory.map(PathBuf::from);
        let files = args.spool.clone().or(named).map(at);
        let spool = files.map(|path| spool::open(office, &path, logs.as_deref()));
        Ok(Self {
            spool: spool.transpose()?,
            carriers: notify::start(office, targets, stop).await?,
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
async fn log_events(office: App, mut stop: StopSignal) {
    let mut follower = LogFollower::default();
    let mut after = overview::newest(&office)
        .await
        .log_err("read the event log")
        .unwrap_or_default();
    loop {
        let read = follower.read(&office, None, after, LOG_CHUNK).await;
        // A store that is away now is back at another look.
        let told = read
            .log_err("read the event log")
            .and_then(|told| Some((told.end?, told.lines)));
        if let Some((end, lines)) = told {
            let worth = lines.iter().filter(|line| line.mood != Mood::Plain);
            worth.for_each(log_event);
            after = end;
        }
        let quiet = async {
            // It goes on beside the work, not before it.
            tokio::time::sleep(LOG_REST).await;
            overview::changed(&office, after, LOG_LOOK).await;
        };
        tokio::select! {
            () = quiet => {}
            () = stop.asked() => return,
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

/// Ctrl-C, and what service managers send.
pub struct ServeSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl ServeSignals {
    pub fn new() -> Result<Self, Failure> {
        let hear = |kind: SignalKind| {
            signal(kind)
                .map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))
        };
        Ok(Self {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
            hangup: hear(SignalKind::hangup())?,
        })
    }

    /// Returns when we are told to stop; until then the certificate is kept fresh.
    async fn stop_fresh(&mut self, tls: Option<&Tls>, posted: &mut PublishedServer) {
        loop {
            let asked = tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                // Without files to read again it means that the terminal has gone.
                _ = self.hangup.recv() => match tls {
                    Some(_) => true,
                    None => return,
                },
                () = tokio::time::sleep(RENEWAL), if tls.is_some() => false,
            };
            if let Some(tls) = tls {
                renew(tls, asked, posted);
            }
        }
    }

    pub async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// MCP on the standard input and output, for one agent: who it is, its token says.
pub async fn over_stdio(desktop: &Context) -> Result<ExitKind, Failure> {
    let surroundings = &desktop.surroundings;
    let secret = surroundings.server.token.clone().ok_or_else(|| {
        Failure::usage("nobody is recognised: COUNTERSIGN_TOKEN is not set")
            .hint("`countersign token create --agent NAME --role ROLE` makes one")
    })?;
    if place(surroundings).is_none() {
        return alone(&secret, desktop).await;
    }
    let surroundings = surroundings.clone();
    let find = move || {
        let gone = || Failure::new(ExitKind::Store, "no server runs here any more");
        RemoteServer::new(place(&surroundings).ok_or_else(gone)?, &secret)
    };
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    bridge::run(Arc::new(find), input, tokio::io::stdout()).await?;
    Ok(ExitKind::Done)
}

/// The server that was named, else the one that runs here; where none is wanted, none.
fn place(surroundings: &Environment) -> Option<ServerAddress> {
    let ServerSettings { place, by_flag, .. } = surroundings.server.clone();
    let running = || service::running(surroundings).filter(|_| !by_flag);
    place.or_else(running)
}

/// Without a server we are one ourselves, for this agent.
async fn alone(secret: &str, desktop: &Context) -> Result<ExitKind, Failure> {
    let office = desktop.office().await?;
    let mut speaker = identity::recognise(&office, secret)
        .await?
        .map_err(|stranger| Failure::new(ExitKind::Refused, stranger))?;
    speaker.session = session::fresh();
    mcp::serve_stdio(office, speaker).await?;
    Ok(ExitKind::Done)
}
