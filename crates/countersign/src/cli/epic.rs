//! `countersign epic …`, and the epic's part of `countersign run`

use engine::process::StopSignal;
use flow::TicketId;
use flow::epic::{EpicStatus, rehearsal, written};
use flow::narrate::Mood;
use flow::policy::Land;
use flow::usage::dollars;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::workshop::Project;

use super::Context;
use super::out::{Out, columns, raw};
use super::paint::elapsed;
use super::run::names_of_checks;
use super::story::ProgressReporter;
use app::failure::{ExitKind, Failure};
use app::operations::App;
use app::operations::epics::{self, EpicReport};
use app::operations::plans::RunPlan;
use app::operations::questions::work::{ListEpics, ShowEpic, SignEpic};
use app::settings::epic_file::{self, EpicFile};
use app::settings::read_bounded;

/// How wide the bar of what has landed is.
const BAR: usize = 24;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List epics and how they stand.
    List,
    /// Show one epic: its tickets, rounds, findings by fate, cost and time.
    Show { epic: String },
    /// Sign an epic whose tickets have all landed; who and why is recorded.
    Accept {
        epic: String,
        /// Why; it is recorded with your name.
        #[arg(long)]
        why: String,
    },
}

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List => list(desktop).await,
        Verb::Show { epic } => Ok(show(&desktop.ask(ShowEpic { epic }).await?, desktop)),
        Verb::Accept { epic, why } => {
            let looked = desktop.ask(SignEpic { epic, why }).await?;
            Ok(show(&looked, desktop))
        }
    }
}

async fn list(desktop: &Context) -> Result<ExitKind, Failure> {
    let all = desktop.ask(ListEpics {}).await?.items;
    desktop.out.answer(&serde_json::json!({"epics": all}));
    if all.is_empty() {
        desktop
            .out
            .line("no epics; `countersign run EPIC.yaml` makes one");
    }
    let rows = all.iter().map(|epic| {
        let sum = &epic.completion;
        let landed = format!("{}/{} landed", sum.landed, sum.tickets);
        vec![epic.id.clone(), landed, words(epic), epic.title.clone()]
    });
    for line in columns(&rows.collect::<Vec<_>>()) {
        desktop.out.line(line);
    }
    Ok(ExitKind::Done)
}

fn names(ids: &[TicketId]) -> String {
    ids.iter()
        .map(TicketId::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// How it stands, in words.
fn words(epic: &EpicReport) -> String {
    match &epic.standing {
        EpicStatus::Goes { ready } => format!("goes on: {}", names(ready)),
        EpicStatus::Stopped { by, why } => format!("stopped: {by} is critical and failed ({why})"),
        EpicStatus::Waits { tickets } => format!("waits for a person: {}", names(tickets)),
        EpicStatus::AtTheGate => "all landed; waits for a person's signature".to_owned(),
        EpicStatus::Complete => "complete".to_owned(),
        EpicStatus::Incomplete { failed } => format!("ended; not landed: {}", names(failed)),
    }
}

/// The report, and how the program ends.
pub fn show(epic: &EpicReport, desktop: &Context) -> ExitKind {
    let (exit, next) = match &epic.standing {
        EpicStatus::Goes { .. } => (
            ExitKind::Interrupted,
            Some("run the epic's file again; it goes on from here".to_owned()),
        ),
        EpicStatus::Stopped { .. } | EpicStatus::Incomplete { .. } => (ExitKind::Failed, None),
        EpicStatus::Waits { tickets } => (
            ExitKind::Escalated,
            tickets
                .first()
                .map(|one| format!("countersign ticket show {one}")),
        ),
        EpicStatus::AtTheGate => (
            ExitKind::Escalated,
            Some(format!("countersign epic accept {} --why \"…\"", epic.id)),
        ),
        EpicStatus::Complete => (ExitKind::Done, None),
    };
    desktop
        .out
        .answer(&serde_json::json!({"exit": exit.code(), "epic": epic}));
    if !desktop.out.json {
        if desktop.out.terminal.moves {
            glance(epic, &desktop.out);
        } else {
            raw(&written(&epic.id, &epic.title, &epic.completion));
        }
        desktop.out.line(format!("\n{}", words(epic)));
        if let Some(signed) = &epic.signed {
            desktop
                .out
                .line(format!("signed by {}: {}", signed.by, signed.why));
        }
        if let Some(next) = next {
            desktop.out.line(format!("next: {next}"));
        }
    }
    exit
}

/// The report for eyes: a bar and a line for each ticket. Elsewhere it is Markdown.
fn glance(epic: &EpicReport, out: &Out) {
    let (sum, glyphs) = (&epic.completion, out.glyphs());
    let title = findings::one_line(&epic.title);
    out.line(out.bold(&format!("epic {}: {title}", epic.id)));
    let (full, rest) = glyphs.bar(sum.landed, sum.tickets, BAR);
    let took = i64::try_from(sum.took_ms).unwrap_or(i64::MAX);
    out.line(format!(
        "{}{rest} {} of {} landed, {} rounds, {}, {}\n",
        out.paint(Mood::Good, &full),
        sum.landed,
        sum.tickets,
        sum.rounds,
        dollars(sum.spent.usd_micros),
        elapsed(took),
    ));
    let rows = sum.lines.iter().map(|line| {
        vec![
            format!("  {}", line.id),
            line.stage.to_string(),
            format!("{} rounds", line.rounds),
            format!("{} findings", line.findings),
            dollars(line.usd_micros),
            findings::one_line(&line.title),
        ]
    });
    for line in columns(&rows.collect::<Vec<_>>()) {
        out.told(&line, 4);
    }
}

/// The epic that the words mean, if they mean one.
pub fn file(desktop: &Context, words: &str) -> Result<Option<EpicFile>, Failure> {
    let path = desktop.directory.join(words);
    if words.trim().is_empty() || !path.is_file() {
        return Ok(None);
    }
    let bytes = read_bounded(&path, "the file", epic_file::BYTES_MAX)?;
    epic_file::read(words, &bytes)
}

/// What would be done, in the order in which it would begin; nothing is.
pub fn rehearse(
    tickets: &[(TicketId, BTreeSet<TicketId>)],
    plan: &RunPlan,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let graph: BTreeMap<TicketId, BTreeSet<TicketId>> = tickets.iter().cloned().collect();
    let order = flow::graph::order(&graph).map_err(Failure::usage)?;
    let always = plan.reviewers.iter().filter(|one| !one.confirms);
    let seats: Vec<String> = always.map(|one| one.seat.clone()).collect();
    let mut lines: Vec<String> = order
        .iter()
        .flat_map(|id| rehearsal(id, plan.max_rounds, &seats))
        .collect();
    lines.extend(crew_and_end(plan));
    for line in &lines {
        desktop.out.line(line);
    }
    desktop
        .out
        .answer(&serde_json::json!({"dry_run": lines, "order": order, "plan": plan}));
    Ok(ExitKind::Done)
}

/// By whom, under which checks, and to what end: as the project's settings have it.
fn crew_and_end(plan: &RunPlan) -> Vec<String> {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "nobody named".to_owned());
    let seats = plan.reviewers.iter();
    let seats: Vec<String> = seats
        .map(|one| format!("{} {}", one.seat, name(&one.by)))
        .collect();
    let land = match plan.land {
        Land::Branch => "leave each on its branch".to_owned(),
        Land::Merge => format!("merge each into {}", plan.base),
        Land::Queue => format!("land on {} by the queue", plan.base),
    };
    let none = |list: String| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list
        }
    };
    let remarks = plan.remarks.iter().map(|remark| format!("note: {remark}"));
    [
        format!("[DRY-RUN] Builder: {}", name(&plan.builder)),
        format!("[DRY-RUN] Reviewers: {}", none(seats.join(", "))),
        format!("[DRY-RUN] Verifier: {}", name(&plan.verifier)),
        format!("[DRY-RUN] Checks: {}", none(plan.checks.join(", "))),
        format!("[DRY-RUN] Would {land}"),
    ]
    .into_iter()
    .chain(remarks)
    .collect()
}

/// Enters the epic and works on it until a person is needed or all is done.
pub async fn run(
    office: &App,
    shop: &Arc<Project>,
    file: &EpicFile,
    jobs: usize,
    mut telling: ProgressReporter,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let added = epics::enter(office, file, Some(shop), &shop.project.policy).await?;
    desktop.out.line(format!(
        "epic {}: {} tickets, {} of them new, {jobs} at a time",
        file.id,
        file.tickets.len(),
        added.len()
    ));
    let ended = epics::ended(office, &file.id).await?;
    telling.begin(|progress| {
        progress.checks = names_of_checks(shop);
        progress.expect(file.tickets.len(), ended);
    });
    let (stopper, stop) = StopSignal::pair();
    let work = epics::work(office, shop, &file.id, jobs, stop);
    tokio::pin!(work);
    let mut asked = 0;
    let looked = loop {
        tokio::select! {
            done = &mut work => break done?,
            signal = tokio::signal::ctrl_c() => {
                signal.map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))?;
                asked += 1;
                if asked > 1 {
                    return Err(Failure::new(ExitKind::Interrupted, "stopped at once").hint("go on with the same command"));
                }
                stopper.stop();
                telling.stopping(&desktop.out);
            }
        }
    };
    telling.rest();
    desktop.out.line("");
    Ok(show(&looked, desktop))
}
