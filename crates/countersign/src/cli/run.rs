//! `countersign run`: runs a ticket or an epic in the current repository.
//!
//! The verb decides nothing about the ticket. It prepares the project, lets the worker loop run,
//! and shows what came out.

use std::path::Path;
use std::sync::Arc;

use engine::process::StopSignal;
use engine::project::Project;
use flow::narrate::{count_noun, describe_approval, short_commit};
use flow::policy::Land;
use flow::{Stage, Ticket, TicketId};

use super::out::Out;
use super::progress_output::{ProgressFormat, ProgressReporter, TicketCount, start_reporting};
use super::signals::StopRequests;
use super::{Context, demo, epic, escalation, next_step, prompt, ticket};
use app::failure::{ExitKind, Failure};
use app::operations::agents::known_names;
use app::operations::project::{ProjectOptions, load_project};
use app::operations::ticket_ids;
use app::operations::{
    App, Stored, change_reports, config, escalations, forecasts, plans, retry_while_unavailable,
    run,
};
use app::settings::epic_file::EpicFile;
use app::settings::ticket_file::id_for;
use server::notify::{self, DeliveryTasks};

fn builder_help() -> String {
    format!(
        "Agent that builds: {} (with a model: `claude@MODEL`), a name from `[agents]`, \
         `command:PROGRAM ARGS…`, `acp:PROGRAM ARGS…` or `scripted:FILE`",
        known_names().join(", ")
    )
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Ticket file (Markdown or YAML), epic (YAML with `tickets`), id of an existing ticket, or a
    /// sentence.
    #[arg(value_name = "TICKET")]
    ticket: Option<String>,
    // The help lists the known agents, so it is made from the list of them.
    #[arg(long, value_name = "AGENT", help = builder_help())]
    builder: Option<String>,
    /// Agent that reviews. Repeatable: one per reviewer.
    #[arg(long = "reviewer", value_name = "AGENT")]
    reviewers: Vec<String>,
    /// Agent that verifies single findings [default: the reviewer's program, in a new session].
    #[arg(long, value_name = "AGENT")]
    verifier: Option<String>,
    /// Command that must succeed on the commit. Repeatable.
    #[arg(long = "check", value_name = "[NAME=]COMMAND")]
    checks: Vec<String>,
    /// Branch to build on and to land on.
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Action for the approved commit.
    #[arg(long)]
    land: Option<Landing>,
    /// Maximum number of rounds before a person decides (1 to 5).
    #[arg(long, value_name = "N")]
    max_rounds: Option<u32>,
    /// Number of tickets of an epic to work on in parallel.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Format of the progress output.
    #[arg(long, value_name = "FORM", default_value = "auto")]
    progress: ProgressFormat,
    /// Print what would be done without changing anything.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Landing {
    /// Leave it on its branch.
    Branch,
    /// Merge it into the base branch.
    Merge,
    /// Put it on the base branch as one commit.
    Squash,
    /// Replay its commits on the base branch.
    Rebase,
    /// Queue it: land it together with others after checking the combination.
    Queue,
    /// Open a pull request on the forge; `landing.pr_merge` says who merges it.
    Pr,
}

const EXAMPLES: &str = "\
Examples:
  countersign run ticket.md --builder claude --reviewer codex --check \"cargo test\"
  countersign run ticket.md --builder \"command:./build-agent\" --reviewer \"command:./review-agent\" --check \"cargo test\"
  countersign run \"Greet the user by name\" --land branch
  countersign run epic.yaml --jobs 4 --land queue  tickets that depend on each other, in parallel
  countersign run greet-the-user-by-name-1f3a      continue a ticket that was interrupted or resolved

A ticket file:
  ---
  id: T-7
  depends_on: [T-3]
  ---
  # Greet the user by name
  The greeting is printed at the start.
  ## Acceptance criteria
  - An empty name is refused.";

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let Some(words) = args.ticket.clone() else {
        return Err(next_step::missing_ticket(context).await);
    };
    // Refused before anything is loaded, with what to use instead.
    let epic = epic::read_epic_file(context, &words)?;
    let options = project_options(&args, epic.as_ref());
    // Before the app is opened: a dry run creates no data directory.
    if args.dry_run {
        return print_dry_run(&words, &options, epic.as_ref(), context).await;
    }
    // JSON progress makes the whole output JSON.
    let context = &context.with_json(args.progress == ProgressFormat::Json);
    let app = context.open_app().await?;
    let (stopper, stop) = StopSignal::pair();
    let notifications = start_notifications(&app, context, &stop).await?;
    // Old files are removed during the work; a pass that the end of the run cuts off goes on at the
    // next start.
    let retention = tokio::spawn(app::operations::clean::apply_retention(app.clone()));
    // Boxed, because this future holds the whole run.
    let result = Box::pin(run_ticket((args, &words), options, epic, app, context)).await;
    stopper.stop();
    retention.abort();
    // After the result: the last event is most often the one that a person wants to be notified of.
    notifications.finish().await;
    result
}

/// Starts the notifications of the user's configuration. A target that fails to resolve is reported
/// and does not stop the run.
async fn start_notifications(
    app: &App,
    context: &Context,
    stop: &StopSignal,
) -> Result<DeliveryTasks, Failure> {
    let mut targets = Vec::new();
    for target in config::load_user_settings(&context.environment)?.notify {
        match target.resolve() {
            // A missing key of a notification must not stop a ticket.
            Ok(target) => targets.push(target),
            Err(failure) => context.out.remark(format!("note: {}", failure.message)),
        }
    }
    notify::start(app, targets, stop).await
}

async fn run_ticket(
    (args, words): (Args, &str),
    options: ProjectOptions,
    epic: Option<EpicFile>,
    mut app: App,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let tickets = if epic.is_some() {
        TicketCount::Several
    } else {
        TicketCount::One
    };
    // Before the project is loaded, because that takes seconds and has progress of its own.
    let mut progress = start_reporting(&mut app, args.progress, tickets, &context.out);
    let loaded = load_project(&app, &context.directory, &options).await?;
    for note in &loaded.remarks {
        context.out.remark(format!("note: {note}"));
    }
    let project = loaded.project;
    if let Some(file) = epic {
        return epic::run(&app, &project, &file, args.jobs.into(), progress, context).await;
    }
    let words = short_id(words, context).await?;
    change_reports::require_forge(&app, &project).await?;
    // PostgreSQL may restart in the middle of a run.
    let started = retry_while_unavailable(&app, || {
        run::find_or_add(&app, &project, &words, || {
            ticket::parse_ticket_source(&context.directory, &words)
        })
    })
    .await?;
    if started.resumed {
        context.out.remark(format!("{} continues", started.id));
        print_if_busy(&app, &started.id, context).await?;
    }
    retry_while_unavailable(&app, || {
        print_forecast(&app, &project, &started.id, context)
    })
    .await?;
    let mut ticket =
        run_until_idle(&app, (&project, &started.id), &mut progress, &context.out).await?;
    let mut exit = retry_while_unavailable(&app, || print_result(&app, &ticket, context)).await?;
    // On a terminal the person can decide at once; the loop ends when nothing is left to decide.
    while let Some(resolved) = prompt::ask_decision(&app, &ticket, context).await? {
        ticket = resolved;
        if !ticket.rests() {
            print_forecast(&app, &project, &started.id, context).await?;
            ticket =
                run_until_idle(&app, (&project, &started.id), &mut progress, &context.out).await?;
        }
        exit = print_result(&app, &ticket, context).await?;
    }
    Ok(exit)
}

/// Shortest beginning of an id that `run` looks for; a shorter word is a request for a change.
const SHORT_ID_MIN: usize = 4;

/// Returns the ticket that the argument names in short, or the argument itself: a file or a
/// sentence.
async fn short_id(words: &str, context: &Context) -> Result<String, Failure> {
    let is_word = !words.contains(char::is_whitespace) && words.len() >= SHORT_ID_MIN;
    // A file of that name goes before a ticket of that name: people type names of files.
    if words == ticket_ids::LAST || (is_word && !context.directory.join(words).exists()) {
        return context.resolve_ticket(words).await;
    }
    Ok(words.to_owned())
}

/// Says who works on the ticket, if another process does. This one waits until it is free.
async fn print_if_busy(app: &App, id: &TicketId, context: &Context) -> Result<(), Failure> {
    let Some(busy) = run::find_busy(app, id).await? else {
        return Ok(());
    };
    let who = busy.agent.unwrap_or_else(|| "a worker".to_owned());
    let since: String = busy.since.to_iso().chars().take(19).collect();
    context.out.line(format!(
        "{id} is busy: {who} does its {} in {} since {since} UTC. This run waits for it; stop with Ctrl-C, and watch it with: countersign watch {id}",
        busy.task, worker_process(&busy.worker)
    ));
    Ok(())
}

/// Names the process of a worker. A worker of this kind is called `MACHINE:PID:START`, and only
/// the process number is useful to a person.
fn worker_process(worker: &str) -> String {
    match worker.split(':').collect::<Vec<_>>().as_slice() {
        [_, pid, _] if pid.parse::<u32>().is_ok() => format!("process {pid}"),
        _ => format!("the worker {worker}"),
    }
}

/// Prints the forecast cost of the next round, if one starts.
async fn print_forecast(
    app: &App,
    project: &Project,
    id: &TicketId,
    context: &Context,
) -> Result<(), Failure> {
    let stage = app.ticket(id.as_str()).await?.ticket.stage;
    if stage.is_active() && context.out.prints_remarks() {
        let forecast = forecasts::forecast_run(app, project, id).await?;
        context.out.print_wrapped(&forecast.describe(), 2);
    }
    Ok(())
}

fn project_options(args: &Args, epic: Option<&EpicFile>) -> ProjectOptions {
    ProjectOptions {
        base: args.base.clone().or_else(|| epic?.base.clone()),
        builder: args.builder.clone(),
        reviewers: args.reviewers.clone(),
        verifier: args.verifier.clone(),
        checks: args.checks.clone(),
        max_rounds: args.max_rounds,
        land: args.land.map(Landing::to_policy),
        roles: None,
    }
}

impl Landing {
    fn to_policy(self) -> Land {
        match self {
            Self::Branch => Land::Branch,
            Self::Merge => Land::Merge,
            Self::Squash => Land::Squash,
            Self::Rebase => Land::Rebase,
            Self::Queue => Land::Queue,
            Self::Pr => Land::Pr,
        }
    }
}

/// Prints what a run would do, without an agent.
async fn print_dry_run(
    source: &str,
    options: &ProjectOptions,
    epic: Option<&EpicFile>,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let tickets = if let Some(file) = epic {
        let tickets = file.tickets.iter();
        tickets
            .map(|(id, spec)| (id.clone(), spec.depends_on.clone()))
            .collect()
    } else if let Some(stored) = find_stored(source, context).await? {
        vec![(stored.ticket.id, stored.ticket.waits_for)]
    } else {
        let request = ticket::parse_ticket_source(&context.directory, source)?;
        let id = request.id.unwrap_or_else(|| id_for(&request.spec.title));
        vec![(id, request.spec.depends_on)]
    };
    let plan = plans::plan_run(&context.environment, &context.directory, options).await?;
    epic::print_plan(&tickets, &plan, context)
}

/// Returns the ticket with this id. A file or a sentence is none, and the store is not opened for it.
async fn find_stored(source: &str, context: &Context) -> Result<Option<Stored>, Failure> {
    let environment = &context.environment;
    // A dry run creates no data directory.
    let is_new = environment.database.is_none() && !environment.data_dir.exists();
    if is_new || TicketId::new(source).is_err() || context.directory.join(source).exists() {
        return Ok(None);
    }
    let app = context.open_app().await?;
    match app.ticket(source).await {
        Ok(stored) => Ok(Some(stored)),
        // The reader of sources says what else it may be.
        Err(failure) if failure.not_found => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Works until the ticket is idle. The first Ctrl-C stops at the next safe point, the second at
/// once.
pub async fn run_until_idle(
    app: &App,
    (project, id): (&Arc<Project>, &TicketId),
    reporter: &mut ProgressReporter,
    out: &Out,
) -> Result<Ticket, Failure> {
    reporter.begin(|progress| progress.checks = check_names(project));
    let (stopper, stop) = StopSignal::pair();
    let work = change_reports::run_until_idle(app, project, id, stop);
    tokio::pin!(work);
    // Listened to before the work starts, so that an early Ctrl-C is not lost.
    let (mut interrupts, mut signals) = (0, StopRequests::listen()?);
    let result = loop {
        tokio::select! {
            done = &mut work => break done,
            () = signals.received() => {
                interrupts += 1;
                if interrupts > 1 {
                    // The worker is dropped here. Its agents die with us, and the next run resumes.
                    break Err(Failure::new(ExitKind::Interrupted, "stopped at once").hint(format!("continue with: countersign run {id}")));
                }
                stopper.stop();
                reporter.stopping(out);
            }
        }
    };
    reporter.clear();
    match result {
        // The user has already asked to stop, so report an interruption and not a store error.
        Err(failure) if interrupts > 0 && failure.exit == ExitKind::Store => Err(Failure {
            exit: ExitKind::Interrupted,
            ..failure.hint(format!("continue with: countersign run {id}"))
        }),
        result => result,
    }
}

pub fn check_names(project: &Project) -> Vec<String> {
    let checks = project.config.checks.iter();
    checks.map(|check| check.name.clone()).collect()
}

/// Prints the result in a few lines with what to do next, and returns the exit code.
pub async fn print_result(
    app: &App,
    ticket: &Ticket,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let (stored, exit) = print_summary(app, ticket, context).await?;
    let (out, ticket) = (&context.out, &stored.ticket);
    if out.json {
        return Ok(exit);
    }
    let data = &app.environment.data_dir;
    let artefacts = data.join("tickets").join(ticket.id.as_str());
    out.line(format!("artefacts {}", artefacts.display()));
    if ticket.escalation.is_some() {
        let waiting = escalations::pending_escalation(app, &stored).await?;
        for line in escalation::explain(ticket, &waiting)
            .into_iter()
            // The beginning of the explanation repeats what is printed above.
            .skip_while(|line| line != "\ndecide")
        {
            out.line(pasteable(&line, app, context));
        }
    } else if let Some(next) = next_step(ticket, exit) {
        out.line(format!("next: {}", pasteable(&next, app, context)));
    }
    Ok(exit)
}

/// Prints the result without the files and commands to look at it.
pub async fn print_summary(
    app: &App,
    ticket: &Ticket,
    context: &Context,
) -> Result<(Stored, ExitKind), Failure> {
    let out = &context.out;
    // Read again: the run returns the ticket as its worker saw it, and others may have changed it.
    let stored = app.ticket(ticket.id.as_str()).await?;
    let ticket = &stored.ticket;
    let exit = exit_kind(ticket);
    let forecast = forecasts::forecast_ticket(app, &stored).await?;
    out.print_json(&serde_json::json!({"exit": exit.code(), "ticket": ticket, "forecast": forecast, "findings_by_round": ticket::findings_by_round(ticket)}));
    if out.json {
        return Ok((stored, exit));
    }
    if out.prints_remarks() {
        out.line("");
    }
    for line in out.wrap(&format!("{}: {}", ticket.id, headline(ticket)), 2) {
        out.line(out.bold(&line));
    }
    let sections = [
        ticket::rounds,
        ticket::ledger,
        ticket::findings_by_round_lines,
    ];
    for line in sections.into_iter().flat_map(|section| section(ticket)) {
        out.print_wrapped(&line, 4);
    }
    out.line("");
    if let Some(submission) = &ticket.submission {
        out.line(format!(
            "branch {}, commit {}",
            submission.branch,
            short_commit(&submission.commit)
        ));
    }
    if let Some(line) = ticket::pull_request(ticket) {
        out.line(line);
    }
    Ok((stored, exit))
}

/// Returns a suggested command that works when pasted. The demo has a data directory of its own,
/// which the command has to name.
fn pasteable(line: &str, app: &App, context: &Context) -> String {
    let own = &app.environment.data_dir;
    if *own == context.environment.data_dir {
        return context.pasteable(line);
    }
    let program = demo::program_name(&context.environment);
    with_data_dir(line, &program, own)
}

/// Names the data directory in a line that is a command by itself; a sentence that mentions one
/// stays as it is.
pub fn with_data_dir(line: &str, program: &str, data_dir: &Path) -> String {
    match line.find("countersign ") {
        Some(at) if line[..at].trim().is_empty() => {
            let (indent, rest) = (&line[..at], &line[at + "countersign ".len()..]);
            let data_dir = data_dir.display().to_string();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
            if data_dir.chars().all(is_plain) {
                format!("{indent}{program} --data-dir {data_dir} {rest}")
            } else {
                let quoted = data_dir.replace('\'', "'\\''");
                format!("{indent}{program} --data-dir '{quoted}' {rest}")
            }
        }
        _ => line.to_owned(),
    }
}

/// Suggests the next command.
fn next_step(ticket: &Ticket, exit: ExitKind) -> Option<String> {
    let id = &ticket.id;
    // A ticket that waits cannot be run; the one it waits for can.
    if let Some(first) = ticket.waits_for.first() {
        return Some(format!("countersign run {first}"));
    }
    match exit {
        ExitKind::Interrupted => Some(format!("countersign run {id}")),
        ExitKind::Failed => Some(format!("countersign log {id}")),
        // After the merge another run, or a server, ends the ticket.
        ExitKind::Done if ticket.waits_for_forge() => Some(format!("countersign run {id}")),
        ExitKind::Done => {
            let landed = ticket.landed.as_ref()?;
            let own = ticket
                .submission
                .as_ref()
                .map(|submission| &submission.branch);
            // The result is on its own branch, so merging it is what is left.
            Some(if own == Some(&landed.branch) {
                format!("git merge {}", landed.branch)
            } else {
                format!("countersign ticket diff {id}")
            })
        }
        _ => None,
    }
}

fn headline(ticket: &Ticket) -> String {
    let spent = ticket.spent.ticket.describe_cost(&ticket.unpriced);
    match (&ticket.landed, describe_approval(ticket), &ticket.ended) {
        (Some(landed), Some(by), _) => format!(
            "done on {}, {by}, after {}, {spent}",
            landed.branch,
            count_noun(ticket.rounds.len(), "round")
        ),
        (_, _, Some(why)) => format!("{}: {why}", ticket.stage),
        _ if !ticket.waits_for.is_empty() || ticket.waits_for_forge() => {
            format!("{}, waits {}", ticket.stage, ticket.describe_wait())
        }
        _ => format!("{} in round {}, {spent}", ticket.stage, ticket.round),
    }
}

pub fn exit_kind(ticket: &Ticket) -> ExitKind {
    match ticket.stage {
        Stage::Done | Stage::Approved | Stage::Merging => ExitKind::Done,
        Stage::Escalated => ExitKind::Escalated,
        Stage::Pending | Stage::Blocked => ExitKind::Waiting,
        Stage::Failed | Stage::Cancelled => ExitKind::Failed,
        Stage::Queued | Stage::Building | Stage::Checking | Stage::Reviewing | Stage::Rework => {
            ExitKind::Interrupted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_named_by_the_number_of_its_process() {
        assert_eq!(worker_process("b6db.402:9768:4524"), "process 9768");
        assert_eq!(worker_process("build-2"), "the worker build-2");
    }

    #[test]
    fn only_a_command_gets_the_data_directory() {
        let dir = Path::new("/tmp/my data");
        assert_eq!(
            with_data_dir("  countersign run T", "countersign", dir),
            "  countersign --data-dir '/tmp/my data' run T"
        );
        let sentence = "see countersign run --help";
        assert_eq!(with_data_dir(sentence, "countersign", dir), sentence);
    }
}
