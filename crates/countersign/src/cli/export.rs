//! `countersign export`: writes tickets in formats of other systems.

use std::path::PathBuf;

use super::Context;
use super::choices;
use super::out::print_raw;
use app::failure::{ExitKind, Failure};
use app::operations::export::{ExportFormat, documents_text};
use app::operations::questions::tickets::ExportTickets;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Format to write.
    #[arg(long = "as", value_name = "FORM", value_parser = choices::export_form())]
    form: ExportFormat,
    /// Ids of the tickets.
    #[arg(required_unless_present = "epic")]
    tickets: Vec<String>,
    /// A whole epic as an epic-state.json, with all fields of the imported file.
    #[arg(long, value_name = "EPIC", conflicts_with = "tickets")]
    epic: Option<String>,
    /// Round of the findings, report or revision [default: the last].
    #[arg(long)]
    round: Option<u32>,
    /// Write to a new file instead of the terminal; an existing file is never overwritten.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Args {
    pub fn ticket_ids(&mut self) -> Vec<&mut String> {
        self.tickets.iter_mut().collect()
    }
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let request = ExportTickets {
        tickets: args.tickets.join(","),
        epic: args.epic,
        form: args.form,
        round: args.round,
    };
    let documents = context.ask(request).await?.documents;
    let Some(path) = args.output.map(|path| context.directory.join(path)) else {
        if context.out.json {
            let answer = serde_json::json!({"documents": documents});
            context.out.print_json(&answer);
        } else {
            print_raw(&documents_text(&documents));
        }
        return Ok(ExitKind::Done);
    };
    let fail = |error: std::io::Error| {
        Failure::error(format!("{} cannot be written: {error}", path.display()))
    };
    let mut file = std::fs::File::create_new(&path).map_err(fail)?;
    std::io::Write::write_all(&mut file, documents_text(&documents).as_bytes()).map_err(fail)?;
    context.out.line(format!("wrote {}", path.display()));
    context.out.print_json(&serde_json::json!({"wrote": path}));
    Ok(ExitKind::Done)
}
