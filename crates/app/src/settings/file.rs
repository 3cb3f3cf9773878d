//! `countersign.toml`: how a project wants its changes built, checked and judged.

use std::collections::{BTreeMap, BTreeSet};

use flow::Policy;
use flow::landing::{LandingConfig, ReworkMessage};
use flow::policy::network::is_host;
use flow::prices::PriceTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connections::{ConnectionSection, connection_problems};
use super::forge::ForgeSection;
use super::notify::{NotifySection, TARGETS_MAX};
use super::oidc::ServerSection;
use super::tracker::TrackerSection;
use super::{config_problems, renamed_keys};
use crate::failure::Failure;

pub const NAME: &str = "countersign.toml";
pub const CHECK_SECS_DEFAULT: u64 = 900;

/// Configuration of Countersign: `countersign.toml`, or your own `config.toml`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ConfigFile {
    /// The branch to build on and to land on. Detected if it is not named.
    base: Option<String>,
    /// The agent that builds: claude, codex, gemini, …, a name from [agents], command:PROGRAM,
    /// acp:PROGRAM.
    builder: Option<String>,
    /// The agents that review; best of another model family than the builder.
    reviewer: Option<OneOrMany>,
    /// The agent that verifies single findings; by default the reviewer's program in a new session.
    verifier: Option<String>,
    /// Project rules, one sentence each. Every agent gets them.
    rules: Vec<String>,
    /// Files of the base branch whose text is added to the briefs of a role; at most 16 KiB each.
    briefs: Briefs,
    /// Model families of agents, for `other_family`.
    families: BTreeMap<String, String>,
    /// Agents by names of your own.
    agents: BTreeMap<String, AgentSection>,
    /// Commands that must succeed on the exact commit, by name.
    checks: BTreeMap<String, CheckSection>,
    /// Preparation of a fresh checkout.
    setup: SetupSection,
    /// Settings for workers on other machines.
    worker: WorkerSection,
    /// A named policy to start from.
    preset: Option<String>,
    /// Notifications; only in your own file, not in a project's.
    notify: Vec<NotifySection>,
    /// The directory for task files, for serve; only in your own file.
    spool: SpoolSection,
    /// Files of yours that agents and checks can read; only in your own file, not in a project's.
    sandbox: SandboxSection,
    /// The server that has the pull requests; only in your own file, not in a project's.
    forge: ForgeSection,
    /// The tracker that has the issues; only in your own file, not in a project's.
    tracker: TrackerSection,
    /// The repositories and projects on forges that serve looks after; only in your own file.
    connection: Vec<ConnectionSection>,
    /// The dashboard of `serve`; only in your own file, not in a project's.
    server: ServerSection,
    /// The commits that land a change.
    landing: LandingConfig,
    /// Prices of models in dollars per million tokens, by the beginning of the model's name.
    prices: PriceTable,
    /// How long files of finished work stay; only your own file is read for it.
    retention: RetentionSection,
    /// The rules of approval, and all limits.
    policy: Policy,
}

/// How long files of finished work stay in the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionSection {
    /// Days that worktree, checkouts, scratch directories and homes of an ended ticket stay. 0
    /// removes them as soon as it ends.
    pub working_files_days: u32,
    /// Days that transcripts, briefs and output of checks of an ended ticket stay.
    pub transcripts_days: u32,
    /// Days that prepared caches stay after their last use.
    pub layers_days: u32,
    /// Size of the data directory in GB above which the log has a warning.
    pub warn_gb: u64,
}

impl Default for RetentionSection {
    fn default() -> Self {
        Self {
            working_files_days: 0,
            transcripts_days: 90,
            layers_days: 14,
            warn_gb: 20,
        }
    }
}

/// Files that the sandbox shows in addition to the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSection {
    /// Files and directories that every run may read, in addition to the tools in your home: ~/sdk,
    /// /srv/data.
    pub show: Vec<String>,
}

/// Files of the base branch whose text is added to the brief of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Briefs {
    /// For builders and tasks.
    pub builder: Option<String>,
    /// For reviewers.
    pub reviewer: Option<String>,
    /// For verifiers.
    pub verifier: Option<String>,
}

/// The spool: a directory for task files, read by `serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolSection {
    /// The path of the directory.
    pub directory: Option<String>,
    /// The path of its logs; by default inside it, or next to it if it is called
    /// `.agent-communication`.
    pub logs: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a reviewer is an agent, or a list of them, one for each reviewer of the panel"
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

#[derive(Clone, Debug, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "u8")]
#[schemars(with = "u8", extend("maximum" = 100))]
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
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SetupSection {
    /// A command that runs on the base branch and in fresh checkouts.
    run: Option<String>,
    /// The longest run of the command.
    timeout_secs: Option<u64>,
    /// Directories that are kept between checkouts: `node_modules`, target, ~/.cargo.
    caches: Vec<String>,
}

/// Settings for workers on other machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSection {
    /// The address where they fetch the repository and push results: https://…, ssh://…,
    /// user@host:path, or origin.
    pub remote: Option<String>,
}

/// An agent as the project wants it: another name, model or place for one that is known, or a
/// command of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSection {
    /// The name of a known CLI, command or acp; by default the agent's own name, if it is a known
    /// CLI.
    pub adapter: Option<String>,
    /// The model to use.
    pub model: Option<String>,
    /// Arguments after ours.
    pub args: Vec<String>,
    /// The program, with its first arguments.
    pub command: Option<String>,
    /// Variables that are passed to it, in addition to the CLI's own.
    pub env: Vec<String>,
    /// Files below your home that it can read, in addition to the CLI's own.
    pub files: Vec<String>,
    /// Hosts that it can reach while its network is limited to its provider, instead of the known
    /// ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

impl AgentSection {
    /// Returns the fault of the section, if it has one.
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
    /// Whether the check may run in parallel with others.
    pub parallel: bool,
    /// The percentage of lines that its output must show as covered.
    pub coverage_min: Option<u8>,
}

/// The settings of a project, with every default filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectSettings {
    pub base: Option<String>,
    pub builder: Option<String>,
    /// One for all reviewers, or one for each in turn.
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
    /// Notification targets and the spool directory. Only the user's own file may set them.
    pub notify: Vec<NotifySection>,
    pub spool: SpoolSection,
    /// Files that every run may read. Only the user's own file may set them.
    pub sandbox: SandboxSection,
    /// Server of the pull requests. Only the user's own file may set it.
    pub forge: ForgeSection,
    /// Tracker of the issues. Only the user's own file may set it.
    pub tracker: TrackerSection,
    /// Repositories and projects that `serve` looks after. Only the user's own file may name them.
    pub connections: Vec<ConnectionSection>,
    /// Login to the dashboard. Only the user's own file may set it.
    pub server: ServerSection,
    pub landing: LandingConfig,
    pub prices: PriceTable,
    /// The preset by today's name, if one is named.
    pub preset: Option<String>,
    /// How long files of finished work stay. Only the user's own file is read for it.
    pub retention: RetentionSection,
    pub policy: Policy,
}

/// Preparation of a fresh checkout: a command, and directories that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupSettings {
    pub command: Option<CheckSettings>,
    pub caches: Vec<String>,
}

/// Reads the file; `name` is what the messages call it.
pub fn read(name: &str, text: &str) -> Result<ProjectSettings, Failure> {
    let mut problems = config_problems::find_problems(text).into_iter();
    if let Some(first) = problems.next() {
        let mut failure = Failure::usage(first.display_with_name(name));
        failure.hints = first.hint.into_iter().collect();
        failure
            .hints
            .extend(problems.map(|other| other.display_with_name(name)));
        return Err(failure.hint("docs/policy.md lists every key with its default"));
    }
    from_table(name, table(name, text)?)
}

/// The file as a table, with today's names for keys that were renamed.
pub fn table(name: &str, text: &str) -> Result<toml::Table, Failure> {
    let mut table = toml::from_str(text)
        .map_err(|error| Failure::usage(format!("{name}: {}", error.to_string().trim_end())))?;
    renamed_keys::translate(&mut table);
    Ok(table)
}

/// A string as the file has it.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The schema of the file.
pub fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    ConfigFile::json_schema(generator)
}

/// The words of the file, without a thought on what they mean together.
pub(super) fn validate_keys(text: &str) -> Result<(), toml::de::Error> {
    toml::from_str::<ConfigFile>(text).map(drop)
}

/// Reads the table and fills in every default.
pub fn from_table(name: &str, table: toml::Table) -> Result<ProjectSettings, Failure> {
    let refuse = |error: toml::de::Error| Failure::usage(format!("{name}: {}", error.message()));
    let written: ConfigFile = table.clone().try_into().map_err(refuse)?;
    // Stored policies may lack newer keys; what a file does not say is the preset's.
    let preset = written.preset.as_deref().unwrap_or("standard");
    let preset = Policy::current_preset_name(preset);
    let policy =
        apply_preset(preset, &table).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    validate_policy(name, &policy)?;
    let mut agents = written.agents.iter();
    if let Some(problem) = agents.find_map(|(name, agent)| agent.problem(name)) {
        return Err(Failure::usage(format!("{name}: {problem}")));
    }
    let landing = with_preset_message(written.landing, preset);
    let problems = target_problems(&written.notify).into_iter();
    let mut problems = problems
        .chain(landing.problems())
        .chain(written.forge.problems())
        .chain(written.tracker.problems())
        .chain(connection_problems(&written.connection))
        .chain(written.server.problems())
        .chain(written.prices.problems());
    if let Some(problem) = problems.next() {
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
        build_check("setup".to_owned(), full)
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
        checks: checks
            .map(|(name, check)| build_check(name, check))
            .collect(),
        setup: SetupSettings {
            command,
            caches: setup.caches,
        },
        worker: written.worker,
        notify: written.notify,
        spool: written.spool,
        sandbox: written.sandbox,
        forge: written.forge,
        tracker: written.tracker,
        connections: written.connection,
        server: written.server,
        landing,
        prices: written.prices,
        preset: written.preset.is_some().then(|| preset.to_owned()),
        retention: written.retention,
        policy,
    })
}

/// Adds the rework message of the preset that was made for a contract with such messages.
fn with_preset_message(landing: LandingConfig, preset: &str) -> LandingConfig {
    let message = (preset == "keep-branch").then(ReworkMessage::code_review_round);
    LandingConfig {
        rework_message: landing.rework_message.or(message),
        ..landing
    }
}

/// All that is wrong with the targets of notifications.
pub(super) fn target_problems(all: &[NotifySection]) -> Vec<String> {
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
    /// Returns the sections that only the user's own file may have: they would let a repository act
    /// in the person's name, or show its agents more of the person's files.
    pub fn user_only_keys(&self) -> Vec<&'static str> {
        let sections = [
            ("[[notify]]", !self.notify.is_empty()),
            ("[forge]", self.forge != ForgeSection::default()),
            ("[tracker]", self.tracker != TrackerSection::default()),
            ("[[connection]]", !self.connections.is_empty()),
            ("[sandbox]", self.sandbox != SandboxSection::default()),
            ("[server]", self.server != ServerSection::default()),
            ("[spool]", self.spool != SpoolSection::default()),
        ];
        let present = sections.into_iter().filter(|(_, present)| *present);
        present.map(|(name, _)| name).collect()
    }
}

/// Refuses a policy with impossible numbers, all of them at once.
pub fn validate_policy(name: &str, policy: &Policy) -> Result<(), Failure> {
    let problems = policy.problems();
    if problems.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::usage(format!("{name}: the policy is impossible"));
    failure.hints = problems;
    Err(failure)
}

fn build_check(name: String, check: CheckSection) -> CheckSettings {
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
pub(super) fn apply_preset(preset: &str, table: &toml::Table) -> Result<Policy, String> {
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
        let wanted = "countersign.toml:3:1: unknown key `max_round`";
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
