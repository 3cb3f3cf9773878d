//! Resolves the name of an agent to an adapter: a known CLI, one that the project configures, or a
//! command. It checks before the start that the program exists and is recent enough.

mod detected;

pub use detected::{CliReport, DetectedCli, detect_clis, inspect_clis};
pub use engine::agent::registry::names as known_names;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::agent::installed::{self, CliLocation, InstalledCli};
use engine::agent::{
    AcpAgent, Adapter, AgentCli, CliAgent, CommandAgent, ConfiguredAgent, ScriptedAgent, registry,
};
use engine::process::{find_program, normalize_program_path};
use engine::project::AgentConfig;
use engine::sandbox::Destination;

use crate::failure::Failure;
use crate::settings::connections::ConnectionSection;
use crate::settings::file::{AgentSection, ProjectSettings};
use crate::settings::{Environment, inherited_variables};

/// Finds agents by name: configured ones, known programs, and commands.
#[derive(Debug)]
pub struct AgentFinder<'a> {
    pub settings: &'a ProjectSettings,
    pub environment: &'a Environment,
    pub directory: &'a Path,
}

/// Lists every way to name an agent, as a hint in errors.
pub fn agent_forms_help() -> String {
    format!(
        "agents: {} (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md",
        registry::names().join(", ")
    )
}

impl AgentFinder<'_> {
    /// Finds the agent that `spec` names, for a role.
    pub async fn resolve_agent(&self, spec: &str, role: &str) -> Result<AgentConfig, Failure> {
        let resolved = self.find_adapter(spec).await.map_err(|failure| Failure {
            message: format!("{role}: {}", failure.message),
            ..failure
        })?;
        let (adapter, model) = resolved;
        Ok(AgentConfig {
            name: format!("{} ({role})", adapter.name()),
            configured_name: spec.to_owned(),
            family: self.family(spec, adapter.name()),
            adapter,
            model,
        })
    }

    /// Returns the model family that the project configures for an agent, else that of the known
    /// CLI.
    fn family(&self, spec: &str, adapter: &str) -> Option<String> {
        let builtin = match adapter {
            "claude" => Some("anthropic"),
            "codex" => Some("openai"),
            "gemini" => Some("google"),
            _ => None,
        };
        let families = &self.settings.families;
        let name = spec.rsplit_once('@').map_or(spec, |(name, _)| name);
        let configured = families.get(spec).or_else(|| families.get(name));
        configured.cloned().or_else(|| builtin.map(str::to_owned))
    }

    async fn find_adapter(
        &self,
        spec: &str,
    ) -> Result<(Arc<dyn Adapter>, Option<String>), Failure> {
        match spec.split_once(':') {
            Some(("scripted", file)) => Ok((self.scripted(file)?, None)),
            Some(("command", line)) => Ok((Arc::new(self.command(line)?), None)),
            Some(("acp", line)) => Ok((Arc::new(AcpAgent(self.command(line)?)), None)),
            Some(_) | None => self.by_name(spec).await,
        }
    }

    /// Returns the program and arguments of an agent, for a trial start; `None` for a scripted
    /// agent, which is our own program.
    pub fn program_of(&self, spec: &str) -> Result<Option<(PathBuf, Vec<OsString>)>, Failure> {
        let from_command = |line: &str| {
            let command = self.command(line)?;
            Ok(Some((PathBuf::from(command.program), command.args)))
        };
        match spec.split_once(':') {
            Some(("scripted", _)) => return Ok(None),
            Some(("command" | "acp", line)) => return from_command(line),
            Some(_) | None => {}
        }
        let name = spec.rsplit_once('@').map_or(spec, |(name, _)| name);
        let unconfigured = AgentSection::default();
        let agent = self.settings.agents.get(name).unwrap_or(&unconfigured);
        let kind = agent.adapter.as_deref().unwrap_or(name);
        match (registry::find_cli(kind), &agent.command) {
            (Some(cli), _) => {
                let location = self.locate_cli(cli, agent)?;
                Ok(Some((location.program, location.before)))
            }
            (None, Some(line)) => from_command(line),
            (None, None) => Err(self.unknown(spec, name)),
        }
    }

    fn scripted(&self, file: &str) -> Result<Arc<dyn Adapter>, Failure> {
        let script = std::path::absolute(self.directory.join(file)).map_err(Failure::usage)?;
        let script = normalize_program_path(script);
        let scripted = ScriptedAgent::new(&self.environment.program, &script);
        Ok(Arc::new(scripted.map_err(Failure::usage)?))
    }

    fn command(&self, line: &str) -> Result<CommandAgent, Failure> {
        let command = CommandAgent::parse(line)
            .map_err(|why| Failure::usage(why).hint(agent_forms_help()))?;
        let program = self.program(&command.program);
        Ok(CommandAgent {
            program: program
                .map_err(|error| error.hint(agent_forms_help()))?
                .into(),
            args: command.args.into_iter().map(plain_argument).collect(),
        })
    }

    fn program(&self, name: &OsStr) -> Result<PathBuf, Failure> {
        find_program(name, &self.environment.path, self.directory).map_err(Failure::usage)
    }

    /// Finds an agent by its name, with a model if the name ends in `@MODEL`.
    async fn by_name(&self, spec: &str) -> Result<(Arc<dyn Adapter>, Option<String>), Failure> {
        let (name, model) = match spec.rsplit_once('@') {
            Some((name, model)) if !model.is_empty() => (name, Some(model.to_owned())),
            Some(_) | None => (spec, None),
        };
        let section = self.settings.agents.get(name);
        let kind = section
            .and_then(|agent| agent.adapter.as_deref())
            .unwrap_or(name);
        let unconfigured = AgentSection::default();
        let agent = section.unwrap_or(&unconfigured);
        let model = model.or_else(|| agent.model.clone());
        if let Some(cli) = registry::find_cli(kind) {
            let native = self.native(name, cli, agent).await?;
            return Ok((Arc::new(native), model));
        }
        let line = agent.command.as_deref();
        match (kind, section, line) {
            ("acp", Some(_), Some(line)) => Ok((
                Arc::new(self.equip(name, agent, AcpAgent(self.command(line)?))?),
                model,
            )),
            (_, Some(AgentSection { adapter: None, .. }), Some(line))
            | ("command", Some(_), Some(line)) => Ok((
                Arc::new(self.equip(name, agent, self.command(line)?)?),
                model,
            )),
            (_, Some(_), _) => Err(Failure::usage(format!(
                "[agents.{name}] has neither a known adapter nor a command"
            ))
            .hint(format!(
                "adapter = one of {}, command, acp; the last two need command = \"PROGRAM ARGS…\"",
                registry::names().join(", ")
            ))),
            (_, None, _) => Err(self.unknown(spec, name)),
        }
    }

    fn unknown(&self, spec: &str, name: &str) -> Failure {
        let failure =
            Failure::usage(format!("there is no agent {spec:?}")).hint(agent_forms_help());
        match self.program(OsStr::new(name)) {
            Ok(_) => failure.hint(format!(
                "{name} is a program: use command:{name} if it follows docs/agents.md, acp:{name} if it speaks ACP"
            )),
            Err(_) => failure,
        }
    }

    fn equip<A: Adapter>(
        &self,
        name: &str,
        agent: &AgentSection,
        inner: A,
    ) -> Result<ConfiguredAgent<A>, Failure> {
        Ok(ConfiguredAgent {
            name: name.to_owned(),
            agent: inner,
            env: self.agent_env(agent.env.iter().map(String::as_str)),
            credentials: self.credential_files(agent.files.iter().map(String::as_str))?,
            hosts: hosts_of(name, agent)?,
        })
    }

    /// Returns the variables of an agent. The secrets of the forge and of the identity provider are
    /// never among them, even if their names are: agents act on neither.
    fn agent_env<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<(OsString, OsString)> {
        let mut secret = self.settings.forge.secret_variables();
        secret.extend(self.settings.server.secret_variables());
        secret.extend(self.settings.tracker.secret_variables());
        let connections = self.settings.connections.iter();
        secret.extend(connections.flat_map(ConnectionSection::secret_variables));
        inherited_variables(names.filter(|name| !secret.contains(name)))
    }

    async fn native(
        &self,
        name: &str,
        cli: &'static AgentCli,
        agent: &AgentSection,
    ) -> Result<CliAgent, Failure> {
        let location = self.locate_cli(cli, agent)?;
        let installed_cli = require_version(cli, &location, self.environment).await?;
        let variables = cli.variables.iter().copied();
        let files = cli.files.iter().copied();
        Ok(CliAgent {
            name: name.to_owned(),
            cli,
            has_budget_flag: installed_cli.minds_money,
            reads: scripts_of(&location),
            program: location.program,
            before: location.before,
            extra: agent.args.iter().map(OsString::from).collect(),
            env: self.agent_env(variables.chain(agent.env.iter().map(String::as_str))),
            credentials: self
                .credential_files(files.chain(agent.files.iter().map(String::as_str)))?,
            hosts: hosts_of(name, agent)?,
        })
    }

    /// Finds the CLI in `PATH`, or at the configured command.
    fn locate_cli(&self, cli: &AgentCli, agent: &AgentSection) -> Result<CliLocation, Failure> {
        let (program, before) = match &agent.command {
            Some(line) => {
                let command = CommandAgent::parse(line).map_err(Failure::usage)?;
                (
                    command.program,
                    command.args.into_iter().map(plain_argument).collect(),
                )
            }
            None => (cli.program.into(), Vec::new()),
        };
        let located = find_program(&program, &self.environment.path, self.directory);
        let program = located.map_err(|error| {
            Failure::usage(format!("{} is not installed: {error}", cli.title))
                .hint(format!("install it: {}", cli.install))
                .hint(format!(
                    "or set its path: [agents.{}] command = \"…\"",
                    cli.name
                ))
        })?;
        Ok(CliLocation { program, before })
    }

    /// Returns the existing files of the person's home, each with the same path below the agent's
    /// home.
    fn credential_files<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
        let Some(home) = &self.environment.home else {
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        for name in names {
            let path = Path::new(name);
            let plain = |part| matches!(part, std::path::Component::Normal(_));
            if !path.components().all(plain) {
                return Err(Failure::usage(format!(
                    "the agent's file {name:?} must be a path below your home directory"
                )));
            }
            if home.join(path).is_file() {
                files.push((home.join(path), path.to_owned()));
            }
        }
        Ok(files)
    }
}

/// Returns the hosts that the configuration permits for an agent.
fn hosts_of(name: &str, agent: &AgentSection) -> Result<Option<Vec<Destination>>, Failure> {
    let Some(hosts) = &agent.hosts else {
        return Ok(None);
    };
    let parsed = hosts.iter().map(|host| host.parse::<Destination>());
    let parsed: Result<Vec<Destination>, String> = parsed.collect();
    parsed
        .map(Some)
        .map_err(|why| Failure::usage(format!("[agents.{name}] hosts: {why}")))
}

async fn require_version(
    cli: &AgentCli,
    location: &CliLocation,
    environment: &Environment,
) -> Result<InstalledCli, Failure> {
    let examined =
        installed::examine(cli, location, &environment.path, &environment.data_dir).await;
    let installed_cli = examined.map_err(Failure::usage)?;
    if installed_cli.missing.is_empty() {
        return Ok(installed_cli);
    }
    Err(Failure::usage(format!(
        "{} ({}) at {} is too old or too new for Countersign: its help does not list {}",
        cli.title,
        installed_cli.version,
        location.program.display(),
        installed_cli.missing.join(", ")
    ))
    .hint(format!("update it: {}", cli.install)))
}

/// Removes symbolic links from an argument that is the absolute path of a file, because the sandbox
/// mounts files under their plain paths.
fn plain_argument(word: OsString) -> OsString {
    let path = Path::new(&word);
    if path.is_absolute() && path.is_file() {
        return normalize_program_path(path.to_owned()).into();
    }
    word
}

/// Returns the scripts among the program's arguments. The sandbox has to mount what they need.
fn scripts_of(location: &CliLocation) -> Vec<PathBuf> {
    let arguments = location.before.iter().map(PathBuf::from);
    arguments.filter(|path| path.is_absolute()).collect()
}
