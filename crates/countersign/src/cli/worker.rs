//! `countersign worker`

use std::collections::BTreeSet;

use engine::git::Remote;
use engine::log::LogErr;
use engine::process::StopSignal;
use engine::worker::Shutdown;
use tokio::sync::mpsc;

use super::Context;
use super::serve::ServeSignals;
use app::failure::{ExitKind, Failure};
use app::operations::project::ProjectOptions;
use app::operations::{service, workers};
use app::settings::machine_name;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A queue to work from: build, check, review, verify or merge, or the name of an agent whose tasks
    /// are taken up with the builder (engineer); may be given several times [default: the loop's].
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// How many jobs at once, each by a worker of its own name: NAME-1, NAME-2, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(workers::REPLICAS_MAX)))]
    replicas: u16,
    /// What the workers are called [default: the queue where it is only one, else this machine's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What this machine has; a ticket that needs more is left to others. May be given several times.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = flow::ticket::label)]
    labels: Vec<String>,
    /// Who builds, as for `run`; else whom the project names.
    #[arg(long, value_name = "AGENT")]
    builder: Option<String>,
    /// Who reviews; may be given several times, one for each seat.
    #[arg(long = "reviewer", value_name = "AGENT")]
    reviewers: Vec<String>,
    /// Who verifies single findings.
    #[arg(long, value_name = "AGENT")]
    verifier: Option<String>,
    /// How many jobs of one provider (claude, codex, …) run here at once; may be given several times.
    #[arg(long = "max-jobs-per-provider", value_name = "PROVIDER=N", value_parser = share)]
    shares: Vec<(String, usize)>,
    /// Where this machine gets a repository from that is not here, and puts what came of it; else
    /// where the project says. ADDRESS: https://…, ssh://…, user@host:path, or a directory.
    #[arg(long = "remote", value_name = "REPOSITORY=ADDRESS", value_parser = remote)]
    remotes: Vec<(String, Remote)>,
    /// Land on the base branches of remotes too; else that is left to whoever has the repository.
    #[arg(long)]
    push_base: bool,
    /// The paths that tickets name are another machine's, whatever is at them here.
    #[arg(long)]
    elsewhere: bool,
}

/// A repository as tickets name it, and where this machine gets it from.
fn remote(text: &str) -> Result<(String, Remote), String> {
    let wrong = || format!("{text:?} is no REPOSITORY=ADDRESS");
    let (repository, address) = text.split_once('=').ok_or_else(wrong)?;
    Ok((repository.to_owned(), Remote::parse(address)?))
}

fn share(text: &str) -> Result<(String, usize), String> {
    let wrong = || format!("{text:?} is no PROVIDER=N, with N from 0 to 1000");
    let (provider, most) = text.split_once('=').ok_or_else(wrong)?;
    let most = most.parse().ok().filter(|most| *most <= 1000);
    match most {
        Some(most) if !provider.is_empty() => Ok((provider.to_owned(), most)),
        Some(_) | None => Err(wrong()),
    }
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let wanted = wanted(args)?;
    let place = desktop.workplace().await?;
    let mut told = ServeSignals::new()?;
    let (drainer, drain) = StopSignal::pair();
    let (halter, halt) = StopSignal::pair();
    let (stopper, stop) = StopSignal::pair();
    let mut watch = tokio::spawn(watch(place.clone(), stop));
    announce(&wanted, desktop);
    let (complaints, mut heard) = mpsc::channel(64);
    let work = workers::work(&place, wanted, Shutdown { drain, halt }, complaints);
    tokio::pin!(work);
    let mut asked = 0_u32;
    let mut shut_out = Ok(());
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended,
            watched = &mut watch, if shut_out.is_ok() => {
                shut_out = watched.map_err(Failure::error).and_then(|watched| watched);
                drainer.stop();
                halter.stop();
            }
            Some(complaint) = heard.recv() => tracing::warn!("{complaint}"),
            () = told.stop() => {
                asked += 1;
                if asked == 1 {
                    desktop.out.line("draining: what is in hand is finished first; once more to stop now");
                    drainer.stop();
                } else {
                    desktop.out.line("stopping: what is in hand is given back");
                    halter.stop();
                }
            }
        }
    };
    stopper.stop();
    if shut_out.is_ok()
        && let Some(Err(failure)) = watch.await.log_err("stop the watch")
    {
        tracing::warn!("{failure}");
    }
    shut_out.and(ended).map(|()| ExitKind::Done)
}

/// What is done beside the work until it stops: looking after leases where the store is ours, and where
/// it is a server's, seeing that we are still let in.
async fn watch(place: workers::Workplace, stop: StopSignal) -> Result<(), Failure> {
    let Some(office) = place.office else {
        return workers::stay_known(&place.loader, stop).await;
    };
    service::look_after(&office, stop).await;
    Ok(())
}

fn wanted(args: Args) -> Result<workers::WorkerOptions, Failure> {
    let queues = workers::WorkerQueues::named(&args.queues)?;
    let own = match queues.names().as_slice() {
        [only] => (*only).to_owned(),
        _ => machine_name(),
    };
    Ok(workers::WorkerOptions {
        name: args.name.unwrap_or(own),
        replicas: args.replicas,
        queues,
        labels: args.labels.into_iter().collect::<BTreeSet<String>>(),
        shares: args.shares,
        reach: workers::Reach {
            remotes: args.remotes.into_iter().collect(),
            lands: args.push_base,
            elsewhere: args.elsewhere,
        },
        asked: ProjectOptions {
            builder: args.builder,
            reviewers: args.reviewers,
            verifier: args.verifier,
            ..ProjectOptions::default()
        },
    })
}

fn announce(wanted: &workers::WorkerOptions, desktop: &Context) {
    let names: Vec<String> = (1..=wanted.replicas)
        .map(|number| format!("{}-{number}", wanted.name))
        .collect();
    let queues = wanted.queues.names();
    desktop.out.line(format!(
        "{}: at work on {}",
        names.join(", "),
        queues.join(", ")
    ));
    let answer = serde_json::json!({"workers": names, "queues": queues, "labels": wanted.labels});
    desktop.out.answer(&answer);
}
