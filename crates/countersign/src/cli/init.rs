//! `countersign init`

use std::io::IsTerminal;

use serde_json::json;

use super::Context;
use super::out::columns;
use super::prompt::read_line;
use app::failure::{ExitKind, Failure};
use app::operations::init::{self, ConfigProposal};
use app::settings::file::NAME;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is overwritten: where there is a configuration already, it ends with exit code 6.

Examples:
  countersign init             show what was found, ask, write
  countersign init --yes       write without a question, for scripts
  countersign init --print     only print the file")]
pub struct Args {
    /// Write without asking.
    #[arg(long, short, conflicts_with = "print")]
    yes: bool,
    /// Print the file that would be written, and write nothing.
    #[arg(long)]
    print: bool,
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let proposal = init::propose(&desktop.surroundings, &desktop.directory).await?;
    let out = &desktop.out;
    if args.print {
        out.answer(&json!({"written": false, "proposal": proposal}));
        out.line(proposal.text.trim_end());
        return Ok(ExitKind::Done);
    }
    for line in found(&proposal) {
        out.line(line);
    }
    if !args.yes && !agreed(&proposal, desktop)? {
        out.line("nothing was written");
        return Ok(ExitKind::Done);
    }
    init::write(&proposal)?;
    out.answer(&json!({"written": true, "proposal": proposal}));
    out.line(format!("\nwrote {}", proposal.file.display()));
    for line in next(&proposal) {
        out.line(line);
    }
    Ok(ExitKind::Done)
}

fn found(proposal: &ConfigProposal) -> Vec<String> {
    let found = &proposal.detected;
    let mut rows = vec![row("base branch", &proposal.base)];
    let languages = found.languages.iter();
    rows.extend(languages.map(|(name, file)| row("language", &format!("{name} ({file})"))));
    if found.languages.is_empty() {
        rows.push(row("language", "none that is known here"));
    }
    let checks = found.checks.iter();
    rows.extend(checks.map(|(name, command)| row("check", &format!("{name}: {command}"))));
    if found.checks.is_empty() {
        rows.push(row("check", "none found; name one under [checks]"));
    }
    rows.extend(found.setup.iter().map(|run| row("setup", run)));
    for agent in &proposal.agents {
        let login = match &agent.login {
            Some(place) => format!("login: {place}"),
            None => "no login was seen".to_owned(),
        };
        rows.push(row(
            "agent",
            &format!("{} at {} ({login})", agent.name, agent.path.display()),
        ));
    }
    if proposal.agents.is_empty() {
        rows.push(row(
            "agent",
            "none found; `countersign doctor` says how to get one",
        ));
    }
    columns(&rows)
}

fn row(what: &str, found: &str) -> Vec<String> {
    vec![what.to_owned(), found.to_owned()]
}

/// Asks, if there is somebody to ask.
fn agreed(proposal: &ConfigProposal, desktop: &Context) -> Result<bool, Failure> {
    let somebody = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if desktop.out.json || !somebody {
        return Err(Failure::usage(format!(
            "nobody is here to say whether {NAME} is to be written"
        ))
        .hint("write it with --yes, or look at it with --print"));
    }
    desktop.out.line(format!(
        "\n{NAME} would say (with comments; `countersign init --print` shows them):"
    ));
    let said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    for line in proposal.text.lines().filter(said) {
        desktop.out.line(format!("  {line}"));
    }
    desktop.out.line("");
    let answer = read_line(&format!("Write {NAME}? [Y/n] "))?.to_ascii_lowercase();
    Ok(matches!(answer.as_str(), "" | "y" | "yes"))
}

fn next(proposal: &ConfigProposal) -> Vec<String> {
    let mut lines = vec![format!(
        "next: read it, then commit it to {}: git add {NAME} && git commit -m \"Add {NAME}\" {NAME}",
        proposal.base
    )];
    match (proposal.builder, proposal.reviewer) {
        (Some(builder), Some(reviewer)) if builder == reviewer => lines.push(format!(
            "note: {builder} is the only agent here, so it reviews its own kind; another model sees more"
        )),
        (None, _) => lines.push(format!("then name a builder and a reviewer in {NAME}")),
        _ => {}
    }
    lines.push("then: countersign run \"what shall be done\"   or: countersign review".to_owned());
    lines
}
