//! `countersign status`: shows tickets by stage, escalations, work and pauses.

use std::collections::BTreeMap;

use flow::narrate::Mood;
use flow::usage::format_dollars;
use flow::{Stage, TicketId};
use ratatui::text::Line;

use super::out::{Out, columns, short_title};
use super::paint::{render_line, stage_style};
use super::{Context, ticket};
use app::failure::{ExitKind, Failure};
use app::operations::commit_review::{self, CommitReview};
use app::operations::escalations::PendingEscalation;
use app::operations::forge_poller::PollerStatus;
use app::operations::questions::decisions::ListEscalations;
use app::operations::questions::tickets::ListTickets;
use app::operations::questions::work::{ListJobs, ShowCosts, ShowStatus, StatusSummary};
use app::operations::silent_agents::SilentAgent;
use app::operations::{Pause, PauseScope, TicketRow};

/// Tickets listed per group; `ticket list` shows the rest.
const SHOWN_MAX: u32 = 10;
/// Leased jobs that are looked at for those of the listed tickets.
const LEASED_MAX: u32 = 500;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tickets of all repositories, not only of this one.
    #[arg(long)]
    all: bool,
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    // The repository of the current directory; outside of one, everything.
    let repository = if args.all {
        None
    } else {
        context.repository().await
    };
    let question = ShowStatus {
        repository: repository.clone(),
    };
    let StatusSummary {
        tally,
        elsewhere,
        pauses,
        silent,
        tasks,
        forges,
    } = context.ask(question).await?;
    let tally: Vec<(Stage, u64)> = tally.into_iter().collect();
    let query = ListEscalations {
        after: None,
        limit: Some(SHOWN_MAX),
        repository: repository.clone(),
    };
    // Each list is bounded, because `status` is typed often and must answer at once.
    let waiting = context.ask(query).await?;
    let at_work: Vec<Stage> = tally
        .iter()
        .map(|(stage, _)| *stage)
        .filter(|stage| stage.is_active())
        .collect();
    // An empty filter would list all tickets.
    let working = if at_work.is_empty() {
        Vec::new()
    } else {
        let query = ListTickets {
            stage: ListTickets::join_stages(&at_work),
            limit: Some(SHOWN_MAX),
            repository: repository.clone(),
            ..ListTickets::default()
        };
        context.ask(query).await?.items
    };
    let stopped = stopped_tickets(context, &working).await?;
    let costs = context
        .ask(ShowCosts {
            repository: repository.clone(),
        })
        .await?;
    // A file of this machine: the hook that wrote it ran here, also if the tickets are on a server.
    let commit_review = repository
        .as_deref()
        .and_then(|path| commit_review::load_waiting(&context.environment, path.as_ref()));
    context.out.print_json(&serde_json::json!({
        "tally": tally.iter().map(|(stage, count)| (stage.as_str(), count)).collect::<BTreeMap<_, _>>(),
        "elsewhere": elsewhere,
        "waiting": waiting.items,
        "working": working,
        "stopped": stopped,
        "pauses": pauses,
        "silent": silent,
        "tasks": tasks,
        "forges": forges,
        "commit_review": commit_review,
        "costs": costs,
    }));
    let out = &context.out;
    print_counts(&tally, elsewhere, &tasks, out);
    // Without tickets there are no costs, and a line of zeros says nothing.
    if tally.iter().any(|(_, count)| *count > 0) {
        out.line(costs.describe());
    }
    print_tasks(&tasks, out);
    if elsewhere > 0 {
        let plural = if elsewhere == 1 { "" } else { "s" };
        let text = format!(
            "{elsewhere} more ticket{plural} in other repositories: countersign status --all"
        );
        out.line(text);
    }
    print_waiting(&waiting.items, context);
    if !working.is_empty() {
        out.line(format!("\n{}", out.bold("open")));
    }
    let rows: Vec<Vec<String>> = working.iter().map(ticket_cells).collect();
    for line in columns(&rows) {
        out.line(line);
    }
    print_stopped(&stopped, context);
    if let Some(review) = &commit_review {
        print_commit_review(review, out);
    }
    print_silent(&silent, out);
    print_forges(&forges, out);
    print_pauses(&pauses, out);
    Ok(ExitKind::Done)
}

/// Prints the open tickets that no process works on now, and how to continue them.
fn print_stopped(stopped: &[TicketId], context: &Context) {
    let out = &context.out;
    if stopped.is_empty() {
        return;
    }
    if context.has_server() {
        out.line("\nwaiting for an agent or a worker of the server");
        for id in stopped {
            out.line(format!("  {id}"));
        }
        return;
    }
    out.line("\nno process works on these now; continue with");
    for id in stopped {
        // With the options that found this store, so that the line works when it is pasted.
        out.line(context.pasteable(&format!("  countersign run {id}")));
    }
}

/// Returns the open tickets that no process works on now.
async fn stopped_tickets(
    context: &Context,
    working: &[TicketRow],
) -> Result<Vec<TicketId>, Failure> {
    // An agent may have claimed a job that it has not started; the ticket knows only started ones. A
    // token that may not list jobs sees none.
    let leased = ListJobs {
        state: Some("leased".to_owned()),
        limit: Some(LEASED_MAX),
        ..ListJobs::default()
    };
    let leased = if working.is_empty() {
        Vec::new()
    } else {
        let jobs = context.ask(leased).await;
        jobs.map(|jobs| jobs.items).unwrap_or_default()
    };
    let is_claimed = |id: &TicketId| leased.iter().any(|job| job.ticket.as_ref() == Some(id));
    let mut stopped = Vec::new();
    for row in working.iter().filter(|row| !is_claimed(&row.id)) {
        let stored = context.ask(ticket::show_request(row.id.as_str())).await?;
        let mut jobs = stored.ticket.jobs.iter();
        // A job without a holder waits: nobody works on the ticket now.
        if jobs.all(|job| job.holder.is_none()) {
            stopped.push(row.id.clone());
        }
    }
    Ok(stopped)
}

/// Prints the tickets that wait for a person, and the command that shows each.
fn print_waiting(waiting: &[PendingEscalation], context: &Context) {
    let out = &context.out;
    if !waiting.is_empty() {
        out.line(format!(
            "\n{}",
            out.paint(Mood::Urgent, "waiting for a person")
        ));
    }
    for entry in waiting {
        let title = short_title(&entry.title);
        out.line(format!("  {}  {title}", out.bold(entry.id.as_str())));
        out.line(format!("    {}", findings::one_line(&entry.reason)));
        let show = format!("    countersign escalation show {}", entry.id);
        out.line(context.pasteable(&show));
    }
}

/// Prints the number of tickets by stage, or what to do first.
fn print_counts(tally: &[(Stage, u64)], elsewhere: u64, tasks: &BTreeMap<String, u64>, out: &Out) {
    let total: u64 = tally.iter().map(|(_, count)| count).sum();
    // A person in a new repository would take "no tickets" for lost ones.
    if total == 0 && elsewhere > 0 {
        out.line("no tickets in this repository yet; start one with `countersign run \"…\"`");
    } else if total == 0 && !tasks.is_empty() {
        out.line("no tickets");
    } else if total == 0 {
        let hint = "no tickets yet; try `countersign demo`, or `countersign run \"…\"`";
        out.line(hint);
    } else {
        out.line(count_by_stage(total, tally, out));
    }
}

/// Prints the number of open tasks outside tickets.
fn print_tasks(tasks: &BTreeMap<String, u64>, out: &Out) {
    if !tasks.is_empty() {
        let counts: Vec<String> = tasks
            .iter()
            .map(|(queue, count)| format!("{count} for {queue}"))
            .collect();
        let counts = counts.join(", ");
        out.line(format!("open tasks: {counts} (countersign queue list)"));
    }
}

fn print_commit_review(review: &CommitReview, out: &Out) {
    let mut lines = review.lines().into_iter();
    let head = lines.next().unwrap_or_default();
    out.line(format!("\n{}", out.paint(Mood::Urgent, &head)));
    for line in lines {
        out.line(format!("  {line}"));
    }
    out.line("  countersign hook dismiss");
}

/// Prints the pollers of forges, and the calls of this hour.
fn print_forges(forges: &[PollerStatus], out: &Out) {
    if !forges.is_empty() {
        out.line(format!("\n{}", out.bold("forges")));
    }
    for poller in forges {
        let name = findings::one_line(&poller.connection);
        let asked = poller.last_at.map_or_else(
            || "not asked yet".to_owned(),
            |at| format!("asked at {}", at.to_iso()),
        );
        let (calls, budget) = (poller.calls, poller.budget);
        out.line(format!(
            "  {name}  {asked}, {calls} of {budget} calls this hour"
        ));
        if let Some(error) = &poller.error {
            out.line(format!("    {}", findings::one_line(error)));
        }
    }
}

fn print_silent(silent: &[SilentAgent], out: &Out) {
    if !silent.is_empty() {
        out.line(format!("\n{}", out.paint(Mood::Urgent, "silent agents")));
    }
    for entry in silent {
        let why = findings::one_line(&entry.why);
        out.line(format!("  {why} (since {})", entry.since.to_iso()));
    }
}

fn print_pauses(pauses: &[Pause], out: &Out) {
    if !pauses.is_empty() {
        out.line("\npaused");
    }
    for pause in pauses {
        let until = pause
            .until
            .map_or_else(String::new, |until| format!(" until {}", until.to_iso()));
        let (kind, name) = describe_scope(&pause.scope);
        out.line(format!("  {kind} {name}{until}  {}", pause.why));
    }
}

/// Formats the counts: `3 tickets: 1 building, 2 done`, each stage in its colour.
fn count_by_stage(total: u64, tally: &[(Stage, u64)], out: &Out) -> String {
    let stages = tally.iter().map(|(stage, count)| {
        let text = format!("{count} {stage}");
        render_line(
            &Line::styled(text, stage_style(*stage)),
            out.terminal.colours,
        )
    });
    let plural = if total == 1 { "" } else { "s" };
    format!(
        "{} {}",
        out.bold(&format!("{total} ticket{plural}:")),
        stages.collect::<Vec<_>>().join(", ")
    )
}

fn ticket_cells(row: &TicketRow) -> Vec<String> {
    vec![
        format!("  {}", row.id),
        row.stage.to_string(),
        format!("round {}", row.round),
        format_dollars(row.usd_micros),
        short_title(&row.title),
    ]
}

pub(super) fn describe_scope(scope: &PauseScope) -> (&'static str, &str) {
    match scope {
        PauseScope::Agent(name) => ("agent", name),
        PauseScope::Queue(name) => ("queue", name),
        PauseScope::Provider(name) => ("provider", name),
    }
}
