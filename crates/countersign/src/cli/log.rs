//! `countersign log`

use std::time::Duration;

use flow::TicketId;
use flow::narrate::Mood;

use super::out::Out;
use super::{Desktop, transcript};
use crate::failure::{Exit, Failure};
use crate::operations::history::{self, Follower, Line};
use crate::operations::{Cursor, Office, overview, ticket_id};

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
    role: Option<transcript::Role>,
    /// The bytes as they came.
    #[arg(long, requires = "transcript")]
    raw: bool,
}

fn cursor(text: &str) -> Result<Cursor, String> {
    let parse = |part: &str| part.parse::<u64>().map_err(|error| error.to_string());
    let (transaction, sequence) = text.split_once('.').ok_or("a cursor looks like 12.345")?;
    Ok(Cursor {
        transaction: parse(transaction)?,
        sequence: parse(sequence)?,
    })
}

pub async fn perform(args: Args, desktop: &Desktop) -> Result<Exit, Failure> {
    if args.transcript {
        let ticket = args.ticket.as_deref();
        return transcript::perform(ticket, args.round, args.role, args.raw, desktop).await;
    }
    let office = desktop.office().await?;
    let ticket = args.ticket.as_deref().map(ticket_id).transpose()?;
    if let Some(id) = &ticket {
        office.desk.ticket(id).await?;
    }
    if args.follow {
        return follow(&office, ticket.as_ref(), args.after, args.limit, desktop).await;
    }
    let lines = match args.after {
        Some(after) => history::log(&office, ticket.as_ref(), after, args.limit).await?,
        None => history::latest(&office, ticket.as_ref(), args.limit).await?,
    };
    desktop.out.answer(&serde_json::json!({"events": lines}));
    if lines.is_empty() {
        desktop.out.line("nothing has happened yet");
    }
    for line in &lines {
        desktop.out.line(told(line, &desktop.out));
    }
    Ok(Exit::Done)
}

pub fn told(line: &Line, out: &Out) -> String {
    let time: String = line.at.iso().chars().skip(11).take(8).collect();
    let name = line.ticket.as_ref().map(ToString::to_string);
    let text = findings::clean(&line.text);
    let text = match line.mood {
        Mood::Plain => text,
        mood => out.paint(mood, &text),
    };
    format!("{time}  {}  {text}", name.unwrap_or_default())
}

/// The newest, then whatever comes: one line, or one JSON object, for each.
async fn follow(
    office: &Office,
    ticket: Option<&TicketId>,
    after: Option<Cursor>,
    most: u32,
    desktop: &Desktop,
) -> Result<Exit, Failure> {
    let out = &desktop.out;
    let tell = |lines: &[Line]| {
        for line in lines {
            out.answer(line);
            out.line(told(line, out));
        }
    };
    let mut seen = overview::newest(office).await?;
    let mut after = if let Some(after) = after {
        after
    } else {
        let lines = history::latest(office, ticket, most).await?;
        tell(&lines);
        lines.last().map_or(seen, |line| line.cursor)
    };
    let mut follower = Follower::default();
    while out.is_heard() {
        let read = follower.read(office, ticket, after, most).await?;
        tell(&read.lines);
        if let Some(end) = read.end {
            after = end;
            continue;
        }
        tokio::select! {
            () = overview::changed(office, seen, LOOK) => {}
            signal = tokio::signal::ctrl_c() => {
                signal.map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))?;
                return Ok(Exit::Interrupted);
            }
        }
        seen = overview::newest(office).await?;
    }
    Ok(Exit::Done)
}
