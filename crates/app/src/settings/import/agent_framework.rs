//! Turns the files of an agent framework, `agents.yaml` and `agent-framework.yaml`, into proposed
//! settings: agents, roles, queues and limits.
//!
//! A key without an equivalent is named with the reason, and an unknown key is named as such.
//! Values are shown only where they are numbers or words of a closed list, because these files may
//! hold tokens.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{BYTES_MAX, ImportReport, has_extension, shown, shown_text};
use crate::failure::Failure;
use crate::settings::config_merge::ProposedSetting;
use crate::settings::{config_problems, ticket_file};

const WOKEN: &str = "agents are woken when there is work";
/// Maximum number of agents in a file.
const AGENTS_MAX: usize = 100;

/// Settings that the files become.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FrameworkProposal {
    /// Settings for the project's file.
    pub project: Vec<ProposedSetting>,
    /// Settings for the user's own file: a project may not set them, or they describe a machine.
    pub user: Vec<ProposedSetting>,
    /// Commands that serve the queues; a queue needs no setting.
    pub workers: Vec<String>,
    pub report: ImportReport,
}

/// Reports whether the file configures agents.
pub fn recognizes(name: &str, bytes: &[u8]) -> bool {
    matches!(parse(name, bytes), Ok(Some(_)))
}

/// The content of one of the files.
enum FrameworkFile {
    Agents(Vec<Value>, Map<String, Value>),
    Framework(Map<String, Value>),
}

fn parse(name: &str, bytes: &[u8]) -> Result<Option<FrameworkFile>, Failure> {
    if !(has_extension(name, "yaml") || has_extension(name, "yml")) || bytes.len() > BYTES_MAX {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not text in UTF-8")))?;
    let options = serde_saphyr::options! { with_snippet: false };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ticket_file::yaml_failure(name, &error, 0))?;
    let is_agent = |item: &Value| {
        let has = |key: &str| item.get(key).is_some();
        has("id") && (has("queue") || has("prompt") || has("enabled"))
    };
    let file = std::path::Path::new(name);
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    Ok(match value {
        Value::Array(list) if !list.is_empty() && list.iter().all(is_agent) => {
            Some(FrameworkFile::Agents(list, Map::new()))
        }
        Value::Object(fields) if is_ticket(&fields) => None,
        Value::Object(mut fields) => match fields.shift_remove("agents") {
            Some(Value::Array(list)) => Some(FrameworkFile::Agents(list, fields)),
            Some(other) => {
                fields.insert("agents".to_owned(), other);
                Some(FrameworkFile::Framework(fields))
            }
            None => {
                let sections = ["task", "safeguards", "llm"];
                let has_section = |key: &&str| fields.get(*key).is_some_and(Value::is_object);
                let is_framework =
                    sections.iter().any(has_section) || stem == Some("agent-framework");
                is_framework.then_some(FrameworkFile::Framework(fields))
            }
        },
        _ => None,
    })
}

fn is_ticket(fields: &Map<String, Value>) -> bool {
    let keys = ["title", "tickets", "stories", "summary"];
    keys.iter().any(|key| fields.contains_key(*key))
}

/// Reads the files, and proposes settings from all of them together.
pub fn propose(files: &[(String, Vec<u8>)]) -> Result<FrameworkProposal, Failure> {
    let mut reader = FrameworkReader::default();
    for (name, bytes) in files {
        match parse(name, bytes)? {
            Some(FrameworkFile::Framework(fields)) => reader.framework(name, &fields),
            Some(FrameworkFile::Agents(list, rest)) => {
                for key in rest.keys() {
                    reader.unknown(name, key);
                }
                reader.agents(name, &list)?;
            }
            None => {
                return Err(Failure::usage(format!("{name} does not configure agents")));
            }
        }
    }
    Ok(reader.finish())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameworkRole {
    Builder,
    Reviewer,
    Other,
}

/// An agent of `agents.yaml`.
#[derive(Debug)]
struct FrameworkAgent {
    id: String,
    queue: String,
    role: FrameworkRole,
    replicas: Option<u64>,
}

#[derive(Debug, Default)]
struct FrameworkReader {
    proposal: FrameworkProposal,
    agents: Vec<FrameworkAgent>,
    model: Option<String>,
    /// The program of Claude Code, if it is not `claude`.
    program: Option<String>,
    /// True if the framework calls a model over an API instead of a CLI.
    no_cli: bool,
    /// Keys without an equivalent, by file and reason.
    without_equivalent: Vec<(String, String, Vec<String>)>,
}

impl FrameworkReader {
    fn unknown(&mut self, name: &str, key: &str) {
        let line = format!("{name}: `{}` is not known", shown_text(key));
        self.proposal.report.not_understood.push(line);
    }

    fn no_equivalent(&mut self, name: &str, key: &str, why: &str) {
        let key = format!("`{}`", shown_text(key));
        let same =
            |(file, reason, _): &&mut (String, String, Vec<String>)| file == name && reason == why;
        if let Some((_, _, keys)) = self.without_equivalent.iter_mut().find(same) {
            keys.push(key);
        } else {
            let entry = (name.to_owned(), why.to_owned(), vec![key]);
            self.without_equivalent.push(entry);
        }
    }

    /// Proposes a limit, unless its value is impossible here.
    fn limit(&mut self, name: &str, source: &str, key: &str, value: &Value) {
        let Some(number) = value.as_i64() else {
            let line = format!(
                "{name}: `{source}` = {} is not a whole number; policy.limits.{key} keeps its default",
                shown(value)
            );
            self.proposal.report.not_understood.push(line);
            return;
        };
        let text = format!("[policy.limits]\n{key} = {number}\n");
        if let Some(problem) = config_problems::find_problems(&text).first() {
            let line = format!(
                "{name}: `{source}` = {number} is not possible here: {}",
                problem.message
            );
            self.proposal.report.changed.push(line);
            return;
        }
        self.set(
            &format!("policy.limits.{key}"),
            number.into(),
            &format!("{source} of {name}"),
        );
    }

    /// Proposes a project setting. The first value for a key stays; a different one is reported.
    fn set(&mut self, key: &str, value: toml::Value, origin: &str) {
        let settings = &mut self.proposal.project;
        match settings.iter().find(|setting| setting.key == key) {
            Some(first) if first.value == value => {}
            Some(first) => {
                let line = format!(
                    "{origin} = {value} differs from {} = {}; {key} takes the latter",
                    first.origin, first.value
                );
                self.proposal.report.changed.push(line);
            }
            None => settings.push(ProposedSetting::new(key, value, origin)),
        }
    }

    fn agents(&mut self, name: &str, list: &[Value]) -> Result<(), Failure> {
        if list.len() > AGENTS_MAX {
            return Err(Failure::usage(format!(
                "{name} has {} agents; at most {AGENTS_MAX} can be imported",
                list.len()
            )));
        }
        for (index, item) in list.iter().enumerate() {
            let Value::Object(agent) = item else {
                return Err(Failure::usage(format!(
                    "{name}: agent {} is not a table",
                    index + 1
                )));
            };
            self.agent(name, index, agent)?;
        }
        Ok(())
    }

    fn agent(
        &mut self,
        name: &str,
        index: usize,
        agent: &Map<String, Value>,
    ) -> Result<(), Failure> {
        let word = |key: &str| agent.get(key).and_then(Value::as_str);
        let id = word("id").unwrap_or_default();
        if !is_agent_name(id) {
            return Err(Failure::usage(format!(
                "{name}: agent {} has the id {}: an id has letters, digits, `-` and `_`",
                index + 1,
                shown(agent.get("id").unwrap_or(&Value::Null))
            )));
        }
        if self.agents.iter().any(|known| known.id == id) {
            return Err(
                Failure::usage(format!("{name}: the agent {id} occurs twice"))
                    .hint("give each agent its own id"),
            );
        }
        if agent.get("enabled") == Some(&Value::Bool(false)) {
            let line = format!("{name}: the agent {id} is not enabled");
            self.proposal.report.left_out.push(line);
            return Ok(());
        }
        let role = role_of(id, word("name"), word("queue"));
        for (key, value) in agent {
            self.agent_key(name, (id, role), key, value);
        }
        self.agents.push(FrameworkAgent {
            id: id.to_owned(),
            queue: word("queue")
                .filter(|queue| is_agent_name(queue))
                .unwrap_or(id)
                .to_owned(),
            role,
            replicas: agent.get("replicas").and_then(Value::as_u64),
        });
        Ok(())
    }

    fn agent_key(
        &mut self,
        name: &str,
        (id, role): (&str, FrameworkRole),
        key: &str,
        value: &Value,
    ) {
        let source = format!("agents.{id}.{key}");
        match key {
            "id" | "name" | "queue" | "replicas" => {}
            "enabled" if value.is_boolean() => {}
            "timeout" => match role {
                FrameworkRole::Builder => self.limit(name, &source, "build_secs", value),
                FrameworkRole::Reviewer => self.limit(name, &source, "review_secs", value),
                FrameworkRole::Other => self.no_equivalent(name, &source, "limits belong to roles, and this agent has none here"),
            },
            "max_retries" => self.limit(name, &source, "retries_max", value),
            "poll_interval" => self.no_equivalent(name, &source, WOKEN),
            "can_commit" => {
                let commits = value == &Value::Bool(true);
                if commits == (role == FrameworkRole::Builder) {
                    return;
                }
                let line = format!("{name}: `{source}` = {}: here builders commit, and no other role does", shown(value));
                self.proposal.report.changed.push(line);
            }
            "prompt" => {
                self.no_equivalent(name, &source, "it describes the framework's own workflow; put the rules of your project into a file and name it under [briefs], or as sentences under `rules`");
            }
            "can_create_pr" => self.no_equivalent(name, &source, "`policy.land` decides how an approved change lands"),
            "teammates" => self.no_equivalent(name, &source, "add reviewers to the panel under [[policy.reviewers]] instead"),
            "specialization_enabled" => self.no_equivalent(name, &source, "agents are not specialized by files; use `needs` on a ticket and `--label` on a worker"),
            _ if key.starts_with("jira_") => self.no_equivalent(name, &source, "an agent's rights in Jira are not set here"),
            _ => self.unknown(name, &source),
        }
    }

    fn framework(&mut self, name: &str, fields: &Map<String, Value>) {
        for (section, value) in fields {
            match (section.as_str(), value) {
                ("task" | "safeguards" | "llm", Value::Object(keys)) => {
                    for (key, value) in keys {
                        self.framework_key(name, section, key, value);
                    }
                }
                ("communication_dir", Value::String(directory)) => {
                    let origin = format!("communication_dir of {name}");
                    let setting = ProposedSetting::new("spool.directory", directory.as_str().into(), &origin);
                    self.proposal.user.push(setting);
                }
                ("session_logging", Value::Object(keys)) => self.session_logging(name, keys),
                ("workflows", _) => self.no_equivalent(name, section, "the loop is always build, check, review, rework; see `max_rounds` and [[policy.reviewers]]"),
                ("repositories", _) => self.no_equivalent(name, section, "each repository has its own countersign.toml: run `countersign init` there; how it lands is `policy.land`"),
                ("multi_repo", _) => self.no_equivalent(name, section, "worktrees are in the data directory, and [retention] in your own file says how long they stay"),
                ("workspace" | "context_dir", _) => self.no_equivalent(name, section, "the repository is found from the working directory"),
                ("optimization" | "memory" | "self_evaluation" | "replanning" | "team_mode" | "indexing" | "parallel_subtasks" | "context_window", _) => self.no_equivalent(name, section, "it tunes the framework's own prompts; the agent's CLI decides this"),
                ("circuit_breaker", _) => self.no_equivalent(name, section, "caps are in [policy.budget], and `countersign queue pause` stops an agent, a queue or a provider"),
                ("analytics", _) => self.no_equivalent(name, section, "`countersign insights` and /metrics need no setting"),
                ("pr_lifecycle", _) => self.no_equivalent(name, section, "`policy.land` decides how an approved change lands"),
                _ => self.unknown(name, section),
            }
        }
    }

    fn session_logging(&mut self, name: &str, keys: &Map<String, Value>) {
        for (key, value) in keys {
            let source = format!("session_logging.{key}");
            match (
                key.as_str(),
                value.as_u64().and_then(|days| u32::try_from(days).ok()),
            ) {
                ("retention_days", Some(days)) => {
                    let origin = format!("{source} of {name}");
                    let value = i64::from(days).into();
                    let setting =
                        ProposedSetting::new("retention.transcripts_days", value, &origin);
                    self.proposal.user.push(setting);
                }
                ("retention_days", None) => {
                    let line = format!(
                        "{name}: `{source}` = {} is not a number of days",
                        shown(value)
                    );
                    self.proposal.report.not_understood.push(line);
                }
                ("enabled" | "log_prompts" | "log_tool_inputs", _) => {
                    self.no_equivalent(name, &source, "every run has a transcript and its brief");
                }
                _ => self.unknown(name, &source),
            }
        }
    }

    fn framework_key(&mut self, name: &str, section: &str, key: &str, value: &Value) {
        let source = format!("{section}.{key}");
        match source.as_str() {
            "task.poll_interval" => self.no_equivalent(name, &source, WOKEN),
            "task.max_retries" => self.limit(name, &source, "retries_max", value),
            "task.backoff_initial" => self.limit(name, &source, "backoff_secs", value),
            "task.backoff_max" => self.limit(name, &source, "backoff_secs_max", value),
            "task.timeout" => {
                // Agents that name their own timeout keep it, whichever file comes first.
                for key in ["build_secs", "review_secs"] {
                    self.limit(name, &source, key, value);
                }
            }
            "task.backoff_multiplier" if value.as_f64() == Some(2.0) => {}
            "task.backoff_multiplier" => {
                let line = format!("{name}: `{source}` = {}: waits double here", shown(value));
                self.proposal.report.changed.push(line);
            }
            "task.validate_tasks" | "task.validation_mode" => {
                self.no_equivalent(name, &source, "a ticket needs a title; `criteria_required` makes reviews answer its acceptance criteria");
            }
            "safeguards.max_queue_size" => {
                self.no_equivalent(name, &source, "a queue holds 100 open tasks");
            }
            "safeguards.heartbeat_timeout" => self.limit(name, &source, "heartbeat_secs", value),
            "safeguards.watchdog_interval" => {
                self.no_equivalent(name, &source, "lost leases are found at each claim");
            }
            "safeguards.heartbeat_interval" => {
                self.no_equivalent(name, &source, "workers renew their leases by themselves");
            }
            "safeguards.max_escalations" => self.no_equivalent(
                name,
                &source,
                "escalations wait for a person without a limit",
            ),
            "safeguards.max_task_age_days" => {
                self.no_equivalent(name, &source, "tickets do not expire");
            }
            "safeguards.max_consecutive_tool_calls"
            | "safeguards.max_consecutive_diagnostic_calls" => {
                self.no_equivalent(name, &source, "runs end by time (`build_secs`), silence (`idle_secs`) and cost (`[policy.budget]`)");
            }
            "llm.mode" => match value.as_str() {
                Some("claude_cli") => {}
                Some("litellm") => {
                    self.no_cli = true;
                    self.no_equivalent(name, &source, "agents are command-line programs, and `litellm` calls a model over its API; name an agent under [agents]");
                }
                _ => {
                    let line = format!("{name}: `{source}` = {} is not known", shown(value));
                    self.proposal.report.not_understood.push(line);
                }
            },
            "llm.claude_cli_default_model" => self.model = value.as_str().map(findings::one_line),
            "llm.claude_cli_executable" => {
                self.program = value
                    .as_str()
                    .filter(|program| *program != "claude")
                    .map(str::to_owned);
            }
            "llm.claude_cli_timeout_bounded" => self.limit(name, &source, "verify_secs", value),
            "llm.claude_cli_timeout"
            | "llm.claude_cli_timeout_large"
            | "llm.claude_cli_timeout_simple" => {
                self.no_equivalent(
                    name,
                    &source,
                    "limits belong to roles, and `task.timeout` sets those of builder and reviewer",
                );
            }
            "llm.claude_cli_cheap_model" | "llm.claude_cli_premium_model" => {
                self.no_equivalent(
                    name,
                    &source,
                    "an agent has one model; add another agent under [agents] with it",
                );
            }
            "llm.claude_cli_max_turns" => self.no_equivalent(
                name,
                &source,
                "runs are limited by time and cost; [agents.NAME] args passes an option to the CLI",
            ),
            "llm.proxy_url" | "llm.proxy_auth_token" | "llm.use_max_account" => {
                self.no_equivalent(
                    name,
                    &source,
                    "the CLI uses its own login; [agents.NAME] env passes variables to it",
                );
            }
            "llm.use_mcp" | "llm.mcp_config_path" => {
                self.no_equivalent(name, &source, "a run gets the tools of Countersign; the CLI's own configuration is not read in the sandbox");
            }
            _ if source.starts_with("llm.litellm_") => {
                self.no_equivalent(
                    name,
                    &source,
                    "agents are command-line programs; a key of an API is not read",
                );
            }
            _ => self.unknown(name, &source),
        }
    }

    fn finish(mut self) -> FrameworkProposal {
        let of_role = |role: FrameworkRole| -> Vec<String> {
            let agents = self.agents.iter().filter(|agent| agent.role == role);
            agents.map(|agent| agent.id.clone()).collect()
        };
        let (builders, reviewers) = (
            of_role(FrameworkRole::Builder),
            of_role(FrameworkRole::Reviewer),
        );
        let mut settings = Vec::new();
        if let Some(builder) = builders.first() {
            settings.push(ProposedSetting::new(
                "builder",
                builder.as_str().into(),
                &format!("the agent {builder}"),
            ));
        }
        if let Some(first) = reviewers.first() {
            // The panel has one reviewer unless the policy says more, so others are only reported.
            settings.push(ProposedSetting::new(
                "reviewer",
                first.as_str().into(),
                &format!("the agent {first}"),
            ));
        }
        for spare in builders.iter().skip(1).chain(reviewers.iter().skip(1)) {
            self.proposal.report.left_out.push(format!(
                "the agent {spare}: its role is taken already; use it with --builder or --reviewer, or add a reviewer under [[policy.reviewers]]"
            ));
        }
        for agent in &self.agents {
            if agent.role == FrameworkRole::Other {
                self.proposal.report.left_out.push(format!(
                    "the agent {}: neither builder nor reviewer; it can take tasks from its queue",
                    agent.id
                ));
            }
            if self.no_cli {
                continue;
            }
            let key = |name: &str| format!("agents.{}.{name}", agent.id);
            let origin = format!("the agent {}", agent.id);
            settings.push(ProposedSetting::new(
                &key("adapter"),
                "claude".into(),
                &origin,
            ));
            if let Some(model) = &self.model {
                settings.push(ProposedSetting::new(
                    &key("model"),
                    model.as_str().into(),
                    "llm.claude_cli_default_model",
                ));
            }
            if let Some(program) = &self.program {
                let setting = ProposedSetting::new(
                    &key("command"),
                    program.as_str().into(),
                    "llm.claude_cli_executable",
                );
                self.proposal.user.push(setting);
            }
            let replicas = agent.replicas.filter(|count| *count > 1);
            let replicas = replicas
                .map(|count| format!(" --replicas {count}"))
                .unwrap_or_default();
            self.proposal.workers.push(format!(
                "countersign worker --queue {}{replicas} --builder {}",
                agent.queue, agent.id
            ));
        }
        for (name, why, keys) in &self.without_equivalent {
            let verb = if keys.len() == 1 { "has" } else { "have" };
            let line = format!("{name}: {} {verb} no equivalent: {why}", keys.join(", "));
            self.proposal.report.left_out.push(line);
        }
        settings.append(&mut self.proposal.project);
        self.proposal.project = settings;
        self.proposal
    }
}

fn is_agent_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= 64 && text.chars().all(allowed)
}

/// The role by the usual words in the agent's id, queue and name, in this order.
fn role_of(id: &str, name: Option<&str>, queue: Option<&str>) -> FrameworkRole {
    const REVIEWERS: [&str; 4] = ["review", "qa", "tester", "quality"];
    const BUILDERS: [&str; 6] = [
        "engineer",
        "develop",
        "build",
        "coder",
        "implement",
        "programmer",
    ];
    for text in [Some(id), queue, name].into_iter().flatten() {
        let text = text.to_ascii_lowercase();
        // `qa-engineer` reviews, so the words of reviewers go first.
        if REVIEWERS.iter().any(|word| text.contains(word)) {
            return FrameworkRole::Reviewer;
        }
        if BUILDERS.iter().any(|word| text.contains(word)) {
            return FrameworkRole::Builder;
        }
    }
    FrameworkRole::Other
}
