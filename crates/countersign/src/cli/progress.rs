//! Live lines of a run: a few for each active ticket, and a bar if the number of tickets is known.
//! Pure: it takes updates and the time, and returns the lines to draw.
//!
//! Purity makes every frame testable, and lets `--progress live` redraw at any time without asking
//! the store.

use std::collections::{BTreeMap, BTreeSet};

use engine::activity::{Activity, ActivityKind};
use engine::coordinator::ProgressUpdate;
use engine::process::ProcessExit;
use flow::narrate::Mood;
use flow::ticket::CheckResult;
use flow::usage::Usage;
use flow::{Stage, Ticket, TicketId, Time};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::paint::{
    Glyphs, bold, dim, format_count, format_elapsed, mood_style, stage_style, truncate_line,
};

/// Silence of an agent after which the line says so.
const SILENCE_MS: i64 = 20_000;
/// Maximum width of the bar.
const BAR_MAX: usize = 24;
const CHECK_BAR_WIDTH: usize = 6;

/// Known state of a run.
#[derive(Clone, Debug, Default)]
pub struct RunProgress {
    began: Time,
    /// Names of the project's checks, in order.
    pub checks: Vec<String>,
    /// Number of tickets of an epic.
    tickets: Option<usize>,
    /// Tickets that have ended.
    ended: BTreeSet<TicketId>,
    lanes: BTreeMap<TicketId, TicketLane>,
    /// Cost of each ticket, including idle ones.
    /// A ticket that waits for a person has no lane, but its cost counts for the epic.
    spent: BTreeMap<TicketId, Usage>,
    stopping: bool,
}

/// Lines of one ticket.
#[derive(Clone, Debug)]
struct TicketLane {
    title: String,
    stage: Stage,
    round: u32,
    spent: Usage,
    checks: BTreeMap<String, CheckMark>,
    /// Running agents, by job and name.
    runs: BTreeMap<(u32, String), RunningAgent>,
}

/// State of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckMark {
    Since(Time),
    Good,
    Bad,
}

/// A running agent.
#[derive(Clone, Debug)]
struct RunningAgent {
    role: &'static str,
    since: Time,
    last: Time,
    detail: String,
    usd_micros: u64,
    tokens: u64,
}

impl RunProgress {
    pub fn new(began: Time) -> Self {
        Self {
            began,
            ..Self::default()
        }
    }

    /// Marks the run as one of an epic, with the tickets that have already ended.
    pub fn expect_tickets(&mut self, tickets: usize, ended: impl IntoIterator<Item = TicketId>) {
        self.tickets = Some(tickets);
        self.ended.extend(ended);
    }

    pub fn stopping(&mut self) {
        self.stopping = true;
    }

    pub fn apply_update(&mut self, update: &ProgressUpdate) {
        let ticket = &update.after;
        self.spent.insert(ticket.id.clone(), ticket.spent.ticket);
        if ticket.stage.is_terminal() {
            self.ended.insert(ticket.id.clone());
        } else {
            self.ended.remove(&ticket.id);
        }
        // Waiting and ended tickets have nothing that moves.
        if ticket.rests() {
            self.lanes.remove(&ticket.id);
            return;
        }
        let lane = self.lanes.remove(&ticket.id);
        self.lanes
            .insert(ticket.id.clone(), update_lane(lane, ticket));
    }

    pub fn apply_activity(&mut self, activity: Activity) {
        // Activity of a ticket that has just ended arrives late and is dropped.
        let Some(lane) = self.lanes.get_mut(&activity.ticket) else {
            return;
        };
        if activity.role == "check" {
            lane.apply_check_activity(activity);
        } else {
            lane.apply_run_activity(activity);
        }
    }

    /// Returns at most `height` lines of at most `width` cells.
    pub fn lines(
        &self,
        width: usize,
        height: usize,
        now: Time,
        glyphs: &Glyphs,
    ) -> Vec<Line<'static>> {
        let spinner = spinner(now, glyphs);
        let mut lines = Vec::new();
        for (id, lane) in &self.lanes {
            lines.push(lane.head(id, self.began, now, spinner));
            lines.extend(lane.checks_line(&self.checks, now, glyphs, spinner));
            lines.extend(
                lane.runs
                    .iter()
                    .map(|((_, name), run)| run.line(name, now, glyphs)),
            );
        }
        let mut foot = Vec::new();
        foot.extend(self.tickets.map(|all| self.bar(all, width, now, glyphs)));
        if self.stopping {
            let text = "stopping at the next safe point; Ctrl-C again stops at once";
            foot.push(Line::styled(text, mood_style(Mood::Urgent)));
        }
        // The foot is never cut: it has the hint how to stop.
        let room = height.saturating_sub(foot.len()).max(1);
        if lines.len() > room {
            let more = lines.len() - room + 1;
            lines.truncate(room - 1);
            lines.push(Line::styled(
                format!("  {} {more} more lines", glyphs.cut),
                dim(),
            ));
        }
        lines.extend(foot);
        lines
            .into_iter()
            .map(|line| truncate_line(line, width, glyphs))
            .collect()
    }

    fn bar(&self, all: usize, width: usize, now: Time, glyphs: &Glyphs) -> Line<'static> {
        let done = self.ended.len();
        let add = |sum: Usage, spent: &Usage| sum.plus(*spent);
        let mut spent = self.spent.values().fold(Usage::default(), add);
        spent.usd_micros += self
            .lanes
            .values()
            .map(TicketLane::running_cost)
            .sum::<u64>();
        let (full, rest) = glyphs.bar(done, all, BAR_MAX.min(width / 3));
        let mut spans = vec![
            Span::styled(full, mood_style(Mood::Good)),
            Span::styled(rest, dim()),
            Span::styled(format!(" {done}/{all} tickets"), bold()),
        ];
        let parts = [
            Some(format!("{} at work", self.lanes.len())),
            Some(format_elapsed(now.0 - self.began.0)),
            (spent.usd_micros > 0).then(|| spent.describe_amount()),
        ];
        for part in parts.into_iter().flatten() {
            spans.push(Span::styled(format!(" {} {part}", glyphs.dot), dim()));
        }
        Line::from(spans)
    }
}

fn update_lane(lane: Option<TicketLane>, ticket: &Ticket) -> TicketLane {
    let spent = ticket.spent.ticket;
    let mut checks = lane
        .as_ref()
        .map(|lane| lane.checks.clone())
        .unwrap_or_default();
    // A new build makes the results of the last commit meaningless.
    if matches!(
        ticket.stage,
        Stage::Queued | Stage::Building | Stage::Rework
    ) {
        checks.clear();
    }
    let results = ticket.checks.iter().flat_map(|checks| &checks.results);
    if !matches!(
        ticket.stage,
        Stage::Queued | Stage::Building | Stage::Rework
    ) {
        checks.extend(results.map(mark));
    }
    TicketLane {
        title: findings::one_line(&ticket.spec.title),
        stage: ticket.stage,
        round: ticket.round,
        spent,
        checks,
        runs: lane.map(|lane| lane.runs).unwrap_or_default(),
    }
}

fn mark(result: &CheckResult) -> (String, CheckMark) {
    let mark = if result.outcome.is_green() {
        CheckMark::Good
    } else {
        CheckMark::Bad
    };
    (result.name.clone(), mark)
}

fn spinner(now: Time, glyphs: &Glyphs) -> &'static str {
    let frames = glyphs.spinner;
    // Eight frames per second, from the time and not from a counter, so that a late frame does not
    // stutter.
    let at = usize::try_from(now.0.max(0) / 125).unwrap_or(0);
    frames.get(at % frames.len().max(1)).copied().unwrap_or("*")
}

impl TicketLane {
    /// Returns the cost of the runs that have not ended.
    fn running_cost(&self) -> u64 {
        self.runs.values().map(|run| run.usd_micros).sum()
    }

    fn tokens(&self) -> u64 {
        self.spent.tokens + self.runs.values().map(|run| run.tokens).sum::<u64>()
    }

    fn apply_check_activity(&mut self, activity: Activity) {
        let mark = match activity.sign {
            // The exit code decides about the mark; the event with the final result follows.
            ActivityKind::Ended if activity.detail == ProcessExit::Code(0).to_string() => {
                CheckMark::Good
            }
            ActivityKind::Ended => CheckMark::Bad,
            ActivityKind::Began
            | ActivityKind::Said
            | ActivityKind::Used
            | ActivityKind::Denied
            | ActivityKind::Spent
            | ActivityKind::Problem => CheckMark::Since(activity.at),
        };
        self.checks.insert(activity.name, mark);
    }

    fn apply_run_activity(&mut self, activity: Activity) {
        let key = (activity.job, activity.name.clone());
        // The run's cost moves into the ticket's sum with its report, so it is not counted twice.
        if activity.sign == ActivityKind::Ended {
            self.runs.remove(&key);
            return;
        }
        let run = self.runs.entry(key).or_insert_with(|| RunningAgent {
            role: activity.role,
            since: activity.at,
            last: activity.at,
            detail: String::new(),
            usd_micros: 0,
            tokens: 0,
        });
        run.record_activity(&activity);
    }

    fn head(&self, id: &TicketId, began: Time, now: Time, spinner: &str) -> Line<'static> {
        let mut spans = vec![
            Span::styled(format!("{spinner} "), stage_style(self.stage)),
            Span::styled(id.to_string(), bold()),
            Span::styled(format!("  {}", self.stage), stage_style(self.stage)),
            Span::raw(format!("  round {}", self.round)),
            Span::styled(format!("  {}", format_elapsed(now.0 - began.0)), dim()),
        ];
        let (mut spent, tokens) = (self.spent, self.tokens());
        spent.usd_micros += self.running_cost();
        if spent.usd_micros > 0 {
            spans.push(Span::raw(format!("  {}", spent.describe_amount())));
        } else if tokens > 0 {
            spans.push(Span::styled(
                format!("  {} tokens", format_count(tokens)),
                dim(),
            ));
        }
        spans.push(Span::styled(format!("  {}", self.title), dim()));
        Line::from(spans)
    }

    /// Returns the line of checks: how many are done, and a mark for each. `None` if nothing is
    /// known.
    fn checks_line(
        &self,
        names: &[String],
        now: Time,
        glyphs: &Glyphs,
        spinner: &'static str,
    ) -> Option<Line<'static>> {
        if self.checks.is_empty() {
            return None;
        }
        let others = self.checks.keys().filter(|name| !names.contains(name));
        let all: Vec<&String> = names.iter().chain(others).collect();
        let ended = self
            .checks
            .values()
            .filter(|mark| !matches!(mark, CheckMark::Since(_)));
        let ended = ended.count();
        let (full, rest) = glyphs.bar(ended, all.len(), CHECK_BAR_WIDTH);
        let mut spans = vec![
            Span::styled("  checks ", dim()),
            Span::styled(full, mood_style(Mood::Good)),
            Span::styled(rest, dim()),
            Span::styled(format!(" {ended}/{}", all.len()), dim()),
        ];
        for name in all {
            let (sign, style, time) = match self.checks.get(name) {
                Some(CheckMark::Good) => (glyphs.good, mood_style(Mood::Good), String::new()),
                Some(CheckMark::Bad) => (glyphs.bad, mood_style(Mood::Bad), String::new()),
                Some(CheckMark::Since(then)) => {
                    let time = format!(" {}", format_elapsed(now.0 - then.0));
                    (spinner, Style::new(), time)
                }
                None => (glyphs.waits, dim(), String::new()),
            };
            spans.push(Span::styled(format!("  {sign} {name}{time}"), style));
        }
        Some(Line::from(spans))
    }
}

impl RunningAgent {
    fn record_activity(&mut self, activity: &Activity) {
        self.last = activity.at;
        let usage = activity.usage;
        self.usd_micros = usage.usd_micros.unwrap_or(self.usd_micros);
        let tokens = usage.tokens_in.unwrap_or(0) + usage.tokens_out.unwrap_or(0);
        // An agent may report a sum or a step. The larger value is never behind.
        self.tokens = self.tokens.max(tokens);
        match activity.sign {
            ActivityKind::Began if activity.detail.is_empty() => {}
            ActivityKind::Spent | ActivityKind::Ended => {}
            ActivityKind::Denied => self.detail = format!("denied: {}", activity.detail),
            ActivityKind::Began
            | ActivityKind::Said
            | ActivityKind::Used
            | ActivityKind::Problem => {
                self.detail.clone_from(&activity.detail);
            }
        }
    }

    fn line(&self, name: &str, now: Time, glyphs: &Glyphs) -> Line<'static> {
        let quiet = now.0 - self.last.0;
        let mut spans = vec![
            Span::styled(format!("  {} ", glyphs.corner_bottom), dim()),
            Span::raw(format!("{} {name}", self.role)),
            Span::styled(format!("  {}", format_elapsed(now.0 - self.since.0)), dim()),
        ];
        if quiet >= SILENCE_MS {
            let text = format!("  silent for {}", format_elapsed(quiet));
            spans.push(Span::styled(text, mood_style(Mood::Urgent)));
        }
        let detail = findings::one_line(&self.detail);
        spans.push(Span::styled(format!("  {detail}"), dim()));
        Line::from(spans)
    }
}

#[cfg(test)]
mod tests;
