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
pub struct Settling {
    pub choices: Vec<&'static str>,
    /// Which choice is in front.
    pub at: usize,
    /// What is asked about it, once it is chosen.
    pub form: Option<Form>,
    /// It is on its way; nothing more is typed.
    pub sent: bool,
    person: String,
}

#[derive(Debug)]
pub struct Form {
    pub fields: Vec<Field>,
    pub at: usize,
    pub missing: Option<&'static str>,
}

#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub hint: &'static str,
    pub text: String,
    pub needed: bool,
    /// Yes or no, changed by the space bar.
    pub toggle: bool,
}

/// What a key made of the dialogue.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled {
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

impl Settling {
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

    pub fn key(&mut self, key: KeyEvent) -> Settled {
        if self.sent {
            return Settled::Goes;
        }
        match self.form.as_mut() {
            None => self.choose(key),
            Some(form) => match form.key(key) {
                Filled::Goes => Settled::Goes,
                Filled::Left => {
                    self.form = None;
                    Settled::Goes
                }
                Filled::Whole => self.decide(),
            },
        }
    }

    fn choose(&mut self, key: KeyEvent) -> Settled {
        let last = self.choices.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return Settled::Left,
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
        Settled::Goes
    }

    fn ask(&mut self) {
        let field = |name, hint, needed| Field {
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
            fields.push(Field {
                text: "no".to_owned(),
                toggle: true,
                ..field("over red checks", "space changes it", false)
            });
        }
        fields.push(Field {
            text: self.person.clone(),
            ..field("who", "recorded as the one who decided", true)
        });
        self.form = Some(Form {
            fields,
            at: 0,
            missing: None,
        });
    }

    fn decide(&mut self) -> Settled {
        let Some(form) = &self.form else {
            return Settled::Goes;
        };
        self.sent = true;
        let text = |name: &str| {
            let field = form.fields.iter().find(|field| field.name == name);
            field
                .map(|field| field.text.trim().to_owned())
                .unwrap_or_default()
        };
        let some = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        Settled::Decided(Decision {
            choice: self.choice(),
            who: text("who"),
            why: text("why"),
            over_red_checks: text("over red checks") == "yes",
            builder: some("builder"),
            reviewer: some("reviewer"),
        })
    }
}

enum Filled {
    Goes,
    Left,
    Whole,
}

impl Form {
    fn key(&mut self, key: KeyEvent) -> Filled {
        let last = self.fields.len().saturating_sub(1);
        self.missing = None;
        match key.code {
            KeyCode::Esc => return Filled::Left,
            KeyCode::Tab | KeyCode::Down => self.at = (self.at + 1).min(last),
            KeyCode::BackTab | KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Enter if self.at < last => self.at += 1,
            KeyCode::Enter => return self.whole(),
            code => self.type_in(code, key.modifiers),
        }
        Filled::Goes
    }

    /// A needed field that is empty is gone to, and nothing is decided.
    fn whole(&mut self) -> Filled {
        let empty = |field: &Field| field.needed && field.text.trim().is_empty();
        match self.fields.iter().position(empty) {
            Some(at) => {
                self.at = at;
                self.missing = self.fields.get(at).map(|field| field.name);
                Filled::Goes
            }
            None => Filled::Whole,
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
