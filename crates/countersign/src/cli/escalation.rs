//! `countersign escalation …`

use clap::builder::PossibleValuesParser;
use flow::event::Choice;

use super::{Context, ticket};
use app::failure::{ExitKind, Failure};
use app::operations::escalations;
use app::operations::questions::decisions::{
    ListEscalations, ResolveEscalation, ResolvedEscalation, ShowEscalation,
};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List the tickets that wait for a person.
    List,
    /// Show one: why it waits, what is open, what can be decided.
    Show { ticket: String },
    /// Decide. Your name and your reason are recorded.
    #[command(after_help = CHOICES)]
    Resolve {
        ticket: String,
        /// accept, continue, take-over, reset, reassign or reject.
        #[arg(value_parser = PossibleValuesParser::new(Choice::WORDS))]
        choice: String,
        /// Why; needed to accept and to reject.
        #[arg(long, default_value = "")]
        why: String,
        /// Accept although checks are not green.
        #[arg(long)]
        over_red_checks: bool,
        /// With reassign: the builder that shall have it.
        #[arg(long, value_name = "AGENT")]
        builder: Option<String>,
        /// With reassign: the reviewer that shall have it.
        #[arg(long, value_name = "AGENT")]
        reviewer: Option<String>,
    },
}

const CHOICES: &str = "\
accept     done despite what is open; every open must-fix finding is waived in your name
continue   one more round, or the interrupted step again
take-over  you fix it by hand and resubmit; until then it is blocked
reset      the count of rounds starts again
reassign   another builder or reviewer
reject     the ticket has failed";

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List => list(desktop).await,
        Verb::Show { ticket } => show(&ticket, desktop).await,
        Verb::Resolve {
            ticket,
            choice,
            why,
            over_red_checks,
            builder,
            reviewer,
        } => {
            let decision = ResolveEscalation {
                ticket,
                choice,
                why,
                over_red_checks,
                builder,
                reviewer,
            };
            resolve(decision, desktop).await
        }
    }
}

async fn list(desktop: &Context) -> Result<ExitKind, Failure> {
    let waiting = desktop.ask(ListEscalations::default()).await?;
    desktop
        .out
        .answer(&serde_json::json!({"escalations": waiting.items, "next": waiting.next}));
    if waiting.items.is_empty() {
        desktop.out.line("nobody waits for a person");
    }
    for one in waiting.items {
        desktop
            .out
            .line(format!("{}  {}  {}", one.id, one.title, one.reason));
        desktop
            .out
            .line(format!("    countersign escalation show {}", one.id));
    }
    Ok(ExitKind::Done)
}

async fn show(id: &str, desktop: &Context) -> Result<ExitKind, Failure> {
    let stored = desktop.ask(ticket::of(id)).await?;
    let Some(escalation) = &stored.ticket.escalation else {
        return Err(Failure::usage(format!(
            "{id} is {} and waits for no decision",
            stored.ticket.stage
        ))
        .hint(format!("countersign ticket show {id}")));
    };
    let ticket = id.to_owned();
    let waiting = desktop.ask(ShowEscalation { ticket }).await?;
    let evolution = ticket::evolution_lines(&stored.ticket);
    desktop.out.answer(&serde_json::json!({"escalation": waiting, "evidence": escalation.evidence, "ticket": stored, "evolution": evolution}));
    for line in explain(&stored.ticket, &waiting, &escalation.evidence) {
        desktop.out.told(&line, 4);
    }
    Ok(ExitKind::Done)
}

/// The evidence and the choices, as a person needs them.
pub fn explain(
    ticket: &flow::Ticket,
    waiting: &escalations::PendingEscalation,
    evidence: &str,
) -> Vec<String> {
    let mut lines = vec![
        format!("{}: {}", waiting.id, waiting.title),
        format!("  {}", waiting.reason),
    ];
    lines.extend(
        findings::clean(evidence)
            .lines()
            .map(|line| format!("  | {line}")),
    );
    lines.extend(ticket::rounds(ticket));
    lines.extend(ticket::ledger(ticket));
    lines.extend(ticket::evolution(ticket));
    lines.push("\ndecide".to_owned());
    for choice in &waiting.choices {
        let needs_why = matches!(*choice, "accept" | "reject");
        let why = if needs_why { " --why \"…\"" } else { "" };
        lines.push(format!(
            "  countersign escalation resolve {} {choice}{why}",
            waiting.id
        ));
    }
    lines
}

async fn resolve(decision: ResolveEscalation, desktop: &Context) -> Result<ExitKind, Failure> {
    let (id, word) = (decision.ticket.clone(), decision.choice.clone());
    let ResolvedEscalation { standing, by } = desktop.ask(decision).await?;
    let stage = standing.stage;
    desktop
        .out
        .answer(&serde_json::json!({"id": id, "choice": word, "stage": stage}));
    desktop
        .out
        .line(format!("{id} is {stage} ({word}, by {by})"));
    if !stage.is_terminal() && !standing.needs_person {
        desktop.out.line(format!("next: countersign run {id}"));
    }
    Ok(ExitKind::Done)
}
