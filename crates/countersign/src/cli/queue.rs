//! `countersign queue …`: lists and cancels jobs and tasks, and limits providers.

use serde_json::json;

use super::Context;
use super::out::columns;
use app::failure::{ExitKind, Failure};
use app::operations::questions::people::{ListProviderLimits, ProviderLimit};
use app::operations::questions::work::{CancelTask, ListJobs};
use app::operations::queue;

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
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        /// Continue after this job: the `next` value of the previous page.
        #[arg(long, value_name = "JOB")]
        after: Option<i64>,
    },
    /// Cancel a task in an agent's queue. A running task is stopped, and its result is discarded.
    Cancel {
        task: String,
        /// Reason, recorded with your name.
        #[arg(long, default_value = "cancelled by hand")]
        why: String,
    },
    /// Limit how many jobs of a provider run at once, on all machines together. Without a number,
    /// remove the limit; without a provider, list all limits.
    Limit {
        /// Name from `agent list`: claude, codex, gemini, …
        provider: Option<String>,
        #[arg(requires = "provider")]
        most: Option<u32>,
    },
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
                },
                context,
            )
            .await
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
