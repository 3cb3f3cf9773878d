//! `countersign init`: detects the project and writes a first configuration.

use std::io::IsTerminal;
use std::sync::Arc;

use engine::process::StopSignal;
use serde_json::json;

use super::Context;
use super::out::columns;
use super::prompt::read_line;
use super::proof::{self, ProofListener};
use super::signals::StopRequests;
use app::failure::{ExitKind, Failure};
use app::operations::init::{self, ConfigProposal};
use app::settings::file::NAME;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Never overwrites a file: if there is a configuration already, it ends with exit code 6.

Examples:
  countersign init             show what was detected, ask, write
  countersign init --yes       write without asking, for scripts
  countersign init --no-prove  write without running the setup and the checks
  countersign init --print     only print the file")]
pub struct Args {
    /// Write without asking.
    #[arg(long, short, conflicts_with = "print")]
    yes: bool,
    /// Print the file instead of writing it. Nothing is run.
    #[arg(long)]
    print: bool,
    /// Do not run the setup and the checks on the base branch first.
    #[arg(long, conflicts_with = "print")]
    no_prove: bool,
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    // Before the detection, which may take seconds: a script learns at once what is missing.
    if !args.print && !args.yes {
        ensure_terminal(context)?;
    }
    let mut proposal = init::propose(&context.environment, &context.directory).await?;
    let out = &context.out;
    if args.print {
        out.print_json(&json!({"written": false, "proposal": proposal}));
        out.line(proposal.text.trim_end());
        return Ok(ExitKind::Done);
    }
    for line in detected_lines(&proposal) {
        out.line(line);
    }
    // Before the question, so that the person decides on a file that is known to work.
    if !args.no_prove {
        Box::pin(prove(&mut proposal, context)).await?;
    }
    if !args.yes && !confirm_write(&proposal, context)? {
        out.line("nothing was written");
        return Ok(ExitKind::Done);
    }
    init::write(&proposal)?;
    out.print_json(&json!({"written": true, "proposal": proposal}));
    out.line(format!("\nwrote {}", proposal.file.display()));
    for line in next_steps(&proposal) {
        out.line(line);
    }
    Ok(ExitKind::Done)
}

/// Runs the setup and the checks on the base, and shows the results. A machine that cannot run them
/// still gets its file.
async fn prove(proposal: &mut ConfigProposal, context: &Context) -> Result<(), Failure> {
    let detected = &proposal.detected;
    // Nothing to run.
    if detected.checks.is_empty() && detected.setup.is_none() {
        return Ok(());
    }
    let out = &context.out;
    let mut app = context.open_app().await?;
    app.report_to(Some(Arc::new(ProofListener(out.clone()))));
    out.line(format!(
        "\non {}, in the sandbox (--no-prove skips this)",
        proposal.base
    ));
    let (stopper, stop) = StopSignal::pair();
    let mut signals = StopRequests::listen()?;
    let proven = {
        let work = init::prove(&app, &context.directory, proposal, stop);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => break done,
                () = signals.received() => stopper.stop(),
            }
        }
    };
    match proven {
        // An interrupt is a wish to stop; anything else is shown, and the file can still be
        // written.
        Err(failure) if failure.exit != ExitKind::Interrupted => {
            out.line(format!("!!  not proven: {}", failure.message));
        }
        proven => proven.map_err(|failure| {
            failure.hint("nothing was written; `countersign init --no-prove` writes the file without running anything")
        })?,
    }
    let report = proposal.proof.as_ref();
    for line in report.into_iter().flat_map(proof::render) {
        out.line(line);
    }
    if report.is_some_and(|report| !report.is_green()) {
        out.line(format!(
            "red commands are comments in {NAME}; after fixing them, remove the # and try again: countersign doctor --project"
        ));
    }
    Ok(())
}

fn detected_lines(proposal: &ConfigProposal) -> Vec<String> {
    let detected = &proposal.detected;
    let mut rows = vec![label_row("base branch", &proposal.base)];
    let languages = detected.languages.iter();
    rows.extend(languages.map(|(name, file)| label_row("language", &format!("{name} ({file})"))));
    if detected.languages.is_empty() {
        rows.push(label_row("language", "none detected"));
    }
    let checks = detected.checks.iter();
    rows.extend(checks.map(|(name, command)| label_row("check", &format!("{name}: {command}"))));
    if detected.checks.is_empty() {
        rows.push(label_row("check", "none detected; add one under [checks]"));
    }
    rows.extend(detected.setup.iter().map(|run| label_row("setup", run)));
    if !detected.caches.is_empty() {
        rows.push(label_row("caches", &detected.caches.join(", ")));
    }
    let missing = detected.not_installed.iter();
    rows.extend(missing.map(|text| label_row("missing", text)));
    rows.extend(detected.notes.iter().map(|note| label_row("note", note)));
    for agent in &proposal.agents {
        let login = match &agent.login {
            Some(path) => format!("login: {path}"),
            None => "no login found".to_owned(),
        };
        rows.push(label_row(
            "agent",
            &format!("{} at {} ({login})", agent.name, agent.path.display()),
        ));
    }
    if proposal.agents.is_empty() {
        rows.push(label_row(
            "agent",
            "none found; run `countersign doctor` to see how to install one",
        ));
    }
    columns(&rows)
}

fn label_row(label: &str, value: &str) -> Vec<String> {
    vec![label.to_owned(), value.to_owned()]
}

/// Fails without a terminal, where nobody can be asked.
fn ensure_terminal(context: &Context) -> Result<(), Failure> {
    // Both: a question that goes into a file is never read.
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if context.out.json || !is_terminal {
        return Err(
            Failure::usage(format!("not a terminal: pass --yes to write {NAME}"))
                .hint("show it first with --print"),
        );
    }
    Ok(())
}

/// Asks the user for confirmation.
fn confirm_write(proposal: &ConfigProposal, context: &Context) -> Result<bool, Failure> {
    context.out.line(format!(
        "\n{NAME} would contain (without comments; `countersign init --print` shows them):"
    ));
    // The comments are longer than the settings, and the screen is small.
    let is_setting = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    for line in proposal.text.lines().filter(is_setting) {
        context.out.line(format!("  {line}"));
    }
    context.out.line("");
    let answer = read_line(&format!("Write {NAME}? [Y/n] "))?.to_ascii_lowercase();
    // Enter means yes, as `[Y/n]` says. Anything else writes nothing.
    Ok(matches!(answer.as_str(), "" | "y" | "yes"))
}

fn next_steps(proposal: &ConfigProposal) -> Vec<String> {
    let report = proposal.proof.as_ref();
    let is_red = report.is_some_and(|report| !report.is_green());
    let has_green = report.is_some_and(|report| report.checks.iter().any(|check| check.green));
    let mut lines = Vec::new();
    if is_red && !has_green {
        lines.push(format!(
            "note: no command worked, so nothing will be checked; fix what is red, remove its # in {NAME}, and try again: countersign doctor --project"
        ));
    }
    lines.push(format!(
        "next: read it, then commit it to {}: git add {NAME} && git commit -m \"Add {NAME}\" {NAME}",
        proposal.base
    ));
    match (proposal.builder, proposal.reviewer) {
        (Some(builder), Some(reviewer)) if builder == reviewer => lines.push(format!(
            "note: {builder} is the only agent here, so it reviews its own work; another model finds more"
        )),
        (None, _) => lines.push(format!("then name a builder and a reviewer in {NAME}")),
        _ => {}
    }
    lines.push("then: countersign run \"…\"   or: countersign review".to_owned());
    lines
}
