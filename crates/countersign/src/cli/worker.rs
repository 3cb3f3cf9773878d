//! `countersign worker`: runs jobs from the queues until it is stopped.
//!
//! The first stop drains and the second one gives jobs back. A drained worker wastes nothing that
//! was paid.

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
use app::operations::{clean, service, workers};
use app::settings::machine_name;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Queue to take jobs from: build, check, review, verify, merge, or the name of an agent whose
    /// tasks the builder performs (engineer). Repeatable [default: build, check, review, verify and
    /// merge].
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// Number of jobs to run at once, each by its own worker: NAME-1, NAME-2, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(workers::REPLICAS_MAX)))]
    replicas: u16,
    /// Name of the workers [default: the queue if there is only one, else this machine's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Label of this machine. Tickets that need other labels are left to other workers. Repeatable.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = flow::ticket::parse_label)]
    labels: Vec<String>,
    /// Agent that builds, as for `run` [default: the project's builder].
    #[arg(long, value_name = "AGENT")]
    builder: Option<String>,
    /// Agent that reviews. Repeatable: one per reviewer.
    #[arg(long = "reviewer", value_name = "AGENT")]
    reviewers: Vec<String>,
    /// Agent that verifies single findings.
    #[arg(long, value_name = "AGENT")]
    verifier: Option<String>,
    /// Limit of concurrent jobs of a provider (claude, codex, …) on this machine. Repeatable.
    #[arg(long = "max-jobs-per-provider", value_name = "PROVIDER=N", value_parser = parse_provider_limit)]
    provider_limits: Vec<(String, usize)>,
    /// Address from which this machine fetches a repository and to which it pushes results
    /// [default: the project's setting]. ADDRESS: https://…, ssh://…, user@host:path, or a
    /// directory.
    #[arg(long = "remote", value_name = "REPOSITORY=ADDRESS", value_parser = parse_remote)]
    remotes: Vec<(String, Remote)>,
    /// Also land on the base branches of remotes. By default, the machine with the repository does
    /// that.
    #[arg(long)]
    push_base: bool,
    /// Treat the paths in tickets as paths of another machine, even if they exist here.
    #[arg(long)]
    elsewhere: bool,
}

/// Parses a repository as tickets name it, and its address for this machine.
fn parse_remote(text: &str) -> Result<(String, Remote), String> {
    let invalid = || format!("{text:?} is not REPOSITORY=ADDRESS");
    let (repository, address) = text.split_once('=').ok_or_else(invalid)?;
    Ok((repository.to_owned(), Remote::parse(address)?))
}

fn parse_provider_limit(text: &str) -> Result<(String, usize), String> {
    let invalid = || format!("{text:?} is not PROVIDER=N with N from 0 to 1000");
    let (provider, max) = text.split_once('=').ok_or_else(invalid)?;
    // 0 is allowed: it keeps a provider off this machine.
    let max = max.parse().ok().filter(|max| *max <= 1000);
    match max {
        Some(max) if !provider.is_empty() => Ok((provider.to_owned(), max)),
        Some(_) | None => Err(invalid()),
    }
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let options = worker_options(args)?;
    let workplace = context.workplace().await?;
    let mut signals = ServeSignals::new()?;
    let (drainer, drain) = StopSignal::pair();
    let (halter, halt) = StopSignal::pair();
    let (stopper, stop) = StopSignal::pair();
    let mut watch = tokio::spawn(run_housekeeping(workplace.clone(), stop));
    print_start(&options, context);
    let (complaints, mut warnings) = mpsc::channel(64);
    let work = workers::run(&workplace, options, Shutdown { drain, halt }, complaints);
    tokio::pin!(work);
    let mut stop_requests = 0_u32;
    let mut access = Ok(());
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended,
            // A revoked token cannot report anything any more, so running jobs are stopped and not
            // drained.
            watched = &mut watch, if access.is_ok() => {
                access = watched.map_err(Failure::error).and_then(|watched| watched);
                drainer.stop();
                halter.stop();
            }
            // The loop must stay free of printing, so complaints come over a channel.
            Some(warning) = warnings.recv() => tracing::warn!("{warning}"),
            () = signals.wait() => {
                stop_requests += 1;
                if stop_requests == 1 {
                    context.out.line("draining: running jobs are finished first; stop again to end now");
                    drainer.stop();
                } else {
                    context.out.line("stopping: running jobs are given back");
                    halter.stop();
                }
            }
        }
    };
    stopper.stop();
    if access.is_ok()
        && let Some(Err(failure)) = watch.await.log_err("stop the watch")
    {
        tracing::warn!("{failure}");
    }
    // A denied access is the cause, and what the workers say about it only follows.
    access.and(ended).map(|()| ExitKind::Done)
}

/// Runs in the background until the worker stops: maintains leases if the store is local, and
/// checks with a server that the token is still valid.
async fn run_housekeeping(
    workplace: workers::WorkerContext,
    stop: StopSignal,
) -> Result<(), Failure> {
    // Only a process with the store can maintain it.
    let Some(app) = workplace.app else {
        return workers::watch_access(&workplace.loader, stop).await;
    };
    let retention = tokio::spawn(clean::apply_retention_daily(app.clone()));
    service::run_maintenance(&app, stop).await;
    retention.abort();
    Ok(())
}

fn worker_options(args: Args) -> Result<workers::WorkerOptions, Failure> {
    let queues = workers::WorkerQueues::parse(&args.queues)?;
    // One queue names its worker: `engineer-1` is what agents and task files expect.
    let own = match queues.names().as_slice() {
        [only] => (*only).to_owned(),
        _ => machine_name(),
    };
    Ok(workers::WorkerOptions {
        name: args.name.unwrap_or(own),
        replicas: args.replicas,
        queues,
        labels: args.labels.into_iter().collect::<BTreeSet<String>>(),
        provider_limits: args.provider_limits,
        access: workers::RepositoryAccess {
            remotes: args.remotes.into_iter().collect(),
            lands: args.push_base,
            elsewhere: args.elsewhere,
        },
        options: ProjectOptions {
            builder: args.builder,
            reviewers: args.reviewers,
            verifier: args.verifier,
            ..ProjectOptions::default()
        },
    })
}

fn print_start(options: &workers::WorkerOptions, context: &Context) {
    let names: Vec<String> = (1..=options.replicas)
        .map(|number| format!("{}-{number}", options.name))
        .collect();
    let queues = options.queues.names();
    context.out.line(format!(
        "{}: working on {}",
        names.join(", "),
        queues.join(", ")
    ));
    let answer = serde_json::json!({"workers": names, "queues": queues, "labels": options.labels});
    context.out.print_json(&answer);
}
