//! The open ticket: its rounds, findings, diff and log, and the dialog that resolves it.

use flow::TicketId;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::ViewRequest;
use super::comment_dialog::{CommentDialog, CommentOutcome};
use super::resolve_dialog::{DialogOutcome, ResolveDialog};
use app::operations::Stored;
use app::operations::diff::RoundDiff;
use app::operations::escalations::PendingEscalation;
use app::operations::history::LogLine;

#[derive(Debug)]
pub struct OpenTicket {
    pub id: TicketId,
    pub stored: Option<Box<Stored>>,
    /// Reason and possible decisions, if the ticket waits for a person.
    pub waiting: Option<PendingEscalation>,
    pub tab: TicketTab,
    /// Number of lines scrolled away.
    pub top: usize,
    pub drawn: TabLayout,
    /// Round of the diff; the newest if `None`.
    pub round: Option<u32>,
    pub diff: Option<Box<RoundDiff>>,
    pub log: Vec<LogLine>,
    pub resolve_dialog: Option<ResolveDialog>,
    pub comment_dialog: Option<CommentDialog>,
}

/// Cached layout of the tab, because a diff may be long.
#[derive(Clone, Debug, Default)]
pub struct TabLayout {
    /// Input of this layout.
    pub key: Option<TabLayoutKey>,
    pub lines: Vec<ratatui::text::Line<'static>>,
    /// Lines at which findings begin.
    pub findings: Vec<usize>,
    /// Lines of the newest commit, by their position: `FILE:LINE`.
    pub places: Vec<(usize, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TabLayoutKey {
    pub tab: TicketTab,
    pub width: usize,
    pub version: u64,
    /// Round of the shown diff.
    pub round: Option<u32>,
    /// Number of log lines.
    pub log: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TicketTab {
    #[default]
    Rounds,
    Findings,
    Diff,
    Log,
}

impl TicketTab {
    pub const ALL: [Self; 4] = [Self::Rounds, Self::Findings, Self::Diff, Self::Log];

    pub fn word(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Findings => "findings",
            Self::Diff => "diff",
            Self::Log => "log",
        }
    }
}

/// Result of a key in the open ticket.
#[derive(Debug, PartialEq, Eq)]
pub enum TicketKeyOutcome {
    Continue(Vec<ViewRequest>),
    Close,
    Refuse(String),
    ShowHelp,
}

impl OpenTicket {
    pub fn new(id: TicketId) -> Self {
        Self {
            id,
            stored: None,
            waiting: None,
            tab: TicketTab::default(),
            top: 0,
            drawn: TabLayout::default(),
            round: None,
            diff: None,
            log: Vec::new(),
            resolve_dialog: None,
            comment_dialog: None,
        }
    }

    /// Stores the loaded ticket. The diff is loaded again only if the commit has changed.
    pub fn take_ticket(
        &mut self,
        stored: Stored,
        waiting: Option<PendingEscalation>,
    ) -> Vec<ViewRequest> {
        let commit = |stored: &Stored| Some(stored.ticket.submission.as_ref()?.commit.clone());
        let changed = self.stored.as_deref().and_then(commit) != commit(&stored);
        self.stored = Some(Box::new(stored));
        if waiting.is_none() {
            self.resolve_dialog = None;
        }
        self.waiting = waiting;
        if changed && self.round.is_none() {
            self.diff = None;
            // The lines to choose from are gone; a text that was begun stays.
            self.comment_dialog.take_if(|dialog| dialog.form.is_none());
        }
        self.missing_requests()
    }

    pub fn take_diff(&mut self, changes: RoundDiff) {
        self.diff = Some(Box::new(changes));
    }

    pub fn log_request(&self) -> Option<ViewRequest> {
        (self.tab == TicketTab::Log).then(|| ViewRequest::Log(self.id.clone()))
    }

    /// Returns the requests for data that the current tab lacks.
    fn missing_requests(&self) -> Vec<ViewRequest> {
        let has_commit = self
            .stored
            .as_ref()
            .is_some_and(|stored| stored.ticket.submission.is_some());
        match self.tab {
            TicketTab::Diff if self.diff.is_none() && has_commit => {
                vec![ViewRequest::Diff(self.id.clone(), self.round)]
            }
            TicketTab::Log => vec![ViewRequest::Log(self.id.clone())],
            TicketTab::Rounds | TicketTab::Findings | TicketTab::Diff => Vec::new(),
        }
    }

    /// Whether a dialog takes all keys.
    pub fn is_typing(&self) -> bool {
        self.resolve_dialog.is_some() || self.comment_dialog.is_some()
    }

    pub fn handle_key(&mut self, key: KeyEvent, body: usize, person: &str) -> TicketKeyOutcome {
        if self.comment_dialog.is_some() {
            return self.handle_comment_key(key, body);
        }
        if let Some(dialog) = &mut self.resolve_dialog {
            return match dialog.handle_key(key) {
                DialogOutcome::Continue => TicketKeyOutcome::Continue(Vec::new()),
                DialogOutcome::Cancelled => {
                    self.resolve_dialog = None;
                    TicketKeyOutcome::Continue(Vec::new())
                }
                DialogOutcome::Decided(decision) => {
                    TicketKeyOutcome::Continue(vec![ViewRequest::Settle(
                        self.id.clone(),
                        Box::new(decision),
                    )])
                }
            };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return TicketKeyOutcome::Close,
            KeyCode::Char('?') => return TicketKeyOutcome::ShowHelp,
            KeyCode::Char('s') => return self.open_dialog(person),
            KeyCode::Char('c') => return self.open_comment(body, person),
            KeyCode::Tab | KeyCode::Right => return self.step_tab(1),
            KeyCode::BackTab | KeyCode::Left => return self.step_tab(TicketTab::ALL.len() - 1),
            KeyCode::Char('r') => return self.show_tab(TicketTab::Rounds),
            KeyCode::Char('f') => return self.show_tab(TicketTab::Findings),
            KeyCode::Char('d') => return self.show_tab(TicketTab::Diff),
            KeyCode::Char('l') => return self.show_tab(TicketTab::Log),
            KeyCode::Char('[') => return self.other_round(-1),
            KeyCode::Char(']') => return self.other_round(1),
            code => self.scroll(code, body),
        }
        TicketKeyOutcome::Continue(Vec::new())
    }

    fn scroll(&mut self, code: KeyCode, body: usize) {
        let last = self.drawn.lines.len().saturating_sub(body);
        // Two lines of context above a finding.
        let mut positions = self.drawn.findings.iter().map(|at| at.saturating_sub(2));
        let top = match code {
            KeyCode::Down | KeyCode::Char('j') => self.top + 1,
            KeyCode::Up | KeyCode::Char('k') => self.top.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.top + body,
            KeyCode::PageUp => self.top.saturating_sub(body),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            KeyCode::Char('n') => positions.find(|at| *at > self.top).unwrap_or(self.top),
            KeyCode::Char('N') => positions.rfind(|at| *at < self.top).unwrap_or(self.top),
            _ => self.top,
        };
        self.top = top.min(last);
    }

    fn open_dialog(&mut self, person: &str) -> TicketKeyOutcome {
        match &self.waiting {
            Some(waiting) => {
                self.resolve_dialog = Some(ResolveDialog::new(waiting.choices.clone(), person));
                TicketKeyOutcome::Continue(Vec::new())
            }
            None => TicketKeyOutcome::Refuse(format!("{} needs no decision", self.id)),
        }
    }

    /// Opens the dialog for a finding of the person; in the diff, a line is chosen first.
    fn open_comment(&mut self, body: usize, person: &str) -> TicketKeyOutcome {
        let submission = self
            .stored
            .as_ref()
            .and_then(|stored| stored.ticket.submission.as_ref());
        let Some(submission) = submission else {
            return TicketKeyOutcome::Refuse(format!("{} has no commit to comment on", self.id));
        };
        let is_diff = self.tab == TicketTab::Diff;
        let shown = self.diff.as_ref().filter(|_| is_diff);
        // A finding is recorded on the newest commit, and lines of an older one differ.
        if shown.is_some_and(|diff| diff.commit != submission.commit) {
            return TicketKeyOutcome::Refuse(
                "findings are added to the newest commit: ] shows the next round".to_owned(),
            );
        }
        let places = match shown {
            Some(_) => self.drawn.places.clone(),
            None => Vec::new(),
        };
        self.comment_dialog = Some(CommentDialog::new(places, self.top, person));
        self.show_chosen_line(body);
        TicketKeyOutcome::Continue(Vec::new())
    }

    fn handle_comment_key(&mut self, key: KeyEvent, body: usize) -> TicketKeyOutcome {
        let Some(dialog) = &mut self.comment_dialog else {
            return TicketKeyOutcome::Continue(Vec::new());
        };
        let requests = match dialog.handle_key(key, body) {
            CommentOutcome::Continue => Vec::new(),
            CommentOutcome::Cancelled => {
                self.comment_dialog = None;
                Vec::new()
            }
            CommentOutcome::Written(comment) => {
                vec![ViewRequest::Comment(self.id.clone(), Box::new(comment))]
            }
        };
        self.show_chosen_line(body);
        TicketKeyOutcome::Continue(requests)
    }

    /// Scrolls so that the chosen line is above the dialog.
    fn show_chosen_line(&mut self, body: usize) {
        let chosen = self
            .comment_dialog
            .as_ref()
            .and_then(CommentDialog::chosen_line);
        if let Some(line) = chosen {
            // The form has seven lines at the bottom.
            let room = body.saturating_sub(8).max(1);
            self.top = self.top.clamp((line + 1).saturating_sub(room), line);
        }
    }

    fn step_tab(&mut self, by: usize) -> TicketKeyOutcome {
        let current = TicketTab::ALL
            .iter()
            .position(|tab| *tab == self.tab)
            .unwrap_or(0);
        let next = TicketTab::ALL
            .get((current + by) % TicketTab::ALL.len())
            .copied();
        self.show_tab(next.unwrap_or_default())
    }

    fn show_tab(&mut self, tab: TicketTab) -> TicketKeyOutcome {
        self.tab = tab;
        self.top = 0;
        self.drawn = TabLayout::default();
        TicketKeyOutcome::Continue(self.missing_requests())
    }

    /// Switches to the diff of the previous or next round.
    fn other_round(&mut self, by: i64) -> TicketKeyOutcome {
        let (Some(stored), Some(diff)) = (&self.stored, &self.diff) else {
            return TicketKeyOutcome::Continue(Vec::new());
        };
        let round = u32::try_from(i64::from(diff.round) + by).unwrap_or(0);
        let rounds = &stored.ticket.rounds;
        if !rounds.iter().any(|decided| decided.number == round) {
            return TicketKeyOutcome::Refuse(format!("there is no round {round} with a verdict"));
        }
        self.tab = TicketTab::Diff;
        self.top = 0;
        self.round = Some(round);
        self.diff = None;
        TicketKeyOutcome::Continue(self.missing_requests())
    }
}
