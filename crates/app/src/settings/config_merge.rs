//! Adds settings to a configuration file without touching what it says: comments, order and every
//! value that is set already stay.

use serde::Serialize;
use toml_edit::{DocumentMut, Item, Table};

use super::config_problems;
use crate::failure::{ExitKind, Failure};

/// A setting that an import proposes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProposedSetting {
    /// The key with dots: `policy.limits.batch_max`.
    pub key: String,
    pub value: toml::Value,
    /// The value's place in the imported file.
    pub origin: String,
}

impl ProposedSetting {
    pub fn new(key: &str, value: toml::Value, origin: &str) -> Self {
        Self {
            key: key.to_owned(),
            value,
            origin: origin.to_owned(),
        }
    }
}

/// A configuration file with the proposed settings.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MergedConfig {
    pub text: String,
    /// Keys that the file did not have.
    pub added: Vec<String>,
    /// Keys that the file sets to another value. They stay as they are.
    pub conflicts: Vec<String>,
}

/// Adds the settings that the text does not have. Fails if the result would not be a valid
/// configuration, or if it lost anything; `name` is for messages.
pub fn merge(
    name: &str,
    text: &str,
    settings: &[ProposedSetting],
) -> Result<MergedConfig, Failure> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        Failure::usage(format!("{name}: {}", error.to_string().trim_end()))
    })?;
    let mut merged = MergedConfig::default();
    for setting in settings {
        match insert(document.as_table_mut(), setting)? {
            Inserted::Added => merged.added.push(setting.key.clone()),
            Inserted::Equal => {}
            Inserted::Differs(present) => merged.conflicts.push(format!(
                "{} = {present} stays; {} has {}",
                setting.key, setting.origin, setting.value
            )),
        }
    }
    merged.text = document.to_string();
    validate(name, text, &merged.text)?;
    Ok(merged)
}

enum Inserted {
    Added,
    Equal,
    Differs(String),
}

fn insert(root: &mut Table, setting: &ProposedSetting) -> Result<Inserted, Failure> {
    let mut path: Vec<&str> = setting.key.split('.').collect();
    let Some(last) = path.pop() else {
        return Err(Failure::error("a setting has no key"));
    };
    let mut table: &mut dyn toml_edit::TableLike = root;
    for key in path {
        let item = table.entry(key).or_insert_with(|| {
            let mut new = Table::new();
            // Only tables with values of their own get a header.
            new.set_implicit(true);
            Item::Table(new)
        });
        table = item.as_table_like_mut().ok_or_else(|| {
            Failure::new(
                ExitKind::Refused,
                format!("{} cannot be added: `{key}` is not a table", setting.key),
            )
        })?;
    }
    if let Some(present) = table.get(last) {
        let present = present.to_string().trim().to_owned();
        let parsed: Option<toml::Value> = toml::from_str::<toml::Table>(&format!("v = {present}"))
            .ok()
            .and_then(|mut table| table.remove("v"));
        return Ok(if parsed.as_ref() == Some(&setting.value) {
            Inserted::Equal
        } else {
            Inserted::Differs(present)
        });
    }
    let value: toml_edit::Value = setting
        .value
        .to_string()
        .parse()
        .map_err(|error: toml_edit::TomlError| Failure::error(error.to_string()))?;
    table.insert(last, Item::Value(value));
    Ok(Inserted::Added)
}

/// Checks that the new text is a valid configuration in which every old value is the same.
fn validate(name: &str, before: &str, after: &str) -> Result<(), Failure> {
    let table = |text: &str| {
        toml::from_str::<toml::Table>(text)
            .map_err(|error| Failure::usage(format!("{name}: {}", error.message())))
    };
    if !contains(
        &toml::Value::Table(table(after)?),
        &toml::Value::Table(table(before)?),
    ) {
        return Err(Failure::error(format!(
            "{name} could not be extended without changing it; it is left as it is"
        )));
    }
    let known: Vec<String> = problems(name, before);
    match problems(name, after)
        .into_iter()
        .find(|problem| !known.contains(problem))
    {
        Some(problem) => {
            Err(Failure::usage(problem).hint("the settings do not fit this file; add them by hand"))
        }
        None => Ok(()),
    }
}

fn problems(name: &str, text: &str) -> Vec<String> {
    let found = config_problems::find_problems(text).into_iter();
    found
        .map(|problem| format!("{name}: {}", problem.message))
        .collect()
}

fn contains(all: &toml::Value, part: &toml::Value) -> bool {
    match (all, part) {
        (toml::Value::Table(all), toml::Value::Table(part)) => part
            .iter()
            .all(|(key, value)| all.get(key).is_some_and(|other| contains(other, value))),
        (all, part) => all == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Vec<ProposedSetting> {
        vec![
            ProposedSetting::new("builder", "engineer".into(), "the agent engineer"),
            ProposedSetting::new(
                "policy.limits.batch_max",
                7.into(),
                "safeguards.max_queue_size",
            ),
            ProposedSetting::new(
                "agents.engineer.adapter",
                "claude".into(),
                "the agent engineer",
            ),
        ]
    }

    #[test]
    fn a_new_file_has_exactly_the_settings() {
        let merged = merge("countersign.toml", "", &settings()).unwrap();
        assert_eq!(
            merged.text,
            "builder = \"engineer\"\n\n[policy.limits]\nbatch_max = 7\n\n[agents.engineer]\nadapter = \"claude\"\n"
        );
        assert_eq!(merged.added.len(), 3);
    }

    #[test]
    fn an_existing_file_keeps_comments_order_and_values() {
        let before = "# ours\nbuilder = \"codex\" # cheap\n\n[policy]\nmax_rounds = 2 # two\n\n[policy.limits]\nbatch_max = 7\n\n[checks]\ntest = \"make\"\n";
        let merged = merge("countersign.toml", before, &settings()).unwrap();
        assert!(merged.text.starts_with(before), "{}", merged.text);
        assert_eq!(merged.added, ["agents.engineer.adapter"]);
        assert_eq!(
            merged.conflicts,
            ["builder = \"codex\" # cheap stays; the agent engineer has \"engineer\""]
        );
        let again = merge("countersign.toml", &merged.text, &settings()).unwrap();
        assert_eq!(again.text, merged.text, "a second merge changes nothing");
    }

    #[test]
    fn a_key_of_another_kind_is_not_replaced() {
        let refused = merge("countersign.toml", "agents = 3\n", &settings()).unwrap_err();
        assert!(
            refused.to_string().contains("`agents` is not a table"),
            "{refused}"
        );
    }
}
