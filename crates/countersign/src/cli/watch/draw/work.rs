//! Draws the running work with its leases, waiting jobs and pauses.

use flow::Time;
use flow::narrate::Mood;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::Theme;
use crate::cli::paint::{bold, dim, format_elapsed, mood_style, truncate};
use crate::cli::watch::model::{View, ViewScreen};
use app::operations::PauseScope;
use app::operations::overview::ActiveLease;

/// Renders the leases, the jobs that wait for a worker, and the pauses.
pub fn work_lines(view: &View, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let overview = &view.overview;
    let queues: Vec<String> = overview
        .ready
        .iter()
        .map(|(queue, count)| format!("{count} {queue}"))
        .collect();
    let queued = if queues.is_empty() {
        "no job waits for a worker".to_owned()
    } else {
        format!("waiting for a worker: {}", queues.join(", "))
    };
    let mut lines = Vec::new();
    for pause in &overview.pauses {
        let (kind, name) = match &pause.scope {
            PauseScope::Agent(name) => ("agent", name),
            PauseScope::Queue(name) => ("queue", name),
            PauseScope::Provider(name) => ("provider", name),
        };
        let until = pause
            .until
            .map(|until| format!(" for {}", format_elapsed(until.0 - view.now.0)));
        let text = format!(
            "  paused: {kind} {}{}  {}",
            findings::one_line(name),
            until.unwrap_or_default(),
            findings::one_line(&pause.why)
        );
        lines.push(Line::styled(text, mood_style(Mood::Urgent)));
    }
    if overview.leases.is_empty() {
        lines.push(Line::styled("  no agent is working", dim()));
    }
    lines.extend(
        overview
            .leases
            .iter()
            .map(|lease| lease_line(lease, width, view.now, theme)),
    );
    lines.push(Line::styled(format!("  {queued}"), dim()));
    let stages = overview.tally.iter();
    let stages: Vec<String> = stages
        .map(|(stage, count)| format!("{count} {stage}"))
        .collect();
    if view.screen == ViewScreen::Work && !stages.is_empty() {
        let text = format!("  tickets: {}", stages.join(", "));
        lines.push(Line::styled(text, dim()));
    }
    lines
}

fn lease_line(lease: &ActiveLease, width: usize, now: Time, theme: &Theme) -> Line<'static> {
    let id = lease
        .ticket
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let room = (width / 3).clamp(6, 28);
    let left = lease.until.map(|until| until.0 - now.0);
    let (style, left) = match left {
        Some(left) if left < 0 => (mood_style(Mood::Bad), "lease lost".to_owned()),
        Some(left) => (dim(), format!("lease {}", format_elapsed(left))),
        None => (dim(), String::new()),
    };
    let retry = if lease.attempts > 0 {
        format!("  try {}", lease.attempts + 1)
    } else {
        String::new()
    };
    Line::from(vec![
        Span::styled(format!("  {:7}", lease.kind), Style::new().fg(Color::Cyan)),
        Span::styled(
            format!(" {:room$}", truncate(&id, room, &theme.glyphs)),
            bold(),
        ),
        Span::raw(format!("  {}", findings::one_line(&lease.holder))),
        Span::styled(format!("  {left}"), style),
        Span::styled(retry, mood_style(Mood::Urgent)),
    ])
}
