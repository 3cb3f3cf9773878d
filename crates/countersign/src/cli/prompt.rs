//! Asks the user at the terminal to resolve an escalation, and records the decision.

use std::io::{BufRead, IsTerminal, Write};

use flow::Ticket;
use flow::event::Choice;

use super::Context;
use super::signals::StopRequests;
use app::failure::{ExitKind, Failure};
use app::operations::{App, escalations};

/// Number of invalid answers before the prompt gives up.
const TRIES_MAX: u32 = 5;

/// Asks for a decision if there is a terminal. Returns the resolved ticket, or `None` if the user
/// did not decide.
pub async fn ask_decision(
    app: &App,
    ticket: &Ticket,
    context: &Context,
) -> Result<Option<Ticket>, Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if context.out.json || !is_terminal || ticket.escalation.is_none() {
        return Ok(None);
    }
    let stored = app.ticket(ticket.id.as_str()).await?;
    let choices = app.choices(&stored).await?.into_iter();
    let choices: Vec<Choice> = choices
        // A new agent cannot be named with a single letter.
        .filter(|choice| !matches!(choice, Choice::Reassign { .. }))
        // To land red checks takes the flag, typed in full.
        .filter(|choice| !is_over_red_checks(choice))
        .collect();
    for line in blocked_lines(app, &stored.ticket) {
        context.out.line(line);
    }
    context.out.line("\nOptions:");
    let mut lines: Vec<String> = choices
        .iter()
        .map(|choice| format!("{}) {}", letter(choice), choice_words(choice)))
        .collect();
    lines.sort();
    for line in lines {
        context.out.line(line);
    }
    let Some(choice) = choose(context, &choices).await? else {
        return Ok(None);
    };
    let why = if needs_why(&choice) {
        ask("Reason (recorded with your name): ").await?
    } else {
        String::new()
    };
    let resolved = escalations::resolve(app, ticket.id.as_str(), choice, &why).await?;
    Ok(Some(resolved))
}

/// Summarizes the open findings and names the document that has them.
fn blocked_lines(app: &App, ticket: &Ticket) -> Vec<String> {
    let [critical, important, minor] = ticket.ledger.open_counts();
    let mut lines = vec![
        format!("\n⚠️ {} Review Blocked", ticket.id),
        String::new(),
        format!("- Critical: {critical}"),
        format!("- Important: {important}"),
        format!("- Minor: {minor}"),
    ];
    if let Some(document) = escalations::findings_document(app, ticket) {
        lines.push(format!("\nFindings document: {}", document.display()));
    }
    lines
}

/// Returns the letter of a choice. Letters are fixed, so that a choice that is not offered does not
/// move the others: a hand that types `a` never accepts by accident.
fn letter(choice: &Choice) -> char {
    match choice {
        Choice::TakeOver => 'a',
        Choice::Accept { .. } => 'b',
        Choice::Continue => 'c',
        Choice::Reset => 'd',
        Choice::Reject => 'e',
        Choice::Reassign { .. } => 'f',
    }
}

fn is_over_red_checks(choice: &Choice) -> bool {
    let Choice::Accept { over_red_checks } = choice else {
        return false;
    };
    *over_red_checks
}

fn choice_words(choice: &Choice) -> &'static str {
    match choice {
        Choice::TakeOver => "Manual review and fix (you take over and resubmit)",
        Choice::Accept { .. } => {
            "Accept findings and mark the ticket approved (not recommended; waived in your name)"
        }
        Choice::Continue => {
            "Continue with 1 more review round (override limit), or retry the interrupted step"
        }
        Choice::Reset => "Reset: restart the count of rounds",
        Choice::Reassign { .. } => "Give it to another builder or reviewer",
        Choice::Reject => "Reject: the ticket fails",
    }
}

fn needs_why(choice: &Choice) -> bool {
    matches!(choice, Choice::Accept { .. } | Choice::Reject)
}

/// Reads a choice by its letter. An empty answer leaves the ticket as it is.
async fn choose(context: &Context, choices: &[Choice]) -> Result<Option<Choice>, Failure> {
    for _ in 0..TRIES_MAX {
        let answer = ask("Your choice (Enter to decide later): ").await?;
        let answer = answer.to_ascii_lowercase();
        if answer.is_empty() {
            return Ok(None);
        }
        let mut offered = choices.iter();
        if let Some(choice) = offered.find(|choice| answer == letter(choice).to_string()) {
            return Ok(Some(choice.clone()));
        }
        context
            .out
            .line(format!("{answer:?} is not one of the letters"));
    }
    Ok(None)
}

/// Asks a question during a run. Ctrl-C leaves it at once, and nothing is decided.
async fn ask(question: &'static str) -> Result<String, Failure> {
    // The run listens for signals already, so Ctrl-C would no longer end the process by itself.
    let mut signals = StopRequests::listen()?;
    let (sender, answer) = tokio::sync::oneshot::channel();
    // A thread of its own: the runtime would wait for one of its threads until a line is typed.
    std::thread::spawn(move || {
        // The receiver is gone after a signal, and then the answer does not matter.
        let _ = sender.send(read_line(question));
    });
    tokio::select! {
        answered = answer => answered.unwrap_or_else(|_| Err(Failure::error("lost the terminal"))),
        () = signals.received() => Err(Failure::new(
            ExitKind::Interrupted,
            "stopped; nothing was decided",
        )
        .hint("decide later with: countersign escalation resolve")),
    }
}

pub fn read_line(question: &str) -> Result<String, Failure> {
    let lost = |error: std::io::Error| Failure::error(format!("lost the terminal: {error}"));
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
