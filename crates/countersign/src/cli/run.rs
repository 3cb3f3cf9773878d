//! `countersign run`

use std::sync::Arc;

use engine::process::StopSignal;
use engine::workshop::Project;
use flow::narrate::{approved_by, short};
use flow::policy::Land;
use flow::usage::dollars;
use flow::{Stage, Ticket, TicketId};

use super::out::Out;
use super::story::{ProgressFormat, ProgressReporter, TicketCount, tell};
use super::{Context, epic, escalation, prompt, ticket};
use app::failure::{ExitKind, Failure};
use app::operations::project::{ProjectOptions, furnish};
use app::operations::{App, config, escalations, forecasts, patiently, plans, run};
use app::settings::epic_file::EpicFile;
use app::settings::ticket_file::id_for;
use server::notify::{self, DeliveryTasks};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A ticket file (Markdown or YAML), an epic (YAML with `tickets`), the id of a known ticket, or a sentence.
    #[arg(value_name = "TICKET")]
    ticket: String,
    /// Who builds: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor (with a model:
    /// `claude@MODEL`), a name from `[agents]`, `command:PROGRAM ARGS…`, `acp:PROGRAM ARGS…` or
    /// `scripted:FILE`.
    #[arg(long, value_name = "AGENT")]
    builder: Option<String>,
    /// Who reviews; may be given several times, one for each seat.
    #[arg(long = "reviewer", value_name = "AGENT")]
    reviewers: Vec<String>,
    /// Who verifies single findings [default: the reviewer's program, started afresh].
    #[arg(long, value_name = "AGENT")]
    verifier: Option<String>,
    /// A command that must succeed on the commit; may be given several times.
    #[arg(long = "check", value_name = "[NAME=]COMMAND")]
    checks: Vec<String>,
    /// The branch to build on and to land on.
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// What becomes of the approved commit.
    #[arg(long)]
    land: Option<Landing>,
    /// How many rounds before a person is asked (1 to 5).
    #[arg(long, value_name = "N")]
    max_rounds: Option<u32>,
    /// How many tickets of an epic are worked on side by side.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// How the work is told while it goes on.
    #[arg(long, value_name = "FORM", default_value = "auto")]
    progress: ProgressFormat,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Landing {
    /// Stays on its branch.
    Branch,
    /// Is merged into the base branch.
    Merge,
    /// Stands in line with others and is proven together with them.
    Queue,
}

const EXAMPLES: &str = "\
Examples:
  countersign run ticket.md --builder claude --reviewer codex --check \"cargo test\"
  countersign run ticket.md --builder \"command:./build-agent\" --reviewer \"command:./review-agent\" --check \"cargo test\"
  countersign run \"Greet the user by name\" --land branch
  countersign run epic.yaml --jobs 4 --land queue  tickets that depend on each other, side by side
  countersign run greet-the-user-by-name-1f3a      go on with a ticket that was interrupted or settled

A ticket file:
  ---
  id: T-7
  depends_on: [T-3]
  ---
  # Greet the user by name
  The greeting is printed at the start.
  ## Acceptance criteria
  - An empty name is refused.";

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let epic = epic::file(desktop, &args.ticket)?;
    let asked = asked(&args, epic.as_ref());
    if args.dry_run {
        return rehearse(&args.ticket, &asked, epic.as_ref(), desktop).await;
    }
    let desktop = &desktop.answering(args.progress == ProgressFormat::Json);
    let office = desktop.office().await?;
    let (stopper, stop) = StopSignal::pair();
    let carriers = tell_others(&office, desktop, &stop).await?;
    let ended = Box::pin(go(args, asked, epic, office, desktop)).await;
    stopper.stop();
    carriers.finish().await;
    ended
}

/// Begins to notify those whom the person's own configuration names. One that cannot be does not keep
/// the work from being done.
async fn tell_others(
    office: &App,
    desktop: &Context,
    stop: &StopSignal,
) -> Result<DeliveryTasks, Failure> {
    let mut targets = Vec::new();
    for target in config::own(&desktop.surroundings)?.notify {
        match target.target() {
            Ok(target) => targets.push(target),
            Err(failure) => desktop.out.line(format!("note: {}", failure.message)),
        }
    }
    notify::start(office, targets, stop).await
}

async fn go(
    args: Args,
    asked: ProjectOptions,
    epic: Option<EpicFile>,
    mut office: App,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let tickets = if epic.is_some() {
        TicketCount::Several
    } else {
        TicketCount::One
    };
    let mut telling = tell(&mut office, args.progress, tickets, &desktop.out);
    let furnished = furnish(&office, &desktop.directory, &asked).await?;
    for remark in &furnished.remarks {
        desktop.out.line(format!("note: {remark}"));
    }
    let shop = furnished.shop;
    if let Some(file) = epic {
        return epic::run(&office, &shop, &file, args.jobs.into(), telling, desktop).await;
    }
    let begun = patiently(&office, || {
        run::begin(&office, &shop, &args.ticket, || {
            ticket::wanted(&desktop.directory, &args.ticket)
        })
    })
    .await?;
    if begun.resumed {
        desktop.out.line(format!("{} goes on", begun.id));
    }
    patiently(&office, || foretell(&office, &shop, &begun.id, desktop)).await?;
    let mut ticket = drive(&shop, &begun.id, &mut telling, &desktop.out).await?;
    let mut exit = patiently(&office, || finish(&office, &ticket, desktop)).await?;
    while let Some(settled) = prompt::ask(&office, &ticket, desktop).await? {
        ticket = settled;
        if ticket.stage.is_at_work() {
            foretell(&office, &shop, &begun.id, desktop).await?;
            ticket = drive(&shop, &begun.id, &mut telling, &desktop.out).await?;
        }
        exit = finish(&office, &ticket, desktop).await?;
    }
    Ok(exit)
}

/// What the round that begins may cost, where one begins.
async fn foretell(
    office: &App,
    shop: &Project,
    id: &TicketId,
    desktop: &Context,
) -> Result<(), Failure> {
    let stage = office.ticket(id.as_str()).await?.ticket.stage;
    if stage.is_at_work() && !desktop.out.json {
        let forecast = forecasts::before_run(office, shop, id).await?;
        desktop.out.told(&forecast.text(), 2);
    }
    Ok(())
}

fn asked(args: &Args, epic: Option<&EpicFile>) -> ProjectOptions {
    ProjectOptions {
        base: args.base.clone().or_else(|| epic?.base.clone()),
        builder: args.builder.clone(),
        reviewers: args.reviewers.clone(),
        verifier: args.verifier.clone(),
        checks: args.checks.clone(),
        max_rounds: args.max_rounds,
        land: args.land.map(|landing| match landing {
            Landing::Branch => Land::Branch,
            Landing::Merge => Land::Merge,
            Landing::Queue => Land::Queue,
        }),
        roles: None,
    }
}

/// What a run would do, told without a store or an agent.
async fn rehearse(
    words: &str,
    asked: &ProjectOptions,
    epic: Option<&EpicFile>,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let tickets = if let Some(file) = epic {
        let tickets = file.tickets.iter();
        tickets
            .map(|(id, spec)| (id.clone(), spec.depends_on.clone()))
            .collect()
    } else {
        let wanted = ticket::wanted(&desktop.directory, words)?;
        let id = wanted.id.unwrap_or_else(|| id_for(&wanted.spec.title));
        vec![(id, wanted.spec.depends_on)]
    };
    let plan = plans::plan(&desktop.surroundings, &desktop.directory, asked).await?;
    epic::rehearse(&tickets, &plan, desktop)
}

/// Works until the ticket rests. The first Ctrl-C stops at the next safe point, the second at once.
pub async fn drive(
    shop: &Arc<Project>,
    id: &TicketId,
    telling: &mut ProgressReporter,
    out: &Out,
) -> Result<Ticket, Failure> {
    telling.begin(|progress| progress.checks = names_of_checks(shop));
    let (stopper, stop) = StopSignal::pair();
    let work = run::work(shop, id, stop);
    tokio::pin!(work);
    let mut asked = 0;
    let ended = loop {
        tokio::select! {
            done = &mut work => break done,
            signal = tokio::signal::ctrl_c() => {
                signal.map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))?;
                asked += 1;
                if asked > 1 {
                    break Err(Failure::new(ExitKind::Interrupted, "stopped at once").hint(format!("go on with: countersign run {id}")));
                }
                stopper.stop();
                telling.stopping(out);
            }
        }
    };
    telling.rest();
    match ended {
        // The person did not want to wait any longer.
        Err(failure) if asked > 0 && failure.exit == ExitKind::Store => Err(Failure {
            exit: ExitKind::Interrupted,
            ..failure.hint(format!("go on with: countersign run {id}"))
        }),
        ended => ended,
    }
}

pub fn names_of_checks(shop: &Project) -> Vec<String> {
    let checks = shop.project.checks.iter();
    checks.map(|check| check.name.clone()).collect()
}

/// The end in a few lines, and how the program ends.
pub async fn finish(office: &App, ticket: &Ticket, desktop: &Context) -> Result<ExitKind, Failure> {
    let out = &desktop.out;
    let stored = office.ticket(ticket.id.as_str()).await?;
    let ticket = &stored.ticket;
    let exit = exit_of(ticket);
    let forecast = forecasts::of_ticket(office, &stored).await?;
    out.answer(&serde_json::json!({"exit": exit.code(), "ticket": ticket, "forecast": forecast, "evolution": ticket::evolution_lines(ticket)}));
    if out.json {
        return Ok(exit);
    }
    out.line("");
    for line in out.broken(&format!("{}: {}", ticket.id, headline(ticket)), 2) {
        out.line(out.bold(&line));
    }
    let told = [ticket::rounds, ticket::ledger, ticket::evolution];
    for line in told.into_iter().flat_map(|told| told(ticket)) {
        out.told(&line, 4);
    }
    out.line("");
    if let Some(put) = &ticket.submission {
        out.line(format!(
            "branch {}, commit {}",
            put.branch,
            short(&put.commit)
        ));
    }
    let data = &office.surroundings.data_dir;
    let artefacts = data.join("tickets").join(ticket.id.as_str());
    out.line(format!("artefacts {}", artefacts.display()));
    if let Some(found) = &ticket.escalation {
        let waiting = escalations::waiting(office, &stored).await?;
        for line in escalation::explain(ticket, &waiting, &found.evidence)
            .into_iter()
            .skip_while(|line| line != "\ndecide")
        {
            out.line(line);
        }
    } else if let Some(next) = next(ticket, exit) {
        out.line(format!("next: {next}"));
    }
    Ok(exit)
}

/// What the person will want to do now.
fn next(ticket: &Ticket, exit: ExitKind) -> Option<String> {
    let id = &ticket.id;
    if let Some(first) = ticket.waits_for.first() {
        return Some(format!("countersign run {first}"));
    }
    match exit {
        ExitKind::Interrupted => Some(format!("countersign run {id}")),
        ExitKind::Failed => Some(format!("countersign log {id}")),
        ExitKind::Done => {
            let landed = ticket.landed.as_ref()?;
            let own = ticket.submission.as_ref().map(|put| &put.branch);
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
    let spent = dollars(ticket.spent.ticket.usd_micros);
    match (&ticket.landed, approved_by(ticket), &ticket.ended) {
        (Some(landed), Some(by), _) => format!(
            "done on {}, {by}, after {} round(s), {spent}",
            landed.branch,
            ticket.rounds.len()
        ),
        (_, _, Some(why)) => format!("{}: {why}", ticket.stage),
        _ if !ticket.waits_for.is_empty() => format!("{}, waits {}", ticket.stage, ticket.waits()),
        _ => format!("{} in round {}, {spent}", ticket.stage, ticket.round),
    }
}

pub fn exit_of(ticket: &Ticket) -> ExitKind {
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
