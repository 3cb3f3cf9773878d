//! Finds all problems of a `countersign.toml` at once, each with line, column, and a suggestion.

use std::ops::Range;

use engine::agent::registry;
use flow::Policy;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::connections::{ConnectionSection, connection_problems};
use super::forge::ForgeSection;
use super::notify::NotifySection;
use super::oidc::ServerSection;
use super::tracker::TrackerSection;
use super::{file, renamed_keys};

/// Maximum number of problems that are listed; the rest shows after the first are fixed.
const PROBLEMS_MAX: usize = 50;
/// Minimum similarity of a word to be suggested.
const SIMILARITY_MIN: f64 = 0.8;

/// A problem in a configuration file, with its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    pub line: usize,
    pub column: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl ConfigProblem {
    fn at(text: &str, span: Option<Range<usize>>, message: String, hint: Option<String>) -> Self {
        let (line, column) = position(text, span.map_or(0, |span| span.start));
        Self {
            line,
            column,
            message,
            hint,
        }
    }

    /// Formats the problem like `countersign.toml:3:1: message`.
    pub fn display_with_name(&self, name: &str) -> String {
        format!("{name}:{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Returns line and column, from 1, of a byte offset in a text.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default();
    (line, column.chars().count() + 1)
}

/// Lists all problems: unknown keys and words, and invalid values in the rest of the file.
pub fn find_problems(text: &str) -> Vec<ConfigProblem> {
    let (mut problems, rest) = unknown_words(text);
    // Positions in the rest are those in the text, because faulty lines are blank there.
    problems.extend(invalid_values(&rest));
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems.truncate(PROBLEMS_MAX);
    problems
}

/// Builds the problem of a key that only the user's own file may have.
pub fn user_only_problem(text: &str, what: &str) -> ConfigProblem {
    let key = what.trim_matches(['[', ']']).to_owned();
    let span = DeTable::parse(text)
        .ok()
        .and_then(|read| key_span(read.get_ref(), &[key]));
    let message = format!(
        "{what} is not allowed in a project's file: a repository could act in your name; `run` refuses it"
    );
    let hint = "put it into your own file, ~/.config/countersign/config.toml".to_owned();
    ConfigProblem::at(text, span, message, Some(hint))
}

/// Builds the problem of a `[briefs]` file that cannot be used.
pub fn brief_problem(text: &str, role: &str, message: &str, hint: &str) -> ConfigProblem {
    let span = DeTable::parse(text)
        .ok()
        .and_then(|read| key_span(read.get_ref(), &["briefs".to_owned(), role.to_owned()]));
    ConfigProblem::at(text, span, message.to_owned(), Some(hint.to_owned()))
}

/// Finds unknown keys and words. The parser reports one at a time, so the text is parsed again
/// without each faulty line. Returns the text without these lines too.
fn unknown_words(text: &str) -> (Vec<ConfigProblem>, String) {
    let mut problems = Vec::new();
    let mut rest = text.to_owned();
    let mut blanked_keys = Vec::new();
    for _ in 0..PROBLEMS_MAX {
        let Err(error) = file::validate_keys(&rest) else {
            break;
        };
        let is_invalid_toml = rest.parse::<toml::Table>().is_err();
        if is_invalid_toml && !problems.is_empty() {
            // The blanked lines may be the cause of this error.
            break;
        }
        let missing = error.message().strip_prefix("missing field `");
        let missing = missing.and_then(|name| name.split('`').next());
        // A key that is there with a wrong value is missing only because its line is blank by now.
        if !missing.is_some_and(|name| blanked_keys.iter().any(|key| key == name)) {
            let (message, hint) = explain(error.message());
            problems.push(ConfigProblem::at(text, error.span(), message, hint));
        }
        match error.span() {
            Some(span) if !is_invalid_toml => {
                blanked_keys.extend(key_of_line(&rest, span.start));
                rest = without(&rest, &span);
            }
            Some(_) | None => break,
        }
    }
    (problems, rest)
}

/// Returns the key of the line at a position, if a value is set there.
fn key_of_line(text: &str, at: usize) -> Option<String> {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let (key, _) = text[start..].lines().next()?.split_once('=')?;
    Some(key.trim().trim_matches('"').to_owned())
}

/// Blanks out the lines of a span; for a table's header, the whole table.
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
        .bytes()
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
        .collect();
    format!("{}{blank}{}", &text[..start], &text[end..])
}

/// Translates the parser's message, and adds a suggestion.
fn explain(message: &str) -> (String, Option<String>) {
    let first = message.lines().next().unwrap_or_default();
    let quoted: Vec<&str> = first.split('`').skip(1).step_by(2).collect();
    let Some((word, known)) = quoted.split_first() else {
        return (plain_types(first), None);
    };
    // The parser also accepts names of earlier versions, which must not be suggested.
    let known: Vec<&str> = known
        .iter()
        .copied()
        .filter(|name| !renamed_keys::is_old(name))
        .collect();
    if first.starts_with("unknown field") {
        return (
            format!("unknown key `{word}`"),
            Some(did_you_mean(word, &known, "keys")),
        );
    }
    if first.starts_with("unknown variant") {
        let message_text = format!("`{word}` is not a valid value");
        return (message_text, Some(did_you_mean(word, &known, "values")));
    }
    (plain_types(first), None)
}

/// Replaces the parser's names of types in a message by words: a person has never seen our types.
fn plain_types(message: &str) -> String {
    const PLAIN: &[(&str, &str)] = &[
        ("f64", "a number"),
        ("u8", "a whole number"),
        ("u16", "a whole number"),
        ("u32", "a whole number"),
        ("u64", "a whole number"),
        ("usize", "a whole number"),
        ("i64", "a whole number"),
        ("a map", "a table"),
        ("a sequence", "a list"),
        ("a boolean", "true or false"),
    ];
    let is_about_types =
        message.starts_with("invalid type") || message.starts_with("invalid value");
    let Some((before, expected)) = message.split_once(", expected ").filter(|_| is_about_types)
    else {
        return message.to_owned();
    };
    let known = PLAIN.iter().find(|(name, _)| *name == expected);
    let plain = match known {
        Some((_, plain)) => plain,
        None if expected.starts_with("struct ") => "a table",
        None => expected,
    };
    format!("{before}, expected {plain}")
}

/// Suggests the closest known word, or lists all of them.
pub fn did_you_mean(word: &str, known: &[&str], what: &str) -> String {
    match closest(word, known) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("{what}: {}", known.join(", ")),
    }
}

/// Returns the most similar known word, if one is similar enough.
pub fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = word.to_lowercase().replace('-', "_");
    let likeness = |other: &str| strsim::jaro_winkler(&folded, &other.replace('-', "_"));
    let close = known
        .iter()
        .filter(|other| likeness(other) >= SIMILARITY_MIN);
    close
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .copied()
}

/// Finds values that are not valid: unknown presets and agents, impossible numbers.
fn invalid_values(text: &str) -> Vec<ConfigProblem> {
    let Ok(read) = DeTable::parse(text) else {
        return Vec::new();
    };
    let top = read.get_ref();
    let mut problems = Vec::new();
    let preset = string(top, "preset");
    if let Some((name, span)) = preset
        .clone()
        .filter(|(name, _)| Policy::preset(name).is_none())
    {
        let hint = did_you_mean(&name, &Policy::PRESETS, "presets");
        let message = format!("there is no preset {name:?}");
        problems.push(ConfigProblem::at(text, Some(span), message, Some(hint)));
    }
    let preset = preset.filter(|(name, _)| Policy::preset(name).is_some());
    problems.extend(unknown_agents(text, top));
    let mut table: toml::Table = text.parse().unwrap_or_default();
    renamed_keys::translate(&mut table);
    problems.extend(invalid_hosts(text, top, &table));
    let notify = table.get("notify").cloned();
    let targets: Vec<NotifySection> = notify
        .and_then(|all| all.try_into().ok())
        .unwrap_or_default();
    for problem in file::target_problems(&targets) {
        let span = key_span(top, &["notify".to_owned()]);
        problems.push(ConfigProblem::at(text, span, problem, None));
    }
    let landing = table.get("landing").cloned();
    let landing = landing.and_then(|section| section.try_into().ok());
    let landing: flow::landing::LandingConfig = landing.unwrap_or_default();
    for problem in landing.problems() {
        let path = ["landing".to_owned(), "committer".to_owned()];
        problems.push(ConfigProblem::at(text, key_span(top, &path), problem, None));
    }
    let section = table.get("forge").cloned();
    let section: Option<ForgeSection> = section.and_then(|section| section.try_into().ok());
    for problem in section.unwrap_or_default().problems() {
        let span = key_span(top, &["forge".to_owned()]);
        problems.push(ConfigProblem::at(text, span, problem, None));
    }
    let section = table.get("tracker").cloned();
    let section: Option<TrackerSection> = section.and_then(|section| section.try_into().ok());
    for problem in section.unwrap_or_default().problems() {
        let span = key_span(top, &["tracker".to_owned()]);
        problems.push(ConfigProblem::at(text, span, problem, None));
    }
    let connections = table.get("connection").cloned();
    let connections: Vec<ConnectionSection> = connections
        .and_then(|all| all.try_into().ok())
        .unwrap_or_default();
    for problem in connection_problems(&connections) {
        let span = key_span(top, &["connection".to_owned()]);
        problems.push(ConfigProblem::at(text, span, problem, None));
    }
    let section = table.get("server").cloned();
    let section: Option<ServerSection> = section.and_then(|section| section.try_into().ok());
    for problem in section.unwrap_or_default().problems() {
        let span = key_span(top, &["server".to_owned()]);
        problems.push(ConfigProblem::at(text, span, problem, None));
    }
    let policy = match &preset {
        Some((name, _)) => file::apply_preset(name, &table).ok(),
        None => table
            .get("policy")
            .and_then(|own| own.clone().try_into().ok()),
    };
    let policy_problems = policy.map(|policy: Policy| policy.problems());
    for problem in policy_problems.unwrap_or_default() {
        let span = key_of(&problem).and_then(|path| key_span(top, &path));
        problems.push(ConfigProblem::at(text, span, problem, None));
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}

/// Finds agents with invalid hosts.
fn invalid_hosts(text: &str, top: &DeTable<'_>, table: &toml::Table) -> Vec<ConfigProblem> {
    let agents = table.get("agents").and_then(toml::Value::as_table);
    let problems = agents.into_iter().flatten().filter_map(|(name, agent)| {
        let agent: file::AgentSection = agent.clone().try_into().ok()?;
        let problem = agent.problem(name)?;
        let path = ["agents".to_owned(), name.clone(), "hosts".to_owned()];
        Some(ConfigProblem::at(text, key_span(top, &path), problem, None))
    });
    problems.collect()
}

/// Returns the key at the beginning of a policy problem's text.
fn key_of(problem: &str) -> Option<Vec<String>> {
    let word = problem.split([' ', ':']).next()?;
    let path = word.split('.').map(str::to_owned);
    Some(std::iter::once("policy".to_owned()).chain(path).collect())
}

/// Returns the span of a key, or of its table if the key is not there.
fn key_span(top: &DeTable<'_>, path: &[String]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let (key, value) = top.iter().find(|(key, _)| key.get_ref() == first)?;
    match value.get_ref() {
        DeValue::Table(table) if !rest.is_empty() => {
            key_span(table, rest).or_else(|| Some(key.span()))
        }
        _ => Some(key.span()),
    }
}

fn string(table: &DeTable<'_>, key: &str) -> Option<(String, Range<usize>)> {
    strings(table, key).into_iter().next()
}

/// Returns a string value, or all strings of a list.
fn strings(table: &DeTable<'_>, key: &str) -> Vec<(String, Range<usize>)> {
    let Some((_, value)) = table
        .iter()
        .find(|(table_key, _)| table_key.get_ref() == key)
    else {
        return Vec::new();
    };
    let string_of = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Some((text.to_string(), value.span())),
        _ => None,
    };
    match value.get_ref() {
        DeValue::Array(list) => list.iter().filter_map(string_of).collect(),
        _ => string_of(value).into_iter().collect(),
    }
}

/// Finds agents that are no known CLI, no configured agent and no command.
fn unknown_agents(text: &str, top: &DeTable<'_>) -> Vec<ConfigProblem> {
    let configured: Vec<String> = top
        .iter()
        .filter(|(key, _)| key.get_ref() == "agents")
        .filter_map(|(_, value)| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        })
        .flat_map(|table| table.iter().map(|(key, _)| key.get_ref().to_string()))
        .collect();
    let known: Vec<&str> = registry::names()
        .into_iter()
        .chain(configured.iter().map(String::as_str))
        .collect();
    let roles = ["builder", "reviewer", "verifier"];
    let used = roles.iter().flat_map(|role| strings(top, role));
    used.filter(|(name, _)| !is_agent(name, &known))
        .map(|(name, span)| {
            let hint = did_you_mean(
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
        let problems = find_problems(text);
        problems
            .iter()
            .map(|problem| {
                let hint = problem.hint.clone().unwrap_or_default();
                format!("{} {hint}", problem.display_with_name("f"))
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
                "f:1:1: unknown key `bulder` did you mean `builder`?",
                "f:4:1: unknown key `max_round` did you mean `max_rounds`?",
                "f:5:8: `merg` is not a valid value did you mean `merge`?",
                "f:7:2: unknown key `polcy` did you mean `policy`?",
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
    fn a_value_of_another_type_is_named_in_words() {
        for (text, expected) in [
            ("[prices]\n\"m\" = 3\n", "expected a table"),
            (
                "[prices.\"m\"]\ninput = \"1\"\noutput = 2\n",
                "expected a number",
            ),
        ] {
            let told = told(text);
            assert!(told[0].contains(expected), "{text}: {told:?}");
            assert_eq!(told.len(), 1, "{told:?}");
        }
    }

    #[test]
    fn a_sound_file_has_no_problem() {
        assert_eq!(
            told("builder = \"claude@opus\"\n[checks]\ntest = \"make\"\n"),
            [""; 0]
        );
    }
}
