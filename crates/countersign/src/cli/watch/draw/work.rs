//! Who works on what, under which lease, and what waits.

use flow::Time;
use flow::narrate::Mood;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::Theme;
use crate::cli::paint::{bold, dim, elapsed, fitted, of_mood};
use crate::cli::watch::model::{View, ViewScreen};
use app::operations::PauseScope;
use app::operations::overview::ActiveLease;

/// Who works on what, what waits for a worker, and what is paused.
pub fn work(view: &View, width: usize, look: &Theme) -> Vec<Line<'static>> {
    let overview = &view.overview;
    let queues: Vec<String> = overview
        .ready
        .iter()
        .map(|(queue, count)| format!("{count} {queue}"))
        .collect();
    let queued = if queues.is_empty() {
        "nothing waits for a worker".to_owned()
    } else {
        format!("waiting for a worker: {}", queues.join(", "))
    };
    let mut shown = Vec::new();
    for pause in &overview.pauses {
        let (kind, name) = match &pause.scope {
            PauseScope::Agent(name) => ("agent", name),
            PauseScope::Queue(name) => ("queue", name),
            PauseScope::Provider(name) => ("provider", name),
        };
        let until = pause
            .until
            .map(|until| format!(" for {}", elapsed(until.0 - view.now.0)));
        let text = format!(
            "  paused: {kind} {}{}  {}",
            findings::one_line(name),
            until.unwrap_or_default(),
            findings::one_line(&pause.why)
        );
        shown.push(Line::styled(text, of_mood(Mood::Urgent)));
    }
    if overview.leases.is_empty() {
        shown.push(Line::styled("  nobody is at work", dim()));
    }
    shown.extend(
        overview
            .leases
            .iter()
            .map(|lease| leased(lease, width, view.now, look)),
    );
    shown.push(Line::styled(format!("  {queued}"), dim()));
    let stages = overview.tally.iter();
    let stages: Vec<String> = stages
        .map(|(stage, count)| format!("{count} {stage}"))
        .collect();
    if view.screen == ViewScreen::Work && !stages.is_empty() {
        let text = format!("  tickets: {}", stages.join(", "));
        shown.push(Line::styled(text, dim()));
    }
    shown
}

fn leased(lease: &ActiveLease, width: usize, now: Time, look: &Theme) -> Line<'static> {
    let id = lease
        .ticket
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let room = (width / 3).clamp(6, 28);
    let left = lease.until.map(|until| until.0 - now.0);
    let (style, left) = match left {
        Some(left) if left < 0 => (of_mood(Mood::Bad), "lease lost".to_owned()),
        Some(left) => (dim(), format!("lease {}", elapsed(left))),
        None => (dim(), String::new()),
    };
    let again = if lease.attempts > 0 {
        format!("  try {}", lease.attempts + 1)
    } else {
        String::new()
    };
    Line::from(vec![
        Span::styled(format!("  {:7}", lease.kind), Style::new().fg(Color::Cyan)),
        Span::styled(
            format!(" {:room$}", fitted(&id, room, &look.glyphs)),
            bold(),
        ),
        Span::raw(format!("  {}", findings::one_line(&lease.holder))),
        Span::styled(format!("  {left}"), style),
        Span::styled(again, of_mood(Mood::Urgent)),
    ])
}
