//! `countersign log`: prints and follows the event log.

use std::time::Duration;

use flow::TicketId;
use flow::narrate::Mood;

use super::out::Out;
use super::signals::StopRequests;
use super::{Context, transcript};
use app::failure::{ExitKind, Failure};
use app::operations::history::{LogFollower, LogLine};
use app::operations::questions::work::ReadLog;
use app::operations::questions::{format_cursor, parse_cursor};
use app::operations::{App, Cursor, overview, parse_ticket_id};

/// Interval at which `--follow` checks that its output still has a reader.
const READER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags, as people write them")]
pub struct Args {
    /// Only events of this ticket.
    ticket: Option<String>,
    /// Events of all repositories, not only of this one.
    #[arg(long, conflicts_with = "ticket")]
    all: bool,
    /// Only events after this position in the log (`TRANSACTION.SEQUENCE`, as in the JSON output).
    #[arg(long, value_parser = parse_cursor, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// Keep printing new events until Ctrl-C, or until the output is closed.
    #[arg(long, short, conflicts_with = "transcript")]
    follow: bool,
    /// Maximum number of events: the newest, or with --after the first after that position.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Show what the agents said and did instead, for this ticket or the newest one.
    #[arg(long, conflicts_with_all = ["after", "limit"])]
    transcript: bool,
    /// Only runs of this round.
    #[arg(long, value_name = "N", requires = "transcript")]
    round: Option<u32>,
    /// Only runs of this role.
    #[arg(long, requires = "transcript")]
    role: Option<transcript::TranscriptRole>,
    /// Print the raw bytes of the transcript.
    #[arg(long, requires = "transcript")]
    raw: bool,
}

impl Args {
    pub fn ticket_ids(&mut self) -> Vec<&mut String> {
        self.ticket.iter_mut().collect()
    }
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    if args.transcript {
        let ticket = args.ticket.as_deref();
        return transcript::perform(ticket, args.round, args.role, args.raw, context).await;
    }
    if args.follow {
        return follow(args, context).await;
    }
    let query = log_query(&args, context).await;
    let is_filtered = query.repository.is_some();
    let lines = context.ask(query).await?.items;
    context
        .out
        .print_json(&serde_json::json!({"events": lines}));
    if lines.is_empty() {
        context.out.line(if is_filtered {
            "no events in this repository yet; countersign log --all shows every repository"
        } else {
            "no events yet"
        });
    }
    for line in lines.iter().filter(|line| is_shown(line, context)) {
        context.out.line(format_line(line, &context.out));
    }
    Ok(ExitKind::Done)
}

/// Whether a line is for people. Jobs that only notify dependent tickets are shown with --verbose.
fn is_shown(line: &LogLine, context: &Context) -> bool {
    let is_internal = line.event.starts_with("job_") && line.text.ends_with(": tell");
    context.verbose || !is_internal
}

pub fn format_line(line: &LogLine, out: &Out) -> String {
    let time: String = line.at.to_iso().chars().skip(11).take(8).collect();
    let name = line.ticket.as_ref().map(ToString::to_string);
    let text = findings::clean(&line.text);
    let text = match line.mood {
        Mood::Plain => text,
        mood => out.paint(mood, &text),
    };
    format!("{time}  {}  {text}", name.unwrap_or_default())
}

async fn log_query(args: &Args, context: &Context) -> ReadLog {
    let repository = if args.all || args.ticket.is_some() {
        None
    } else {
        context.repository().await
    };
    ReadLog {
        repository,
        ticket: args.ticket.clone(),
        after: args.after.map(format_cursor),
        limit: Some(args.limit),
        wait_secs: None,
    }
}

fn print_lines(lines: &[LogLine], context: &Context) {
    let out = &context.out;
    for line in lines {
        out.print_json(line);
        if is_shown(line, context) {
            out.line(format_line(line, out));
        }
    }
}

/// Prints the newest events, then new ones as they happen: one line or JSON object each.
async fn follow(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let out = &context.out;
    let first = context.ask(log_query(&args, context).await).await?;
    print_lines(&first.items, context);
    let mut after = first.end;
    let mut reader = LogReader::new(&args, context).await?;
    let mut signals = StopRequests::listen()?;
    while out.has_reader() {
        let batch = tokio::select! {
            batch = reader.read_next(after) => batch?,
            () = signals.received() => {
                return Ok(ExitKind::Interrupted);
            }
        };
        print_lines(&batch.0, context);
        after = batch.1;
    }
    Ok(ExitKind::Done)
}

/// Reads the log from a position, from the local store or a server. The local reader keeps the
/// state of what it has printed.
enum LogReader<'a> {
    Local(Box<App>, Option<TicketId>, LogFollower, u32),
    Remote(&'a Context, ReadLog),
}

impl<'a> LogReader<'a> {
    async fn new(args: &Args, context: &'a Context) -> Result<Self, Failure> {
        if context.environment.server.address.is_some() {
            let wait_secs = Some(READER_CHECK_INTERVAL.as_secs());
            let question = ReadLog {
                wait_secs,
                ..log_query(args, context).await
            };
            return Ok(Self::Remote(context, question));
        }
        let ticket = args.ticket.as_deref().map(parse_ticket_id).transpose()?;
        let app = Box::new(context.open_app().await?);
        let repository = log_query(args, context).await.repository;
        let follower = LogFollower::of_repository(repository);
        Ok(Self::Local(app, ticket, follower, args.limit))
    }

    /// Waits for events after the position; returns none after a while.
    async fn read_next(&mut self, after: Cursor) -> Result<(Vec<LogLine>, Cursor), Failure> {
        match self {
            Self::Remote(context, question) => {
                question.after = Some(format_cursor(after));
                let lines = context.ask(question.clone()).await?;
                Ok((lines.items, lines.end))
            }
            Self::Local(app, ticket, follower, limit) => {
                let latest = overview::latest_cursor(app).await?;
                let read = follower.read(app, ticket.as_ref(), after, *limit).await?;
                if read.end.is_none() {
                    overview::wait_for_change(app, latest.max(after), READER_CHECK_INTERVAL).await;
                }
                Ok((read.lines, read.end.unwrap_or(after)))
            }
        }
    }
}
