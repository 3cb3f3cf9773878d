//! `countersign watch`

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
use super::out::size;
use super::paint::printed;
use app::failure::{ExitKind, Failure};
use app::operations::App;
use app::operations::overview::{self, TicketGroup};
use draw::{Theme, draw};
use model::{View, ViewEvent, ViewRequest};

/// The net under the wake-ups, and how often the clock on the screen goes on.
const NET: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_secs(1);
/// However much is decided, the screen is read anew no more often than this.
const BREATH: Duration = Duration::from_millis(200);
/// How much may be asked of the database at a time.
const FETCHING_MAX: usize = 32;

#[derive(Debug, clap::Args)]
#[command(after_help = KEYS)]
pub struct Args {
    /// Open this ticket at once.
    ticket: Option<String>,
    /// Print one frame and end.
    #[arg(long)]
    once: bool,
}

const KEYS: &str = "\
Examples:
  countersign watch             everything; q quits, ? shows the keys
  countersign watch T-7         one ticket: its rounds, findings, diff and log
  countersign watch --once      one frame, for scripts

Keys: j k move · Enter open · 1-5 which tickets · / open by id · w work · s settle an escalation ·
n next finding · [ ] another round · ? all keys · q back or quit";

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let office = desktop.office().await?;
    if desktop.out.json {
        return answer(&office, desktop).await;
    }
    let mut view = View {
        person: office.surroundings.person.clone(),
        now: office.now(),
        ..View::default()
    };
    let mut wants = view.refresh();
    if let Some(id) = &args.ticket {
        wants.extend(view.open(office.ticket(id).await.map(|stored| stored.ticket.id)?));
    }
    let look = Theme {
        glyphs: desktop.out.glyphs(),
        colours: desktop.out.terminal.colours,
    };
    if args.once {
        return once(&office, view, wants, &look, desktop).await;
    }
    if !desktop.out.terminal.moves || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("watch needs a terminal that it can draw on")
            .hint("one frame: countersign watch --once")
            .hint("what happens, as it happens: countersign log --follow"));
    }
    live(&office, view, wants, &look).await?;
    Ok(ExitKind::Done)
}

/// For programs: what a frame is made of.
async fn answer(office: &App, desktop: &Context) -> Result<ExitKind, Failure> {
    let seen = overview::look(office).await?;
    let page = overview::page(office, TicketGroup::All, None, model::list::PAGE).await?;
    let json = serde_json::json!({
        "overview": seen, "tickets": page.items, "next": page.next,
    });
    desktop.out.answer(&json);
    Ok(ExitKind::Done)
}

/// Reads everything that is wanted, draws once, and prints what was drawn.
async fn once(
    office: &App,
    mut view: View,
    mut wants: Vec<ViewRequest>,
    look: &Theme,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    // What is read may lead to more that is wanted, but not without end.
    for _ in 0..3 {
        let mut more = Vec::new();
        for want in wants {
            more.extend(view.turn(load::fetch(office, want).await?));
        }
        wants = more;
    }
    let (width, height) = size();
    let cells = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let backend = TestBackend::new(cells(width), cells(height));
    let mut screen = ratatui::Terminal::new(backend).map_err(Failure::error)?;
    screen
        .draw(|frame| draw(frame, &mut view, look))
        .map_err(Failure::error)?;
    for line in rows(screen.backend().buffer()) {
        desktop.out.line(printed(&line, look.colours).trim_end());
    }
    Ok(ExitKind::Done)
}

/// What was drawn, as lines that can be printed.
fn rows(buffer: &ratatui::buffer::Buffer) -> Vec<Line<'static>> {
    let width = usize::from(buffer.area.width).max(1);
    let row = |cells: &[ratatui::buffer::Cell]| {
        let mut spans: Vec<Span<'static>> = Vec::new();
        // The cell after a wide character is covered by it.
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

async fn live(
    office: &App,
    mut view: View,
    mut wants: Vec<ViewRequest>,
    look: &Theme,
) -> Result<(), Failure> {
    let (sender, mut news) = mpsc::channel::<ViewEvent>(64);
    let mut screen = terminal::TerminalScreen::enter()?;
    terminal::listen(sender.clone());
    let mut signals = terminal::QuitSignals::new()?;
    let mut tick = tokio::time::interval(TICK);
    let mut changes = watch_for_changes(office.clone());
    let mut fetching = JoinSet::new();
    loop {
        while fetching.try_join_next().is_some() {}
        for want in wants.drain(..) {
            if want == ViewRequest::Quit {
                return Ok(());
            }
            // A database that does not answer is not asked ever more.
            if fetching.len() < FETCHING_MAX {
                fetching.spawn(load::bring(office.clone(), want, sender.clone()));
            }
        }
        screen.draw(&mut view, look)?;
        wants = tokio::select! {
            Some(happened) = news.recv() => view.turn(happened),
            _ = tick.tick() => view.turn(ViewEvent::Tick(office.now())),
            Some(()) = changes.recv() => view.refresh(),
            () = signals.asked() => return Ok(()),
        };
    }
}

/// Rings whenever something was decided, and now and then all the same: leases are prolonged
/// without a decision.
fn watch_for_changes(office: App) -> mpsc::Receiver<()> {
    let (sender, changes) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut seen = overview::newest(&office).await.unwrap_or_default();
        loop {
            overview::changed(&office, seen, NET).await;
            seen = overview::newest(&office).await.unwrap_or(seen);
            if sender.send(()).await.is_err() {
                return;
            }
            tokio::time::sleep(BREATH).await;
        }
    });
    changes
}
