//! `countersign log`

use super::Desktop;
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
