//! `countersign ticket …`: adds, lists, shows and changes tickets.

mod claimed;
pub mod comment;

use std::path::{Path, PathBuf};

use flow::ledger::RoundFindings;
use flow::narrate::{
    count_noun, describe_approval, describe_evidence, describe_reason, red_check_ends, short_commit,
};
use flow::rejection::{describe_rejection, describe_rework_reason};
use flow::usage::format_dollars;
use flow::{Stage, Ticket};

use super::choices;
use super::out::{columns, short_title};
use super::{Context, editor};
use app::failure::{ExitKind, Failure};
use app::operations::questions::decisions::{CancelTicket, RaiseBudget, WaiveFinding};
use app::operations::questions::tickets::{
    AddTickets, ArtefactList, ForecastTicket, ListArtefacts, ListTickets, ShowTicket,
};
use app::operations::run_files::ArtefactEntry;
use app::operations::tickets::BudgetScope;
use app::operations::{Stored, run};
use app::settings::read_bounded;
use app::settings::ticket_file::{self, TicketRequest};

const DIFF_EXAMPLES: &str = "\
Examples:
  countersign ticket diff T-7              the last submission
  countersign ticket diff T-7 --round 1    the first round's change and findings";

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Write a new ticket in your editor ($VISUAL, $EDITOR) from a template.
    #[command(after_help = editor::NEW_HELP)]
    New {
        /// Title of the ticket.
        title: Option<String>,
        /// Write the ticket to this new file instead of adding it.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Do not open an editor: add a ticket with only a title, or with --file write the
        /// template.
        #[arg(long)]
        no_edit: bool,
    },
    /// Add tickets from files or sentences; they may depend on each other.
    Add {
        /// Markdown or YAML file, or a sentence.
        #[arg(required = true, value_name = "FILE|SENTENCE")]
        tickets: Vec<String>,
        /// Repository of the tickets; a path on the server, if there is one. Default: this
        /// directory's.
        #[arg(long, value_name = "PATH")]
        repository: Option<String>,
    },
    /// List this repository's tickets, newest first.
    List {
        /// Only tickets in this stage. Repeatable.
        #[arg(long, value_parser = parse_stage)]
        stage: Vec<Stage>,
        /// Continue after this position: the `next` value of the previous page.
        #[arg(long, value_name = "CURSOR")]
        after: Option<i64>,
        /// Maximum number of tickets.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Tickets of all repositories, not only of this one.
        #[arg(long)]
        all: bool,
    },
    /// Show a ticket: its stage, rounds and findings.
    Show {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
    },
    /// Show the diff of a ticket with the findings below their lines.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
        /// Show an earlier round, as it was at its verdict.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        round: Option<u32>,
    },
    /// Submit your own commits on the ticket's branch, after you took the ticket over.
    Resubmit {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
    },
    /// Raise the budget of a ticket. A round that was stopped continues.
    Budget {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
        /// Limit to raise.
        #[arg(long, default_value = "ticket", value_parser = choices::budget_scope())]
        scope: BudgetScope,
        /// New limit in dollars, such as `2.50`.
        #[arg(long, value_parser = parse_usd)]
        usd: Option<u64>,
        /// New limit in tokens.
        #[arg(long, value_name = "N")]
        tokens: Option<u64>,
        /// New limit in seconds of wall time.
        #[arg(long, value_name = "SECONDS")]
        wall_secs: Option<u64>,
        /// Reason, recorded with your name.
        #[arg(long)]
        why: String,
    },
    /// Waive one open finding. Other findings stay open.
    Waive {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
        /// Id from `ticket show`: F1, F2, …
        finding: String,
        /// Reason, recorded with your name.
        #[arg(long)]
        why: String,
    },
    /// Report a defect of your own on a line of the ticket's change.
    #[command(after_help = comment::COMMENT_HELP)]
    Comment(comment::CommentArgs),
    /// Add the findings of a report to the ticket: SARIF, rdjson, the JSON of a linter, or a
    /// review text.
    #[command(after_help = comment::IMPORT_HELP)]
    ImportFindings(comment::ImportArgs),
    /// Cancel a ticket for good.
    Cancel {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
        /// Reason, recorded with your name.
        #[arg(long, default_value = "cancelled by hand")]
        why: String,
    },
}

impl Verb {
    /// Returns the ids of existing tickets.
    pub fn ticket_ids(&mut self) -> Vec<&mut String> {
        match self {
            Self::Show { ticket }
            | Self::Diff { ticket, .. }
            | Self::Resubmit { ticket }
            | Self::Budget { ticket, .. }
            | Self::Waive { ticket, .. }
            | Self::Cancel { ticket, .. }
            | Self::Comment(comment::CommentArgs { ticket, .. })
            | Self::ImportFindings(comment::ImportArgs { ticket, .. }) => vec![ticket],
            Self::New { .. } | Self::Add { .. } | Self::List { .. } => Vec::new(),
        }
    }
}

/// Parses dollars such as `2.50` into millionths.
fn parse_usd(word: &str) -> Result<u64, String> {
    let bad = || format!("{word:?} is not an amount in dollars; use a form like 2.50");
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

fn parse_stage(word: &str) -> Result<Stage, String> {
    Stage::parse(word).ok_or_else(|| {
        let words: Vec<&str> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
        format!("the stages are {}", words.join(", "))
    })
}

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::New {
            title,
            file,
            no_edit,
        } => editor::new_ticket(title.as_deref(), file, no_edit, context).await,
        Verb::Add {
            tickets,
            repository,
        } => add(&tickets, repository.as_deref(), context).await,
        Verb::List {
            stage,
            after,
            limit,
            all,
        } => {
            let query = ListTickets {
                stage: ListTickets::join_stages(&stage),
                after: after.map(|number| number.to_string()),
                limit: Some(limit),
                repository: if all {
                    None
                } else {
                    context.repository().await
                },
                ..ListTickets::default()
            };
            list(query, context).await
        }
        Verb::Show { ticket } => show(&ticket, context).await,
        Verb::Diff { ticket, round } => super::diff::perform(&ticket, round, context).await,
        Verb::Resubmit { ticket } => resubmit(&ticket, context).await,
        Verb::Budget {
            ticket,
            scope,
            usd,
            tokens,
            wall_secs,
            why,
        } => {
            let request = RaiseBudget {
                ticket: ticket.clone(),
                scope,
                usd: usd.map(flow::usage::dollars),
                usd_micros: None,
                tokens,
                wall_secs,
                why,
            };
            context.ask(request).await?;
            let raised = context.ask(show_request(&ticket)).await?.ticket;
            context.out.line(format!("{ticket} is {}", raised.stage));
            if raised.escalation.is_some() {
                let next = format!("countersign escalation resolve {ticket} continue");
                context
                    .out
                    .line(format!("next: {}", context.pasteable(&next)));
            }
            context.out.print_json(
                &serde_json::json!({"id": ticket, "stage": raised.stage, "budget": raised.budget}),
            );
            Ok(ExitKind::Done)
        }
        Verb::Waive {
            ticket,
            finding,
            why,
        } => {
            let request = WaiveFinding {
                ticket: ticket.clone(),
                finding: finding.clone(),
                why,
            };
            let waived = context.ask(request).await?;
            context
                .out
                .line(format!("{finding} of {ticket} is waived in your name"));
            context.out.print_json(
                &serde_json::json!({"id": ticket, "stage": waived.stage, "waived": finding}),
            );
            Ok(ExitKind::Done)
        }
        Verb::Comment(args) => comment::comment(args, context).await,
        Verb::ImportFindings(args) => comment::import(args, context).await,
        Verb::Cancel { ticket, why } => {
            let request = CancelTicket {
                ticket: ticket.clone(),
                why,
            };
            let stage = context.ask(request).await?.stage;
            context.out.line(format!("{ticket} is {stage}"));
            context
                .out
                .print_json(&serde_json::json!({"id": ticket, "stage": stage}));
            Ok(ExitKind::Done)
        }
    }
}

async fn resubmit(ticket: &str, context: &Context) -> Result<ExitKind, Failure> {
    let app = context.open_app().await?;
    let resubmitted = run::resubmit(&app, &context.directory, ticket).await?;
    context.out.line(format!(
        "{ticket} is {}\n{}",
        resubmitted.stage,
        context.next_for(ticket)
    ));
    context
        .out
        .print_json(&serde_json::json!({"id": ticket, "stage": resubmitted.stage}));
    Ok(ExitKind::Done)
}

/// Parses the argument of `run` and `ticket add`. An existing path is a file, a missing path is an
/// error, and anything else is a sentence.
pub fn parse_ticket_source(directory: &Path, source: &str) -> Result<TicketRequest, Failure> {
    let hint = "pass a ticket file, the id of a ticket, or a sentence that describes the task";
    let path = directory.join(source);
    let endings = [".md", ".markdown", ".yaml", ".yml"];
    let looks_like_path = endings.iter().any(|ending| source.ends_with(ending))
        || (source.contains('/') && !source.contains(' '));
    if !source.trim().is_empty() && (path.exists() || looks_like_path) {
        let bytes = read_bounded(&path, "the ticket file", ticket_file::BYTES_MAX)
            .map_err(|failure| failure.hint(hint))?;
        return ticket_file::read(source, &bytes);
    }
    if !source.trim().contains(' ') {
        let why = format!("{source:?} is not a file, a known ticket or a sentence");
        return Err(Failure::usage(why).hint(hint));
    }
    ticket_file::from_sentence(source)
}

async fn add(
    sources: &[String],
    repository: Option<&str>,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let requests: Vec<TicketRequest> = sources
        .iter()
        .map(|source| parse_ticket_source(&context.directory, source))
        .collect::<Result<_, _>>()?;
    add_requests(requests, repository, context).await
}

pub async fn add_requests(
    requests: Vec<TicketRequest>,
    repository: Option<&str>,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let question = AddTickets {
        tickets: requests,
        repository: context.repository_for_new(repository),
    };
    let added = context.ask(question).await?.tickets;
    for ticket in &added {
        context.out.line(format!(
            "added {} ({}): {}",
            ticket.id, ticket.stage, ticket.title
        ));
    }
    if let Some(first) = added.first() {
        let next = context.next_for(first.id.as_str());
        context.out.line(format!("\n{next}"));
    }
    context
        .out
        .print_json(&serde_json::json!({"tickets": added}));
    Ok(ExitKind::Done)
}

/// Builds the request for a whole ticket.
pub fn show_request(ticket: &str) -> ShowTicket {
    let ticket = ticket.to_owned();
    ShowTicket { ticket }
}

async fn list(query: ListTickets, context: &Context) -> Result<ExitKind, Failure> {
    let is_filtered = query.repository.is_some();
    let rows = context.ask(query).await?;
    context
        .out
        .print_json(&serde_json::json!({"tickets": rows.items, "next": rows.next}));
    if rows.items.is_empty() {
        let text = if is_filtered {
            "no tickets in this repository; run `countersign run \"…\"` to create one, or list all with --all"
        } else {
            "no tickets; run `countersign run \"…\"` to create one"
        };
        context.out.line(text);
    }
    let table: Vec<Vec<String>> = rows
        .items
        .iter()
        .map(|row| {
            vec![
                row.id.to_string(),
                row.stage.to_string(),
                format!("round {}", row.round),
                format_dollars(row.usd_micros),
                short_title(&row.title),
            ]
        })
        .collect();
    for line in columns(&table) {
        context.out.line(line);
    }
    if let Some(next) = rows.next {
        let all = if is_filtered { "" } else { " --all" };
        context.out.line(format!(
            "\nmore: countersign ticket list{all} --after {next}"
        ));
    }
    Ok(ExitKind::Done)
}

async fn show(id: &str, context: &Context) -> Result<ExitKind, Failure> {
    let stored = context.ask(show_request(id)).await?;
    let mut answer = serde_json::to_value(&stored).unwrap_or_default();
    answer["findings_by_round"] = serde_json::json!(findings_by_round(&stored.ticket));
    let ticket = id.to_owned();
    let forecast = context.ask(ForecastTicket { ticket }).await?;
    answer["forecast"] = serde_json::json!(forecast);
    context.out.print_json(&answer);
    if !context.out.json {
        let ticket = id.to_owned();
        let ArtefactList { data_dir, items } = context.ask(ListArtefacts { ticket }).await?;
        for line in describe(&stored) {
            context.out.print_wrapped(&line, 4);
        }
        if !stored.ticket.stage.is_terminal() {
            for line in claimed::claimed_jobs(id, &stored.ticket, context).await {
                context.out.line(line);
            }
            context.out.line(format!("\n{}", forecast.describe()));
        }
        if !items.is_empty() {
            context.out.line("\nartefacts");
        }
        for ArtefactEntry { artefact, .. } in items {
            let path = data_dir.join(&artefact.path);
            context.out.line(format!(
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

/// Names the pull request of a ticket, with its state on the forge.
pub fn pull_request(ticket: &Ticket) -> Option<String> {
    let change = ticket.change.as_ref()?;
    let draft = if change.draft { ", draft" } else { "" };
    let url = findings::one_line(&change.url);
    Some(format!(
        "pull request {} ({}{draft}) {url}",
        change.number,
        change.phase.as_str()
    ))
}

/// Renders a ticket as text.
pub fn describe(stored: &Stored) -> Vec<String> {
    let ticket = &stored.ticket;
    let mut lines = vec![format!("{}: {}", ticket.id, ticket.spec.title)];
    let waits = ticket.describe_wait();
    let waits = if waits.is_empty() {
        String::new()
    } else {
        format!(", waits {waits}")
    };
    lines.push(format!("  {}{waits}", ticket.stage));
    if let Some(reason) = ticket.open_rework() {
        let why = describe_rework_reason(ticket, reason);
        lines.push(format!("  sent back to the builder: {why}"));
    }
    if let Some(submission) = &ticket.submission {
        lines.push(format!(
            "  commit {} on {} ({})",
            short_commit(&submission.commit),
            submission.branch,
            count_noun(submission.files.len(), "file")
        ));
    }
    if let Some(approval) = &ticket.approval {
        lines.push(format!(
            "  {} (policy {})",
            describe_approval(ticket).unwrap_or_default(),
            approval.policy
        ));
    }
    lines.extend(pull_request(ticket).map(|line| format!("  {line}")));
    if let Some(escalation) = &ticket.escalation {
        lines.push(format!("  {}", describe_reason(&escalation.reason)));
        let evidence = findings::clean(&describe_evidence(ticket));
        lines.extend(evidence.lines().map(|line| format!("  | {line}")));
        lines.push(format!(
            "  resolve it: countersign escalation show {}",
            ticket.id
        ));
    }
    if ticket.escalation.is_none() && !ticket.stage.is_terminal() {
        let output = findings::clean(&red_check_ends(ticket).join("\n"));
        lines.extend(output.lines().map(|line| format!("  | {line}")));
    }
    if let Some(why) = &ticket.ended {
        lines.push(format!("  {why}"));
    }
    let spent = ticket.spent.ticket;
    lines.push(format!(
        "  spent {}, {} tokens, {} s",
        spent.describe_cost(&ticket.unpriced),
        spent.tokens,
        spent.wall_ms / 1000
    ));
    lines.extend(rounds(ticket));
    lines.extend(ledger(ticket));
    lines.extend(findings_by_round_lines(ticket));
    lines
}

/// Returns the findings of each round, for programs.
pub fn findings_by_round(ticket: &Ticket) -> Vec<RoundFindings> {
    let last = ticket.rounds.last().map_or(0, |round| round.number);
    ticket.ledger.findings_by_round(last)
}

/// Renders the table of findings by round.
pub fn findings_by_round_lines(ticket: &Ticket) -> Vec<String> {
    let lines = findings_by_round(ticket);
    if ticket.ledger.entries.is_empty() || lines.is_empty() {
        return Vec::new();
    }
    // Columns without any value are left out, except the first four.
    let has_value =
        |column: &usize| *column < 4 || lines.iter().any(|line| line.cells()[*column] > 0);
    let columns_shown: Vec<usize> = (0..RoundFindings::COLUMNS.len())
        .filter(has_value)
        .collect();
    let row = |cells: &[String]| {
        let mut row: Vec<String> = columns_shown
            .iter()
            .map(|column| cells[*column].clone())
            .collect();
        row[0].insert_str(0, "  ");
        row
    };
    let head = row(&RoundFindings::COLUMNS.map(str::to_owned));
    let rows = lines
        .iter()
        .map(|line| row(&line.cells().map(|n| n.to_string())));
    let table: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    std::iter::once("\nfindings by round".to_owned())
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
            let why = if round.verdict.approved {
                String::new()
            } else {
                describe_rejection(ticket, round)
            };
            vec![
                format!("  round {}", round.number),
                short_commit(&round.commit).to_owned(),
                verdict.to_owned(),
                why,
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
                entry.location(),
                entry.finding.title.clone(),
            ]
        })
        .collect();
    std::iter::once("\nfindings".to_owned())
        .chain(columns(&table))
        .collect()
}
