//! `countersign.toml`: how a project wants its changes built, checked and judged.

use std::collections::{BTreeMap, BTreeSet};

use flow::Policy;
use flow::policy::network::is_host;
use serde::{Deserialize, Serialize};

use super::notify::{NotifySection, TARGETS_MAX};
use super::trouble;
use crate::failure::Failure;

pub const NAME: &str = "countersign.toml";
pub const CHECK_SECS_DEFAULT: u64 = 900;

/// The file as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConfigFile {
    base: Option<String>,
    builder: Option<String>,
    reviewer: Option<OneOrMany>,
    verifier: Option<String>,
    rules: Vec<String>,
    briefs: Briefs,
    families: BTreeMap<String, String>,
    agents: BTreeMap<String, AgentSection>,
    checks: BTreeMap<String, CheckSection>,
    setup: SetupSection,
    worker: WorkerSection,
    preset: Option<String>,
    notify: Vec<NotifySection>,
    spool: SpoolSection,
    sandbox: SandboxSection,
    policy: Policy,
}

/// What the sandbox shows beside the usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSection {
    /// Directories and files that every run may read: `~/x`, or absolute.
    pub show: Vec<String>,
}

/// Files of the base branch whose text is added to the brief of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Briefs {
    pub builder: Option<String>,
    pub reviewer: Option<String>,
    pub verifier: Option<String>,
}

/// 001's directory, for `serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolSection {
    pub directory: Option<String>,
    pub logs: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a reviewer is an agent, or a list of them: one for each seat"
)]
enum OneOrMany {
    One(String),
    More(Vec<String>),
}

impl OneOrMany {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name],
            Self::More(names) => names,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a check is a command, or { run = \"…\", timeout_secs = 60, parallel = true, coverage_min = 80 }"
)]
enum CheckSection {
    Command(String),
    Full {
        run: String,
        timeout_secs: Option<u64>,
        #[serde(default)]
        parallel: bool,
        coverage_min: Option<Percent>,
    },
}

/// From 0 to 100.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u8")]
struct Percent(u8);

impl TryFrom<u8> for Percent {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        if number <= 100 {
            Ok(Self(number))
        } else {
            Err("a percentage is from 0 to 100")
        }
    }
}

/// How a fresh checkout becomes usable.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SetupSection {
    run: Option<String>,
    timeout_secs: Option<u64>,
    caches: Vec<String>,
}

/// What workers on other machines need to know of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSection {
    /// Where they get the repository from and put results: an address, or `origin`.
    pub remote: Option<String>,
}

/// An agent as the project wants it: another name, model or place for one that is known, or a
/// command of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSection {
    /// A known CLI's name, `command` or `acp`; the agent's own name where that is a known one.
    pub adapter: Option<String>,
    pub model: Option<String>,
    /// Given to a known CLI after ours.
    pub args: Vec<String>,
    /// The program and what goes before all other arguments.
    pub command: Option<String>,
    /// Variables that are passed on, beside the CLI's own.
    pub env: Vec<String>,
    /// Files below the home that are lent to it, beside the CLI's own.
    pub files: Vec<String>,
    /// Hosts that it may reach where the network is held to its provider, instead of the CLI's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

impl AgentSection {
    /// What is wrong with it, as it is called.
    pub fn problem(&self, name: &str) -> Option<String> {
        let mut hosts = self.hosts.iter().flatten();
        let bad = hosts.find(|host| !is_host(host))?;
        Some(format!(
            "agents.{name} has the host {bad:?}: write a host as \"example.com\", \"example.com:8443\" or \"*.example.com\", without a scheme or a path"
        ))
    }
}

/// A command that must succeed on the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    pub name: String,
    pub command: String,
    pub timeout_secs: u64,
    /// It may run beside others.
    pub parallel: bool,
    /// The percentage of lines that its output must show as covered.
    pub coverage_min: Option<u8>,
}

/// What a project says, with every default filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectSettings {
    pub base: Option<String>,
    pub builder: Option<String>,
    /// One for all seats, or one for each in turn.
    pub reviewers: Vec<String>,
    pub verifier: Option<String>,
    pub rules: Vec<String>,
    pub briefs: Briefs,
    /// Agents as they are written here, and their models' families.
    pub families: BTreeMap<String, String>,
    pub agents: BTreeMap<String, AgentSection>,
    pub checks: Vec<CheckSettings>,
    pub setup: SetupSettings,
    pub worker: WorkerSection,
    /// Who is told of what happens, and where 001's directory is. The user's own file alone may say.
    pub notify: Vec<NotifySection>,
    pub spool: SpoolSection,
    /// What the person lets every run read. The user's own file alone may say.
    pub sandbox: SandboxSection,
    pub policy: Policy,
}

/// What makes a fresh checkout usable: a command, and directories that are worth keeping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupSettings {
    pub command: Option<CheckSettings>,
    pub caches: Vec<String>,
}

/// Reads the file; `name` is what the messages call it.
pub fn read(name: &str, text: &str) -> Result<ProjectSettings, Failure> {
    let mut problems = trouble::find(text).into_iter();
    if let Some(first) = problems.next() {
        let mut failure = Failure::usage(first.told(name));
        failure.hints = first.hint.into_iter().collect();
        failure.hints.extend(problems.map(|other| other.told(name)));
        return Err(failure.hint("docs/policy.md lists every key with its default"));
    }
    of_table(name, table(name, text)?)
}

/// The file as a table, where it is TOML at all.
pub fn table(name: &str, text: &str) -> Result<toml::Table, Failure> {
    toml::from_str(text)
        .map_err(|error| Failure::usage(format!("{name}: {}", error.to_string().trim_end())))
}

/// A string as the file has it.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Whether these keys and values could stand in the file, and why not.
pub fn admits(value: serde_json::Value) -> Result<(), String> {
    let written: Result<ConfigFile, _> = serde_json::from_value(value);
    written.map(drop).map_err(|error| error.to_string())
}

/// The words of the file, without a thought on what they mean together.
pub(super) fn words(text: &str) -> Result<(), toml::de::Error> {
    toml::from_str::<ConfigFile>(text).map(drop)
}

/// What the table says, with every default filled in.
pub fn of_table(name: &str, table: toml::Table) -> Result<ProjectSettings, Failure> {
    let refuse = |error: toml::de::Error| Failure::usage(format!("{name}: {}", error.message()));
    let written: ConfigFile = table.clone().try_into().map_err(refuse)?;
    // Stored policies may lack newer keys; what a file does not say is the preset's.
    let preset = written.preset.as_deref().unwrap_or("standard");
    let policy =
        over_preset(preset, &table).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    sound(name, &policy)?;
    let mut agents = written.agents.iter();
    if let Some(problem) = agents.find_map(|(name, agent)| agent.problem(name)) {
        return Err(Failure::usage(format!("{name}: {problem}")));
    }
    if let Some(problem) = targets(&written.notify).into_iter().next() {
        return Err(Failure::usage(format!("{name}: {problem}")));
    }
    let setup = written.setup;
    let command = setup.run.map(|run| {
        let full = CheckSection::Full {
            run,
            timeout_secs: setup.timeout_secs,
            parallel: false,
            coverage_min: None,
        };
        check_of("setup".to_owned(), full)
    });
    let checks = written.checks.into_iter();
    Ok(ProjectSettings {
        base: written.base,
        builder: written.builder,
        reviewers: written.reviewer.map(OneOrMany::list).unwrap_or_default(),
        verifier: written.verifier,
        rules: written.rules,
        briefs: written.briefs,
        families: written.families,
        agents: written.agents,
        checks: checks.map(|(name, check)| check_of(name, check)).collect(),
        setup: SetupSettings {
            command,
            caches: setup.caches,
        },
        worker: written.worker,
        notify: written.notify,
        spool: written.spool,
        sandbox: written.sandbox,
        policy,
    })
}

/// All that is wrong with the targets of notifications.
pub(super) fn targets(all: &[NotifySection]) -> Vec<String> {
    let mut found: Vec<String> = all.iter().flat_map(NotifySection::problems).collect();
    let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
    if names.len() < all.len() {
        found.push("two targets of [[notify]] have the same name".to_owned());
    }
    if all.len() > TARGETS_MAX {
        found.push(format!("[[notify]] has at most {TARGETS_MAX} targets"));
    }
    found
}

impl ProjectSettings {
    /// Of what it says, what only the user's own file may: it would let a repository reach out in
    /// the person's name, or show its agents more of the person's files.
    pub fn says_what_is_the_users(&self) -> Option<&'static str> {
        if !self.notify.is_empty() {
            return Some("[[notify]]");
        }
        if self.sandbox != SandboxSection::default() {
            return Some("[sandbox]");
        }
        (self.spool != SpoolSection::default()).then_some("[spool]")
    }
}

/// Refuses a policy with impossible numbers, all of them at once.
pub fn sound(name: &str, policy: &Policy) -> Result<(), Failure> {
    let problems = policy.problems();
    if problems.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::usage(format!("{name}: the policy is impossible"));
    failure.hints = problems;
    Err(failure)
}

fn check_of(name: String, check: CheckSection) -> CheckSettings {
    let (command, timeout_secs, parallel, coverage_min) = match check {
        CheckSection::Command(command) => (command, None, false, None),
        CheckSection::Full {
            run,
            timeout_secs,
            parallel,
            coverage_min,
        } => (run, timeout_secs, parallel, coverage_min),
    };
    CheckSettings {
        name,
        command,
        timeout_secs: timeout_secs.unwrap_or(CHECK_SECS_DEFAULT),
        parallel,
        coverage_min: coverage_min.map(|percent| percent.0),
    }
}

/// The preset's numbers, with what the file itself says on top.
pub(super) fn over_preset(preset: &str, table: &toml::Table) -> Result<Policy, String> {
    let base = Policy::preset(preset).ok_or_else(|| format!("there is no preset {preset:?}"))?;
    let mut merged = toml::Table::try_from(&base).map_err(|error| error.to_string())?;
    if let Some(toml::Value::Table(own)) = table.get("policy") {
        overlay(&mut merged, own);
    }
    merged
        .try_into()
        .map_err(|error: toml::de::Error| error.message().to_owned())
}

pub(super) fn overlay(under: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => overlay(under, over),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_gives_the_numbers_that_the_file_does_not() {
        let project = read("f", "preset = \"scored\"\n[policy]\nmax_rounds = 2\n").unwrap();
        assert_eq!(project.policy.max_rounds, 2);
        assert_eq!(project.policy.limits.review_secs, 120);
    }

    #[test]
    fn checks_are_commands_or_tables() {
        let text = "[checks]\ntest = \"make test\"\nlint = { run = \"make lint\", timeout_secs = 5, coverage_min = 80 }\n";
        let project = read("f", text).unwrap();
        assert_eq!(project.checks.len(), 2);
        assert_eq!(project.checks[0].timeout_secs, 5);
        assert_eq!(project.checks[0].coverage_min, Some(80));
        assert!(
            read(
                "c.toml",
                "[checks]\ncover = { run = \"make\", coverage_min = 101 }\n"
            )
            .is_err()
        );
        assert_eq!(project.checks[1].command, "make test");
    }

    #[test]
    fn agents_have_names_of_the_project_s_own() {
        let text = "builder = \"fast\"\n[agents.fast]\nadapter = \"claude\"\nmodel = \"haiku\"\nenv = [\"HTTPS_PROXY\"]\n";
        let project = read("f", text).unwrap();
        assert_eq!(project.agents["fast"].model.as_deref(), Some("haiku"));
        assert!(read("f", "[agents.fast]\nmodell = \"x\"\n").is_err());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let failure = read(
            "countersign.toml",
            "base = \"main\"\n[policy]\nmax_round = 2\n",
        )
        .unwrap_err();
        let wanted = "countersign.toml:3:1: there is no `max_round` here";
        assert_eq!(failure.message, wanted);
        assert_eq!(failure.hints[0], "did you mean `max_rounds`?");
    }

    #[test]
    fn impossible_numbers_are_named_together() {
        let failure = read("f", "[policy]\nmax_rounds = 9\noverall_minimum = 120\n").unwrap_err();
        assert_eq!(failure.hints.len(), 2, "{failure:?}");
        assert!(
            failure.message.starts_with("f:2:1: max_rounds"),
            "{failure:?}"
        );
    }
}
