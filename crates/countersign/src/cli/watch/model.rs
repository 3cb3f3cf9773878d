//! What is on the screen, and how a key or a piece of news changes it. Pure: it reads no store and
//! draws nothing; what it wants to know or to have done it says as [`Want`]s.

pub mod list;
pub mod opened;
pub mod settle;

use flow::narrate::Mood;
use flow::{Ticket, TicketId, Time};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use app::operations::diff::Changes;
use app::operations::escalations::Waiting;
use app::operations::history::Line;
use app::operations::overview::{Group, Overview};
use app::operations::{Paged, Stored, TicketRow};
use list::List;
use opened::Opened;
use settle::Decision;

#[derive(Debug, Default)]
pub struct View {
    pub now: Time,
    /// In whose name an escalation is settled, unless another is typed.
    pub person: String,
    /// Columns and rows.
    pub size: (u16, u16),
    pub overview: Overview,
    pub group: Group,
    pub list: List,
    pub screen: Screen,
    pub opened: Option<Box<Opened>>,
    /// What is typed to open a ticket by its id.
    pub typed: Option<String>,
    pub notice: Option<(Mood, String)>,
    /// The database was read at least once.
    pub loaded: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    #[default]
    Tickets,
    Work,
    Help,
}

/// Something happened.
#[derive(Debug)]
pub enum Happened {
    Key(KeyEvent),
    Resized(u16, u16),
    Tick(Time),
    Overview(Box<Overview>),
    Page(Asked, Paged<TicketRow>),
    Ticket(Box<Stored>, Option<Waiting>),
    Diff(TicketId, Box<Changes>),
    Log(TicketId, Vec<Line>),
    Settled(Box<Ticket>, &'static str),
    /// Something that was wanted could not be had.
    Failed(String),
}

/// Which page of which tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub group: Group,
    pub after: Option<i64>,
}

/// Something is wanted of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    Overview,
    Page(Asked),
    Ticket(TicketId),
    Diff(TicketId, Option<u32>),
    Log(TicketId),
    Settle(TicketId, Box<Decision>),
    Quit,
}

impl View {
    /// What is shown now, asked for anew.
    pub fn refresh(&self) -> Vec<Want> {
        let mut wants = vec![Want::Overview, Want::Page(self.asked())];
        if let Some(opened) = &self.opened {
            wants.push(Want::Ticket(opened.id.clone()));
            wants.extend(opened.wants_log());
        }
        wants
    }

    fn asked(&self) -> Asked {
        Asked {
            group: self.group,
            after: self.list.after.last().copied(),
        }
    }

    pub fn open(&mut self, id: TicketId) -> Vec<Want> {
        self.opened = Some(Box::new(Opened::new(id.clone())));
        vec![Want::Ticket(id)]
    }

    pub fn turn(&mut self, happened: Happened) -> Vec<Want> {
        match happened {
            Happened::Key(key) => return self.key(key),
            Happened::Resized(columns, rows) => self.size = (columns, rows),
            Happened::Tick(now) => self.now = now,
            Happened::Overview(overview) => {
                self.overview = *overview;
                self.loaded = true;
            }
            Happened::Page(asked, page) => return self.take_page(asked, page),
            Happened::Ticket(stored, waiting) => return self.take_ticket(*stored, waiting),
            Happened::Diff(id, changes) => {
                if let Some(opened) = self.on(&id) {
                    opened.take_diff(*changes);
                }
            }
            Happened::Log(id, lines) => {
                if let Some(opened) = self.on(&id) {
                    opened.log = lines;
                }
            }
            Happened::Settled(ticket, word) => return self.settled(&ticket, word),
            Happened::Failed(why) => self.failed(why),
        }
        Vec::new()
    }

    /// The ticket that is open, if it is this one.
    fn on(&mut self, id: &TicketId) -> Option<&mut Opened> {
        self.opened.as_deref_mut().filter(|opened| opened.id == *id)
    }

    /// A page that nobody waits for any more is left.
    fn take_page(&mut self, asked: Asked, page: Paged<TicketRow>) -> Vec<Want> {
        if asked != self.asked() {
            return Vec::new();
        }
        self.list.take(page);
        match self.list.chosen().map(|row| row.id.clone()) {
            Some(id) if std::mem::take(&mut self.list.open_when_read) => self.open(id),
            Some(_) | None => Vec::new(),
        }
    }

    fn take_ticket(&mut self, stored: Stored, waiting: Option<Waiting>) -> Vec<Want> {
        let id = stored.ticket.id.clone();
        self.on(&id)
            .map(|opened| opened.take_ticket(stored, waiting))
            .unwrap_or_default()
    }

    fn settled(&mut self, ticket: &Ticket, word: &str) -> Vec<Want> {
        if let Some(opened) = self.on(&ticket.id) {
            opened.settling = None;
        }
        let next = if ticket.stage.is_at_work() {
            format!("; next: countersign run {}", ticket.id)
        } else {
            String::new()
        };
        let text = format!("{}: {word}, so it is {}{next}", ticket.id, ticket.stage);
        self.notice = Some((Mood::Good, text));
        self.refresh()
    }

    fn failed(&mut self, why: String) {
        if let Some(settling) = self
            .opened
            .as_mut()
            .and_then(|opened| opened.settling.as_mut())
        {
            settling.sent = false;
        }
        self.notice = Some((Mood::Bad, findings::one_line(&why)));
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Want> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return vec![Want::Quit];
        }
        let typing = self
            .opened
            .as_ref()
            .is_some_and(|opened| opened.settling.is_some());
        if !typing
            && key
                .modifiers
                .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
        {
            return Vec::new();
        }
        if !typing {
            self.notice = None;
        }
        if self.typed.is_some() {
            return self.key_typed(key);
        }
        if self.screen == Screen::Help {
            self.screen = Screen::Tickets;
            return Vec::new();
        }
        match self.opened.as_mut() {
            Some(opened) => {
                let body = usize::from(self.size.1.saturating_sub(5)).max(1);
                let turned = opened.key(key, body, &self.person);
                self.after_opened(turned)
            }
            None => self.key_listed(key),
        }
    }

    fn after_opened(&mut self, turned: opened::Turned) -> Vec<Want> {
        match turned {
            opened::Turned::Stays(wants) => wants,
            opened::Turned::Closes => {
                self.opened = None;
                vec![Want::Page(self.asked()), Want::Overview]
            }
            opened::Turned::Refuses(why) => {
                self.notice = Some((Mood::Urgent, why));
                Vec::new()
            }
            opened::Turned::Helps => {
                self.screen = Screen::Help;
                Vec::new()
            }
        }
    }

    fn key_typed(&mut self, key: KeyEvent) -> Vec<Want> {
        let typed = self.typed.take().unwrap_or_default();
        match key.code {
            KeyCode::Esc => Vec::new(),
            KeyCode::Enter => match TicketId::new(typed.trim()) {
                Ok(id) => self.open(id),
                Err(bad) => {
                    self.notice = Some((Mood::Bad, bad.to_string()));
                    Vec::new()
                }
            },
            code => {
                self.typed = Some(settle::typed_into(typed, code, TicketId::LENGTH_MAX));
                Vec::new()
            }
        }
    }

    fn key_listed(&mut self, key: KeyEvent) -> Vec<Want> {
        let page = usize::from(self.size.1.saturating_sub(6)).max(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc if self.screen == Screen::Tickets => vec![Want::Quit],
            KeyCode::Char('q') | KeyCode::Esc => self.to(Screen::Tickets),
            KeyCode::Char('?') => self.to(Screen::Help),
            KeyCode::Char('w') if self.screen == Screen::Work => self.to(Screen::Tickets),
            KeyCode::Char('w') => self.to(Screen::Work),
            KeyCode::Char('/') => {
                self.typed = Some(String::new());
                Vec::new()
            }
            KeyCode::Char(digit @ '1'..='5') => self.show(u32::from(digit) as usize - 0x31),
            KeyCode::Tab | KeyCode::Right => self.step(1),
            KeyCode::BackTab | KeyCode::Left => self.step(Group::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.go(|list| list.down(1)),
            KeyCode::Up | KeyCode::Char('k') => self.go(|list| list.up(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go(|list| list.down(page)),
            KeyCode::PageUp => self.go(|list| list.up(page)),
            KeyCode::Home | KeyCode::Char('g') => self.go(List::first),
            KeyCode::End | KeyCode::Char('G') => self.go(|list| list.down(usize::MAX)),
            KeyCode::Enter => self.enter(),
            _ => Vec::new(),
        }
    }

    fn enter(&mut self) -> Vec<Want> {
        let chosen = self.list.chosen().map(|row| row.id.clone());
        self.list.open_when_read = chosen.is_none();
        chosen.map(|id| self.open(id)).unwrap_or_default()
    }

    fn to(&mut self, screen: Screen) -> Vec<Want> {
        self.screen = screen;
        Vec::new()
    }

    fn step(&mut self, by: usize) -> Vec<Want> {
        let here = Group::ALL.iter().position(|group| *group == self.group);
        self.show((here.unwrap_or(0) + by) % Group::ALL.len())
    }

    fn show(&mut self, at: usize) -> Vec<Want> {
        self.screen = Screen::Tickets;
        self.group = Group::ALL.get(at).copied().unwrap_or_default();
        self.list = List::default();
        vec![Want::Page(self.asked())]
    }

    /// Moves the choice, and asks for the page it has gone to, where it has left this one.
    fn go(&mut self, way: impl FnOnce(&mut List) -> bool) -> Vec<Want> {
        if way(&mut self.list) {
            vec![Want::Page(self.asked())]
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
