//! The output of red checks, in the story of a ticket and in the evidence of an escalation.

use super::{Sentence, plain};
use crate::event::{Event, EventKind};
use crate::ticket::{CheckResult, Reason, Ticket};

/// Most red checks whose output is shown.
const RED_SHOWN_MAX: usize = 3;

/// Shows the last lines of each red check's output, and the likely fix of a red base.
pub fn describe_red_output(event: &Event) -> Vec<Sentence> {
    let (EventKind::BaseRed { results, .. }
    | EventKind::Checked { results, .. }
    | EventKind::CombinationRed { results, .. }) = &event.what
    else {
        return Vec::new();
    };
    let red = results.iter().filter(|result| !result.outcome.is_green());
    let mut lines = Vec::new();
    for result in red.take(RED_SHOWN_MAX) {
        let name = findings::one_line(&result.name);
        let output = result.last_lines().into_iter();
        lines.extend(output.map(|line| format!("{name} | {}", findings::one_line(line))));
    }
    if let EventKind::BaseRed { hint, .. } = &event.what
        && !hint.is_empty()
    {
        lines.push(format!("likely fix: {}", findings::one_line(hint)));
    }
    let to_sentence = |line| plain("check_output", line);
    lines.into_iter().map(to_sentence).collect()
}

/// Returns the evidence of an escalation, with the last lines of the checks that caused it.
pub fn describe_evidence(ticket: &Ticket) -> String {
    let Some(escalation) = &ticket.escalation else {
        return String::new();
    };
    let mut parts = vec![escalation.evidence.clone()];
    // The evidence of this reason only names the checks; their output is with the ticket.
    if matches!(escalation.reason, Reason::RedOnBase { .. }) {
        parts.extend(red_check_ends(ticket));
    }
    parts.join("\n\n")
}

/// Returns the end of the output of each red check on the current commit.
pub fn red_check_ends(ticket: &Ticket) -> Vec<String> {
    let checks = ticket.checks.as_ref();
    let results = checks.map_or(&[][..], |checks| checks.results.as_slice());
    let red = results.iter().filter(|result| !result.outcome.is_green());
    red.map(CheckResult::describe_end).collect()
}
