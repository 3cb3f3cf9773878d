//! `countersign demo`

use std::path::PathBuf;

use super::story::{ProgressFormat, TicketCount, tell};
use super::{Context, run};
use app::failure::{ExitKind, Failure};
use app::operations::project::furnish;
use app::operations::{App, demo, run as running};
use app::settings::Environment;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show the other end: a builder that does not listen, and a person who has to decide.
    #[arg(long)]
    escalate: bool,
    /// Where to make the throw-away repository; must not be there yet [default: below the data directory].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let out = &desktop.out;
    let root = match args.dir {
        Some(dir) => std::path::absolute(desktop.directory.join(dir)).map_err(Failure::usage)?,
        None => desktop
            .surroundings
            .data_dir
            .join(format!("demo/{}", engine::clock::now().0)),
    };
    let stage = demo::build(&root, &desktop.surroundings, args.escalate).await?;
    let surroundings = Environment {
        data_dir: stage.data_dir.clone(),
        database: desktop.surroundings.database.clone(),
        ..desktop.surroundings.clone()
    };
    out.line("A small shell project, a ticket, and a scripted crew. The loop, git, the checks and the verdict are real.\n");
    let mut office = App::open(surroundings).await?;
    let mut telling = tell(&mut office, ProgressFormat::Auto, TicketCount::One, out);
    let shop = furnish(&office, &stage.repository, &stage.asked)
        .await?
        .shop;
    let begun = running::begin(&office, &shop, "", || {
        let bytes = app::settings::read_bounded(&stage.ticket, "the ticket file", 1 << 20)?;
        app::settings::ticket_file::read("ticket.md", &bytes)
    })
    .await?;
    let ticket = run::drive(&shop, &begun.id, &mut telling, out).await?;
    run::finish(&office, &ticket, desktop).await?;
    let program = called(&desktop.surroundings);
    let again = format!("{program} --data-dir {}", stage.data_dir.display());
    out.line(format!("repository {}", stage.repository.display()));
    out.line("\ntry next");
    out.line(format!("  {again} ticket show slug"));
    out.line(format!("  {again} log slug"));
    out.line(format!("  {again} export --as findings slug --round 1"));
    out.line(format!(
        "  git -C {} log --oneline --graph",
        stage.repository.display()
    ));
    out.line(format!(
        "  {program} run --help      on a repository of your own"
    ));
    Ok(match run::exit_of(&ticket) {
        // It was asked for.
        ExitKind::Escalated if args.escalate => ExitKind::Done,
        exit => exit,
    })
}

/// How the person can call us again: by name where the name is known, else by the path.
fn called(surroundings: &Environment) -> String {
    let found = std::env::split_paths(&surroundings.path)
        .any(|dir| dir.join("countersign") == surroundings.program);
    if found {
        "countersign".to_owned()
    } else {
        surroundings.program.display().to_string()
    }
}
