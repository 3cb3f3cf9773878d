//! What an agent said and did in a run, read again from the raw transcript; and a check's output.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use engine::agent::{AgentEvent, known};
use engine::runs::{self, RecordedRun, RunEnd};
use engine::workshop::TicketFiles;
use flow::usage::Caps;
use flow::{TicketId, Time};
use serde::Serialize;

use super::App;
use crate::failure::Failure;

/// How much of one transcript is read.
const READ_MAX: u64 = 16 << 20;

/// Which transcripts are wanted.
#[derive(Clone, Debug, Default)]
pub struct TranscriptQuery {
    pub round: Option<u32>,
    /// build, review, verify or check
    pub role: Option<String>,
    /// The bytes as they are, instead of what they mean.
    pub raw: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Transcript {
    pub role: String,
    pub round: u32,
    pub agent: String,
    pub started: Option<Time>,
    /// What it might use up, where the budget said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Caps>,
    pub path: PathBuf,
    /// The transcript is longer than what is shown.
    pub cut: bool,
    pub lines: Vec<TranscriptLine>,
    /// None for a check, and for a run that goes on or whose end nobody saw.
    pub ended: Option<RunEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TranscriptLine {
    pub kind: TranscriptLineKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptLineKind {
    Said,
    Tool,
    Denied,
    Error,
    /// Not of the agent's format: what it wrote to stderr, or plain text.
    Other,
}

/// The ticket's transcripts, in the order of the work; the newest ticket's, where none is named.
pub async fn of(
    office: &App,
    ticket: Option<&TicketId>,
    wanted: &TranscriptQuery,
) -> Result<Vec<Transcript>, Failure> {
    let data = &office.surroundings.data_dir;
    let id = match ticket {
        // A review without a ticket has its files and is in no store.
        Some(id) if TicketFiles::of(data, id).jobs().is_dir() => id.clone(),
        Some(id) => office.desk.ticket(id).await?.ticket.id,
        None => newest(data).ok_or_else(|| Failure::usage("no agent has run yet"))?,
    };
    let mut found: Vec<Transcript> = runs::of_ticket(&TicketFiles::of(data, &id))
        .into_iter()
        .filter(|found| wants(wanted, &found.run.role, found.run.round))
        .map(|found| of_run(found, wanted.raw))
        .collect();
    for check in office.desk.store.artefacts(&id).await? {
        if check.kind == "check" && wants(wanted, "check", check.round) {
            found.push(of_check(
                &data.join(&check.path),
                check.name,
                check.round,
                wanted.raw,
            ));
        }
    }
    found.sort_by_key(|transcript| (transcript.round, order(&transcript.role)));
    Ok(found)
}

fn wants(wanted: &TranscriptQuery, role: &str, round: u32) -> bool {
    wanted.round.is_none_or(|only| only == round)
        && wanted.role.as_deref().is_none_or(|only| only == role)
}

fn order(role: &str) -> usize {
    let roles = ["build", "check", "review", "verify"];
    roles
        .iter()
        .position(|known| *known == role)
        .unwrap_or(roles.len())
}

/// The ticket whose jobs changed last.
fn newest(data: &Path) -> Option<TicketId> {
    let entries = std::fs::read_dir(data.join("tickets")).ok()?;
    let tickets = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let id = TicketId::new(entry.file_name().to_str()?).ok()?;
        let changed = entry.path().join("jobs").metadata().ok()?.modified().ok()?;
        Some((changed, id))
    });
    tickets
        .max_by_key(|(changed, _)| *changed)
        .map(|(_, id)| id)
}

fn of_run(found: RecordedRun, raw: bool) -> Transcript {
    let (text, cut) = read(&found.transcript);
    let lines = if raw {
        as_it_is(&text)
    } else {
        told(&found.run.format, &text)
    };
    Transcript {
        role: found.run.role,
        round: found.run.round,
        agent: found.run.agent,
        started: Some(found.run.started),
        budget: Some(found.run.budget).filter(|caps| *caps != Caps::default()),
        path: found.transcript,
        cut,
        lines,
        ended: found.run.ended,
    }
}

fn of_check(path: &Path, name: String, round: u32, raw: bool) -> Transcript {
    let (text, cut) = read(path);
    let clean = if raw { text } else { findings::clean(&text) };
    Transcript {
        role: "check".to_owned(),
        round,
        agent: name,
        started: None,
        budget: None,
        path: path.to_owned(),
        cut,
        lines: as_it_is(&clean),
        ended: None,
    }
}

fn read(path: &Path) -> (String, bool) {
    let mut bytes = Vec::new();
    let mut cut = false;
    if let Ok(file) = File::open(path) {
        let longer = file.metadata().is_ok_and(|meta| meta.len() > READ_MAX);
        // What could be read is shown; a transcript that is gone is an empty one.
        cut = file.take(READ_MAX).read_to_end(&mut bytes).is_err() || longer;
    }
    (String::from_utf8_lossy(&bytes).into_owned(), cut)
}

fn as_it_is(text: &str) -> Vec<TranscriptLine> {
    let other = |text: &str| TranscriptLine {
        kind: TranscriptLineKind::Other,
        text: text.to_owned(),
    };
    text.lines().map(other).collect()
}

/// Pieces of one saying are put together, and an answer that repeats it is left out.
fn told(format: &str, text: &str) -> Vec<TranscriptLine> {
    let read = known::reader(format);
    let mut lines: Vec<TranscriptLine> = Vec::new();
    let mut piecewise = false;
    for line in text.lines() {
        let Some(events) = read(line) else {
            push(&mut lines, TranscriptLineKind::Other, line);
            piecewise = false;
            continue;
        };
        for event in events {
            let piece = matches!(event, AgentEvent::Wrote { .. });
            let Some((kind, text)) = meaning(event) else {
                continue;
            };
            match lines.last_mut() {
                Some(last) if piece && piecewise => last.text.push_str(&findings::clean(&text)),
                _ => push(&mut lines, kind, &text),
            }
            piecewise = piece;
        }
    }
    lines
}

fn push(lines: &mut Vec<TranscriptLine>, kind: TranscriptLineKind, text: &str) {
    let text = findings::clean(text);
    let repeats = lines
        .last()
        .is_some_and(|last| last.text.trim() == text.trim());
    if !text.trim().is_empty() && !repeats {
        lines.push(TranscriptLine { kind, text });
    }
}

fn meaning(event: AgentEvent) -> Option<(TranscriptLineKind, String)> {
    match event {
        AgentEvent::Said { text } | AgentEvent::Wrote { text } | AgentEvent::Answered { text } => {
            Some((TranscriptLineKind::Said, text))
        }
        AgentEvent::Used { tool, detail } => {
            Some((TranscriptLineKind::Tool, format!("{tool}: {detail}")))
        }
        AgentEvent::Denied { tool } => Some((TranscriptLineKind::Denied, tool)),
        AgentEvent::Barred { message }
        | AgentEvent::OverBudget { message }
        | AgentEvent::Failed { message } => Some((TranscriptLineKind::Error, message)),
        AgentEvent::OutOfQuota { .. } => {
            Some((TranscriptLineKind::Error, "out of quota".to_owned()))
        }
        AgentEvent::Unconnected { why } => Some((
            TranscriptLineKind::Error,
            format!("without Countersign's tools: {why}"),
        )),
        AgentEvent::Started { .. }
        | AgentEvent::Spent { .. }
        | AgentEvent::Turned { .. }
        | AgentEvent::Finished => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_one_saying_and_control_sequences_are_gone() {
        let text = "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"Hel\",\"delta\":true}\n\
            {\"type\":\"message\",\"role\":\"assistant\",\"content\":\"lo\",\"delta\":true}\n\
            \u{1b}[31mred\u{1b}[0m\n";
        let lines = told("gemini", text);
        let shown: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(shown, ["Hello", "red"]);
    }
}
