//! Files over files: what stands in the base branch's goes before the work tree's, that before the
//! user's own, and where none says anything the default holds. Each value knows where it came from.
//!
//! The order is a matter of trust. A change under review can edit its work tree's file but not the
//! base branch's, so it cannot loosen its own policy.

use serde::Serialize;
use serde_json::Value;

use super::file::{self, ProjectSettings};
use super::notify::NotifySection;
use crate::failure::Failure;

/// A configuration file that was found.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// As messages call it: `countersign.toml on main`, or its path.
    pub name: String,
    pub text: String,
}

/// The combined configuration.
#[derive(Clone, Debug, Default)]
pub struct LayeredConfig {
    pub project: ProjectSettings,
    /// Name and content of each file, the strongest first.
    tables: Vec<(String, toml::Table)>,
}

/// Keys whose own keys are looked at one by one; any other is taken whole from the strongest file.
/// Checks are not among them: a project's list of checks is one statement, and a check of the
/// user's own file must not slip into it.
const MERGED_KEYS: [&str; 5] = ["policy", "agents", "families", "landing", "prices"];

/// The strongest first. Each must be sound by itself.
pub fn combine(sources: &[ConfigSource]) -> Result<LayeredConfig, Failure> {
    let mut tables = Vec::new();
    for source in sources {
        // Each file is read by itself, so that an error names its file and line. After the merge
        // nobody could tell.
        file::read(&source.name, &source.text)?;
        tables.push((
            source.name.clone(),
            file::table(&source.name, &source.text)?,
        ));
    }
    let mut merged = toml::Table::new();
    // The weakest first, so that each stronger one overwrites it.
    for (_, table) in tables.iter().rev() {
        merge_over(&mut merged, table);
    }
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    Ok(LayeredConfig {
        project: file::from_table(&names.join(" over "), merged)?,
        tables,
    })
}

fn merge_over(under: &mut toml::Table, over: &toml::Table) {
    // Otherwise single keys of a weaker file would change a policy that the stronger one named as a
    // whole.
    if over.contains_key("preset") {
        // A preset is a whole policy; what a weaker file says of it is not asked.
        under.remove("policy");
    }
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over))
                if MERGED_KEYS.contains(&key.as_str()) =>
            {
                file::overlay(under, over);
            }
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// One value of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub key: String,
    pub value: Value,
    /// `flag`, `environment`, a file's name, `preset NAME` or `default`.
    pub origin: String,
}

impl LayeredConfig {
    /// Every value and where it came from, in the order of the file.
    pub fn settings(&self) -> Vec<Setting> {
        let mut found = Vec::new();
        self.flatten("", &self.to_value(), &mut found);
        found
    }

    fn to_value(&self) -> Value {
        let project = &self.project;
        let checks: serde_json::Map<String, Value> = project
            .checks
            .iter()
            .map(|check| (check.name.clone(), Value::String(check.command.clone())))
            .collect();
        // The field is left out of the JSON if it is off, and `config show` lists every
        // value.
        let mut policy = serde_json::json!(project.policy);
        policy["min_confidence"] = serde_json::json!(project.policy.min_confidence);
        serde_json::json!({
            "builder": project.builder,
            "reviewer": one_or_more(&project.reviewers),
            "verifier": project.verifier,
            "rules": project.rules,
            "briefs": project.briefs,
            "checks": checks,
            "setup": {
                "run": project.setup.command.as_ref().map(|check| &check.command),
                "caches": project.setup.caches,
            },
            "worker": project.worker,
            "families": project.families,
            "agents": project.agents,
            "preset": self.preset(),
            // Addresses and keys of notifications are secrets.
            "notify": project.notify.iter().map(NotifySection::redacted).collect::<Vec<_>>(),
            "spool": project.spool,
            "sandbox": project.sandbox,
            "forge": project.forge,
            "tracker": project.tracker,
            "connection": project.connections,
            "server": project.server,
            "landing": project.landing,
            "prices": project.prices,
            "retention": project.retention,
            "policy": policy,
        })
    }

    fn flatten(&self, path: &str, value: &Value, found: &mut Vec<Setting>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (key, value) in fields {
                    let path = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    self.flatten(&path, value, found);
                }
            }
            other => found.push(Setting {
                key: path.to_owned(),
                value: other.clone(),
                origin: self.origin(path),
            }),
        }
    }

    /// The strongest file that says it; else the preset, else nobody.
    fn origin(&self, path: &str) -> String {
        for (name, table) in &self.tables {
            if says(table, path) {
                return name.clone();
            }
            // Behind a preset no weaker file is asked for the policy, as in `merge_over`.
            if path.starts_with("policy") && table.contains_key("preset") {
                break;
            }
        }
        match self.preset() {
            Some(preset) if path.starts_with("policy") => format!("preset {preset}"),
            Some(_) | None => "default".to_owned(),
        }
    }

    fn preset(&self) -> Option<&str> {
        let mut presets = self
            .tables
            .iter()
            .filter_map(|(_, table)| table.get("preset"));
        presets.next()?.as_str()
    }
}

/// As a person writes it.
fn one_or_more(names: &[String]) -> Value {
    match names {
        [] => Value::Null,
        [one] => Value::String(one.clone()),
        more => serde_json::json!(more),
    }
}

fn says(table: &toml::Table, path: &str) -> bool {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match table.get(first) {
        None => false,
        Some(toml::Value::Table(inner)) if !rest.is_empty() => says(inner, rest),
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> ConfigSource {
        ConfigSource {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    fn origin(layered: &LayeredConfig, key: &str) -> String {
        let settings = layered.settings();
        let found = settings.iter().find(|setting| setting.key == key).unwrap();
        format!("{} {}", found.value, found.origin)
    }

    #[test]
    fn the_strongest_file_that_says_it_wins_key_by_key() {
        let layered = combine(&[
            source("base", "reviewer = \"codex\"\n[policy]\nmax_rounds = 2\n[checks]\ntest = \"make\"\n"),
            source("user", "builder = \"claude\"\nreviewer = \"gemini\"\n[policy]\nmax_rounds = 5\nverify = \"never\"\n[checks]\nown = \"true\"\n"),
        ])
        .unwrap();
        assert_eq!(origin(&layered, "builder"), "\"claude\" user");
        assert_eq!(origin(&layered, "reviewer"), "\"codex\" base");
        assert_eq!(origin(&layered, "policy.max_rounds"), "2 base");
        assert_eq!(origin(&layered, "policy.verify"), "\"never\" user");
        assert_eq!(origin(&layered, "policy.land"), "\"merge\" default");
        assert_eq!(layered.project.checks.len(), 1);
    }

    #[test]
    fn a_preset_goes_before_what_a_weaker_file_says_of_the_policy() {
        let layered = combine(&[
            source("base", "preset = \"four-rounds\"\n"),
            source("user", "[policy]\nmax_rounds = 1\n"),
        ])
        .unwrap();
        assert_eq!(
            origin(&layered, "policy.max_rounds"),
            "4 preset four-rounds"
        );
    }
}
