//! `countersign log`

use std::time::Duration;

use flow::TicketId;
use flow::narrate::Mood;

use super::out::Out;
use super::{Context, transcript};
use app::failure::{ExitKind, Failure};
use app::operations::history::{LogFollower, LogLine};
use app::operations::questions::work::ReadLog;
use app::operations::questions::{cursor, cursor_text};
use app::operations::{App, Cursor, overview, ticket_id};

/// How long it may take to see that nobody reads any more.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this ticket's story.
    ticket: Option<String>,
    /// Only what came after this place in the log (`TRANSACTION.SEQUENCE`, as in the JSON answer).
    #[arg(long, value_parser = cursor, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// Go on telling as things happen, until Ctrl-C or until nobody reads.
    #[arg(long, short, conflicts_with = "transcript")]
    follow: bool,
    /// How many events at the most: the newest, or with --after the first after that place.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// What the agents said and did instead: the ticket's runs, or the newest ticket's.
    #[arg(long, conflicts_with_all = ["after", "limit"])]
    transcript: bool,
    /// Only this round's.
    #[arg(long, value_name = "N", requires = "transcript")]
    round: Option<u32>,
    /// Only this role's.
    #[arg(long, requires = "transcript")]
    role: Option<transcript::TranscriptRole>,
    /// The bytes as they came.
    #[arg(long, requires = "transcript")]
    raw: bool,
}

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    if args.transcript {
        let ticket = args.ticket.as_deref();
        return transcript::perform(ticket, args.round, args.role, args.raw, desktop).await;
    }
    if args.follow {
        return follow(args, desktop).await;
    }
    let lines = desktop.ask(asked(&args)).await?.items;
    desktop.out.answer(&serde_json::json!({"events": lines}));
    if lines.is_empty() {
        desktop.out.line("nothing has happened yet");
    }
    for line in &lines {
        desktop.out.line(told(line, &desktop.out));
    }
    Ok(ExitKind::Done)
}

pub fn told(line: &LogLine, out: &Out) -> String {
    let time: String = line.at.iso().chars().skip(11).take(8).collect();
    let name = line.ticket.as_ref().map(ToString::to_string);
    let text = findings::clean(&line.text);
    let text = match line.mood {
        Mood::Plain => text,
        mood => out.paint(mood, &text),
    };
    format!("{time}  {}  {text}", name.unwrap_or_default())
}

fn asked(args: &Args) -> ReadLog {
    ReadLog {
        ticket: args.ticket.clone(),
        after: args.after.map(cursor_text),
        limit: Some(args.limit),
        wait_secs: None,
    }
}

fn tell(lines: &[LogLine], out: &Out) {
    for line in lines {
        out.answer(line);
        out.line(told(line, out));
    }
}

/// The newest, then whatever comes: one line, or one JSON object, for each.
async fn follow(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let out = &desktop.out;
    let first = desktop.ask(asked(&args)).await?;
    tell(&first.items, out);
    let mut after = first.end;
    let mut reader = LogReader::new(&args, desktop).await?;
    while out.is_heard() {
        let read = tokio::select! {
            read = reader.next(after) => read?,
            signal = tokio::signal::ctrl_c() => {
                signal.map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))?;
                return Ok(ExitKind::Interrupted);
            }
        };
        tell(&read.0, out);
        after = read.1;
    }
    Ok(ExitKind::Done)
}

/// Reads on in the log; what it has told of is remembered where the log is at hand.
enum LogReader<'a> {
    Here(Box<App>, Option<TicketId>, LogFollower, u32),
    Afar(&'a Context, ReadLog),
}

impl<'a> LogReader<'a> {
    async fn new(args: &Args, desktop: &'a Context) -> Result<Self, Failure> {
        if desktop.surroundings.server.place.is_some() {
            let wait_secs = Some(LOOK.as_secs());
            let question = ReadLog {
                wait_secs,
                ..asked(args)
            };
            return Ok(Self::Afar(desktop, question));
        }
        let ticket = args.ticket.as_deref().map(ticket_id).transpose()?;
        let office = Box::new(desktop.office().await?);
        Ok(Self::Here(
            office,
            ticket,
            LogFollower::default(),
            args.limit,
        ))
    }

    /// What came after this place, as soon as anything did, or nothing after a while.
    async fn next(&mut self, after: Cursor) -> Result<(Vec<LogLine>, Cursor), Failure> {
        match self {
            Self::Afar(desktop, question) => {
                question.after = Some(cursor_text(after));
                let lines = desktop.ask(question.clone()).await?;
                Ok((lines.items, lines.end))
            }
            Self::Here(office, ticket, follower, most) => {
                let seen = overview::newest(office).await?;
                let read = follower.read(office, ticket.as_ref(), after, *most).await?;
                if read.end.is_none() {
                    overview::changed(office, seen.max(after), LOOK).await;
                }
                Ok((read.lines, read.end.unwrap_or(after)))
            }
        }
    }
}
