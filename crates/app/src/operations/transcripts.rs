//! Reads transcripts: the texts and tool calls of agents from their raw output, and output of
//! checks.
//!
//! A transcript is the raw output of an agent and stays as it was. It is parsed and cleaned only
//! for showing.

mod tool_output;
mod window;

pub use window::{TranscriptTail, TranscriptUpdate, TranscriptWindow, load_window};

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use engine::agent::{AgentEvent, registry};
use engine::project::TicketFiles;
use engine::run_records::{self, RecordedRun, RunEnd};
use flow::usage::Caps;
use flow::{TicketId, Time};
use serde::Serialize;

use super::{App, run_files};
use crate::failure::Failure;

/// Maximum number of bytes of a transcript that are read.
const READ_MAX: u64 = 16 << 20;

/// Filter of transcripts.
#[derive(Clone, Debug, Default)]
pub struct TranscriptQuery {
    pub round: Option<u32>,
    /// Role of the run: build, review, verify or check.
    pub role: Option<String>,
    /// Shows the raw text instead of the parsed events.
    pub raw: bool,
    /// Reads no text: only what there is.
    pub headers_only: bool,
}

/// Transcript of one run or check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Transcript {
    /// Id of the run; `None` for a check.
    #[serde(skip)]
    pub run: Option<String>,
    /// Format of the agent's output.
    #[serde(skip)]
    pub format: String,
    pub role: String,
    pub round: u32,
    pub agent: String,
    pub started: Option<Time>,
    /// Budget of the run, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Caps>,
    pub path: PathBuf,
    /// Size of the file.
    #[serde(skip)]
    pub bytes: u64,
    /// When the file grew last.
    #[serde(skip)]
    pub written_at: Option<Time>,
    /// True if the transcript is longer than the part that is shown.
    pub cut: bool,
    pub lines: Vec<TranscriptLine>,
    /// End of the run; `None` for a check, a run in progress, or one whose end was not recorded.
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
    /// Output of a tool, such as a command; the end of a long one.
    Output,
    Denied,
    Error,
    /// A line that is not in the agent's format: stderr, or plain text.
    Other,
}

/// Loads a ticket's transcripts, in the order of the work. Without a ticket it uses the one that
/// ran last.
pub async fn load_transcripts(
    app: &App,
    ticket: Option<&TicketId>,
    query: &TranscriptQuery,
) -> Result<Vec<Transcript>, Failure> {
    let data = &app.environment.data_dir;
    let id = match ticket {
        // A review without a ticket has files but no entry in the store.
        // Looked up by its files first.
        Some(id) if TicketFiles::new(data, id).jobs_dir().is_dir() => id.clone(),
        Some(id) => app.coordinator.ticket(id).await?.ticket.id,
        None => newest(data).ok_or_else(|| {
            Failure::usage("there is no transcript: no agent has run yet")
                .hint("start a ticket: countersign run \"…\"")
        })?,
    };
    let mut transcripts: Vec<Transcript> =
        run_records::runs_of_ticket(&TicketFiles::new(data, &id))
            .into_iter()
            .filter(|recorded| is_wanted(query, &recorded.run.role, recorded.run.round))
            .map(|recorded| {
                if query.headers_only {
                    run_header(recorded)
                } else {
                    run_transcript(recorded, query.raw)
                }
            })
            .collect();
    for check in app.coordinator.store.artefacts(&id).await? {
        if check.kind == "check" && is_wanted(query, "check", check.round) {
            let path = data.join(&check.path);
            transcripts.push(check_transcript(&path, check.name, check.round, query));
        }
    }
    transcripts.sort_by_key(|transcript| (transcript.round, order(&transcript.role)));
    Ok(transcripts)
}

fn is_wanted(query: &TranscriptQuery, role: &str, round: u32) -> bool {
    query.round.is_none_or(|only| only == round)
        && query.role.as_deref().is_none_or(|only| only == role)
}

fn order(role: &str) -> usize {
    let roles = ["build", "check", "review", "verify"];
    roles
        .iter()
        .position(|known| *known == role)
        .unwrap_or(roles.len())
}

/// Returns the ticket whose jobs directory changed last.
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

fn run_transcript(recorded: RecordedRun, raw: bool) -> Transcript {
    let header = run_header(recorded);
    let (text, cut) = read(&header.path);
    let lines = if raw {
        raw_lines(&text)
    } else {
        parse_lines(&header.format, &text)
    };
    Transcript {
        cut,
        lines,
        ..header
    }
}

/// Describes a run without its turns.
fn run_header(recorded: RecordedRun) -> Transcript {
    let (bytes, written_at) = size_of(&recorded.transcript);
    Transcript {
        bytes,
        written_at,
        run: Some(run_files::run_id(&recorded)),
        format: recorded.run.format,
        role: recorded.run.role,
        round: recorded.run.round,
        agent: recorded.run.agent,
        started: Some(recorded.run.started),
        budget: Some(recorded.run.budget).filter(|caps| *caps != Caps::default()),
        path: recorded.transcript,
        ended: recorded.run.ended,
        ..Transcript::default()
    }
}

/// Returns the size of a file and when it was written last. A missing one is empty.
fn size_of(path: &Path) -> (u64, Option<Time>) {
    let Ok(meta) = path.metadata() else {
        return (0, None);
    };
    let at = meta.modified().ok();
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    (meta.len(), ms.map(Time))
}

fn check_transcript(path: &Path, name: String, round: u32, query: &TranscriptQuery) -> Transcript {
    let (text, cut) = if query.headers_only {
        (String::new(), false)
    } else {
        read(path)
    };
    let clean = if query.raw {
        text
    } else {
        findings::clean(&text)
    };
    let (bytes, written_at) = size_of(path);
    Transcript {
        bytes,
        written_at,
        role: "check".to_owned(),
        round,
        agent: name,
        path: path.to_owned(),
        cut,
        lines: raw_lines(&clean),
        ..Transcript::default()
    }
}

fn read(path: &Path) -> (String, bool) {
    let mut bytes = Vec::new();
    let mut cut = false;
    if let Ok(file) = File::open(path) {
        let longer = file.metadata().is_ok_and(|meta| meta.len() > READ_MAX);
        // A missing transcript counts as empty; a broken one is shown as far as it was read.
        cut = file.take(READ_MAX).read_to_end(&mut bytes).is_err() || longer;
    }
    (String::from_utf8_lossy(&bytes).into_owned(), cut)
}

fn raw_lines(text: &str) -> Vec<TranscriptLine> {
    let other = |text: &str| TranscriptLine {
        kind: TranscriptLineKind::Other,
        text: text.to_owned(),
    };
    text.lines().map(other).collect()
}

/// Parses events of an agent. Pieces of one text are joined, and an answer that repeats it is left
/// out.
fn parse_lines(format: &str, text: &str) -> Vec<TranscriptLine> {
    let mut parser = LineParser::new(format);
    for line in text.lines() {
        parser.read(line);
    }
    parser.take_all()
}

/// Parser of an agent's output that keeps the turns until they are taken.
struct LineParser {
    parse: fn(&str) -> Option<Vec<AgentEvent>>,
    turns: Vec<TranscriptLine>,
    /// True while the last turn comes in pieces.
    in_pieces: bool,
}

impl LineParser {
    fn new(format: &str) -> Self {
        Self {
            parse: registry::transcript_parser(format),
            turns: Vec::new(),
            in_pieces: false,
        }
    }

    fn read(&mut self, line: &str) {
        let line = line.trim_end_matches(['\n', '\r']);
        // A line that the parser does not know may be an error of the CLI, so it is shown.
        let Some(events) = (self.parse)(line) else {
            self.push(TranscriptLineKind::Other, line);
            self.in_pieces = false;
            return;
        };
        for event in events {
            let piece = matches!(event, AgentEvent::SaidPart { .. });
            let Some((kind, text)) = describe_event(event) else {
                continue;
            };
            match self.turns.last_mut() {
                // Models stream single words; each on a line of its own could not be read.
                Some(last) if piece && self.in_pieces => {
                    last.text.push_str(&findings::clean(&text));
                }
                _ => self.push(kind, &text),
            }
            self.in_pieces = piece;
        }
        for output in tool_output::tool_outputs(line) {
            self.push(TranscriptLineKind::Output, &output);
            self.in_pieces = false;
        }
    }

    fn push(&mut self, kind: TranscriptLineKind, text: &str) {
        let text = findings::clean(text);
        // Several CLIs print the last message again as the result.
        let repeats = self
            .turns
            .last()
            .is_some_and(|last| last.text.trim() == text.trim());
        if !text.trim().is_empty() && !repeats {
            self.turns.push(TranscriptLine { kind, text });
        }
    }

    /// Takes all turns but the last one, which may become longer or be repeated.
    fn take_finished(&mut self) -> Vec<TranscriptLine> {
        let last = self.turns.pop();
        let finished = std::mem::take(&mut self.turns);
        self.turns.extend(last);
        finished
    }

    fn take_all(&mut self) -> Vec<TranscriptLine> {
        std::mem::take(&mut self.turns)
    }

    fn last_turn(&self) -> Option<TranscriptLine> {
        self.turns.last().cloned()
    }
}

fn describe_event(event: AgentEvent) -> Option<(TranscriptLineKind, String)> {
    match event {
        AgentEvent::Said { text }
        | AgentEvent::SaidPart { text }
        | AgentEvent::Answered { text } => Some((TranscriptLineKind::Said, text)),
        AgentEvent::ToolUsed { tool, detail } => {
            Some((TranscriptLineKind::Tool, format!("{tool}: {detail}")))
        }
        AgentEvent::Denied { tool } => Some((TranscriptLineKind::Denied, tool)),
        AgentEvent::ActionRequired { message }
        | AgentEvent::OverBudget { message }
        | AgentEvent::Failed { message } => Some((TranscriptLineKind::Error, message)),
        AgentEvent::OutOfQuota { .. } => {
            Some((TranscriptLineKind::Error, "out of quota".to_owned()))
        }
        AgentEvent::McpUnavailable { why } => Some((
            TranscriptLineKind::Error,
            format!("without Countersign's tools: {why}"),
        )),
        AgentEvent::Started { .. }
        | AgentEvent::Spent { .. }
        | AgentEvent::TurnCount { .. }
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
        let lines = parse_lines("gemini", text);
        let shown: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(shown, ["Hello", "red"]);
    }

    #[test]
    fn the_output_of_a_command_stands_below_it() {
        let text = concat!(
            r#"{"type":"item.started","item":{"type":"command_execution","command":"make test","aggregated_output":""}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"type":"command_execution","command":"make test","aggregated_output":"\u001b[31m1 failed"}}"#,
            "\n",
        );
        let lines = parse_lines("codex", text);
        let last = lines.last().unwrap();
        assert_eq!(
            (last.kind, last.text.as_str()),
            (TranscriptLineKind::Output, "1 failed")
        );
    }
}
