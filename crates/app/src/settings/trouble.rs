//! What is wrong in a `countersign.toml`: all of it at once, each with its line and column and with
//! what was probably meant.

use std::ops::Range;

use engine::agent::known;
use flow::Policy;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file;
use super::notify::NotifySection;

/// More are not told; the first ones mended, the rest are seen.
const PROBLEMS_MAX: usize = 50;
/// How alike a word must be to be meant.
const ALIKE: f64 = 0.8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    pub line: usize,
    pub column: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl ConfigProblem {
    fn at(text: &str, place: Option<Range<usize>>, message: String, hint: Option<String>) -> Self {
        let (line, column) = position(text, place.map_or(0, |place| place.start));
        Self {
            line,
            column,
            message,
            hint,
        }
    }

    /// `countersign.toml:3:1: what is wrong`.
    pub fn told(&self, name: &str) -> String {
        format!("{name}:{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Line and column, from 1, of a place in a text.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default();
    (line, column.chars().count() + 1)
}

/// Everything that is wrong: words first, and only where all are known, what they come to.
pub fn find(text: &str) -> Vec<ConfigProblem> {
    let found = unknown_words(text);
    if found.is_empty() {
        senseless(text)
    } else {
        found
    }
}

/// What a project's file may not say, with its place.
pub fn of_the_users(text: &str, what: &str) -> ConfigProblem {
    let key = what.trim_matches(['[', ']']).to_owned();
    let span = DeTable::parse(text)
        .ok()
        .and_then(|read| place(read.get_ref(), &[key]));
    let message = format!(
        "{what} is not for a project's file: a repository would reach out in your name; `run` refuses it"
    );
    let hint = "put it into your own file, ~/.config/countersign/config.toml".to_owned();
    ConfigProblem::at(text, span, message, Some(hint))
}

/// A file of `[briefs]` that cannot be used, with the place of its key.
pub fn of_briefs(text: &str, role: &str, message: &str, hint: &str) -> ConfigProblem {
    let span = DeTable::parse(text)
        .ok()
        .and_then(|read| place(read.get_ref(), &["briefs".to_owned(), role.to_owned()]));
    ConfigProblem::at(text, span, message.to_owned(), Some(hint.to_owned()))
}

/// Reads again and again, each time without the line that was wrong.
fn unknown_words(text: &str) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let mut rest = text.to_owned();
    while found.len() < PROBLEMS_MAX {
        let Err(error) = file::words(&rest) else {
            break;
        };
        let broken = rest.parse::<toml::Table>().is_err();
        if broken && !found.is_empty() {
            // What was blanked out may be what is missing now.
            break;
        }
        let (message, hint) = explained(error.message());
        found.push(ConfigProblem::at(text, error.span(), message, hint));
        match error.span() {
            Some(span) if !broken => rest = without(&rest, &span),
            Some(_) | None => break,
        }
    }
    found.sort_by_key(|problem| (problem.line, problem.column));
    found
}

/// The text with the lines of a span blanked out; of a table's head, with the table.
fn without(text: &str, span: &Range<usize>) -> String {
    let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = |from: usize| text[from..].find('\n').map_or(text.len(), |at| from + at);
    let mut end = line_end(span.end.max(start));
    if text[start..].trim_start().starts_with('[') {
        while let Some(next) = text.get(end + 1..).filter(|next| !next.is_empty()) {
            if next.trim_start().starts_with('[') {
                break;
            }
            end = line_end(end + 1);
        }
    }
    let blank: String = text[start..end]
        .chars()
        .map(|c| if c == '\n' { '\n' } else { ' ' })
        .collect();
    format!("{}{blank}{}", &text[..start], &text[end..])
}

/// The reader's words in ours, and what was meant.
fn explained(message: &str) -> (String, Option<String>) {
    let first = message.lines().next().unwrap_or_default();
    let quoted: Vec<&str> = first.split('`').skip(1).step_by(2).collect();
    let Some((word, known)) = quoted.split_first() else {
        return (first.to_owned(), None);
    };
    if first.starts_with("unknown field") {
        return (
            format!("there is no `{word}` here"),
            Some(meant(word, known, "keys")),
        );
    }
    if first.starts_with("unknown variant") {
        let what = format!("`{word}` is no value that this can have");
        return (what, Some(meant(word, known, "values")));
    }
    (first.to_owned(), None)
}

/// `did you mean …?`, or what there is.
pub fn meant(word: &str, known: &[&str], what: &str) -> String {
    match closest(word, known) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("{what}: {}", known.join(", ")),
    }
}

pub fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = word.to_lowercase().replace('-', "_");
    let likeness = |other: &str| strsim::jaro_winkler(&folded, &other.replace('-', "_"));
    let close = known.iter().filter(|other| likeness(other) >= ALIKE);
    close
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .copied()
}

/// Known words that come to nothing: a preset, an agent or a number that cannot be.
fn senseless(text: &str) -> Vec<ConfigProblem> {
    let Ok(read) = DeTable::parse(text) else {
        return Vec::new();
    };
    let top = read.get_ref();
    let mut found = Vec::new();
    let preset = string(top, "preset");
    if let Some((name, span)) = preset
        .clone()
        .filter(|(name, _)| Policy::preset(name).is_none())
    {
        let hint = meant(&name, &Policy::PRESETS, "presets");
        let what = format!("there is no preset {name:?}");
        found.push(ConfigProblem::at(text, Some(span), what, Some(hint)));
        return found;
    }
    found.extend(unknown_agents(text, top));
    let table: toml::Table = text.parse().unwrap_or_default();
    found.extend(hostless(text, top, &table));
    let notify = table.get("notify").cloned();
    let targets: Vec<NotifySection> = notify
        .and_then(|all| all.try_into().ok())
        .unwrap_or_default();
    for problem in file::targets(&targets) {
        let span = place(top, &["notify".to_owned()]);
        found.push(ConfigProblem::at(text, span, problem, None));
    }
    let policy = match &preset {
        Some((name, _)) => file::over_preset(name, &table).ok(),
        None => table
            .get("policy")
            .and_then(|own| own.clone().try_into().ok()),
    };
    let problems = policy.map(|policy: Policy| policy.problems());
    for problem in problems.unwrap_or_default() {
        let span = key_of(&problem).and_then(|path| place(top, &path));
        found.push(ConfigProblem::at(text, span, problem, None));
    }
    found.sort_by_key(|problem| (problem.line, problem.column));
    found
}

/// Agents whose hosts are none.
fn hostless(text: &str, top: &DeTable<'_>, table: &toml::Table) -> Vec<ConfigProblem> {
    let agents = table.get("agents").and_then(toml::Value::as_table);
    let wrong = agents.into_iter().flatten().filter_map(|(name, agent)| {
        let agent: file::AgentSection = agent.clone().try_into().ok()?;
        let problem = agent.problem(name)?;
        let path = ["agents".to_owned(), name.clone(), "hosts".to_owned()];
        Some(ConfigProblem::at(text, place(top, &path), problem, None))
    });
    wrong.collect()
}

/// The key that a sentence on the policy begins with.
fn key_of(problem: &str) -> Option<Vec<String>> {
    let word = problem.split([' ', ':']).next()?;
    let path = word.split('.').map(str::to_owned);
    Some(std::iter::once("policy".to_owned()).chain(path).collect())
}

/// Where a key stands; where only its table does, that.
fn place(top: &DeTable<'_>, path: &[String]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let (key, value) = top.iter().find(|(key, _)| key.get_ref() == first)?;
    match value.get_ref() {
        DeValue::Table(table) if !rest.is_empty() => {
            place(table, rest).or_else(|| Some(key.span()))
        }
        _ => Some(key.span()),
    }
}

fn string(table: &DeTable<'_>, key: &str) -> Option<(String, Range<usize>)> {
    strings(table, key).into_iter().next()
}

/// A string, or each of a list.
fn strings(table: &DeTable<'_>, key: &str) -> Vec<(String, Range<usize>)> {
    let Some((_, value)) = table.iter().find(|(known, _)| known.get_ref() == key) else {
        return Vec::new();
    };
    let one = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Some((text.to_string(), value.span())),
        _ => None,
    };
    match value.get_ref() {
        DeValue::Array(list) => list.iter().filter_map(one).collect(),
        _ => one(value).into_iter().collect(),
    }
}

/// Names that are no CLI we know, none that the file describes, and no command.
fn unknown_agents(text: &str, top: &DeTable<'_>) -> Vec<ConfigProblem> {
    let described: Vec<String> = top
        .iter()
        .filter(|(key, _)| key.get_ref() == "agents")
        .filter_map(|(_, value)| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        })
        .flat_map(|table| table.iter().map(|(key, _)| key.get_ref().to_string()))
        .collect();
    let known: Vec<&str> = known::ALL
        .iter()
        .map(|cli| cli.name)
        .chain(described.iter().map(String::as_str))
        .collect();
    let roles = ["builder", "reviewer", "verifier"];
    let named = roles.iter().flat_map(|role| strings(top, role));
    named
        .filter(|(name, _)| !is_agent(name, &known))
        .map(|(name, span)| {
            let hint = meant(
                &name,
                &known,
                "agents (or command:PROGRAM, acp:PROGRAM, scripted:FILE)",
            );
            let what = format!("there is no agent {name:?}");
            ConfigProblem::at(text, Some(span), what, Some(hint))
        })
        .collect()
}

fn is_agent(spec: &str, known: &[&str]) -> bool {
    let forms = ["command:", "acp:", "scripted:"];
    let name = spec.rsplit_once('@').map_or(spec, |(name, _)| name);
    forms.iter().any(|form| spec.starts_with(form)) || known.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let problems = find(text);
        problems
            .iter()
            .map(|problem| {
                let hint = problem.hint.clone().unwrap_or_default();
                format!("{} {hint}", problem.told("f"))
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn all_unknown_words_are_named_at_once_with_what_was_meant() {
        let text = "bulder = \"claude\"\n\n[policy]\nmax_round = 2\nland = \"merg\"\n\n[polcy.limits]\nx = 1\n\n[checks]\ntest = \"make\"\n";
        assert_eq!(
            told(text),
            [
                "f:1:1: there is no `bulder` here did you mean `builder`?",
                "f:4:1: there is no `max_round` here did you mean `max_rounds`?",
                "f:5:8: `merg` is no value that this can have did you mean `merge`?",
                "f:7:2: there is no `polcy` here did you mean `policy`?",
            ]
        );
    }

    #[test]
    fn agents_presets_and_numbers_that_cannot_be_have_a_place() {
        assert_eq!(
            told("reviewer = \"claud\"\nbuilder = \"command:./x\"\n"),
            ["f:1:12: there is no agent \"claud\" did you mean `claude`?"]
        );
        assert_eq!(
            told("preset = \"carefull\"\n"),
            ["f:1:10: there is no preset \"carefull\" did you mean `careful`?"]
        );
        let told = told("[policy]\nmax_rounds = 9\n");
        assert!(told[0].starts_with("f:2:1: max_rounds"), "{told:?}");
    }

    #[test]
    fn what_is_no_toml_is_told_once() {
        let told = told("builder = \n[policy\n");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("f:2:8: unclosed table"), "{told:?}");
    }

    #[test]
    fn a_sound_file_has_no_problem() {
        assert_eq!(
            told("builder = \"claude@opus\"\n[checks]\ntest = \"make\"\n"),
            [""; 0]
        );
    }
}
