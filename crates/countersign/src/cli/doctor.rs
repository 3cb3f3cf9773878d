//! `countersign doctor`

use super::Desktop;
use crate::failure::{Exit, Failure};
use crate::operations::{doctor, history};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Replay every ticket's events and compare with what is stored.
    #[arg(long)]
    verify_log: bool,
}

pub async fn perform(args: Args, desktop: &Desktop) -> Result<Exit, Failure> {
    if args.verify_log {
        return verify_log(desktop).await;
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
    out.answer(&found);
    Ok(if found.holds() {
        Exit::Done
    } else {
        Exit::Error
    })
}

async fn verify_log(desktop: &Desktop) -> Result<Exit, Failure> {
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
        Exit::Done
    } else {
        Exit::Error
    })
}
