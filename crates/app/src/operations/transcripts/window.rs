//! Bounded reading of long transcripts: the last turns of a run, and then what is added.
//!
//! A transcript may have a hundred thousand lines and grow while it is read. Neither reader holds
//! more than a part of it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use engine::project::TicketFiles;
use engine::run_records::{self, RecordedRun};
use flow::TicketId;

use super::{LineParser, Transcript, TranscriptLine};
use crate::failure::Failure;
use crate::operations::App;
use crate::operations::run_files::{self, RunState};

/// Bytes of a transcript that are looked at for its turns.
const READ_MAX: u64 = 64 << 20;
/// Bytes of one line; the rest of a longer one is left out.
const LINE_MAX: usize = 1 << 20;
/// Bytes that one update of a growing transcript has at most.
const UPDATE_MAX: u64 = 256 << 10;

/// A part of a run's transcript. Its `lines` are the turns from `first` on.
#[derive(Debug)]
pub struct TranscriptWindow {
    pub transcript: Transcript,
    /// Number of turns before the first one that is shown.
    pub first: usize,
    /// Number of turns of the whole transcript.
    pub total: usize,
    /// Position in the file after the last turn, to follow it from there.
    pub end: u64,
}

/// Loads up to `most` turns of a run: from turn `from`, or the last ones. `run` is the id in the
/// list of runs.
pub async fn load_window(
    app: &App,
    ticket: &TicketId,
    run: &str,
    from: Option<usize>,
    most: usize,
) -> Result<Option<TranscriptWindow>, Failure> {
    let Some(recorded) = find_run(app, ticket, run) else {
        return Ok(None);
    };
    let app = app.clone();
    let (ticket, run) = (ticket.clone(), run.to_owned());
    let read = move || read_window(&app, &ticket, &run, recorded, (from, most));
    let window = tokio::task::spawn_blocking(read).await;
    Ok(Some(window.map_err(Failure::error)?))
}

fn find_run(app: &App, ticket: &TicketId, run: &str) -> Option<RecordedRun> {
    let files = TicketFiles::new(&app.environment.data_dir, ticket);
    let runs = run_records::runs_of_ticket(&files).into_iter();
    let is_it = |recorded: &RecordedRun| run_files::run_id(recorded) == run;
    let mut runs = runs.filter(is_it);
    runs.next()
}

fn read_window(
    app: &App,
    ticket: &TicketId,
    run: &str,
    recorded: RecordedRun,
    (from, most): (Option<usize>, usize),
) -> TranscriptWindow {
    let mut transcript = Transcript {
        lines: Vec::new(),
        ..super::run_header(recorded)
    };
    let mut parser = LineParser::new(&transcript.format);
    // Turns that are finished and wanted; the parser may still add to its last one.
    let mut kept: VecDeque<TranscriptLine> = VecDeque::new();
    let (mut dropped, mut total, mut end) = (0, 0, 0);
    let mut keep = |line: TranscriptLine, total: &mut usize| {
        let number = *total;
        *total += 1;
        match from {
            Some(from) if number < from => dropped += 1,
            Some(_) if kept.len() >= most => {}
            Some(_) => kept.push_back(line),
            None => {
                kept.push_back(line);
                if kept.len() > most {
                    kept.pop_front();
                    dropped += 1;
                }
            }
        }
    };
    if let Ok(file) = run_files::open_transcript(app, ticket, run) {
        transcript.cut = file.bytes > READ_MAX;
        let mut reader = BufReader::new(file.file.take(READ_MAX));
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = (&mut reader)
                .take(LINE_MAX as u64)
                .read_until(b'\n', &mut bytes);
            match read {
                Ok(0) | Err(_) => break,
                // A line that is still being written is read when it is whole.
                Ok(_) if bytes.last() != Some(&b'\n') && bytes.len() < LINE_MAX => {
                    if transcript.ended.is_none() {
                        break;
                    }
                }
                Ok(_) => {}
            }
            end += bytes.len() as u64;
            parser.read(&String::from_utf8_lossy(&bytes));
            for line in parser.take_finished() {
                keep(line, &mut total);
            }
        }
    }
    for line in parser.take_all() {
        keep(line, &mut total);
    }
    transcript.lines = kept.into();
    TranscriptWindow {
        transcript,
        first: dropped,
        total,
        end,
    }
}

/// Turns that were added to a transcript.
#[derive(Debug, Default)]
pub struct TranscriptUpdate {
    /// Number of the turn that `lines` begins with, counted from 1.
    pub first: usize,
    /// True if the first of the lines is a longer version of one that was sent before.
    pub replaces_first: bool,
    pub lines: Vec<TranscriptLine>,
    /// True if the run is over and nothing will be added.
    pub has_ended: bool,
}

/// Reader of a transcript that grows.
pub struct TranscriptTail {
    app: App,
    ticket: TicketId,
    run: String,
    parser: LineParser,
    offset: u64,
    /// Turns that were sent.
    sent: usize,
    /// True if the parser's last turn was sent and may become longer.
    has_open_turn: bool,
}

impl std::fmt::Debug for TranscriptTail {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = out.debug_struct("TranscriptTail");
        out.field("run", &self.run).field("offset", &self.offset);
        out.finish_non_exhaustive()
    }
}

impl TranscriptTail {
    /// Follows a run from a position in its file, after `sent` turns. Returns `None` if there is no
    /// such run.
    pub fn new(
        app: &App,
        ticket: &TicketId,
        run: &str,
        (offset, sent): (u64, usize),
    ) -> Option<Self> {
        let recorded = find_run(app, ticket, run)?;
        Some(Self {
            app: app.clone(),
            ticket: ticket.clone(),
            run: run.to_owned(),
            parser: LineParser::new(&recorded.run.format),
            offset,
            sent,
            has_open_turn: false,
        })
    }

    /// Returns the position after the turns that were sent, to continue from there.
    pub fn position(&self) -> (u64, usize) {
        (self.offset, self.sent)
    }

    /// Reads what was added, up to a limit.
    pub async fn read(&mut self) -> Result<TranscriptUpdate, Failure> {
        // Asked before reading: what was written before the end is then read.
        let state = run_files::run_state(&self.app, &self.ticket, &self.run).await?;
        let is_over = state != RunState::Running;
        let bytes = self.read_bytes(is_over)?;
        if bytes.is_empty() {
            return Ok(TranscriptUpdate {
                has_ended: is_over,
                ..TranscriptUpdate::default()
            });
        }
        self.offset += bytes.len() as u64;
        let was_open = std::mem::take(&mut self.has_open_turn);
        let before = self.parser.last_turn().map(|turn| turn.text);
        for line in String::from_utf8_lossy(&bytes).lines() {
            self.parser.read(line);
        }
        let mut lines = self.parser.take_finished();
        if let Some(last) = self.parser.last_turn() {
            lines.push(last);
            self.has_open_turn = true;
        }
        // The open turn was sent: it comes again only if it became longer.
        let is_same = was_open && lines.first().map(|line| &line.text) == before.as_ref();
        let first = self.sent + 1 - usize::from(was_open);
        self.sent = first + lines.len() - 1;
        if is_same {
            lines.remove(0);
        }
        Ok(TranscriptUpdate {
            first: first + usize::from(is_same),
            replaces_first: was_open && !is_same,
            lines,
            has_ended: false,
        })
    }

    /// Reads whole lines, or the rest of a run that is over.
    fn read_bytes(&self, is_over: bool) -> Result<Vec<u8>, Failure> {
        let stored = run_files::open_transcript(&self.app, &self.ticket, &self.run)?;
        let mut bytes = Vec::new();
        if stored.bytes <= self.offset {
            return Ok(bytes);
        }
        let mut file: File = stored.file;
        file.seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.take(UPDATE_MAX).read_to_end(&mut bytes))
            .map_err(|error| Failure::error(format!("cannot read the transcript: {error}")))?;
        let is_full = bytes.len() as u64 >= UPDATE_MAX;
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => bytes.truncate(end + 1),
            // One line that is longer than an update is sent in parts.
            None if is_over || is_full => {}
            None => bytes.clear(),
        }
        Ok(bytes)
    }
}
