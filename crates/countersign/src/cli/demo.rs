//! `countersign demo`: plays a scripted ticket in a temporary repository.

use std::path::PathBuf;

use super::progress_output::{ProgressFormat, TicketCount, start_reporting};
use super::{Context, run};
use app::failure::{ExitKind, Failure};
use app::operations::project::load_project;
use app::operations::{App, demo, run as running};
use app::settings::Environment;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show the other outcome: the builder ignores the findings, and a person has to decide.
    #[arg(long)]
    escalate: bool,
    /// Directory for the temporary repository; must not exist yet. It is kept [default: below the
    /// data directory, removed at the end].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the repository and the demo's data, to look at them afterwards.
    #[arg(long)]
    keep: bool,
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let out = &context.out;
    let keep = args.keep || args.dir.is_some();
    let root = match &args.dir {
        Some(dir) => std::path::absolute(context.directory.join(dir)).map_err(Failure::usage)?,
        None => context
            .environment
            .data_dir
            .join(format!("demo/{}", engine::clock::now().0)),
    };
    let stage = demo::build_demo(&root, &context.environment, args.escalate).await?;
    let environment = Environment {
        data_dir: stage.data_dir.clone(),
        database: context.environment.database.clone(),
        ..context.environment.clone()
    };
    out.line("A small shell project, a ticket, and scripted agents. The loop, git, the checks and the verdict are real.\n");
    let mut app = App::open(environment).await?;
    let mut progress = start_reporting(&mut app, ProgressFormat::Auto, TicketCount::One, out);
    let project = load_project(&app, &stage.repository, &stage.options)
        .await?
        .project;
    let started = running::find_or_add(&app, &project, "", || {
        let bytes = app::settings::read_bounded(&stage.ticket, "the ticket file", 1 << 20)?;
        app::settings::ticket_file::read("ticket.md", &bytes)
    })
    .await?;
    let ticket = run::run_until_idle(&app, (&project, &started.id), &mut progress, out).await?;
    // Without its files, commands to look at them would fail.
    if keep {
        run::print_result(&app, &ticket, context).await?;
    } else {
        run::print_summary(&app, &ticket, context).await?;
    }
    let program = program_name(&context.environment);
    if !keep {
        // The app still has the database open; on Linux its files may go all the same.
        drop(app);
        engine::git::remove_tree(&root).map_err(|error| {
            Failure::error(format!("{} cannot be removed: {error}", root.display()))
                .hint("remove it by hand, or with: countersign clean --yes")
        })?;
        out.line("\nThe demo's files are removed.");
        out.line(format!(
            "  {program} demo{} --keep   keeps them, and shows commands to look at them",
            if args.escalate { " --escalate" } else { "" }
        ));
        out.line(format!(
            "  {program} run --help      for your own repository"
        ));
        return Ok(demo_exit(&ticket, args.escalate));
    }
    let command = format!("{program} --data-dir {}", stage.data_dir.display());
    out.line(format!("repository {}", stage.repository.display()));
    out.line("\ntry next");
    out.line(format!("  {command} ticket show slug"));
    out.line(format!("  {command} log slug"));
    out.line(format!("  {command} export --as findings slug --round 1"));
    out.line(format!(
        "  git -C {} log --oneline --graph",
        stage.repository.display()
    ));
    out.line(format!(
        "  {program} run --help      for your own repository"
    ));
    Ok(demo_exit(&ticket, args.escalate))
}

/// Returns the exit code. The user asked for an escalation, so it counts as success.
fn demo_exit(ticket: &flow::Ticket, escalate: bool) -> ExitKind {
    match run::exit_kind(ticket) {
        ExitKind::Escalated if escalate => ExitKind::Done,
        exit => exit,
    }
}

/// Returns the name of this program if it is in `PATH`, else its full path.
pub fn program_name(environment: &Environment) -> String {
    let in_path = std::env::split_paths(&environment.path)
        .any(|dir| dir.join("countersign") == environment.program);
    if in_path {
        "countersign".to_owned()
    } else {
        environment.program.display().to_string()
    }
}
