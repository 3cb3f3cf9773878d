//! `countersign export`

use std::path::PathBuf;

use super::Context;
use super::choices;
use super::out::raw;
use app::failure::{ExitKind, Failure};
use app::operations::export::{ExportFormat, text};
use app::operations::questions::tickets::ExportTickets;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The form.
    #[arg(long = "as", value_name = "FORM", value_parser = choices::export_form())]
    form: ExportFormat,
    /// The tickets.
    #[arg(required = true)]
    tickets: Vec<String>,
    /// Which round's findings or report [default: the last].
    #[arg(long)]
    round: Option<u32>,
    /// Write to a new file instead of the terminal; an existing one is not touched.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let wanted = ExportTickets {
        tickets: args.tickets.join(","),
        form: args.form,
        round: args.round,
    };
    let documents = desktop.ask(wanted).await?.documents;
    let Some(path) = args.output.map(|path| desktop.directory.join(path)) else {
        if desktop.out.json {
            let answer = serde_json::json!({"documents": documents});
            desktop.out.answer(&answer);
        } else {
            raw(&text(&documents));
        }
        return Ok(ExitKind::Done);
    };
    let fail = |error: std::io::Error| {
        Failure::error(format!("{} cannot be written: {error}", path.display()))
    };
    let mut file = std::fs::File::create_new(&path).map_err(fail)?;
    std::io::Write::write_all(&mut file, text(&documents).as_bytes()).map_err(fail)?;
    desktop.out.line(format!("wrote {}", path.display()));
    desktop.out.answer(&serde_json::json!({"wrote": path}));
    Ok(ExitKind::Done)
}
