//! `countersign doctor`

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::{config, doctor, history};
use server::notify;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Replay every ticket's events and compare with what is stored.
    #[arg(long)]
    verify_log: bool,
    /// Send a message to each target of [[notify]], or to this one, and show what it answers.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    notify: Option<String>,
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    if args.verify_log {
        return verify_log(desktop).await;
    }
    if let Some(name) = &args.notify {
        return try_targets(name, desktop).await;
    }
    let found = doctor::examine(&desktop.surroundings, &desktop.directory).await;
    let out = &desktop.out;
    for one in &found.examined {
        let mark = if one.fine { "ok " } else { "!! " };
        out.line(format!("{mark} {:<10} {}", one.what, one.found));
    }
    out.line("\nagents");
    for seen in &found.agents {
        let mark = if doctor::is_ready(seen) { "ok " } else { "-- " };
        out.line(format!(
            "{mark} {:<10} {}",
            seen.name,
            doctor::describe(seen)
        ));
    }
    if !found.starts.is_empty() {
        out.line("\nin the sandbox");
    }
    for one in &found.starts {
        let mark = if one.fine { "ok " } else { "!! " };
        out.line(format!("{mark} {:<10} {}", one.agent, one.found));
    }
    out.answer(&found);
    Ok(if found.holds() {
        ExitKind::Done
    } else {
        ExitKind::Error
    })
}

async fn try_targets(name: &str, desktop: &Context) -> Result<ExitKind, Failure> {
    let mut targets = config::own(&desktop.surroundings)?.notify;
    targets.retain(|target| name.is_empty() || target.name == name);
    if targets.is_empty() {
        return Err(
            Failure::usage("your own configuration names no such target")
                .hint("docs/notifications.md shows how to write [[notify]]"),
        );
    }
    let office = desktop.office().await?;
    let mut tried = Vec::new();
    for target in &targets {
        for remark in target.remarks() {
            desktop.out.line(format!("note: {remark}"));
        }
        let one = notify::try_out(&office, target.target()?).await?;
        let mark = if one.fine { "ok " } else { "!! " };
        let line = format!("{mark} {:<10} {}", one.name, one.answer);
        desktop.out.line(line.trim_end());
        tried.push(one);
    }
    let fine = tried.iter().all(|one| one.fine);
    desktop
        .out
        .answer(&serde_json::json!({"fine": fine, "targets": tried}));
    Ok(if fine {
        ExitKind::Done
    } else {
        ExitKind::Error
    })
}

async fn verify_log(desktop: &Context) -> Result<ExitKind, Failure> {
    let office = desktop.office().await?;
    let audit = history::audit(&office).await?;
    desktop.out.answer(&audit);
    desktop.out.line(format!(
        "{} tickets, {} events: {}",
        audit.tickets,
        audit.events,
        if audit.differences.is_empty() {
            "the log gives exactly what is stored"
        } else {
            "DIFFERENT"
        }
    ));
    for difference in &audit.differences {
        desktop.out.line(format!("  {difference}"));
    }
    Ok(if audit.differences.is_empty() {
        ExitKind::Done
    } else {
        ExitKind::Error
    })
}
