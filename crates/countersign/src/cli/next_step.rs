//! `countersign` alone: says what this directory needs next.
//!
//! It is the first thing that a new user sees, so it never fails over a missing repository or a
//! broken file, and always names one command.

use flow::Stage;

use super::Context;
use super::out::{columns, short_title};
use app::failure::{ExitKind, Failure};
use app::operations::config;
use app::operations::project::open_repository;
use app::operations::questions::tickets::ListTickets;

/// Open tickets shown; `status` shows the rest.
const SHOWN_MAX: u32 = 5;

/// State of the directory.
enum Situation {
    NoRepository(String),
    /// A repository without a configuration.
    NotConfigured,
    Configured,
}

pub async fn perform(context: &Context) -> Result<ExitKind, Failure> {
    let situation = look(context).await?;
    let (word, lines): (&str, Vec<String>) = match &situation {
        Situation::NoRepository(why) => (
            "no_repository",
            vec![
                why.clone(),
                String::new(),
                "next: do that, then `countersign init`; or look at `countersign demo` first"
                    .to_owned(),
            ],
        ),
        Situation::NotConfigured => (
            "not_configured",
            vec![
                "This repository has no countersign.toml yet.".to_owned(),
                String::new(),
                "next: countersign init      finds your checks and agents, and writes the file"
                    .to_owned(),
            ],
        ),
        Situation::Configured => ("configured", Vec::new()),
    };
    let open = match situation {
        Situation::Configured => open_tickets(context).await?,
        Situation::NoRepository(_) | Situation::NotConfigured => Vec::new(),
    };
    let next = context.pasteable(&next_command(&open, context.has_server()));
    context.out.print_json(&serde_json::json!({
        "directory": word, "tickets": open, "next": (word == "configured").then_some(&next),
    }));
    for line in &lines {
        context.out.line(line);
    }
    if word == "configured" {
        print_tickets(&open, context);
        context.out.line(format!("\nnext: {next}"));
    }
    context.out.line("all commands: countersign --help");
    Ok(ExitKind::Done)
}

async fn look(context: &Context) -> Result<Situation, Failure> {
    // The tickets are on a server, and this directory does not matter.
    if context.environment.server.address.is_some() {
        return Ok(Situation::Configured);
    }
    let git = match open_repository(&context.environment, &context.directory).await {
        Ok(git) => git,
        Err(failure) => return Ok(Situation::NoRepository(failure.message)),
    };
    let files = config::find_files(&context.environment, &git, None).await;
    Ok(match files {
        Ok(files) if files.sources.is_empty() => Situation::NotConfigured,
        // A file with mistakes is a configuration; the commands say what is wrong with it.
        Ok(_) | Err(_) => Situation::Configured,
    })
}

async fn open_tickets(context: &Context) -> Result<Vec<app::operations::TicketRow>, Failure> {
    let stages: Vec<Stage> = Stage::ALL
        .into_iter()
        .filter(|stage| !stage.is_terminal())
        .collect();
    let query = ListTickets {
        stage: ListTickets::join_stages(&stages),
        limit: Some(SHOWN_MAX),
        repository: context.repository().await,
        ..ListTickets::default()
    };
    Ok(context.ask(query).await?.items)
}

/// Builds the error of `countersign run` without a ticket: it names the commands that go on with
/// the open tickets of this repository.
pub(super) async fn missing_ticket(context: &Context) -> Failure {
    let missing =
        Failure::usage("say what to run: a sentence, a ticket file, or the id of a ticket");
    // Without a repository, or with a broken database, the sentence above is enough.
    let open = match look(context).await {
        Ok(Situation::Configured) => open_tickets(context).await.unwrap_or_default(),
        Ok(Situation::NoRepository(_) | Situation::NotConfigured) | Err(_) => Vec::new(),
    };
    let commands = open.iter().filter_map(|row| {
        let command = command_for(row, context.has_server())?;
        Some(format!("{}  ({})", context.pasteable(&command), row.stage))
    });
    commands
        .chain(["countersign run \"what you want changed\"".to_owned()])
        .fold(missing, Failure::hint)
}

/// Returns the command that goes on with a ticket; `None` if it waits for something else.
fn command_for(row: &app::operations::TicketRow, has_server: bool) -> Option<String> {
    if row.stage.waits_for_decision() {
        return Some(format!("countersign escalation show {}", row.id));
    }
    row.stage.is_active().then(|| {
        if has_server {
            // The server's agents and workers take it.
            format!("countersign log {} --follow", row.id)
        } else {
            format!("countersign run {}", row.id)
        }
    })
}

/// Returns the command for the most urgent ticket: an escalation first, then unfinished work.
fn next_command(open: &[app::operations::TicketRow], has_server: bool) -> String {
    // An escalation waits for a person; everything else can go on by itself.
    let escalated = open.iter().find(|row| row.stage.waits_for_decision());
    let active = open.iter().find(|row| row.stage.is_active());
    escalated
        .or(active)
        .and_then(|row| command_for(row, has_server))
        .unwrap_or_else(|| "countersign run \"what you want changed\"".to_owned())
}

fn print_tickets(open: &[app::operations::TicketRow], context: &Context) {
    if open.is_empty() {
        context.out.line("No open tickets in this repository.");
        return;
    }
    context.out.line("Open tickets in this repository:");
    let rows: Vec<Vec<String>> = open
        .iter()
        .map(|row| {
            vec![
                format!("  {}", row.id),
                row.stage.to_string(),
                short_title(&row.title),
            ]
        })
        .collect();
    for line in columns(&rows) {
        context.out.line(line);
    }
}
