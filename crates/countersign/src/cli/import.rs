//! `countersign import`

use std::path::PathBuf;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::questions::tickets::ImportFile;
use app::settings::epic_file::{BYTES_MAX, read_any};
use app::settings::read_bounded;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Known forms, told by their content: an epic (YAML with `tickets`), an epic-state.json, a task file (JSON
with `id`, `title`, `context`, …), a story (Markdown, `# Story 1.2: …`), a ticket file. Fields that are
not known are kept and exported again.")]
pub struct Args {
    /// The files; each may hold one ticket or many.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read and report, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let mut files = Vec::new();
    for path in &args.files {
        let bytes = read_bounded(&desktop.directory.join(path), "the file", BYTES_MAX)?;
        let name = path.to_string_lossy().into_owned();
        // All are read before the first is taken over.
        let read = read_any(&name, &bytes)?;
        files.push((name, String::from_utf8_lossy(&bytes).into_owned(), read));
    }
    let mut all = Vec::new();
    if args.dry_run {
        for (id, spec) in files.iter().flat_map(|(_, _, file)| &file.tickets) {
            desktop
                .out
                .line(format!("[DRY-RUN] Would add {id}: {}", spec.title));
            all.push(serde_json::json!({"id": id, "title": spec.title}));
        }
    } else {
        for (name, text, file) in files {
            for remark in &file.remarks {
                desktop.out.line(format!("note: {remark}"));
            }
            for added in desktop.ask(ImportFile { name, text }).await?.tickets {
                desktop.out.line(format!(
                    "added {} ({}): {}",
                    added.id, added.stage, added.title
                ));
                all.push(serde_json::to_value(added).unwrap_or_default());
            }
        }
    }
    desktop.out.answer(&serde_json::json!({"tickets": all}));
    Ok(ExitKind::Done)
}
