//! `countersign config …`: shows and checks the configuration, and prints its schemas.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Context;
use super::choices;
use super::out::{columns, print_raw};
use app::failure::{ExitKind, Failure};
use app::operations::config;
use app::settings::schema::{self, SchemaKind};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Show every value and its source.
    #[command(after_help = SHOW_HELP)]
    Show {
        /// Show only values that differ from the defaults.
        #[arg(long)]
        changed: bool,
        /// Read countersign.toml from this base branch.
        #[arg(long, value_name = "BRANCH")]
        base: Option<String>,
    },
    /// Check the configuration and report mistakes with their location and a suggestion.
    #[command(after_help = CHECK_HELP)]
    Check {
        /// Files to check [default: all files in effect here].
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print a JSON schema for editors.
    #[command(
        after_help = "Example: countersign config schema ticket > .vscode/ticket.schema.json"
    )]
    Schema {
        /// File type of the schema.
        #[arg(default_value = "config", value_parser = choices::schema())]
        kind: SchemaKind,
    },
}

const SHOW_HELP: &str = "\
Highest precedence first: flags, then countersign.toml on the base branch (or the one in your work tree, if the base has none), then ~/.config/countersign/config.toml, then the defaults.

Examples:
  countersign config show --changed
  countersign config show --json | jq '.settings[] | select(.key == \"reviewer\")'";

const CHECK_HELP: &str = "\
Exit codes: 0 no mistakes · 2 mistakes found

Examples:
  countersign config check
  countersign config check countersign.toml";

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Show { changed, base } => show(changed, base.as_deref(), context).await,
        Verb::Check { files } => check(&files, context).await,
        Verb::Schema { kind } => {
            print_raw(&format!("{:#}\n", schema::build_schema(kind)));
            Ok(ExitKind::Done)
        }
    }
}

async fn show(changed: bool, base: Option<&str>, context: &Context) -> Result<ExitKind, Failure> {
    let (mut settings, notes) =
        config::show(&context.environment, &context.directory, base).await?;
    if changed {
        settings.retain(|setting| setting.origin != "default");
    }
    context
        .out
        .print_json(&json!({"settings": settings, "notes": notes}));
    for note in &notes {
        context.out.note(note);
    }
    let rows: Vec<Vec<String>> = settings
        .iter()
        .map(|setting| {
            vec![
                setting.key.clone(),
                shorten_value(&setting.value),
                setting.origin.clone(),
            ]
        })
        .collect();
    for line in columns(&rows) {
        context.out.line(line);
    }
    Ok(ExitKind::Done)
}

/// Shortens long values; the JSON output has them in full.
fn shorten_value(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        other => findings::shorten(&other.to_string(), 60),
    }
}

/// `protected "tests/": 12 files (tests/a.py, tests/b.py, tests/c.py, …)`
fn pattern_lines(used: &config::PatternUse) -> Vec<String> {
    let more = if used.files > used.examples.len() {
        ", …"
    } else {
        ""
    };
    let files = match used.files {
        0 => "no file".to_owned(),
        1 => format!("1 file ({})", used.examples.join(", ")),
        n => format!("{n} files ({}{more})", used.examples.join(", ")),
    };
    let head = format!("{} {:?}: {files}", used.key, used.pattern);
    let warning = used.warning.as_ref();
    std::iter::once(head)
        .chain(warning.map(|text| format!("warning: {:?}: {text}", used.pattern)))
        .collect()
}

async fn check(files: &[PathBuf], context: &Context) -> Result<ExitKind, Failure> {
    let checked = config::check(&context.environment, &context.directory, files).await?;
    let fine = checked.iter().all(|file| file.problems.is_empty());
    context
        .out
        .print_json(&json!({"fine": fine, "files": checked}));
    if checked.is_empty() {
        context
            .out
            .line("no configuration found; run `countersign init` to write one");
    }
    for file in &checked {
        if file.problems.is_empty() {
            context.out.line(format!("{}: no mistakes", file.name));
        }
        for problem in &file.problems {
            context.out.line(problem.display_with_name(&file.name));
            if let Some(hint) = &problem.hint {
                context.out.line(format!("  {hint}"));
            }
        }
        for warning in &file.warnings {
            context.out.line(format!("warning: {warning}"));
        }
        for used in &file.patterns {
            for line in pattern_lines(used) {
                context.out.line(format!("  {line}"));
            }
        }
    }
    Ok(if fine {
        ExitKind::Done
    } else {
        ExitKind::Usage
    })
}
