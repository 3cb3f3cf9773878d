//! `countersign serve` and `countersign mcp`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use engine::process::Stop;
use flow::narrate::Mood;
use rmcp::ServiceExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Desktop;
use super::out::Out;
use crate::failure::{Exit, Failure};
use crate::mcp::Counter;
use crate::notify;
use crate::operations::history::Follower;
use crate::operations::{Office, config, identity, overview, service};
use crate::settings::notify::{Notify, Target};
use crate::spool;
use crate::web::{self, House};

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
    /// A server with TLS stands in front; needed to listen where others can reach it.
    #[arg(long)]
    behind_tls: bool,
    /// A directory for task files and what becomes of them [default: `spool.directory` of your own
    /// configuration, else none].
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
}

pub async fn perform(args: Args, desktop: &Desktop) -> Result<Exit, Failure> {
    let office = desktop.office().await?;
    service::must_be_safe(&office, args.listen, args.behind_tls).await?;
    // Heard from the start: who stops us early finds nothing of us left.
    let mut told = Signals::new()?;
    let (listener, address) = web::listen(args.listen).await?;
    let own = config::own(&desktop.surroundings)?;
    let targets = own.notify.iter().map(Notify::target);
    let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
    let spool = args.spool.or(own.spool.directory.map(PathBuf::from));
    let logs = own.spool.logs.map(PathBuf::from);
    let at = |path: PathBuf| desktop.directory.join(path);
    let (files, logs) = (spool.map(at), logs.map(at));
    let spool = files
        .as_ref()
        .map(|path| spool::open(&office, path, logs.as_deref()))
        .transpose()?;
    let (stopper, stop) = Stop::pair();
    let carriers = notify::start(&office, targets, &stop).await?;
    let posted = service::post(&office, address).await?;
    let watch = tokio::spawn({
        let (office, stop) = (office.clone(), stop.clone());
        async move { service::look_after(&office, stop).await }
    });
    let keeper = tokio::spawn({
        let (office, stop) = (office.clone(), stop.clone());
        async move { service::keep_house(&office, stop).await }
    });
    let log = tokio::spawn(write_log(office.clone(), desktop.out.clone(), stop.clone()));
    let spool = spool.map(|spool| tokio::spawn(spool::run(spool, stop.clone())));
    let house = House::new(office.clone(), args.host);
    let server = tokio::spawn(web::serve(listener, house, stop));
    desktop.out.line(format!(
        "listening on http://{address}  (agents: /mcp, programs: /api/v1, people: `countersign status`)"
    ));
    if let Some(place) = &files {
        desktop.out.line(format!("task files: {}", place.display()));
    }
    desktop
        .out
        .answer(&serde_json::json!({"url": format!("http://{address}")}));
    told.stop().await;
    desktop
        .out
        .line("stopping: what is being answered is answered first");
    stopper.stop();
    let _ = server.await;
    let _ = watch.await;
    let _ = keeper.await;
    let _ = log.await;
    carriers.finish().await;
    if let Some(spool) = spool {
        let _ = spool.await;
    }
    service::take_down(&office, posted).await;
    Ok(Exit::Done)
}

/// The server's log: verdicts, escalations, ends and troubles as they come, in 000's words.
async fn write_log(office: Office, out: Out, mut stop: Stop) {
    let mut follower = Follower::default();
    let mut after = overview::newest(&office).await.unwrap_or_default();
    loop {
        let read = follower.read(&office, None, after, LOG_CHUNK).await;
        // A store that is away now is back at another look.
        let told = read.ok().and_then(|told| Some((told.end?, told.lines)));
        if let Some((end, lines)) = told {
            let worth = lines.iter().filter(|line| line.mood != Mood::Plain);
            worth.for_each(|line| out.line(super::log::told(line, &out)));
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

/// Ctrl-C, and what service managers send.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let hear = |kind: SignalKind| {
            signal(kind)
                .map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))
        };
        Ok(Self {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// MCP on the standard input and output, for one agent: who it is, its token says.
pub async fn over_stdio(desktop: &Desktop) -> Result<Exit, Failure> {
    let office = desktop.office().await?;
    let secret = desktop.surroundings.token.as_deref().ok_or_else(|| {
        Failure::usage("nobody is recognised: COUNTERSIGN_TOKEN is not set")
            .hint("`countersign token create --agent NAME --role ROLE` makes one")
    })?;
    let speaker = identity::recognise(&office, secret)
        .await?
        .map_err(|stranger| Failure::new(Exit::Refused, stranger))?;
    let counter = Counter::new(office, Some(speaker));
    let broken =
        |error: &dyn std::fmt::Display| Failure::error(format!("the dialogue broke: {error}"));
    let served = counter
        .serve(rmcp::transport::stdio())
        .await
        .map_err(|error| broken(&error))?;
    served.waiting().await.map_err(|error| broken(&error))?;
    Ok(Exit::Done)
}
