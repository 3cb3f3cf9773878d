//! `countersign import`: adds tickets from files of other systems, and proposes a configuration
//! from the files of an agent framework.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::import_config::{self, ConfigChange, ImportedConfig};
use app::operations::questions::tickets::ImportFile;
use app::settings::import::{
    BYTES_MAX, ImportReport, ImportedTickets, agent_framework, read_tickets,
};
use app::settings::read_bounded;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Known formats, detected by content:
  an epic (YAML with `tickets`), an epic-state.json
  a task file (JSON with `id`, `title`, `context`, …)
  a story (Markdown, `# Story 1.2: …`), a ticket file
  issues.jsonl of beads
  tasks.json of task-master, with tags and subtasks
  agents.yaml and agent-framework.yaml: they become settings, printed first and written with --write

The report names everything that has no equivalent here. Unknown fields of tasks are kept with the ticket.")]
pub struct Args {
    /// Files to import; each may contain one or more tickets.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read and report without adding or writing anything.
    #[arg(long)]
    dry_run: bool,
    /// Write the settings of agents.yaml and agent-framework.yaml. Existing files are extended:
    /// everything in them stays.
    #[arg(long, conflicts_with = "dry_run")]
    write: bool,
    /// Repository of the tickets; a path on the server, if there is one. Default: this directory's.
    #[arg(long, value_name = "PATH")]
    repository: Option<String>,
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let mut tickets = Vec::new();
    let mut framework = Vec::new();
    for path in &args.files {
        let bytes = read_bounded(&context.directory.join(path), "the file", BYTES_MAX)?;
        let name = path.to_string_lossy().into_owned();
        // All files are read before the first is imported, so that a bad one adds nothing.
        if agent_framework::recognizes(&name, &bytes) {
            framework.push((name, bytes));
        } else {
            let read = read_tickets(&name, &bytes)?;
            // The text goes along, because the server reads it itself: a client could have read it
            // by other rules.
            tickets.push((name, String::from_utf8_lossy(&bytes).into_owned(), read));
        }
    }
    let config = if framework.is_empty() {
        None
    } else {
        let (environment, directory) = (&context.environment, &context.directory);
        Some(import_config::propose(environment, directory, &framework).await?)
    };
    // Asked once for all files: a directory may be a worktree, which has to be resolved.
    let repository = context.repository_for_new(args.repository.as_deref());
    let mut outcome = TicketOutcome::default();
    for (name, text, read) in tickets {
        if args.dry_run {
            show_plan(&name, &read, context, &mut outcome);
        } else {
            let request = ImportFile {
                name,
                text,
                repository: repository.clone(),
            };
            let answer = context.ask(request).await?;
            for added in answer.tickets {
                context.out.line(format!(
                    "added {} ({}): {}",
                    added.id, added.stage, added.title
                ));
                outcome
                    .tickets
                    .push(serde_json::to_value(added).unwrap_or_default());
            }
            // The same file may be imported again after it has grown.
            for id in answer.existing {
                context
                    .out
                    .line(format!("{id} is there already and stays as it is"));
                outcome.existing.push(id.to_string());
            }
            show_report(&answer.report, context);
            outcome.reports.push(answer.report);
        }
    }
    if let Some(config) = &config {
        // After the tickets: if the configuration cannot be written, the tickets are there, and a
        // repetition adds none twice.
        show_config(config, &args, context)?;
    }
    context.out.print_json(&json!({
        "tickets": outcome.tickets,
        "existing": outcome.existing,
        "reports": outcome.reports,
        "configuration": config,
        "written": args.write && config.is_some(),
    }));
    Ok(ExitKind::Done)
}

/// Results of all files with tickets, for JSON.
#[derive(Default)]
struct TicketOutcome {
    tickets: Vec<Value>,
    existing: Vec<String>,
    reports: Vec<ImportReport>,
}

fn show_plan(name: &str, read: &ImportedTickets, context: &Context, outcome: &mut TicketOutcome) {
    let out = &context.out;
    for epic in read.epics.iter().filter(|epic| !epic.title.is_empty()) {
        out.line(format!(
            "[DRY-RUN] Would add the epic {}: {}",
            epic.id, epic.title
        ));
    }
    for (id, spec) in read.tickets() {
        let needs: Vec<&str> = spec.depends_on.iter().map(flow::TicketId::as_str).collect();
        let after = if needs.is_empty() {
            String::new()
        } else {
            format!(", after {}", needs.join(", "))
        };
        out.line(format!(
            "[DRY-RUN] Would add {id}: {} (priority {}{after})",
            spec.title, spec.priority
        ));
        outcome.tickets.push(json!({
            "id": id,
            "title": spec.title,
            "priority": spec.priority,
            "depends_on": spec.depends_on,
            "epic": spec.context.epic,
        }));
    }
    if read.tickets().next().is_none() {
        out.line(format!("[DRY-RUN] {name} has nothing to add"));
    }
    show_report(&read.report, context);
    outcome.reports.push(read.report.clone());
}

fn show_report(report: &ImportReport, context: &Context) {
    // What was lost first, because it needs a decision.
    let parts = [
        ("left out", &report.left_out),
        ("changed", &report.changed),
        ("kept without effect", &report.kept),
        ("not understood", &report.not_understood),
    ];
    for (heading, lines) in parts.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        context.out.line(format!("{heading}:"));
        for line in lines {
            context.out.print_wrapped(&format!("  {line}"), 4);
        }
    }
}

fn show_config(config: &ImportedConfig, args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    for change in &config.files {
        show_change(change, context);
    }
    if !config.workers.is_empty() {
        out.line("queues need no setting; these workers take their tasks:");
        for worker in &config.workers {
            out.line(format!("  {worker}"));
        }
    }
    show_report(&config.report, context);
    if args.write {
        import_config::write(config)?;
        for change in &config.files {
            let file = change.file.display();
            // A file that has all of it is not written, so its time does not change.
            match (change.merged.added.is_empty(), change.exists) {
                (true, _) => out.line(format!("{file} has all of it already")),
                (false, true) => out.line(format!("extended {file}")),
                (false, false) => out.line(format!("wrote {file}")),
            }
        }
        out.line("next: countersign config check");
    } else {
        let prefix = if args.dry_run { "[DRY-RUN] " } else { "" };
        out.line(format!(
            "{prefix}no configuration was written: pass --write to do it"
        ));
    }
    Ok(())
}

fn show_change(change: &ConfigChange, context: &Context) {
    let out = &context.out;
    let file = change.file.display();
    let added: Vec<_> = change
        .settings
        .iter()
        .filter(|setting| change.merged.added.contains(&setting.key))
        .collect();
    if added.is_empty() {
        out.line(format!("{file} has all of it already"));
    } else {
        let verb = if change.exists {
            "gets"
        } else {
            "would be new, with"
        };
        out.line(format!("{file} {verb}:"));
    }
    for setting in added {
        out.line(format!(
            "  {} = {}  # {}",
            setting.key, setting.value, setting.origin
        ));
    }
    // The person's own value stays; the proposal is shown, so that nothing is lost silently.
    for conflict in &change.merged.conflicts {
        out.line(format!("  kept: {conflict}"));
    }
}
