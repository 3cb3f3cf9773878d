//! `countersign ticket …`

use std::path::{Path, PathBuf};

use flow::ledger::RoundFindings;
use flow::narrate::{approved_by, reason, short};
use flow::usage::dollars;
use flow::{Stage, Ticket};

use super::choices;
use super::out::columns;
use super::{Context, editor};
use app::failure::{ExitKind, Failure};
use app::operations::questions::decisions::{CancelTicket, RaiseBudget, WaiveFinding};
use app::operations::questions::tickets::{
    AddTickets, ArtefactList, ForecastTicket, ListArtefacts, ListTickets, ShowTicket,
};
use app::operations::tickets::BudgetScope;
use app::operations::{Stored, run};
use app::settings::read_bounded;
use app::settings::ticket_file::{self, TicketRequest};

const DIFF_EXAMPLES: &str = "\
Examples:
  countersign ticket diff T-7              what was put forward last
  countersign ticket diff T-7 --round 1    what the first round's reviewers saw, and said";

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Write a new ticket in your editor ($VISUAL, $EDITOR), from a template.
    #[command(after_help = NEW_HELP)]
    New {
        /// Its title.
        title: Option<String>,
        /// Keep it in this file, which must be new, and add nothing yet.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Open no editor: with a title it is added as it is, with --file only the template is written.
        #[arg(long)]
        no_edit: bool,
    },
    /// Add tickets from files or sentences; they may depend on each other.
    Add {
        /// A Markdown or YAML file, or a sentence.
        #[arg(required = true, value_name = "FILE|SENTENCE")]
        tickets: Vec<String>,
    },
    /// List tickets, newest first.
    List {
        /// Only tickets in this stage; may be given several times.
        #[arg(long, value_parser = stage)]
        stage: Vec<Stage>,
        /// The `next` of the page before.
        #[arg(long, value_name = "CURSOR")]
        after: Option<i64>,
        /// How many at the most.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Show one ticket: where it stands, its rounds, its findings.
    Show { ticket: String },
    /// Show its change, with the findings under the lines they speak of.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff {
        ticket: String,
        /// An earlier round's, as it was when that round had its verdict.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        round: Option<u32>,
    },
    /// Put your own commits forward, after you took the ticket over: its branch as it is now.
    Resubmit { ticket: String },
    /// Raise what a ticket may spend; a round that was stopped goes on where it was.
    Budget {
        ticket: String,
        /// Which limit.
        #[arg(long, default_value = "ticket", value_parser = choices::budget_scope())]
        scope: BudgetScope,
        /// Dollars, as `2.50`.
        #[arg(long, value_parser = usd_micros)]
        usd: Option<u64>,
        #[arg(long)]
        tokens: Option<u64>,
        #[arg(long)]
        wall_secs: Option<u64>,
        /// Why; it is recorded with your name.
        #[arg(long)]
        why: String,
    },
    /// Let one finding stand although it is open; the others stay as they are.
    Waive {
        ticket: String,
        /// As `ticket show` names it: F1, F2, …
        finding: String,
        /// Why; it is recorded with your name.
        #[arg(long)]
        why: String,
    },
    /// Stop a ticket for good.
    Cancel {
        ticket: String,
        /// Why; it is recorded with your name.
        #[arg(long, default_value = "cancelled by hand")]
        why: String,
    },
}

const NEW_HELP: &str = "\
Examples:
  countersign ticket new
  countersign ticket new \"Greet the user by name\" --no-edit
  countersign ticket new --file tickets/greet.md";

/// `2.50` dollars in millionths.
fn usd_micros(word: &str) -> Result<u64, String> {
    let bad = || format!("{word:?} is no amount; write dollars as 2.50");
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) {
        return Err(bad());
    }
    let micros: u64 = format!("{part:0<6}").parse().map_err(|_| bad())?;
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    whole
        .checked_mul(1_000_000)
        .and_then(|n| n.checked_add(micros))
        .ok_or_else(bad)
}

fn stage(word: &str) -> Result<Stage, String> {
    Stage::parse(word).ok_or_else(|| {
        let words: Vec<&str> = Stage::ALL.iter().map(|stage| stage.word()).collect();
        format!("stages are {}", words.join(", "))
    })
}

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::New {
            title,
            file,
            no_edit,
        } => editor::new_ticket(title.as_deref(), file, no_edit, desktop).await,
        Verb::Add { tickets } => add(&tickets, desktop).await,
        Verb::List {
            stage,
            after,
            limit,
        } => list(stage, after, limit, desktop).await,
        Verb::Show { ticket } => show(&ticket, desktop).await,
        Verb::Diff { ticket, round } => super::diff::perform(&ticket, round, desktop).await,
        Verb::Resubmit { ticket } => {
            let office = desktop.office().await?;
            let resubmitted = run::resubmit(&office, &desktop.directory, &ticket).await?;
            desktop.out.line(format!(
                "{ticket} is {}\nnext: countersign run {ticket}",
                resubmitted.stage
            ));
            desktop
                .out
                .answer(&serde_json::json!({"id": ticket, "stage": resubmitted.stage}));
            Ok(ExitKind::Done)
        }
        Verb::Budget {
            ticket,
            scope,
            usd,
            tokens,
            wall_secs,
            why,
        } => {
            let wanted = RaiseBudget {
                ticket: ticket.clone(),
                scope,
                usd_micros: usd,
                tokens,
                wall_secs,
                why,
            };
            desktop.ask(wanted).await?;
            let raised = desktop.ask(of(&ticket)).await?.ticket;
            desktop.out.line(format!("{ticket} is {}", raised.stage));
            if raised.escalation.is_some() {
                desktop.out.line(format!(
                    "next: countersign escalation resolve {ticket} continue"
                ));
            }
            desktop.out.answer(
                &serde_json::json!({"id": ticket, "stage": raised.stage, "budget": raised.budget}),
            );
            Ok(ExitKind::Done)
        }
        Verb::Waive {
            ticket,
            finding,
            why,
        } => {
            let stands = WaiveFinding {
                ticket: ticket.clone(),
                finding: finding.clone(),
                why,
            };
            let waived = desktop.ask(stands).await?;
            desktop
                .out
                .line(format!("{finding} of {ticket} stands, as you say"));
            desktop.out.answer(
                &serde_json::json!({"id": ticket, "stage": waived.stage, "waived": finding}),
            );
            Ok(ExitKind::Done)
        }
        Verb::Cancel { ticket, why } => {
            let stop = CancelTicket {
                ticket: ticket.clone(),
                why,
            };
            let stage = desktop.ask(stop).await?.stage;
            desktop.out.line(format!("{ticket} is {stage}"));
            desktop
                .out
                .answer(&serde_json::json!({"id": ticket, "stage": stage}));
            Ok(ExitKind::Done)
        }
    }
}

/// A path that exists is a file; what looks like a path and does not exist is a mistake; anything
/// else is a sentence.
pub fn wanted(directory: &Path, words: &str) -> Result<TicketRequest, Failure> {
    let hint = "give a ticket file, the id of a ticket, or say in a sentence what shall be done";
    let path = directory.join(words);
    let endings = [".md", ".markdown", ".yaml", ".yml"];
    let looks_like_path = endings.iter().any(|ending| words.ends_with(ending))
        || (words.contains('/') && !words.contains(' '));
    if !words.trim().is_empty() && (path.exists() || looks_like_path) {
        let bytes = read_bounded(&path, "the ticket file", ticket_file::BYTES_MAX)
            .map_err(|failure| failure.hint(hint))?;
        return ticket_file::read(words, &bytes);
    }
    if !words.trim().contains(' ') {
        let what = format!("{words:?} is no file here, no known ticket, and no sentence");
        return Err(Failure::usage(what).hint(hint));
    }
    ticket_file::from_sentence(words)
}

async fn add(words: &[String], desktop: &Context) -> Result<ExitKind, Failure> {
    let wanted: Vec<TicketRequest> = words
        .iter()
        .map(|one| wanted(&desktop.directory, one))
        .collect::<Result<_, _>>()?;
    add_wanted(wanted, desktop).await
}

pub async fn add_wanted(
    wanted: Vec<TicketRequest>,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    // A server has repositories of its own.
    let here = desktop.surroundings.server.place.is_none();
    let question = AddTickets {
        tickets: wanted,
        repository: here.then(|| desktop.directory.to_string_lossy().into_owned()),
    };
    let added = desktop.ask(question).await?.tickets;
    for ticket in &added {
        desktop.out.line(format!(
            "added {} ({}): {}",
            ticket.id, ticket.stage, ticket.title
        ));
    }
    if let Some(first) = added.first() {
        desktop
            .out
            .line(format!("\nnext: countersign run {}", first.id));
    }
    desktop.out.answer(&serde_json::json!({"tickets": added}));
    Ok(ExitKind::Done)
}

/// One ticket, whole.
pub fn of(ticket: &str) -> ShowTicket {
    let ticket = ticket.to_owned();
    ShowTicket { ticket }
}

async fn list(
    stages: Vec<Stage>,
    after: Option<i64>,
    limit: u32,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let which = ListTickets {
        stage: ListTickets::of(&stages),
        after,
        limit: Some(limit),
    };
    let rows = desktop.ask(which).await?;
    desktop
        .out
        .answer(&serde_json::json!({"tickets": rows.items, "next": rows.next}));
    if rows.items.is_empty() {
        desktop
            .out
            .line("no tickets; `countersign run \"what shall be done\"` makes one");
    }
    let table: Vec<Vec<String>> = rows
        .items
        .iter()
        .map(|row| {
            vec![
                row.id.to_string(),
                row.stage.to_string(),
                format!("round {}", row.round),
                dollars(row.usd_micros),
                row.title.clone(),
            ]
        })
        .collect();
    for line in columns(&table) {
        desktop.out.line(line);
    }
    if let Some(next) = rows.next {
        desktop
            .out
            .line(format!("\nmore: countersign ticket list --after {next}"));
    }
    Ok(ExitKind::Done)
}

async fn show(id: &str, desktop: &Context) -> Result<ExitKind, Failure> {
    let stored = desktop.ask(of(id)).await?;
    let mut answer = serde_json::to_value(&stored).unwrap_or_default();
    answer["evolution"] = serde_json::json!(evolution_lines(&stored.ticket));
    let ticket = id.to_owned();
    let forecast = desktop.ask(ForecastTicket { ticket }).await?;
    answer["forecast"] = serde_json::json!(forecast);
    desktop.out.answer(&answer);
    if !desktop.out.json {
        let ticket = id.to_owned();
        let ArtefactList { data_dir, items } = desktop.ask(ListArtefacts { ticket }).await?;
        for line in describe(&stored) {
            desktop.out.told(&line, 4);
        }
        if !stored.ticket.stage.is_terminal() {
            desktop.out.line(format!("\n{}", forecast.text()));
        }
        if !items.is_empty() {
            desktop.out.line("\nartefacts");
        }
        for artefact in items {
            let path = data_dir.join(&artefact.path);
            desktop.out.line(format!(
                "  round {} {} {}  {}",
                artefact.round,
                artefact.kind,
                artefact.name,
                path.display()
            ));
        }
    }
    Ok(ExitKind::Done)
}

/// The ticket for a person to read.
pub fn describe(stored: &Stored) -> Vec<String> {
    let ticket = &stored.ticket;
    let mut lines = vec![format!("{}: {}", ticket.id, ticket.spec.title)];
    let waits = ticket.waits();
    let waits = if waits.is_empty() {
        String::new()
    } else {
        format!(", waits {waits}")
    };
    lines.push(format!("  {}{waits}", ticket.stage));
    if let Some(put) = &ticket.submission {
        lines.push(format!(
            "  commit {} on {} ({} files)",
            short(&put.commit),
            put.branch,
            put.files.len()
        ));
    }
    if let Some(approval) = &ticket.approval {
        lines.push(format!(
            "  {} (policy {})",
            approved_by(ticket).unwrap_or_default(),
            approval.policy
        ));
    }
    if let Some(escalation) = &ticket.escalation {
        lines.push(format!("  {}", reason(&escalation.reason)));
        lines.push(format!(
            "  settle it: countersign escalation show {}",
            ticket.id
        ));
    }
    if let Some(why) = &ticket.ended {
        lines.push(format!("  {why}"));
    }
    let spent = ticket.spent.ticket;
    lines.push(format!(
        "  spent {}, {} tokens, {} s",
        dollars(spent.usd_micros),
        spent.tokens,
        spent.wall_ms / 1000
    ));
    lines.extend(rounds(ticket));
    lines.extend(ledger(ticket));
    lines.extend(evolution(ticket));
    lines
}

/// One line a round, for programs.
pub fn evolution_lines(ticket: &Ticket) -> Vec<RoundFindings> {
    let last = ticket.rounds.last().map_or(0, |round| round.number);
    ticket.ledger.evolution(last)
}

/// How the findings came and went, round by round.
pub fn evolution(ticket: &Ticket) -> Vec<String> {
    let lines = evolution_lines(ticket);
    if ticket.ledger.entries.is_empty() || lines.is_empty() {
        return Vec::new();
    }
    // What never happened has no column, but for the first ones, which every round has.
    let happened =
        |column: &usize| *column < 4 || lines.iter().any(|line| line.cells()[*column] > 0);
    let shown: Vec<usize> = (0..RoundFindings::HEAD.len()).filter(happened).collect();
    let row = |cells: &[String]| {
        let mut row: Vec<String> = shown.iter().map(|column| cells[*column].clone()).collect();
        row[0].insert_str(0, "  ");
        row
    };
    let head = row(&RoundFindings::HEAD.map(str::to_owned));
    let rows = lines
        .iter()
        .map(|line| row(&line.cells().map(|n| n.to_string())));
    let table: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    std::iter::once("\nevolution".to_owned())
        .chain(columns(&table))
        .collect()
}

pub fn rounds(ticket: &Ticket) -> Vec<String> {
    if ticket.rounds.is_empty() {
        return Vec::new();
    }
    let table: Vec<Vec<String>> = ticket
        .rounds
        .iter()
        .map(|round| {
            let verdict = if round.verdict.approved {
                "approved"
            } else {
                "changes requested"
            };
            let held: Vec<String> = round
                .verdict
                .gates
                .iter()
                .filter(|gate| !gate.passed)
                .map(|gate| format!("{} ({})", gate.name, gate.why))
                .collect();
            vec![
                format!("  round {}", round.number),
                short(&round.commit).to_owned(),
                verdict.to_owned(),
                held.join("; "),
            ]
        })
        .collect();
    std::iter::once("\nrounds".to_owned())
        .chain(columns(&table))
        .collect()
}

pub fn ledger(ticket: &Ticket) -> Vec<String> {
    if ticket.ledger.entries.is_empty() {
        return Vec::new();
    }
    let table: Vec<Vec<String>> = ticket
        .ledger
        .entries
        .iter()
        .map(|entry| {
            vec![
                format!("  {}", entry.id),
                entry.severity().word().to_owned(),
                entry.status_text(),
                entry.place(),
                entry.finding.title.clone(),
            ]
        })
        .collect();
    std::iter::once("\nfindings".to_owned())
        .chain(columns(&table))
        .collect()
}
