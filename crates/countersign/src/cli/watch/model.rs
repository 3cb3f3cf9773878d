//! State of the live view, changed by keys and events. Pure: it reads no store and draws nothing.
//! Its requests are returned as [`ViewRequest`]s.
//!
//! Answers can arrive late and in any order. Each one names its request, and one that no longer
//! fits is dropped.

pub mod comment_dialog;
pub mod list;
pub mod open_ticket;
pub mod resolve_dialog;

use flow::narrate::Mood;
use flow::{Ticket, TicketId, Time};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use app::operations::diff::RoundDiff;
use app::operations::escalations::PendingEscalation;
use app::operations::history::LogLine;
use app::operations::overview::{Overview, TicketGroup};
use app::operations::person_findings::AddedFinding;
use app::operations::{Paged, Stored, TicketRow};
use comment_dialog::Comment;
use list::TicketListPage;
use open_ticket::OpenTicket;
use resolve_dialog::Decision;

#[derive(Debug, Default)]
pub struct View {
    pub now: Time,
    /// Default name for resolving an escalation; the user can type another.
    pub person: String,
    /// Columns and rows.
    pub size: (u16, u16),
    pub overview: Overview,
    pub group: TicketGroup,
    pub list: TicketListPage,
    pub screen: ViewScreen,
    pub opened: Option<Box<OpenTicket>>,
    /// Text typed to open a ticket by its id.
    pub typed: Option<String>,
    pub notice: Option<(Mood, String)>,
    /// Whether the store was read at least once.
    pub loaded: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewScreen {
    #[default]
    Tickets,
    Work,
    Help,
}

/// Input of the view: keys, time and loaded data.
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
    /// A person's finding is in the ledger.
    Commented(Box<Ticket>, Vec<AddedFinding>),
    /// A request failed.
    Failed(String),
}

/// Page of a group of tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    pub group: TicketGroup,
    pub after: Option<i64>,
}

/// Output of the view: data to load or an action to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewRequest {
    Overview,
    Page(PageRequest),
    Ticket(TicketId),
    Diff(TicketId, Option<u32>),
    Log(TicketId),
    Settle(TicketId, Box<Decision>),
    Comment(TicketId, Box<Comment>),
    Quit,
}

impl View {
    /// Requests the shown data again.
    pub fn refresh(&self) -> Vec<ViewRequest> {
        let mut requests = vec![
            ViewRequest::Overview,
            ViewRequest::Page(self.page_request()),
        ];
        if let Some(opened) = &self.opened {
            requests.push(ViewRequest::Ticket(opened.id.clone()));
            requests.extend(opened.log_request());
        }
        requests
    }

    fn page_request(&self) -> PageRequest {
        PageRequest {
            group: self.group,
            after: self.list.after.last().copied(),
        }
    }

    pub fn open(&mut self, id: TicketId) -> Vec<ViewRequest> {
        self.opened = Some(Box::new(OpenTicket::new(id.clone())));
        vec![ViewRequest::Ticket(id)]
    }

    pub fn handle(&mut self, event: ViewEvent) -> Vec<ViewRequest> {
        match event {
            ViewEvent::Key(key) => return self.handle_key(key),
            ViewEvent::Resized(columns, rows) => self.size = (columns, rows),
            ViewEvent::Tick(now) => self.now = now,
            ViewEvent::Overview(overview) => {
                self.overview = *overview;
                self.loaded = true;
            }
            ViewEvent::Page(request, page) => return self.take_page(request, page),
            ViewEvent::Ticket(stored, waiting) => return self.take_ticket(*stored, waiting),
            ViewEvent::Diff(id, changes) => {
                if let Some(opened) = self.open_ticket_mut(&id) {
                    opened.take_diff(*changes);
                }
            }
            ViewEvent::Log(id, lines) => {
                if let Some(opened) = self.open_ticket_mut(&id) {
                    opened.log = lines;
                }
            }
            ViewEvent::Settled(ticket, word) => return self.handle_resolved(&ticket, word),
            ViewEvent::Commented(ticket, added) => return self.handle_commented(&ticket, &added),
            ViewEvent::Failed(why) => self.handle_failure(why),
        }
        Vec::new()
    }

    /// Returns the open ticket if it has this id.
    fn open_ticket_mut(&mut self, id: &TicketId) -> Option<&mut OpenTicket> {
        // The person may have closed or changed the ticket while its data was read.
        self.opened.as_deref_mut().filter(|opened| opened.id == *id)
    }

    /// Shows a loaded page. A page that is no longer the requested one is dropped.
    fn take_page(&mut self, request: PageRequest, page: Paged<TicketRow>) -> Vec<ViewRequest> {
        if request != self.page_request() {
            return Vec::new();
        }
        self.list.set_page(page);
        match self.list.chosen().map(|row| row.id.clone()) {
            // Enter was pressed before the page had arrived.
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
        self.open_ticket_mut(&id)
            .map(|opened| opened.take_ticket(stored, waiting))
            .unwrap_or_default()
    }

    fn handle_resolved(&mut self, ticket: &Ticket, word: &str) -> Vec<ViewRequest> {
        if let Some(opened) = self.open_ticket_mut(&ticket.id) {
            opened.resolve_dialog = None;
        }
        let next = if ticket.stage.is_active() {
            format!("; next: countersign run {}", ticket.id)
        } else {
            String::new()
        };
        let text = format!("{}: {word}; now {}{next}", ticket.id, ticket.stage);
        self.notice = Some((Mood::Good, text));
        self.refresh()
    }

    fn handle_commented(&mut self, ticket: &Ticket, added: &[AddedFinding]) -> Vec<ViewRequest> {
        if let Some(opened) = self.open_ticket_mut(&ticket.id) {
            opened.comment_dialog = None;
            // Its findings have changed.
            opened.diff = None;
        }
        let entries: Vec<String> = added
            .iter()
            .map(|finding| format!("{} ({}) {}", finding.id, finding.severity, finding.title))
            .collect();
        let text = format!(
            "added {}; {} is {}",
            entries.join(", "),
            ticket.id,
            ticket.stage
        );
        self.notice = Some((Mood::Good, findings::one_line(&text)));
        self.refresh()
    }

    fn handle_failure(&mut self, why: String) {
        if let Some(dialog) = self
            .opened
            .as_mut()
            .and_then(|opened| opened.comment_dialog.as_mut())
        {
            dialog.sent = false;
        }
        if let Some(dialog) = self
            .opened
            .as_mut()
            .and_then(|opened| opened.resolve_dialog.as_mut())
        {
            // The dialog can be sent again, with the text that was typed.
            dialog.sent = false;
        }
        self.notice = Some((Mood::Bad, findings::one_line(&why)));
    }

    fn handle_key(&mut self, key: KeyEvent) -> Vec<ViewRequest> {
        // In raw mode Ctrl-C is a key and no signal.
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return vec![ViewRequest::Quit];
        }
        let typing = self
            .opened
            .as_ref()
            .is_some_and(|opened| opened.is_typing());
        // Other combinations belong to the terminal or the window manager.
        if !typing
            && key
                .modifiers
                .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
        {
            return Vec::new();
        }
        // A notice stays while a text is typed: it says why the last attempt failed.
        if !typing {
            self.notice = None;
        }
        if self.typed.is_some() {
            return self.handle_prompt_key(key);
        }
        if self.screen == ViewScreen::Help {
            self.screen = ViewScreen::Tickets;
            return Vec::new();
        }
        match self.opened.as_mut() {
            Some(opened) => {
                // Header, footer and frame take five rows.
                let body = usize::from(self.size.1.saturating_sub(5)).max(1);
                let outcome = opened.handle_key(key, body, &self.person);
                self.apply_ticket_outcome(outcome)
            }
            None => self.handle_list_key(key),
        }
    }

    fn apply_ticket_outcome(&mut self, outcome: open_ticket::TicketKeyOutcome) -> Vec<ViewRequest> {
        match outcome {
            open_ticket::TicketKeyOutcome::Continue(requests) => requests,
            open_ticket::TicketKeyOutcome::Close => {
                self.opened = None;
                vec![
                    ViewRequest::Page(self.page_request()),
                    ViewRequest::Overview,
                ]
            }
            open_ticket::TicketKeyOutcome::Refuse(why) => {
                self.notice = Some((Mood::Urgent, why));
                Vec::new()
            }
            open_ticket::TicketKeyOutcome::ShowHelp => {
                self.screen = ViewScreen::Help;
                Vec::new()
            }
        }
    }

    fn handle_prompt_key(&mut self, key: KeyEvent) -> Vec<ViewRequest> {
        let typed = self.typed.take().unwrap_or_default();
        match key.code {
            KeyCode::Esc => Vec::new(),
            KeyCode::Enter => match TicketId::new(typed.trim()) {
                Ok(id) => self.open(id),
                Err(error) => {
                    self.notice = Some((Mood::Bad, error.to_string()));
                    Vec::new()
                }
            },
            code => {
                self.typed = Some(resolve_dialog::edit_text(typed, code, TicketId::LENGTH_MAX));
                Vec::new()
            }
        }
    }

    fn handle_list_key(&mut self, key: KeyEvent) -> Vec<ViewRequest> {
        let page = usize::from(self.size.1.saturating_sub(6)).max(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc if self.screen == ViewScreen::Tickets => {
                vec![ViewRequest::Quit]
            }
            KeyCode::Char('q') | KeyCode::Esc => self.switch_screen(ViewScreen::Tickets),
            KeyCode::Char('?') => self.switch_screen(ViewScreen::Help),
            KeyCode::Char('w') if self.screen == ViewScreen::Work => {
                self.switch_screen(ViewScreen::Tickets)
            }
            KeyCode::Char('w') => self.switch_screen(ViewScreen::Work),
            KeyCode::Char('/') => {
                self.typed = Some(String::new());
                Vec::new()
            }
            KeyCode::Char(digit @ '1'..='5') => self.show(u32::from(digit) as usize - 0x31),
            KeyCode::Tab | KeyCode::Right => self.step_group(1),
            KeyCode::BackTab | KeyCode::Left => self.step_group(TicketGroup::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.move_selection(|list| list.down(1)),
            KeyCode::Up | KeyCode::Char('k') => self.move_selection(|list| list.up(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.move_selection(|list| list.down(page)),
            KeyCode::PageUp => self.move_selection(|list| list.up(page)),
            KeyCode::Home | KeyCode::Char('g') => self.move_selection(TicketListPage::first),
            KeyCode::End | KeyCode::Char('G') => self.move_selection(|list| list.down(usize::MAX)),
            KeyCode::Enter => self.enter(),
            _ => Vec::new(),
        }
    }

    fn enter(&mut self) -> Vec<ViewRequest> {
        let chosen = self.list.chosen().map(|row| row.id.clone());
        self.list.open_when_read = chosen.is_none();
        chosen.map(|id| self.open(id)).unwrap_or_default()
    }

    fn switch_screen(&mut self, screen: ViewScreen) -> Vec<ViewRequest> {
        self.screen = screen;
        Vec::new()
    }

    fn step_group(&mut self, by: usize) -> Vec<ViewRequest> {
        let current = TicketGroup::ALL
            .iter()
            .position(|group| *group == self.group);
        self.show((current.unwrap_or(0) + by) % TicketGroup::ALL.len())
    }

    fn show(&mut self, at: usize) -> Vec<ViewRequest> {
        // A change of the group always shows the list, also from the help.
        self.screen = ViewScreen::Tickets;
        self.group = TicketGroup::ALL.get(at).copied().unwrap_or_default();
        self.list = TicketListPage::default();
        vec![ViewRequest::Page(self.page_request())]
    }

    /// Moves the selection, and requests another page if it has left this one.
    fn move_selection(
        &mut self,
        movement: impl FnOnce(&mut TicketListPage) -> bool,
    ) -> Vec<ViewRequest> {
        if movement(&mut self.list) {
            vec![ViewRequest::Page(self.page_request())]
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
