//! `countersign backup` and `countersign restore`: copies of the database.

use std::path::PathBuf;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::backup::{self, BackupReport, RestoreReport};

#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// File to write. Only you can read it.
    file: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// File that `countersign backup` has written.
    file: PathBuf,
    /// Replace the database that is there; it is kept next to it as `…-replaced`.
    #[arg(long)]
    replace: bool,
}

pub async fn save(args: BackupArgs, context: &Context) -> Result<ExitKind, Failure> {
    let file = context.directory.join(args.file);
    let report = backup::save(&context.environment, file, args.replace).await?;
    let BackupReport {
        file,
        bytes,
        events,
        ..
    } = &report;
    let file = file.display();
    let line = format!("wrote {file}: {bytes} bytes, {events} events");
    context.out.line(line);
    context.out.print_json(&report);
    Ok(ExitKind::Done)
}

pub async fn restore(args: RestoreArgs, context: &Context) -> Result<ExitKind, Failure> {
    let file = context.directory.join(args.file);
    let report = backup::restore(&context.environment, file, args.replace).await?;
    let RestoreReport {
        database,
        events,
        replaced,
        ..
    } = &report;
    let database = database.display();
    context
        .out
        .line(format!("restored {database}: {events} events"));
    if let Some(replaced) = replaced {
        let replaced = replaced.display();
        context.out.line(format!("the old one is kept: {replaced}"));
    }
    context
        .out
        .line("check it: `countersign doctor --verify-log`");
    context.out.print_json(&report);
    Ok(ExitKind::Done)
}
