//! The terminal while it is ours: entered once, and given back whatever happens: an ordinary end,
//! an error, a signal, a panic.

use std::io::{Stdout, stdout};
use std::sync::Once;

use engine::log::LogErr;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{Event, KeyEventKind, read};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Sender;

use super::draw::{Theme, draw};
use super::model::{View, ViewEvent};
use app::failure::Failure;

#[derive(Debug)]
pub struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl TerminalScreen {
    pub fn enter() -> Result<Self, Failure> {
        restore_on_panic();
        enable_raw_mode().map_err(lost)?;
        // From here on the terminal is given back when this is dropped.
        let screen = Terminal::new(CrosstermBackend::new(stdout())).map_err(lost);
        let screen = screen.map(|terminal| Self { terminal });
        if screen.is_err() {
            restore();
        }
        let screen = screen?;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide).map_err(lost)?;
        Ok(screen)
    }

    pub fn draw(&mut self, view: &mut View, look: &Theme) -> Result<(), Failure> {
        let drawn = self.terminal.draw(|frame| draw(frame, view, look));
        drawn.map(drop).map_err(lost)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        restore();
    }
}

fn lost(error: std::io::Error) -> Failure {
    Failure::error(format!("the terminal is gone: {error}"))
}

/// Twice is as good as once.
fn restore() {
    // A terminal that has gone needs no restoring, and there is no other place to say so.
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
}

/// A panic's message would be lost on the screen that is left, and the terminal unusable.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

/// Passes keys and sizes on. The thread ends with the program: reading cannot be broken off.
pub fn listen(to: Sender<ViewEvent>) {
    let pass_on = move || {
        while let Ok(event) = read() {
            let happened = match event {
                Event::Key(key) if key.kind == KeyEventKind::Press => ViewEvent::Key(key),
                Event::Resize(columns, rows) => ViewEvent::Resized(columns, rows),
                _ => continue,
            };
            if to.blocking_send(happened).is_err() {
                return;
            }
        }
    };
    // Without keys there are still the signals.
    std::thread::Builder::new()
        .name("watch-keys".to_owned())
        .spawn(pass_on)
        .log_err("start the thread that reads keys");
}

/// Those that ask us to end.
#[derive(Debug)]
pub struct QuitSignals {
    asked: [Signal; 3],
}

impl QuitSignals {
    pub fn new() -> Result<Self, Failure> {
        let hear = |kind| {
            signal(kind)
                .map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))
        };
        Ok(Self {
            asked: [
                hear(SignalKind::terminate())?,
                hear(SignalKind::interrupt())?,
                hear(SignalKind::hangup())?,
            ],
        })
    }

    pub async fn asked(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.asked;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
