//! `countersign queue …`: lists and cancels jobs and tasks, pauses queues and limits providers.

use serde_json::json;

use super::Context;
use super::out::columns;
use super::status::describe_scope;
use app::failure::{ExitKind, Failure};
use app::operations::questions::people::{
    CreatePause, EndPause, ListAgents, ListProviderLimits, PauseScopeKind, ProviderLimit,
};
use app::operations::questions::work::{CancelTask, ListJobs};
use app::operations::{pauses, queue};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List jobs and tasks, newest first.
    List {
        /// Only jobs of this queue: build, check, review, verify, merge, or the name of an agent.
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// Only jobs in this state: waiting, ready, leased, done, dropped or dead.
        #[arg(long)]
        state: Option<String>,
        /// Maximum number of entries.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        /// Continue after this job: the `next` value of the previous page.
        #[arg(long, value_name = "JOB")]
        after: Option<i64>,
    },
    /// Cancel a task in an agent's queue. A running task is stopped, and its result is discarded.
    Cancel {
        /// Id of the task, from `queue list`.
        task: String,
        /// Reason, recorded with your name.
        #[arg(long, default_value = "cancelled by hand")]
        why: String,
    },
    /// Pause a queue, an agent or a provider: it gets no new jobs. Running jobs continue.
    Pause {
        #[command(flatten)]
        target: PauseTarget,
        /// Reason, shown next to the pause.
        #[arg(long, default_value = "")]
        why: String,
        /// Ends the pause after this many seconds [default: no end].
        #[arg(long = "for", value_name = "SECONDS")]
        for_secs: Option<u64>,
    },
    /// End a pause.
    Resume {
        #[command(flatten)]
        target: PauseTarget,
    },
    /// Limit how many jobs of a provider run at once, on all machines together. Without a number,
    /// remove the limit; without a provider, list all limits.
    Limit {
        /// Name from `agent list`: claude, codex, gemini, …
        provider: Option<String>,
        /// Maximum number of jobs at once.
        #[arg(value_name = "N", requires = "provider")]
        most: Option<u32>,
    },
}

/// The thing that a pause holds back.
#[derive(Debug, clap::Args)]
pub struct PauseTarget {
    /// Name of the queue: build, check, review, verify, merge, or the name of an agent.
    name: String,
    /// The name is an agent.
    #[arg(long, conflicts_with = "provider")]
    agent: bool,
    /// The name is a provider.
    #[arg(long)]
    provider: bool,
}

impl PauseTarget {
    fn scope(&self) -> PauseScopeKind {
        match (self.agent, self.provider) {
            (true, _) => PauseScopeKind::Agent,
            (false, true) => PauseScopeKind::Provider,
            (false, false) => PauseScopeKind::Queue,
        }
    }
}

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List {
            queue,
            state,
            limit,
            after,
        } => {
            let limit = Some(limit);
            list(
                ListJobs {
                    queue,
                    state,
                    after,
                    limit,
                    ..ListJobs::default()
                },
                context,
            )
            .await
        }
        Verb::Pause {
            target,
            why,
            for_secs,
        } => {
            let (scope, name) = (target.scope(), target.name);
            let request = CreatePause {
                scope,
                name,
                why,
                for_secs,
            };
            let pause = context.ask(request).await?;
            let until = pause
                .until
                .map(|until| format!(" until {}", until.to_iso()));
            let (kind, name) = describe_scope(&pause.scope);
            let until = until.unwrap_or_default();
            context.out.line(format!("{kind} {name} is paused{until}"));
            let agents = context.ask(ListAgents {}).await?.items;
            if let Some(note) = pauses::unknown_name_note(&pause.scope, &agents) {
                context.out.note(note);
            }
            context.out.print_json(&json!({ "pause": pause }));
            Ok(ExitKind::Done)
        }
        Verb::Resume { target } => {
            let (scope, name) = (target.scope(), target.name);
            let ended = context.ask(EndPause { scope, name }).await?;
            let (kind, name) = describe_scope(&ended.resumed);
            context.out.line(format!("{kind} {name} gets jobs again"));
            context.out.print_json(&ended);
            Ok(ExitKind::Done)
        }
        Verb::Limit { provider, most } => limit(provider, most, context).await,
        Verb::Cancel { task, why } => {
            let status = context.ask(CancelTask { task, why }).await?;
            let (task, word) = (&status.task_id, status.status.as_str());
            context.out.line(format!("{task} is {word}"));
            context.out.print_json(&status);
            Ok(ExitKind::Done)
        }
    }
}

async fn limit(
    provider: Option<String>,
    max: Option<u32>,
    context: &Context,
) -> Result<ExitKind, Failure> {
    if let Some(provider) = provider {
        if max.is_some() && !pauses::is_known_provider(&provider) {
            context.out.note(format!(
                "Countersign knows no agent CLI called {provider:?}; the limit holds only for a `command:` agent whose program has this name"
            ));
        }
        context
            .ask(ProviderLimit {
                provider,
                most: max,
            })
            .await?;
    }
    let limits = context.ask(ListProviderLimits {}).await?.items;
    if limits.is_empty() {
        context.out.line("no provider has a limit");
    }
    for limit in &limits {
        let max = limit.most.unwrap_or_default();
        let line = format!("{}: {max} at once", limit.provider);
        context.out.line(line);
    }
    context.out.print_json(&json!({ "limits": limits }));
    Ok(ExitKind::Done)
}

async fn list(query: ListJobs, context: &Context) -> Result<ExitKind, Failure> {
    let page = context.ask(query).await?;
    if page.items.is_empty() {
        context.out.line("no jobs found");
    }
    let rows: Vec<Vec<String>> = page.items.iter().map(queue::job_cells).collect();
    for line in columns(&rows) {
        context.out.line(line);
    }
    if let Some(next) = page.next {
        context.out.line(format!("more with --after {next}"));
    }
    context
        .out
        .print_json(&json!({"items": page.items, "next": page.next}));
    Ok(ExitKind::Done)
}
