//! An escalation put to the person at the terminal: the choices as letters, the answer on record.

use std::io::{BufRead, IsTerminal, Write};

use flow::Ticket;
use flow::event::Choice;

use super::Context;
use app::failure::Failure;
use app::operations::{App, escalations};

/// How often an answer may make no sense.
const TRIES_MAX: u32 = 5;

/// Asks, if there is somebody to ask. The settled ticket, or nothing where nobody decided.
pub async fn ask(
    office: &App,
    ticket: &Ticket,
    desktop: &Context,
) -> Result<Option<Ticket>, Failure> {
    let somebody = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if desktop.out.json || !somebody || ticket.escalation.is_none() {
        return Ok(None);
    }
    let stored = office.ticket(ticket.id.as_str()).await?;
    let choices = office.choices(&stored).await?.into_iter();
    let choices: Vec<Choice> = choices
        // Who shall have it instead cannot be said in a letter.
        .filter(|choice| !matches!(choice, Choice::Reassign { .. }))
        .collect();
    desktop.out.line("\nOptions:");
    for (letter, choice) in ('a'..).zip(&choices) {
        desktop.out.line(format!("{letter}) {}", words(choice)));
    }
    let Some(choice) = choose(desktop, &choices)? else {
        return Ok(None);
    };
    let why = if needs_why(&choice) {
        read_line("Why? It is recorded with your name: ")?
    } else {
        String::new()
    };
    let settled = escalations::resolve(office, ticket.id.as_str(), choice, &why).await?;
    Ok(Some(settled))
}

fn words(choice: &Choice) -> &'static str {
    match choice {
        Choice::Accept { .. } => "Accept it despite what is open (waived in your name)",
        Choice::Continue => "Continue: one more round, or the interrupted step again",
        Choice::TakeOver => "Take over: you fix it by hand and resubmit",
        Choice::Reset => "Reset: the count of rounds starts again",
        Choice::Reassign { .. } => "Give it to another builder or reviewer",
        Choice::Reject => "Reject: the ticket has failed",
    }
}

fn needs_why(choice: &Choice) -> bool {
    matches!(choice, Choice::Accept { .. } | Choice::Reject)
}

/// A letter, or nothing: an empty answer decides nothing and loses nothing.
fn choose(desktop: &Context, choices: &[Choice]) -> Result<Option<Choice>, Failure> {
    for _ in 0..TRIES_MAX {
        let answer = read_line("Your choice (Enter to decide later): ")?.to_ascii_lowercase();
        if answer.is_empty() {
            return Ok(None);
        }
        let picked = ('a'..)
            .zip(choices)
            .find(|(letter, _)| answer == letter.to_string());
        if let Some((_, choice)) = picked {
            return Ok(Some(choice.clone()));
        }
        desktop
            .out
            .line(format!("{answer:?} is none of the letters"));
    }
    Ok(None)
}

pub fn read_line(question: &str) -> Result<String, Failure> {
    let lost = |error: std::io::Error| Failure::error(format!("the terminal is gone: {error}"));
    let mut out = std::io::stdout();
    out.write_all(question.as_bytes())
        .and_then(|()| out.flush())
        .map_err(lost)?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(lost)?;
    Ok(answer.trim().to_owned())
}
