//! `countersign log`

use super::{Desktop, transcript};
use crate::failure::{Exit, Failure};
use crate::operations::{Cursor, history, ticket_id};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this ticket's story.
    ticket: Option<String>,
    /// Only what came after this place in the log (`TRANSACTION.SEQUENCE`, as in the JSON answer).
    #[arg(long, value_parser = cursor, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// How many events at the most.
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
    let lines = history::log(
        &office,
        ticket.as_ref(),
        args.after.unwrap_or_default(),
        args.limit,
    )
    .await?;
    desktop.out.answer(&serde_json::json!({"events": lines}));
    if lines.is_empty() {
        desktop.out.line("nothing has happened yet");
    }
    for line in lines {
        let time: String = line.at.iso().chars().skip(11).take(8).collect();
        let name = line
            .ticket
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        desktop.out.line(format!("{time}  {name}  {}", line.text));
    }
    Ok(Exit::Done)
}
