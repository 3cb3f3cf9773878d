//! `countersign log --transcript`: prints the transcripts of agent runs.

use engine::run_records::RunEnd;
use flow::narrate::Mood;
use flow::usage::format_dollars;

use super::Context;
use super::out::{Out, print_raw};
use app::failure::{ExitKind, Failure};
use app::operations::parse_ticket_id;
use app::operations::transcripts::{
    self, Transcript, TranscriptLine, TranscriptLineKind, TranscriptQuery,
};

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum TranscriptRole {
    Build,
    Review,
    Verify,
    Check,
}

impl TranscriptRole {
    fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Review => "review",
            Self::Verify => "verify",
            Self::Check => "check",
        }
    }
}

pub async fn perform(
    ticket: Option<&str>,
    round: Option<u32>,
    role: Option<TranscriptRole>,
    raw: bool,
    context: &Context,
) -> Result<ExitKind, Failure> {
    // Transcripts are files of the machine that ran the agent, so no server is asked.
    let app = context.open_app().await?;
    let query = TranscriptQuery {
        headers_only: false,
        round,
        role: role.map(|role| role.as_str().to_owned()),
        raw,
    };
    let id = ticket.map(parse_ticket_id).transpose()?;
    let found = transcripts::load_transcripts(&app, id.as_ref(), &query).await?;
    context
        .out
        .print_json(&serde_json::json!({"transcripts": found}));
    if found.is_empty() {
        context.out.line("no transcript found");
    }
    for transcript in &found {
        print_transcript(transcript, raw, &context.out);
    }
    Ok(ExitKind::Done)
}

fn print_transcript(transcript: &Transcript, raw: bool, out: &Out) {
    // The JSON answer has been printed as a whole.
    if out.json {
        return;
    }
    if raw {
        for line in &transcript.lines {
            // As the agent wrote it: for other programs, and for a report to the makers of an
            // agent.
            print_raw(&format!("{}\n", line.text));
        }
        return;
    }
    let (round, role, agent) = (transcript.round, &transcript.role, &transcript.agent);
    out.line(out.bold(&format!("round {round}, {role}: {agent}")));
    for line in &transcript.lines {
        out.line(format_transcript_line(line, out));
    }
    if transcript.cut {
        out.line(format!("  … the rest is in {}", transcript.path.display()));
    }
    match &transcript.ended {
        Some(ended) => out.line(out.paint(Mood::Plain, &format!("  {}", format_totals(ended)))),
        // The run goes on, or its worker was killed before it could write the end.
        None if transcript.started.is_some() => out.line("  (no end recorded)"),
        None => {}
    }
    out.line("");
}

fn format_transcript_line(line: &TranscriptLine, out: &Out) -> String {
    let (mark, mood) = match line.kind {
        TranscriptLineKind::Said => ("", None),
        TranscriptLineKind::Tool => ("> ", Some(Mood::Plain)),
        TranscriptLineKind::Output => ("  ", Some(Mood::Plain)),
        TranscriptLineKind::Denied => ("denied: ", Some(Mood::Urgent)),
        TranscriptLineKind::Error => ("error: ", Some(Mood::Bad)),
        TranscriptLineKind::Other => ("", Some(Mood::Plain)),
    };
    // Further lines stay in the column of the first, so that the eye finds the next entry.
    let indent = if line.kind == TranscriptLineKind::Output {
        "\n    "
    } else {
        "\n  "
    };
    let text = format!("  {mark}{}", line.text.trim_end().replace('\n', indent));
    match mood {
        Some(mood) => out.paint(mood, &text),
        None => text,
    }
}

/// Formats the totals of a run; unknown values are left out.
fn format_totals(ended: &RunEnd) -> String {
    let usage = ended.usage;
    let count = |number: Option<u64>, unit: &str| number.map(|number| format!("{number} {unit}"));
    let parts = [
        Some(ended.how.clone()),
        Some(format!("{} s", ended.wall_ms / 1000)),
        ended.model.clone(),
        count(ended.turns, "turns"),
        count(usage.tokens_in, "tokens in"),
        count(
            usage.tokens_cached.filter(|cached| *cached > 0),
            "of them cached",
        ),
        count(usage.tokens_out, "out"),
        usage.usd_micros.map(format_dollars),
        count(
            Some(ended.denials).filter(|denials| *denials > 0),
            "denials",
        ),
        ended
            .session
            .as_ref()
            .map(|session| format!("session {session}")),
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    findings::clean(&known.join(", "))
}
