//! `countersign epic …`: lists, shows and signs epics; also runs the epics of `countersign run`.

use engine::process::StopSignal;
use std::fmt::Write as _;

use flow::TicketId;
use flow::epic::{EpicStatus, dry_run_plan, render_markdown};
use flow::narrate::Mood;
use flow::narrate::count_noun;
use flow::policy::Land;
use flow::usage::format_dollars;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::project::Project;

use super::Context;
use super::out::{Out, columns, print_raw};
use super::paint::format_elapsed;
use super::progress_output::ProgressReporter;
use super::run::check_names;
use super::signals::StopRequests;
use app::failure::{ExitKind, Failure};
use app::operations::App;
use app::operations::epics::{self, EpicReport};
use app::operations::plans::RunPlan;
use app::operations::questions::work::{AcceptEpic, ListEpics, ShowEpic};
use app::settings::epic_file::{self, EpicFile};
use app::settings::read_bounded;

/// Width of the progress bar.
const BAR_WIDTH: usize = 24;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List epics and their status.
    List,
    /// Show an epic: its tickets, rounds, findings by outcome, cost and time.
    Show {
        /// Id of the epic.
        epic: String,
    },
    /// Sign an epic whose tickets have all landed. Your name and your reason are recorded.
    Accept {
        /// Id of the epic.
        epic: String,
        /// Reason, recorded with your name.
        #[arg(long)]
        why: String,
    },
}

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List => list(context).await,
        Verb::Show { epic } => Ok(show(&context.ask(ShowEpic { epic }).await?, context)),
        Verb::Accept { epic, why } => {
            let report = context.ask(AcceptEpic { epic, why }).await?;
            Ok(show(&report, context))
        }
    }
}

async fn list(context: &Context) -> Result<ExitKind, Failure> {
    let all = context.ask(ListEpics {}).await?.items;
    context.out.print_json(&serde_json::json!({"epics": all}));
    if all.is_empty() {
        context
            .out
            .line("no epics; create one with `countersign run EPIC.yaml`");
    }
    let rows = all.iter().map(|epic| {
        let sum = &epic.completion;
        let landed = format!("{}/{} landed", sum.landed, sum.tickets);
        vec![
            epic.id.clone(),
            landed,
            describe_status(epic),
            epic.title.clone(),
        ]
    });
    for line in columns(&rows.collect::<Vec<_>>()) {
        context.out.line(line);
    }
    Ok(ExitKind::Done)
}

/// Most ids in a list; `epic show` has the others.
const NAMES_SHOWN: usize = 5;

/// Lists the first ids, and how many more there are.
fn names(ids: &[TicketId]) -> String {
    let shown = ids.iter().take(NAMES_SHOWN).map(TicketId::as_str);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if ids.len() > NAMES_SHOWN {
        let _ = write!(text, " and {} more", ids.len() - NAMES_SHOWN);
    }
    text
}

/// Describes the status in words.
fn describe_status(epic: &EpicReport) -> String {
    match &epic.status {
        EpicStatus::Goes { ready } => format!("in progress: {}", names(ready)),
        EpicStatus::Stopped { by, why } => format!("stopped: {by} is critical and failed ({why})"),
        EpicStatus::Waits { tickets } => format!("waits for a person: {}", names(tickets)),
        EpicStatus::AtTheGate => "all landed; a person has to sign it".to_owned(),
        EpicStatus::Complete => "complete".to_owned(),
        EpicStatus::Incomplete { failed } => format!("ended; not landed: {}", names(failed)),
    }
}

/// Prints the report and returns the exit code.
pub fn show(epic: &EpicReport, context: &Context) -> ExitKind {
    let (exit, next) = match &epic.status {
        // Still going, but no longer by this command.
        EpicStatus::Goes { .. } => (
            ExitKind::Interrupted,
            Some("run the epic's file again to continue".to_owned()),
        ),
        EpicStatus::Stopped { .. } | EpicStatus::Incomplete { .. } => (ExitKind::Failed, None),
        EpicStatus::Waits { tickets } => (
            ExitKind::Escalated,
            tickets
                .first()
                .map(|ticket| format!("countersign ticket show {ticket}")),
        ),
        EpicStatus::AtTheGate => (
            ExitKind::Escalated,
            Some(format!("countersign epic accept {} --why \"…\"", epic.id)),
        ),
        EpicStatus::Complete => (ExitKind::Done, None),
    };
    context
        .out
        .print_json(&serde_json::json!({"exit": exit.code(), "epic": epic}));
    if !context.out.json {
        // A pipe gets Markdown, which can be put into an issue as it is.
        if context.out.terminal.moves {
            print_overview(epic, &context.out);
        } else {
            print_raw(&render_markdown(&epic.id, &epic.title, &epic.completion));
        }
        context.out.line(format!("\n{}", describe_status(epic)));
        if let Some(signed) = &epic.signed {
            context
                .out
                .line(format!("signed by {}: {}", signed.by, signed.why));
        }
        if let Some(next) = next {
            context.out.line(format!("next: {next}"));
        }
    }
    exit
}

/// Prints the report for a terminal: a bar and a line per ticket. Other outputs get Markdown.
fn print_overview(epic: &EpicReport, out: &Out) {
    let (sum, glyphs) = (&epic.completion, out.glyphs());
    let title = findings::one_line(&epic.title);
    out.line(out.bold(&format!("epic {}: {title}", epic.id)));
    let (full, rest) = glyphs.bar(sum.landed, sum.tickets, BAR_WIDTH);
    let took = i64::try_from(sum.took_ms).unwrap_or(i64::MAX);
    out.line(format!(
        "{}{rest} {} of {} landed, {} rounds, {}, {}\n",
        out.paint(Mood::Good, &full),
        sum.landed,
        sum.tickets,
        sum.rounds,
        sum.spent.describe_cost([]),
        format_elapsed(took),
    ));
    let rows = sum.lines.iter().map(|line| {
        vec![
            format!("  {}", line.id),
            line.stage.to_string(),
            format!("{} rounds", line.rounds),
            format!("{} findings", line.findings),
            format_dollars(line.usd_micros),
            findings::one_line(&line.title),
        ]
    });
    for line in columns(&rows.collect::<Vec<_>>()) {
        out.print_wrapped(&line, 4);
    }
}

/// Reads the argument as an epic file. Returns `None` if it is something else.
pub fn read_epic_file(context: &Context, source: &str) -> Result<Option<EpicFile>, Failure> {
    let path = context.directory.join(source);
    // A sentence is the usual argument of `run`, and is no file.
    if source.trim().is_empty() || !path.is_file() {
        return Ok(None);
    }
    let bytes = read_bounded(&path, "the file", epic_file::BYTES_MAX)?;
    epic_file::read(source, &bytes)
}

/// Prints what would be done, in start order, without doing it.
pub fn print_plan(
    tickets: &[(TicketId, BTreeSet<TicketId>)],
    plan: &RunPlan,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let graph: BTreeMap<TicketId, BTreeSet<TicketId>> = tickets.iter().cloned().collect();
    let order = flow::graph::topological_order(&graph).map_err(Failure::usage)?;
    // This preset follows a contract whose own tools read these lines.
    let lines = if plan.preset.as_deref() == Some("keep-branch") {
        contract_lines(&order, plan)
    } else {
        let mut lines = ticket_lines(&order, tickets);
        lines.extend(plan_lines(plan));
        lines
    };
    for line in &lines {
        context.out.line(line);
    }
    context
        .out
        .print_json(&serde_json::json!({"dry_run": lines, "order": order, "plan": plan}));
    Ok(ExitKind::Done)
}

/// Returns a line for each agent that would start, in the words of the contract that the preset
/// `keep-branch` was made for.
fn contract_lines(order: &[TicketId], plan: &RunPlan) -> Vec<String> {
    let always = plan
        .reviewers
        .iter()
        .filter(|reviewer| !reviewer.second_reviewer);
    let reviewers: Vec<String> = always.map(|reviewer| reviewer.name.clone()).collect();
    let spawned = order
        .iter()
        .flat_map(|id| dry_run_plan(id, plan.max_rounds, &reviewers));
    let settings = plan_lines(plan).into_iter();
    let settings = settings.map(|line| {
        if line.starts_with("note: ") {
            return line;
        }
        // The contract's lines begin with a capital letter and have no indent.
        let line = line.trim_start();
        let line = line.strip_prefix("land:").map_or_else(
            || format!("{}{}", line[..1].to_uppercase(), &line[1..]),
            |land| format!("Would {}", land.trim_start()),
        );
        format!("[DRY-RUN] {line}")
    });
    spawned.chain(settings).collect()
}

/// Returns the tickets in the order in which they start, with what each waits for.
fn ticket_lines(order: &[TicketId], tickets: &[(TicketId, BTreeSet<TicketId>)]) -> Vec<String> {
    let mut lines = vec![format!(
        "would run {}, in this order:",
        count_noun(order.len(), "ticket")
    )];
    let rows: Vec<Vec<String>> = order
        .iter()
        .enumerate()
        .map(|(at, id)| {
            let needs = tickets.iter().find(|(other, _)| other == id);
            let needs: Vec<TicketId> = needs
                .map(|(_, needs)| needs.iter().cloned().collect())
                .unwrap_or_default();
            let after = match names(&needs) {
                // The first ones wait for nothing, so the column stays empty.
                none if none.is_empty() => String::new(),
                list => format!("after {list}"),
            };
            vec![format!("  {}.", at + 1), id.to_string(), after]
        })
        .collect();
    lines.extend(columns(&rows));
    lines.push(String::new());
    lines
}

/// Returns the agents, checks, rounds and landing of the project's settings.
fn plan_lines(plan: &RunPlan) -> Vec<String> {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "none set".to_owned());
    let reviewers = plan.reviewers.iter();
    let reviewers: Vec<String> = reviewers
        .map(|reviewer| format!("{} {}", reviewer.name, name(&reviewer.by)))
        .collect();
    let land = match plan.land {
        Land::Branch => "leave each on its branch".to_owned(),
        Land::Merge => format!("merge each into {}", plan.base),
        Land::Squash => format!("squash each onto {}", plan.base),
        Land::Rebase => format!("rebase each onto {}", plan.base),
        Land::Queue => format!("land on {} through the queue", plan.base),
        Land::Pr => format!("open a pull request for each, into {}", plan.base),
    };
    let none = |list: String| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list
        }
    };
    let notes = plan.remarks.iter().map(|note| format!("note: {note}"));
    [
        format!("  builder: {}", name(&plan.builder)),
        format!("  reviewers: {}", none(reviewers.join(", "))),
        format!("  verifier: {}", name(&plan.verifier)),
        format!("  checks: {}", none(plan.checks.join(", "))),
        format!("  rounds: at most {}", plan.max_rounds),
        format!("  land: {land}"),
    ]
    .into_iter()
    .chain(notes)
    .collect()
}

/// Adds the epic and works on it until a person is needed or everything is done.
pub async fn run(
    app: &App,
    project: &Arc<Project>,
    file: &EpicFile,
    jobs: usize,
    mut reporter: ProgressReporter,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let added = epics::add_epic(app, file, Some(project), &project.config.policy).await?;
    context.out.line(format!(
        "epic {}: {}, {} of them new, {jobs} at a time",
        file.id,
        count_noun(file.tickets.len(), "ticket"),
        added.len()
    ));
    // A run that is continued counts what ended before, or the bar would begin at zero.
    let ended = epics::ended_tickets(app, &file.id).await?;
    reporter.begin(|progress| {
        progress.checks = check_names(project);
        progress.expect_tickets(file.tickets.len(), ended);
    });
    let (stopper, stop) = StopSignal::pair();
    let work = epics::run_epic(app, project, &file.id, jobs, stop);
    tokio::pin!(work);
    let (mut interrupts, mut signals) = (0, StopRequests::listen()?);
    let report = loop {
        tokio::select! {
            done = &mut work => break done?,
            () = signals.received() => {
                interrupts += 1;
                // The first interrupt lets jobs end at a safe point. The second is impatience, and
                // leases take care of the rest.
                if interrupts > 1 {
                    return Err(Failure::new(ExitKind::Interrupted, "stopped at once").hint("run the same command again to continue"));
                }
                stopper.stop();
                reporter.stopping(&context.out);
            }
        }
    };
    reporter.clear();
    context.out.line("");
    Ok(show(&report, context))
}
