//! `countersign config …`

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Context;
use super::choices;
use super::out::{columns, raw};
use app::failure::{ExitKind, Failure};
use app::operations::config;
use app::settings::schema::{self, SchemaKind};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Every value, and where it came from.
    #[command(after_help = SHOW_HELP)]
    Show {
        /// Leave out what nobody has set.
        #[arg(long)]
        changed: bool,
        /// Read the file of this base branch.
        #[arg(long, value_name = "BRANCH")]
        base: Option<String>,
    },
    /// What is wrong in the configuration: where, and what was probably meant.
    #[command(after_help = CHECK_HELP)]
    Check {
        /// Files to look at [default: all that count here].
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// A JSON schema, for editors.
    #[command(
        after_help = "Example: countersign config schema ticket > .vscode/ticket.schema.json"
    )]
    Schema {
        /// What for.
        #[arg(default_value = "config", value_parser = choices::schema())]
        kind: SchemaKind,
    },
}

const SHOW_HELP: &str = "\
The strongest comes first: flags, then countersign.toml on the base branch (or the one in your work tree, where
the base has none), then ~/.config/countersign/config.toml, then the defaults.

Examples:
  countersign config show --changed
  countersign config show --json | jq '.settings[] | select(.key == \"reviewer\")'";

const CHECK_HELP: &str = "\
Exit codes: 0 all is well · 2 something is wrong

Examples:
  countersign config check
  countersign config check countersign.toml";

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Show { changed, base } => show(changed, base.as_deref(), desktop).await,
        Verb::Check { files } => check(&files, desktop).await,
        Verb::Schema { kind } => {
            raw(&format!("{:#}\n", schema::of(kind)));
            Ok(ExitKind::Done)
        }
    }
}

async fn show(changed: bool, base: Option<&str>, desktop: &Context) -> Result<ExitKind, Failure> {
    let (mut settings, remarks) =
        config::show(&desktop.surroundings, &desktop.directory, base).await?;
    if changed {
        settings.retain(|setting| setting.origin != "default");
    }
    desktop
        .out
        .answer(&json!({"settings": settings, "notes": remarks}));
    for remark in &remarks {
        desktop.out.remark(remark);
    }
    let rows: Vec<Vec<String>> = settings
        .iter()
        .map(|setting| {
            vec![
                setting.key.clone(),
                shown(&setting.value),
                setting.origin.clone(),
            ]
        })
        .collect();
    for line in columns(&rows) {
        desktop.out.line(line);
    }
    Ok(ExitKind::Done)
}

/// Long values are cut: the JSON answer has the whole.
fn shown(value: &Value) -> String {
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

async fn check(files: &[PathBuf], desktop: &Context) -> Result<ExitKind, Failure> {
    let checked = config::check(&desktop.surroundings, &desktop.directory, files).await?;
    let fine = checked.iter().all(|file| file.problems.is_empty());
    desktop.out.answer(&json!({"fine": fine, "files": checked}));
    if checked.is_empty() {
        desktop
            .out
            .line("there is no configuration here; `countersign init` writes one");
    }
    for file in &checked {
        if file.problems.is_empty() {
            desktop.out.line(format!("{}: nothing is wrong", file.name));
        }
        for problem in &file.problems {
            desktop.out.line(problem.told(&file.name));
            if let Some(hint) = &problem.hint {
                desktop.out.line(format!("  {hint}"));
            }
        }
        for used in &file.patterns {
            for line in pattern_lines(used) {
                desktop.out.line(format!("  {line}"));
            }
        }
    }
    Ok(if fine {
        ExitKind::Done
    } else {
        ExitKind::Usage
    })
}
