//! Dialog that resolves an escalation: the decision, the name and the reason. It only collects
//! them; `flow` decides what is allowed.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Maximum length of a typed text.
const TYPED_MAX: usize = 500;

/// A decision as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub choice: &'static str,
    pub who: String,
    pub why: String,
    pub over_red_checks: bool,
    pub builder: Option<String>,
    pub reviewer: Option<String>,
}

#[derive(Debug)]
pub struct ResolveDialog {
    pub choices: Vec<&'static str>,
    /// Index of the selected choice.
    pub at: usize,
    /// Form of the choice, once it is chosen.
    pub form: Option<DecisionForm>,
    /// Whether the decision was sent; keys are ignored then.
    pub sent: bool,
    person: String,
}

#[derive(Debug)]
pub struct DecisionForm {
    pub fields: Vec<FormField>,
    pub at: usize,
    pub missing: Option<&'static str>,
}

#[derive(Debug)]
pub struct FormField {
    pub name: &'static str,
    pub hint: &'static str,
    pub text: String,
    pub needed: bool,
    /// Whether the field is yes or no, toggled with the space bar.
    pub toggle: bool,
}

/// Result of a key in the dialog.
#[derive(Debug, PartialEq, Eq)]
pub enum DialogOutcome {
    Continue,
    Cancelled,
    Decided(Decision),
}

impl ResolveDialog {
    pub fn new(choices: Vec<&'static str>, person: &str) -> Self {
        Self {
            choices,
            at: 0,
            form: None,
            sent: false,
            person: person.to_owned(),
        }
    }

    pub fn choice(&self) -> &'static str {
        self.choices.get(self.at).copied().unwrap_or_default()
    }

    pub fn handle_key(&mut self, key: KeyEvent) -> DialogOutcome {
        if self.sent {
            return DialogOutcome::Continue;
        }
        match self.form.as_mut() {
            None => self.choose(key),
            Some(form) => match form.handle_form_key(key) {
                FormOutcome::Continue => DialogOutcome::Continue,
                FormOutcome::Cancelled => {
                    self.form = None;
                    DialogOutcome::Continue
                }
                FormOutcome::Complete => self.decide(),
            },
        }
    }

    fn choose(&mut self, key: KeyEvent) -> DialogOutcome {
        let last = self.choices.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return DialogOutcome::Cancelled,
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Char(digit @ '1'..='9') => {
                let index = u32::from(digit) as usize - 0x31;
                if index <= last {
                    self.at = index;
                    self.open_form();
                }
            }
            KeyCode::Enter if !self.choices.is_empty() => self.open_form(),
            _ => {}
        }
        DialogOutcome::Continue
    }

    fn open_form(&mut self) {
        let field = |name, hint, needed| FormField {
            name,
            hint,
            text: String::new(),
            needed,
            toggle: false,
        };
        let choice = self.choice();
        let mut fields = Vec::new();
        if choice == "reassign" {
            fields.push(field("builder", "empty: no change", false));
            fields.push(field("reviewer", "empty: no change", false));
        }
        let needed = matches!(choice, "accept" | "reject");
        fields.push(field("why", "recorded with your name", needed));
        if choice == "accept" {
            fields.push(FormField {
                text: "no".to_owned(),
                toggle: true,
                ..field("over red checks", "toggle with space", false)
            });
        }
        fields.push(FormField {
            text: self.person.clone(),
            ..field("who", "name recorded with the decision", true)
        });
        self.form = Some(DecisionForm {
            fields,
            at: 0,
            missing: None,
        });
    }

    fn decide(&mut self) -> DialogOutcome {
        let Some(form) = &self.form else {
            return DialogOutcome::Continue;
        };
        self.sent = true;
        let text = |name: &str| form.text(name);
        let non_empty = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        DialogOutcome::Decided(Decision {
            choice: self.choice(),
            who: text("who"),
            why: text("why"),
            over_red_checks: text("over red checks") == "yes",
            builder: non_empty("builder"),
            reviewer: non_empty("reviewer"),
        })
    }
}

/// Result of a key in a form.
pub enum FormOutcome {
    Continue,
    Cancelled,
    Complete,
}

impl DecisionForm {
    /// Returns the text of a field.
    pub fn text(&self, name: &str) -> String {
        let field = self.fields.iter().find(|field| field.name == name);
        field
            .map(|field| field.text.trim().to_owned())
            .unwrap_or_default()
    }

    pub fn handle_form_key(&mut self, key: KeyEvent) -> FormOutcome {
        let last = self.fields.len().saturating_sub(1);
        self.missing = None;
        match key.code {
            KeyCode::Esc => return FormOutcome::Cancelled,
            KeyCode::Tab | KeyCode::Down => self.at = (self.at + 1).min(last),
            KeyCode::BackTab | KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Enter if self.at < last => self.at += 1,
            KeyCode::Enter => return self.check_complete(),
            code => self.edit_field(code, key.modifiers),
        }
        FormOutcome::Continue
    }

    /// Moves to the first required field that is empty; the form is complete if there is none.
    fn check_complete(&mut self) -> FormOutcome {
        let empty = |field: &FormField| field.needed && field.text.trim().is_empty();
        match self.fields.iter().position(empty) {
            Some(at) => {
                self.at = at;
                self.missing = self.fields.get(at).map(|field| field.name);
                FormOutcome::Continue
            }
            None => FormOutcome::Complete,
        }
    }

    fn edit_field(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        let Some(field) = self.fields.get_mut(self.at) else {
            return;
        };
        if field.toggle {
            if matches!(code, KeyCode::Char(' ' | 'y' | 'n')) {
                let yes = code == KeyCode::Char('y')
                    || (code == KeyCode::Char(' ') && field.text == "no");
                field.text = String::from(if yes { "yes" } else { "no" });
            }
            return;
        }
        if modifiers.contains(KeyModifiers::CONTROL) {
            if code == KeyCode::Char('u') {
                field.text.clear();
            }
            return;
        }
        field.text = edit_text(std::mem::take(&mut field.text), code, TYPED_MAX);
    }
}

/// Returns the text after one more key.
pub fn edit_text(mut text: String, code: KeyCode, max: usize) -> String {
    match code {
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Char(c) if !c.is_control() && text.chars().count() < max => text.push(c),
        _ => {}
    }
    text
}
