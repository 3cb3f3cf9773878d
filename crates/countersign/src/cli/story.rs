//! A run, told while it happens: live on a terminal, in plain lines, or in JSON lines for programs.

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
use super::out::{JSON_VERSION, Out, escaped_json, size};
use super::progress::RunProgress;
use app::operations::App;

/// How often the changing lines are drawn anew.
const TICK: Duration = Duration::from_millis(125);

/// How a run is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressFormat {
    /// Live on a terminal, else plain.
    #[default]
    Auto,
    /// Lines that change while the work goes on.
    Live,
    /// One line for each thing that happens.
    Plain,
    /// One JSON object for each thing that happens, the answer last; implies --json.
    Json,
}

impl ProgressFormat {
    /// What it comes to here. Where only the answer is wanted, nothing is told.
    fn settled(self, out: &Out) -> Option<Self> {
        let can_move = std::io::stdout().is_terminal() && out.terminal.moves;
        match self {
            Self::Auto | Self::Live | Self::Plain if out.json => None,
            Self::Auto if can_move => Some(Self::Live),
            Self::Auto => Some(Self::Plain),
            Self::Live if !can_move => Some(Self::Plain),
            told => Some(told),
        }
    }
}

/// How many tickets a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketCount {
    One,
    Several,
}

/// Tells of the run until it is dropped.
#[derive(Debug)]
pub struct ProgressReporter {
    live: Option<Arc<LiveReporter>>,
    ticking: Option<JoinHandle<()>>,
}

/// Lets the office's work be heard from now on. Where there is one ticket, only others are named.
pub fn tell(
    office: &mut App,
    form: ProgressFormat,
    tickets: TicketCount,
    out: &Out,
) -> ProgressReporter {
    let mut telling = ProgressReporter {
        live: None,
        ticking: None,
    };
    let listener: Option<Arc<dyn ProgressListener>> = match form.settled(out) {
        None => None,
        Some(ProgressFormat::Json) => Some(Arc::new(JsonReporter)),
        Some(ProgressFormat::Live) => {
            let live = Arc::new(LiveReporter::new(out.clone(), office.clock(), tickets));
            telling.live = Some(live.clone());
            Some(live)
        }
        Some(ProgressFormat::Auto | ProgressFormat::Plain) => Some(Arc::new(PlainReporter {
            out: out.clone(),
            names: TicketNames::new(tickets),
        })),
    };
    office.report_to(listener);
    telling
}

impl ProgressReporter {
    /// The work begins: what is known of it beforehand.
    pub fn begin(&mut self, know: impl FnOnce(&mut RunProgress)) {
        let Some(live) = self.live.clone() else {
            return;
        };
        know(&mut live.progress());
        live.at_work.store(true, Ordering::Release);
        self.ticking = Some(tokio::spawn(async move {
            let mut tick = tokio::time::interval(TICK);
            loop {
                tick.tick().await;
                live.draw("");
            }
        }));
    }

    /// The person asked once to stop.
    pub fn stopping(&self, out: &Out) {
        match &self.live {
            Some(live) => {
                live.progress().stopping();
                live.draw("");
            }
            None => out.line("stopping at the next safe point; Ctrl-C again stops at once"),
        }
    }

    /// The work rests: the changing lines go, so that the end can be told.
    pub fn rest(&mut self) {
        if let Some(ticking) = self.ticking.take() {
            ticking.abort();
        }
        if let Some(live) = &self.live {
            live.at_work.store(false, Ordering::Release);
            live.region().clear();
        }
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.rest();
    }
}

/// Which tickets are named: all, or all but the first that is told of.
#[derive(Debug)]
struct TicketNames {
    ours: Option<OnceLock<TicketId>>,
}

impl TicketNames {
    fn new(tickets: TicketCount) -> Self {
        let ours = (tickets == TicketCount::One).then(OnceLock::new);
        Self { ours }
    }

    fn of(&self, ticket: &TicketId) -> String {
        let ours = self.ours.as_ref();
        if ours.is_some_and(|ours| ours.get_or_init(|| ticket.clone()) == ticket) {
            String::new()
        } else {
            format!("{ticket}: ")
        }
    }
}

/// One line for each sentence.
#[derive(Debug)]
struct PlainReporter {
    out: Out,
    names: TicketNames,
}

impl ProgressListener for PlainReporter {
    fn notice(&self, text: &str) {
        self.out
            .line(self.out.paint(Mood::Bad, &findings::clean(text)));
    }

    fn hear(&self, told: ProgressUpdate) {
        let name = self.names.of(&told.ticket);
        for sentence in told.story {
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
    fn notice(&self, text: &str) {
        let line = json!({
            "version": JSON_VERSION, "progress": "notice", "text": findings::clean(text),
        });
        super::out::raw(&format!("{}\n", escaped_json(&line)));
    }

    fn hear(&self, told: ProgressUpdate) {
        let after = &told.after;
        for sentence in &told.story {
            super::out::raw(&format!(
                "{}\n",
                escaped_json(&json!({
                    "version": JSON_VERSION, "progress": sentence.activity, "at": after.updated_at,
                    "ticket": told.ticket, "stage": after.stage, "round": after.round,
                    "spent": after.spent.ticket, "text": findings::clean(&sentence.text),
                }))
            ));
        }
    }

    fn see(&self, seen: Activity) {
        super::out::raw(&format!(
            "{}\n",
            escaped_json(&json!({
                "version": JSON_VERSION, "progress": word(seen.sign), "at": seen.at,
                "ticket": seen.ticket, "round": seen.round, "job": seen.job, "role": seen.role,
                "name": seen.name, "usage": seen.usage, "text": seen.detail,
            }))
        ));
    }
}

fn word(sign: ActivityKind) -> &'static str {
    match sign {
        ActivityKind::Began => "run_began",
        ActivityKind::Said => "run_said",
        ActivityKind::Used => "run_used",
        ActivityKind::Denied => "run_denied",
        ActivityKind::Spent => "run_spent",
        ActivityKind::Troubled => "run_troubled",
        ActivityKind::Ended => "run_ended",
    }
}

/// The sentences stay; below them the tickets at work. Two locks, because whoever brings a sign of
/// life must never wait for a terminal that has been halted.
#[derive(Debug)]
struct LiveReporter {
    out: Out,
    clock: fn() -> Time,
    names: TicketNames,
    progress: Mutex<RunProgress>,
    region: Mutex<LiveRegion>,
    /// Before and after the work others print too, and nothing changes below them.
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

    /// The last column stays free: some terminals fold a line that fills it. Half of the screen
    /// stays for what has happened.
    fn lines(&self) -> Vec<Line<'static>> {
        let (width, height) = size();
        let (width, height) = (width.saturating_sub(1), (height / 2).max(1));
        let now = (self.clock)();
        self.progress()
            .lines(width, height, now, &self.out.glyphs())
    }
}

impl ProgressListener for LiveReporter {
    fn notice(&self, text: &str) {
        let text = findings::one_line(text);
        let lines = self.out.broken(&text, 2);
        let above = lines.iter().fold(String::new(), |above, line| {
            format!("{above}{}\r\n", self.out.paint(Mood::Bad, line))
        });
        self.draw(&above);
    }

    fn hear(&self, told: ProgressUpdate) {
        self.progress().hear(&told);
        let name = self.names.of(&told.ticket);
        let mut above = String::new();
        // Who works on what is in the changing lines.
        let kept = told.story.iter().filter(|told| told.activity != "started");
        for sentence in kept {
            let text = format!("{name}{}", findings::one_line(&sentence.text));
            for line in self.out.broken(&text, 2) {
                let line = self.out.paint(sentence.mood, &line);
                let _ = write!(above, "{line}\r\n");
            }
        }
        self.draw(&above);
    }

    fn see(&self, activity: Activity) {
        self.progress().see(activity);
    }
}
