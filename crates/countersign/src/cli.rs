//! The command line: words in, one operation, words out. The only place that prints.

mod agent;
mod choices;
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
mod hidden;
mod hook;
mod import;
mod init;
mod insights;
mod live;
mod log;
mod logging;
mod manual;
mod out;
mod paint;
mod progress;
mod prompt;
mod queue;
mod review;
mod run;
mod serve;
mod status;
mod story;
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
use app::operations::App;
use app::operations::questions::Question;
use app::operations::workers::Workplace;
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
    /// Work as if started in DIR.
    #[arg(short = 'C', value_name = "DIR", global = true, default_value = ".")]
    directory: PathBuf,
    /// Where Countersign keeps its data [default: `$XDG_DATA_HOME/countersign`].
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// A `PostgreSQL` address (postgres://…) or a file, instead of the database in the data directory.
    #[arg(long, value_name = "URL|FILE", global = true)]
    database: Option<String>,
    /// A server (https://name:port) to ask instead of this machine's own store; `none` for that.
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    /// Answer in JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
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
    /// Look at this project and write a first countersign.toml.
    Init(init::Args),
    /// Take a ticket from its description to a countersigned commit, in this repository.
    Run(run::Args),
    /// Review any change without a ticket: a branch, a range, what is staged, a patch.
    Review(review::Args),
    /// Add, list, show and cancel tickets.
    #[command(subcommand)]
    Ticket(ticket::Verb),
    /// Jobs and tasks: what waits, what is in hand, what is no longer wanted.
    #[command(subcommand)]
    Queue(queue::Verb),
    /// Tickets that belong together.
    #[command(subcommand)]
    Epic(epic::Verb),
    /// What is going on: tickets by stage, who waits for whom.
    Status,
    /// A live view: tickets by stage, who works on what, findings in the diff, escalations to settle.
    Watch(watch::Args),
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
    /// What is configured, where each value comes from, and what is wrong with it.
    #[command(subcommand)]
    Config(config::Verb),
    /// A git hook that reviews what is about to be pushed.
    #[command(subcommand)]
    Hook(hook::Verb),
    /// Completions for your shell.
    #[command(after_help = manual::COMPLETIONS_HELP)]
    Completions(manual::CompletionsArgs),
    /// Manual pages.
    #[command(after_help = manual::MAN_HELP)]
    Man(manual::ManArgs),
    /// The agents that are here, and ready files for theirs.
    #[command(subcommand)]
    Agent(agent::Verb),
    /// Serve agents over MCP, and people and programs over REST.
    Serve(serve::Args),
    /// Take up jobs from the queues, on any machine that reaches the server or the database.
    Worker(worker::Args),
    /// Speak MCP on the standard input and output, for the agent whose token is in `COUNTERSIGN_TOKEN`:
    /// a bridge to the server that runs, or alone where none does.
    Mcp,
    /// Who may speak: tokens for agents, people and programs.
    #[command(subcommand)]
    Token(token::Verb),
    /// Is everything in order here?
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

    /// Whether it has questions that a server answers.
    fn may_ask(&self) -> bool {
        matches!(
            self,
            Self::Ticket(_)
                | Self::Queue(_)
                | Self::Epic(_)
                | Self::Status
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

fn only_here(url: &str) -> Failure {
    Failure::usage(format!(
        "this is done on a machine itself, and {url} is to be asked"
    ))
    .hint("run it there, or say `--server none` for this machine's own store")
}

/// Where a verb works: the directory, the form of its answer, and how to get at the store.
#[derive(Debug)]
struct Context {
    directory: PathBuf,
    out: Out,
    surroundings: Environment,
    /// Opened when it is first needed.
    office: OnceCell<App>,
    server: OnceCell<RemoteServer>,
}

impl Context {
    fn new(directory: PathBuf, out: Out, surroundings: Environment) -> Self {
        Self {
            directory,
            out,
            surroundings,
            office: OnceCell::new(),
            server: OnceCell::new(),
        }
    }

    /// The same desktop, whose answers are JSON where that is asked for in another way.
    fn answering(&self, json: bool) -> Self {
        let out = if json {
            Out::new(true)
        } else {
            self.out.clone()
        };
        Self::new(self.directory.clone(), out, self.surroundings.clone())
    }

    /// This machine's own store; not where a server was named to be asked instead.
    async fn office(&self) -> Result<App, Failure> {
        if let Some(place) = &self.surroundings.server.place {
            return Err(only_here(&place.url));
        }
        let open = async || {
            let office = App::open(self.surroundings.clone()).await?;
            if let Some(remark) = &office.remark {
                self.out.remark(remark);
            }
            Ok(office)
        };
        self.office.get_or_try_init(open).await.cloned()
    }

    /// The same for a worker, which can have its tickets on a server.
    async fn workplace(&self) -> Result<Workplace, Failure> {
        match &self.surroundings.server.place {
            Some(place) => remote::workplace(self.open(place)?, self.surroundings.clone()).await,
            None => Ok(Workplace::of(self.office().await?)),
        }
    }

    /// Asks the server that was named, or this machine's own store.
    async fn ask<Q: Question>(&self, question: Q) -> Result<Q::Answer, Failure> {
        match &self.surroundings.server.place {
            Some(place) => {
                let open = async || self.open(place);
                let server = self.server.get_or_try_init(open).await?;
                server.ask(&question).await
            }
            None => question.answer(&self.office().await?).await,
        }
    }

    fn open(&self, place: &ServerAddress) -> Result<RemoteServer, Failure> {
        let token = self.surroundings.server.token.as_deref().ok_or_else(|| {
            Failure::usage(format!("{} does not know you: no token is set", place.url))
                .hint("put it into COUNTERSIGN_TOKEN, or into server.toml beside your config.toml")
                .hint("an administrator makes one: `countersign token create --agent NAME --role human`")
        })?;
        RemoteServer::new(place.clone(), token)
    }
}

pub fn main(words: Vec<OsString>) -> ExitKind {
    if let Some(done) = hidden::perform(&words) {
        return ended(done, &Out::new(false));
    }
    let json = words.iter().any(|word| word == "--json");
    let args = match parse(words) {
        Ok(args) => args,
        Err(error) => return out::usage(&error, json),
    };
    let out = Out::new(args.json);
    ended(start(args, &out), &out)
}

fn ended(done: Result<ExitKind, Failure>, out: &Out) -> ExitKind {
    done.unwrap_or_else(|failure| {
        out.failure(&failure);
        failure.exit
    })
}

fn parse(words: Vec<OsString>) -> Result<Args, clap::Error> {
    let matches = examples::command().try_get_matches_from(words)?;
    Args::from_arg_matches(&matches)
}

fn start(args: Args, out: &Out) -> Result<ExitKind, Failure> {
    match args.verb {
        // These tell about the program itself: no store, and no home is needed.
        Verb::Completions(args) => Ok(manual::completions(&args)),
        Verb::Man(args) => manual::man(&args, out),
        Verb::Reference => Ok(manual::reference()),
        verb => {
            let surroundings = Environment::read(args.data_dir, args.database, args.server)?;
            let desktop = Context::new(args.directory, out.clone(), surroundings);
            let server = &desktop.surroundings.server;
            if let (true, Some(place), false) = (server.by_flag, &server.place, verb.may_ask()) {
                return Err(only_here(&place.url));
            }
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .worker_threads(2)
                .build()
                .map_err(|error| Failure::error(format!("no threads to be had: {error}")))?;
            let (verbosity, variables) = (verb.verbosity(), LogVariables::read());
            let logging = logging::start(args.log, verbosity, &variables, runtime.handle());
            let exit = runtime.block_on(perform(verb, &desktop));
            logging.finish();
            runtime.shutdown_background();
            exit
        }
    }
}

async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Demo(args) => demo::perform(args, desktop).await,
        Verb::Init(args) => init::perform(args, desktop).await,
        Verb::Run(args) => Box::pin(run::perform(args, desktop)).await,
        Verb::Review(args) => Box::pin(review::perform(args, desktop)).await,
        Verb::Ticket(verb) => ticket::perform(verb, desktop).await,
        Verb::Queue(verb) => queue::perform(verb, desktop).await,
        Verb::Epic(verb) => epic::perform(verb, desktop).await,
        Verb::Insights { verb } => insights::perform(verb, desktop).await,
        Verb::Import(args) => import::perform(args, desktop).await,
        Verb::Status => status::perform(desktop).await,
        Verb::Watch(args) => Box::pin(watch::perform(args, desktop)).await,
        Verb::Log(args) => log::perform(args, desktop).await,
        Verb::Escalation(verb) => escalation::perform(verb, desktop).await,
        Verb::Findings(verb) => findings::perform(verb, desktop).await,
        Verb::Export(args) => export::perform(args, desktop).await,
        Verb::Config(verb) => config::perform(verb, desktop).await,
        Verb::Agent(verb) => agent::perform(verb, desktop).await,
        Verb::Hook(verb) => hook::perform(verb, desktop).await,
        Verb::Serve(args) => serve::perform(args, desktop).await,
        Verb::Worker(args) => Box::pin(worker::perform(args, desktop)).await,
        Verb::Mcp => serve::over_stdio(desktop).await,
        Verb::Token(verb) => token::perform(verb, desktop).await,
        Verb::Doctor(args) => doctor::perform(args, desktop).await,
        Verb::Completions(_) | Verb::Man(_) | Verb::Reference => Ok(ExitKind::Usage),
    }
}
