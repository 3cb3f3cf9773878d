//! What is on the screen, and how a key or a piece of news changes it. Pure: it reads no store and
//! draws nothing; what it wants to know or to have done it says as [`Want`]s.

pub mod list;
pub mod opened;
pub mod settle;

use flow::narrate::Mood;
use flow::{Ticket, TicketId, Time};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use app::operations::diff::RoundDiff;
use app::operations::escalations::PendingEscalation;
use app::operations::history::LogLine;
use app::operations::overview::{Overview, TicketGroup};
use app::operations::{Paged, Stored, TicketRow};
use list::TicketListPage;
use opened::OpenTicket;
use settle::Decision;

#[derive(Debug, Default)]
pub struct View {
    pub now: Time,
    /// In whose name an escalation is settled, unless another is typed.
    pub person: String,
    /// Columns and rows.
    pub size: (u16, u16),
    pub overview: Overview,
    pub group: TicketGroup,
    pub list: TicketListPage,
    pub screen: ViewScreen,
    pub opened: Option<Box<OpenTicket>>,
    /// What is typed to open a ticket by its id.
    pub typed: Option<String>,
    pub notice: Option<(Mood, String)>,
    /// The database was read at least once.
    pub loaded: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewScreen {
    #[default]
    Tickets,
    Work,
    Help,
}

/// Something happened.
#[derive(Debug)]
pub enum ViewEvent {
    Key(KeyEvent),
    Resized(u16, u16),
    Tick(Time),
    Overview(Box<Overview>),
    Page(PageRequest, Paged<TicketRow>),
    Ticket(Box<Stored>, Option<PendingEscalation>),
    Diff(TicketId, Box<RoundDiff>),
    Log(TicketId, Vec<LogLine>),
    Settled(Box<Ticket>, &'static str),
    /// Something that was wanted could not be had.
    Failed(String),
}

/// Which page of which tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    pub group: TicketGroup,
    pub after: Option<i64>,
}

/// Something is wanted of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewRequest {
    Overview,
    Page(PageRequest),
    Ticket(TicketId),
    Diff(TicketId, Option<u32>),
    Log(TicketId),
    Settle(TicketId, Box<Decision>),
    Quit,
}

impl View {
    /// What is shown now, asked for anew.
    pub fn refresh(&self) -> Vec<ViewRequest> {
        let mut wants = vec![ViewRequest::Overview, ViewRequest::Page(self.asked())];
        if let Some(opened) = &self.opened {
            wants.push(ViewRequest::Ticket(opened.id.clone()));
            wants.extend(opened.wants_log());
        }
        wants
    }

    fn asked(&self) -> PageRequest {
        PageRequest {
            group: self.group,
            after: self.list.after.last().copied(),
        }
    }

    pub fn open(&mut self, id: TicketId) -> Vec<ViewRequest> {
        self.opened = Some(Box::new(OpenTicket::new(id.clone())));
        vec![ViewRequest::Ticket(id)]
    }

    pub fn turn(&mut self, happened: ViewEvent) -> Vec<ViewRequest> {
        match happened {
            ViewEvent::Key(key) => return self.key(key),
            ViewEvent::Resized(columns, rows) => self.size = (columns, rows),
            ViewEvent::Tick(now) => self.now = now,
            ViewEvent::Overview(overview) => {
                self.overview = *overview;
                self.loaded = true;
            }
            ViewEvent::Page(asked, page) => return self.take_page(asked, page),
            ViewEvent::Ticket(stored, waiting) => return self.take_ticket(*stored, waiting),
            ViewEvent::Diff(id, changes) => {
                if let Some(opened) = self.on(&id) {
                    opened.take_diff(*changes);
                }
            }
            ViewEvent::Log(id, lines) => {
                if let Some(opened) = self.on(&id) {
                    opened.log = lines;
                }
            }
            ViewEvent::Settled(ticket, word) => return self.settled(&ticket, word),
            ViewEvent::Failed(why) => self.failed(why),
        }
        Vec::new()
    }

    /// The ticket that is open, if it is this one.
    fn on(&mut self, id: &TicketId) -> Option<&mut OpenTicket> {
        self.opened.as_deref_mut().filter(|opened| opened.id == *id)
    }

    /// A page that nobody waits for any more is left.
    fn take_page(&mut self, asked: PageRequest, page: Paged<TicketRow>) -> Vec<ViewRequest> {
        if asked != self.asked() {
            return Vec::new();
        }
        self.list.take(page);
        match self.list.chosen().map(|row| row.id.clone()) {
            Some(id) if std::mem::take(&mut self.list.open_when_read) => self.open(id),
            Some(_) | None => Vec::new(),
        }
    }

    fn take_ticket(
        &mut self,
        stored: Stored,
        waiting: Option<PendingEscalation>,
    ) -> Vec<ViewRequest> {
        let id = stored.ticket.id.clone();
        self.on(&id)
            .map(|opened| opened.take_ticket(stored, waiting))
            .unwrap_or_default()
    }

    fn settled(&mut self, ticket: &Ticket, word: &str) -> Vec<ViewRequest> {
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

    fn key(&mut self, key: KeyEvent) -> Vec<ViewRequest> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return vec![ViewRequest::Quit];
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
        if self.screen == ViewScreen::Help {
            self.screen = ViewScreen::Tickets;
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

    fn after_opened(&mut self, turned: opened::TicketKeyOutcome) -> Vec<ViewRequest> {
        match turned {
            opened::TicketKeyOutcome::Stays(wants) => wants,
            opened::TicketKeyOutcome::Closes => {
                self.opened = None;
                vec![ViewRequest::Page(self.asked()), ViewRequest::Overview]
            }
            opened::TicketKeyOutcome::Refuses(why) => {
                self.notice = Some((Mood::Urgent, why));
                Vec::new()
            }
            opened::TicketKeyOutcome::Helps => {
                self.screen = ViewScreen::Help;
                Vec::new()
            }
        }
    }

    fn key_typed(&mut self, key: KeyEvent) -> Vec<ViewRequest> {
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

    fn key_listed(&mut self, key: KeyEvent) -> Vec<ViewRequest> {
        let page = usize::from(self.size.1.saturating_sub(6)).max(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc if self.screen == ViewScreen::Tickets => {
                vec![ViewRequest::Quit]
            }
            KeyCode::Char('q') | KeyCode::Esc => self.to(ViewScreen::Tickets),
            KeyCode::Char('?') => self.to(ViewScreen::Help),
            KeyCode::Char('w') if self.screen == ViewScreen::Work => self.to(ViewScreen::Tickets),
            KeyCode::Char('w') => self.to(ViewScreen::Work),
            KeyCode::Char('/') => {
                self.typed = Some(String::new());
                Vec::new()
            }
            KeyCode::Char(digit @ '1'..='5') => self.show(u32::from(digit) as usize - 0x31),
            KeyCode::Tab | KeyCode::Right => self.step(1),
            KeyCode::BackTab | KeyCode::Left => self.step(TicketGroup::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.go(|list| list.down(1)),
            KeyCode::Up | KeyCode::Char('k') => self.go(|list| list.up(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go(|list| list.down(page)),
            KeyCode::PageUp => self.go(|list| list.up(page)),
            KeyCode::Home | KeyCode::Char('g') => self.go(TicketListPage::first),
            KeyCode::End | KeyCode::Char('G') => self.go(|list| list.down(usize::MAX)),
            KeyCode::Enter => self.enter(),
            _ => Vec::new(),
        }
    }

    fn enter(&mut self) -> Vec<ViewRequest> {
        let chosen = self.list.chosen().map(|row| row.id.clone());
        self.list.open_when_read = chosen.is_none();
        chosen.map(|id| self.open(id)).unwrap_or_default()
    }

    fn to(&mut self, screen: ViewScreen) -> Vec<ViewRequest> {
        self.screen = screen;
        Vec::new()
    }

    fn step(&mut self, by: usize) -> Vec<ViewRequest> {
        let here = TicketGroup::ALL
            .iter()
            .position(|group| *group == self.group);
        self.show((here.unwrap_or(0) + by) % TicketGroup::ALL.len())
    }

    fn show(&mut self, at: usize) -> Vec<ViewRequest> {
        self.screen = ViewScreen::Tickets;
        self.group = TicketGroup::ALL.get(at).copied().unwrap_or_default();
        self.list = TicketListPage::default();
        vec![ViewRequest::Page(self.asked())]
    }

    /// Moves the choice, and asks for the page it has gone to, where it has left this one.
    fn go(&mut self, way: impl FnOnce(&mut TicketListPage) -> bool) -> Vec<ViewRequest> {
        if way(&mut self.list) {
            vec![ViewRequest::Page(self.asked())]
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
