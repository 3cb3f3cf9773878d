//! `countersign queue …`

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
        /// Only of this queue: build, check, review, verify, merge, or an agent's.
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// waiting, ready, leased, done, dropped or dead.
        #[arg(long)]
        state: Option<String>,
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        /// The `next` of the page before.
        #[arg(long, value_name = "JOB")]
        after: Option<i64>,
    },
    /// Cancel a task of an agent's queue. One that is at work is stopped where it is, and its result is
    /// not taken.
    Cancel {
        task: String,
        /// It is recorded with your name.
        #[arg(long, default_value = "cancelled by hand")]
        why: String,
    },
    /// How many jobs of a provider run at once, on all machines together; without a number: as many as
    /// there are. Without a provider: which limits there are.
    Limit {
        /// As `agent list` names it: claude, codex, gemini, …
        provider: Option<String>,
        #[arg(requires = "provider")]
        most: Option<u32>,
    },
}

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
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
                desktop,
            )
            .await
        }
        Verb::Limit { provider, most } => limit(provider, most, desktop).await,
        Verb::Cancel { task, why } => {
            let standing = desktop.ask(CancelTask { task, why }).await?;
            let (task, word) = (&standing.task_id, standing.status.word());
            desktop.out.line(format!("{task} is {word}"));
            desktop.out.answer(&standing);
            Ok(ExitKind::Done)
        }
    }
}

async fn limit(
    provider: Option<String>,
    most: Option<u32>,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    if let Some(provider) = provider {
        desktop.ask(ProviderLimit { provider, most }).await?;
    }
    let limits = desktop.ask(ListProviderLimits {}).await?.items;
    if limits.is_empty() {
        desktop.out.line("no provider is limited");
    }
    for limit in &limits {
        let most = limit.most.unwrap_or_default();
        let line = format!("{}: {most} at once", limit.provider);
        desktop.out.line(line);
    }
    desktop.out.answer(&json!({ "limits": limits }));
    Ok(ExitKind::Done)
}

async fn list(wanted: ListJobs, desktop: &Context) -> Result<ExitKind, Failure> {
    let page = desktop.ask(wanted).await?;
    if page.items.is_empty() {
        desktop.out.line("no such jobs");
    }
    let rows: Vec<Vec<String>> = page.items.iter().map(queue::row).collect();
    for line in columns(&rows) {
        desktop.out.line(line);
    }
    if let Some(next) = page.next {
        desktop.out.line(format!("more with --after {next}"));
    }
    desktop
        .out
        .answer(&json!({"items": page.items, "next": page.next}));
    Ok(ExitKind::Done)
}
