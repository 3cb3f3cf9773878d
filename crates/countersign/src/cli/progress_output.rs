//! Reports the progress of a run: live on a terminal, in plain lines, or in JSON lines for
//! programs.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use engine::activity::{Activity, ActivityKind};
use engine::coordinator::{ProgressListener, ProgressUpdate};
use flow::narrate::Mood;
use flow::{TicketId, Time};
use ratatui::text::Line;
use serde_json::json;
use tokio::task::JoinHandle;

use super::live::LiveRegion;
use super::out::{JSON_VERSION, Out, escaped_json, terminal_size};
use super::progress::RunProgress;
use app::operations::App;

/// Interval at which the live lines are redrawn.
const TICK: Duration = Duration::from_millis(125);

/// Format of the progress output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressFormat {
    /// Live on a terminal, else plain.
    #[default]
    Auto,
    /// Lines that update in place.
    Live,
    /// One line per event.
    Plain,
    /// One JSON object per event, the result last; implies --json.
    Json,
}

impl ProgressFormat {
    /// Returns the format that this output supports, or `None` if only the JSON result is printed.
    fn resolve(self, out: &Out) -> Option<Self> {
        let can_move = std::io::stdout().is_terminal() && out.terminal.moves;
        match self {
            Self::Auto | Self::Live | Self::Plain if out.json || out.is_quiet => None,
            Self::Auto if can_move => Some(Self::Live),
            Self::Auto => Some(Self::Plain),
            Self::Live if !can_move => Some(Self::Plain),
            format => Some(format),
        }
    }
}

/// Number of tickets in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketCount {
    One,
    Several,
}

/// Reports progress until it is dropped.
#[derive(Debug)]
pub struct ProgressReporter {
    live: Option<Arc<LiveReporter>>,
    ticker: Option<JoinHandle<()>>,
}

/// Starts to report the app's work. In a run of one ticket, only other tickets are named.
pub fn start_reporting(
    app: &mut App,
    form: ProgressFormat,
    tickets: TicketCount,
    out: &Out,
) -> ProgressReporter {
    let mut reporter = ProgressReporter {
        live: None,
        ticker: None,
    };
    let listener: Option<Arc<dyn ProgressListener>> = match form.resolve(out) {
        None => None,
        Some(ProgressFormat::Json) => Some(Arc::new(JsonReporter)),
        Some(ProgressFormat::Live) => {
            let live = Arc::new(LiveReporter::new(out.clone(), app.clock(), tickets));
            reporter.live = Some(live.clone());
            Some(live)
        }
        Some(ProgressFormat::Auto | ProgressFormat::Plain) => Some(Arc::new(PlainReporter {
            out: out.clone(),
            names: TicketNames::new(tickets),
        })),
    };
    app.report_to(listener);
    reporter
}

impl ProgressReporter {
    /// Starts the live lines; `know` fills in what is known before the work begins.
    pub fn begin(&mut self, know: impl FnOnce(&mut RunProgress)) {
        let Some(live) = self.live.clone() else {
            return;
        };
        know(&mut live.progress());
        live.at_work.store(true, Ordering::Release);
        self.ticker = Some(tokio::spawn(async move {
            let mut tick = tokio::time::interval(TICK);
            loop {
                tick.tick().await;
                live.draw("");
            }
        }));
    }

    /// Shows that the user asked once to stop.
    pub fn stopping(&self, out: &Out) {
        match &self.live {
            Some(live) => {
                live.progress().stopping();
                live.draw("");
            }
            None => out.line("stopping at the next safe point; Ctrl-C again stops at once"),
        }
    }

    /// Removes the live lines, so that the result can be printed.
    pub fn clear(&mut self) {
        if let Some(ticker) = self.ticker.take() {
            ticker.abort();
        }
        if let Some(live) = &self.live {
            live.at_work.store(false, Ordering::Release);
            live.region().clear();
        }
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Decides which tickets are named: all, or all but the first one reported.
#[derive(Debug)]
struct TicketNames {
    ours: Option<OnceLock<TicketId>>,
}

impl TicketNames {
    fn new(tickets: TicketCount) -> Self {
        let ours = (tickets == TicketCount::One).then(OnceLock::new);
        Self { ours }
    }

    fn label(&self, ticket: &TicketId) -> String {
        let ours = self.ours.as_ref();
        if ours.is_some_and(|ours| ours.get_or_init(|| ticket.clone()) == ticket) {
            String::new()
        } else {
            format!("{ticket}: ")
        }
    }
}

/// Prints one line per sentence.
#[derive(Debug)]
struct PlainReporter {
    out: Out,
    names: TicketNames,
}

impl ProgressListener for PlainReporter {
    fn on_notice(&self, text: &str) {
        self.out
            .line(self.out.paint(Mood::Bad, &findings::clean(text)));
    }

    fn on_update(&self, update: ProgressUpdate) {
        let name = self.names.label(&update.ticket);
        for sentence in update.story {
            let text = self
                .out
                .paint(sentence.mood, &findings::clean(&sentence.text));
            self.out.line(format!("{name}{text}"));
        }
    }
}

#[derive(Debug)]
struct JsonReporter;

impl ProgressListener for JsonReporter {
    fn on_notice(&self, text: &str) {
        let line = json!({
            "version": JSON_VERSION, "progress": "notice", "text": findings::clean(text),
        });
        super::out::print_raw(&format!("{}\n", escaped_json(&line)));
    }

    fn on_update(&self, update: ProgressUpdate) {
        let after = &update.after;
        for sentence in &update.story {
            super::out::print_raw(&format!(
                "{}\n",
                escaped_json(&json!({
                    "version": JSON_VERSION, "progress": sentence.activity, "at": after.updated_at,
                    "ticket": update.ticket, "stage": after.stage, "round": after.round,
                    "spent": after.spent.ticket, "text": findings::clean(&sentence.text),
                }))
            ));
        }
    }

    fn on_activity(&self, activity: Activity) {
        super::out::print_raw(&format!(
            "{}\n",
            escaped_json(&json!({
                "version": JSON_VERSION, "progress": activity_word(activity.sign), "at": activity.at,
                "ticket": activity.ticket, "round": activity.round, "job": activity.job, "role": activity.role,
                "name": activity.name, "usage": activity.usage, "text": activity.detail,
            }))
        ));
    }
}

fn activity_word(sign: ActivityKind) -> &'static str {
    match sign {
        ActivityKind::Began => "run_began",
        ActivityKind::Said => "run_said",
        ActivityKind::Used => "run_used",
        ActivityKind::Denied => "run_denied",
        ActivityKind::Spent => "run_spent",
        ActivityKind::Problem => "run_troubled",
        ActivityKind::Ended => "run_ended",
    }
}

/// Prints sentences that stay, and the active tickets below them. It has two locks, because a job
/// that reports activity must never wait for a terminal that is stopped.
#[derive(Debug)]
struct LiveReporter {
    out: Out,
    clock: fn() -> Time,
    names: TicketNames,
    progress: Mutex<RunProgress>,
    region: Mutex<LiveRegion>,
    /// Whether live lines are drawn. Before and after the work, other code prints too.
    at_work: AtomicBool,
}

impl LiveReporter {
    fn new(out: Out, clock: fn() -> Time, tickets: TicketCount) -> Self {
        Self {
            region: Mutex::new(LiveRegion::new(out.terminal.colours)),
            progress: Mutex::new(RunProgress::new(clock())),
            names: TicketNames::new(tickets),
            at_work: AtomicBool::new(false),
            out,
            clock,
        }
    }

    fn progress(&self) -> MutexGuard<'_, RunProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn region(&self) -> MutexGuard<'_, LiveRegion> {
        self.region.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, above: &str) {
        let mut region = self.region();
        let lines = if self.at_work.load(Ordering::Acquire) {
            self.lines()
        } else {
            Vec::new()
        };
        region.draw(above, lines);
    }

    /// Renders the live lines. The last column stays free, because some terminals wrap a line that
    /// fills it. Half of the screen is left for earlier output.
    fn lines(&self) -> Vec<Line<'static>> {
        let (width, height) = terminal_size();
        let (width, height) = (width.saturating_sub(1), (height / 2).max(1));
        let now = (self.clock)();
        self.progress()
            .lines(width, height, now, &self.out.glyphs())
    }
}

impl ProgressListener for LiveReporter {
    fn on_notice(&self, text: &str) {
        let text = findings::one_line(text);
        let lines = self.out.wrap(&text, 2);
        let above = lines.iter().fold(String::new(), |above, line| {
            format!("{above}{}\r\n", self.out.paint(Mood::Bad, line))
        });
        self.draw(&above);
    }

    fn on_update(&self, update: ProgressUpdate) {
        self.progress().apply_update(&update);
        let name = self.names.label(&update.ticket);
        let mut above = String::new();
        // The live lines already show which agent works on what.
        let sentences = update
            .story
            .iter()
            .filter(|sentence| sentence.activity != "started");
        for sentence in sentences {
            let text = format!("{name}{}", findings::one_line(&sentence.text));
            for line in self.out.wrap(&text, 2) {
                let line = self.out.paint(sentence.mood, &line);
                let _ = write!(above, "{line}\r\n");
            }
        }
        self.draw(&above);
    }

    fn on_activity(&self, activity: Activity) {
        self.progress().apply_activity(activity);
    }
}
