//! The command line: words in, one operation, words out. The only place that prints.

mod demo;
mod doctor;
mod epic;
mod escalation;
mod export;
mod findings;
mod hidden;
mod import;
mod insights;
mod log;
mod out;
mod prompt;
mod run;
mod serve;
mod status;
mod ticket;
mod token;
mod transcript;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::failure::{Exit, Failure};
use crate::operations::Office;
use crate::settings::Surroundings;
use out::Out;

/// No agent's change lands on one signature.
///
/// Runs coding agents in a loop — build, check, review, rework — until an independent reviewer
/// countersigns the exact commit, or a person decides.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Args {
    /// Work as if started in DIR.
    #[arg(short = 'C', value_name = "DIR", global = true, default_value = ".")]
    directory: PathBuf,
    /// Where Countersign keeps its data [default: `$XDG_DATA_HOME/countersign`].
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// A `PostgreSQL` address (postgres://…) or a file, instead of the database in the data directory.
    #[arg(long, value_name = "URL|FILE", global = true)]
    database: Option<String>,
    /// Answer in JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done or approved · 1 error · 2 usage · 3 changes requested · 4 escalated: a person decides ·
5 failed or cancelled · 6 refused · 7 database · 8 waits for another ticket or person · 130 interrupted

Try `countersign demo`: a throw-away repository, a builder that errs, a reviewer that sees it.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watch one ticket go through build, check, review, rework and merge, in a throw-away repository.
    Demo(demo::Args),
    /// Take a ticket from its description to a countersigned commit, in this repository.
    Run(run::Args),
    /// Add, list, show and cancel tickets.
    #[command(subcommand)]
    Ticket(ticket::Verb),
    /// Tickets that belong together.
    #[command(subcommand)]
    Epic(epic::Verb),
    /// What is going on: tickets by stage, who waits for whom.
    Status,
    /// What has happened, told in sentences.
    Log(log::Args),
    /// Tickets that wait for a person.
    #[command(subcommand)]
    Escalation(escalation::Verb),
    /// Read, convert, track and score review texts.
    #[command(subcommand)]
    Findings(findings::Verb),
    /// Tickets in other systems' forms.
    Export(export::Args),
    /// What is found most, who is right how often, what it costs, and which rules would help.
    Insights {
        #[command(subcommand)]
        verb: Option<insights::Verb>,
    },
    /// Take over tickets from other systems' files.
    Import(import::Args),
    /// Serve agents over MCP, and people and programs over REST.
    Serve(serve::Args),
    /// Speak MCP on the standard input and output, for the agent whose token is in `COUNTERSIGN_TOKEN`.
    Mcp,
    /// Who may speak: tokens for agents, people and programs.
    #[command(subcommand)]
    Token(token::Verb),
    /// Is everything in order here?
    Doctor(doctor::Args),
    #[command(hide = true)]
    Hold(hidden::HoldArgs),
    #[command(hide = true)]
    Confine(hidden::HoldArgs),
    #[command(hide = true)]
    Confined(hidden::HoldArgs),
    #[command(hide = true)]
    Play(hidden::PlayArgs),
}

/// Where a verb works: the directory, the form of its answer, and how to get at the store.
#[derive(Debug)]
struct Desktop {
    directory: PathBuf,
    out: Out,
    surroundings: Surroundings,
}

impl Desktop {
    async fn office(&self) -> Result<Office, Failure> {
        Office::open(self.surroundings.clone()).await
    }
}

pub fn main(words: Vec<OsString>) -> Exit {
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => return out::usage(&error),
    };
    let out = Out::new(args.json);
    match start(args, &out) {
        Ok(exit) => exit,
        Err(failure) => {
            out.failure(&failure);
            failure.exit
        }
    }
}

fn start(args: Args, out: &Out) -> Result<Exit, Failure> {
    // The hidden verbs become another program, or play one: no store, no threads.
    match args.verb {
        Verb::Hold(words) => hidden::hold(&words),
        Verb::Confine(words) => hidden::confine(&words),
        Verb::Confined(words) => hidden::confined(&words),
        Verb::Play(words) => hidden::play(&words),
        verb => {
            let surroundings = Surroundings::read(args.data_dir, args.database)?;
            let desktop = Desktop {
                directory: args.directory,
                out: out.clone(),
                surroundings,
            };
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .worker_threads(2)
                .build()
                .map_err(|error| Failure::error(format!("no threads to be had: {error}")))?;
            let exit = runtime.block_on(perform(verb, &desktop));
            runtime.shutdown_background();
            exit
        }
    }
}

async fn perform(verb: Verb, desktop: &Desktop) -> Result<Exit, Failure> {
    match verb {
        Verb::Demo(args) => demo::perform(args, desktop).await,
        Verb::Run(args) => Box::pin(run::perform(args, desktop)).await,
        Verb::Ticket(verb) => ticket::perform(verb, desktop).await,
        Verb::Epic(verb) => epic::perform(verb, desktop).await,
        Verb::Insights { verb } => insights::perform(verb, desktop).await,
        Verb::Import(args) => import::perform(args, desktop).await,
        Verb::Status => status::perform(desktop).await,
        Verb::Log(args) => log::perform(args, desktop).await,
        Verb::Escalation(verb) => escalation::perform(verb, desktop).await,
        Verb::Findings(verb) => findings::perform(verb, desktop).await,
        Verb::Export(args) => export::perform(args, desktop).await,
        Verb::Serve(args) => serve::perform(args, desktop).await,
        Verb::Mcp => serve::over_stdio(desktop).await,
        Verb::Token(verb) => token::perform(verb, desktop).await,
        Verb::Doctor(args) => doctor::perform(args, desktop).await,
        Verb::Hold(_) | Verb::Confine(_) | Verb::Confined(_) | Verb::Play(_) => Ok(Exit::Usage),
    }
}
