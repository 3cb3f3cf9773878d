//! Command line: parses the arguments, calls one operation and prints its result. No other crate
//! prints or exits.

mod agent;
mod backup;
mod choices;
mod clean;
mod config;
mod demo;
mod diff;
mod doctor;
mod editor;
mod epic;
mod escalation;
mod examples;
mod export;
mod findings;
mod forge;
mod hidden_verbs;
mod hook;
mod import;
mod inbox;
mod init;
mod insights;
mod live;
mod log;
mod logging;
mod manual;
mod next_step;
mod open;
mod out;
mod paint;
mod progress;
mod progress_output;
mod prompt;
mod proof;
mod queue;
mod review;
mod run;
mod serve;
mod signals;
mod status;
mod syntax;
mod ticket;
mod token;
mod transcript;
mod watch;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{FromArgMatches, Parser, Subcommand};
use tokio::sync::OnceCell;

use app::failure::{ExitKind, Failure};
use app::operations::project::open_repository;
use app::operations::questions::Question;
use app::operations::questions::tickets::ListTickets;
use app::operations::service;
use app::operations::workers::WorkerContext;
use app::operations::{App, ticket_ids};
use app::remote::{self, RemoteServer};
use app::settings::Environment;
use app::settings::logging::LogVariables;
use app::settings::server::ServerAddress;
use logging::{LogArgs, Verbosity};
use out::Out;

/// No agent's change lands on one signature.
///
/// Runs coding agents in a loop — build, check, review, rework — until an independent reviewer
/// countersigns the exact commit, or a person decides.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Args {
    /// Run as if started in DIR.
    #[arg(short = 'C', value_name = "DIR", global = true, default_value = ".", help_heading = GLOBAL)]
    directory: PathBuf,
    /// Print the result as JSON.
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
    /// Print the result only: no progress, no notes.
    #[arg(long, short, global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more: internal steps, and the log at the level info.
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    verbose: bool,
    /// Directory of Countersign's data [default: `$XDG_DATA_HOME/countersign`].
    #[arg(long, value_name = "DIR", global = true, help_heading = GLOBAL)]
    data_dir: Option<PathBuf>,
    /// PostgreSQL address (postgres://…) or file to use instead of the database in the data
    /// directory.
    #[arg(long, value_name = "URL|FILE", global = true, help_heading = GLOBAL)]
    database: Option<String>,
    /// File with the address of the database on one line, so that a password is not in the list of
    /// processes; `COUNTERSIGN_DATABASE` and `COUNTERSIGN_DATABASE_FILE` do the same.
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL, conflicts_with = "database")]
    database_file: Option<PathBuf>,
    /// Server (https://name:port) to use instead of the local store; `none` uses the local store.
    #[arg(long, value_name = "URL", global = true, help_heading = GLOBAL)]
    server: Option<String>,
    #[command(flatten)]
    log: LogArgs,
    /// Without a verb, Countersign says what this directory needs next.
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// Heading of the options that every verb takes.
const GLOBAL: &str = "Global options";

const AFTER_HELP: &str = "\
Exit codes:
    0  done or approved              5  failed or cancelled
    1  error                         6  refused
    2  usage                         7  database
    3  changes requested             8  waits for another ticket or person
    4  escalated: a person decides   130  interrupted

Tickets: the beginning of an id is enough if only one ticket begins with it; @last is the newest
ticket of this repository.

Try `countersign demo`: a temporary repository, a builder that makes a mistake, a reviewer that finds it.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watch a ticket go through build, check, review, rework and merge in a temporary repository.
    Demo(demo::Args),
    /// Detect this project's language, checks and agents, and write a first countersign.toml.
    Init(init::Args),
    /// Run a ticket in this repository, from its description to a countersigned commit.
    Run(run::Args),
    /// Review a change without a ticket: a branch, a range, staged changes or a patch.
    Review(review::Args),
    /// Add, list, show and cancel tickets.
    #[command(subcommand)]
    Ticket(ticket::Verb),
    /// List and cancel jobs and tasks, pause queues, and limit providers.
    #[command(subcommand)]
    Queue(queue::Verb),
    /// List, show and sign epics: tickets that belong together.
    #[command(subcommand)]
    Epic(epic::Verb),
    /// Show this repository's tickets by stage and what they wait for.
    Status(status::Args),
    /// Open the live view: tickets, running work, findings in the diff, escalations to resolve.
    Watch(watch::Args),
    /// Show the log of events, in sentences.
    Log(log::Args),
    /// List, show and resolve tickets that wait for a person.
    #[command(subcommand)]
    Escalation(escalation::Verb),
    /// Show the messages that agents sent to you.
    Inbox(inbox::Args),
    /// Print the address of the server and a link that logs your browser in to its dashboard.
    Open,
    /// Read, convert, track and score review texts.
    #[command(subcommand)]
    Findings(findings::Verb),
    /// Export tickets in formats of other systems.
    Export(export::Args),
    /// Show frequent findings, reviewer accuracy, cost, and rules that would help.
    Insights {
        #[command(subcommand)]
        verb: Option<insights::Verb>,
    },
    /// Import tickets and settings from files of other systems.
    Import(import::Args),
    /// Show the configuration, the source of each value, and mistakes in it.
    #[command(subcommand)]
    Config(config::Verb),
    /// Install git hooks that review commits before a push, or each commit in the background.
    #[command(subcommand)]
    Hook(hook::Verb),
    /// Print completions for your shell.
    #[command(after_help = manual::COMPLETIONS_HELP)]
    Completions(manual::CompletionsArgs),
    /// Print or write manual pages.
    #[command(after_help = manual::MAN_HELP)]
    Man(manual::ManArgs),
    /// List the agent CLIs on this machine, and install Countersign into their sessions.
    #[command(subcommand)]
    Agent(agent::Verb),
    /// Show how much disk space finished work uses, and free it with --yes.
    Clean(clean::Args),
    /// Copy the database to a file, while servers and workers go on.
    Backup(backup::BackupArgs),
    /// Put a copy of the database back; nothing may use the database meanwhile.
    Restore(backup::RestoreArgs),
    /// Serve the dashboard for people, MCP for agents and REST for programs.
    Serve(serve::Args),
    /// Run jobs from the queues, on any machine that reaches the server or the database.
    Worker(worker::Args),
    /// Serve MCP over standard input and output for the agent whose token is in
    /// `COUNTERSIGN_TOKEN`. Forwards to the running server, or serves from the local store if none
    /// runs.
    Mcp,
    /// Create, list, rotate and revoke tokens for agents, people and programs.
    #[command(subcommand)]
    Token(token::Verb),
    /// Connect to the forge that has the pull requests.
    #[command(subcommand)]
    Forge(forge::Verb),
    /// Check that this machine and project are ready, and say how to fix what is not.
    Doctor(doctor::Args),
    #[command(hide = true)]
    Reference,
}

impl Verb {
    fn verbosity(&self) -> Verbosity {
        match self {
            Self::Serve(_) | Self::Worker(_) => Verbosity::Service,
            Self::Watch(_) => Verbosity::FullScreen,
            _ => Verbosity::Interactive,
        }
    }

    /// Whether this command performs jobs or answers requests, which are what spans describe. The
    /// variable for the collector is often set for a whole shell; a short command must neither wait
    /// for a collector that is down nor warn about it.
    fn exports_spans(&self) -> bool {
        matches!(
            self,
            Self::Run(_) | Self::Review(_) | Self::Serve(_) | Self::Worker(_) | Self::Mcp
        )
    }

    /// Returns the ticket ids of the command, which a person may write in short.
    fn ticket_ids(&mut self) -> Vec<&mut String> {
        match self {
            Self::Ticket(verb) => verb.ticket_ids(),
            Self::Escalation(verb) => verb.ticket_ids(),
            Self::Log(args) => args.ticket_ids(),
            Self::Watch(args) => args.ticket_ids(),
            Self::Export(args) => args.ticket_ids(),
            Self::Clean(args) => args.ticket_ids(),
            _ => Vec::new(),
        }
    }

    /// Whether a server can answer this command.
    fn can_use_server(&self) -> bool {
        matches!(
            self,
            Self::Ticket(_)
                | Self::Queue(_)
                | Self::Inbox(_)
                | Self::Open
                | Self::Epic(_)
                | Self::Status(_)
                | Self::Log(_)
                | Self::Escalation(_)
                | Self::Export(_)
                | Self::Insights { .. }
                | Self::Import(_)
                | Self::Worker(_)
                | Self::Mcp
                | Self::Token(_)
        )
    }
}

fn local_only_error(url: &str) -> Failure {
    Failure::usage(format!(
        "this command works only on the local store, but the server {url} is set"
    ))
    .hint("run it on the server's machine, or use the local store with `--server none`")
}

/// Context of a command: its directory, its output, its environment, and the store or server.
#[derive(Debug)]
struct Context {
    directory: PathBuf,
    out: Out,
    /// Whether internal steps are printed.
    verbose: bool,
    environment: Environment,
    /// Opened on first use.
    app: OnceCell<App>,
    server: OnceCell<RemoteServer>,
}

impl Context {
    fn new(directory: PathBuf, out: Out, environment: Environment) -> Self {
        Self {
            directory,
            out,
            verbose: false,
            environment,
            app: OnceCell::new(),
            server: OnceCell::new(),
        }
    }

    /// Returns the same context with JSON output if `json` is set.
    fn with_json(&self, json: bool) -> Self {
        let out = if json {
            Out::new(true)
        } else {
            self.out.clone()
        };
        Self {
            verbose: self.verbose,
            ..Self::new(self.directory.clone(), out, self.environment.clone())
        }
    }

    /// Returns a suggested command that works when pasted: with the data directory, if this call
    /// named one.
    fn pasteable(&self, line: &str) -> String {
        if self.environment.origins.data_dir == "flag" {
            return run::with_data_dir(line, "countersign", &self.environment.data_dir);
        }
        line.to_owned()
    }

    /// Returns whether a server gives the tickets to its agents and workers: the one that was asked,
    /// or one that runs on this data directory.
    fn has_server(&self) -> bool {
        let environment = &self.environment;
        environment.server.address.is_some() || service::running_server(environment).is_some()
    }

    /// Returns the lines that say what happens next with a ticket that has work to do.
    fn next_for(&self, id: &str) -> String {
        if self.has_server() {
            let follow = self.pasteable(&format!("countersign log {id} --follow"));
            return format!("the server offers it to its agents and workers\nnext: {follow}");
        }
        format!("next: {}", self.pasteable(&format!("countersign run {id}")))
    }

    /// Returns the repository of the directory as tickets name it. Against a server there is none:
    /// its tickets name directories of its own machine.
    async fn repository(&self) -> Option<String> {
        if self.environment.server.address.is_some() {
            return None;
        }
        let git = open_repository(&self.environment, &self.directory).await;
        let git = git.ok()?;
        Some(git.common_dir().to_string_lossy().into_owned())
    }

    /// Returns the repository of new tickets: the named one, else the one of this directory. A
    /// server on another machine does not have this directory, so there is none without a name.
    fn repository_for_new(&self, named: Option<&str>) -> Option<String> {
        let server = self.environment.server.address.as_ref();
        let shares_paths = server.is_none_or(ServerAddress::is_local);
        match named {
            Some(path) if !shares_paths => Some(path.to_owned()),
            Some(path) => Some(self.directory.join(path).to_string_lossy().into_owned()),
            None => shares_paths.then(|| self.directory.to_string_lossy().into_owned()),
        }
    }

    /// Returns the id of the ticket that a person named by its id, its beginning or `@last`. Short
    /// names mean tickets of this repository; a whole id means any ticket.
    async fn resolve_ticket(&self, text: &str) -> Result<String, Failure> {
        // Everything begins with the empty text, so an unset shell variable would name the only
        // ticket.
        if text.trim().is_empty() {
            return Err(Failure::usage("the ticket's id is empty")
                .hint("`countersign ticket list` shows the ids"));
        }
        if text == ticket_ids::LAST {
            let repository = self.repository().await;
            let query = ListTickets {
                limit: Some(1),
                repository: repository.clone(),
                ..ListTickets::default()
            };
            let rows = self.ask(query).await?.items;
            return ticket_ids::newest(&rows, repository.is_some());
        }
        let query = ListTickets {
            limit: Some(ticket_ids::CANDIDATES_MAX),
            prefix: Some(text.to_owned()),
            repository: self.repository().await,
            ..ListTickets::default()
        };
        match self.ask(query).await {
            Ok(rows) => ticket_ids::choose(text, &rows.items),
            // An older server does not know prefixes, and some tokens may not list tickets.
            Err(_) if self.environment.server.address.is_some() => Ok(text.to_owned()),
            Err(failure) => Err(failure),
        }
    }

    /// Opens the local store. Fails if a server is set.
    async fn open_app(&self) -> Result<App, Failure> {
        if let Some(address) = &self.environment.server.address {
            return Err(local_only_error(&address.url));
        }
        let open = async || {
            let app = App::open(self.environment.clone()).await?;
            if let Some(note) = &app.data_dir_note {
                self.out.note(note);
            }
            Ok(app)
        };
        self.app.get_or_try_init(open).await.cloned()
    }

    /// Opens the coordinator of a worker: the server if one is set, else the local store.
    async fn workplace(&self) -> Result<WorkerContext, Failure> {
        match &self.environment.server.address {
            Some(address) => {
                remote::workplace(self.connect(address)?, self.environment.clone()).await
            }
            None => Ok(WorkerContext::of(self.open_app().await?)),
        }
    }

    /// Sends a question to the server if one is set, else answers it from the local store.
    async fn ask<Q: Question>(&self, question: Q) -> Result<Q::Answer, Failure> {
        match &self.environment.server.address {
            Some(address) => self.remote(address).await?.ask(&question).await,
            None => question.answer(&Box::pin(self.open_app()).await?).await,
        }
    }

    async fn remote(&self, address: &ServerAddress) -> Result<&RemoteServer, Failure> {
        let open = async || self.connect(address);
        self.server.get_or_try_init(open).await
    }

    fn connect(&self, address: &ServerAddress) -> Result<RemoteServer, Failure> {
        let token = self.environment.server.token.as_deref().ok_or_else(|| {
            Failure::usage(format!("no token is set for {}", address.url))
                .hint("set COUNTERSIGN_TOKEN, or add the token to server.toml next to your config.toml")
                .hint("an administrator creates one: `countersign token create --agent NAME --role human`")
        })?;
        RemoteServer::new(address.clone(), token)
    }
}

pub fn main(args_os: Vec<OsString>) -> ExitKind {
    if let Some(result) = hidden_verbs::perform(&args_os) {
        return report_outcome(result, &Out::new(false));
    }
    let json = args_os.iter().any(|word| word == "--json");
    let is_hook = is_hook_call(&args_os);
    let exit = match parse(args_os) {
        Ok(args) => {
            let out = Out::new(args.json).quiet(args.quiet);
            report_outcome(start(args, &out), &out)
        }
        Err(error) => out::report_usage(&error, json),
    };
    // An agent CLI takes exit code 2 of its hook for "do not stop", and would never let the person go.
    match exit {
        ExitKind::Usage if is_hook => ExitKind::Error,
        exit => exit,
    }
}

/// Returns whether an agent CLI calls us as its hook.
fn is_hook_call(words: &[OsString]) -> bool {
    let is_flag =
        |word: &OsString| word == "--hook" || word.as_encoded_bytes().starts_with(b"--hook=");
    words.iter().any(|word| word == "review") && words.iter().any(is_flag)
}

fn report_outcome(result: Result<ExitKind, Failure>, out: &Out) -> ExitKind {
    result.unwrap_or_else(|failure| {
        out.failure(&failure);
        failure.exit
    })
}

fn parse(arguments: Vec<OsString>) -> Result<Args, clap::Error> {
    let matches = examples::command().try_get_matches_from(arguments)?;
    Args::from_arg_matches(&matches)
}

fn start(args: Args, out: &Out) -> Result<ExitKind, Failure> {
    match args.verb {
        // These describe the program itself and need neither a store nor a home directory.
        Some(Verb::Completions(args)) => Ok(manual::completions(&args)),
        Some(Verb::Man(args)) => manual::man(&args, out),
        Some(Verb::Reference) => Ok(manual::reference()),
        verb => {
            let environment = Environment::read(
                args.data_dir,
                (args.database, args.database_file),
                args.server,
            )?;
            if environment.exposes_password {
                out.note(
                    "all users of this machine can see the password in --database; put the address into COUNTERSIGN_DATABASE, or into a file for --database-file",
                );
            }
            let context = Context {
                verbose: args.verbose,
                ..Context::new(args.directory, out.clone(), environment)
            };
            let server = &context.environment.server;
            let can_use_server = verb.as_ref().is_none_or(Verb::can_use_server);
            if let (true, Some(address), false) = (server.by_flag, &server.address, can_use_server)
            {
                return Err(local_only_error(&address.url));
            }
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .worker_threads(2)
                .build()
                .map_err(|error| Failure::error(format!("could not start threads: {error}")))?;
            let verbosity = verb
                .as_ref()
                .map_or(Verbosity::Interactive, Verb::verbosity);
            let verbosity = verbosity.raised_by(args.verbose);
            let exports_spans = verb.as_ref().is_some_and(Verb::exports_spans);
            let variables = LogVariables::read();
            let logging = logging::start(
                args.log,
                verbosity,
                exports_spans,
                &variables,
                runtime.handle(),
            );
            // Boxed: the runtime polls in three places, and each would compile all commands again.
            let exit = match verb {
                Some(verb) => runtime.block_on(Box::pin(perform(verb, &context))),
                None => runtime.block_on(Box::pin(next_step::perform(&context))),
            };
            logging.finish();
            runtime.shutdown_background();
            exit
        }
    }
}

async fn perform(mut verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    for id in verb.ticket_ids() {
        *id = context.resolve_ticket(id).await?;
    }
    match verb {
        Verb::Demo(args) => Box::pin(demo::perform(args, context)).await,
        Verb::Init(args) => Box::pin(init::perform(args, context)).await,
        Verb::Run(args) => Box::pin(run::perform(args, context)).await,
        Verb::Review(args) => Box::pin(review::perform(args, context)).await,
        Verb::Ticket(verb) => Box::pin(ticket::perform(verb, context)).await,
        Verb::Inbox(args) => Box::pin(inbox::perform(args, context)).await,
        Verb::Open => Box::pin(open::perform(context)).await,
        Verb::Queue(verb) => Box::pin(queue::perform(verb, context)).await,
        Verb::Epic(verb) => Box::pin(epic::perform(verb, context)).await,
        Verb::Insights { verb } => Box::pin(insights::perform(verb, context)).await,
        Verb::Import(args) => Box::pin(import::perform(args, context)).await,
        Verb::Status(args) => Box::pin(status::perform(args, context)).await,
        Verb::Watch(args) => Box::pin(watch::perform(args, context)).await,
        Verb::Log(args) => Box::pin(log::perform(args, context)).await,
        Verb::Escalation(verb) => Box::pin(escalation::perform(verb, context)).await,
        Verb::Findings(verb) => Box::pin(findings::perform(verb, context)).await,
        Verb::Export(args) => Box::pin(export::perform(args, context)).await,
        Verb::Config(verb) => Box::pin(config::perform(verb, context)).await,
        Verb::Agent(verb) => Box::pin(agent::perform(verb, context)).await,
        Verb::Hook(verb) => Box::pin(hook::perform(verb, context)).await,
        Verb::Clean(args) => Box::pin(clean::perform(args, context)).await,
        Verb::Backup(args) => backup::save(args, context).await,
        Verb::Restore(args) => backup::restore(args, context).await,
        Verb::Serve(args) => Box::pin(serve::perform(args, context)).await,
        Verb::Worker(args) => Box::pin(worker::perform(args, context)).await,
        Verb::Mcp => Box::pin(serve::run_mcp_stdio(context)).await,
        Verb::Token(verb) => Box::pin(token::perform(verb, context)).await,
        Verb::Forge(verb) => Box::pin(forge::perform(verb, context)).await,
        Verb::Doctor(args) => Box::pin(doctor::perform(args, context)).await,
        Verb::Completions(_) | Verb::Man(_) | Verb::Reference => Ok(ExitKind::Usage),
    }
}
