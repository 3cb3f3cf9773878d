//! `countersign import`: adds tickets from files of other systems.

use std::path::PathBuf;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::questions::tickets::ImportFile;
use app::settings::epic_file::{BYTES_MAX, read_any};
use app::settings::read_bounded;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Known formats, detected by content: an epic (YAML with `tickets`), an epic-state.json, a task file (JSON
with `id`, `title`, `context`, …), a story (Markdown, `# Story 1.2: …`), a ticket file. Unknown fields
are kept and exported again.")]
pub struct Args {
    /// Files to import; each may contain one or more tickets.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read and report without adding anything.
    #[arg(long)]
    dry_run: bool,
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let mut files = Vec::new();
    for path in &args.files {
        let bytes = read_bounded(&context.directory.join(path), "the file", BYTES_MAX)?;
        let name = path.to_string_lossy().into_owned();
        // All files are read before the first is imported, so that a bad one adds nothing.
        let read = read_any(&name, &bytes)?;
        files.push((name, String::from_utf8_lossy(&bytes).into_owned(), read));
    }
    let mut all = Vec::new();
    if args.dry_run {
        for (id, spec) in files.iter().flat_map(|(_, _, file)| &file.tickets) {
            context
                .out
                .line(format!("[DRY-RUN] Would add {id}: {}", spec.title));
            all.push(serde_json::json!({"id": id, "title": spec.title}));
        }
    } else {
        for (name, text, file) in files {
            for note in &file.remarks {
                context.out.line(format!("note: {note}"));
            }
            for added in context.ask(ImportFile { name, text }).await?.tickets {
                context.out.line(format!(
                    "added {} ({}): {}",
                    added.id, added.stage, added.title
                ));
                all.push(serde_json::to_value(added).unwrap_or_default());
            }
        }
    }
    context.out.print_json(&serde_json::json!({"tickets": all}));
    Ok(ExitKind::Done)
}
