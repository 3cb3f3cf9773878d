//! The dialogue that settles an escalation: which of the choices, in whose name, and why. What is
//! allowed is decided elsewhere; here it is only asked for.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// How long what is typed may become.
const TYPED_MAX: usize = 500;

/// A person's decision, as it was typed.
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
    /// Which choice is in front.
    pub at: usize,
    /// What is asked about it, once it is chosen.
    pub form: Option<DecisionForm>,
    /// It is on its way; nothing more is typed.
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
    /// Yes or no, changed by the space bar.
    pub toggle: bool,
}

/// What a key made of the dialogue.
#[derive(Debug, PartialEq, Eq)]
pub enum DialogOutcome {
    Goes,
    Left,
    Decided(Decision),
}

/// What each choice means, in a few words.
pub fn meaning(choice: &str) -> &'static str {
    match choice {
        "accept" => "done despite what is open, which is waived in your name",
        "continue" => "one more round, or the interrupted step again",
        "take-over" => "you fix it by hand and resubmit; until then it is blocked",
        "reset" => "the count of rounds starts again",
        "reassign" => "another builder or reviewer",
        "reject" => "the ticket has failed",
        _ => "",
    }
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

    pub fn key(&mut self, key: KeyEvent) -> DialogOutcome {
        if self.sent {
            return DialogOutcome::Goes;
        }
        match self.form.as_mut() {
            None => self.choose(key),
            Some(form) => match form.key(key) {
                FormOutcome::Goes => DialogOutcome::Goes,
                FormOutcome::Left => {
                    self.form = None;
                    DialogOutcome::Goes
                }
                FormOutcome::Whole => self.decide(),
            },
        }
    }

    fn choose(&mut self, key: KeyEvent) -> DialogOutcome {
        let last = self.choices.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return DialogOutcome::Left,
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Char(digit @ '1'..='9') => {
                let wanted = u32::from(digit) as usize - 0x31;
                if wanted <= last {
                    self.at = wanted;
                    self.ask();
                }
            }
            KeyCode::Enter if !self.choices.is_empty() => self.ask(),
            _ => {}
        }
        DialogOutcome::Goes
    }

    fn ask(&mut self) {
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
            fields.push(field("builder", "empty: stays as it is", false));
            fields.push(field("reviewer", "empty: stays as it is", false));
        }
        let needed = matches!(choice, "accept" | "reject");
        fields.push(field("why", "recorded with the name", needed));
        if choice == "accept" {
            fields.push(FormField {
                text: "no".to_owned(),
                toggle: true,
                ..field("over red checks", "space changes it", false)
            });
        }
        fields.push(FormField {
            text: self.person.clone(),
            ..field("who", "recorded as the one who decided", true)
        });
        self.form = Some(DecisionForm {
            fields,
            at: 0,
            missing: None,
        });
    }

    fn decide(&mut self) -> DialogOutcome {
        let Some(form) = &self.form else {
            return DialogOutcome::Goes;
        };
        self.sent = true;
        let text = |name: &str| {
            let field = form.fields.iter().find(|field| field.name == name);
            field
                .map(|field| field.text.trim().to_owned())
                .unwrap_or_default()
        };
        let some = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        DialogOutcome::Decided(Decision {
            choice: self.choice(),
            who: text("who"),
            why: text("why"),
            over_red_checks: text("over red checks") == "yes",
            builder: some("builder"),
            reviewer: some("reviewer"),
        })
    }
}

enum FormOutcome {
    Goes,
    Left,
    Whole,
}

impl DecisionForm {
    fn key(&mut self, key: KeyEvent) -> FormOutcome {
        let last = self.fields.len().saturating_sub(1);
        self.missing = None;
        match key.code {
            KeyCode::Esc => return FormOutcome::Left,
            KeyCode::Tab | KeyCode::Down => self.at = (self.at + 1).min(last),
            KeyCode::BackTab | KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Enter if self.at < last => self.at += 1,
            KeyCode::Enter => return self.whole(),
            code => self.type_in(code, key.modifiers),
        }
        FormOutcome::Goes
    }

    /// A needed field that is empty is gone to, and nothing is decided.
    fn whole(&mut self) -> FormOutcome {
        let empty = |field: &FormField| field.needed && field.text.trim().is_empty();
        match self.fields.iter().position(empty) {
            Some(at) => {
                self.at = at;
                self.missing = self.fields.get(at).map(|field| field.name);
                FormOutcome::Goes
            }
            None => FormOutcome::Whole,
        }
    }

    fn type_in(&mut self, code: KeyCode, modifiers: KeyModifiers) {
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
        field.text = typed_into(std::mem::take(&mut field.text), code, TYPED_MAX);
    }
}

/// A text after one more key.
pub fn typed_into(mut text: String, code: KeyCode, most: usize) -> String {
    match code {
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Char(c) if !c.is_control() && text.chars().count() < most => text.push(c),
        _ => {}
    }
    text
}
