//! Runs an agent on a brief in a directory, and reads what it answers.
//!
//! An adapter is what differs between agents: arguments, environment, and a pure
//! function from a line of output to an event. Everything else is here, once. It
//! refuses to know what the work is for: it takes a brief and a directory, and
//! hands back what was said, what it cost and how it ended. What an agent wrote
//! is untrusted text, and is neither believed nor cleaned here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use heard::AgentOutput;

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
mod contract;
mod copilot;
mod cursor;
mod equipped;
pub mod event;
mod gemini;
mod goose;
mod heard;
pub mod installed;
pub mod known;
mod opencode;
pub mod quota;
mod qwen;
mod schema;
pub mod scripted;
pub mod session;
mod stream_json;
pub mod tools;
mod trouble;

pub use acp::AcpAgent;
pub use cli::{AgentCli, CliAgent, HelpProbe};
pub use command::CommandAgent;
pub use contract::{CONTRACT, brief_file, diff_file};
pub use equipped::ConfiguredAgent;
pub use event::{AgentEvent, AgentUsage};
pub use scripted::ScriptedAgent;
pub use session::ResumableSession;
pub use tools::McpEndpoint;

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

/// What the agent is told about the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    pub commit: Option<String>,
    pub base: Option<String>,
    pub branch: Option<String>,
    pub question: ReviewQuestion,
}

/// What a reviewer is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewQuestion {
    /// The work of its role.
    #[default]
    Work,
    /// The same answer once more, in the contract's form.
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

/// One piece of work for one agent.
#[derive(Clone, Debug)]
pub struct AgentAssignment {
    pub run_id: RunId,
    pub role: AgentRole,
    /// A label, for the agent to repeat.
    pub ticket: String,
    pub round: u32,
    /// Which of several that do the same, from 1.
    pub slot: u32,
    pub brief: String,
    /// Where it works: a builder in its worktree, a judge in an empty directory of ours.
    pub dir: PathBuf,
    /// The checkout of the change that a judge looks at, below `dir`.
    pub change: Option<PathBuf>,
    /// Its own home, and nobody else's.
    pub home: PathBuf,
    /// Its own temporary files; the brief is put there too.
    pub scratch: PathBuf,
    /// A copy of what it judges that it may change, where one was laid out.
    pub copy: Option<PathBuf>,
    /// Where it may leave its result.
    pub result_file: PathBuf,
    pub transcript: PathBuf,
    /// What it gets beside the contract: `PATH`, credentials, a locale.
    pub env: Vec<(OsString, OsString)>,
    pub facts: RepositoryFacts,
    pub limits: ProcessLimits,
    /// What it may put on the disk.
    pub allotment: Option<DiskQuota>,
    pub model: Option<String>,
    /// What it may cost, in millionths of a dollar; told to those that mind it themselves.
    pub usd_micros_max: Option<u64>,
    /// The session to go on in, where the agent can and has one.
    pub session: Option<ResumableSession>,
    /// Our own tools, where it has somebody to call.
    pub tools: Option<McpEndpoint>,
    /// What it may see and touch; without one, all that we may.
    pub confinement: Option<SandboxSpec>,
}

/// How an adapter wants its agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Beside the contract's variables, and stronger.
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Vec<u8>,
    /// Settings that it reads from files: where they go, and what is in them.
    pub files: Vec<(PathBuf, String)>,
}

/// What is particular about one agent. Pure: nothing is started or read here.
pub trait Adapter: Send + Sync {
    /// As people know it.
    fn name(&self) -> &str;
    /// Whose output it reads; a transcript can be read again by that name.
    fn format(&self) -> &'static str {
        "command"
    }
    fn invocation(&self, assignment: &AgentAssignment) -> Invocation;
    /// What a line of its stdout means. None: the line is not of its format, and may be the answer.
    fn events(&self, line: &str) -> Option<Vec<AgentEvent>>;
    /// How it is talked to, if it wants more than its first input.
    fn dialogue(&self, _assignment: &AgentAssignment) -> Option<Box<dyn Dialogue>> {
        None
    }
    /// What its end says that its output did not.
    fn ended(&self, _exit: ProcessExit, _complaint: &str) -> Option<AgentEvent> {
        None
    }
    /// What the file says in which it keeps its accounts, if it left one.
    fn accounts(&self, _text: &str) -> Option<AgentEvent> {
        None
    }
    /// Names in the directory it works in that it leaves for itself; they go when it has ended,
    /// unless they were there before.
    fn litter(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether a later run can go on in an earlier one's session.
    fn resumes(&self) -> bool {
        false
    }
    /// Whether what it says was spent is for the whole session and not for the run.
    fn sums_over_session(&self) -> bool {
        false
    }
    /// What helps where it may not work at all.
    fn cure(&self) -> String {
        String::new()
    }
    /// What it must be able to read, beside the system, the tools and its own directories.
    fn reads(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// The hosts that it needs to reach; nothing where nobody knows them.
    fn hosts(&self) -> Option<Vec<Destination>> {
        None
    }
    /// Files of the person's that it needs in its own home: from where, to where below it.
    fn credentials(&self) -> Vec<(PathBuf, PathBuf)> {
        Vec::new()
    }
}

/// A conversation with an agent as a state machine: a line in, lines out. Pure, like the adapter.
pub trait Dialogue: Send {
    /// What is said first.
    fn open(&mut self) -> Vec<u8>;
    fn hear(&mut self, line: &str) -> DialogueReply;
}

/// What a line of a conversation comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialogueReply {
    pub reaction: LineReaction,
    /// None: the line is not of the protocol.
    pub events: Option<Vec<AgentEvent>>,
}

/// Where a result was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSource {
    /// The agent's own last word, in its output format.
    Event,
    File,
    /// The last JSON on stdout.
    Json,
    /// All that was said on stdout.
    Text,
}

/// What came of an assignment.
#[derive(Clone, Debug)]
pub struct AgentReport {
    pub exit: ProcessExit,
    /// None if it answered nothing at all.
    pub result: Option<(String, ResultSource)>,
    /// What it said beside the result: its last message beside a file, or the output around a JSON
    /// result.
    pub beside: Option<String>,
    pub events: Vec<AgentEvent>,
    /// Of this run.
    pub usage: AgentUsage,
    pub wall: Duration,
    /// Where a later run can go on.
    pub session: Option<ResumableSession>,
    pub model: Option<String>,
    pub turns: Option<u64>,
    pub denials: u64,
    /// What kept it from its work, if it says so: no quota, no right, or a failure.
    pub trouble: Option<AgentEvent>,
    pub transcript: PathBuf,
    /// The end of stderr, for a message that says why.
    pub complaint: String,
    /// Processes that it left behind and that could not be ended.
    pub survivors: usize,
    /// How it was confined, if it was.
    pub proof: Option<Proof>,
    /// Hosts that it wanted to reach and may not.
    pub refused_hosts: Vec<RefusedHost>,
}

/// Runs the agent to its end, whatever that end is. An agent that fails is a
/// report; only what keeps it from starting at all is an error. `on_event` sees
/// what goes on, lines of no known format included, and must not dwell on it.
pub async fn run(
    host: &ProcessHost,
    adapter: &dyn Adapter,
    assignment: &AgentAssignment,
    mut on_event: impl FnMut(&AgentEvent) + Send,
    stop: StopSignal,
) -> Result<AgentReport, Error> {
    let invocation = adapter.invocation(assignment);
    contract::prepare(assignment, &invocation)?;
    let mut dialogue = adapter.dialogue(assignment);
    let spec = specify(adapter, assignment, invocation, dialogue.as_mut());
    let redactor = Redactor::of_environment(&spec.env);
    let left_behind = Redactor::of_token(&spec.env);
    let litter = contract::absent(&assignment.dir, adapter.litter());
    let mut heard = AgentOutput::default();
    let on_line = |line: OutputLine| {
        let heeded = heed(adapter, dialogue.as_mut(), &line);
        if line.stream == OutputStream::Err {
            heard.hear_complaint(&line.text);
            on_event(&AgentEvent::Said { text: line.text });
        } else if heeded.events.is_none() {
            heard.hear_text(&line);
            on_event(&AgentEvent::Said { text: line.text });
        }
        for event in heeded.events.into_iter().flatten() {
            on_event(&event);
            heard.keep(event);
        }
        heeded.reaction
    };
    let ended = host
        .run(spec, on_line, stop)
        .await
        .map_err(|error| match error {
            missing @ process::Error::NotInstalled { .. } => Error::NotInstalled {
                agent: adapter.name().to_owned(),
                source: missing,
            },
            other => Error::Process(other),
        })?;
    contract::sweep(&litter)?;
    let last = adapter.ended(ended.exit, &heard.complaint);
    if let Some(event) = last.filter(|event| heard.outweighs(event)) {
        heard.keep(event);
    }
    scrub(left_behind, assignment).await;
    let accounts = contract::read_bounded(&contract::accounts_file(assignment));
    if let Some(event) = accounts.and_then(|text| adapter.accounts(&text)) {
        heard.keep(event);
    }
    let answer = contract::read_bounded(&assignment.result_file);
    let answer = contract::without_secrets(assignment, answer, &redactor)?;
    let (result, beside) = heard.result(answer);
    let told = told(adapter, assignment, &heard, result.as_ref());
    Ok(AgentReport {
        exit: ended.exit,
        result,
        beside,
        events: heard.events,
        usage: told.usage,
        wall: ended.wall,
        session: told.session,
        model: told.model,
        turns: heard.turns,
        denials: heard.denials,
        trouble: heard.trouble,
        transcript: assignment.transcript.clone(),
        complaint: heard.complaint,
        survivors: ended.survivors,
        proof: ended.proof,
        refused_hosts: ended.refused_hosts,
    })
}

/// What the run leaves in its own directories keeps no token.
async fn scrub(left_behind: Option<Redactor>, assignment: &AgentAssignment) {
    let Some(redactor) = left_behind else {
        return;
    };
    let dirs = vec![assignment.home.clone(), assignment.scratch.clone()];
    // A thread that broke has scrubbed less; the token is over with its run all the same.
    let scrubbed = tokio::task::spawn_blocking(move || redactor.scrub(&dirs)).await;
    scrubbed.log_err("remove a run's token from what it left behind");
}

fn specify(
    adapter: &dyn Adapter,
    assignment: &AgentAssignment,
    invocation: Invocation,
    dialogue: Option<&mut Box<dyn Dialogue>>,
) -> ProcessSpec {
    let mut env = contract::environment(assignment);
    for (name, value) in invocation.env {
        env.retain(|(known, _)| *known != name);
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
        stdin: dialogue.map_or(invocation.stdin, |dialogue| dialogue.open()),
        converses,
        transcript: assignment.transcript.clone(),
        limits: assignment.limits,
        allotment: assignment.allotment.clone(),
        confinement: assignment.confinement.clone().map(|mut confinement| {
            for file in adapter.reads() {
                confinement.read.push(file.clone());
                if file.is_file() {
                    confinement.read.extend(program::needed(&file, &path).read);
                }
            }
            confinement
        }),
    }
}

/// A line of stderr means nothing; one of stdout what the adapter, or the conversation, makes of it.
fn heed(
    adapter: &dyn Adapter,
    dialogue: Option<&mut Box<dyn Dialogue>>,
    line: &OutputLine,
) -> DialogueReply {
    match (line.stream, dialogue) {
        (OutputStream::Err, _) => DialogueReply::default(),
        (OutputStream::Out, Some(dialogue)) => dialogue.hear(&line.text),
        (OutputStream::Out, None) => {
            let events = adapter.events(&line.text);
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

/// What is known of a run once it is over, from its events and its answer.
struct RunTotals {
    usage: AgentUsage,
    model: Option<String>,
    session: Option<ResumableSession>,
}

fn told(
    adapter: &dyn Adapter,
    assignment: &AgentAssignment,
    heard: &AgentOutput,
    result: Option<&(String, ResultSource)>,
) -> RunTotals {
    let mut usage = heard.usage;
    let mut model = heard.model.clone().or_else(|| assignment.model.clone());
    if let Some((text, ResultSource::File | ResultSource::Json)) = result
        && let Some((told, name)) = event::usage_in(text)
    {
        usage = usage.or(told);
        model = name.or(model);
    }
    let session = heard.session.clone().map(|id| ResumableSession {
        agent: adapter.format().to_owned(),
        id,
        spent: usage,
    });
    if adapter.sums_over_session()
        && let Some(before) = &assignment.session
        && heard.session.as_deref() == Some(before.id.as_str())
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
