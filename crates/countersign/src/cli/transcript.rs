//! `countersign log --transcript`

use engine::runs::RunEnd;
use flow::narrate::Mood;
use flow::usage::dollars;

use super::Context;
use super::out::{Out, raw};
use app::failure::{ExitKind, Failure};
use app::operations::ticket_id;
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
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    let office = desktop.office().await?;
    let wanted = TranscriptQuery {
        round,
        role: role.map(|role| role.as_str().to_owned()),
        raw,
    };
    let id = ticket.map(ticket_id).transpose()?;
    let found = transcripts::of(&office, id.as_ref(), &wanted).await?;
    desktop
        .out
        .answer(&serde_json::json!({"transcripts": found}));
    if found.is_empty() {
        desktop.out.line("no such transcript");
    }
    for transcript in &found {
        show(transcript, raw, &desktop.out);
    }
    Ok(ExitKind::Done)
}

fn show(transcript: &Transcript, as_it_is: bool, out: &Out) {
    if out.json {
        return;
    }
    if as_it_is {
        for line in &transcript.lines {
            raw(&format!("{}\n", line.text));
        }
        return;
    }
    let (round, role, agent) = (transcript.round, &transcript.role, &transcript.agent);
    out.line(out.bold(&format!("round {round}, {role}: {agent}")));
    for line in &transcript.lines {
        out.line(tell(line, out));
    }
    if transcript.cut {
        out.line(format!("  … the rest is in {}", transcript.path.display()));
    }
    match &transcript.ended {
        Some(ended) => out.line(out.paint(Mood::Plain, &format!("  {}", sum(ended)))),
        None if transcript.started.is_some() => out.line("  (its end is not on record)"),
        None => {}
    }
    out.line("");
}

fn tell(line: &TranscriptLine, out: &Out) -> String {
    let (mark, mood) = match line.kind {
        TranscriptLineKind::Said => ("", None),
        TranscriptLineKind::Tool => ("> ", Some(Mood::Plain)),
        TranscriptLineKind::Denied => ("denied: ", Some(Mood::Urgent)),
        TranscriptLineKind::Error => ("error: ", Some(Mood::Bad)),
        TranscriptLineKind::Other => ("", Some(Mood::Plain)),
    };
    let text = format!("  {mark}{}", line.text.trim_end().replace('\n', "\n  "));
    match mood {
        Some(mood) => out.paint(mood, &text),
        None => text,
    }
}

/// What is not told is left out.
fn sum(ended: &RunEnd) -> String {
    let usage = ended.usage;
    let count = |number: Option<u64>, what: &str| number.map(|number| format!("{number} {what}"));
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
        usage.usd_micros.map(dollars),
        count(
            Some(ended.denials).filter(|denials| *denials > 0),
            "denials",
        ),
        ended
            .session
            .as_ref()
            .map(|session| format!("session {session}")),
    ];
    let told: Vec<String> = parts.into_iter().flatten().collect();
    findings::clean(&told.join(", "))
}
