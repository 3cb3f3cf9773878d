//! `countersign escalation …`: lists, shows and resolves escalations.

use clap::builder::PossibleValuesParser;
use flow::event::Choice;

use super::out::short_title;
use super::{Context, ticket};
use app::failure::{ExitKind, Failure};
use app::operations::escalations;
use app::operations::questions::decisions::{
    ListEscalations, ResolveEscalation, ResolvedEscalation, ShowEscalation,
};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List this repository's tickets that wait for a person.
    List {
        /// Tickets of all repositories, not only of this one.
        #[arg(long)]
        all: bool,
    },
    /// Show an escalation: its reason, the open findings and the possible decisions.
    Show {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
    },
    /// Resolve an escalation. Your name and your reason are recorded.
    #[command(after_help = CHOICES)]
    Resolve {
        /// Id of the ticket; its beginning is enough.
        ticket: String,
        /// Decision: accept, continue, take-over, reset, reassign or reject.
        #[arg(value_parser = PossibleValuesParser::new(Choice::WORDS))]
        choice: String,
        /// Reason; required for accept and reject.
        #[arg(long, default_value = "")]
        why: String,
        /// Accept even if checks are not green.
        #[arg(long)]
        over_red_checks: bool,
        /// With reassign: the new builder.
        #[arg(long, value_name = "AGENT")]
        builder: Option<String>,
        /// With reassign: the new reviewer.
        #[arg(long, value_name = "AGENT")]
        reviewer: Option<String>,
    },
}

impl Verb {
    pub fn ticket_ids(&mut self) -> Vec<&mut String> {
        match self {
            Self::Show { ticket } | Self::Resolve { ticket, .. } => vec![ticket],
            Self::List { .. } => Vec::new(),
        }
    }
}

const CHOICES: &str = "\
accept     done despite open findings; every open must-fix finding is waived in your name
continue   one more round, or retry the interrupted step
take-over  you fix it by hand and resubmit; until then the ticket is blocked
reset      restart the count of rounds
reassign   assign another builder or reviewer
reject     the ticket fails";

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List { all } => list(all, context).await,
        Verb::Show { ticket } => show(&ticket, context).await,
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
            resolve(decision, context).await
        }
    }
}

async fn list(all: bool, context: &Context) -> Result<ExitKind, Failure> {
    let repository = if all {
        None
    } else {
        context.repository().await
    };
    let is_here = repository.is_some();
    let query = ListEscalations {
        repository,
        ..ListEscalations::default()
    };
    let waiting = context.ask(query).await?;
    context
        .out
        .print_json(&serde_json::json!({"escalations": waiting.items, "next": waiting.next}));
    if waiting.items.is_empty() {
        context.out.line(if is_here {
            "no ticket of this repository waits for a person; list all with --all"
        } else {
            "no ticket waits for a person"
        });
    }
    for escalation in waiting.items {
        let title = short_title(&escalation.title);
        let reason = findings::one_line(&escalation.reason);
        context
            .out
            .line(format!("{}  {title}  {reason}", escalation.id));
        let show = format!("    countersign escalation show {}", escalation.id);
        context.out.line(context.pasteable(&show));
    }
    Ok(ExitKind::Done)
}

async fn show(id: &str, context: &Context) -> Result<ExitKind, Failure> {
    let stored = context.ask(ticket::show_request(id)).await?;
    if stored.ticket.escalation.is_none() {
        return Err(Failure::usage(format!(
            "{id} is {} and needs no decision",
            stored.ticket.stage
        ))
        .hint(format!("countersign ticket show {id}")));
    }
    let ticket = id.to_owned();
    let waiting = context.ask(ShowEscalation { ticket }).await?;
    let by_round = ticket::findings_by_round(&stored.ticket);
    context.out.print_json(&serde_json::json!({"escalation": waiting, "evidence": waiting.evidence, "ticket": stored, "findings_by_round": by_round}));
    for line in explain(&stored.ticket, &waiting) {
        context.out.print_wrapped(&context.pasteable(&line), 4);
    }
    Ok(ExitKind::Done)
}

/// Renders the evidence and the possible decisions.
pub fn explain(ticket: &flow::Ticket, waiting: &escalations::PendingEscalation) -> Vec<String> {
    let mut lines = vec![
        format!("{}: {}", waiting.id, waiting.title),
        format!("  {}", waiting.reason),
    ];
    lines.extend(
        findings::clean(&waiting.evidence)
            .lines()
            .map(|line| format!("  | {line}")),
    );
    lines.extend(ticket::rounds(ticket));
    lines.extend(ticket::ledger(ticket));
    lines.extend(ticket::findings_by_round_lines(ticket));
    // Earlier rounds in their own words: the list above has only the newest words of a finding.
    let earlier = waiting.feedback.len().saturating_sub(1);
    for round in waiting.feedback.iter().take(earlier) {
        let text = flow::export::feedback_text(round);
        lines.extend(text.trim_end().lines().map(|line| format!("  {line}")));
    }
    let [critical, important, minor] = ticket.ledger.open_counts();
    lines.push(format!(
        "open: {critical} critical, {important} important, {minor} minor"
    ));
    if let Some(document) = &waiting.document {
        lines.push(format!("findings document: {}", document.display()));
    }
    lines.push("\ndecide".to_owned());
    for choice in &waiting.choices {
        let needed = match *choice {
            "accept" if waiting.accept_needs_flag => {
                " --over-red-checks --why \"…\"   (its checks are not green)"
            }
            "reassign" if flow::role_to_reassign(ticket) == flow::Role::Builder => {
                " --builder \"…\""
            }
            "accept" | "reject" => " --why \"…\"",
            "reassign" => " --reviewer \"…\"",
            _ => "",
        };
        lines.push(format!(
            "  countersign escalation resolve {} {choice}{needed}",
            waiting.id
        ));
    }
    lines
}

async fn resolve(decision: ResolveEscalation, context: &Context) -> Result<ExitKind, Failure> {
    let (id, word) = (decision.ticket.clone(), decision.choice.clone());
    let ResolvedEscalation { summary, by } = context.ask(decision).await?;
    let stage = summary.stage;
    context
        .out
        .print_json(&serde_json::json!({"id": id, "choice": word, "stage": stage}));
    context
        .out
        .line(format!("{id} is {stage} ({word}, by {by})"));
    if !stage.is_terminal() && !summary.needs_person {
        context.out.line(context.next_for(id.as_str()));
    }
    Ok(ExitKind::Done)
}
