//! `countersign inbox`: messages of agents to people.

use serde_json::json;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::questions::messages::{ListMessages, MarkMessageRead};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Mark the listed messages as read.
    #[arg(long)]
    clear: bool,
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let messages = context.ask(ListMessages {}).await?.items;
    let out = &context.out;
    if messages.is_empty() {
        out.line("no unread messages");
    }
    for message in &messages {
        let ticket = message.ticket.as_deref().map(|id| format!(" on {id}"));
        let ticket = ticket.unwrap_or_default();
        let (id, from, kind) = (message.id, &message.from, &message.kind);
        out.line(format!("{id}  {}  {kind} of {from}{ticket}", message.at));
        for line in findings::clean(&message.content).lines() {
            out.print_wrapped(&format!("    {line}"), 4);
        }
    }
    // After they are shown: a message that could not be printed stays unread.
    out.print_json(&json!({ "messages": messages }));
    if args.clear {
        for message in &messages {
            let message = message.id.to_string();
            context.ask(MarkMessageRead { message }).await?;
        }
    }
    Ok(ExitKind::Done)
}
