//! What the program tells about itself: completions, manual pages, and the reference in `docs/`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use serde_json::json;

use super::examples;
use super::out::{Out, raw};
use app::failure::{ExitKind, Failure};

#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// For which shell.
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write a page for every command into this directory [default: print the first page].
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub const COMPLETIONS_HELP: &str = "\
Examples:
  countersign completions bash > ~/.local/share/bash-completion/completions/countersign
  countersign completions zsh > ~/.zfunc/_countersign        (with fpath+=~/.zfunc before compinit)
  countersign completions fish > ~/.config/fish/completions/countersign.fish";

pub const MAN_HELP: &str = "\
Examples:
  countersign man | man -l -
  countersign man ~/.local/share/man/man1";

/// All verbs, with the texts that clap adds.
fn whole() -> Command {
    let mut command = examples::command();
    command.build();
    command
}

pub fn completions(args: &CompletionsArgs) -> ExitKind {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut examples::command(),
        "countersign",
        &mut script,
    );
    raw(&String::from_utf8_lossy(&script));
    ExitKind::Done
}

pub fn man(args: &ManArgs, out: &Out) -> Result<ExitKind, Failure> {
    let Some(dir) = &args.dir else {
        raw(&page(&whole())?);
        return Ok(ExitKind::Done);
    };
    let failed = |path: &std::path::Path, error: std::io::Error| {
        Failure::error(format!("{} cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut written = Vec::new();
    for (name, command) in all(&whole(), "countersign") {
        let path = dir.join(format!("{}.1", name.replace(' ', "-")));
        std::fs::write(&path, page(&command)?).map_err(|error| failed(&path, error))?;
        written.push(path);
    }
    out.line(format!(
        "wrote {} pages to {}",
        written.len(),
        dir.display()
    ));
    out.answer(&json!({"pages": written}));
    Ok(ExitKind::Done)
}

fn page(command: &Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut text).map_err(Failure::error)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Every command that people see, with its words, depth first.
fn all(command: &Command, name: &str) -> Vec<(String, Command)> {
    let mut found = vec![(name.to_owned(), command.clone())];
    let shown = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    for inner in shown {
        found.extend(all(inner, &format!("{name} {}", inner.get_name())));
    }
    found
}

const HEAD: &str = "\
# Reference

Every command and every flag, as `--help` has them. Made from the program;
`UPDATE_EXPECT=1 cargo test -p countersign --test it docs` writes it again.
";

/// The whole command line as a document.
pub fn reference() -> ExitKind {
    let mut text = HEAD.to_owned();
    for (name, command) in all(&whole(), "countersign") {
        // Its width is that of the page, whatever the terminal's is.
        let help = command.term_width(100).render_long_help().to_string();
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        let block = lines.join("\n");
        let _ = write!(text, "\n## {name}\n\n```text\n{block}\n```\n");
    }
    raw(&text);
    ExitKind::Done
}
