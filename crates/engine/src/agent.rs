//! Runs an agent with a brief in a directory and reads its answer.
//!
//! An adapter holds the differences between agents: arguments, environment, and a pure function
//! from a line of output to events. Everything else is shared and here. The module does not know
//! the purpose of the work: it takes a brief and a directory, and returns the answer, the cost and
//! the exit. The text of an agent is untrusted; it is neither believed nor cleaned here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use output::AgentOutput;

use crate::log::LogErr;
use crate::process::{
    self, DiskQuota, LineReaction, OutputLine, OutputStream, ProcessExit, ProcessHost,
    ProcessLimits, ProcessSpec, RunId, StopSignal,
};
use crate::redact::Redactor;
use crate::sandbox::{Destination, Proof, RefusedHost, SandboxSpec, program};

mod acp;
mod aider;
pub mod answer;
mod claude;
mod cli;
mod codex;
pub mod command;
mod configured;
mod contract;
mod copilot;
mod cursor;
pub mod declared;
mod error_class;
pub mod event;
mod gemini;
mod goose;
pub mod installed;
pub mod mcp;
mod opencode;
mod output;
pub mod quota;
mod qwen;
pub mod registry;
mod schema;
pub mod scripted;
pub mod session;
mod stream_json;

pub use acp::AcpAgent;
pub use cli::{AgentCli, CliAgent, HelpProbe};
pub use command::CommandAgent;
pub use configured::ConfiguredAgent;
pub use contract::{CONTRACT, brief_file, diff_file};
pub use event::{AgentEvent, AgentUsage};
pub use mcp::McpEndpoint;
pub use scripted::ScriptedAgent;
pub use session::ResumableSession;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the agent `{agent}` cannot run: {source}")]
    NotInstalled {
        agent: String,
        source: process::Error,
    },
    #[error("{}: {source}; see that the data directory is writable", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Process(process::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentRole {
    Build,
    Review,
    Verify,
}

impl AgentRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Review => "review",
            Self::Verify => "verify",
        }
    }
}

/// Facts about the repository that the agent gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    pub commit: Option<String>,
    pub base: Option<String>,
    pub branch: Option<String>,
    pub question: ReviewQuestion,
}

/// The question to a reviewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewQuestion {
    /// The work of its role.
    #[default]
    Work,
    /// The earlier answer again, in the form of the contract.
    Form,
    /// Whether it countersigns with its minor findings as follow-ups.
    Countersign,
}

impl ReviewQuestion {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Form => "form",
            Self::Countersign => "countersign",
        }
    }
}

/// One run of one agent: its work, directories and limits.
#[derive(Clone, Debug)]
pub struct AgentAssignment {
    pub run_id: RunId,
    pub role: AgentRole,
    /// Label that the agent repeats in its answer.
    pub ticket: String,
    pub round: u32,
    /// Number of this agent among several with the same work, from 1.
    pub slot: u32,
    pub brief: String,
    /// Working directory: a builder's worktree, or an empty directory for a reviewer or verifier.
    pub dir: PathBuf,
    /// The checkout of the change under review, below `dir`.
    pub change: Option<PathBuf>,
    /// Home directory that no other agent uses.
    pub home: PathBuf,
    /// Directory for its temporary files and the brief.
    pub scratch: PathBuf,
    /// A writable copy of the change under review, if there is one.
    pub copy: Option<PathBuf>,
    /// File for its result.
    pub result_file: PathBuf,
    pub transcript: PathBuf,
    /// Environment variables in addition to the contract's: `PATH`, credentials, a locale.
    pub env: Vec<(OsString, OsString)>,
    pub facts: RepositoryFacts,
    pub limits: ProcessLimits,
    /// Limit on its disk use.
    pub disk_quota: Option<DiskQuota>,
    pub model: Option<String>,
    /// Maximum cost in millionths of a dollar, for agents that can limit it themselves.
    pub usd_micros_max: Option<u64>,
    /// Session to resume, if the agent supports it and has one.
    pub session: Option<ResumableSession>,
    /// Our MCP server, if the agent may call it.
    pub mcp_endpoint: Option<McpEndpoint>,
    /// Sandbox of the run; without one it has our own permissions.
    pub sandbox: Option<SandboxSpec>,
}

/// Command, environment, input and files with which an adapter starts its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Variables that override the contract's.
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Vec<u8>,
    /// Settings files of the agent: path and content.
    pub files: Vec<(PathBuf, String)>,
}

/// The differences of one agent from others. Adapters are pure: they start and read nothing.
pub trait Adapter: Send + Sync {
    /// Returns the name that people know.
    fn name(&self) -> &str;
    /// Returns the name of its output format, by which a transcript can be parsed again.
    fn format(&self) -> &'static str {
        "command"
    }
    fn invocation(&self, assignment: &AgentAssignment) -> Invocation;
    /// Parses a line of its stdout. Returns `None` for a line that is not of its format and may be
    /// part of the answer.
    fn parse_line(&self, line: &str) -> Option<Vec<AgentEvent>>;
    /// Returns the conversation, for an agent that needs more than one input.
    fn dialogue(&self, _assignment: &AgentAssignment) -> Option<Box<dyn Dialogue>> {
        None
    }
    /// Derives an event from its exit and stderr, for errors that its output does not report.
    fn event_on_exit(&self, _exit: ProcessExit, _complaint: &str) -> Option<AgentEvent> {
        None
    }
    /// Parses the usage file, if the agent wrote one.
    fn parse_usage_file(&self, _text: &str) -> Option<AgentEvent> {
        None
    }
    /// Returns names of files that it leaves in its working directory. They are removed after the
    /// run, unless they existed before.
    fn leftover_names(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns whether a later run can resume the session of an earlier one.
    fn can_resume(&self) -> bool {
        false
    }
    /// Returns whether its reported usage covers the whole session and not only the run.
    fn reports_session_totals(&self) -> bool {
        false
    }
    /// Returns instructions for the case that it is not logged in.
    fn login_hint(&self) -> String {
        String::new()
    }
    /// Returns what the sandbox has to open for it.
    fn access(&self) -> AgentAccess {
        AgentAccess::default()
    }
}

/// Parts of the machine and of the network that an agent needs.
#[derive(Clone, Debug, Default)]
pub struct AgentAccess {
    /// Paths that it reads in addition to the system, the tools and its own directories.
    pub readable_paths: Vec<PathBuf>,
    /// Hosts that it needs to reach, or `None` if they are unknown.
    pub hosts: Option<Vec<Destination>>,
    /// Files of the person's that it needs in its own home directory: source, and path below the
    /// home directory.
    pub credentials: Vec<(PathBuf, PathBuf)>,
}

/// A conversation with an agent as a pure state machine: a line in, lines out.
pub trait Dialogue: Send {
    /// Returns the first input of the agent.
    fn first_input(&mut self) -> Vec<u8>;
    fn on_line(&mut self, line: &str) -> DialogueReply;
}

/// Reaction to a line, and the events in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialogueReply {
    pub reaction: LineReaction,
    /// Events of the line, or `None` if it is not of the protocol.
    pub events: Option<Vec<AgentEvent>>,
}

/// Origin of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSource {
    /// The agent's last message, in its output format.
    Event,
    File,
    /// The last JSON on stdout.
    Json,
    /// All text on stdout.
    Text,
}

/// Result of an agent's run.
#[derive(Clone, Debug)]
pub struct AgentReport {
    pub exit: ProcessExit,
    /// The answer and its origin, or `None` if there was no answer at all.
    pub result: Option<(String, ResultSource)>,
    /// Text in addition to the result: the last message if the result is a file, or the output
    /// around a JSON result.
    pub other_text: Option<String>,
    pub events: Vec<AgentEvent>,
    /// Usage of this run.
    pub usage: AgentUsage,
    pub wall: Duration,
    /// Session that a later run can resume.
    pub session: Option<ResumableSession>,
    pub model: Option<String>,
    pub turns: Option<u64>,
    pub denials: u64,
    /// Reported obstacle: no quota, no login, or a failure.
    pub trouble: Option<AgentEvent>,
    pub transcript: PathBuf,
    /// The end of stderr, for error messages.
    pub complaint: String,
    /// Number of its processes that could not be ended.
    pub survivors: usize,
    /// Proof of the sandbox, if there was one.
    pub proof: Option<Proof>,
    /// Hosts to which our proxy refused a connection.
    pub refused_hosts: Vec<RefusedHost>,
}

/// Runs the agent to its end. A failed agent still gives a report; only an agent that cannot start
/// is an error. `on_event` gets every event, including lines of unknown format, and must return
/// quickly.
pub async fn run_agent(
    host: &ProcessHost,
    adapter: &dyn Adapter,
    assignment: &AgentAssignment,
    mut on_event: impl FnMut(&AgentEvent) + Send,
    stop: StopSignal,
) -> Result<AgentReport, Error> {
    let invocation = adapter.invocation(assignment);
    contract::prepare(assignment, &invocation)?;
    let mut dialogue = adapter.dialogue(assignment);
    let spec = process_spec(adapter, assignment, invocation, dialogue.as_mut());
    let redactor = Redactor::for_environment(&spec.env);
    let token_redactor = Redactor::for_token(&spec.env);
    let leftovers = contract::missing_names(&assignment.dir, adapter.leftover_names());
    let mut output = AgentOutput::default();
    let on_line = |line: OutputLine| {
        let reply = interpret_line(adapter, dialogue.as_mut(), &line);
        if line.stream == OutputStream::Err {
            output.push_stderr(&line.text);
            on_event(&AgentEvent::Said { text: line.text });
        } else if reply.events.is_none() {
            output.push_text(&line);
            on_event(&AgentEvent::Said { text: line.text });
        }
        for event in reply.events.into_iter().flatten() {
            on_event(&event);
            output.push_event(event);
        }
        reply.reaction
    };
    let end = host
        .run(spec, on_line, stop)
        .await
        .map_err(|error| match error {
            missing @ process::Error::NotInstalled { .. } => Error::NotInstalled {
                agent: adapter.name().to_owned(),
                source: missing,
            },
            other => Error::Process(other),
        })?;
    contract::remove_leftovers(&leftovers)?;
    let exit_event = adapter.event_on_exit(end.exit, &output.complaint);
    if let Some(event) = exit_event.filter(|event| output.outweighs(event)) {
        output.push_event(event);
    }
    scrub_token(token_redactor, assignment).await;
    let usage_text = contract::read_bounded(&contract::usage_file(assignment));
    if let Some(event) = usage_text.and_then(|text| adapter.parse_usage_file(&text)) {
        output.push_event(event);
    }
    let answer = contract::read_bounded(&assignment.result_file);
    let answer = contract::redact_answer(assignment, answer, &redactor)?;
    let (result, other_text) = output.take_result(answer);
    // A message that arrived in parts may contain a secret that no single part has.
    let result = result.map(|(text, source)| (redactor.redact_text(text), source));
    let other_text = other_text.map(|text| redactor.redact_text(text));
    let totals = run_totals(adapter, assignment, &output, result.as_ref());
    Ok(AgentReport {
        exit: end.exit,
        result,
        other_text,
        events: output.events,
        usage: totals.usage,
        wall: end.wall,
        session: totals.session,
        model: totals.model,
        turns: output.turns,
        denials: output.denials,
        trouble: output.trouble,
        transcript: assignment.transcript.clone(),
        complaint: output.complaint,
        survivors: end.survivors,
        proof: end.proof,
        refused_hosts: end.refused_hosts,
    })
}

/// Removes the run token from files that the run left in its own directories.
async fn scrub_token(token_redactor: Option<Redactor>, assignment: &AgentAssignment) {
    let Some(redactor) = token_redactor else {
        return;
    };
    let dirs = vec![assignment.home.clone(), assignment.scratch.clone()];
    // If the thread panicked, files may still contain the token; it expires with its run anyway.
    let scrubbed = tokio::task::spawn_blocking(move || redactor.scrub_dirs(&dirs)).await;
    scrubbed.log_err("remove a run's token from its leftover files");
}

fn process_spec(
    adapter: &dyn Adapter,
    assignment: &AgentAssignment,
    invocation: Invocation,
    dialogue: Option<&mut Box<dyn Dialogue>>,
) -> ProcessSpec {
    let mut env = contract::environment(assignment);
    for (name, value) in invocation.env {
        env.retain(|(existing, _)| *existing != name);
        env.push((name, value));
    }
    let converses = dialogue.is_some();
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, path)| path.clone()).unwrap_or_default();
    ProcessSpec {
        run_id: assignment.run_id.clone(),
        program: invocation.program,
        args: invocation.args,
        env,
        cwd: assignment.dir.clone(),
        stdin: dialogue.map_or(invocation.stdin, |dialogue| dialogue.first_input()),
        keeps_stdin_open: converses,
        transcript: assignment.transcript.clone(),
        limits: assignment.limits,
        disk_quota: assignment.disk_quota.clone(),
        sandbox: assignment.sandbox.clone().map(|mut confinement| {
            for file in adapter.access().readable_paths {
                confinement.read.push(file.clone());
                if file.is_file() {
                    confinement
                        .read
                        .extend(program::files_needed_by(&file, &path).read);
                }
            }
            confinement
        }),
    }
}

/// Interprets a line: stderr has no meaning, and stdout is parsed by the conversation or the
/// adapter.
fn interpret_line(
    adapter: &dyn Adapter,
    dialogue: Option<&mut Box<dyn Dialogue>>,
    line: &OutputLine,
) -> DialogueReply {
    match (line.stream, dialogue) {
        (OutputStream::Err, _) => DialogueReply::default(),
        (OutputStream::Out, Some(dialogue)) => dialogue.on_line(&line.text),
        (OutputStream::Out, None) => {
            let events = adapter.parse_line(&line.text);
            let over = events
                .iter()
                .flatten()
                .any(|event| *event == AgentEvent::Finished);
            DialogueReply {
                reaction: LineReaction {
                    over,
                    ..LineReaction::default()
                },
                events,
            }
        }
    }
}

/// Totals of a finished run, from its events and its answer.
struct RunTotals {
    usage: AgentUsage,
    model: Option<String>,
    session: Option<ResumableSession>,
}

fn run_totals(
    adapter: &dyn Adapter,
    assignment: &AgentAssignment,
    output: &AgentOutput,
    result: Option<&(String, ResultSource)>,
) -> RunTotals {
    let mut usage = output.usage;
    let mut model = output.model.clone().or_else(|| assignment.model.clone());
    if let Some((text, ResultSource::File | ResultSource::Json)) = result
        && let Some((reported, name)) = event::usage_in(text)
    {
        usage = usage.fill_missing(reported);
        model = name.or(model);
    }
    let session = output.session.clone().map(|id| ResumableSession {
        agent: adapter.format().to_owned(),
        id,
        spent: usage,
    });
    if adapter.reports_session_totals()
        && let Some(before) = &assignment.session
        && output.session.as_deref() == Some(before.id.as_str())
    {
        usage = usage.since(before.spent);
    }
    RunTotals {
        usage,
        model,
        session,
    }
}

#[cfg(test)]
mod tests;
