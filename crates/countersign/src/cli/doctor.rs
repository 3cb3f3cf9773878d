//! `countersign doctor`

use serde::Serialize;

use super::Desktop;
use crate::failure::{Exit, Failure};
use crate::operations::history;
use crate::operations::project::examine;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Replay every ticket's events and compare with what is stored.
    #[arg(long)]
    verify_log: bool,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Examined {
    pub what: &'static str,
    pub fine: bool,
    pub found: String,
}

pub async fn perform(args: Args, desktop: &Desktop) -> Result<Exit, Failure> {
    if args.verify_log {
        return verify_log(desktop).await;
    }
    let examined = examine(&desktop.surroundings, &desktop.directory).await;
    for one in &examined {
        let mark = if one.fine { "ok " } else { "!! " };
        desktop
            .out
            .line(format!("{mark} {:<10} {}", one.what, one.found));
    }
    desktop
        .out
        .answer(&serde_json::json!({"examined": examined}));
    Ok(if examined.iter().all(|one| one.fine) {
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
