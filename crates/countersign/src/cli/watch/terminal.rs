//! Takes over the terminal and restores it in every case: normal end, error, signal or panic.
//!
//! A terminal that stays in raw mode shows no input and ignores Ctrl-C, so the person has to close
//! it.

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
        // First, so that nothing can fail between the change and its undoing.
        restore_on_panic();
        enable_raw_mode().map_err(terminal_error)?;
        // From here on, dropping the screen restores the terminal.
        let screen = Terminal::new(CrosstermBackend::new(stdout())).map_err(terminal_error);
        let screen = screen.map(|terminal| Self { terminal });
        if screen.is_err() {
            restore();
        }
        let screen = screen?;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide).map_err(terminal_error)?;
        Ok(screen)
    }

    pub fn draw(&mut self, view: &mut View, theme: &Theme) -> Result<(), Failure> {
        let drawn = self.terminal.draw(|frame| draw(frame, view, theme));
        drawn.map(drop).map_err(terminal_error)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        restore();
    }
}

fn terminal_error(error: std::io::Error) -> Failure {
    Failure::error(format!("lost the terminal: {error}"))
}

/// Restores the terminal; safe to call twice.
fn restore() {
    // Ignored: a closed terminal needs no restoring, and there is no other output for an error.
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
}

/// Restores the terminal before a panic prints. Otherwise its message would be lost with the
/// alternate screen, and the terminal would stay unusable.
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

/// Forwards keys and resizes from a thread. It ends with the program, because `read` cannot be
/// interrupted.
pub fn listen(sender: Sender<ViewEvent>) {
    let forward = move || {
        while let Ok(event) = read() {
            let message = match event {
                // Some terminals report the release of a key as well.
                Event::Key(key) if key.kind == KeyEventKind::Press => ViewEvent::Key(key),
                Event::Resize(columns, rows) => ViewEvent::Resized(columns, rows),
                _ => continue,
            };
            if sender.blocking_send(message).is_err() {
                return;
            }
        }
    };
    // Without this thread the user can still quit with a signal.
    std::thread::Builder::new()
        .name("watch-keys".to_owned())
        .spawn(forward)
        .log_err("start the thread that reads keys");
}

/// Signals that end the view.
#[derive(Debug)]
pub struct QuitSignals {
    signals: [Signal; 3],
}

impl QuitSignals {
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::error(format!("could not listen for signals: {error}")))
        };
        Ok(Self {
            signals: [
                listen(SignalKind::terminate())?,
                listen(SignalKind::interrupt())?,
                // A closed window sends a hangup, and the program must not stay behind.
                listen(SignalKind::hangup())?,
            ],
        })
    }

    pub async fn received(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
