//! `countersign clean`: shows and removes what finished work left in the data directory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::Context;
use super::out::columns;
use super::token::parse_duration;
use app::failure::{ExitKind, Failure};
use app::operations::clean::{self, CleanItem, CleanKind, CleanOptions};

/// Rows shown by ticket; `--json` has all.
const ROWS_MAX: usize = 30;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  countersign clean                         show what would go, and how much it is
  countersign clean --yes                   remove it
  countersign clean --older-than 30d --yes  remove only what is older
  countersign clean --ticket T-7 --yes      remove files and transcripts of one finished ticket

It removes only files below the data directory: of tickets that are done, failed or cancelled, caches that no run uses, and demos. Branches, commits of rounds, findings documents and the event log stay.")]
pub struct Args {
    /// Remove it. Without this, nothing is changed.
    #[arg(long)]
    yes: bool,
    /// Only what is at least this old: 12h, 30d. Transcripts and caches of this age go too,
    /// whatever `[retention]` says.
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    older_than: Option<u64>,
    /// Only the files of this ticket, with its transcripts.
    #[arg(long, value_name = "ID")]
    ticket: Option<String>,
}

impl Args {
    pub fn ticket_ids(&mut self) -> Vec<&mut String> {
        self.ticket.iter_mut().collect()
    }

    /// Returns the command that removes exactly what this one shows.
    fn removing_command(&self) -> String {
        let mut command = "countersign clean --yes".to_owned();
        if let Some(secs) = self.older_than {
            let _ = write!(command, " --older-than {secs}s");
        }
        if let Some(ticket) = &self.ticket {
            let _ = write!(command, " --ticket {ticket}");
        }
        command
    }
}

const WORKTREE_NOTE: &str = "Uncommitted files of a worktree are kept under refs/countersign/TICKET/leftovers-end; ignored files and nested repositories in it are not kept.";

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let app = context.open_app().await?;
    let next = context.pasteable(&args.removing_command());
    let options = CleanOptions {
        older_than: args.older_than.map(Duration::from_secs),
        ticket: args.ticket,
    };
    let plan = clean::plan(&app, &options).await?;
    let out = &context.out;
    if !args.yes {
        out.print_json(&serde_json::json!({
            "removed": false, "items": plan.items, "bytes": plan.bytes, "failed": [],
        }));
        if plan.items.is_empty() {
            out.line("nothing to remove");
            if options.ticket.is_none() {
                let used = format_size(clean::data_bytes(&app));
                out.line(format!(
                    "{used} are in use: by open tickets, caches, records of ended tickets and the database"
                ));
            }
            return Ok(ExitKind::Done);
        }
        print_items(context, &plan.items);
        if plan
            .items
            .iter()
            .any(|item| item.kind == CleanKind::WorkingFiles)
        {
            out.line(WORKTREE_NOTE);
        }
        out.line(format!(
            "\n{} would be freed; nothing was changed\nnext: {next}",
            format_size(plan.bytes)
        ));
        return Ok(ExitKind::Done);
    }
    let result = clean::apply(&app, &plan).await?;
    out.print_json(&serde_json::json!({
        "removed": true, "items": result.removed, "bytes": result.bytes, "failed": result.failed,
    }));
    print_items(context, &result.removed);
    for failed in &result.failed {
        out.line(format!("could not remove {failed}"));
    }
    out.line(format!("\n{} freed", format_size(result.bytes)));
    Ok(if result.failed.is_empty() {
        ExitKind::Done
    } else {
        ExitKind::Error
    })
}

/// Prints the sums by kind, then the largest tickets.
fn print_items(context: &Context, items: &[CleanItem]) {
    let mut kinds: BTreeMap<CleanKind, (u64, usize)> = BTreeMap::new();
    let mut tickets: BTreeMap<&str, u64> = BTreeMap::new();
    for item in items {
        let sum = kinds.entry(item.kind).or_default();
        *sum = (sum.0 + item.bytes, sum.1 + 1);
        if let Some(ticket) = &item.ticket {
            *tickets.entry(ticket).or_default() += item.bytes;
        }
    }
    let rows: Vec<Vec<String>> = kinds
        .iter()
        .map(|(kind, (bytes, count))| {
            vec![
                kind.as_str().to_owned(),
                count.to_string(),
                format_size(*bytes),
            ]
        })
        .collect();
    for line in columns(&rows) {
        context.out.line(line);
    }
    let mut tickets: Vec<(&str, u64)> = tickets.into_iter().collect();
    tickets.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let more = tickets.len().saturating_sub(ROWS_MAX);
    let rows: Vec<Vec<String>> = tickets
        .iter()
        .take(ROWS_MAX)
        .map(|(ticket, bytes)| vec![format!("  {ticket}"), format_size(*bytes)])
        .collect();
    for line in columns(&rows) {
        context.out.line(line);
    }
    if more > 0 {
        context.out.line(format!("  and {more} more tickets"));
    }
}

fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", to_f64(bytes / 1_000) / 1_000.0),
        _ => format!("{:.1} GB", to_f64(bytes / 1_000_000) / 1_000.0),
    }
}

fn to_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
