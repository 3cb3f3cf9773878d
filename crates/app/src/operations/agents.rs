//! Who an agent's name means: a CLI that we know, one that the project describes, or a command.
//! Everything that can be found out before the start is: that it is there, and new enough.

mod seen;

pub use seen::{CliReport, DetectedCli, here, known_names, look};

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::agent::installed::{self, CliLocation, InstalledCli};
use engine::agent::{
    AcpAgent, Adapter, AgentCli, CliAgent, CommandAgent, ConfiguredAgent, ScriptedAgent, known,
};
use engine::process::{find_program, plain};
use engine::sandbox::Destination;
use engine::workshop::AgentConfig;

use crate::failure::Failure;
use crate::settings::file::{AgentSection as Described, ProjectSettings as Written};
use crate::settings::{Environment, passed_on};

/// Finds agents by name: configured ones, known programs, and commands.
#[derive(Debug)]
pub struct AgentFinder<'a> {
    pub written: &'a Written,
    pub surroundings: &'a Environment,
    pub directory: &'a Path,
}

/// Every way to name an agent.
pub fn forms() -> String {
    let names: Vec<&str> = known::ALL.iter().map(|cli| cli.name).collect();
    format!(
        "agents: {} (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md",
        names.join(", ")
    )
}

impl AgentFinder<'_> {
    pub async fn member(&self, spec: &str, role: &str) -> Result<AgentConfig, Failure> {
        let found = self.find(spec).await.map_err(|failure| Failure {
            message: format!("{role}: {}", failure.message),
            ..failure
        })?;
        let (adapter, model) = found;
        Ok(AgentConfig {
            name: format!("{} ({role})", adapter.name()),
            written: spec.to_owned(),
            family: self.family(spec, adapter.name()),
            adapter,
            model,
        })
    }

    /// The family of the model that the project names for an agent, or that everybody knows.
    fn family(&self, spec: &str, adapter: &str) -> Option<String> {
        let known = match adapter {
            "claude" => Some("anthropic"),
            "codex" => Some("openai"),
            "gemini" => Some("google"),
            _ => None,
        };
        let families = &self.written.families;
        let name = spec.rsplit_once('@').map_or(spec, |(name, _)| name);
        let named = families.get(spec).or_else(|| families.get(name));
        named.cloned().or_else(|| known.map(str::to_owned))
    }

    async fn find(&self, spec: &str) -> Result<(Arc<dyn Adapter>, Option<String>), Failure> {
        match spec.split_once(':') {
            Some(("scripted", file)) => Ok((self.scripted(file)?, None)),
            Some(("command", line)) => Ok((Arc::new(self.command(line)?), None)),
            Some(("acp", line)) => Ok((Arc::new(AcpAgent(self.command(line)?)), None)),
            Some(_) | None => self.by_name(spec).await,
        }
    }

    /// The program and the arguments that an agent's name means, to be tried out; `None` for one
    /// that is our own program.
    pub fn program_of(&self, spec: &str) -> Result<Option<(PathBuf, Vec<OsString>)>, Failure> {
        let of_command = |line: &str| {
            let command = self.command(line)?;
            Ok(Some((PathBuf::from(command.program), command.args)))
        };
        match spec.split_once(':') {
            Some(("scripted", _)) => return Ok(None),
            Some(("command" | "acp", line)) => return of_command(line),
            Some(_) | None => {}
        }
        let name = spec.rsplit_once('@').map_or(spec, |(name, _)| name);
        let nothing = Described::default();
        let agent = self.written.agents.get(name).unwrap_or(&nothing);
        let kind = agent.adapter.as_deref().unwrap_or(name);
        match (known::find(kind), &agent.command) {
            (Some(cli), _) => {
                let place = self.place(cli, agent)?;
                Ok(Some((place.program, place.before)))
            }
            (None, Some(line)) => of_command(line),
            (None, None) => Err(self.unknown(spec, name)),
        }
    }

    fn scripted(&self, file: &str) -> Result<Arc<dyn Adapter>, Failure> {
        let script = std::path::absolute(self.directory.join(file)).map_err(Failure::usage)?;
        let script = plain(script);
        let scripted = ScriptedAgent::new(&self.surroundings.program, &script);
        Ok(Arc::new(scripted.map_err(Failure::usage)?))
    }

    fn command(&self, line: &str) -> Result<CommandAgent, Failure> {
        let command = CommandAgent::parse(line).map_err(|why| Failure::usage(why).hint(forms()))?;
        let program = self.program(&command.program);
        Ok(CommandAgent {
            program: program.map_err(|error| error.hint(forms()))?.into(),
            args: command.args.into_iter().map(plain_argument).collect(),
        })
    }

    fn program(&self, name: &OsStr) -> Result<PathBuf, Failure> {
        find_program(name, &self.surroundings.path, self.directory).map_err(Failure::usage)
    }

    /// A name, and a model if one stands behind the last `@`.
    async fn by_name(&self, spec: &str) -> Result<(Arc<dyn Adapter>, Option<String>), Failure> {
        let (name, model) = match spec.rsplit_once('@') {
            Some((name, model)) if !model.is_empty() => (name, Some(model.to_owned())),
            Some(_) | None => (spec, None),
        };
        let described = self.written.agents.get(name);
        let kind = described
            .and_then(|agent| agent.adapter.as_deref())
            .unwrap_or(name);
        let nothing = Described::default();
        let agent = described.unwrap_or(&nothing);
        let model = model.or_else(|| agent.model.clone());
        if let Some(cli) = known::find(kind) {
            let native = self.native(name, cli, agent).await?;
            return Ok((Arc::new(native), model));
        }
        let line = agent.command.as_deref();
        match (kind, described, line) {
            ("acp", Some(_), Some(line)) => Ok((
                Arc::new(self.equip(name, agent, AcpAgent(self.command(line)?))?),
                model,
            )),
            (_, Some(Described { adapter: None, .. }), Some(line))
            | ("command", Some(_), Some(line)) => Ok((
                Arc::new(self.equip(name, agent, self.command(line)?)?),
                model,
            )),
            (_, Some(_), _) => Err(Failure::usage(format!(
                "[agents.{name}] has neither a known adapter nor a command"
            ))
            .hint(format!(
                "adapter = one of {}, command, acp; the last two want command = \"PROGRAM ARGS…\"",
                known::ALL.map(|cli| cli.name).join(", ")
            ))),
            (_, None, _) => Err(self.unknown(spec, name)),
        }
    }

    fn unknown(&self, spec: &str, name: &str) -> Failure {
        let failure = Failure::usage(format!("there is no agent {spec:?}")).hint(forms());
        match self.program(OsStr::new(name)) {
            Ok(_) => failure.hint(format!(
                "{name} is a program: command:{name} if it keeps to docs/agents.md, acp:{name} if it speaks ACP"
            )),
            Err(_) => failure,
        }
    }

    fn equip<A: Adapter>(
        &self,
        name: &str,
        agent: &Described,
        inner: A,
    ) -> Result<ConfiguredAgent<A>, Failure> {
        Ok(ConfiguredAgent {
            name: name.to_owned(),
            agent: inner,
            env: passed_on(agent.env.iter().map(String::as_str)),
            credentials: self.lent(agent.files.iter().map(String::as_str))?,
            hosts: hosts_of(name, agent)?,
        })
    }

    async fn native(
        &self,
        name: &str,
        cli: &'static AgentCli,
        agent: &Described,
    ) -> Result<CliAgent, Failure> {
        let place = self.place(cli, agent)?;
        let found = must_be_new_enough(cli, &place, self.surroundings).await?;
        let own = cli.variables.iter().copied();
        let files = cli.files.iter().copied();
        Ok(CliAgent {
            name: name.to_owned(),
            cli,
            minds_money: found.minds_money,
            reads: scripts_of(&place),
            program: place.program,
            before: place.before,
            extra: agent.args.iter().map(OsString::from).collect(),
            env: passed_on(own.chain(agent.env.iter().map(String::as_str))),
            credentials: self.lent(files.chain(agent.files.iter().map(String::as_str)))?,
            hosts: hosts_of(name, agent)?,
        })
    }

    /// Where the CLI is: in `PATH`, or where the project says.
    fn place(&self, cli: &AgentCli, agent: &Described) -> Result<CliLocation, Failure> {
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
        let found = find_program(&program, &self.surroundings.path, self.directory);
        let program = found.map_err(|error| {
            Failure::usage(format!("{} is not installed: {error}", cli.title))
                .hint(format!("install it: {}", cli.install))
                .hint(format!(
                    "or say where it is: [agents.{}] command = \"…\"",
                    cli.name
                ))
        })?;
        Ok(CliLocation { program, before })
    }

    /// Files of the person's home that are there, each to the same place below the agent's own.
    fn lent<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
        let Some(home) = &self.surroundings.home else {
            return Ok(Vec::new());
        };
        let mut lent = Vec::new();
        for name in names {
            let path = Path::new(name);
            let plain = |part| matches!(part, std::path::Component::Normal(_));
            if !path.components().all(plain) {
                return Err(Failure::usage(format!(
                    "an agent's file {name:?} is not below the home"
                )));
            }
            if home.join(path).is_file() {
                lent.push((home.join(path), path.to_owned()));
            }
        }
        Ok(lent)
    }
}

/// The hosts that the configuration names for an agent.
fn hosts_of(name: &str, agent: &Described) -> Result<Option<Vec<Destination>>, Failure> {
    let Some(named) = &agent.hosts else {
        return Ok(None);
    };
    let read = named.iter().map(|host| host.parse::<Destination>());
    let read: Result<Vec<Destination>, String> = read.collect();
    read.map(Some)
        .map_err(|why| Failure::usage(format!("[agents.{name}] hosts: {why}")))
}

async fn must_be_new_enough(
    cli: &AgentCli,
    place: &CliLocation,
    surroundings: &Environment,
) -> Result<InstalledCli, Failure> {
    let asked = installed::examine(cli, place, &surroundings.path, &surroundings.data_dir).await;
    let found = asked.map_err(Failure::usage)?;
    if found.missing.is_empty() {
        return Ok(found);
    }
    Err(Failure::usage(format!(
        "{} ({}) at {} is too old, or too new for us: its help has no {}",
        cli.title,
        found.version,
        place.program.display(),
        found.missing.join(", ")
    ))
    .hint(format!("update it: {}", cli.install)))
}

/// A script that is named in full is found under its plain name inside of a sandbox as well.
fn plain_argument(word: OsString) -> OsString {
    let path = Path::new(&word);
    if path.is_absolute() && path.is_file() {
        return plain(path.to_owned()).into();
    }
    word
}

/// Scripts that the program is given; what they and the program need is found out at the start.
fn scripts_of(place: &CliLocation) -> Vec<PathBuf> {
    let words = place.before.iter().map(PathBuf::from);
    words.filter(|path| path.is_absolute()).collect()
}
