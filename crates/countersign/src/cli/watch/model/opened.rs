//! One ticket, open: its rounds, findings, change and story, and the dialogue that settles it.

use flow::TicketId;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::ViewRequest;
use super::settle::{DialogOutcome, ResolveDialog};
use app::operations::Stored;
use app::operations::diff::RoundDiff;
use app::operations::escalations::PendingEscalation;
use app::operations::history::LogLine;

#[derive(Debug)]
pub struct OpenTicket {
    pub id: TicketId,
    pub stored: Option<Box<Stored>>,
    /// Why it waits and what can be decided, where a person is asked.
    pub waiting: Option<PendingEscalation>,
    pub tab: TicketTab,
    /// How many lines are scrolled away.
    pub top: usize,
    pub drawn: TabLayout,
    /// Which round's change; the newest where none is named.
    pub round: Option<u32>,
    pub diff: Option<Box<RoundDiff>>,
    pub log: Vec<LogLine>,
    pub settling: Option<ResolveDialog>,
}

/// The tab's text as it was laid out last, kept because a change may be long.
#[derive(Clone, Debug, Default)]
pub struct TabLayout {
    /// What it was laid out from.
    pub of: Option<TabLayoutKey>,
    pub lines: Vec<ratatui::text::Line<'static>>,
    /// Where findings begin.
    pub findings: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TabLayoutKey {
    pub tab: TicketTab,
    pub width: usize,
    pub version: u64,
    /// Of the change that is shown, and how many lines the story has.
    pub round: Option<u32>,
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

/// What became of the open ticket.
#[derive(Debug, PartialEq, Eq)]
pub enum TicketKeyOutcome {
    Stays(Vec<ViewRequest>),
    Closes,
    Refuses(String),
    Helps,
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
            settling: None,
        }
    }

    /// The change is read again only when there is another commit.
    pub fn take_ticket(
        &mut self,
        stored: Stored,
        waiting: Option<PendingEscalation>,
    ) -> Vec<ViewRequest> {
        let commit = |stored: &Stored| Some(stored.ticket.submission.as_ref()?.commit.clone());
        let changed = self.stored.as_deref().and_then(commit) != commit(&stored);
        self.stored = Some(Box::new(stored));
        if waiting.is_none() {
            self.settling = None;
        }
        self.waiting = waiting;
        if changed && self.round.is_none() {
            self.diff = None;
        }
        self.wanted()
    }

    pub fn take_diff(&mut self, changes: RoundDiff) {
        self.diff = Some(Box::new(changes));
    }

    pub fn wants_log(&self) -> Option<ViewRequest> {
        (self.tab == TicketTab::Log).then(|| ViewRequest::Log(self.id.clone()))
    }

    /// What the tab in front has not got yet.
    fn wanted(&self) -> Vec<ViewRequest> {
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

    pub fn key(&mut self, key: KeyEvent, body: usize, person: &str) -> TicketKeyOutcome {
        if let Some(settling) = &mut self.settling {
            return match settling.key(key) {
                DialogOutcome::Goes => TicketKeyOutcome::Stays(Vec::new()),
                DialogOutcome::Left => {
                    self.settling = None;
                    TicketKeyOutcome::Stays(Vec::new())
                }
                DialogOutcome::Decided(decision) => {
                    TicketKeyOutcome::Stays(vec![ViewRequest::Settle(
                        self.id.clone(),
                        Box::new(decision),
                    )])
                }
            };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return TicketKeyOutcome::Closes,
            KeyCode::Char('?') => return TicketKeyOutcome::Helps,
            KeyCode::Char('s') => return self.settle(person),
            KeyCode::Tab | KeyCode::Right => return self.step(1),
            KeyCode::BackTab | KeyCode::Left => return self.step(TicketTab::ALL.len() - 1),
            KeyCode::Char('r') => return self.show(TicketTab::Rounds),
            KeyCode::Char('f') => return self.show(TicketTab::Findings),
            KeyCode::Char('d') => return self.show(TicketTab::Diff),
            KeyCode::Char('l') => return self.show(TicketTab::Log),
            KeyCode::Char('[') => return self.other_round(-1),
            KeyCode::Char(']') => return self.other_round(1),
            code => self.scroll(code, body),
        }
        TicketKeyOutcome::Stays(Vec::new())
    }

    fn scroll(&mut self, code: KeyCode, body: usize) {
        let last = self.drawn.lines.len().saturating_sub(body);
        // A finding is shown with the lines before it.
        let mut places = self.drawn.findings.iter().map(|at| at.saturating_sub(2));
        let top = match code {
            KeyCode::Down | KeyCode::Char('j') => self.top + 1,
            KeyCode::Up | KeyCode::Char('k') => self.top.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.top + body,
            KeyCode::PageUp => self.top.saturating_sub(body),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            KeyCode::Char('n') => places.find(|at| *at > self.top).unwrap_or(self.top),
            KeyCode::Char('N') => places.rfind(|at| *at < self.top).unwrap_or(self.top),
            _ => self.top,
        };
        self.top = top.min(last);
    }

    fn settle(&mut self, person: &str) -> TicketKeyOutcome {
        match &self.waiting {
            Some(waiting) => {
                self.settling = Some(ResolveDialog::new(waiting.choices.clone(), person));
                TicketKeyOutcome::Stays(Vec::new())
            }
            None => TicketKeyOutcome::Refuses(format!("{} waits for no decision", self.id)),
        }
    }

    fn step(&mut self, by: usize) -> TicketKeyOutcome {
        let here = TicketTab::ALL
            .iter()
            .position(|tab| *tab == self.tab)
            .unwrap_or(0);
        let next = TicketTab::ALL
            .get((here + by) % TicketTab::ALL.len())
            .copied();
        self.show(next.unwrap_or_default())
    }

    fn show(&mut self, tab: TicketTab) -> TicketKeyOutcome {
        self.tab = tab;
        self.top = 0;
        self.drawn = TabLayout::default();
        TicketKeyOutcome::Stays(self.wanted())
    }

    /// The change of the round before or after the one in front.
    fn other_round(&mut self, by: i64) -> TicketKeyOutcome {
        let (Some(stored), Some(diff)) = (&self.stored, &self.diff) else {
            return TicketKeyOutcome::Stays(Vec::new());
        };
        let wanted = u32::try_from(i64::from(diff.round) + by).unwrap_or(0);
        let decided = &stored.ticket.rounds;
        if !decided.iter().any(|round| round.number == wanted) {
            return TicketKeyOutcome::Refuses(format!("there is no round {wanted} with a verdict"));
        }
        self.tab = TicketTab::Diff;
        self.top = 0;
        self.round = Some(wanted);
        self.diff = None;
        TicketKeyOutcome::Stays(self.wanted())
    }
}
