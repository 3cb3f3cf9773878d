//! Generates completions, manual pages and the reference in `docs/`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use serde_json::json;

use super::examples;
use super::out::{Out, print_raw};
use app::failure::{ExitKind, Failure};
use engine::linkless_files::LinklessPath;

/// Mode of a page, less the person's umask.
const PAGE_MODE: u32 = 0o666;

#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell to write completions for.
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Directory for one page per command [default: print the main page].
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

/// Returns the full command with the texts that clap adds.
fn full_command() -> Command {
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
    print_raw(&String::from_utf8_lossy(&script));
    ExitKind::Done
}

pub fn man(args: &ManArgs, out: &Out) -> Result<ExitKind, Failure> {
    let Some(dir) = &args.dir else {
        print_raw(&man_page(&full_command())?);
        return Ok(ExitKind::Done);
    };
    let failed = |path: &std::path::Path, error: std::io::Error| {
        Failure::error(format!("{} cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut pages = Vec::new();
    for (name, command) in all_commands(&full_command(), "countersign") {
        let name = format!("{}.1", name.replace(' ', "-"));
        let page = LinklessPath {
            root: dir,
            below: std::path::Path::new(&name),
        };
        let path = page.path();
        page.write(&man_page(&command)?, PAGE_MODE)
            .map_err(|error| failed(&path, error))?;
        pages.push(path);
    }
    out.line(format!("wrote {} pages to {}", pages.len(), dir.display()));
    out.print_json(&json!({"pages": pages}));
    Ok(ExitKind::Done)
}

fn man_page(command: &Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut text).map_err(Failure::error)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns every visible command with its full name, depth first.
fn all_commands(command: &Command, name: &str) -> Vec<(String, Command)> {
    let mut commands = vec![(name.to_owned(), command.clone())];
    let visible = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    for inner in visible {
        commands.extend(all_commands(inner, &format!("{name} {}", inner.get_name())));
    }
    commands
}

const HEAD: &str = "\
# Reference

Every command and every flag, as `--help` prints them. Generated from the program;
`UPDATE_EXPECT=1 cargo test -p countersign --test it docs` writes it again.
";

/// Prints the whole command line as a Markdown document.
pub fn reference() -> ExitKind {
    let mut text = HEAD.to_owned();
    for (name, command) in all_commands(&full_command(), "countersign") {
        // A fixed width, so that the document does not depend on the terminal.
        let help = command.term_width(100).render_long_help().to_string();
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        let block = lines.join("\n");
        let _ = write!(text, "\n## {name}\n\n```text\n{block}\n```\n");
    }
    print_raw(&text);
    ExitKind::Done
}
