//! Dialog that puts a finding of the person into the ledger: first the line of the diff, then the
//! text. It only collects them; `flow` decides whether the ticket takes a finding now.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::resolve_dialog::{DecisionForm, FormField, FormOutcome};

/// A finding as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// `FILE:LINE`, `FILE:FIRST-LAST` or `FILE`.
    pub place: String,
    pub text: String,
    pub must_fix: bool,
    pub who: String,
}

#[derive(Debug)]
pub struct CommentDialog {
    /// Lines of the diff that can be chosen: their position on the tab, and their place.
    lines: Vec<(usize, String)>,
    /// Index of the chosen line.
    at: usize,
    /// The form, once the line is chosen.
    pub form: Option<DecisionForm>,
    /// Whether the comment was sent; keys are ignored then.
    pub sent: bool,
    person: String,
}

/// Result of a key in the dialog.
#[derive(Debug, PartialEq, Eq)]
pub enum CommentOutcome {
    Continue,
    Cancelled,
    Written(Comment),
}

impl CommentDialog {
    /// Opens the dialog. With lines of a diff, one of them is chosen first, starting at the first
    /// one that is on the screen; otherwise the place is typed.
    pub fn new(lines: Vec<(usize, String)>, top: usize, person: &str) -> Self {
        let at = lines.iter().position(|(line, _)| *line >= top);
        let mut dialog = Self {
            at: at.unwrap_or(lines.len().saturating_sub(1)),
            lines,
            form: None,
            sent: false,
            person: person.to_owned(),
        };
        if dialog.lines.is_empty() {
            dialog.open_form();
        }
        dialog
    }

    /// Position of the chosen line on the tab, while it is being chosen.
    pub fn chosen_line(&self) -> Option<usize> {
        let (line, _) = self.lines.get(self.at)?;
        Some(*line)
    }

    pub fn place(&self) -> &str {
        self.lines
            .get(self.at)
            .map(|(_, place)| place.as_str())
            .unwrap_or_default()
    }

    pub fn handle_key(&mut self, key: KeyEvent, body: usize) -> CommentOutcome {
        if self.sent {
            return CommentOutcome::Continue;
        }
        match self.form.as_mut() {
            None => self.choose(key, body),
            Some(form) => match form.handle_form_key(key) {
                FormOutcome::Continue => CommentOutcome::Continue,
                FormOutcome::Cancelled if self.lines.is_empty() => CommentOutcome::Cancelled,
                FormOutcome::Cancelled => {
                    self.form = None;
                    CommentOutcome::Continue
                }
                FormOutcome::Complete => self.write(),
            },
        }
    }

    fn choose(&mut self, key: KeyEvent, body: usize) -> CommentOutcome {
        let last = self.lines.len().saturating_sub(1);
        self.at = match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return CommentOutcome::Cancelled,
            KeyCode::Down | KeyCode::Char('j') => self.at + 1,
            KeyCode::Up | KeyCode::Char('k') => self.at.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.at.saturating_add(body),
            KeyCode::PageUp => self.at.saturating_sub(body),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            KeyCode::Enter | KeyCode::Char('c') => {
                self.open_form();
                self.at
            }
            _ => self.at,
        }
        .min(last);
        CommentOutcome::Continue
    }

    fn open_form(&mut self) {
        let field = |name, hint, text: &str| FormField {
            name,
            hint,
            text: text.to_owned(),
            needed: true,
            toggle: false,
        };
        let place = self.place().to_owned();
        let fields = vec![
            field("place", "FILE:LINE in the newest commit", &place),
            field("what is wrong", "one line; recorded with your name", ""),
            FormField {
                toggle: true,
                ..field("must fix", "toggle with space", "yes")
            },
            field("who", "name recorded with the finding", &self.person),
        ];
        self.form = Some(DecisionForm {
            at: usize::from(!place.is_empty()),
            fields,
            missing: None,
        });
    }

    fn write(&mut self) -> CommentOutcome {
        let Some(form) = &self.form else {
            return CommentOutcome::Continue;
        };
        self.sent = true;
        CommentOutcome::Written(Comment {
            place: form.text("place"),
            text: form.text("what is wrong"),
            must_fix: form.text("must fix") == "yes",
            who: form.text("who"),
        })
    }
}
