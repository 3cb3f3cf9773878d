//! `countersign watch`: the live view of tickets, or one frame of it.
//!
//! Keys, events and loaded data enter one pure model, and its requests are answered outside of it.
//! So a slow store never blocks a key.

mod draw;
mod load;
mod model;
mod terminal;

use std::io::IsTerminal;
use std::time::Duration;

use ratatui::backend::TestBackend;
use ratatui::text::{Line, Span};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Context;
use super::out::terminal_size;
use super::paint::render_line;
use app::failure::{ExitKind, Failure};
use app::operations::App;
use app::operations::overview::{self, TicketGroup};
use draw::{Theme, draw};
use model::{View, ViewEvent, ViewRequest};

/// Fallback poll interval in case a wake-up is lost.
const POLL_FALLBACK: Duration = Duration::from_secs(5);
/// Interval at which the clock on the screen advances.
const TICK: Duration = Duration::from_secs(1);
/// Minimum time between two refreshes, however many events happen.
const REFRESH_MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Concurrent requests to the store.
const FETCHING_MAX: usize = 32;

#[derive(Debug, clap::Args)]
#[command(after_help = KEYS)]
pub struct Args {
    /// Ticket to open first.
    ticket: Option<String>,
    /// Print one frame and exit.
    #[arg(long)]
    once: bool,
    /// Tickets of all repositories, not only of this one.
    #[arg(long)]
    all: bool,
}

impl Args {
    pub fn ticket_ids(&mut self) -> Vec<&mut String> {
        self.ticket.iter_mut().collect()
    }
}

const KEYS: &str = "\
Examples:
  countersign watch             this repository's tickets; q quits, ? shows the keys
  countersign watch T-7         one ticket: its rounds, findings, diff and log
  countersign watch --once      one frame, for scripts

Keys: j k move · Enter open · 1-5 filter tickets · / open by id · w work · s settle an escalation ·
c add a finding · n next finding · [ ] another round · ? all keys · q back or quit";

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    let app = context.open_app().await?;
    let repository = if args.all {
        None
    } else {
        context.repository().await
    };
    let repository = repository.as_deref();
    // Before the terminal is asked: JSON needs none.
    if context.out.json {
        return print_json(&app, repository, context).await;
    }
    let mut view = View {
        person: app.environment.person.clone(),
        now: app.now(),
        ..View::default()
    };
    let mut requests = view.refresh();
    if let Some(id) = &args.ticket {
        // The id is looked up here, so that a typo ends with a message and not with an empty
        // screen.
        requests.extend(view.open(app.ticket(id).await.map(|stored| stored.ticket.id)?));
    }
    let theme = Theme {
        glyphs: context.out.glyphs(),
        colours: context.out.terminal.colours,
    };
    if args.once {
        return print_frame((&app, repository), view, requests, &theme, context).await;
    }
    // Both ends are needed: the screen for drawing, the input for keys.
    if !context.out.terminal.moves || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("watch needs a terminal")
            .hint("one frame: countersign watch --once")
            .hint("new events as they happen: countersign log --follow"));
    }
    run_live((&app, repository), view, requests, &theme).await?;
    Ok(ExitKind::Done)
}

/// Prints the data of a frame as JSON.
async fn print_json(
    app: &App,
    repository: Option<&str>,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let overview_data = overview::load_overview(app, repository).await?;
    let first = (repository, None);
    let page = overview::load_page(app, TicketGroup::All, first, model::list::PAGE).await?;
    let json = serde_json::json!({
        "overview": overview_data, "tickets": page.items, "next": page.next,
    });
    context.out.print_json(&json);
    Ok(ExitKind::Done)
}

/// Loads all requested data, draws one frame and prints it.
async fn print_frame(
    (app, repository): (&App, Option<&str>),
    mut view: View,
    mut requests: Vec<ViewRequest>,
    theme: &Theme,
    context: &Context,
) -> Result<ExitKind, Failure> {
    // Loaded data may lead to further requests; three passes bound that.
    for _ in 0..3 {
        let mut more = Vec::new();
        for request in requests {
            more.extend(view.handle(load::load(app, repository, request).await?));
        }
        requests = more;
    }
    let (width, height) = terminal_size();
    let cells = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let backend = TestBackend::new(cells(width), cells(height));
    let mut screen = ratatui::Terminal::new(backend).map_err(Failure::error)?;
    screen
        .draw(|frame| draw(frame, &mut view, theme))
        .map_err(Failure::error)?;
    for line in buffer_lines(screen.backend().buffer()) {
        context
            .out
            .line(render_line(&line, theme.colours).trim_end());
    }
    Ok(ExitKind::Done)
}

/// Converts a drawn buffer to lines that can be printed.
fn buffer_lines(buffer: &ratatui::buffer::Buffer) -> Vec<Line<'static>> {
    let width = usize::from(buffer.area.width).max(1);
    let row = |cells: &[ratatui::buffer::Cell]| {
        let mut spans: Vec<Span<'static>> = Vec::new();
        // A wide character also covers the cells after it.
        let mut covered = 0;
        for cell in cells {
            if covered > 0 {
                covered -= 1;
                continue;
            }
            covered = Span::raw(cell.symbol()).width().saturating_sub(1);
            match spans.last_mut() {
                Some(last) if last.style == cell.style() => {
                    last.content.to_mut().push_str(cell.symbol());
                }
                Some(_) | None => spans.push(Span::styled(cell.symbol().to_owned(), cell.style())),
            }
        }
        Line::from(spans)
    };
    buffer.content.chunks(width).map(row).collect()
}

async fn run_live(
    (app, repository): (&App, Option<&str>),
    mut view: View,
    mut requests: Vec<ViewRequest>,
    theme: &Theme,
) -> Result<(), Failure> {
    let (sender, mut events) = mpsc::channel::<ViewEvent>(64);
    let mut screen = terminal::TerminalScreen::enter()?;
    terminal::listen(sender.clone());
    let mut signals = terminal::QuitSignals::new()?;
    let mut tick = tokio::time::interval(TICK);
    let mut changes = watch_for_changes(app.clone());
    let mut fetching = JoinSet::new();
    loop {
        // Collected, so that the set does not grow.
        while fetching.try_join_next().is_some() {}
        for request in requests.drain(..) {
            if request == ViewRequest::Quit {
                return Ok(());
            }
            // Do not pile up requests on a store that does not answer.
            if fetching.len() < FETCHING_MAX {
                let scope = repository.map(str::to_owned);
                fetching.spawn(load::load_and_send(
                    app.clone(),
                    scope,
                    request,
                    sender.clone(),
                ));
            }
        }
        // Drawn before the wait, so that the answer to a key is on the screen at once.
        screen.draw(&mut view, theme)?;
        requests = tokio::select! {
            Some(event) = events.recv() => view.handle(event),
            _ = tick.tick() => view.handle(ViewEvent::Tick(app.now())),
            Some(()) = changes.recv() => view.refresh(),
            () = signals.received() => return Ok(()),
        };
    }
}

/// Sends a wake-up after each event, and also at an interval, because leases are renewed without
/// an event.
fn watch_for_changes(app: App) -> mpsc::Receiver<()> {
    // One wake-up is enough, however many events happened.
    let (sender, changes) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut latest = overview::latest_cursor(&app).await.unwrap_or_default();
        loop {
            overview::wait_for_change(&app, latest, POLL_FALLBACK).await;
            latest = overview::latest_cursor(&app).await.unwrap_or(latest);
            if sender.send(()).await.is_err() {
                return;
            }
            tokio::time::sleep(REFRESH_MIN_INTERVAL).await;
        }
    });
    changes
}
